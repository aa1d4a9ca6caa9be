//! Partials as bytes: each partition is a sequence of blocks of bounded size, each of which can be read alone.
//!
//! ```text
//! ┌───────────┬──────────────────┬──────────────────────┬───────────────────────────────────────┐
//! │ partition │ what it consists │ what is far of their │ entries (encoding), in order, none    │
//! │           │ of               │ sums: a block, or    │ of them empty; or an array (encoding) │
//! │           │                  │ nothing              │                                       │
//! └───────────┴──────────────────┴──────────────────────┴───────────────────────────────────────┘
//! ```
//!
//! The partition is a byte, or from 128 on two, of which the first has its low seven bits and the highest bit set. So blocks of when there
//! were always 16 partitions are read as they are. The third is there when entries have exact sums of doubles, which the second says. Format 8 had pairs of doubles instead
//! (`format_8.rs`).

use super::{Entries, Partial};
use crate::arena::Arena;
use crate::array::{ArrayBlock, ArrayShape, Region};
use crate::budget::MemoryBudget;
use crate::dense::{dense_key_of_entry, key_of_entry};
use crate::encoding::EntryFields;
use crate::entry::{compare_keys, hash};
use crate::far::Far;
use crate::format_8;
use crate::memory::EntryMemory;
use crate::merge::merge;
use crate::output::OutputTypes;
use crate::owned::OwnedEntries;
use crate::partition::{PartitionStarts, Partitioner};
use crate::rows::{Part, parts};
use crate::seal::{Keeping, move_sorted};
use crate::sort::compare;
use millstream_abi::{EntryLayout, KeyRange};
use millstream_storage::{ByteReader, ByteWriter, Damaged};
use std::cmp::Ordering;
use std::sync::Arc;

/// Bytes of a block, about: a larger one has a single entry.
const BLOCK_BYTES: usize = 1 << 20;

/// What a block consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    /// Entries, some of one key.
    Entries,
    /// Entries of different keys.
    Distinct,
    /// Runs of an array.
    Array,
}

/// Added to the number of a content whose sums of doubles are exact.
const EXACT: u8 = 16;

impl Content {
    fn of(byte: u8) -> Option<Content> {
        [Content::Entries, Content::Distinct, Content::Array].into_iter().find(|&content| content as u8 == byte)
    }
}

