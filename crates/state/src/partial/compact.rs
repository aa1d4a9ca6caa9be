//! Several partials as one, for slices that stay open over many generations: each of those leaves a partial of its own, with
//! an entry for every key that was met meanwhile.

use super::{Entries, Form, Partial};
use crate::arena::Arena;
use crate::array::compact_arrays;
use crate::budget::{Charge, MemoryBudget, MemoryClass};
use crate::entry;
use crate::memory::EntryMemory;
use crate::merge::{Copies, arrays_of_one_shape, merge_entries};
use crate::object;
use crate::partition::PARTITIONS;
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
        // One partition after the other, so that what is sorted stays in the cache, and takes little memory.
        let merged: Vec<(Vec<*const u8>, Copies)> = (0..PARTITIONS)
            .map(|partition| {
                let entries = partials.iter().flat_map(|partial| partial.entries_of(&(partition..partition + 1)));
                // SAFETY: occupied entries of the layout, whose strings live in the partials.
                unsafe { merge_entries(&layout, entries) }
            })
            .collect();
        let mut starts = [0; PARTITIONS + 1];
        for (partition, (rows, _)) in merged.iter().enumerate() {
            starts[partition + 1] = starts[partition] + rows.len();
        }
        let memory = EntryMemory::unwritten(starts[PARTITIONS] * layout.stride);
        let mut places = Vec::with_capacity(starts[PARTITIONS]);
        let mut object_bytes = 0;
        for (i, &row) in merged.iter().flat_map(|(rows, _)| rows).enumerate() {
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
        drop(merged);
        let entries = Entries { memory, starts, arena, object_bytes, is_distinct: true };
        let charge = Charge::new(budget, MemoryClass::Partials, entries.bytes());
        Partial { form: Form::Entries(layout, Box::new(entries)), _charge: Some(charge) }
    }
}
