//! Throughput by the number of concurrent windows, and by aggregate (Grizzly, figures 9 and 8).
//!
//! Columns from memory: `k` (100 values), `v` (1,000 values), `ts` (10 rows a millisecond, in order). Measured: the whole
//! query, compilation and collecting its rows included.

use crate::columns::{Columns, Random, session};
use crate::measure::{REPETITIONS, median, report, timed};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use millstream::Session;
use std::error::Error;

const ROWS: u64 = 10_000_000;
const ROWS_PER_MS: u64 = 10;
const KEYS: u64 = 100;
const VALUES: u64 = 1000;
/// The rows span 1,000 s.
const SPAN_MS: u64 = ROWS / ROWS_PER_MS;

/// Runs sliding windows with more and more overlap, then a tumbling window with one aggregate after the other.
pub(crate) fn run(threads: usize) -> Result<(), Box<dyn Error>> {
    let mut random = Random::new(1);
    let mut columns = Columns::default();
    (0..ROWS).for_each(|row| columns.push(random.below(KEYS), random.below(VALUES), (row / ROWS_PER_MS) as i64));
    let mut session = session(threads)?;
    columns.register(&mut session, "t", 1)?;
    drop(columns);
    for aggregate in ["SUM(v)", "MAX(v)"] {
        concurrent(&mut session, threads, aggregate, "slide of 1 s", |windows| (windows * 1000, 1000))?;
    }
    concurrent(&mut session, threads, "SUM(v)", "size of 1,000 s", |windows| (SPAN_MS, SPAN_MS / windows))?;
    aggregates(&mut session, threads)
}

/// Size and slide in milliseconds by the number of windows that a row lies in.
type Shape = fn(u64) -> (u64, u64);

fn concurrent(
    session: &mut Session,
    threads: usize,
    aggregate: &str,
    fixed: &str,
    shape: Shape,
) -> Result<(), Box<dyn Error>> {
    const CONCURRENT: [u64; 4] = [1, 10, 100, 1000];
    println!(
        "\nconcurrent windows: {aggregate} by key, {fixed}, {ROWS} rows in memory, {KEYS} keys, {threads} threads"
    );
    let mut seconds: [Vec<f64>; 4] = Default::default();
    for repetition in 0..=REPETITIONS {
        for (windows, seconds) in CONCURRENT.into_iter().zip(&mut seconds) {
            let (size, slide) = shape(windows);
            let sql = format!(
                "SELECT k, window_start, {aggregate}, COUNT(*) FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), {}, {}))
                 GROUP BY k, window_start, window_end",
                interval(slide),
                interval(size)
            );
            let (taken, counted) = timed(|| counted(session, &sql, 3));
            // Every row is counted in each of its windows.
            if counted? != windows * ROWS {
                return Err(format!("{windows} concurrent windows do not have all rows").into());
            }
            if repetition > 0 {
                seconds.push(taken);
            }
        }
    }
    for (windows, of) in CONCURRENT.into_iter().zip(&seconds) {
        report(&format!("{windows} windows"), of, ROWS, median(&seconds[0]));
    }
    Ok(())
}

fn aggregates(session: &mut Session, threads: usize) -> Result<(), Box<dyn Error>> {
    const AGGREGATES: [&str; 6] = ["COUNT(v)", "SUM(v)", "AVG(v)", "STDDEV_POP(v)", "MEDIAN(v)", "MODE(v)"];
    println!("\naggregates: by key and 10 s, {ROWS} rows in memory, {KEYS} keys, {threads} threads");
    let mut seconds: [Vec<f64>; 6] = Default::default();
    for repetition in 0..=REPETITIONS {
        for (aggregate, seconds) in AGGREGATES.into_iter().zip(&mut seconds) {
            let sql = format!(
                "SELECT k, window_start, {aggregate} FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))
                 GROUP BY k, window_start, window_end"
            );
            let (taken, rows) = timed(|| session.query(&sql));
            let (found, wanted) = (rows?.num_rows() as u64, KEYS * SPAN_MS.div_ceil(10_000));
            if found != wanted {
                return Err(format!("{aggregate} has {found} groups instead of {wanted}").into());
            }
            if repetition > 0 {
                seconds.push(taken);
            }
        }
    }
    for (aggregate, of) in AGGREGATES.into_iter().zip(&seconds) {
        report(aggregate, of, ROWS, median(&seconds[0]));
    }
    Ok(())
}

/// Sum of a BIGINT column of the result.
fn counted(session: &mut Session, sql: &str, column: usize) -> Result<u64, Box<dyn Error>> {
    let rows = session.query(sql)?;
    Ok(rows.column(column).as_primitive::<Int64Type>().values().iter().map(|n| *n as u64).sum())
}

fn interval(ms: u64) -> String {
    format!("INTERVAL '{}' SECOND", ms / 1000)
}
