//! Loops compiled for the vectors of today's processors, as the engine's generated code is: the rest of the program is built
//! for any processor of the architecture.
#![allow(unsafe_code)]

use super::{Layout, Target};

/// Scans a chunk.
#[inline]
pub(super) fn scan<L: Layout, T: Target<L::Cell>>(layout: &L, chunk: usize, target: &mut T) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("bmi2") {
        // SAFETY: the processor has the features, as was just found.
        return unsafe { scan_with_avx2(layout, chunk, target) };
    }
    layout.scan(chunk, target);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn scan_with_avx2<L: Layout, T: Target<L::Cell>>(layout: &L, chunk: usize, target: &mut T) {
    layout.scan(chunk, target);
}
