//! Sketches: the number of distinct values and the distribution of numbers, approximately, in bounded memory.
//!
//! Both give the same result whatever the order of updates and merges. The sparse form of HyperLogLog++ is a set; it
//! becomes dense when its encoding, whose length only depends on the set and grows with it, is longer than the dense form.
//! DDSketch counts numbers in buckets; there are as many as doubles need, so that none are ever collapsed.

mod encoding;

use super::values::{positive_zero, string, word};
use hyperloglogplus::{HyperLogLog, HyperLogLogPlus};
use millstream_abi::{Phys, Slot, hash_bytes};
use serde::{Deserialize, Serialize};
use sketches_ddsketch::{Config, DDSketch};
use std::fmt;
use std::hash::{BuildHasher, Hasher};

/// Registers: 2^14, for a standard error of 0.8 %.
const PRECISION: u8 = 14;
/// Bytes of the registers.
const REGISTER_BYTES: usize = (1 << PRECISION) / 5 * 4;
/// Relative error of quantiles.
const ACCURACY: f64 = 0.01;
/// Above the number of buckets for all doubles: the logarithms of the largest and the smallest normal one differ by
/// 1418, and a bucket is 0.02 wide.
const MAX_BUCKETS: u32 = 1 << 17;

/// Passes hashes through.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = hash_bytes(bytes);
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// Makes [`Hashed`]; written with the sketch as nothing.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct AlreadyHashed;

impl BuildHasher for AlreadyHashed {
    type Hasher = Hashed;

    fn build_hasher(&self) -> Hashed {
        Hashed::default()
    }
}

/// An estimate of the number of distinct values.
#[derive(Debug, Clone)]
pub(crate) struct Cardinality(HyperLogLogPlus<u64, AlreadyHashed>);

impl Cardinality {
    /// Of no values.
    pub(super) fn new() -> Cardinality {
        let sketch = HyperLogLogPlus::new(PRECISION, AlreadyHashed);
        Cardinality(sketch.expect("the precision is between 4 and 18"))
    }

    /// Takes in a value.
    ///
    /// # Safety
    /// The slot holds a value of the type, and its string is alive.
    pub(super) unsafe fn insert(&mut self, phys: Phys, value: &Slot) {
        let hash = match phys {
            Phys::I128 => hash_bytes(&value.bytes::<16>()),
            Phys::Str => {
                let string = string(value);
                // SAFETY: promised by the caller.
                hash_bytes(unsafe { string.as_bytes() })
            }
            _ => hash_bytes(&positive_zero(phys, word(phys, value)).to_le_bytes()),
        };
        self.0.insert(&hash);
    }

    /// Takes in the values of another.
    pub(super) fn merge(&mut self, other: &Cardinality) {
        self.0.merge(&other.0).expect("all have one precision");
    }

    /// The estimate.
    pub(crate) fn estimate(&self) -> i64 {
        // Counting first brings the sparse form in order.
        self.0.clone().count().round() as i64
    }

    /// Bytes of memory, at most.
    pub(super) fn bytes(&self) -> usize {
        REGISTER_BYTES
    }
}

/// An estimate of the distribution of numbers.
#[derive(Clone)]
pub(crate) struct Quantiles {
    /// Of the finite ones.
    finite: DDSketch,
    negative_infinities: u64,
    positive_infinities: u64,
    /// NaN is above all numbers.
    nans: u64,
}

impl Quantiles {
    /// Of no numbers.
    pub(super) fn new() -> Quantiles {
        let finite = DDSketch::new(Config::new(ACCURACY, MAX_BUCKETS, f64::MIN_POSITIVE));
        Quantiles { finite, negative_infinities: 0, positive_infinities: 0, nans: 0 }
    }

    /// Takes in a number.
    pub(super) fn insert(&mut self, x: f64) {
        if x.is_finite() {
            // -0.0 as 0.0: which of them is the minimum would depend on the order.
            self.finite.add(x + 0.0);
        } else if x.is_nan() {
            self.nans += 1;
        } else if x > 0.0 {
            self.positive_infinities += 1;
        } else {
            self.negative_infinities += 1;
        }
    }

    /// Takes in the numbers of another.
    pub(super) fn merge(&mut self, other: &Quantiles) {
        self.finite.merge(&other.finite).expect("all have one configuration");
        self.negative_infinities += other.negative_infinities;
        self.positive_infinities += other.positive_infinities;
        self.nans += other.nans;
    }

