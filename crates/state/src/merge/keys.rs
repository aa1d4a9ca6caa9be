//! Entries of equal keys as one.

use crate::entry::compare_keys;
use crate::memory::EntryMemory;
use crate::owned::OwnedEntries;
use crate::sort::{Order, Sorted, sorted};
use millstream_abi::EntryLayout;
use std::sync::Arc;

/// Sorted entries, one for each key; copies of those that there are several of.
///
/// # Safety
/// They are occupied entries of the layout whose strings are alive, also as long as the result is used.
pub(crate) unsafe fn merge_entries(
    layout: &Arc<EntryLayout>,
    entries: impl Iterator<Item = *const u8>,
) -> (Vec<*const u8>, OwnedEntries) {
    // SAFETY: promised by the caller.
    let entries = unsafe { sorted(layout, entries) };
    let mut keys = Keys::new(layout, entries.len());
    // SAFETY: as above; they are sorted.
    unsafe { keys.take(&Order::of(layout), &entries) };
    (keys.rows, keys.copies)
}

/// Merges what is sorted by words. Of equal ones those of the first run come first.
pub(super) fn merge_runs(first: &[Sorted], second: &[Sorted], into: &mut Vec<Sorted>) {
    into.clear();
    into.reserve(first.len() + second.len());
    let (mut i, mut j) = (0, 0);
    while let (Some(left), Some(right)) = (first.get(i), second.get(j)) {
        // Which it is cannot be predicted, so there is no branch.
        let is_left = left.word <= right.word;
        into.push(if is_left { *left } else { *right });
        i += usize::from(is_left);
        j += usize::from(!is_left);
    }
    into.extend_from_slice(&first[i..]);
    into.extend_from_slice(&second[j..]);
}

/// One entry for each key.
pub(super) struct Keys {
    pub(super) rows: Vec<*const u8>,
    /// Of keys that had several.
    pub(super) copies: OwnedEntries,
}

impl Keys {
    /// Of at most `most` entries.
    pub(super) fn new(layout: &Arc<EntryLayout>, most: usize) -> Keys {
        // Each copy takes the place of two entries at least.
        let memory = EntryMemory::unwritten(most / 2 * layout.stride);
        // SAFETY: there are none yet.
        let copies = unsafe { OwnedEntries::new(layout, memory, 0) };
        Keys { rows: Vec::with_capacity(most), copies }
    }

    /// Takes the next entries.
    ///
    /// # Safety
    /// They are occupied entries of the layout, sorted, whose strings are alive, also as long as the rows are used.
    pub(super) unsafe fn take(&mut self, order: &Order<'_>, entries: &[Sorted]) {
        let is_one = |a: &Sorted, b: &Sorted| {
            // SAFETY: promised by the caller.
            a.word == b.word && (order.is_whole || unsafe { compare_keys(order.layout, a.entry, b.entry) }.is_eq())
        };
        let mut left = entries;
        while let [first, others @ ..] = left {
            let equal = others.iter().take_while(|other| is_one(first, other)).count();
            self.rows.push(match equal {
                0 => first.entry,
                // SAFETY: promised by the caller; a copy is ours to write.
                _ => unsafe {
                    let merged = self.copies.push(first.entry);
                    others[..equal].iter().for_each(|other| self.copies.merge(merged, other.entry));
                    merged.cast_const()
                },
            });
            left = &others[equal..];
        }
    }
}
