//! Errors, panics and cancellation anywhere: the query ends with the right diagnostic, no thread is lost, and no sink
//! is finished.

use crate::support::*;
use millstream_abi::{Accumulator, Finish, ObjectKind, Phys};
use millstream_plan::logical::JoinKind;
use millstream_plan::pipeline::*;
use millstream_plan::window::Timeline;
use millstream_runtime::*;
use millstream_types::{Code, Field, MemorySize, Schema, code};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn rows(n: i64) -> Vec<Row> {
    (0..n).map(|i| (Some(i), i % 5, None)).collect()
}

/// Runs both a stateless and a windowed plan over the steps; each must fail with the code and leave its sink unfinished.
fn fails(steps: &dyn Fn() -> Vec<Step>, expected: Code) {
    for workers in [1, 4] {
        for plan in [copy_plan(None), chained_plan(10, 0, 100)] {
            let sink = MemorySink::default();
            let written = Arc::clone(&sink.written);
            let healthy = rows(500).chunks(10).map(|c| Step::Rows(c.to_vec())).collect();
            let source = MemorySource { splits: vec![healthy, steps()], bounded: true };
            let (result, _) =
                run_within(input(plan, vec![connector(source)], vec![sink]), config(workers, 3), CancelToken::new());
            assert_eq!(result.unwrap_err().code, expected);
            assert!(!written.is_finished());
        }
    }
}

#[test]
fn a_reader_that_fails_or_panics_ends_the_query() {
    fails(&|| vec![Step::Rows(rows(10)), Step::ReadError], code::READ_FAILED);
    fails(&|| vec![Step::ReadPanic], code::WORKER_FAILED);
}

#[test]
fn a_decoder_that_fails_or_panics_ends_the_query() {
    fails(&|| vec![Step::DecodeError(rows(5)), Step::Rows(rows(10))], code::MALFORMED_RECORD);
    fails(&|| vec![Step::Rows(rows(10)), Step::DecodePanic], code::WORKER_FAILED);
}

#[test]
fn a_sink_that_fails_or_panics_ends_the_query() {
    for (fail_at, panic_at, expected) in [(Some(3), None, code::WRITE_FAILED), (None, Some(3), code::WORKER_FAILED)] {
        for workers in [1, 4] {
            let sink = MemorySink { fail_at, panic_at, ..MemorySink::default() };
            let written = Arc::clone(&sink.written);
            let source = connector(MemorySource::of(&[rows(1000), rows(1000)], 10));
            let run = input(copy_plan(None), vec![source], vec![sink]);
            let (result, _) = run_within(run, config(workers, 0), CancelToken::new());
            assert_eq!(result.unwrap_err().code, expected);
            assert!(!written.is_finished());
        }
    }
}

/// An endless source: some rows, then silence. The gate must be opened at the end, or the reader's thread stays.
fn endless(gate: &Arc<Gate>) -> MemorySource {
    let mut steps: Vec<Step> = rows(105).chunks(10).map(|c| Step::Rows(c.to_vec())).collect();
    steps.push(Step::Wait(Arc::clone(gate)));
    MemorySource { splits: vec![steps], bounded: false }
}

#[test]
fn a_stop_writes_what_was_read_and_the_windows_that_are_complete() {
    let gate = Arc::new(Gate::default());
    let cancel = CancelToken::new();
    let sink = MemorySink::default();
    let written = Arc::clone(&sink.written);
    let (watched, token) = (Arc::clone(&written), cancel.clone());
    let stopper = std::thread::spawn(move || {
        // Ten windows of five keys are complete at the watermark 104.
        while watched.rows.lock().unwrap().len() < 50 {
            std::thread::sleep(Duration::from_millis(1));
        }
        token.stop();
    });
    let run = input(tumbling_plan(10, 0), vec![connector(endless(&gate))], vec![sink]);
    let (result, _) = run_within(run, config(2, 0), cancel);
    stopper.join().unwrap();
    gate.open();
    assert_eq!(result.unwrap_err().code, code::CANCELLED);
    assert!(written.is_finished(), "a query that was stopped finishes its sinks");
    assert_eq!(written.rows().len(), 50, "the incomplete window is not written");
}

