//! The running window of `Combination::Subtract`: slices are added when they enter and subtracted when they leave.

use super::together::Together;
use crate::accumulator;
use crate::arena::Arena;
use crate::array::{Grid, Region, is_worth};
use crate::dense::key_of_entry;
use crate::entry;
use crate::merge::Merged;
use crate::partial::Partial;
use crate::sort::sorted_entries;
use crate::table::Table;
use millstream_abi::{Accumulator, EntryLayout, Phys};
use std::ops::Range;
use std::sync::Arc;

/// What the slices of a window hold together: a grid for the keys of their arrays, and a table for all others. An entry also counts
/// the partials that its key is in, so that a key goes with the last of them; in a grid whose mark is a count of rows that
/// says as much.
///
/// Entries of the table begin with those of the aggregation's layout. Keys outlive the partials that brought them, so the
/// table owns their strings.
#[derive(Debug)]
pub(super) struct Running {
    layout: Arc<EntryLayout>,
    partitions: Range<usize>,
    grid: Option<Grid>,
    table: Table,
    /// Offset of the number of partials.
    partials: usize,
    /// The entries of the table in the order of results; out of date when `is_sorted` is false. Often a window has the keys
    /// of the one before.
    sorted: Vec<*const u8>,
    is_sorted: bool,
}

// SAFETY: the pointers are into the table, which is `Send`.
unsafe impl Send for Running {}
// SAFETY: methods on shared values only read.
unsafe impl Sync for Running {}

impl Running {
    /// An empty window of some partitions.
    pub(super) fn new(layout: &Arc<EntryLayout>, partitions: Range<usize>) -> Running {
        let keys: Vec<(Phys, bool)> = layout.keys.iter().map(|k| (k.phys, k.nullable)).collect();
        let mut accumulators: Vec<Accumulator> = layout.accumulators.iter().map(|(a, _)| *a).collect();
        accumulators.push(Accumulator::Count);
        let counted = EntryLayout::new(&keys, &accumulators).in_partitions(layout.partition_bits);
        let partials = counted.accumulators[layout.accumulators.len()].1;
        assert!(
            counted.keys == layout.keys && counted.accumulators.starts_with(&layout.accumulators),
            "a layout with one accumulator more begins with the layout"
        );
        let table = Table::new(Arc::new(counted));
        let (layout, sorted) = (Arc::clone(layout), Vec::new());
        Running { layout, partitions, grid: None, table, partials, sorted, is_sorted: true }
    }

    /// The rows, merged with those of some more partials.
    ///
    /// # Safety
    /// The running window is not changed while the result is used, and the partials stay alive.
    pub(super) unsafe fn merged(&mut self, more: &[&Arc<Partial>]) -> Merged {
        if !more.is_empty() {
            let mut window = Together::new(&self.layout, self.partitions.clone());
            window.cover_all(self.grid.iter().map(Grid::range), more.iter().map(|partial| &***partial));
            // SAFETY: entries begin with those of the layout, whose strings stay alive, as promised by the caller.
            unsafe {
                window.merge_parts(self.grid.as_ref(), &self.table);
                more.iter().for_each(|partial| window.merge(partial));
                return window.into_rows();
            }
        }
        if !self.is_sorted {
            // SAFETY: entries of the table, which owns their strings.
            self.sorted = unsafe { sorted_entries(self.table.layout(), self.table.occupied()) };
            self.is_sorted = true;
        }
        let layout = Arc::clone(&self.layout);
        // SAFETY: entries begin with those of the layout; the rest is promised by the caller.
        unsafe {
            match &self.grid {
                Some(grid) => Merged::of_array(layout, &self.sorted, grid, self.partitions.clone()),
                None => Merged::of_rows(layout, self.sorted.clone()),
            }
        }
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.table.bytes() + self.grid.as_ref().map_or(0, Grid::bytes)
    }

