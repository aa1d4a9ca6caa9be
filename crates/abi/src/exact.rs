//! Exact sums of doubles: numbers in fixed point, wide enough that adding them never rounds. So a sum does not depend on the order
//! of rows or of merges, and can be undone. (A short form of Kulisch's long accumulator, 1981; Neal 2015.)
//!
//! ```text
//! bit       0                        95             148            191
//!           ┌────────────────────────┬──────────────┬──────────────┐
//! weight    │ 2^-84                  │ 2^11   2^63  │ 2^64 … 2^106 │ sign
//!           └────────────────────────┴──────────────┴──────────────┘
//!            lowest bit of a mantissa   its highest   room for sums
//! ```
//!
//! A double is *near* when its mantissa of 53 bits is within the first 149: its magnitude is from 2^-32 to 2^64, or it is 0. Those
//! are the numbers of practice, and generated code adds them with a shift and three additions, or less. All others are *far*, infinities and NaN among
//! them: whoever has the table adds them elsewhere, to an accumulator that has room for all doubles. The room above is for
//! 2^42 numbers of the largest magnitude.

/// A number in units of [`UNIT`], as a two's complement of 192 bits, the lowest word first.
pub type Fixed = [u64; 3];

/// The weight of the lowest bit is 2 to the power of this.
pub const UNIT: i32 = -84;
/// Bits of a double below its exponent.
pub const MANTISSA_BITS: u32 = 52;
/// The exponent of a double as it is stored, of those whose mantissa begins at bit 0.
pub const LEAST_EXPONENT: u64 = (1075 + UNIT) as u64;
/// How many exponents are near, from [`LEAST_EXPONENT`] on.
pub const EXPONENTS: u64 = 96;

/// A number that is near.
#[inline]
pub fn fixed(x: f64) -> Option<Fixed> {
    let bits = x.to_bits();
    let place = (bits >> MANTISSA_BITS & 0x7ff).wrapping_sub(LEAST_EXPONENT);
    if place >= EXPONENTS {
        return (x == 0.0).then_some([0; 3]);
    }
    let sign = (bits as i64 >> 63) as u64;
    let mantissa = bits & ((1 << MANTISSA_BITS) - 1) | 1 << MANTISSA_BITS;
    // With its sign, moved to where it begins within two words.
    let moved = (((mantissa ^ sign).wrapping_sub(sign) as i64) as i128) << (place % 64);
    let (low, high) = (moved as u64, (moved >> 64) as u64);
    Some(if place < 64 { [low, high, sign] } else { [0, low, high] })
}

/// The sum of two numbers; wraps.
#[inline]
pub fn add(a: Fixed, b: Fixed) -> Fixed {
    let (low, carry) = a[0].overflowing_add(b[0]);
    let upper = |words: Fixed| u128::from(words[2]) << 64 | u128::from(words[1]);
    let upper = upper(a).wrapping_add(upper(b)).wrapping_add(u128::from(carry));
    [low, upper as u64, (upper >> 64) as u64]
}

/// What has to be added to undo the addition of a number.
#[inline]
pub fn negated(a: Fixed) -> Fixed {
    add(a.map(|word| !word), [1, 0, 0])
}

/// The double that is nearest to a number, of two the one with an even mantissa.
#[inline]
pub fn nearest(sum: Fixed) -> f64 {
    /// What the second word counts.
    const MIDDLE: f64 = 1.0 / (1u64 << -(UNIT + 64)) as f64;
    // Sums of multiples of that are most sums: of cents, of quarters, of what has been integers.
    let middle = sum[1] as i64;
    if sum[0] == 0 && sum[2] == (middle >> 63) as u64 {
        return middle as f64 * MIDDLE;
    }
    nearest_of_three(sum)
}

fn nearest_of_three(sum: Fixed) -> f64 {
    let is_negative = sum[2] >> 63 == 1;
    let magnitude = if is_negative { negated(sum) } else { sum };
    let nearest = nearest_of_words(&magnitude, UNIT);
    if is_negative { -nearest } else { nearest }
}

/// The double that is nearest to a number that is not negative, whose lowest bit has the weight 2^`unit`. It is 0 or above
/// the subnormal doubles.
#[inline]
pub fn nearest_of_words(words: &[u64], unit: i32) -> f64 {
    let Some(highest) = words.iter().rposition(|&word| word != 0) else { return 0.0 };
    let (word, below) = (words[highest], highest.checked_sub(1).map_or(0, |i| words[i]));
    let free = word.leading_zeros();
    // The highest 64 bits. More than 53 of them are there, so the last may stand for all that are left out.
    let both = (u128::from(word) << 64 | u128::from(below)) << free;
    let is_more = both as u64 != 0 || words[..highest.saturating_sub(1)].iter().any(|&word| word != 0);
    let bits = (both >> 64) as u64 | u64::from(is_more);
    // Moved down by so many bits.
    let exponent = 64 * highest as i32 - free as i32 + unit;
    if exponent > 960 {
        return f64::INFINITY;
    }
    // From 1 to 2, and a power that is no subnormal double.
    const BELOW_TWO: f64 = 1.0 / (1u64 << 63) as f64;
    (bits as f64 * BELOW_TWO) * f64::from_bits(((1023 + 63 + exponent) as u64) << MANTISSA_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_numbers_come_back_as_they_were() {
        let least = 2f64.powi(-32);
        for x in [
            0.0,
            1.0,
            -1.0,
            0.25,
            -0.25,
            -1024.0,
            0.1,
            -1e-9,
            123_456.789,
            least,
            least * 1.999,
            2f64.powi(63) * 1.75,
            -1.8e19,
            1e18,
        ] {
            assert_eq!(nearest(fixed(x).expect("it is near")), x, "{x}");
        }
        for x in [least / 2.0, 2f64.powi(64), -1e300, 5e-324, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(fixed(x), None, "{x}");
        }
        assert_eq!(nearest(fixed(-0.0).unwrap()).to_bits(), 0, "a sum of zeros is 0");
    }

    #[test]
    fn sums_round_once_and_can_be_undone() {
        let sum = |numbers: &[f64]| numbers.iter().fold([0; 3], |sum, &x| add(sum, fixed(x).unwrap()));
        assert_eq!(nearest(sum(&[1e18, 1e-9, -1e18])), 1e-9);
        assert_eq!(nearest(sum(&[0.1; 10])), 1.0);
        // Half way between two doubles, and a little beyond.
        let half = 2f64.powi(53);
        assert_eq!(nearest(sum(&[half, 1.0])), half);
        assert_eq!(nearest(sum(&[half, 1.0, 2f64.powi(-32)])), half + 2.0);
        assert_eq!(nearest(sum(&[-half, -3.0])), -half - 4.0);
        let both = sum(&[0.7, -12.25]);
        assert_eq!(add(both, negated(fixed(-12.25).unwrap())), fixed(0.7).unwrap());
    }
}
