//! Dates, times, timestamps and intervals.
//!
//! Two families of readers: `parse_…` take the forms of data formats (`2023-11-14 23:59:21.552`, `2023-11-14T23:59:21Z`), `cast_…` take
//! what CAST takes, which is laxer about the digits of a part (`2023-1-9`).

use super::calendar::{Civil, MILLIS_PER_DAY, SECONDS_PER_DAY, civil_from_days, days_from_civil, days_in_month};
use super::number::{parse_decimal, parse_unsigned, write_digits, write_pair};
use super::zone::Zone;
use crate::TimeUnit;

/// How a data format writes timestamps. Texts of the first two are read whichever of them is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimestampStyle {
    /// `2023-11-14 23:59:21.552`, with a `Z` behind it for TIMESTAMP_LTZ.
    Sql,
    /// `2023-11-14T23:59:21.552`, likewise.
    Iso,
    /// A number of units since 1970-01-01 00:00:00, for TIMESTAMP_LTZ in UTC; what is smaller than the unit is its fraction.
    Epoch(EpochUnit),
}

/// What a number that stands for a moment counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EpochUnit {
    /// Seconds.
    Second,
    /// Milliseconds.
    Milli,
    /// Microseconds.
    Micro,
    /// Nanoseconds.
    Nano,
}

impl EpochUnit {
    /// Units per second.
    pub fn per_second(self) -> i64 {
        match self {
            EpochUnit::Second => 1,
            EpochUnit::Milli => 1_000,
            EpochUnit::Micro => 1_000_000,
            EpochUnit::Nano => 1_000_000_000,
        }
    }

    /// The unit in which a number is a time between 1973 and 5138; numbers from 10^17 on count nanoseconds.
    pub fn likely(number: i64) -> EpochUnit {
        match number.unsigned_abs() {
            0..100_000_000_000 => EpochUnit::Second,
            100_000_000_000..100_000_000_000_000 => EpochUnit::Milli,
            100_000_000_000_000..100_000_000_000_000_000 => EpochUnit::Micro,
            _ => EpochUnit::Nano,
        }
    }
}

/// Unit in which a timestamp of a precision is stored.
pub fn unit_of_precision(precision: u8) -> TimeUnit {
    match precision {
        0..=3 => TimeUnit::Milli,
        4..=6 => TimeUnit::Micro,
        _ => TimeUnit::Nano,
    }
}

/// A timestamp in another unit, rounded toward the past; `None` when it does not fit.
pub fn rescale_timestamp(value: i64, from: TimeUnit, to: TimeUnit) -> Option<i64> {
    let (from, to) = (from.per_second(), to.per_second());
    if from >= to { Some(value.div_euclid(from / to)) } else { value.checked_mul(to / from) }
}

/// Appends `yyyy-MM-dd`; years outside 0–9999 with their sign, as ISO 8601 has it (`+10000-01-01`, `-0001-12-31`).
pub fn write_date(out: &mut Vec<u8>, days: i32) {
    write_civil(out, civil_from_days(i64::from(days)));
}

fn write_civil(out: &mut Vec<u8>, Civil { year, month, day }: Civil) {
    if (0..=9999).contains(&year) {
        write_pair(out, year as u32 / 100);
        write_pair(out, year as u32 % 100);
    } else {
        out.push(if year < 0 { b'-' } else { b'+' });
        write_digits(out, year.unsigned_abs(), 4);
    }
    out.push(b'-');
    write_pair(out, month);
    out.push(b'-');
    write_pair(out, day);
}

fn write_clock(out: &mut Vec<u8>, second_of_day: u32) {
    write_pair(out, second_of_day / 3_600);
    out.push(b':');
    write_pair(out, second_of_day / 60 % 60);
    out.push(b':');
    write_pair(out, second_of_day % 60);
}

/// Appends the first `digits` of nine fraction digits, with the point.
fn write_fraction(out: &mut Vec<u8>, nanos: u32, digits: usize) {
    if digits > 0 {
        out.push(b'.');
        let start = out.len();
        write_digits(out, u64::from(nanos), 9);
        out.truncate(start + digits.min(9));
    }
}

/// Number of fraction digits that are needed: none for a whole second.
fn needed_digits(nanos: u32) -> usize {
    let mut digits = 9;
    let mut nanos = nanos;
    while digits > 0 && nanos.is_multiple_of(10) {
        nanos /= 10;
        digits -= 1;
    }
    digits
}

