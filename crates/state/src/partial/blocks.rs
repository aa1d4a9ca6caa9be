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
use crate::array::ArrayBlock;
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
        let fields = EntryFields::new(self.layout());
        // Most entries of a block, if they are of one size.
        let most = (block_bytes / self.layout().stride).max(1);
        let mut out = ByteWriter::new();
        out.u8(partition as u8);
        let array = match &self.form {
            Form::Entries(Entries { entries, .. }) => {
                let range = self.starts[partition] + at..self.starts[partition + 1];
                if range.is_empty() {
                    return None;
                }
                let left = entries.range(range.clone()).map(<*mut u8>::cast_const);
                let count = match fields.are_numbers() {
                    true => range.len().min(most),
                    // SAFETY: entries of the partial.
                    false => unsafe { fields.fitting(left, block_bytes) },
                };
                out.u8(if self.is_distinct { Content::Distinct } else { Content::Entries } as u8);
                // SAFETY: `count` entries of the layout, whose strings the partial has.
                unsafe { fields.write(entries.place(range.start), count, &mut out) };
                return Some((out.into_bytes(), at + count));
            }
            Form::Array(array) => array,
        };
        if array.takes_less_as_runs(partition, self.len_of(&(partition..partition + 1))) {
            out.u8(Content::Array as u8);
            return array.write_runs(partition, at, block_bytes, &mut out).map(|next| (out.into_bytes(), next));
        }
        let (places, keys): (Vec<usize>, Vec<usize>) = array.keys_from(partition, at).take(most).unzip();
        let memory = array.with_keys(keys.len(), keys.iter().copied());
        out.u8(Content::Distinct as u8);
        // SAFETY: `keys.len()` entries of the layout, which are numbers.
        unsafe { fields.write(memory.start(), keys.len(), &mut out) };
        places.last().map(|last| (out.into_bytes(), last + 1))
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
        let fields = EntryFields::typed(layout, &types.keys, &types.outputs);
        let blocks = blocks.iter().map(|block| Block::of(&fields, block.as_ref()));
        let blocks: Vec<Block<'_>> = blocks.collect::<Result<_, _>>()?;
        let are_in_order = blocks.is_sorted_by_key(|block| block.partition);
        Damaged::unless(are_in_order, "blocks of a partial are not in the order of their partitions")?;
        let starts = starts(|p| blocks.iter().filter(|block| block.partition == p).map(|block| block.count).sum());
        let memory = EntryMemory::zeroed(starts[PARTITIONS] * layout.stride);
        // SAFETY: there are no objects yet. From here on the end of the entries releases them.
        let entries = unsafe { OwnedEntries::new(layout, memory, starts[PARTITIONS]) };
        let mut all = Entries { entries, arena: Arena::default(), object_bytes: 0 };
        let is_distinct = blocks.iter().all(|block| block.is_distinct);
        let mut first = 0;
        for mut block in blocks {
            // SAFETY: there is a place for each entry of all blocks.
            all.object_bytes += unsafe { block.read(&fields, all.entries.place(first), &mut all.arena)? };
            first += block.count;
        }
        let partial = Partial::of_entries(all, starts, is_distinct);
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
