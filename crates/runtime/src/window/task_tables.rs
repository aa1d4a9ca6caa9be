//! The tables as one task of a worker sees them: what the callbacks of generated code work on.

use super::aggregation::Aggregation;
use super::tables::OpenTables;
use crate::buffer::Generation;
use crate::pipeline_stages::{Origin, Staged};
use millstream_abi::{ExecContext, KeyRange, Slot, Str, TableHeader};
use millstream_codegen::execute::TableHooks;
use millstream_state::{ArrayShape, ArrayTable, Ordinal, SharedTable, Table};
use millstream_types::Diagnostic;
use std::ptr;
use std::sync::Arc;

/// Place of rows for objects that do not keep it.
const NO_PLACE: Ordinal = Ordinal { watermark: i64::MIN, input: 0, split: 0, position: 0, pipeline: 0 };
/// Tables that a task has used last, so that rows that go back and forth between a few of them need not search them again.
const RECENT: usize = 8;

/// A table that a task has found.
#[derive(Debug, Clone, Copy)]
enum Found {
    Nothing,
    Own(*mut Table),
    Shared(*const SharedTable),
    Array(*mut ArrayTable),
}

impl Found {
    /// Tells the memory budget what has become of the table. Only the task that has found it may call it, before its end.
    fn settle(self) {
        match self {
            // Arrays keep their size.
            Found::Nothing | Found::Array(_) => {}
            // SAFETY: a live table that only this task uses.
            Found::Own(table) => unsafe { (*table).settle() },
            // SAFETY: a live table.
            Found::Shared(table) => unsafe { (*table).settle() },
        }
    }
}

/// See the module.
pub(crate) struct TaskTables<'a> {
    runtime: &'a Aggregation,
    owner: usize,
    /// The NUMA node whose tables the task uses, for a program that shares tables with the other workers of a node
    /// ([`Access::Shared`](millstream_codegen::program::Access::Shared)); `None`: it uses its own.
    pub(crate) node: Option<usize>,
    generation: Generation,
    origin: Origin,
    /// Tables that this watermark completes were fired when the task began.
    fired: i64,
    /// The place in the input of each row of the update; empty if no component wants to know.
    places: Vec<Ordinal>,
    recent: [(i64, Found); RECENT],
    next_recent: usize,
    current: Found,
    /// Of the arrays that were found last, and the `count` that they were asked for with.
    shape: Option<(Option<usize>, Arc<ArrayShape>)>,
    /// Number of a table that was fired before a row of the task came to it. There is never one; see `tables`.
    met_fired: Option<i64>,
    /// Watermarks that complete the tables which the task has found, if someone wants to know.
    dues: Option<Vec<i64>>,
}

