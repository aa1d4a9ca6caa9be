//! Sums of DOUBLE: exact, rounded once, and so the same for every order of the rows and under every configuration, whatever has
//! entered a window and left it. The model adds integers.

use crate::configurations::Configuration;
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_buffer::i256;
use arrow_cast::display::array_value_to_string;
use millstream::{Collected, RunMonitor, Session};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// What a query gives: rows of text, of which the last column is the bits of a sum.
type Sums = BTreeMap<String, u64>;

fn run(session: &mut Session, sql: &str) -> Sums {
    let mut results = Collected::new();
    session.execute(&session.parse(sql).unwrap()[0], &mut results, &RunMonitor::new()).unwrap();
    let batch = results.into_batch().unwrap();
    let last = batch.num_columns() - 1;
    let sums = batch.column(last).as_primitive::<Float64Type>();
    let mut found = Sums::new();
    for row in 0..batch.num_rows() {
        let cells = (0..last).map(|column| array_value_to_string(batch.column(column), row).unwrap());
        let former = found.insert(cells.collect::<Vec<_>>().join(" "), bits(sums.value(row)));
        assert!(former.is_none(), "a group has one row");
    }
    found
}

/// The bits of a number. All NaN are one.
fn bits(x: f64) -> u64 {
    if x.is_nan() { f64::NAN.to_bits() } else { x.to_bits() }
}

fn permutations(values: &[f64]) -> Vec<Vec<f64>> {
    let Some((&first, rest)) = values.split_first() else { return vec![vec![]] };
    let insert = |order: Vec<f64>| {
        (0..=order.len()).map(move |place| [&order[..place], &[first], &order[place..]].concat()).collect::<Vec<_>>()
    };
    permutations(rest).into_iter().flat_map(insert).collect()
}

#[test]
fn sums_are_rounded_once_and_the_same_in_every_order() {
    let mut session =
        Configuration::new("sums", &[("pipeline.tier", "interpreted"), ("parallelism.default", "1")]).session();
    session.set("execution.runtime-mode", "batch").unwrap();
    // The sums are those of Python's `fractions`.
    for (values, sum) in [
        ([0.1, 0.2, 0.3, 0.7], 1.3),
        ([1e16, 1.0, -1e16, 0.25], 1.25),
        ([1e300, 1.0, -1e300, 1e-300], 1.0),
        ([5e-324, 1e308, 1e308, -1e308], 1e308),
        // The terms reach over more than the digits of two doubles, and the sum is nearly in the middle between two.
        (
            [1.4396797209360943e29, 8.32960817413439e29, -0.010005509885897435, 9.033677969918213e29],
            1.8802965864988695e30,
        ),
        ([9007199254740992.0, 1.0, 1e-40, 0.0], 9007199254740994.0),
        ([9007199254740992.0, 1.0, -1e-40, 0.0], 9007199254740992.0),
    ] {
        for order in permutations(&values) {
            let rows: Vec<String> = order.iter().map(|x| format!("({x:e})")).collect();
            let sql = format!("SELECT 0, SUM(x) FROM (VALUES {}) AS t (x)", rows.join(", "));
            let found = run(&mut session, &sql)["0"];
            assert_eq!(f64::from_bits(found), sum, "{order:?}");
        }
    }
}

/// Numbers of the model are multiples of this.
const UNIT: f64 = 1.0 / (1_u64 << 40) as f64;

#[derive(Debug, Clone, Copy)]
struct Row {
    time: i64,
    key: i64,
    units: i128,
    /// 1 and 2 for the infinities, 3 for NaN, in place of the number.
    special: u8,
}

/// Rows, by time. The numbers are small, large, out of the reach of a fixed-point number at both ends, and the negatives of others.
fn rows() -> Vec<Row> {
    let mut state = 20_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) % below
    };
    let mut rows: Vec<Row> = Vec::new();
    for number in 0..3_000 {
        let units = match random(14) {
            0 => 1 + i128::from(random(255)),
            1 => i128::from(random(1 << 50)) << 60,
            2..5 if number > 0 => -rows[random(number) as usize].units,
            5..8 => i128::from(random(1 << 53)) << 48,
            // Multiples of 2^-20, small and up to 2^42: what code adds as integers, and what is a little too large for that.
            8 => i128::from(random(1 << 40)) << 20,
            9 => i128::from((1 << 53) - 4 + random(4)) << (27 + random(4)),
            _ => i128::from(random(1 << 53)),
        };
        let special = if random(40) == 0 { 1 + random(3) as u8 } else { 0 };
        let key = random(6) as i64;
        let special = if key < 2 { special } else { 0 };
        rows.push(Row {
            time: number as i64 * 7 + 1,
            key,
            units: if random(2) == 0 { units } else { -units },
            special,
        });
    }
    rows
}

