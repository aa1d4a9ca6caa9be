//! Memory of entries: 16-byte aligned, and large blocks by lines of the cache.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Alignment of the first entry: that of the widest field.
const ALIGN: usize = 16;
/// Bytes of a line of the cache, which an entry of as many bytes should not share with two others.
pub(crate) const LINE: usize = 64;
/// Blocks of at least so many bytes begin with a line.
const LARGE: usize = 4096;

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
        let align = if bytes < LARGE { ALIGN } else { LINE };
        Layout::from_size_align(bytes, align).expect("a table is smaller than half of the address space")
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
