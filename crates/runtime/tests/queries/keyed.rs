//! Ranks, OVER, sessions and count windows against brute-force models: the same rows for any number of workers and splits
//! and any buffer size.

use crate::support::keyed::*;
use crate::support::*;
use millstream_plan::expr::{Expr, ExprKind};
use millstream_plan::logical::{Frame, RankFunction};
use millstream_plan::pipeline::*;
use millstream_plan::window::Timeline;
use millstream_runtime::*;
use millstream_types::{DataType, Field, Schema};
use std::collections::BTreeMap;
use std::sync::Arc;

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
        let (arrived, late) = in_merged_order(&inputs[0], Some(0));
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
            partitioned_by: None,
            timeline: Timeline::Own,
            kind: KeyedKind::Rank(Rank {
                order: vec![SortColumn { column: 1, descending, nulls_first: true }],
                function,
                range,
                ties: Ties::First,
            }),
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
        partitioned_by: None,
        timeline: Timeline::Own,
        kind: KeyedKind::Rank(Rank {
            order: vec![SortColumn { column: 1, descending: false, nulls_first: true }],
            function: RankFunction::RowNumber,
            range: (1, 10),
            ties: Ties::First,
        }),
        inputs: vec![keyed_input(Some(0))],
        keys: name_key(),
        output: with(&[("rank", DataType::BigInt)]),
    };
    let (found, _) = run_to_end(plan(operator), MemorySource::of(&[split], 9_000), config(2, 0));
    assert_eq!(found, expected);
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
        let is_bounded = matches!(frame, Frame::Rows(Some(_)) | Frame::Range(Some(_)));
        let reach = (has_time && !is_bounded).then_some(0);
        let (mut arrived, late) = in_merged_order(&inputs[0], reach);
        if has_time {
            if is_bounded {
                let (framed, late) = bounded_over(arrived, frame);
                assert!(late > 0);
                let shown = |(row, of): &Framed| format!("{},{}", row.text(), aggregated(of));
                let expected = framed.iter().map(shown).collect();
                check(&format!("{frame:?}"), &over(frame, Some(0), None), &inputs, expected, late);
                continue;
            }
            arrived.sort_by_key(|a| a.time);
        }
        let mut expected = Vec::new();
        for (i, row) in arrived.iter().enumerate() {
            let of_key: Vec<usize> = (0..arrived.len()).filter(|&j| arrived[j].name == row.name).collect();
            let until_now: Vec<usize> = of_key.iter().copied().filter(|&j| j <= i).collect();
            let counts: Vec<usize> = match frame {
                Frame::Rows(None) => until_now,
                Frame::Rows(Some(n)) => until_now.into_iter().rev().take(n as usize + 1).collect(),
                Frame::Range(_) => of_key.into_iter().filter(|&j| arrived[j].time <= row.time).collect(),
            };
            expected.push(format!("{},{}", row.text(), aggregated(counts.into_iter().map(|j| &arrived[j]))));
        }
        let time = if has_time { Some(0) } else { None };
        check(&format!("{frame:?}"), &over(frame, time, reach), &inputs, expected, late);
    }
}

/// OVER of the aggregates by name.
fn over(frame: Frame, time: Option<usize>, reach_ms: Option<i64>) -> KeyedOperator {
    let mut output = source_schema();
    output.fields.extend(aggregate_fields());
    KeyedOperator {
        partitioned_by: None,
        timeline: Timeline::Own,
        kind: KeyedKind::Over(Over { frame, aggregates: aggregates() }),
        inputs: vec![KeyedInput { time, ..keyed_input(reach_ms) }],
        keys: name_key(),
        output,
    }
}

#[test]
fn what_over_puts_out_behind_the_watermark_is_late_for_others() {
    // With a step of 1 most late rows are behind what was triggered for their key, with long frames they are not.
    for (seed, frame) in [Frame::Rows(Some(2)), Frame::Range(Some(40)), Frame::Range(Some(900))].into_iter().enumerate()
    {
        let inputs = [rows(seed as u64 + 51, 2, 200, 1, 0)];
        let (framed, mut late) = bounded_over(in_merged_order(&inputs[0], None).0, frame);
        // A row that is not late comes just in time, whenever that is; one that is late behind the watermark of its place.
        let mut rows: Vec<Arrived> = framed.into_iter().map(|(row, _)| row).collect();
        let is_late = |row: &Arrived| row.time <= row.watermark;
        assert!(rows.iter().any(is_late));
        rows.iter_mut().for_each(|row| row.watermark = row.watermark.max(row.time - 1));
        rows.sort_by_key(|row| row.watermark);
        let mut windows = BTreeMap::<(i64, Option<String>), (usize, i64)>::new();
        for row in &rows {
            let start = row.time.div_euclid(30) * 30;
            if start + 29 <= row.watermark {
                late += 1;
                continue;
            }
            let window = windows.entry((start, row.name.clone())).or_insert((0, i64::MIN));
            *window = (window.0 + 1, window.1.max(row.number));
        }
        let of_window = |((start, name), (count, most)): ((i64, Option<String>), (usize, i64))| {
            format!("{},{count},{most},{start},{}", text(&name), start + 30)
        };
        let expected = windows.into_iter().map(of_window).collect();
        let mut plan = plan(over(frame, Some(0), None));
        let aggregation = aggregation(tumble(30), name_key());
        let output = aggregation.output_schema();
        plan.pipelines[1].end = PipelineEnd::Aggregate {
            aggregation: 0,
            time: Some(time_column()),
            keys: vec![Expr::column(2, DataType::STRING, true)],
            updates: vec![count_all(), argument(key_column())],
        };
        plan.pipelines.push(Pipeline {
            input: PipelineInput::Aggregation(0),
            schema: output.clone(),
            operators: vec![],
            end: PipelineEnd::Sink(0),
        });
        (plan.aggregations, plan.sinks) = (vec![aggregation], vec![sink_plan(output, None)]);
        check_plan(&format!("windows over {frame:?}"), &plan, &inputs, expected, late);
    }
}

