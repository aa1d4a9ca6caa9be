//! Partials of slices that are in a window, but not in the shorter one of some components ([`ShorterWindows`]).
//!
//! [`ShorterWindows`]: millstream_abi::ShorterWindows

use super::{Entries, Partial};
use crate::arena::Arena;
use crate::array::Region;
use crate::budget::MemoryClass;
use crate::entry;
use crate::memory::EntryMemory;
use crate::owned::OwnedEntries;
use millstream_abi::{Accumulator, EntryLayout};
use std::ops::Range;
use std::sync::Arc;

/// The masked components of a layout: where they are, and what they are in a fresh entry.
struct Mask<'a> {
    fields: Vec<(usize, usize)>,
    template: &'a [u8],
}

impl Mask<'_> {
    /// Makes the components of an entry fresh. It does not own their objects.
    ///
    /// # Safety
    /// From `entry` on are the accumulators of the layout, at their offsets, and they are ours to write.
    unsafe fn apply(&self, entry: *mut u8) {
        for &(offset, size) in &self.fields {
            // SAFETY: promised by the caller.
            unsafe { entry.add(offset).copy_from_nonoverlapping(self.template[offset..].as_ptr(), size) };
        }
    }
}

/// The same components of what is far of an aggregation's sums.
fn far_components(layout: &EntryLayout, components: &[bool]) -> Vec<bool> {
    let sums = layout.accumulators.iter().zip(components);
    sums.filter(|((accumulator, _), _)| *accumulator == Accumulator::SumF64).map(|(_, &is_masked)| is_masked).collect()
}

impl Partial {
    /// A copy of a range of partitions, or of more, in which some components are as if no row had updated them. All keys stay. Of
    /// a partial these are always the same components.
    pub fn masked(self: &Arc<Partial>, partitions: &Range<usize>, components: &[bool]) -> Arc<Partial> {
        if self.has_variable_parts() {
            let copy = Partial { original: Some(Arc::clone(self)), ..self.masked_copy(partitions, components) };
            return Arc::new(copy);
        }
        // Ranges of an array are not copied one by one: each copy would have room for all keys.
        Arc::clone(self.masked.get_or_init(|| Arc::new(self.masked_copy(&self.partitions(), components))))
    }

    /// The same of a partial that is not needed any more.
    pub fn into_masked(self, components: &[bool]) -> Partial {
        let copy = self.masked_copy(&self.partitions(), components);
        let original = self.has_variable_parts().then(|| Arc::new(self));
        Partial { original, ..copy }
    }

    fn masked_copy(&self, partitions: &Range<usize>, components: &[bool]) -> Partial {
        let layout = self.layout();
        let template = entry::template(layout);
        let masked = layout.accumulators.iter().zip(components).filter(|&(_, &is_masked)| is_masked);
        let fields = masked.map(|(&(accumulator, offset), _)| (offset, accumulator.size())).collect();
        let mask = Mask { fields, template: &template };
        let starts = self.starts.within(partitions);
        // SAFETY: there are none yet.
        let mut entries = unsafe { OwnedEntries::new(layout, EntryMemory::unwritten(starts.len() * layout.stride), 0) };
        for from in self.entries_of(partitions) {
            // SAFETY: entries of the layout, and a place for each. What is masked is forgotten before the copy counts its
            // objects.
            unsafe { entries.push_changed(from, |copy| mask.apply(copy)) };
        }
        let region = self.region().map(|region| {
            // There is one only if entries are numbers, of which all partitions are copied.
            let (mut copy, stride) = (Region::fresh(region.shape(), region.range()), region.shape().array.stride);
            copy.take_over(region);
            // SAFETY: an entry of the copy for each key, which is ours.
            (0..region.range().len as usize).for_each(|i| unsafe { mask.apply(copy.start().add(i * stride)) });
            copy
        });
        let of_far = far_components(layout, components);
        let far = self.far.iter().map(|far| far.masked(partitions, &of_far)).collect();
        let entries = Entries { entries, arena: Arena::default(), object_bytes: 0 };
        let partial = Partial::of_entries(entries, starts, self.is_distinct).with_region(region).with_far(far);
        let charge = self.charge.as_ref().map(|charge| charge.another(MemoryClass::Partials, partial.bytes()));
        Partial { charge, ..partial }
    }
}
