//! Whether columns that are only needed behind a filter are decoded for its survivors only.
//!
//! # Model
//!
//! The filter's own columns are decoded either way. Of the others, decoding for survivors saves what the rest would have cost,
//! and adds the filter, the picking of rows, and columns that have to be spread. What of that dominates depends on encodings,
//! compression, the lengths of runs of survivors and the number of columns. So both ways are measured, in nanoseconds
//! per row of chunks. The decision is only that the other way must be better by a margin, since measurements vary.

/// What the other way may cost at most, relative to the one in use, to replace it.
const MARGIN: f64 = 0.9;

/// Whether to decode for survivors only from now on, when a row costs `whole` nanoseconds with all columns decoded, and
/// `picked` with columns picked for survivors.
pub(crate) fn choose(skips: bool, whole: f64, picked: f64) -> bool {
    match skips {
        false => picked < MARGIN * whole,
        true => whole >= MARGIN * picked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn situations() {
        for (skips, whole, picked, expected) in [
            (false, 100.0, 20.0, true),
            (false, 100.0, 89.0, true),
            (false, 100.0, 91.0, false),
            (false, 100.0, 150.0, false),
            (true, 100.0, 20.0, true),
            (true, 100.0, 109.0, true),
            (true, 100.0, 112.0, false),
            (false, 0.0, 0.0, false),
        ] {
            assert_eq!(choose(skips, whole, picked), expected, "{whole} ns or {picked} ns");
        }
    }

    #[test]
    fn the_choice_does_not_swing() {
        for whole in 1..=100 {
            for picked in 1..=100 {
                let (whole, picked) = (f64::from(whole), f64::from(picked));
                assert!(!choose(false, whole, picked) || choose(true, whole, picked));
            }
        }
    }
}
