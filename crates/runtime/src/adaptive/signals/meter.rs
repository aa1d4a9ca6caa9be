//! What a row costs: counted for every buffer, by variant, and watched for changes.
//!
//! A meter costs three relaxed additions and a store a buffer, and the clock is read for the statistics anyway. The detector
//! runs where the meters are read, some times a second.
//!
//! # The detector
//!
//! Two cumulative sums (Page's CUSUM) over the logarithm of the cost per row, one for dearer and one for cheaper rows. What
//! the first [`LEARNED`] readings cost is the reference. A sum grows by what a reading lies beyond the reference and
//! [`SLACK`], and reports a change when it reaches [`ALARM`]. A cost that doubles is reported at the second reading,
//! one that rises by half after four, one that wavers by a tenth never. After a report the reference is learned again.

use super::WINDOW;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Readings that make the reference.
const LEARNED: u32 = 4;
/// Deviations up to this, as a logarithm, are noise: about a sixth.
const SLACK: f64 = 0.15;
/// A sum of deviations that is a change.
const ALARM: f64 = 1.0;
/// What one reading can add to a sum: one that was slow because the machine was busy is not a change.
const MOST: f64 = 0.6;
/// Rows that make a reading; fewer say little.
const LEAST_ROWS: u64 = WINDOW;
/// The last buffers whose costs are kept one by one.
const RECENT: usize = 32;

/// Rows processed by a variant and the time that it took, over all workers. All atomics are relaxed; a reading need not be
/// of one moment.
#[derive(Debug, Default)]
pub(crate) struct VariantMeter {
    rows: AtomicU64,
    nanos: AtomicU64,
    buffers: AtomicU64,
    /// Nanoseconds per row of the last buffers, as the bits of an f32; that of buffer *n* is at *n* modulo their number.
    recent: [AtomicU32; RECENT],
}

/// What a meter shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Metered {
    /// Rows processed.
    pub(crate) rows: u64,
    /// Nanoseconds of workers.
    pub(crate) nanos: u64,
    /// Buffers, or parts of buffers.
    pub(crate) buffers: u64,
}

impl VariantMeter {
    /// A buffer, or the part of it that this variant has processed.
    pub(crate) fn record(&self, rows: usize, time: Duration) {
        self.rows.fetch_add(rows as u64, Relaxed);
        self.nanos.fetch_add(time.as_nanos() as u64, Relaxed);
        let number = self.buffers.fetch_add(1, Relaxed);
        let nanos_per_row = time.as_nanos() as f32 / rows.max(1) as f32;
        self.recent[number as usize % RECENT].store(nanos_per_row.to_bits(), Relaxed);
    }

    /// The median of the nanoseconds per row of the buffers since an earlier reading, of the last of them if there were many;
    /// `None` without any. One for which its worker was kept from the core does not count more than any other.
    pub(crate) fn median_since(&self, earlier: Metered) -> Option<f64> {
        let buffers = self.buffers.load(Relaxed);
        let first = earlier.buffers.max(buffers.saturating_sub(RECENT as u64));
        let cost = |number: u64| f32::from_bits(self.recent[number as usize % RECENT].load(Relaxed));
        let mut costs: Vec<f32> = (first..buffers).map(cost).collect();
        costs.sort_by(f32::total_cmp);
        costs.get(costs.len() / 2).map(|&median| f64::from(median))
    }

    /// The sums so far.
    pub(crate) fn read(&self) -> Metered {
        Metered { rows: self.rows.load(Relaxed), nanos: self.nanos.load(Relaxed), buffers: self.buffers.load(Relaxed) }
    }
}

impl Metered {
    /// What has come since an earlier reading of the same meter.
    pub(crate) fn since(self, earlier: Metered) -> Metered {
        Metered {
            rows: self.rows.saturating_sub(earlier.rows),
            nanos: self.nanos.saturating_sub(earlier.nanos),
            buffers: self.buffers.saturating_sub(earlier.buffers),
        }
    }