#[test]
fn an_abort_finishes_nothing_even_while_the_sink_is_stuck_for_a_while() {
    let (gate, sink_gate) = (Arc::new(Gate::default()), Arc::new(Gate::default()));
    let cancel = CancelToken::new();
    let sink = MemorySink { gate: Some(Arc::clone(&sink_gate)), ..MemorySink::default() };
    let written = Arc::clone(&sink.written);
    cancel.abort();
    sink_gate.open();
    let run = input(copy_plan(None), vec![connector(endless(&gate))], vec![sink]);
    let (result, _) = run_within(run, config(2, 0), cancel);
    gate.open();
    assert_eq!(result.unwrap_err().code, code::CANCELLED);
    assert!(!written.is_finished());
}

#[test]
fn a_stop_after_the_end_of_input_changes_nothing() {
    let cancel = CancelToken::new();
    let sink = MemorySink::default();
    let written = Arc::clone(&sink.written);
    let run = input(copy_plan(None), vec![connector(MemorySource::of(&[rows(10)], 3))], vec![sink]);
    let (result, _) = run_within(run, config(2, 0), cancel.clone());
    cancel.stop();
    result.unwrap();
    assert_eq!((written.rows().len(), written.is_finished()), (10, true));
}

#[test]
fn a_stuck_sink_holds_the_readers_back() {
    // All permits are out: whatever happens, no sixth chunk can be decoded before a piece is written.
    assert_eq!(rows_before_a_stuck_sink(5000, 25_000), 25_000);
    // Of small chunks as many are one that have some thousand rows together.
    assert!(rows_before_a_stuck_sink(10, 50) <= 5 * 640);
}

/// Rows that are decoded with five permits, of chunks of so many, before the sink takes any; at least `expected`.
fn rows_before_a_stuck_sink(chunk_rows: usize, expected: u64) -> u64 {
    let sink_gate = Arc::new(Gate::default());
    let sink = MemorySink { gate: Some(Arc::clone(&sink_gate)), ..MemorySink::default() };
    let written = Arc::clone(&sink.written);
    let run = input(copy_plan(None), vec![connector(MemorySource::of(&[rows(40_000)], chunk_rows))], vec![sink]);
    let stats = Arc::new(QueryStats::new(&run.plan));
    let (shared, bounded) = (Arc::clone(&stats), RunConfig { chunks_in_flight: 5, ..config(2, 0) });
    let query = std::thread::spawn(move || millstream_runtime::run(run, &bounded, &shared, &CancelToken::new()));
    while stats.snapshot().rows_in < expected {
        std::thread::yield_now();
    }
    std::thread::sleep(Duration::from_millis(20));
    let decoded = stats.snapshot().rows_in;
    sink_gate.open();
    query.join().unwrap().unwrap();
    assert_eq!(written.rows().len(), 40_000);
    decoded
}

/// A plan whose trigger panics: no aggregate is shown in this way.
fn panicking_trigger() -> QueryPlan {
    let mut plan = tumbling_plan(10, 0);
    plan.aggregations[0].components[1] = Accumulator::Object(ObjectKind::List { keeps_nulls: false }, Phys::I64);
    plan.aggregations[0].outputs[1].finish = Finish::Sum;
    plan
}

/// The same for sessions, a keyed operator.
fn panicking_sessions() -> QueryPlan {
    let mut aggregates = keyed::aggregates();
    aggregates.outputs[2].finish = Finish::Sum;
    let mut output = keyed::name_key();
    output.extend(keyed::aggregate_fields());
    output.extend(["start", "end"].map(|name| Field::new(name, TIME, false)));
    keyed::plan(KeyedOperator {
        partitioned_by: None,
        timeline: Timeline::Own,
        kind: KeyedKind::Sessions(Sessions { gap_ms: 5, aggregates: Some(aggregates) }),
        inputs: vec![keyed::keyed_input(None)],
        keys: keyed::name_key(),
        output: Schema::new(output),
    })
}

