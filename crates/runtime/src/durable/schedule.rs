//! When checkpoints begin and end: no thread and no clock; whoever calls has the time, and makes the cut.

use crate::ids::Generation;
use crate::schedule::timers::{after, earlier};
use millstream_types::{Diagnostic, code};
use std::time::{Duration, Instant};

/// How soon to try again when a cut cannot be made yet.
const RETRY: Duration = Duration::from_millis(20);

/// The checkpoints of a running query. One at a time is under way.
pub struct CheckpointSchedule {
    /// From one to the next; `None`: only those that are asked for.
    interval: Option<Duration>,
    /// The checkpoint under way: the generation that begins with it, and its number.
    under_way: Option<(Generation, u64)>,
    /// When the last one began; or the query.
    begun: Instant,
    /// The last complete one.
    complete: Option<u64>,
    /// Requests so far that have been met.
    requests_met: u64,
    /// The checkpoint that a stop waits for.
    last: Option<u64>,
}

/// What is to be done about the next checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckpointDue {
    /// Nothing until then, or until the one under way is complete.
    Later(Option<Instant>),
    /// A cut is to be made for it.
    Now,
}

/// Why a query ends that was stopped, and has a checkpoint.
pub(crate) fn suspended(checkpoint: u64) -> Diagnostic {
    let message = format!("the query was stopped; checkpoint {checkpoint} has all that it needs to resume");
    Diagnostic::new(code::SUSPENDED, message)
}

impl CheckpointSchedule {
    /// Of a query that begins now, after a checkpoint if it resumes from one.
    pub fn new(interval: Option<Duration>, complete: Option<u64>, now: Instant) -> CheckpointSchedule {
        CheckpointSchedule { interval, under_way: None, begun: now, complete, requests_met: 0, last: None }
    }

    /// A checkpoint is complete.
    pub fn complete(&mut self, checkpoint: u64) {
        self.under_way.take_if(|(_, number)| *number == checkpoint);
        self.complete = Some(checkpoint);
    }

    /// The one that has been begun and is not complete: the generation that begins with it, and its number.
    pub fn under_way(&self) -> Option<(Generation, u64)> {
        self.under_way
    }

    /// The last checkpoint of the job that is complete, by this process or an earlier one.
    pub fn last_complete(&self) -> Option<u64> {
        self.complete
    }

    /// Notes that the checkpoint of this number ends before a generation.
    pub fn begin(&mut self, generation: Generation, number: u64, now: Instant) {
        (self.under_way, self.begun) = (Some((generation, number)), now);
    }

    /// The checkpoint that ends before a generation, if there is one.
    pub fn before(&self, generation: Generation) -> Option<u64> {
        self.under_way.filter(|(begun, _)| *begun == generation).map(|(_, number)| number)
    }

    /// Whether a checkpoint is to begin: because it is time, or `requests` or `is_last` ask for one. The last one, of a job that is stopped, ends the
    /// query when it is complete.
    ///
    /// # Errors
    /// [`SUSPENDED`](code::SUSPENDED) when the last one is complete.
    pub fn due(&self, now: Instant, (requests, is_last): (u64, bool)) -> Result<CheckpointDue, Diagnostic> {
        if is_last && self.last.is_some() && self.last == self.complete {
            return Err(suspended(self.complete.unwrap_or_default()));
        }
        if self.under_way.is_some() {
            // Whoever completes it looks again.
            return Ok(CheckpointDue::Later(None));
        }
        let due = self.by_interval();
        let is_asked = requests > self.requests_met || (is_last && self.last.is_none());
        Ok(if is_asked || due.is_some_and(|due| due <= now) { CheckpointDue::Now } else { CheckpointDue::Later(due) })
    }

    fn by_interval(&self) -> Option<Instant> {
        self.interval.and_then(|interval| self.begun.checked_add(interval))
    }

    /// The cut for it cannot be made yet; when to look again.
    pub fn postponed(&self, now: Instant) -> Option<Instant> {
        // What is due already is tried again as seldom as what was asked for.
        earlier(self.by_interval().filter(|&due| due > now), now.checked_add(RETRY))
    }

    /// The cut for it has been made; when to look again.
    pub fn made(&mut self, now: Instant, (requests, is_last): (u64, bool)) -> Option<Instant> {
        self.requests_met = requests;
        if is_last {
            self.last = self.under_way.map(|(_, number)| number).or(self.complete);
        }
        let interval = self.interval.and_then(|interval| u64::try_from(interval.as_millis()).ok());
        interval.and_then(|interval| after(now, interval))
    }
}
