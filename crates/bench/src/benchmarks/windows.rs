//! Throughput by the number of concurrent windows, and by aggregate.

use crate::suite::{Across, Benchmark, Case, Checksum, Columns, Failure, Random, Runs, Suite, System, query, session};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use millstream::Session;

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "windows",
    title: "concurrent windows and aggregates (Grizzly, figures 9 and 8)",
    data: "10 M rows in memory: k (100 values), v (1,000 values), ts (10 rows a millisecond, in order)",
    query:
        "SUM or MAX by key over sliding windows of which 1 to 1,000 are open at a time; one aggregate after the other by
            key over 10 s",
    measured: "the whole query, compilation and collecting its rows included",
    runs: Runs::Always,
    run,
};

const ROWS: u64 = 10_000_000;
const ROWS_PER_MS: u64 = 10;
const KEYS: u64 = 100;
const VALUES: u64 = 1000;
/// Windows that a row lies in.
const CONCURRENT: [u64; 4] = [1, 10, 100, 1000];
const AGGREGATES: [&str; 6] = ["COUNT(v)", "SUM(v)", "AVG(v)", "STDDEV_POP(v)", "MEDIAN(v)", "MODE(v)"];

/// Name, aggregate, and size and slide in seconds by the number of windows that a row lies in and the span of all rows.
type Sliding = (&'static str, &'static str, fn(u64, u64) -> (u64, u64));

const SLIDING: [Sliding; 3] = [
    ("SUM(v), slide of 1 s", "SUM(v)", |windows, _| (windows, 1)),
    ("MAX(v), slide of 1 s", "MAX(v)", |windows, _| (windows, 1)),
    ("SUM(v), one size", "SUM(v)", |windows, span| (span / windows * windows, span / windows)),
];

/// Runs sliding windows with more and more overlap, then a tumbling window with one aggregate after the other.
fn run(suite: &mut Suite) -> Result<(), Failure> {
    let (rows, threads) = (suite.rows(ROWS), suite.threads());
    let mut random = Random::new(1);
    let mut columns = Columns::default();
    (0..rows).for_each(|row| columns.push(random.below(KEYS), random.below(VALUES), (row / ROWS_PER_MS) as i64));
    let open = || -> Result<Session, Failure> {
        let mut session = session(threads)?;
        columns.register(&mut session, "t", 1)?;
        Ok(session)
    };
    // At least a second for each of the windows.
    let span = (rows / ROWS_PER_MS / 1000).max(1000);
    for (name, aggregate, shape) in SLIDING {
        let mut cases = Vec::new();
        for windows in CONCURRENT {
            let (mut session, (size, slide)) = (open()?, shape(windows, span));
            let sql = format!(
                "SELECT k, window_start, {aggregate}, COUNT(*)
                 FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '{slide}' SECOND, INTERVAL '{size}' SECOND))
                 GROUP BY k, window_start, window_end"
            );
            let work = move || {
                // Every row is counted in each of its windows.
                match counted(&mut session, &sql, 3)? {
                    counted if counted == windows * rows => Ok(Checksum::default()),
                    counted => Err(format!("{counted} rows in {windows} windows of {rows} rows").into()),
                }
            };
            let system = System::new("millstream", threads, work);
            cases.push(Case::new(format!("{name}/windows={windows}"), rows).with(system));
        }
        suite.measure(Across::Different, cases)?;
    }
    let mut cases = Vec::new();
    for aggregate in AGGREGATES {
        let mut session = open()?;
        let sql = format!(
            "SELECT k, window_start, {aggregate} FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))
             GROUP BY k, window_start, window_end"
        );
        let system = System::measured("millstream", threads, move || query(&mut session, &sql));
        cases.push(Case::new(format!("aggregates/{aggregate}"), rows).with(system));
    }
    let results = suite.measure(Across::Different, cases)?;
    if let Some(other) = results.iter().find(|result| result.rows != results[0].rows) {
        return Err(format!("the aggregates have {} and {} groups", results[0].rows, other.rows).into());
    }
    Ok(())
}

/// Sum of a BIGINT column of the result.
fn counted(session: &mut Session, sql: &str, column: usize) -> Result<u64, Failure> {
    let rows = session.query(sql)?;
    Ok(rows.column(column).as_primitive::<Int64Type>().values().iter().map(|n| *n as u64).sum())
}
