//! How rows reach the partitions of a keyed operator.

use super::KeyedStation;
use super::batch::{Batch, times_of};
use super::inbox::PartitionJob;
use super::leading::leading_rows;
use super::operators::Shares;
use crate::columns::Parts;
use crate::ids::Generation;
use crate::pipeline::{Arrived, WorkerContext};
use crate::schedule::flow::Permit;
use crate::station::Consequences;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use millstream_types::Diagnostic;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

/// Buffers are shared where a partition gets this many rows of one on average: fewer are copied faster than they are selected
/// column by column. Tests share nearly all.
const FEWEST_SHARED: usize = if cfg!(debug_assertions) { 0 } else { 256 };

impl KeyedStation {
    /// Rows for the partitions. The last column that the program emits is the hash of the key.
    pub(super) fn exchange(
        &self,
        arrived: &Arrived<'_>,
        context: &mut WorkerContext,
    ) -> Result<Consequences, Diagnostic> {
        let mut consequences = Consequences::default();
        // Which rows lead their window is decided by their places, although the join consumes them as they come.
        let is_ordered = !self.joins_arrivals()
            || self.behaviour.keeps_places
            || self.plan.inputs[arrived.pipeline.input].leading.is_some();
        arrived.emit(&self.host, context, &mut |rows, emitted| {
            let ordinal = |row: u32| rows.ordinal(row as usize, arrived.origin);
            let batch = match is_ordered {
                false => Batch::unordered(emitted.columns, emitted.rows),
                true => Batch::new(emitted.columns, emitted.selection.iter().map(ordinal).collect()),
            };
            self.route(arrived, batch, &mut consequences)?;
            Ok(ControlFlow::Continue(()))
        })?;
        consequences.finished.push(arrived.place);
        Ok(consequences)
    }

    /// Puts rows into the inboxes of the partitions of their keys.
    fn route(
        &self,
        arrived: &Arrived<'_>,
        mut batch: Batch,
        consequences: &mut Consequences,
    ) -> Result<(), Diagnostic> {
        let (input, generation, permit) =
            (arrived.pipeline.input, arrived.buffer.stamp.generation, &arrived.buffer.permit);
        let hashes = batch.columns.pop().ok_or_else(|| Diagnostic::bug("an exchange got no hash"))?;
        let hashes = hashes.as_primitive_opt::<Int64Type>().ok_or_else(|| Diagnostic::bug("a hash is no BIGINT"))?;
        if let Some(time) = self.plan.inputs[input].time.filter(|_| arrived.is_derived) {
            // When the watermark advances between the rows that an operator outputs depends on timing. That a row is not
            // late does not: so the watermark before it counts as the highest under which it is not.
            for (ordinal, &time) in batch.ordinals.iter_mut().zip(&*times_of(&batch.columns[time])?) {
                let in_time = self.plan.timeline.watermark_at(time).saturating_sub(1);
                ordinal.watermark = ordinal.watermark.max(in_time).saturating_sub(self.lag_ms);
            }
        }
        let mut hashes = hashes.values().clone();
        let (of, rows) = (&self.plan.inputs[input], batch.rows());
        if let Some(leading) = &of.leading
            && let Some(rows) = leading_rows(leading, of, self.plan.timeline, &batch, &hashes)?
        {
            hashes = rows.iter().map(|&row| hashes[row as usize]).collect();
            batch = batch.pick(rows)?;
        }
        if let Some(distributed) = &self.distributed
            && self.may_hold(input, rows, batch.rows() < rows)
        {
            let all = batch.rows();
            (batch, hashes) = self.hold(distributed, (input, generation), batch, hashes)?;
            // Those that wait are sent when the beat ends.
            self.note_arrival(generation, all - batch.rows(), consequences);
        }
        if self.distributed.is_none() {
            self.note_windows(input, &batch)?;
        }
        let mut parts = self.parted(batch, &hashes, arrived)?;
        if let Some(distributed) = &self.distributed {
            parts = distributed.send((input, generation), parts, self.partitions.len())?;
        }
        self.arrive((input, generation), parts, permit, consequences)
    }

    /// Takes rows of an input in, which come from a generation.
    pub(super) fn arrive(
        &self,
        (input, generation): (usize, Generation),
        parts: Vec<(usize, Batch)>,
        permit: &Option<Arc<Permit>>,
        consequences: &mut Consequences,
    ) -> Result<(), Diagnostic> {
        let (mut first_due, mut is_deferred, mut rows) = (i64::MAX, false, 0);
        for (partition, batch) in parts {
            if self.distributed.is_some() {
                self.note_windows(input, &batch)?;
            }
            rows += batch.rows();
            let mut inbox = self.inbox(partition);
            if self.joins_arrivals() && generation > inbox.generation {
                // Which rows come first decides what is output: those of another split may still be from before the cut.
                permit.iter().for_each(|permit| permit.return_credit());
                inbox.hold(input, generation, batch, permit);
                continue;
            }
            self.put(&mut inbox, input, generation, batch)?;
            if self.joins_arrivals() && inbox.jobs.is_empty() {
                match inbox.is_worth_reading() {
                    true => self.add_job(&mut inbox, partition, PartitionJob::Arrived, consequences),
                    false => is_deferred = true,
                }
            }
            if inbox.is_busy {
                inbox.permits.extend(permit.clone());
            }
            first_due = first_due.min(inbox.all.due);
        }
        self.note_arrival(generation, rows, consequences);
        if is_deferred {
            consequences.due_at(self.rounds.defer(Instant::now()));
        }
        if self.host.spilling.is_eager() {
            self.spill_rows(0)?;
        }
        consequences.awaited.push(first_due);
        Ok(())
    }

    /// Notes that there are rows of a beat.
    fn note_arrival(&self, generation: Generation, rows: usize, consequences: &mut Consequences) {
        if let Some(beats) = self.host.beats.as_ref().filter(|_| self.behaviour.ends_beats) {
            consequences.due_at(beats.came(generation, rows));
        }
    }

    /// The rows of each partition.
    fn parted(&self, batch: Batch, hashes: &[i64], arrived: &Arrived<'_>) -> Result<Vec<(usize, Batch)>, Diagnostic> {
        let parts = Parts::new(hashes, self.partition_bits);
        let are_of_table = arrived.are_of_table();
        let may_share = match self.behaviour.shares {
            Shares::Nothing => false,
            Shares::Tables => are_of_table && !arrived.is_derived,
            Shares::All => true,
        };
        let is_worth_it = batch.rows() >= FEWEST_SHARED * parts.places().count();
        match may_share && is_worth_it && self.host.spilling.is_plenty() {
            true => Ok(batch.share(&parts, are_of_table)),
            false => batch.split(&parts, self.behaviour.passes_on && self.host.spilling.is_plenty()),
        }
    }

    /// Notes the windows of rows.
    fn note_windows(&self, input: usize, batch: &Batch) -> Result<(), Diagnostic> {
        let (Some(windows), Some(time)) = (&self.windows, self.plan.inputs[input].time) else { return Ok(()) };
        let met: BTreeSet<i64> = times_of(&batch.column(time)?)?.iter().copied().collect();
        windows.lock().extend(met);
        Ok(())
    }
}