    /// Adds what enters.
    pub(super) fn add(&mut self, partial: &Partial) {
        if let Some(region) = partial.region() {
            self.cover(region);
        }
        if let Some((grid, region)) = self.grid.as_ref().zip(partial.region()) {
            // SAFETY: both have as many entries there; the grid is ours.
            grid.with_common(region, |into, from, count| unsafe { grid.shape().add(into, from, count) });
        }
        let range = self.grid.as_ref().map(Grid::range);
        for from in partial.entries_beside(range, &self.partitions.clone()) {
            // SAFETY: entries of the layout; a fresh entry is longer than that, and gets its own strings.
            unsafe {
                if let Some((grid, place)) = self.in_grid(from) {
                    grid.shape().merge_entry(place, from, |partials| partials + 1);
                    continue;
                }
                match self.table.find(from) {
                    Some(found) => {
                        // Invertible, and so no lists.
                        accumulator::merge_all(&self.layout, found, from, &mut Arena::default());
                        entry::write(found, self.partials, entry::read::<i64>(found, self.partials) + 1);
                    }
                    None => {
                        self.is_sorted = false;
                        let fresh = self.table.claim_for(from);
                        fresh.copy_from_nonoverlapping(from, self.layout.stride);
                        entry::write(fresh, self.partials, 1i64);
                        self.table.keep_keys(fresh);
                    }
                }
            }
        }
    }

    /// Takes out what leaves.
    pub(super) fn subtract(&mut self, partial: &Partial) {
        if let Some((grid, region)) = self.grid.as_ref().zip(partial.region()) {
            // SAFETY: both have as many entries there; the grid is ours.
            grid.with_common(region, |into, from, count| unsafe { grid.shape().subtract(into, from, count) });
        }
        let range = self.grid.as_ref().map(Grid::range);
        for from in partial.entries_beside(range, &self.partitions.clone()) {
            // SAFETY: entries of the layout; whatever is removed has no objects, because those are not invertible.
            unsafe {
                if let Some((grid, place)) = self.in_grid(from) {
                    grid.shape().subtract_entry(place, from);
                    continue;
                }
                let found = self.table.find(from).expect("what leaves has entered");
                let partials = entry::read::<i64>(found, self.partials) - 1;
                if partials == 0 {
                    self.is_sorted = false;
                    self.table.remove(found);
                    continue;
                }
                entry::write(found, self.partials, partials);
                accumulator::subtract_all(&self.layout, found, from);
            }
        }
    }

    /// Gives back memory of keys that have gone.
    pub(super) fn tidy(&mut self) {
        self.is_sorted &= !self.table.shrink();
        self.table.compact_strings();
        self.grid.iter_mut().for_each(Grid::trim);
    }

    /// The entry of a key in the grid, if that is for it.
    fn in_grid(&self, entry: *const u8) -> Option<(&Grid, *mut u8)> {
        let grid = self.grid.as_ref()?;
        // SAFETY: the callers have entries that begin with those of the layout.
        let key = unsafe { key_of_entry(&self.layout, entry) }?;
        grid.entry_of(key).map(|place| (grid, place))
    }

    /// Makes the grid one for the keys of a region as well, if they are not far from its own.
    fn cover(&mut self, region: &Region) {
        let range = region.range();
        match &mut self.grid {
            Some(grid) if grid.range().contains(range) => return,
            Some(grid) => {
                let own = grid.range();
                if !is_worth(own.union(range), own.len.saturating_add(range.len)) {
                    return;
                }
                grid.cover(range);
            }
            None => self.grid = Some(Grid::fresh(region.shape(), self.partitions.clone(), range)),
        }
        if self.table.is_empty() {
            return;
        }
        // Keys of the table that the grid is for now move there.
        let counted = Arc::clone(self.table.layout());
        let before = std::mem::replace(&mut self.table, Table::new(counted));
        self.is_sorted = false;
        for from in before.occupied() {
            // SAFETY: entries of the table before; a key that is an integer has no string.
            unsafe {
                match self.in_grid(from) {
                    Some((grid, place)) => {
                        let partials = entry::read::<u64>(from, self.partials);
                        grid.shape().merge_entry(place, from, |others| others + partials);
                    }
                    None => self.table.claim_for(from).copy_from_nonoverlapping(from, before.layout().stride),
                }
            }
        }
    }
}
