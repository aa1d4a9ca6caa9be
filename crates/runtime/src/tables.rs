//! The workers' tables: one for each worker, aggregation, slice and generation (local merge, design section 7).
//!
//! A worker finds or makes tables under its own lock and then writes to them without any, for the rest of its task.
//! The trigger takes the tables of complete slices out of all workers' maps under the same locks.
//!
//! # Why no accepted row can meet a fired window
//!
//! Tables have numbers ([`TableIds`]): the start of the slice (tumbling windows), of the slice and the first window that
//! the rows count for (overlapping ones, [`millstream_plan::window::SliceTable`]), or the end of the window (attached
//! ones). Each has a watermark that completes it: the last millisecond of the window, or of the first of its windows.
//!
//! Let a table be taken at aggregation watermark *W*, when it is complete. *W* is the minimum
//! of what all input channels have released, so every channel's stream has a watermark of at least *W* before each
//! buffer whose task is not finished or not even made: a ring releases a watermark only after all buffers before it.
//! (A split that was left out as idle is raised to *W* before its next buffer, and a split that has ended brings none.)
//! A task passes each row the watermark before it, which is at least its buffer's, so at least *W*. The program drops
//! the row as late if its last window is complete under that, and otherwise sends it to the table of the first window
//! that is not. That table is completed by a watermark above the row's, so above *W*: it has not been taken.
//!
//! Overlapping windows fire in the order of their ends, each when *W* has reached it, and a row of a table counts from
//! the table's first window on: so a row that comes when some windows of its slice have been fired meets none of those.
//!
//! So a table that was taken has no writer, and nobody looks for it again: [`TaskTables`] checks the latter on every
//! lookup of a slice.

use crate::aggregation::{Aggregation, TableIds};
use crate::buffer::Generation;
use crate::staged::Staged;
use crate::stream::StreamId;
use millstream_abi::{EntryLayout, ExecContext, Slot, Str, TableHeader};
use millstream_codegen::execute::TableHooks;
use millstream_state::{Ordinal, Table};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// Names a table of a worker. The order groups by aggregation, then number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct TableId {
    aggregation: usize,
    number: i64,
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
    /// Takes the tables of an aggregation that a watermark completes, with their numbers, in order.
    pub(crate) fn take(&self, aggregation: usize, ids: TableIds, watermark: i64) -> Vec<(i64, Table)> {
        let mut tables = self.tables.lock();
        let first = TableId { aggregation, number: i64::MIN, generation: Generation(0) };
        let end = ids.incomplete_from(watermark);
        let complete: Vec<TableId> = tables
            .range(first..)
            .map(|(id, _)| *id)
            .take_while(|id| id.aggregation == aggregation && end.is_none_or(|end| id.number < end))
            .filter(|id| ids.completed_at(id.number) <= watermark)
            .collect();
        let mut taken = Vec::with_capacity(complete.len());
        for id in complete {
            taken.extend(tables.remove(&id).map(|table| (id.number, table.into_table())));
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

/// Place of rows for objects that do not keep it.
const NO_PLACE: Ordinal = Ordinal { watermark: i64::MIN, stream: 0, position: 0, pipeline: 0 };
/// Tables that a task has used last, so that rows that go back and forth between a few of them take no lock.
const RECENT: usize = 8;

/// The tables as one task of a worker sees them: what the callbacks of generated code work on.
pub(crate) struct TaskTables<'a> {
    owner: &'a WorkerTables,
    runtime: &'a Aggregation,
    aggregation: usize,
    generation: Generation,
    stream: StreamId,
    pipeline: usize,
    /// Tables that this watermark completes were fired when the task began.
    fired: i64,
    /// The place in the input of each row of the update; empty if no component wants to know.
    places: Vec<Ordinal>,
    recent: [(i64, *mut Table); RECENT],
    next_recent: usize,
    current: *mut Table,
    met_fired: Option<i64>,
}

impl<'a> TaskTables<'a> {
    /// For a task that updates aggregation `aggregation`, which is `runtime`, with what a pipeline makes of a buffer of a
    /// stream.
    pub(crate) fn new(
        owner: &'a WorkerTables,
        aggregation: usize,
        runtime: &'a Aggregation,
        generation: Generation,
        (stream, pipeline): (StreamId, usize),
    ) -> TaskTables<'a> {
        TaskTables {
            owner,
            runtime,
            aggregation,
            generation,
            stream,
            pipeline,
            fired: runtime.fired(),
            places: Vec::new(),
            recent: [(0, ptr::null_mut()); RECENT],
            next_recent: 0,
            current: ptr::null_mut(),
            met_fired: None,
        }
    }

    /// Notes the rows of the next update.
    pub(crate) fn begin(&mut self, rows: &Staged<'_>) {
        if !self.runtime.keeps_places {
            return;
        }
        let (stream, pipeline) = (self.stream as u32, self.pipeline as u32);
        let watermark = |row: usize| rows.watermarks[if rows.watermarks.len() == 1 { 0 } else { row }];
        let place = |row| Ordinal { watermark: watermark(row), stream, position: rows.position(row), pipeline };
        self.places.clear();
        self.places.extend((0..rows.rows).map(place));
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

    /// Number of a table that was fired before a row of the task came to it. There is never one; see the file's
    /// description.
    pub(crate) fn met_fired(&self) -> Option<i64> {
        self.met_fired
    }

    fn find(&mut self, number: i64) -> *mut TableHeader {
        let recent = self.recent.iter().find(|(of, table)| *of == number && !table.is_null());
        self.current = match recent {
            Some((_, table)) => *table,
            None => {
                if self.runtime.ids().completed_at(number) <= self.fired {
                    self.met_fired = Some(number);
                }
                let (aggregation, generation) = (self.aggregation, self.generation);
                let table = self.owner.find(TableId { aggregation, number, generation }, &self.runtime.layout);
                self.recent[self.next_recent] = (number, table);
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
unsafe extern "C" fn find_slice(context: *mut ExecContext, number: i64) {
    // SAFETY: the hooks' host is a `TaskTables` that only the running update uses, and so is the context.
    unsafe {
        let host = &mut *(*context).host.cast::<TaskTables<'_>>();
        (*context).table = host.find(number);
        (*context).slice_start = number;
    }
}

/// # Safety
/// As for `InsertKey`, in an update with the hooks of a [`TaskTables`], after `find_slice`.
unsafe extern "C" fn insert_key(context: *mut ExecContext, hash: u64, null_mask: u64, keys: *const Slot) -> *mut u8 {
    // SAFETY: as in `find_slice`; the program passes one slot for each key of the layout, and `current` is live.
    unsafe {
        let host = &mut *(*context).host.cast::<TaskTables<'_>>();
        let count = host.runtime.layout.keys.len();
        let keys: &[Slot] = if count == 0 { &[] } else { std::slice::from_raw_parts(keys, count) };
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
unsafe extern "C" fn update_object(
    context: *mut ExecContext,
    accumulator: *mut u8,
    component: u32,
    value: *const Slot,
    row: u64,
) {
    // SAFETY: as in `find_slice`; the accumulator is that of the component in an entry of the current table, and the value
    // is null or a slot of its argument's type.
    unsafe {
        let host = &mut *(*context).host.cast::<TaskTables<'_>>();
        let place = host.places.get(row as usize).copied().unwrap_or(NO_PLACE);
        (*host.current).update_object(accumulator, component as usize, value.as_ref().copied(), place);
    }
}
