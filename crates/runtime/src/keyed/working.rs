//! A worker's turn at a partition: jobs are done one by one, and what each puts out is delivered before the next.

use super::batch::Batch;
use super::inbox::{PartitionJob, Waiting};
use super::output::{Finished, Item, Output};
use super::spooled::{SpooledOutput, SpooledUnit};
use super::state::{Due, Work};
use super::{KeyedJob, KeyedStation, Turn};
use crate::columns::partition_of;
use crate::schedule::timers::after;
use crate::station::{Consequences, Job, Parked, Unconsumed, Until};
use crate::stream::sequencer::Unit;
use millstream_abi::{HASH_SEED, hash_finish};
use millstream_functions::FunctionContext;
use millstream_state::{Charge, MemoryClass};
use millstream_storage::SpillFiles;
use millstream_types::Diagnostic;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

impl KeyedStation {
    /// Does the next job of a partition. The turn continues until there is none; it ends sooner when the partition has to wait,
    /// and then the partition stays busy, so that nobody else works on it.
    pub(super) fn work_on(&self, mut turn: Turn, functions: &mut FunctionContext) -> Result<Consequences, Diagnostic> {
        let (spilling, partition) = (&self.host.spilling, turn.partition);
        let mut consequences = Consequences::default();
        let mut inbox = self.inbox(partition);
        consequences.held = std::mem::take(&mut inbox.permits);
        if let Some(&PartitionJob::Advance { first, .. }) = inbox.jobs.front()
            && !self.host.may_put_out(&self.output, first)
        {
            let until = Until::Next(self.output.id, first);
            let is_in_memory = inbox.state_in_files() == 0;
            drop(inbox);
            consequences.held.clear();
            if is_in_memory {
                self.spill_state(partition)?;
            }
            self.unload(&mut turn, &mut consequences);
            consequences.parked.push(Parked { task: self.task(partition), until });
            return Ok(consequences);
        }
        if turn.loaded.is_none() && inbox.jobs.front().is_some_and(|job| !matches!(job, PartitionJob::Cut(_))) {
            let needs = self.kept(partition)?.needs().saturating_add(inbox.needs());
            if inbox.state_in_files() > 0 || spilling.is_too_much(needs, self.partitions.len()) {
                // It comes back when others are done, if there is no room.
                if !spilling.load(needs as u64, || self.task(partition)) {
                    return Ok(consequences);
                }
                turn.loaded = Some(needs as u64);
            }
        }
        let job = inbox.jobs.pop_front().ok_or_else(|| Diagnostic::bug("a partition without jobs has a task"))?;
        if let PartitionJob::Cut(generation) = job {
            drop(inbox);
            consequences.held.clear();
            self.save_partition(partition, generation)?;
            if self.joins_arrivals() {
                self.cut_partitions(1, generation, &mut consequences)?;
            }
        } else {
            let watermark = if let PartitionJob::Advance { watermark, .. } = job { watermark } else { i64::MAX };
            let (waiting, bytes) = inbox.take(watermark);
            self.rounds.read(inbox.take_state());
            drop(inbox);
            self.rounds.consumed(bytes);
            let what = (watermark, matches!(job, PartitionJob::Beat));
            let output = self.advance(partition, waiting, what, functions, &mut consequences)?;
            self.stats.rows_out.fetch_add(output.rows() as u64, Relaxed);
            self.finish_job(partition, &job, output, &mut consequences);
            if let PartitionJob::Advance { completed, .. } = job {
                self.stats.delivered(completed.elapsed());
            }
        }
        if self.rounds.job_done() {
            self.settle_into(&mut consequences);
        }
        if self.is_more_to_do(partition, &mut consequences)? {
            consequences.then = Some(Job::new(KeyedJob::Work(turn)));
        } else {
            self.unload(&mut turn, &mut consequences);
        }
        Ok(consequences)
    }

    /// Whether a partition has another job; if not, others may work on it from now on. Its state is spilled before that, if it is
    /// worth it.
    fn is_more_to_do(&self, partition: usize, consequences: &mut Consequences) -> Result<bool, Diagnostic> {
        let mut inbox = self.inbox(partition);
        if inbox.jobs.is_empty() && inbox.state_in_files() == 0 && self.kept(partition)?.bytes_in_memory() > 0 {
            drop(inbox);
            self.spill_state(partition)?;
            inbox = self.inbox(partition);
        }
        if !inbox.jobs.is_empty() {
            return Ok(true);
        }
        inbox.is_busy = false;
        consequences.held.append(&mut inbox.permits);
        Ok(false)
    }

    /// Gives back the memory that was reserved for working on a partition, and resumes what has waited for it.
    fn unload(&self, turn: &mut Turn, consequences: &mut Consequences) {
        if let Some(bytes) = turn.loaded.take() {
            consequences.tasks.extend(self.host.spilling.unload(bytes));
        }
    }

