//! Casts that are not a few instructions, with the rules of Flink's CAST and TRY_CAST.
//!
//! How `ExprKind::Cast` is lowered. *inline* means operations of the row program; `t` is the constant Bool argument
//! that is TRUE for TRY_CAST (NULL instead of a failing row); `p`, `s`, `n` are constants of the target type and `p0`,
//! `s0` of the source type, as I32; `f(p)` is the number of units of TIMESTAMP(p) in a millisecond (1, 1,000 or
//! 1,000,000). Where two steps are named, the first is a separate cast.
//!
//! | from | to | how |
//! | --- | --- | --- |
//! | string | BOOLEAN | `CastStrToBool(x, t)` |
//! | string | TINYINT, SMALLINT, INT, BIGINT | `CastStrToI8/I16/I32/I64(x, t)` |
//! | string | FLOAT, DOUBLE | `CastStrToF32/F64(x, t)` |
//! | string | DECIMAL(p, s) | `CastStrToDecimal(x, p, s, t)`; NULL when it does not fit, even for CAST |
//! | string | DATE | `CastStrToDate(x, t)` |
//! | string | TIME(p) | `CastStrToTime(x, p, t)` |
//! | string | TIMESTAMP(p) | `CastStrToTimestamp(x, p, t)` |
//! | string | TIMESTAMP_LTZ(p) | `CastStrToTimestampLtz(x, p, t)` |
//! | string | BYTES, VARBINARY(n), BINARY(n) | inline (the same 16 bytes), then as bytes to bytes |
//! | string | CHAR(n) | `FitString(x, n, TRUE)`: cut, or padded with spaces |
//! | string | VARCHAR(n) | inline when n is not less than the source's length, else `FitString(x, n, FALSE)` |
//! | any other | CHAR(n), VARCHAR(n) | to STRING as below, then as string to CHAR(n) or VARCHAR(n) |
//! | BOOLEAN | STRING | inline: select of `'TRUE'` and `'FALSE'` |
//! | TINYINT … BIGINT | STRING | convert to I64, `CastIntToStr(x)` |
//! | FLOAT, DOUBLE | STRING | `CastF32ToStr(x)`, `CastF64ToStr(x)` |
//! | DECIMAL(p0, s0) | STRING | `CastDecimalToStr(x, s0)` |
//! | DATE | STRING | `CastDateToStr(x)` |
//! | TIME(p0) | STRING | `CastTimeToStr(x, p0)` |
//! | TIMESTAMP(p0) | STRING | `CastTimestampToStr(x, p0)` |
//! | TIMESTAMP_LTZ(p0) | STRING | `CastTimestampLtzToStr(x, p0)` |
//! | INTERVAL YEAR TO MONTH / DAY TO SECOND | STRING | `CastMonthsToStr(x)` / `CastMillisToStr(x)` |
//! | bytes | STRING | `CastBytesToStr(x)`: UTF-8, what is not becomes U+FFFD |
//! | bytes | BINARY(n) / VARBINARY(n) | `FitBytes(x, n, TRUE)` (cut, or padded with zero bytes) / `FitBytes(x, n, FALSE)`, or inline when it cannot be longer |
//! | BOOLEAN | number | inline: 0 or 1 (DECIMAL: 0 or 10^s) |
//! | integer, float | BOOLEAN | inline: `x <> 0` |
//! | DECIMAL | BOOLEAN | inline: `x <> 0` |
//! | integer | integer | inline: convert (wraps, as Java's) |
//! | integer | FLOAT, DOUBLE | inline: convert |
//! | FLOAT, DOUBLE | INT, BIGINT | inline: convert (saturates, as Java's) |
//! | FLOAT, DOUBLE | TINYINT, SMALLINT | inline: convert to I32, then convert (as Java's) |
//! | FLOAT | DOUBLE and back | inline: convert |
//! | integer | DECIMAL(p, s) | convert to I128, then as DECIMAL(19, 0) to DECIMAL(p, s) |
//! | DECIMAL(p0, s0) | DECIMAL(p, s) | NULL when it does not fit. Inline when it always fits (`s >= s0`, `p - s >= p0 - s0`): `ScaleUp(x, s - s0)`; when `s < s0`: `ScaleDown`, then NULL if `OutOfDecimal(p)`; else `DecimalRescale(x, s0, s, p)`, which is right in every case |
//! | DECIMAL(p0, s0) | integer | inline: integer division by 10^s0 (truncates), convert (wraps) |
//! | DECIMAL(p0, s0) | FLOAT, DOUBLE | `CastDecimalToF64(x, s0)`, then convert for FLOAT |
//! | FLOAT, DOUBLE | DECIMAL(p, s) | convert to F64, `CastF64ToDecimal(x, p, s, t)`; NULL when it does not fit |
//! | DATE | TIMESTAMP(p) | `DateToTimestamp(x, p, t)` |
//! | DATE | TIMESTAMP_LTZ(p) | to TIMESTAMP(p), `TimestampToLtz(x, p)` |
//! | TIME | TIMESTAMP(p) | inline: convert to I64, times f(p) (on 1970-01-01) |
//! | TIME | TIMESTAMP_LTZ(p) | to TIMESTAMP(p), `TimestampToLtz(x, p)` |
//! | TIME(p0) | TIME(p) | inline: the same value when p >= p0, else `x - x % 10^(3 - p)` |
//! | TIMESTAMP(p0) | DATE, TIME(p) | `TimestampToDate(x, p0)`; `TimestampToTime(x, p0)`, then as TIME(p0) to TIME(p) |
//! | TIMESTAMP_LTZ(p0) | DATE, TIME | `LtzToTimestamp(x, p0)`, then as TIMESTAMP(p0) |
//! | TIMESTAMP(p0) | TIMESTAMP(p), and both LTZ | inline when p >= p0 within one unit, else `TimestampRescale(x, p0, p, t)` |
//! | TIMESTAMP(p0) | TIMESTAMP_LTZ(p) | `TimestampToLtz(x, p0)`, then as LTZ to LTZ |
//! | TIMESTAMP_LTZ(p0) | TIMESTAMP(p) | `LtzToTimestamp(x, p0)`, then as TIMESTAMP to TIMESTAMP |
//! | INTERVAL | integer, and back | inline: convert (months, milliseconds) |

