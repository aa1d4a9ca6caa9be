//! The mutable table of one worker: open addressing over entries with inline keys and accumulators, and an array for
//! integer keys that lie close together.
//!
//! ```text
//! Table ┌ TableHeader: entries ──► [ entry | empty | entry | … ]   hash part: mask + 1 entries, at most half of them occupied
//!       │              dense ────► [ empty | entry | entry | … ]   dense region: the entry of key k is number k - dense_first
//!       │ arena: bytes of long strings of keys and of MIN/MAX
//!       └ layout, template of a fresh entry
//! ```
//!
//! Generated code searches entries itself through the header and calls [`Table::insert`] for a new key. A key that the
//! region covers is in the region; any other, and NULL, is in the hash part, searched linearly from `hash & mask`. An
//! entry with hash 0 is empty. Whether there is a region, and for which keys, is decided when the hash part is full
//! (`dense.rs`).
//!
//! An *appending* table ([`Table::set_appending`]) has a hash part of one entry, which is always empty, and no region. So
//! every search misses at once, and every row is given a new entry, at the end of a log (`table/append.rs`). Those of
//! equal keys are merged with the partials. Code that searches and inserts need not know.

mod append;

use crate::accumulator;
use crate::arena::Arena;
use crate::budget::{Charge, MemoryBudget, MemoryClass};
use crate::dense;
use crate::entry;
use crate::object::{self, Ordinal};
use crate::partial::Partial;
use crate::parts::Parts;
use append::EntryLog;
use millstream_abi::{Accumulator, EntryLayout, HASH_BUSY, HASH_EMPTY, KeyRange, Slot, Str, TableHeader};
use std::sync::Arc;

/// Entries of a new table: small, because thousands of open windows have a table for each worker.
pub(crate) const FIRST_CAPACITY: usize = 16;
/// A table gives memory back when less than one entry in this many is occupied.
pub(crate) const SPARSE: usize = 16;
/// A good part of the memory is one byte in this many: a hash part that has just grown uses one in four.
const GOOD_PART: usize = 8;
/// Hash of the group that no row has made: it meets no other one, so any hash serves.
pub(crate) const HASH_OF_NOTHING: u64 = HASH_BUSY + 1;

/// What a new table begins with, so that it need not grow: most slices have the keys of the one before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TableHint {
    /// Keys outside of `range`.
    pub keys: usize,
    /// Those of the dense region.
    pub range: Option<KeyRange>,
}

impl TableHint {
    /// Bytes of a table that begins with it.
    pub fn bytes(&self, layout: &EntryLayout) -> usize {
        let dense = self.range.map_or(0, |range| usize::try_from(range.len).unwrap_or(usize::MAX));
        capacity(2 * self.keys).saturating_add(dense).saturating_mul(layout.stride)
    }
}

/// A hash table from keys to accumulators. One thread at a time uses it.
#[repr(C)]
#[derive(Debug)]
pub struct Table {
    /// First, so that a pointer to the header is one to the table.
    parts: Parts,
    /// Whether there may be a dense region.
    allows_dense: bool,
    /// All entries of an appending table.
    log: Option<Box<EntryLog>>,
    /// Occupied entries.
    len: usize,
    /// Those in the hash part.
    hashed: usize,
    layout: Arc<EntryLayout>,
    arena: Arena,
    /// A fresh entry: zero hash and keys, initial accumulators.
    template: Box<[u8]>,
    /// Whether entries own objects.
    has_objects: bool,
    /// Bytes of the objects that the table has made.
    object_bytes: usize,
    /// Of its memory, if that is counted.
    charge: Option<Charge>,
}

// SAFETY: the header's pointers are into memory, and strings point into `arena`, all owned by the table; objects are
// counted by atomic numbers.
unsafe impl Send for Table {}
// SAFETY: methods on shared tables only read.
unsafe impl Sync for Table {}

impl Drop for Table {
    fn drop(&mut self) {
        // SAFETY: entries of the layout, which are not used any more.
        unsafe { object::release_all(&self.layout, self.occupied().map(<*const u8>::cast_mut)) };
    }
}

impl Table {
    /// An empty table without a dense region.
    pub fn new(layout: Arc<EntryLayout>) -> Table {
        Table::with_hint(layout, false, TableHint::default())
    }

