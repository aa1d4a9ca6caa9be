//! The keys of some partitions, packed: of each group of keys the blocks of these partitions.
//!
//! ```text
//! │ group g: block of partition p, of p + 1, … │ group g + 1: … │ …
//! ```
//!
//! Workers that merge partials beside each other, each some partitions, so take as much memory together as one of them would for
//! all. A grid grows at both ends by groups. Its groups are those of the fewest partitions that its own are parts of: all of 4,096 are 16
//! with groups of 1,024 keys, so that a grid of a few keys is small.

use super::region::{Region, keys_of_mask};
use super::{ArrayShape, BLOCK, KeyBlock};
use crate::memory::EntryMemory;
use crate::partition::Partitioner;
use millstream_abi::{KeyRange, prefetch};
use std::ops::Range;
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub(crate) struct Grid {
    shape: Arc<ArrayShape>,
    /// Those of the layout.
    partitions: Range<usize>,
    /// That of its groups, and which of its partitions.
    coarse: Partitioner,
    coarse_partitions: Range<usize>,
    first_group: i64,
    groups: usize,
    memory: EntryMemory,
}

/// The groups that the keys of a range are in: the first, and how many.
fn groups_of(coarse: Partitioner, range: KeyRange) -> (i64, usize) {
    let first = range.first >> coarse.group_bits();
    (first, ((range.last() >> coarse.group_bits()) - first) as usize + 1)
}

impl Grid {
    /// A grid of some partitions for the keys of a range, in which no key is there.
    pub(crate) fn fresh(shape: &Arc<ArrayShape>, partitions: Range<usize>, range: KeyRange) -> Grid {
        let (coarse, coarse_partitions) = shape.partitioner().coarsest(&partitions);
        let (first_group, groups) = groups_of(coarse, range);
        let memory = EntryMemory::zeroed(shape.bytes(groups * coarse_partitions.len() * BLOCK));
        let shape = Arc::clone(shape);
        let grid = Grid { shape, partitions, coarse, coarse_partitions, first_group, groups, memory };
        // SAFETY: all entries of the memory, which nobody else has.
        unsafe { grid.shape.make_fresh(grid.start(), grid.places()) };
        grid
    }

    pub(crate) fn shape(&self) -> &Arc<ArrayShape> {
        &self.shape
    }

    fn places(&self) -> usize {
        self.groups * self.group()
    }

    /// Entries of a group.
    fn group(&self) -> usize {
        self.coarse_partitions.len() * BLOCK
    }

    /// The keys that may be there, if they are of the partitions.
    pub(crate) fn range(&self) -> KeyRange {
        let bits = self.coarse.group_bits();
        KeyRange { first: self.first_group << bits, len: (self.groups as u64) << bits }
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.memory.bytes()
    }

    /// The first entry.
    fn start(&self) -> *mut u8 {
        self.memory.start().wrapping_add(self.shape.lead())
    }

    /// The first entry of a group that has some.
    fn group_at(&self, group: i64) -> *mut u8 {
        let group = group.wrapping_sub(self.first_group) as usize;
        debug_assert!(group < self.groups, "a group of the grid");
        self.start().wrapping_add(group * self.group() * self.shape.array.stride)
    }

    /// The entries of the block that a key is in, of a coarse partition.
    fn block(&self, key: i64, partition: usize) -> *mut u8 {
        debug_assert!(self.coarse_partitions.contains(&partition), "a block of the grid");
        let before = (partition - self.coarse_partitions.start) * BLOCK * self.shape.array.stride;
        self.group_at(key >> self.coarse.group_bits()).wrapping_add(before)
    }

    /// The entry of a key of the partitions, if the grid is for it.
    pub(crate) fn entry_of(&self, key: i64) -> Option<*mut u8> {
        let group = key >> self.coarse.group_bits();
        if (group.wrapping_sub(self.first_group) as u64) >= self.groups as u64 {
            return None;
        }
        let place = key as usize & (BLOCK - 1);
        Some(self.block(key, self.coarse.of_key(key)).wrapping_add(place * self.shape.array.stride))
    }

    /// Blocks with their entries, in order.
    fn blocks(&self) -> impl Iterator<Item = (KeyBlock, *mut u8)> + use<'_> {
        let (partitioner, range) = (self.shape.partitioner(), self.range());
        let met = partitioner.met(range, &self.partitions).into_iter();
        let blocks = met.flat_map(move |partition| partitioner.blocks(range, partition));
        blocks.map(|block| (block, self.block(block.first, self.coarse.of_key(block.first))))
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
            let into = self.block(block.first, partition);
            (into.wrapping_add(place * stride), region.entry(block.first), block.len)
        };
        let blocks = self.coarse.blocks_by_key(KeyRange::between(first, last), self.coarse_partitions.clone());
        let mut left = blocks.map(places).peekable();
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
        let into = self.group_at(other.first_group);
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
        let group = self.group();
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
        let bits = self.coarse.group_bits();
        self.move_to(KeyRange { first: first << bits, len: (left as u64) << bits });
    }

    /// Moves the entries to a grid for another range; those of keys outside are not there.
    fn move_to(&mut self, range: KeyRange) {
        let moved = Grid::fresh(&self.shape, self.partitions.clone(), range);
        let first = self.first_group.max(moved.first_group);
        let end = (self.first_group + self.groups as i64).min(moved.first_group + moved.groups as i64);
        if first < end {
            let (into, from) = (moved.group_at(first), self.group_at(first));
            let count = (end - first) as usize * self.group();
            // SAFETY: groups follow each other in both.
            unsafe { self.shape.copy(into, from, count) };
        }
        *self = moved;
    }

    /// The entries of keys that are there, with the keys.
    pub(crate) fn there(&self) -> impl Iterator<Item = (*const u8, i64)> + use<'_> {
        self.blocks().flat_map(move |(block, first)| {
            // SAFETY: the grid has all entries of its blocks.
            let mask = unsafe { self.shape.mask(first, block.len) };
            keys_of_mask(block.first, mask).map(move |key| {
                let number = key.wrapping_sub(block.first) as usize;
                (first.wrapping_add(number * self.shape.array.stride).cast_const(), key)
            })
        })
    }
}
