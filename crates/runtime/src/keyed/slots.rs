//! The aggregates of sessions, count windows and rows of OVER, by slot, updated by a compiled program.

use super::encoding::{Owned, check_count};
use super::state::Work;
use crate::executable_plan::OperatorCode;
use arrow_array::{ArrayRef, Int64Array};
use millstream_abi::{EntryLayout, ExecContext, Finish, Slot, Str};
use millstream_codegen::execute::{TableHooks, update};
use millstream_plan::pipeline::SlotAggregates;
use millstream_state::{Change, Ordinal, Output, OutputTypes, Slots, Table};
use millstream_storage::{ByteReader, ByteWriter, Damaged};
use millstream_types::{DataType, Diagnostic};
use std::collections::BTreeMap;
use std::sync::Arc;

/// See the module.
pub(crate) struct SlotTable {
    layout: Arc<EntryLayout>,
    /// The entries.
    pub(crate) slots: Slots,
    types: OutputTypes,
    /// Bytes of objects when they were measured, and rows that have been updated since.
    object_bytes: usize,
    updated: usize,
}

/// What the callbacks of generated code work on.
struct SlotHost<'a> {
    table: Table,
    /// None where no aggregate asks for places.
    ordinals: &'a [Ordinal],
    /// Of rows that may be taken back.
    weights: &'a [i8],
}

impl SlotTable {
    /// No slots.
    pub(crate) fn new(aggregates: &SlotAggregates, code: &OperatorCode) -> Result<SlotTable, Diagnostic> {
        let layout = code.slots.as_ref().and_then(|c| c.lowered.layout());
        let layout = layout.ok_or_else(|| Diagnostic::bug("an operator has no program for its aggregates"))?;
        if layout.keys.len() != 1 || layout.accumulators.len() != aggregates.components.len() {
            return Err(Diagnostic::bug("the entries of slots do not fit the aggregates"));
        }
        let layout = Arc::new(layout.clone());
        let output = |o: &millstream_plan::pipeline::ComponentOutput| Output {
            component: o.component,
            finish: o.finish.clone(),
            data_type: o.data_type.clone(),
        };
        let types = OutputTypes { keys: vec![], outputs: aggregates.outputs.iter().map(output).collect() };
        Ok(SlotTable { slots: Slots::new(Arc::clone(&layout)), layout, types, object_bytes: 0, updated: 0 })
    }

    /// Updates the slot of each row, which has been allocated. Rows that fail change nothing. Where no aggregate keeps places there
    /// need not be `ordinals`, and without `weights` no row is taken back.
    pub(crate) fn update(
        &mut self,
        columns: &[ArrayRef],
        slots: Vec<i64>,
        (ordinals, weights): (&[Ordinal], &[i8]),
        work: &mut Work<'_>,
    ) -> Result<(), Diagnostic> {
        let rows = slots.len();
        if rows == 0 {
            return Ok(());
        }
        let code =
            work.code.slots.as_ref().ok_or_else(|| Diagnostic::bug("an operator has no program for its slots"))?;
        let mut columns = columns.to_vec();
        columns.push(Arc::new(Int64Array::from(slots)));
        let mut host = SlotHost { table: Table::new(Arc::clone(&self.layout)), ordinals, weights };
        let pointer = (&raw mut host).cast();
        // SAFETY: the callbacks below keep the contracts of their types on a table of the program's layout, and nothing
        // else uses `host` until the run has returned.
        let hooks = unsafe { TableHooks::new(find_slice, insert_key, keep_string, update_object, pointer) };
        let kernel = code.kernel();
        let errors = &mut work.errors;
        update(&code.lowered, &*kernel, (&columns, None), rows, &[i64::MIN], hooks, work.functions, &mut |e| {
            errors.take(e)
        })?;
        work.errors.check()?;
        self.slots.absorb(host.table);
        self.updated += rows;
        Ok(())
    }

    /// Bytes of memory. Objects are measured when there have been as many updates as there are slots, so that it costs a
    /// constant time a row.
    pub(crate) fn bytes(&mut self) -> usize {
        if self.updated > self.slots.len() {
            (self.object_bytes, self.updated) = (self.slots.object_bytes(), 0);
        }
        self.slots.bytes() + self.object_bytes
    }

    /// Has the slots that [`Slots::save`] has written instead.
    pub(crate) fn restore(&mut self, from: &mut ByteReader<'_>) -> Result<(), Damaged> {
        self.slots = Slots::restore(Arc::clone(&self.layout), &self.types, from)?;
        (self.object_bytes, self.updated) = (self.slots.object_bytes(), 0);
        Ok(())
    }

