//! Overlapping windows over out-of-order input: the same rows and late counts as a brute-force model, whatever the number
//! of workers, the size of buffers, the cut of chunks, and how windows are made from their slices.

use crate::support::*;
use millstream_abi::{Accumulator, Finish, ObjectKind, Phys};
use millstream_plan::expr::Expr;
use millstream_plan::pipeline::*;
use millstream_plan::window::{Overlap, Timeline, WindowAssigner};
use millstream_runtime::*;
use millstream_types::{DataType, Field};

fn hop(size_ms: i64, slide_ms: i64, offset_ms: i64) -> Overlap {
    Overlap::Hop { size_ms, slide_ms, offset_ms }
}

/// Splits in disorder around time 0, with late rows and stragglers.
fn splits(seed: u64, count: usize, rows: usize) -> Vec<Vec<Row>> {
    let shift = |(time, key, name): Row| (time.map(|t| t - 1500), key, name);
    let shifted = |split: Vec<Row>| split.into_iter().map(shift).collect();
    random_splits(seed, count, rows, 60).into_iter().map(shifted).collect()
}

/// Aggregates of one argument: accumulator, what it is updated with, and the output.
type Part = (Accumulator, ComponentUpdate, Finish, DataType);

/// `SELECT key, …, window_start, window_end` of the parts.
fn plan(assigner: WindowAssigner, combination: Combination, delay_ms: i64, parts: Vec<Part>) -> QueryPlan {
    let mut plan = tumbling_plan(100, delay_ms);
    let output = |(component, part): (usize, &Part)| {
        let nullable = part.2 != Finish::Value || matches!(part.0, Accumulator::Object(..));
        ComponentOutput { component, finish: part.2.clone(), data_type: part.3.clone(), nullable }
    };
    let aggregation = Aggregation {
        timeline: Timeline::Own,
        assigner,
        keys: vec![Field::new("key", DataType::BigInt, false)],
        components: parts.iter().map(|p| p.0).collect(),
        calls: vec![],
        outputs: parts.iter().enumerate().map(output).collect(),
        shorter: None,
        combination,
    };
    let schema = aggregation.output_schema();
    let PipelineEnd::Aggregate { updates, .. } = &mut plan.pipelines[0].end else { panic!("it aggregates") };
    *updates = parts.into_iter().map(|p| p.1).collect();
    plan.pipelines[1].schema = schema.clone();
    plan.sinks = vec![sink_plan(schema, None)];
    plan.aggregations = vec![aggregation];
    plan
}

fn count() -> Part {
    (Accumulator::Count, count_all(), Finish::Value, DataType::BigInt)
}

fn sum() -> Part {
    (Accumulator::SumI64, argument(time_as_number()), Finish::Value, DataType::BigInt)
}

fn max() -> Part {
    (Accumulator::MaxI64, argument(time_column()), Finish::Value, TIME)
}

fn time_as_number() -> Expr {
    Expr::column(0, TIME, true)
}

fn object(kind: ObjectKind, finish: Finish, data_type: DataType) -> Part {
    let (phys, update) = match &data_type {
        t if t.is_string() => (Phys::Str, Expr::column(2, DataType::STRING, true)),
        _ => (Phys::I64, time_column()),
    };
    (Accumulator::Object(kind, phys), argument(update), finish, data_type)
}

/// Rows as the sink sees them: key, count, sum, max, start, end; in the order of windows, sorted within.
fn expected(contents: &Contents, middle: impl Fn(&[Row]) -> String) -> Vec<String> {
    let row =
        |(&(end, start, key), rows): (&(i64, i64, i64), &Vec<Row>)| format!("{key},{},{start},{end}", middle(rows));
    contents.iter().map(row).collect()
}

fn ends(rows: &[String]) -> Vec<i64> {
    rows.iter().map(|r| r.rsplit(',').next().unwrap().parse().unwrap()).collect()
}

fn sorted(mut rows: Vec<String>) -> Vec<String> {
    rows.sort();
    rows
}