    /// An empty table for keys as in `hint`. When `dense` is false, there is never a dense region.
    pub fn with_hint(layout: Arc<EntryLayout>, dense: bool, hint: TableHint) -> Table {
        let allows_dense = dense && layout.dense_key().is_some();
        let region = hint.range.filter(|_| allows_dense);
        Table {
            parts: Parts::new(layout.stride, capacity(2 * hint.keys), region),
            allows_dense,
            log: None,
            len: 0,
            hashed: 0,
            template: entry::template(&layout),
            has_objects: object::has_objects(&layout),
            layout,
            arena: Arena::default(),
            object_bytes: 0,
            charge: None,
        }
    }

    /// What a table for similar keys should begin with. Of an appending table nothing is known.
    pub fn hint(&self) -> TableHint {
        if self.is_appending() {
            return TableHint::default();
        }
        match self.parts.region() {
            Some(range) if (self.len - self.hashed) * SPARSE >= range.len as usize => {
                TableHint { keys: self.hashed, range: Some(range) }
            }
            _ => TableHint { keys: self.len, range: None },
        }
    }

    /// The table, whose memory counts: what it is now, and again whenever [`Table::settle`] is called.
    pub fn charged(mut self, budget: &Arc<MemoryBudget>) -> Table {
        self.charge = Some(Charge::new(budget, MemoryClass::Tables, self.bytes()));
        self
    }

    /// Tells the budget how much memory the table has.
    pub fn settle(&mut self) {
        let bytes = self.bytes();
        self.charge.iter_mut().for_each(|charge| charge.set(bytes));
    }

    /// The table of a global aggregation over no rows: its one group, with fresh accumulators.
    ///
    /// # Panics
    /// When the layout has keys: without rows there are no groups then.
    pub fn of_nothing(layout: Arc<EntryLayout>) -> Table {
        assert!(layout.keys.is_empty(), "a group without rows has no key");
        let mut table = Table::new(layout);
        // SAFETY: the table is empty, and there are no keys to keep alive.
        unsafe { table.insert(HASH_OF_NOTHING, 0, &[]) };
        table
    }

    /// What generated code gets: stays at its address as long as the table does.
    ///
    /// Goes through raw pointers only, so that the header and `table` may be used in turns.
    ///
    /// # Safety
    /// `table` points to a table.
    pub unsafe fn header_of(table: *mut Table) -> *mut TableHeader {
        // SAFETY: a place within the table; nothing is read.
        unsafe { &raw mut (*table).parts.header }
    }

    /// The header for someone who only searches, while the table is not changed.
    pub(crate) fn header_for_reading(&self) -> TableHeader {
        self.parts.header
    }

    /// The layout of entries.
    pub fn layout(&self) -> &Arc<EntryLayout> {
        &self.layout
    }

    /// Number of entries: of keys, or of insertions into an appending table.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no key.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of memory that it owns.
    pub fn bytes(&self) -> usize {
        let log = self.log.as_ref().map_or(0, |log| log.bytes());
        self.parts.bytes() + log + self.arena.bytes() + self.object_bytes
    }

    /// Whether it owns more bytes than these, of which it uses a good part.
    pub fn is_fuller_than(&self, bytes: usize) -> bool {
        let used = self.len * self.layout.stride + self.arena.used() + self.object_bytes;
        self.bytes() > bytes && used * GOOD_PART > bytes
    }

    /// Inserts a key that the table does not have, or an entry of any key into an appending table, and returns its entry
    /// with fresh accumulators.
    ///
    /// `keys` holds one slot for each key of the layout; bit *i* of `null_mask` says that key *i* is NULL. Long strings
    /// are copied into the table. Entries may move.
    ///
    /// # Safety
    /// Slots hold values of the layout's types whose strings are alive; `hash` is that of the keys; the key is not in the
    /// table unless that appends.
    pub unsafe fn insert(&mut self, hash: u64, null_mask: u64, keys: &[Slot]) -> *mut u8 {
        assert!(hash > HASH_BUSY && keys.len() == self.layout.keys.len(), "a key of the table's layout");
        let key = self.layout.dense_key().filter(|_| null_mask == 0).map(|key| dense::key_of_slot(key, &keys[0]));
        let fresh = self.claim(hash, key);
        // SAFETY: `fresh` is an empty entry of the layout; the rest is promised by the caller.
        unsafe {
            fresh.copy_from_nonoverlapping(self.template.as_ptr(), self.layout.stride);
            entry::write(fresh, 0, hash);
            entry::write_keys(&self.layout, fresh, null_mask, keys, &mut self.arena);
        }
        fresh
    }