/// Second and nanosecond of the day of a TIME in milliseconds; times out of a day wrap around.
fn split_time(millis: i32) -> (u32, u32) {
    let millis = i64::from(millis).rem_euclid(MILLIS_PER_DAY) as u32;
    (millis / 1_000, millis % 1_000 * 1_000_000)
}

/// Appends `HH:mm:ss` and `digits` fraction digits.
pub fn write_time(out: &mut Vec<u8>, millis: i32, digits: u8) {
    let (second, nanos) = split_time(millis);
    write_clock(out, second);
    write_fraction(out, nanos, usize::from(digits));
}

/// Appends `HH:mm:ss` and the fraction digits that are not trailing zeros, as the JSON and CSV formats do.
pub fn write_time_trimmed(out: &mut Vec<u8>, millis: i32) {
    let (second, nanos) = split_time(millis);
    write_clock(out, second);
    write_fraction(out, nanos, needed_digits(nanos));
}

/// Appends a TIME(`precision`) as CAST does: no fraction for precision 0, else at least one digit and no further
/// trailing zeros.
pub fn write_time_cast(out: &mut Vec<u8>, millis: i32, precision: u8) {
    let (second, nanos) = split_time(millis);
    write_clock(out, second);
    write_fraction(out, nanos, needed_digits(nanos).clamp(1, 3).min(usize::from(precision)));
}

/// Appends a number of units since 1970, and as many digits behind the point as there is more.
fn write_epoch(out: &mut Vec<u8>, value: i64, unit: TimeUnit, epoch: EpochUnit) {
    // In 128 bits: seconds of the far future have no number of nanoseconds in 64.
    let nanos = i128::from(value) * i128::from(1_000_000_000 / unit.per_second());
    let nanos_per_unit = u128::from(1_000_000_000 / epoch.per_second().unsigned_abs());
    if nanos < 0 {
        out.push(b'-');
    }
    let (whole, rest) = (nanos.unsigned_abs() / nanos_per_unit, nanos.unsigned_abs() % nanos_per_unit);
    match u64::try_from(whole) {
        Ok(whole) => write_digits(out, whole, 1),
        Err(_) => out.extend_from_slice(whole.to_string().as_bytes()),
    }
    // In billionths of the unit.
    let fraction = (rest * 1_000_000_000 / nanos_per_unit) as u32;
    write_fraction(out, fraction, needed_digits(fraction));
}

fn write_moment(out: &mut Vec<u8>, value: i64, unit: TimeUnit, separator: u8) -> u32 {
    let per_second = unit.per_second();
    let seconds = value.div_euclid(per_second);
    let nanos = (value.rem_euclid(per_second) * (1_000_000_000 / per_second)) as u32;
    write_civil(out, civil_from_days(seconds.div_euclid(SECONDS_PER_DAY)));
    out.push(separator);
    write_clock(out, seconds.rem_euclid(SECONDS_PER_DAY) as u32);
    nanos
}

/// Appends `yyyy-MM-dd HH:mm:ss` and exactly `digits` fraction digits: the form of CAST for TIMESTAMP(`digits`).
pub fn write_timestamp(out: &mut Vec<u8>, value: i64, unit: TimeUnit, digits: u8) {
    let nanos = write_moment(out, value, unit, b' ');
    write_fraction(out, nanos, usize::from(digits));
}

/// Appends a timestamp without trailing zeros in its fraction: the form of the JSON and CSV formats.
pub fn write_timestamp_trimmed(out: &mut Vec<u8>, value: i64, unit: TimeUnit, style: TimestampStyle) {
    let separator = match style {
        TimestampStyle::Sql => b' ',
        TimestampStyle::Iso => b'T',
        TimestampStyle::Epoch(epoch) => return write_epoch(out, value, unit, epoch),
    };
    let nanos = write_moment(out, value, unit, separator);
    write_fraction(out, nanos, needed_digits(nanos));
}

/// Appends a TIMESTAMP_LTZ in UTC, texts with a `Z`: the form of the JSON and CSV formats.
pub fn write_timestamp_ltz(out: &mut Vec<u8>, value: i64, unit: TimeUnit, style: TimestampStyle) {
    write_timestamp_trimmed(out, value, unit, style);
    if !matches!(style, TimestampStyle::Epoch(_)) {
        out.push(b'Z');
    }
}