impl Partial {
    /// A partition as blocks of about a mebibyte, in the order of their entries. Each is for [`Partial::restore`].
    pub fn blocks(&self, partition: usize) -> impl Iterator<Item = Vec<u8>> + use<'_> {
        self.blocks_of(partition, BLOCK_BYTES)
    }

    /// The same with blocks of another size.
    pub fn blocks_of(&self, partition: usize, block_bytes: usize) -> impl Iterator<Item = Vec<u8>> + use<'_> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let (block, next) = self.block_at(partition, at, block_bytes)?;
            at = next;
            Some(block)
        })
    }

    /// One of the blocks of [`Partial::blocks_of`], and where the next one begins: the first begins at 0. It is for who cannot keep an
    /// iterator.
    pub fn block_at(&self, partition: usize, at: usize, block_bytes: usize) -> Option<(Vec<u8>, usize)> {
        let mut at = at;
        // Where a part begins: each entry and each block of an array is a step.
        let mut start = 0;
        for part in self.parts_of(partition) {
            let steps = match &part {
                Part::Entries(entries) => entries.len(),
                Part::Keys(range) => Partitioner::of(self.layout()).blocks(*range, partition).count(),
            };
            if at < start + steps {
                let mut out = ByteWriter::new();
                write_partition(partition, &mut out);
                let next = match part {
                    Part::Entries(entries) => {
                        let left = entries.start + (at - start)..entries.end;
                        Some(self.write_entries(partition, left, block_bytes, &mut out))
                    }
                    Part::Keys(range) => self.write_keys((range, partition), at - start, block_bytes, &mut out),
                };
                match next {
                    Some(taken) => return Some((out.into_bytes(), at + taken)),
                    // No key of what is left is there.
                    None => at = start + steps,
                }
            }
            start += steps;
        }
        None
    }

    /// A partition's entries, by number, and keys of the array, in order.
    fn parts_of(&self, partition: usize) -> Vec<Part> {
        let entries = self.starts.range(&(partition..partition + 1));
        let (first, count) = (entries.start, entries.len());
        let Some(region) = self.region() else { return vec![Part::Entries(entries)] };
        // SAFETY: an entry of the layout.
        let key = |i: usize| unsafe { key_of_entry(self.layout(), self.entry(first + i)) }.unwrap_or(0);
        let all = parts(count, key, region.range()).map(|part| match part {
            Part::Entries(entries) => Part::Entries(first + entries.start..first + entries.end),
            keys @ Part::Keys(_) => keys,
        });
        all.collect()
    }

    /// Writes what a block consists of, and what is far of the sums of its keys.
    ///
    /// # Safety
    /// `is_of` is asked for entries of the layout of that.
    fn begin(&self, content: Content, partition: usize, is_of: impl Fn(*const u8) -> bool, out: &mut ByteWriter) {
        if !self.layout().has_exact_sums() {
            return out.u8(content as u8);
        }
        out.u8(content as u8 + EXACT);
        let far = match self.far() {
            [] => return out.bytes(&[]),
            far => merge(far, partition..partition + 1),
        };
        let entries: Vec<*const u8> = far.entries().iter().copied().filter(|&entry| is_of(entry)).collect();
        if entries.is_empty() {
            return out.bytes(&[]);
        }
        let mut block = ByteWriter::new();
        write_partition(partition, &mut block);
        block.u8(Content::Distinct as u8);
        // SAFETY: entries of the layout, alive as long as the merge.
        unsafe { EntryFields::new(far.layout()).write_all(&entries, &mut block) };
        out.bytes(&block.into_bytes());
    }

    /// Writes entries of a partition, as many as fit; how many.
    fn write_entries(
        &self,
        partition: usize,
        range: std::ops::Range<usize>,
        block_bytes: usize,
        out: &mut ByteWriter,
    ) -> usize {
        let fields = EntryFields::new(self.layout());
        let entries = &self.entries.entries;
        let count = match fields.are_numbers() {
            true => range.len().min((block_bytes / self.layout().stride).max(1)),
            // SAFETY: entries of the partial.
            false => unsafe { fields.fitting(entries.range(range.clone()).map(<*mut u8>::cast_const), block_bytes) },
        };
        let content = if self.is_distinct { Content::Distinct } else { Content::Entries };
        // Of a key with several entries, the block has what is far that has the first of them.
        let before =
            (range.start > self.starts.range(&(partition..partition + 1)).start).then(|| self.entry(range.start - 1));
        let last = self.entry(range.start + count - 1);
        // SAFETY: entries with the keys of the layout.
        let order = |entry, other| unsafe { compare(self.layout(), entry, other) };
        let is_of = |entry| {
            // SAFETY: as above.
            let key = unsafe { key_of_entry(self.layout(), entry) };
            let is_of_array = self.region().zip(key).is_some_and(|(region, key)| region.range().index(key).is_some());
            !is_of_array && before.is_none_or(|before| order(before, entry).is_lt()) && order(entry, last).is_le()
        };
        self.begin(content, partition, is_of, out);
        // SAFETY: `count` entries of the layout, whose strings the partial has.
        unsafe { fields.write(entries.place(range.start), count, out) };
        count
    }

    /// Writes keys of the array, from block `at` of the range on; how many blocks that were, `None` if no key is there.
    fn write_keys(
        &self,
        (range, partition): (KeyRange, usize),
        at: usize,
        block_bytes: usize,
        out: &mut ByteWriter,
    ) -> Option<usize> {
        let region = self.region()?;
        let (chosen, next) = region.chosen_blocks((range, partition), at, block_bytes);
        if chosen.is_empty() {
            return None;
        }
        let is_of = |entry| {
            // SAFETY: an entry with the keys of the layout.
            let key = unsafe { key_of_entry(self.layout(), entry) };
            key.is_some_and(|key| {
                let behind = chosen.partition_point(|block| block.first <= key);
                behind.checked_sub(1).is_some_and(|i| (key.wrapping_sub(chosen[i].first) as u64) < chosen[i].len as u64)
            })
        };
        if region.takes_less_as_runs(partition, self.there_of(&(partition..partition + 1))) {
            self.begin(Content::Array, partition, is_of, out);
            region.write_runs(&chosen, out);
        } else {
            let (memory, count) = region.with_keys(chosen.iter().copied());
            self.begin(Content::Distinct, partition, is_of, out);
            // SAFETY: `count` entries of the layout, which are numbers.
            unsafe { EntryFields::new(self.layout()).write(memory.start(), count, out) };
        }
        Some(next - at)
    }

    /// The partial that has the entries of blocks, which are those of partitions in their order; of others it has nothing. `types`
    /// are those of its columns. Its memory counts in `budget` as that of partials.
    ///
    /// # Errors
    /// When the bytes are not what has been written.
    pub fn restore(
        layout: &Arc<EntryLayout>,
        types: &OutputTypes,
        budget: &Arc<MemoryBudget>,
        blocks: &[impl AsRef<[u8]>],
    ) -> Result<Partial, Damaged> {
        let has_pairs = layout.has_exact_sums() && blocks.first().is_some_and(|block| has_pairs(block.as_ref()));
        if has_pairs {
            let of_pairs = Arc::new(format_8::layout_of(layout));
            let restored = Partial::restore(&of_pairs, types, budget, blocks)?;
            return Ok(Partial::of_pairs(restored, layout).counted(budget));
        }
        let fields = EntryFields::typed(layout, &types.keys, &types.outputs);
        let shape = ArrayShape::of(layout);
        let blocks = blocks.iter().map(|block| Block::of(&fields, layout, block.as_ref()));
        let blocks: Vec<Block<'_>> = blocks.collect::<Result<_, _>>()?;
        let far: Vec<&[u8]> = blocks.iter().map(|block| block.far).filter(|far| !far.is_empty()).collect();
        let far = match far.is_empty() {
            true => vec![],
            false => {
                let of_keys = OutputTypes { keys: types.keys.clone(), outputs: vec![] };
                vec![Arc::new(Partial::restore(&Arc::new(layout.far()), &of_keys, budget, &far)?.uncounted())]
            }
        };
        let are_in_order = blocks.is_sorted_by_key(|block| block.partition);
        Damaged::unless(are_in_order, "blocks of a partial are not in the order of their partitions")?;
        let region = shape.as_ref().and_then(|shape| region_of(shape, &blocks));
        // Keys of the region leave the entries: those of partitions that are mostly empty were written as such.
        match region {
            Some(region) => Partial::restore_with(layout, &fields, region, blocks),
            None => Partial::restore_entries(layout, &fields, blocks),
        }
        .map(|partial| partial.with_far(far).counted(budget))
    }

    /// The same with exact sums.
    fn of_pairs(old: Partial, layout: &Arc<EntryLayout>) -> Partial {
        let Partial { entries: Entries { entries, arena, object_bytes }, starts, is_distinct, .. } =
            old.without_array();
        let count = starts.len();
        let memory = EntryMemory::zeroed(count * layout.stride);
        let places: Vec<*mut u8> = (0..count).map(|i| memory.start().wrapping_add(i * layout.stride)).collect();
        let mut far = Far::default();
        for (from, &place) in entries.range(0..count).zip(&places) {
            // SAFETY: an entry of the layout with pairs, whose strings are in the arena, and zeroed memory.
            unsafe { format_8::convert((layout, entries.layout()), from, place, &mut far) };
        }
        let places = places.into_iter().map(<*mut u8>::cast_const);
        // SAFETY: entries of the layout, which nobody else has; their strings are in the arena.
        let partial = unsafe {
            Partial::of_moved(layout, move_sorted(layout, (places, count), Keeping::default()), arena, object_bytes)
        };
        let partial = partial.with_far(far.drain().into_iter().collect());
        if is_distinct { partial } else { partial.repeating() }
    }

    /// The entries of blocks, those of arrays as well.
    fn restore_entries(
        layout: &Arc<EntryLayout>,
        fields: &EntryFields<'_>,
        blocks: Vec<Block<'_>>,
    ) -> Result<Partial, Damaged> {
        let starts = PartitionStarts::of_counts(blocks.iter().map(|block| (block.partition, block.count)));
        let memory = EntryMemory::zeroed(starts.len() * layout.stride);
        // SAFETY: there are no objects yet. From here on the end of the entries releases them.
        let entries = unsafe { OwnedEntries::new(layout, memory, starts.len()) };
        let mut all = Entries { entries, arena: Arena::default(), object_bytes: 0 };
        let is_distinct = blocks.iter().all(|block| block.is_distinct);
        let mut first = 0;
        for mut block in blocks {
            // SAFETY: there is a place for each entry of all blocks.
            all.object_bytes += unsafe { block.read(fields, layout, all.entries.place(first), &mut all.arena)? };
            first += block.count;
        }
        let partial = Partial::of_entries(all, starts, is_distinct);
        check_order(&partial)?;
        Ok(partial)
    }

    /// Arrays of blocks in a region, and the entries of the others unless they are of its keys.
    fn restore_with(
        layout: &Arc<EntryLayout>,
        fields: &EntryFields<'_>,
        mut region: Region,
        blocks: Vec<Block<'_>>,
    ) -> Result<Partial, Damaged> {
        let mut before: Option<(usize, i64)> = None;
        let (mut arrays, mut others) = (Vec::new(), Vec::new());
        for block in blocks {
            match block.array {
                Some(array) if array.has_shape(region.shape()) => {
                    let (_, range) = array.extent();
                    let Some(range) = range else { continue };
                    let follows = before.is_none_or(|before| before < (block.partition, range.first));
                    Damaged::unless(follows, "a block of a partial does not follow the one before")?;
                    before = Some((block.partition, range.last()));
                    block.rest.end()?;
                    arrays.push(array);
                }
                array => others.push(Block { array, ..block }),
            }
        }
        arrays.iter().for_each(|array| array.copy_into(&mut region));
        let listed = Partial::restore_entries(layout, fields, others)?;
        let mut outside = Vec::new();
        for entry in listed.entries_of(&layout.partitions()) {
            // SAFETY: an entry of the layout.
            match unsafe { key_of_entry(layout, entry) }.and_then(|key| region.entry_of(key)) {
                // SAFETY: entries of the layout and of an array of it, which is ours.
                Some(place) => unsafe { region.shape().merge_entry(place, entry, |_| 1) },
                None => outside.push(entry),
            }
        }
        if outside.len() == listed.len() {
            return Ok(listed.with_region(Some(region)));
        }
        // SAFETY: sorted entries of the layout, which are numbers.
        let mut rest = unsafe { Partial::of_sorted(layout, &outside) };
        rest.is_distinct = listed.is_distinct;
        Ok(rest.with_region(Some(region)))
    }
}

