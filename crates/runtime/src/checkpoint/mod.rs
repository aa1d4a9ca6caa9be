//! Checkpoints: what a query needs to go on from a cut, written by a thread of its own while everything else goes on
//! (design section 9).
//!
//! Where the cut comes by, its parts are handed over: by whoever makes the cut (positions of splits), by the
//! thread that moves an aggregation or a keyed operator past it (tables, watermarks), by the worker that does a
//! partition's jobs (its state), by whoever uses a sink (the end of its span). None of them writes anything. The
//! *checkpointing thread* (`writer`) puts parts into files; when it has all of them, it prepares the spans of the sinks, writes
//! the manifest, commits the spans, tells sources, and removes what is not needed any more.
//!
//! One checkpoint at a time is under way. The number of a checkpoint is that of the last one before the process
//! began, plus the number of its generation.

mod config;
mod restore;
mod stored;
mod writer;

pub use config::{CheckpointConfig, Unfit, check_fit};
pub(crate) use restore::{Restored, RestoredSplit, RestoredWatermarks};
pub(crate) use stored::{CheckpointedBlob, Restorable, StateBlob, finish_checkpointed};
pub(crate) use writer::{finish_job, write_checkpoints};

use crate::buffer::Generation;
use crate::cancel::CancelState;
use crate::query::Query;
use crate::tables::FrozenByNumber;
use crate::timers::{after, earlier};
use millstream_connectors::Commit;
use millstream_storage::{SourceState, WaitingRows};
use millstream_types::{Diagnostic, code};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How soon to try again when a cut cannot be made yet.
const RETRY: Duration = Duration::from_millis(20);

/// A part of a checkpoint.
pub(crate) enum Part {
    /// How far sources had been read, and how many aggregations, operators and sinks hand over what they have.
    Sources { sources: Vec<SourceState>, components: usize },
    /// What an aggregation keeps.
    Aggregation { aggregation: usize, watermark: i64, tables: FrozenByNumber, overlap: Option<SweptSlices> },
    /// What a keyed operator keeps besides its partitions; `has_ended`: those have nothing any more.
    Operator { operator: usize, watermark: i64, windows: Vec<i64>, has_ended: bool },
    /// What a partition keeps; `None` if that is what it was at the last checkpoint.
    Partition { operator: usize, partition: usize, kept: Option<SavedPartition> },
    /// The end of a sink's span.
    Sink { sink: usize, commit: Option<Box<dyn Commit>> },
}

/// What a partition of a keyed operator keeps, when the cut came by.
pub(crate) struct SavedPartition {
    /// What it remembers; `None` if that is what it was at the last checkpoint.
    pub(crate) state: Option<Saved>,
    /// See `PartitionState::due`.
    pub(crate) due: i64,
    /// Rows that wait for it.
    pub(crate) waiting: Vec<(WaitingRows, Saved)>,
}

/// Encoded state.
pub(crate) enum Saved {
    /// In memory.
    Bytes(Vec<u8>),
    /// In a file; one of a checkpoint is named again.
    Blob(StateBlob),
}

/// Slices of overlapping windows of which some have been fired.
pub(crate) struct SweptSlices {
    /// The slices.
    pub(crate) slices: FrozenByNumber,
    /// End of the last window, and of the last one that holds a slice so far.
    pub(crate) swept: Option<(i64, i64)>,
}

/// A part with the checkpoint that it belongs to.
pub(crate) type Message = (u64, Part);

/// The checkpoints of a running query.
pub(crate) struct Checkpointing {
    pub(crate) config: CheckpointConfig,
    progress: Mutex<Progress>,
    parts: Mutex<Option<Sender<Message>>>,
    /// For the checkpointing thread, until that has it.
    receiver: Mutex<Option<Receiver<Message>>>,
    /// What was restored, as long as somebody may read it: the files stay, whichever checkpoints name them.
    restored: Mutex<Vec<Weak<dyn Restorable>>>,
}

struct Progress {
    /// Generation that begins with the checkpoint under way.
    under_way: Option<Generation>,
    /// When the last one began; or the query.
    begun: Instant,
    /// The last complete one.
    complete: Option<u64>,
    /// Requests so far of [`crate::CancelToken::checkpoint`] that have been met.
    requests_met: u64,
    /// The checkpoint that a stop waits for.
    last: Option<u64>,
}

impl Checkpointing {
    pub(crate) fn new(config: CheckpointConfig) -> Checkpointing {
        let (sender, receiver) = channel();
        let complete = config.restored.as_ref().map(|restored| restored.checkpoint);
        let progress = Progress { under_way: None, begun: Instant::now(), complete, requests_met: 0, last: None };
        Checkpointing {
            config,
            progress: Mutex::new(progress),
            parts: Mutex::new(Some(sender)),
            receiver: Mutex::new(Some(receiver)),
            restored: Mutex::default(),
        }
    }

