//! How a cut passes a keyed operator: what it keeps is saved partition by partition, each as a job among its other
//! jobs.
//!
//! When all inputs have come to the cut, the operator's watermark is the lowest that any of them had there. Rows from
//! behind the cut have at least that before them, so none has been consumed: in the partition's state are rows from before
//! the cut only, and those that wait are told apart by their generation. A regular join consumes rows as they come; it
//! keeps those from behind a cut apart until the cut has passed.

use super::KeyedStation;
use super::inbox::{PartitionJob, Waiting, together};
use super::kept::{ChangedRun, SavedState};
use crate::durable::blobs::{Place, Saved, damaged};
use crate::durable::part::Gathering;
use crate::durable::restored::Restored;
use crate::ids::Generation;
use crate::schedule::threads::Watch;
use crate::station::Consequences;
use crate::stream::sequencer::Unit;
use millstream_storage::{ByteWriter, Damaged, OperatorState, PartitionState, RunState, WaitingRows, WaitingState};
use millstream_types::Diagnostic;
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// Where checkpoints have the partitions of an operator, of several nodes those of this one.
pub(super) struct StoredPartitions {
    /// Position of the operator in the plan.
    number: usize,
    /// The first of them.
    first: usize,
    /// In the last one.
    before: Vec<Option<PartitionState>>,
    /// In the one whose parts are coming.
    now: Vec<Option<PartitionState>>,
    /// What the operator keeps besides, once it has been handed over.
    operator: Option<OperatorState>,
}

/// What a partition keeps, when the cut passed.
struct SavedPartition {
    /// What it remembers; `None` if that is what it was at the last checkpoint.
    state: Option<SavedState>,
    /// See `PartitionState`.
    aged_ms: i64,
    due: i64,
    /// Rows that wait for it; `None` if they are the same.
    waiting: Option<Vec<(WaitingRows, Saved)>>,
}

impl StoredPartitions {
    /// Of an operator with these partitions, none of which has been stored.
    pub(super) fn new(number: usize, partitions: Range<usize>) -> Arc<Mutex<StoredPartitions>> {
        let (before, now) = (vec![None; partitions.len()], vec![None; partitions.len()]);
        Arc::new(Mutex::new(StoredPartitions { number, first: partitions.start, before, now, operator: None }))
    }

    /// Enters the operator when all has come; whether it has.
    fn enter(&mut self, has_ended: bool, into: &mut Gathering) -> bool {
        if self.operator.is_none() || !(has_ended || self.now.iter().all(Option::is_some)) {
            return false;
        }
        if let Some(state) = self.operator.take() {
            let partitions = if has_ended { Vec::new() } else { self.now.iter().flatten().cloned().collect() };
            into.manifest.operators[self.number] = OperatorState { partitions, ..state };
        }
        let none = vec![None; self.now.len()];
        self.before = std::mem::replace(&mut self.now, none);
        true
    }

    /// Writes what a partition keeps.
    fn store(&mut self, partition: usize, kept: SavedPartition, into: &mut Gathering) -> Result<bool, Diagnostic> {
        let place = partition - self.first;
        let before = self.before[place].as_ref();
        let unchanged =
            || before.ok_or_else(|| Diagnostic::bug("a partition that was not stored says it is unchanged"));
        let SavedPartition { state, aged_ms, due, waiting } = kept;
        let (state, runs) = match state {
            None => (unchanged()?.state.clone(), unchanged()?.runs.clone()),
            Some(SavedState { run: None, state }) => (state.store(into)?, Vec::new()),
            Some(SavedState { run: Some(ChangedRun { keeps, level, after_ms }), state }) => {
                let PartitionState { state: base, runs, .. } = unchanged()?;
                let mut runs = runs[..keeps - 1].to_vec();
                runs.push(RunState { blob: state.store(into)?, level, after_ms });
                (base.clone(), runs)
            }
        };
        let waiting = match waiting {
            None => unchanged()?.waiting.clone(),
            Some(waiting) => {
                let rows = waiting.into_iter();
                let rows = rows.map(|(about, rows)| Ok(WaitingState { blob: rows.store(into)?, about }));
                rows.collect::<Result<_, Diagnostic>>()?
            }
        };
        self.now[place] = Some(PartitionState { state, runs, aged_ms, due, waiting });
        Ok(self.enter(false, into))
    }
}

impl KeyedStation {
    /// What is kept when all inputs have ended.
    pub(super) fn ended(&self) -> OperatorState {
        let (number, watermark) = (self.output.number.input, i64::MAX);
        OperatorState { number, watermark, ..OperatorState::default() }
    }

    /// The operator has come to a cut at a watermark, and its partitions get jobs for it next; or all inputs have ended before it.
    pub(super) fn hand_over(&self, generation: Generation, reached: Option<i64>) {
        let windows = self.windows.as_ref().filter(|_| reached.is_some());
        let windows = windows.map_or_else(Vec::new, |windows| windows.lock().iter().copied().collect());
        let state = OperatorState { watermark: reached.unwrap_or(i64::MAX), windows, ..self.ended() };
        let (stored, has_ended) = (Arc::clone(&self.stored), reached.is_none());
        self.host.hand_over(generation, move |into| {
            let mut stored = stored.lock();
            stored.operator = Some(state);
            Ok(stored.enter(has_ended, into))
        });
    }

