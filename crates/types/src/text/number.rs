//! Integers, floats, decimals and booleans.

use std::io::Write;
use std::str::FromStr;

/// `POWERS_OF_TEN[n]` is 10ⁿ.
pub const POWERS_OF_TEN: [i128; 39] = {
    let mut powers = [1i128; 39];
    let mut n = 1;
    while n < powers.len() {
        powers[n] = powers[n - 1] * 10;
        n += 1;
    }
    powers
};

/// Appends `TRUE` or `FALSE`, as CAST does. (JSON writes its own `true` and `false`.)
pub fn write_boolean(out: &mut Vec<u8>, value: bool) {
    out.extend_from_slice(if value { b"TRUE" } else { b"FALSE" });
}

/// Reads a truth value as CAST does: `true`, `t`, `yes`, `y`, `1` or `false`, `f`, `no`, `n`, `0`, in any case.
pub fn parse_boolean(text: &str) -> Option<bool> {
    let is = |word: &&str| text.eq_ignore_ascii_case(word);
    if ["true", "t", "yes", "y", "1"].iter().any(&is) {
        Some(true)
    } else if ["false", "f", "no", "n", "0"].iter().any(is) {
        Some(false)
    } else {
        None
    }
}

const PAIRS: &[u8; 200] = b"0001020304050607080910111213141516171819\
2021222324252627282930313233343536373839\
4041424344454647484950515253545556575859\
6061626364656667686970717273747576777879\
8081828384858687888990919293949596979899";

/// Appends the two digits of a number below 100.
pub(super) fn write_pair(out: &mut Vec<u8>, value: u32) {
    let at = (value % 100) as usize * 2;
    out.extend_from_slice(&PAIRS[at..at + 2]);
}

/// Appends a number in at least `width` digits, where `width` counts up to 20.
pub fn write_digits(out: &mut Vec<u8>, mut value: u64, width: usize) {
    let mut buffer = [b'0'; 20];
    let mut at = buffer.len();
    while value >= 100 {
        at -= 2;
        let pair = (value % 100) as usize * 2;
        buffer[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
        value /= 100;
    }
    if value >= 10 {
        at -= 2;
        let pair = value as usize * 2;
        buffer[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    } else {
        at -= 1;
        buffer[at] = b'0' + value as u8;
    }
    out.extend_from_slice(&buffer[at.min(buffer.len() - width.min(buffer.len()))..]);
}

/// Appends an integer.
pub fn write_integer(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    write_digits(out, value.unsigned_abs(), 1);
}

/// Reads an integer with an optional sign between `min` and `max`; nothing else around it.
pub fn parse_integer(text: &str, min: i64, max: i64) -> Option<i64> {
    text.parse().ok().filter(|value| (min..=max).contains(value))
}

/// Reads an integer as CAST does: spaces around it are ignored, and a fraction (`1.9`) is cut off.
pub fn cast_integer(text: &str, min: i64, max: i64) -> Option<i64> {
    let text = text.trim_matches(' ');
    match text.split_once('.') {
        None => parse_integer(text, min, max),
        Some((whole, fraction)) => {
            if !fraction.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            match whole {
                "" | "-" | "+" => Some(0),
                whole => parse_integer(whole, min, max),
            }
        }
    }
}

/// Reads digits only, at least one.
pub(super) fn parse_unsigned(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |value, &b| {
        b.is_ascii_digit().then(|| value.checked_mul(10)?.checked_add(u64::from(b - b'0')))?
    })
}

/// Appends a DOUBLE as Java's `Double.toString`: `1.0`, `1.0E10`, `1.0E-5`, `NaN`, `-Infinity`; the shortest digits
/// that read back as the same number.
pub fn write_f64(out: &mut Vec<u8>, value: f64) {
    write_special(out, value).unwrap_or_else(|| {
        write_scientific(out, format_args!("{value:e}"), format_args!("{value:.1e}"), |s| s.parse() == Ok(value));
    });
}

/// Appends a FLOAT as Java's `Float.toString`.
pub fn write_f32(out: &mut Vec<u8>, value: f32) {
    write_special(out, f64::from(value)).unwrap_or_else(|| {
        write_scientific(out, format_args!("{value:e}"), format_args!("{value:.1e}"), |s| s.parse() == Ok(value));
    });
}

fn write_special(out: &mut Vec<u8>, value: f64) -> Option<()> {
    let text: &[u8] = if value.is_nan() {
        b"NaN"
    } else if value.is_infinite() {
        if value > 0.0 { b"Infinity" } else { b"-Infinity" }
    } else if value == 0.0 {
        if value.is_sign_negative() { b"-0.0" } else { b"0.0" }
    } else {
        return None;
    };
    out.extend_from_slice(text);
    Some(())
}

/// Text of at most `N` bytes on the stack.
struct Short<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Short<N> {
    fn of(arguments: std::fmt::Arguments<'_>) -> Short<N> {
        let mut bytes = [0; N];
        let mut rest = &mut bytes[..];
        rest.write_fmt(arguments).expect("numbers have fewer characters");
        let len = N - rest.len();
        Short { bytes, len }
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.len]).expect("numbers are ASCII")
    }
}

