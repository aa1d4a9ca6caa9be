//! DuckDB and Polars: the same bounded work over files and over rows in memory.

use super::nexmark::data::{Events, Format, over_files};
use super::ysb_stream;
use crate::suite::{Across, Benchmark, Case, Failure, Peer, Runs, Suite, System, collect, first_checked, session};
use std::path::Path;

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "peers",
    title: "beside DuckDB and Polars",
    data: "the bids of 1 M Nexmark events as JSON lines and as Parquet (row groups of 16 MB, Snappy), in the page cache; the
           rows of YSB in each system's own columns in memory",
    query: "Nexmark q1 and q2; bids per bidder and 10 s; views per campaign and 10 s",
    measured: "from the start of the query, the opening of the file included, until the result is in memory as columns; not
               the start of a process, nor loading what is in memory. Each system computes a sum of its first result outside
               of the measured time",
    runs: Runs::WithAll,
    run,
};

const EVENTS: u64 = 1_000_000;
/// Of YSB's rows in memory.
const YSB_ROUNDS: u64 = 8;

const TUMBLING: &str = "SELECT bidder, window_start, COUNT(*) AS bids
    FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND)) GROUP BY bidder, window_start, window_end";

fn run(suite: &mut Suite) -> Result<(), Failure> {
    let threads = suite.threads();
    let events = suite.rows(EVENTS);
    let generated = suite.generate("the events", || Events::generate(events, threads))?;
    let sql = |name: &str| super::nexmark::QUERIES.iter().find(|q| q.name == name).map_or("", |q| q.sql);
    for format in [Format::Json, Format::Parquet] {
        let files = suite.generate("files", || generated.files(&suite.options.directory, format))?;
        for (name, sql) in [("q1", sql("q1")), ("q2", sql("q2")), ("tumbling", TUMBLING)] {
            let mut session = session(threads)?;
            over_files(&files, format).iter().try_for_each(|sql| session.run(sql))?;
            let form = if format == Format::Json { "ndjson" } else { "parquet" };
            let case = Case::new(format!("{form}/{name}"), generated.rows(&["bid"]));
            let case =
                case.with(first_checked(threads, session, collect, sql)).with_all(peers(suite, name, form, &files[2]));
            suite.measure(Across::Different, vec![case])?;
        }
    }
    ysb(suite)
}

/// Views per campaign over rows in memory.
fn ysb(suite: &mut Suite) -> Result<(), Failure> {
    let threads = suite.threads();
    let views = ysb_stream::generate(suite.rows(ysb_stream::ROWS));
    let mut session = session(threads)?;
    views.register(&mut session, YSB_ROUNDS)?;
    let file = suite.options.directory.join(format!("ysb-{}.parquet", views.rows.num_rows()));
    views.write(YSB_ROUNDS, &file, Format::Parquet.name())?;
    let case = Case::new("memory/ysb", views.rows.num_rows() as u64 * YSB_ROUNDS);
    let case = case
        .with(first_checked(threads, session, collect, ysb_stream::QUERY))
        .with_all(peers(suite, "ysb", "memory", &file));
    suite.measure(Across::Different, vec![case])?;
    Ok(())
}

/// Those that are installed.
fn peers(suite: &Suite, name: &str, form: &str, file: &Path) -> Vec<System<'static>> {
    let start = |system: &'static str| {
        let mut command = Peer::python("bench_peers.py");
        command.args([system, name, form]).arg(file).arg(suite.threads().to_string());
        Peer::system(suite, system, suite.threads(), &mut command)
    };
    ["duckdb", "polars"].into_iter().filter_map(start).collect()
}