    /// Nanoseconds per row; `None` for so few rows that it says little.
    pub(crate) fn nanos_per_row(self) -> Option<f64> {
        (self.rows >= LEAST_ROWS).then(|| self.nanos as f64 / self.rows as f64)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct ChangeDetector {
    /// Mean logarithm of the cost per row.
    reference: f64,
    readings: u32,
    dearer: f64,
    cheaper: f64,
}

/// The cost per row has changed, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Change {
    /// What it was.
    pub(crate) from: f64,
    /// What it is now.
    pub(crate) to: f64,
}

impl ChangeDetector {
    /// Takes in the nanoseconds per row since the last reading.
    pub(crate) fn note(&mut self, nanos_per_row: f64) -> Option<Change> {
        if nanos_per_row.is_nan() || nanos_per_row <= 0.0 {
            return None;
        }
        let cost = nanos_per_row.ln();
        if self.readings < LEARNED {
            self.readings += 1;
            self.reference += (cost - self.reference) / f64::from(self.readings);
            return None;
        }
        let beyond = cost - self.reference;
        self.dearer = (self.dearer + (beyond - SLACK).min(MOST)).max(0.0);
        self.cheaper = (self.cheaper + (-beyond - SLACK).min(MOST)).max(0.0);
        if self.dearer.max(self.cheaper) < ALARM {
            return None;
        }
        let change = Change { from: self.reference.exp(), to: nanos_per_row };
        *self = ChangeDetector::default();
        Some(change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After which reading of a constant cost a change is reported, following one that was at 10 ns.
    fn reported_at(cost: f64) -> Option<usize> {
        let mut detector = ChangeDetector::default();
        (0..20).for_each(|_| assert_eq!(detector.note(10.0), None));
        (1..=50).find(|_| detector.note(cost).is_some())
    }

    #[test]
    fn meters_add_up() {
        let meter = VariantMeter::default();
        meter.record(10_000, Duration::from_micros(50));
        let first = meter.read();
        assert_eq!(first.nanos_per_row(), Some(5.0));
        meter.record(100, Duration::from_micros(3));
        let then = meter.read().since(first);
        assert_eq!(then, Metered { rows: 100, nanos: 3000, buffers: 1 });
        assert_eq!(then.nanos_per_row(), None, "too few rows");
        assert_eq!(first.since(meter.read()), Metered::default());
    }

    #[test]
    fn the_median_is_that_of_the_buffers_since() {
        let meter = VariantMeter::default();
        assert_eq!(meter.median_since(Metered::default()), None);
        (0..50).for_each(|_| meter.record(1000, Duration::from_micros(9)));
        let start = meter.read();
        for micros in [2, 3, 4, 5, 10_000] {
            meter.record(1000, Duration::from_micros(micros));
        }
        assert_eq!(meter.median_since(start), Some(4.0), "one that was interrupted does not matter");
        (0..100).for_each(|_| meter.record(1000, Duration::from_micros(7)));
        assert_eq!(meter.median_since(start), Some(7.0), "the last ones count");
    }

    #[test]
    fn large_changes_are_reported_at_once_and_small_ones_never() {
        assert_eq!([20.0, 100.0, 15.0, 5.0, 2.0].map(reported_at), [Some(2), Some(2), Some(4), Some(2), Some(2)]);
        assert_eq!([10.0, 11.0, 9.0].map(reported_at), [None; 3]);
    }

    #[test]
    fn noise_is_no_change() {
        let mut detector = ChangeDetector::default();
        for i in 0..1000 {
            let cost = if i % 20 == 10 { 80.0 } else { 10.0 + f64::from(i * 7 % 3 - 1) };
            assert_eq!(detector.note(cost), None, "reading {i}");
        }
    }

    #[test]
    fn after_a_change_the_new_cost_is_the_reference() {
        let mut detector = ChangeDetector::default();
        (0..10).for_each(|_| assert_eq!(detector.note(10.0), None));
        let change = (0..5).find_map(|_| detector.note(30.0)).expect("three times the cost");
        assert!((change.from - 10.0).abs() < 1e-9 && change.to == 30.0);
        (0..100).for_each(|_| assert_eq!(detector.note(30.0), None));
        for nothing in [0.0, -1.0, f64::NAN] {
            assert_eq!(detector.note(nothing), None);
        }
    }
}