/// Appends an INTERVAL YEAR TO MONTH: `+1-02`.
pub fn write_interval_months(out: &mut Vec<u8>, months: i32) {
    out.push(if months < 0 { b'-' } else { b'+' });
    let months = u64::from(months.unsigned_abs());
    write_digits(out, months / 12, 1);
    out.push(b'-');
    write_pair(out, (months % 12) as u32);
}

/// Appends an INTERVAL DAY TO SECOND: `+1 02:03:04.005`.
pub fn write_interval_millis(out: &mut Vec<u8>, millis: i64) {
    out.push(if millis < 0 { b'-' } else { b'+' });
    let millis = millis.unsigned_abs();
    let day = MILLIS_PER_DAY as u64;
    write_digits(out, millis / day, 1);
    out.push(b' ');
    write_clock(out, (millis % day / 1_000) as u32);
    write_fraction(out, (millis % 1_000) as u32 * 1_000_000, 3);
}

/// Reads a number of `min` to `max` digits at the start; gives it and the rest.
fn take_number(text: &[u8], min: usize, max: usize) -> Option<(u64, &[u8])> {
    let len = text.iter().take(max).take_while(|b| b.is_ascii_digit()).count();
    (len >= min).then(|| Some((parse_unsigned(&text[..len])?, &text[len..])))?
}

fn take_byte(text: &[u8], byte: u8) -> Option<&[u8]> {
    text.split_first().filter(|&(&b, _)| b == byte).map(|(_, rest)| rest)
}

/// Year, month, day at the start: months and days of at least `min_digits`; the day may be up to 31.
fn take_civil(text: &[u8], min_digits: usize) -> Option<(Civil, &[u8])> {
    let (sign, rest) = match text.first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    // Only a sign allows for more than four digits, and a plus is there for nothing else.
    let (year, rest) = match text[0] {
        b'-' => take_number(rest, 4, 9)?,
        b'+' => take_number(rest, 5, 9)?,
        _ => take_number(rest, 4, 4)?,
    };
    let (month, rest) = take_number(take_byte(rest, b'-')?, min_digits, 2)?;
    let (day, rest) = take_number(take_byte(rest, b'-')?, min_digits, 2)?;
    let civil = Civil { year: sign * year as i64, month: month as u32, day: day as u32 };
    ((1..=12).contains(&month) && (1..=31).contains(&day)).then_some((civil, rest))
}

/// Second of the day and nanoseconds at the start: `HH:mm:ss[.f…]`; parts of at least `min_digits`.
fn take_clock(text: &[u8], min_digits: usize, seconds_required: bool) -> Option<(i64, u32, &[u8])> {
    let (hour, rest) = take_number(text, min_digits, 2)?;
    let (minute, rest) = take_number(take_byte(rest, b':')?, min_digits, 2)?;
    let (second, nanos, rest) = match take_byte(rest, b':') {
        None if seconds_required => return None,
        None => (0, 0, rest),
        Some(rest) => {
            let (second, rest) = take_number(rest, min_digits, 2)?;
            // Loggers of Python and Java write a comma, as ISO 8601 allows.
            match take_byte(rest, b'.').or_else(|| take_byte(rest, b',')) {
                None => (second, 0, rest),
                Some(rest) => {
                    let len = rest.iter().take(9).take_while(|b| b.is_ascii_digit()).count();
                    let fraction = if len == 0 { 0 } else { parse_unsigned(&rest[..len])? as u32 };
                    (second, fraction * 10u32.pow(9 - len as u32), &rest[len..])
                }
            }
        }
    };
    let total = hour * 3_600 + minute * 60 + second;
    (hour < 24 && minute < 60 && second < 60).then_some((total as i64, nanos, rest))
}

fn valid_days(civil: Civil) -> Option<i64> {
    (civil.day <= days_in_month(civil.year, civil.month)).then(|| days_from_civil(civil.year, civil.month, civil.day))
}

/// Reads `yyyy-MM-dd` and nothing else, also with a signed year.
pub fn parse_date(text: &str) -> Option<i32> {
    let (civil, rest) = take_civil(text.as_bytes(), 2)?;
    if rest.is_empty() { valid_days(civil)?.try_into().ok() } else { None }
}

