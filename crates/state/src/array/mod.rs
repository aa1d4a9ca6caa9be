//! Arrays: the entries of a range of keys, without hash and key (`millstream_abi::ArrayLayout`). Finding an entry is a
//! subtraction, so is finding the key of one, and two arrays are merged as columns of numbers are added.
//!
//! ```text
//! Region  all keys of a range, in order          the dense region of a table, and of the partial that it becomes
//! Grid    the keys of some partitions, in order  what partials are merged in
//! ```
//!
//! A key is there when the mark of its entry is not 0. Entries of keys that are not there are fresh, so that merging them
//! changes nothing. The order of results is that of all entries (`sort.rs`): by partition, then by key. A partition has the
//! *blocks* of 64 keys that [`Partitioner::of_key`] gives it, one in each group of as many blocks as there are partitions.

mod encoding;
mod grid;
mod region;
#[cfg(test)]
mod tests;

use crate::accumulator::{self, Strided};
use crate::arena::Arena;
use crate::entry::{self, read, write};
use crate::memory::{EntryMemory, LINE};
use crate::partition::{BLOCK_BITS, Partitioner};
pub(crate) use encoding::ArrayBlock;
pub(crate) use grid::Grid;
use millstream_abi::{ArrayLayout, EntryLayout, HASH_SEED, KeyRange, Phys, hash_finish, hash_word};
pub(crate) use region::{Region, keys_of_mask};
use std::ops::Range;
use std::sync::Arc;

/// Keys of a block.
pub(crate) const BLOCK: usize = 1 << BLOCK_BITS;

/// What arrays of a layout have in common.
#[derive(Debug)]
pub(crate) struct ArrayShape {
    pub(crate) layout: Arc<EntryLayout>,
    pub(crate) array: ArrayLayout,
    /// A fresh entry from its start on, if that is not zero.
    fresh: Option<Box<[u8]>>,
}

/// Keys that follow each other in one partition: those of a range in one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyBlock {
    /// The lowest key.
    pub(crate) first: i64,
    pub(crate) len: usize,
}

impl Partitioner {
    /// The blocks of a partition that have keys of a range, in order.
    pub(crate) fn blocks(self, range: KeyRange, partition: usize) -> impl Iterator<Item = KeyBlock> + Clone {
        let (first, last, bits) = (range.first, range.last(), self.group_bits());
        (first >> bits..=last >> bits).filter_map(move |group| {
            let start = (group << bits) | ((self.block_in_group(group, partition) as i64) << BLOCK_BITS);
            let (from, to) = (start.max(first), (start + (BLOCK as i64 - 1)).min(last));
            (from <= to).then(|| KeyBlock { first: from, len: (to - from) as usize + 1 })
        })
    }

    /// The blocks of some partitions that have keys of a range, with the partition: by key, as they are in the memory of a
    /// region.
    pub(crate) fn blocks_by_key(
        self,
        range: KeyRange,
        partitions: Range<usize>,
    ) -> impl Iterator<Item = (usize, KeyBlock)> {
        // Of one of thousands not all blocks are looked at.
        let (only, several) = match partitions.len() {
            1 => (Some(partitions.start), None),
            _ => (None, Some(partitions)),
        };
        let of_one = only
            .into_iter()
            .flat_map(move |partition| self.blocks(range, partition).map(move |block| (partition, block)));
        let (first, last) = (range.first, range.last());
        let of_several = several.into_iter().flat_map(move |partitions| {
            (first >> BLOCK_BITS..=last >> BLOCK_BITS).filter_map(move |number| {
                let (partition, start) = (self.of_key(number << BLOCK_BITS), number << BLOCK_BITS);
                let (from, to) = (start.max(first), (start + (BLOCK as i64 - 1)).min(last));
                let block = KeyBlock { first: from, len: (to - from) as usize + 1 };
                partitions.contains(&partition).then_some((partition, block))
            })
        });
        of_one.chain(of_several)
    }

    /// Those of some partitions that have keys of a range, or all of them where the range has as many blocks.
    pub(crate) fn met(self, range: KeyRange, partitions: &Range<usize>) -> Vec<usize> {
        let (first, last) = (range.first >> BLOCK_BITS, range.last() >> BLOCK_BITS);
        if last - first >= partitions.len() as i64 {
            return partitions.clone().collect();
        }
        let of_blocks = (first..=last).map(|number| self.of_key(number << BLOCK_BITS));
        let mut met: Vec<usize> = of_blocks.filter(|partition| partitions.contains(partition)).collect();
        met.sort_unstable();
        met.dedup();
        met
    }
}

/// The range in which arrays are merged: that of all, but for those whose keys are far from the others, with which it would be
/// mostly empty.
pub(crate) fn common_range(ranges: &[KeyRange]) -> Option<KeyRange> {
    let mut order: Vec<KeyRange> = ranges.to_vec();
    order.sort_by_key(|range| std::cmp::Reverse(range.len));
    let (mut common, mut keys) = (*order.first()?, 0u64);
    for range in order {
        let (union, all) = (common.union(range), keys.saturating_add(range.len));
        if is_worth(union, all) {
            (common, keys) = (union, all);
        }
    }
    Some(common)
}

