//! Memory that is fetched ahead.

/// Bytes of a line of the cache.
const LINE: usize = 64;

/// Has so many bytes from an address on brought into the cache, for whoever knows what it reads next where the processor cannot: it
/// reads ahead within a page and a stream, and begins anew with each. Any address will do; nothing is read. Does nothing on
/// processors for which the standard library has no instruction for it.
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
