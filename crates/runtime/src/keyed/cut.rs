//! How a cut comes by a keyed operator: what it keeps is saved partition by partition, each as a job among its other jobs.
//!
//! When all inputs have come to the cut, the operator's watermark is the lowest that any of them had there. Rows from
//! behind the cut have at least that before them, so none has been consumed: in the partition's state are rows from before
//! the cut only, and those that wait are told apart by their generation. A regular join consumes rows as they come; it
//! keeps those from behind a cut apart until the cut has come by.

use super::driver::{KeyedRuntime, KeyedTask};
use super::inbox::{Content, Job, Waiting, together};
use crate::buffer::Generation;
use crate::checkpoint::{Part, Saved, SavedPartition, StateBlob};
use crate::query::Query;
use crate::sequencer::Unit;
use crate::tables::damaged;
use crate::threads::Watch;
use millstream_storage::{BlobRef, ByteWriter, Damaged, PartitionState, WaitingRows};
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
        let is_state_changed = std::mem::take(&mut inbox.is_state_changed) || runtime.joins_arrivals();
        let is_changed = std::mem::take(&mut inbox.are_rows_changed) || is_state_changed;
        // From behind the cut rows may wait that the next checkpoint has to save.
        inbox.are_rows_changed = inbox.waiting().iter().flatten().any(|waiting| waiting.generation >= generation);
        // Copies, which share the rows.
        let waiting = if is_changed { inbox.waiting().to_vec() } else { Vec::new() };
        let due = inbox.state_due;
        drop(inbox);
        let saved = || {
            let kept = runtime.kept(task.partition)?;
            Ok::<_, Diagnostic>(SavedPartition {
                state: is_state_changed.then(|| kept.save()).transpose()?,
                due: if runtime.joins_arrivals() { kept.relative(due) } else { due },
                waiting: waiting.iter().flat_map(|waiting| save_waiting(waiting, generation)).collect(),
            })
        };
        let kept = is_changed.then(saved).transpose()?;
        let KeyedTask { operator, partition } = task;
        self.hand_over(generation, || Part::Partition { operator, partition, kept });
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

/// What is kept of rows that wait for an input when a cut to a generation comes by: those in memory together.
fn save_waiting(waiting: &[Waiting], generation: Generation) -> Vec<(WaitingRows, Saved)> {
    let (mut saved, mut in_memory, mut out) = (Vec::new(), None, ByteWriter::new());
    for waiting in waiting.iter().filter(|waiting| waiting.generation < generation) {
        match &waiting.content {
            Content::Memory(batch) => {
                batch.save(&mut out);
                in_memory = Some(in_memory.map_or(waiting.about, |others| together(others, waiting.about)));
            }
            Content::File(blob) => saved.push((waiting.about, Saved::Blob(blob.clone()))),
        }
    }
    saved.extend(in_memory.map(|about| (about, Saved::Bytes(out.into_bytes()))));
    saved
}

impl KeyedRuntime {
    /// Takes over what a partition has saved, before the first row. It stays in the checkpoint's files, as `blob` of them, until
    /// it is needed.
    pub(crate) fn restore_partition(
        &self,
        partition: usize,
        saved: &PartitionState,
        blob: impl Fn(&BlobRef) -> StateBlob,
    ) -> Result<(), Diagnostic> {
        let mut inbox = self.inbox(partition);
        for rows in &saved.waiting {
            if rows.about.input >= self.plan.inputs.len() {
                return Err(damaged(Damaged("rows wait for an input that an operator does not have".into())));
            }
            self.rounds.came(inbox.put_restored(rows.about, blob(&rows.blob)));
        }
        if self.joins_arrivals() && inbox.has_rows() {
            // Nobody else would ask for a job before the next row comes.
            self.rounds.defer(Instant::now());
        }
        inbox.restored(saved);
        self.kept(partition)?.filed(blob(&saved.state));
        Ok(())
    }
}