/// Whether a range is short enough for arrays that have `keys` keys together.
pub(crate) fn is_worth(range: KeyRange, keys: u64) -> bool {
    /// An array may be as many times as long as what is in it, and as many keys longer.
    const TIMES: u64 = 2;
    const MORE: u64 = 4096;
    range.len <= keys.saturating_mul(TIMES).saturating_add(MORE)
}

impl ArrayShape {
    /// Of arrays of a layout, if there are any.
    pub(crate) fn of(layout: &Arc<EntryLayout>) -> Option<Arc<ArrayShape>> {
        let array = layout.array()?;
        let template = entry::template(layout);
        let mut fresh = vec![0; array.stride].into_boxed_slice();
        let end = template.len().min(array.start + array.stride);
        fresh[..end - array.start].copy_from_slice(&template[array.start..end]);
        let fresh = fresh.iter().any(|&byte| byte != 0).then_some(fresh);
        Some(Arc::new(ArrayShape { layout: Arc::clone(layout), array, fresh }))
    }

    /// Whether an array of a range is worth its memory for `keys` keys that are there, which as entries would take more for each.
    pub(crate) fn is_worth(&self, range: KeyRange, keys: u64) -> bool {
        /// An array may take as many times the memory of entries.
        const TIMES: u64 = 4;
        let of_entries = keys.saturating_mul(self.layout.stride as u64).saturating_mul(TIMES);
        is_worth(range, keys) || range.len.saturating_mul(self.array.stride as u64) <= of_entries
    }

    /// Which keys are in which partition.
    pub(crate) fn partitioner(&self) -> Partitioner {
        Partitioner::of(&self.layout)
    }

    /// Bytes of an array of so many keys, in memory of its own.
    pub(crate) fn bytes(&self, keys: usize) -> usize {
        self.lead() + self.array.bytes(keys)
    }

    /// Bytes before an array, so that its first field begins a line of the cache where the memory does: entries of 32 or 64 bytes
    /// are in one line each.
    pub(crate) fn lead(&self) -> usize {
        self.array.start.next_multiple_of(LINE) - self.array.start
    }

    /// Makes zeroed entries fresh.
    ///
    /// # Safety
    /// From `first` on are `count` entries of an array, which are ours to write.
    unsafe fn make_fresh(&self, first: *mut u8, count: usize) {
        let Some(fresh) = self.fresh.as_ref().filter(|_| count > 0) else { return };
        // SAFETY: promised by the caller; each step copies what is there to what is behind it.
        unsafe {
            let first = first.add(self.array.start);
            first.copy_from_nonoverlapping(fresh.as_ptr(), fresh.len());
            let mut done = 1;
            while done < count {
                let more = done.min(count - done);
                first.add(done * self.array.stride).copy_from_nonoverlapping(first, more * self.array.stride);
                done += more;
            }
        }
    }

    /// Copies entries.
    ///
    /// # Safety
    /// Both are `count` entries of arrays, not the same, and those of `into` are ours to write.
    pub(crate) unsafe fn copy(&self, into: *mut u8, from: *const u8, count: usize) {
        let (start, bytes) = (self.array.start, count * self.array.stride);
        // SAFETY: promised by the caller.
        unsafe { into.add(start).copy_from_nonoverlapping(from.add(start), bytes) };
    }

    /// Merges entries into others.
    ///
    /// # Safety
    /// Both are `count` entries of arrays; nobody else uses `into`.
    pub(crate) unsafe fn merge(&self, into: *mut u8, from: *const u8, count: usize) {
        // SAFETY: promised by the caller.
        unsafe { self.merge_marks_by(into, from, count, |a, b| a | b) };
    }

    /// The same, where marks that are no counts are to say how many partials have a key.
    ///
    /// # Safety
    /// As for [`ArrayShape::merge`].
    pub(crate) unsafe fn add(&self, into: *mut u8, from: *const u8, count: usize) {
        // SAFETY: promised by the caller.
        unsafe { self.merge_marks_by(into, from, count, u64::wrapping_add) };
    }

    /// Undoes [`ArrayShape::add`], for accumulators that are invertible.
    ///
    /// # Safety
    /// As for [`ArrayShape::merge`].
    pub(crate) unsafe fn subtract(&self, into: *mut u8, from: *const u8, count: usize) {
        let entries = Strided { stride: self.array.stride, count };
        // SAFETY: promised by the caller; the mark is a word.
        unsafe {
            for &(component, offset) in &self.layout.accumulators {
                accumulator::subtract_entries(component, offset, into, from, entries);
            }
            if self.array.sets_mark {
                accumulator::combine(self.array.mark, into, from, entries, u64::wrapping_sub);
            }
        }
    }

