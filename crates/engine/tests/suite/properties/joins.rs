//! Joins of windows, of intervals, of whole streams and with bounded tables.

use super::model::{self, Window, text};
use super::streams::{Disorder, Random, Row, interval, stream};
use super::{Input, check};

const KINDS: [&str; 6] = ["INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI"];

/// A further condition in SQL and in the model; NULL is not TRUE.
type Residual = (&'static str, fn(&Row, &Row) -> bool);

const RESIDUALS: [Residual; 3] = [
    ("", |_, _| true),
    (" AND a.v < b.v", |a, b| a.v.zip(b.v).is_some_and(|(a, b)| a < b)),
    (" AND (a.s = b.s OR a.d > b.d)", |a, b| a.s.is_some() && a.s == b.s || a.d.zip(b.d).is_some_and(|(a, b)| a > b)),
];

/// Ids of the pairs, and of the rows without partner, of a kind of join.
fn joined(
    kind: &str,
    left: &[(i64, &Row)],
    right: &[(i64, &Row)],
    meet: impl Fn(&(i64, &Row), &(i64, &Row)) -> bool,
) -> Vec<Vec<String>> {
    let pair =
        |a: Option<&(i64, &Row)>, b: Option<&(i64, &Row)>| vec![text(a.map(|a| a.1.id)), text(b.map(|b| b.1.id))];
    let mut rows = Vec::new();
    for a in left {
        let partners: Vec<_> = right.iter().filter(|b| meet(a, b)).collect();
        match kind {
            "SEMI" | "ANTI" if partners.is_empty() == (kind == "ANTI") => rows.push(vec![a.1.id.to_string()]),
            "SEMI" | "ANTI" => {}
            "LEFT" | "FULL" if partners.is_empty() => rows.push(pair(Some(a), None)),
            _ => rows.extend(partners.into_iter().map(|b| pair(Some(a), Some(b)))),
        }
    }
    if matches!(kind, "RIGHT" | "FULL") {
        let alone = right.iter().filter(|b| !left.iter().any(|a| meet(a, b)));
        rows.extend(alone.map(|b| pair(None, Some(b))));
    }
    rows
}

fn same_key(a: &Row, b: &Row) -> bool {
    a.k.is_some() && a.k == b.k
}

/// Rows with the ends of their windows, without those that are late.
fn in_windows(rows: &[Row], windows: impl Fn(i64) -> Vec<Window>) -> Vec<(i64, &Row)> {
    let of = |row| -> Vec<(i64, &Row)> {
        let row: &Row = row;
        windows(row.time)
            .into_iter()
            .map(|(_, end)| end)
            .filter(|end| end - 1 > row.watermark)
            .map(|e| (e, row))
            .collect()
    };
    rows.iter().flat_map(of).collect()
}

#[test]
fn window_joins_pair_the_rows_of_a_window() {
    for case in 0..18 {
        let random = &mut Random::new(case + 10_000);
        let kind = KINDS[case as usize % 6];
        let (first, second) = (Disorder::any(random), Disorder::any(random));
        let (a_rows, b_rows) = (random.within(0..90), random.within(1..90));
        let left = stream(random, a_rows, 0, first);
        let right = stream(random, b_rows, 1000, second);
        let (size, slide) = random.pick(&[(3000, 3000), (1000, 1000), (4000, 2000), (2500, 1000)]);
        let windows = |time| model::hop(size, slide, 0, time);
        let (condition, residual) = random.pick(&RESIDUALS);
        let meet = |a: &(i64, &Row), b: &(i64, &Row)| a.0 == b.0 && same_key(a.1, b.1) && residual(a.1, b.1);
        let expected = joined(kind, &in_windows(&left, windows), &in_windows(&right, windows), meet);
        let of = |table| format!("TABLE(HOP(TABLE {table}, DESCRIPTOR(ts), {}, {}))", interval(slide), interval(size));
        let (a, b) = (format!("(SELECT * FROM {}) AS a", of("l")), format!("(SELECT * FROM {}) AS b", of("r")));
        let on = format!("a.k = b.k AND a.window_start = b.window_start AND a.window_end = b.window_end{condition}");
        let sql = match kind {
            "SEMI" => format!("SELECT a.id FROM {a} WHERE EXISTS (SELECT * FROM {b} WHERE {on})"),
            "ANTI" => format!("SELECT a.id FROM {a} WHERE NOT EXISTS (SELECT * FROM {b} WHERE {on})"),
            _ => format!("SELECT a.id, b.id FROM {a} {kind} JOIN {b} ON {on}"),
        };
        let inputs = [
            Input { name: "l", rows: &left, delay_ms: first.delay_ms },
            Input { name: "r", rows: &right, delay_ms: second.delay_ms },
        ];
        check(case, &inputs, &sql, expected);
    }
}

/// Ids of what an interval join gives for rows in merged order: a row meets those of the other side whose last partner the
/// watermark before it is not beyond, and is kept if its own last partner is ahead of that.
fn interval_joined(
    kind: &str,
    left: &[Row],
    right: &[Row],
    (lower, upper): (i64, i64),
    meet: impl Fn(&Row, &Row) -> bool,
) -> Vec<Vec<String>> {
    let mut events: Vec<(usize, &Row)> = left.iter().map(|row| (0, row)).collect();
    events.extend(right.iter().map(|row| (1, row)));
    events.sort_by_key(|(side, row)| (row.watermark, *side));
    let (reach, is_outer) = ([-lower, upper], [matches!(kind, "LEFT" | "FULL"), matches!(kind, "RIGHT" | "FULL")]);
    let mut rows: Vec<(usize, &Row, bool, bool)> = Vec::new();
    let mut output = Vec::new();
    for (side, row) in events {
        let is_kept = row.watermark < row.time + reach[side];
        let mut has_met = false;
        for (other, known, known_is_kept, known_has_met) in &mut rows {
            let is_alive = *known_is_kept && row.watermark <= known.time + reach[*other];
            let (a, b) = if side == 0 { (row, *known) } else { (*known, row) };
            if *other != side && is_alive && (lower..=upper).contains(&(a.time - b.time)) && meet(a, b) {
                output.push(vec![a.id.to_string(), b.id.to_string()]);
                (has_met, *known_has_met) = (true, true);
            }
        }
        rows.push((side, row, is_kept, has_met));
    }
    for (side, row, _, has_met) in rows {
        if is_outer[side] && !has_met {
            let (id, none) = (row.id.to_string(), text(None::<i64>));
            output.push(if side == 0 { vec![id, none] } else { vec![none, id] });
        }
    }
    output
}

#[test]
fn interval_joins_pair_rows_near_each_other() {
    for case in 0..24 {
        let random = &mut Random::new(case + 11_000);
        let kind = KINDS[case as usize % 4];
        let (first, second) = (Disorder::any(random), Disorder::any(random));
        let (a_rows, b_rows) = (random.within(0..120), random.within(1..120));
        let left = stream(random, a_rows, 0, first);
        let right = stream(random, b_rows, 1000, second);
        let (lower, upper) =
            random.pick(&[(-500, 500), (0, 3000), (-2000, -700), (-4000, 100), (0, 0), (1500, 90_000)]);
        let (condition, residual) = random.pick(&RESIDUALS);
        let meet = |a: &Row, b: &Row| same_key(a, b) && residual(a, b);
        let expected = interval_joined(kind, &left, &right, (lower, upper), meet);
        let sql = format!(
            "SELECT a.id, b.id FROM l AS a {kind} JOIN r AS b
             ON a.k = b.k AND a.ts BETWEEN b.ts + {} AND b.ts + {}{condition}",
            interval(lower),
            interval(upper)
        );
        let inputs = [
            Input { name: "l", rows: &left, delay_ms: first.delay_ms },
            Input { name: "r", rows: &right, delay_ms: second.delay_ms },
        ];
        check(case, &inputs, &sql, expected);
    }
}

#[test]
fn pairs_of_an_interval_join_are_never_late_for_windows_over_them() {
    for case in 0..4 {
        let random = &mut Random::new(case + 12_000);
        let (first, second) = (Disorder::timely(random), Disorder::timely(random));
        let left = stream(random, 100, 0, first);
        let right = stream(random, 80, 1000, second);
        let pairs = left.iter().flat_map(|a| right.iter().map(move |b| (a, b)));
        let near = |(a, b): &(&Row, &Row)| same_key(a, b) && (a.time - b.time).abs() <= 1500;
        // The event time of a pair is that of either side.
        let by_left = case % 2 == 0;
        let time = |a: &Row, b: &Row| if by_left { a.time } else { b.time };
        let pair = |(a, b): (&Row, &Row)| Row { time: time(a, b), watermark: i64::MIN, ..a.clone() };
        let rows: Vec<Row> = pairs.filter(near).map(pair).collect();
        let groups = model::grouped(&rows, |_| vec![], |time| model::hop(2000, 1000, 0, time));
        let expected = groups.iter().map(|g| vec![g.window.0.to_string(), g.rows.len().to_string()]).collect();
        let sql = format!(
            "SELECT window_start, COUNT(*) FROM TABLE(HOP((
                 SELECT {}.ts AS t FROM l AS a JOIN r AS b
                 ON a.k = b.k AND a.ts BETWEEN b.ts - INTERVAL '1.5' SECOND AND b.ts + INTERVAL '1.5' SECOND
             ), DESCRIPTOR(t), INTERVAL '1' SECOND, INTERVAL '2' SECOND)) GROUP BY window_start, window_end",
            if by_left { "a" } else { "b" }
        );
        let inputs = [
            Input { name: "l", rows: &left, delay_ms: first.delay_ms },
            Input { name: "r", rows: &right, delay_ms: second.delay_ms },
        ];
        check(case, &inputs, &sql, expected);
    }
}

