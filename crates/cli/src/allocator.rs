//! How long the allocator of the programs (`millstream`, and the benchmarks, which share this file) keeps what is freed.
//!
//! Windows free as much memory as the next ones need. mimalloc gives freed memory back to the system after 10 ms by
//! default, and the system clears it before it gives it out again: measured, that was a fifth of the time of queries with
//! many groups, and with a second as the delay a third of that of checkpoints which are a second apart. Ten seconds are longer than
//! what is between two windows or checkpoints of a busy query, and short for an idle one.
#![allow(unsafe_code)]

use libmimalloc_sys::{mi_option_set, mi_option_t};

/// `mi_option_purge_delay` of `mimalloc.h`, for which the bindings have no name.
const PURGE_DELAY: mi_option_t = 15;
/// Milliseconds.
const KEPT_FOR: std::ffi::c_long = 10_000;

/// Has the allocator keep freed memory for a while. Call it at the start.
pub(crate) fn keep_freed_memory() {
    // SAFETY: the option exists in the versions 2 and 3 of mimalloc; setting it is a store to a variable that the allocator
    // reads whenever memory is freed.
    unsafe { mi_option_set(PURGE_DELAY, KEPT_FOR) };
}
