//! A table that many workers insert into and update at once, without locks.
//!
//! ```text
//! SharedTable ┌ map: levels, each ┌ hash part    [ entry | empty | entry | … ]   see `millstream_sync::shared_map`
//!             │                   └ dense region [ empty | entry | entry | … ]
//!             │ for each worker: its TableHeader of the level it works in, its arena
//!             └ layout, template of a fresh entry
//! ```
//!
//! Entries are those of a [`crate::Table`], and a level looks to generated code as such a table does, so a worker searches
//! it by its own header and calls [`SharedTable::insert`] for what it does not find. Updates of accumulators are atomic
//! (`millstream_codegen::program::Access::Shared`), so only layouts that allow sharing can be used.
//!
//! # Protocol
//!
//! How entries of the hash part are claimed and published, and how levels follow each other, is the protocol of
//! `shared_map`: the hash word of an entry is the word of its place. In the dense region there is one place for a key: who
//! changes its word from empty to busy writes the entry, and publishes it by storing the hash (release). Who finds it busy
//! does not wait but takes a place for the key in the hash part. The keys of an entry, and the first values of its
//! accumulators, are written before it is published, and not changed but by atomic updates after that.
//!
//! A key may so have several entries. That does no harm: what is sealed is merged by key before anybody sees it
//! ([`crate::Partial::is_distinct`]).
//!
//! A worker's header, arena and number of insertions are written by the worker alone.

use crate::arena::Arena;
use crate::budget::{Charge, MemoryBudget, MemoryClass};
use crate::dense;
use crate::entry;
use crate::far::Far;
use crate::object::{Change, Ordinal};
use crate::partial::Partial;
use crate::parts::Parts;
use crate::seal::{Keeping, move_sorted};
use crate::table::{self, FIRST_CAPACITY, SPARSE, TableHint};
use millstream_abi::{EntryLayout, HASH_BUSY, HASH_EMPTY, Slot, TableHeader};
use millstream_sync::shared_map::{self, Found, Places, SharedMap};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// See the module.
#[derive(Debug)]
pub struct SharedTable {
    layout: Arc<EntryLayout>,
    /// Whether there may be dense regions.
    allows_dense: bool,
    /// A fresh entry: zero hash and keys, initial accumulators.
    template: Box<[u8]>,
    map: SharedMap<Parts>,
    workers: Box<[Worker]>,
    /// Of its memory, if that is counted.
    charge: Mutex<Option<Charge>>,
}

/// What one worker writes. Alone in its cache lines.
#[repr(align(128))]
#[derive(Debug)]
struct Worker {
    header: UnsafeCell<TableHeader>,
    arena: UnsafeCell<Arena>,
    /// What is far of its sums of doubles.
    far: UnsafeCell<Far>,
    /// Entries that it has made.
    inserted: AtomicUsize,
    /// Bytes of the arena, and of what is far.
    arena_bytes: AtomicUsize,
}

// SAFETY: what is in a cell is used by one worker at a time, as the contracts of the methods demand; headers point into
// the memory of levels, and strings into arenas, all owned by the table.
unsafe impl Send for SharedTable {}
// SAFETY: as above; entries are written by who has claimed them, until they are published, and by atomic instructions
// after that.
unsafe impl Sync for SharedTable {}

impl Places for Parts {
    fn count(&self) -> usize {
        self.hashed_places()
    }

    fn word(&self, place: usize) -> &AtomicU64 {
        // SAFETY: an entry of the level.
        unsafe { word_of(self.entry(place)) }
    }
}

/// The hash word of an entry.
///
/// # Safety
/// It is an entry of a level, perhaps an empty one, that lives as long as the result.
unsafe fn word_of<'a>(entry: *mut u8) -> &'a AtomicU64 {
    // SAFETY: every entry starts with its hash, aligned, which is only used atomically while the table is shared.
    unsafe { AtomicU64::from_ptr(entry.cast()) }
}

impl SharedTable {
    /// An empty table for workers with numbers below `workers`, and for keys as in `hint`. When `dense` is false, there is
    /// never a dense region.
    ///
    /// # Panics
    /// When the layout does not allow sharing.
    pub fn new(layout: Arc<EntryLayout>, workers: usize, dense: bool, hint: TableHint) -> SharedTable {
        assert!(layout.allows_sharing(), "the planner shares only what can be updated atomically");
        let allows_dense = dense && layout.dense_key().is_some();
        let region = hint.range.filter(|_| allows_dense);
        let first = Parts::new(layout.stride, SharedTable::capacity(workers, 2 * hint.keys), region);
        let worker = |_| Worker {
            header: UnsafeCell::new(first.header),
            arena: UnsafeCell::default(),
            far: UnsafeCell::default(),
            inserted: AtomicUsize::new(0),
            arena_bytes: AtomicUsize::new(0),
        };
        SharedTable {
            allows_dense,
            template: entry::template(&layout),
            layout,
            workers: (0..workers).map(worker).collect(),
            map: SharedMap::new(first, workers),
            charge: Mutex::new(None),
        }
    }

