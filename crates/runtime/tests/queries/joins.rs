//! Window, interval and regular joins against brute-force models: the same rows for any number of workers and splits and any
//! buffer size.

use crate::support::keyed::*;
use crate::support::*;
use millstream_plan::expr::{CompareOp, Expr, ExprKind};
use millstream_plan::logical::JoinKind;
use millstream_plan::pipeline::*;
use millstream_plan::window::Timeline;
use millstream_runtime::*;
use millstream_types::{DataType, Field, Schema};
use std::collections::BTreeMap;
use std::sync::Arc;

fn joined_output(kind: JoinKind) -> Schema {
    let mut output = source_schema();
    if kind.shows_right() {
        output.fields.extend(source_schema().fields);
        output.fields.iter_mut().for_each(|f| f.nullable = true);
    }
    output
}

fn less(left: usize, right: usize) -> Expr {
    let column = |i| Box::new(Expr::column(i, DataType::BigInt, false));
    Expr::new(ExprKind::Compare(CompareOp::Less, column(left), column(right)), DataType::Boolean, false)
}

/// What a join of these rows gives.
fn joined(
    left: &[Arrived],
    right: &[Arrived],
    kind: JoinKind,
    meets: impl Fn(&Arrived, &Arrived) -> bool,
) -> Vec<String> {
    let partners = |l: &Arrived, r: &Arrived| l.name.is_some() && l.name == r.name && meets(l, r);
    let (mut output, none) = (Vec::new(), "NULL,NULL,NULL");
    for l in left {
        let matches: Vec<&Arrived> = right.iter().filter(|r| partners(l, r)).collect();
        match kind {
            JoinKind::Semi if !matches.is_empty() => output.push(l.text()),
            JoinKind::Anti if matches.is_empty() => output.push(l.text()),
            JoinKind::Semi | JoinKind::Anti => {}
            _ => output.extend(matches.iter().map(|r| format!("{},{}", l.text(), r.text()))),
        }
        if matches.is_empty() && kind.right_is_optional() {
            output.push(format!("{},{none}", l.text()));
        }
    }
    let alone = |r: &&Arrived| kind.left_is_optional() && !left.iter().any(|l| partners(l, r));
    output.extend(right.iter().filter(alone).map(|r| format!("{none},{}", r.text())));
    output
}

#[test]
fn window_joins_pair_rows_of_the_same_window() {
    use JoinKind::*;
    for (seed, kind) in [Inner, Left, Right, Full, Semi, Anti].into_iter().enumerate() {
        for residual in [None, Some(less(1, 4))] {
            let inputs = [rows(seed as u64, 2, 150, 100, 99), rows(seed as u64 + 50, 1, 200, 100, 99)];
            let ((left, late_left), (right, late_right)) =
                (in_merged_order(&inputs[0], Some(0)), in_merged_order(&inputs[1], Some(0)));
            let meets = |l: &Arrived, r: &Arrived| l.time == r.time && (residual.is_none() || l.number < r.number);
            let expected = joined(&left, &right, kind, meets);
            let operator = KeyedOperator {
                partitioned_by: None,
                timeline: Timeline::Own,
                kind: KeyedKind::WindowJoin(WindowJoin { kind, residual: residual.clone() }),
                inputs: vec![keyed_input(Some(0)), keyed_input(Some(0))],
                keys: name_key(),
                output: joined_output(kind),
            };
            check(&format!("{kind:?}"), &operator, &inputs, expected, late_left + late_right);
        }
    }
}

/// What an interval join puts out: the two rows, and the watermark that it comes behind; rows that are late.
type Interval = (Vec<(Option<Arrived>, Option<Arrived>, i64)>, u64);

