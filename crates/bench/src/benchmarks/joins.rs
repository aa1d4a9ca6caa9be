//! Window join and interval join of two streams with random unique 64-bit keys.

use crate::suite::{
    Across, Benchmark, Case, Checksum, Columns, Failure, Kind, OutputRows, Random, Runs, Suite, System, query, session,
};

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "joins",
    title: "window join and interval join (StreamBox, section 9)",
    data: "2 × 1 M rows in memory: k (random unique 64-bit keys, half of them in both streams), v, ts (1,000 rows a second, the
           right stream shuffled within 0.4 s)",
    query: "l JOIN r ON l.k = r.k, in windows of 1 s, and with times that differ by at most 0.5 s",
    measured: "the whole query, compilation included, its pairs added up; by hand a hash join that keeps all rows, each
               thread for the keys of its own",
    runs: Runs::Always,
    run,
};

const ROWS: u64 = 1_000_000;
const ROWS_PER_MS: u64 = 1;
const SHUFFLED_MS: u64 = 400;
const WINDOW_MS: i64 = 1000;
const REACH_MS: i64 = 500;

/// Whether a left and a right row of these times and of equal keys meet.
type Meets = fn(i64, i64) -> bool;

const JOINS: [(&str, &str, Meets); 2] = [
    (
        "window join, 1 s",
        "SELECT l.v, r.v FROM (SELECT * FROM TABLE(TUMBLE(TABLE l, DESCRIPTOR(ts), INTERVAL '1' SECOND))) AS l
         JOIN (SELECT * FROM TABLE(TUMBLE(TABLE r, DESCRIPTOR(ts), INTERVAL '1' SECOND))) AS r
         ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end",
        |left, right| left.div_euclid(WINDOW_MS) == right.div_euclid(WINDOW_MS),
    ),
    (
        "interval join, ±0.5 s",
        "SELECT l.v, r.v FROM l JOIN r
         ON l.k = r.k AND l.ts BETWEEN r.ts - INTERVAL '0.5' SECOND AND r.ts + INTERVAL '0.5' SECOND",
        |left, right| (left - right).abs() <= REACH_MS,
    ),
];

/// Runs both joins beside the loop by hand.
fn run(suite: &mut Suite) -> Result<(), Failure> {
    let rows = suite.rows(ROWS);
    let (left, right) = suite.generate("both streams", || generate(rows));
    let threads = suite.threads();
    for (name, sql, meets) in JOINS {
        let mut session = session(threads)?;
        left.register(&mut session, "l", 1)?;
        right.register(&mut session, "r", 2 * SHUFFLED_MS + 1)?;
        let case = Case::new(name, 2 * rows)
            .with(System::measured("millstream", threads, move || query(&mut session, sql)))
            .with(System::new("columnar", threads, || Ok(joined(&left, &right, meets, threads))));
        suite.measure(Across::Different, vec![case])?;
    }
    Ok(())
}

fn generate(rows: u64) -> (Columns, Columns) {
    let (mut left, mut right) = (Columns::default(), Columns::default());
    let mut random = Random::new(2);
    for row in 0..rows {
        let (key, time) = (random.next() as i64, (row / ROWS_PER_MS) as i64);
        let other = if row % 2 == 0 { key } else { random.next() as i64 };
        left.push(key, random.below(1000), time);
        let shuffled = time + random.below(2 * SHUFFLED_MS + 1) - SHUFFLED_MS as i64;
        right.push(other, random.below(1000), shuffled.max(0));
    }
    (left, right)
}

/// Builds a table of all left rows, then probes it with all right rows; each thread takes its own keys. That it keeps
/// all rows favours it: it forgets nothing.
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
        let mut pairs = OutputRows::new([Kind::Integer; 2]);
        for (key, value, time) in right.rows().filter(|row| mine(row.0)) {
            let mut slot = (hash(key) >> 16) as usize & mask;
            while let Some(row) = table[slot] {
                if row.0 == key && meets(row.2, time) {
                    pairs.push([row.1, value]);
                }
                slot = (slot + 1) & mask;
            }
        }
        pairs.finish()
    };
    std::thread::scope(|scope| {
        let part = &part;
        let handles: Vec<_> = (0..threads as u64).map(|thread| scope.spawn(move || part(thread))).collect();
        let parts = handles.into_iter().map(|h| h.join().expect("a loop does not panic"));
        parts.fold(Checksum::default(), Checksum::and)
    })
}

fn hash(key: i64) -> u64 {
    let mixed = (key as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed ^ (mixed >> 29)
}
