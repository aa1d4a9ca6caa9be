//! Partials that were written when their job had another number of partitions.

use super::{Entries, Partial, Sealed};
use crate::array::{ArrayShape, Region};
use crate::budget::MemoryBudget;
use crate::output::OutputTypes;
use crate::seal::{Keeping, move_sorted};
use millstream_abi::EntryLayout;
use millstream_storage::Damaged;
use std::sync::Arc;

impl Partial {
    /// As [`Partial::restore`], of blocks of a layout with `1 << bits` partitions.
    ///
    /// # Errors
    /// When the bytes are not what has been written.
    pub fn restore_repartitioned(
        layout: &Arc<EntryLayout>,
        bits: u32,
        types: &OutputTypes,
        budget: &Arc<MemoryBudget>,
        blocks: &[impl AsRef<[u8]>],
    ) -> Result<Partial, Damaged> {
        let before = Arc::new(EntryLayout::clone(layout).in_partitions(bits));
        let read = Partial::restore(&before, types, budget, blocks)?;
        Ok(read.repartitioned(layout).counted(budget))
    }

    /// A partial that was read as one of a layout that has other partitions.
    fn repartitioned(self, layout: &Arc<EntryLayout>) -> Partial {
        let Partial { entries: Entries { mut entries, arena, object_bytes }, array, far, is_distinct, .. } = self;
        let count = entries.len();
        let places = entries.give_away().map(<*mut u8>::cast_const);
        // SAFETY: what was read are entries of the layout, which nobody else has any more; their strings are in the arena.
        let partial = unsafe {
            Partial::of_moved(layout, move_sorted(layout, (places, count), Keeping::default()), arena, object_bytes)
        };
        let region =
            |Sealed { region, .. }: Sealed| -> Option<Region> { Some(region.with_shape(&ArrayShape::of(layout)?)) };
        let partial = if is_distinct { partial } else { partial.repeating() };
        let layout_of_far = Arc::new(layout.far());
        let of_far = |far: Arc<Partial>| {
            let far = Arc::into_inner(far).expect("nobody else has what was just read");
            Arc::new(far.repartitioned(&layout_of_far))
        };
        partial.with_region(array.and_then(region)).with_far(far.into_iter().map(of_far).collect())
    }
}
