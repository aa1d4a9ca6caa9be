//! Entries that own their objects.

use crate::accumulator;
use crate::arena::Arena;
use crate::memory::EntryMemory;
use crate::object;
use millstream_abi::EntryLayout;
use std::ops::Range;
use std::sync::Arc;

/// Entries that follow each other, which own their objects.
#[derive(Debug)]
pub(crate) struct OwnedEntries {
    layout: Arc<EntryLayout>,
    memory: EntryMemory,
    len: usize,
    /// What lists that were merged have become.
    joins: Arena,
}

impl OwnedEntries {
    /// The first `len` entries in a block of memory; there may be places for more behind them.
    ///
    /// # Safety
    /// They are entries of the layout, whose objects belong to the value from now on.
    pub(crate) unsafe fn new(layout: &Arc<EntryLayout>, memory: EntryMemory, len: usize) -> OwnedEntries {
        OwnedEntries { layout: Arc::clone(layout), memory, len, joins: Arena::default() }
    }

    /// Copies an entry behind the others; the original keeps its objects.
    ///
    /// # Safety
    /// `from` is an entry of the layout, and the memory has room for one more.
    pub(crate) unsafe fn push(&mut self, from: *const u8) -> *mut u8 {
        // SAFETY: promised by the caller; nothing is changed.
        unsafe { self.push_changed(from, |_| {}) }
    }

    /// The same, and changes the copy.
    ///
    /// # Safety
    /// As for [`OwnedEntries::push`]; what `change` is given is an entry of the layout when it returns.
    pub(crate) unsafe fn push_changed(&mut self, from: *const u8, change: impl FnOnce(*mut u8)) -> *mut u8 {
        // SAFETY: promised by the caller.
        unsafe {
            let copy = self.place(self.len);
            copy.copy_from_nonoverlapping(from, self.layout.stride);
            change(copy);
            object::retain(&self.layout, copy);
            self.len += 1;
            copy
        }
    }

    /// Merges an entry into one of these.
    ///
    /// # Safety
    /// As for [`accumulator::merge_all`].
    pub(crate) unsafe fn merge(&mut self, into: *mut u8, from: *const u8) {
        // SAFETY: promised by the caller.
        unsafe { accumulator::merge_all(&self.layout, into, from, &mut self.joins) };
    }

    /// Entry number `i`, or where it will be.
    pub(crate) fn place(&self, i: usize) -> *mut u8 {
        debug_assert!(i * self.layout.stride <= self.memory.bytes());
        // SAFETY: within the memory.
        unsafe { self.memory.start().add(i * self.layout.stride) }
    }

    /// Those of a range of numbers.
    pub(crate) fn range(&self, range: Range<usize>) -> impl Iterator<Item = *mut u8> + use<> {
        debug_assert!(range.end <= self.len, "entries that are there");
        let (first, stride) = (self.memory.start(), self.layout.stride);
        // SAFETY: entries below `len` are within the memory.
        range.map(move |i| unsafe { first.add(i * stride) })
    }

    /// Gives all of them away, with their objects; the memory stays.
    pub(crate) fn give_away(&mut self) -> impl Iterator<Item = *mut u8> + use<> {
        let all = self.range(0..self.len);
        self.len = 0;
        all
    }

    /// Number of them.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Their layout.
    pub(crate) fn layout(&self) -> &Arc<EntryLayout> {
        &self.layout
    }

    /// Bytes of the memory, without those of objects.
    pub(crate) fn bytes(&self) -> usize {
        self.memory.bytes()
    }
}

impl Drop for OwnedEntries {
    fn drop(&mut self) {
        // SAFETY: entries of the layout, which nobody reads any more.
        unsafe { object::release_all(&self.layout, self.range(0..self.len)) };
    }
}