impl<'a> TaskTables<'a> {
    /// For a task of an owner that updates an aggregation with what comes from an origin, in tables of a generation.
    /// `is_due_told` has it collect the watermarks that complete its tables.
    pub(crate) fn new(
        runtime: &'a Aggregation,
        owner: usize,
        (generation, origin): (Generation, Origin),
        is_due_told: bool,
    ) -> TaskTables<'a> {
        TaskTables {
            runtime,
            owner,
            node: None,
            generation,
            origin,
            fired: runtime.fired(),
            places: Vec::new(),
            recent: [(0, Found::Nothing); RECENT],
            next_recent: 0,
            current: Found::Nothing,
            shape: None,
            met_fired: None,
            dues: is_due_told.then(Vec::new),
        }
    }

    /// At the end of a task, when its programs do not run any more: the watermarks that were collected.
    pub(crate) fn end(mut self) -> Result<Vec<i64>, Diagnostic> {
        self.settle();
        match self.met_fired {
            Some(table) => Err(Diagnostic::bug(format!("a row came to table {table}, which had been fired"))),
            None => Ok(self.dues.take().unwrap_or_default()),
        }
    }

    /// Notes the rows of the next update.
    pub(crate) fn begin(&mut self, rows: &Staged<'_>) {
        if !self.runtime.keeps_places {
            return;
        }
        self.places.clear();
        self.places.extend((0..rows.rows).map(|row| rows.ordinal(row, self.origin)));
    }

    /// The callbacks, for one `update`.
    ///
    /// # Safety
    /// The program's entry layout is that of these tables, this value is used by nothing else until the update has
    /// returned, and the worker that owns the tables runs it.
    pub(crate) unsafe fn hooks(&mut self) -> TableHooks {
        let host = (&raw mut *self).cast();
        // SAFETY: the callbacks below keep the contracts of their types; the rest is promised by the caller.
        unsafe { TableHooks::new(find_slice, insert_key, keep_string, update_object, host).with_arrays(find_array) }
    }

    /// Tells the memory budget what has become of the tables, and has those that append cease to if there is too little of
    /// it.
    fn settle(&self) {
        self.recent.iter().for_each(|(_, table)| table.settle());
        let appending = &self.runtime.strategy.appending;
        for (_, found) in &self.recent {
            if let Found::Own(table) = *found
                // SAFETY: a live table that only this task uses.
                && unsafe { (*table).is_appending() }
                && (self.runtime.tables.are_large() || appending.ceases())
            {
                // SAFETY: as above; nobody holds a pointer into it, nor has searched it for a key to be inserted.
                unsafe { (*table).set_appending(false) };
            }
        }
    }

    /// The table of a slice.
    fn find(&mut self, number: i64) -> *mut TableHeader {
        let is_table = |found: Found| matches!(found, Found::Own(_) | Found::Shared(_));
        let (node, owner, generation, runtime) = (self.node, self.owner, self.generation, self.runtime);
        self.look_for(number, is_table, |tables| match node {
            None => {
                let appends = || runtime.strategy.appending.begins();
                Found::Own(tables.find(owner, generation, number, appends))
            }
            Some(node) => Found::Shared(tables.find_shared(node, generation, number)),
        })
    }

    /// The array table of a slice for a range of keys.
    fn find_array(&mut self, number: i64, range: KeyRange, count: Option<usize>) -> *mut TableHeader {
        let known = self.shape.take().filter(|(of, shape)| *of == count && shape.range() == range);
        let (_, shape) = known.unwrap_or_else(|| (count, self.runtime.tables.shape(range, count)));
        let is_array = |found: Found| match found {
            // SAFETY: a live table, of which only what does not change is read.
            Found::Array(table) => *unsafe { ArrayTable::shape_of(table) } == *shape,
            _ => false,
        };
        let (owner, generation) = (self.owner, self.generation);
        let header = self
            .look_for(number, is_array, |tables| Found::Array(tables.find_array(owner, generation, number, &shape)));
        self.shape = Some((count, shape));
        header
    }

    /// Makes a table of a slice the current one: one that the task has used, or what `find` finds.
    fn look_for(
        &mut self,
        number: i64,
        is_wanted: impl Fn(Found) -> bool,
        find: impl FnOnce(&OpenTables) -> Found,
    ) -> *mut TableHeader {
        let recent = self.recent.iter().find(|(of, table)| *of == number && is_wanted(*table));
        self.current = match recent {
            Some((_, table)) => *table,
            None => {
                let completed_at = self.runtime.ids().completed_at(number);
                if completed_at <= self.fired {
                    self.met_fired = Some(number);
                }
                let timeline = self.runtime.timeline;
                self.dues.iter_mut().for_each(|dues| dues.push(timeline.watermark_at(completed_at)));
                let table = find(&self.runtime.tables);
                self.recent[self.next_recent].1.settle();
                self.recent[self.next_recent] = (number, table);
                self.next_recent = (self.next_recent + 1) % RECENT;
                table
            }
        };
        // SAFETY: live tables, of which this task is the only one to use the worker's own or its header of a shared one.
        unsafe {
            match self.current {
                Found::Nothing => ptr::null_mut(),
                Found::Own(table) => Table::header_of(table),
                Found::Shared(table) => (*table).header_of(self.owner),
                Found::Array(table) => ArrayTable::header_of(table),
            }
        }
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
/// As for `FindArray`, in an update with the hooks of a [`TaskTables`].
unsafe extern "C" fn find_array(context: *mut ExecContext, number: i64, first: i64, len: u64, count: u64) {
    let count = (count < u64::MAX).then_some(count as usize);
    // SAFETY: as in `find_slice`.
    unsafe {
        let host = &mut *(*context).host.cast::<TaskTables<'_>>();
        (*context).table = host.find_array(number, KeyRange { first, len }, count);
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
        match host.current {
            Found::Own(table) => (*table).insert(hash, null_mask, keys),
            Found::Shared(table) => (*table).insert(host.owner, hash, null_mask, keys),
            // Nothing is inserted into arrays.
            Found::Nothing | Found::Array(_) => ptr::null_mut(),
        }
    }
}

/// # Safety
/// As for `ExecContext::keep_string`, in an update with the hooks of a [`TaskTables`], after `find_slice`.
unsafe extern "C" fn keep_string(context: *mut ExecContext, string: *mut Str) {
    // SAFETY: as in `find_slice`; `string` is a live value of the program.
    unsafe {
        let host = &mut *(*context).host.cast::<TaskTables<'_>>();
        // Tables that keep strings beside keys are not shared.
        if let Found::Own(table) = host.current {
            *string = (*table).keep_string(*string);
        }
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
        // Tables with objects are not shared.
        if let Found::Own(table) = host.current {
            (*table).update_object(accumulator, component as usize, value.as_ref().copied(), place);
        }
    }
}
