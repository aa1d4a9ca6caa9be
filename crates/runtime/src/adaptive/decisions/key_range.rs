//! Whether keys are taken to lie in a range, so that a table is an array of accumulators (Grizzly section 6.2.2).
//!
//! # Model
//!
//! For a range of *L* keys of which *K* come up in a slice of *R* rows, nanoseconds per row:
//!
//! | table | update | end of the slice |
//! | --- | --- | --- |
//! | hash | [`PROBE`] + touch(*K* entries with keys and free slots) | *K* / *R* · [`SEAL`] |
//! | array | [`INDEX`] + touch(the part of the array that is used) | *L* / *R* · [`WALK`], since the whole range is cleared and walked |
//!
//! So an array pays for keys that lie close together, and for rows enough. Where nothing is known of *R*, it is taken to be
//! [`UNPROVEN`] rows for each key seen.
//!
//! The range has room for growth at both ends. A key outside of it is met by widening, not by counting: one in a buffer is
//! enough to run half of it in generic code. It is widened by at least half of its length, so that keys that keep growing
//! meet their bounds ever less often. It is given up when that is not worth its memory any more, or when it breaks
//! again and again: see [`Trust`](super::hysteresis::Trust).

use super::assumptions::Revision;
use super::costs::{Caches, INDEX, PROBE, SEAL, SLOTS_PER_ENTRY, WALK};
use super::hysteresis::TABLES;
use millstream_abi::KeyRange;

/// Longest range, in bytes of a table, whatever the memory.
const MOST_BYTES: u64 = 64 << 20;
/// A table may take this share of the memory that is left, with all that are open at a time.
const SHARE_OF_MEMORY: u64 = 4;
/// The room for growth at each end: an eighth of the range.
const ROOM: u64 = 8;
/// Least room for growth at each end.
const LEAST_ROOM: u64 = 32;
/// Rows per key in a slice that are taken for granted while they are not known.
const UNPROVEN: f64 = 2.0;

/// The keys from one to another; `None` for all 2⁶⁴.
pub(crate) fn between(least: i64, most: i64) -> Option<KeyRange> {
    let len = most.abs_diff(least).checked_add(1)?;
    (least <= most).then_some(KeyRange { first: least, len })
}

/// The keys of two ranges, and all between.
fn union(keys: KeyRange, others: KeyRange) -> Option<KeyRange> {
    between(keys.first.min(others.first), keys.last().max(others.last()))
}

/// A range with more room at both ends, rounded outwards to a sixteenth of its length, so that samples of the same keys give the same
/// range, and so the same code. Keys that are not negative stay so, and a first key near 0 becomes 0.
fn with_room(keys: KeyRange, room: u64) -> Option<KeyRange> {
    // Of a range that is too long for any table nothing needs to be rounded.
    let unit = keys.len.saturating_add(2 * room).checked_next_power_of_two().map_or(1, |len| (len / 16).max(1)) as i64;
    let least = keys.first.saturating_sub_unsigned(room) & !(unit - 1);
    let least = if keys.first >= 0 { least.max(0) } else { least };
    between(least, keys.last().saturating_add_unsigned(room) | (unit - 1))
}

/// What a table for a range is judged by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyRangeCase {
    /// The recent keys.
    pub(crate) seen: KeyRange,
    /// How many of them there are, at a guess.
    pub(crate) distinct: f64,
    /// Rows of a slice that a table gets, if known: those of one worker for private tables.
    pub(crate) rows_per_table: Option<f64>,
    /// Bytes of an entry's accumulators.
    pub(crate) stride: usize,
    /// Bytes of an entry of a hash table.
    pub(crate) hash_stride: usize,
    /// Tables that are open at a time: of workers and slices.
    pub(crate) tables: usize,
    /// Memory that is left of the budget, in bytes.
    pub(crate) memory_left: u64,
    /// Of the machine.
    pub(crate) caches: Caches,
    /// Whether a range is to be used wherever it fits, whatever it costs.
    pub(crate) is_forced: bool,
}

