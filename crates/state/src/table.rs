//! The mutable table of one worker: open addressing over entries with inline keys and accumulators, and an array for
//! integer keys that lie close together.
//!
//! ```text
//! Table ┌ TableHeader: entries ──► [ entry | empty | entry | … ]   hash part: mask + 1 entries, at most half of them occupied
//!       │              dense ────► [ key | key | key | … ]         dense region: that of key k is number k - dense_first
//!       │              directory ► [ place | place | … ]           by packed key, of several integers: places in the hash part
//!       │ arena: bytes of long strings of keys and of MIN/MAX
//!       └ layout, template of a fresh entry
//! ```
//!
//! Generated code searches entries itself through the header and calls [`Table::insert`] for a new key. A key that the
//! region covers is in the region; any other, and NULL, is in the hash part, searched linearly from `hash & mask`. An
//! entry with hash 0 is empty. Whether there is a region, and for which keys, is decided when the hash part is full
//! (`dense.rs`): it grows to both sides while there are rows, and the table stays the same.
//!
//! The region is an array of accumulators where these are numbers (`array`): generated code updates its entries without
//! asking, and how many keys are there is not known before the table is sealed. Other layouts have whole entries there.
//!
//! The directory (`directory.rs`) is a shortcut for generated code: it is made when the hash part grows, and forgets all places when entries
//! move or go.
//!
//! An *appending* table ([`Table::set_appending`]) has a hash part of one entry, which is always empty, and no region. So
//! every search misses at once, and every row is given a new entry, at the end of a log (`table/append.rs`). Those of
//! equal keys are merged with the partials. Code that searches and inserts need not know.

mod append;
mod far;
mod growth;
mod lists;
mod sealing;

use crate::accumulator;
use crate::arena::Arena;
use crate::array::{ArrayShape, Region};
use crate::budget::{Charge, MemoryBudget, MemoryClass};
use crate::dense;
use crate::entry;
use crate::far::Far;
use crate::list::{self, Logs};
use crate::object;
use crate::parts::Parts;
use append::EntryLog;
use millstream_abi::{EntryLayout, HASH_BUSY, HASH_EMPTY, KeyRange, Slot, Str, TableHeader};
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
    /// Whether this is what an earlier table had.
    pub is_known: bool,
}

impl TableHint {
    /// Bytes of a table that begins with it.
    pub fn bytes(&self, layout: &EntryLayout) -> usize {
        let stride = layout.array().map_or(layout.stride, |array| array.stride);
        let dense =
            self.range.map_or(0, |range| usize::try_from(range.len).unwrap_or(usize::MAX).saturating_mul(stride));
        capacity(2 * self.keys).saturating_mul(layout.stride).saturating_add(dense)
    }
}

/// What a table's dense region is.
#[derive(Debug, Clone)]
enum DenseForm {
    /// There is none.
    Never,
    Entries,
    Array(Arc<ArrayShape>),
}