#[test]
fn a_trigger_and_a_keyed_operator_that_panic_end_the_query() {
    let apart = |i: i64| (Some(i * 100), i % 5, Some(format!("name {}", i % 3)));
    for workers in [1, 4] {
        for plan in [panicking_trigger(), panicking_sessions()] {
            let sink = MemorySink::default();
            let written = Arc::clone(&sink.written);
            let source = connector(MemorySource::of(&[(0..1000).map(apart).collect()], 10));
            let (result, _) = run_within(input(plan, vec![source], vec![sink]), config(workers, 3), CancelToken::new());
            assert_eq!(result.unwrap_err().code, code::WORKER_FAILED);
            assert!(!written.is_finished());
        }
    }
}

#[test]
fn a_sink_that_panics_when_it_is_flushed_ends_the_query() {
    let gate = Arc::new(Gate::default());
    let sink = MemorySink { panics_at_flush: true, ..MemorySink::default() };
    let written = Arc::clone(&sink.written);
    let run = input(copy_plan(None), vec![connector(endless(&gate))], vec![sink]);
    let at_once = RunConfig { flush_interval_ms: 1, ..config(2, 0) };
    let (result, _) = run_within(run, at_once, CancelToken::new());
    gate.open();
    assert_eq!(result.unwrap_err().code, code::WORKER_FAILED);
    assert!(!written.is_finished());
}

/// Rows of distinct names in order of time, chunk by chunk.
fn distinct(rows: std::ops::Range<i64>, step: usize, chunk: usize) -> Vec<Step> {
    let rows: Vec<Row> = rows.step_by(step).map(|i| (Some(i), i, Some(format!("name {i}")))).collect();
    rows.chunks(chunk).map(|rows| Step::Rows(rows.to_vec())).collect()
}

/// `left JOIN right ON left.name = right.name` within 5 ms, which keeps rows until the other side has come to their time.
fn interval_join() -> QueryPlan {
    let side = |name: &str| {
        source_schema()
            .fields
            .into_iter()
            .map(move |f| Field::new(format!("{name}_{}", f.name), f.data_type, true))
            .collect::<Vec<_>>()
    };
    keyed::plan(KeyedOperator {
        partitioned_by: None,
        timeline: Timeline::Own,
        kind: KeyedKind::IntervalJoin(IntervalJoin {
            kind: JoinKind::Inner,
            lower_ms: -5,
            upper_ms: 5,
            residual: None,
        }),
        inputs: vec![keyed::keyed_input(Some(5)), keyed::keyed_input(Some(5))],
        keys: keyed::name_key(),
        output: Schema::new(side("left").into_iter().chain(side("right")).collect()),
    })
}

const JOIN_MEMORY: u64 = 8 << 20;

/// Runs a join whose left input is far ahead while the right one is silent; `then` ends the silence.
fn left_far_ahead(then: Vec<Step>) -> (Result<(), millstream_types::Diagnostic>, StatsSnapshot, Vec<String>) {
    let gate = Arc::new(Gate::default());
    let sink = MemorySink::default();
    let written = Arc::clone(&sink.written);
    let left = MemorySource { splits: vec![distinct(0..200_000, 1, 500)], bounded: true };
    let steps = std::iter::once(Step::Wait(Arc::clone(&gate))).chain(then).collect();
    let right = MemorySource { splits: vec![steps], bounded: true };
    let run = input(interval_join(), vec![connector(left), connector(right)], vec![sink]);
    let stats = Arc::new(QueryStats::new(&run.plan));
    let (shared, memory) = (Arc::clone(&stats), MemorySize::Bytes(JOIN_MEMORY));
    let query = std::thread::spawn(move || {
        // What is spilled needs no waiting.
        let spill = SpillConfig { mode: When::Never, ..SpillConfig::default() };
        millstream_runtime::run(run, &RunConfig { memory, spill, ..config(2, 0) }, &shared, &CancelToken::new())
    });
    while stats.snapshot().memory.used < JOIN_MEMORY / 5 * 4 {
        assert!(!query.is_finished());
        std::thread::yield_now();
    }
    gate.open();
    let result = query.join().unwrap();
    // A reader that finds the query over gives its memory back a moment later.
    let ended = Instant::now();
    while result.is_ok() && stats.snapshot().memory.used > 0 && ended.elapsed() < Duration::from_secs(10) {
        std::thread::yield_now();
    }
    (result, stats.snapshot(), written.rows())
}

