//! Text → value, strictly in the forms of Flink's JSON and CSV formats.
//!
//! Every function takes the raw bytes of one value and gives `None` when they are not of the expected form; the caller
//! knows record and column and makes the error of it.

use millstream_types::TimeUnit;

/// How timestamps are written: Flink's `json.timestamp-format.standard`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum TimestampStandard {
    /// `2020-12-30 12:13:14.123`, with a `Z` at the end for TIMESTAMP_LTZ.
    #[default]
    Sql,
    /// `2020-12-30T12:13:14.123`, with a `Z` at the end for TIMESTAMP_LTZ.
    Iso,
}

/// Cuts ASCII white space off both ends, as Java's `trim` does.
pub(crate) fn trim(mut text: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = text
        && *first <= b' '
    {
        text = rest;
    }
    while let [rest @ .., last] = text
        && *last <= b' '
    {
        text = rest;
    }
    text
}

/// A decimal integer with an optional sign that fits 64 bits.
pub(crate) fn integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    if digits.is_empty() {
        return None;
    }
    if digits.len() <= 18 {
        let mut value = 0i64;
        for &digit in digits {
            let digit = digit.wrapping_sub(b'0');
            if digit > 9 {
                return None;
            }
            value = value * 10 + i64::from(digit);
        }
        return Some(if negative { -value } else { value });
    }
    // The accumulation is negative because -2^63 has no positive counterpart.
    let mut value = 0i64;
    for &digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_sub(i64::from(digit))?;
    }
    if negative { Some(value) } else { value.checked_neg() }
}

/// A binary64 number; also `NaN` and `Infinity` with a sign.
pub(crate) fn double(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    let digits = text.trim_start_matches(['-', '+']);
    match digits {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(if text.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY }),
        // Rust would also take `inf` and `nan`.
        _ if digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') => text.parse().ok(),
        _ => None,
    }
}

/// A binary32 number, rounded once from the text.
pub(crate) fn float(text: &[u8]) -> Option<f32> {
    double(text)?;
    let text = std::str::from_utf8(text).ok()?;
    match text.trim_start_matches(['-', '+']) {
        "NaN" => Some(f32::NAN),
        "Infinity" => Some(if text.starts_with('-') { f32::NEG_INFINITY } else { f32::INFINITY }),
        _ => text.parse().ok(),
    }
}

/// `true` or `false` in any case.
pub(crate) fn boolean(text: &[u8]) -> Option<bool> {
    if text.eq_ignore_ascii_case(b"true") {
        Some(true)
    } else if text.eq_ignore_ascii_case(b"false") {
        Some(false)
    } else {
        None
    }
}

/// A decimal number (with an optional exponent) as the unscaled integer of `DECIMAL(precision, scale)`, rounded half
/// up as Flink does. `None` also when it has too many digits.
pub(crate) fn decimal(text: &[u8], precision: u8, scale: u8) -> Option<i128> {
    let (negative, mut rest) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let exponent_at = rest.iter().position(|b| matches!(b, b'e' | b'E'));
    let mut exponent = 0i64;
    if let Some(at) = exponent_at {
        exponent = integer(&rest[at + 1..])?;
        rest = &rest[..at];
    }
    let point = rest.iter().position(|b| *b == b'.').unwrap_or(rest.len());
    let whole = &rest[..point];
    let fraction = rest.get(point + 1..).unwrap_or_default();
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    // The value is all digits × 10^shift in units of the scale.
    let shift = exponent.checked_sub(fraction.len() as i64)?.checked_add(i64::from(scale))?;
    let count = (whole.len() + fraction.len()) as i64;
    let kept = count.checked_add(shift)?;
    let limit = 10i128.pow(u32::from(precision));
    let mut value = 0i128;
    let mut round_up = false;
    for (at, &byte) in whole.iter().chain(fraction).enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        if (at as i64) < kept {
            value = value * 10 + i128::from(digit);
            if value >= limit {
                return None;
            }
        } else if at as i64 == kept {
            round_up = digit >= 5;
        }
    }
    if value != 0 {
        for _ in 0..shift.max(0) {
            value *= 10;
            if value >= limit {
                return None;
            }
        }
    }
    value += i128::from(round_up);
    if value >= limit {
        return None;
    }
    Some(if negative { -value } else { value })
}