/// What an interval join does, row by row: a row meets those of the other side that the watermark before it is not beyond the last
/// partner of, and is kept itself if that is ahead of it.
fn interval(
    left: &[Arrived],
    right: &[Arrived],
    kind: JoinKind,
    (lower, upper): (i64, i64),
    meets: impl Fn(&Arrived, &Arrived) -> bool,
) -> Interval {
    let mut events: Vec<(usize, &Arrived)> = left.iter().map(|row| (0, row)).collect();
    events.extend(right.iter().map(|row| (1, row)));
    events.sort_by_key(|(port, row)| (row.watermark, *port));
    let (reach, is_outer) = ([-lower, upper], [kind.right_is_optional(), kind.left_is_optional()]);
    let mut kept: [Vec<(Arrived, bool)>; 2] = [Vec::new(), Vec::new()];
    let (mut output, mut late) = (Vec::new(), 0);
    let padded = |port: usize, row: Arrived, watermark| match port {
        0 => (Some(row), None, watermark),
        _ => (None, Some(row), watermark),
    };
    let sides = events.into_iter().map(Some).chain([None]);
    for event in sides {
        let watermark = event.map_or(i64::MAX, |(_, row)| row.watermark);
        for port in 0..2 {
            for (row, is_met) in kept[port].extract_if(.., |(row, _)| watermark > row.time + reach[port]) {
                if is_outer[port] && !is_met {
                    output.push(padded(port, row, i64::MIN));
                }
            }
        }
        let Some((port, row)) = event else { break };
        late += u64::from(row.time + reach[port].max(0) <= watermark && (row.name.is_some() || is_outer[port]));
        let mut is_met = false;
        for (other, is_other_met) in &mut kept[1 - port] {
            let (l, r) = if port == 0 { (row, &*other) } else { (&*other, row) };
            let is_near = (r.time + lower..=r.time + upper).contains(&l.time);
            if row.name.is_some() && row.name == other.name && is_near && meets(l, r) {
                output.push((Some(l.clone()), Some(r.clone()), watermark));
                (is_met, *is_other_met) = (true, true);
            }
        }
        if watermark < row.time + reach[port] {
            kept[port].push((row.clone(), is_met));
        } else if is_outer[port] && !is_met {
            output.push(padded(port, row.clone(), watermark));
        }
    }
    (output, late)
}

fn shown(row: &Option<Arrived>) -> String {
    row.as_ref().map_or("NULL,NULL,NULL".into(), Arrived::text)
}

#[test]
fn interval_joins_pair_rows_whose_times_are_near() {
    use JoinKind::*;
    let bounds = [(-20, 20), (-50, -10), (5, 40), (0, 0), (-200, 5)];
    for (seed, kind) in [Inner, Left, Right, Full].into_iter().enumerate() {
        for (i, (lower, upper)) in bounds.into_iter().enumerate() {
            let residual = (i % 2 == 1).then(|| less(1, 4));
            let step = if i < 2 { 1 } else { 10 };
            let inputs = [rows(seed as u64 + 7, 1, 150, step, 0), rows(seed as u64 + 70, 2, 100, step, 0)];
            let (left, right) = (in_merged_order(&inputs[0], None).0, in_merged_order(&inputs[1], None).0);
            let meets = |l: &Arrived, r: &Arrived| residual.is_none() || l.number < r.number;
            let (output, late) = interval(&left, &right, kind, (lower, upper), meets);
            assert!(late > 0);
            for port in 0..2 {
                let is_there = |row: &Arrived| {
                    output.iter().any(|o| [&o.0, &o.1][port].as_ref().map(Arrived::text) == Some(row.text()))
                };
                let is_outer = [kind.right_is_optional(), kind.left_is_optional()][port];
                assert!(!is_outer || [&left, &right][port].iter().all(is_there), "no row of a preserved side is lost");
            }
            let expected = output.iter().map(|(l, r, _)| format!("{},{}", shown(l), shown(r))).collect();
            let operator = KeyedOperator {
                partitioned_by: None,
                timeline: Timeline::Own,
                kind: KeyedKind::IntervalJoin(IntervalJoin {
                    kind,
                    lower_ms: lower,
                    upper_ms: upper,
                    residual: residual.clone(),
                }),
                inputs: vec![keyed_input(None), keyed_input(None)],
                keys: name_key(),
                output: joined_output(kind),
            };
            check(&format!("{kind:?} {lower}..{upper}"), &operator, &inputs, expected, late);
        }
    }
}

/// A row of the left with its version, in the order of output.
type Versioned = (Arrived, Option<Arrived>);

