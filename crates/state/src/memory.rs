//! 16-byte aligned memory of entries, and entries in it that own their objects.

use crate::object;
use millstream_abi::EntryLayout;
use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

/// Alignment of the first entry: that of the widest field.
const ALIGN: usize = 16;

/// An owned block of bytes.
#[derive(Debug)]
pub(crate) struct EntryMemory {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the block is owned by the value alone; what threads do with the pointer is up to the owner's own rules.
unsafe impl Send for EntryMemory {}
// SAFETY: shared access only gives out the pointer; dereferencing it is unsafe at the place of use.
unsafe impl Sync for EntryMemory {}

impl EntryMemory {
    /// `bytes` zero bytes.
    pub(crate) fn zeroed(bytes: usize) -> EntryMemory {
        if bytes == 0 {
            return EntryMemory { start: NonNull::<u128>::dangling().cast(), bytes };
        }
        let layout = EntryMemory::layout(bytes);
        // SAFETY: the layout has a size above 0.
        EntryMemory::of(unsafe { alloc_zeroed(layout) }, layout)
    }

    /// `bytes` bytes without values: each is written before it is read.
    pub(crate) fn unwritten(bytes: usize) -> EntryMemory {
        if bytes == 0 {
            return EntryMemory::zeroed(bytes);
        }
        let layout = EntryMemory::layout(bytes);
        // SAFETY: the layout has a size above 0.
        EntryMemory::of(unsafe { alloc(layout) }, layout)
    }

    /// What the allocator has given for a layout.
    fn of(start: *mut u8, layout: Layout) -> EntryMemory {
        let start = NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout));
        EntryMemory { start, bytes: layout.size() }
    }

    /// First byte.
    pub(crate) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Size.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether an address is in the block.
    pub(crate) fn contains(&self, address: *const u8) -> bool {
        address.addr().wrapping_sub(self.start().addr()) < self.bytes
    }

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, ALIGN).expect("a table is smaller than half of the address space")
    }
}

impl Drop for EntryMemory {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: allocated with the same layout.
            unsafe { dealloc(self.start.as_ptr(), EntryMemory::layout(self.bytes)) }
        }
    }
}

/// Entries that follow each other, which own their objects.
#[derive(Debug)]
pub(crate) struct OwnedEntries {
    layout: Arc<EntryLayout>,
    memory: EntryMemory,
    len: usize,
}

impl OwnedEntries {
    /// The first `len` entries in a block of memory; there may be places for more behind them.
    ///
    /// # Safety
    /// They are entries of the layout, whose objects belong to the value from now on.
    pub(crate) unsafe fn new(layout: &Arc<EntryLayout>, memory: EntryMemory, len: usize) -> OwnedEntries {
        OwnedEntries { layout: Arc::clone(layout), memory, len }
    }

    /// Copies an entry behind the others; the original keeps its objects.
    ///
    /// # Safety
    /// `from` is an entry of the layout, and the memory has room for one more.
    pub(crate) unsafe fn push(&mut self, from: *const u8) -> *mut u8 {
        // SAFETY: promised by the caller.
        unsafe {
            let copy = self.place(self.len);
            copy.copy_from_nonoverlapping(from, self.layout.stride);
            object::retain(&self.layout, copy);
            self.len += 1;
            copy
        }
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
