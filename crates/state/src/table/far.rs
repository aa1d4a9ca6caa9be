//! Tables with sums of doubles of which something is far (`crate::far`), and the tables that keep it.

use super::Table;
use crate::object::{Change, Exact};
use millstream_abi::Slot;
use std::sync::Arc;

impl Table {
    /// Adds a value that is far to a sum of an entry, or takes back the one whose negative it is.
    ///
    /// # Safety
    /// It is an entry of this table, and the slot holds a double.
    pub(super) unsafe fn add_far(&mut self, entry: *const u8, component: usize, value: Slot, change: Change) {
        let layout = Arc::clone(&self.layout);
        let of_array = self.parts.array().and_then(|array| array.key_at(entry).map(|key| array.shape().only_key(key)));
        let of = of_array.as_ref().map_or(entry, |only_key| only_key.start());
        // SAFETY: hash and keys of the entry; the rest is promised by the caller.
        unsafe { self.far.add(&layout, of, component, value, change) };
    }

    /// Sums of which something is far: entries with their keys, and which of the sums it is.
    pub(crate) fn far_sums(&self) -> impl Iterator<Item = (*const u8, usize, &Exact)> {
        self.far.sums()
    }

    /// Inserts the keys of an entry, of which strings are copied, with fresh accumulators.
    ///
    /// # Safety
    /// `from` has hash and keys of a layout with the same ones, which are not in the table; their strings are alive.
    /// The table can have no array.
    pub(crate) unsafe fn insert_keys_of(&mut self, from: *const u8) -> *mut u8 {
        let end = self.layout.keys.iter().map(|key| key.offset + key.phys.size()).fold(size_of::<u64>(), usize::max);
        // SAFETY: promised by the caller; null mask and keys are in front of the accumulators, at the same places.
        unsafe {
            let fresh = self.claim_for(from);
            fresh.copy_from_nonoverlapping(self.template.as_ptr(), self.layout.stride);
            fresh.copy_from_nonoverlapping(from, end);
            self.keep_keys(fresh);
            fresh
        }
    }
}
