//! What follows from a change of a stream or a station.
//!
//! Whoever changes something does so under its own lock, and says what follows. The query acts on that when the lock is gone
//! (`query`): so no lock is held while another part of the query is entered. Acting in another order than the changes happened
//! in does no harm: watermarks, generations and ends only advance, and units of a stream have numbers.

use super::task::{BufferPlace, Job, Task};
use crate::ids::StreamId;
use crate::schedule::flow::Permit;
use crate::schedule::timers::earlier;
use crate::stream::sequencer::Unit;
use millstream_sync::epoch_ring::Release;
use millstream_types::{Diagnostic, Spare};
use std::sync::{Arc, Weak};
use std::time::Instant;

/// See the module.
#[derive(Default)]
pub(crate) struct Consequences {
    /// To be scheduled.
    pub(crate) tasks: Vec<Task>,
    /// Tasks that wait.
    pub(crate) parked: Vec<Parked>,
    /// Units of streams, with their numbers.
    pub(crate) deliveries: Vec<(StreamId, u64, Unit)>,
    /// Progress of channels, by position in the channels of the stream.
    pub(crate) releases: Vec<(StreamId, usize, Release)>,
    /// Buffers that the stations at the ends of their pipelines are done with.
    pub(crate) finished: Vec<BufferPlace>,
    /// Something is due at a moment; it has been written down where [`Station::due`](super::Station::due) finds it.
    pub(crate) due: Option<Instant>,
    /// Watermarks that a station waits for, which the clock may have to bring.
    pub(crate) awaited: Vec<i64>,
    /// Stations that the cut has passed.
    pub(crate) cuts: usize,
    /// A split has come to the end of the beat, which is due.
    pub(crate) ends_beat: bool,
    /// Phases of which something is finished.
    pub(crate) phases: Vec<usize>,
    /// Sinks that have got all that they will get.
    pub(crate) sinks_done: usize,
    /// Kept in flight until all of this has been acted on.
    pub(crate) held: Vec<Arc<Permit>>,
    /// The job continues with this, at once and on the same worker, when all of this has been acted on.
    pub(crate) then: Option<Job>,
    /// Ends the query.
    pub(crate) error: Option<Diagnostic>,
}

/// A task that waits until some of the output is consumed.
pub(crate) struct Parked {
    pub(crate) task: Task,
    pub(crate) until: Until,
}

/// What a task waits for.
pub(crate) enum Until {
    /// A unit of a stream is the next, or little is in flight.
    Next(StreamId, u64),
    /// Enough of what the task has put out is consumed.
    Consumed(Unconsumed),
}

/// Rows that a task has put out, with their bytes, of which some are consumed already.
#[derive(Default)]
pub(crate) struct Unconsumed(Vec<(Weak<Permit>, u64)>);

impl Unconsumed {
    /// Takes note of rows that hold a permit until they are consumed.
    pub(crate) fn note(&mut self, permit: &Arc<Permit>, bytes: u64) {
        self.0.push((Arc::downgrade(permit), bytes));
    }

    /// Bytes of those that are not consumed.
    pub(crate) fn bytes(&mut self) -> u64 {
        self.0.retain(|(permit, _)| permit.strong_count() > 0);
        self.0.iter().map(|(_, bytes)| bytes).sum()
    }
}

thread_local! {
    static TASKS: Spare<Vec<Task>> = const { Spare::new() };
    static FINISHED: Spare<Vec<BufferPlace>> = const { Spare::new() };
    static DELIVERIES: Spare<Vec<(StreamId, u64, Unit)>> = const { Spare::new() };
    static RELEASES: Spare<Vec<(StreamId, usize, Release)>> = const { Spare::new() };
}

impl Consequences {
    /// Nothing yet; tasks will follow.
    pub(crate) fn of_tasks() -> Consequences {
        Consequences { tasks: TASKS.with(Spare::take), ..Consequences::default() }
    }

    /// The station is done with a buffer.
    pub(crate) fn finished(place: BufferPlace) -> Consequences {
        let mut finished = FINISHED.with(Spare::take);
        finished.push(place);
        Consequences { finished, ..Consequences::default() }
    }

    /// Keeps the memory of lists that have been acted on.
    pub(crate) fn recycle(lists: Consequences) {
        let Consequences { tasks, finished, deliveries, releases, .. } = lists;
        TASKS.with(|spare| spare.give(tasks));
        FINISHED.with(|spare| spare.give(finished));
        DELIVERIES.with(|spare| spare.give(deliveries));
        RELEASES.with(|spare| spare.give(releases));
    }

    /// Progress of a channel of a stream.
    pub(crate) fn release(&mut self, stream: StreamId, channel: usize, release: Release) {
        if self.releases.capacity() == 0 {
            self.releases = RELEASES.with(Spare::take);
        }
        self.releases.push((stream, channel, release));
    }

    /// A task waits, and nothing else follows.
    pub(crate) fn parked(task: Task, until: Until) -> Consequences {
        Consequences { parked: vec![Parked { task, until }], ..Consequences::default() }
    }

    /// A unit of a stream.
    pub(crate) fn deliver(&mut self, stream: StreamId, number: u64, unit: Unit) {
        if self.deliveries.capacity() == 0 {
            self.deliveries = DELIVERIES.with(Spare::take);
        }
        self.deliveries.push((stream, number, unit));
    }

    /// Something is due at a moment.
    pub(crate) fn due_at(&mut self, at: impl Into<Option<Instant>>) {
        self.due = earlier(self.due, at.into());
    }

    /// The error, if there is one, ends the query.
    pub(crate) fn note<T>(&mut self, result: Result<T, Diagnostic>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.error.get_or_insert(error);
                None
            }
        }
    }
}
