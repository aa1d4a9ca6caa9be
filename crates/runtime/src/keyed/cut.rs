//! How a cut comes by a keyed operator: what it keeps is saved partition by partition, each as a job among its other jobs.
//!
//! When all inputs have come to the cut, the operator's watermark is the lowest that any of them had there. Rows from
//! behind the cut have at least that before them, so none has been consumed: in the partition's state are rows from before
//! the cut only, and those that wait are told apart by their generation. A regular join consumes rows as they come; it
//! keeps those from behind a cut apart until the cut has come by.

use super::batch::Batch;
use super::driver::{KeyedRuntime, KeyedTask};
use super::inbox::{Content, Job, Waiting};
use crate::buffer::Generation;
use crate::checkpoint::{Part, Saved};
use crate::query::Query;
use crate::sequencer::Unit;
use crate::tables::damaged;
use crate::threads::Watch;
use millstream_storage::{ByteReader, ByteWriter};
use millstream_types::Diagnostic;
use std::time::Instant;

impl Query {
    /// An operator has come to a cut; its partitions get jobs for it next.
    pub(super) fn cut_operator(&self, operator: usize, generation: Generation, watermark: i64) {
        let windows = self.operators[operator].open_windows();
        self.hand_over(generation, || Part::Operator { operator, watermark, windows, has_ended: false });
        // The next cut must not come to a regular join before this one has come by all of its partitions.
        if !self.operators[operator].joins_arrivals() {
            self.cut_reached();
        }
    }

    /// Saves what a partition keeps, if the cut is a checkpoint.
    pub(super) fn save_partition(&self, task: KeyedTask, generation: Generation) -> Result<(), Diagnostic> {
        if self.checkpoint_before(generation).is_none() {
            return Ok(());
        }
        let watch = Watch::start();
        let runtime = &self.operators[task.operator];
        let mut inbox = runtime.inbox(task.partition);
        // The age of rows that expire is another at each checkpoint.
        let is_changed = std::mem::take(&mut inbox.is_changed) || runtime.joins_arrivals();
        // From behind the cut rows may wait that the next checkpoint has to save.
        inbox.is_changed = inbox.waiting().iter().flatten().any(|waiting| waiting.generation >= generation);
        // Copies, which share the rows.
        let waiting = if is_changed { inbox.waiting().to_vec() } else { Vec::new() };
        drop(inbox);
        let state = match is_changed {
            true => {
                let mut saved = save_waiting(&waiting, generation);
                saved.push(runtime.kept(task.partition)?.save()?);
                Some(saved)
            }
            false => None,
        };
        let KeyedTask { operator, partition } = task;
        self.hand_over(generation, || Part::Partition { operator, partition, state });
        self.stats.checkpoints.note_handing_over(&watch);
        Ok(())
    }

    /// A cut has come by a partition of a regular join. When it has come by all, it is passed on, and the rows that have waited
    /// for that come.
    pub(super) fn cut_partition(&self, operator: usize, generation: Generation) -> Result<(), Diagnostic> {
        let runtime = &self.operators[operator];
        let mut uncut = runtime.uncut.lock();
        if uncut.left > 1 {
            uncut.left -= 1;
            return Ok(());
        }
        drop(uncut);
        self.deliver_next(runtime, Unit { cut: Some(generation), ..Unit::default() });
        let mut tasks = Vec::new();
        for partition in 0..runtime.partitions.len() {
            let mut inbox = runtime.inbox(partition);
            inbox.generation = generation;
            if runtime.let_in(&mut inbox)? {
                tasks.extend(runtime.add_job(&mut inbox, Job::Arrived, KeyedTask { operator, partition }));
            }
        }
        // The end may have come meanwhile, or comes from now on: never before the rows that were let in.
        let mut uncut = runtime.uncut.lock();
        uncut.left = 0;
        let ends = std::mem::take(&mut uncut.then_last);
        drop(uncut);
        if ends {
            let last = |partition| {
                runtime.add_job(&mut runtime.inbox(partition), Job::Last, KeyedTask { operator, partition })
            };
            tasks.extend((0..runtime.partitions.len()).filter_map(last));
        }
        self.scheduler.push(tasks);
        self.cut_reached();
        Ok(())
    }
}

/// What is kept of rows that wait, by input, when a cut to a generation comes by.
fn save_waiting(waiting: &[Vec<Waiting>], generation: Generation) -> Vec<Saved> {
    let (mut saved, mut out) = (Vec::new(), ByteWriter::new());
    for waiting in waiting {
        let before = || waiting.iter().filter(|waiting| waiting.generation < generation);
        out.length(before().count());
        for waiting in before() {
            match &waiting.content {
                Content::Memory(batch) => batch.save(&mut out),
                Content::Spilled(blob) => {
                    saved.push(Saved::Bytes(std::mem::take(&mut out).into_bytes()));
                    saved.push(Saved::Spilled(blob.clone()));
                }
            }
        }
    }
    saved.push(Saved::Bytes(out.into_bytes()));
    saved
}

impl KeyedRuntime {
    /// Takes over what a partition has saved, before the first row.
    pub(crate) fn restore_partition(&self, partition: usize, bytes: &[u8]) -> Result<(), Diagnostic> {
        let mut from = ByteReader::new(bytes);
        let mut inbox = self.inbox(partition);
        for (port, input) in self.plan.inputs.iter().enumerate() {
            for _ in 0..from.count(1).map_err(damaged)? {
                let batch = Batch::restore(&input.schema, &mut from).map_err(damaged)?;
                self.put(&mut inbox, port, Generation::default(), batch)?;
            }
        }
        if self.joins_arrivals() && inbox.has_rows() {
            // Nobody else would ask for a job before the next row comes.
            self.rounds.defer(Instant::now());
        }
        inbox.state_due = self.kept(partition)?.restore(&mut from)?;
        from.end().map_err(damaged)?;
        inbox.is_changed = false;
        Ok(())
    }
}