/// The bits of the sum of numbers.
fn sum<'a>(rows: impl Iterator<Item = &'a Row>) -> u64 {
    let (mut units, mut specials) = (0_i128, BTreeSet::new());
    for row in rows {
        match row.special {
            0 => units += row.units,
            special => _ = specials.insert(special),
        }
    }
    let sum = match specials.into_iter().collect::<Vec<_>>()[..] {
        // A multiple of 2^-40 has forty digits behind the point. The standard library rounds decimal text correctly.
        [] => {
            let digits = i256::from_i128(units).wrapping_mul(i256::from_i128(5).wrapping_pow(40));
            format!("{digits}e-40").parse().unwrap()
        }
        [1] => f64::INFINITY,
        [2] => f64::NEG_INFINITY,
        _ => f64::NAN,
    };
    bits(sum)
}

/// The sums of rows by key and the windows that they are in.
fn by_windows(rows: &[Row], windows: impl Fn(&Row) -> Vec<i64>) -> Sums {
    let mut groups: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for row in rows {
        for window in windows(row) {
            groups.entry(format!("{} {window}", row.key)).or_default().push(*row);
        }
    }
    groups.into_iter().map(|(group, rows)| (group, sum(rows.iter()))).collect()
}

/// The sums of each row and those before it that are `near` enough, of its key.
fn over(rows: &[Row], near: impl Fn(usize, i64) -> bool) -> Sums {
    let of_row = |(at, row): (usize, &Row)| {
        let before = rows[..=at].iter().rev().filter(|other| other.key == row.key).enumerate();
        let near = before.filter(|(behind, other)| near(*behind, row.time - other.time)).map(|(_, other)| other);
        (format!("{} {}", row.key, row.time), sum(near))
    };
    rows.iter().enumerate().map(of_row).collect()
}

/// The number of the session that each row is in, by the time of the first row of the session.
fn sessions(rows: &[Row], gap: i64) -> Sums {
    let mut firsts: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
    let mut first_of = BTreeMap::new();
    for row in rows {
        let session = firsts.entry(row.key).or_insert((row.time, row.time));
        if row.time >= session.1 + gap {
            session.0 = row.time;
        }
        session.1 = row.time;
        first_of.insert(row.time, session.0);
    }
    by_windows(rows, |row| vec![first_of[&row.time]])
}