/// Lays out `d.ddde±n` as Java does: plainly from 10⁻³ to below 10⁷, else with an exponent, always with a digit on
/// both sides of the point. Where one digit would do, Java takes the nearest number of two digits (`4.9E-324`).
fn write_scientific(
    out: &mut Vec<u8>,
    shortest: std::fmt::Arguments<'_>,
    two_digits: std::fmt::Arguments<'_>,
    is_same: impl Fn(&str) -> bool,
) {
    let mut text = Short::<32>::of(shortest);
    if !text.as_str().contains('.') {
        let longer = Short::of(two_digits);
        if is_same(longer.as_str()) {
            text = longer;
        }
    }
    let (mantissa, exponent) = text.as_str().split_once('e').expect("scientific notation has an e");
    let exponent: i32 = exponent.parse().expect("the exponent is an integer");
    let mantissa = match mantissa.strip_prefix('-') {
        Some(positive) => {
            out.push(b'-');
            positive
        }
        None => mantissa,
    };
    let (first, rest) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let rest = rest.trim_end_matches('0').as_bytes();
    let first = first.as_bytes();
    let or_zero = |digits: &'static [u8], d: &[u8], out: &mut Vec<u8>| {
        out.extend_from_slice(if d.is_empty() { digits } else { d });
    };
    match exponent {
        0..=6 => {
            let whole = (exponent as usize).min(rest.len());
            out.extend_from_slice(first);
            out.extend_from_slice(&rest[..whole]);
            out.resize(out.len() + exponent as usize - whole, b'0');
            out.push(b'.');
            or_zero(b"0", &rest[whole..], out);
        }
        -3..=-1 => {
            out.extend_from_slice(b"0.");
            out.resize(out.len() + (-exponent - 1) as usize, b'0');
            out.extend_from_slice(first);
            out.extend_from_slice(rest);
        }
        _ => {
            out.extend_from_slice(first);
            out.push(b'.');
            or_zero(b"0", rest, out);
            out.push(b'E');
            write_integer(out, i64::from(exponent));
        }
    }
}

/// Reads a DOUBLE as Java's `Double.parseDouble`, without hexadecimal floats: white space around it is ignored, a
/// suffix `d` or `f` is allowed, `NaN` and `Infinity` are spelt so.
pub fn parse_f64(text: &str) -> Option<f64> {
    parse_float(text)
}

/// Reads a FLOAT as Java's `Float.parseFloat`; see [`parse_f64`].
pub fn parse_f32(text: &str) -> Option<f32> {
    parse_float(text)
}

fn parse_float<T: FromStr>(text: &str) -> Option<T> {
    let text = text.trim_matches(|c: char| c <= ' ');
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    match unsigned {
        "NaN" => return unsigned.parse().ok(),
        "Infinity" => return text.parse().ok(),
        _ => {}
    }
    let text = text.strip_suffix(['d', 'D', 'f', 'F']).unwrap_or(text);
    // Without the letters by which Rust knows NaN and infinity.
    let plain = text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E'));
    plain.then(|| text.parse().ok())?
}

/// Appends a decimal plainly, with all digits of its scale: `write_decimal(-50, 3)` is `-0.050`.
pub fn write_decimal(out: &mut Vec<u8>, unscaled: i128, scale: u8) {
    if unscaled < 0 {
        out.push(b'-');
    }
    let magnitude = unscaled.unsigned_abs();
    let scale = usize::from(scale);
    if let Ok(small) = u64::try_from(magnitude)
        && scale < POWERS_OF_TEN.len() / 2
    {
        let divisor = POWERS_OF_TEN[scale] as u64;
        write_digits(out, small / divisor, 1);
        if scale > 0 {
            out.push(b'.');
            write_digits(out, small % divisor, scale);
        }
        return;
    }
    let digits = Short::<80>::of(format_args!("{magnitude:0width$}", width = scale + 1));
    let (whole, fraction) = digits.as_str().split_at(digits.len - scale);
    out.extend_from_slice(whole.as_bytes());
    if scale > 0 {
        out.push(b'.');
        out.extend_from_slice(fraction.as_bytes());
    }
}

