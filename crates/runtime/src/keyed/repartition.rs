//! What a checkpoint keeps of an operator, cut into another number of partitions than it has.
//!
//! The top bits of the hash of a key choose its partition. So where there are more now, each partition of before becomes several that follow each
//! other, and where there are fewer several become one. States are read one after the other, and those of now [absorb](State::absorb) the
//! keys that are theirs. All of it is done before the query begins, on one thread; what does not fit into memory is spilled meanwhile.
//!
//! Entries have other numbers then, so the next checkpoint writes all of every partition.

use super::KeyedStation;
use super::batch::Batch;
use super::kept::{in_pieces, pieces_of};
use super::key_share::{Hashing, KeyShare};
use super::operators::state_of;
use super::state::Due;
use crate::columns::Parts;
use crate::durable::restored::Restored;
use crate::ids::Generation;
use millstream_functions::FunctionContext;
use millstream_state::{Charge, MemoryClass, set_run};
use millstream_storage::{PartitionState, WaitingState};
use millstream_types::Diagnostic;
use std::ops::Range;
use std::time::Instant;

impl KeyedStation {
    /// Takes over what a checkpoint keeps of another number of partitions.
    pub(super) fn repartition(&self, saved: &[PartitionState], from: &Restored<'_>) -> Result<(), Diagnostic> {
        set_run(self.host.config.settings.run);
        let mut functions = FunctionContext::new(self.host.config.settings.clone());
        // So many partitions of before become so many of now; one of the two numbers is 1.
        let units = saved.len().min(self.partitions.len());
        let (before, now) = (saved.len() / units, self.partitions.len() / units);
        let owned = self.owned();
        for unit in 0..units {
            let targets = (unit * now).max(owned.start)..((unit + 1) * now).min(owned.end);
            if targets.is_empty() {
                continue;
            }
            for saved in &saved[unit * before..(unit + 1) * before] {
                self.absorb_state(saved, from, targets.clone(), &mut functions)?;
                for waiting in &saved.waiting {
                    self.put_waiting(waiting, from, &mut functions)?;
                }
            }
            for partition in targets {
                let mut inbox = self.inbox(partition);
                inbox.is_beat_open = inbox.all.rows > 0;
                drop(inbox);
                self.spill_state(partition)?;
            }
            let spilling = &self.host.spilling;
            if spilling.is_short() || spilling.is_eager() {
                self.spill_rows(spilling.low())?;
            }
        }
        // Nobody else would ask for a job before the next row comes.
        let is_any_waiting = (0..self.partitions.len()).any(|partition| self.inbox(partition).all.rows > 0);
        if self.joins_arrivals() && is_any_waiting {
            self.rounds.defer(Instant::now());
        }
        Ok(())
    }

    /// Has partitions take over what one of before remembers.
    fn absorb_state(
        &self,
        saved: &PartitionState,
        from: &Restored<'_>,
        targets: Range<usize>,
        functions: &mut FunctionContext,
    ) -> Result<(), Diagnostic> {
        let pieces = pieces_of(saved, from);
        let read = pieces.iter().map(|(blob, now_ms)| Ok((blob.read()?, *now_ms)));
        let mut before = in_pieces(read, state_of(&self.plan, &self.code)?)?;
        let _read = Charge::new(&self.host.flow.budget, MemoryClass::Operators, before.bytes());
        for partition in targets {
            let mut share = KeyShare::new(self.hashing(functions), (self.partition_bits, partition));
            let mut kept = self.kept(partition)?;
            let state = kept.state(&self.plan, &self.code)?;
            state.absorb(&mut *before, &mut share)?;
            let due = state.due();
            kept.worked(0);
            self.inbox(partition).state_due = match self.behaviour.due {
                Due::Arrival => due,
                _ => self.plan.timeline.watermark_at(due),
            };
        }
        Ok(())
    }

    /// Has rows that waited for a partition of before wait for those of now.
    fn put_waiting(
        &self,
        waiting: &WaitingState,
        from: &Restored<'_>,
        functions: &mut FunctionContext,
    ) -> Result<(), Diagnostic> {
        let (input, blob) = (waiting.about.input, from.blob(&waiting.blob));
        let bytes = blob.read()?;
        let batches = Batch::restore_all(&self.plan.inputs[input].schema, &bytes).map_err(|what| blob.invalid(what))?;
        for batch in batches.into_iter().filter(|batch| batch.rows() > 0) {
            let hashes = self.hashing(functions).of_batch(input, &batch)?;
            let parts = batch.split(&Parts::new(&hashes, self.partition_bits), false)?;
            for (partition, batch) in parts.into_iter().filter(|(partition, _)| self.owned().contains(partition)) {
                self.put(&mut self.inbox(partition), input, Generation::default(), batch)?;
            }
        }
        Ok(())
    }

    fn hashing<'a>(&'a self, functions: &'a mut FunctionContext) -> Hashing<'a> {
        Hashing::new(&self.plan, &self.code, functions)
    }
}
