//! Session windows of many keys.
//!
//! Columns from memory: `k` (100,000 values at random), `v`, `ts` (50 rows a millisecond, in order), so that a key comes
//! every 2 s on average and a session with a gap of 5 s has a dozen rows. Measured: the whole query, compilation and
//! collecting its rows included, and a loop by hand with a slot for every key, with as many threads, each for the keys of
//! its own.

use crate::columns::{Columns, Random, session};
use crate::measure::{REPETITIONS, median, report, timed};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMillisecondType};
use millstream::Session;
use std::error::Error;

const ROWS: u64 = 5_000_000;
const ROWS_PER_MS: u64 = 50;
const KEYS: u64 = 100_000;
const GAP_MS: i64 = 5000;

/// Number of sessions, and the sum of `(key + 1) × (start + 1) × rows + total` over them.
type Checksum = (u64, u64);

/// Runs the query and the loop by hand.
pub(crate) fn run(threads: usize) -> Result<(), Box<dyn Error>> {
    let mut random = Random::new(3);
    let mut columns = Columns::default();
    (0..ROWS).for_each(|row| columns.push(random.below(KEYS), random.below(1000), (row / ROWS_PER_MS) as i64));
    let mut session = session(threads)?;
    // 2 ms behind, so that a session is still open when the row comes that touches it.
    columns.register(&mut session, "t", 2)?;
    println!("\nsessions: gap of 5 s, {ROWS} rows in memory, {KEYS} keys, {threads} threads");
    let mut seconds: [Vec<f64>; 2] = Default::default();
    for repetition in 0..=REPETITIONS {
        let (taken, ours) = timed(|| engine(&mut session));
        let (by_hand, theirs) = timed(|| by_hand(&columns, threads));
        let ours = ours?;
        if ours != theirs {
            return Err(format!("results differ: Millstream {ours:?}, by hand {theirs:?}").into());
        }
        if repetition > 0 {
            seconds[0].push(taken);
            seconds[1].push(by_hand);
        }
    }
    let baseline = median(&seconds[0]);
    report("millstream", &seconds[0], ROWS, baseline);
    report("hand-written loop, dense array", &seconds[1], ROWS, baseline);
    Ok(())
}

fn weight(key: i64, start: i64, rows: i64, total: i64) -> u64 {
    (key as u64 + 1).wrapping_mul(start as u64 + 1).wrapping_mul(rows as u64).wrapping_add(total as u64)
}

fn engine(session: &mut Session) -> Result<Checksum, Box<dyn Error>> {
    let rows = session.query(
        "SELECT k, window_start, COUNT(*), SUM(v)
         FROM TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECOND))
         GROUP BY k, window_start, window_end",
    )?;
    let integers = |i: usize| rows.column(i).as_primitive::<Int64Type>();
    let (keys, counts, totals) = (integers(0), integers(2), integers(3));
    let starts = rows.column(1).as_primitive::<TimestampMillisecondType>();
    let of = |row: usize| weight(keys.value(row), starts.value(row), counts.value(row), totals.value(row));
    Ok((rows.num_rows() as u64, (0..rows.num_rows()).map(of).fold(0, u64::wrapping_add)))
}

/// The open session of a key.
#[derive(Clone, Copy, Default)]
struct Open {
    start: i64,
    last: i64,
    rows: i64,
    total: i64,
}

fn by_hand(columns: &Columns, threads: usize) -> Checksum {
    let part = |thread: i64| {
        let mut open = vec![Open::default(); KEYS as usize];
        let mut sum = (0u64, 0u64);
        let mut close = |key: i64, s: &Open| {
            sum = (sum.0 + 1, sum.1.wrapping_add(weight(key, s.start, s.rows, s.total)));
        };
        for (key, value, time) in columns.rows().filter(|row| row.0 % threads as i64 == thread) {
            let session = &mut open[key as usize];
            // Times do not go back in this data; sessions that touch are one.
            if session.rows > 0 && time > session.last + GAP_MS {
                close(key, session);
                *session = Open::default();
            }
            if session.rows == 0 {
                session.start = time;
            }
            session.last = time;
            session.rows += 1;
            session.total += value;
        }
        for (key, session) in open.iter().enumerate().filter(|(_, s)| s.rows > 0) {
            close(key as i64, session);
        }
        sum
    };
    std::thread::scope(|scope| {
        let part = &part;
        let handles: Vec<_> = (0..threads as i64).map(|thread| scope.spawn(move || part(thread))).collect();
        let parts = handles.into_iter().map(|h| h.join().expect("a loop does not panic"));
        parts.fold((0, 0), |all: Checksum, one| (all.0 + one.0, all.1.wrapping_add(one.1)))
    })
}