/// Reads `HH:mm[:ss[.f]]` with an optional `Z` into milliseconds, cutting off further digits.
pub fn parse_time(text: &str) -> Option<i32> {
    let (seconds, nanos, rest) = take_clock(text.as_bytes(), 2, false)?;
    matches!(rest, b"" | b"Z").then_some(seconds as i32 * 1_000 + (nanos / 1_000_000) as i32)
}

/// A number of seconds and nanoseconds cut to `precision` digits, in that precision's unit.
fn assemble(seconds: i64, nanos: u32, precision: u8) -> Option<i64> {
    let nanos = nanos - nanos % 10u32.pow(9 - u32::from(precision.min(9)));
    let per_second = unit_of_precision(precision).per_second();
    let fraction = i64::from(nanos) / (1_000_000_000 / per_second);
    // In 128 bits because the whole seconds of the earliest timestamps alone would not fit.
    i64::try_from(i128::from(seconds) * i128::from(per_second) + i128::from(fraction)).ok()
}

/// The parts of a timestamp with a date and `T` or a space before the time: seconds, nanoseconds, and what stands behind them, without
/// spaces.
fn take_timestamp(text: &[u8]) -> Option<(i64, u32, &[u8])> {
    let (civil, rest) = take_civil(text, 2)?;
    let (separator, rest) = rest.split_first()?;
    if !matches!(separator, b' ' | b'T' | b't') {
        return None;
    }
    let (seconds, nanos, rest) = take_clock(rest, 2, false)?;
    Some((valid_days(civil)? * SECONDS_PER_DAY + seconds, nanos, rest.trim_ascii()))
}

/// Reads the forms of the JSON and CSV formats: `yyyy-MM-dd`, a space or `T`, `HH:mm[:ss]`, 0 to 9 fraction digits of which those beyond
/// `precision` are cut off; or a date alone, which is its midnight. The result is in the unit of the precision.
pub fn parse_timestamp(text: &str, precision: u8) -> Option<i64> {
    match take_timestamp(text.as_bytes()) {
        Some((seconds, nanos, b"")) => assemble(seconds, nanos, precision),
        Some(_) => None,
        None => assemble(i64::from(parse_date(text)?) * SECONDS_PER_DAY, 0, precision),
    }
}

/// As [`parse_timestamp`] with a time and a zone: `Z`, `UTC`, an offset such as `+02:00`, `+0200` or `+02`, or the name of a zone; also
/// both, as Java writes it (`+01:00[Europe/Berlin]`).
pub fn parse_timestamp_ltz(text: &str, precision: u8) -> Option<i64> {
    let (seconds, nanos, zone) = take_timestamp(text.as_bytes())?;
    assemble(utc_seconds(seconds, zone)?, nanos, precision)
}

/// What a local time is in UTC; `None` when the text is no zone.
fn utc_seconds(local: i64, zone: &[u8]) -> Option<i64> {
    if matches!(zone, b"Z" | b"z") {
        return Some(local);
    }
    let text = std::str::from_utf8(zone).ok()?;
    if matches!(zone.first()?, b'+' | b'-') {
        // The name only says where the offset comes from.
        let offset = text.split_once('[').filter(|_| text.ends_with(']')).map_or(text, |(offset, _)| offset);
        return Some(local - i64::from(super::zone::parse_offset(offset)?));
    }
    Some(Zone::parse(text)?.local_to_utc_seconds(local))
}

/// Reads a number of units since 1970-01-01 00:00:00, with or without a fraction, into the unit of the precision; what is smaller is cut
/// off.
pub fn parse_epoch(text: &str, epoch: EpochUnit, precision: u8) -> Option<i64> {
    // Billionths of a unit.
    let number = parse_decimal(text, 38, 9)?;
    let nanos = (number * i128::from(1_000_000_000 / epoch.per_second())).div_euclid(1_000_000_000);
    assemble(i64::try_from(nanos.div_euclid(1_000_000_000)).ok()?, nanos.rem_euclid(1_000_000_000) as u32, precision)
}

/// A part of a date or time as CAST reads it: digits with spaces around them.
fn padded_number(text: &str) -> Option<i64> {
    i64::try_from(parse_unsigned(text.trim().as_bytes())?).ok().filter(|&n| n < 1_000_000_000)
}

