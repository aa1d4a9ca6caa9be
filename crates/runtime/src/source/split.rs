//! The splits of a source: how far each has been read, and what a checkpoint says of it.

use crate::ids::StreamId;
use arc_swap::ArcSwap;
use millstream_connectors::{Position, Witness};
use millstream_storage::SplitState;
use parking_lot::Mutex;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Instant;

/// A split of a source.
pub(crate) struct Split {
    pub(crate) stream: StreamId,
    /// Set again when the reader has found what it waited for.
    pub(super) name: ArcSwap<String>,
    /// Whether it waits for something to read, and is not part of checkpoints. Written by its reader alone, before its first
    /// chunk is handed over.
    pub(super) is_spare: AtomicBool,
    /// Whether it was so at first.
    pub(crate) was_spare: bool,
    /// How its reader begins.
    pub(super) begin: Begin,
    input: Described,
    pub(super) reading: Mutex<Reading>,
    /// Rows of the last chunk that was decoded; 0 before.
    pub(super) chunk_rows: AtomicUsize,
}

/// Who describes what is read of a split.
#[derive(Debug, Default)]
pub(crate) struct Described {
    pub(crate) witness: Option<Arc<dyn Witness>>,
    /// What the checkpoint says that the query was recovered from.
    pub(crate) before: Option<Value>,
}

/// How a reader begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begin {
    /// As the table's options say.
    Fresh,
    /// Where a checkpoint was taken; `None` if the split is younger than that.
    Resume(Option<Position>),
    /// It had been read to its end when the checkpoint was taken.
    Ended,
}

/// How far a split has been read. Its lock is taken before that of the stream and of aggregations.
#[derive(Debug, Default)]
pub(super) struct Reading {
    pub(super) units: u64,
    pub(super) ended: bool,
    /// When the reader started or last brought a chunk.
    pub(super) active: Option<Instant>,
    pub(super) idle: bool,
}

impl Split {
    pub(crate) fn new(stream: StreamId, name: &str, begin: Begin, is_spare: bool, input: Described) -> Split {
        let (name, was_spare) = (ArcSwap::from_pointee(name.into()), is_spare);
        let is_spare = AtomicBool::new(is_spare);
        let (reading, chunk_rows) = (Mutex::new(Reading::default()), AtomicUsize::new(0));
        Split { stream, name, is_spare, was_spare, begin, input, reading, chunk_rows }
    }

    /// What was read of it up to a position, or to its end, for a checkpoint. May wait for the disk.
    pub(crate) fn describe(&self, at: Option<Position>, has_ended: bool) -> Option<Value> {
        let now = self.input.witness.as_ref().and_then(|witness| witness.describe(at, has_ended));
        // Nothing has been read since the last checkpoint of an earlier process.
        now.or_else(|| self.input.before.clone())
    }

    /// The same for the last checkpoint, with the number of its stream and the rows that came of it; `None` if nothing has.
    pub(crate) fn as_read(&self, number: u32, rows: u64) -> Option<SplitState> {
        let (name, ended) = (self.name().to_string(), self.reading.lock().ended);
        let state = SplitState { name, number, rows, watermark: i64::MAX, ended, ..SplitState::default() };
        (!self.is_spare()).then_some(state)
    }

    /// Whether nothing has come of it and perhaps never will.
    pub(crate) fn is_spare(&self) -> bool {
        self.is_spare.load(Relaxed)
    }

    /// Whether it is left out of the watermark, as it is silent.
    pub(crate) fn is_idle(&self) -> bool {
        self.reading.lock().idle
    }

    /// Its name.
    pub(crate) fn name(&self) -> Arc<String> {
        self.name.load_full()
    }
}
