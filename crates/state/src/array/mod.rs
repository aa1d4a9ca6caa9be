//! Array tables: the entries of a range of keys that specialised code assumes, without hash and key
//! (`millstream_abi::ArrayLayout`). Finding an entry is a subtraction, so is finding the key of one, and entries of two
//! tables are merged as arrays are added.
//!
//! Generated code finds the address of the entries in the header, as that of the dense region, and updates them: nothing is
//! inserted, and a key outside of the range never comes. All that tables of one range have in common is their
//! [`ArrayShape`], which also keeps the memory of tables that are done for those to come.
//!
//! A table is sealed by handing its memory over: the partial is an [`ArrayRun`]. Partials of one shape are merged
//! directly (`merge.rs`); whoever wants entries with keys gets them, made once.

mod encoding;
mod merge;
mod runs;

use crate::budget::{Charge, MemoryBudget, MemoryClass};
use crate::entry::{self, read, write};
use crate::memory::{EntryMemory, OwnedEntries};
use crate::partial::Partial;
use crate::partition::{PARTITIONS, starts};
pub(crate) use encoding::ArrayBlock;
pub(crate) use merge::{compact_arrays, merge_arrays};
use millstream_abi::{ArrayLayout, EntryLayout, HASH_SEED, KeyRange, Phys, TableHeader, hash_finish, hash_word};
use millstream_sync::pool::Pool;
use runs::{Run, Runs};
use std::ptr;
use std::sync::{Arc, OnceLock};

/// Memory of this many tables is kept for those to come.
const FREE_TABLES: usize = 64;

/// What the array tables of a range have in common.
#[derive(Debug)]
pub struct ArrayShape {
    layout: Arc<EntryLayout>,
    array: ArrayLayout,
    range: KeyRange,
    /// The keys of each partition.
    runs: Runs,
    /// A fresh entry from its start on, if that is not zero.
    fresh: Option<Box<[u8]>>,
    free: Pool<ArrayMemory>,
}

/// The memory of a table, which counts.
#[derive(Debug)]
struct ArrayMemory {
    entries: EntryMemory,
    charge: Charge,
}

impl ArrayMemory {
    /// What it counts as from now on.
    fn count_as(&mut self, class: MemoryClass) {
        self.charge = self.charge.another(class, self.entries.bytes());
    }
}

impl PartialEq for ArrayShape {
    fn eq(&self, other: &ArrayShape) -> bool {
        ptr::eq(self, other) || (self.range == other.range && self.array == other.array && self.layout == other.layout)
    }
}

impl ArrayShape {
    /// Of tables for the keys of a range.
    ///
    /// # Panics
    /// When `array` is not one of the layout, or the range is empty or too long for memory.
    pub fn new(layout: Arc<EntryLayout>, array: ArrayLayout, range: KeyRange) -> ArrayShape {
        assert!(layout.allows_arrays() && range.len > 0, "only numbers by integer keys are kept in arrays");
        assert!(range.len <= isize::MAX as u64 / array.stride as u64, "an array of {range:?} fits no memory");
        let template = entry::template(&layout);
        let mut fresh = vec![0; array.stride].into_boxed_slice();
        let end = template.len().min(array.start + array.stride);
        fresh[..end - array.start].copy_from_slice(&template[array.start..end]);
        let fresh = fresh.iter().any(|&byte| byte != 0).then_some(fresh);
        ArrayShape { runs: Runs::new(range), layout, array, range, fresh, free: Pool::new(FREE_TABLES) }
    }

    /// The keys.
    pub fn range(&self) -> KeyRange {
        self.range
    }

    /// The entries.
    pub fn array(&self) -> &ArrayLayout {
        &self.array
    }

    fn keys(&self) -> usize {
        self.range.len as usize
    }

    /// Memory of fresh entries.
    fn memory(&self, budget: &Arc<MemoryBudget>) -> ArrayMemory {
        let memory = match self.free.take() {
            Some(used) => {
                // SAFETY: a block of `entries.bytes()` bytes that nobody else has.
                unsafe { used.entries.start().write_bytes(0, used.entries.bytes()) };
                *used
            }
            None => {
                let entries = EntryMemory::zeroed(self.array.bytes(self.keys()));
                let charge = Charge::new(budget, MemoryClass::Tables, entries.bytes());
                ArrayMemory { entries, charge }
            }
        };
        self.make_fresh(&memory.entries);
        memory
    }

