//! Tasks that put rows out wait while too many rows that were put out are not consumed: so what windows and keyed operators put
//! out, when a watermark completes much at once, is bounded, too. Only of queries that may spill: others have the memory.
//!
//! # Why nobody waits for ever
//!
//! A task that puts out the next unit of its stream may always run. Nothing in its stream comes before it, so its rows
//! are consumed by what reads the stream, whose tasks may run by the same rule, down to the sinks. So the next unit
//! becomes a later one, until the turn of each has come.

use crate::buffer::Rows;
use crate::columns::bytes_of;
use crate::flow::Permit;
use crate::query::Query;
use crate::stream::StreamId;
use crate::task::Task;
use millstream_types::Diagnostic;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How soon the supervisor looks again whether output has been consumed.
const LOOK: Duration = Duration::from_millis(1);
/// Rows that are not consumed may have one in so many bytes of the budget.
const UNCONSUMED: u64 = 16;

/// Rows that a task has put out, with their bytes, of which some are consumed already.
#[derive(Default)]
pub(crate) struct Unconsumed(Vec<(Weak<Permit>, u64)>);

impl Unconsumed {
    /// Bytes of those that are not consumed.
    pub(crate) fn bytes(&mut self) -> u64 {
        self.0.retain(|(permit, _)| permit.strong_count() > 0);
        self.0.iter().map(|(_, bytes)| bytes).sum()
    }
}

/// A task that goes on when enough of what it has put out is consumed.
pub(super) struct ParkedOutput {
    output: Unconsumed,
    task: Task,
}

/// A task that waits until its first unit, or anything, may be put out.
pub(super) struct Parked {
    stream: StreamId,
    unit: u64,
    task: Task,
}

impl Query {
    /// Whether a task may put out a unit of a stream now.
    pub(crate) fn may_put_out(&self, stream: StreamId, unit: u64) -> bool {
        let spilling = &self.spilling;
        let is_little = match (spilling.may_spill(), spilling.is_eager()) {
            (false, _) => true,
            // For tests: whatever can wait does.
            (true, true) => false,
            (true, false) => spilling.budget.in_flight() <= spilling.budget.limit() / UNCONSUMED,
        };
        is_little || unit <= self.streams[stream].next_unit()
    }

    /// Has a task wait until it may put out a unit.
    pub(crate) fn park(&self, (stream, unit): (StreamId, u64), task: Task) {
        self.spilling.parked_tasks.lock().push(Parked { stream, unit, task });
        self.spilling.has_parked.store(true, Ordering::SeqCst);
        Instant::now().checked_add(LOOK).into_iter().for_each(|at| self.due_at(at));
    }

    /// Merges a range of partitions of a window in memory, or makes windows of slices, if the first of them may be put out.
    pub(crate) fn put_out(&self, task: Task) -> Result<(), Diagnostic> {
        let first = match &task {
            Task::Merge(firing, group) => Some((firing.aggregation(), firing.unit(*group))),
            Task::Combine { aggregation, lane, .. } => {
                let overlap = self.aggregations[*aggregation].overlap.as_ref();
                let next = overlap.and_then(|overlap| overlap.lanes[*lane].next(|firing| firing.first_output(*lane)));
                next.flatten().map(|unit| (*aggregation, unit))
            }
            _ => None,
        };
        if let Some((aggregation, unit)) = first {
            let stream = self.aggregations[aggregation].output;
            if !self.may_put_out(stream, unit) {
                self.park((stream, unit), task);
                return Ok(());
            }
        }
        match task {
            Task::Merge(firing, group) => self.merge(&firing, group),
            Task::Combine { aggregation, lane, .. } => self.combine(aggregation, lane),
            _ => Err(Diagnostic::bug("a task that puts nothing out was to do so")),
        }
    }

    /// Rows with a permit that tells when they are consumed.
    pub(crate) fn held(&self, mut rows: Rows, output: &mut Unconsumed) -> Rows {
        let bytes = bytes_of(&rows.columns);
        let permit = Arc::new(self.flow.hold(bytes));
        output.0.push((Arc::downgrade(&permit), bytes as u64));
        rows.permit = Some(permit);
        rows
    }

    /// What a task that makes windows may have put out that is not consumed.
    pub(crate) fn most_unconsumed(&self) -> u64 {
        match self.spilling.is_eager() {
            true => 0,
            false => self.spilling.budget.limit() / (2 * UNCONSUMED),
        }
    }

    /// Has a task go on when enough of what it has put out is consumed. Nobody waits for ever if nothing that is put out before it
    /// waits for it.
    pub(crate) fn park_until_consumed(&self, output: Unconsumed, task: Task) {
        self.spilling.parked_output.lock().push(ParkedOutput { output, task });
        Instant::now().checked_add(LOOK).into_iter().for_each(|at| self.due_at(at));
    }

    /// Goes on with the tasks whose output has been consumed; when to look for the others.
    pub(crate) fn resume_consumed(&self, now: Instant) -> Option<Instant> {
        let mut parked = self.spilling.parked_output.lock();
        let most = self.most_unconsumed() / 2;
        let tasks: Vec<Task> =
            parked.extract_if(.., |parked| parked.output.bytes() <= most).map(|parked| parked.task).collect();
        let next = (!parked.is_empty()).then(|| now.checked_add(LOOK)).flatten();
        drop(parked);
        self.scheduler.push(tasks);
        next
    }

    /// Goes on with tasks that may put out their units now; when to look for the others.
    pub(crate) fn resume_parked(&self, now: Instant) -> Option<Instant> {
        let mut parked = self.spilling.parked_tasks.lock();
        let tasks: Vec<Task> = parked
            .extract_if(.., |parked| self.may_put_out(parked.stream, parked.unit))
            .map(|parked| parked.task)
            .collect();
        let next = (!parked.is_empty()).then(|| now.checked_add(LOOK)).flatten();
        self.spilling.has_parked.store(next.is_some(), Ordering::SeqCst);
        drop(parked);
        self.scheduler.push(tasks);
        next
    }

    /// The same when a unit has been put out. One that is parked at this very moment is found by the supervisor.
    pub(crate) fn resume_next(&self) {
        if self.spilling.has_parked.load(Ordering::SeqCst) {
            self.resume_parked(Instant::now());
        }
    }
}
