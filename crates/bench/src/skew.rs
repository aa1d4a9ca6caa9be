//! Skewed keys (Grizzly, sections 7.3.4 and 7.4.3): most rows, or all, on one key, for each way to merge.
//!
//! Columns from memory: `k`, `v` (1,000 values), `ts` (200 rows a millisecond, in order). Measured: the sum by key and 10 s.

use crate::checksum::checksum;
use crate::columns::{Columns, Random, session};
use crate::measure::{REPETITIONS, alternate, median, report};
use std::error::Error;

const ROWS: u64 = 10_000_000;
const ROWS_PER_MS: u64 = 200;
const KEYS: u64 = 10_000;
/// Percent of the rows on one key.
const SKEWS: [(u64, &str); 3] = [(0, "uniform"), (60, "60 % on one key"), (100, "one key")];
const MERGES: [&str; 4] = ["local", "global", "partition", "auto"];

/// Runs the query over each table with each way to merge.
pub(crate) fn run(threads: usize) -> Result<(), Box<dyn Error>> {
    let mut session = session(threads)?;
    for (percent, _) in SKEWS {
        let mut random = Random::new(7);
        let mut columns = Columns::default();
        for row in 0..ROWS {
            let is_hot = random.below(100) < percent as i64;
            let key = if is_hot { 0 } else { random.below(KEYS) };
            columns.push(key, random.below(1000), (row / ROWS_PER_MS) as i64);
        }
        columns.register(&mut session, &format!("skew{percent}"), 1)?;
    }
    for merge in MERGES {
        println!(
            "\nskew: SUM(v) by key and 10 s, {ROWS} rows in memory, {KEYS} keys, merge {merge}, {threads} threads"
        );
        session.set("pipeline.merge", merge)?;
        let runs = alternate(&SKEWS, REPETITIONS, |(percent, _)| {
            let sql = format!(
                "SELECT k, window_start, SUM(v), COUNT(*)
                 FROM TABLE(TUMBLE(TABLE skew{percent}, DESCRIPTOR(ts), INTERVAL '10' SECOND))
                 GROUP BY k, window_start, window_end"
            );
            Ok(checksum(&mut session, &sql)?)
        })?;
        for ((_, name), (_, seconds)) in SKEWS.iter().zip(&runs) {
            report(name, seconds, ROWS, median(&runs[0].1));
        }
    }
    Ok(())
}
