//! Partials: the sealed, immutable form of tables (design section 1, idea 1).
//!
//! A partial holds what its table did: the entries of the hash part, in order, and the dense region, if that is an array, as
//! it is. No entry has a key of the region, but perhaps NULL.

mod blocks;
mod compact;
mod masked;
mod repartition;

use crate::arena::Arena;
use crate::array::Region;
use crate::budget::{Charge, MemoryBudget, MemoryClass};
use crate::dense::{self, key_of_entry};
use crate::encoding::EntryFields;
use crate::entry;
use crate::memory::EntryMemory;
use crate::merge::merge_entries;
use crate::owned::OwnedEntries;
use crate::partition::{PartitionStarts, Partitioner};
use crate::seal::Moved;
use crate::table::{SPARSE, TableHint};
use millstream_abi::{Accumulator, EntryLayout, HASH_EMPTY, KeyRange};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// What tables of one window slice had, immutable. Entries are sorted by partition, hash or dense key (`sort.rs`), so that
/// partitions follow each other and merging goes through several partials from beginning to end; with the strings they point
/// to.
#[derive(Debug)]
pub struct Partial {
    /// Of the entries.
    starts: PartitionStarts,
    is_distinct: bool,
    entries: Entries,
    array: Option<Sealed>,
    /// What is far of its sums of doubles: of the same keys, which each of these may have.
    far: Vec<Arc<Partial>>,
    /// The same without an array, for whoever cannot do with one.
    spread: OnceLock<Box<Partial>>,
    /// Who has the strings and lists of the entries, if they are copies (`masked`).
    original: Option<Arc<Partial>>,
    /// The same masked, of numbers alone.
    masked: OnceLock<Arc<Partial>>,
    /// Held as long as the partial is.
    charge: Option<Charge>,
}

/// A region, of which keys are there.
#[derive(Debug)]
struct Sealed {
    region: Region,
    /// Of the keys that are there.
    starts: PartitionStarts,
    /// Blocks with keys are within this range.
    range: KeyRange,
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

impl Partial {
    /// Of entries that were moved out of a table.
    ///
    /// # Safety
    /// They are entries of `layout` that nobody else has, whose long strings live in `arena`. Their objects belong to the
    /// partial from now on.
    pub(crate) unsafe fn of_moved(
        layout: &Arc<EntryLayout>,
        Moved { memory, starts, .. }: Moved,
        arena: Arena,
        object_bytes: usize,
    ) -> Partial {
        // SAFETY: promised by the caller.
        let entries = unsafe { OwnedEntries::new(layout, memory, starts.len()) };
        Partial::of_entries(Entries { entries, arena, object_bytes }, starts, true)
    }

    fn of_entries(entries: Entries, starts: PartitionStarts, is_distinct: bool) -> Partial {
        Partial {
            starts,
            is_distinct,
            entries,
            array: None,
            far: Vec::new(),
            spread: OnceLock::new(),
            original: None,
            masked: OnceLock::new(),
            charge: None,
        }
    }

    /// The same with a region, which has no key of an entry but NULL.
    pub(crate) fn with_region(self, region: Option<Region>) -> Partial {
        let sealed = |region: Region| region.extent().map(|(starts, range)| Sealed { region, starts, range });
        Partial { array: region.and_then(sealed), ..self }
    }

    /// The same with what is far of its sums.
    pub(crate) fn with_far(self, far: Vec<Arc<Partial>>) -> Partial {
        Partial { far, ..self }
    }

    /// What is far of its sums.
    pub(crate) fn far(&self) -> &[Arc<Partial>] {
        &self.far
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
        let of_entries = hashes.filter(|&hash| std::mem::replace(&mut last, hash) != hash).count();
        of_entries + self.there_of(partitions)
    }

    /// Whether an array would have all of its keys, of which there are `keys` different ones.
    pub fn suits_array(&self, keys: usize) -> bool {
        let layout = self.layout();
        if !layout.allows_arrays() || self.has_array() {
            return self.has_array();
        }
        // SAFETY: entries of the layout. They are in the order of their keys within a partition.
        let key = |number: usize| unsafe { key_of_entry(layout, self.entry(number)) };
        let ends = self.starts.ranges().flat_map(|(_, range)| [key(range.start), key(range.end - 1)]).flatten();
        let (least, most) = ends.fold((i64::MAX, i64::MIN), |(least, most), key| (least.min(key), most.max(key)));
        let reach = (2 * dense::REACH).saturating_mul(keys);
        keys >= dense::MIN_KEYS && least <= most && most.wrapping_sub(least) as u64 <= reach as u64
    }

