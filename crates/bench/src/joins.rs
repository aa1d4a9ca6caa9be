//! Window join and interval join of two streams with random unique 64-bit keys (StreamBox, section 9).
//!
//! Columns from memory: `k`, `v` and `ts` (1,000 rows a second and stream, the right one shuffled within 0.4 s). Every other
//! row of the right stream has the key of the left row at its place, the others have keys of their own. Measured: the
//! whole query, compilation and collecting the pairs included, and a hash join by hand over the same columns, with
//! as many threads, each for the keys of its own.

use crate::columns::{Columns, Random, session};
use crate::measure::{REPETITIONS, median, report, timed};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use millstream::Session;
use std::error::Error;

const ROWS: u64 = 1_000_000;
const ROWS_PER_MS: u64 = 1;
const SHUFFLED_MS: u64 = 400;
const WINDOW_MS: i64 = 1000;
const REACH_MS: i64 = 500;

/// Number of pairs, and the sum of `left value × (right value + 1)` over them.
type Checksum = (u64, u64);

/// Whether a left and a right row of these times and of equal keys meet.
type Meets = fn(i64, i64) -> bool;

/// Runs both joins beside the loop by hand.
pub(crate) fn run(threads: usize) -> Result<(), Box<dyn Error>> {
    let (left, right) = generate();
    let mut session = session(threads)?;
    left.register(&mut session, "l", 1)?;
    right.register(&mut session, "r", 2 * SHUFFLED_MS + 1)?;
    let window = "SELECT l.v, r.v FROM (SELECT * FROM TABLE(TUMBLE(TABLE l, DESCRIPTOR(ts), INTERVAL '1' SECOND))) AS l
         JOIN (SELECT * FROM TABLE(TUMBLE(TABLE r, DESCRIPTOR(ts), INTERVAL '1' SECOND))) AS r
         ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end";
    let same_window: Meets = |left, right| left.div_euclid(WINDOW_MS) == right.div_euclid(WINDOW_MS);
    compare("window join, 1 s", &mut session, window, (&left, &right), same_window, threads)?;
    let interval = "SELECT l.v, r.v FROM l JOIN r
         ON l.k = r.k AND l.ts BETWEEN r.ts - INTERVAL '0.5' SECOND AND r.ts + INTERVAL '0.5' SECOND";
    let near: Meets = |left, right| (left - right).abs() <= REACH_MS;
    compare("interval join, ±0.5 s", &mut session, interval, (&left, &right), near, threads)
}

fn generate() -> (Columns, Columns) {
    let (mut left, mut right) = (Columns::default(), Columns::default());
    let mut random = Random::new(2);
    for row in 0..ROWS {
        let (key, time) = (random.next() as i64, (row / ROWS_PER_MS) as i64);
        let other = if row % 2 == 0 { key } else { random.next() as i64 };
        left.push(key, random.below(1000), time);
        let shuffled = time + random.below(2 * SHUFFLED_MS + 1) - SHUFFLED_MS as i64;
        right.push(other, random.below(1000), shuffled.max(0));
    }
    (left, right)
}

fn compare(
    name: &str,
    session: &mut Session,
    sql: &str,
    (left, right): (&Columns, &Columns),
    meets: Meets,
    threads: usize,
) -> Result<(), Box<dyn Error>> {
    println!("\n{name}: 2 × {ROWS} rows in memory, random unique 64-bit keys, {threads} threads");
    let mut seconds: [Vec<f64>; 2] = Default::default();
    for repetition in 0..=REPETITIONS {
        let (taken, ours) = timed(|| engine(session, sql));
        let (by_hand, theirs) = timed(|| joined(left, right, meets, threads));
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
    report("millstream", &seconds[0], 2 * ROWS, baseline);
    report("hand-written hash join", &seconds[1], 2 * ROWS, baseline);
    Ok(())
}

fn weight(left: i64, right: i64) -> u64 {
    left as u64 * (right as u64 + 1)
}

fn engine(session: &mut Session, sql: &str) -> Result<Checksum, Box<dyn Error>> {
    let rows = session.query(sql)?;
    let column = |i: usize| rows.column(i).as_primitive::<Int64Type>().values();
    let sum = column(0).iter().zip(column(1)).map(|(l, r)| weight(*l, *r)).fold(0, u64::wrapping_add);
    Ok((rows.num_rows() as u64, sum))
}

/// Builds a table of all left rows, then probes it with all right rows; each thread takes the keys of its own. That it
/// keeps all rows favours it: it forgets nothing.
fn joined(left: &Columns, right: &Columns, meets: Meets, threads: usize) -> Checksum {
    let part = |thread: u64| {
        let mine = |key: i64| hash(key) % threads as u64 == thread;
        let mut table: Vec<Option<(i64, i64, i64)>> = vec![None; (4 * left.keys.len() / threads).next_power_of_two()];
        let mask = table.len() - 1;
        for (key, value, time) in left.rows().filter(|row| mine(row.0)) {
            let mut slot = (hash(key) >> 16) as usize & mask;
            while table[slot].is_some() {
                slot = (slot + 1) & mask;
            }
            table[slot] = Some((key, value, time));
        }
        let (mut pairs, mut sum) = (0u64, 0u64);
        for (key, value, time) in right.rows().filter(|row| mine(row.0)) {
            let mut slot = (hash(key) >> 16) as usize & mask;
            while let Some(row) = table[slot] {
                if row.0 == key && meets(row.2, time) {
                    pairs += 1;
                    sum = sum.wrapping_add(weight(row.1, value));
                }
                slot = (slot + 1) & mask;
            }
        }
        (pairs, sum)
    };
    std::thread::scope(|scope| {
        let part = &part;
        let handles: Vec<_> = (0..threads as u64).map(|thread| scope.spawn(move || part(thread))).collect();
        let parts = handles.into_iter().map(|h| h.join().expect("a loop does not panic"));
        parts.fold((0, 0), |all: Checksum, one| (all.0 + one.0, all.1.wrapping_add(one.1)))
    })
}

fn hash(key: i64) -> u64 {
    let mixed = (key as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed ^ (mixed >> 29)
}
