//! Whether a column is taken to be never NULL, or to have one value.
//!
//! # Model
//!
//! After *n* rows without exception the next one is an exception with a probability of at most about 1 / *n* (the rule of
//! succession). An exception costs [`BREAK`]; so the assumption pays when *n* · what it gains per row is more than that.
//! Sampled rows count, since exceptions are not expected to hide from samples; those that do break the assumption, and
//! each break takes more rows until it is made again: see [`Trust`].
//!
//! An assumption that is in use stays until it breaks: it costs nothing more.

use super::costs::BREAK;
use super::hysteresis::Trust;
use std::time::Duration;

/// Least sampled rows without exception: of several samples.
const LEAST_ROWS: u64 = 4096;
/// Less gain than this, in nanoseconds per row, is not worth a variant.
const LEAST_GAIN: f64 = 0.05;

/// What becomes of an assumption, and of what is compared before anything is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Revision<T> {
    /// It stays unchanged.
    Keep,
    /// It is this from now on.
    Use(T),
    /// It is made no more.
    GiveUp,
}

/// Whether to assume that there will be no exception, after `rows` sampled rows without one, if that gains `gain`
/// nanoseconds per row.
pub(crate) fn assume(rows: u64, gain: f64, trust: &Trust, now: Duration) -> bool {
    gain >= LEAST_GAIN && trust.rows_needed(now, rows_at_first(gain)).is_some_and(|needed| rows >= needed)
}

/// Sampled rows without exception that the assumption takes the first time.
fn rows_at_first(gain: f64) -> u64 {
    /// Rows that are processed for each that is sampled, at least: a sample is some rows of one buffer in many.
    const PER_SAMPLED: f64 = 512.0;
    ((BREAK / gain / PER_SAMPLED) as u64).max(LEAST_ROWS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::ZERO;

    #[test]
    fn what_gains_more_is_assumed_sooner() {
        let needed = [0.1, 0.5, 2.0, 100.0].map(rows_at_first);
        assert!(needed.is_sorted_by(|a, b| a >= b) && needed[3] == LEAST_ROWS, "{needed:?}");
        for (rows, gain, expected) in
            [(0, 10.0, false), (1000, 10.0, false), (5000, 10.0, true), (5000, 0.5, false), (1 << 40, 0.01, false)]
        {
            assert_eq!(assume(rows, gain, &Trust::default(), START), expected, "{rows} rows, {gain} ns");
        }
    }

    #[test]
    fn a_column_that_breaks_it_again_and_again_is_left_alone() {
        let mut trust = Trust::default();
        let (mut made, mut rows) = (0, 0);
        // An exception after every million sampled rows, one sample of a thousand a tenth of a second.
        for sample in 0..4000u64 {
            rows += 1000;
            let now = Duration::from_millis(100 * sample);
            if assume(rows, 1.0, &trust, now) {
                made += 1;
                trust.broke(now);
                rows = 0;
            }
        }
        assert!((2..20).contains(&made), "{made} times");
    }

    #[test]
    fn the_choice_does_not_swing() {
        let mut trust = Trust::default();
        trust.broke(START);
        assert!(!assume(rows_at_first(5.0) * 7, 5.0, &trust, START), "not at once after a break");
        assert!(assume(rows_at_first(5.0) * 8, 5.0, &trust, START));
    }
}