    /// The number with the rank `fraction · (count - 1)`, rounded down, about; `None` when there are no numbers.
    pub(crate) fn quantile(&self, fraction: f64) -> Option<f64> {
        let finite = self.finite.count() as u64;
        let count = finite + self.negative_infinities + self.positive_infinities + self.nans;
        let rank = (fraction.clamp(0.0, 1.0) * (count.checked_sub(1)? as f64)) as u64;
        if rank < self.negative_infinities {
            return Some(f64::NEG_INFINITY);
        }
        let rank = rank - self.negative_infinities;
        if rank < finite {
            let (min, max) = (self.finite.min()?, self.finite.max()?);
            // Half a rank more keeps the sketch's own rounding from falling to the rank before.
            let within = if finite > 1 { (rank as f64 + 0.5) / (finite - 1) as f64 } else { 0.0 };
            let fraction = if rank == 0 { 0.0 } else { within.min(1.0) };
            return self.finite.quantile(fraction).ok()?.map(|x| x.clamp(min, max));
        }
        Some(if rank - finite < self.positive_infinities { f64::INFINITY } else { f64::NAN })
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.finite.length() * size_of::<u64>()
    }
}

impl fmt::Debug for Quantiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Quantiles({} finite numbers)", self.finite.count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cardinality(words: impl Iterator<Item = i64>) -> Cardinality {
        let mut sketch = Cardinality::new();
        // SAFETY: words of the type.
        words.for_each(|word| unsafe { sketch.insert(Phys::I64, &Slot::of(word.to_le_bytes())) });
        sketch
    }

    #[test]
    fn the_number_of_distinct_values_does_not_depend_on_the_order_of_merges() {
        for count in [0i64, 1, 100, 3_000, 5_000, 20_000, 300_000] {
            let whole = cardinality(0..count).estimate();
            let error = (whole - count).abs() as f64;
            assert!(error <= count as f64 * 0.03, "{whole} for {count}");
            // Overlapping parts, of which some are sparse and others dense, in both directions.
            let bounds = [(0, count / 7), (count / 9, count / 2), (count / 3, count), (0, count.min(5))];
            let parts = bounds.map(|(from, to)| cardinality((from..to).rev()));
            let merged = |order: &mut dyn Iterator<Item = &Cardinality>| {
                let mut all = Cardinality::new();
                order.for_each(|part| all.merge(part));
                all.estimate()
            };
            assert_eq!(merged(&mut parts.iter()), whole, "of {count}");
            assert_eq!(merged(&mut parts.iter().rev()), whole, "of {count}, backwards");
        }
    }

    #[test]
    fn quantiles_are_close_whatever_the_order_and_the_range() {
        let numbers: Vec<f64> = (-400..=400).map(|i| f64::from(i % 7) * 10f64.powi(i / 2 * 3 / 2)).collect();
        let mut sorted = numbers.clone();
        sorted.sort_by(f64::total_cmp);
        let mut whole = Quantiles::new();
        numbers.iter().for_each(|&x| whole.insert(x));
        let parts: Vec<Quantiles> = numbers
            .chunks(90)
            .map(|chunk| {
                let mut part = Quantiles::new();
                chunk.iter().rev().for_each(|&x| part.insert(x));
                part
            })
            .collect();
        let mut merged = Quantiles::new();
        parts.iter().rev().for_each(|part| merged.merge(part));
        for i in 0..=1000 {
            let fraction = f64::from(i) / 1000.0;
            let exact = sorted[(fraction * (sorted.len() - 1) as f64) as usize];
            let found = whole.quantile(fraction).unwrap();
            assert!((found - exact).abs() <= exact.abs() * 0.0101, "{found} for {exact} at {fraction}");
            assert_eq!(merged.quantile(fraction), Some(found));
        }
    }

    #[test]
    fn infinities_and_nan_are_at_the_ends() {
        let mut sketch = Quantiles::new();
        assert_eq!(sketch.quantile(0.5), None);
        [f64::NAN, f64::INFINITY, 1.0, f64::NEG_INFINITY, 2.0].into_iter().for_each(|x| sketch.insert(x));
        assert_eq!(sketch.quantile(0.0), Some(f64::NEG_INFINITY));
        assert_eq!(sketch.quantile(0.25), Some(1.0));
        assert_eq!(sketch.quantile(0.75), Some(f64::INFINITY));
        assert!(sketch.quantile(1.0).unwrap().is_nan());
    }
}
