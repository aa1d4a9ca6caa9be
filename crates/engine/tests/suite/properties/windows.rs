//! Every window with every aggregate.

use super::model::{self, Aggregate, Group, Key, Window, text};
use super::streams::{Disorder, Random, Row, interval, stream};
use super::{Input, check};

/// What rows are grouped by: SQL and the model's key.
type Grouping = (&'static str, fn(&Row) -> Key);

const GROUPINGS: [Grouping; 4] = [
    ("", |_| vec![]),
    ("k", |row| vec![text(row.k)]),
    ("s", |row| vec![text(row.s)]),
    ("k, s", |row| vec![text(row.k), text(row.s)]),
];

/// `SELECT` list, `GROUP BY` list of the keys, each with a comma where one is needed.
fn with_comma(keys: &str) -> String {
    if keys.is_empty() { String::new() } else { format!("{keys}, ") }
}

/// The rows of a result: keys, window, aggregates.
fn results(groups: &[Group<'_>], aggregates: &[Aggregate]) -> Vec<Vec<String>> {
    let row = |group: &Group<'_>| {
        let window = [group.window.0.to_string(), group.window.1.to_string()];
        let values = aggregates.iter().map(|(_, of)| of(&group.rows));
        group.key.iter().cloned().chain(window).chain(values).collect()
    };
    groups.iter().map(row).collect()
}

fn select(keys: &str, aggregates: &[Aggregate], from: &str) -> String {
    let keys = with_comma(keys);
    let list = aggregates.iter().map(|(sql, _)| *sql).collect::<Vec<_>>().join(", ");
    format!("SELECT {keys}window_start, window_end, {list} FROM {from} GROUP BY {keys}window_start, window_end")
}

/// A few aggregates at random: together they share components, alone they choose how windows are combined.
fn some_of(random: &mut Random, aggregates: &[Aggregate]) -> Vec<Aggregate> {
    let n = random.pick(&[1, 2, 5, aggregates.len()]);
    (0..n.min(aggregates.len())).map(|_| random.pick(aggregates)).collect()
}

fn any_aggregates(random: &mut Random) -> Vec<Aggregate> {
    match random.within(0..6) {
        0..=2 => some_of(random, &model::ACCUMULATED),
        3 => some_of(random, &model::KEPT),
        4 => some_of(random, &model::ORDERED),
        _ => [&model::ACCUMULATED[..], &model::KEPT, &model::ORDERED].concat(),
    }
}

/// Windows cut from time: name and arguments in SQL, and the model's windows of a time.
fn any_sliced(random: &mut Random, case: u64) -> (String, Box<dyn Fn(i64) -> Vec<Window>>) {
    // Offsets are shorter than the window.
    let shift = random.pick(&[0, 0, 130, -700, 5000]);
    let (name, arguments, windows): (_, _, Box<dyn Fn(i64) -> Vec<Window>>) = match case % 3 {
        0 => {
            let size = random.pick(&[1, 700, 1000, 4321, 60_000]);
            let offset = shift % size;
            ("TUMBLE", vec![size, offset], Box::new(move |time| model::hop(size, size, offset, time)))
        }
        1 => {
            let size = random.pick(&[1, 500, 1000, 2500, 9000]);
            let slide = random.pick(&[300, 500, 1000, 1300, 10_000]);
            let offset = shift % size;
            ("HOP", vec![slide, size, offset], Box::new(move |time| model::hop(size, slide, offset, time)))
        }
        _ => {
            let step = random.pick(&[1, 500, 1000, 1300]);
            let size = step * random.within(1..9);
            let offset = shift % size;
            ("CUMULATE", vec![step, size, offset], Box::new(move |time| model::cumulate(size, step, offset, time)))
        }
    };
    let arguments: Vec<String> = arguments.into_iter().map(interval).collect();
    (format!("TABLE({name}(TABLE t, DESCRIPTOR(ts), {}))", arguments.join(", ")), windows)
}

#[test]
fn windows_cut_from_time_have_their_rows() {
    for case in 0..36 {
        let random = &mut Random::new(case + 1);
        let disorder = Disorder::any(random);
        let length = random.within(1..160);
        let rows = stream(random, length, 0, disorder);
        let (from, windows) = any_sliced(random, case);
        let (keys, key) = random.pick(&GROUPINGS);
        let aggregates = any_aggregates(random);
        let groups = model::grouped(&rows, key, windows);
        let input = Input { name: "t", rows: &rows, delay_ms: disorder.delay_ms };
        check(case, &[input], &select(keys, &aggregates, &from), results(&groups, &aggregates));
    }
}

#[test]
fn every_aggregate_is_right_in_every_window() {
    let all = [&model::ACCUMULATED[..], &model::KEPT, &model::ORDERED].concat();
    for case in 0..8 {
        let random = &mut Random::new(case + 1000);
        let disorder = Disorder::any(random);
        let rows = stream(random, 120, 0, disorder);
        let (keys, key) = GROUPINGS[case as usize % 2];
        let (from, groups) = match case / 2 {
            0 => {
                let groups = model::grouped(&rows, key, |time| model::hop(7000, 1000, 0, time));
                (format!("TABLE(HOP(TABLE t, DESCRIPTOR(ts), {}, {}))", interval(1000), interval(7000)), groups)
            }
            1 => {
                let groups = model::grouped(&rows, key, |time| model::cumulate(8000, 1000, 0, time));
                (format!("TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts), {}, {}))", interval(1000), interval(8000)), groups)
            }
            2 => (partitioned("SESSION", keys, &interval(900)), model::sessions(&rows, key, 900)),
            _ => (partitioned("COUNT_HOP", keys, "3, 8"), model::count_windows(&rows, key, 8, 3)),
        };
        let input = Input { name: "t", rows: &rows, delay_ms: disorder.delay_ms };
        check(case, &[input], &select(keys, &all, &from), results(&groups, &all));
    }
}

fn partitioned(function: &str, keys: &str, arguments: &str) -> String {
    let partition = if keys.is_empty() { String::new() } else { format!(" PARTITION BY ({keys})") };
    format!("TABLE({function}(TABLE t{partition}, DESCRIPTOR(ts), {arguments}))")
}

#[test]
fn sessions_have_their_rows() {
    for case in 0..16 {
        let random = &mut Random::new(case + 2000);
        let disorder = Disorder::any(random);
        let length = random.within(1..160);
        let rows = stream(random, length, 0, disorder);
        let (keys, key) = random.pick(&GROUPINGS);
        let gap = random.pick(&[1, 100, 300, 700, 2000]);
        let groups = model::sessions(&rows, key, gap);
        let from = partitioned("SESSION", keys, &interval(gap));
        let input = Input { name: "t", rows: &rows, delay_ms: disorder.delay_ms };
        if case % 4 == 3 {
            let row = |group: &Group<'_>, row: &Row| {
                vec![row.id.to_string(), group.window.0.to_string(), group.window.1.to_string()]
            };
            let expected = groups.iter().flat_map(|group| group.rows.iter().map(|r| row(group, r))).collect();
            check(case, &[input], &format!("SELECT id, window_start, window_end FROM {from}"), expected);
        } else {
            let aggregates = any_aggregates(random);
            check(case, &[input], &select(keys, &aggregates, &from), results(&groups, &aggregates));
        }
    }
}

