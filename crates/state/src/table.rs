//! The mutable table of one worker: open addressing over entries with inline keys and accumulators.
//!
//! ```text
//! Table ┌ TableHeader: entries ──► [ entry | empty | entry | … ]   mask + 1 entries, at most half of them occupied
//!       │ arena: bytes of long strings of keys and of MIN/MAX
//!       └ layout, template of a fresh entry
//! ```
//!
//! Generated code searches entries itself through the header and calls [`Table::insert`] for a new key. The search is
//! linear from `hash & mask`; an entry with hash 0 is empty; nothing is ever removed.

use crate::accumulator;
use crate::arena::Arena;
use crate::entry;
use crate::memory::EntryMemory;
use crate::object::{self, Ordinal};
use crate::partial::Partial;
use millstream_abi::{Accumulator, EntryLayout, Phys, Slot, Str, TableHeader};
use std::sync::Arc;

/// Entries of a new table: small, because thousands of open windows have a table for each worker.
const FIRST_CAPACITY: usize = 16;
/// Garbage of replaced MIN/MAX strings that is worth a compaction.
pub(crate) const MIN_GARBAGE_BYTES: usize = 64 << 10;
/// Hash of the group that no row has made: it meets no other one, so any but 0 serves.
pub(crate) const HASH_OF_NOTHING: u64 = 1;

/// A hash table from keys to accumulators. One thread at a time uses it.
#[repr(C)]
#[derive(Debug)]
pub struct Table {
    /// First, so that a pointer to the header is one to the table.
    header: TableHeader,
    memory: EntryMemory,
    layout: Arc<EntryLayout>,
    arena: Arena,
    /// Arena bytes in use when it was last compacted.
    compacted_bytes: usize,
    /// A fresh entry: zero hash and keys, initial accumulators.
    template: Box<[u8]>,
    /// Whether entries own objects.
    has_objects: bool,
    /// Bytes of the objects that the table has made.
    object_bytes: usize,
}

// SAFETY: the header's pointer is into `memory`, and strings point into `arena`, both owned by the table; objects are
// counted by atomic numbers.
unsafe impl Send for Table {}
// SAFETY: methods on shared tables only read.
unsafe impl Sync for Table {}

impl Drop for Table {
    fn drop(&mut self) {
        if self.has_objects {
            for occupied in self.occupied().collect::<Vec<_>>() {
                // SAFETY: an entry of the layout, which is not used any more.
                unsafe { object::release(&self.layout, occupied.cast_mut()) };
            }
        }
    }
}

impl Table {
    /// An empty table.
    pub fn new(layout: Arc<EntryLayout>) -> Table {
        Table::with_capacity(layout, FIRST_CAPACITY)
    }

    /// An empty table with room for `entries / 2` keys; rounded up to a power of two.
    pub(crate) fn with_capacity(layout: Arc<EntryLayout>, entries: usize) -> Table {
        let capacity = entries.next_power_of_two().max(FIRST_CAPACITY);
        let memory = EntryMemory::zeroed(capacity * layout.stride);
        let header = TableHeader { entries: memory.start(), mask: capacity as u64 - 1, len: 0 };
        let (template, has_objects) = (entry::template(&layout), object::has_objects(&layout));
        let arena = Arena::default();
        Table { header, memory, layout, arena, compacted_bytes: 0, template, has_objects, object_bytes: 0 }
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
        unsafe { &raw mut (*table).header }
    }

    /// The header for someone who only searches, while the table is not changed.
    pub(crate) fn header_for_reading(&self) -> TableHeader {
        TableHeader { entries: self.header.entries, mask: self.header.mask, len: self.header.len }
    }

    /// The layout of entries.
    pub fn layout(&self) -> &Arc<EntryLayout> {
        &self.layout
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.header.len as usize
    }

    /// Whether it has no key.
    pub fn is_empty(&self) -> bool {
        self.header.len == 0
    }

    /// Bytes of memory that it owns.
    pub fn bytes(&self) -> usize {
        self.memory.bytes() + self.arena.bytes() + self.object_bytes
    }