/// A hash table from keys to accumulators. One thread at a time uses it.
#[repr(C)]
#[derive(Debug)]
pub struct Table {
    /// First, so that a pointer to the header is one to the table.
    parts: Parts,
    dense: DenseForm,
    /// Whether keys of several integers may have a directory.
    packs: bool,
    /// Keys that its directory does not cover.
    uncovered: usize,
    /// Whether an earlier table has shown what keys there are.
    is_known: bool,
    /// All entries of an appending table.
    log: Option<Box<EntryLog>>,
    /// The values of its lists, until it is sealed.
    lists: Option<Box<Logs>>,
    /// Occupied entries, without those of arrays.
    len: usize,
    /// Those in the hash part.
    hashed: usize,
    /// Whether there may be entries of which no more than the key is left.
    has_kept: bool,
    layout: Arc<EntryLayout>,
    arena: Arena,
    /// A fresh entry: zero hash and keys, initial accumulators.
    template: Box<[u8]>,
    /// Whether entries own objects.
    has_objects: bool,
    /// Bytes of the objects that the table has made.
    object_bytes: usize,
    /// What is far of its sums of doubles.
    far: Far,
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
        let form = match layout.dense_key().filter(|_| dense) {
            None => DenseForm::Never,
            Some(_) => ArrayShape::of(&layout).map_or(DenseForm::Entries, DenseForm::Array),
        };
        let region = hint.range.filter(|_| matches!(form, DenseForm::Entries));
        let mut table = Table {
            parts: Parts::new(layout.stride, capacity(2 * hint.keys), region),
            dense: form,
            packs: dense && layout.packs(),
            uncovered: 0,
            is_known: hint.is_known,
            log: None,
            lists: Logs::new(&layout),
            len: 0,
            hashed: 0,
            has_kept: false,
            template: entry::template(&layout),
            has_objects: object::has_objects(&layout),
            layout,
            arena: Arena::default(),
            object_bytes: 0,
            far: Far::default(),
            charge: None,
        };
        table.show_logs();
        table.expect(hint);
        table
    }

    /// Prepares a table that is empty, but for keys that it has kept, and has no array for keys as in `hint`.
    pub fn expect(&mut self, hint: TableHint) {
        self.is_known |= hint.is_known;
        if let (DenseForm::Array(shape), Some(range)) = (self.dense.clone(), hint.range) {
            debug_assert!(self.parts.array().is_none() && !self.is_appending(), "a table that was drained");
            self.forget_kept();
            self.parts.set_array(Some(Region::fresh(&shape, range)));
        }
    }

    /// What a table for similar keys should begin with, from what is in this one. Of an appending table nothing is known.
    pub fn hint(&self) -> TableHint {
        if self.is_appending() {
            return TableHint::default();
        }
        match self.parts.region() {
            Some(range) if self.parts.array().is_some() || (self.len - self.hashed) * SPARSE >= range.len as usize => {
                TableHint { keys: self.hashed, range: Some(range), is_known: true }
            }
            _ => TableHint { keys: self.len, range: None, is_known: true },
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

    /// Number of entries: of keys, also kept ones, those of an array as if all were there, or of insertions into an appending table.
    pub fn len(&self) -> usize {
        self.len + self.parts.array().map_or(0, |array| array.range().len as usize)
    }

    /// Whether it has no key, not even a kept one. With an array, linear in the length of that as long as it is so.
    pub fn is_empty(&self) -> bool {
        self.len == 0 && self.parts.array().is_none_or(Region::is_empty)
    }

    /// Whether most of what it may have is an array.
    pub fn is_array(&self) -> bool {
        self.parts.array().is_some_and(|array| array.range().len as usize >= self.len)
    }

    /// Bytes of memory that it owns.
    pub fn bytes(&self) -> usize {
        let log = self.log.as_ref().map_or(0, |log| log.bytes());
        let lists = self.lists.as_ref().map_or(0, |lists| lists.bytes());
        self.parts.bytes() + log + lists + self.arena.bytes() + self.object_bytes + self.far.bytes()
    }

    /// Whether it owns more bytes than these, of which it uses a good part.
    pub fn is_fuller_than(&self, bytes: usize) -> bool {
        let array = self.parts.array().map_or(0, Region::bytes);
        let lists = self.lists.as_ref().map_or(0, |lists| lists.bytes());
        let used = self.len * self.layout.stride + array + lists + self.arena.used() + self.object_bytes;
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
        let fresh = match self.claim(hash, key) {
            Claimed::InArray(entry) => return entry,
            Claimed::Entry(fresh) => fresh,
        };
        // SAFETY: `fresh` is an empty entry of the layout; the rest is promised by the caller.
        unsafe {
            fresh.copy_from_nonoverlapping(self.template.as_ptr(), self.layout.stride);
            entry::write(fresh, 0, hash);
            entry::write_keys(&self.layout, fresh, null_mask, keys, &mut self.arena);
        }
        if self.packs {
            self.note_key(fresh);
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
            // Values of lists are in their logs.
            unsafe { list::compact(&self.layout, &entries, &entry::strings(&self.layout), false, &mut self.arena) };
        }
    }

    /// Occupied entries in order of place, or of insertion; none of an array.
    pub(crate) fn occupied(&self) -> impl Iterator<Item = *const u8> + use<'_> {
        occupied(self.parts.entries()).chain(self.log.iter().flat_map(|log| log.entries()))
    }

    /// All entries, also empty ones, as [`Table::occupied`].
    fn places(&self) -> impl Iterator<Item = *const u8> + use<'_> {
        let places = self.parts.entries().map(<*mut u8>::cast_const);
        places.chain(self.log.iter().flat_map(|log| log.entries()))
    }

    /// Merges an entry of the same layout: copies it when its key is new, else combines the accumulators. Strings are
    /// not copied.
    ///
    /// # Safety
    /// `from` is an entry of the layout whose strings outlive every read of this table, which can have no array.
    pub(crate) unsafe fn merge_entry(&mut self, from: *const u8) {
        // SAFETY: forwarded.
        if let Some(found) = unsafe { self.find(from) } {
            // SAFETY: both are entries of the layout, and the table is ours.
            unsafe { accumulator::merge_all(&self.layout, found, from, &mut self.arena) };
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

    /// The entry with the key of `from`, but for one of an array.
    ///
    /// # Safety
    /// `from` is an entry of a layout with the same keys; the strings of its keys are alive.
    pub(crate) unsafe fn find(&self, from: *const u8) -> Option<*mut u8> {
        let stride = self.layout.stride;
        // SAFETY: `from` is an entry with the keys of the layout.
        let (hash, key) = unsafe { (entry::hash(from), self.key_of(from)) };
        if let Some(place) = key.and_then(|key| self.parts.dense_entry(key)) {
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
        self.parts.forget_places();
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

    /// As [`Table::claim`], for the key of an entry, in a table that can have no array.
    ///
    /// # Safety
    /// `from` is an entry of a layout with the same keys.
    pub(crate) unsafe fn claim_for(&mut self, from: *const u8) -> *mut u8 {
        // SAFETY: promised by the caller.
        let (hash, key) = unsafe { (entry::hash(from), self.key_of(from)) };
        match self.claim(hash, key) {
            Claimed::Entry(place) => place,
            Claimed::InArray(_) => unreachable!("the table can have no array"),
        }
    }

    /// Makes room, counts one more key and returns the empty place for it, which the caller must fill. `key` is there when
    /// the layout has a dense key that is not NULL. If there is an array for it now, that has the entry.
    fn claim(&mut self, hash: u64, key: Option<i64>) -> Claimed {
        if let Some(log) = &mut self.log {
            self.len += 1;
            return Claimed::Entry(log.push());
        }
        if let Some(entry) = self.in_array(key) {
            return Claimed::InArray(entry);
        }
        let is_dense = key.is_some_and(|key| self.parts.dense_entry(key).is_some());
        if !is_dense && (self.hashed + 1) * 2 > self.parts.hashed_places() {
            self.grow();
        }
        match self.in_array(key) {
            Some(entry) => Claimed::InArray(entry),
            None => Claimed::Entry(self.place(hash, key)),
        }
    }

    /// The entry of a key in the array, if that covers it: marked, as it is about to be updated.
    fn in_array(&self, key: Option<i64>) -> Option<*mut u8> {
        let (array, key) = (self.parts.array()?, key?);
        let entry = array.entry_of(key)?;
        let layout = &array.shape().array;
        if layout.sets_mark {
            // SAFETY: an entry of the array, which is ours.
            unsafe { entry::write(entry, layout.mark, 1u64) };
        }
        Some(entry)
    }

    /// Counts one more key and returns the place for it; there is room, and no array that covers it.
    fn place(&mut self, hash: u64, key: Option<i64>) -> *mut u8 {
        self.len += 1;
        let dense = key.and_then(|key| self.parts.dense_entry(key));
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

    /// The key by which the dense region would have an entry.
    ///
    /// # Safety
    /// `entry` is an entry of a layout with the same keys.
    unsafe fn key_of(&self, entry: *const u8) -> Option<i64> {
        // SAFETY: promised by the caller.
        unsafe { dense::key_of_entry(&self.layout, entry) }
    }
}

/// Where a key is to be.
#[derive(Debug, Clone, Copy)]
enum Claimed {
    /// An empty entry.
    Entry(*mut u8),
    /// An entry of the array, with its accumulators.
    InArray(*mut u8),
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
