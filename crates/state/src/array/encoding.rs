//! Arrays as bytes, unconverted: a run of keys that follow each other has one key and its entries, which have neither
//! hash nor key. Where most keys of a range are there, that is a third of what they take with those.
//!
//! ```text
//! ┌────────────────────────────────┬───────────┬─────────────────────────┬────────────────────────┐
//! │ which accumulator is the mark  │ how many  │ runs: first key, length │ entries, run by run    │
//! └────────────────────────────────┴───────────┴─────────────────────────┴────────────────────────┘
//! ```

use super::{ArrayRun, write_key};
use millstream_abi::{ArrayLayout, EntryLayout};
use millstream_storage::{ByteReader, ByteWriter, Damaged};
use std::ops::Range;

/// Bytes of a run beside its entries.
const RUN_BYTES: usize = 8 + 4;

impl ArrayRun {
    /// Whether a partition with `there` keys present takes less as runs than as entries with keys.
    pub(crate) fn takes_less_as_runs(&self, partition: usize, there: usize) -> bool {
        let runs = self.shape.runs.of(&(partition..partition + 1));
        let keys: usize = runs.iter().map(|run| run.len).sum();
        keys * self.shape.array.stride + runs.len() * RUN_BYTES < there * self.layout().stride
    }

    /// Writes runs of a partition from number `at` on, of about `bytes` bytes, at least one; the number of the next
    /// one, `None` if none is left. Runs of which no key is there are left out.
    pub(crate) fn write_runs(&self, partition: usize, at: usize, bytes: usize, out: &mut ByteWriter) -> Option<usize> {
        let (shape, stride) = (&self.shape, self.shape.array.stride);
        let mut runs = shape.runs.of(&(partition..partition + 1)).iter().enumerate().skip(at).peekable();
        let (mut chosen, mut done, mut next) = (Vec::new(), 0, at);
        while let Some((number, run)) = runs.next_if(|(_, run)| chosen.is_empty() || done + run.len * stride <= bytes) {
            next = number + 1;
            if run.keys().any(|index| self.is_there(index)) {
                chosen.push(*run);
                done += run.len * stride;
            }
        }
        if chosen.is_empty() {
            return None;
        }
        out.u32(mark_number(&shape.layout, &shape.array));
        out.length(chosen.len());
        for run in &chosen {
            out.i64(shape.range.first.wrapping_add(run.first as i64));
            out.u32(run.len as u32);
        }
        for run in &chosen {
            // SAFETY: runs are within the range, so the array has their entries from `start` on; it is made of zeroed memory, so
            // that all bytes have values.
            out.raw(unsafe {
                std::slice::from_raw_parts(self.entry(run.first).add(shape.array.start), run.len * stride)
            });
        }
        Some(next)
    }
}

/// The layouts that arrays of a layout may have: by the number of the accumulator that is their mark, behind which
/// comes the one with its own mark.
fn array_of(layout: &EntryLayout, number: u32) -> Option<ArrayLayout> {
    let number = number as usize;
    match number.cmp(&layout.accumulators.len()) {
        std::cmp::Ordering::Less => layout.array(Some(number)),
        std::cmp::Ordering::Equal => layout.array(None),
        std::cmp::Ordering::Greater => None,
    }
}

fn mark_number(layout: &EntryLayout, array: &ArrayLayout) -> u32 {
    let mut numbers = 0..=layout.accumulators.len() as u32;
    numbers.find(|&number| array_of(layout, number).as_ref() == Some(array)).expect("the array is one of the layout")
}

/// Runs that are still to be read.
pub(crate) struct ArrayBlock<'a> {
    array: ArrayLayout,
    runs: Vec<(i64, usize)>,
    entries: &'a [u8],
}

impl<'a> ArrayBlock<'a> {
    /// Looks at what [`ArrayRun::write_runs`] has written. Nothing of it is trusted.
    pub(crate) fn of(layout: &EntryLayout, from: &mut ByteReader<'a>) -> Result<ArrayBlock<'a>, Damaged> {
        let array = array_of(layout, from.u32()?);
        let array = array.ok_or_else(|| Damaged("an array is of entries that cannot be in one".into()))?;
        let count = from.count(RUN_BYTES)?;
        let run = |_| Ok((from.i64()?, from.u32()? as usize));
        let runs = (0..count).map(run).collect::<Result<Vec<(i64, usize)>, Damaged>>()?;
        let keys = runs.iter().try_fold(0, |sum: usize, (_, len)| sum.checked_add(*len));
        let bytes = keys.and_then(|keys| keys.checked_mul(array.stride));
        let bytes = bytes.ok_or_else(|| Damaged("the runs of an array are longer than memory".into()))?;
        Ok(ArrayBlock { array, runs, entries: from.raw(bytes)? })
    }

    /// How many keys are there.
    pub(crate) fn count(&self) -> usize {
        self.there().count()
    }

    /// Keys that are there, with their entries.
    fn there(&self) -> impl Iterator<Item = (i64, &'a [u8])> {
        let keys = self.runs.iter().flat_map(|&(first, len)| (0..len).map(move |i| first.wrapping_add(i as i64)));
        let mark = self.array.mark - self.array.start;
        let entries = self.entries.chunks_exact(self.array.stride);
        keys.zip(entries).filter(move |(_, entry)| entry[mark..mark + 8] != [0; 8])
    }

    /// Writes the entries with hash and key.
    ///
    /// # Safety
    /// From `first` on is zeroed memory of as many entries of the layout as there are, which is ours to write.
    pub(crate) unsafe fn write_entries(&self, layout: &EntryLayout, first: *mut u8) {
        let fields = fields(layout);
        let from = fields.start.saturating_sub(self.array.start);
        for (i, (key, entry)) in self.there().enumerate() {
            // SAFETY: promised by the caller; the fields are in both entries.
            unsafe {
                let place = first.add(i * layout.stride);
                let entry = &entry[from..from + fields.len()];
                place.add(fields.start).copy_from_nonoverlapping(entry.as_ptr(), entry.len());
                write_key(layout, place, key);
            }
        }
    }
}

/// The bytes of the accumulators within an entry.
pub(super) fn fields(layout: &EntryLayout) -> Range<usize> {
    let ends = layout.accumulators.first().zip(layout.accumulators.last());
    ends.map_or(0..0, |(&(_, first), &(last, offset))| first..offset + last.size())
}
