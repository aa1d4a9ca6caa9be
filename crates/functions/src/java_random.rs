//! Random number generators: with a seed the numbers are those of `java.util.Random`, as in Flink.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// Generators by seed; `None` is the one that starts at random.
#[derive(Debug, Default)]
pub(crate) struct Generators(HashMap<Option<i32>, JavaRandom>);

/// Seeds that a worker keeps a sequence for.
const MAX_SEEDS: usize = 1024;

impl Generators {
    /// The generator of a seed.
    pub(crate) fn of(&mut self, seed: Option<i32>) -> &mut JavaRandom {
        if self.0.len() >= MAX_SEEDS && !self.0.contains_key(&seed) {
            self.0.clear();
        }
        self.0.entry(seed).or_insert_with(|| match seed {
            Some(seed) => JavaRandom::new(i64::from(seed)),
            // The hasher's keys are the standard library's only source of entropy.
            None => JavaRandom::new(RandomState::new().hash_one(0) as i64),
        })
    }
}

/// The linear congruential generator that `java.util.Random` specifies.
#[derive(Debug)]
pub(crate) struct JavaRandom(u64);

impl JavaRandom {
    const MULTIPLIER: u64 = 0x5_DEEC_E66D;
    const MASK: u64 = (1 << 48) - 1;

    fn new(seed: i64) -> JavaRandom {
        JavaRandom((seed as u64 ^ Self::MULTIPLIER) & Self::MASK)
    }

    fn next(&mut self, bits: u32) -> i32 {
        self.0 = self.0.wrapping_mul(Self::MULTIPLIER).wrapping_add(0xB) & Self::MASK;
        (self.0 >> (48 - bits)) as i32
    }

    /// From 0 to below 1.
    pub(crate) fn next_double(&mut self) -> f64 {
        let high = (self.next(26) as u64) << 27;
        (high + self.next(27) as u64) as f64 / (1_u64 << 53) as f64
    }

    /// 0 to `bound - 1`; `bound` is positive.
    pub(crate) fn next_int(&mut self, bound: i32) -> i32 {
        let mut bits = self.next(31);
        if bound & (bound - 1) == 0 {
            return ((i64::from(bound) * i64::from(bits)) >> 31) as i32;
        }
        // Numbers beyond the last whole multiple of the bound would favour small results.
        while bits.wrapping_sub(bits % bound).wrapping_add(bound - 1) < 0 {
            bits = self.next(31);
        }
        bits % bound
    }
}