fn check(overlap: Overlap, combination: Combination, seed: u64, with_max: bool) {
    let (count_of, delay_ms) = (1 + seed as usize % 4, [0, 15, 40, 100][seed as usize % 4]);
    let data = splits(seed, count_of, 300);
    let (contents, late) = overlapping(&data, overlap, delay_ms);
    let all: usize = data.iter().flatten().map(|row| windows_of(overlap, row.0.unwrap()).len()).sum();
    assert!(
        delay_ms == 100 || contents.values().map(Vec::len).sum::<usize>() < all,
        "rows come after windows of theirs"
    );
    let text = |rows: &[Row]| {
        let times = || rows.iter().filter_map(|r| r.0);
        let (sum, max) = (times().sum::<i64>(), times().max().unwrap());
        if with_max { format!("{},{sum},{max}", rows.len()) } else { format!("{},{sum}", rows.len()) }
    };
    let expected = expected(&contents, text);
    let parts = || if with_max { vec![count(), sum(), max()] } else { vec![count(), sum()] };
    let mut order: Option<Vec<String>> = None;
    for (workers, buffer_rows, chunk_rows) in [(1, 0, 1000), (1, 1, 64), (2, 7, 50), (8, 3, 33), (8, 0, 20)] {
        let plan = plan(WindowAssigner::Overlap(overlap), combination, delay_ms, parts());
        let source = MemorySource::of(&data, chunk_rows);
        let (rows, stats) = run_to_end(plan, source, config(workers, buffer_rows));
        let what = format!("{overlap:?} {combination:?}, seed {seed}, {workers} workers, buffers of {buffer_rows}");
        assert_eq!(sorted(rows.clone()), sorted(expected.clone()), "{what}");
        assert_eq!(stats.late_rows, late, "{what}");
        assert!(ends(&rows).is_sorted(), "windows in order: {what}");
        assert_eq!(rows, *order.get_or_insert_with(|| rows.clone()), "the same order: {what}");
    }
}

#[test]
fn hopping_windows_are_those_of_the_model() {
    let overlaps = [
        hop(100, 50, 0),
        hop(100, 30, 7),
        hop(90, 40, 11),
        hop(30, 100, 4),
        hop(60, 60, 59),
        hop(200, 8, 3),
        hop(500, 35, 0),
    ];
    for (seed, overlap) in (1..).zip(overlaps) {
        check(overlap, Combination::Recompute, seed, true);
        check(overlap, Combination::TwoStacks, seed, true);
        check(overlap, Combination::Subtract, seed, false);
    }
}

#[test]
fn cumulating_windows_are_those_of_the_model() {
    let cumulate = |size_ms, step_ms, offset_ms| Overlap::Cumulate { size_ms, step_ms, offset_ms };
    for (seed, overlap) in (11..).zip([cumulate(120, 30, 5), cumulate(400, 10, 0), cumulate(50, 50, 49)]) {
        check(overlap, Combination::Recompute, seed, true);
        check(overlap, Combination::TwoStacks, seed, true);
        check(overlap, Combination::Subtract, seed, false);
    }
}

#[test]
fn rows_far_apart_cost_only_windows_that_have_rows() {
    let year = 365 * 86_400_000;
    let rows: Vec<Row> = vec![(Some(-40 * year), 1, None), (Some(0), 1, None), (Some(40 * year), 1, None)];
    for combination in [Combination::Recompute, Combination::TwoStacks] {
        let plan = plan(WindowAssigner::Overlap(hop(3, 1, 0)), combination, 0, vec![count()]);
        let (written, stats) = run_to_end(plan, MemorySource::of(std::slice::from_ref(&rows), 1), config(2, 0));
        assert_eq!((written.len(), stats.windows_fired), (9, 9));
    }
}