/// Reads a decimal into its unscaled number at `scale`: white space around it is ignored, an exponent is allowed,
/// digits beyond the scale are rounded half up (away from zero). `None` when it is not a number or does not fit
/// `precision`; [`parse_f64`]`.is_some()` tells the two apart for numbers.
pub fn parse_decimal(text: &str, precision: u8, scale: u8) -> Option<i128> {
    let text = text.trim_matches(|c: char| c <= ' ');
    let (negative, text) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, parse_integer(exponent, -1_000_000_000, 1_000_000_000)?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = whole.bytes().chain(fraction.bytes());
    if whole.is_empty() && fraction.is_empty() || !digits.clone().all(|b| b.is_ascii_digit()) {
        return None;
    }
    // Digits before this position count, the one at it rounds.
    let kept = whole.len() as i64 + exponent + i64::from(scale);
    let limit = POWERS_OF_TEN[usize::from(precision)];
    let mut value = 0i128;
    let mut seen = 0;
    for (digit, index) in digits.zip(0i64..).take_while(|&(_, index)| index <= kept) {
        let digit = i128::from(digit - b'0');
        if index == kept {
            value += i128::from(digit >= 5);
        } else {
            value = value.checked_mul(10)?.checked_add(digit)?;
        }
        if value >= limit {
            return None;
        }
        seen = index + 1;
    }
    if value != 0 && seen < kept {
        let missing = usize::try_from(kept - seen).ok()?;
        value = value.checked_mul(*POWERS_OF_TEN.get(missing)?)?;
    }
    (value < limit).then_some(if negative { -value } else { value })
}

/// The decimal nearest to the shortest text of a DOUBLE (as Java's `BigDecimal.valueOf`), rounded half up; `None` when
/// it is not finite or does not fit `precision`.
pub fn decimal_of_f64(value: f64, precision: u8, scale: u8) -> Option<i128> {
    if !value.is_finite() {
        return None;
    }
    parse_decimal(Short::<32>::of(format_args!("{value:e}")).as_str(), precision, scale)
}