    /// Takes note of what is read from the files of a checkpoint when it is needed.
    pub(crate) fn note_restored(&self, restored: Weak<dyn Restorable>) {
        self.restored.lock().push(restored);
    }

    /// The files of checkpoints that may still be read.
    pub(crate) fn files_read(&self) -> BTreeSet<Arc<str>> {
        let mut restored = self.restored.lock();
        restored.retain(|restored| restored.strong_count() > 0);
        restored.iter().filter_map(Weak::upgrade).flat_map(|restored| restored.files()).collect()
    }

    /// What the checkpointing thread listens to; once.
    pub(crate) fn listen(&self) -> Option<Receiver<Message>> {
        self.receiver.lock().take()
    }

    /// The number of the checkpoint that ends before a generation.
    pub(crate) fn number(&self, generation: Generation) -> u64 {
        self.config.base + u64::from(generation.0)
    }

    /// No parts come any more: the thread ends when it has done what it can.
    pub(crate) fn close(&self) {
        *self.parts.lock() = None;
    }

    /// A checkpoint is complete.
    pub(crate) fn complete(&self, checkpoint: u64) {
        let mut progress = self.progress.lock();
        (progress.under_way, progress.complete) = (None, Some(checkpoint));
    }
}

impl Query {
    /// Notes that a checkpoint ends before a generation.
    pub(crate) fn checkpoint_begins(&self, generation: Generation) {
        if let Some(checkpointing) = &self.checkpointing {
            let mut progress = checkpointing.progress.lock();
            (progress.under_way, progress.begun) = (Some(generation), Instant::now());
        }
    }

    /// The checkpoint that ends before a generation, if there is one.
    pub(crate) fn checkpoint_before(&self, generation: Generation) -> Option<u64> {
        let checkpointing = self.checkpointing.as_ref()?;
        let is_under_way = checkpointing.progress.lock().under_way == Some(generation);
        is_under_way.then(|| checkpointing.number(generation))
    }

    /// Hands a part of the checkpoint over that ends before a generation, if there is one.
    pub(crate) fn hand_over(&self, generation: Generation, part: impl FnOnce() -> Part) {
        let (Some(number), Some(checkpointing)) = (self.checkpoint_before(generation), &self.checkpointing) else {
            return;
        };
        if let Some(parts) = &*checkpointing.parts.lock() {
            // The thread that listens has ended only if the query is over.
            let _ = parts.send((number, part()));
        }
    }

    /// Whether checkpoints are taken while the query runs. One with a LIMIT has none but the last: it may end at any moment,
    /// whatever is on its way.
    pub(crate) fn takes_checkpoints(&self) -> bool {
        self.checkpointing.is_some() && self.plan.sinks.iter().all(|sink| sink.limit.is_none())
    }

    /// Begins a checkpoint when it is time or someone has asked for one; when to look again.
    pub(crate) fn checkpoint_if_due(&self, now: Instant) -> Result<Option<Instant>, Diagnostic> {
        let Some(checkpointing) = self.checkpointing.as_ref().filter(|_| self.takes_checkpoints()) else {
            return Ok(None);
        };
        let (requests, suspends) = (self.cancel.checkpoints(), self.cancel.state() == CancelState::Stop);
        let progress = checkpointing.progress.lock();
        if suspends && progress.last.is_some() && progress.last == progress.complete {
            let number = progress.complete.unwrap_or_default();
            let message = format!("the query was stopped; checkpoint {number} has all that it needs to go on");
            return Err(Diagnostic::new(code::SUSPENDED, message));
        }
        if progress.under_way.is_some() {
            // Whoever completes it wakes the supervisor.
            return Ok(None);
        }
        let due = checkpointing.config.interval.and_then(|interval| progress.begun.checked_add(interval));
        let is_asked = requests > progress.requests_met || (suspends && progress.last.is_none());
        if !is_asked && due.is_none_or(|due| due > now) {
            return Ok(due);
        }
        drop(progress);
        if !self.phases.are_open() || !self.make_cut(true) {
            return Ok(earlier(due, now.checked_add(RETRY)));
        }
        let mut progress = checkpointing.progress.lock();
        progress.requests_met = requests;
        if suspends {
            let generation = progress.under_way;
            progress.last = generation.map(|generation| checkpointing.number(generation)).or(progress.complete);
        }
        drop(progress);
        self.stats.checkpoints.begun.fetch_add(1, Relaxed);
        let interval = checkpointing.config.interval.and_then(|i| u64::try_from(i.as_millis()).ok());
        Ok(interval.and_then(|interval| after(now, interval)))
    }
}
