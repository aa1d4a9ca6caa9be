//! Partials as bytes: each partition is a sequence of blocks of bounded size, each of which can be read alone.
//!
//! ```text
//! ┌───────────┬──────────────────┬───────────────────────────────────────┐
//! │ partition │ what it consists │ entries (encoding), in order, none    │
//! │           │ of               │ of them empty; or an array (encoding) │
//! └───────────┴──────────────────┴───────────────────────────────────────┘
//! ```

use super::{Entries, Form, Partial};
use crate::arena::Arena;
use crate::array::{ArrayBlock, ArrayBlocks, ArrayRun};
use crate::budget::MemoryBudget;
use crate::dense::dense_key_of_entry;
use crate::encoding::EntryFields;
use crate::entry::{compare_keys, hash};
use crate::memory::{EntryMemory, OwnedEntries};
use crate::output::OutputTypes;
use crate::partition::{PARTITIONS, partition_of, partition_of_key, starts};
use millstream_abi::EntryLayout;
use millstream_storage::{ByteReader, ByteWriter, Damaged};
use std::cmp::Ordering;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of a block, about: a larger one has a single entry.
const BLOCK_BYTES: usize = 1 << 20;

/// The blocks of a partition: see [`Partial::blocks`].
pub struct Blocks<'a> {
    partial: &'a Partial,
    fields: EntryFields<'a>,
    partition: usize,
    block_bytes: usize,
    rest: Rest<'a>,
}

/// What is not written yet.
enum Rest<'a> {
    Entries(&'a OwnedEntries, Range<usize>),
    /// The numbers of its keys.
    Keys(&'a ArrayRun, Box<dyn Iterator<Item = usize> + 'a>),
    Array(ArrayBlocks<'a>),
}

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

impl Content {
    fn of(byte: u8) -> Option<Content> {
        [Content::Entries, Content::Distinct, Content::Array].into_iter().find(|&content| content as u8 == byte)
    }
}

impl fmt::Debug for Blocks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Blocks(partition {})", self.partition)
    }
}

impl Blocks<'_> {
    fn block(&self, first: *const u8, count: usize) -> Vec<u8> {
        let mut out = ByteWriter::new();
        out.u8(self.partition as u8);
        out.u8(if self.partial.is_distinct() { Content::Distinct } else { Content::Entries } as u8);
        // SAFETY: the callers have so many entries of the partial's layout, whose strings the partial has.
        unsafe { self.fields.write(first, count, &mut out) };
        out.into_bytes()
    }

    /// So many entries are a block, if they are of one size.
    fn most(&self) -> usize {
        (self.block_bytes / self.partial.layout().stride).max(1)
    }
}

impl Iterator for Blocks<'_> {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let most = self.most();
        match &mut self.rest {
            Rest::Entries(_, range) if range.start == range.end => None,
            Rest::Entries(entries, range) => {
                let (first, left) =
                    (entries.place(range.start), entries.range(range.clone()).map(<*mut u8>::cast_const));
                let count = match self.fields.are_numbers() {
                    true => range.len().min(most),
                    // SAFETY: entries of the partial.
                    false => unsafe { self.fields.fitting(left, self.block_bytes) },
                };
                range.start += count;
                Some(self.block(first, count))
            }
            Rest::Array(blocks) => {
                let mut out = ByteWriter::new();
                out.u8(self.partition as u8);
                out.u8(Content::Array as u8);
                blocks.write(self.block_bytes, &mut out).then(|| out.into_bytes())
            }
            Rest::Keys(array, keys) => {
                let keys: Vec<usize> = keys.take(most).collect();
                let memory = array.with_keys(keys.len(), keys.iter().copied());
                (!keys.is_empty()).then(|| self.block(memory.start(), keys.len()))
            }
        }
    }
}

