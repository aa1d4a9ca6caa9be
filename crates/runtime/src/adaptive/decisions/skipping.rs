//! Whether columns that are only needed behind a filter are decoded for its survivors only.
//!
//! # Model
//!
//! The filter's own columns are decoded either way. Of the others, each of which costs *c* per row, a share *q* of the rows is
//! needed: *c* for all rows at once, or *q* · [`PICKED`] · *c* for those that are picked, and the filter's result has to be
//! looked at ([`PACK`]).

use super::costs::{PACK, PICKED};
use super::hysteresis::COMPILED;

/// Whether to decode for survivors only from now on, when a share of the rows survives and the columns cost so many
/// nanoseconds per row.
pub(crate) fn choose(skips: bool, surviving: f64, columns: f64) -> bool {
    let (all, picked) = (columns, PACK + surviving * PICKED * columns);
    match skips {
        false => picked < COMPILED.margin * all,
        true => all >= COMPILED.margin * picked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn situations() {
        for (surviving, columns, skips) in [
            (0.0, 10.0, true),
            (0.1, 10.0, true),
            (0.9, 10.0, false),
            (1.0, 100.0, false),
            (0.0, 0.4, false),
            (0.0, 0.0, false),
            (0.33, 50.0, true),
        ] {
            assert_eq!(choose(false, surviving, columns), skips, "{surviving} of rows, {columns} ns");
        }
    }

    #[test]
    fn the_choice_does_not_swing() {
        for step in 0..=100 {
            for columns in [0.1, 1.0, 10.0, 100.0] {
                let surviving = f64::from(step) / 100.0;
                assert!(!choose(false, surviving, columns) || choose(true, surviving, columns));
            }
        }
    }
}