/// A partition has its low bits in a byte, and others, if there are any, in a second one.
const LOW_BITS: u32 = 7;

fn write_partition(partition: usize, out: &mut ByteWriter) {
    match partition >> LOW_BITS {
        0 => out.u8(partition as u8),
        high => {
            out.u8(partition as u8 | (1 << LOW_BITS));
            out.u8(high as u8);
        }
    }
}

fn read_partition(from: &mut ByteReader<'_>) -> Result<usize, Damaged> {
    let low = usize::from(from.u8()?);
    match low >> LOW_BITS {
        0 => Ok(low),
        _ => Ok((low % (1 << LOW_BITS)) | (usize::from(from.u8()?) << LOW_BITS)),
    }
}

/// Whether sums of doubles of a block are pairs.
fn has_pairs(block: &[u8]) -> bool {
    let mut block = ByteReader::new(block);
    read_partition(&mut block).is_ok() && block.u8().is_ok_and(|content| content < EXACT)
}

/// A region for the arrays of blocks, if it takes little more memory than their keys as entries. Blocks of a few partitions, as another node
/// sends them, are spread over a range that has keys of all; but entries would be sorted to be merged, which takes ten times as long.
fn region_of(shape: &Arc<ArrayShape>, blocks: &[Block<'_>]) -> Option<Region> {
    let (mut keys, mut range) = (0, None::<KeyRange>);
    let arrays = blocks.iter().filter_map(|block| block.array.as_ref()).filter(|array| array.has_shape(shape));
    for (count, of_block) in arrays.map(ArrayBlock::extent) {
        keys += count;
        range = range.map_or(of_block, |range| of_block.map(|of_block| range.union(of_block)));
    }
    range.filter(|&range| shape.is_worth(range, keys)).map(|range| Region::fresh(shape, range))
}

/// A block whose entries are still to be read.
struct Block<'a> {
    partition: usize,
    is_distinct: bool,
    count: usize,
    rest: ByteReader<'a>,
    array: Option<ArrayBlock<'a>>,
    /// A block of what is far, if there is any.
    far: &'a [u8],
}

