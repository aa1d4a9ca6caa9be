//! The tables of an aggregation and open slice: one for each worker or lane, or one for each NUMA node (local, partitioned
//! and global merge, design section 7).
//!
//! Open slices are in a ring ([`SliceRing`]), in which a worker finds its table of a slice without a lock; slices that find no
//! place there are kept under one. The trigger takes the tables of complete slices out of both, one thread at a time (under
//! the lock of the aggregation's progress). Tables that were sealed are used again for slices to come, with the capacity that
//! they have grown to, so that in the steady state slices need no new memory and nothing grows.
//!
//! A table of its own belongs to one *owner*, a worker or a lane: only the task of that owner that is running finds, makes
//! and writes it. The owner's pointer in the ring is set by the owner (release) and taken by the trigger (acquire).
//!
//! A shared table is made by the first worker of its node that needs it (compare-and-swap from null, release; whoever finds
//! it there has loaded it with acquire) and taken in the same way. How workers write to it is its own protocol. A slice may have
//! tables of both kinds, because the strategy may change while it is open: all become partials of it.
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
//! lookup of a slice. What its writers did is seen by the trigger, because each has finished its task in the epoch ring
//! before *W* was released (acquire-release there).

use crate::aggregation::{Aggregation, TableIds};
use crate::buffer::Generation;
use crate::staged::Staged;
use crate::stream::StreamId;
use millstream_abi::{EntryLayout, ExecContext, Slot, Str, TableHeader};
use millstream_codegen::execute::TableHooks;
use millstream_state::{MemoryBudget, Ordinal, Partial, SharedTable, Table, TableHint};
use millstream_sync::pool::Pool;
use millstream_sync::slices::SliceRing;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, OnceLock};

/// Slices that are found without a lock. Thousands of windows may be open, but most queries have a few.
const RING_SLICES: usize = 1024;

/// Most tables of an aggregation that are kept for slices to come.
const FREE_TABLES: usize = 64;

/// A table that the trigger has taken, or is about to seal.
#[derive(Debug)]
pub(crate) enum Taken {
    /// Of one owner.
    Own(Box<Table>),
    /// Of a NUMA node.
    Shared(Box<SharedTable>),
}

impl Taken {
    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        match self {
            Taken::Own(table) => table.len(),
            Taken::Shared(table) => table.len(),
        }
    }
}

/// Who may have tables of a slice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owners {
    /// Owners of tables of their own: workers, then lanes.
    pub(crate) own: usize,
    /// NUMA nodes whose workers may share a table; 0 if they never do.
    pub(crate) nodes: usize,
    /// Workers.
    pub(crate) workers: usize,
}

/// The tables of one slice, null where there is none.
#[derive(Debug)]
struct SliceTables {
    /// By owner.
    own: Box<[AtomicPtr<Table>]>,
    /// By NUMA node.
    shared: Box<[AtomicPtr<SharedTable>]>,
}

fn nulls<T>(count: usize) -> Box<[AtomicPtr<T>]> {
    (0..count).map(|_| AtomicPtr::new(ptr::null_mut())).collect()
}

/// Takes what pointers own.
fn take_all<T>(places: &[AtomicPtr<T>]) -> impl Iterator<Item = Box<T>> {
    places.iter().filter_map(|place| {
        let table = place.swap(ptr::null_mut(), Ordering::Acquire);
        // SAFETY: made by `into_raw` before it was put there, and given to whoever takes it out, once.
        (!table.is_null()).then(|| unsafe { Box::from_raw(table) })
    })
}

impl SliceTables {
    fn new(owners: Owners) -> SliceTables {
        SliceTables { own: nulls(owners.own), shared: nulls(owners.nodes) }
    }

    /// The owner's table, made if it is not there.
    fn find(&self, owner: usize, make: impl FnOnce() -> Box<Table>) -> *mut Table {
        let place = &self.own[owner];
        // Nobody but the owner has written it since the slot was drained.
        let mut table = place.load(Ordering::Relaxed);
        if table.is_null() {
            table = Box::into_raw(make());
            place.store(table, Ordering::Release);
        }
        table
    }

