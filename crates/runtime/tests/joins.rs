//! Window, interval and regular joins against brute-force models: the same rows for any number of workers and splits and any
//! buffer size.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod support;

use millstream_plan::expr::{CompareOp, Expr, ExprKind};
use millstream_plan::logical::JoinKind;
use millstream_plan::pipeline::*;
use millstream_runtime::*;
use millstream_types::{DataType, Field, Schema};
use std::collections::BTreeMap;
use std::sync::Arc;
use support::keyed::*;
use support::*;

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
                kind: KeyedKind::WindowJoin { kind, residual: residual.clone() },
                inputs: vec![keyed_input(Some(0)), keyed_input(Some(0))],
                keys: name_key(),
                output: joined_output(kind),
            };
            check(&format!("{kind:?}"), &operator, &inputs, expected, late_left + late_right);
        }
    }
}

#[test]
fn interval_joins_pair_rows_whose_times_are_near() {
    use JoinKind::*;
    let bounds = [(-20, 20), (-50, -10), (5, 40), (0, 0), (-200, 5)];
    for (seed, kind) in [Inner, Left, Right, Full].into_iter().enumerate() {
        for (i, (lower, upper)) in bounds.into_iter().enumerate() {
            let residual = (i % 2 == 1).then(|| less(1, 4));
            let (left_reach, right_reach) = ((-lower).max(0), upper.max(0));
            let inputs = [rows(seed as u64 + 7, 1, 150, 1, 0), rows(seed as u64 + 70, 2, 100, 1, 0)];
            let (left, late_left) = in_merged_order(&inputs[0], Some(left_reach));
            let (right, late_right) = in_merged_order(&inputs[1], Some(right_reach));
            let meets = |l: &Arrived, r: &Arrived| {
                (r.time + lower..=r.time + upper).contains(&l.time) && (residual.is_none() || l.number < r.number)
            };
            let expected = joined(&left, &right, kind, meets);
            let operator = KeyedOperator {
                kind: KeyedKind::IntervalJoin { kind, lower_ms: lower, upper_ms: upper, residual: residual.clone() },
                inputs: vec![keyed_input(Some(left_reach)), keyed_input(Some(right_reach))],
                keys: name_key(),
                output: joined_output(kind),
            };
            check(&format!("{kind:?} {lower}..{upper}"), &operator, &inputs, expected, late_left + late_right);
        }
    }
}

#[test]
fn interval_joins_forget_rows_and_keys_that_are_dead() {
    // Far more rows than are kept before dead ones are looked for; every key is there a few times.
    let split = |shift: i64| (0..300_000).map(|i| (Some(i / 4 + shift), i / 3, None)).collect::<Vec<Row>>();
    let inputs = [vec![split(0)], vec![split(2)]];
    let (left, right) = (in_merged_order(&inputs[0], Some(5)).0, in_merged_order(&inputs[1], Some(5)).0);
    let mut by_number: BTreeMap<i64, Vec<&Arrived>> = BTreeMap::new();
    right.iter().for_each(|r| by_number.entry(r.number).or_default().push(r));
    let mut expected = Vec::new();
    for l in &left {
        let partners = by_number.get(&l.number).into_iter().flatten().filter(|r| (l.time - r.time).abs() <= 5);
        expected.extend(partners.map(|r| format!("{},{}", l.text(), r.text())));
    }
    expected.sort();
    let by_key = || KeyedInput { keys: vec![1], ..keyed_input(Some(5)) };
    let operator = KeyedOperator {
        kind: KeyedKind::IntervalJoin { kind: JoinKind::Full, lower_ms: -5, upper_ms: 5, residual: None },
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
        for ttl_ms in [None, Some(3_600_000)] {
            let operator = KeyedOperator {
                kind: KeyedKind::RegularJoin { ttl_ms, residual: residual.clone() },
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
        kind: KeyedKind::RegularJoin { ttl_ms: None, residual: None },
        inputs: vec![keyed_input(None), keyed_input(None)],
        keys: name_key(),
        output: joined_output(JoinKind::Inner),
    };
    check("nothing to join", &join, &[vec![], vec![vec![]]], vec![], 0);
}

#[test]
fn nothing_that_an_interval_join_outputs_is_late() {
    for (seed, (lower, upper)) in [(-30, 20), (10, 60)].into_iter().enumerate() {
        for of_left in [true, false] {
            let (left_reach, right_reach) = ((-lower).max(0), upper.max(0));
            let inputs = [rows(seed as u64 + 5, 2, 150, 1, 0), rows(seed as u64 + 60, 1, 200, 1, 0)];
            let (left, late_left) = in_merged_order(&inputs[0], Some(left_reach));
            let (right, late_right) = in_merged_order(&inputs[1], Some(right_reach));
            let meets = |l: &&Arrived, r: &&Arrived| {
                l.name.is_some() && l.name == r.name && (r.time + lower..=r.time + upper).contains(&l.time)
            };
            let shown = |(l, r): (&Arrived, &Arrived)| if of_left { l.clone() } else { r.clone() };
            let pairs = left.iter().flat_map(|l| right.iter().filter(move |r| meets(&l, r)).map(move |r| (l, r)));
            let expected = sessions_of_output(pairs.map(shown).collect(), 12);
            let join = KeyedOperator {
                kind: KeyedKind::IntervalJoin {
                    kind: JoinKind::Inner,
                    lower_ms: lower,
                    upper_ms: upper,
                    residual: None,
                },
                inputs: vec![keyed_input(Some(left_reach)), keyed_input(Some(right_reach))],
                keys: name_key(),
                output: joined_output(JoinKind::Inner),
            };
            let first = if of_left { 0 } else { 3 };
            let fields = source_schema().fields;
            let columns = (0..3).map(|i| Expr::column(first + i, fields[i].data_type.clone(), true)).collect();
            let what = format!("join {lower}..{upper}, left {of_left}");
            let late = late_left + late_right;
            check_plan(&what, &with_sessions(plan(join), columns, 12), &inputs, expected, late);
        }
    }
}