    /// Copies the bytes of a string that a MIN or MAX accumulator is about to hold into the table.
    ///
    /// # Safety
    /// The bytes are alive; the string is not `NONE`.
    pub unsafe fn keep_string(&mut self, string: Str) -> Str {
        // SAFETY: promised by the caller.
        self.arena.keep(unsafe { string.as_bytes() })
    }

    /// Updates the object at `accumulator`, component `component` of an entry, with the value of the row at `ordinal`;
    /// `None` is NULL. Strings are copied.
    ///
    /// # Safety
    /// `accumulator` points to the component in an entry of this table; the slot holds a value of the component's
    /// argument type, and its string is alive.
    ///
    /// # Panics
    /// When the component is not an object.
    pub unsafe fn update_object(
        &mut self,
        accumulator: *mut u8,
        component: usize,
        value: Option<Slot>,
        ordinal: Ordinal,
    ) {
        let Accumulator::Object(kind, phys) = self.layout.accumulators[component].0 else {
            unreachable!("component {component} is no object")
        };
        // SAFETY: promised by the caller.
        let grown = unsafe { object::update(accumulator, kind, phys, value.as_ref(), ordinal) };
        self.object_bytes = self.object_bytes.saturating_add_signed(grown);
    }

    /// Frees strings that MIN and MAX have replaced, when they are more than half of the arena. Call it when no one
    /// holds a pointer into the table; linear in the number of entries, so amortised by the bytes kept since.
    pub fn compact(&mut self) {
        if self.is_appending() {
            // Nothing is replaced in an entry of one row.
            return;
        }
        if entry::string_extremes(&self.layout).next().is_some() {
            self.compact_strings();
        }
    }

    /// [`Table::compact`], also for tables from which keys are removed.
    pub(crate) fn compact_strings(&mut self) {
        if self.arena.has_garbage() {
            let entries: Vec<*mut u8> = self.occupied().map(<*const u8>::cast_mut).collect();
            // SAFETY: all occupied entries of the layout, whose strings live in the arena.
            unsafe { entry::compact_strings(&entries, &entry::strings(&self.layout), &mut self.arena) };
        }
    }