/// Days since 1970-01-01 of `yyyy-MM-dd`.
pub(crate) fn date(text: &[u8]) -> Option<i32> {
    let [y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1] = text else { return None };
    let year = i64::from(two(*y0, *y1)?) * 100 + i64::from(two(*y2, *y3)?);
    let month = i64::from(two(*m0, *m1)?);
    let day = i64::from(two(*d0, *d1)?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=last).contains(&day) {
        return None;
    }
    // Howard Hinnant's days_from_civil, for the years 0 to 9999.
    let shifted = if month <= 2 { year - 1 } else { year };
    let era = shifted.div_euclid(400);
    let year_of_era = shifted - era * 400;
    let day_of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    i32::try_from(era * 146_097 + day_of_era - 719_468).ok()
}

/// Nanoseconds of the day of `HH:mm:ss` with up to nine digits of fraction.
pub(crate) fn time_nanos(text: &[u8]) -> Option<i64> {
    let (clock, fraction) = text.split_at_checked(8)?;
    let [h0, h1, b':', m0, m1, b':', s0, s1] = clock else { return None };
    let (hours, minutes, seconds) = (two(*h0, *h1)?, two(*m0, *m1)?, two(*s0, *s1)?);
    if hours > 23 || minutes > 59 || seconds > 59 {
        return None;
    }
    let mut nanos = 0i64;
    match fraction {
        [] => {}
        [b'.', digits @ ..] if digits.len() <= 9 => {
            for at in 0..9 {
                let digit = digits.get(at).map_or(0, |b| b.wrapping_sub(b'0'));
                if digit > 9 {
                    return None;
                }
                nanos = nanos * 10 + i64::from(digit);
            }
        }
        _ => return None,
    }
    Some(i64::from(hours * 3600 + minutes * 60 + seconds) * 1_000_000_000 + nanos)
}

/// A timestamp in `unit`s; digits finer than the unit are cut off. With `zoned` it must end in `Z`.
pub(crate) fn timestamp(text: &[u8], standard: TimestampStandard, zoned: bool, unit: TimeUnit) -> Option<i64> {
    let text = if zoned { text.strip_suffix(b"Z")? } else { text };
    let (day, rest) = text.split_at_checked(10)?;
    let separator = match standard {
        TimestampStandard::Sql => b' ',
        TimestampStandard::Iso => b'T',
    };
    let [first, clock @ ..] = rest else { return None };
    if *first != separator {
        return None;
    }
    // ISO 8601 lets the seconds be left out.
    let mut with_seconds = [0; 8];
    let clock = match (standard, clock) {
        (TimestampStandard::Iso, [_, _, b':', _, _]) => {
            with_seconds[..5].copy_from_slice(clock);
            with_seconds[5..].copy_from_slice(b":00");
            &with_seconds[..]
        }
        _ => clock,
    };
    let nanos = time_nanos(clock)?;
    let per_second = unit.per_second();
    let seconds = i64::from(date(day)?) * 86_400;
    seconds.checked_mul(per_second)?.checked_add(nanos / (1_000_000_000 / per_second))
}

/// Bytes of standard base64 with padding, as Java's decoder takes them.
pub(crate) fn base64(text: &[u8]) -> Option<Vec<u8>> {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.decode(text).ok()
}

