//! Decimal arithmetic whose intermediate results may exceed 128 bits.
//!
//! A DECIMAL(p, s) is an unscaled `i128` below 10^p. Results are exact, then rounded half away from zero (Java's
//! HALF_UP) to the result's scale; a result that does not fit the precision is NULL, as in Flink.
//!
//! | operation | inline, when | else |
//! | --- | --- | --- |
//! | a + b, a − b | result scale is max(s1, s2) and p1, p2 after scaling ≤ 38: `ScaleUp`, `Add`/`Sub`, NULL if `OutOfDecimal` | `DecimalAdd(a, s1, b, s2, s, p)`, `DecimalSubtract(…)` |
//! | a · b | p1 + p2 ≤ 38: `Mul`, then `ScaleDown(s1 + s2 - s)` if positive, NULL if `OutOfDecimal` | `DecimalMultiply(a, b, s1 + s2 - s, p)` |
//! | a / b | – | `DecimalDivide(a, b, s - s1 + s2, p)`; the divisor is not 0 (lowering traps) |
//! | a % b | s1 = s2 = s: `Rem` | `DecimalModulo(a, s1, b, s2, s, p)`; the divisor is not 0 |
//! | to another scale | see `casts` | `DecimalRescale(a, s1, s, p)` |
//! | sign | – | `DecimalSign(a, s)`: −1, 0 or 1 at scale s |
//!
//! ROUND, FLOOR, CEIL, TRUNCATE and ABS of decimals are in `math`.

use millstream_types::text::POWERS_OF_TEN;
use std::cmp::Ordering;

/// A 256-bit magnitude, high word first, so that the derived order is the numeric one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Wide {
    high: u128,
    low: u128,
}

const LOW_HALF: u128 = u64::MAX as u128;

impl Wide {
    fn product(a: u128, b: u128) -> Wide {
        let (a_high, a_low) = (a >> 64, a & LOW_HALF);
        let (b_high, b_low) = (b >> 64, b & LOW_HALF);
        let low = a_low * b_low;
        let middle = a_high * b_low + (low >> 64);
        let crossed = a_low * b_high + (middle & LOW_HALF);
        Wide { high: a_high * b_high + (middle >> 64) + (crossed >> 64), low: (crossed << 64) | (low & LOW_HALF) }
    }

    fn checked_add(self, other: Wide) -> Option<Wide> {
        let (low, carry) = self.low.overflowing_add(other.low);
        Some(Wide { high: self.high.checked_add(other.high)?.checked_add(carry.into())?, low })
    }

    fn minus(self, other: Wide) -> Wide {
        let (low, borrow) = self.low.overflowing_sub(other.low);
        Wide { high: self.high - other.high - u128::from(borrow), low }
    }

    /// Quotient and remainder; the divisor is not 0.
    fn divide(self, divisor: u128) -> (Wide, u128) {
        if self.high == 0 {
            return (Wide { high: 0, low: self.low / divisor }, self.low % divisor);
        }
        if divisor <= LOW_HALF {
            return self.divide_short(divisor);
        }
        // Schoolbook division bit by bit; `carry` is the bit that the remainder has shifted out of 128.
        let (mut quotient, mut remainder) = (Wide { high: self.high / divisor, low: 0 }, self.high % divisor);
        for bit in (0..128).rev() {
            let carry = remainder >> 127;
            remainder = (remainder << 1) | ((self.low >> bit) & 1);
            if carry == 1 || remainder >= divisor {
                remainder = remainder.wrapping_sub(divisor);
                quotient.low |= 1 << bit;
            }
        }
        (quotient, remainder)
    }

    /// Division by a number of 64 bits, in steps of 64 bits.
    fn divide_short(self, divisor: u128) -> (Wide, u128) {
        let high = self.high / divisor;
        let upper = ((self.high % divisor) << 64) | (self.low >> 64);
        let lower = ((upper % divisor) << 64) | (self.low & LOW_HALF);
        (Wide { high, low: ((upper / divisor) << 64) | (lower / divisor) }, lower % divisor)
    }

    /// The quotient, rounded half up; the divisor is not 0.
    fn rounded(self, divisor: u128) -> Option<Wide> {
        let (quotient, remainder) = self.divide(divisor);
        round_half_up(quotient, remainder, divisor)
    }

    /// As a decimal of `precision` digits with the sign given.
    fn fit(self, negative: bool, precision: i32) -> Option<i128> {
        if self.high != 0 {
            return None;
        }
        let magnitude = i128::try_from(self.low).ok()?;
        fit(if negative { -magnitude } else { magnitude }, precision)
    }
}

/// 10^n for 0 ≤ n ≤ 38.
fn power(n: i32) -> u128 {
    POWERS_OF_TEN[n.clamp(0, 38) as usize].unsigned_abs()
}

fn fit(value: i128, precision: i32) -> Option<i128> {
    (value.unsigned_abs() < power(precision)).then_some(value)
}

