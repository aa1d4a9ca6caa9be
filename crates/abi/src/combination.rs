//! How overlapping windows are put together: chosen by the planner at first, done by the state crate, changed by the runtime.

use crate::Accumulator;

/// How the value of a window is made from its slices (design section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Combination {
    /// Merge all slices for each window: for windows of few slices.
    Recompute,
    /// Keep the running window: add what enters and subtract what leaves; for invertible aggregates.
    Subtract,
    /// Two stacks of slices, merged from their ends: for all others. Amortised a constant number of merges a slice.
    TwoStacks,
}

impl Combination {
    /// The cheapest for windows of `slices` slices: few slices are merged again for each window, which needs no state;
    /// more are added and subtracted where that is exact, and kept in two stacks where it is not.
    pub fn choose(components: &[Accumulator], slices: i64) -> Combination {
        /// Merging up to this many slices costs no more than keeping two stacks of them.
        const FEW_SLICES: i64 = 4;
        match slices {
            ..=FEW_SLICES => Combination::Recompute,
            _ if components.iter().all(|c| c.is_invertible()) => Combination::Subtract,
            _ => Combination::TwoStacks,
        }
    }
}