impl<'a> Block<'a> {
    fn of(fields: &EntryFields<'_>, layout: &EntryLayout, block: &'a [u8]) -> Result<Block<'a>, Damaged> {
        let mut rest = ByteReader::new(block);
        let (partition, content) = (read_partition(&mut rest)?, rest.u8()?);
        let (content, far) = match layout.has_exact_sums() {
            true => (content.checked_sub(EXACT).and_then(Content::of), rest.bytes()?),
            false => (Content::of(content), &[][..]),
        };
        let array = match content {
            Some(Content::Array) => Some(ArrayBlock::of(layout, partition, &mut rest)?),
            _ => None,
        };
        let count = match &array {
            Some(array) => array.count(),
            None => fields.count(&mut rest)?,
        };
        match content.filter(|_| layout.partitions().contains(&partition) && count > 0) {
            Some(content) => Ok(Block { partition, is_distinct: content != Content::Entries, count, rest, array, far }),
            None => Err(Damaged("a block of a partial begins with something else".into())),
        }
    }

    /// Reads the entries; the bytes of their objects.
    ///
    /// # Safety
    /// As for [`EntryFields::read`], of which there are `count`.
    unsafe fn read(
        &mut self,
        fields: &EntryFields<'_>,
        layout: &EntryLayout,
        first: *mut u8,
        arena: &mut Arena,
    ) -> Result<usize, Damaged> {
        let bytes = match &self.array {
            Some(array) => {
                // SAFETY: promised by the caller; entries of arrays are numbers.
                unsafe { array.write_entries(layout, first) };
                0
            }
            // SAFETY: promised by the caller.
            None => unsafe { fields.read(first, self.count, &mut self.rest, arena)? },
        };
        self.rest.end().map(|()| bytes)
    }
}