#[test]
fn what_depends_on_the_order_of_rows_does_not_depend_on_workers() {
    let data = splits(21, 4, 250);
    let overlap = hop(150, 60, 0);
    let (contents, _) = overlapping(&data, overlap, 40);
    let text = |rows: &[Row]| {
        let time = |row: Option<&Row>| row.and_then(|r| r.0).unwrap();
        let names: Vec<&str> = rows.iter().filter_map(|r| r.2.as_deref()).collect();
        let names = if names.is_empty() { "NULL".to_string() } else { names.join("+") };
        format!("{},{},{names}", time(rows.first()), time(rows.last()))
    };
    let expected = sorted(expected(&contents, text));
    let list = ObjectKind::List { keeps_nulls: false };
    for (workers, buffer_rows, chunk_rows) in [(1, 0, 1000), (1, 1, 64), (2, 7, 50), (8, 3, 33)] {
        for pre_aggregation in [When::Always, When::Never] {
            let parts = vec![
                object(ObjectKind::First, Finish::Value, TIME),
                object(ObjectKind::Last, Finish::Value, TIME),
                object(list, Finish::Join("+".into()), DataType::STRING),
            ];
            let plan = plan(WindowAssigner::Overlap(overlap), Combination::Recompute, 40, parts);
            let adaptivity = Adaptivity { pre_aggregation, ..Adaptivity::default() };
            let config = RunConfig { adaptivity, ..config(workers, buffer_rows) };
            let (rows, _) = run_to_end(plan, MemorySource::of(&data, chunk_rows), config);
            assert_eq!(sorted(rows), expected, "{workers} workers, {pre_aggregation:?}, buffers of {buffer_rows}");
        }
    }
}

#[test]
fn windows_that_change_how_they_are_made_are_those_of_the_model() {
    for (seed, overlap) in (41..).zip([hop(200, 8, 3), hop(90, 40, 11), hop(500, 35, 0)]) {
        let data = splits(seed, 3, 300);
        let run = |parts: Vec<Part>, adaptivity, workers| {
            let plan = plan(WindowAssigner::Overlap(overlap), Combination::Recompute, 40, parts);
            let config = RunConfig { adaptivity, ..config(workers, 13) };
            run_to_end(plan, MemorySource::of(&data, 40), config).0
        };
        for parts in [|| vec![count(), sum()], || vec![count(), sum(), max()]] {
            let expected = run(parts(), Adaptivity { is_enabled: false, ..Adaptivity::default() }, 1);
            for workers in [1, 4] {
                for chaos_seed in 0..4 {
                    let chaos = Adaptivity { chaos_seed: Some(chaos_seed), ..Adaptivity::default() };
                    assert_eq!(run(parts(), chaos, workers), expected, "{overlap:?}, seed {chaos_seed}");
                }
                for combination in [Combination::Recompute, Combination::Subtract, Combination::TwoStacks] {
                    let set = Adaptivity { combination: Some(combination), ..Adaptivity::default() };
                    assert_eq!(run(parts(), set, workers), expected, "{overlap:?}, {combination:?}");
                }
            }
        }
    }
}

#[test]
fn windows_of_many_slices_of_the_same_keys_are_not_merged_anew() {
    let rows: Vec<Row> = (0..20_000).map(|i| (Some(i / 4), i % 10, None)).collect();
    for (parts, way) in [(vec![count(), sum()], "subtracted"), (vec![max()], "two stacks")] {
        let mut expected = None;
        for workers in [1, 4] {
            for is_enabled in [false, true] {
                let plan = plan(WindowAssigner::Overlap(hop(400, 10, 0)), Combination::Recompute, 0, parts.clone());
                let adaptivity = Adaptivity { is_enabled, ..Adaptivity::default() };
                let config = RunConfig { adaptivity, ..config(workers, 0) };
                let source = MemorySource::of(std::slice::from_ref(&rows), 500);
                let (written, stats) = run_to_end(plan, source, config);
                assert_eq!(written, *expected.get_or_insert_with(|| written.clone()));
                let switches = stats.events.iter().filter(|event| event.decided.contains(way)).count();
                assert_eq!(switches, usize::from(is_enabled), "{:?}", stats.events);
            }
        }
    }
}

