//! The checkpoints of a running query: when they begin, and the way of their parts to the checkpointing thread.

use super::config::CheckpointConfig;
use super::part::Part;
use crate::exchange::StoredByNode;
use crate::ids::Generation;
use crate::schedule::timers::{after, earlier};
use millstream_storage::SourceState;
use millstream_types::{Diagnostic, code};
use parking_lot::Mutex;
use std::any::Any;
use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How soon to try again when a cut cannot be made yet.
const RETRY: Duration = Duration::from_millis(20);

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
    schedule: Mutex<Schedule>,
    parts: Mutex<Option<Sender<Message>>>,
    /// For the checkpointing thread, until that has it.
    receiver: Mutex<Option<Receiver<Message>>>,
    /// As long as somebody may read it its files stay, whichever checkpoints name them.
    pub(super) restored: Mutex<Vec<WithFiles>>,
}

struct Schedule {
    /// The checkpoint under way: the generation that begins with it, and its number.
    under_way: Option<(Generation, u64)>,
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
        let complete = config.restored.as_ref().map(|restored| restored.manifest().checkpoint);
        let schedule = Schedule { under_way: None, begun: Instant::now(), complete, requests_met: 0, last: None };
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
        let mut schedule = self.schedule.lock();
        schedule.under_way.take_if(|(_, number)| *number == checkpoint);
        schedule.complete = Some(checkpoint);
    }

    /// Whether one has been begun that is not complete.
    pub(crate) fn is_under_way(&self) -> bool {
        self.schedule.lock().under_way.is_some()
    }

    /// Whether a checkpoint of the job has been completed, by this process or an earlier one.
    pub(crate) fn has_completed(&self) -> bool {
        self.schedule.lock().complete.is_some()
    }

    /// Notes that a checkpoint ends before a generation, which begins one of tables.
    pub(crate) fn begin(&self, generation: Generation, tables: Generation) {
        let mut schedule = self.schedule.lock();
        (schedule.under_way, schedule.begun) = (Some((generation, self.number(tables))), Instant::now());
    }

    /// The checkpoint that ends before a generation, if there is one.
    pub(crate) fn before(&self, generation: Generation) -> Option<u64> {
        let under_way = self.schedule.lock().under_way;
        under_way.filter(|(begun, _)| *begun == generation).map(|(_, number)| number)
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

    /// Begins a checkpoint by `cut`, when it is time or `requests` or `is_last` ask for one; when to look again, and whether one
    /// was begun. The last one, of a job that is stopped, ends the query when it is complete.
    pub(crate) fn begin_if_due(
        &self,
        now: Instant,
        (requests, is_last): (u64, bool),
        cut: impl FnOnce() -> bool,
    ) -> Result<(Option<Instant>, bool), Diagnostic> {
        let schedule = self.schedule.lock();
        if is_last && schedule.last.is_some() && schedule.last == schedule.complete {
            let number = schedule.complete.unwrap_or_default();
            let message = format!("the query was stopped; checkpoint {number} has all that it needs to resume");
            return Err(Diagnostic::new(code::SUSPENDED, message));
        }
        if schedule.under_way.is_some() {
            // Whoever completes it wakes the supervisor.
            return Ok((None, false));
        }
        let interval = self.config.interval;
        let due = interval.and_then(|interval| schedule.begun.checked_add(interval));
        let is_asked = requests > schedule.requests_met || (is_last && schedule.last.is_none());
        if !is_asked && due.is_none_or(|due| due > now) {
            return Ok((due, false));
        }
        drop(schedule);
        if !cut() {
            // What is due already is tried again as seldom as what was asked for.
            return Ok((earlier(due.filter(|&due| due > now), now.checked_add(RETRY)), false));
        }
        let mut schedule = self.schedule.lock();
        schedule.requests_met = requests;
        if is_last {
            schedule.last = schedule.under_way.map(|(_, number)| number).or(schedule.complete);
        }
        let interval = interval.and_then(|interval| u64::try_from(interval.as_millis()).ok());
        Ok((interval.and_then(|interval| after(now, interval)), true))
    }
}
