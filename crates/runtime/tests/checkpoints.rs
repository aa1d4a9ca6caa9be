//! Runs whose storage fails at any moment, and that go on from what is there: the rows are those of an undisturbed run.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod support;

use millstream_connectors::{Commit, Encoded, Encoder, Sink};
use millstream_plan::pipeline::{KeyedKind, QueryPlan};
use millstream_runtime::*;
use millstream_storage::{Checkpoints, LocalStore, Store, StoreWriter, StoredFile};
use millstream_types::{Diagnostic, code};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::keyed::{aggregates, plan, windowed_operators};
use support::*;

/// A store with an operation that fails.
#[derive(Debug)]
struct FailingStore {
    inner: LocalStore,
    failure: Failure,
}

struct FailingWriter {
    inner: Box<dyn StoreWriter>,
    failure: Failure,
}

/// After how many operations one fails, and whether all that follow do, too.
#[derive(Debug, Clone)]
struct Failure {
    left: Arc<AtomicU64>,
    lasts: bool,
}

impl Failure {
    fn after(operations: u64, lasts: bool) -> Failure {
        Failure { left: Arc::new(AtomicU64::new(operations)), lasts }
    }

    fn never() -> Failure {
        Failure::after(u64::MAX, true)
    }

    fn pass(&self) -> io::Result<()> {
        if self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok() {
            return Ok(());
        }
        if !self.lasts {
            self.left.store(u64::MAX, Relaxed);
        }
        Err(io::ErrorKind::StorageFull.into())
    }
}

impl Store for FailingStore {
    fn create(&self, name: &str) -> io::Result<Box<dyn StoreWriter>> {
        self.failure.pass()?;
        Ok(Box::new(FailingWriter { inner: self.inner.create(name)?, failure: self.failure.clone() }))
    }

    fn read(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>> {
        self.failure.pass()?;
        self.inner.read(name, range)
    }

    fn list(&self) -> io::Result<Vec<StoredFile>> {
        self.failure.pass()?;
        self.inner.list()
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        self.failure.pass()?;
        self.inner.delete(name)
    }

    fn place(&self) -> String {
        self.inner.place()
    }
}

impl StoreWriter for FailingWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Err(e) = self.failure.pass() {
            // A full disk takes a part of what is written.
            self.inner.write(&bytes[..bytes.len() / 2])?;
            return Err(e);
        }
        self.inner.write(bytes)
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        self.failure.pass()?;
        self.inner.finish()
    }
}

/// Rows that have been committed, by checkpoint.
type Committed = Arc<Mutex<BTreeMap<u64, Vec<String>>>>;

/// Shows rows when their span is committed.
struct SpanSink {
    rows: MemorySink,
    committed: Committed,
}

struct Span {
    checkpoint: u64,
    rows: Vec<String>,
    committed: Committed,
}

impl Sink for SpanSink {
    fn encoder(&self) -> Arc<dyn Encoder> {
        self.rows.encoder()
    }

    fn write(&mut self, piece: Encoded) -> Result<(), Diagnostic> {
        self.rows.write(piece)
    }

    fn flush(&mut self) -> Result<(), Diagnostic> {
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), Diagnostic> {
        assert!(self.rows.written.rows().is_empty(), "all spans have ended");
        Ok(())
    }

    fn cut(&mut self, checkpoint: u64) -> Result<Option<Box<dyn Commit>>, Diagnostic> {
        let rows = self.rows.written.rows();
        self.rows.written.rows.lock().unwrap().clear();
        Ok(Some(Box::new(Span { checkpoint, rows, committed: Arc::clone(&self.committed) })))
    }
}

impl Commit for Span {
    fn prepare(&mut self) -> Result<Value, Diagnostic> {
        Ok(json!(self.rows))
    }

    fn commit(self: Box<Self>) -> Result<(), Diagnostic> {
        self.committed.lock().unwrap().insert(self.checkpoint, self.rows);
        Ok(())
    }
}

/// Goes on from the newest checkpoint, with storage that fails; whether the job has come to its end.
fn attempt(
    plan: &QueryPlan,
    data: &[Vec<Row>],
    folder: &Path,
    committed: &Committed,
    failure: Failure,
    workers: usize,
) -> Result<(), Diagnostic> {
    let store = || LocalStore::open(folder).unwrap();
    let there = Checkpoints::new(Arc::new(store())).list().unwrap();
    let base = there.first().map_or(0, |listed| listed.checkpoint);
    // All of them are whole: what is not has no name.
    let restored = there.into_iter().next().map(|listed| listed.manifest.unwrap());
    let mut shown = committed.lock().unwrap();
    shown.retain(|&checkpoint, _| checkpoint <= base);
    if let Some(manifest) = &restored {
        let rows = manifest.sinks[0].token.as_ref().unwrap().as_array().unwrap().iter();
        let rows = rows.map(|row| row.as_str().unwrap().to_string()).collect();
        shown.insert(base, rows);
    }
    drop(shown);
    if restored.as_ref().is_some_and(|manifest| manifest.is_finished) {
        return Ok(());
    }
    let mut run = input(plan.clone(), vec![connector(MemorySource::of(data, 7))], vec![MemorySink::default()]);
    run.sinks = vec![Box::new(SpanSink { rows: MemorySink::default(), committed: Arc::clone(committed) })];
    let checkpoints = Checkpoints::new(Arc::new(FailingStore { inner: store(), failure }));
    let interval = Some(Duration::from_micros(200));
    run.checkpoints = Some(CheckpointConfig { checkpoints, job: "j".into(), interval, retained: 2, base, restored });
    run_within(run, config(workers, 3), CancelToken::new()).0
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
        let mut rows: Vec<String> = committed.lock().unwrap().values().flatten().cloned().collect();
        rows.sort();
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
        KeyedKind::SessionAggregate { gap_ms: 30, aggregates: aggregates() },
        KeyedKind::SessionRows { gap_ms: 30 },
    );
    goes_on_after_every_failure(&plan(sessions), &random_splits(13, 3, 400, 15));
}