#[test]
fn count_windows_have_their_rows() {
    for case in 0..8 {
        let random = &mut Random::new(case + 3000);
        let disorder = Disorder::any(random);
        let length = random.within(1..160);
        let rows = stream(random, length, 0, disorder);
        let (keys, key) = random.pick(&GROUPINGS);
        let (size, slide) = (random.within(1..20), random.within(1..20));
        let (name, slide, arguments) = if case % 2 == 0 {
            ("COUNT_TUMBLE", size, size.to_string())
        } else {
            ("COUNT_HOP", slide, format!("{slide}, {size}"))
        };
        let groups = model::count_windows(&rows, key, size as usize, slide as usize);
        let aggregates = any_aggregates(random);
        let sql = select(keys, &aggregates, &partitioned(name, keys, &arguments));
        let input = Input { name: "t", rows: &rows, delay_ms: disorder.delay_ms };
        check(case, &[input], &sql, results(&groups, &aggregates));
    }
}

#[test]
fn rows_come_once_for_each_of_their_windows() {
    for case in 0..6 {
        let random = &mut Random::new(case + 4000);
        let disorder = Disorder::any(random);
        let rows = stream(random, 60, 0, disorder);
        let (from, windows) = any_sliced(random, case);
        let of = |row: &Row| {
            let line = |(start, end): Window| {
                vec![row.id.to_string(), start.to_string(), end.to_string(), (end - 1).to_string()]
            };
            windows(row.time).into_iter().map(line).collect::<Vec<_>>()
        };
        let expected = rows.iter().flat_map(of).collect();
        let input = Input { name: "t", rows: &rows, delay_ms: disorder.delay_ms };
        check(case, &[input], &format!("SELECT id, window_start, window_end, window_time FROM {from}"), expected);
    }
}

