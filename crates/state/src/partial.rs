//! Partials: the sealed, immutable form of tables (design section 1, idea 1).
//!
//! A partial holds entries in order, or the array of an array table ([`ArrayRun`]), which is the same with less: its entries
//! are given keys when someone needs them.

mod blocks;
mod compact;

use crate::arena::Arena;
use crate::array::ArrayRun;
use crate::budget::{Charge, MemoryBudget, MemoryClass};
use crate::encoding::EntryFields;
use crate::entry;
use crate::memory::{EntryMemory, OwnedEntries};
use crate::partition::{PARTITIONS, partition_of_entry};
use crate::sort::sorted;
use millstream_abi::{Accumulator, EntryLayout, HASH_EMPTY};
use std::ops::Range;
use std::sync::Arc;

/// Immutable entries of one window slice, sorted by partition, hash or dense key (`sort.rs`), so that partitions follow
/// each other and merging goes through several partials from beginning to end; with the strings they point to.
#[derive(Debug)]
pub struct Partial {
    /// Partition *p* holds entries `starts[p]..starts[p + 1]`.
    starts: [usize; PARTITIONS + 1],
    is_distinct: bool,
    form: Form,
    /// Held as long as the partial is.
    _charge: Option<Charge>,
}

#[derive(Debug)]
enum Form {
    Entries(Entries),
    Array(Box<ArrayRun>),
}

/// Sorted entries with what they own.
#[derive(Debug)]
struct Entries {
    entries: OwnedEntries,
    /// Owns the long strings; never read through this field.
    arena: Arena,
    /// Bytes of the objects.
    object_bytes: usize,
}

// SAFETY: entries own what they point to; all methods only read, and objects are never changed while a partial has them.
unsafe impl Send for Partial {}
// SAFETY: as above.
unsafe impl Sync for Partial {}

/// Puts entries of one partition in order; those with equal keys keep theirs.
///
/// # Safety
/// They are occupied entries of `layout`, whose strings are alive, and ours to move.
unsafe fn sort_in_place(layout: &EntryLayout, memory: &EntryMemory, range: Range<usize>) {
    let stride = layout.stride;
    let first = memory.start().wrapping_add(range.start * stride);
    let places = (0..range.len()).map(|i| first.wrapping_add(i * stride).cast_const());
    // SAFETY: promised by the caller.
    let order = unsafe { sorted(layout, places) };
    if order.is_sorted_by_key(|e| e.entry) {
        return;
    }
    let before = EntryMemory::unwritten(range.len() * stride);
    // SAFETY: both blocks have as many bytes, of which nobody reads the second meanwhile; the order has each entry once.
    unsafe {
        before.start().copy_from_nonoverlapping(first, range.len() * stride);
        for (i, e) in order.iter().enumerate() {
            let from = before.start().add(e.entry.addr() - first.addr());
            entry::copy(from, first.add(i * stride), stride);
        }
    }
}

impl Partial {
    /// Moves entries out of a table: their old places are empty then.
    ///
    /// # Safety
    /// All are occupied entries of `layout` that nobody else uses, whose long strings live in `arena`. Their objects belong
    /// to the partial from now on.
    pub(crate) unsafe fn of_moved(
        layout: Arc<EntryLayout>,
        from: impl Iterator<Item = *const u8>,
        arena: Arena,
        object_bytes: usize,
    ) -> Partial {
        let (by_key, stride) = (layout.allows_arrays(), layout.stride);
        let mut starts = [0; PARTITIONS + 1];
        let (mut places, mut partitions) = (Vec::new(), Vec::new());
        for entry in from {
            // SAFETY: promised by the caller.
            let partition = unsafe { partition_of_entry(&layout, by_key, entry) };
            starts[partition + 1] += 1;
            places.push(entry);
            partitions.push(partition as u8);
        }
        (0..PARTITIONS).for_each(|partition| starts[partition + 1] += starts[partition]);
        let memory = EntryMemory::unwritten(places.len() * stride);
        // In the order of the table, so that it is read from beginning to end; what is sorted then is a partition at a time,
        // which the cache has room for.
        let mut ends = starts;
        for (entry, partition) in places.into_iter().zip(partitions) {
            let end = &mut ends[usize::from(partition)];
            // SAFETY: there are as many places as entries; the old place is ours to write.
            unsafe {
                entry::copy(entry, memory.start().add(*end * stride), stride);
                entry::write(entry.cast_mut(), 0, HASH_EMPTY);
            }
            *end += 1;
        }
        for partition in 0..PARTITIONS {
            // SAFETY: written above, and nobody else has them.
            unsafe { sort_in_place(&layout, &memory, starts[partition]..starts[partition + 1]) };
        }
        // SAFETY: written above; promised by the caller.
        let entries = unsafe { OwnedEntries::new(&layout, memory, starts[PARTITIONS]) };
        Partial::of_entries(Entries { entries, arena, object_bytes }, starts, true)
    }

