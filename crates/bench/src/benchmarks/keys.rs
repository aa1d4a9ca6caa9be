//! Numbers of keys, from one to ten million, for each way to merge and each layout of tables.

use crate::suite::{Across, Benchmark, Case, Columns, Failure, Random, Runs, Suite, System, query, session};

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "keys",
    title: "numbers of keys, ways to merge, layouts of tables",
    data: "at least 8 M rows in memory, two for every key: k (dense, 0 to n, or scattered over 64 bits), v, ts",
    query: "count and sum by key of one window that holds all rows",
    measured: "the whole query, compilation included, its rows added up",
    runs: Runs::WithAll,
    run,
};

const KEYS: [u64; 8] = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000];
const LEAST_ROWS: u64 = 8_000_000;
/// `pipeline.merge` and `pipeline.dense-tables`; the first is what is compared with.
const SYSTEMS: [(&str, &str); 5] =
    [("auto", "auto"), ("local", "auto"), ("local", "never"), ("global", "auto"), ("partition", "auto")];

/// Runs all ways for each number of keys.
fn run(suite: &mut Suite) -> Result<(), Failure> {
    for is_scattered in [false, true] {
        for keys in KEYS {
            compare(suite, keys, is_scattered)?;
        }
    }
    Ok(())
}

fn compare(suite: &mut Suite, keys: u64, is_scattered: bool) -> Result<(), Failure> {
    let (rows, threads) = (suite.rows(LEAST_ROWS.max(2 * keys)), suite.threads());
    let mut random = Random::new(11);
    let mut columns = Columns::default();
    for row in 0..rows {
        let number = random.below(keys);
        // Odd, so that different numbers give different keys.
        let key = if is_scattered { number.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64) } else { number };
        columns.push(key, random.below(1000), (row * 1000 / rows) as i64);
    }
    let kind = if is_scattered { "scattered" } else { "dense" };
    let mut case = Case::new(format!("{kind}/keys={keys}"), rows);
    for (merge, dense) in SYSTEMS {
        let mut session = session(threads)?;
        columns.register(&mut session, "t", 1)?;
        session.set("pipeline.merge", merge)?;
        session.set("pipeline.dense-tables", dense)?;
        let sql = "SELECT k, window_start, COUNT(*), SUM(v)
                   FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))
                   GROUP BY k, window_start, window_end";
        let name = if dense == "auto" { format!("millstream/{merge}") } else { format!("millstream/{merge}, hashed") };
        case = case.with(System::measured(name, threads, move || query(&mut session, sql)));
    }
    suite.measure(Across::Different, vec![case])?;
    Ok(())
}