    /// The sum of a component over a range of partitions, which is [`Accumulator::Count`]: rows, if it counts all.
    ///
    /// # Panics
    /// When the component is another one.
    pub fn count_of(&self, partitions: &Range<usize>, component: usize) -> u64 {
        let (accumulator, offset) = self.layout().accumulators[component];
        assert_eq!(accumulator, Accumulator::Count, "only counts are summed up");
        // SAFETY: entries of the layout, which has a count there; those of keys that are not there are 0.
        let count = |entry: *const u8| unsafe { entry::read::<u64>(entry, offset) };
        let of_region = |region: &Region| -> u64 {
            let blocks = region.blocks_of(partitions);
            blocks.map(|block| (0..block.len as i64).map(|i| count(region.entry(block.first + i))).sum::<u64>()).sum()
        };
        self.entries_of(partitions).map(count).sum::<u64>() + self.region().map_or(0, of_region)
    }

    /// What a table for similar keys should begin with.
    pub fn hint(&self) -> TableHint {
        let there = self.there_of(&self.partitions());
        let range = self.array.as_ref().map(|sealed| sealed.range);
        match range.filter(|range| there * SPARSE >= range.len as usize) {
            Some(range) => TableHint { keys: self.listed(), range: Some(range), is_known: true },
            None => TableHint { keys: self.len(), range: None, is_known: true },
        }
    }

    /// The same, whose memory counts in the budget of a table's charge, if that is counted.
    pub(crate) fn charged(self, table: Option<&Charge>) -> Partial {
        let charge = table.map(|charge| charge.another(MemoryClass::Partials, self.bytes()));
        Partial { charge, ..self }
    }

    /// The same, whose memory counts as that of another one which it is a part of.
    fn uncounted(self) -> Partial {
        Partial { charge: None, ..self }
    }

    /// The same, whose memory counts.
    fn counted(self, budget: &Arc<MemoryBudget>) -> Partial {
        Partial { charge: Some(Charge::new(budget, MemoryClass::Partials, self.bytes())), ..self }
    }

    /// Whether it has an array.
    pub fn has_array(&self) -> bool {
        self.array.is_some()
    }

    /// The array, if it has one.
    pub(crate) fn region(&self) -> Option<&Region> {
        self.array.as_ref().map(|sealed| &sealed.region)
    }

    /// The layout of entries.
    pub fn layout(&self) -> &Arc<EntryLayout> {
        self.entries.entries.layout()
    }

    /// All partitions.
    pub fn partitions(&self) -> Range<usize> {
        self.layout().partitions()
    }

    /// The partitions that have entries or keys of the array, ascending.
    pub fn filled_partitions(&self) -> Vec<usize> {
        let of_array = self.array.iter().flat_map(|sealed| sealed.starts.filled());
        let mut filled: Vec<usize> = self.starts.filled().chain(of_array).collect();
        filled.sort_unstable();
        filled.dedup();
        filled
    }

    /// Number of entries, also those of arrays that are there: at least that of the keys.
    pub fn len(&self) -> usize {
        self.len_of(&self.partitions())
    }

    /// Number of entries outside of the array.
    fn listed(&self) -> usize {
        self.starts.len()
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
        let Entries { entries, arena, object_bytes } = &self.entries;
        let far: usize = self.far.iter().map(|far| far.bytes()).sum();
        // One that others have counts there.
        let original = self.original.as_ref().filter(|original| Arc::strong_count(original) == 1);
        let original = original.map_or(0, |original| original.bytes());
        entries.bytes() + arena.bytes() + object_bytes + self.region().map_or(0, Region::bytes) + far + original
    }

    /// Number of entries in a range of partitions, as [`Partial::len`].
    pub fn len_of(&self, partitions: &Range<usize>) -> usize {
        self.starts.range(partitions).len() + self.there_of(partitions)
    }

