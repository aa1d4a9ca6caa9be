//! Queries on several nodes in one process: what does not speak, what fails and what ends, wherever it is.

use crate::support::*;
use millstream_plan::pipeline::QueryPlan;
use millstream_runtime::{CancelToken, Nodes, QueryStats, RunInput, StatsSnapshot, run};
use millstream_types::{Diagnostic, code};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

/// Runs a plan over one source and one sink on `count` nodes; how each has ended, and how many rows were late.
fn run_on(
    count: usize,
    plan: &QueryPlan,
    source: impl Fn() -> MemorySource,
    sink: MemorySink,
    cancel: &CancelToken,
) -> (Vec<Result<(), Diagnostic>>, u64) {
    let (results, stats) = run_with(count, plan, source, vec![sink], cancel);
    (results, stats.late_rows)
}

/// The same with a sink for each of the first nodes; also what the first one says of all.
fn run_with(
    count: usize,
    plan: &QueryPlan,
    source: impl Fn() -> MemorySource,
    sinks: Vec<MemorySink>,
    cancel: &CancelToken,
) -> (Vec<Result<(), Diagnostic>>, StatsSnapshot) {
    let mut sinks = sinks.into_iter();
    let mut running = Vec::new();
    for node in Nodes::in_process(count) {
        let sink = sinks.next().into_iter().collect();
        let input = RunInput { nodes: Some(node), ..input(plan.clone(), vec![connector(source())], sink) };
        let (sender, receiver) = mpsc::channel();
        let (stats, cancel) = (Arc::new(QueryStats::new(plan)), cancel.clone());
        let shared = Arc::clone(&stats);
        std::thread::spawn(move || sender.send(run(input, &config(2, 0), &shared, &cancel)));
        running.push((receiver, stats));
    }
    let first = Arc::clone(&running[0].1);
    let end = |(receiver, stats): (mpsc::Receiver<Result<(), Diagnostic>>, Arc<QueryStats>)| {
        let result = receiver.recv_timeout(Duration::from_secs(60));
        result.unwrap_or_else(|_| panic!("a node hangs or panics: {:?}", stats.snapshot()))
    };
    let results = running.into_iter().map(end).collect();
    (results, first.snapshot())
}

/// Sinks for `count` nodes, and what they write.
fn sinks_of(count: usize) -> (Vec<MemorySink>, Vec<Arc<Written>>) {
    let sink = |_| MemorySink::default();
    let sinks: Vec<MemorySink> = (0..count).map(sink).collect();
    let written = sinks.iter().map(|sink| Arc::clone(&sink.written)).collect();
    (sinks, written)
}

/// What the first node says of all.
fn assert_all_is_counted(splits: &[Vec<Row>], count: usize, stats: &StatsSnapshot) {
    let rows: u64 = splits.iter().map(|split| split.len() as u64).sum();
    assert_eq!((stats.rows_in, stats.sources[0].rows, stats.pipelines[0].rows_in), (rows, rows, rows), "{count} nodes");
    assert_eq!(stats.sources[0].split_count, splits.len() as u64, "{count} nodes");
    let read: Vec<usize> = stats.sources[0].splits.iter().map(|split| split.node).collect();
    assert!((0..splits.len()).all(|split| read.contains(&(split % count))), "{read:?}");
    assert_eq!(stats.nodes.iter().map(|node| node.node).collect::<Vec<_>>(), (0..count).collect::<Vec<_>>());
    let sums =
        stats.nodes.iter().fold((0, 0, 0), |sum, n| (sum.0 + n.rows_in, sum.1 + n.rows_out, sum.2 + n.sent_bytes));
    let stations = stats.aggregations.iter().chain(&stats.operators).map(|station| station.sent.bytes);
    let sent: u64 = stations.chain(stats.sinks.iter().map(|sink| sink.sent.bytes)).sum();
    assert_eq!(sums, (rows, stats.rows_out, sent), "{count} nodes");
}

