//! Memory for one compiled module: one contiguous reservation, so that code, constants and stubs are close to each other, and
//! one call gives everything back.
//!
//! Pages are writable while LLVM copies and relocates, then become read-only or executable: never both writable and
//! executable. The reservation is virtual: only touched pages cost memory.

use inkwell::memory_manager::McjitMemoryManager;
use std::ptr;
use std::sync::{Arc, OnceLock};

/// Bytes of address space a module; far above what the largest program needs.
const RESERVED_BYTES: usize = 64 << 20;
/// Sections start at multiples of this, so that each can have its own protection.
const PAGE_BYTES: usize = 4096;

/// Where the code of a module is: (address, bytes).
pub(crate) type CodeLocation = Arc<OnceLock<(usize, usize)>>;

/// One section: its pages and what they become.
#[derive(Debug)]
struct Section {
    address: *mut u8,
    bytes: usize,
    protection: libc::c_int,
}

/// The reservation, handed to LLVM, which destroys it with the execution engine.
#[derive(Debug)]
pub(crate) struct ModuleMemory {
    /// Null when the reservation failed; then every allocation fails.
    base: *mut u8,
    used: usize,
    sections: Vec<Section>,
    code: CodeLocation,
}

impl ModuleMemory {
    /// Reserves address space; `None` when the system refuses.
    pub(crate) fn reserve(code: CodeLocation) -> Option<ModuleMemory> {
        // SAFETY: an anonymous private mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                RESERVED_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        (base != libc::MAP_FAILED).then(|| ModuleMemory { base: base.cast(), used: 0, sections: Vec::new(), code })
    }

    /// Fresh zeroed pages for a section; null when the reservation is used up.
    fn allocate(&mut self, size: usize, alignment: usize, protection: libc::c_int) -> *mut u8 {
        let start = self.used.next_multiple_of(alignment.max(PAGE_BYTES));
        let bytes = size.max(1).next_multiple_of(PAGE_BYTES);
        if self.base.is_null() || start + bytes > RESERVED_BYTES {
            return ptr::null_mut();
        }
        self.used = start + bytes;
        // SAFETY: `start + bytes` is within the reservation.
        let address = unsafe { self.base.add(start) };
        self.sections.push(Section { address, bytes, protection });
        address
    }
}

impl McjitMemoryManager for ModuleMemory {
    fn allocate_code_section(&mut self, size: usize, alignment: u32, _id: u32, _name: &str) -> *mut u8 {
        let address = self.allocate(size, alignment as usize, libc::PROT_READ | libc::PROT_EXEC);
        if !address.is_null() {
            // A module has one function, hence one code section; a second one would be a stub nobody profiles.
            let _ = self.code.set((address as usize, size));
        }
        address
    }

    fn allocate_data_section(
        &mut self,
        size: usize,
        alignment: u32,
        _id: u32,
        _name: &str,
        is_read_only: bool,
    ) -> *mut u8 {
        let protection = if is_read_only { libc::PROT_READ } else { libc::PROT_READ | libc::PROT_WRITE };
        self.allocate(size, alignment as usize, protection)
    }

    fn finalize_memory(&mut self) -> Result<(), String> {
        for section in &self.sections {
            // SAFETY: the pages belong to our reservation, start at a page boundary and hold this section only.
            let failed = unsafe { libc::mprotect(section.address.cast(), section.bytes, section.protection) };
            if failed != 0 {
                return Err(format!("code cannot be made executable: {}", std::io::Error::last_os_error()));
            }
        }
        Ok(())
    }

    fn destroy(&mut self) {
        if !self.base.is_null() {
            // SAFETY: the reservation is ours, and LLVM calls this once, when nothing runs its code any more.
            unsafe { libc::munmap(self.base.cast(), RESERVED_BYTES) };
            self.base = ptr::null_mut();
        }
    }
}
