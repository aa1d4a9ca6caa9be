//! Arrays as bytes, unconverted: keys that follow each other in a block have the first of them and their entries, which have neither
//! hash nor key. Where most keys of a range are there, that is a third of what they take with those.
//!
//! ```text
//! ┌───────────────────────────────┬──────────┬─────────────────────────┬─────────────────────┐
//! │ which accumulator is the mark │ how many │ runs: first key, length │ entries, run by run │
//! └───────────────────────────────┴──────────┴─────────────────────────┴─────────────────────┘
//! ```
//!
//! The number behind that of the last accumulator stands for a mark of its own. Entries whose marks are two accumulators are
//! written with one.

use super::{ArrayShape, BLOCK, KeyBlock, Region};
use crate::entry::{read, write};
use crate::memory::EntryMemory;
use crate::partition::{BLOCK_BITS, Partitioner};
use crate::work;
use millstream_abi::{Accumulator, ArrayLayout, Counters, EntryLayout, KeyRange};
use millstream_storage::{ByteReader, ByteWriter, Damaged};
use std::sync::Arc;

/// Bytes of a run beside its entries.
const RUN_BYTES: usize = 8 + 4;

impl Region {
    /// Whether the keys of a partition that are there take less as runs than as entries with keys.
    pub(crate) fn takes_less_as_runs(&self, partition: usize, there: usize) -> bool {
        let blocks = self.shape().partitioner().blocks(self.range(), partition);
        let keys: usize = blocks.map(|block| block.len + RUN_BYTES).sum();
        keys * self.shape().array.stride < there * self.shape().layout.stride
    }

    /// The blocks of a partition within a range, from number `at` on, that are written together: of about `bytes` bytes, at
    /// least one. Those of which no key is there are left out. With the number of the one behind them.
    pub(crate) fn chosen_blocks(
        &self,
        (range, partition): (KeyRange, usize),
        at: usize,
        bytes: usize,
    ) -> (Vec<KeyBlock>, usize) {
        let stride = self.shape().layout.stride;
        let blocks = self.shape().partitioner().blocks(range, partition);
        let mut left = blocks.enumerate().skip(at).peekable();
        let (mut chosen, mut done, mut next) = (Vec::new(), 0, at);
        while let Some((number, block)) =
            left.next_if(|(_, block)| chosen.is_empty() || done + block.len * stride <= bytes)
        {
            next = number + 1;
            if self.mask(block) != 0 {
                chosen.push(block);
                done += block.len * stride;
            }
        }
        (chosen, next)
    }

    /// Writes blocks as runs.
    pub(crate) fn write_runs(&self, chosen: &[KeyBlock], out: &mut ByteWriter) {
        let ArrayShape { layout, array, .. } = &**self.shape();
        out.u32(layout.counters.of_all().unwrap_or(layout.accumulators.len()) as u32);
        out.length(chosen.len());
        for run in chosen {
            out.i64(run.first);
            out.u32(run.len as u32);
        }
        if let Some(marked) = marked(layout) {
            let bytes = super::fields(layout).end - array.start;
            for entry in chosen.iter().flat_map(|run| (0..run.len as i64).map(|i| self.entry(run.first + i))) {
                // SAFETY: an entry of the region, which is made of zeroed memory, so that all bytes have values.
                let (fields, is_there) = unsafe {
                    (std::slice::from_raw_parts(entry.add(array.start), bytes), self.shape().is_there(entry))
                };
                out.raw(fields);
                out.u64(is_there.into());
                out.raw(&[0; 16][..marked.stride - bytes - 8]);
            }
            return;
        }
        for run in chosen {
            // SAFETY: blocks are within the range, so the region has their entries from `start` on; it is made of zeroed memory, so
            // that all bytes have values.
            out.raw(unsafe {
                std::slice::from_raw_parts(self.entry(run.first).add(array.start), run.len * array.stride)
            });
        }
    }

    /// The entries of the keys of blocks that are there, with hash and key, and how many they are.
    pub(crate) fn with_keys(&self, chosen: impl Iterator<Item = KeyBlock> + Clone) -> (EntryMemory, usize) {
        let count = chosen.clone().map(|block| self.mask(block).count_ones() as usize).sum();
        let stride = self.shape().layout.stride;
        let memory = EntryMemory::zeroed(count * stride);
        work::SPREAD.add(count);
        let keys = chosen.flat_map(|block| super::keys_of_mask(block.first, self.mask(block)));
        for (i, key) in keys.enumerate() {
            // SAFETY: the key is of the range, and there is a place for each.
            unsafe { self.shape().write_entry(self.entry(key), key, memory.start().add(i * stride)) };
        }
        (memory, count)
    }
}

/// The layout that arrays may have: by the number of the accumulator that is their mark, behind which comes the one with its
/// own mark.
fn array_of(layout: &EntryLayout, number: usize) -> Option<ArrayLayout> {
    let counters = match layout.accumulators.get(number) {
        Some((Accumulator::Count, _)) => Counters::One(number),
        Some(_) => return None,
        None if number == layout.accumulators.len() => Counters::None,
        None => return None,
    };
    layout.clone().counted_by(counters).array()
}

/// How arrays are written whose marks are two accumulators.
fn marked(layout: &EntryLayout) -> Option<ArrayLayout> {
    match layout.counters {
        Counters::EachOf(..) => layout.clone().counted_by(Counters::None).array(),
        Counters::None | Counters::One(_) => None,
    }
}