    /// The table, whose memory counts: what it is now, and again whenever [`SharedTable::settle`] is called.
    pub fn charged(mut self, budget: &Arc<MemoryBudget>) -> SharedTable {
        self.charge = Mutex::new(Some(Charge::new(budget, MemoryClass::Tables, self.bytes())));
        self
    }

    /// Tells the budget how much memory the table has; not if another thread is just doing it.
    pub fn settle(&self) {
        if let Ok(mut charge) = self.charge.try_lock() {
            let bytes = self.bytes();
            charge.iter_mut().for_each(|charge| charge.set(bytes));
        }
    }

    /// Places of a level that has at least `least`.
    fn capacity(workers: usize, least: usize) -> usize {
        table::capacity(least).max(shared_map::fewest_places(4 * workers))
    }

    /// The layout of entries.
    pub fn layout(&self) -> &Arc<EntryLayout> {
        &self.layout
    }

    /// Number of entries: at least that of the keys.
    pub fn len(&self) -> usize {
        self.workers.iter().map(|worker| worker.inserted.load(Ordering::Relaxed)).sum()
    }

    /// Whether it has no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory that it owns.
    pub fn bytes(&self) -> usize {
        let strings: usize = self.workers.iter().map(|worker| worker.arena_bytes.load(Ordering::Relaxed)).sum();
        self.map.levels().map(Parts::bytes).sum::<usize>() + strings
    }

    /// What a table for similar keys should begin with.
    pub fn hint(&self) -> TableHint {
        let newest = self.map.levels().next();
        newest.map_or(TableHint::default(), |level| TableHint {
            keys: level.count() / 2,
            range: level.region(),
            is_known: true,
        })
    }

    /// What generated code of a worker gets, for `ExecContext::table`: the newest level. Stays at its address as long as
    /// the table does. Call it at the beginning of each task, which makes older levels fall into disuse.
    ///
    /// # Safety
    /// `worker` is the number of the worker that calls, and no other thread uses that number at the same time.
    pub unsafe fn header_of(&self, worker: usize) -> *mut TableHeader {
        // SAFETY: promised by the caller.
        let level = unsafe { self.map.enter(worker) };
        self.set_header(worker, level)
    }

    fn set_header(&self, worker: usize, level: &Parts) -> *mut TableHeader {
        let header = self.workers[worker].header.get();
        // SAFETY: only the worker, which is the caller, uses its header.
        unsafe { header.write(level.header) };
        header
    }

    /// The entry of a key that the worker has not found: inserted with fresh accumulators, or, when another worker has been
    /// faster, found now. May give the worker's header another level.
    ///
    /// `keys` holds one slot for each key of the layout; bit *i* of `null_mask` says that key *i* is NULL. Long strings are
    /// copied into the table.
    ///
    /// # Safety
    /// As for [`SharedTable::header_of`]. Slots hold values of the layout's types whose strings are alive; `hash` is that
    /// of the keys.
    pub unsafe fn insert(&self, worker: usize, hash: u64, null_mask: u64, keys: &[Slot]) -> *mut u8 {
        assert!(hash > HASH_BUSY && keys.len() == self.layout.keys.len(), "a key of the table's layout");
        // SAFETY: promised by the caller.
        let level = unsafe { self.map.enter(worker) };
        let key = self.layout.dense_key().filter(|_| null_mask == 0).map(|key| dense::key_of_slot(key, &keys[0]));
        if let Some(place) = key.and_then(|key| level.header.dense_entry(key, self.layout.stride)) {
            // SAFETY: an entry of the level.
            let word = unsafe { word_of(place) };
            let is_there = || word.load(Ordering::Acquire) > HASH_BUSY;
            if !is_there() && shared_map::claim(word) {
                // SAFETY: the entry is claimed; the rest is promised by the caller.
                unsafe { self.publish(worker, place, hash, null_mask, keys) };
            }
            if is_there() {
                self.set_header(worker, level);
                return place;
            }
        }
        // SAFETY: a place with a hash is published, so its key is there and does not change.
        let has_key =
            |level: &Parts, place| unsafe { entry::has_keys(&self.layout, level.entry(place), null_mask, keys) };
        // SAFETY: promised by the caller.
        let (level, found) = unsafe { self.map.find_or_claim(worker, hash, has_key, |full| self.larger(full)) };
        self.set_header(worker, level);
        match found {
            Found::Present(place) => level.entry(place),
            Found::Claimed(place) => {
                let claimed = level.entry(place);
                // SAFETY: the entry is claimed; the rest is promised by the caller.
                unsafe { self.publish(worker, claimed, hash, null_mask, keys) };
                claimed
            }
        }
    }