    /// Allocates the slots that [`Slots::save_some`] has written; their numbers.
    pub(crate) fn put(&mut self, from: &mut ByteReader<'_>) -> Result<Vec<i64>, Damaged> {
        let slots = self.slots.put(&self.types, from)?;
        self.updated += slots.len();
        Ok(slots)
    }

    /// Allocates slots for some of another table; the numbers that they have here.
    pub(crate) fn absorb(&mut self, other: &SlotTable, slots: &[i64]) -> Result<BTreeMap<i64, i64>, Damaged> {
        let mut out = ByteWriter::new();
        other.slots.save_some(slots, &mut out);
        let numbers = self.put(&mut ByteReader::new(&out.into_bytes()))?;
        Ok(slots.iter().copied().zip(numbers).collect())
    }

    /// Checks that slots are all that there are, and each is owned once: so all of them can be removed.
    pub(crate) fn check_owned(&self, slots: impl Iterator<Item = i64>) -> Result<(), Damaged> {
        let slots: Vec<i64> = slots.collect();
        check_count("slots", slots.len(), self.slots.len())?;
        if let Some(free) = slots.iter().find(|&&slot| !self.slots.is_allocated(slot)) {
            return Err(Damaged(format!("slot {free} is free")));
        }
        let mut owned = Owned::new(slots.iter().max().map_or(0, |&most| most as usize + 1));
        slots.iter().try_for_each(|&slot| owned.take(slot as usize))
    }

    /// The plain values of a component for slots.
    pub(crate) fn component(&self, slots: &[i64], component: usize, data_type: DataType) -> ArrayRef {
        let outputs = vec![Output { component, finish: Finish::Value, data_type }];
        let mut columns = self.slots.columns(slots, &OutputTypes { keys: vec![], outputs });
        columns.swap_remove(0)
    }

    /// The aggregates' outputs for slots.
    pub(crate) fn columns(&self, slots: &[i64]) -> Vec<ArrayRef> {
        self.slots.columns(slots, &self.types)
    }
}

/// # Safety
/// As for `FindSlice`, in a run with a [`SlotHost`].
unsafe extern "C" fn find_slice(context: *mut ExecContext, slice_start: i64) {
    // SAFETY: the host is a `SlotHost` that only the running program uses, and so is the context.
    unsafe {
        let host = (*context).host.cast::<SlotHost<'_>>();
        (*context).table = Table::header_of(&raw mut (*host).table);
        (*context).slice_start = slice_start;
    }
}

/// # Safety
/// As for `InsertKey`, in a run with a [`SlotHost`], after `find_slice`.
unsafe extern "C" fn insert_key(context: *mut ExecContext, hash: u64, null_mask: u64, keys: *const Slot) -> *mut u8 {
    // SAFETY: as in `find_slice`; the only key is the slot.
    unsafe {
        let host = (*context).host.cast::<SlotHost<'_>>();
        (*host).table.insert(hash, null_mask, std::slice::from_raw_parts(keys, 1))
    }
}

/// # Safety
/// As for `ExecContext::keep_string`, in a run with a [`SlotHost`], after `find_slice`.
unsafe extern "C" fn keep_string(context: *mut ExecContext, string: *mut Str) {
    // SAFETY: as in `find_slice`; `string` is a live value of the program.
    unsafe {
        let host = (*context).host.cast::<SlotHost<'_>>();
        *string = (*host).table.keep_string(*string);
    }
}

/// # Safety
/// As for `UpdateObject`, in a run with a [`SlotHost`], after `find_slice`.
unsafe extern "C" fn update_object(
    context: *mut ExecContext,
    accumulator: *mut u8,
    component: u32,
    value: *const Slot,
    row: u64,
) {
    // SAFETY: as in `find_slice`; the accumulator is within an entry of the table, `value` null or a live slot.
    unsafe {
        let host = (*context).host.cast::<SlotHost<'_>>();
        let (ordinals, weights) = ((*host).ordinals, (*host).weights);
        let change = match weights.get(row as usize) {
            Some(&weight) if weight < 0 => Change::TakenBack,
            _ => Change::Added(ordinals.get(row as usize).copied().unwrap_or(Ordinal::NOWHERE)),
        };
        (*host).table.update_object(accumulator, component as usize, value.as_ref().copied(), change);
    }
}
