//! Skewed keys: most rows, or all, on one key, for each way to merge.

use crate::suite::{Across, Benchmark, Case, Columns, Failure, Random, Runs, Suite, System, query, session};

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "skew",
    title: "skewed keys (Grizzly, sections 7.3.4 and 7.4.3)",
    data: "10 M rows in memory: k (10,000 values; 0, 60 or 100 % of the rows on one of them), v, ts (200 rows a millisecond)",
    query: "sum and count by key and 10 s, with each value of pipeline.merge",
    measured: "the whole query, compilation included, its rows added up",
    runs: Runs::WithAll,
    run,
};

const ROWS: u64 = 10_000_000;
const ROWS_PER_MS: u64 = 200;
const KEYS: u64 = 10_000;
/// Percent of the rows on one key.
const SKEWS: [u64; 3] = [0, 60, 100];
/// Values of `pipeline.merge`; the first is what the others are compared with.
const MERGES: [&str; 4] = ["auto", "local", "global", "partition"];

/// Runs the query over each table with each way to merge.
fn run(suite: &mut Suite) -> Result<(), Failure> {
    let (rows, threads) = (suite.rows(ROWS), suite.threads());
    for percent in SKEWS {
        let mut random = Random::new(7);
        let mut columns = Columns::default();
        for row in 0..rows {
            let is_hot = random.below(100) < percent as i64;
            let key = if is_hot { 0 } else { random.below(KEYS) };
            columns.push(key, random.below(1000), (row / ROWS_PER_MS) as i64);
        }
        let mut case = Case::new(format!("{percent} % on one key"), rows);
        for merge in MERGES {
            let mut session = session(threads)?;
            columns.register(&mut session, "t", 1)?;
            session.set("pipeline.merge", merge)?;
            let sql = "SELECT k, window_start, SUM(v), COUNT(*)
                       FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))
                       GROUP BY k, window_start, window_end";
            let name = format!("millstream/{merge}");
            case = case.with(System::measured(name, threads, move || query(&mut session, sql)));
        }
        suite.measure(Across::Different, vec![case])?;
    }
    Ok(())
}
