//! Several partials as one, for slices that stay open over many generations: each of those leaves its own partial, with
//! an entry for every key that was met meanwhile.

use super::{Entries, Partial};
use crate::arena::Arena;
use crate::array::compact_arrays;
use crate::budget::MemoryBudget;
use crate::entry;
use crate::memory::{EntryMemory, OwnedEntries};
use crate::merge::{arrays_of_one_shape, merge_entries};
use crate::object;
use crate::partition::{PARTITIONS, starts};
use std::sync::Arc;

impl Partial {
    /// The partial that holds what several of one layout hold together, one entry for each key. Its memory counts in `budget` as
    /// that of partials. Arrays of one shape become another one. About linear in the number of entries.
    ///
    /// # Panics
    /// Without partials.
    pub fn compacted(partials: &[Arc<Partial>], budget: &Arc<MemoryBudget>) -> Partial {
        if let Some(arrays) = arrays_of_one_shape(partials).filter(|arrays| !arrays.is_empty()) {
            return Partial::of_array(compact_arrays(&arrays, budget));
        }
        let layout = Arc::clone(partials.first().expect("at least one partial").layout());
        // One partition after the other, so that what is sorted stays in the cache, and takes little memory.
        let merged: Vec<(Vec<*const u8>, OwnedEntries)> = (0..PARTITIONS)
            .map(|partition| {
                let entries = partials.iter().flat_map(|partial| partial.entries_of(&(partition..partition + 1)));
                // SAFETY: occupied entries of the layout, whose strings live in the partials.
                unsafe { merge_entries(&layout, entries) }
            })
            .collect();
        let starts = starts(|partition| merged[partition].0.len());
        let memory = EntryMemory::unwritten(starts[PARTITIONS] * layout.stride);
        // SAFETY: there are none yet.
        let mut entries = unsafe { OwnedEntries::new(&layout, memory, 0) };
        // SAFETY: entries of the layout; there are as many places as rows.
        let copy = |&row: &*const u8| unsafe { entries.push(row) };
        let copies: Vec<*mut u8> = merged.iter().flat_map(|(rows, _)| rows).map(copy).collect();
        // SAFETY: entries of the layout.
        let object_bytes = copies.iter().map(|&copy| unsafe { object::bytes(&layout, copy) }).sum();
        let mut arena = Arena::default();
        // SAFETY: the copies are ours; their strings live in the partials.
        unsafe { entry::move_strings(&copies, &entry::strings(&layout), &mut arena) };
        drop(merged);
        Partial::of_entries(Entries { entries, arena, object_bytes }, starts, true).counted(budget)
    }
}