/// Rounds a quotient half up, from the remainder of a division by `divisor`.
fn round_half_up(quotient: Wide, remainder: u128, divisor: u128) -> Option<Wide> {
    let up = remainder >= divisor - remainder && remainder != 0;
    quotient.checked_add(Wide { high: 0, low: up.into() })
}

/// A magnitude times 10^shift, or divided by 10^-shift and rounded.
fn shifted(magnitude: u128, shift: i32) -> Option<Wide> {
    match shift {
        0..=38 => Some(Wide::product(magnitude, power(shift))),
        39.. if magnitude == 0 => Some(Wide { high: 0, low: 0 }),
        39.. => None,
        _ => Wide { high: 0, low: magnitude }.rounded(power(-shift)),
    }
}

/// `a` of one scale in another; NULL when it does not fit.
pub(crate) fn rescale(a: i128, from: i32, to: i32, precision: i32) -> Option<i128> {
    shifted(a.unsigned_abs(), to - from)?.fit(a < 0, precision)
}

/// Sum of two decimals at the larger of their scales: sign, magnitude and scale.
fn exact_sum(a: i128, a_scale: i32, b: i128, b_scale: i32) -> Option<(bool, Wide, i32)> {
    let scale = a_scale.max(b_scale);
    let a_wide = shifted(a.unsigned_abs(), scale - a_scale)?;
    let b_wide = shifted(b.unsigned_abs(), scale - b_scale)?;
    if (a < 0) == (b < 0) {
        return Some((a < 0, a_wide.checked_add(b_wide)?, scale));
    }
    Some(match a_wide.cmp(&b_wide) {
        Ordering::Less => (b < 0, b_wide.minus(a_wide), scale),
        _ => (a < 0, a_wide.minus(b_wide), scale),
    })
}

/// `a + b` for any scales.
pub(crate) fn add(a: i128, a_scale: i32, b: i128, b_scale: i32, scale: i32, precision: i32) -> Option<i128> {
    let (negative, sum, exact_scale) = exact_sum(a, a_scale, b, b_scale)?;
    if exact_scale <= scale {
        let value = sum.fit(false, 38)?;
        return shifted(value.unsigned_abs(), scale - exact_scale)?.fit(negative, precision);
    }
    sum.rounded(power(exact_scale - scale))?.fit(negative, precision)
}

/// `a - b` for any scales.
pub(crate) fn subtract(a: i128, a_scale: i32, b: i128, b_scale: i32, scale: i32, precision: i32) -> Option<i128> {
    add(a, a_scale, b.checked_neg()?, b_scale, scale, precision)
}

/// `a · b`, with `scale_down` digits rounded away.
pub(crate) fn multiply(a: i128, b: i128, scale_down: i32, precision: i32) -> Option<i128> {
    let negative = (a < 0) != (b < 0);
    let product = Wide::product(a.unsigned_abs(), b.unsigned_abs());
    if scale_down <= 0 {
        let value = product.fit(false, 38)?;
        return shifted(value.unsigned_abs(), -scale_down)?.fit(negative, precision);
    }
    // More than 38 digits go in two steps; the first only cuts, leaving a mark for what it cut off, so that the second
    // rounds as if it saw all digits.
    let (product, digits) = if scale_down > 38 {
        let (cut, rest) = product.divide(power(scale_down - 38));
        (Wide { high: cut.high, low: cut.low | u128::from(rest != 0) }, 38)
    } else {
        (product, scale_down)
    };
    product.rounded(power(digits))?.fit(negative, precision)
}

/// `a · 10^shift / b`, rounded; NULL also for `b` = 0, which lowering has excluded.
pub(crate) fn divide(a: i128, b: i128, shift: i32, precision: i32) -> Option<i128> {
    let negative = (a < 0) != (b < 0);
    let (a, b) = (a.unsigned_abs(), b.unsigned_abs());
    if b == 0 {
        return None;
    }
    if shift < 0 {
        // b · 10^-shift may be too wide to divide by; then the quotient is below one half.
        let Wide { high: 0, low: divisor } = Wide::product(b, power(-shift)) else { return fit(0, precision) };
        return Wide { high: 0, low: a }.rounded(divisor)?.fit(negative, precision);
    }
    let first = shift.min(38);
    let (quotient, remainder) = Wide::product(a, power(first)).divide(b);
    if shift == first {
        return round_half_up(quotient, remainder, b)?.fit(negative, precision);
    }
    let rest = power(shift - first);
    let whole = Wide::product(quotient.fit(false, 38)?.unsigned_abs(), rest);
    let (fraction, remainder) = Wide::product(remainder, rest).divide(b);
    round_half_up(whole.checked_add(fraction)?, remainder, b)?.fit(negative, precision)
}