/// The DOUBLE nearest to a decimal.
pub fn f64_of_decimal(unscaled: i128, scale: u8) -> f64 {
    const EXACT: u128 = 1 << 53;
    if unscaled.unsigned_abs() <= EXACT && scale <= 22 {
        // Both operands are exact, so the one division rounds correctly.
        return unscaled as f64 / POWERS_OF_TEN[usize::from(scale)] as f64;
    }
    let text = Short::<80>::of(format_args!("{unscaled}e-{scale}"));
    text.as_str().parse().expect("digits and an exponent are a number")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn integers_round_trip_within_their_range() {
        for value in [0, 1, -1, 9, 10, 99, 100, 101, 12_345, i64::MAX, i64::MIN] {
            let written = text(|out| write_integer(out, value));
            assert_eq!(written, value.to_string());
            assert_eq!(parse_integer(&written, i64::MIN, i64::MAX), Some(value));
        }
        assert_eq!(parse_integer("128", -128, 127), None);
        assert_eq!(parse_integer("-128", -128, 127), Some(-128));
        for bad in ["", "-", "+", "1 ", "1.0", "0x1", "9223372036854775808"] {
            assert_eq!(parse_integer(bad, i64::MIN, i64::MAX), None, "{bad}");
        }
        assert_eq!(cast_integer(" 123.9 ", 0, 200), Some(123));
        assert_eq!(cast_integer("-.5", -9, 9), Some(0));
        assert_eq!(cast_integer("1.x", -9, 9), None);
        assert_eq!(cast_integer("Apache", -9, 9), None);
    }

    #[test]
    fn booleans_as_flink_reads_them() {
        for (words, value) in [(["TrUe", "T", "yes", "y", "1"], true), (["FALSE", "f", "No", "N", "0"], false)] {
            for word in words {
                assert_eq!(parse_boolean(word), Some(value));
            }
        }
        assert_eq!(parse_boolean("on"), None);
    }

    #[test]
    fn doubles_as_java_writes_them() {
        for (value, expected) in [
            (1.0, "1.0"),
            (0.001, "0.001"),
            (0.0001, "1.0E-4"),
            (1.0e-5, "1.0E-5"),
            (123.456, "123.456"),
            (1234567.0, "1234567.0"),
            (9_999_999.5, "9999999.5"),
            (1.0e7, "1.0E7"),
            (12_345_678.9, "1.23456789E7"),
            (1.0e10, "1.0E10"),
            (2.0e23, "2.0E23"),
            (-1.5e300, "-1.5E300"),
            (0.00123, "0.00123"),
            (100.0, "100.0"),
            (5e-324, "4.9E-324"),
            (f64::MAX, "1.7976931348623157E308"),
            (-0.0, "-0.0"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(text(|out| write_f64(out, value)), expected);
        }
        assert_eq!(text(|out| write_f32(out, 0.1)), "0.1");
        assert_eq!(text(|out| write_f32(out, 1.0e10)), "1.0E10");
        assert_eq!(text(|out| write_f32(out, f32::from_bits(1))), "1.4E-45");
    }

    #[test]
    fn floats_round_trip() {
        let mut bits = 0x1234_5678_9ABC_DEF1u64;
        for _ in 0..20_000 {
            bits ^= bits << 13;
            bits ^= bits >> 7;
            bits ^= bits << 17;
            let value = f64::from_bits(bits);
            if value.is_finite() {
                assert_eq!(parse_f64(&text(|out| write_f64(out, value))), Some(value));
            }
            let value = f32::from_bits(bits as u32);
            if value.is_finite() {
                assert_eq!(parse_f32(&text(|out| write_f32(out, value))), Some(value));
            }
        }
    }

    #[test]
    fn doubles_as_java_reads_them() {
        for (input, expected) in [
            (" 1e5\t", Some(1e5)),
            ("1.", Some(1.0)),
            (".5", Some(0.5)),
            ("1d", Some(1.0)),
            ("-Infinity", Some(f64::NEG_INFINITY)),
            ("inf", None),
            ("nan", None),
            ("", None),
            (".", None),
            ("1e", None),
            ("1_000", None),
        ] {
            assert_eq!(parse_f64(input), expected, "{input}");
        }
        assert!(parse_f64("NaN").unwrap().is_nan());
    }

    #[test]
    fn decimals_are_written_plainly() {
        assert_eq!(text(|out| write_decimal(out, -50, 3)), "-0.050");
        assert_eq!(text(|out| write_decimal(out, 12345, 0)), "12345");
        assert_eq!(text(|out| write_decimal(out, 0, 2)), "0.00");
        let most = 10i128.pow(38) - 1;
        assert_eq!(text(|out| write_decimal(out, -most, 38)), format!("-0.{}", "9".repeat(38)));
        assert_eq!(text(|out| write_decimal(out, most, 0)), "9".repeat(38));
        assert_eq!(text(|out| write_decimal(out, most, 30)), format!("{}.{}", "9".repeat(8), "9".repeat(30)));
    }

    #[test]
    fn decimals_are_rounded_half_up_and_bounded() {
        for (input, precision, scale, expected) in [
            ("1.2345", 5, 3, Some(1235)),
            ("1.2344", 5, 3, Some(1234)),
            ("-1.2345", 5, 3, Some(-1235)),
            (" 12 ", 5, 3, Some(12_000)),
            ("99.9995", 5, 3, None),
            ("100", 5, 3, None),
            ("1e2", 5, 0, Some(100)),
            ("1.5E-3", 5, 3, Some(2)),
            ("5e-4", 5, 3, Some(1)),
            ("4e-4", 5, 3, Some(0)),
            ("0.5", 1, 0, Some(1)),
            (".5", 3, 1, Some(5)),
            ("5.", 3, 1, Some(50)),
            ("0e999999", 3, 1, Some(0)),
            ("1e999999", 3, 1, None),
            ("1e-999999", 3, 1, Some(0)),
            ("+7", 1, 0, Some(7)),
            ("", 3, 1, None),
            (".", 3, 1, None),
            ("1.2.3", 3, 1, None),
            ("x", 3, 1, None),
            ("00000000000000000000000000000000000000000000001", 1, 0, Some(1)),
            ("99999999999999999999999999999999999999", 38, 0, Some(10i128.pow(38) - 1)),
            ("999999999999999999999999999999999999999", 38, 0, None),
        ] {
            assert_eq!(parse_decimal(input, precision, scale), expected, "{input}");
        }
    }

    #[test]
    fn decimals_and_doubles_convert() {
        assert_eq!(decimal_of_f64(0.1, 10, 5), Some(10_000));
        assert_eq!(decimal_of_f64(2.675, 10, 2), Some(268));
        assert_eq!(decimal_of_f64(-1e20, 10, 2), None);
        assert_eq!(decimal_of_f64(f64::NAN, 10, 2), None);
        assert_eq!(f64_of_decimal(12345, 3), 12.345);
        assert_eq!(f64_of_decimal(-10i128.pow(37), 37), -1.0);
        let mut seed = 7u128;
        for _ in 0..2_000 {
            seed = seed.wrapping_mul(0x2545_F491_4F6C_DD1D_2545_F491_4F6C_DD1D).wrapping_add(1);
            let value = (seed % 10u128.pow(38)) as i128 >> (seed % 100);
            let plain = text(|out| write_decimal(out, value, 19));
            assert_eq!(f64_of_decimal(value, 19), plain.parse::<f64>().unwrap());
            assert_eq!(parse_decimal(&plain, 38, 19), Some(value));
        }
    }
}