#[test]
fn regular_joins_pair_all_rows() {
    for case in 0..6 {
        let random = &mut Random::new(case + 13_000);
        let (first, second) = (Disorder::any(random), Disorder::any(random));
        let (a_rows, b_rows) = (random.within(0..80), random.within(1..80));
        let left = stream(random, a_rows, 0, first);
        let right = stream(random, b_rows, 1000, second);
        let (condition, residual) = random.pick(&RESIDUALS);
        let meet = |a: &(i64, &Row), b: &(i64, &Row)| same_key(a.1, b.1) && residual(a.1, b.1);
        let any = |_| vec![(0, i64::MAX)];
        let expected = joined("INNER", &in_windows(&left, any), &in_windows(&right, any), meet);
        let inputs = [
            Input { name: "l", rows: &left, delay_ms: first.delay_ms },
            Input { name: "r", rows: &right, delay_ms: second.delay_ms },
        ];
        check(case, &inputs, &format!("SELECT a.id, b.id FROM l AS a JOIN r AS b ON a.k = b.k{condition}"), expected);
    }
}

#[test]
fn joins_of_three_streams_are_joins_of_joins() {
    for case in 0..3 {
        let random = &mut Random::new(case + 14_000);
        let disorder = Disorder::any(random);
        let streams: Vec<Vec<Row>> = (0..3).map(|i| stream(random, 40, 1000 * i, disorder)).collect();
        let mut expected = Vec::new();
        for a in &streams[0] {
            for b in streams[1].iter().filter(|b| same_key(a, b)) {
                let meets = |c: &&Row| c.v.is_some() && c.v == b.v && c.s.is_some() && c.s == a.s;
                let row = |c: &Row| vec![a.id.to_string(), b.id.to_string(), c.id.to_string()];
                expected.extend(streams[2].iter().filter(meets).map(row));
            }
        }
        let inputs: Vec<Input<'_>> = ["a", "b", "c"]
            .into_iter()
            .zip(&streams)
            .map(|(name, rows)| Input { name, rows, delay_ms: disorder.delay_ms })
            .collect();
        let sql = "SELECT a.id, b.id, c.id FROM a JOIN b ON a.k = b.k JOIN c ON c.v = b.v AND c.s = a.s";
        check(case, &inputs, sql, expected);
    }
}