/// `a % b` with the sign of `a`, at `scale`; NULL also for `b` = 0, which lowering has excluded.
pub(crate) fn modulo(a: i128, a_scale: i32, b: i128, b_scale: i32, scale: i32, precision: i32) -> Option<i128> {
    let common = a_scale.max(b_scale);
    let a_wide = shifted(a.unsigned_abs(), common - a_scale)?;
    let b_wide = shifted(b.unsigned_abs(), common - b_scale)?;
    let remainder = match b_wide {
        Wide { high: 0, low: 0 } => return None,
        Wide { high: 0, low } => i128::try_from(a_wide.divide(low).1).ok()?,
        // A divisor of more than 128 bits was scaled up, so a was not and is less.
        _ => i128::try_from(a_wide.low).ok()?,
    };
    rescale(if a < 0 { -remainder } else { remainder }, common, scale, precision)
}

/// −1, 0 or 1, at the decimal's own scale; NULL when the type has no digit before the point for it.
pub(crate) fn sign(a: i128, scale: i32) -> Option<i128> {
    fit(a.signum() * power(scale) as i128, 38)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: i128 = 10i128.pow(38) - 1;

    #[test]
    fn products_round_and_overflow() {
        // 0.908 * 12345 in DECIMAL(24,3): nothing to round.
        assert_eq!(multiply(908, 12_345, 0, 24), Some(11_209_260));
        // 1.25 * 1.25 = 1.5625 at scale 3, and its negative.
        assert_eq!(multiply(125, 125, 1, 10), Some(1_563));
        assert_eq!(multiply(-125, 125, 1, 10), Some(-1_563));
        assert_eq!(multiply(MOST, MOST, 38, 38), Some(MOST - 1));
        assert_eq!(multiply(MOST, MOST, 37, 38), None);
        assert_eq!(multiply(MOST, MOST, 76, 38), Some(1));
        // 0.5 exactly, and just below, past the 38th digit.
        assert_eq!(multiply(5 * 10i128.pow(20), 10i128.pow(20), 41, 38), Some(1));
        assert_eq!(multiply(49 * 10i128.pow(19), 10i128.pow(20), 41, 38), Some(0));
    }

    #[test]
    fn quotients_round_half_up() {
        assert_eq!(divide(1, 3, 6, 10), Some(333_333));
        assert_eq!(divide(2, 3, 6, 10), Some(666_667));
        assert_eq!(divide(-2, 3, 6, 10), Some(-666_667));
        assert_eq!(divide(1, 8, 2, 10), Some(13));
        assert_eq!(divide(1, 0, 2, 10), None);
        assert_eq!(divide(1250, 1, -2, 10), Some(13));
        assert_eq!(divide(1, MOST, -38, 10), Some(0));
        assert_eq!(divide(MOST, MOST, 37, 38), Some(10i128.pow(37)));
        assert_eq!(divide(1, 10i128.pow(37), 44, 38), Some(10i128.pow(7)));
        assert_eq!(divide(MOST, 1, 1, 38), None);
    }

    #[test]
    fn sums_and_remainders_align_scales() {
        // 1.5 + 0.25 = 1.75, at scale 1: 1.8.
        assert_eq!(add(15, 1, 25, 2, 2, 5), Some(175));
        assert_eq!(add(15, 1, 25, 2, 1, 5), Some(18));
        assert_eq!(subtract(15, 1, 25, 2, 2, 5), Some(125));
        assert_eq!(subtract(25, 2, 15, 1, 2, 5), Some(-125));
        assert_eq!(add(MOST, 0, 1, 38, 6, 38), None);
        assert_eq!(add(MOST, 0, 1, 38, 0, 38), Some(MOST));
        assert_eq!(modulo(-75, 1, 2, 0, 1, 5), Some(-15));
        assert_eq!(modulo(1, 38, MOST, 0, 38, 38), Some(1));
        assert_eq!(modulo(1, 0, 0, 0, 0, 5), None);
        assert_eq!(rescale(12_345, 3, 2, 5), Some(1_235));
        assert_eq!(rescale(12_345, 3, 6, 7), None);
        assert_eq!(sign(-7, 2), Some(-100));
    }

    #[test]
    fn wide_arithmetic_agrees_with_itself() {
        let mut seed = 0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835u128;
        let mut next = || {
            seed = seed.wrapping_mul(0x2545_F491_4F6C_DD1D_8765_4321_0FED_CBA9).wrapping_add(0x1357);
            seed >> (seed % 120)
        };
        for _ in 0..5_000 {
            let (a, b, divisor) = (next(), next(), next().max(1));
            let (quotient, remainder) = Wide::product(a, b).divide(divisor);
            assert!(remainder < divisor);
            if quotient.high == 0 {
                let back = Wide::product(quotient.low, divisor).checked_add(Wide { high: 0, low: remainder });
                assert_eq!(back, Some(Wide::product(a, b)));
            }
            assert_eq!(Wide::product(a, b).divide(a.max(1)).0.low, if a == 0 { 0 } else { b });
        }
    }
}
