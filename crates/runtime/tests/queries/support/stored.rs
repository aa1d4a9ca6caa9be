//! Stores that fail, and sinks whose rows are seen when they are committed.

use super::MemorySink;
use millstream_connectors::{Commit, Encoded, Encoder, LostSink, Sink};
use millstream_runtime::CancelToken;
use millstream_storage::{Checkpoints, LocalStore, Manifest, Store, StoreWriter, StoredFile};
use millstream_types::Diagnostic;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// Files that were read, and where.
pub type Reads = Arc<Mutex<Vec<(String, Range<u64>)>>>;

/// A store with an operation that fails.
#[derive(Debug)]
pub struct FailingStore {
    pub inner: LocalStore,
    pub failure: Failure,
    pub reads: Reads,
}

struct FailingWriter {
    inner: Box<dyn StoreWriter>,
    failure: Failure,
}

/// After how many operations one fails, and whether all that follow do, too.
#[derive(Debug, Clone)]
pub struct Failure {
    left: Arc<AtomicU64>,
    lasts: bool,
}

impl Failure {
    pub fn after(operations: u64, lasts: bool) -> Failure {
        Failure { left: Arc::new(AtomicU64::new(operations)), lasts }
    }

    pub fn never() -> Failure {
        Failure::after(u64::MAX, true)
    }

    /// Every operation fails from now on.
    pub fn begin(&self) {
        self.left.store(0, Relaxed);
    }

    pub fn pass(&self) -> io::Result<()> {
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
        self.reads.lock().unwrap().push((name.to_string(), range.clone()));
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

/// Rows that have been committed, by checkpoint and node.
pub type Committed = Arc<Mutex<BTreeMap<(u64, usize), Vec<String>>>>;

/// Shows rows when their span is committed.
pub struct SpanSink {
    pub rows: MemorySink,
    pub node: usize,
    pub committed: Committed,
    /// Stops the query at the first row.
    pub stops: Option<CancelToken>,
}

/// Rows of a node, between two checkpoints.
#[derive(Serialize, Deserialize)]
struct SpanToken {
    checkpoint: u64,
    node: usize,
    rows: Vec<String>,
}

impl SpanToken {
    fn commit(self, committed: &Committed) {
        committed.lock().unwrap().insert((self.checkpoint, self.node), self.rows);
    }
}

struct Span {
    token: SpanToken,
    committed: Committed,
}

impl Sink for SpanSink {
    fn encoder(&self) -> Arc<dyn Encoder> {
        self.rows.encoder()
    }

    fn write(&mut self, piece: Encoded) -> Result<(), Diagnostic> {
        self.stops.iter().for_each(CancelToken::stop);
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
        let token = SpanToken { checkpoint, node: self.node, rows };
        Ok(Some(Box::new(Span { token, committed: Arc::clone(&self.committed) })))
    }

    fn commit_of_others(&mut self, tokens: &[Value]) -> Result<(), Diagnostic> {
        tokens.iter().for_each(|token| SpanToken::deserialize(token).unwrap().commit(&self.committed));
        Ok(())
    }

    fn succeed(&mut self, lost: &LostSink<'_>) -> Result<(), Diagnostic> {
        let LostSink { node, token, is_lost } = *lost;
        assert!(is_lost(node) && !is_lost(0));
        let token = token.map(|token| SpanToken::deserialize(token).unwrap());
        assert!(token.iter().all(|token| token.node == node));
        token.into_iter().for_each(|token| token.commit(&self.committed));
        Ok(())
    }
}

impl Commit for Span {
    fn prepare(&mut self) -> Result<Value, Diagnostic> {
        Ok(json!(self.token))
    }

    fn commit(self: Box<Self>) -> Result<(), Diagnostic> {
        self.token.commit(&self.committed);
        Ok(())
    }
}

/// The checkpoints that are there, the newest first. All of them are whole: what is not has no name.
pub fn manifests(folder: &Path) -> Vec<Manifest> {
    let listed = Checkpoints::new(Arc::new(LocalStore::existing(folder))).list().unwrap();
    listed.into_iter().map(|listed| listed.manifest.unwrap()).collect()
}

/// Takes back what was committed behind the newest checkpoint, and commits what that one says, as a job that resumes does.
pub fn commit_again(committed: &Committed, newest: Option<&Manifest>) {
    let base = newest.map_or(0, |manifest| manifest.checkpoint);
    committed.lock().unwrap().retain(|&(checkpoint, _), _| checkpoint <= base);
    let tokens = newest.iter().flat_map(|manifest| manifest.sinks[0].tokens());
    tokens.for_each(|token| SpanToken::deserialize(token).unwrap().commit(committed));
}

/// All rows that were committed, sorted.
pub fn all_committed(committed: &Committed) -> Vec<String> {
    let mut rows: Vec<String> = committed.lock().unwrap().values().flatten().cloned().collect();
    rows.sort();
    rows
}
