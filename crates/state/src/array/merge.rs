//! Merge of array tables of one shape: their entries are added up run by run, as arrays are.

use super::{ArrayRun, ArrayShape, entry};
use crate::accumulator::{self, Strided};
use crate::budget::MemoryBudget;
use crate::entry::read;
use crate::memory::EntryMemory;
use crate::merge::Rows;
use std::ops::Range;
use std::sync::Arc;

/// The rows of arrays of one shape, in some partitions, and the memory of those that several have, if the merge has made
/// any. `there` is the number of their keys together.
///
/// # Panics
/// Without arrays.
pub(crate) fn merge_arrays(
    arrays: &[&ArrayRun],
    partitions: &Range<usize>,
    there: usize,
) -> (Rows, Option<EntryMemory>) {
    let shape = &arrays[0].shape;
    debug_assert!(arrays.iter().all(|array| array.has_shape_of(arrays[0])), "arrays of one shape");
    let runs = shape.runs.of(partitions);
    let keys = runs.iter().map(|run| run.len).sum();
    let mut rows = Collector::new(shape, there.min(keys));
    let [first, others @ ..] = arrays else { unreachable!("there is an array") };
    if others.is_empty() {
        for run in runs {
            // SAFETY: runs are within the range.
            unsafe { rows.collect(first.entry(run.first), run.first, run.len) };
        }
        return (rows.rows, None);
    }
    let memory = EntryMemory::zeroed(shape.array.bytes(keys));
    let mut done = 0;
    for run in runs {
        let (into, start, bytes) =
            (entry(&memory, &shape.array, done), shape.array.start, run.len * shape.array.stride);
        // SAFETY: the memory has a place for every key of the runs, and the arrays have one for every key of the range;
        // nobody reads the former yet.
        unsafe {
            into.add(start).copy_from_nonoverlapping(first.entry(run.first).add(start), bytes);
            others.iter().for_each(|other| add(shape, into, other.entry(run.first), run.len));
            rows.collect(into, run.first, run.len);
        }
        done += run.len;
    }
    (rows.rows, Some(memory))
}

/// One array that holds what several of one shape hold together, in memory that counts in `budget` as that of partials.
///
/// # Panics
/// Without arrays.
pub(crate) fn compact_arrays(arrays: &[&ArrayRun], budget: &Arc<MemoryBudget>) -> ArrayRun {
    let [first, others @ ..] = arrays else { unreachable!("there is an array") };
    debug_assert!(others.iter().all(|other| other.has_shape_of(first)), "arrays of one shape");
    let shape = Arc::clone(&first.shape);
    let memory = shape.memory(budget);
    let (into, start, keys) = (entry(&memory.entries, &shape.array, 0), shape.array.start, shape.keys());
    // SAFETY: all have an entry for every key of the range, and nobody else has the memory.
    unsafe {
        into.add(start).copy_from_nonoverlapping(first.entry(0).add(start), keys * shape.array.stride);
        others.iter().for_each(|other| add(&shape, into, other.entry(0), keys));
    }
    ArrayRun::new(shape, memory, first.kept)
}

/// Merges entries that follow each other into others: those of keys that are not there are fresh, which changes nothing.
///
/// # Safety
/// Both are `count` entries of arrays of the shape; nobody else uses `into`.
unsafe fn add(shape: &ArrayShape, into: *mut u8, from: *const u8, count: usize) {
    let entries = Strided { stride: shape.array.stride, count };
    // SAFETY: promised by the caller; accumulators are numbers, and the mark is a word.
    unsafe {
        for &(component, offset) in &shape.layout.accumulators {
            accumulator::merge_entries(component, offset, into, from, entries);
        }
        if shape.array.sets_mark {
            accumulator::combine(shape.array.mark, into, from, entries, |a: u64, b: u64| a | b);
        }
    }
}

/// Rows of the keys that are there.
struct Collector<'a> {
    shape: &'a ArrayShape,
    rows: Rows,
}

impl Collector<'_> {
    /// For at most `most` rows.
    fn new(shape: &ArrayShape, most: usize) -> Collector<'_> {
        // One more, because every entry is written before it is known whether it is there.
        let rows = Rows { entries: Vec::with_capacity(most + 1), keys: Some(Vec::with_capacity(most + 1)) };
        Collector { shape, rows }
    }

    /// Collects those of entries that follow each other from `first` on, of keys from number `index` on.
    ///
    /// # Safety
    /// They are entries of an array of the shape.
    unsafe fn collect(&mut self, first: *const u8, index: usize, count: usize) {
        let Rows { entries, keys: Some(keys) } = &mut self.rows else { unreachable!("made with keys") };
        let key = self.shape.range.first.wrapping_add(index as i64);
        let (mark, stride) = (self.shape.array.mark, self.shape.array.stride);
        let (places, key_places) = (entries.spare_capacity_mut(), keys.spare_capacity_mut());
        let mut found = 0;
        for i in 0..count {
            let entry = first.wrapping_add(i * stride);
            places[found].write(entry);
            key_places[found].write(key.wrapping_add(i as i64));
            // SAFETY: promised by the caller.
            found += (unsafe { read::<u64>(entry, mark) } != 0) as usize;
        }
        let len = entries.len() + found;
        // SAFETY: the entries up to `len` have been written.
        unsafe {
            entries.set_len(len);
            keys.set_len(len);
        }
    }
}
