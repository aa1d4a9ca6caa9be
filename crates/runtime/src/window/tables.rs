//! The tables of an aggregation and open slice: one for each worker or lane, or one for each NUMA node (local, partitioned
//! and global merge, design section 7).
//!
//! Open slices are in a ring ([`SliceRing`]), in which a worker finds its table of a slice without a lock; slices that find no
//! place there are kept under one. The trigger takes the tables of complete slices out of both, one thread at a time (under
//! the lock of the aggregation's progress). Tables that were sealed are used again for slices to come, with the capacity that
//! they have grown to, so that in the steady state slices need no new memory and nothing grows.
//!
//! A private table belongs to one *owner*, a worker or a lane: only the task of that owner that is running finds, makes
//! and writes it. The owner's pointer in the ring is set by the owner (release) and taken by the trigger (acquire). When memory gets
//! short, a task that finds its table full freezes it and begins another, so that there is something to be spilled, and
//! no table that doubles takes the budget by surprise.
//!
//! A shared table is made by the first worker of its node that needs it (compare-and-swap from null, release; whoever finds
//! it there has loaded it with acquire) and taken in the same way. How workers write to it is its own protocol.
//!
//! A private table aggregates or appends (`strategy::appending`), as is in force when it is made. It may cease to
//! append at the end of a task: then generated code does not run, and no key is between its search and its insertion.
//!
//! A slice may have tables of all kinds, because the strategy may change while it is open: all become partials of it.
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
//! the table's first window on. So a row that comes when some windows of its slice have been fired meets none of those.
//!
//! So a table that was taken has no writer, and nobody looks for it again: [`TaskTables`](super::task_tables::TaskTables) checks the latter on every
//! lookup of a slice. What its writers did is seen by the trigger, because each has finished its task in the epoch ring
//! before *W* was released (acquire-release there).

pub(super) mod frozen;
mod sizes;

use super::table_ids::TableIds;
use crate::adaptive::slice_facts::SliceFacts;
use crate::durable::blobs::damaged;
use crate::ids::Generation;
use frozen::{Frozen, Stored};
use millstream_abi::EntryLayout;
use millstream_state::{MemoryBudget, MemoryClass, OutputTypes, Partial, SharedTable, Table};
use millstream_sync::pool::Pool;
use millstream_sync::slices::SliceRing;
use millstream_types::Diagnostic;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, OnceLock};

/// Slices that are found without a lock. Thousands of windows may be open, but most queries have a few.
const RING_SLICES: usize = 1024;

/// Open tables append while they take less than 1/`APPENDED_SHARE` of the budget.
const APPENDED_SHARE: u64 = 4;

/// State with more than 1/`NEAR_SHARE` of the budget may have to be spilled soon.
const NEAR_SHARE: u64 = 5;

/// Tables with more than 1/`REUSED_SHARE` of the budget are not used again: the memory of one that has next to nothing
/// in it is wanted for others.
const REUSED_SHARE: u64 = 64;

/// Most tables of an aggregation that are kept for slices to come.
const FREE_TABLES: usize = 64;

/// A table that the trigger has taken, or is about to seal.
#[derive(Debug)]
pub(crate) enum Taken {
    /// Of one owner.
    Own(Box<Table>),
    /// Of a NUMA node.
    Shared(Box<SharedTable>),
    /// Of an earlier generation.
    Frozen(Arc<Frozen>),
}

/// What a table is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Of one owner, an entry for each key.
    Own,
    /// Of one owner, an entry for each row.
    Appended,
    /// Of a NUMA node.
    Shared,
    /// Of one owner, most of it an array.
    Array,
}

impl Taken {
    /// What it is.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Taken::Own(table) if table.is_appending() => Kind::Appended,
            Taken::Own(table) if table.is_array() => Kind::Array,
            Taken::Own(_) => Kind::Own,
            Taken::Shared(_) => Kind::Shared,
            Taken::Frozen(table) => table.kind,
        }
    }

    /// Number of entries; of an array the most that there can be.
    pub(crate) fn len(&self) -> usize {
        match self {
            Taken::Own(table) => table.len(),
            Taken::Shared(table) => table.len(),
            Taken::Frozen(table) => table.entries,
        }
    }

    /// What it is in files, if it is.
    pub(crate) fn stored(&self) -> Option<Arc<Stored>> {
        match self {
            Taken::Frozen(table) => table.stored(),
            Taken::Own(_) | Taken::Shared(_) => None,
        }
    }

    /// Whether there is no entry.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Taken::Own(table) => table.is_empty(),
            Taken::Shared(table) => table.len() == 0,
            Taken::Frozen(table) => table.entries == 0,
        }
    }
}