#[test]
fn windows_of_windows_have_their_rows() {
    for case in 0..6 {
        let random = &mut Random::new(case + 5000);
        let disorder = Disorder::any(random);
        let rows = stream(random, 120, 0, disorder);
        let (from, windows) = any_sliced(random, case);
        let groups = model::grouped(&rows, |row| vec![text(row.k)], windows);
        // Each group is a row at the end of its window, of which none is late.
        let inner: Vec<Row> = groups
            .iter()
            .map(|g| Row {
                id: 0,
                k: None,
                s: None,
                v: Some(g.rows.len() as i64),
                d: None,
                time: g.window.1 - 1,
                watermark: i64::MIN,
            })
            .collect();
        let outer = model::grouped(&inner, |_| vec![], |time| model::hop(6000, 2000, 0, time));
        let total = |g: &Group<'_>| g.rows.iter().filter_map(|row| row.v).sum::<i64>();
        let row = |g: &Group<'_>| vec![g.window.1.to_string(), g.rows.len().to_string(), total(g).to_string()];
        let sql = format!(
            "SELECT window_end, COUNT(*), SUM(c) FROM TABLE(HOP((
                 SELECT window_time AS t, k, COUNT(*) AS c FROM {from} GROUP BY k, window_start, window_end, window_time
             ), DESCRIPTOR(t), {}, {})) GROUP BY window_start, window_end",
            interval(2000),
            interval(6000)
        );
        let input = Input { name: "t", rows: &rows, delay_ms: disorder.delay_ms };
        check(case, &[input], &sql, outer.iter().map(row).collect());
    }
}

#[test]
fn rows_of_several_splits_are_late_by_their_own() {
    for case in 0..6 {
        let random = &mut Random::new(case + 6000);
        let (first, second) = (Disorder::any(random), Disorder::any(random));
        let mut rows = stream(random, 90, 0, first);
        let others = stream(random, 50, 1000, second);
        let aggregates: Vec<Aggregate> = match case % 2 {
            0 => some_of(random, &model::ACCUMULATED),
            _ => some_of(random, &model::KEPT),
        };
        let (from, windows) = any_sliced(random, case);
        let from = from.replace("TABLE t,", "(SELECT * FROM t UNION ALL SELECT * FROM u),");
        let inputs = [
            Input { name: "t", rows: &rows.clone(), delay_ms: first.delay_ms },
            Input { name: "u", rows: &others, delay_ms: second.delay_ms },
        ];
        rows.extend(others.iter().cloned());
        let groups = model::grouped(&rows, |row| vec![text(row.k)], windows);
        check(case, &inputs, &select("k", &aggregates, &from), results(&groups, &aggregates));
    }
}

#[test]
fn grouping_sets_are_several_groupings_of_a_window() {
    for case in 0..4 {
        let random = &mut Random::new(case + 7000);
        let disorder = Disorder::any(random);
        let rows = stream(random, 100, 0, disorder);
        let (from, windows) = any_sliced(random, case);
        let null = || "NULL".to_string();
        let mut expected = Vec::new();
        let sets: [Grouping; 3] =
            [("0", |row| vec![text(row.k), text(row.s)]), ("1", |row| vec![text(row.k)]), ("3", |_| vec![])];
        for (grouping, key) in sets {
            expected.extend(model::grouped(&rows, key, &windows).iter().map(|g| {
                let mut row = g.key.clone();
                row.resize_with(2, null);
                row.extend([grouping.to_string(), g.window.0.to_string(), g.rows.len().to_string()]);
                row
            }));
        }
        let sql = format!(
            "SELECT k, s, GROUPING_ID(k, s), window_start, COUNT(*) FROM {from}
             GROUP BY window_start, window_end, ROLLUP (k, s)"
        );
        let input = Input { name: "t", rows: &rows, delay_ms: disorder.delay_ms };
        check(case, &[input], &sql, expected);
    }
}
