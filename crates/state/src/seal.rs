//! Moves entries of tables to memory of their own, in the order of partials (`sort.rs`).
//!
//! A table is read once from beginning to end. Each entry goes to a *bucket*, of which there are several in a partition: by
//! the highest bits of its word there. A bucket is small enough to be sorted in the cache. So an entry is moved once
//! between memories and twice within the cache, however many there are. Entries that are much larger than their words are
//! sorted by these first, and moved once.

use crate::entry;
use crate::memory::EntryMemory;
use crate::partition::{PartitionStarts, Partitioner};
use crate::sort::{Order, Sorted, sort_words, sorted};
use crate::work;
use millstream_abi::{EntryLayout, HASH_EMPTY};
use std::ops::Range;

/// About as many entries are meant to be in a bucket.
const BUCKET: usize = 12;
/// Most bits of the number of a bucket: with more than cache lines that a core has at hand, moving would be slower.
const MOST_BITS: u32 = 6;
/// Larger entries are moved once.
const LARGE_STRIDE: usize = 64;

/// Entries that were moved to memory of their own.
pub(crate) struct Moved {
    pub(crate) memory: EntryMemory,
    /// Where each partition begins.
    pub(crate) starts: PartitionStarts,
    /// Whether the keys are still where they were, with fresh accumulators.
    pub(crate) keeps: bool,
}

/// What a table does with its keys.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Keeping<'a> {
    /// Where it has kept some: offsets of counts, of which one is not 0 when a row has updated an entry since.
    pub(crate) counts: Option<[usize; 2]>,
    /// Where it may keep them: a fresh entry, and the least entries that there have to be.
    pub(crate) fresh: Option<(&'a [u8], usize)>,
}

/// Moves the entries of places, of which some may be empty, in the order of partials, those with equal keys in the order in
/// which they come. All places are empty then, or have the keys still if there are enough of them. `most` entries are to be
/// expected. An entry that has no more than a kept key stays where it is.
///
/// # Safety
/// They are entries of `layout`, whose strings are alive, and ours to move, or zeros. Those of a table that keeps keys are
/// numbers.
pub(crate) unsafe fn move_sorted(
    layout: &EntryLayout,
    (places, most): (impl Iterator<Item = *const u8>, usize),
    keeping: Keeping<'_>,
) -> Moved {
    let order = Order::of(layout);
    // SAFETY: promised by the caller; counts are fields of entries.
    let entries = unsafe {
        match keeping.counts {
            None => there(&order, places, most, |entry| entry::hash(entry) != HASH_EMPTY),
            Some([one, other]) => there(&order, places, most, |entry| {
                // An empty place still has what it had.
                let is_updated = entry::read::<u64>(entry, one) | entry::read::<u64>(entry, other) != 0;
                is_updated & (entry::hash(entry) != HASH_EMPTY)
            }),
        }
    };
    work::HASHED.add(entries.len());
    let fresh = keeping.fresh.filter(|&(_, least)| entries.len() >= least).map(|(fresh, _)| fresh);
    let memory = EntryMemory::unwritten(entries.len() * layout.stride);
    let relocation = Relocation { order, memory: &memory, fresh };
    // SAFETY: promised by the caller; there is a place for each.
    let starts = unsafe {
        match layout.stride > LARGE_STRIDE || entries.len() < layout.partitions().len() {
            true => relocation.move_once(entries),
            false => relocation.move_by_buckets(entries),
        }
    };
    Moved { memory, starts, keeps: fresh.is_some() }
}

/// The entries of places that are there.
///
/// # Safety
/// As for [`move_sorted`].
#[inline(always)]
unsafe fn there(
    order: &Order<'_>,
    places: impl Iterator<Item = *const u8>,
    most: usize,
    is_there: impl Fn(*const u8) -> bool,
) -> Vec<Sorted> {
    let mut entries: Vec<Sorted> = Vec::with_capacity(most + 1);
    for entry in places {
        if entries.len() == entries.capacity() {
            entries.reserve(entries.len());
        }
        // SAFETY: promised by the caller; there is room for one more. Which places of a table are empty cannot be predicted, so
        // there is no branch.
        unsafe {
            entries.as_mut_ptr().add(entries.len()).write(Sorted { word: order.word(entry), entry });
            entries.set_len(entries.len() + usize::from(is_there(entry)));
        }
    }
    entries
}

/// Where entries go to, and what they leave behind.
struct Relocation<'a> {
    order: Order<'a>,
    /// With a place for each.
    memory: &'a EntryMemory,
    /// What a kept key is left with, instead of nothing.
    fresh: Option<&'a [u8]>,
}