/// Who may have tables of a slice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owners {
    /// Owners of private tables: workers, then lanes.
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

    /// Replaces the owner's table, which must exist.
    fn replace(&self, owner: usize, table: Box<Table>) -> Box<Table> {
        // The trigger takes it after the task of the owner that is running.
        let before = self.own[owner].swap(Box::into_raw(table), Ordering::AcqRel);
        // SAFETY: tables in these places were made by `into_raw`, and who takes one out owns it.
        unsafe { Box::from_raw(before) }
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

/// The same, of earlier generations.
pub(crate) type FrozenByNumber = BTreeMap<i64, Vec<Arc<Frozen>>>;

/// See the module.
#[derive(Debug)]
pub(crate) struct OpenTables {
    pub(crate) layout: Arc<EntryLayout>,
    /// Of the output.
    pub(crate) types: OutputTypes,
    pub(crate) budget: Arc<MemoryBudget>,
    pub(super) owners: Owners,
    /// Whether tables may keep the entries of a dense range of keys in an array.
    dense: bool,
    /// Whether tables may be spilled.
    spills: bool,
    /// Of even and of odd generations: two are written to at most (see `cuts`). Those of odd ones are made when there is one.
    generations: [OnceLock<Slices>; 2],
    /// Tables of earlier generations, whose windows are not complete. Nobody writes to them.
    pub(super) frozen: Mutex<FrozenByNumber>,
    /// What new tables begin with, among others.
    facts: Arc<SliceFacts>,
    /// Tables that were sealed, for slices to come.
    free: Pool<Table>,
    free_shared: Pool<SharedTable>,
}

impl OpenTables {
    /// Without slices. `dense`: as in `RunConfig::dense_tables`; `spills`: whether tables may be spilled.
    pub(crate) fn new(
        (layout, types): (Arc<EntryLayout>, OutputTypes),
        owners: Owners,
        (dense, spills): (bool, bool),
        budget: &Arc<MemoryBudget>,
        facts: Arc<SliceFacts>,
    ) -> OpenTables {
        let frozen = Mutex::new(BTreeMap::new());
        let (budget, generations) = (Arc::clone(budget), Default::default());
        let (free, free_shared) = (Pool::new(FREE_TABLES), Pool::new(FREE_TABLES));
        OpenTables { layout, types, budget, owners, dense, spills, generations, frozen, facts, free, free_shared }
    }

    /// Gives the memory up that is kept for slices to come.
    pub(crate) fn forget_free(&self) {
        while self.free.take().is_some() {}
        while self.free_shared.take().is_some() {}
    }

    fn of(&self, generation: Generation) -> &OnceLock<Slices> {
        &self.generations[generation.0 as usize % 2]
    }

    /// Takes the tables that a watermark completes. One thread at a time takes or freezes.
    pub(crate) fn take(&self, ids: TableIds, watermark: i64) -> TablesByNumber {
        let is_complete = |number: i64| ids.completed_at(number) <= watermark;
        let frozen: FrozenByNumber = self.frozen.lock().extract_if(.., |&n, _| is_complete(n)).collect();
        let all = |tables: Vec<Arc<Frozen>>| tables.into_iter().map(Taken::Frozen).collect();
        let mut taken: TablesByNumber = frozen.into_iter().map(|(number, tables)| (number, all(tables))).collect();
        for slices in self.generations.iter().filter_map(OnceLock::get) {
            slices.take(is_complete, &mut taken);
        }
        self.note_shared(&taken);
        taken
    }

    /// The immutable form of a table that was taken. Its memory is used again, unless memory is short.
    pub(crate) fn seal(&self, table: Taken) -> Result<Arc<Partial>, Diagnostic> {
        let is_short = self.budget.state() > self.budget.limit() / 2;
        let partial = match table {
            Taken::Frozen(table) => return table.partial(self),
            Taken::Own(mut table) => {
                let is_large = is_short || table.bytes() as u64 > self.budget.limit() / REUSED_SHARE;
                // What there is of an array shows when it is sealed, what there is of entries before.
                let of_entries = (!self.layout.allows_arrays()).then(|| table.hint());
                let partial = if is_large { table.drain() } else { table.drain_keeping() };
                if !table.is_appending() && !partial.is_empty() {
                    self.note_own(of_entries.unwrap_or_else(|| partial.hint()));
                }
                if !is_large {
                    // With enough of them there already, this one is dropped.
                    let _ = self.free.put(table);
                }
                partial
            }
            Taken::Shared(mut table) => {
                let partial = table.drain();
                if !is_short {
                    let _ = self.free_shared.put(table);
                }
                partial
            }
        };
        Ok(Arc::new(partial))
    }

    /// A partial from its blocks.
    pub(super) fn restored<B: AsRef<[u8]>>(&self, blocks: impl IntoIterator<Item = B>) -> Result<Partial, Diagnostic> {
        let blocks: Vec<B> = blocks.into_iter().collect();
        Partial::restore(&self.layout, &self.types, &self.budget, &blocks).map_err(damaged)
    }

    /// Notes that nobody writes tables of the generation before this one any more.
    pub(crate) fn freeze_before(&self, generation: Generation) {
        let (before, mut taken) = (Generation(generation.0 - 1), TablesByNumber::new());
        if let Some(slices) = self.of(before).get() {
            slices.take(|_| true, &mut taken);
        }
        let mut frozen = self.frozen.lock();
        for (number, tables) in taken {
            let tables = tables.into_iter().filter(|table| !table.is_empty());
            frozen.entry(number).or_default().extend(tables.map(|table| Arc::new(Frozen::new(table, before))));
        }
    }

    /// Puts one table in the place of others of a number, which holds the same, unless the trigger has taken them meanwhile.
    pub(crate) fn replace(&self, number: i64, others: &[Arc<Frozen>], one: &Arc<Frozen>) {
        let mut frozen = self.frozen.lock();
        let Some(tables) = frozen.get_mut(&number) else { return };
        let is_other = |table: &Arc<Frozen>| others.iter().any(|other| Arc::ptr_eq(table, other));
        if tables.iter().filter(|table| is_other(table)).count() == others.len() {
            tables.retain(|table| !is_other(table));
            tables.push(Arc::clone(one));
        }
    }

    /// The tables that nobody writes to any more and whose windows are not complete.
    pub(crate) fn frozen(&self) -> FrozenByNumber {
        self.frozen.lock().clone()
    }

    /// Those of generations before this one.
    pub(crate) fn frozen_before(&self, generation: Generation) -> FrozenByNumber {
        let mut tables = self.frozen();
        tables.values_mut().for_each(|tables| tables.retain(|table| table.generation < generation));
        tables.retain(|_, tables| !tables.is_empty());
        tables
    }

    /// Whether so much memory is taken that state will be spilled, if that may be.
    pub(crate) fn is_spilling_near(&self) -> bool {
        self.spills && self.budget.state() > self.budget.limit() / NEAR_SHARE
    }

    /// Whether a table has enough in it to be spilled by itself: all owners' together have an eighth of the budget.
    fn is_full(&self, table: &Table) -> bool {
        let share = self.budget.limit() / (8 * self.owners.own.max(1) as u64);
        self.is_spilling_near() && table.is_fuller_than(usize::try_from(share).unwrap_or(usize::MAX))
    }

    /// Bytes of the budget that are left for state.
    pub(crate) fn memory_left(&self) -> u64 {
        self.budget.limit().saturating_sub(self.budget.state())
    }

    /// Whether open tables have so much memory that none may append: appended rows take as much as there are rows, whatever
    /// the keys.
    pub(super) fn are_large(&self) -> bool {
        self.budget.used_by(MemoryClass::Tables) > self.budget.limit() / APPENDED_SHARE
    }

    /// The table of an owner for a slice, which appends if it is made now and `appends` says so. Only the running task of the
    /// owner may call it and use the table.
    pub(super) fn find(
        &self,
        owner: usize,
        generation: Generation,
        number: i64,
        appends: impl FnOnce() -> bool,
    ) -> *mut Table {
        let fresh = || self.own_table();
        let make = || {
            let mut table = self.free.take().unwrap_or_else(|| self.bare_table());
            table.set_appending(appends() && !self.are_large());
            if !table.is_appending() {
                table.expect(self.hint());
            }
            table
        };
        let slices = self.of(generation).get_or_init(|| Slices::new(self.owners));
        let table = slices.of(self.owners, number, |slice| {
            let table = slice.find(owner, make);
            // SAFETY: only this owner's running task uses the table, and it has not begun to.
            match self.is_full(unsafe { &*table }) {
                true => {
                    let full = Frozen::new(Taken::Own(slice.replace(owner, fresh())), generation);
                    self.frozen.lock().entry(number).or_default().push(Arc::new(full));
                    slice.find(owner, fresh)
                }
                false => table,
            }
        });
        // SAFETY: only this owner's running task uses the table, and it holds no pointer into the entries or strings of one
        // while it looks for another.
        unsafe { (*table).compact() };
        table
    }

    /// The table that the workers of a node share for a slice. Only running tasks of these workers may call it and use the
    /// table.
    pub(super) fn find_shared(&self, node: usize, generation: Generation, number: i64) -> *const SharedTable {
        let make = || self.free_shared.take().unwrap_or_else(|| self.shared_table());
        let slices = self.of(generation).get_or_init(|| Slices::new(self.owners));
        slices.of(self.owners, number, |slice| slice.find_shared(node, make))
    }
}

#[cfg(test)]
mod tests;
