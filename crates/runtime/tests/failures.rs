//! Errors, panics and cancellation anywhere: the query ends with the right diagnostic, no thread is lost, and no sink
//! is finished.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod support;

use millstream_runtime::*;
use millstream_types::{Code, code};
use std::sync::Arc;
use support::*;

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
            std::thread::sleep(std::time::Duration::from_millis(1));
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
    let sink_gate = Arc::new(Gate::default());
    let sink = MemorySink { gate: Some(Arc::clone(&sink_gate)), ..MemorySink::default() };
    let written = Arc::clone(&sink.written);
    let run = input(copy_plan(None), vec![connector(MemorySource::of(&[rows(10_000)], 10))], vec![sink]);
    let stats = Arc::new(QueryStats::new(&run.plan));
    let (shared, bounded) = (Arc::clone(&stats), RunConfig { chunks_in_flight: 5, ..config(2, 0) });
    let query = std::thread::spawn(move || millstream_runtime::run(run, &bounded, &shared, &CancelToken::new()));
    while stats.snapshot().rows_in < 50 {
        std::thread::yield_now();
    }
    // All permits are out: whatever happens, no sixth chunk can be decoded before a piece is written.
    assert_eq!(stats.snapshot().rows_in, 50);
    sink_gate.open();
    query.join().unwrap().unwrap();
    assert_eq!(written.rows().len(), 10_000);
}