impl KeyRangeCase {
    /// What to do with the range `used` so far, if any. Keys that lie outside of it are among those seen.
    pub(crate) fn choose(&self, used: Option<KeyRange>) -> Revision<KeyRange> {
        let Some(used) = used else { return self.begin() };
        // Keys have moved on, or there are outliers, or rows have become few.
        let anew = || match self.begin() {
            Revision::Keep => Revision::GiveUp,
            other => other,
        };
        if !used.contains(self.seen) {
            let grown = union(used, self.seen).and_then(|keys| with_room(keys, used.len / 2 + LEAST_ROOM));
            return grown.filter(|&keys| self.pays(keys, 1.0)).map_or_else(anew, Revision::Use);
        }
        if !self.pays(used, 1.0 / TABLES.margin) {
            return anew();
        }
        Revision::Keep
    }

    fn begin(&self) -> Revision<KeyRange> {
        match with_room(self.seen, self.seen.len / ROOM + LEAST_ROOM).filter(|&keys| self.pays(keys, TABLES.margin)) {
            Some(keys) => Revision::Use(keys),
            None => Revision::Keep,
        }
    }

    /// Whether an array for the range costs at most `margin` of what a hash table does, and fits.
    fn pays(&self, keys: KeyRange, margin: f64) -> bool {
        let bytes = keys.len.saturating_mul(self.stride as u64);
        let most = (self.memory_left / SHARE_OF_MEMORY / self.tables.max(1) as u64).min(MOST_BYTES);
        bytes <= most && (self.is_forced || self.array(keys) <= margin * self.hash())
    }

    /// Nanoseconds per row of a hash table.
    pub(crate) fn hash(&self) -> f64 {
        let distinct = self.distinct.max(1.0);
        let touched = self.caches.touch(distinct * SLOTS_PER_ENTRY * self.hash_stride as f64, self.tables as f64);
        PROBE + touched + self.rows_per_table.map_or(0.0, |rows| SEAL * (distinct / rows.max(1.0)).min(1.0))
    }

