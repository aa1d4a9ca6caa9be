//! What is known of the rows that a pipeline gets (Grizzly section 6.1.1, "instrumented execution").
//!
//! A [`Profile`] is fed with samples of rows, some thousands a second at most, by whoever has sampled them. It forgets
//! exponentially: when it has seen [`WINDOW`] rows, everything counted so far counts half from then on. So it follows a
//! change within a few samples, and is never about more than the recent past. Numbers of keys need exact windows instead
//! of halves; they keep two of them: see `keys`.
//!
//! Next to it: the cost of each buffer ([`VariantMeter`](meter::VariantMeter)) and the detector of changes in it ([`ChangeDetector`](meter::ChangeDetector)), which are
//! always on, and hardware counters where the machine gives them ([`HardwareCounters`](hardware_counters::HardwareCounters)).
//!
//! Invariants:
//! - A profile says what the samples were like. That the next row is alike is an assumption, and the business of guards.
//! - Shares are between 0 and 1; nothing is divided by zero: without rows there is nothing known, not zero.

mod cells;
pub(crate) mod columns;
mod filters;
pub(crate) mod hardware_counters;
pub(crate) mod keys;
pub(crate) mod meter;
mod times;

pub(crate) use columns::ColumnProfile;
pub(crate) use filters::FilterProfile;
pub(crate) use keys::KeyProfile;
pub(crate) use times::TimeProfile;

use arrow_array::{ArrayRef, BooleanArray, Int64Array};

/// Rows after which what was counted so far counts half. The share of a filter is known to about one in a hundred then.
pub(crate) const WINDOW: u64 = 4096;

/// A sample: consecutive rows of one buffer, and what a probe program has computed of them. All arrays have `rows` rows.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Observation<'a> {
    /// Number of rows.
    pub(crate) rows: usize,
    /// The conditions of all filters of the generic program in order, evaluated for every row. NULL is not TRUE.
    pub(crate) filters: &'a [&'a BooleanArray],
    /// The grouping key, if it is one integer.
    pub(crate) key: Option<&'a Int64Array>,
    /// The hash of the grouping key, if it is not one integer.
    pub(crate) key_hashes: Option<&'a Int64Array>,
    /// Event time in milliseconds.
    pub(crate) times: Option<&'a Int64Array>,
    /// Length of a slice in milliseconds; 0 if there are none of equal length.
    pub(crate) slice_ms: i64,
    /// The buffer's columns.
    pub(crate) columns: &'a [ArrayRef],
}

/// What is known of a pipeline's recent rows. See the module's description.
#[derive(Debug, Default)]
pub(crate) struct Profile {
    /// Rows of all samples.
    pub(crate) rows: u64,
    /// Rows since the last halving, and half of those that counted before.
    weight: u64,
    pub(crate) filters: FilterProfile,
    /// Of the grouping keys of rows that pass all filters.
    pub(crate) keys: KeyProfile,
    pub(crate) times: TimeProfile,
    /// In order.
    pub(crate) columns: Vec<ColumnProfile>,
}

impl Profile {
    /// Takes a sample in. Rows that the filters drop count for the filters and columns only: keys and times are those of
    /// rows that pass them all.
    pub(crate) fn observe(&mut self, sample: &Observation<'_>) {
        if sample.rows == 0 {
            return;
        }
        if self.weight >= WINDOW {
            self.forget();
        }
        self.weight += sample.rows as u64;
        self.rows += sample.rows as u64;
        let passed = self.filters.observe(sample.rows, sample.filters);
        self.keys.observe(sample.key, sample.key_hashes, passed.as_ref());
        if let Some(times) = sample.times {
            self.times.observe(times, sample.slice_ms);
        }
        self.columns.resize_with(sample.columns.len().max(self.columns.len()), ColumnProfile::default);
        for (profile, column) in self.columns.iter_mut().zip(sample.columns) {
            profile.observe(column);
        }
    }

    fn forget(&mut self) {
        self.weight /= 2;
        self.filters.halve();
        self.times.halve();
        self.columns.iter_mut().for_each(ColumnProfile::halve);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_sample_is_seen_from_all_sides() {
        let mut profile = Profile::default();
        profile.observe(&Observation::default());
        assert_eq!((profile.rows, profile.columns.len()), (0, 0), "nothing of nothing");
        let even = BooleanArray::from_iter((0..1000).map(|i| Some(i % 2 == 0)));
        let keys = Int64Array::from_iter_values((0..1000).map(|i| if i % 2 == 0 { i % 10 } else { 1_000_000 }));
        let times = Int64Array::from_iter_values(0..1000);
        let columns: [ArrayRef; 1] = [Arc::new(times.clone())];
        let sample = Observation {
            rows: 1000,
            filters: &[&even],
            key: Some(&keys),
            times: Some(&times),
            slice_ms: 100,
            columns: &columns,
            ..Observation::default()
        };
        profile.observe(&sample);
        assert_eq!(profile.rows, 1000);
        assert!((profile.filters.selectivity(0) - 0.5).abs() < 1e-9);
        assert_eq!(profile.keys.range(), Some((0, 8)), "keys of rows that are dropped do not count");
        assert_eq!(profile.times.out_of_order(), Some(0.0));
        assert_eq!(profile.columns.len(), 1);
    }

    #[test]
    fn what_is_past_is_forgotten_within_a_few_samples() {
        let mut profile = Profile::default();
        let (none, all) = (BooleanArray::from(vec![false; 1024]), BooleanArray::from(vec![true; 1024]));
        let mut sample = |filter: &BooleanArray| {
            profile.observe(&Observation { rows: 1024, filters: &[filter], ..Observation::default() });
            profile.filters.selectivity(0)
        };
        (0..100).for_each(|_| {
            sample(&none);
        });
        let shares: Vec<f64> = (0..12).map(|_| sample(&all)).collect();
        assert!(shares[0] < 0.4 && shares[3] > 0.5 && shares[11] > 0.9, "{shares:?}");
    }
}