/// What a versioned join of these rows does, watermark by watermark, and how many rows of the left are late.
fn versioned(
    left: &[Arrived],
    right: &[Arrived],
    kind: JoinKind,
    meets: impl Fn(&Arrived, &Arrived) -> bool,
) -> (Vec<Versioned>, u64) {
    let mut events: Vec<(bool, &Arrived)> = left.iter().map(|row| (false, row)).collect();
    events.extend(right.iter().map(|row| (true, row)));
    events.sort_by_key(|(is_right, row)| (row.watermark, *is_right));
    let mut versions: BTreeMap<&String, BTreeMap<i64, &Arrived>> = BTreeMap::new();
    let (mut waiting, mut output, mut late, mut current) = (Vec::<&Arrived>::new(), Vec::new(), 0, i64::MIN);
    let mut advance = |watermark,
                       waiting: &mut Vec<&Arrived>,
                       versions: &mut BTreeMap<&String, BTreeMap<i64, &Arrived>>| {
        for row in waiting.extract_if(.., |row| row.time <= watermark) {
            let of_key = row.name.as_ref().and_then(|name| versions.get(name));
            let version = of_key.and_then(|of_key| of_key.range(..=row.time).next_back()).map(|(_, version)| *version);
            let version = version.filter(|version| meets(row, version)).cloned();
            if version.is_some() || kind == JoinKind::Left {
                output.push((row.clone(), version));
            }
        }
        for of_key in versions.values_mut() {
            let newest = of_key.range(..=watermark).next_back().map(|(time, _)| *time);
            of_key.retain(|time, _| newest.is_none_or(|newest| *time >= newest));
        }
    };
    for (is_right, row) in events {
        if row.watermark > current {
            current = row.watermark;
            advance(current, &mut waiting, &mut versions);
        }
        match (is_right, &row.name) {
            (true, Some(name)) => {
                versions.entry(name).or_default().insert(row.time, row);
            }
            (true, None) => {}
            (false, _) => {
                late += u64::from(row.time <= current);
                waiting.push(row);
            }
        }
    }
    advance(i64::MAX, &mut waiting, &mut versions);
    (output, late)
}

#[test]
fn versioned_joins_find_the_version_of_the_time() {
    for seed in 0..12 {
        let kind = if seed % 2 == 0 { JoinKind::Inner } else { JoinKind::Left };
        let residual = (seed % 3 == 2).then(|| less(1, 4));
        let step = [1, 10, 40][seed % 3];
        let inputs = [
            rows(seed as u64 + 81, 1 + seed % 2, 200, step, 0),
            rows(seed as u64 + 181, 1 + seed / 2 % 2, 120, step, 0),
        ];
        let (left, right) = (in_merged_order(&inputs[0], None).0, in_merged_order(&inputs[1], None).0);
        let (output, late) = versioned(&left, &right, kind, |l, r| residual.is_none() || l.number < r.number);
        assert!(late > 0 && output.iter().any(|(row, version)| version.is_some() && row.time <= row.watermark));
        let shown = |(row, version): &Versioned| {
            format!("{},{}", row.text(), version.as_ref().map_or("NULL,NULL,NULL".into(), Arrived::text))
        };
        let operator = KeyedOperator {
            partitioned_by: None,
            timeline: Timeline::Own,
            kind: KeyedKind::VersionedJoin(VersionedJoin { kind, residual: residual.clone() }),
            inputs: vec![keyed_input(None), keyed_input(None)],
            keys: name_key(),
            output: joined_output(JoinKind::Full),
        };
        check(&format!("{kind:?} {seed}"), &operator, &inputs, output.iter().map(shown).collect(), late);
        // Sessions over the left: those rows are late there that are for the watermark that they came behind.
        let mut rows: Vec<Arrived> = output.into_iter().map(|(row, _)| row).collect();
        rows.iter_mut().for_each(|row| row.watermark = row.watermark.max(row.time - 1) - 1);
        rows.sort_by_key(|row| row.watermark);
        let (mut expected, mut all_late) = (Vec::new(), late);
        for (name, rows) in by_name(rows) {
            let (sessions, late) = sessions(&rows, 25);
            all_late += late;
            let of_session = |s: &Session| format!("{},{},{},{}", text(&name), aggregated(&s.rows), s.start, s.end);
            expected.extend(sessions.iter().map(of_session));
        }
        let fields = source_schema().fields;
        let columns = (0..3).map(|i| Expr::column(i, fields[i].data_type.clone(), true)).collect();
        let what = format!("sessions over {kind:?} {seed}");
        check_plan(&what, &with_sessions(plan(operator), columns, 25), &inputs, expected, all_late);
    }
}

