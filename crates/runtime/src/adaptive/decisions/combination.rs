//! How overlapping windows are made of their slices (design section 5).
//!
//! # Model
//!
//! A window has *s* slices of *k* keys each and *K* keys in all, *k* ≤ *K* ≤ *sk*; one slice enters and one leaves for each
//! window. In entries that are merged for a window:
//!
//! | | entries |
//! | --- | --- |
//! | recompute | *sk* |
//! | subtract | 2*k*, each at a place in a table of *K* ([`PROBE`] more), and *K* are copied; sorted, too, if keys come and go |
//! | two stacks | 2*k* for what enters and is turned over, and 2*K* for the stacks' tops |
//!
//! So few slices are merged again, and so are many when hardly any key is in two of them; subtracting is best for many
//! slices of the same keys, where it is exact.

use super::costs::{INSERT, MERGE, PROBE, SEAL};
use super::hysteresis::TABLES;
use millstream_abi::Combination;

/// A window of which a smaller share of the keys is new, on average, has the keys of the one before more often than not.
const FEW: f64 = 1e-3;

/// What a window is made of, on average.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Situation {
    /// Slices that have rows.
    pub(crate) slices: f64,
    /// Keys of a slice, over all its partials.
    pub(crate) keys_of_slice: f64,
    /// Keys of the window.
    pub(crate) keys_of_window: f64,
    /// Whether all aggregates can be subtracted exactly.
    pub(crate) is_invertible: bool,
}

impl Situation {
    /// The combination from now on.
    pub(crate) fn choose(&self, used: Combination) -> Combination {
        let all = [Combination::Recompute, Combination::TwoStacks, Combination::Subtract];
        let possible = all.into_iter().filter(|&c| self.is_invertible || c != Combination::Subtract);
        let best = possible.min_by(|&a, &b| self.cost(a).total_cmp(&self.cost(b))).unwrap_or(used);
        if self.cost(best) < TABLES.margin * self.cost(used) { best } else { used }
    }

    /// Nanoseconds per window.
    pub(crate) fn cost(&self, combination: Combination) -> f64 {
        let slices = self.slices.max(1.0);
        let slice = self.keys_of_slice.max(0.0);
        let window = self.keys_of_window.clamp(slice, slices * slice);
        match combination {
            Combination::Recompute => slices * slice * MERGE,
            Combination::Subtract => {
                // New keys per slice, after the first.
                let fresh = if slices > 1.0 { (window - slice) / (slices - 1.0) } else { slice };
                let sorted = if fresh < FEW * window { 0.0 } else { window * MERGE };
                2.0 * slice * (PROBE + MERGE) + fresh * INSERT + window * SEAL + sorted
            }
            Combination::TwoStacks => 2.0 * slice * MERGE + 2.0 * window * MERGE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Combination::{Recompute, Subtract, TwoStacks};

    fn situation(slices: f64, keys_of_slice: f64, keys_of_window: f64, is_invertible: bool) -> Situation {
        Situation { slices, keys_of_slice, keys_of_window, is_invertible }
    }

    #[test]
    fn situations() {
        for (of, expected) in [
            (situation(1.0, 1000.0, 1000.0, true), Recompute),
            (situation(2.0, 1000.0, 1000.0, true), Recompute),
            (situation(60.0, 1000.0, 1000.0, true), Subtract),
            (situation(60.0, 1000.0, 1000.0, false), TwoStacks),
            (situation(3.0, 1000.0, 1000.0, false), Recompute),
            // Hardly any key is in two slices.
            (situation(60.0, 1000.0, 60_000.0, false), Recompute),
            (situation(10.0, 1000.0, 10_000.0, true), Recompute),
            (situation(10.0, 1000.0, 3000.0, true), Subtract),
            (situation(1000.0, 1.0, 1.0, true), Subtract),
            (situation(0.0, 0.0, 0.0, true), Recompute),
        ] {
            assert_eq!(of.choose(Recompute), expected, "{of:?}");
        }
    }

    #[test]
    fn what_cannot_be_subtracted_is_not() {
        for slices in 1..200 {
            for used in [Recompute, TwoStacks] {
                assert_ne!(situation(f64::from(slices), 10.0, 10.0, false).choose(used), Subtract);
            }
        }
    }

    #[test]
    fn the_choice_does_not_swing() {
        for slices in 1..200 {
            for overlap in [1.0, 1.5, 4.0, 1e9] {
                for is_invertible in [false, true] {
                    let of = situation(f64::from(slices), 100.0, 100.0 * overlap, is_invertible);
                    let chosen = of.choose(Recompute);
                    assert_eq!(of.choose(chosen), chosen, "{of:?}");
                }
            }
        }
    }
}
