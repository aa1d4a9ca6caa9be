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

use arrow_buffer::i256;
use millstream_types::text::POWERS_OF_TEN;

/// 10^n for 0 ≤ n ≤ 76.
fn power(n: i32) -> i256 {
    let up_to_38 = |n: i32| i256::from(POWERS_OF_TEN[n.clamp(0, 38) as usize]);
    if n <= 38 { up_to_38(n) } else { up_to_38(38).wrapping_mul(up_to_38(n - 38)) }
}

fn fit(value: i256, precision: i32) -> Option<i128> {
    value.to_i128().filter(|value| value.unsigned_abs() < POWERS_OF_TEN[precision.clamp(0, 38) as usize].unsigned_abs())
}

/// Quotient and remainder, which has the sign of the dividend; the divisor is not 0.
fn divided(dividend: i256, divisor: i256) -> (i256, i256) {
    let quotient = dividend.wrapping_div(divisor);
    (quotient, dividend.wrapping_sub(quotient.wrapping_mul(divisor)))
}

/// The quotient, rounded half away from zero; the divisor is not 0.
fn rounded(dividend: i256, divisor: i256) -> i256 {
    let (quotient, remainder) = divided(dividend, divisor);
    let rest = remainder.wrapping_abs();
    match rest >= divisor.wrapping_abs().wrapping_sub(rest) {
        false => quotient,
        true if dividend.is_negative() == divisor.is_negative() => quotient.wrapping_add(i256::ONE),
        true => quotient.wrapping_sub(i256::ONE),
    }
}

/// A number times 10^shift, or divided by 10^-shift and rounded.
fn shifted(number: i256, shift: i32) -> Option<i256> {
    if shift >= 0 { number.checked_mul(power(shift)) } else { Some(rounded(number, power(-shift))) }
}

/// `a` of one scale in another; NULL when it does not fit.
pub(crate) fn rescale(a: i128, from: i32, to: i32, precision: i32) -> Option<i128> {
    fit(shifted(a.into(), to - from)?, precision)
}

/// `a + b` for any scales.
pub(crate) fn add(a: i128, a_scale: i32, b: i128, b_scale: i32, scale: i32, precision: i32) -> Option<i128> {
    let exact_scale = a_scale.max(b_scale);
    let (a, b) = (shifted(a.into(), exact_scale - a_scale)?, shifted(b.into(), exact_scale - b_scale)?);
    fit(shifted(a.checked_add(b)?, scale - exact_scale)?, precision)
}

/// `a - b` for any scales.
pub(crate) fn subtract(a: i128, a_scale: i32, b: i128, b_scale: i32, scale: i32, precision: i32) -> Option<i128> {
    add(a, a_scale, b.checked_neg()?, b_scale, scale, precision)
}

/// `a · b`, with `scale_down` digits rounded away.
pub(crate) fn multiply(a: i128, b: i128, scale_down: i32, precision: i32) -> Option<i128> {
    fit(shifted(i256::from(a).checked_mul(b.into())?, -scale_down)?, precision)
}

/// `a · 10^shift / b`, rounded; NULL also for `b` = 0, which lowering has excluded.
pub(crate) fn divide(a: i128, b: i128, shift: i32, precision: i32) -> Option<i128> {
    if b == 0 {
        return None;
    }
    let (a, b) = (i256::from(a), i256::from(b));
    if shift < 0 {
        return fit(rounded(a, b.checked_mul(power(-shift))?), precision);
    }
    // What a · 10^38 leaves is divided again for the digits behind.
    let first = shift.min(38);
    let dividend = a.checked_mul(power(first))?;
    if shift == first {
        return fit(rounded(dividend, b), precision);
    }
    let rest = power(shift - first);
    let (quotient, remainder) = divided(dividend, b);
    fit(quotient.checked_mul(rest)?.checked_add(rounded(remainder.checked_mul(rest)?, b))?, precision)
}

/// `a % b` with the sign of `a`, at `scale`; NULL also for `b` = 0, which lowering has excluded.
pub(crate) fn modulo(a: i128, a_scale: i32, b: i128, b_scale: i32, scale: i32, precision: i32) -> Option<i128> {
    let common = a_scale.max(b_scale);
    let (a, b) = (shifted(a.into(), common - a_scale)?, shifted(b.into(), common - b_scale)?);
    fit(shifted(a.checked_rem(b)?, scale - common)?, precision)
}

/// −1, 0 or 1, at the decimal's own scale; NULL when the type has no digit before the point for it.
pub(crate) fn sign(a: i128, scale: i32) -> Option<i128> {
    rescale(a.signum(), 0, scale, 38)
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
    fn wide_arithmetic_agrees_with_narrow() {
        let mut seed = 0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835u128;
        let mut next = || {
            seed = seed.wrapping_mul(0x2545_F491_4F6C_DD1D_8765_4321_0FED_CBA9).wrapping_add(0x1357);
            (seed as i128 >> 64) >> (seed % 60)
        };
        let half_up = |a: i128, b: i128| (2 * a.abs() + b.abs()) / (2 * b.abs()) * a.signum() * b.signum();
        let fitting = |value: i128| Some(value).filter(|value| value.abs() <= MOST);
        for _ in 0..5_000 {
            let (a, b) = (next(), next());
            assert_eq!(rescale(a, 3, 0, 38), fitting(half_up(a, 1_000)), "{a}");
            assert_eq!(multiply(a >> 4, b >> 4, 2, 38), fitting(half_up((a >> 4) * (b >> 4), 100)), "{a} {b}");
            assert_eq!(subtract(a, 0, b, 0, 0, 38), fitting(a - b), "{a} {b}");
            assert_eq!(divide(a, b, 3, 38), (b != 0).then(|| half_up(a * 1_000, b)), "{a} {b}");
            assert_eq!(modulo(a, 2, b, 0, 2, 38), (b != 0).then(|| a % (b * 100)), "{a} {b}");
            assert_eq!(modulo(a, 0, b, 2, 2, 38), (b != 0).then(|| a * 100 % b), "{a} {b}");
        }
    }
}
