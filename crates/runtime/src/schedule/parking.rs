//! Tasks that put rows out wait while too many rows that were put out are not consumed: so what windows and keyed operators put
//! out, when a watermark completes much at once, is bounded, too. Only of queries that may spill: others have the memory.
//!
//! A task whose unit is the next of its stream never waits ([`Host::may_put_out`]), and one that has put out part of a unit
//! waits for workers and sinks alone. So nobody waits forever.

use crate::host::Host;
use crate::station::{Parked, Task, Until};
use crate::stream::Stream;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How soon the supervisor looks again whether output has been consumed.
const LOOK: Duration = Duration::from_millis(1);

/// The tasks of a query that wait for output to be consumed.
#[derive(Default)]
pub(crate) struct Parking {
    tasks: Mutex<Vec<Parked>>,
    /// Whether one waits for its unit to be the next.
    has_next: AtomicBool,
}

impl Parking {
    /// Has tasks wait; when to look at them.
    pub(crate) fn park(&self, parked: Vec<Parked>) -> Option<Instant> {
        if parked.is_empty() {
            return None;
        }
        let waits_for_turn = parked.iter().any(|parked| matches!(parked.until, Until::Next(..)));
        self.tasks.lock().extend(parked);
        if waits_for_turn {
            self.has_next.store(true, Ordering::SeqCst);
        }
        Instant::now().checked_add(LOOK)
    }

    /// The tasks that need not wait any more; when to look at the others.
    pub(crate) fn resume(&self, now: Instant, host: &Host, streams: &[Arc<Stream>]) -> (Vec<Task>, Option<Instant>) {
        let most = host.spilling.most_unconsumed() / 2;
        let mut parked = self.tasks.lock();
        let goes_on = |parked: &mut Parked| match &mut parked.until {
            Until::Next(stream, unit) => host.may_put_out(&streams[stream.index()], *unit),
            Until::Consumed(output) => output.bytes() <= most,
        };
        let tasks = parked.extract_if(.., goes_on).map(|parked| parked.task).collect();
        self.has_next.store(parked.iter().any(|p| matches!(p.until, Until::Next(..))), Ordering::SeqCst);
        let next = (!parked.is_empty()).then(|| now.checked_add(LOOK)).flatten();
        (tasks, next)
    }

    /// Whether a unit that is put out may be one that a task waits for. A task that is parked at this very moment is found by the
    /// supervisor.
    pub(crate) fn has_next(&self) -> bool {
        self.has_next.load(Ordering::SeqCst)
    }

    /// Drops all tasks: the query is over.
    pub(crate) fn clear(&self) {
        self.tasks.lock().clear();
    }
}
