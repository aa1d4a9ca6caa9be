//! The keys of some partitions, packed: of each group of 1,024 keys the blocks of these partitions.
//!
//! ```text
//! │ group g: block of partition p, of p + 1, … │ group g + 1: … │ …
//! ```
//!
//! Workers that merge partials beside each other, each some partitions, so take as much memory together as one of them would for
//! all. A grid grows at both ends by groups.

use super::region::{Region, keys_of_mask};
use super::{ArrayShape, BLOCK, KeyBlock, blocks, blocks_by_key};
use crate::memory::EntryMemory;
use crate::partition::{BLOCK_BITS, GROUP_BITS, partition_of_key};
use millstream_abi::{KeyRange, prefetch};
use std::ops::Range;
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub(crate) struct Grid {
    shape: Arc<ArrayShape>,
    partitions: Range<usize>,
    first_group: i64,
    groups: usize,
    memory: EntryMemory,
}

/// The groups that the keys of a range are in: the first, and how many.
fn groups_of(range: KeyRange) -> (i64, usize) {
    let first = range.first >> GROUP_BITS;
    (first, ((range.last() >> GROUP_BITS) - first) as usize + 1)
}

impl Grid {
    /// A grid of some partitions for the keys of a range, in which no key is there.
    pub(crate) fn fresh(shape: &Arc<ArrayShape>, partitions: Range<usize>, range: KeyRange) -> Grid {
        let (first_group, groups) = groups_of(range);
        let memory = EntryMemory::zeroed(shape.bytes(groups * partitions.len() * BLOCK));
        let grid = Grid { shape: Arc::clone(shape), partitions, first_group, groups, memory };
        // SAFETY: all entries of the memory, which nobody else has.
        unsafe { shape.make_fresh(grid.start(), grid.places()) };
        grid
    }

    pub(crate) fn shape(&self) -> &Arc<ArrayShape> {
        &self.shape
    }

    fn places(&self) -> usize {
        self.groups * self.partitions.len() * BLOCK
    }

    /// The keys that may be there, if they are of the partitions.
    pub(crate) fn range(&self) -> KeyRange {
        KeyRange { first: self.first_group << GROUP_BITS, len: (self.groups as u64) << GROUP_BITS }
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.memory.bytes()
    }

    /// The first entry.
    fn start(&self) -> *mut u8 {
        self.memory.start().wrapping_add(self.shape.lead())
    }

    /// The entries of a block.
    fn block(&self, group: i64, partition: usize) -> *mut u8 {
        let group = group.wrapping_sub(self.first_group) as usize;
        debug_assert!(group < self.groups && self.partitions.contains(&partition), "a block of the grid");
        let number = group * self.partitions.len() + (partition - self.partitions.start);
        self.start().wrapping_add(number * BLOCK * self.shape.array.stride)
    }

    /// The entry of a key of the partitions, if the grid is for it.
    pub(crate) fn entry_of(&self, key: i64) -> Option<*mut u8> {
        let group = key >> GROUP_BITS;
        if (group.wrapping_sub(self.first_group) as u64) >= self.groups as u64 {
            return None;
        }
        let place = key as usize & (BLOCK - 1);
        Some(self.block(group, partition_of_key(key)).wrapping_add(place * self.shape.array.stride))
    }

