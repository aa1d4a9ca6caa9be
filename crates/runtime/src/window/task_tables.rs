//! The tables as one task of a worker sees them: what the callbacks of generated code work on.

use super::aggregation::Aggregation;
use super::tables::OpenTables;
use crate::ids::Generation;
use crate::pipeline_stages::{Origin, Staged};
use millstream_abi::{ExecContext, Slot, Str, TableHeader};
use millstream_codegen::execute::TableHooks;
use millstream_state::{Change, Ordinal, SharedTable, Table};
use millstream_types::Diagnostic;
use std::ptr;

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
}

impl Found {
    /// Tells the memory budget what has become of the table, and new tables. Only the task that has found it may call it,
    /// before its end.
    fn settle(self, tables: &OpenTables) {
        match self {
            Found::Nothing => {}
            // SAFETY: a live table that only this task uses.
            Found::Own(table) => unsafe {
                (*table).settle();
                tables.note_open(&*table);
            },
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
        unsafe { TableHooks::new(find_slice, insert_key, keep_string, update_object, host) }
    }

    /// Tells the memory budget what has become of the tables, and has those that append cease to if there is too little of
    /// it.
    fn settle(&self) {
        self.recent.iter().for_each(|(_, table)| table.settle(&self.runtime.tables));
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
        let (node, owner, generation, runtime) = (self.node, self.owner, self.generation, self.runtime);
        let recent = self.recent.iter().find(|(of, table)| *of == number && !matches!(table, Found::Nothing));
        self.current = match recent {
            Some((_, table)) => *table,
            None => {
                let completed_at = runtime.ids().completed_at(number);
                if completed_at <= self.fired {
                    self.met_fired = Some(number);
                }
                let timeline = runtime.timeline;
                self.dues.iter_mut().for_each(|dues| dues.push(timeline.watermark_at(completed_at)));
                let table = match node {
                    None => {
                        let appends = || runtime.strategy.appending.begins();
                        Found::Own(runtime.tables.find(owner, generation, number, appends))
                    }
                    Some(node) => Found::Shared(runtime.tables.find_shared(node, generation, number)),
                };
                self.recent[self.next_recent].1.settle(&runtime.tables);
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
            Found::Nothing => ptr::null_mut(),
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
        let change = Change::Added(host.places.get(row as usize).copied().unwrap_or(NO_PLACE));
        let value = value.as_ref().copied();
        match (host.current, value) {
            (Found::Own(table), _) => (*table).update_object(accumulator, component as usize, value, change),
            // Tables with objects are not shared, but sums of doubles may be.
            (Found::Shared(table), Some(value)) => {
                (*table).add_far(host.owner, accumulator, component as usize, value);
            }
            _ => {}
        }
    }
}
