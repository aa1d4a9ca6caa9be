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

    fn release(&self) {
        // SAFETY: it may be called by any thread at any time; it gives back what is free of this thread's, and of nobody's.
        unsafe { mi_collect(true) };
        // LLVM and librdkafka have the system's allocator, which keeps what compiling a query has taken.
        #[cfg(all(target_os = "linux", target_env = "gnu"))]
        // SAFETY: it may be called by any thread at any time.
        let _ = unsafe { libc::malloc_trim(0) };
    }
}

/// Has the allocator keep freed memory for a while, and queries measure the memory of the process. Call it at the start.
pub(crate) fn keep_freed_memory() {
    millstream::Allocator::keep_freed(&Mimalloc, true);
    millstream::set_allocator(&Mimalloc);
}