    /// Blocks of a partition with their entries, in order.
    pub(crate) fn blocks(&self, partition: usize) -> impl Iterator<Item = (KeyBlock, *mut u8)> + use<'_> {
        blocks(self.range(), partition).map(move |block| (block, self.block(block.first >> GROUP_BITS, partition)))
    }

    /// Acts on the entries that the grid and a region have in common, block by block as they are in memory: place in the grid, in the
    /// region, and how many.
    pub(crate) fn with_common(&self, region: &Region, mut act: impl FnMut(*mut u8, *const u8, usize)) {
        let (own, of_region) = (self.range(), region.range());
        let (first, last) = (own.first.max(of_region.first), own.last().min(of_region.last()));
        if first > last {
            return;
        }
        let (start, stride) = (self.shape.array.start, self.shape.array.stride);
        let places = |(partition, block): (usize, KeyBlock)| {
            let place = block.first as usize & (BLOCK - 1);
            let into = self.block(block.first >> GROUP_BITS, partition);
            (into.wrapping_add(place * stride), region.entry(block.first), block.len)
        };
        let mut left = blocks_by_key(KeyRange::between(first, last), self.partitions.clone()).map(places).peekable();
        while let Some((into, from, len)) = left.next() {
            // Blocks are about a page, in which the processor begins to read ahead from the beginning.
            if let Some(&(into, from, len)) = left.peek() {
                prefetch(into.wrapping_add(start), len * stride);
                prefetch(from.wrapping_add(start), len * stride);
            }
            act(into, from, len);
        }
    }

    /// Merges a region.
    pub(crate) fn merge(&mut self, region: &Region) {
        // SAFETY: both have as many entries there; the grid is ours.
        self.with_common(region, |into, from, count| unsafe { self.shape.merge(into, from, count) });
    }

    /// Takes over the entries of a region, in a grid in which no key of it is there.
    pub(crate) fn take_over(&mut self, region: &Region) {
        // SAFETY: both have as many entries there; the grid is ours.
        self.with_common(region, |into, from, count| unsafe { self.shape.copy(into, from, count) });
    }

    /// Merges another grid of the same partitions, of which this one has all keys.
    pub(crate) fn merge_grid(&mut self, other: &Grid) {
        debug_assert!(self.partitions == other.partitions && self.range().contains(other.range()), "a smaller grid");
        let into = self.block(other.first_group, self.partitions.start);
        // SAFETY: groups follow each other in both; this one is ours.
        unsafe { self.shape.merge(into, other.start(), other.places()) };
    }

    /// Makes room for the keys of a range.
    pub(crate) fn cover(&mut self, range: KeyRange) {
        let own = self.range();
        if !own.contains(range) {
            self.move_to(own.union(range));
        }
    }

    /// Gives memory back when half of the groups are at the ends and have no keys.
    pub(crate) fn trim(&mut self) {
        let group = self.partitions.len() * BLOCK;
        let is_empty = |number: &usize| {
            let first = self.start().wrapping_add(number * group * self.shape.array.stride);
            // SAFETY: the grid has the groups.
            (0..group).all(|i| !unsafe { self.shape.is_there(first.wrapping_add(i * self.shape.array.stride)) })
        };
        let below = (0..self.groups).take_while(is_empty).count();
        let above = (below..self.groups).rev().take_while(is_empty).count();
        if (below + above) * 2 <= self.groups {
            return;
        }
        let (first, left) = (self.first_group + below as i64, (self.groups - below - above).max(1));
        let first = first.min(self.first_group + self.groups as i64 - 1);
        self.move_to(KeyRange { first: first << GROUP_BITS, len: (left as u64) << GROUP_BITS });
    }

    /// Moves the entries to a grid for another range; those of keys outside are not there.
    fn move_to(&mut self, range: KeyRange) {
        let moved = Grid::fresh(&self.shape, self.partitions.clone(), range);
        let first = self.first_group.max(moved.first_group);
        let end = (self.first_group + self.groups as i64).min(moved.first_group + moved.groups as i64);
        if first < end {
            let (into, from) = (moved.block(first, self.partitions.start), self.block(first, self.partitions.start));
            let count = (end - first) as usize * self.partitions.len() * BLOCK;
            // SAFETY: groups follow each other in both.
            unsafe { self.shape.copy(into, from, count) };
        }
        *self = moved;
    }

    /// The entries of keys that are there, with the keys.
    pub(crate) fn there(&self) -> impl Iterator<Item = (*const u8, i64)> + use<'_> {
        let blocks = self.partitions.clone().flat_map(|partition| self.blocks(partition));
        blocks.flat_map(move |(block, first)| {
            // SAFETY: the grid has all entries of its blocks.
            let mask = unsafe { self.shape.mask(first, block.len) };
            keys_of_mask(block.first, mask).map(move |key| {
                let number = key.wrapping_sub(block.first) as usize;
                (first.wrapping_add(number * self.shape.array.stride).cast_const(), key)
            })
        })
    }
}

const _: () = assert!(GROUP_BITS == BLOCK_BITS + crate::partition::PARTITION_BITS);
