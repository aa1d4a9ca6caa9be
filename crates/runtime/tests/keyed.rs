//! Keyed operators against brute-force models: the same rows for any number of workers, splits and any buffer size.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod support;

use millstream_abi::{Accumulator, Finish, ObjectKind, Phys};
use millstream_plan::expr::{CompareOp, Expr, ExprKind};
use millstream_plan::logical::{Frame, JoinKind, RankFunction};
use millstream_plan::pipeline::*;
use millstream_runtime::*;
use millstream_types::{DataType, Field, Schema};
use std::collections::BTreeMap;
use std::sync::Arc;
use support::*;

const DELAY_MS: i64 = 60;

/// A row that has arrived at the operator, in merged order.
#[derive(Debug, Clone)]
struct Arrived {
    watermark: i64,
    time: i64,
    number: i64,
    name: Option<String>,
}

impl Arrived {
    fn text(&self) -> String {
        format!("{},{},{}", self.time, self.number, text(&self.name))
    }
}

fn text(name: &Option<String>) -> &str {
    name.as_deref().unwrap_or("NULL")
}

/// Rows with few names, some of them NULL, in times that are multiples of `step` plus `shift`.
fn rows(seed: u64, splits: usize, rows: usize, step: i64, shift: i64) -> Vec<Vec<Row>> {
    let mut random = Random(seed * 104_729 + 17);
    let split = |_| {
        let mut now = random.below(300) as i64 - 200;
        let row = |_| {
            now += random.below(9) as i64 + if random.below(60) == 0 { 250 } else { 0 };
            let behind = if random.below(15) == 0 { random.below(400) } else { random.below(50) } as i64;
            let time = (now - behind).div_euclid(step) * step + shift;
            let name = match random.below(6) {
                0 => None,
                1 => Some("n".to_string()),
                n => Some(format!("the long name of number {n}")),
            };
            (Some(time), random.below(20) as i64 - 8, name)
        };
        (0..rows).map(row).collect()
    };
    (0..splits).map(split).collect()
}

/// The rows of all splits in merged order, without those that are late by `reach_ms`.
fn merged(splits: &[Vec<Row>], reach_ms: Option<i64>) -> (Vec<Arrived>, u64) {
    let (mut all, mut late) = (Vec::new(), 0);
    for (stream, split) in splits.iter().enumerate() {
        let mut watermark = i64::MIN;
        for (position, (time, number, name)) in split.iter().enumerate() {
            let time = time.unwrap();
            if reach_ms.is_some_and(|reach| time + reach <= watermark) {
                late += 1;
            } else {
                all.push((
                    (watermark, stream, position),
                    Arrived { watermark, time, number: *number, name: name.clone() },
                ));
            }
            watermark = watermark.max(time - DELAY_MS);
        }
    }
    all.sort_by_key(|(place, _)| *place);
    (all.into_iter().map(|(_, row)| row).collect(), late)
}

fn keyed_input(reach_ms: Option<i64>) -> KeyedInput {
    KeyedInput { schema: source_schema(), keys: vec![2], time: Some(0), reach_ms }
}

fn name_key() -> Vec<Field> {
    vec![Field::new("name", DataType::STRING, true)]
}

fn plan(operator: KeyedOperator) -> QueryPlan {
    let exchange = |port: usize| Pipeline {
        input: PipelineInput::Source(port),
        schema: source_schema(),
        operators: vec![],
        end: PipelineEnd::Exchange { operator: 0, port },
    };
    let output = operator.output.clone();
    let mut pipelines: Vec<Pipeline> = (0..operator.inputs.len()).map(exchange).collect();
    pipelines.push(Pipeline {
        input: PipelineInput::Operator(0),
        schema: output.clone(),
        operators: vec![],
        end: PipelineEnd::Sink(0),
    });
    QueryPlan {
        sources: operator.inputs.iter().map(|_| source_plan(delay(DELAY_MS))).collect(),
        operators: vec![operator],
        pipelines,
        sinks: vec![sink_plan(output, None)],
        ..QueryPlan::default()
    }
}

/// [`check_plan`] of an operator over sources.
fn check(what: &str, operator: &KeyedOperator, inputs: &[Vec<Vec<Row>>], expected: Vec<String>, late: u64) {
    check_plan(what, &plan(operator.clone()), inputs, expected, late);
}

