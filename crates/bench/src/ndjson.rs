//! Bids per bidder and 10 seconds over a file of a million bids, beside DuckDB on the same file.
//!
//! Inside the measured time: opening, reading and decoding the file, grouping, and collecting the rows in memory.
//! Outside: the start of either process, and writing the file.

use crate::measure::{REPETITIONS, median, report, timed};
use millstream::{Session, SessionConfig};
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const BIDS: u64 = 1_000_000;

/// Writes the file, runs both systems in turn, compares and reports.
pub(crate) fn run(threads: usize) -> Result<(), Box<dyn Error>> {
    let file = data_file()?;
    let bytes = std::fs::metadata(&file)?.len();
    println!("\nndjson: bids per bidder and 10 s, {BIDS} bids, {:.0} MB, {threads} threads", bytes as f64 / 1e6);
    let mut duckdb = DuckDb::start(&file, threads);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for repetition in 0..=REPETITIONS {
        let (seconds, groups) = timed(|| count(&file, threads));
        let groups = groups?;
        let other = duckdb.as_mut().map(DuckDb::run).transpose()?;
        if let Some((_, (rows, bids))) = other
            && (rows, bids) != groups
        {
            return Err(format!("results differ: Millstream {groups:?}, DuckDB {:?}", (rows, bids)).into());
        }
        // The first repetition warms the page cache and both processes.
        if repetition > 0 {
            ours.push(seconds);
            theirs.extend(other.map(|(seconds, _)| seconds));
        }
    }
    report("millstream", &ours, BIDS, median(&ours));
    if theirs.is_empty() {
        println!("  duckdb: not measured (scripts/bench.sh installs it)");
    } else {
        report("duckdb", &theirs, BIDS, median(&ours));
    }
    Ok(())
}

/// The groups and the bids in them.
fn count(file: &Path, threads: usize) -> Result<(u64, u64), Box<dyn Error>> {
    let mut session = Session::new(SessionConfig::default());
    session.set("parallelism.default", &threads.to_string())?;
    session.run(&format!(
        "CREATE TABLE bid (
             auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `dateTime` BIGINT, extra STRING,
             ts AS CAST(TO_TIMESTAMP_LTZ(`dateTime`, 3) AS TIMESTAMP(3)),
             WATERMARK FOR ts AS ts - INTERVAL '4' SECOND
         ) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'json')",
        file.display()
    ))?;
    let rows = session.query(
        "SELECT bidder, window_start, COUNT(*) AS bids
         FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '10' SECOND))
         GROUP BY bidder, window_start, window_end",
    )?;
    use arrow_array::cast::AsArray;
    let bids = rows.column(2).as_primitive::<arrow_array::types::Int64Type>();
    Ok((rows.num_rows() as u64, bids.values().iter().map(|n| *n as u64).sum()))
}

/// The file with the bids, made once by the nexmark generator.
fn data_file() -> Result<PathBuf, Box<dyn Error>> {
    let directory = PathBuf::from(std::env::var("MILLSTREAM_BENCH_DIR").unwrap_or_else(|_| "target/bench".into()));
    let file = directory.join("bids.jsonl");
    if file.is_file() {
        return Ok(file);
    }
    std::fs::create_dir_all(&directory)?;
    // 46 of 50 events are bids.
    let events = BIDS.div_ceil(46) * 50;
    Session::new(SessionConfig::default()).run(&format!(
        "CREATE TABLE events (
             event_type INT,
             bid ROW<auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `dateTime` BIGINT, extra STRING>
         ) WITH ('connector' = 'nexmark', 'events.num' = '{events}');
         CREATE TABLE bids (
             auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `dateTime` BIGINT, extra STRING
         ) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'json');
         INSERT INTO bids SELECT bid.auction, bid.bidder, bid.price, bid.channel, bid.url, bid.`dateTime`, bid.extra
         FROM events WHERE event_type = 2 LIMIT {BIDS}",
        file.display()
    ))?;
    Ok(file)
}

/// A Python process that answers each line with the seconds of a run and its result.
struct DuckDb {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl DuckDb {
    fn start(file: &Path, threads: usize) -> Option<DuckDb> {
        let python = std::env::var("MILLSTREAM_BENCH_PYTHON").unwrap_or_else(|_| "python3".into());
        let mut child = Command::new(python)
            .args(["scripts/bench_duckdb.py".as_ref(), file.as_os_str(), threads.to_string().as_ref()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        let (input, output) = (child.stdin.take()?, child.stdout.take()?);
        let mut duckdb = DuckDb { child, input, output: BufReader::new(output) };
        let mut ready = String::new();
        duckdb.output.read_line(&mut ready).ok()?;
        (ready.trim() == "ready").then_some(duckdb)
    }

    fn run(&mut self) -> Result<(f64, (u64, u64)), Box<dyn Error>> {
        self.input.write_all(b"run\n")?;
        self.input.flush()?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        let mut words = line.split_whitespace();
        let mut next = || words.next().ok_or("the DuckDB process ended");
        Ok((next()?.parse()?, (next()?.parse()?, next()?.parse()?)))
    }
}

impl Drop for DuckDb {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