#[test]
fn versioned_joins_forget_versions_and_keys() {
    // Far more rows than are kept before dead ones are looked for; every key has a few versions, then comes no more.
    let orders: Vec<Row> = (0..200_000).map(|i| (Some(i), i / 5, None)).collect();
    let prices: Vec<Row> = (0..100_000).map(|i| (Some(2 * i - 1), i * 2 / 5, None)).collect();
    let newest = |i: i64| [(i + 1) / 2, (i - 1) / 2].into_iter().find(|&j| j < 100_000 && 2 * j / 5 == i / 5);
    let row = |i: i64| newest(i).map(|j| format!("{i},{},NULL,{},{},NULL", i / 5, 2 * j - 1, i / 5));
    let expected: Vec<String> = (0..200_000).filter_map(row).collect();
    let by_number = || KeyedInput { keys: vec![1], ..keyed_input(None) };
    let operator = KeyedOperator {
        partitioned_by: None,
        timeline: Timeline::Own,
        kind: KeyedKind::VersionedJoin(VersionedJoin { kind: JoinKind::Inner, residual: None }),
        inputs: vec![by_number(), by_number()],
        keys: vec![Field::new("key", DataType::BigInt, false)],
        output: joined_output(JoinKind::Full),
    };
    let sink = MemorySink::default();
    let written = Arc::clone(&sink.written);
    let sources = [orders, prices].map(|split| connector(MemorySource::of(&[split], 20_000))).into_iter().collect();
    let (result, _) = run_within(input(plan(operator), sources, vec![sink]), config(2, 0), CancelToken::new());
    result.unwrap();
    let (mut found, mut expected) = (written.rows(), expected);
    found.sort();
    expected.sort();
    assert_eq!(found.len(), expected.len());
    assert!(found == expected);
}

#[test]
fn interval_joins_forget_rows_and_keys_that_are_dead() {
    // Far more rows than are kept before dead ones are looked for; every key is there a few times.
    let split = |shift: i64| (0..300_000).map(|i| (Some(i / 4 + shift), i / 3, None)).collect::<Vec<Row>>();
    let inputs = [vec![split(0)], vec![split(2)]];
    let (left, right) = (in_merged_order(&inputs[0], None).0, in_merged_order(&inputs[1], None).0);
    let mut by_number: BTreeMap<i64, Vec<&Arrived>> = BTreeMap::new();
    right.iter().for_each(|r| by_number.entry(r.number).or_default().push(r));
    let mut expected = Vec::new();
    for l in &left {
        let partners = by_number.get(&l.number).into_iter().flatten().filter(|r| (l.time - r.time).abs() <= 5);
        expected.extend(partners.map(|r| format!("{},{}", l.text(), r.text())));
    }
    expected.sort();
    let by_key = || KeyedInput { keys: vec![1], ..keyed_input(None) };
    let operator = KeyedOperator {
        partitioned_by: None,
        timeline: Timeline::Own,
        kind: KeyedKind::IntervalJoin(IntervalJoin { kind: JoinKind::Full, lower_ms: -5, upper_ms: 5, residual: None }),
        inputs: vec![by_key(), by_key()],
        keys: vec![Field::new("key", DataType::BigInt, false)],
        output: joined_output(JoinKind::Full),
    };
    let sink = MemorySink::default();
    let written = Arc::clone(&sink.written);
    let sources = inputs.iter().map(|splits| connector(MemorySource::of(splits, 20_000))).collect();
    let (result, _) = run_within(input(plan(operator), sources, vec![sink]), config(2, 0), CancelToken::new());
    result.unwrap();
    let mut found: Vec<String> = written.rows();
    found.sort();
    assert_eq!(found.len(), expected.len());
    assert!(found == expected);
}

