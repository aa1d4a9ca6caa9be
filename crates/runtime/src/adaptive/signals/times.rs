//! The event times of recent rows: how many rows a slice has, and how far rows are out of order.
//!
//! Order is looked at within a sample, that is, within one buffer of one split: buffers are processed in any order.

use arrow_array::{Array, Int64Array};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct TimeProfile {
    rows: u64,
    /// Rows whose time is before that of a row before them.
    out_of_order: u64,
    /// By how much, in milliseconds.
    disorder_ms: u64,
    /// What the samples have covered of time, in milliseconds.
    span_ms: u64,
    /// Of the last sample that had one.
    slice_ms: i64,
    /// Rows of the last slices that have fired, if any have.
    pub(crate) fired: Option<f64>,
}

impl TimeProfile {
    /// Takes in the times of consecutive rows of a split.
    pub(crate) fn observe(&mut self, times: &Int64Array, slice_ms: i64) {
        self.slice_ms = slice_ms;
        let mut valid = (0..times.len()).filter(|&row| times.is_valid(row)).map(|row| times.value(row));
        let Some(first) = valid.next() else { return };
        self.rows += 1;
        let (mut least, mut latest) = (first, first);
        for time in valid {
            self.rows += 1;
            if time < latest {
                self.out_of_order += 1;
                self.disorder_ms = self.disorder_ms.saturating_add(latest.abs_diff(time));
            }
            (least, latest) = (least.min(time), latest.max(time));
        }
        self.span_ms = self.span_ms.saturating_add(latest.abs_diff(least));
    }

    /// Lets all so far count half.
    pub(crate) fn halve(&mut self) {
        for count in [&mut self.rows, &mut self.out_of_order, &mut self.disorder_ms] {
            *count /= 2;
        }
        self.span_ms /= 2;
    }

    /// The share of rows whose time is before that of a row before them in their buffer.
    pub(crate) fn out_of_order(&self) -> Option<f64> {
        (self.rows > 0).then(|| self.out_of_order as f64 / self.rows as f64)
    }

    /// By how many milliseconds the rows that are out of order are behind, on average.
    pub(crate) fn disorder_ms(&self) -> Option<f64> {
        (self.out_of_order > 0).then(|| self.disorder_ms as f64 / self.out_of_order as f64)
    }

    /// Rows of a slice: of those that have fired, or else what the samples would come to over the length of a slice.
    /// `None` when neither says anything.
    pub(crate) fn rows_per_slice(&self) -> Option<f64> {
        let guess = || {
            let known = self.slice_ms > 0 && self.span_ms > 0;
            known.then(|| self.rows as f64 * self.slice_ms as f64 / self.span_ms as f64)
        };
        self.fired.or_else(guess)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(times: &[i64], slice_ms: i64) -> TimeProfile {
        let mut profile = TimeProfile::default();
        profile.observe(&Int64Array::from(times.to_vec()), slice_ms);
        profile
    }

    #[test]
    fn rows_behind_others_are_out_of_order() {
        let profile = observed(&[10, 20, 15, 30, 5, 40, 40, 50], 10);
        assert_eq!((profile.out_of_order(), profile.disorder_ms()), (Some(0.25), Some(15.0)));
        assert_eq!(observed(&[1, 2, 3], 10).out_of_order(), Some(0.0));
        let mut empty = observed(&[], 10);
        assert_eq!((empty.out_of_order(), empty.disorder_ms(), empty.rows_per_slice()), (None, None, None));
        empty.observe(&Int64Array::from(vec![None, Some(3), None]), 10);
        assert_eq!(empty.out_of_order(), Some(0.0));
    }

    #[test]
    fn rows_of_a_slice_are_guessed_until_they_are_counted() {
        let times: Vec<i64> = (0..1001).collect();
        let mut profile = observed(&times, 10_000);
        assert!(profile.rows_per_slice().is_some_and(|rows| (rows - 10_010.0).abs() < 1.0));
        profile.fired = Some(500.0);
        assert_eq!(profile.rows_per_slice(), Some(500.0));
        assert_eq!(observed(&times, 0).rows_per_slice(), None, "slices without length");
        assert_eq!(observed(&[7, 7, 7], 100).rows_per_slice(), None, "no time has passed");
    }

    #[test]
    fn extremes_do_not_overflow() {
        let profile = observed(&[i64::MIN, i64::MAX, i64::MIN, i64::MAX], 1);
        assert_eq!(profile.out_of_order(), Some(0.25));
        assert!(profile.rows_per_slice().is_some_and(f64::is_finite));
    }
}
