//! Runs whose storage fails at any moment, and that resume from what is there: the rows are those of an undisturbed
//! run.

use crate::support::keyed::{aggregates, windowed_operators};
use crate::support::stored::*;
use crate::support::*;
use millstream_plan::pipeline::{KeyedKind, QueryPlan, Sessions};
use millstream_runtime::*;
use millstream_storage::{Checkpoints, LocalStore};
use millstream_types::{Diagnostic, MemorySize, code};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How a job is run.
struct Attempt<'a> {
    plan: &'a QueryPlan,
    folder: &'a Path,
    committed: &'a Committed,
    /// Of its storage.
    failure: Failure,
    workers: usize,
    interval: Option<Duration>,
    retained: usize,
    memory: MemorySize,
    /// It is stopped at the first row that is output.
    stops: bool,
}

impl Attempt<'_> {
    /// Resumes from the newest checkpoint, if the job has not come to its end; what was read meanwhile.
    fn run(&self, source: MemorySource) -> (Result<(), Diagnostic>, Reads) {
        let there = manifests(self.folder);
        let base = there.first().map_or(0, |manifest| manifest.checkpoint);
        let restored = there.into_iter().next().map(|manifest| Recovered::new(self.plan, manifest).unwrap());
        commit_again(self.committed, restored.as_ref().map(Recovered::manifest));
        let reads = Reads::default();
        if restored.as_ref().is_some_and(|restored| restored.manifest().is_finished) {
            return (Ok(()), reads);
        }
        let cancel = CancelToken::new();
        let mut run = input(self.plan.clone(), vec![connector(source)], vec![MemorySink::default()]);
        let (committed, stops) = (Arc::clone(self.committed), self.stops.then(|| cancel.clone()));
        run.sinks = vec![Box::new(SpanSink { rows: MemorySink::default(), node: 0, committed, stops })];
        let store = FailingStore {
            inner: LocalStore::open(self.folder).unwrap(),
            failure: self.failure.clone(),
            reads: Arc::clone(&reads),
        };
        let (checkpoints, interval, retained) = (Checkpoints::new(Arc::new(store)), self.interval, self.retained);
        run.checkpoints =
            Some(CheckpointConfig { checkpoints, job: "j".into(), name: None, interval, retained, base, restored });
        let config = RunConfig { memory: self.memory, ..config(self.workers, 3) };
        (run_within(run, config, cancel).0, reads)
    }
}

/// Resumes with storage that fails.
fn attempt(
    plan: &QueryPlan,
    data: &[Vec<Row>],
    folder: &Path,
    committed: &Committed,
    failure: Failure,
    workers: usize,
) -> Result<(), Diagnostic> {
    let interval = Some(Duration::from_micros(200));
    let memory = MemorySize::Auto;
    Attempt { plan, folder, committed, failure, workers, interval, retained: 2, memory, stops: false }
        .run(MemorySource::of(data, 7))
        .0
}

fn goes_on_after_every_failure(plan: &QueryPlan, data: &[Vec<Row>]) {
    let (mut expected, _) = run_to_end(plan.clone(), MemorySource::of(data, 7), config(2, 3));
    expected.sort();
    for (operations, lasts) in (0..120).step_by(3).flat_map(|operations| [(operations, true), (operations, false)]) {
        let folder = tempfile::tempdir().unwrap();
        let committed = Committed::default();
        let first = attempt(plan, data, folder.path(), &committed, Failure::after(operations, lasts), 2);
        if let Err(failure) = &first {
            assert_eq!(failure.code, code::CHECKPOINT_FAILED, "{failure}");
            // Fails again a little later, and then no more.
            let second = attempt(plan, data, folder.path(), &committed, Failure::after(operations / 2 + 5, lasts), 3);
            if let Err(failure) = second {
                // What cannot be read now counts as damaged.
                let codes = [code::CHECKPOINT_FAILED, code::CHECKPOINT_DAMAGED];
                assert!(codes.contains(&failure.code), "{failure}");
            }
            attempt(plan, data, folder.path(), &committed, Failure::never(), 1).unwrap();
        }
        let rows = all_committed(&committed);
        let other = rows.iter().zip(&expected).find(|(found, expected)| found != expected);
        let (has, wants) = (rows.len(), expected.len());
        assert!(rows == expected, "{has} rows instead of {wants}, {operations} operations, first difference {other:?}");
    }
}

#[test]
fn windows_go_on_after_storage_has_failed_at_any_operation() {
    goes_on_after_every_failure(&tumbling_plan(100, 40), &random_splits(11, 3, 400, 60));
}

#[test]
fn chains_of_windows_do_too() {
    goes_on_after_every_failure(&chained_plan(50, 30, 170), &random_splits(12, 2, 400, 60));
}

#[test]
fn keyed_operators_do_too() {
    let [sessions, _] = windowed_operators(
        KeyedKind::Sessions(Sessions { gap_ms: 30, aggregates: Some(aggregates()) }),
        KeyedKind::Sessions(Sessions { gap_ms: 30, aggregates: None }),
    );
    goes_on_after_every_failure(&keyed::plan(sessions), &random_splits(13, 3, 400, 15));
}

