//! Numbers of keys, from one to ten million, for each way to merge and each layout of tables.
//!
//! Columns from memory: `k`, either dense (0 to n) or scattered over 64 bits, `v` (1,000 values), `ts`. Measured: count and
//! sum by key of one window that holds all rows; at least two rows come for every key.

use crate::checksum::checksum;
use crate::columns::{Columns, Random, session};
use crate::measure::{alternate, median, report};
use std::error::Error;

const KEYS: [u64; 8] = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000];
const LEAST_ROWS: u64 = 8_000_000;
const REPETITIONS: usize = 5;
/// `pipeline.merge` and `pipeline.dense-tables`; the first is what is compared with.
const SYSTEMS: [(&str, &str); 5] =
    [("auto", "auto"), ("local", "auto"), ("local", "never"), ("global", "auto"), ("partition", "auto")];

/// Runs all ways for each number of keys.
pub(crate) fn run(threads: usize) -> Result<(), Box<dyn Error>> {
    for keys in KEYS {
        for scattered in [false, true] {
            compare(keys, scattered, threads)?;
        }
    }
    Ok(())
}

fn compare(keys: u64, scattered: bool, threads: usize) -> Result<(), Box<dyn Error>> {
    let rows = LEAST_ROWS.max(2 * keys);
    let mut random = Random::new(11);
    let mut columns = Columns::default();
    for row in 0..rows {
        let number = random.below(keys);
        // Odd, so that different numbers give different keys.
        let key = if scattered { number.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64) } else { number };
        columns.push(key, random.below(1000), (row * 1000 / rows) as i64);
    }
    let mut session = session(threads)?;
    columns.register(&mut session, "t", 1)?;
    drop(columns);
    let kind = if scattered { "scattered" } else { "dense" };
    println!("\nkeys: {keys} {kind} keys, {rows} rows in memory, {threads} threads");
    let runs = alternate(&SYSTEMS, REPETITIONS, |(merge, dense)| {
        session.set("pipeline.merge", merge)?;
        session.set("pipeline.dense-tables", dense)?;
        let sql = "SELECT k, window_start, COUNT(*), SUM(v)
                   FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))
                   GROUP BY k, window_start, window_end";
        Ok(checksum(&mut session, sql)?)
    })?;
    if runs.iter().any(|(result, _)| *result != runs[0].0) {
        return Err(format!("rows depend on the way to merge: {runs:?}").into());
    }
    let best = runs.iter().map(|(_, seconds)| median(seconds)).fold(f64::INFINITY, f64::min);
    for ((merge, dense), (_, seconds)) in SYSTEMS.iter().zip(&runs) {
        report(&format!("{merge}, dense tables {dense}"), seconds, rows, best);
    }
    Ok(())
}
