//! The workers' tables: one for each worker, aggregation, slice and generation (local merge, design section 7).
//!
//! A worker finds or makes tables under its own lock and then writes to them without any, for the rest of its task.
//! The trigger takes the tables of complete slices out of all workers' maps under the same locks.
//!
//! # Why no accepted row can meet a fired window
//!
//! Let a slice be taken at aggregation watermark *W*, which its end does not exceed (end - 1 ≤ *W*). *W* is the minimum
//! of what all input channels have released, so every channel's stream has a watermark of at least *W* before each
//! buffer whose task is not finished or not even made: a ring releases a watermark only after all buffers before it.
//! (A split that was left out as idle is raised to *W* before its next buffer, and a split that has ended brings none.)
//! A task passes each row the watermark before it, which is at least its buffer's, so at least *W*; the program drops
//! the row as late if its slice ends at or before that. A row that it accepts has therefore a slice that ends after
//! *W*, which has not been taken.
//!
//! So a table that was taken has no writer, and nobody looks for it again: [`TaskTables`] checks the latter on every
//! lookup of a slice.

use crate::buffer::Generation;
use millstream_abi::{EntryLayout, ExecContext, Slot, Str, TableHeader};
use millstream_codegen::execute::TableHooks;
use millstream_state::Table;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// Names a table of a worker. The order groups by aggregation, then slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct TableId {
    aggregation: usize,
    slice_start: i64,
    generation: Generation,
}

/// A table that others may point to, unlike a `Box`, whose moves invalidate such pointers.
struct OwnedTable(NonNull<Table>);

// SAFETY: it owns the table, which is `Send`.
unsafe impl Send for OwnedTable {}

impl OwnedTable {
    fn new(table: Table) -> OwnedTable {
        OwnedTable(NonNull::from(Box::leak(Box::new(table))))
    }

    fn into_table(self) -> Table {
        let pointer = self.0.as_ptr();
        std::mem::forget(self);
        // SAFETY: made by `Box::leak`, and given back once, because `self` is forgotten.
        *unsafe { Box::from_raw(pointer) }
    }
}

impl Drop for OwnedTable {
    fn drop(&mut self) {
        // SAFETY: made by `Box::leak`; `into_table` forgets the value it takes.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// The tables of one worker.
#[derive(Default)]
pub(crate) struct WorkerTables {
    tables: Mutex<BTreeMap<TableId, OwnedTable>>,
}

impl WorkerTables {
    /// Takes the tables of an aggregation whose slices start before `before` (all of them: `None`), with their slices,
    /// in order.
    pub(crate) fn take(&self, aggregation: usize, before: Option<i64>) -> Vec<(i64, Table)> {
        let mut tables = self.tables.lock();
        let first = TableId { aggregation, slice_start: i64::MIN, generation: Generation(0) };
        let complete: Vec<TableId> = tables
            .range(first..)
            .map(|(id, _)| *id)
            .take_while(|id| id.aggregation == aggregation && before.is_none_or(|b| id.slice_start < b))
            .collect();
        let mut taken = Vec::with_capacity(complete.len());
        for id in complete {
            taken.extend(tables.remove(&id).map(|table| (id.slice_start, table.into_table())));
        }
        taken
    }

    fn find(&self, id: TableId, layout: &Arc<EntryLayout>) -> *mut Table {
        let mut tables = self.tables.lock();
        let table = tables.entry(id).or_insert_with(|| OwnedTable::new(Table::new(Arc::clone(layout)))).0;
        drop(tables);
        // SAFETY: only this worker's running task uses its tables, and it holds no pointer into the entries or strings
        // of one while it looks for another.
        unsafe { (*table.as_ptr()).compact() };
        table.as_ptr()
    }
}

/// Tables that a task has used last, so that rows that go back and forth between a few slices take no lock.
const RECENT: usize = 8;

/// The tables as one task of a worker sees them: what the callbacks of generated code work on.
pub(crate) struct TaskTables<'a> {
    owner: &'a WorkerTables,
    layout: &'a Arc<EntryLayout>,
    aggregation: usize,
    generation: Generation,
    /// Slices that start before this were fired when the task began.
    fired_before: i64,
    recent: [(i64, *mut Table); RECENT],
    next_recent: usize,
    current: *mut Table,
    met_fired: Option<i64>,
}

impl<'a> TaskTables<'a> {
    /// For one task.
    pub(crate) fn new(
        owner: &'a WorkerTables,
        layout: &'a Arc<EntryLayout>,
        aggregation: usize,
        generation: Generation,
        fired_before: i64,
    ) -> TaskTables<'a> {
        TaskTables {
            owner,
            layout,
            aggregation,
            generation,
            fired_before,
            recent: [(0, ptr::null_mut()); RECENT],
            next_recent: 0,
            current: ptr::null_mut(),
            met_fired: None,
        }
    }