/// Reads a DATE as CAST does: year, year-month or year-month-day, with or without leading zeros; anything after a
/// space is ignored; years 0 to 9999.
pub fn cast_date(text: &str) -> Option<i32> {
    let date = match text.find(' ') {
        Some(space) if space > 0 => &text[..space],
        _ => text,
    };
    let mut parts = date.splitn(3, '-');
    let year = padded_number(parts.next()?)?;
    let month = parts.next().map_or(Some(1), padded_number)?;
    let day = parts.next().map_or(Some(1), padded_number)?;
    if !(0..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    valid_days(Civil { year, month: month as u32, day: day as u32 })?.try_into().ok()
}

/// Reads a TIME as CAST does: `H`, `H:m` or `H:m:s[.fff]`, milliseconds rounded by the fourth digit. Hours, minutes and
/// seconds are checked, so that no TIME lies outside of a day.
pub fn cast_time(text: &str) -> Option<i32> {
    let mut parts = text.splitn(3, ':');
    let hour = padded_number(parts.next()?)?;
    let minute = parts.next().map_or(Some(0), padded_number)?;
    let (second, millis) = match parts.next() {
        None => (0, 0),
        Some(seconds) => match seconds.split_once('.') {
            None => (padded_number(seconds)?, 0),
            Some((second, fraction)) => (padded_number(second)?, rounded_millis(fraction.trim())?),
        },
    };
    (hour < 24 && minute < 60 && second < 60)
        .then(|| ((hour * 3_600 + minute * 60 + second) * 1_000 + millis).min(MILLIS_PER_DAY - 1) as i32)
}

fn rounded_millis(fraction: &str) -> Option<i64> {
    let bytes = fraction.as_bytes();
    if !bytes.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digit = |i: usize| bytes.get(i).map_or(0, |b| i64::from(b - b'0'));
    Some(digit(0) * 100 + digit(1) * 10 + digit(2) + i64::from(digit(3) >= 5))
}

/// Reads a timestamp as CAST and `TO_TIMESTAMP(s)` do: `yyyy-M-d[ H:m:s[.f]]` with one or two digits a part and at
/// most nine in the fraction, of which those beyond `precision` are cut off; a day past the end of its month becomes
/// the last; years start at 1. With a zone the text is local time there and the result is in UTC (TIMESTAMP_LTZ).
pub fn cast_timestamp(text: &str, precision: u8, zone: Option<Zone>) -> Option<i64> {
    let (civil, rest) = take_civil(text.as_bytes(), 1)?;
    // Only data formats take a comma before the fraction.
    if civil.year < 1 || rest.contains(&b',') {
        return None;
    }
    let day = civil.day.min(days_in_month(civil.year, civil.month));
    let midnight = days_from_civil(civil.year, civil.month, day) * SECONDS_PER_DAY;
    let (seconds, nanos) = if rest.is_empty() {
        (midnight, 0)
    } else {
        let rest = take_byte(rest, b' ')?;
        match take_clock(rest, 1, true) {
            Some((seconds, nanos, b"")) => (midnight + seconds, nanos),
            None if rest == b"24:00:00" => (midnight + SECONDS_PER_DAY, 0),
            _ => return None,
        }
    };
    assemble(zone.map_or(seconds, |zone| zone.local_to_utc_seconds(seconds)), nanos, precision)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    /// 2023-11-14 23:59:21.552
    const MOMENT: i64 = 1_700_006_361_552;

    #[test]
    fn dates_round_trip() {
        for days in [0, -1, 19_675, -719_528, -719_529, 2_932_896, 2_932_897, i32::MAX, i32::MIN] {
            let written = text(|out| write_date(out, days));
            assert_eq!(parse_date(&written), Some(days), "{written}");
        }
        assert_eq!(text(|out| write_date(out, 19_675)), "2023-11-14");
        assert_eq!(text(|out| write_date(out, 2_932_897)), "+10000-01-01");
        for bad in ["2023-02-29", "2023-13-01", "2023-1-1", "2023-01-01x", "23-01-01", "12023-01-01", ""] {
            assert_eq!(parse_date(bad), None, "{bad}");
        }
    }

    #[test]
    fn timestamps_are_written_in_each_form() {
        let sql = |digits| text(|out| write_timestamp(out, MOMENT, TimeUnit::Milli, digits));
        assert_eq!(sql(3), "2023-11-14 23:59:21.552");
        assert_eq!(sql(0), "2023-11-14 23:59:21");
        assert_eq!(sql(6), "2023-11-14 23:59:21.552000");
        let trimmed = |value, unit, style| text(|out| write_timestamp_trimmed(out, value, unit, style));
        assert_eq!(trimmed(MOMENT, TimeUnit::Milli, TimestampStyle::Iso), "2023-11-14T23:59:21.552");
        assert_eq!(trimmed(0, TimeUnit::Nano, TimestampStyle::Sql), "1970-01-01 00:00:00");
        assert_eq!(trimmed(-1, TimeUnit::Nano, TimestampStyle::Sql), "1969-12-31 23:59:59.999999999");
        assert_eq!(trimmed(120_000, TimeUnit::Micro, TimestampStyle::Sql), "1970-01-01 00:00:00.12");
        assert_eq!(
            text(|out| write_timestamp_ltz(out, MOMENT, TimeUnit::Milli, TimestampStyle::Sql)),
            "2023-11-14 23:59:21.552Z"
        );
    }

    #[test]
    fn timestamps_are_read_in_each_form() {
        for form in [
            "2023-11-14 23:59:21.552",
            "2023-11-14T23:59:21.552",
            "2023-11-14t23:59:21,5529",
            "2023-11-14 23:59:21.552999999",
        ] {
            assert_eq!(parse_timestamp(form, 3), Some(MOMENT), "{form}");
            assert_eq!(parse_timestamp_ltz(form, 3), None, "{form}");
        }
        assert_eq!(parse_timestamp("2023-11-14 23:59:21.552", 0), Some(MOMENT - 552));
        assert_eq!(parse_timestamp("2023-11-14 23:59:21.552", 6), Some(MOMENT * 1_000));
        assert_eq!(parse_timestamp("2023-11-14T23:59", 3), Some(MOMENT - 21_552));
        assert_eq!(parse_timestamp("2023-11-14", 3), Some(19_675 * MILLIS_PER_DAY));
        for bad in [
            "2023-11-14 24:00:00",
            "2023-02-29 00:00:00",
            "2023-11-14 23:59:21x",
            "2023-11-14_23:59:21",
            "2023-11-14 ",
            "",
            "1700006361",
        ] {
            assert_eq!(parse_timestamp(bad, 3), None, "{bad}");
        }
        assert_eq!(parse_timestamp("9999-01-01 00:00:00", 9), None);
        for zoned in [
            "2023-11-14 23:59:21.552Z",
            "2023-11-14T23:59:21.552z",
            "2023-11-14 23:59:21.552 UTC",
            "2023-11-15T01:59:21.552+02:00",
            "2023-11-15 01:59:21,552 +0200",
            "2023-11-14T18:59:21.552-05",
            "2023-11-15T00:59:21.552 Europe/Berlin",
            "2023-11-15T00:59:21.552+01:00[Europe/Berlin]",
        ] {
            assert_eq!(parse_timestamp_ltz(zoned, 3), Some(MOMENT), "{zoned}");
            assert_eq!(parse_timestamp(zoned, 3), None, "{zoned}");
        }
        for bad in
            ["2023-11-14 23:59:21+99", "2023-11-14 23:59:21 Mars", "2023-11-14Z", "2023-11-14 23:59:21+01:00[Europe"]
        {
            assert_eq!(parse_timestamp_ltz(bad, 3), None, "{bad}");
        }
    }

    #[test]
    fn epochs_are_read_and_written() {
        use EpochUnit::*;
        for (unit, form) in [
            (Second, "1700006361.552"),
            (Milli, "1700006361552"),
            (Micro, "1700006361552000"),
            (Nano, "1700006361552000000"),
        ] {
            assert_eq!(parse_epoch(form, unit, 3), Some(MOMENT), "{form}");
            let style = TimestampStyle::Epoch(unit);
            assert_eq!(text(|out| write_timestamp_ltz(out, MOMENT, TimeUnit::Milli, style)), form);
            assert_eq!(EpochUnit::likely(form.split('.').next().unwrap().parse().unwrap()), unit);
        }
        assert_eq!(parse_epoch("-0.5", Second, 3), Some(-500));
        assert_eq!(parse_epoch("-0.0005", Second, 3), Some(-1));
        assert_eq!(parse_epoch("1.7e9", Second, 3), Some(1_700_000_000_000));
        assert_eq!(parse_epoch("1700006361552.9", Milli, 3), Some(MOMENT));
        assert_eq!(parse_epoch("9223372036854775807", Second, 3), None);
        assert_eq!(parse_epoch("99999999999999999999999999999", Nano, 9), None);
        assert_eq!(parse_epoch("now", Second, 3), None);
        let written =
            |value, unit, epoch| text(|out| write_timestamp_trimmed(out, value, unit, TimestampStyle::Epoch(epoch)));
        assert_eq!(written(-1, TimeUnit::Milli, Second), "-0.001");
        assert_eq!(written(1_500, TimeUnit::Micro, Milli), "1.5");
        assert_eq!(written(i64::MAX, TimeUnit::Milli, Nano), "9223372036854775807000000");
    }

    #[test]
    fn casts_are_lax_as_in_flink() {
        assert_eq!(cast_date("2017-12-12 09:30:00.0"), parse_date("2017-12-12"));
        assert_eq!(cast_date("2017-1-2"), parse_date("2017-01-02"));
        assert_eq!(cast_date("2017"), parse_date("2017-01-01"));
        assert_eq!(cast_date("2017-02-29"), None);
        assert_eq!(cast_date("Flink"), None);
        assert_eq!(cast_time("12:34:56.1235"), Some(45_296_124));
        assert_eq!(cast_time("23:59:59.9999"), Some(86_399_999));
        assert_eq!(cast_time("7"), Some(25_200_000));
        assert_eq!(cast_time("25:00:00"), None);
        assert_eq!(cast_timestamp("2023-11-14", 3, None), Some(19_675 * MILLIS_PER_DAY));
        assert_eq!(cast_timestamp("2023-11-14 3:4:5.6", 3, None), Some(19_675 * MILLIS_PER_DAY + 11_045_600));
        assert_eq!(cast_timestamp("2023-02-31", 3, None), cast_timestamp("2023-02-28", 3, None));
        assert_eq!(cast_timestamp("2023-11-14 24:00:00", 3, None), cast_timestamp("2023-11-15", 3, None));
        for bad in ["2023-11-14T03:04:05", "2023-11-14 03:04:05Z", "2023-11-14 03:04:05,5"] {
            assert_eq!(cast_timestamp(bad, 3, None), None, "{bad}");
        }
        assert_eq!(cast_timestamp("0000-01-01", 3, None), None);
        let tokyo = Zone::parse("Asia/Tokyo");
        assert_eq!(cast_timestamp("1970-01-01 09:00:00", 3, tokyo), Some(0));
    }

    #[test]
    fn times_and_intervals_are_written() {
        assert_eq!(text(|out| write_time(out, 45_296_120, 3)), "12:34:56.120");
        assert_eq!(text(|out| write_time_trimmed(out, 45_296_120)), "12:34:56.12");
        assert_eq!(text(|out| write_time_cast(out, 45_296_000, 3)), "12:34:56.0");
        assert_eq!(text(|out| write_time_cast(out, 45_296_120, 0)), "12:34:56");
        assert_eq!(parse_time("12:34:56.12"), Some(45_296_120));
        assert_eq!(text(|out| write_interval_months(out, 14)), "+1-02");
        assert_eq!(text(|out| write_interval_months(out, i32::MIN)), "-178956970-08");
        assert_eq!(text(|out| write_interval_millis(out, 93_784_005)), "+1 02:03:04.005");
        assert_eq!(text(|out| write_interval_millis(out, -1)), "-0 00:00:00.001");
    }

    #[test]
    fn timestamps_round_trip() {
        let mut seed = 1u64;
        for _ in 0..5_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            for (unit, precision) in [(TimeUnit::Milli, 3), (TimeUnit::Micro, 6), (TimeUnit::Nano, 9)] {
                // Shifts keep milliseconds within the years that dates can hold.
                let value = seed as i64 >> if precision == 3 { 10 } else { 0 };
                for style in [TimestampStyle::Sql, TimestampStyle::Iso] {
                    let written = text(|out| write_timestamp_trimmed(out, value, unit, style));
                    assert_eq!(parse_timestamp(&written, precision), Some(value), "{written}");
                }
            }
        }
    }
}