#[test]
fn all_windows_have_exact_sums_under_every_configuration() {
    let rows = rows();
    let directory = tempfile::tempdir().unwrap();
    let mut lines = String::new();
    // Rows come out of order by less than 300 ms.
    let mut arrived: Vec<&Row> = rows.iter().collect();
    arrived.sort_by_key(|row| row.time + row.time * 7919 % 300);
    for Row { time, key, units, special } in arrived {
        let x = *units as f64 * UNIT;
        assert_eq!((x / UNIT) as i128, *units, "numbers of the model are doubles");
        writeln!(lines, "{{\"k\":{key},\"ms\":{time},\"x\":{x:e},\"special\":{special}}}").unwrap();
    }
    std::fs::write(directory.path().join("rows.jsonl"), lines).unwrap();
    let table = format!(
        "CREATE TABLE t (k BIGINT NOT NULL, ms BIGINT NOT NULL, x DOUBLE NOT NULL, special INT NOT NULL, \
         v AS CASE special WHEN 1 THEN 1e300 * 1e300 WHEN 2 THEN -1e300 * 1e300 WHEN 3 THEN 1e300 * 1e300 - 1e300 * 1e300 ELSE x END, \
         s AS 'k' || CAST(k AS STRING), ts AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) \
         WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'json')",
        directory.path().join("rows.jsonl").display()
    );
    let epoch = |column: &str| format!("CAST(EXTRACT(EPOCH FROM {column}) AS BIGINT) * 1000");
    let window = |of: &str, key: &str, column: &str| {
        let key = if key == "s" { "MAX(k) AS k" } else { "k" };
        format!(
            "SELECT {key}, {column}, SUM(v) FROM TABLE({of}) GROUP BY window_start, window_end, {}",
            if key == "k" { "k" } else { "s" }
        )
    };
    let hop = "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '5' SECOND)";
    let starts = epoch("window_start");
    let ordered = "SELECT k, ms, SUM(v) OVER (PARTITION BY k ORDER BY ts";
    let hops = |row: &Row| (row.time / 1_000 - 4..=row.time / 1_000).map(|second| second * 1_000).collect();
    let queries = [
        (
            window("TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND)", "k", &starts),
            by_windows(&rows, |row| vec![row.time / 1_000 * 1_000]),
        ),
        (
            window("TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)", "s", &starts),
            by_windows(&rows, |row| vec![row.time / 10_000 * 10_000]),
        ),
        (window(hop, "k", &starts), by_windows(&rows, hops)),
        (window(hop, "s", &starts), by_windows(&rows, hops)),
        (
            window("SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '0.08' SECOND)", "k", "MIN(ms)"),
            sessions(&rows, 80),
        ),
        (format!("{ordered} ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) FROM t"), over(&rows, |behind, _| behind <= 9)),
        (
            format!("{ordered} RANGE BETWEEN INTERVAL '2' SECOND PRECEDING AND CURRENT ROW) FROM t"),
            over(&rows, |_, before| before <= 2_000),
        ),
    ];
    for settings in [
        &[("parallelism.default", "1"), ("pipeline.tier", "interpreted"), ("pipeline.combine", "subtract")][..],
        &[("parallelism.default", "2"), ("pipeline.buffer-rows", "7"), ("pipeline.combine", "two-stacks")],
        &[("parallelism.default", "3"), ("pipeline.merge", "global"), ("pipeline.numa-nodes", "2")],
        &[
            ("parallelism.default", "3"),
            ("pipeline.tier", "interpreted"),
            ("pipeline.spill", "always"),
            ("pipeline.cut-every", "2"),
            ("pipeline.merge", "partition"),
            ("pipeline.combine", "subtract"),
            ("pipeline.buffer-rows", "3"),
        ],
    ] {
        let mut session = Configuration::new("sums", settings).session();
        session.run(&table).unwrap();
        for (sql, expected) in &queries {
            let found = run(&mut session, sql);
            assert_eq!(found.len(), expected.len(), "{sql}");
            for (group, sum) in expected {
                let found = found.get(group).map(|&bits| f64::from_bits(bits));
                assert_eq!(
                    found.map(bits),
                    Some(*sum),
                    "{settings:?}: {sql}: {group}: {found:?}, {}",
                    f64::from_bits(*sum)
                );
            }
        }
    }
}

#[test]
fn doubles_that_have_been_integers_add_up_as_doubles_do() {
    // Where a conversion, or the square of one, is no longer exact; and numbers that are ordinary.
    let edges = [0, 1, 26, 27, 31, 53, 54, 62].map(|bits| 1_i64 << bits);
    let near = edges.iter().flat_map(|edge| [edge - 1, *edge, edge + 1, edge + 3]);
    let all: Vec<i64> = near.flat_map(|v| [v, -v]).chain([i64::MAX, i64::MIN, 0, 1234, -77]).collect();
    let rows: Vec<String> = all.iter().enumerate().map(|(i, v)| format!("{},{v},{}", i % 3, v % 30_000)).collect();
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("v.csv"), rows.join("\n")).unwrap();
    let table = format!(
        "CREATE TABLE t (k BIGINT NOT NULL, v BIGINT NOT NULL, i INT NOT NULL)
         WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'csv')",
        directory.path().join("v.csv").display()
    );
    let by_key = |number: &dyn Fn(i64) -> f64| -> Sums {
        let exact = |key: usize| all.iter().skip(key).step_by(3).map(|&v| number(v) as i128).sum::<i128>();
        (0..3).map(|key| (key.to_string(), bits(exact(key) as f64))).collect()
    };
    let sums = [("CAST(v AS DOUBLE)", by_key(&|v| v as f64)), ("CAST(i AS DOUBLE)", by_key(&|v| (v % 30_000) as f64))];
    let others = ["STDDEV_POP(v)", "STDDEV_POP(i)", "AVG(CAST(v AS DOUBLE))", "VAR_SAMP(CAST(i AS SMALLINT))"];
    let mut found: Vec<Vec<Sums>> = Vec::new();
    for tier in ["interpreted", "compiled"] {
        let mut session =
            Configuration::new("sums", &[("pipeline.tier", tier), ("execution.runtime-mode", "batch")]).session();
        session.run(&table).unwrap();
        for (sum, expected) in &sums {
            assert_eq!(
                run(&mut session, &format!("SELECT k, SUM({sum}) FROM t GROUP BY k")),
                *expected,
                "{tier}: {sum}"
            );
        }
        let mut run = |other: &&str| run(&mut session, &format!("SELECT k, {other} FROM t GROUP BY k"));
        found.push(others.iter().map(&mut run).collect());
    }
    assert_eq!(found[0], found[1]);
}
