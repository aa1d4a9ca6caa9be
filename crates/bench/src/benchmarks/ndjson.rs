//! Bids per bidder and 10 seconds over a file of bids, beside DuckDB on the same file.

use crate::suite::{Across, Benchmark, Case, Failure, Peer, Prepared, Runs, Suite, System, query, session};
use millstream::{Session, SessionConfig};
use std::path::{Path, PathBuf};

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "ndjson",
    title: "tumbling count over a file of JSON lines",
    data: "1 M bids of the Nexmark generator as JSON lines with 7 fields, 280 MB, in the page cache",
    query: "COUNT(*) by bidder and 10 s",
    measured:
        "opening, reading and decoding the file, grouping, adding the rows up (DuckDB: collecting them); not the start
               of either process",
    runs: Runs::Always,
    run,
};

const BIDS: u64 = 1_000_000;

const COUNT: &str = "SELECT bidder, window_start, COUNT(*) AS bids
    FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '10' SECOND))
    GROUP BY bidder, window_start, window_end";

/// Writes the file, runs both systems in turn, compares and reports.
fn run(suite: &mut Suite) -> Result<(), Failure> {
    let (bids, threads) = (suite.rows(BIDS), suite.threads());
    let file = suite.generate("the file", || data_file(&suite.options.directory, bids))?;
    let bytes = std::fs::metadata(&file)?.len();
    let mut session = over(&file, threads)?;
    let mut duckdb = Peer::python("bench_peers.py");
    duckdb.args(["duckdb", "tumbling", "ndjson"]).arg(&file).arg(threads.to_string());
    let systems = [System::measured("millstream", threads, move || query(&mut session, COUNT)).touching(bytes)];
    let peers = Peer::system(suite, "duckdb", threads, &mut duckdb).map(|peer| peer.touching(bytes));
    let case = Case::new("bids per bidder", bids).with_all(systems).with_all(peers);
    suite.measure(Across::Different, vec![case])?;
    Ok(())
}

/// The count over `bids * times` bids, having made the file with `bids`, too.
pub(super) fn counted(directory: &Path, bids: u64, times: u64, threads: usize) -> Result<Prepared, Failure> {
    data_file(directory, bids)?;
    let file = data_file(directory, bids * times)?;
    Ok((over(&file, threads)?, COUNT.into(), bids * times))
}

fn over(file: &Path, threads: usize) -> Result<Session, Failure> {
    let mut session = session(threads)?;
    session.run(&format!(
        "CREATE TABLE bid (
             auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `dateTime` BIGINT, extra STRING,
             ts AS CAST(TO_TIMESTAMP_LTZ(`dateTime`, 3) AS TIMESTAMP(3)),
             WATERMARK FOR ts AS ts - INTERVAL '4' SECOND
         ) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'json')",
        file.display()
    ))?;
    Ok(session)
}

/// The file with `bids` bids, made once by the nexmark generator.
fn data_file(directory: &Path, bids: u64) -> Result<PathBuf, Failure> {
    let file = directory.join(format!("bids-{bids}.jsonl"));
    if file.is_file() {
        return Ok(file);
    }
    std::fs::create_dir_all(directory)?;
    // 46 of 50 events are bids.
    let events = bids.div_ceil(46) * 50;
    Session::new(SessionConfig::default()).run(&format!(
        "CREATE TABLE events (
             event_type INT,
             bid ROW<auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `dateTime` BIGINT, extra STRING>
         ) WITH ('connector' = 'nexmark', 'events.num' = '{events}');
         CREATE TABLE bids (
             auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `dateTime` BIGINT, extra STRING
         ) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'json');
         INSERT INTO bids SELECT bid.auction, bid.bidder, bid.price, bid.channel, bid.url, bid.`dateTime`, bid.extra
         FROM events WHERE event_type = 2 LIMIT {bids}",
        file.display()
    ))?;
    Ok(file)
}