#[test]
fn every_node_writes_what_it_has() {
    let splits = random_splits(6, 7, 400, 30);
    let (windows, _) = tumbling_model(&splits, 100, 20);
    let plans = [(tumbling_plan(100, 20), windows.len()), (copy_plan(None), splits.iter().map(Vec::len).sum())];
    for (mut plan, rows) in plans {
        let sink = MemorySink::default();
        let expected = Arc::clone(&sink.written);
        run_on(1, &plan, || MemorySource::of(&splits, 37), sink, &CancelToken::new());
        plan.sinks[0].is_on_every_node = true;
        for count in [1, 2, 3, 5, 9] {
            let (sinks, written) = sinks_of(count);
            let source = || MemorySource::of(&splits, 37);
            let (results, stats) = run_with(count, &plan, source, sinks, &CancelToken::new());
            results.into_iter().for_each(|result| result.unwrap());
            assert_all_is_counted(&splits, count, &stats);
            assert!(written.iter().all(|written| written.is_finished()));
            let all = written.iter().flat_map(|written| written.rows()).collect();
            assert_eq!((sorted(all), stats.rows_out), (sorted(expected.rows()), rows as u64), "{count} nodes");
            let is_copied = plan.aggregations.is_empty();
            assert!(
                !is_copied
                    || written.iter().filter(|written| !written.rows().is_empty()).count() == count.min(splits.len())
            );
        }
    }
}

#[test]
fn no_node_shows_rows_of_a_query_that_fails() {
    for failing in 0..3 {
        let gate = Arc::new(Gate::default());
        let source = || {
            let mut splits = vec![vec![Step::Rows(vec![(Some(1), 1, None)])]; 3];
            splits[failing].extend([Step::Wait(Arc::clone(&gate)), Step::ReadError]);
            MemorySource { splits, bounded: true }
        };
        let mut plan = copy_plan(None);
        plan.sinks[0].is_on_every_node = true;
        let (sinks, written) = sinks_of(3);
        let (waiting, opened) = (written.clone(), Arc::clone(&gate));
        std::thread::spawn(move || {
            while waiting.iter().any(|written| written.rows().is_empty()) {
                std::thread::sleep(Duration::from_millis(1));
            }
            opened.open();
        });
        let (results, _) = run_with(3, &plan, source, sinks, &CancelToken::new());
        assert!(results.into_iter().all(|result| result.unwrap_err().code == code::READ_FAILED));
        assert!(!written.iter().any(|written| written.is_finished()));
    }
}

fn sorted(mut rows: Vec<String>) -> Vec<String> {
    rows.sort();
    rows
}

#[test]
fn windows_have_the_rows_of_all_nodes() {
    let splits = random_splits(5, 7, 400, 30);
    let (mut expected, late) = tumbling_model(&splits, 100, 20);
    expected.sort();
    for count in [1, 2, 3, 5, 9] {
        let sink = MemorySink::default();
        let written = Arc::clone(&sink.written);
        let source = || MemorySource::of(&splits, 37);
        let (results, stats) = run_with(count, &tumbling_plan(100, 20), source, vec![sink], &CancelToken::new());
        assert_all_is_counted(&splits, count, &stats);
        results.into_iter().for_each(|result| result.unwrap());
        assert!(written.is_finished());
        assert_eq!((sorted(written.rows()), stats.late_rows), (expected.clone(), late), "{count} nodes");
    }
}