/// Runs under every configuration and compares with what the model says.
fn check_plan(what: &str, plan: &QueryPlan, inputs: &[Vec<Vec<Row>>], mut expected: Vec<String>, late: u64) {
    expected.sort();
    for workers in [1, 2, 8] {
        for buffer_rows in [1, 7, 0] {
            let sink = MemorySink::default();
            let written = Arc::clone(&sink.written);
            let chunk = if buffer_rows == 0 { 10_000 } else { 50 };
            let sources = inputs.iter().map(|splits| connector(MemorySource::of(splits, chunk))).collect();
            let input = input(plan.clone(), sources, vec![sink]);
            let (result, stats) = run_within(input, config(workers, buffer_rows), CancelToken::new());
            result.unwrap();
            assert!(written.is_finished());
            let mut found = written.rows();
            found.sort();
            let configuration = format!("{what}: {workers} workers, buffers of {buffer_rows}");
            if let Some(i) = (0..found.len().max(expected.len())).find(|&i| found.get(i) != expected.get(i)) {
                panic!(
                    "{configuration}: {} rows instead of {}; row {i} is {:?} instead of {:?}",
                    found.len(),
                    expected.len(),
                    found.get(i),
                    expected.get(i)
                );
            }
            assert_eq!(stats.late_rows, late, "{configuration}");
        }
    }
}

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
            let ((left, late_left), (right, late_right)) = (merged(&inputs[0], Some(0)), merged(&inputs[1], Some(0)));
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
            let (left, late_left) = merged(&inputs[0], Some(left_reach));
            let (right, late_right) = merged(&inputs[1], Some(right_reach));
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
    let (left, right) = (merged(&inputs[0], Some(5)).0, merged(&inputs[1], Some(5)).0);
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
        let (left, right) = (merged(&inputs[0], None).0, merged(&inputs[1], None).0);
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

fn with(fields: &[(&str, DataType)]) -> Schema {
    let mut output = source_schema();
    output.fields.extend(fields.iter().map(|(name, data_type)| Field::new(*name, data_type.clone(), true)));
    output
}

#[test]
fn ranks_number_the_rows_of_a_window() {
    let functions = [RankFunction::RowNumber, RankFunction::Rank, RankFunction::DenseRank];
    for (seed, (function, range)) in
        functions.into_iter().flat_map(|f| [(f, (1, 3)), (f, (2, u64::MAX)), (f, (1, 1))]).enumerate()
    {
        let inputs = [rows(seed as u64, 2, 200, 100, 99)];
        let (arrived, late) = merged(&inputs[0], Some(0));
        let descending = seed % 2 == 0;
        let mut partitions: BTreeMap<(i64, Option<String>), Vec<Arrived>> = BTreeMap::new();
        arrived.into_iter().for_each(|a| partitions.entry((a.time, a.name.clone())).or_default().push(a));
        let mut expected = Vec::new();
        for mut partition in partitions.into_values() {
            partition.sort_by_key(|a| if descending { -a.number } else { a.number });
            for (i, row) in partition.iter().enumerate() {
                let smaller =
                    partition.iter().filter(|a| if descending { a.number > row.number } else { a.number < row.number });
                let numbers: Vec<i64> = smaller.map(|a| a.number).collect();
                let distinct = numbers.iter().collect::<std::collections::BTreeSet<_>>().len();
                let rank = match function {
                    RankFunction::RowNumber => i + 1,
                    RankFunction::Rank => numbers.len() + 1,
                    RankFunction::DenseRank => distinct + 1,
                } as u64;
                if (range.0..=range.1).contains(&rank) {
                    expected.push(format!("{},{rank}", row.text()));
                }
            }
        }
        let operator = KeyedOperator {
            kind: KeyedKind::Rank {
                order: vec![SortColumn { column: 1, descending, nulls_first: true }],
                function,
                range,
            },
            inputs: vec![keyed_input(Some(0))],
            keys: name_key(),
            output: with(&[("rank", DataType::BigInt)]),
        };
        check(&format!("{function:?} {range:?}"), &operator, &inputs, expected, late);
    }
}

