//! How the state and the waiting rows of keyed operators are spilled: whole partitions, in the encoding of checkpoints.
//!
//! A worker that has done the jobs of a partition writes its state to a file when memory is short, and the next job reads it
//! again; `rounds` sees to it that this pays. The spilling thread writes the rows that wait, of all partitions into one
//! file, and the states of partitions that nobody works on: it takes such a partition as a worker would, so that jobs that
//! come meanwhile wait for it.
//!
//! A partition has to fit while it is worked on: with its state, the rows that its job consumes, and their output.

use super::batch::Batch;
use super::driver::{KeyedRuntime, KeyedTask};
use super::inbox::{Job, WaitingGroup};
use crate::checkpoint::StateBlob;
use crate::query::Query;
use crate::task::Task;
use crate::timers::earlier;
use millstream_state::{Charge, MemoryClass};
use millstream_storage::{ByteWriter, SpilledBlob};
use millstream_types::Diagnostic;
use std::time::Instant;

/// A partition whose state is read from a file, or is large when memory is short, and that is worked on; others may wait for that
/// to end.
pub(super) struct Loaded<'a> {
    query: &'a Query,
    bytes: u64,
}

impl Drop for Loaded<'_> {
    fn drop(&mut self) {
        self.query.scheduler.push(self.query.spilling.unload(self.bytes));
    }
}

impl Query {
    /// Reserves memory for working on a partition, of so many bytes; `None` if the task has to wait, which it does from then on.
    pub(super) fn load(&self, task: KeyedTask, bytes: usize) -> Option<Loaded<'_>> {
        let bytes = bytes as u64;
        self.spilling.load(bytes, || Task::Keyed(task)).then(|| Loaded { query: self, bytes })
    }

    /// Whether a partition of an operator of so many bytes is written to a file when its jobs are done.
    pub(super) fn spills_partition(&self, runtime: &KeyedRuntime, bytes: usize) -> bool {
        bytes > 0 && (self.spilling.is_eager() || self.spilling.is_too_much(bytes, runtime.partitions.len()))
    }

    /// Writes the state of a partition, which the caller works on, to a file.
    pub(super) fn spill_state(&self, task: KeyedTask) -> Result<(), Diagnostic> {
        let runtime = &self.operators[task.operator];
        let mut kept = runtime.kept(task.partition)?;
        let Some(encoded) = kept.encoded()? else { return Ok(()) };
        let _encoded = Charge::new(&self.flow.budget, MemoryClass::Operators, encoded.len());
        let mut writer = self.spilling.writer()?;
        let blob = writer.write(&encoded).map_err(|e| self.spilling.failed(&e))?;
        drop(encoded);
        let files = writer.finish().map_err(|e| self.spilling.failed(&e))?;
        let bytes = blob.bytes;
        kept.filed(StateBlob::Spilled(SpilledBlob::new(&files, blob)));
        drop(kept);
        runtime.inbox(task.partition).state_spilled(bytes);
        runtime.rounds.spilled(bytes);
        Ok(())
    }

    /// Spills rows that wait for keyed operators, and states of partitions that nobody works on, until there are at most so
    /// many bytes of state; how many of them.
    pub(crate) fn spill_operators(&self, enough: u64) -> Result<usize, Diagnostic> {
        let mut spilled = 0;
        for operator in 0..self.operators.len() {
            spilled += self.spill_rows(operator, enough)?;
        }
        for (operator, runtime) in self.operators.iter().enumerate() {
            for partition in 0..runtime.partitions.len() {
                if self.spilling.has_at_most(enough) {
                    return Ok(spilled);
                }
                spilled += usize::from(self.spill_idle(KeyedTask { operator, partition })?);
            }
        }
        Ok(spilled)
    }

    /// Spills the state of a partition if nobody works on it, and it is worth it; whether it has.
    fn spill_idle(&self, task: KeyedTask) -> Result<bool, Diagnostic> {
        let runtime = &self.operators[task.operator];
        let mut inbox = runtime.inbox(task.partition);
        if inbox.is_busy {
            return Ok(false);
        }
        inbox.is_busy = true;
        drop(inbox);
        let bytes = runtime.kept(task.partition)?.bytes_in_memory();
        let is_worth_it = self.spills_partition(runtime, bytes);
        if is_worth_it {
            self.spill_state(task)?;
        }
        let mut inbox = runtime.inbox(task.partition);
        let permits = std::mem::take(&mut inbox.permits);
        inbox.is_busy = !inbox.jobs.is_empty();
        let tasks = inbox.is_busy.then_some(Task::Keyed(task));
        drop(inbox);
        drop(permits);
        self.scheduler.push(tasks.into_iter().collect());
        Ok(is_worth_it)
    }

    /// Spills the rows that wait for the partitions of an operator in memory, until there is little enough state; of how many
    /// partitions.
    pub(super) fn spill_rows(&self, operator: usize, enough: u64) -> Result<usize, Diagnostic> {
        if self.spilling.has_at_most(enough) {
            return Ok(0);
        }
        let runtime = &self.operators[operator];
        let all = (0..runtime.partitions.len()).map(|partition| runtime.inbox(partition).bytes_in_memory()).sum();
        if !self.spills_partition(runtime, all) {
            return Ok(0);
        }
        let mut writer = self.spilling.writer()?;
        let mut written = Vec::new();
        let mut partitions = 0;
        for partition in 0..runtime.partitions.len() {
            // Whoever consumes rows meanwhile does so from memory.
            let groups = runtime.inbox(partition).groups_in_memory();
            partitions += usize::from(!groups.is_empty());
            for WaitingGroup { port, numbers, batches } in groups {
                let mut out = ByteWriter::new();
                Batch::merge(batches)?.save(&mut out);
                let blob = writer.write(&out.into_bytes()).map_err(|e| self.spilling.failed(&e))?;
                written.push((partition, port, numbers, blob));
            }
        }
        let files = writer.finish().map_err(|e| self.spilling.failed(&e))?;
        for (partition, port, numbers, blob) in written {
            runtime.inbox(partition).spilled(port, &numbers, SpilledBlob::new(&files, blob));
        }
        Ok(partitions)
    }

    /// Begins the rounds of operators that have waited long enough; when to look at the others.
    pub(crate) fn begin_rounds(&self, now: Instant) -> Option<Instant> {
        let mut next = None;
        for (operator, runtime) in self.operators.iter().enumerate().filter(|(_, r)| r.rounds.is_deferred()) {
            if runtime.joins_arrivals() {
                let at = runtime.rounds.defer(now);
                match at <= now {
                    true => self.join_arrivals(operator, runtime),
                    false => next = earlier(next, Some(at)),
                }
            } else {
                // Says itself when to ask again.
                self.settle_operator(operator);
            }
        }
        next
    }

    /// Has a regular join consume all rows that have come.
    fn join_arrivals(&self, operator: usize, runtime: &KeyedRuntime) {
        runtime.rounds.begin_anyway();
        let mut tasks = Vec::new();
        for partition in 0..runtime.partitions.len() {
            let mut inbox = runtime.inbox(partition);
            if inbox.has_rows() && inbox.jobs.is_empty() {
                tasks.extend(runtime.add_job(&mut inbox, Job::Arrived, KeyedTask { operator, partition }));
            }
        }
        self.scheduler.push(tasks);
    }
}
