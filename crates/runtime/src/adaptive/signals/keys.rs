//! The grouping keys of recent rows: their range, how many there are, and how unevenly rows fall on them.
//!
//! Keys are counted exactly within windows of [`KEYS_WINDOW`] sampled rows, in a small hash table. Sketches would need about
//! as much memory for a window of this size and give less: what tells a million keys from a thousand is how many of some
//! thousand rows have met a key again, to a few rows. Answers are those of the window that is being filled once it is half
//! full, and those of the one before until then.
//!
//! The range is that of the last [`RANGE_SAMPLES`] samples, so that it shrinks again when keys have moved on.

use crate::adaptive::decisions::draws::drawn_from;
use crate::bounds::widen;
use arrow_array::{Array, Int64Array};
use arrow_buffer::BooleanBuffer;
use millstream_abi::{HASH_SEED, hash_finish, hash_word};
use std::collections::{HashMap, VecDeque};

/// Sampled rows whose keys are counted together.
pub(crate) const KEYS_WINDOW: usize = 8192;
/// Samples that the range is of.
const RANGE_SAMPLES: usize = 16;
/// The most frequent keys that count as heavy hitters together.
const HEAVY: usize = 8;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct KeyProfile {
    counting: Counts,
    /// The window before, once there is one.
    counted: Option<Summary>,
    /// Of the last samples.
    ranges: VecDeque<(i64, i64)>,
    nulls: u64,
    rows: u64,
}

/// How often each key has come up in a window, by its hash: two keys of one hash are one key here.
#[derive(Debug, Default)]
struct Counts {
    counts: HashMap<u64, u32>,
    rows: usize,
}

/// What a window of keys has come to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Summary {
    /// The share of the most frequent key.
    pub(crate) heaviest: f64,
    /// The share of the eight most frequent keys.
    pub(crate) heavy: f64,
    /// An estimate of how many keys there are in all, from what came up again.
    pub(crate) keys: f64,
}

impl KeyProfile {
    /// Takes in the keys of a sample's rows that pass the filters: integers, or else hashes of keys.
    pub(crate) fn observe(
        &mut self,
        key: Option<&Int64Array>,
        hashes: Option<&Int64Array>,
        passed: Option<&BooleanBuffer>,
    ) {
        let passes = |row: usize| passed.is_none_or(|passed| passed.value(row));
        if let Some(keys) = key {
            let rows = (0..keys.len()).filter(|&row| passes(row));
            let mut range: Option<(i64, i64)> = None;
            for row in rows {
                self.rows += 1;
                if keys.is_null(row) {
                    self.nulls += 1;
                    continue;
                }
                let key = keys.value(row);
                range = Some(widen(range.unwrap_or((key, key)), key));
                self.count(hash_finish(hash_word(HASH_SEED, key as u64)));
            }
            self.ranges.extend(range);
            while self.ranges.len() > RANGE_SAMPLES {
                self.ranges.pop_front();
            }
        } else if let Some(hashes) = hashes {
            for row in (0..hashes.len()).filter(|&row| passes(row) && hashes.is_valid(row)) {
                self.rows += 1;
                self.count(hashes.value(row) as u64);
            }
        }
    }

    fn count(&mut self, hash: u64) {
        self.counting.count(hash);
        if self.counting.rows == KEYS_WINDOW {
            self.counted = self.counting.summary();
            self.counting = Counts::default();
        }
    }

    /// How many keys there are and how rows fall on them; `None` before the first row.
    pub(crate) fn summary(&self) -> Option<Summary> {
        match self.counted {
            Some(counted) if self.counting.rows < KEYS_WINDOW / 2 => Some(counted),
            _ => self.counting.summary(),
        }
    }

    /// The least and the greatest recent key; `None` for keys that are not one integer, or before the first.
    pub(crate) fn range(&self) -> Option<(i64, i64)> {
        self.ranges.iter().copied().reduce(|all, (least, most)| widen(widen(all, least), most))
    }

    /// The share of rows whose key is NULL; `None` before the first row.
    pub(crate) fn nulls(&self) -> Option<f64> {
        (self.rows > 0).then(|| self.nulls as f64 / self.rows as f64)
    }
}

impl Counts {
    fn count(&mut self, hash: u64) {
        *self.counts.entry(hash).or_default() += 1;
        self.rows += 1;
    }