#[test]
fn regular_joins_pair_all_rows() {
    for (seed, residual) in [None, Some(less(1, 4))].into_iter().enumerate() {
        let inputs = [rows(seed as u64 + 3, 2, 60, 1, 0), rows(seed as u64 + 30, 2, 50, 1, 0)];
        let (left, right) = (in_merged_order(&inputs[0], None).0, in_merged_order(&inputs[1], None).0);
        let expected = joined(&left, &right, JoinKind::Inner, |l, r| residual.is_none() || l.number < r.number);
        for ttl_ms in [[None, None], [Some(3_600_000), Some(7_200_000)]] {
            let operator = KeyedOperator {
                partitioned_by: None,
                timeline: Timeline::Own,
                kind: KeyedKind::RegularJoin(RegularJoin { ttl_ms, residual: residual.clone() }),
                inputs: vec![
                    KeyedInput { time: None, ..keyed_input(None) },
                    KeyedInput { time: None, ..keyed_input(None) },
                ],
                keys: name_key(),
                output: joined_output(JoinKind::Inner),
            };
            check("regular join", &operator, &inputs, expected.clone(), 0);
        }
    }
}

#[test]
fn joins_without_rows_end() {
    let join = KeyedOperator {
        partitioned_by: None,
        timeline: Timeline::Own,
        kind: KeyedKind::RegularJoin(RegularJoin { ttl_ms: [None; 2], residual: None }),
        inputs: vec![keyed_input(None), keyed_input(None)],
        keys: name_key(),
        output: joined_output(JoinKind::Inner),
    };
    check("nothing to join", &join, &[vec![], vec![vec![]]], vec![], 0);
}

#[test]
fn only_what_comes_late_is_late_behind_an_interval_join() {
    let kinds = [JoinKind::Inner, JoinKind::Left, JoinKind::Right];
    for (seed, ((lower, upper), kind)) in [(-30, 20), (10, 60), (-60, -5)].into_iter().zip(kinds).enumerate() {
        for of_left in [true, false] {
            // The side that can be missing has no time.
            if (of_left && kind.left_is_optional()) || (!of_left && kind.right_is_optional()) {
                continue;
            }
            let inputs = [rows(seed as u64 + 5, 2, 150, 1, 0), rows(seed as u64 + 60, 1, 200, 1, 0)];
            let (left, right) = (in_merged_order(&inputs[0], None).0, in_merged_order(&inputs[1], None).0);
            let (output, mut late) = interval(&left, &right, kind, (lower, upper), |_, _| true);
            let held_back = (-lower).max(upper).max(0) + 1;
            // Rows come just in time, or behind the watermark of the output.
            let mut rows: Vec<Arrived> = output
                .into_iter()
                .map(|(l, r, watermark)| {
                    let row = if of_left { l } else { r }.unwrap();
                    Arrived { watermark: watermark.saturating_sub(held_back).max(row.time - 1) - 1, ..row }
                })
                .collect();
            assert!(kind == JoinKind::Inner || rows.iter().any(|row| row.watermark >= row.time));
            rows.sort_by_key(|row| row.watermark);
            let mut expected = Vec::new();
            for (name, rows) in by_name(rows) {
                let (sessions, late_rows) = sessions(&rows, 12);
                late += late_rows;
                let of_session = |s: &Session| format!("{},{},{},{}", text(&name), aggregated(&s.rows), s.start, s.end);
                expected.extend(sessions.iter().map(of_session));
            }
            let join = KeyedOperator {
                partitioned_by: None,
                timeline: Timeline::Own,
                kind: KeyedKind::IntervalJoin(IntervalJoin { kind, lower_ms: lower, upper_ms: upper, residual: None }),
                inputs: vec![keyed_input(None), keyed_input(None)],
                keys: name_key(),
                output: joined_output(kind),
            };
            let first = if of_left { 0 } else { 3 };
            let fields = source_schema().fields;
            let columns = (0..3).map(|i| Expr::column(first + i, fields[i].data_type.clone(), true)).collect();
            let what = format!("{kind:?} join {lower}..{upper}, left {of_left}");
            check_plan(&what, &with_sessions(plan(join), columns, 12), &inputs, expected, late);
        }
    }
}
