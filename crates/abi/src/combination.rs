//! How overlapping windows are put together: chosen by the planner at first, done by the state crate, changed by the runtime.
//! And which components count less than the whole window.

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
    /// The cheapest for windows of `slices` slices, all of which `components` count: few slices are merged again for each
    /// window, which needs no state; more are added and subtracted where that is exact, and kept in two stacks where it is
    /// not.
    pub fn choose(mut components: impl Iterator<Item = Accumulator>, slices: i64) -> Combination {
        /// Merging up to this many slices costs no more than keeping two stacks of them.
        const FEW_SLICES: i64 = 4;
        match slices {
            ..=FEW_SLICES => Combination::Recompute,
            _ if components.all(Accumulator::is_invertible) => Combination::Subtract,
            _ => Combination::TwoStacks,
        }
    }
}

/// Components of an aggregation over windows that are shorter than the others' and end with them: of two aggregations that
/// are one table, `SUM` over `HOP(1 minute, 5 minutes)` and `COUNT` over `TUMBLE(1 minute)`, the second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShorterWindows {
    /// Length of the shorter windows, in milliseconds.
    pub size_ms: i64,
    /// By component: whether it counts only the shorter window.
    pub components: Vec<bool>,
}

impl ShorterWindows {
    /// Start of the shorter window that ends at `end`.
    pub fn start_of_window(&self, end: i64) -> i64 {
        end.saturating_sub(self.size_ms)
    }

    /// The components that count whole windows: all of them, without shorter windows.
    pub fn others<'a>(
        shorter: Option<&'a ShorterWindows>,
        components: impl Iterator<Item = Accumulator> + 'a,
    ) -> impl Iterator<Item = Accumulator> + 'a {
        let is_shorter = move |number: usize| shorter.is_some_and(|shorter| shorter.components[number]);
        components.enumerate().filter(move |&(number, _)| !is_shorter(number)).map(|(_, component)| component)
    }
}