    /// Adds a value that is far to a sum, component `component` of an entry, which is at `accumulator`.
    ///
    /// # Safety
    /// As for [`SharedTable::header_of`]; the accumulator is that of a sum of doubles in an entry of the table, and the slot
    /// holds a double.
    pub unsafe fn add_far(&self, worker: usize, accumulator: *mut u8, component: usize, value: Slot) {
        let entry = accumulator.wrapping_sub(self.layout.accumulators[component].1);
        let worker = &self.workers[worker];
        // SAFETY: promised by the caller: nobody else uses what is the worker's, and keys of an entry that is found do not
        // change.
        unsafe {
            let far = &mut *worker.far.get();
            far.add(&self.layout, entry, component, value, Change::Added(Ordinal::NOWHERE));
            worker.arena_bytes.store((*worker.arena.get()).bytes() + far.bytes(), Ordering::Relaxed);
        }
    }

    /// Writes a claimed entry and lets the others see it.
    ///
    /// # Safety
    /// As for [`SharedTable::insert`]; the worker has claimed the entry.
    unsafe fn publish(&self, worker: usize, claimed: *mut u8, hash: u64, null_mask: u64, keys: &[Slot]) {
        let worker = &self.workers[worker];
        let after_hash = size_of::<u64>();
        // SAFETY: nobody else uses a claimed entry but for its hash, nor the worker's arena.
        unsafe {
            let template = self.template.as_ptr().add(after_hash);
            claimed.add(after_hash).copy_from_nonoverlapping(template, self.layout.stride - after_hash);
            let arena = &mut *worker.arena.get();
            entry::write_keys(&self.layout, claimed, null_mask, keys, arena);
            worker.arena_bytes.store(arena.bytes() + (*worker.far.get()).bytes(), Ordering::Relaxed);
            shared_map::publish(word_of(claimed), hash);
        }
        // Only the worker writes it.
        worker.inserted.store(worker.inserted.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// The level that follows a full one: of twice its capacity, or with the region that all keys would have. Then its hash
    /// part is for half as many keys as there are, since few are expected outside.
    fn larger(&self, full: &Parts) -> Parts {
        let mut hashed = full.count();
        let mut region = None;
        if self.allows_dense {
            // SAFETY: entries of the level.
            let published = |entry: &*mut u8| unsafe { word_of(*entry) }.load(Ordering::Acquire) > HASH_BUSY;
            // SAFETY: the keys of a published entry do not change.
            let key = |entry: *mut u8| unsafe { dense::key_of_entry(&self.layout, entry) };
            let mut keys: Vec<i64> =
                self.map.levels().flat_map(Parts::entries).filter(published).filter_map(key).collect();
            region = dense::region_of_most(&mut keys, dense::REACH);
            if region.is_some() {
                hashed = self.len() / 2;
            }
        }
        Parts::new(self.layout.stride, SharedTable::capacity(self.workers.len(), 2 * hashed), region)
    }

    /// The immutable form: the entries of all levels in order, without the empty ones. The table is empty then
    /// and has the memory of its newest level still, for the next slice, unless most of it was not used.
    pub fn drain(&mut self) -> Partial {
        let (mut arena, mut far, inserted) = (Arena::default(), Vec::new(), self.len());
        for worker in &mut self.workers {
            arena.absorb(std::mem::take(worker.arena.get_mut()));
            far.extend(worker.far.get_mut().drain());
            *worker.inserted.get_mut() = 0;
            *worker.arena_bytes.get_mut() = 0;
        }
        let (layout, workers) = (&self.layout, self.workers.len());
        let mut partial = None;
        self.map.restart(|mut levels| {
            let is_occupied = |entry: &*mut u8| {
                // SAFETY: an entry of a level that nobody else uses.
                match unsafe { entry::hash(*entry) } {
                    HASH_EMPTY => false,
                    HASH_BUSY => {
                        // Its worker has panicked.
                        // SAFETY: as above.
                        unsafe { entry::write(*entry, 0, HASH_EMPTY) };
                        false
                    }
                    _ => true,
                }
            };
            let entries = levels.iter().flat_map(Parts::entries).filter(is_occupied).map(<*mut u8>::cast_const);
            // SAFETY: occupied entries of the layout that nobody else uses, whose strings are in the arenas.
            let moved = unsafe { move_sorted(layout, (entries, inserted), Keeping::default()) };
            // SAFETY: nobody else has them now.
            let sealed = unsafe { Partial::of_moved(layout, moved, arena, 0) }.repeating();
            let len = sealed.len();
            partial = Some(sealed);
            let newest = levels.swap_remove(0);
            match newest.places() {
                places if places > FIRST_CAPACITY && len * SPARSE < places => {
                    Parts::new(layout.stride, SharedTable::capacity(workers, 4 * len), None)
                }
                _ => newest,
            }
        });
        let partial = partial.expect("a map restarts at once").with_far(far);
        self.settle();
        partial.charged(self.charge.get_mut().ok().and_then(|charge| charge.as_ref()))
    }
}

#[cfg(test)]
mod tests;
