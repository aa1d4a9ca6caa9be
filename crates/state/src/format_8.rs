//! Sums of doubles as state of format 8 has them: two doubles, of which the second corrects the first. They are read, and never
//! written.

use crate::entry::{read, write};
use crate::far::Far;
use crate::object::{self, Change, Ordinal};
use millstream_abi::exact::{Fixed, add, fixed};
use millstream_abi::{Accumulator, EntryLayout, Slot};

/// The layout that entries had: with other numbers of the same size in the places of such sums.
pub(crate) fn layout_of(layout: &EntryLayout) -> EntryLayout {
    let keys: Vec<_> = layout.keys.iter().map(|key| (key.phys, key.nullable)).collect();
    let accumulators = layout.accumulators.iter().map(|&(accumulator, _)| match accumulator {
        Accumulator::SumF64 => Accumulator::SumI128,
        other => other,
    });
    let of_pairs = EntryLayout::new(&keys, &accumulators.collect::<Vec<_>>()).counted_by(layout.counters);
    of_pairs.in_partitions(layout.partition_bits)
}

/// Makes an entry of one that has pairs. Objects are shared by both.
///
/// # Safety
/// `from` is an entry of the layout with pairs whose strings are alive, and `into` zeroed memory for one of the layout.
pub(crate) unsafe fn convert(
    (layout, of_pairs): (&EntryLayout, &EntryLayout),
    from: *const u8,
    into: *mut u8,
    far: &mut Far,
) {
    // SAFETY: promised by the caller; hash, null mask and keys are at the same places, before all accumulators.
    unsafe {
        let keys = layout.keys.iter().map(|key| key.offset + key.phys.size()).fold(size_of::<u64>(), usize::max);
        into.copy_from_nonoverlapping(from, keys);
        for (number, (&(accumulator, offset), &(_, old))) in
            layout.accumulators.iter().zip(&of_pairs.accumulators).enumerate()
        {
            if accumulator != Accumulator::SumF64 {
                into.add(offset).copy_from_nonoverlapping(from.add(old), accumulator.size());
                continue;
            }
            let [high, low] = read::<[f64; 2]>(from, old);
            let (mut near, added): (Fixed, _) = ([0; 3], Change::Added(Ordinal::NOWHERE));
            // The correction of an infinity is none.
            for part in [Some(high), high.is_finite().then_some(low)].into_iter().flatten() {
                match fixed(part) {
                    Some(part) => near = add(near, part),
                    None => far.add(layout, into, number, Slot::of(part.to_le_bytes()), added),
                }
            }
            write(into, offset, near);
        }
        object::retain(layout, into);
    }
}