#[test]
fn a_window_of_many_rows_is_cut_down_to_the_first_ranks() {
    let mut random = Random(99);
    let split: Vec<Row> = (0..100_000).map(|i| (Some(999), random.below(1 << 40) as i64 * 2 + (i & 1), None)).collect();
    let mut numbers: Vec<i64> = split.iter().map(|r| r.1).collect();
    numbers.sort_unstable();
    let expected: Vec<String> = (1..=10).map(|rank| format!("999,{},NULL,{rank}", numbers[rank - 1])).collect();
    let operator = KeyedOperator {
        kind: KeyedKind::Rank {
            order: vec![SortColumn { column: 1, descending: false, nulls_first: true }],
            function: RankFunction::RowNumber,
            range: (1, 10),
        },
        inputs: vec![keyed_input(Some(0))],
        keys: name_key(),
        output: with(&[("rank", DataType::BigInt)]),
    };
    let (found, _) = run_to_end(plan(operator), MemorySource::of(&[split], 9_000), config(2, 0));
    assert_eq!(found, expected);
}

/// `COUNT(*), SUM(key), LISTAGG(CAST(name …))`, here the names themselves, and MAX(name).
fn aggregates() -> SlotAggregates {
    let name = Expr::column(2, DataType::STRING, true);
    let list = Accumulator::Object(ObjectKind::List { keeps_nulls: false }, Phys::I64);
    let components = vec![Accumulator::Count, Accumulator::SumI64, list, Accumulator::MaxStr];
    let output = |component, finish, data_type, nullable| ComponentOutput { component, finish, data_type, nullable };
    SlotAggregates {
        updates: vec![count_all(), argument(key_column()), argument(key_column()), argument(name)],
        outputs: vec![
            output(0, Finish::Value, DataType::BigInt, false),
            output(1, Finish::Value, DataType::BigInt, false),
            output(2, Finish::Mode, DataType::BigInt, true),
            output(3, Finish::Value, DataType::STRING, true),
        ],
        components,
    }
}

fn aggregate_fields() -> Vec<Field> {
    let types = [DataType::BigInt, DataType::BigInt, DataType::BigInt, DataType::STRING];
    types.into_iter().enumerate().map(|(i, t)| Field::new(format!("a{i}"), t, true)).collect()
}

/// What [`aggregates`] gives for rows.
fn aggregated<'a>(rows: impl IntoIterator<Item = &'a Arrived>) -> String {
    let rows: Vec<&Arrived> = rows.into_iter().collect();
    let mut counts: BTreeMap<i64, usize> = BTreeMap::new();
    rows.iter().for_each(|r| *counts.entry(r.number).or_default() += 1);
    let most = counts.values().max().copied().unwrap_or(0);
    let mode = counts.iter().find(|&(_, &n)| n == most).map_or("NULL".into(), |(number, _)| number.to_string());
    let name = rows.iter().filter_map(|r| r.name.as_deref()).max().unwrap_or("NULL");
    format!("{},{},{mode},{name}", rows.len(), rows.iter().map(|r| r.number).sum::<i64>())
}

#[test]
fn over_aggregates_take_in_the_rows_before() {
    let frames = [
        (Frame::Rows(None), true),
        (Frame::Rows(Some(0)), true),
        (Frame::Rows(Some(3)), true),
        (Frame::Range(None), true),
        (Frame::Range(Some(0)), true),
        (Frame::Range(Some(40)), true),
        (Frame::Rows(None), false),
        (Frame::Rows(Some(5)), false),
    ];
    for (seed, (frame, has_time)) in frames.into_iter().enumerate() {
        // Coarse times, so that there are peers.
        let inputs = [rows(seed as u64 + 11, 2, 150, 10, 0)];
        let (mut arrived, late) = merged(&inputs[0], has_time.then_some(0));
        if has_time {
            arrived.sort_by_key(|a| a.time);
        }
        let mut expected = Vec::new();
        for (i, row) in arrived.iter().enumerate() {
            let of_key: Vec<usize> = (0..arrived.len()).filter(|&j| arrived[j].name == row.name).collect();
            let until_now: Vec<usize> = of_key.iter().copied().filter(|&j| j <= i).collect();
            let counts: Vec<usize> = match frame {
                Frame::Rows(None) => until_now,
                Frame::Rows(Some(n)) => until_now.into_iter().rev().take(n as usize + 1).collect(),
                Frame::Range(bound) => of_key
                    .into_iter()
                    .filter(|&j| arrived[j].time <= row.time && bound.is_none_or(|ms| arrived[j].time >= row.time - ms))
                    .collect(),
            };
            expected.push(format!("{},{}", row.text(), aggregated(counts.into_iter().map(|j| &arrived[j]))));
        }
        let mut output = source_schema();
        output.fields.extend(aggregate_fields());
        let time = if has_time { Some(0) } else { None };
        let operator = KeyedOperator {
            kind: KeyedKind::Over { frame, aggregates: aggregates() },
            inputs: vec![KeyedInput { time, ..keyed_input(has_time.then_some(0)) }],
            keys: name_key(),
            output,
        };
        check(&format!("{frame:?}"), &operator, &inputs, expected, late);
    }
}