impl Partial {
    /// A partition as blocks of about a mebibyte, in the order of their entries. Each is for [`Partial::restore`].
    pub fn blocks(&self, partition: usize) -> Blocks<'_> {
        self.blocks_of(partition, BLOCK_BYTES)
    }

    /// The same with blocks of another size.
    pub fn blocks_of(&self, partition: usize, block_bytes: usize) -> Blocks<'_> {
        let fields = EntryFields::new(self.layout());
        let rest = match &self.form {
            Form::Entries(all) => Rest::Entries(&all.entries, all.starts[partition]..all.starts[partition + 1]),
            Form::Array(array) => match array.blocks_of(partition) {
                Some(blocks) => Rest::Array(blocks),
                None => Rest::Keys(array, Box::new(array.keys_of(partition..partition + 1))),
            },
        };
        Blocks { partial: self, fields, partition, block_bytes, rest }
    }

    /// One of the blocks of [`Partial::blocks_of`], and where the next one begins, for who cannot keep an iterator: the first
    /// begins at 0.
    pub fn block_at(&self, partition: usize, at: usize, block_bytes: usize) -> Option<(Vec<u8>, usize)> {
        let mut blocks = self.blocks_of(partition, block_bytes);
        let Rest::Entries(_, range) = &mut blocks.rest else { return blocks.nth(at).map(|block| (block, at + 1)) };
        let start = range.start;
        range.start += at.min(range.len());
        let block = blocks.next()?;
        let Rest::Entries(_, range) = blocks.rest else { unreachable!("blocks of entries stay those") };
        Some((block, range.start - start))
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
        let fields = EntryFields::shown(layout, types);
        let blocks = blocks.iter().map(|block| Block::of(&fields, block.as_ref()));
        let blocks: Vec<Block<'_>> = blocks.collect::<Result<_, _>>()?;
        let are_in_order = blocks.is_sorted_by_key(|block| block.partition);
        Damaged::unless(are_in_order, "blocks of a partial are not in the order of their partitions")?;
        let starts = starts(|p| blocks.iter().filter(|block| block.partition == p).map(|block| block.count).sum());
        let memory = EntryMemory::zeroed(starts[PARTITIONS] * layout.stride);
        // From here on its end releases the objects.
        let mut all = Entries::of_numbers(layout, memory, starts);
        all.is_distinct = blocks.iter().all(|block| block.is_distinct);
        let mut first = 0;
        for mut block in blocks {
            // SAFETY: there is a place for each entry of all blocks.
            all.object_bytes += unsafe { block.read(&fields, all.entries.place(first), &mut all.arena)? };
            first += block.count;
        }
        let partial = Partial::of_entries(all);
        check_order(&partial)?;
        Ok(partial.counted(budget))
    }
}

/// A block whose entries are still to be read.
struct Block<'a> {
    partition: usize,
    is_distinct: bool,
    count: usize,
    rest: ByteReader<'a>,
    array: Option<ArrayBlock<'a>>,
}

impl<'a> Block<'a> {
    fn of(fields: &EntryFields<'_>, block: &'a [u8]) -> Result<Block<'a>, Damaged> {
        let mut rest = ByteReader::new(block);
        let (partition, content) = (rest.u8()? as usize, Content::of(rest.u8()?));
        let array = match content {
            Some(Content::Array) => Some(ArrayBlock::of(fields.layout(), &mut rest)?),
            _ => None,
        };
        let count = match &array {
            Some(array) => array.count(),
            None => fields.count(&mut rest)?,
        };
        match content.filter(|_| partition < PARTITIONS && count > 0) {
            Some(content) => Ok(Block { partition, is_distinct: content != Content::Entries, count, rest, array }),
            None => Err(Damaged("a block of a partial begins with something else".into())),
        }
    }

    /// Reads the entries; the bytes of their objects.
    ///
    /// # Safety
    /// As for [`EntryFields::read`], of which there are `count`.
    unsafe fn read(&mut self, fields: &EntryFields<'_>, first: *mut u8, arena: &mut Arena) -> Result<usize, Damaged> {
        let bytes = match &self.array {
            Some(array) => {
                // SAFETY: promised by the caller; entries of arrays are numbers.
                unsafe { array.write_entries(fields.layout(), first) };
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
    // Most entries are told apart by one word.
    let is_in_order = match (layout.dense_key(), layout.allows_arrays()) {
        (Some(key), by_key) => {
            // SAFETY: entries of the partial; one whose key is NULL has a zero in its place.
            let key = |entry| unsafe { dense_key_of_entry(layout, key, entry) }.unwrap_or(0);
            let partition = |entry| match by_key {
                true => partition_of_key(key(entry)),
                // SAFETY: as above.
                false => partition_of(unsafe { hash(entry) }),
            };
            are_in_order(partial, partition, key, is_distinct)
        }
        (None, _) => {
            // SAFETY: as above.
            let hash = |entry| unsafe { hash(entry) };
            are_in_order(partial, |entry| partition_of(hash(entry)), hash, is_distinct)
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
    (0..PARTITIONS).all(|partition| {
        let mut before: Option<(T, *const u8)> = None;
        partial.entries_of(&(partition..partition + 1)).all(|entry| {
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