    /// Nanoseconds per row of an array for the range.
    pub(crate) fn array(&self, keys: KeyRange) -> f64 {
        /// Bytes of a cache line: what a key alone in its neighbourhood takes.
        const LINE: f64 = 64.0;
        let (length, distinct) = (keys.len as f64, self.distinct.clamp(1.0, keys.len as f64));
        let used = (length * self.stride as f64).min(distinct * LINE.max(self.stride as f64));
        let rows = self.rows_per_table.unwrap_or(UNPROVEN * distinct);
        INDEX + self.caches.touch(used, self.tables as f64) + WALK * length / rows.max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn situation(first: i64, last: i64, distinct: f64) -> KeyRangeCase {
        KeyRangeCase {
            seen: between(first, last).expect("fewer than all"),
            distinct,
            rows_per_table: Some(1e6),
            stride: 16,
            hash_stride: 40,
            tables: 4,
            memory_left: 8 << 30,
            caches: Caches { second: 1 << 20, last: 32 << 20 },
            is_forced: false,
        }
    }

    #[test]
    fn keys_close_together_get_an_array() {
        for (first, last, distinct, pays) in [
            (0, 9_999, 1e4, true),
            (0, 0, 1.0, true),
            (-500, 500, 1001.0, true),
            (1_700_000_000_000, 1_700_000_001_000, 1000.0, true),
            (0, 99_999, 1e5, true),
            (0, 1 << 40, 1e4, false),
            (i64::MIN, i64::MAX - 1, 1e4, false),
            (0, 3_999_999, 100.0, false),
            (0, 40_000_000, 100.0, false),
        ] {
            let choice = situation(first, last, distinct).choose(None);
            assert_eq!(matches!(choice, Revision::Use(_)), pays, "{first} to {last}, {distinct} keys: {choice:?}");
        }
    }

    #[test]
    fn there_is_room_for_growth() {
        assert_eq!(situation(10, 9_999, 1e4).choose(None), Revision::Use(KeyRange { first: 0, len: 12 << 10 }));
        let Revision::Use(keys) = situation(-100, 100, 201.0).choose(None) else { panic!("an array pays") };
        assert!(keys.first < -100 && keys.last() > 100);
    }

    #[test]
    fn few_rows_in_a_slice_do_not_pay_for_a_long_range() {
        let mut of = situation(0, 1_000_000, 1000.0);
        of.rows_per_table = Some(1000.0);
        assert_eq!(of.choose(None), Revision::Keep);
        of.rows_per_table = Some(1e7);
        assert!(matches!(of.choose(None), Revision::Use(_)));
        of.rows_per_table = None;
        assert_eq!(of.choose(None), Revision::Keep, "nothing is known of the rows");
        of.distinct = 1e6;
        assert!(matches!(of.choose(None), Revision::Use(_)), "the range is full");
    }

    #[test]
    fn memory_bounds_the_range() {
        let mut of = situation(0, 1_000_000, 1e6);
        assert!(matches!(of.choose(None), Revision::Use(_)));
        of.memory_left = 100 << 20;
        assert_eq!(of.choose(None), Revision::Keep);
        of.memory_left = 0;
        assert_eq!(of.choose(Some(KeyRange { first: 0, len: 1_100_000 })), Revision::GiveUp);
    }

    #[test]
    fn keys_outside_widen_the_range_or_end_it() {
        let used = KeyRange { first: 0, len: 10_000 };
        let of = situation(0, 10_500, 1e4);
        let Revision::Use(wider) = of.choose(Some(used)) else { panic!("an array pays") };
        assert!(wider.contains(of.seen) && wider.len > 15_000, "{wider:?}");
        let jumped = situation(50_000_000_000, 50_000_010_000, 1e4);
        let Revision::Use(moved) = jumped.choose(Some(used)) else { panic!("an array pays") };
        assert!(moved.contains(jumped.seen) && !moved.contains(used), "{moved:?}");
        assert_eq!(situation(0, i64::MAX - 1, 1e4).choose(Some(used)), Revision::GiveUp);
    }

    #[test]
    fn growing_keys_meet_their_bounds_ever_less_often() {
        let (mut used, mut changes) = (None, 0);
        for last in (0..1_000_000).step_by(100) {
            match situation(0, last, last as f64 + 1.0).choose(used) {
                Revision::Use(keys) => (used, changes) = (Some(keys), changes + 1),
                Revision::Keep => {}
                Revision::GiveUp => panic!("the range is full"),
            }
        }
        assert!((5..25).contains(&changes), "{changes} changes");
    }

    #[test]
    fn the_choice_does_not_swing() {
        for distinct in [1.0, 100.0, 1e4, 1e6] {
            for bits in 0..40 {
                let mut of = situation(0, (1 << bits) - 1, distinct);
                for rows in [1e2, 1e4, 1e6, 1e8] {
                    of.rows_per_table = Some(rows);
                    let Revision::Use(keys) = of.choose(None) else { continue };
                    assert_eq!(of.choose(Some(keys)), Revision::Keep, "{distinct} keys of 2^{bits}, {rows} rows");
                }
            }
        }
    }

    #[test]
    fn ranges_end_where_numbers_do() {
        assert_eq!(between(i64::MIN, i64::MAX), None);
        assert_eq!(between(1, 0), None);
        let last = between(i64::MAX - 1, i64::MAX).expect("two keys");
        assert_eq!(last.last(), i64::MAX);
        assert_eq!(with_room(last, 10).map(KeyRange::last), Some(i64::MAX));
        assert_eq!(between(i64::MIN, 0).and_then(|k| with_room(k, 5)).map(|k| k.first), Some(i64::MIN));
    }
}