impl Relocation<'_> {
    /// # Safety
    /// As for [`move_sorted`].
    unsafe fn move_once(&self, entries: Vec<Sorted>) -> PartitionStarts {
        let (order, layout) = (&self.order, self.order.layout);
        // SAFETY: promised by the caller.
        let entries = unsafe { sorted(layout, entries.into_iter().map(|e| e.entry)) };
        let counts = entries.iter().enumerate().map(|(number, e)| {
            // SAFETY: promised by the caller.
            unsafe {
                let partition = order.partition(&Sorted { word: order.word(e.entry), ..*e });
                self.move_entry(e.entry, self.memory.start().add(number * layout.stride));
                (partition, 1)
            }
        });
        PartitionStarts::of_counts(counts)
    }

    /// # Safety
    /// As for [`move_sorted`].
    unsafe fn move_by_buckets(&self, entries: Vec<Sorted>) -> PartitionStarts {
        let (order, layout, partition_bits) = (&self.order, self.order.layout, self.order.partition_bits());
        let bits = (entries.len() / BUCKET).max(1).ilog2().clamp(partition_bits, MOST_BITS.max(partition_bits));
        let by_hash = Partitioner::in_bits(bits);
        let (bits, buckets, mut ends) = match order.is_by_hash() {
            true => count(bits, &entries, |e| by_hash.of_hash(e.word)),
            false => {
                let (least, most) =
                    entries.iter().fold((u64::MAX, 0), |(least, most), e| (least.min(e.word), most.max(e.word)));
                let width = u64::BITS - most.saturating_sub(least).leading_zeros();
                let of_word = (bits - partition_bits).min(width);
                // Two shifts, because one by 64 is none.
                let (first, second) = ((width - of_word) / 2, (width - of_word).div_ceil(2));
                count(partition_bits + of_word, &entries, |e| {
                    // SAFETY: promised by the caller.
                    let partition = unsafe { order.partition(e) };
                    partition << of_word | ((e.word - least) >> first >> second) as usize
                })
            }
        };
        let of_word = bits - partition_bits;
        ends.iter_mut().fold(0, |end, count| end + std::mem::replace(count, end));
        let place = |number: usize| self.memory.start().wrapping_add(number * layout.stride);
        for (e, &bucket) in entries.iter().zip(&buckets) {
            let end = &mut ends[usize::from(bucket)];
            // SAFETY: promised by the caller.
            unsafe { self.move_entry(e.entry, place(*end)) };
            *end += 1;
        }
        let mut sorter = Sorter {
            order,
            memory: self.memory,
            entries: Vec::new(),
            scratch: entries,
            before: EntryMemory::zeroed(0),
        };
        ends.iter().fold(0, |start, &end| {
            // SAFETY: written above, and nobody else has them.
            unsafe { sorter.sort(start..end) };
            end
        });
        let last = |partition: usize| ends[((partition + 1) << of_word) - 1];
        let counts = (0..layout.partitions().len()).scan(0, |start, partition| {
            let end = last(partition);
            Some((partition, end - std::mem::replace(start, end)))
        });
        PartitionStarts::of_counts(counts)
    }

    /// Moves an entry; its old place is empty then, or fresh.
    ///
    /// # Safety
    /// Both places are ours to write, and entries of the layout.
    #[inline]
    unsafe fn move_entry(&self, from: *const u8, into: *mut u8) {
        let layout = self.order.layout;
        // SAFETY: promised by the caller.
        unsafe {
            entry::copy(from, into, layout.stride);
            match self.fresh {
                None => entry::write(from.cast_mut(), 0, HASH_EMPTY),
                Some(fresh) => {
                    let first = layout.accumulators.first().map_or(layout.stride, |&(_, offset)| offset);
                    for (at, word) in (first..).step_by(8).zip(fresh[first..].as_chunks::<8>().0) {
                        entry::write(from.cast_mut(), at, *word);
                    }
                }
            }
        }
    }
}

/// The number of bits, each entry's bucket, and how many entries each bucket has.
#[inline(always)]
fn count(bits: u32, entries: &[Sorted], bucket: impl Fn(&Sorted) -> usize) -> (u32, Vec<u16>, Vec<usize>) {
    let mut counts = vec![0; 1 << bits];
    let buckets = entries.iter().map(|e| {
        let bucket = bucket(e);
        counts[bucket] += 1;
        bucket as u16
    });
    (bits, buckets.collect(), counts)
}

/// Sorts entries where they are, by ranges that the cache has room for.
struct Sorter<'a> {
    order: &'a Order<'a>,
    memory: &'a EntryMemory,
    entries: Vec<Sorted>,
    scratch: Vec<Sorted>,
    /// Copies of entries.
    before: EntryMemory,
}

impl Sorter<'_> {
    /// Puts entries of one partition in order; those with equal keys keep theirs.
    ///
    /// # Safety
    /// They are occupied entries of the layout, whose strings are alive, and ours to move.
    unsafe fn sort(&mut self, range: Range<usize>) {
        let stride = self.order.layout.stride;
        if range.len() < 2 {
            return;
        }
        let first = self.memory.start().wrapping_add(range.start * stride);
        self.entries.clear();
        self.entries.extend((0..range.len()).map(|i| {
            let entry = first.wrapping_add(i * stride).cast_const();
            // SAFETY: promised by the caller.
            Sorted { word: unsafe { self.order.word(entry) }, entry }
        }));
        if self.entries.is_sorted_by(|a, b| a.word < b.word) {
            return;
        }
        work::SORTED.add(range.len());
        sort_words(&mut self.entries, &mut self.scratch[..range.len()]);
        // SAFETY: promised by the caller.
        unsafe { self.order.sort_equal(&mut self.entries) };
        if self.before.bytes() < range.len() * stride {
            self.before = EntryMemory::unwritten((range.len() * stride).next_power_of_two());
        }
        let before = self.before.start();
        // SAFETY: both blocks have as many bytes, of which nobody reads the second meanwhile; the order has each entry
        // once.
        unsafe {
            before.copy_from_nonoverlapping(first, range.len() * stride);
            for (i, e) in self.entries.iter().enumerate() {
                entry::copy(before.add(e.entry.addr() - first.addr()), first.add(i * stride), stride);
            }
        }
    }
}