/// Windows of rows (`HOP` without aggregation) grouped by the window that each row says.
fn attached_plan(overlap: Overlap, delay_ms: i64) -> QueryPlan {
    let mut plan = tumbling_plan(100, delay_ms);
    let aggregation = aggregation(
        WindowAssigner::Attached,
        vec![Field::new("key", DataType::BigInt, false), Field::new("window_start", TIME, false)],
    );
    let schema = aggregation.output_schema();
    plan.pipelines[0].operators =
        vec![Operator::FlatMap(FlatMap::Windows(Windows { windows: overlap, time: time_column() }))];
    plan.pipelines[0].end = PipelineEnd::Aggregate {
        aggregation: 0,
        time: Some(Expr::column(5, TIME, false)),
        keys: vec![key_column(), Expr::column(3, TIME, false)],
        updates: vec![count_all(), argument(key_column())],
    };
    plan.pipelines[1].schema = schema.clone();
    plan.sinks = vec![sink_plan(schema, None)];
    plan.aggregations = vec![aggregation];
    plan
}

#[test]
fn windows_attached_to_rows_are_those_of_the_model() {
    for (seed, overlap) in (31..).zip([hop(100, 30, 7), Overlap::Cumulate { size_ms: 120, step_ms: 30, offset_ms: 5 }])
    {
        let data = splits(seed, 3, 300);
        let (contents, _) = overlapping(&data, overlap, 20);
        // A row is late once for each of its windows that is complete.
        let late_windows = |(_, row, watermark): &(usize, Row, i64)| {
            windows_of(overlap, row.0.unwrap()).iter().filter(|(_, end)| end - 1 <= *watermark).count() as u64
        };
        let late: u64 = merged(&data, 20).iter().map(late_windows).sum();
        let mut expected: Vec<String> = Vec::new();
        for ((end, start, key), rows) in &contents {
            expected.push(format!("{key},{start},{},{key},{end}", rows.len()));
        }
        for (workers, buffer_rows, chunk_rows) in [(1, 0, 1000), (1, 1, 64), (2, 7, 50), (8, 3, 33)] {
            let source = MemorySource::of(&data, chunk_rows);
            let (rows, stats) = run_to_end(attached_plan(overlap, 20), source, config(workers, buffer_rows));
            assert!(ends(&rows).is_sorted());
            assert_eq!(sorted(rows), sorted(expected.clone()), "{workers} workers, buffers of {buffer_rows}");
            assert_eq!(stats.late_rows, late);
        }
    }
}

#[test]
fn a_window_function_alone_gives_rows_in_their_order() {
    let rows: Vec<Row> = vec![(Some(-1), 1, None), (Some(25), 2, Some("b".into())), (Some(4), 3, None)];
    let mut plan = copy_plan(None);
    plan.pipelines[0].operators =
        vec![Operator::FlatMap(FlatMap::Windows(Windows { windows: hop(10, 5, 0), time: time_column() }))];
    plan.sinks[0].schema.fields.extend(["start", "end", "time"].map(|n| Field::new(n, TIME, false)));
    let expected = [
        "-1,1,NULL,-10,0,-1",
        "-1,1,NULL,-5,5,4",
        "25,2,b,20,30,29",
        "25,2,b,25,35,34",
        "4,3,NULL,-5,5,4",
        "4,3,NULL,0,10,9",
    ];
    for buffer_rows in [1, 2, 3, 0] {
        let source = MemorySource::of(std::slice::from_ref(&rows), 2);
        let (written, _) = run_to_end(plan.clone(), source, config(2, buffer_rows));
        assert_eq!(written, expected, "buffers of {buffer_rows}");
        let mut limited = plan.clone();
        limited.sinks[0].limit = Some(3);
        let source = MemorySource::of(std::slice::from_ref(&rows), 2);
        let (written, _) = run_to_end(limited, source, config(2, buffer_rows));
        assert_eq!(written, expected[..3], "buffers of {buffer_rows}");
    }
}

#[test]
fn a_row_without_time_has_no_windows() {
    let rows: Vec<Row> = vec![(Some(1), 1, None), (None, 2, None)];
    let skip = RunConfig { error_policy: ErrorPolicy::Skip, ..config(2, 0) };
    let (written, stats) = run_to_end(attached_plan(hop(10, 5, 0), 0), MemorySource::of(&[rows], 5), skip);
    assert_eq!(sorted(written), ["1,-5,1,1,5", "1,0,1,1,10"]);
    assert_eq!(stats.error_rows, 1);
}