    #[inline(always)]
    unsafe fn merge_marks_by(&self, into: *mut u8, from: *const u8, count: usize, marks: impl Fn(u64, u64) -> u64) {
        let entries = Strided { stride: self.array.stride, count };
        // SAFETY: promised by the callers; accumulators are numbers, and the mark is a word.
        unsafe {
            for &(component, offset) in &self.layout.accumulators {
                accumulator::merge_entries(component, offset, into, from, entries);
            }
            if self.array.sets_mark {
                accumulator::combine(self.array.mark, into, from, entries, marks);
            }
        }
    }

    /// Merges an entry with hash and key into that of an array, which says by its mark that `marked` partials have it now.
    ///
    /// # Safety
    /// Both are entries of the layout and an array of it; nobody else uses `into`.
    pub(crate) unsafe fn merge_entry(&self, into: *mut u8, from: *const u8, marked: impl FnOnce(u64) -> u64) {
        // SAFETY: promised by the caller.
        unsafe {
            // Numbers, and so no lists.
            accumulator::merge_all(&self.layout, into, from, &mut Arena::default());
            if self.array.sets_mark {
                write(into, self.array.mark, marked(read(into, self.array.mark)));
            }
        }
    }

    /// Undoes the merge of an entry with hash and key into that of an array that counts partials, for accumulators that are
    /// invertible.
    ///
    /// # Safety
    /// As for [`ArrayShape::merge_entry`].
    pub(crate) unsafe fn subtract_entry(&self, into: *mut u8, from: *const u8) {
        // SAFETY: promised by the caller.
        unsafe {
            accumulator::subtract_all(&self.layout, into, from);
            if self.array.sets_mark {
                write(into, self.array.mark, read::<u64>(into, self.array.mark) - 1);
            }
        }
    }

    /// Copies the accumulators of an entry: of an array, or with hash and key.
    ///
    /// # Safety
    /// Both have the accumulators of the layout, and `into` is ours to write.
    pub(crate) unsafe fn copy_fields(&self, into: *mut u8, from: *const u8) {
        let fields = fields(&self.layout);
        // SAFETY: promised by the caller; the fields are in both entries.
        unsafe { into.add(fields.start).copy_from_nonoverlapping(from.add(fields.start), fields.len()) };
    }

    /// Whether the key of an entry is there.
    ///
    /// # Safety
    /// It is one of an array.
    #[inline]
    pub(crate) unsafe fn is_there(&self, entry: *const u8) -> bool {
        // SAFETY: promised by the caller.
        unsafe { read::<u64>(entry, self.array.mark) | read::<u64>(entry, self.array.other_mark) != 0 }
    }

    /// Which of entries that follow each other are there: bit *i* is for number *i*.
    ///
    /// # Safety
    /// From `first` on are `count` entries of an array, at most [`BLOCK`].
    #[inline]
    pub(crate) unsafe fn mask(&self, first: *const u8, count: usize) -> u64 {
        let (stride, mark, other) = (self.array.stride, self.array.mark, self.array.other_mark);
        let mut flags = [0u8; BLOCK];
        // SAFETY: promised by the caller.
        let is_there =
            |i: usize| unsafe { read::<u64>(first, mark + i * stride) | read::<u64>(first, other + i * stride) != 0 };
        match (stride, count) {
            // What the compiler knows it does with vectors.
            (8, BLOCK) => (0..BLOCK).for_each(|i| {
                // SAFETY: promised by the caller.
                flags[i] = unsafe { read::<u64>(first, mark + i * 8) != 0 } as u8;
            }),
            _ => (0..count).for_each(|i| flags[i] = is_there(i) as u8),
        }
        let words = flags.chunks_exact(8).enumerate();
        words.fold(0, |mask, (i, eight)| {
            let eight = u64::from_le_bytes(eight.try_into().expect("chunks of eight bytes"));
            // Each byte, 0 or 1, becomes a bit of the highest one.
            mask | (eight.wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * i)
        })
    }

    /// An entry of the layout with hash and key, and nothing else.
    pub(crate) fn only_key(&self, key: i64) -> EntryMemory {
        let memory = EntryMemory::zeroed(self.layout.stride);
        // SAFETY: an entry of zeros, which is ours.
        unsafe { write_key(&self.layout, memory.start(), key) };
        memory
    }

    /// Writes the entry of a key with hash and key.
    ///
    /// # Safety
    /// `from` is an entry of an array, and `place` one of the layout, of zeros, that is ours to write.
    pub(crate) unsafe fn write_entry(&self, from: *const u8, key: i64, place: *mut u8) {
        // SAFETY: promised by the caller.
        unsafe {
            self.copy_fields(place, from);
            write_key(&self.layout, place, key);
        }
    }
}

/// The bytes of the accumulators within an entry.
fn fields(layout: &EntryLayout) -> Range<usize> {
    let ends = layout.accumulators.first().zip(layout.accumulators.last());
    ends.map_or(0..0, |(&(_, first), &(last, offset))| first..offset + last.size())
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
