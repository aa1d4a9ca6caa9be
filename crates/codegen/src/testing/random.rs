//! A small deterministic source of randomness (splitmix64).

use crate::specialise::random::{STEP, scrambled};

/// Random numbers of a seed.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(STEP) ^ 0xD1B5_4A32_D192_ED03)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        scrambled(self.0)
    }

    /// A number from 0 to `bound - 1`; 0 when `bound` is.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.bits() % bound }
    }

    /// TRUE once in `n`.
    pub fn chance(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of the items.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }

    /// A signed number: mostly small, sometimes at an end of a type's range.
    pub fn integer(&mut self, bits: u32) -> i64 {
        let (min, max) = (i64::MIN >> (64 - bits), i64::MAX >> (64 - bits));
        match self.below(8) {
            0 => *self.pick(&[min, min + 1, max, max - 1]),
            1 => (self.bits() as i64) >> (64 - bits),
            2 => 0,
            _ => (self.below(40) as i64 - 20).clamp(min, max),
        }
    }

    /// A float: mostly small, sometimes special.
    pub fn float(&mut self) -> f64 {
        match self.below(8) {
            0 => {
                *self.pick(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, 1e300, -1e300, 5e-324, 3e9, -1e19])
            }
            1 => f64::from_bits(self.bits()),
            _ => (self.below(400) as f64 - 200.0) / 8.0,
        }
    }

    /// A string from a small pool of short and long ones.
    pub fn text(&mut self) -> String {
        let pool = [
            "",
            "a",
            "b",
            "view",
            "click",
            "abcdefghijkl",
            "abcdefghijklm",
            "abcdefghijkln",
            "äöü ß",
            "12",
            "-7",
            "x%y_z",
            "a long string that is certainly not inline",
            "a long string that is certainly not inlinE",
        ];
        match self.below(6) {
            0 => format!("key-{}", self.below(1000)),
            1 => format!("a somewhat longer key {}", self.below(1000)),
            _ => (*self.pick(&pool)).to_string(),
        }
    }
}
