//! The checkpoints of a running query: when they begin, and the way of their parts to the checkpointing thread.

use super::config::CheckpointConfig;
use super::part::Part;
use super::schedule::{CheckpointDue, CheckpointSchedule};
use crate::exchange::StoredByNode;
use crate::ids::Generation;
use millstream_storage::SourceState;
use millstream_types::Diagnostic;
use parking_lot::Mutex;
use std::any::Any;
use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::Instant;

/// A part with the checkpoint that it belongs to.
pub(crate) type Message = (u64, Handed);

/// What is handed over.
pub(crate) enum Handed {
    /// How far sources had been read, and how many stations hand over what they have.
    Sources(Vec<SourceState>, usize),
    /// What a station has.
    Part(Part),
    /// To the first of several nodes: what another one has stored.
    OfNode(usize, StoredByNode),
    /// To the others: the first one has completed it.
    Completed,
}

/// What was restored, and its files.
type WithFiles = (Weak<dyn Any + Send + Sync>, BTreeSet<Arc<str>>);

/// The checkpoints of a running query.
pub(crate) struct Checkpointing {
    pub(crate) config: CheckpointConfig,
    schedule: Mutex<CheckpointSchedule>,
    parts: Mutex<Option<Sender<Message>>>,
    /// For the checkpointing thread, until that has it.
    receiver: Mutex<Option<Receiver<Message>>>,
    /// As long as somebody may read it its files stay, whichever checkpoints name them.
    pub(super) restored: Mutex<Vec<WithFiles>>,
}

impl Checkpointing {
    pub(crate) fn new(config: CheckpointConfig) -> Checkpointing {
        let (sender, receiver) = channel();
        let complete = config.restored.as_ref().map(|restored| restored.manifest().checkpoint);
        let schedule = CheckpointSchedule::new(config.interval, complete, Instant::now());
        Checkpointing {
            config,
            schedule: Mutex::new(schedule),
            parts: Mutex::new(Some(sender)),
            receiver: Mutex::new(Some(receiver)),
            restored: Mutex::default(),
        }
    }

    /// The files of checkpoints that may still be read.
    pub(crate) fn files_read(&self) -> BTreeSet<Arc<str>> {
        let mut restored = self.restored.lock();
        restored.retain(|(restored, _)| restored.strong_count() > 0);
        restored.iter().flat_map(|(_, files)| files).cloned().collect()
    }

    /// What the checkpointing thread listens to; once.
    pub(crate) fn listen(&self) -> Option<Receiver<Message>> {
        self.receiver.lock().take()
    }

    /// The number of the checkpoint that ends before a generation of tables.
    pub(crate) fn number(&self, tables: Generation) -> u64 {
        self.config.base + u64::from(tables.0)
    }

    /// No parts come any more: the thread ends when it has done what it can.
    pub(crate) fn close(&self) {
        *self.parts.lock() = None;
    }

    /// A checkpoint is complete.
    pub(crate) fn complete(&self, checkpoint: u64) {
        self.schedule.lock().complete(checkpoint);
    }

    /// Whether one has been begun that is not complete.
    pub(crate) fn is_under_way(&self) -> bool {
        self.under_way().is_some()
    }

    /// The one that has been begun and is not complete: the generation that begins with it, and its number.
    pub(crate) fn under_way(&self) -> Option<(Generation, u64)> {
        self.schedule.lock().under_way()
    }

    /// The last that is complete, by this process or an earlier one.
    pub(crate) fn last_complete(&self) -> Option<u64> {
        self.schedule.lock().last_complete()
    }

    /// The one that the query has resumed from.
    pub(crate) fn restored_number(&self) -> Option<u64> {
        self.config.restored.as_ref().map(|restored| restored.manifest().checkpoint)
    }

    /// The cuts of this run for tables or checkpoints up to that of a checkpoint, with it.
    pub(crate) fn table_cuts_to(&self, checkpoint: u64) -> u32 {
        u32::try_from(checkpoint.saturating_sub(self.config.base)).unwrap_or(u32::MAX)
    }

    /// Whether a checkpoint of the job has been completed, by this process or an earlier one.
    pub(crate) fn has_completed(&self) -> bool {
        self.last_complete().is_some()
    }

    /// Notes that a checkpoint ends before a generation, which begins one of tables.
    pub(crate) fn begin(&self, generation: Generation, tables: Generation) {
        self.schedule.lock().begin(generation, self.number(tables), Instant::now());
    }

    /// The checkpoint that ends before a generation, if there is one.
    pub(crate) fn before(&self, generation: Generation) -> Option<u64> {
        self.schedule.lock().before(generation)
    }

    /// Hands something over for the checkpoint that ends before a generation, if there is one. Never waits.
    pub(crate) fn hand_over(&self, generation: Generation, handed: impl FnOnce() -> Handed) {
        if let Some(number) = self.before(generation) {
            self.send(number, handed());
        }
    }

    /// The same for the checkpoint with this number.
    pub(crate) fn send(&self, number: u64, handed: Handed) {
        if let Some(parts) = &*self.parts.lock() {
            // The thread that listens has ended only if the query is over.
            let _ = parts.send((number, handed));
        }
    }

    /// Begins a checkpoint by `cut`, when it is time or `asked` for ([`CheckpointSchedule::due`]); when to look again, and whether one was begun.
    pub(crate) fn begin_if_due(
        &self,
        now: Instant,
        asked: (u64, bool),
        cut: impl FnOnce() -> bool,
    ) -> Result<(Option<Instant>, bool), Diagnostic> {
        // Not locked while the cut is made: that notes what begins.
        let due = self.schedule.lock().due(now, asked)?;
        Ok(match due {
            CheckpointDue::Later(at) => (at, false),
            CheckpointDue::Now if !cut() => (self.schedule.lock().postponed(now), false),
            CheckpointDue::Now => (self.schedule.lock().made(now, asked), true),
        })
    }
}