    /// Inserts a key that the table does not have and returns its entry with fresh accumulators.
    ///
    /// `keys` holds one slot for each key of the layout; bit *i* of `null_mask` says that key *i* is NULL. Long strings
    /// are copied into the table. Entries may move.
    ///
    /// # Safety
    /// Slots hold values of the layout's types whose strings are alive; `hash` is that of the keys and not 0; the key
    /// is not in the table.
    pub unsafe fn insert(&mut self, hash: u64, null_mask: u64, keys: &[Slot]) -> *mut u8 {
        assert!(hash != 0 && keys.len() == self.layout.keys.len(), "a key of the table's layout");
        let fresh = self.claim(hash);
        let layout = Arc::clone(&self.layout);
        // SAFETY: `fresh` is an entry of the layout, all zero, and `template` is as long.
        unsafe {
            fresh.copy_from_nonoverlapping(self.template.as_ptr(), layout.stride);
            entry::write(fresh, 0, hash);
            if let Some(offset) = layout.null_mask {
                entry::write(fresh, offset, null_mask);
            }
        }
        for (i, (key, slot)) in layout.keys.iter().zip(keys).enumerate() {
            if null_mask >> i & 1 == 1 {
                continue;
            }
            let mut value = *slot;
            if key.phys == Phys::Str {
                let string = Str::from_bits(u128::from_le_bytes(slot.bytes()));
                // SAFETY: the caller promises that the string is alive.
                value = Slot::of(self.arena.keep(unsafe { string.as_bytes() }).bits().to_le_bytes());
            }
            // SAFETY: the entry has the key, and its string is in the arena now.
            unsafe { entry::write_key(fresh, key, &value) };
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
    /// When the component is no object.
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
        self.object_bytes += unsafe { object::update(accumulator, kind, phys, value.as_ref(), ordinal) };
    }

    /// Frees strings that MIN and MAX have replaced, when they are more than half of the arena. Call it when no one
    /// holds a pointer into the table; linear in the number of entries, so amortised by the bytes kept since.
    pub fn compact(&mut self) {
        let extremes = |a: Accumulator| matches!(a, Accumulator::MinStr | Accumulator::MaxStr);
        if self.layout.accumulators.iter().any(|(a, _)| extremes(*a)) {
            self.compact_strings();
        }
    }

    /// [`Table::compact`], also for tables from which keys are removed.
    pub(crate) fn compact_strings(&mut self) {
        if self.arena.used() < 2 * self.compacted_bytes + MIN_GARBAGE_BYTES {
            return;
        }
        let old = std::mem::take(&mut self.arena);
        let mut offsets = entry::string_keys(&self.layout);
        let extremes = |a: Accumulator| matches!(a, Accumulator::MinStr | Accumulator::MaxStr);
        offsets.extend(self.layout.accumulators.iter().filter(|(a, _)| extremes(*a)).map(|&(_, offset)| offset));
        let entries: Vec<*mut u8> = self.occupied().map(<*const u8>::cast_mut).collect();
        // SAFETY: occupied entries of the layout whose strings live in `old`, which is dropped after the call.
        unsafe { entry::move_strings(&entries, &offsets, &mut self.arena) };
        self.compacted_bytes = self.arena.used();
        drop(old);
    }

    /// Occupied entries in order of place.
    pub(crate) fn occupied(&self) -> impl Iterator<Item = *const u8> + use<'_> {
        let stride = self.layout.stride;
        (0..=self.header.mask as usize)
            // SAFETY: the memory holds `mask + 1` entries of `stride` bytes.
            .map(move |i| unsafe { self.header.entries.add(i * stride) }.cast_const())
            // SAFETY: every entry starts with its hash.
            .filter(|&e| unsafe { entry::hash(e) } != 0)
    }

