//! How fast each format comes in (Zeuch, figures 3 and 14): from files in the page cache, and over TCP from a generator in
//! another process, beside a plain reader that discards the bytes.

use crate::generator::{Plan, Process, Workload, free_ports, generate};
use crate::suite::{Across, Benchmark, Case, Failure, Measured, Runs, Suite, System, query, session, timed};
use clap::Parser;
use millstream::Session;
use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::path::PathBuf;

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "ingestion",
    title: "formats from files and over TCP",
    data: "Events of the Yahoo benchmark with seven columns (three numbers of 8 bytes, two words, an address, the time), a \
           million in a second of event time, 1,000 campaigns: as lines of JSON, as CSV, as an Arrow stream, and as packed
           records.",
    query: "SELECT campaign_id, COUNT(*) of the views, a third of the events, in windows of 1 s",
    measured: "memory: opening, reading and decoding a file that is in the page cache, and the query. tcp: the same over a \
               connection on this machine, from connecting to the end of the stream; the generator is a process of its own \
               that competes for the cores. limit: one thread that reads the same bytes and discards them.",
    runs: Runs::Always,
    run,
};

/// Rows from files and over TCP.
const ROWS: u64 = 2_000_000;
const FORMATS: [&str; 4] = ["json", "csv", "arrow", "row"];
/// When the first event is, in milliseconds since 1970; the same in every run.
const START: &str = "1700000000000";
/// Bytes that the plain reader asks for.
const READ: usize = 1 << 20;
const QUERY: &str = "
    SELECT campaign_id, COUNT(*) AS views
    FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' SECOND))
    WHERE event_type = 'view' GROUP BY campaign_id, window_start, window_end";

fn run(suite: &mut Suite) -> Result<(), Failure> {
    let (rows, threads) = (suite.rows(ROWS), suite.threads());
    let mut sizes = Vec::new();
    let mut cases = Vec::new();
    for format in FORMATS {
        let file = file(suite, format, rows)?;
        let bytes = fs::metadata(&file)?.len();
        let table = format!("'connector' = 'filesystem', 'path' = '{}', 'format' = '{format}'", file.display());
        let mut session = table_in_session(&table, threads)?;
        let ours = System::measured("millstream", threads, move || query(&mut session, QUERY)).touching(bytes);
        let limit = System::measured("limit", 1, move || discard(fs::File::open(&file)?)).touching(bytes);
        cases.push(Case::new(format!("memory/{format}"), rows).with(ours).with(limit));
        sizes.push(bytes);
    }
    suite.measure(Across::Same, cases)?;
    let mut cases = Vec::new();
    for (format, bytes) in FORMATS.into_iter().zip(sizes) {
        let [port] = free_ports()?;
        let table =
            format!("'connector' = 'socket', 'hostname' = '127.0.0.1', 'port' = '{port}', 'format' = '{format}'");
        let mut session = table_in_session(&table, threads)?;
        let ours = move || {
            let mut generator = listening(format, rows, port)?;
            let measured = query(&mut session, QUERY)?;
            generator.finish()?;
            Ok(measured)
        };
        let limit = move || {
            let mut generator = listening(format, rows, port)?;
            let measured = discard(TcpStream::connect(("127.0.0.1", port))?)?;
            generator.finish()?;
            Ok(measured)
        };
        let ours = System::measured("millstream", threads, ours).touching(bytes);
        let limit = System::measured("limit", 1, limit).touching(bytes);
        cases.push(Case::new(format!("tcp/{format}"), rows).with(ours).with(limit));
    }
    suite.measure(Across::Same, cases)?;
    Ok(())
}

/// The file of a format, made once.
fn file(suite: &Suite, format: &str, rows: u64) -> Result<PathBuf, Failure> {
    fs::create_dir_all(&suite.options.directory)?;
    let extension = if format == "arrow" { "arrows" } else { format };
    let file = suite.options.directory.join(format!("events-{rows}.{extension}"));
    if !file.is_file() {
        let target = ["--file", &file.to_string_lossy()].map(str::to_string);
        suite.generate(&format!("{rows} rows of {format}"), || generate(&plan(format, rows, &target), || Ok(())))?;
    }
    Ok(file)
}

fn plan(format: &str, rows: u64, target: &[String]) -> Plan {
    Plan::parse_from(arguments(format, rows).into_iter().chain(target.iter().cloned()))
}

fn arguments(format: &str, rows: u64) -> Vec<String> {
    let rows = rows.to_string();
    let workload = Workload::Ysb.name();
    ["generate", "--workload", &workload, "--format", format, "--rows", &rows, "--start", START]
        .map(str::to_string)
        .to_vec()
}

/// A generator that waits for a reader at this port.
fn listening(format: &str, rows: u64, port: u16) -> Result<Process, Failure> {
    let mut arguments = arguments(format, rows);
    arguments.extend(["--listen".to_string(), format!("127.0.0.1:{port}")]);
    let mut process = Process::start(&arguments)?;
    process.ready()?;
    Ok(process)
}

/// A session with the events, in a table with these options.
fn table_in_session(options: &str, threads: usize) -> Result<Session, Failure> {
    let mut session = session(threads)?;
    let columns = Workload::Ysb.columns();
    session.run(&format!(
        "CREATE TABLE events (
             {columns}, ts AS TO_TIMESTAMP_LTZ(event_time, 3), WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND
         ) WITH ({options})"
    ))?;
    Ok(session)
}

/// Reads everything and forgets it.
fn discard(mut input: impl Read) -> Result<Measured, Failure> {
    let mut block = vec![0; READ];
    let (seconds, read) = timed(|| -> std::io::Result<()> {
        while input.read(&mut block)? > 0 {}
        Ok(())
    });
    read?;
    Ok(Measured { seconds, ..Measured::default() })
}
