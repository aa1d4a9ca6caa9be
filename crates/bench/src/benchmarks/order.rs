//! Rows out of order: a part of the rows comes early, by up to an epoch. The rows are the same in every table, and none
//! is late.

use crate::suite::{Across, Benchmark, Case, Columns, Failure, Random, Runs, Suite, System, query, session};

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "order",
    title: "rows out of order (StreamBox, figure 7)",
    data: "12 M rows in memory: k (10,000 campaigns), v (a third of the rows are views), ts (200 rows a millisecond); 0 to 40 %
           of them come up to 1 s of event time before their turn; the watermark stays 1 s behind",
    query: "views per campaign and second",
    measured: "the whole query, compilation included, its rows added up",
    runs: Runs::Always,
    run,
};

const ROWS: u64 = 12_000_000;
const ROWS_PER_MS: u64 = 200;
const CAMPAIGNS: u64 = 10_000;
const EPOCH_MS: u64 = 1000;
/// Percent of the rows that come early.
const EARLY: [u64; 4] = [0, 10, 20, 40];

/// Runs the query over each table.
fn run(suite: &mut Suite) -> Result<(), Failure> {
    let (rows, threads) = (suite.rows(ROWS), suite.threads());
    let mut cases = Vec::new();
    for early in EARLY {
        let mut session = session(threads)?;
        columns(rows, early).register(&mut session, "t", EPOCH_MS + 1)?;
        let sql = "SELECT k, window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND))
                   WHERE v < 333 GROUP BY k, window_start, window_end";
        let system = System::measured("millstream", threads, move || query(&mut session, sql));
        cases.push(Case::new(format!("early={early} %"), rows).with(system));
    }
    suite.measure(Across::Same, cases)?;
    Ok(())
}

/// The rows, `early` percent of them before their turn.
fn columns(rows: u64, early: u64) -> Columns {
    let (mut random, mut shifts) = (Random::new(5), Random::new(6));
    let mut rows: Vec<(u64, i64, i64, i64)> = (0..rows)
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
