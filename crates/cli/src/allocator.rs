//! How long the allocator of the programs (`millstream`, and the benchmarks, which share this file) keeps what is freed.
//!
//! Windows free as much memory as the next ones need. mimalloc gives freed memory back to the system after 10 ms by
//! default, and the system clears it before it gives it out again: measured, that was a fifth of the time of queries with
//! many groups, and with a second as the delay a third of that of checkpoints which are a second apart. Ten seconds are longer than
//! what is between two windows or checkpoints of a busy query, and short for an idle one. A query that comes near its memory
//! budget has it given back soon.
#![allow(unsafe_code)]

use libmimalloc_sys::{mi_collect, mi_option_set, mi_option_t};
use std::ffi::c_long;

/// `mi_option_purge_delay` of `mimalloc.h`, for which the bindings have no name.
const PURGE_DELAY: mi_option_t = 15;
/// Milliseconds that freed memory is kept.
const KEPT_FOR: c_long = 10_000;
/// The same when memory is short.
const KEPT_WHEN_SHORT: c_long = 1;

struct Mimalloc;

impl millstream::Allocator for Mimalloc {
    fn keep_freed(&self, keeps: bool) {
        // SAFETY: the option exists in the versions 2 and 3 of mimalloc; setting it is a store to a variable that the allocator
        // reads whenever memory is freed.
        unsafe { mi_option_set(PURGE_DELAY, if keeps { KEPT_FOR } else { KEPT_WHEN_SHORT }) };
    }

    fn use_huge_pages(&self, uses: bool) {
        // mimalloc asks for them where the system leaves that to programs. Its own pages have 64 KiB: of the 2 MiB that the system gives
        // when a byte of one is touched the rest is held, and not known to be free.
        #[cfg(target_os = "linux")]
        if uses_huge_pages_at_start() {
            // SAFETY: it says which pages the process gets from now on, and changes none that it has.
            let _ = unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, libc::c_ulong::from(!uses), 0, 0, 0) };
        }
        #[cfg(not(target_os = "linux"))]
        let _ = uses;
    }

    fn release(&self) {
        // SAFETY: it may be called by any thread at any time; it gives back what is free of this thread's, and of nobody's.
        unsafe { mi_collect(true) };
    }

    fn release_of_libraries(&self) {
        // LLVM and librdkafka have the system's allocator, which keeps what compiling a query has taken.
        #[cfg(all(target_os = "linux", target_env = "gnu"))]
        // SAFETY: it may be called by any thread at any time.
        let _ = unsafe { libc::malloc_trim(0) };
    }
}

/// Whether whoever started the program lets it have huge pages.
#[cfg(target_os = "linux")]
fn uses_huge_pages_at_start() -> bool {
    static USES: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    // SAFETY: it asks, and changes nothing.
    *USES.get_or_init(|| unsafe { libc::prctl(libc::PR_GET_THP_DISABLE, 0, 0, 0, 0) } == 0)
}

/// Has the allocator keep freed memory for a while. Call it at the start.
pub(crate) fn keep_freed_memory() {
    millstream::Allocator::keep_freed(&Mimalloc, true);
}

/// Has queries measure the memory of the process, in a program that has none of its own to speak of. Call it at the start.
pub(crate) fn measure_memory() {
    millstream::set_allocator(&Mimalloc);
}