#[test]
fn the_input_of_a_join_that_is_far_ahead_waits_for_the_other() {
    let (result, stats, rows) = left_far_ahead(distinct(0..200_000, 1000, 10));
    result.unwrap();
    assert_eq!(rows.len(), 200);
    assert!(stats.memory.peak < 2 * JOIN_MEMORY, "{:?}", stats.memory);
    assert_eq!(stats.memory.used, 0, "everything has been given back: {:?}", stats.memory);
}

#[test]
fn a_failure_wakes_those_who_wait_for_memory() {
    let (result, ..) = left_far_ahead(vec![Step::ReadPanic]);
    assert_eq!(result.unwrap_err().code, code::WORKER_FAILED);
    let (result, ..) = left_far_ahead(vec![Step::DecodePanic]);
    assert_eq!(result.unwrap_err().code, code::WORKER_FAILED);
}

#[test]
fn a_state_that_does_not_fit_is_an_error() {
    let sides = [distinct(0..400_000, 1, 500), distinct(400_000..800_000, 1, 500)];
    let sources = sides.map(|steps| connector(MemorySource { splits: vec![steps], bounded: true }));
    let mut plan = interval_join();
    plan.operators[0].kind = KeyedKind::RegularJoin(RegularJoin { ttl_ms: [None; 2], residual: None });
    plan.operators[0]
        .inputs
        .iter_mut()
        .for_each(|input| *input = KeyedInput { time: None, ..keyed::keyed_input(None) });
    let sink = MemorySink::default();
    let written = Arc::clone(&sink.written);
    let spill = SpillConfig { mode: When::Never, ..SpillConfig::default() };
    let small = RunConfig { memory: MemorySize::Bytes(JOIN_MEMORY), spill, ..config(2, 0) };
    let (result, stats) = run_within(input(plan, sources.into(), vec![sink]), small, CancelToken::new());
    let error = result.unwrap_err();
    assert_eq!(error.code, code::OUT_OF_MEMORY);
    assert!(error.message.contains("operators"), "{error}");
    assert!(stats.memory.peak < 3 * JOIN_MEMORY, "{:?}", stats.memory);
    assert!(!written.is_finished());
}

#[test]
fn other_queries_of_the_process_go_on() {
    let gate = Arc::new(Gate::default());
    let mut steps: Vec<Step> = rows(100).chunks(10).map(|c| Step::Rows(c.to_vec())).collect();
    steps.insert(5, Step::Wait(Arc::clone(&gate)));
    let sink = MemorySink::default();
    let written = Arc::clone(&sink.written);
    let healthy =
        input(copy_plan(None), vec![connector(MemorySource { splits: vec![steps], bounded: true })], vec![sink]);
    let query = std::thread::spawn(move || run_within(healthy, config(2, 0), CancelToken::new()));
    fails(&|| vec![Step::Rows(rows(10)), Step::DecodePanic], code::WORKER_FAILED);
    gate.open();
    query.join().unwrap().0.unwrap();
    assert_eq!((written.rows().len(), written.is_finished()), (100, true));
}
