//! RAND, RAND_INTEGER and UUID.
//!
//! Each worker has its own sequence per seed ([`crate::java_random`]).

use crate::context::{Failure, FunctionContext};
use std::hash::{BuildHasher, RandomState};

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
pub(crate) fn uuid() -> String {
    let state = RandomState::new();
    let random = (u128::from(state.hash_one(1)) << 64) | u128::from(state.hash_one(2));
    let random = random & !(0xF << 76) & !(0b11 << 62) | (4 << 76) | (0b10 << 62);
    let digits = format!("{random:032x}");
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}
