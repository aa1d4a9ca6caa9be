//! Several partials as one, for slices that stay open over many generations: each of those leaves a partial of its own, with
//! an entry for every key that was met meanwhile.

use super::{Entries, Form, PARTITIONS, Partial, partition_of_entry};
use crate::arena::Arena;
use crate::array::compact_arrays;
use crate::budget::{Charge, MemoryBudget, MemoryClass};
use crate::entry;
use crate::memory::EntryMemory;
use crate::merge::{arrays_of_one_shape, merge_entries};
use crate::object;
use millstream_abi::Accumulator;
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
        let all = 0..PARTITIONS;
        let entries = partials.iter().flat_map(|partial| partial.entries_of(&all));
        // SAFETY: occupied entries of the layout, whose strings live in the partials.
        let (rows, copies) = unsafe { merge_entries(&layout, entries) };
        let by_key = layout.allows_arrays();
        // SAFETY: entries of the layout.
        let partition = |entry: *const u8| unsafe { partition_of_entry(&layout, by_key, entry) };
        let start = |wanted| rows.partition_point(|&entry| partition(entry) < wanted);
        let mut starts = [0; PARTITIONS + 1];
        starts.iter_mut().enumerate().for_each(|(partition, at)| *at = start(partition));
        let memory = EntryMemory::zeroed(rows.len() * layout.stride);
        let mut places = Vec::with_capacity(rows.len());
        let mut object_bytes = 0;
        for (i, &row) in rows.iter().enumerate() {
            // SAFETY: there are as many places as rows; the copy counts its objects.
            unsafe {
                let place = memory.start().add(i * layout.stride);
                place.copy_from_nonoverlapping(row, layout.stride);
                object::retain(&layout, place);
                object_bytes += object::bytes(&layout, place);
                places.push(place);
            }
        }
        let is_string = |a: Accumulator| matches!(a, Accumulator::MinStr | Accumulator::MaxStr);
        let of_accumulators = layout.accumulators.iter().filter(|(a, _)| is_string(*a)).map(|&(_, offset)| offset);
        let strings: Vec<usize> = entry::string_keys(&layout).into_iter().chain(of_accumulators).collect();
        let mut arena = Arena::default();
        // SAFETY: the copies are ours; their strings live in the partials.
        unsafe { entry::move_strings(&places, &strings, &mut arena) };
        drop(copies);
        let entries = Entries { memory, starts, arena, object_bytes, is_distinct: true };
        let charge = Charge::new(budget, MemoryClass::Partials, entries.bytes());
        Partial { form: Form::Entries(layout, Box::new(entries)), _charge: Some(charge) }
    }
}