#[test]
fn lookups_pair_rows_with_those_of_a_bounded_table() {
    const TABLE: [(i32, i64); 6] = [(0, 4), (1, 2), (1, 5), (2, -1), (7, 0), (11, 3)];
    for case in 0..4 {
        let random = &mut Random::new(case + 15_000);
        let disorder = Disorder::any(random);
        let rows = stream(random, 100, 0, disorder);
        let (condition, residual): (_, fn(&Row, i64) -> bool) =
            if case % 2 == 0 { ("", |_, _| true) } else { (" AND a.v > b.w", |a, w| a.v.is_some_and(|v| v > w)) };
        let partners =
            |row: &Row| TABLE.into_iter().filter(|(k, w)| row.k == Some(*k) && residual(row, *w)).collect::<Vec<_>>();
        let values = TABLE.map(|(k, w)| format!("({k}, CAST({w} AS BIGINT))")).join(", ");
        let table = format!("(VALUES {values}) AS b(k, w)");
        let (sql, expected): (String, Vec<Vec<String>>) = if case < 2 {
            let pair = |row: &Row| {
                partners(row).into_iter().map(|(_, w)| vec![row.id.to_string(), w.to_string()]).collect::<Vec<_>>()
            };
            (
                format!("SELECT a.id, b.w FROM t AS a JOIN {table} ON a.k = b.k{condition}"),
                rows.iter().flat_map(pair).collect(),
            )
        } else {
            let there = rows.iter().filter(|row| !partners(row).is_empty());
            let sql =
                format!("SELECT a.id FROM t AS a WHERE EXISTS (SELECT * FROM {table} WHERE a.k = b.k{condition})");
            (sql, there.map(|row| vec![row.id.to_string()]).collect())
        };
        check(case, &[Input { name: "t", rows: &rows, delay_ms: disorder.delay_ms }], &sql, expected);
    }
}