struct Session {
    start: i64,
    end: i64,
    rows: Vec<Arrived>,
}

/// The sessions of a key as Flink makes them, and the number of late rows.
fn sessions(rows: &[Arrived], gap: i64) -> (Vec<Session>, u64) {
    let (mut done, mut open, mut late) = (Vec::new(), Vec::<Session>::new(), 0);
    for row in rows {
        let (over, mut still): (Vec<Session>, Vec<Session>) =
            open.into_iter().partition(|s| s.end - 1 <= row.watermark);
        done.extend(over);
        let mut window = Session { start: row.time, end: row.time + gap, rows: vec![row.clone()] };
        let (start, end) = (window.start, window.end);
        let (meeting, others): (Vec<Session>, Vec<Session>) =
            still.drain(..).partition(|s| s.start <= end && start <= s.end);
        open = others;
        for session in meeting {
            window.start = window.start.min(session.start);
            window.end = window.end.max(session.end);
            window.rows.extend(session.rows);
        }
        if window.end - 1 <= row.watermark {
            assert_eq!(window.rows.len(), 1, "an open session is not late");
            late += 1;
        } else {
            open.push(window);
        }
    }
    done.extend(open);
    (done, late)
}

fn by_name(rows: Vec<Arrived>) -> BTreeMap<Option<String>, Vec<Arrived>> {
    let mut keys: BTreeMap<Option<String>, Vec<Arrived>> = BTreeMap::new();
    rows.into_iter().for_each(|row| keys.entry(row.name.clone()).or_default().push(row));
    keys
}

fn window_fields() -> [Field; 2] {
    ["window_start", "window_end"].map(|name| Field::new(name, TIME, false))
}

fn windowed_operators(aggregate: KeyedKind, of_rows: KeyedKind) -> [KeyedOperator; 2] {
    let mut aggregate_output = name_key();
    aggregate_output.extend(aggregate_fields());
    aggregate_output.extend(window_fields());
    let mut rows_output = source_schema();
    rows_output.fields.extend(window_fields());
    let operator = |kind, output| KeyedOperator { kind, inputs: vec![keyed_input(None)], keys: name_key(), output };
    [operator(aggregate, Schema::new(aggregate_output)), operator(of_rows, rows_output)]
}

#[test]
fn sessions_end_where_nothing_comes_for_the_gap() {
    for (seed, gap_ms) in [1, 7, 25, 60, 300].into_iter().enumerate() {
        let inputs = [rows(seed as u64 + 21, 1 + seed % 3, 250, 1 + seed as i64 % 2 * 4, 0)];
        let (mut aggregates_expected, mut rows_expected, mut late) = (vec![], vec![], 0);
        for (name, rows) in by_name(merged(&inputs[0], None).0) {
            let (sessions, late_rows) = sessions(&rows, gap_ms);
            late += late_rows;
            for Session { start, end, rows } in sessions {
                aggregates_expected.push(format!("{},{},{start},{end}", text(&name), aggregated(&rows)));
                rows_expected.extend(rows.iter().map(|r| format!("{},{start},{end}", r.text())));
            }
        }
        let [aggregate, of_rows] = windowed_operators(
            KeyedKind::SessionAggregate { gap_ms, aggregates: aggregates() },
            KeyedKind::SessionRows { gap_ms },
        );
        check(&format!("gap {gap_ms}"), &aggregate, &inputs, aggregates_expected, late);
        check(&format!("rows, gap {gap_ms}"), &of_rows, &inputs, rows_expected, late);
    }
}

/// Sessions of rows that another operator has output: they are not late, and those that touch are one.
fn sessions_of_output(rows: Vec<Arrived>, gap_ms: i64) -> Vec<String> {
    let mut expected = Vec::new();
    for (name, mut rows) in by_name(rows) {
        rows.iter_mut().for_each(|r| r.watermark = i64::MIN);
        rows.sort_by_key(|r| r.time);
        let of_session = |s: &Session| format!("{},{},{},{}", text(&name), aggregated(&s.rows), s.start, s.end);
        expected.extend(sessions(&rows, gap_ms).0.iter().map(of_session));
    }
    expected
}

