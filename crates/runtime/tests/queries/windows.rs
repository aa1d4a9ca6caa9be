//! Windows over out-of-order input: the same rows and late counts as a brute-force model, whatever the number of
//! workers, the size of buffers and the cut of chunks.

use crate::support::*;
use millstream_plan::expr::{ArithmeticOp, Expr, ExprKind};
use millstream_plan::pipeline::*;
use millstream_plan::window::WindowAssigner;
use millstream_runtime::*;
use millstream_types::{DataType, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Window starts of rows in the order of output.
fn starts(rows: &[String]) -> Vec<i64> {
    rows.iter().map(|r| r.rsplit(',').nth(1).unwrap().parse().unwrap()).collect()
}

fn sorted(mut rows: Vec<String>) -> Vec<String> {
    rows.sort();
    rows
}

#[test]
fn tumbling_counts_are_those_of_the_model_under_every_configuration() {
    for (seed, splits, delay_ms) in [(1, 1, 0), (2, 3, 40), (3, 5, 15), (4, 12, 100)] {
        let data = random_splits(seed, splits, 400, 60);
        let (expected, late) = tumbling_model(&data, 100, delay_ms);
        assert!(late > 0, "the input has late rows");
        let mut order: Option<Vec<String>> = None;
        for (workers, merge) in strategies() {
            for (buffer_rows, chunk_rows) in [(1, 64), (7, 50), (0, 33), (0, 1000)] {
                let source = MemorySource::of(&data, chunk_rows);
                let config = RunConfig { merge, ..config(workers, buffer_rows) };
                let (rows, stats) = run_to_end(tumbling_plan(100, delay_ms), source, config);
                let what = format!(
                    "seed {seed}, {workers} workers, {merge:?}, buffers of {buffer_rows}, chunks of {chunk_rows}"
                );
                assert_eq!(stats.late_rows, late, "{what}");
                assert_eq!(stats.rows_in, (splits * 400) as u64, "{what}");
                assert_eq!(stats.rows_out, rows.len() as u64, "{what}");
                assert!(starts(&rows).is_sorted(), "windows in order: {what}");
                assert_eq!(sorted(rows.clone()), expected, "{what}");
                assert_eq!(rows, *order.get_or_insert_with(|| rows.clone()), "the same order: {what}");
            }
        }
    }
}

#[test]
fn chained_windows_are_those_of_the_model() {
    let data = random_splits(5, 4, 500, 60);
    let (inner, late) = windows(&data, 50, 30);
    // (outer window, count) → (number of keys, greatest key)
    let mut outer: BTreeMap<(i64, i64), (i64, i64)> = BTreeMap::new();
    for ((start, key), count) in &inner {
        let entry = outer.entry(((start + 49).div_euclid(170) * 170, *count)).or_insert((0, i64::MIN));
        *entry = (entry.0 + 1, entry.1.max(*key));
    }
    let expected: Vec<String> = outer
        .iter()
        .map(|((start, count), (keys, greatest))| format!("{count},{keys},{greatest},{start},{}", start + 170))
        .collect();
    for (workers, merge) in strategies() {
        for buffer_rows in [1, 7, 0] {
            let source = MemorySource::of(&data, 40);
            let config = RunConfig { merge, ..config(workers, buffer_rows) };
            let (rows, stats) = run_to_end(chained_plan(50, 30, 170), source, config);
            assert_eq!(stats.late_rows, late, "no row of a window is late for the next aggregation");
            assert!(starts(&rows).is_sorted());
            assert_eq!(sorted(rows), sorted(expected.clone()));
        }
    }
}

#[test]
fn a_large_window_is_sealed_and_merged_by_many_tasks() {
    let rows: Vec<Row> = (0..40_000).map(|i| (Some(i % 1000), i % 20_000, None)).collect();
    let splits: Vec<Vec<Row>> = rows.chunks(10_000).map(<[Row]>::to_vec).collect();
    let (expected, late) = tumbling_model(&splits, 1000, 2000);
    assert_eq!((expected.len(), late), (20_000, 0));
    for (workers, merge) in strategies() {
        let source = MemorySource::of(&splits, 700);
        let config = RunConfig { merge, ..config(workers, 512) };
        let (rows, stats) = run_to_end(tumbling_plan(1000, 2000), source, config);
        assert_eq!(stats.windows_fired, 1);
        assert_eq!(sorted(rows), expected);
    }
}

#[test]
fn without_a_watermark_and_without_a_window_all_rows_count_at_the_end() {
    let data = random_splits(6, 3, 200, 1000);
    let mut plan = tumbling_plan(100, 0);
    plan.sources[0].watermark = None;
    let (rows, stats) = run_to_end(plan, MemorySource::of(&data, 10), config(2, 0));
    assert_eq!(stats.late_rows, 0);
    assert_eq!(sorted(rows), tumbling_model(&data, 100, 1 << 40).0);

    let mut plan = tumbling_plan(100, 0);
    plan.aggregations[0].assigner = WindowAssigner::Whole;
    let PipelineEnd::Aggregate { time, .. } = &mut plan.pipelines[0].end else { panic!("it aggregates") };
    *time = None;
    plan.pipelines[1].schema = plan.aggregations[0].output_schema();
    plan.sinks[0].schema = plan.aggregations[0].output_schema();
    let (rows, _) = run_to_end(plan, MemorySource::of(&data, 10), config(2, 0));
    let mut counts: BTreeMap<i64, i64> = BTreeMap::new();
    data.iter().flatten().for_each(|row| *counts.entry(row.1).or_default() += 1);
    assert_eq!(sorted(rows), sorted(counts.iter().map(|(k, n)| format!("{k},{n},{k}")).collect()));
}

/// `time + INTERVAL`, as a watermark or computed time would be.
fn shifted(ms: i64) -> Expr {
    let interval = Expr::literal(Value::Int(ms), DataType::IntervalMilli);
    Expr::new(ExprKind::AddInterval(Box::new(time_column()), Box::new(interval)), TIME, true)
}

#[test]
fn watermark_and_time_may_be_computed() {
    let data = random_splits(7, 3, 300, 60);
    let mut plan = tumbling_plan(100, 0);
    plan.sources[0].watermark.as_mut().unwrap().rule = WatermarkRule::Expression(shifted(-25));
    let (rows, stats) = run_to_end(plan, MemorySource::of(&data, 17), config(2, 5));
    let (expected, late) = tumbling_model(&data, 100, 25);
    assert_eq!((sorted(rows), stats.late_rows), (expected, late));

    // A computed time becomes one more column of the source.
    let mut plan = tumbling_plan(100, 25);
    plan.sources[0].watermark.as_mut().unwrap().time = shifted(1000);
    plan.pipelines[0].schema.fields.push(millstream_types::Field::new("rowtime", TIME, true));
    let PipelineEnd::Aggregate { time, .. } = &mut plan.pipelines[0].end else { panic!("it aggregates") };
    *time = Some(Expr::column(3, TIME, true));
    let (rows, stats) = run_to_end(plan, MemorySource::of(&data, 17), config(2, 5));
    let later: Vec<Vec<Row>> =
        data.iter().map(|s| s.iter().map(|r| (r.0.map(|t| t + 1000), r.1, r.2.clone())).collect()).collect();
    let (expected, late) = tumbling_model(&later, 100, 25);
    assert_eq!((sorted(rows), stats.late_rows), (expected, late));
}

#[test]
fn several_inputs_of_an_aggregation_wait_for_the_slowest() {
    // A source twice (UNION ALL with itself, read once) and another source.
    let (left, right) = (random_splits(8, 2, 300, 60), random_splits(9, 3, 200, 60));
    let mut plan = tumbling_plan(100, 20);
    plan.sources.push(plan.sources[0].clone());
    plan.pipelines.insert(1, plan.pipelines[0].clone());
    let mut third = plan.pipelines[0].clone();
    third.input = PipelineInput::Source(1);
    plan.pipelines.insert(2, third);
    let mut expected: BTreeMap<(i64, i64), i64> = BTreeMap::new();
    let mut late = 0;
    for splits in [&left, &left, &right] {
        let (windows, more) = windows(splits, 100, 20);
        late += more;
        windows.into_iter().for_each(|(k, n)| *expected.entry(k).or_default() += n);
    }
    let expected: Vec<String> =
        expected.iter().map(|((start, key), n)| format!("{key},{n},{key},{start},{}", start + 100)).collect();
    for workers in [1, 3] {
        let sources = [&left, &right].map(|s| connector(MemorySource::of(s, 30)));
        let sink = MemorySink::default();
        let written = Arc::clone(&sink.written);
        let run = input(plan.clone(), sources.into(), vec![sink]);
        let (result, stats) = run_within(run, config(workers, 11), CancelToken::new());
        result.unwrap();
        assert_eq!(stats.late_rows, late);
        assert_eq!(stats.rows_in, 1200, "a source that two pipelines read is read once");
        assert_eq!(sorted(written.rows()), sorted(expected.clone()));
    }
}

#[test]
fn a_null_event_time_fails_the_row() {
    let rows: Vec<Row> = vec![(Some(5), 1, None), (None, 2, None), (Some(7), 1, None)];
    let source = MemorySource::of(std::slice::from_ref(&rows), 10);
    let sink = MemorySink::default();
    let run = input(tumbling_plan(10, 0), vec![connector(source)], vec![sink]);
    let (result, _) = run_within(run, config(2, 0), CancelToken::new());
    assert_eq!(result.unwrap_err().code, millstream_types::code::NULL_ROWTIME);

    let skip = RunConfig { error_policy: ErrorPolicy::Skip, ..config(2, 1) };
    let (rows, stats) = run_to_end(tumbling_plan(10, 0), MemorySource::of(&[rows], 10), skip);
    assert_eq!(rows, ["1,2,1,0,10"]);
    assert_eq!(stats.error_rows, 1);
    assert!(stats.first_error.unwrap().contains(&millstream_types::code::NULL_ROWTIME.to_string()));
}

#[test]
fn a_bad_computed_watermark_follows_the_policy() {
    let rows: Vec<Row> = vec![(Some(5), 1, None), (Some(6), 0, None), (Some(7), 1, None)];
    let mut plan = tumbling_plan(10, 0);
    let divided = Expr::new(
        ExprKind::Arithmetic(
            ArithmeticOp::Divide,
            Box::new(Expr::literal(Value::Int(3), DataType::BigInt)),
            Box::new(key_column()),
        ),
        DataType::BigInt,
        false,
    );
    plan.sources[0].watermark.as_mut().unwrap().rule = WatermarkRule::Expression(divided);
    let skip = RunConfig { error_policy: ErrorPolicy::Skip, ..config(2, 0) };
    let (written, stats) = run_to_end(plan.clone(), MemorySource::of(std::slice::from_ref(&rows), 10), skip);
    assert_eq!(written, ["1,2,1,0,10"]);
    assert_eq!(stats.error_rows, 1);
    let source = connector(MemorySource::of(&[rows], 10));
    let (result, _) =
        run_within(input(plan, vec![source], vec![MemorySink::default()]), config(2, 0), CancelToken::new());
    assert_eq!(result.unwrap_err().code, millstream_types::code::DIVISION_BY_ZERO);
}

#[test]
fn an_idle_split_does_not_hold_windows_back() {
    let gate = Arc::new(Gate::default());
    let silent =
        vec![Step::Rows(vec![(Some(1), 1, None)]), Step::Wait(Arc::clone(&gate)), Step::Rows(vec![(Some(2), 2, None)])];
    let lively: Vec<Row> = (0..50).map(|i| (Some(i * 10), 3, None)).collect();
    let source =
        MemorySource { splits: vec![silent, vec![Step::Rows(lively), Step::Wait(Arc::clone(&gate))]], bounded: false };
    let mut plan = tumbling_plan(100, 0);
    plan.sources[0].watermark.as_mut().unwrap().idle_timeout_ms = Some(20);
    let sink = MemorySink::default();
    let written = Arc::clone(&sink.written);
    let waiting = Arc::clone(&written);
    let opener = std::thread::spawn(move || {
        while waiting.rows.lock().unwrap().len() < 4 {
            std::thread::sleep(Duration::from_millis(1));
        }
        gate.open();
    });
    let (result, stats) =
        run_within(input(plan, vec![connector(source)], vec![sink]), config(2, 0), CancelToken::new());
    result.unwrap();
    opener.join().unwrap();
    let rows = written.rows();
    assert_eq!(sorted(rows[..2].to_vec()), ["1,1,1,0,100", "3,10,3,0,100"]);
    assert_eq!(stats.late_rows, 1, "the row that comes after its window was written");
    assert_eq!(rows.len(), 6);
}