    fn of_entries(entries: Entries, starts: [usize; PARTITIONS + 1], is_distinct: bool) -> Partial {
        Partial { starts, is_distinct, form: Form::Entries(entries), _charge: None }
    }

    /// What an array table has become.
    pub(crate) fn of_array(array: ArrayRun) -> Partial {
        Partial { starts: array.starts(), is_distinct: true, form: Form::Array(Box::new(array)), _charge: None }
    }

    /// The same, of which it is not known that each key has one entry.
    pub(crate) fn repeating(self) -> Partial {
        Partial { is_distinct: false, ..self }
    }

    /// Whether each key has one entry, as in the partials of tables of one worker.
    pub fn is_distinct(&self) -> bool {
        self.is_distinct
    }

    /// Number of different keys in a range of partitions, as far as hashes tell: those of equal keys are neighbours. Linear in
    /// the number of entries, unless each is known to have a different key.
    pub fn keys_of(&self, partitions: &Range<usize>) -> usize {
        if self.is_distinct() {
            return self.len_of(partitions);
        }
        let mut last = HASH_EMPTY;
        // SAFETY: entries of the partial are occupied, and each starts with its hash.
        let hashes = self.entries_of(partitions).map(|entry| unsafe { entry::hash(entry) });
        hashes.filter(|&hash| std::mem::replace(&mut last, hash) != hash).count()
    }

    /// The sum of a component over a range of partitions, which is [`Accumulator::Count`]: rows, if it counts all.
    ///
    /// # Panics
    /// When the component is another one.
    pub fn count_of(&self, partitions: &Range<usize>, component: usize) -> u64 {
        let (accumulator, offset) = self.layout().accumulators[component];
        assert_eq!(accumulator, Accumulator::Count, "only counts are summed up");
        // SAFETY: entries of the layout, which has a count there.
        self.entries_of(partitions).map(|entry| unsafe { entry::read::<u64>(entry, offset) }).sum()
    }

    /// The same, whose memory counts in the budget of a table's charge, if that is counted.
    pub(crate) fn charged(self, table: Option<&Charge>) -> Partial {
        let _charge = table.map(|charge| charge.another(MemoryClass::Partials, self.bytes()));
        Partial { _charge, ..self }
    }

    /// The same, whose memory counts.
    fn counted(self, budget: &Arc<MemoryBudget>) -> Partial {
        Partial { _charge: Some(Charge::new(budget, MemoryClass::Partials, self.bytes())), ..self }
    }

    /// Whether it is that of an array table, or of several.
    pub fn is_array(&self) -> bool {
        self.array().is_some()
    }

    /// The array, if that is what it is.
    pub(crate) fn array(&self) -> Option<&ArrayRun> {
        match &self.form {
            Form::Entries(..) => None,
            Form::Array(array) => Some(array),
        }
    }

    /// The layout of entries.
    pub fn layout(&self) -> &Arc<EntryLayout> {
        match &self.form {
            Form::Entries(entries) => entries.entries.layout(),
            Form::Array(array) => array.layout(),
        }
    }

    /// Number of entries: at least that of the keys.
    pub fn len(&self) -> usize {
        self.starts[PARTITIONS]
    }

    /// Whether it has no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether entries have strings or objects, whose size is not that of a number.
    pub fn has_variable_parts(&self) -> bool {
        !EntryFields::new(self.layout()).are_numbers()
    }

    /// Bytes of memory that it owns.
    pub fn bytes(&self) -> usize {
        match &self.form {
            Form::Entries(Entries { entries, arena, object_bytes }) => entries.bytes() + arena.bytes() + object_bytes,
            Form::Array(array) => array.bytes(),
        }
    }

    /// Number of entries in a range of partitions.
    pub fn len_of(&self, partitions: &Range<usize>) -> usize {
        self.starts[partitions.end] - self.starts[partitions.start]
    }

    /// Entries of a range of partitions, alive as long as the partial.
    pub(crate) fn entries_of(&self, partitions: &Range<usize>) -> impl Iterator<Item = *const u8> + use<'_> {
        let range = self.starts[partitions.start]..self.starts[partitions.end];
        self.entries().range(range).map(<*mut u8>::cast_const)
    }

    /// Entry `i`, alive as long as the partial.
    ///
    /// # Panics
    /// When there are not more than `i`.
    pub(crate) fn entry(&self, i: usize) -> *const u8 {
        assert!(i < self.len(), "there are {} entries", self.len());
        self.entries().place(i)
    }

    fn entries(&self) -> &OwnedEntries {
        match &self.form {
            Form::Entries(entries) => &entries.entries,
            Form::Array(array) => array.entries(self.len()),
        }
    }
}