    /// Number of entries outside of the array, in a range of partitions.
    pub(crate) fn listed_of(&self, partitions: &Range<usize>) -> usize {
        self.starts.range(partitions).len()
    }

    /// Number of keys of the array that are there, in a range of partitions.
    pub(crate) fn there_of(&self, partitions: &Range<usize>) -> usize {
        self.array.as_ref().map_or(0, |sealed| sealed.starts.range(partitions).len())
    }

    /// Entries of a range of partitions outside of the array, alive as long as the partial.
    pub(crate) fn entries_of(&self, partitions: &Range<usize>) -> impl Iterator<Item = *const u8> + use<'_> {
        self.entries.entries.range(self.starts.range(partitions)).map(<*mut u8>::cast_const)
    }

    /// Entry `i` of those outside of the array, alive as long as the partial.
    ///
    /// # Panics
    /// When there are not more than `i`.
    pub(crate) fn entry(&self, i: usize) -> *const u8 {
        assert!(i < self.listed(), "there are {} entries", self.listed());
        self.entries.entries.place(i)
    }

    /// The same with all keys in entries: itself, if it has no array, else made once. It lives as long.
    pub(crate) fn spread(&self) -> &Partial {
        let Some(Sealed { region, .. }) = &self.array else { return self };
        self.spread.get_or_init(|| {
            let (memory, count) = region.with_keys(region.blocks_of(&self.partitions()));
            // SAFETY: `count` entries, which are numbers.
            let made = unsafe { OwnedEntries::new(self.layout(), memory, count) };
            let entries = made.range(0..count).map(<*mut u8>::cast_const).chain(self.entries_of(&self.partitions()));
            // SAFETY: occupied entries of the layout, which are numbers, each with another key.
            let (rows, _) = unsafe { merge_entries(self.layout(), entries) };
            // SAFETY: as above.
            let spread = unsafe { Partial::of_sorted(self.layout(), &rows) };
            Box::new(spread.charged(self.charge.as_ref()))
        })
    }

    /// Entries of a range of partitions, but for keys of the array that are in a range: of these the array has the entries.
    pub(crate) fn entries_beside(
        &self,
        range: Option<KeyRange>,
        partitions: &Range<usize>,
    ) -> impl Iterator<Item = *const u8> + use<'_> {
        let is_far = |region: &&Region| range.is_none_or(|range| !range.contains(region.range()));
        let far = self.region().filter(is_far).map(|region| region.range());
        let outside = far.map(|of_array| {
            let layout = self.layout();
            self.spread().entries_of(partitions).filter(move |&entry| {
                // SAFETY: an entry of the layout.
                let key = unsafe { key_of_entry(layout, entry) };
                let is_outside =
                    |key| of_array.index(key).is_some() && range.is_none_or(|range| range.index(key).is_none());
                key.is_some_and(is_outside)
            })
        });
        self.entries_of(partitions).chain(outside.into_iter().flatten())
    }

    /// [`Partial::spread`] of a partial that is not needed any more.
    pub(crate) fn without_array(mut self) -> Partial {
        if !self.has_array() {
            return self;
        }
        self.spread();
        let spread = *self.spread.take().expect("it was just made");
        spread.with_far(std::mem::take(&mut self.far))
    }

    /// A partial with copies of sorted entries of numbers, each of another key.
    ///
    /// # Safety
    /// They are occupied entries of the layout.
    unsafe fn of_sorted(layout: &Arc<EntryLayout>, rows: &[*const u8]) -> Partial {
        let memory = EntryMemory::unwritten(rows.len() * layout.stride);
        // SAFETY: there are none yet.
        let mut entries = unsafe { OwnedEntries::new(layout, memory, 0) };
        let partitioner = Partitioner::of(layout);
        let counts = rows.iter().map(|&row| {
            // SAFETY: promised by the caller; there is a place for each.
            unsafe {
                entries.push(row);
                (partitioner.of_entry(layout, row), 1)
            }
        });
        let starts = PartitionStarts::of_counts(counts);
        Partial::of_entries(Entries { entries, arena: Arena::default(), object_bytes: 0 }, starts, true)
    }
}
