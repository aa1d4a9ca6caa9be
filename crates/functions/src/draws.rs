//! Random numbers for tests.

/// Draws numbers below a bound, the same ones for a seed: a linear congruential generator, of which the low bits are poor.
pub(crate) fn draws(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed;
    move |end| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 20) as usize % end
    }
}