    fn summary(&self) -> Option<Summary> {
        if self.rows == 0 {
            return None;
        }
        let mut counts: Vec<u32> = self.counts.values().copied().collect();
        let heavies = HEAVY.min(counts.len());
        counts.select_nth_unstable_by(heavies - 1, |a, b| b.cmp(a));
        let heaviest = counts[..heavies].iter().max().copied().unwrap_or(0);
        let heavy: u32 = counts[..heavies].iter().sum();
        Some(Summary {
            heaviest: f64::from(heaviest) / self.rows as f64,
            heavy: f64::from(heavy) / self.rows as f64,
            keys: self.estimate(heavies, heavy),
        })
    }

    /// How many keys there are: the heavy ones, and as many others as would show those seen if drawn alike.
    fn estimate(&self, heavies: usize, heavy: u32) -> f64 {
        let (rows, distinct) = (self.rows - heavy as usize, self.counts.len() - heavies);
        match distinct {
            0 => heavies as f64,
            _ => heavies as f64 + drawn_from(rows as f64, distinct as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers without order, the same at each call.
    fn scattered(count: usize) -> impl Iterator<Item = u64> {
        (0..count as u64).map(|i| hash_finish(hash_word(HASH_SEED, i)))
    }

    fn observed(keys: impl Iterator<Item = i64>) -> KeyProfile {
        let mut profile = KeyProfile::default();
        let keys: Vec<i64> = keys.collect();
        for sample in keys.chunks(1024) {
            profile.observe(Some(&Int64Array::from(sample.to_vec())), None, None);
        }
        profile
    }

    #[test]
    fn the_number_of_keys_is_estimated_beyond_those_seen() {
        for keys in [1, 10, 1000, 10_000, 100_000] {
            let profile = observed(scattered(KEYS_WINDOW).map(|hash| (hash % keys) as i64));
            let summary = profile.summary().expect("rows were counted");
            assert_eq!(profile.counting.rows, 0, "all rows are of one window");
            assert!((summary.keys / keys as f64 - 1.0).abs() < 0.2, "{} of {keys}", summary.keys);
        }
        let unique = observed(0..KEYS_WINDOW as i64).summary().expect("rows were counted");
        assert!(unique.keys > 50.0 * KEYS_WINDOW as f64, "{unique:?}");
    }

    #[test]
    fn heavy_hitters_show() {
        let profile = observed(scattered(20_000).map(|hash| if hash % 10 < 6 { 7 } else { (hash >> 8) as i64 }));
        let summary = profile.summary().expect("rows were counted");
        assert!((summary.heaviest - 0.6).abs() < 0.02, "{summary:?}");
        assert!(summary.heavy >= summary.heaviest && summary.heavy < 0.63, "{summary:?}");
        assert!(summary.keys > 1e5, "the others are nearly all different: {summary:?}");
    }

    #[test]
    fn the_range_moves_on_with_the_keys() {
        let mut profile = observed((0..20_000).map(|i| i % 100));
        assert_eq!(profile.range(), Some((0, 99)));
        let far = Int64Array::from_iter_values(1_000_000..1_000_100);
        profile.observe(Some(&far), None, None);
        assert_eq!(profile.range(), Some((0, 1_000_099)));
        (0..RANGE_SAMPLES).for_each(|_| profile.observe(Some(&far), None, None));
        assert_eq!(profile.range(), Some((1_000_000, 1_000_099)));
    }

    #[test]
    fn hashes_and_nulls_are_taken_in() {
        let mut profile = KeyProfile::default();
        assert_eq!((profile.summary(), profile.range(), profile.nulls()), (None, None, None));
        profile.observe(None, Some(&Int64Array::from(vec![5, 5, -3])), None);
        assert_eq!((profile.counting.rows, profile.counting.counts.len()), (3, 2));
        assert_eq!(profile.range(), None);
        let mut profile = KeyProfile::default();
        let keys = Int64Array::from(vec![Some(1), None, Some(i64::MIN), Some(i64::MAX)]);
        let passed = BooleanBuffer::from(vec![true, true, true, false]);
        profile.observe(Some(&keys), None, Some(&passed));
        assert_eq!((profile.range(), profile.nulls()), (Some((i64::MIN, 1)), Some(1.0 / 3.0)));
    }

    #[test]
    fn fewer_keys_show_when_a_window_is_half_full() {
        let mut profile = observed(scattered(KEYS_WINDOW).map(|hash| hash as i64));
        let few = Int64Array::from_iter_values((0..KEYS_WINDOW as i64 / 2).map(|i| i % 3));
        profile.observe(Some(&few.slice(0, 100)), None, None);
        assert!(profile.summary().is_some_and(|s| s.keys > 1e5), "not yet");
        profile.observe(Some(&few), None, None);
        assert_eq!(profile.summary().map(|s| s.keys), Some(3.0));
    }
}