    /// The callbacks, for one `update`.
    ///
    /// # Safety
    /// The program's entry layout is that of these tables, this value is used by nothing else until the update has
    /// returned, and the worker that owns the tables runs it.
    pub(crate) unsafe fn hooks(&mut self) -> TableHooks {
        let host = (&raw mut *self).cast();
        // SAFETY: the callbacks below keep the contracts of their types; the rest is promised by the caller.
        unsafe { TableHooks::new(find_slice, insert_key, keep_string, update_object, host) }
    }

    /// A slice that was fired before a row of the task came to it. There is never one; see the file's description.
    pub(crate) fn met_fired(&self) -> Option<i64> {
        self.met_fired
    }

    fn find(&mut self, slice_start: i64) -> *mut TableHeader {
        if slice_start < self.fired_before {
            self.met_fired = Some(slice_start);
        }
        let recent = self.recent.iter().find(|(start, table)| *start == slice_start && !table.is_null());
        self.current = match recent {
            Some((_, table)) => *table,
            None => {
                let (aggregation, generation) = (self.aggregation, self.generation);
                let table = self.owner.find(TableId { aggregation, slice_start, generation }, self.layout);
                self.recent[self.next_recent] = (slice_start, table);
                self.next_recent = (self.next_recent + 1) % RECENT;
                table
            }
        };
        // SAFETY: a live table of this worker.
        unsafe { Table::header_of(self.current) }
    }
}

/// # Safety
/// As for `FindSlice`, in an update with the hooks of a [`TaskTables`].
unsafe extern "C" fn find_slice(context: *mut ExecContext, slice_start: i64) {
    // SAFETY: the hooks' host is a `TaskTables` that only the running update uses, and so is the context.
    unsafe {
        let host = &mut *(*context).host.cast::<TaskTables<'_>>();
        (*context).table = host.find(slice_start);
        (*context).slice_start = slice_start;
    }
}

/// # Safety
/// As for `InsertKey`, in an update with the hooks of a [`TaskTables`], after `find_slice`.
unsafe extern "C" fn insert_key(context: *mut ExecContext, hash: u64, null_mask: u64, keys: *const Slot) -> *mut u8 {
    // SAFETY: as in `find_slice`; the program passes one slot for each key of the layout, and `current` is live.
    unsafe {
        let host = &mut *(*context).host.cast::<TaskTables<'_>>();
        let keys: &[Slot] =
            if host.layout.keys.is_empty() { &[] } else { std::slice::from_raw_parts(keys, host.layout.keys.len()) };
        (*host.current).insert(hash, null_mask, keys)
    }
}

/// # Safety
/// As for `ExecContext::keep_string`, in an update with the hooks of a [`TaskTables`], after `find_slice`.
unsafe extern "C" fn keep_string(context: *mut ExecContext, string: *mut Str) {
    // SAFETY: as in `find_slice`; `string` is a live value of the program.
    unsafe {
        let host = &mut *(*context).host.cast::<TaskTables<'_>>();
        *string = (*host.current).keep_string(*string);
    }
}

/// # Safety
/// As for `ExecContext::update_object`, in an update with the hooks of a [`TaskTables`], after `find_slice`.
unsafe extern "C" fn update_object(_: *mut ExecContext, _: *mut u8, _: u32, _: *const Slot, _: u64) {}
