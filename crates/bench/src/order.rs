//! Rows out of order (StreamBox, figure 7): a part of the rows comes early, by up to an epoch.
//!
//! Columns from memory: `k` (10,000 campaigns), `v` (a third of the rows are views), `ts`. The rows are the same in every
//! table; some come up to a second of event time before their turn, and the watermark is a second behind the rows, so
//! that none is late. Measured: views per campaign and second.

use crate::checksum::checksum;
use crate::columns::{Columns, Random, session};
use crate::measure::{REPETITIONS, alternate, median, report};
use std::error::Error;

const ROWS: u64 = 12_000_000;
const ROWS_PER_MS: u64 = 200;
const CAMPAIGNS: u64 = 10_000;
const EPOCH_MS: u64 = 1000;
/// Percent of the rows that come early.
const EARLY: [u64; 4] = [0, 10, 20, 40];

/// Runs the query over each table.
pub(crate) fn run(threads: usize) -> Result<(), Box<dyn Error>> {
    let mut session = session(threads)?;
    for early in EARLY {
        columns(early).register(&mut session, &format!("early{early}"), EPOCH_MS + 1)?;
    }
    println!(
        "\norder: views per campaign and 1 s, {ROWS} rows in memory, {CAMPAIGNS} campaigns, some rows up to {EPOCH_MS} ms \
         early, {threads} threads"
    );
    let runs = alternate(&EARLY, REPETITIONS, |early| {
        let sql = format!(
            "SELECT k, window_start, COUNT(*)
             FROM TABLE(TUMBLE(TABLE early{early}, DESCRIPTOR(ts), INTERVAL '1' SECOND))
             WHERE v < 333 GROUP BY k, window_start, window_end"
        );
        Ok(checksum(&mut session, &sql)?)
    })?;
    if runs.iter().any(|(result, _)| *result != runs[0].0) {
        return Err(format!("rows depend on their order: {runs:?}").into());
    }
    let baseline = median(&runs[0].1);
    for (early, (_, seconds)) in EARLY.iter().zip(&runs) {
        report(&format!("{early} % early"), seconds, ROWS, baseline);
    }
    Ok(())
}

/// The rows, `early` percent of them before their turn.
fn columns(early: u64) -> Columns {
    let (mut random, mut shifts) = (Random::new(5), Random::new(6));
    let mut rows: Vec<(u64, i64, i64, i64)> = (0..ROWS)
        .map(|row| {
            let is_early = shifts.below(100) < early as i64;
            let shift = if is_early { shifts.below(EPOCH_MS * ROWS_PER_MS) as u64 } else { 0 };
            let time = (row / ROWS_PER_MS) as i64;
            (row.saturating_sub(shift), random.below(CAMPAIGNS), random.below(1000), time)
        })
        .collect();
    rows.sort_by_key(|row| row.0);
    let mut columns = Columns::default();
    rows.iter().for_each(|&(_, key, value, time)| columns.push(key, value, time));
    columns
}
