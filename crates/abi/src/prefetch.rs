//! Memory that is fetched ahead.

/// Bytes of a line of the cache.
const LINE: usize = 64;

/// Brings `bytes` bytes from an address on into the cache. For callers that know what they read next where the processor does not: it
/// reads ahead within a page, and starts over in the next one. Any address will do; nothing is read. Does nothing where the
/// standard library has no instruction for it (all but x86-64).
#[inline]
pub fn prefetch(address: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    for offset in (0..bytes).step_by(LINE) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint, which does not fault whatever the address is.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.wrapping_add(offset).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (address, bytes, LINE);
}