    /// The node's table, made if it is not there: by several workers perhaps, of whom one is the first to put it there.
    fn find_shared(&self, node: usize, make: impl FnOnce() -> Box<SharedTable>) -> *const SharedTable {
        let place = &self.shared[node];
        let table = place.load(Ordering::Acquire);
        if !table.is_null() {
            return table;
        }
        let made = Box::into_raw(make());
        match place.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => made,
            Err(first) => {
                // SAFETY: nobody else has seen it.
                drop(unsafe { Box::from_raw(made) });
                first
            }
        }
    }

    /// Takes all tables out.
    fn take(&self) -> impl Iterator<Item = Taken> {
        take_all(&self.own).map(Taken::Own).chain(take_all(&self.shared).map(Taken::Shared))
    }
}

impl Drop for SliceTables {
    fn drop(&mut self) {
        self.take().for_each(drop);
    }
}

/// The open slices of one generation.
#[derive(Debug)]
struct Slices {
    ring: SliceRing<SliceTables>,
    /// Slices without a place in the ring.
    others: Mutex<BTreeMap<i64, SliceTables>>,
}

impl Slices {
    fn new(owners: Owners) -> Slices {
        let ring = SliceRing::new(RING_SLICES, || SliceTables::new(owners));
        Slices { ring, others: Mutex::new(BTreeMap::new()) }
    }

    fn of<T>(&self, owners: Owners, number: i64, find: impl FnOnce(&SliceTables) -> T) -> T {
        match self.ring.claim(number) {
            Some(slice) => find(slice),
            None => find(self.others.lock().entry(number).or_insert_with(|| SliceTables::new(owners))),
        }
    }

    /// Takes the tables of the numbers that are due.
    fn take(&self, is_due: impl Fn(i64) -> bool, taken: &mut TablesByNumber) {
        let mut take = |number: i64, slice: &SliceTables| {
            taken.entry(number).or_default().extend(slice.take());
        };
        self.ring.drain(&is_due, &mut take);
        let mut others = self.others.lock();
        for (number, slice) in others.extract_if(.., |&number, _| is_due(number)) {
            take(number, &slice);
        }
    }
}

/// Tables of slices, by the number of the slice.
pub(crate) type TablesByNumber = BTreeMap<i64, Vec<Taken>>;

/// See the file's description.
#[derive(Debug)]
pub(crate) struct OpenTables {
    layout: Arc<EntryLayout>,
    budget: Arc<MemoryBudget>,
    owners: Owners,
    /// Whether tables may keep the entries of a dense range of keys in an array.
    dense: bool,
    /// Of even and of odd generations: two are written to at most (see `cuts`). Those of odd ones are made when there is one.
    generations: [OnceLock<Slices>; 2],
    /// Tables of earlier generations, whose windows are not complete. Nobody writes to them.
    frozen: Mutex<TablesByNumber>,
    /// What the next shared table begins with.
    hint: Mutex<TableHint>,
    /// Tables that were sealed, for slices to come.
    free: Pool<Table>,
    free_shared: Pool<SharedTable>,
}

impl OpenTables {
    /// Without slices. `dense`: as in `RunConfig::dense_tables`.
    pub(crate) fn new(layout: Arc<EntryLayout>, owners: Owners, dense: bool, budget: &Arc<MemoryBudget>) -> OpenTables {
        let (frozen, hint) = (Mutex::new(BTreeMap::new()), Mutex::new(TableHint::default()));
        let (budget, generations) = (Arc::clone(budget), Default::default());
        let (free, free_shared) = (Pool::new(FREE_TABLES), Pool::new(FREE_TABLES));
        OpenTables { layout, budget, owners, dense, generations, frozen, hint, free, free_shared }
    }

    /// Of entries.
    pub(crate) fn layout(&self) -> &Arc<EntryLayout> {
        &self.layout
    }

    /// The owner that is the first lane.
    pub(crate) fn first_lane(&self) -> usize {
        self.owners.workers
    }

    fn of(&self, generation: Generation) -> &OnceLock<Slices> {
        &self.generations[generation.0 as usize % 2]
    }

