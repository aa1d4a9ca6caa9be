//! The running window of `Combination::Subtract`: slices are added when they enter and subtracted when they leave.

use crate::accumulator;
use crate::entry;
use crate::merge::Merged;
use crate::partial::Partial;
use crate::sort::sorted_entries;
use crate::table::{Table, TableHint};
use millstream_abi::{Accumulator, EntryLayout, Phys};
use std::ops::Range;
use std::sync::Arc;

/// A table whose entries also count the partials that their key is in, so that a key goes with the last of them. Entries
/// begin with those of the aggregation's layout. Keys outlive the partials that brought them, so the table owns their
/// strings.
#[derive(Debug)]
pub(super) struct Running {
    layout: Arc<EntryLayout>,
    table: Table,
    /// Offset of the number of partials.
    partials: usize,
    /// The entries in the order of results; out of date when `is_sorted` is false. Often a window has the keys of the one
    /// before.
    sorted: Vec<*const u8>,
    is_sorted: bool,
}

// SAFETY: the pointers are into the table, which is `Send`.
unsafe impl Send for Running {}
// SAFETY: methods on shared values only read.
unsafe impl Sync for Running {}

impl Running {
    /// An empty window.
    pub(super) fn new(layout: &Arc<EntryLayout>) -> Running {
        let keys: Vec<(Phys, bool)> = layout.keys.iter().map(|k| (k.phys, k.nullable)).collect();
        let mut accumulators: Vec<Accumulator> = layout.accumulators.iter().map(|(a, _)| *a).collect();
        accumulators.push(Accumulator::Count);
        let counted = EntryLayout::new(&keys, &accumulators);
        let partials = counted.accumulators[layout.accumulators.len()].1;
        assert!(
            counted.keys == layout.keys && counted.accumulators.starts_with(&layout.accumulators),
            "a layout with one accumulator more begins with the layout"
        );
        let table = Table::with_hint(Arc::new(counted), true, TableHint::default());
        Running { layout: Arc::clone(layout), table, partials, sorted: Vec::new(), is_sorted: true }
    }

    /// The rows.
    ///
    /// # Safety
    /// The running window is not changed while the result is used.
    pub(super) unsafe fn merged(&mut self) -> Merged {
        if !self.is_sorted {
            // SAFETY: entries of the table, which owns their strings.
            self.sorted = unsafe { sorted_entries(self.table.layout(), self.table.occupied()) };
            self.is_sorted = true;
        }
        // SAFETY: entries begin with those of the layout; the rest is promised by the caller.
        unsafe { Merged::of_rows(Arc::clone(&self.layout), self.sorted.clone()) }
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.table.bytes()
    }

    /// Adds what enters.
    pub(super) fn add(&mut self, partial: &Partial, partitions: &Range<usize>) {
        for from in partial.entries_of(partitions) {
            // SAFETY: entries of the layout; a fresh entry is longer than that, and gets its own strings.
            unsafe {
                match self.table.find(from) {
                    Some(found) => {
                        accumulator::merge_all(&self.layout, found, from);
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
    pub(super) fn subtract(&mut self, partial: &Partial, partitions: &Range<usize>) {
        for from in partial.entries_of(partitions) {
            // SAFETY: entries of the layout; whatever is removed has no objects, because those are not invertible.
            unsafe {
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
    }
}