fn two(tens: u8, ones: u8) -> Option<u32> {
    let (tens, ones) = (tens.wrapping_sub(b'0'), ones.wrapping_sub(b'0'));
    (tens <= 9 && ones <= 9).then(|| u32::from(tens) * 10 + u32::from(ones))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_exact_to_the_last_value() {
        assert_eq!(integer(b"0"), Some(0));
        assert_eq!(integer(b"-17"), Some(-17));
        assert_eq!(integer(b"+17"), Some(17));
        assert_eq!(integer(b"9223372036854775807"), Some(i64::MAX));
        assert_eq!(integer(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(integer(b"9223372036854775808"), None);
        assert_eq!(integer(b"000000000000000000000000000012"), Some(12));
        for bad in ["", "-", "+", "1.0", "1a", " 1", "--1", "99999999999999999999999"] {
            assert_eq!(integer(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn floats_take_what_java_takes() {
        assert_eq!(double(b"1.5e3"), Some(1500.0));
        assert_eq!(double(b"-Infinity"), Some(f64::NEG_INFINITY));
        assert!(double(b"NaN").is_some_and(f64::is_nan));
        assert_eq!(float(b"0.1"), Some(0.1));
        for bad in ["inf", "nan", "", "x", "1e", "-"] {
            assert_eq!(double(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn decimals_round_half_up_and_respect_precision() {
        assert_eq!(decimal(b"1.005", 5, 2), Some(101));
        assert_eq!(decimal(b"-1.005", 5, 2), Some(-101));
        assert_eq!(decimal(b"1.0049", 5, 2), Some(100));
        assert_eq!(decimal(b"12", 5, 2), Some(1200));
        assert_eq!(decimal(b"1.2e2", 5, 2), Some(12000));
        assert_eq!(decimal(b"12e-1", 5, 2), Some(120));
        assert_eq!(decimal(b"999.995", 5, 2), None);
        assert_eq!(decimal(b"1000", 5, 2), None);
        assert_eq!(decimal(b"0.6", 1, 0), Some(1));
        assert_eq!(decimal(b"0.06", 1, 0), Some(0));
        assert_eq!(decimal(b"9e-9", 5, 2), Some(0));
        assert_eq!(decimal(b"0e999999999", 5, 2), Some(0));
        assert_eq!(decimal(b"1e999999999", 5, 2), None);
        assert_eq!(decimal(b"1e-99999999999999999", 5, 2), Some(0));
        assert_eq!(decimal(&[b'9'; 38], 38, 0), Some(10i128.pow(38) - 1));
        for bad in ["", ".", "-", "1.2.3", "e5", "1e", "0x1"] {
            assert_eq!(decimal(bad.as_bytes(), 5, 2), None, "{bad}");
        }
    }

    #[test]
    fn dates_and_times_are_strict() {
        assert_eq!(date(b"1970-01-01"), Some(0));
        assert_eq!(date(b"2000-02-29"), Some(11_016));
        assert_eq!(date(b"1969-12-31"), Some(-1));
        assert_eq!(date(b"0001-01-01"), Some(-719_162));
        for bad in ["1900-02-29", "2020-13-01", "2020-00-10", "2020-1-1", "2020-01-32", "20200101", ""] {
            assert_eq!(date(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(time_nanos(b"00:00:01"), Some(1_000_000_000));
        assert_eq!(time_nanos(b"23:59:59.999999999"), Some(86_399_999_999_999));
        assert_eq!(time_nanos(b"12:00:00.5"), Some(43_200_500_000_000));
        for bad in ["24:00:00", "12:60:00", "12:00", "12:00:00,5", "12:00:00.1234567890"] {
            assert_eq!(time_nanos(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn timestamps_follow_their_standard() {
        use TimestampStandard::{Iso, Sql};
        let milli = TimeUnit::Milli;
        assert_eq!(timestamp(b"1970-01-01 00:00:01.123456", Sql, false, milli), Some(1123));
        assert_eq!(timestamp(b"1970-01-01 00:00:01.123456", Sql, false, TimeUnit::Micro), Some(1_123_456));
        assert_eq!(timestamp(b"1969-12-31 23:59:59.999", Sql, false, milli), Some(-1));
        assert_eq!(timestamp(b"1970-01-01T00:00:01", Iso, false, milli), Some(1000));
        assert_eq!(timestamp(b"1970-01-01T00:01", Iso, false, milli), Some(60_000));
        assert_eq!(timestamp(b"1970-01-01T00:00:01Z", Iso, true, milli), Some(1000));
        assert_eq!(timestamp(b"1970-01-01T00:00:01", Sql, false, milli), None);
        assert_eq!(timestamp(b"1970-01-01 00:00:01", Iso, false, milli), None);
        assert_eq!(timestamp(b"1970-01-01 00:00:01", Sql, true, milli), None);
        assert_eq!(timestamp(b"2262-04-12 00:00:00", Sql, false, TimeUnit::Nano), None);
    }
}