    /// Takes the tables that a watermark completes. One thread at a time takes or freezes.
    pub(crate) fn take(&self, ids: TableIds, watermark: i64) -> TablesByNumber {
        let is_complete = |number: i64| ids.completed_at(number) <= watermark;
        let mut taken: TablesByNumber = self.frozen.lock().extract_if(.., |&n, _| is_complete(n)).collect();
        for slices in self.generations.iter().filter_map(OnceLock::get) {
            slices.take(is_complete, &mut taken);
        }
        let shared = |table: &Taken| match table {
            Taken::Shared(table) => Some(table.hint()),
            Taken::Own(_) => None,
        };
        if let Some(hint) = taken.values().flatten().filter_map(shared).next_back() {
            *self.hint.lock() = hint;
        }
        taken
    }

    /// The immutable form of a table that was taken. Its memory is used again, unless memory is short.
    pub(crate) fn seal(&self, table: Taken) -> Partial {
        let is_short = self.budget.state() > self.budget.limit() / 2;
        match table {
            Taken::Own(table) if is_short => table.seal(),
            Taken::Own(mut table) => {
                let partial = table.drain();
                // With enough of them there already, this one is dropped.
                let _ = self.free.put(table);
                partial
            }
            Taken::Shared(mut table) => {
                let partial = table.drain();
                if !is_short {
                    let _ = self.free_shared.put(table);
                }
                partial
            }
        }
    }

    /// Notes that nobody writes tables of the generation before this one any more.
    pub(crate) fn freeze_before(&self, generation: Generation) {
        let mut frozen = self.frozen.lock();
        if let Some(slices) = self.of(Generation(generation.0 - 1)).get() {
            slices.take(|_| true, &mut frozen);
        }
    }

    /// The table of an owner for a slice. Only the running task of the owner may call it and use the table.
    fn find(&self, owner: usize, generation: Generation, number: i64) -> *mut Table {
        let fresh = || {
            let table = Table::with_hint(Arc::clone(&self.layout), self.dense, TableHint::default());
            Box::new(table.charged(&self.budget))
        };
        let make = || self.free.take().unwrap_or_else(fresh);
        let slices = self.of(generation).get_or_init(|| Slices::new(self.owners));
        let table = slices.of(self.owners, number, |slice| slice.find(owner, make));
        // SAFETY: only this owner's running task uses the table, and it holds no pointer into the entries or strings of one
        // while it looks for another.
        unsafe { (*table).compact() };
        table
    }

    /// The table that the workers of a node share for a slice. Only running tasks of these workers may call it and use the
    /// table.
    fn find_shared(&self, node: usize, generation: Generation, number: i64) -> *const SharedTable {
        let (layout, workers) = (Arc::clone(&self.layout), self.owners.workers);
        let fresh = || Box::new(SharedTable::new(layout, workers, self.dense, *self.hint.lock()).charged(&self.budget));
        let make = || self.free_shared.take().unwrap_or_else(fresh);
        let slices = self.of(generation).get_or_init(|| Slices::new(self.owners));
        slices.of(self.owners, number, |slice| slice.find_shared(node, make))
    }
}

/// Place of rows for objects that do not keep it.
const NO_PLACE: Ordinal = Ordinal { watermark: i64::MIN, stream: 0, position: 0, pipeline: 0 };
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
    /// Tells the memory budget what has become of the table. Only the task that has found it may call it, before its end.
    fn settle(self) {
        match self {
            Found::Nothing => {}
            // SAFETY: a live table that only this task uses.
            Found::Own(table) => unsafe { (*table).settle() },
            // SAFETY: a live table.
            Found::Shared(table) => unsafe { (*table).settle() },
        }
    }
}

/// The tables as one task of a worker sees them: what the callbacks of generated code work on.
pub(crate) struct TaskTables<'a> {
    runtime: &'a Aggregation,
    owner: usize,
    /// The NUMA node whose tables the task uses; `None`: it uses those of its own.
    node: Option<usize>,
    generation: Generation,
    stream: StreamId,
    pipeline: usize,
    /// Tables that this watermark completes were fired when the task began.
    fired: i64,
    /// The place in the input of each row of the update; empty if no component wants to know.
    places: Vec<Ordinal>,
    recent: [(i64, Found); RECENT],
    next_recent: usize,
    current: Found,
    met_fired: Option<i64>,
    /// Watermarks that complete the tables which the task has found, if someone wants to know.
    dues: Option<Vec<i64>>,
}

