//! Mathematical functions that are more than an instruction, and exact rounding.
//!
//! Doubles are rounded as Flink does, on their shortest decimal form: `ROUND(2.675, 2)` of a DOUBLE is 2.68 although
//! the binary number lies below 2.675.

/// `SIGN(x)`: zeros and NaN stay what they are.
pub(crate) fn sign_double(x: f64) -> f64 {
    if x == 0.0 || x.is_nan() { x } else { x.signum() }
}

/// `POWER(x, y)`: NaN for a base of ±1 with an infinite exponent and for any NaN exponent, as in Java.
pub(crate) fn power(x: f64, y: f64) -> f64 {
    if y.is_nan() || (x.abs() == 1.0 && y.is_infinite()) { f64::NAN } else { x.powf(y) }
}

/// `BITAND(a, b)`
pub(crate) fn bit_and(a: i64, b: i64) -> i64 {
    a & b
}

/// `BITOR(a, b)`
pub(crate) fn bit_or(a: i64, b: i64) -> i64 {
    a | b
}

/// `BITXOR(a, b)`
pub(crate) fn bit_xor(a: i64, b: i64) -> i64 {
    a ^ b
}

/// `BITNOT(a)`
pub(crate) fn bit_not(a: i64) -> i64 {
    !a
}

/// Which neighbour a number between two is rounded to.
#[derive(Clone, Copy, PartialEq)]
enum RoundingMode {
    /// The nearer one; away from zero when both are as near.
    HalfUp,
    /// Towards zero.
    Down,
    /// Towards negative infinity.
    Floor,
    /// Towards positive infinity.
    Ceil,
}

/// `dividend / divisor` as a whole number; the divisor is positive.
fn divide(dividend: i128, divisor: i128, mode: RoundingMode) -> i128 {
    let (quotient, remainder) = (dividend / divisor, dividend % divisor);
    let up = match mode {
        RoundingMode::Down => 0,
        RoundingMode::HalfUp if remainder.unsigned_abs() >= divisor.unsigned_abs().div_ceil(2) => remainder.signum(),
        RoundingMode::Floor if remainder < 0 => -1,
        RoundingMode::Ceil if remainder > 0 => 1,
        _ => 0,
    };
    quotient + up
}

/// Rounds a decimal of `scale` digits after the point to `places` digits (negative: before the point) and gives it
/// `result_scale` digits. `None` when the result has no room in 128 bits.
fn rescale(x: i128, scale: i32, places: i32, result_scale: i32, mode: RoundingMode) -> Option<i128> {
    let places = places.min(scale);
    let power = |exponent: i32| 10_i128.checked_pow(u32::try_from(exponent).ok()?);
    // 10^39 exceeds every decimal of 38 digits, so nothing remains of the number.
    let rounded = match power(scale.saturating_sub(places)) {
        Some(divisor) => divide(x, divisor, mode),
        None => 0,
    };
    if rounded == 0 {
        return Some(0);
    }
    rounded.checked_mul(power(result_scale.saturating_sub(places))?)
}

/// `ROUND(x, places)` of a DECIMAL with `scale` digits after the point into one with `result_scale`.
pub(crate) fn round_decimal(x: i128, scale: i32, places: i32, result_scale: i32) -> Option<i128> {
    rescale(x, scale, places, result_scale, RoundingMode::HalfUp)
}

/// `TRUNCATE(x, places)` of a DECIMAL, as [`round_decimal`].
pub(crate) fn truncate_decimal(x: i128, scale: i32, places: i32, result_scale: i32) -> Option<i128> {
    rescale(x, scale, places, result_scale, RoundingMode::Down)
}

/// `FLOOR(x)` of a DECIMAL with `scale` digits after the point into one with none.
pub(crate) fn floor_decimal(x: i128, scale: i32) -> Option<i128> {
    rescale(x, scale, 0, 0, RoundingMode::Floor)
}

/// `CEIL(x)` of a DECIMAL, as [`floor_decimal`].
pub(crate) fn ceil_decimal(x: i128, scale: i32) -> Option<i128> {
    rescale(x, scale, 0, 0, RoundingMode::Ceil)
}

/// `ROUND(x, places)` of an integer: only negative places change it; overflow wraps, as in Java.
pub(crate) fn round_integer(x: i64, places: i32) -> i64 {
    rescale(i128::from(x), 0, places, 0, RoundingMode::HalfUp).unwrap_or(0) as i64
}

/// `TRUNCATE(x, places)` of an integer.
pub(crate) fn truncate_integer(x: i64, places: i32) -> i64 {
    rescale(i128::from(x), 0, places, 0, RoundingMode::Down).unwrap_or(0) as i64
}

/// Rounds on the shortest decimal digits that identify the number.
fn round_digits(x: f64, places: i32, mode: RoundingMode) -> f64 {
    if !x.is_finite() || x == 0.0 {
        return x;
    }
    let text = format!("{:e}", x.abs());
    let (mantissa, exponent) = text.split_once('e').expect("the form has an exponent");
    let exponent: i32 = exponent.parse().expect("the exponent is a small number");
    // At most 17 digits, so they and one more fit an i64; the value is digits · 10^-scale.
    let digits: i128 = mantissa.bytes().filter(u8::is_ascii_digit).fold(0, |n, d| n * 10 + i128::from(d - b'0'));
    let scale = mantissa.len().saturating_sub(2) as i32 - exponent;
    if places >= scale {
        return x;
    }
    let divisor = 10_i128.checked_pow(scale.saturating_sub(places) as u32);
    let rounded = divisor.map_or(0, |divisor| divide(digits, divisor, mode));
    let magnitude: f64 = format!("{rounded}e{}", -i64::from(places)).parse().expect("digits with an exponent");
    // Flink goes through BigDecimal, which has no negative zero.
    if x < 0.0 && magnitude != 0.0 { -magnitude } else { magnitude }
}

/// `ROUND(x, places)` of a DOUBLE.
pub(crate) fn round_double(x: f64, places: i32) -> f64 {
    round_digits(x, places, RoundingMode::HalfUp)
}

/// `TRUNCATE(x, places)` of a DOUBLE.
pub(crate) fn truncate_double(x: f64, places: i32) -> f64 {
    round_digits(x, places, RoundingMode::Down)
}