/// Adds sessions to a plan whose last pipeline comes out of an operator: of `columns` of its output, as in the source.
fn with_sessions(mut plan: QueryPlan, columns: Vec<Expr>, gap_ms: i64) -> QueryPlan {
    let [sessions, _] = windowed_operators(
        KeyedKind::SessionAggregate { gap_ms, aggregates: aggregates() },
        KeyedKind::SessionRows { gap_ms },
    );
    let (operator, output) = (plan.operators.len(), sessions.output.clone());
    plan.operators.push(sessions);
    let last = plan.pipelines.last_mut().unwrap();
    last.operators = vec![Operator::Project(columns)];
    last.end = PipelineEnd::Exchange { operator, port: 0 };
    plan.pipelines.push(Pipeline {
        input: PipelineInput::Operator(operator),
        schema: output.clone(),
        operators: vec![],
        end: PipelineEnd::Sink(0),
    });
    plan.sinks = vec![sink_plan(output, None)];
    plan
}

#[test]
fn sessions_of_windows_that_touch_are_one() {
    let size_ms = 20;
    for (seed, gap_ms) in [10, 20, 35].into_iter().enumerate() {
        let inputs = [rows(seed as u64 + 41, 2, 250, 1, 0)];
        let (arrived, _) = merged(&inputs[0], None);
        let (mut windows, mut late) = (BTreeMap::<(i64, Option<String>), i64>::new(), 0);
        for row in arrived {
            let start = row.time.div_euclid(size_ms) * size_ms;
            if start + size_ms - 1 <= row.watermark {
                late += 1;
            } else {
                *windows.entry((start, row.name)).or_default() += 1;
            }
        }
        let of_window = |((start, name), number)| Arrived { watermark: 0, time: start + size_ms - 1, number, name };
        let expected = sessions_of_output(windows.into_iter().map(of_window).collect(), gap_ms);
        let aggregation = aggregation(tumble(size_ms), name_key());
        let output = aggregation.output_schema();
        let update = PipelineEnd::Aggregate {
            aggregation: 0,
            time: Some(time_column()),
            keys: vec![Expr::column(2, DataType::STRING, true)],
            updates: vec![count_all(), argument(key_column())],
        };
        let pipeline = |input, schema, end| Pipeline { input, schema, operators: vec![], end };
        let windows = QueryPlan {
            sources: vec![source_plan(delay(DELAY_MS))],
            pipelines: vec![
                pipeline(PipelineInput::Source(0), source_schema(), update),
                pipeline(PipelineInput::Aggregation(0), output, PipelineEnd::Sink(0)),
            ],
            aggregations: vec![aggregation],
            ..QueryPlan::default()
        };
        let last = Expr::literal(millstream_types::Value::Int(-1), DataType::IntervalMilli);
        let end = Box::new(Expr::column(4, TIME, false));
        let columns = vec![
            Expr::new(ExprKind::AddInterval(end, Box::new(last)), TIME, true),
            Expr::column(1, DataType::BigInt, false),
            Expr::column(0, DataType::STRING, true),
        ];
        let what = format!("windows, gap {gap_ms}");
        check_plan(&what, &with_sessions(windows, columns, gap_ms), &inputs, expected, late);
    }
}

