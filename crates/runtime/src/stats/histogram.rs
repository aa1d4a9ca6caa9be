//! Times in buckets of a logarithmic scale: what a percentile needs, for three relaxed additions a sample.
//!
//! A power of two is cut into four buckets, so that a percentile is at most a quarter too high. Any thread records; a
//! summary that is made meanwhile may lack the newest samples in one of its numbers.

use super::forms::{from_seconds, seconds};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Bits of a time after its highest that choose the bucket.
const FINE_BITS: u32 = 2;
const FINE: usize = 1 << FINE_BITS;
/// Up to 2^44 ns, which is about five hours; longer times count as that.
const BUCKETS: usize = (44 - FINE_BITS as usize + 1) * FINE;

/// See the module.
#[derive(Debug)]
pub(crate) struct Histogram {
    buckets: Box<[AtomicU64]>,
    nanos: AtomicU64,
    most: AtomicU64,
}

/// The times of something that was done many times, at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Times {
    /// Samples.
    pub count: u64,
    /// Their sum.
    #[serde(rename = "sum_s", serialize_with = "seconds", deserialize_with = "from_seconds")]
    pub sum: Duration,
    /// Their mean; 0 without samples.
    #[serde(rename = "mean_s", serialize_with = "seconds", deserialize_with = "from_seconds")]
    pub mean: Duration,
    /// The median, up to a quarter too high.
    #[serde(rename = "p50_s", serialize_with = "seconds", deserialize_with = "from_seconds")]
    pub p50: Duration,
    /// The 99th percentile, up to a quarter too high.
    #[serde(rename = "p99_s", serialize_with = "seconds", deserialize_with = "from_seconds")]
    pub p99: Duration,
    /// The longest.
    #[serde(rename = "max_s", serialize_with = "seconds", deserialize_with = "from_seconds")]
    pub max: Duration,
}

impl Histogram {
    /// Adds a sample.
    pub(crate) fn record(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[bucket(nanos)].fetch_add(1, Relaxed);
        self.nanos.fetch_add(nanos, Relaxed);
        self.most.fetch_max(nanos, Relaxed);
    }

    /// Everything so far.
    pub(crate) fn times(&self) -> Times {
        Histogram::times_of([self])
    }

    /// The samples of several histograms as one.
    pub(crate) fn times_of<'a>(histograms: impl IntoIterator<Item = &'a Histogram>) -> Times {
        let mut counts = [0u64; BUCKETS];
        let (mut sum, mut most) = (0, 0);
        for histogram in histograms {
            histogram.buckets.iter().zip(&mut counts).for_each(|(of, all)| *all += of.load(Relaxed));
            sum += histogram.nanos.load(Relaxed);
            most = most.max(histogram.most.load(Relaxed));
        }
        let count: u64 = counts.iter().sum();
        let percentile = |hundredths: u64| {
            let wanted = (count * hundredths).div_ceil(100).max(1);
            let mut seen = 0;
            let reached = counts.iter().position(|n| {
                seen += n;
                seen >= wanted
            });
            Duration::from_nanos(reached.map_or(0, |bucket| end_of(bucket).min(most)))
        };
        let [sum_of, mean, max] = [sum, sum / count.max(1), most].map(Duration::from_nanos);
        Times { count, sum: sum_of, mean, p50: percentile(50), p99: percentile(99), max }
    }
}

impl Default for Histogram {
    fn default() -> Histogram {
        let buckets = (0..BUCKETS).map(|_| AtomicU64::new(0)).collect();
        Histogram { buckets, nanos: AtomicU64::new(0), most: AtomicU64::new(0) }
    }
}

fn bucket(nanos: u64) -> usize {
    let highest = nanos.max(FINE as u64).ilog2();
    let fine = (nanos >> (highest - FINE_BITS)) as usize % FINE;
    // Times below `FINE` share the first power's buckets: their highest bit is not set in `nanos`.
    let power = if nanos < FINE as u64 { 0 } else { (highest - FINE_BITS + 1) as usize };
    (power * FINE + fine).min(BUCKETS - 1)
}

/// The first time after a bucket.
fn end_of(bucket: usize) -> u64 {
    let (power, fine) = (bucket / FINE, (bucket % FINE) as u64 + 1);
    match power {
        0 => fine,
        _ => (FINE as u64 + fine) << (power - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_ends_at_most_a_quarter_above_its_times() {
        let powers = (0..44).map(|p| 1u64 << p);
        for nanos in powers.flat_map(|p| [p, p + 1, p + p / 3, p + p / 2, 2 * p - 1]) {
            let end = end_of(bucket(nanos));
            assert!(nanos < end && end <= nanos + nanos / 4 + 1, "{nanos} in a bucket that ends at {end}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_lie_among_the_samples() {
        let (fast, slow) = (Histogram::default(), Histogram::default());
        assert_eq!(fast.times(), Times::default());
        (1..=99).for_each(|_| fast.record(Duration::from_nanos(1000)));
        slow.record(Duration::from_micros(10));
        let times = Histogram::times_of([&fast, &slow]);
        assert_eq!((times.count, times.sum, times.max), (100, Duration::from_micros(109), Duration::from_micros(10)));
        assert_eq!(times.mean, Duration::from_nanos(1090));
        assert!(times.p50 >= Duration::from_nanos(1000) && times.p99 <= Duration::from_nanos(1250), "{times:?}");
        slow.record(Duration::from_micros(10));
        assert_eq!(Histogram::times_of([&fast, &slow]).p99, Duration::from_micros(10));
    }
}