    /// Has the state of a partition consume rows up to a watermark, perhaps the last ones of a beat.
    fn advance(
        &self,
        partition: usize,
        waiting: Vec<Vec<Waiting>>,
        (watermark, ends_beat): (i64, bool),
        functions: &mut FunctionContext,
        consequences: &mut Consequences,
    ) -> Result<Finished, Diagnostic> {
        let mut inputs = Vec::with_capacity(waiting.len());
        for (input, batches) in waiting.into_iter().enumerate() {
            let mut ready = Vec::with_capacity(batches.len());
            for waiting in batches {
                let generation = waiting.generation;
                for batch in waiting.batches(&self.plan.inputs[input].schema)? {
                    let (now, later) = batch.cut(watermark)?;
                    ready.extend(now);
                    if let Some(batch) = later {
                        self.put(&mut self.inbox(partition), input, generation, batch)?;
                    }
                }
            }
            // Rows that are consumed as they come have no order.
            inputs.push(if self.joins_arrivals() { Batch::gathered(ready)? } else { Batch::merge(ready)? });
        }
        let bytes = inputs.iter().map(Batch::bytes).sum();
        let _consumed = Charge::new(&self.host.flow.budget, MemoryClass::Operators, bytes);
        let reached = self.plan.timeline.reached(watermark);
        let spilling = &self.host.spilling;
        let mut work = Work {
            code: &self.code,
            functions,
            errors: self.host.row_errors(),
            stats: &self.host.stats,
            most_rows: self.host.buffer_size.rows(),
            are_of_table: false,
            is_tight: self.host.flow.is_tight(),
            is_home: self.is_home(partition),
            now_ms: self.now_ms(),
            held_back_ms: self.behaviour.held_back_ms,
            timeline: self.plan.timeline,
            window: reached,
            output: Output::new(spilling.may_spill().then(|| (spilling, spilling.most_unconsumed()))),
        };
        let mut kept = self.kept(partition)?;
        let state = kept.state(&self.plan, &self.code)?;
        state.settle(spilling.is_plenty())?;
        state.advance(inputs, reached, &mut work)?;
        if ends_beat {
            state.end_beat(&mut work)?;
        }
        work.errors.check()?;
        let (output, now_ms) = (work.output, work.now_ms);
        let due = match self.behaviour.due {
            Due::Arrival => state.due(),
            _ => self.plan.timeline.watermark_at(state.due()),
        };
        kept.worked(now_ms);
        drop(kept);
        self.inbox(partition).state_due = due;
        match self.behaviour.due {
            Due::Arrival if due < i64::MAX => {
                let wait_ms = u64::try_from(due.saturating_sub(self.now_ms())).unwrap_or(0);
                consequences.due_at(after(Instant::now(), wait_ms));
            }
            Due::Arrival => {}
            _ => consequences.awaited.push(due),
        }
        output.finish()
    }

    /// Whether rows without keys come to a partition of this node.
    fn is_home(&self, partition: usize) -> bool {
        self.owned().contains(&partition) && partition == partition_of(hash_finish(HASH_SEED), self.partition_bits)
    }

    /// Delivers what a job has output.
    fn finish_job(&self, partition: usize, job: &PartitionJob, output: Finished, consequences: &mut Consequences) {
        let (mut items, files) = (output.items.into_iter().peekable(), output.files);
        if let PartitionJob::Advance { marks, first, step, .. } = job {
            let unit = |(number, &mark): (usize, &i64)| {
                let of_mark = || items.next_if(|(window, _)| *window <= mark).map(|(_, item)| item);
                // As for windowed aggregations: the windows before this one are complete.
                let timeline = self.plan.timeline;
                let before = self.windows.as_ref().map(|_| timeline.watermark_at(mark).saturating_sub(1));
                let number = first + number as u64 * step;
                SpooledUnit { number, before, items: std::iter::from_fn(of_mark).collect() }
            };
            let units = marks.iter().enumerate().map(unit);
            return self.deliver_items(Some(partition), files, units, consequences);
        }
        let items: VecDeque<Item> = items.map(|(_, item)| item).collect();
        if !items.is_empty() {
            let unit = SpooledUnit { number: self.next_unit(), before: None, items };
            self.deliver_items(None, files, std::iter::once(unit), consequences);
        }
        if let PartitionJob::Last = job {
            let mut open = self.open.lock();
            open.0 -= 1;
            let (left, end) = *open;
            drop(open);
            if left == 0 {
                self.deliver_next(Unit { end: Some(end), ..Unit::default() }, consequences);
            }
        }
    }

    /// Delivers a unit under the next number.
    pub(super) fn deliver_next(&self, unit: Unit, consequences: &mut Consequences) {
        consequences.deliver(self.output.id, self.next_unit(), unit);
    }

    /// Delivers units of the output of a partition. Those that are in files are put out by a separate task. (The output
    /// of a regular join is in no order, so its rows are numbered as they come.)
    fn deliver_items(
        &self,
        partition: Option<usize>,
        files: Option<Arc<SpillFiles>>,
        units: impl Iterator<Item = SpooledUnit>,
        consequences: &mut Consequences,
    ) {
        if let Some(files) = files {
            let (units, output) = (units.collect(), Unconsumed::default());
            let output = Box::new(SpooledOutput { files, partition, units, output });
            return consequences.tasks.push(self.put_out(output));
        }
        for SpooledUnit { number, before, items } in units {
            let rows = items.into_iter().filter_map(Item::in_memory).collect();
            consequences.deliver(self.output.id, number, Unit { rows, before, place: partition, ..Unit::default() });
        }
    }
}
