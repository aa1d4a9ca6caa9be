//! Counts allocations, to show that a query in its steady state makes none per row or per buffer.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// An allocator that counts what it is asked for while someone wants to know.
#[derive(Debug)]
pub(crate) struct Counting<A>(pub(crate) A);

static IS_COUNTING: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

/// Runs `work` and counts the allocations of all threads meanwhile, growth of what is allocated among them.
pub(crate) fn allocations<T>(work: impl FnOnce() -> T) -> (u64, T) {
    ALLOCATIONS.store(0, Relaxed);
    IS_COUNTING.store(true, Relaxed);
    let result = work();
    IS_COUNTING.store(false, Relaxed);
    (ALLOCATIONS.load(Relaxed), result)
}

/// How often threads of this process have given their processor away so far, to wait for something.
#[cfg(test)]
pub(crate) fn waits() -> i64 {
    // SAFETY: a structure of numbers, which the system fills.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    assert_eq!(unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) }, 0);
    usage.ru_nvcsw
}

impl<A> Counting<A> {
    #[inline]
    fn count(&self) {
        if IS_COUNTING.load(Relaxed) {
            ALLOCATIONS.fetch_add(1, Relaxed);
        }
    }
}

// SAFETY: every call is passed on to the inner allocator, with the same arguments; counting does not allocate.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counting<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.count();
        // SAFETY: the caller keeps the contract of this trait, which is that of the inner allocator.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.count();
        // SAFETY: as above.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        self.count();
        // SAFETY: as above.
        unsafe { self.0.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { self.0.dealloc(pointer, layout) }
    }
}
