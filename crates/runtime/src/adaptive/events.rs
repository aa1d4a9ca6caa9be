//! What was observed of a running query, what was decided, and what that gained: the answer to "why did it recompile?".

use super::policy::Decision;
use crate::stats::forms::{gain, seconds};
use parking_lot::Mutex;
use serde::Serialize;
use std::collections::VecDeque;
use std::time::Duration;

/// Most events that are kept of a query; the oldest go first.
const KEPT: usize = 1000;

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EventKind {
    /// Anything but code: workers, buffers, tables, how windows are combined.
    Adapted,
    /// A variant of a program is compared with the one in use.
    Trial,
    /// A variant is used from now on.
    Adopted,
    /// A variant on trial is not.
    Dropped,
    /// What a variant assumes does not hold: the generic one is used again.
    Deoptimised,
}

/// A change of how a query runs. Rows are the same before and after.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Event {
    /// Since the start of the run.
    #[serde(rename = "at_s", serialize_with = "seconds")]
    pub at: Duration,
    /// What it is about.
    pub kind: EventKind,
    /// The part of the query: `pipeline 0`, `aggregation 1`.
    pub subject: String,
    /// What was seen.
    pub observed: String,
    /// What was done about it.
    pub decided: String,
    /// What came of it, once that is known: nanoseconds per row before and after.
    #[serde(flatten, serialize_with = "gain")]
    pub gain: Option<(f64, f64)>,
}

/// Names an event of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventId(u64);

/// The events of a query.
#[derive(Debug, Default)]
pub(crate) struct EventLog(Mutex<Events>);

#[derive(Debug, Default)]
struct Events {
    kept: VecDeque<Event>,
    /// Events that were dropped.
    dropped: u64,
}

impl EventLog {
    /// Appends an event.
    pub(crate) fn note(
        &self,
        at: Duration,
        kind: EventKind,
        subject: impl Into<String>,
        decision: Decision,
    ) -> EventId {
        let Decision { observed, decided } = decision;
        let mut events = self.0.lock();
        events.kept.push_back(Event { at, kind, subject: subject.into(), observed, decided, gain: None });
        if events.kept.len() > KEPT {
            events.kept.pop_front();
            events.dropped += 1;
        }
        EventId(events.dropped + events.kept.len() as u64 - 1)
    }

    /// Writes down what has come of an event, if it is still kept.
    pub(crate) fn judge(&self, id: EventId, before: f64, after: f64) {
        let mut events = self.0.lock();
        let place = id.0.checked_sub(events.dropped).map(|place| place as usize);
        if let Some(event) = place.and_then(|place| events.kept.get_mut(place)) {
            event.gain = Some((before, after));
        }
    }

    /// The last events in order.
    pub(crate) fn all(&self) -> Vec<Event> {
        self.0.lock().kept.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(at: u64) -> Event {
        let text = |what: &str| format!("{what} {at}");
        let at = Duration::from_millis(at);
        Event {
            at,
            kind: EventKind::Trial,
            subject: text("pipeline"),
            observed: text("seen"),
            decided: text("done"),
            gain: None,
        }
    }

    #[test]
    fn the_last_events_are_kept_and_judged() {
        let log = EventLog::default();
        let note = |Event { at, kind, subject, observed, decided, .. }: Event| {
            log.note(at, kind, subject, Decision { observed, decided })
        };
        let ids: Vec<EventId> = (0..KEPT as u64 + 5).map(|at| note(event(at))).collect();
        log.judge(ids[2], 1.0, 2.0);
        log.judge(ids[5], 3.0, 2.0);
        log.judge(*ids.last().unwrap(), 4.0, 1.0);
        let events = log.all();
        assert_eq!((events.len(), log.0.lock().dropped), (KEPT, 5));
        assert_eq!(events[0], Event { gain: Some((3.0, 2.0)), ..event(5) });
        assert_eq!(events.last().unwrap().gain, Some((4.0, 1.0)));
        assert_eq!(events.iter().filter(|e| e.gain.is_some()).count(), 2);
    }
}