use crate::context::{Failure, FunctionContext};
use millstream_abi::Str;
use millstream_types::text::{self, calendar, zone::LocalClock, zone::Zone};
use millstream_types::{TimeUnit, code};

/// A value, NULL, or why the row is bad.
type Cast<T> = Result<Option<T>, Failure>;

/// Characters of a bad value that its error message shows.
pub(crate) const SHOWN: usize = 60;

/// The start of a text for an error message: at most `shown` characters.
pub(crate) fn shorten(text: &str, shown: usize) -> String {
    match text.char_indices().nth(shown) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// A value that was read, or what is wrong with the text it was read from.
fn read<T>(value: Option<T>, lenient: bool, text: &str, target: &str) -> Cast<T> {
    match value {
        None if !lenient => Err(Failure::cast(format!("'{}' is not a valid {target}", shorten(text, SHOWN)))),
        value => Ok(value),
    }
}

/// A timestamp that was computed, or the failure that it does not fit 64 bits in its unit.
fn in_range(value: Option<i64>, lenient: bool, precision: i32) -> Cast<i64> {
    match value {
        None if !lenient => Err(Failure {
            code: code::OVERFLOW,
            message: format!("a timestamp is out of the range of TIMESTAMP({precision})"),
        }),
        value => Ok(value),
    }
}

/// A precision or scale; lowering passes constants from 0 to 38.
pub(crate) fn small(number: i32) -> u8 {
    number.clamp(0, 38) as u8
}

pub(crate) fn unit(precision: i32) -> TimeUnit {
    text::unit_of_precision(small(precision))
}

pub(crate) fn session_zone(context: &FunctionContext) -> Zone {
    context.settings().time_zone
}

macro_rules! casts_of_text {
    ($($name:ident -> $type:ty = $parse:expr, $target:literal;)*) => {$(
        #[doc = concat!("String to ", $target, ".")]
        pub(crate) fn $name(s: &str, lenient: bool) -> Cast<$type> {
            read($parse(s), lenient, s, $target)
        }
    )*};
}

casts_of_text! {
    str_to_bool -> bool = text::parse_boolean, "BOOLEAN";
    str_to_i8 -> i8 = integer, "TINYINT";
    str_to_i16 -> i16 = integer, "SMALLINT";
    str_to_i32 -> i32 = integer, "INT";
    str_to_i64 -> i64 = integer, "BIGINT";
    str_to_f32 -> f32 = text::parse_f32, "FLOAT";
    str_to_f64 -> f64 = text::parse_f64, "DOUBLE";
    str_to_date -> i32 = text::cast_date, "DATE";
}

fn integer<T: TryFrom<i64>>(s: &str) -> Option<T> {
    T::try_from(text::cast_integer(s, i64::MIN, i64::MAX)?).ok()
}

/// String to DECIMAL(precision, scale). As in Flink a number that does not fit is NULL, even for CAST; a text that is
/// not a number is bad.
pub(crate) fn str_to_decimal(s: &str, precision: i32, scale: i32, lenient: bool) -> Cast<i128> {
    let value = text::parse_decimal(s, small(precision), small(scale));
    // NaN, Infinity and Java's suffixes are numbers for floats only.
    let is_number =
        |s: &str| text::parse_f64(s).is_some() && s.trim_end().ends_with(|c: char| c.is_ascii_digit() || c == '.');
    if value.is_none() && is_number(s) {
        return Ok(None);
    }
    read(value, lenient, s, &format!("DECIMAL({precision}, {scale})"))
}

/// String to TIME(precision), cutting off milliseconds beyond the precision.
pub(crate) fn str_to_time(s: &str, precision: i32, lenient: bool) -> Cast<i32> {
    let step = 10i32.pow(3 - u32::from(small(precision).min(3)));
    read(text::cast_time(s).map(|millis| millis - millis % step), lenient, s, "TIME")
}

/// String to TIMESTAMP(precision).
pub(crate) fn str_to_timestamp(s: &str, precision: i32, lenient: bool) -> Cast<i64> {
    let value = text::cast_timestamp(s, small(precision), None);
    read(value, lenient, s, &format!("TIMESTAMP({precision})")).map_err(|failure| with_pattern(failure, s))
}

/// String to TIMESTAMP_LTZ(precision), in the session's zone.
pub(crate) fn str_to_timestamp_ltz(context: &mut FunctionContext, s: &str, precision: i32, lenient: bool) -> Cast<i64> {
    let value = text::cast_timestamp(s, small(precision), Some(session_zone(context)));
    read(value, lenient, s, &format!("TIMESTAMP_LTZ({precision})")).map_err(|failure| with_pattern(failure, s))
}

/// Names the function for a text that data formats would read: CAST takes the form of SQL only, as in Flink.
fn with_pattern(failure: Failure, s: &str) -> Failure {
    let call = match s {
        // Of other zones patterns pass over the offset, as in Flink.
        _ if s.ends_with('Z') && text::parse_timestamp_ltz(s, 3).is_some() => {
            "TO_TIMESTAMP_LTZ(x, 'yyyy-MM-dd''T''HH:mm:ss[.SSS]X')"
        }
        _ if text::parse_timestamp(s, 3).is_some() => "TO_TIMESTAMP(x, 'yyyy-MM-dd''T''HH:mm:ss[.SSS]')",
        _ => return failure,
    };
    Failure { message: format!("{}; CAST takes the form of SQL: write {call}", failure.message), ..failure }
}

/// Cuts a string to `length` code points; with `pad`, spaces bring it to that length. Shorter strings are not copied.
pub(crate) fn fit_string(context: &mut FunctionContext, s: &str, length: i32, pad: bool) -> Str {
    let length = length.max(0) as usize;
    if let Some((end, _)) = s.char_indices().nth(length) {
        return Str::new(&s.as_bytes()[..end]);
    }
    let missing = if pad { length - s.chars().count() } else { 0 };
    if missing == 0 {
        return Str::new(s.as_bytes());
    }
    context.keep_written(|out| {
        out.extend_from_slice(s.as_bytes());
        out.resize(out.len() + missing, b' ');
    })
}

/// Cuts a byte string to `length`; with `pad`, zero bytes bring it to that length.
pub(crate) fn fit_bytes(context: &mut FunctionContext, bytes: &[u8], length: i32, pad: bool) -> Str {
    let length = length.max(0) as usize;
    if bytes.len() >= length || !pad {
        return Str::new(&bytes[..bytes.len().min(length)]);
    }
    context.keep_written(|out| {
        out.extend_from_slice(bytes);
        out.resize(length, 0);
    })
}

/// Bytes as UTF-8, with U+FFFD for what is not.
pub(crate) fn bytes_to_str(context: &mut FunctionContext, bytes: &[u8]) -> Str {
    match String::from_utf8_lossy(bytes) {
        std::borrow::Cow::Borrowed(_) => Str::new(bytes),
        std::borrow::Cow::Owned(repaired) => context.keep(repaired.as_bytes()),
    }
}

/// Integer to STRING.
pub(crate) fn int_to_str(context: &mut FunctionContext, value: i64) -> Str {
    context.keep_written(|out| text::write_integer(out, value))
}

/// FLOAT to STRING.
pub(crate) fn f32_to_str(context: &mut FunctionContext, value: f32) -> Str {
    context.keep_written(|out| text::write_f32(out, value))
}

/// DOUBLE to STRING.
pub(crate) fn f64_to_str(context: &mut FunctionContext, value: f64) -> Str {
    context.keep_written(|out| text::write_f64(out, value))
}

/// DECIMAL to STRING.
pub(crate) fn decimal_to_str(context: &mut FunctionContext, value: i128, scale: i32) -> Str {
    context.keep_written(|out| text::write_decimal(out, value, small(scale)))
}

/// DATE to STRING.
pub(crate) fn date_to_str(context: &mut FunctionContext, days: i32) -> Str {
    context.keep_written(|out| text::write_date(out, days))
}

/// TIME to STRING.
pub(crate) fn time_to_str(context: &mut FunctionContext, millis: i32, precision: i32) -> Str {
    context.keep_written(|out| text::write_time_cast(out, millis, small(precision)))
}

/// TIMESTAMP to STRING.
pub(crate) fn timestamp_to_str(context: &mut FunctionContext, value: i64, precision: i32) -> Str {
    context.keep_written(|out| text::write_timestamp(out, value, unit(precision), small(precision)))
}

/// TIMESTAMP_LTZ to STRING, in the session's zone.
pub(crate) fn timestamp_ltz_to_str(context: &mut FunctionContext, value: i64, precision: i32) -> Str {
    let local = ltz_to_timestamp(context, value, precision);
    timestamp_to_str(context, local, precision)
}

/// INTERVAL YEAR TO MONTH to STRING.
pub(crate) fn months_to_str(context: &mut FunctionContext, months: i32) -> Str {
    context.keep_written(|out| text::write_interval_months(out, months))
}

/// INTERVAL DAY TO SECOND to STRING.
pub(crate) fn millis_to_str(context: &mut FunctionContext, millis: i64) -> Str {
    context.keep_written(|out| text::write_interval_millis(out, millis))
}

/// DOUBLE to DECIMAL(precision, scale): by the shortest text of the double, half up. NaN and infinity are bad.
pub(crate) fn f64_to_decimal(value: f64, precision: i32, scale: i32, lenient: bool) -> Cast<i128> {
    if !value.is_finite() && !lenient {
        return Err(Failure::cast(format!("{value} is not a valid DECIMAL({precision}, {scale})")));
    }
    Ok(text::decimal_of_f64(value, small(precision), small(scale)))
}

/// DECIMAL to the nearest DOUBLE.
pub(crate) fn decimal_to_f64(value: i128, scale: i32) -> f64 {
    text::f64_of_decimal(value, small(scale))
}

/// DATE to TIMESTAMP(precision), at midnight.
pub(crate) fn date_to_timestamp(days: i32, precision: i32, lenient: bool) -> Cast<i64> {
    let per_day = unit(precision).per_second() * calendar::SECONDS_PER_DAY;
    in_range(i64::from(days).checked_mul(per_day), lenient, precision)
}

/// Day of a timestamp.
pub(crate) fn timestamp_to_date(value: i64, precision: i32) -> i32 {
    value.div_euclid(unit(precision).per_second() * calendar::SECONDS_PER_DAY) as i32
}

/// Time of the day of a timestamp.
pub(crate) fn timestamp_to_time(value: i64, precision: i32) -> i32 {
    let per_second = unit(precision).per_second();
    (value.rem_euclid(per_second * calendar::SECONDS_PER_DAY) / (per_second / 1_000)) as i32
}

/// Timestamp of one precision to another, cutting off digits.
pub(crate) fn timestamp_rescale(value: i64, from: i32, to: i32, lenient: bool) -> Cast<i64> {
    let unit_to = unit(to);
    let Some(value) = text::rescale_timestamp(value, unit(from), unit_to) else { return in_range(None, lenient, to) };
    // Digits between the precision and the unit that stores it.
    let kept = unit_to.per_second() / 10i64.pow(u32::from(small(to).min(9)));
    Ok(Some(value - value.rem_euclid(kept.max(1))))
}

/// Local time in the session's zone to a moment; the precision stays.
pub(crate) fn timestamp_to_ltz(context: &mut FunctionContext, value: i64, precision: i32) -> i64 {
    session_zone(context).local_to_utc(value, unit(precision))
}

/// A moment to local time in the session's zone; the precision stays.
pub(crate) fn ltz_to_timestamp(context: &mut FunctionContext, value: i64, precision: i32) -> i64 {
    session_clock(context).utc_to_local(value, unit(precision))
}

/// The local time in the session's zone that a watermark has reached for good.
pub(crate) fn local_watermark(context: &mut FunctionContext, watermark: i64) -> i64 {
    session_clock(context).reached_local(watermark)
}

fn session_clock(context: &mut FunctionContext) -> &mut LocalClock {
    let zone = session_zone(context);
    context.caches.clock.get_or_insert_with(|| LocalClock::new(zone))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::FunctionSettings;

    fn context(zone: &str) -> FunctionContext {
        FunctionContext::new(FunctionSettings { time_zone: Zone::parse(zone).unwrap(), query_start_ms: 0, run: 0 })
    }

    fn string(s: Str) -> String {
        // SAFETY: the tests keep the context and the arguments alive.
        String::from_utf8(unsafe { s.as_bytes() }.to_vec()).unwrap()
    }

    #[test]
    fn cast_fails_where_try_cast_gives_null() {
        assert_eq!(str_to_i32("12", false), Ok(Some(12)));
        assert_eq!(str_to_i32("abc", true), Ok(None));
        let failure = str_to_i32("abc", false).unwrap_err();
        assert_eq!((failure.code, failure.message.as_str()), (code::INVALID_CAST, "'abc' is not a valid INT"));
        assert_eq!(str_to_i8("128", true), Ok(None));
        assert!(str_to_timestamp(&"x".repeat(500), 3, false).unwrap_err().message.chars().count() < 100);
    }

    #[test]
    fn decimals_overflow_to_null_but_bad_text_fails() {
        assert_eq!(str_to_decimal("123.456", 5, 2, false), Ok(Some(12_346)));
        assert_eq!(str_to_decimal("123456", 5, 2, false), Ok(None));
        assert!(str_to_decimal("Apache", 5, 2, false).is_err());
        assert!(str_to_decimal("NaN", 5, 2, false).is_err());
        assert_eq!(f64_to_decimal(1.005, 5, 2, false), Ok(Some(101)));
        assert_eq!(f64_to_decimal(1e9, 5, 2, false), Ok(None));
        assert!(f64_to_decimal(f64::NAN, 5, 2, false).is_err());
        assert_eq!(f64_to_decimal(f64::NAN, 5, 2, true), Ok(None));
    }

    #[test]
    fn strings_are_cut_and_padded_by_code_points() {
        let c = &mut context("UTC");
        assert_eq!(string(fit_string(c, "Größe und mehr davon", 4, false)), "Größ");
        assert_eq!(string(fit_string(c, "äö", 4, true)), "äö  ");
        assert_eq!(string(fit_string(c, "äö", 4, false)), "äö");
        assert_eq!(string(fit_bytes(c, b"ab", 4, true)), "ab\0\0");
        assert_eq!(string(fit_bytes(c, b"abcdef", 4, true)), "abcd");
        assert_eq!(string(bytes_to_str(c, &[b'a', 0xFF])), "a\u{FFFD}");
    }

    #[test]
    fn the_session_zone_decides_local_time() {
        let c = &mut context("Asia/Shanghai");
        let moment = 1_700_006_361_552;
        assert_eq!(string(timestamp_ltz_to_str(c, moment, 3)), "2023-11-15 07:59:21.552");
        assert_eq!(str_to_timestamp_ltz(c, "2023-11-15 07:59:21.552", 3, false), Ok(Some(moment)));
        let local = ltz_to_timestamp(c, moment, 3);
        assert_eq!(timestamp_to_ltz(c, local, 3), moment);
        assert_eq!(timestamp_to_date(local, 3), 19_676);
        assert_eq!(timestamp_to_time(local, 3), 28_761_552);
    }

    #[test]
    fn precisions_are_cut_toward_the_past() {
        assert_eq!(timestamp_rescale(1_234_567_891, 9, 6, false), Ok(Some(1_234_567)));
        assert_eq!(timestamp_rescale(1_234_567_891, 9, 1, false), Ok(Some(1_200)));
        assert_eq!(timestamp_rescale(-1, 3, 0, false), Ok(Some(-1_000)));
        assert_eq!(timestamp_rescale(5, 3, 9, false), Ok(Some(5_000_000)));
        assert_eq!(timestamp_rescale(i64::MAX / 10, 3, 9, true), Ok(None));
        assert_eq!(timestamp_rescale(i64::MAX / 10, 3, 9, false).unwrap_err().code, code::OVERFLOW);
        assert_eq!(date_to_timestamp(1, 6, false), Ok(Some(86_400_000_000)));
        assert_eq!(timestamp_to_date(-1, 9), -1);
        assert_eq!(timestamp_to_time(-1_000_000, 9), 86_399_999);
    }
}