#[test]
fn sessions_end_where_nothing_comes_for_the_gap() {
    for (seed, gap_ms) in [1, 7, 25, 60, 300].into_iter().enumerate() {
        let inputs = [rows(seed as u64 + 21, 1 + seed % 3, 250, 1 + seed as i64 % 2 * 4, 0)];
        let (mut aggregates_expected, mut rows_expected, mut late) = (vec![], vec![], 0);
        for (name, rows) in by_name(in_merged_order(&inputs[0], None).0) {
            let (sessions, late_rows) = sessions(&rows, gap_ms);
            late += late_rows;
            for Session { start, end, rows } in sessions {
                aggregates_expected.push(format!("{},{},{start},{end}", text(&name), aggregated(&rows)));
                rows_expected.extend(rows.iter().map(|r| format!("{},{start},{end}", r.text())));
            }
        }
        let [aggregate, of_rows] = windowed_operators(
            KeyedKind::Sessions(Sessions { gap_ms, aggregates: Some(aggregates()) }),
            KeyedKind::Sessions(Sessions { gap_ms, aggregates: None }),
        );
        check(&format!("gap {gap_ms}"), &aggregate, &inputs, aggregates_expected, late);
        check(&format!("rows, gap {gap_ms}"), &of_rows, &inputs, rows_expected, late);
    }
}

#[test]
fn sessions_of_windows_that_touch_are_one() {
    let size_ms = 20;
    for (seed, gap_ms) in [10, 20, 35].into_iter().enumerate() {
        let inputs = [rows(seed as u64 + 41, 2, 250, 1, 0)];
        let (arrived, _) = in_merged_order(&inputs[0], None);
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
fn sessions_of_many_keys_leave_nothing_behind() {
    // Every key comes twice; a hundred thousand of them come and go.
    let split: Vec<Row> = (0..200_000).map(|i| (Some(i), i / 2, None)).collect();
    let expected: Vec<String> =
        (0..100_000).map(|k| format!("{k},2,{},{k},NULL,{},{}", 2 * k, 2 * k, 2 * k + 1 + 50)).collect();
    let mut output = vec![Field::new("key", DataType::BigInt, false)];
    output.extend(aggregate_fields());
    output.extend(window_fields());
    // Keys that are kept are renumbered without the other columns, even those that are never NULL.
    let mut input = KeyedInput { keys: vec![1], ..keyed_input(None) };
    input.schema.fields[0].nullable = false;
    let operator = KeyedOperator {
        partitioned_by: None,
        timeline: Timeline::Own,
        kind: KeyedKind::Sessions(Sessions { gap_ms: 50, aggregates: Some(aggregates()) }),
        inputs: vec![input],
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
        for (name, rows) in by_name(in_merged_order(&inputs[0], None).0) {
            for window in (0..).step_by(slide).map_while(|start| rows.get(start..start + size)) {
                let start = window.iter().map(|r| r.time).min().unwrap();
                let end = window.iter().map(|r| r.time).max().unwrap() + 1;
                aggregates_expected.push(format!("{},{},{start},{end}", text(&name), aggregated(window)));
                rows_expected.extend(window.iter().map(|r| format!("{},{start},{end}", r.text())));
            }
        }
        let (size, slide) = (size as u64, slide as u64);
        let [aggregate, of_rows] = windowed_operators(
            KeyedKind::CountWindows(CountWindows { size, slide, aggregates: Some(aggregates()) }),
            KeyedKind::CountWindows(CountWindows { size, slide, aggregates: None }),
        );
        check(&format!("{size} every {slide}"), &aggregate, &inputs, aggregates_expected, 0);
        check(&format!("rows, {size} every {slide}"), &of_rows, &inputs, rows_expected, 0);
    }
}

#[test]
fn operators_without_rows_end() {
    let [aggregate, _] = windowed_operators(
        KeyedKind::Sessions(Sessions { gap_ms: 10, aggregates: Some(aggregates()) }),
        KeyedKind::Sessions(Sessions { gap_ms: 10, aggregates: None }),
    );
    check("nothing", &aggregate, &[vec![]], vec![], 0);
    check("empty splits", &aggregate, &[vec![vec![], vec![]]], vec![], 0);
}

#[test]
fn a_stopped_query_does_not_output_incomplete_windows() {
    let [aggregate, _] = windowed_operators(
        KeyedKind::Sessions(Sessions { gap_ms: 10, aggregates: Some(aggregates()) }),
        KeyedKind::Sessions(Sessions { gap_ms: 10, aggregates: None }),
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
