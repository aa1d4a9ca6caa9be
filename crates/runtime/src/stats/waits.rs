//! Backpressure: how long readers have waited before they could bring their next chunk, and what for (`schedule::flow`).

use super::forms::{from_seconds, seconds};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// The rule that a reader waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitCause {
    /// As many chunks are in flight as may be: workers or sinks are busy.
    InFlight,
    /// What is in flight takes too much memory: a sink does not write, or windows put out more than is consumed.
    Memory,
    /// State takes over 80 % of the budget, and the split is ahead of others.
    Behind,
}

/// How long a split has waited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitSnapshot {
    /// By [`WaitCause::InFlight`].
    #[serde(rename = "in_flight_s", serialize_with = "seconds", deserialize_with = "from_seconds")]
    pub in_flight: Duration,
    /// By [`WaitCause::Memory`].
    #[serde(rename = "memory_s", serialize_with = "seconds", deserialize_with = "from_seconds")]
    pub memory: Duration,
    /// By [`WaitCause::Behind`].
    #[serde(rename = "behind_s", serialize_with = "seconds", deserialize_with = "from_seconds")]
    pub behind: Duration,
    /// What it waits for now.
    pub now: Option<WaitCause>,
}

impl WaitSnapshot {
    /// By whatever cause.
    pub fn total(&self) -> Duration {
        self.in_flight.saturating_add(self.memory).saturating_add(self.behind)
    }

    /// Both together; what one of them waits for now is shown.
    pub(super) fn plus(&self, other: &WaitSnapshot) -> WaitSnapshot {
        WaitSnapshot {
            in_flight: self.in_flight.saturating_add(other.in_flight),
            memory: self.memory.saturating_add(other.memory),
            behind: self.behind.saturating_add(other.behind),
            now: self.now.or(other.now),
        }
    }

    fn of(&mut self, cause: WaitCause) -> &mut Duration {
        match cause {
            WaitCause::InFlight => &mut self.in_flight,
            WaitCause::Memory => &mut self.memory,
            WaitCause::Behind => &mut self.behind,
        }
    }
}

/// The waiting of a split: taken by its reader once a chunk, and by whoever looks.
#[derive(Debug, Default)]
pub(crate) struct Waits(Mutex<(WaitSnapshot, Option<Instant>)>);

impl Waits {
    /// From now on the split waits for this.
    pub(crate) fn begin(&self, cause: WaitCause) {
        let (waited, since) = &mut *self.0.lock();
        if waited.now == Some(cause) {
            return;
        }
        settle(waited, since);
        (waited.now, *since) = (Some(cause), Some(Instant::now()));
    }

    /// It waits no longer.
    pub(crate) fn end(&self) {
        let (waited, since) = &mut *self.0.lock();
        settle(waited, since);
    }

    /// With what has passed of a wait that is under way.
    pub(crate) fn snapshot(&self) -> WaitSnapshot {
        let (mut waited, mut since) = *self.0.lock();
        let now = waited.now;
        settle(&mut waited, &mut since);
        WaitSnapshot { now, ..waited }
    }
}

/// Adds what has been waited since the wait began.
fn settle(waited: &mut WaitSnapshot, since: &mut Option<Instant>) {
    if let (Some(cause), Some(since)) = (waited.now.take(), since.take()) {
        *waited.of(cause) += since.elapsed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_added_up_by_cause() {
        let waits = Waits::default();
        assert_eq!(waits.snapshot(), WaitSnapshot::default());
        waits.begin(WaitCause::InFlight);
        waits.begin(WaitCause::InFlight);
        let first = waits.snapshot();
        assert_eq!(
            (first.now, first.memory, first.behind),
            (Some(WaitCause::InFlight), Duration::ZERO, Duration::ZERO)
        );
        waits.begin(WaitCause::Behind);
        let second = waits.snapshot();
        assert!(second.now == Some(WaitCause::Behind) && second.in_flight >= first.in_flight);
        waits.end();
        waits.end();
        let third = waits.snapshot();
        assert!(third.now.is_none() && third.in_flight == second.in_flight && third.behind >= second.behind);
        assert_eq!(third.total(), third.in_flight + third.behind);
    }
}