#[test]
fn a_node_whose_splits_are_silent_does_not_hold_windows_back() {
    let gate = Arc::new(Gate::default());
    // The first split is read by the first node, the second by the other.
    let source = || {
        let silent = vec![
            Step::Rows(vec![(Some(1), 1, None)]),
            Step::Wait(Arc::clone(&gate)),
            Step::Rows(vec![(Some(2), 2, None), (Some(990), 2, None)]),
        ];
        let lively: Vec<Row> = (0..50).map(|i| (Some(i * 10), 3, None)).collect();
        MemorySource { splits: vec![silent, vec![Step::Rows(lively), Step::Wait(Arc::clone(&gate))]], bounded: false }
    };
    let mut plan = tumbling_plan(100, 0);
    plan.sources[0].watermark.as_mut().unwrap().idle_timeout_ms = Some(20);
    let sink = MemorySink::default();
    let written = Arc::clone(&sink.written);
    let (waiting, opened) = (Arc::clone(&written), Arc::clone(&gate));
    let opener = std::thread::spawn(move || {
        while waiting.rows.lock().unwrap().len() < 4 {
            std::thread::sleep(Duration::from_millis(1));
        }
        opened.open();
    });
    let (results, late) = run_on(2, &plan, source, sink, &CancelToken::new());
    results.into_iter().for_each(|result| result.unwrap());
    opener.join().unwrap();
    let rows = written.rows();
    assert_eq!(sorted(rows[..2].to_vec()), ["1,1,1,0,100", "3,10,3,0,100"]);
    assert_eq!(late, 1, "the node that wakes up learns what was decided without it");
    assert_eq!(rows.len(), 7);
}

#[test]
fn what_fails_on_one_node_ends_all() {
    for failing in 0..3 {
        for step in [Step::ReadError, Step::DecodePanic] {
            let source = || {
                let mut splits = vec![vec![Step::Rows(vec![(Some(1), 1, None)])]; 3];
                splits[failing].push(step.clone());
                MemorySource { splits, bounded: true }
            };
            let sink = MemorySink::default();
            let written = Arc::clone(&sink.written);
            let (results, _) = run_on(3, &tumbling_plan(100, 0), source, sink, &CancelToken::new());
            let codes: Vec<_> = results.into_iter().map(|result| result.unwrap_err().code).collect();
            assert!([code::READ_FAILED, code::WORKER_FAILED].contains(&codes[failing]), "{codes:?}");
            assert!(codes.iter().all(|other| *other == codes[failing]), "{codes:?}");
            assert!(!written.is_finished());
        }
    }
}

#[test]
fn the_limit_of_the_first_node_ends_all() {
    let source = || {
        let rows: Vec<Row> = (0..50).map(|i| (Some(i), i, None)).collect();
        MemorySource { splits: vec![vec![Step::Rows(rows); 20]; 4], bounded: false }
    };
    let sink = MemorySink::default();
    let written = Arc::clone(&sink.written);
    let (results, _) = run_on(3, &copy_plan(Some(70)), source, sink, &CancelToken::new());
    results.into_iter().for_each(|result| result.unwrap());
    assert_eq!(written.rows().len(), 70);
}

#[test]
fn nodes_that_are_stopped_end_in_good_order() {
    let gate = Arc::new(Gate::default());
    let source = || {
        let rows: Vec<Row> = (0..50).map(|i| (Some(i * 10), 3, None)).collect();
        MemorySource { splits: vec![vec![Step::Rows(rows), Step::Wait(Arc::clone(&gate))]; 3], bounded: false }
    };
    let (sink, cancel) = (MemorySink::default(), CancelToken::new());
    let written = Arc::clone(&sink.written);
    let (stop, waiting) = (cancel.clone(), Arc::clone(&written));
    let stopper = std::thread::spawn(move || {
        // Each window that is complete has one row.
        while waiting.rows.lock().unwrap().len() < 4 {
            std::thread::sleep(Duration::from_millis(1));
        }
        stop.stop();
    });
    let (results, _) = run_on(3, &tumbling_plan(100, 0), source, sink, &cancel);
    stopper.join().unwrap();
    gate.open();
    assert!(results.into_iter().all(|result| result.unwrap_err().code == code::CANCELLED));
    assert!(written.is_finished(), "what is complete is written");
    assert_eq!(sorted(written.rows())[0], "3,30,3,0,100");
}