impl<'a> TaskTables<'a> {
    /// For a task of an owner that updates an aggregation with what a pipeline makes of a buffer of a stream, in tables of a
    /// generation.
    pub(crate) fn new(
        runtime: &'a Aggregation,
        owner: usize,
        generation: Generation,
        (stream, pipeline): (StreamId, usize),
    ) -> TaskTables<'a> {
        TaskTables {
            runtime,
            owner,
            node: None,
            generation,
            stream,
            pipeline,
            fired: runtime.fired(),
            places: Vec::new(),
            recent: [(0, Found::Nothing); RECENT],
            next_recent: 0,
            current: Found::Nothing,
            met_fired: None,
            dues: None,
        }
    }

    /// The same for a program that shares tables with the other workers of a node ([`Access::Shared`]).
    ///
    /// [`Access::Shared`]: millstream_codegen::program::Access
    pub(crate) fn shared(self, node: usize) -> TaskTables<'a> {
        TaskTables { node: Some(node), ..self }
    }

    /// Has the task collect the watermarks that complete its tables.
    pub(crate) fn collect_dues(&mut self) {
        self.dues = Some(Vec::new());
    }

    /// The watermarks that were collected.
    pub(crate) fn dues(&self) -> &[i64] {
        self.dues.as_deref().unwrap_or_default()
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

    /// Tells the memory budget what has become of the tables. At the end of a task.
    pub(crate) fn settle(&self) {
        self.recent.iter().for_each(|(_, table)| table.settle());
    }

    /// Number of a table that was fired before a row of the task came to it. There is never one; see the file's
    /// description.
    pub(crate) fn met_fired(&self) -> Option<i64> {
        self.met_fired
    }

    fn find(&mut self, number: i64) -> *mut TableHeader {
        let recent = self.recent.iter().find(|(of, table)| *of == number && !matches!(table, Found::Nothing));
        self.current = match recent {
            Some((_, table)) => *table,
            None => {
                let completed_at = self.runtime.ids().completed_at(number);
                if completed_at <= self.fired {
                    self.met_fired = Some(number);
                }
                self.dues.iter_mut().for_each(|dues| dues.push(completed_at));
                let (tables, generation) = (&self.runtime.tables, self.generation);
                let table = match self.node {
                    None => Found::Own(tables.find(self.owner, generation, number)),
                    Some(node) => Found::Shared(tables.find_shared(node, generation, number)),
                };
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
        let place = host.places.get(row as usize).copied().unwrap_or(NO_PLACE);
        // Tables with objects are not shared.
        if let Found::Own(table) = host.current {
            (*table).update_object(accumulator, component as usize, value.as_ref().copied(), place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_abi::{Accumulator, Phys};
    use millstream_plan::window::{Slicing, WindowAssigner};

    #[test]
    fn tables_of_both_kinds_are_taken_together() {
        let layout = Arc::new(EntryLayout::new(&[(Phys::I64, false)], &[Accumulator::Count]));
        let owners = Owners { own: 3, nodes: 2, workers: 2 };
        let tables = OpenTables::new(layout, owners, true, &MemoryBudget::new(1 << 20));
        let generation = Generation::default();
        for slice in [0, 10, 20] {
            let own = tables.find(0, generation, slice);
            assert_eq!(own, tables.find(0, generation, slice));
            assert_ne!(own, tables.find(2, generation, slice));
            let shared = tables.find_shared(1, generation, slice);
            assert_eq!(shared, tables.find_shared(1, generation, slice));
            assert_ne!(shared, tables.find_shared(0, generation, slice));
        }
        let ids = TableIds(WindowAssigner::Tumble(Slicing { size_ms: 10, offset_ms: 0 }));
        let taken = tables.take(ids, 19);
        let kinds = |tables: &[Taken]| tables.iter().filter(|t| matches!(t, Taken::Shared(_))).count();
        let counts: Vec<_> = taken.iter().map(|(slice, tables)| (*slice, tables.len(), kinds(tables))).collect();
        assert_eq!(counts, [(0, 4, 2), (10, 4, 2)]);
        assert_eq!(tables.take(ids, 29).len(), 1);
        assert!(tables.take(ids, i64::MAX).is_empty());
    }
}
