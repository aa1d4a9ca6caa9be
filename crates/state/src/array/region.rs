//! All keys of a range, one after the other.

use super::{ArrayShape, BLOCK, KeyBlock};
use crate::memory::EntryMemory;
use crate::partition::PartitionStarts;
use millstream_abi::KeyRange;
use std::ops::Range;
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub(crate) struct Region {
    shape: Arc<ArrayShape>,
    range: KeyRange,
    memory: EntryMemory,
}

impl Region {
    /// A region in which no key is there.
    ///
    /// # Panics
    /// When the range is too long for memory.
    pub(crate) fn fresh(shape: &Arc<ArrayShape>, range: KeyRange) -> Region {
        assert!(range.len <= isize::MAX as u64 / 2 / shape.array.stride as u64, "an array of {range:?} fits no memory");
        let memory = EntryMemory::zeroed(shape.bytes(range.len as usize));
        let region = Region { shape: Arc::clone(shape), range, memory };
        // SAFETY: there is an entry for each key.
        unsafe { shape.make_fresh(region.start(), range.len as usize) };
        region
    }

    pub(crate) fn shape(&self) -> &Arc<ArrayShape> {
        &self.shape
    }

    /// The keys that may be there.
    pub(crate) fn range(&self) -> KeyRange {
        self.range
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.memory.bytes()
    }

    /// The entry of the lowest key.
    pub(crate) fn start(&self) -> *mut u8 {
        self.memory.start().wrapping_add(self.shape.lead())
    }

    /// The entry of a key of the range.
    pub(crate) fn entry(&self, key: i64) -> *mut u8 {
        let index = key.wrapping_sub(self.range.first) as usize;
        debug_assert!((index as u64) < self.range.len, "a key of the range");
        self.start().wrapping_add(index * self.shape.array.stride)
    }

    /// The entry of a key, if it is of the range.
    pub(crate) fn entry_of(&self, key: i64) -> Option<*mut u8> {
        self.range.index(key).map(|_| self.entry(key))
    }

    /// The key of an address, if an entry of the region is there.
    pub(crate) fn key_at(&self, entry: *const u8) -> Option<i64> {
        let index = entry.addr().checked_sub(self.start().addr())? / self.shape.array.stride;
        ((index as u64) < self.range.len).then(|| self.range.first.wrapping_add_unsigned(index as u64))
    }

    /// Whether no key is there.
    pub(crate) fn is_empty(&self) -> bool {
        let keys = 0..self.range.len as usize;
        // SAFETY: there is an entry for each key.
        keys.clone().all(|i| !unsafe { self.shape.is_there(self.start().wrapping_add(i * self.shape.array.stride)) })
    }

    /// Which keys of a block of the range are there.
    pub(crate) fn mask(&self, block: KeyBlock) -> u64 {
        // SAFETY: the region has entries of all keys of the block.
        unsafe { self.shape.mask(self.entry(block.first), block.len) }
    }

    /// The same for a layout with other partitions.
    pub(crate) fn with_shape(self, shape: &Arc<ArrayShape>) -> Region {
        debug_assert!(self.shape.array == shape.array, "entries stay as they are");
        Region { shape: Arc::clone(shape), ..self }
    }

    /// The blocks of some partitions that have keys of the range, in the order of partitions.
    pub(crate) fn blocks_of(&self, partitions: &Range<usize>) -> impl Iterator<Item = KeyBlock> + Clone + use<'_> {
        let partitioner = self.shape.partitioner();
        let met = partitioner.met(self.range, partitions).into_iter();
        met.flat_map(move |partition| partitioner.blocks(self.range, partition))
    }

    /// The keys that are there, in the order of partitions.
    pub(crate) fn keys(&self) -> impl Iterator<Item = i64> + use<'_> {
        let blocks = self.blocks_of(&self.shape.layout.partitions());
        blocks.flat_map(|block| keys_of_mask(block.first, self.mask(block)))
    }

    /// How many keys of each partition are there, and a range of the blocks that have them; `None` without any. Linear in the
    /// length of the range.
    pub(crate) fn extent(&self) -> Option<(PartitionStarts, KeyRange)> {
        let (partitioner, partitions) = (self.shape.partitioner(), self.shape.layout.partitions());
        let mut range = None::<KeyRange>;
        let there = partitioner.blocks_by_key(self.range, partitions.clone()).filter_map(|(partition, block)| {
            let there = self.mask(block).count_ones() as usize;
            if there == 0 {
                return None;
            }
            let block = KeyRange { first: block.first, len: block.len as u64 };
            range = Some(range.map_or(block, |range| range.union(block)));
            Some((partition, there))
        });
        let starts = match self.range.len as usize / BLOCK < partitions.len() {
            true => {
                let mut there: Vec<(usize, usize)> = there.collect();
                there.sort_unstable();
                PartitionStarts::of_counts(there.into_iter())
            }
            false => {
                let mut counts = vec![0; partitions.len()];
                there.for_each(|(partition, there)| counts[partition] += there);
                PartitionStarts::of_counts(counts.into_iter().enumerate())
            }
        };
        range.map(|range| (starts, range))
    }

    /// Merges the entries of another region that are in the range.
    pub(crate) fn merge(&mut self, other: &Region) {
        self.with_common(other, |into, from, count| {
            // SAFETY: both have as many entries there; this one is ours.
            unsafe { self.shape.merge(into, from, count) };
        });
    }

    /// Takes over the entries of another region that are in the range, in which no key is there.
    pub(crate) fn take_over(&mut self, other: &Region) {
        self.with_common(other, |into, from, count| {
            // SAFETY: both have as many entries there; this one is ours.
            unsafe { self.shape.copy(into, from, count) };
        });
    }

    fn with_common(&self, other: &Region, act: impl FnOnce(*mut u8, *const u8, usize)) {
        let (first, last) = (self.range.first.max(other.range.first), self.range.last().min(other.range.last()));
        if first <= last {
            act(self.entry(first), other.entry(first), KeyRange::between(first, last).len as usize);
        }
    }
}

/// The keys of a block that a mask says are there.
pub(crate) fn keys_of_mask(first: i64, mask: u64) -> impl Iterator<Item = i64> {
    let mut left = mask;
    std::iter::from_fn(move || {
        let lowest = (left != 0).then(|| left.trailing_zeros())?;
        left &= left - 1;
        Some(first.wrapping_add(i64::from(lowest)))
    })
}
