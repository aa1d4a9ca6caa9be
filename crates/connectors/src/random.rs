//! Counter-based random numbers for generators.
//!
//! A value depends only on (seed, row, field), so any worker can generate any row and any subset of columns and gets
//! the same data. The mixer is splitmix64 (Steele, Lea, Flood 2014).

/// The random stream of one field of one row.
#[derive(Debug, Clone)]
pub(crate) struct Random {
    state: u64,
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Random {
    /// The stream of `field` of `row`.
    pub(crate) fn new(seed: u64, row: u64, field: u64) -> Random {
        Random { state: mix(mix(seed ^ field.wrapping_mul(0xD1B5_4A32_D192_ED03)).wrapping_add(row)) }
    }

    /// 64 random bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.state)
    }

    /// Uniform in `0..bound`; 0 when `bound` is 0. The bias of at most bound / 2⁶⁴ does not matter here.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((self.next() as u128 * bound as u128) >> 64) as u64
    }

    /// Uniform in `low..=high`.
    pub(crate) fn between(&mut self, low: i64, high: i64) -> i64 {
        let span = (high as i128 - low as i128 + 1) as u128;
        (low as i128 + ((self.next() as u128 * span) >> 64) as i128) as i64
    }

    /// Uniform in `0.0..1.0`.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Appends `length` lowercase letters to `out`.
    pub(crate) fn letters(&mut self, length: usize, out: &mut Vec<u8>) {
        let mut bits = 0u64;
        for i in 0..length {
            if i % 12 == 0 {
                bits = self.next();
            }
            out.push(b'a' + (((bits & 31) * 26) >> 5) as u8);
            bits >>= 5;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_depend_on_seed_row_and_field_only() {
        assert_eq!(Random::new(1, 2, 3).next(), Random::new(1, 2, 3).next());
        assert_ne!(Random::new(1, 2, 3).next(), Random::new(1, 2, 4).next());
        assert_ne!(Random::new(1, 2, 3).next(), Random::new(1, 3, 3).next());
    }

    #[test]
    fn ranges_are_respected_and_reached() {
        let mut seen = [false; 5];
        for row in 0..200 {
            let n = Random::new(7, row, 0).between(-2, 2);
            seen[(n + 2) as usize] = true;
        }
        assert_eq!(seen, [true; 5]);
        assert!((0..100).all(|row| Random::new(7, row, 1).below(10) < 10));
        let full = Random::new(7, 0, 0).between(i64::MIN, i64::MAX);
        assert_eq!(full, Random::new(7, 0, 0).between(i64::MIN, i64::MAX));
    }

    #[test]
    fn letters_are_lowercase() {
        let mut out = Vec::new();
        Random::new(0, 0, 0).letters(100, &mut out);
        assert!(out.len() == 100 && out.iter().all(u8::is_ascii_lowercase));
    }
}