    /// The immutable form: entries grouped by partition, without the empty ones.
    pub fn seal(mut self) -> Partial {
        let (layout, len) = (Arc::clone(&self.layout), self.len());
        let entries: Vec<*const u8> = self.occupied().collect();
        debug_assert_eq!(entries.len(), len, "the header counts occupied entries");
        let arena = std::mem::take(&mut self.arena);
        self.has_objects = false;
        // SAFETY: the entries are of the layout, their strings live in the arena that goes with them, and the table
        // has just forgotten that it had objects.
        unsafe { Partial::from_entries(layout, &entries, arena, self.object_bytes) }
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
            let fresh = self.claim(entry::hash(from));
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
        // SAFETY: `from` is an entry.
        let hash = unsafe { entry::hash(from) };
        let mut place = hash & self.header.mask;
        loop {
            // SAFETY: `place` is at most `mask`.
            let candidate = unsafe { self.header.entries.add(place as usize * stride) };
            // SAFETY: every entry starts with its hash.
            let found = unsafe { entry::hash(candidate) };
            if found == 0 {
                return None;
            }
            // SAFETY: both are occupied entries with the same keys, whose strings are alive.
            if found == hash && unsafe { entry::compare_keys(&self.layout, candidate, from) }.is_eq() {
                return Some(candidate);
            }
            place = (place + 1) & self.header.mask;
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
        let (stride, mask) = (self.layout.stride, self.header.mask);
        // SAFETY: places are masked, and every entry, also an empty one, starts with its hash.
        unsafe {
            let mut hole = (removed.offset_from(self.header.entries) as usize / stride) as u64;
            let mut place = hole;
            loop {
                place = (place + 1) & mask;
                let candidate = self.header.entries.add(place as usize * stride);
                let hash = entry::hash(candidate);
                if hash == 0 {
                    break;
                }
                // It may move to the hole unless that is before where its search begins.
                let way = place.wrapping_sub(hash) & mask;
                if way >= (place.wrapping_sub(hole) & mask) {
                    self.header.entries.add(hole as usize * stride).copy_from_nonoverlapping(candidate, stride);
                    hole = place;
                }
            }
            self.header.entries.add(hole as usize * stride).write_bytes(0, stride);
        }
        self.header.len -= 1;
    }

    /// Gives memory back when most of the table is empty; whether it has, and so moved the entries.
    pub(crate) fn shrink(&mut self) -> bool {
        let capacity = self.header.mask as usize + 1;
        let is_empty = capacity > FIRST_CAPACITY && self.len() * 16 < capacity;
        if is_empty {
            self.resize((self.len() * 4).next_power_of_two().max(FIRST_CAPACITY));
        }
        is_empty
    }

    /// Makes room, counts one more key and returns the place for it. The caller must fill it.
    pub(crate) fn claim(&mut self, hash: u64) -> *mut u8 {
        if (self.header.len + 1) * 2 > self.header.mask + 1 {
            self.resize((self.header.mask as usize + 1) * 2);
        }
        self.header.len += 1;
        self.free_place(hash)
    }

    /// First empty entry from `hash & mask` on; there is one, because half of them are empty.
    fn free_place(&self, hash: u64) -> *mut u8 {
        let mut place = hash & self.header.mask;
        loop {
            // SAFETY: `place` is at most `mask`, and every entry starts with its hash.
            let candidate = unsafe { self.header.entries.add(place as usize * self.layout.stride) };
            // SAFETY: as above.
            if unsafe { entry::hash(candidate) } == 0 {
                return candidate;
            }
            place = (place + 1) & self.header.mask;
        }
    }

    /// Moves the entries to memory of `capacity` places, a power of two.
    fn resize(&mut self, capacity: usize) {
        let larger = EntryMemory::zeroed(capacity * self.layout.stride);
        let entries: Vec<*const u8> = self.occupied().collect();
        let old = std::mem::replace(&mut self.memory, larger);
        self.header.entries = self.memory.start();
        self.header.mask = capacity as u64 - 1;
        for occupied in entries {
            // SAFETY: `occupied` is an entry in `old`, which is alive until the end of this function.
            unsafe {
                let place = self.free_place(entry::hash(occupied));
                place.copy_from_nonoverlapping(occupied, self.layout.stride);
            }
        }
        drop(old);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_abi::{HASH_SEED, hash_finish, hash_word};

    #[test]
    fn the_header_is_first() {
        assert_eq!(std::mem::offset_of!(Table, header), 0);
    }

    #[test]
    fn growth_keeps_every_key_and_at_most_half_of_the_places() {
        let layout = Arc::new(EntryLayout::new(&[(Phys::I64, false)], &[Accumulator::Count]));
        let mut table = Table::new(Arc::clone(&layout));
        for key in 0..1000i64 {
            let hash = hash_finish(hash_word(HASH_SEED, key as u64));
            // SAFETY: the keys are distinct.
            let inserted = unsafe { table.insert(hash, 0, &[Slot::of(key.to_le_bytes())]) };
            // SAFETY: the entry has the count there.
            unsafe { entry::write(inserted, layout.accumulators[0].1, key * 2) };
        }
        assert_eq!(table.len(), 1000);
        assert_eq!(table.header.mask, 2047);
        assert_eq!(table.bytes(), 2048 * layout.stride);
        let mut found: Vec<(i64, i64)> = table
            .occupied()
            // SAFETY: offsets are those of the layout.
            .map(|e| unsafe { (entry::read(e, layout.keys[0].offset), entry::read(e, layout.accumulators[0].1)) })
            .collect();
        found.sort_unstable();
        assert_eq!(found, (0..1000).map(|k| (k, 2 * k)).collect::<Vec<_>>());
    }

    #[test]
    fn compaction_bounds_the_garbage_of_replaced_strings() {
        let layout = Arc::new(EntryLayout::new(&[], &[Accumulator::MaxStr]));
        let mut table = Table::new(Arc::clone(&layout));
        // SAFETY: the table is empty and has no key columns.
        let only = unsafe { table.insert(7, 0, &[]) };
        let mut last = String::new();
        for i in 0..100_000 {
            last = format!("a string that is long {i:06}");
            // SAFETY: `last` is alive; the entry has the accumulator there.
            unsafe {
                let kept = table.keep_string(Str::new(last.as_bytes()));
                entry::write(only, layout.accumulators[0].1, kept);
            }
            if i % 100 == 0 {
                table.compact();
            }
        }
        assert!(table.bytes() < 400 << 10, "{} bytes", table.bytes());
        // SAFETY: the accumulator's string lives in the arena.
        let kept: Str = unsafe { entry::read(only, layout.accumulators[0].1) };
        // SAFETY: as above.
        assert_eq!(unsafe { kept.as_bytes() }, last.as_bytes());
    }
}
