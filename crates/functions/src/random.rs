//! RAND, RAND_INTEGER and UUID.
//!
//! With a seed the numbers are those of `java.util.Random`, as in Flink. Each worker has its own sequence per seed.

use crate::context::{Failure, FunctionContext};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// Generators by seed; `None` is the one that starts at random.
#[derive(Debug, Default)]
pub(crate) struct Generators(HashMap<Option<i32>, JavaRandom>);

/// Seeds that a worker keeps a sequence for.
const MAX_SEEDS: usize = 1024;

impl Generators {
    fn of(&mut self, seed: Option<i32>) -> &mut JavaRandom {
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
struct JavaRandom(u64);

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

    fn next_double(&mut self) -> f64 {
        let high = (self.next(26) as u64) << 27;
        (high + self.next(27) as u64) as f64 / (1_u64 << 53) as f64
    }

    fn next_int(&mut self, bound: i32) -> i32 {
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

/// `RAND()`
pub(crate) fn rand(context: &mut FunctionContext) -> f64 {
    context.caches.generators.of(None).next_double()
}

/// `RAND(seed)`
pub(crate) fn rand_seed(context: &mut FunctionContext, seed: i32) -> f64 {
    context.caches.generators.of(Some(seed)).next_double()
}

fn bounded(context: &mut FunctionContext, seed: Option<i32>, bound: i32) -> Result<i32, Failure> {
    if bound <= 0 {
        return Err(Failure::argument(format!("the bound of RAND_INTEGER must be positive, not {bound}")));
    }
    Ok(context.caches.generators.of(seed).next_int(bound))
}

/// `RAND_INTEGER(bound)`: 0 to `bound - 1`.
pub(crate) fn rand_integer(context: &mut FunctionContext, bound: i32) -> Result<i32, Failure> {
    bounded(context, None, bound)
}

/// `RAND_INTEGER(seed, bound)`
pub(crate) fn rand_integer_seed(context: &mut FunctionContext, seed: i32, bound: i32) -> Result<i32, Failure> {
    bounded(context, Some(seed), bound)
}

/// `UUID()`: version 4, from the operating system's entropy by way of the hasher's keys.
pub(crate) fn uuid(_: &mut FunctionContext) -> String {
    let state = RandomState::new();
    let random = (u128::from(state.hash_one(1)) << 64) | u128::from(state.hash_one(2));
    let random = random & !(0xF << 76) & !(0b11 << 62) | (4 << 76) | (0b10 << 62);
    let digits = format!("{random:032x}");
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}
