//! How many rows pass the filters: each, and each set of them together.
//!
//! Conditions depend on each other more often than not, and the best order follows from what passes *after* others. So up
//! to [`MAX_JOINT`] filters are counted jointly: a counter for each set of filters that a row passes. More are taken to be
//! independent.

use arrow_array::{Array, BooleanArray};
use arrow_buffer::BooleanBuffer;

/// Most filters that are counted jointly.
const MAX_JOINT: usize = 8;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct FilterProfile {
    /// That the shares are about.
    pub(crate) rows: u64,
    /// Rows that pass, by filter.
    passed: Vec<u64>,
    /// Rows by the set of filters that they pass, as a mask; empty when there are too many filters.
    joint: Vec<u64>,
}

impl FilterProfile {
    /// Counts a sample; gives the rows that pass all filters, or `None` if there is no filter.
    pub(crate) fn observe(&mut self, rows: usize, conditions: &[&BooleanArray]) -> Option<BooleanBuffer> {
        if conditions.is_empty() {
            return None;
        }
        if self.passed.len() != conditions.len() {
            // Of another program.
            let sets = if conditions.len() <= MAX_JOINT { 1 << conditions.len() } else { 0 };
            *self = FilterProfile { rows: 0, passed: vec![0; conditions.len()], joint: vec![0; sets] };
        }
        self.rows += rows as u64;
        let outcomes: Vec<BooleanBuffer> = conditions.iter().map(|c| is_true(c)).collect();
        for (count, outcome) in self.passed.iter_mut().zip(&outcomes) {
            *count += outcome.count_set_bits() as u64;
        }
        if !self.joint.is_empty() {
            let mut sets = vec![0u8; rows];
            for (filter, outcome) in outcomes.iter().enumerate() {
                sets.iter_mut().zip(outcome).for_each(|(set, passes)| *set |= u8::from(passes) << filter);
            }
            sets.into_iter().for_each(|set| self.joint[set as usize] += 1);
        }
        outcomes.into_iter().reduce(|all, next| &all & &next)
    }

    /// Lets all so far count half.
    pub(crate) fn halve(&mut self) {
        let counts = self.passed.iter_mut().chain(&mut self.joint);
        counts.chain([&mut self.rows]).for_each(|count| *count /= 2);
    }

    /// Number of filters; 0 before the first sample.
    pub(crate) fn len(&self) -> usize {
        self.passed.len()
    }

    /// The share of rows that pass a filter; 1 when nothing is known.
    pub(crate) fn selectivity(&self, filter: usize) -> f64 {
        share(self.passed[filter], self.rows)
    }

    /// The share of rows that pass every filter of a set; `set` has bit *i* for filter *i*, and bits without a filter do not
    /// matter. 1 when nothing is known.
    pub(crate) fn passing(&self, set: u64) -> f64 {
        if self.joint.is_empty() {
            let of = (0..self.len()).filter(|&filter| set >> filter & 1 == 1);
            return of.map(|filter| self.selectivity(filter)).product();
        }
        let set = set & (self.joint.len() as u64 - 1);
        let holding = self.joint.iter().enumerate().filter(|(mask, _)| *mask as u64 & set == set);
        // Halving rounds each counter by itself: the sum is what they are shares of.
        share(holding.map(|(_, count)| count).sum(), self.joint.iter().sum())
    }

    /// [`FilterProfile::passing`] of every set at once, by mask. `None` for too many filters.
    pub(crate) fn all_passing(&self) -> Option<Vec<f64>> {
        if self.joint.is_empty() && self.len() > 0 {
            return None;
        }
        let mut sums = if self.len() == 0 { vec![0] } else { self.joint.clone() };
        let total = sums.iter().sum();
        for filter in 0..self.len() {
            for set in 0..sums.len() {
                if set >> filter & 1 == 0 {
                    sums[set] += sums[set | 1 << filter];
                }
            }
        }
        Some(sums.into_iter().map(|sum| share(sum, total)).collect())
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 1.0 } else { part as f64 / whole as f64 }
}

/// The rows for which a condition is TRUE.
fn is_true(condition: &BooleanArray) -> BooleanBuffer {
    match condition.nulls() {
        Some(nulls) => condition.values() & nulls.inner(),
        None => condition.values().clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(rows: usize, passes: impl Fn(usize) -> bool) -> BooleanArray {
        BooleanArray::from_iter((0..rows).map(|row| Some(passes(row))))
    }

    #[test]
    fn sets_of_filters_are_counted_together() {
        let (low, even, odd) =
            (condition(1000, |i| i < 100), condition(1000, |i| i % 2 == 0), condition(1000, |i| i % 2 == 1));
        let mut profile = FilterProfile::default();
        let passed = profile.observe(1000, &[&low, &even, &odd]).expect("there are filters");
        assert_eq!(passed.count_set_bits(), 0);
        assert_eq!([0, 1, 2].map(|f| profile.selectivity(f)), [0.1, 0.5, 0.5]);
        assert_eq!([0, 0b011, 0b110, 0b111].map(|s| profile.passing(s)), [1.0, 0.05, 0.0, 0.0]);
        let all = profile.all_passing().expect("few filters");
        (0..8).for_each(|set| assert_eq!(all[set], profile.passing(set as u64), "{set:b}"));
        profile.halve();
        assert!((profile.passing(0b011) - 0.05).abs() < 1e-3);
    }

    #[test]
    fn sets_may_name_filters_that_there_are_not() {
        let mut profile = FilterProfile::default();
        assert_eq!(profile.passing(!0), 1.0, "nothing is known");
        profile.observe(1000, &[&condition(1000, |i| i < 300), &condition(1000, |i| i % 2 == 0)]);
        assert_eq!((profile.passing(!0), profile.passing(0b101)), (0.15, 0.3));
    }

    #[test]
    fn null_is_not_true() {
        let unknown = BooleanArray::from_iter([Some(true), None, Some(false), None]);
        let mut profile = FilterProfile::default();
        profile.observe(4, &[&unknown]);
        assert_eq!(profile.selectivity(0), 0.25);
    }

    #[test]
    fn many_filters_are_taken_to_be_independent() {
        let half = condition(100, |i| i % 2 == 0);
        let filters = vec![&half; MAX_JOINT + 1];
        let mut profile = FilterProfile::default();
        profile.observe(100, &filters);
        assert_eq!((profile.len(), profile.all_passing()), (9, None));
        assert_eq!(profile.passing(0b11), 0.25);
        profile.observe(100, &filters[..2]);
        assert_eq!((profile.len(), profile.passing(0b11)), (2, 0.5), "another program has other filters");
    }

    #[test]
    fn without_filters_everything_passes() {
        let mut profile = FilterProfile::default();
        assert!(profile.observe(10, &[]).is_none());
        assert_eq!((profile.passing(0), profile.all_passing()), (1.0, Some(vec![1.0])));
    }
}
