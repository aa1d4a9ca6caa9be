//! Value → text, in the forms of Flink's JSON and CSV formats.

use millstream_types::TimeUnit;
use std::io::Write;

/// Writes to a `Vec<u8>`, which cannot fail.
macro_rules! put {
    ($out:expr, $($format:tt)*) => { write!($out, $($format)*).expect("a Vec takes every byte") };
}

/// Days since 1970-01-01 as `yyyy-MM-dd`.
pub(crate) fn date(out: &mut Vec<u8>, days: i64) {
    // Howard Hinnant's civil_from_days.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    if (0..=9999).contains(&year) {
        digits(out, year as u64, 4);
    } else {
        put!(out, "{year:+05}");
    }
    out.push(b'-');
    digits(out, month as u64, 2);
    out.push(b'-');
    digits(out, day as u64, 2);
}

/// Nanoseconds of the day as `HH:mm:ss` and as many digits of fraction as are needed.
pub(crate) fn time(out: &mut Vec<u8>, nanos: u64) {
    let seconds = nanos / 1_000_000_000;
    digits(out, seconds / 3600, 2);
    out.push(b':');
    digits(out, seconds / 60 % 60, 2);
    out.push(b':');
    digits(out, seconds % 60, 2);
    let mut fraction = nanos % 1_000_000_000;
    if fraction != 0 {
        let mut width = 9;
        while fraction % 10 == 0 {
            fraction /= 10;
            width -= 1;
        }
        out.push(b'.');
        digits(out, fraction, width);
    }
}

/// A timestamp in `unit`s: the date, `separator`, the time.
pub(crate) fn timestamp(out: &mut Vec<u8>, value: i64, unit: TimeUnit, separator: u8) {
    let per_second = unit.per_second();
    let per_day = per_second * 86_400;
    date(out, value.div_euclid(per_day));
    out.push(separator);
    time(out, (value.rem_euclid(per_day) * (1_000_000_000 / per_second)) as u64);
}

/// A decimal with exactly `scale` digits after the point.
pub(crate) fn decimal(out: &mut Vec<u8>, unscaled: i128, scale: u8) {
    if unscaled < 0 {
        out.push(b'-');
    }
    let magnitude = unscaled.unsigned_abs();
    if scale == 0 {
        put!(out, "{magnitude}");
        return;
    }
    let unit = 10u128.pow(u32::from(scale));
    put!(out, "{}.{:0width$}", magnitude / unit, magnitude % unit, width = usize::from(scale));
}

/// A binary64 number as Java's `Double.toString` writes it (the shortest digits that give the same number back).
pub(crate) fn double(out: &mut Vec<u8>, value: f64) {
    java_float(out, &format!("{value:e}"), value.abs());
}

/// A binary32 number as Java's `Float.toString` writes it.
pub(crate) fn float(out: &mut Vec<u8>, value: f32) {
    java_float(out, &format!("{value:e}"), f64::from(value.abs()));
}

/// Lays `d.ddde±x` out as Java does: plain from 10^-3 up to 10^7, with at least one digit after the point.
fn java_float(out: &mut Vec<u8>, scientific: &str, magnitude: f64) {
    let (negative, scientific) = match scientific.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, scientific),
    };
    if scientific == "NaN" {
        return out.extend_from_slice(b"NaN");
    }
    if negative {
        out.push(b'-');
    }
    if scientific == "inf" {
        return out.extend_from_slice(b"Infinity");
    }
    let (mantissa, exponent) = scientific.split_once('e').expect("{:e} writes an exponent");
    let exponent: i32 = exponent.parse().expect("{:e} writes a decimal exponent");
    let (first, rest) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if magnitude != 0.0 && !(1e-3..1e7).contains(&magnitude) {
        let rest = if rest.is_empty() { "0" } else { rest };
        put!(out, "{first}.{rest}E{exponent}");
        return;
    }
    if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.resize(out.len() + (-exponent - 1) as usize, b'0');
        out.extend_from_slice(first.as_bytes());
        out.extend_from_slice(rest.as_bytes());
        return;
    }
    let whole = exponent as usize;
    out.extend_from_slice(first.as_bytes());
    for at in 0..whole {
        out.push(rest.as_bytes().get(at).copied().unwrap_or(b'0'));
    }
    out.push(b'.');
    match rest.as_bytes().get(whole..) {
        Some(fraction) if !fraction.is_empty() => out.extend_from_slice(fraction),
        _ => out.push(b'0'),
    }
}

/// An integer.
pub(crate) fn integer(out: &mut Vec<u8>, value: i64) {
    let mut reversed = [0u8; 20];
    let mut length = 0;
    let mut rest = value.unsigned_abs();
    loop {
        reversed[length] = b'0' + (rest % 10) as u8;
        length += 1;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        out.push(b'-');
    }
    out.extend(reversed[..length].iter().rev());
}

/// Standard base64 with padding.
pub(crate) fn base64(out: &mut Vec<u8>, bytes: &[u8]) {
    use base64::Engine;
    out.extend_from_slice(base64::engine::general_purpose::STANDARD.encode(bytes).as_bytes());
}

fn digits(out: &mut Vec<u8>, value: u64, width: u32) {
    for at in (0..width).rev() {
        out.push(b'0' + (value / 10u64.pow(at) % 10) as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(print: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        print(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn floats_look_like_javas() {
        let cases: &[(f64, &str)] = &[
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (-1.5, "-1.5"),
            (100.0, "100.0"),
            (123456.789, "123456.789"),
            (9999999.0, "9999999.0"),
            (1e7, "1.0E7"),
            (1.25e10, "1.25E10"),
            (0.001, "0.001"),
            (0.00012, "1.2E-4"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ];
        for (value, expected) in cases {
            assert_eq!(text(|out| double(out, *value)), *expected);
        }
        assert_eq!(text(|out| float(out, 0.1)), "0.1");
        assert_eq!(text(|out| float(out, 3.4e38)), "3.4E38");
    }

    #[test]
    fn dates_and_times_parse_back() {
        for days in (-719_528..2_932_897).step_by(997) {
            let printed = text(|out| date(out, days));
            assert_eq!(super::super::parse::date(printed.as_bytes()), Some(days as i32), "{printed}");
        }
        assert_eq!(text(|out| timestamp(out, 1123, TimeUnit::Milli, b' ')), "1970-01-01 00:00:01.123");
        assert_eq!(text(|out| timestamp(out, -1, TimeUnit::Nano, b'T')), "1969-12-31T23:59:59.999999999");
        assert_eq!(text(|out| timestamp(out, 60_500, TimeUnit::Milli, b' ')), "1970-01-01 00:01:00.5");
        assert_eq!(text(|out| date(out, 2_932_897)), "+10000-01-01");
    }

    #[test]
    fn decimals_and_integers() {
        assert_eq!(text(|out| decimal(out, -5, 2)), "-0.05");
        assert_eq!(text(|out| decimal(out, 12345, 3)), "12.345");
        assert_eq!(text(|out| decimal(out, 7, 0)), "7");
        assert_eq!(text(|out| integer(out, i64::MIN)), i64::MIN.to_string());
        assert_eq!(text(|out| integer(out, 0)), "0");
    }
}