    /// Makes the entries of zeroed memory fresh.
    fn make_fresh(&self, entries: &EntryMemory) {
        let (Some(fresh), count) = (&self.fresh, self.keys()) else { return };
        // SAFETY: there are `count` entries behind `start`; each step copies what is there to what is behind it.
        unsafe {
            let first = entries.start().add(self.array.start);
            first.copy_from_nonoverlapping(fresh.as_ptr(), fresh.len());
            let mut done = 1;
            while done < count {
                let more = done.min(count - done);
                first.add(done * self.array.stride).copy_from_nonoverlapping(first, more * self.array.stride);
                done += more;
            }
        }
    }

    /// Takes memory back.
    fn give_back(&self, mut memory: ArrayMemory) {
        memory.count_as(MemoryClass::Tables);
        // With enough of it there already, this is dropped.
        let _ = self.free.put(Box::new(memory));
    }
}

/// An array table of one worker. One thread at a time uses it.
#[repr(C)]
#[derive(Debug)]
pub struct ArrayTable {
    /// First, so that a pointer to the header is one to the table.
    header: TableHeader,
    memory: ArrayMemory,
    shape: Arc<ArrayShape>,
}

// SAFETY: the header's pointer is into the memory that the table owns; entries hold numbers.
unsafe impl Send for ArrayTable {}
// SAFETY: methods on shared tables only read.
unsafe impl Sync for ArrayTable {}

impl ArrayTable {
    /// A table in which no key is there.
    pub fn new(shape: Arc<ArrayShape>, budget: &Arc<MemoryBudget>) -> ArrayTable {
        let memory = shape.memory(budget);
        let header = TableHeader {
            entries: ptr::null_mut(),
            mask: 0,
            dense: memory.entries.start(),
            dense_first: shape.range.first,
            dense_len: shape.range.len,
        };
        ArrayTable { header, memory, shape }
    }

    /// What generated code gets, as [`Table::header_of`](crate::Table::header_of).
    ///
    /// # Safety
    /// `table` points to a table.
    pub unsafe fn header_of(table: *mut ArrayTable) -> *mut TableHeader {
        // SAFETY: a place within the table; nothing is read.
        unsafe { &raw mut (*table).header }
    }

    /// What it has in common with others.
    pub fn shape(&self) -> &Arc<ArrayShape> {
        &self.shape
    }

    /// The same while generated code uses the table.
    ///
    /// # Safety
    /// `table` points to a table, which stays as long as the result is used.
    pub unsafe fn shape_of<'a>(table: *const ArrayTable) -> &'a ArrayShape {
        // SAFETY: promised by the caller; the field is never changed.
        unsafe { &(*table).shape }
    }

    /// Whether no key is there: as long as that is so, linear in the length of the range.
    pub fn is_empty(&self) -> bool {
        // SAFETY: there is an entry for each key.
        !(0..self.shape.keys()).any(|i| unsafe { is_there(&self.memory.entries, &self.shape.array, i) })
    }

    /// The immutable form, which takes the memory over. Its end gives the memory back to the shape if that is to be
    /// `kept`.
    pub fn seal(self, kept: bool) -> Partial {
        let ArrayTable { memory, shape, .. } = self;
        Partial::of_array(ArrayRun::new(shape, memory, kept))
    }
}

/// Whether the key of entry `index` is there.
///
/// # Safety
/// The table has more than `index` entries.
#[inline]
unsafe fn is_there(memory: &EntryMemory, array: &ArrayLayout, index: usize) -> bool {
    // SAFETY: promised by the caller.
    unsafe { read::<u64>(entry(memory, array, index), array.mark) != 0 }
}

/// Entry `index` of a table, by its offsets.
fn entry(memory: &EntryMemory, array: &ArrayLayout, index: usize) -> *mut u8 {
    memory.start().wrapping_add(index * array.stride)
}

/// A sealed array table.
#[derive(Debug)]
pub(crate) struct ArrayRun {
    shape: Arc<ArrayShape>,
    /// `None` only at the end.
    memory: Option<ArrayMemory>,
    /// Whether the shape gets the memory back.
    kept: bool,
    /// With keys, for whoever wants that; and what they count.
    entries: OnceLock<(OwnedEntries, Charge)>,
}

impl ArrayRun {
    /// Takes the memory of a table over.
    fn new(shape: Arc<ArrayShape>, mut memory: ArrayMemory, kept: bool) -> ArrayRun {
        memory.count_as(MemoryClass::Partials);
        ArrayRun { shape, memory: Some(memory), kept, entries: OnceLock::new() }
    }

    /// Of the keys.
    pub(crate) fn layout(&self) -> &Arc<EntryLayout> {
        &self.shape.layout
    }