/// Runs that are still to be read.
pub(crate) struct ArrayBlock<'a> {
    array: ArrayLayout,
    runs: Vec<KeyBlock>,
    entries: &'a [u8],
}

impl<'a> ArrayBlock<'a> {
    /// Looks at what [`Region::write_runs`] has written of a partition. Nothing of it is trusted.
    pub(crate) fn of(
        layout: &EntryLayout,
        partition: usize,
        from: &mut ByteReader<'a>,
    ) -> Result<ArrayBlock<'a>, Damaged> {
        let array = array_of(layout, from.u32()? as usize);
        let array = array.ok_or_else(|| Damaged("an array is of entries that cannot be in one".into()))?;
        let count = from.count(RUN_BYTES)?;
        let run = |_| Ok(KeyBlock { first: from.i64()?, len: from.u32()? as usize });
        let runs = (0..count).map(run).collect::<Result<Vec<KeyBlock>, Damaged>>()?;
        let mut before = None;
        for &KeyBlock { first, len } in &runs {
            let last = first.saturating_add(len as i64 - 1);
            let is_block = (1..=BLOCK).contains(&len) && first >> BLOCK_BITS == last >> BLOCK_BITS;
            let follows = before.replace(last).is_none_or(|before| before < first);
            let belongs = is_block && follows && Partitioner::of(layout).of_key(first) == partition;
            Damaged::unless(belongs, "a run of an array is not where it belongs")?;
        }
        let keys: usize = runs.iter().map(|run| run.len).sum();
        Ok(ArrayBlock { array, runs, entries: from.raw(keys * array.stride)? })
    }

    /// Whether its entries are those of arrays as they are made now.
    pub(crate) fn has_shape(&self, shape: &ArrayShape) -> bool {
        self.array == marked(&shape.layout).unwrap_or(shape.array)
    }

    /// All keys of the runs, of which not all need be there: how many, and their range.
    pub(crate) fn extent(&self) -> (u64, Option<KeyRange>) {
        let ends = self.runs.first().zip(self.runs.last());
        let range = ends.map(|(first, last)| KeyRange::between(first.first, last.first + (last.len as i64 - 1)));
        (self.runs.iter().map(|run| run.len as u64).sum(), range)
    }

    /// The runs with their entries.
    fn runs(&self) -> impl Iterator<Item = (KeyBlock, &'a [u8])> {
        let (stride, mut rest) = (self.array.stride, self.entries);
        self.runs.iter().map(move |&run| {
            let (entries, others) = rest.split_at(run.len * stride);
            rest = others;
            (run, entries)
        })
    }

    /// How many keys are there.
    pub(crate) fn count(&self) -> usize {
        let mark = self.array.mark - self.array.start;
        let entries = self.entries.chunks_exact(self.array.stride);
        entries.filter(|entry| entry[mark..mark + 8] != [0; 8]).count()
    }

    /// Copies the entries into a region of their shape that has the runs, where none of their keys is there.
    pub(crate) fn copy_into(&self, region: &mut Region) {
        debug_assert!(self.has_shape(region.shape()), "entries of one shape");
        let shape = Arc::clone(region.shape());
        for (run, entries) in self.runs() {
            if self.array != shape.array {
                // Without their mark, which says no more than the fields.
                let (fields, own) = (super::fields(&shape.layout), self.array.start);
                for (i, entry) in entries.chunks_exact(self.array.stride).enumerate() {
                    let from = &entry[fields.start - own..fields.end - own];
                    let into = region.entry(run.first + i as i64).wrapping_add(fields.start);
                    // SAFETY: the region has an entry for each key of the run, with these fields, and is ours.
                    unsafe { into.copy_from_nonoverlapping(from.as_ptr(), from.len()) };
                }
                continue;
            }
            // SAFETY: the region has entries for all keys of the run, and is ours.
            unsafe {
                let into = region.entry(run.first).add(shape.array.start);
                into.copy_from_nonoverlapping(entries.as_ptr(), entries.len());
                if shape.array.sets_mark {
                    // A mark is 1 or 0, whatever was read.
                    (0..run.len).for_each(|i| {
                        let entry = region.entry(run.first).add(i * shape.array.stride);
                        write(entry, shape.array.mark, u64::from(read::<u64>(entry, shape.array.mark) != 0));
                    });
                }
            }
        }
    }

    /// Writes the entries of keys that are there with hash and key.
    ///
    /// # Safety
    /// From `first` on is zeroed memory of as many entries of the layout as there are, which is ours to write.
    pub(crate) unsafe fn write_entries(&self, layout: &EntryLayout, first: *mut u8) {
        let (stride, array) = (self.array.stride, &self.array);
        let fields = super::fields(layout);
        let (from, mark) = (fields.start.saturating_sub(array.start), array.mark - array.start);
        let mut place = first;
        for (run, entries) in self.runs() {
            for (i, entry) in entries.chunks_exact(stride).enumerate() {
                if entry[mark..mark + 8] == [0; 8] {
                    continue;
                }
                let fields_of_entry = &entry[from..from + fields.len()];
                // SAFETY: promised by the caller; the fields are in both entries.
                unsafe {
                    place.add(fields.start).copy_from_nonoverlapping(fields_of_entry.as_ptr(), fields_of_entry.len());
                    super::write_key(layout, place, run.first + i as i64);
                    place = place.wrapping_add(layout.stride);
                }
            }
        }
    }
}