#[test]
fn nothing_that_an_interval_join_outputs_is_late() {
    for (seed, (lower, upper)) in [(-30, 20), (10, 60)].into_iter().enumerate() {
        for of_left in [true, false] {
            let (left_reach, right_reach) = ((-lower).max(0), upper.max(0));
            let inputs = [rows(seed as u64 + 5, 2, 150, 1, 0), rows(seed as u64 + 60, 1, 200, 1, 0)];
            let (left, late_left) = merged(&inputs[0], Some(left_reach));
            let (right, late_right) = merged(&inputs[1], Some(right_reach));
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

#[test]
fn sessions_of_many_keys_leave_nothing_behind() {
    // Every key comes twice; a hundred thousand of them come and go.
    let split: Vec<Row> = (0..200_000).map(|i| (Some(i), i / 2, None)).collect();
    let expected: Vec<String> =
        (0..100_000).map(|k| format!("{k},2,{},{k},NULL,{},{}", 2 * k, 2 * k, 2 * k + 1 + 50)).collect();
    let mut output = vec![Field::new("key", DataType::BigInt, false)];
    output.extend(aggregate_fields());
    output.extend(window_fields());
    let operator = KeyedOperator {
        kind: KeyedKind::SessionAggregate { gap_ms: 50, aggregates: aggregates() },
        inputs: vec![KeyedInput { keys: vec![1], ..keyed_input(None) }],
        keys: vec![Field::new("key", DataType::BigInt, false)],
        output: Schema::new(output),
    };
    let (mut found, stats) = run_to_end(plan(operator), MemorySource::of(&[split], 5_000), config(2, 0));
    found.sort_by_key(|row| row.split(',').next().unwrap().parse::<i64>().unwrap());
    assert_eq!(found, expected);
    assert_eq!(stats.windows_fired, 100_000);
}

#[test]
fn count_windows_are_full_or_nothing() {
    let shapes = [(1, 1), (4, 4), (6, 2), (6, 4), (5, 3), (3, 5), (4, 6), (100, 1), (1000, 1000)];
    for (seed, (size, slide)) in shapes.into_iter().enumerate() {
        let inputs = [rows(seed as u64 + 31, 1 + seed % 2, 250, 1, 0)];
        let (mut aggregates_expected, mut rows_expected) = (vec![], vec![]);
        for (name, rows) in by_name(merged(&inputs[0], None).0) {
            for window in (0..).step_by(slide).map_while(|start| rows.get(start..start + size)) {
                let start = window.iter().map(|r| r.time).min().unwrap();
                let end = window.iter().map(|r| r.time).max().unwrap() + 1;
                aggregates_expected.push(format!("{},{},{start},{end}", text(&name), aggregated(window)));
                rows_expected.extend(window.iter().map(|r| format!("{},{start},{end}", r.text())));
            }
        }
        let (size, slide) = (size as u64, slide as u64);
        let [aggregate, of_rows] = windowed_operators(
            KeyedKind::CountAggregate { size, slide, aggregates: aggregates() },
            KeyedKind::CountRows { size, slide },
        );
        check(&format!("{size} every {slide}"), &aggregate, &inputs, aggregates_expected, 0);
        check(&format!("rows, {size} every {slide}"), &of_rows, &inputs, rows_expected, 0);
    }
}

#[test]
fn operators_without_rows_end() {
    let [aggregate, _] = windowed_operators(
        KeyedKind::SessionAggregate { gap_ms: 10, aggregates: aggregates() },
        KeyedKind::SessionRows { gap_ms: 10 },
    );
    check("nothing", &aggregate, &[vec![]], vec![], 0);
    check("empty splits", &aggregate, &[vec![vec![], vec![]]], vec![], 0);
    let join = KeyedOperator {
        kind: KeyedKind::RegularJoin { ttl_ms: None, residual: None },
        inputs: vec![keyed_input(None), keyed_input(None)],
        keys: name_key(),
        output: joined_output(JoinKind::Inner),
    };
    check("nothing to join", &join, &[vec![], vec![vec![]]], vec![], 0);
}

#[test]
fn a_stopped_query_does_not_output_incomplete_windows() {
    let [aggregate, _] = windowed_operators(
        KeyedKind::SessionAggregate { gap_ms: 10, aggregates: aggregates() },
        KeyedKind::SessionRows { gap_ms: 10 },
    );
    let row = |time: i64| (Some(time), 1, Some("n".to_string()));
    let gate = Arc::new(Gate::default());
    let steps = vec![Step::Rows(vec![row(0), row(5), row(500)]), Step::Wait(Arc::clone(&gate)), Step::Rows(vec![])];
    let source = MemorySource { splits: vec![steps], bounded: false };
    let sink = MemorySink::default();
    let written = Arc::clone(&sink.written);
    let cancel = CancelToken::new();
    let stopper = cancel.clone();
    let seen = Arc::clone(&written);
    let stop = std::thread::spawn(move || {
        while seen.rows().is_empty() {
            std::thread::yield_now();
        }
        stopper.stop();
    });
    let input = input(plan(aggregate), vec![connector(source)], vec![sink]);
    let (result, _) = run_within(input, config(2, 0), cancel);
    stop.join().unwrap();
    gate.open();
    assert_eq!(result.unwrap_err().code, millstream_types::code::CANCELLED);
    assert_eq!(written.rows(), ["n,2,2,1,n,0,15"]);
}