/// Sessions of 400 names that are open for a long time, and of one more.
fn long_sessions() -> (QueryPlan, [Vec<Row>; 3]) {
    let gap_ms = 100_000;
    let kinds = (
        KeyedKind::Sessions(Sessions { gap_ms, aggregates: Some(aggregates()) }),
        KeyedKind::Sessions(Sessions { gap_ms, aggregates: None }),
    );
    let [sessions, _] = windowed_operators(kinds.0, kinds.1);
    let row = |time: i64, number: i64| (Some(time), number, Some(format!("the long name of number {number}")));
    let both = (0..400).map(|n| row(n, n)).chain((0..400).map(|n| row(50_000 + 10 * n, n)));
    // All rows are consumed when the first session of the last name ends.
    let first = [row(-1, 1000)].into_iter().chain(both).chain([row(110_000, 1000)]).collect();
    // The sessions of the first two names end, and nothing else.
    let second = vec![row(150_070, 1000)];
    let third = (0..50).map(|n| row(160_000 + n, 7 * n)).collect();
    (keyed::plan(sessions), [first, second, third])
}

#[test]
fn partitions_are_read_when_they_are_needed_and_stored_once() {
    let (plan, steps) = long_sessions();
    let steps = steps.map(Step::Rows);
    let source = |steps: &[Step]| MemorySource { splits: vec![steps.to_vec()], bounded: true };
    let (mut expected, _) = run_to_end(plan.clone(), source(&steps), config(2, 3));
    expected.sort();
    let folder = tempfile::tempdir().unwrap();
    let (committed, gate) = (Committed::default(), Arc::new(Gate::default()));
    let run = |steps: &[Step], workers: usize, stops: bool| {
        let attempt = Attempt {
            plan: &plan,
            folder: folder.path(),
            committed: &committed,
            failure: Failure::never(),
            workers,
            interval: None,
            retained: 1,
            memory: MemorySize::Auto,
            stops,
        };
        let wait = stops.then(|| Step::Wait(Arc::clone(&gate)));
        let (result, reads) = attempt.run(source(&steps.iter().cloned().chain(wait).collect::<Vec<_>>()));
        let reads = std::mem::take(&mut *reads.lock().unwrap());
        (result, reads.into_iter().filter(|(name, _)| name.starts_with("state")).count())
    };
    let stopped = |result: Result<(), Diagnostic>| assert_eq!(result.unwrap_err().code, code::SUSPENDED);
    let partitions = || manifests(folder.path()).remove(0).operators.remove(0).partitions;

    stopped(run(&steps[..1], 2, true).0);
    let first = partitions();
    assert!(first.iter().all(|kept| kept.waiting.is_empty()), "all rows were consumed");
    let (result, read) = run(&steps[..2], 3, true);
    stopped(result);
    assert_eq!(read, 2, "partitions that have something due");
    let second = partitions();
    let changed = first.iter().zip(&second).filter(|(before, after)| before.state != after.state).count();
    let waiting: Vec<usize> = second.iter().flat_map(|kept| &kept.waiting).map(|rows| rows.about.rows).collect();
    assert_eq!((changed, waiting), (2, vec![1]));

    // Damage is found where it is.
    let of_first = folder.path().join(&*first.iter().find(|kept| second.contains(kept)).unwrap().state.file);
    let whole = std::fs::read(&of_first).unwrap();
    std::fs::write(&of_first, whole.iter().map(|byte| !byte).collect::<Vec<_>>()).unwrap();
    assert_eq!(run(&steps, 2, false).0.unwrap_err().code, code::CHECKPOINT_DAMAGED);
    std::fs::write(&of_first, whole).unwrap();

    let (result, read) = run(&steps, 1, false);
    result.unwrap();
    assert_eq!(read, first.len() + 1, "all partitions, and the row that waited");
    gate.open();
    let rows = all_committed(&committed);
    assert_eq!(rows, expected);
}

/// How much memory there is decides how many partitions an operator has, and another process may have more or less.
#[test]
fn partitions_stay_what_they_were_when_memory_is_more_or_less() {
    let (plan, steps) = long_sessions();
    let steps = steps.map(Step::Rows);
    let source = |steps: &[Step]| MemorySource { splits: vec![steps.to_vec()], bounded: true };
    let (mut expected, _) = run_to_end(plan.clone(), source(&steps), config(2, 3));
    expected.sort();
    let (little, much) = (MemorySize::Bytes(64 << 20), MemorySize::Bytes(1 << 30));
    for (memory, later, partitions) in [(little, much, 256), (much, little, 64)] {
        let (folder, committed, gate) = (tempfile::tempdir().unwrap(), Committed::default(), Arc::new(Gate::default()));
        let run = |steps: &[Step], memory: MemorySize, stops: bool| {
            let (plan, folder, committed, failure) = (&plan, folder.path(), &committed, Failure::never());
            let attempt =
                Attempt { plan, folder, committed, failure, workers: 2, interval: None, retained: 1, memory, stops };
            let wait = stops.then(|| Step::Wait(Arc::clone(&gate)));
            attempt.run(source(&steps.iter().cloned().chain(wait).collect::<Vec<_>>())).0
        };
        for (steps, memory) in [(&steps[..1], memory), (&steps[..2], later)] {
            assert_eq!(run(steps, memory, true).unwrap_err().code, code::SUSPENDED);
            assert_eq!(manifests(folder.path())[0].operators[0].partitions.len(), partitions);
        }
        run(&steps, later, false).unwrap();
        gate.open();
        let rows = all_committed(&committed);
        assert_eq!(rows, expected, "{partitions} partitions");
    }
}