/// Checks that entries are in their partitions, and there in order (`sort.rs`).
fn check_order(partial: &Partial) -> Result<(), Damaged> {
    let (layout, is_distinct) = (&**partial.layout(), partial.is_distinct());
    let partitioner = Partitioner::of(layout);
    // Most entries are told apart by one word.
    let is_in_order = match (layout.dense_key(), layout.by_key) {
        (Some(key), by_key) => {
            // SAFETY: entries of the partial; one whose key is NULL has a zero in its place.
            let key = |entry| unsafe { dense_key_of_entry(layout, key, entry) }.unwrap_or(0);
            let partition = |entry| match by_key {
                true => partitioner.of_key(key(entry)),
                // SAFETY: as above.
                false => partitioner.of_hash(unsafe { hash(entry) }),
            };
            are_in_order(partial, partition, key, is_distinct)
        }
        (None, _) => {
            // SAFETY: as above.
            let hash = |entry| unsafe { hash(entry) };
            are_in_order(partial, |entry| partitioner.of_hash(hash(entry)), hash, is_distinct)
        }
    };
    Damaged::unless(is_in_order, "an entry of a partial is not where it belongs")
}

#[inline(always)]
fn are_in_order<T: Ord + Copy>(
    partial: &Partial,
    partition_of: impl Fn(*const u8) -> usize,
    word: impl Fn(*const u8) -> T,
    is_distinct: bool,
) -> bool {
    let layout = &**partial.layout();
    partial.starts.ranges().all(|(partition, range)| {
        let mut before: Option<(T, *const u8)> = None;
        partial.entries.entries.range(range).map(<*mut u8>::cast_const).all(|entry| {
            let this = word(entry);
            let follows = before.is_none_or(|(last, before)| {
                last < this
                    // SAFETY: entries of the partial.
                    || last == this && match unsafe { compare_keys(layout, before, entry) } {
                        Ordering::Less => true,
                        Ordering::Equal => !is_distinct,
                        Ordering::Greater => false,
                    }
            });
            before = Some((this, entry));
            follows && partition_of(entry) == partition
        })
    })
}
