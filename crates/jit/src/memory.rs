//! Memory for one loaded object: one contiguous reservation, so that code, constants and stubs are close to each other, and
//! one call gives everything back.
//!
//! Pages are writable while LLVM copies and relocates, then become read-only or executable: never both writable and
//! executable. The reservation is virtual: only touched pages cost memory.

use std::io;
use std::ptr;

/// Bytes of address space beside what depends on the object.
const LEAST_BYTES: usize = 1 << 20;
/// Sections start at multiples of this, so that each can have its own protection.
const PAGE_BYTES: usize = 4096;

/// What the pages of a section become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// Machine code.
    Code,
    /// Constants.
    Constants,
    /// Variables.
    Variables,
}

/// One section and its pages.
#[derive(Debug)]
struct Section {
    address: *mut u8,
    bytes: usize,
    content: Content,
}

/// The reservation; unmapped when dropped.
#[derive(Debug)]
pub(crate) struct ObjectMemory {
    base: *mut u8,
    bytes: usize,
    used: usize,
    sections: Vec<Section>,
    /// Address and length of the first code section.
    code: Option<(usize, usize)>,
}

impl ObjectMemory {
    /// Reserves address space for an object file of this length; fails when the system refuses. Stubs fit: for each, of
    /// at most 24 bytes, the file has a relocation of 24 bytes.
    pub(crate) fn reserve(object_bytes: usize) -> io::Result<ObjectMemory> {
        let bytes = (4 * object_bytes + LEAST_BYTES).next_multiple_of(PAGE_BYTES);
        // SAFETY: an anonymous private mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(ObjectMemory { base: base.cast(), bytes, used: 0, sections: Vec::new(), code: None })
    }

    /// Fresh zeroed pages for a section; null when the reservation is used up.
    pub(crate) fn allocate(&mut self, size: usize, alignment: usize, content: Content) -> *mut u8 {
        let start = self.used.next_multiple_of(alignment.max(PAGE_BYTES));
        let left = self.bytes.saturating_sub(start);
        if size > left {
            return ptr::null_mut();
        }
        let bytes = size.max(1).next_multiple_of(PAGE_BYTES);
        self.used = start + bytes;
        // SAFETY: `start + bytes` is within the reservation, whose length is a multiple of the page size.
        let address = unsafe { self.base.add(start) };
        if content == Content::Code {
            // A program is one function, hence one code section; a second one would be a stub nobody profiles.
            self.code.get_or_insert((address as usize, size));
        }
        self.sections.push(Section { address, bytes, content });
        address
    }

    /// Gives all sections their protection.
    pub(crate) fn protect(&self) -> io::Result<()> {
        for section in &self.sections {
            let protection = match section.content {
                Content::Code => libc::PROT_READ | libc::PROT_EXEC,
                Content::Constants => libc::PROT_READ,
                Content::Variables => libc::PROT_READ | libc::PROT_WRITE,
            };
            // SAFETY: the pages belong to our reservation, start at a page boundary and hold this section only.
            if unsafe { libc::mprotect(section.address.cast(), section.bytes, protection) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }

    /// Length of the code, stubs included.
    pub(crate) fn code_bytes(&self) -> usize {
        self.code.map_or(0, |(_, bytes)| bytes)
    }
}

// SAFETY: the reservation belongs to this value alone, and threads do not matter to it.
unsafe impl Send for ObjectMemory {}
// SAFETY: as above; a shared reference only reads.
unsafe impl Sync for ObjectMemory {}

impl Drop for ObjectMemory {
    fn drop(&mut self) {
        // SAFETY: the reservation is ours, and whoever drops it has made sure that nothing runs its code any more.
        unsafe { libc::munmap(self.base.cast(), self.bytes) };
    }
}