    /// Occupied entries in order of place, or of insertion.
    pub(crate) fn occupied(&self) -> impl Iterator<Item = *const u8> + use<'_> {
        occupied(self.parts.entries()).chain(self.log.iter().flat_map(|log| log.entries()))
    }

    /// The immutable form: the entries in order, without the empty ones.
    pub fn seal(mut self) -> Partial {
        self.drain()
    }

    /// [`Table::seal`], after which the table is empty and has its memory still, for the next slice, unless most of it was
    /// not used. Call it when no one holds a pointer into the table.
    pub fn drain(&mut self) -> Partial {
        let arena = std::mem::take(&mut self.arena);
        // SAFETY: the entries are of the layout, and their strings live in the arena that goes with them. They are empty
        // afterwards, so the table has no objects any more.
        let partial = unsafe { Partial::of_moved(Arc::clone(&self.layout), self.occupied(), arena, self.object_bytes) };
        debug_assert_eq!(partial.len(), self.len, "the table counts occupied entries");
        (self.len, self.hashed, self.object_bytes) = (0, 0, 0);
        let partial = match &mut self.log {
            Some(log) => {
                log.clear(SPARSE);
                partial.repeating()
            }
            None => {
                if self.is_sparse(partial.len()) {
                    self.parts = Parts::new(self.layout.stride, capacity(partial.len() * 4), None);
                }
                partial
            }
        };
        self.settle();
        partial.charged(self.charge.as_ref())
    }

    /// Merges an entry of the same layout: copies it when its key is new, else combines the accumulators. Strings are
    /// not copied.
    ///
    /// # Safety
    /// `from` is an entry of the layout whose strings outlive every read of this table.
    pub(crate) unsafe fn merge_entry(&mut self, from: *const u8) {
        // SAFETY: forwarded.
        if let Some(found) = unsafe { self.find(from) } {
            // SAFETY: both are entries of the layout, and the table is ours.
            unsafe { accumulator::merge_all(&self.layout, found, from) };
            return;
        }
        // SAFETY: both are entries of `stride` bytes, of different memory; the copy counts its objects.
        unsafe {
            let fresh = self.claim_for(from);
            fresh.copy_from_nonoverlapping(from, self.layout.stride);
            if self.has_objects {
                object::retain(&self.layout, fresh);
            }
        }
    }

    /// The entry with the key of `from`.
    ///
    /// # Safety
    /// `from` is an entry of a layout with the same keys; the strings of its keys are alive.
    pub(crate) unsafe fn find(&self, from: *const u8) -> Option<*mut u8> {
        let stride = self.layout.stride;
        // SAFETY: `from` is an entry with the keys of the layout.
        let (hash, key) = unsafe { (entry::hash(from), self.key_of(from)) };
        if let Some(place) = key.and_then(|key| self.parts.header.dense_entry(key, stride)) {
            // SAFETY: every entry starts with its hash.
            return (unsafe { entry::hash(place) } != HASH_EMPTY).then_some(place);
        }
        let TableHeader { entries, mask, .. } = self.parts.header;
        let mut place = hash & mask;
        loop {
            // SAFETY: `place` is at most `mask`.
            let candidate = unsafe { entries.add(place as usize * stride) };
            // SAFETY: every entry starts with its hash.
            let found = unsafe { entry::hash(candidate) };
            if found == HASH_EMPTY {
                return None;
            }
            // SAFETY: both are occupied entries with the same keys, whose strings are alive.
            if found == hash && unsafe { entry::compare_keys(&self.layout, candidate, from) }.is_eq() {
                return Some(candidate);
            }
            place = (place + 1) & mask;
        }
    }

    /// Copies the strings of the keys of an entry into the table.
    ///
    /// # Safety
    /// It is an entry of the table whose strings are alive.
    pub(crate) unsafe fn keep_keys(&mut self, entry: *mut u8) {
        let offsets = entry::string_keys(&self.layout);
        // SAFETY: promised by the caller; a NULL key is an empty string.
        unsafe { entry::move_strings(&[entry], &offsets, &mut self.arena) };
    }

    /// Removes an entry: those behind it that its place kept from theirs move up. The caller has released its objects.
    ///
    /// # Safety
    /// It is an occupied entry of the table, to which nobody has a pointer.
    pub(crate) unsafe fn remove(&mut self, removed: *mut u8) {
        self.len -= 1;
        if self.parts.is_dense(removed) {
            // SAFETY: an entry of the table.
            return unsafe { removed.write_bytes(0, self.layout.stride) };
        }
        self.hashed -= 1;
        let (stride, TableHeader { entries, mask, .. }) = (self.layout.stride, self.parts.header);
        // SAFETY: places are masked, and every entry, also an empty one, starts with its hash.
        unsafe {
            let mut hole = (removed.offset_from(entries) as usize / stride) as u64;
            let mut place = hole;
            loop {
                place = (place + 1) & mask;
                let candidate = entries.add(place as usize * stride);
                let hash = entry::hash(candidate);
                if hash == HASH_EMPTY {
                    break;
                }
                // It may move to the hole unless that is before where its search begins.
                let way = place.wrapping_sub(hash) & mask;
                if way >= (place.wrapping_sub(hole) & mask) {
                    entries.add(hole as usize * stride).copy_from_nonoverlapping(candidate, stride);
                    hole = place;
                }
            }
            entries.add(hole as usize * stride).write_bytes(0, stride);
        }
    }

    /// Gives memory back when most of the table is empty; whether it has, and so moved the entries.
    pub(crate) fn shrink(&mut self) -> bool {
        let is_sparse = self.is_sparse(self.len);
        if is_sparse {
            self.rebuild();
        }
        is_sparse
    }

    /// Whether `len` occupied entries are few for the memory there is.
    fn is_sparse(&self, len: usize) -> bool {
        let places = self.parts.places();
        places > FIRST_CAPACITY && len * SPARSE < places
    }

    /// As [`Table::claim`], for the key of an entry.
    ///
    /// # Safety
    /// `from` is an entry of a layout with the same keys.
    pub(crate) unsafe fn claim_for(&mut self, from: *const u8) -> *mut u8 {
        // SAFETY: promised by the caller.
        let (hash, key) = unsafe { (entry::hash(from), self.key_of(from)) };
        self.claim(hash, key)
    }

    /// Makes room, counts one more key and returns the empty place for it, which the caller must fill. `key` is there when
    /// the layout has a dense key that is not NULL.
    fn claim(&mut self, hash: u64, key: Option<i64>) -> *mut u8 {
        if let Some(log) = &mut self.log {
            self.len += 1;
            return log.push();
        }
        let is_dense = key.is_some_and(|key| self.parts.header.dense_entry(key, 0).is_some());
        if !is_dense && (self.hashed + 1) * 2 > self.parts.hashed_places() {
            self.grow();
        }
        self.place(hash, key)
    }

    /// Counts one more key and returns the place for it; there is room.
    fn place(&mut self, hash: u64, key: Option<i64>) -> *mut u8 {
        self.len += 1;
        let dense = key.and_then(|key| self.parts.header.dense_entry(key, self.layout.stride));
        dense.unwrap_or_else(|| {
            self.hashed += 1;
            self.free_place(hash)
        })
    }

    /// First empty entry of the hash part from `hash & mask` on; there is one, because half of them are empty.
    fn free_place(&self, hash: u64) -> *mut u8 {
        let TableHeader { entries, mask, .. } = self.parts.header;
        let mut place = hash & mask;
        loop {
            // SAFETY: `place` is at most `mask`, and every entry starts with its hash.
            let candidate = unsafe { entries.add(place as usize * self.layout.stride) };
            // SAFETY: as above.
            if unsafe { entry::hash(candidate) } == HASH_EMPTY {
                return candidate;
            }
            place = (place + 1) & mask;
        }
    }

    /// Makes room in the hash part. The region is reconsidered when it is worth a walk over all entries.
    fn grow(&mut self) {
        if self.allows_dense && self.len >= dense::MIN_KEYS && self.hashed * dense::OUTSIDE >= self.len {
            return self.rebuild();
        }
        let entries = occupied(self.parts.hashed()).collect();
        let _old = self.parts.set_places(2 * self.parts.hashed_places());
        self.len -= self.hashed;
        self.hashed = 0;
        // SAFETY: the entries are in the memory that the hash part had, which is alive.
        unsafe { self.take_in(entries) };
    }

    /// Moves all entries to memory that fits their number and keys, with room for as many more.
    fn rebuild(&mut self) {
        let entries: Vec<*const u8> = self.occupied().collect();
        let region = self.allows_dense.then(|| {
            // SAFETY: occupied entries of the layout.
            let mut keys: Vec<i64> = entries.iter().filter_map(|&e| unsafe { self.key_of(e) }).collect();
            dense::region_of_most(&mut keys)
                .filter(|_| keys.len() * dense::OUTSIDE >= entries.len() * (dense::OUTSIDE - 1))
        });
        let region = region.flatten();
        let hashed = if region.is_some() { entries.len() / dense::OUTSIDE } else { entries.len() };
        let _old = std::mem::replace(&mut self.parts, Parts::new(self.layout.stride, capacity(4 * hashed), region));
        (self.len, self.hashed) = (0, 0);
        // SAFETY: the entries are in the memory that the parts had, which is alive.
        unsafe { self.take_in(entries) };
    }

    /// Copies entries to their places; there is room for them.
    ///
    /// # Safety
    /// They are entries of the layout that are not in the table's memory.
    unsafe fn take_in(&mut self, entries: Vec<*const u8>) {
        for from in entries {
            // SAFETY: promised by the caller; the place is an empty entry.
            unsafe {
                let place = self.place(entry::hash(from), self.key_of(from));
                place.copy_from_nonoverlapping(from, self.layout.stride);
            }
        }
    }

    /// The key by which the dense region would have an entry.
    ///
    /// # Safety
    /// `entry` is an entry of a layout with the same keys.
    unsafe fn key_of(&self, entry: *const u8) -> Option<i64> {
        // SAFETY: promised by the caller.
        unsafe { dense::key_of_entry(&self.layout, entry) }
    }
}

/// Places of a hash part that has at least `least`, and is not too small.
pub(crate) fn capacity(least: usize) -> usize {
    least.next_power_of_two().max(FIRST_CAPACITY)
}

/// Those of entries that are not empty.
fn occupied(entries: impl Iterator<Item = *mut u8>) -> impl Iterator<Item = *const u8> {
    // SAFETY: every entry starts with its hash.
    entries.map(<*mut u8>::cast_const).filter(|&e| unsafe { entry::hash(e) } != HASH_EMPTY)
}

#[cfg(test)]
mod tests;