    /// Whether both can be merged directly.
    pub(crate) fn has_shape_of(&self, other: &ArrayRun) -> bool {
        self.shape == other.shape
    }

    /// Partition *p* has as many keys that are there as lie from number *p* to the next. Linear in the length of the
    /// range.
    pub(crate) fn starts(&self) -> [usize; PARTITIONS + 1] {
        let (memory, array) = (&self.memory().entries, &self.shape.array);
        // SAFETY: runs are within the range, and so there is an entry.
        let there = |run: &Run| run.keys().map(|i| unsafe { is_there(memory, array, i) } as usize).sum::<usize>();
        starts(|partition| self.shape.runs.of(&(partition..partition + 1)).iter().map(there).sum())
    }

    /// Bytes of memory that it owns.
    pub(crate) fn bytes(&self) -> usize {
        self.memory().entries.bytes() + self.entries.get().map_or(0, |(entries, _)| entries.bytes())
    }

    /// The same `count` entries with hash and keys, in order.
    pub(crate) fn entries(&self, count: usize) -> &OwnedEntries {
        let (entries, _) = self.entries.get_or_init(|| {
            let keys = (0..PARTITIONS).flat_map(|partition| self.keys_from(partition, 0));
            let memory = self.with_keys(count, keys.map(|(_, index)| index));
            // SAFETY: `count` entries, which are numbers.
            let entries = unsafe { OwnedEntries::new(self.layout(), memory, count) };
            let charge = self.memory().charge.another(MemoryClass::Partials, entries.bytes());
            (entries, charge)
        });
        entries
    }

    /// The entries of keys that are there, by their numbers, with hash and keys.
    pub(crate) fn with_keys(&self, count: usize, keys: impl Iterator<Item = usize>) -> EntryMemory {
        let stride = self.shape.layout.stride;
        let memory = EntryMemory::zeroed(count * stride);
        for (i, index) in keys.take(count).enumerate() {
            // SAFETY: the key is there, and there is a place for each.
            unsafe { self.write_entry(index, memory.start().add(i * stride)) };
        }
        memory
    }

    /// Numbers of the keys of a partition that are there, in order, each with its place among all keys of the partition, of which those
    /// before `at` are left out.
    pub(crate) fn keys_from(&self, partition: usize, at: usize) -> impl Iterator<Item = (usize, usize)> + use<'_> {
        let keys = self.shape.runs.of(&(partition..partition + 1)).iter().flat_map(Run::keys);
        keys.enumerate().skip(at).filter(|&(_, index)| self.is_there(index))
    }

    /// Writes an entry with hash and key.
    ///
    /// # Safety
    /// The key with the number is there, and `place` is an entry of the layout, of zeros, that is ours to write.
    unsafe fn write_entry(&self, index: usize, place: *mut u8) {
        let layout = &*self.shape.layout;
        let fields = encoding::fields(layout);
        // SAFETY: promised by the caller; the fields are in both entries.
        unsafe {
            place.add(fields.start).copy_from_nonoverlapping(self.entry(index).add(fields.start), fields.len());
            write_key(layout, place, self.shape.range.first.wrapping_add(index as i64));
        }
    }

    /// Whether a key of the range is there.
    fn is_there(&self, index: usize) -> bool {
        debug_assert!(index < self.shape.keys(), "a key of the range");
        // SAFETY: the callers have numbers of keys of the range, and there is an entry for each.
        unsafe { is_there(&self.memory().entries, &self.shape.array, index) }
    }

    fn memory(&self) -> &ArrayMemory {
        self.memory.as_ref().expect("a partial has its memory until it is dropped")
    }

    /// The entry of a key, by its offsets.
    fn entry(&self, index: usize) -> *const u8 {
        entry(&self.memory().entries, &self.shape.array, index)
    }
}

impl Drop for ArrayRun {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take().filter(|_| self.kept) {
            self.shape.give_back(memory);
        }
    }
}

/// Writes hash and key of an entry whose other fields before the accumulators are zero.
///
/// # Safety
/// `entry` is an entry of a layout with a dense key.
unsafe fn write_key(layout: &EntryLayout, entry: *mut u8, key: i64) {
    let slot = layout.keys[0];
    // SAFETY: promised by the caller.
    unsafe {
        write(entry, 0, hash_finish(hash_word(HASH_SEED, key as u64)));
        match slot.phys {
            Phys::I8 => write(entry, slot.offset, key as i8),
            Phys::I16 => write(entry, slot.offset, key as i16),
            Phys::I32 => write(entry, slot.offset, key as i32),
            _ => write(entry, slot.offset, key),
        }
    }
}

#[cfg(test)]
mod tests;