    /// Saves what a partition keeps, if the cut is a checkpoint.
    pub(super) fn save_partition(&self, partition: usize, generation: Generation) -> Result<(), Diagnostic> {
        let Some(checkpoint) = self.host.checkpoint_before(generation) else { return Ok(()) };
        if !self.owned().contains(&partition) {
            return Ok(());
        }
        let watch = Watch::start();
        let mut inbox = self.inbox(partition);
        let is_state_changed = std::mem::take(&mut inbox.is_state_changed);
        let is_changed = std::mem::take(&mut inbox.are_rows_changed) || is_state_changed;
        // From behind the cut rows may wait that the next checkpoint has to save.
        inbox.are_rows_changed = inbox.batches.iter().flatten().any(|waiting| waiting.generation >= generation);
        // Copies, which share the rows.
        let waiting = is_changed.then(|| inbox.batches.clone());
        let due = inbox.state_due;
        drop(inbox);
        let save_all = |waiting: Vec<Vec<Waiting>>| {
            waiting.iter().try_fold(Vec::new(), |mut all, waiting| {
                all.extend(save_waiting(waiting, generation)?);
                Ok::<_, Diagnostic>(all)
            })
        };
        let mut kept = self.kept(partition)?;
        let kept = SavedPartition {
            state: is_state_changed.then(|| kept.save(checkpoint)).transpose()?,
            aged_ms: if self.joins_arrivals() { kept.age_at(self.now_ms()) } else { 0 },
            due: if self.joins_arrivals() { kept.relative(due) } else { due },
            waiting: waiting.map(save_all).transpose()?,
        };
        let stored = Arc::clone(&self.stored);
        self.host.hand_over(generation, move |into| stored.lock().store(partition, kept, into));
        self.host.stats.checkpoints.note_handing_over(&watch);
        Ok(())
    }

    /// A cut has passed some partitions of an operator that consumes rows as they come. When it has passed all, it is forwarded, and
    /// the rows held for it come.
    pub(super) fn cut_partitions(
        &self,
        passed: usize,
        generation: Generation,
        consequences: &mut Consequences,
    ) -> Result<(), Diagnostic> {
        let mut uncut = self.uncut.lock();
        if uncut.left > passed {
            uncut.left -= passed;
            return Ok(());
        }
        drop(uncut);
        self.deliver_next(Unit { cut: Some(generation), ..Unit::default() }, consequences);
        for partition in 0..self.partitions.len() {
            let mut inbox = self.inbox(partition);
            inbox.generation = generation;
            if self.let_in(&mut inbox)? {
                self.add_job(&mut inbox, partition, PartitionJob::Arrived, consequences);
            }
        }
        // The end may have come meanwhile, or comes from now on: never before the rows that were let in.
        let mut uncut = self.uncut.lock();
        uncut.left = 0;
        let ends = std::mem::take(&mut uncut.then_last);
        drop(uncut);
        if ends {
            self.end_partitions(consequences);
        }
        consequences.cuts += 1;
        Ok(())
    }

    /// Takes over what a checkpoint has kept, before the first row.
    pub(super) fn restore_operator(&self, from: &Restored<'_>) -> Result<(), Diagnostic> {
        let state = &from.manifest().operators[self.number];
        self.progress.lock().restore(state.watermark);
        if let Some(open) = &self.windows {
            open.lock().extend(&state.windows);
        }
        if state.partitions.is_empty() {
            return Ok(());
        }
        let waiting = state.partitions.iter().flat_map(|partition| &partition.waiting);
        let mut inputs = waiting.map(|rows| rows.about.input);
        let are_known = inputs.all(|input| input < self.plan.inputs.len());
        Damaged::unless(are_known, "rows wait for an input that an operator does not have").map_err(damaged)?;
        if state.partitions.len() != self.partitions.len() {
            return self.repartition(&state.partitions, from);
        }
        let owned = self.owned();
        for partition in owned.clone() {
            self.restore_partition(partition, &state.partitions[partition], from)?;
        }
        self.stored.lock().before = state.partitions[owned].iter().cloned().map(Some).collect();
        Ok(())
    }

    /// The same for a partition. What it keeps stays in the checkpoint's files until it is needed.
    fn restore_partition(
        &self,
        partition: usize,
        saved: &PartitionState,
        from: &Restored<'_>,
    ) -> Result<(), Diagnostic> {
        let mut inbox = self.inbox(partition);
        for rows in &saved.waiting {
            let content = Place::File(from.blob(&rows.blob));
            self.rounds.came(inbox.put_anywhere(Generation::default(), content, rows.about));
        }
        if self.joins_arrivals() && inbox.all.rows > 0 {
            // Nobody else would ask for a job before the next row comes.
            self.rounds.defer(Instant::now());
        }
        let mut kept = self.kept(partition)?;
        kept.restored(saved, from);
        inbox.restored(saved, if self.joins_arrivals() { kept.absolute(saved.due) } else { saved.due });
        Ok(())
    }
}

/// What is kept of rows that wait for an input when a cut to a generation passes: those in memory together.
fn save_waiting(waiting: &[Waiting], generation: Generation) -> Result<Vec<(WaitingRows, Saved)>, Diagnostic> {
    let (mut saved, mut in_memory, mut out) = (Vec::new(), None, ByteWriter::new());
    for waiting in waiting.iter().filter(|waiting| waiting.generation < generation) {
        match &waiting.content {
            Place::Memory(batch) => {
                batch.save(&mut out)?;
                in_memory = Some(in_memory.map_or(waiting.about, |others| together(others, waiting.about)));
            }
            Place::File(blob) => saved.push((waiting.about, Place::File(blob.clone()))),
        }
    }
    saved.extend(in_memory.map(|about| (about, Place::Memory(out.into_bytes()))));
    Ok(saved)
}
