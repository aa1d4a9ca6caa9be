//! Several partials as one, for slices that stay open over many generations: each of those leaves its own partial, with
//! an entry for every key that was met meanwhile.

use super::{Entries, Partial};
use crate::arena::Arena;
use crate::array::{Region, common_range};
use crate::budget::MemoryBudget;
use crate::dense::key_of_entry;
use crate::entry;
use crate::list;
use crate::memory::EntryMemory;
use crate::merge::merge_entries;
use crate::object;
use crate::owned::OwnedEntries;
use crate::partition::PartitionStarts;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Partial {
    /// The partial that holds what several of one layout hold together, one entry for each key. Its memory counts in `budget` as
    /// that of partials. Arrays whose keys are not far from each other are added up. About linear in the number of entries.
    ///
    /// # Panics
    /// Without partials.
    pub fn compacted(partials: &[Arc<Partial>], budget: &Arc<MemoryBudget>) -> Partial {
        let layout = Arc::clone(partials.first().expect("at least one partial").layout());
        let region = Partial::regions_together(partials);
        let range = region.as_ref().map(Region::range);
        // One partition after the other, so that what is sorted stays in the cache, and takes little memory.
        let filled: BTreeSet<usize> = partials.iter().flat_map(|partial| partial.filled_partitions()).collect();
        let merged: Vec<(Vec<*const u8>, OwnedEntries)> = filled
            .iter()
            .map(|&partition| {
                let of_partition = partition..partition + 1;
                let entries = partials.iter().flat_map(|partial| partial.entries_beside(range, &of_partition));
                let outside = entries.filter(|&entry| {
                    let Some(region) = &region else { return true };
                    // SAFETY: an entry of the layout.
                    let place = unsafe { key_of_entry(&layout, entry) }.and_then(|key| region.entry_of(key));
                    if let Some(place) = place {
                        // SAFETY: entries of the layout and of an array of it, which is ours.
                        unsafe { region.shape().merge_entry(place, entry, |_| 1) };
                    }
                    place.is_none()
                });
                // SAFETY: occupied entries of the layout, whose strings live in the partials.
                unsafe { merge_entries(&layout, outside) }
            })
            .collect();
        let counts = filled.into_iter().zip(merged.iter().map(|(rows, _)| rows.len()));
        let starts = PartitionStarts::of_counts(counts);
        let memory = EntryMemory::unwritten(starts.len() * layout.stride);
        // SAFETY: there are none yet.
        let mut entries = unsafe { OwnedEntries::new(&layout, memory, 0) };
        // SAFETY: entries of the layout; there are as many places as rows.
        let copy = |&row: &*const u8| unsafe { entries.push(row) };
        let copies: Vec<*mut u8> = merged.iter().flat_map(|(rows, _)| rows).map(copy).collect();
        // SAFETY: entries of the layout.
        let object_bytes = copies.iter().map(|&copy| unsafe { object::bytes(&layout, copy) }).sum();
        let mut arena = Arena::default();
        // SAFETY: the copies are ours; their strings live in the partials.
        unsafe {
            entry::move_strings(&copies, &entry::strings(&layout), &mut arena);
            copies.iter().for_each(|&copy| list::copy(&layout, copy, &mut arena));
        }
        drop(merged);
        let far: Vec<Arc<Partial>> = partials.iter().flat_map(|partial| partial.far()).cloned().collect();
        let far = (!far.is_empty()).then(|| Arc::new(Partial::compacted(&far, budget).uncounted()));
        let compact = Partial::of_entries(Entries { entries, arena, object_bytes }, starts, true).with_region(region);
        compact.with_far(far.into_iter().collect()).counted(budget)
    }

    /// The arrays of partials as one, but for keys that are far from the others.
    fn regions_together(partials: &[Arc<Partial>]) -> Option<Region> {
        let regions: Vec<&Region> = partials.iter().filter_map(|partial| partial.region()).collect();
        let ranges: Vec<_> = regions.iter().map(|region| region.range()).collect();
        let range = common_range(&ranges)?;
        let mut together = Region::fresh(regions[0].shape(), range);
        regions.iter().for_each(|region| together.merge(region));
        Some(together)
    }
}
