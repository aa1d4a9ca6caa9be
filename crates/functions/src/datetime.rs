//! Date and time functions.
//!
//! Constants among the arguments: `p` is the precision of the TIMESTAMP argument, as I32 (it says the unit); `unit` is
//! `millstream_types::text::calendar::DateTimeUnit::code()`, as I32. A TIMESTAMP_LTZ argument is first turned to local
//! time by `LtzToTimestamp(x, p)` (a cast to TIMESTAMP(p)), unless said otherwise, and a result is turned back by
//! `TimestampToLtz(x, p)`.
//!
//! | SQL | runtime function |
//! | --- | --- |
//! | `DATE_FORMAT(timestamp, format)` | `DateFormat(x, p, format)` |
//! | `DATE_FORMAT(string, format)` | `DateFormatStr(s, format)` |
//! | `TO_DATE(s)`, `TO_DATE(s, format)` | `ToDate(s)`, `ToDateFormat(s, format)` |
//! | `TO_TIMESTAMP(s)`, `TO_TIMESTAMP(s, format)` → TIMESTAMP(3) | `ToTimestamp(s)`, `ToTimestampFormat(s, format)` |
//! | `TO_TIMESTAMP_LTZ(integer, precision)` → LTZ(3); precision 0 or 3, default 3 | `ToTimestampLtzInt(x, precision)` |
//! | `TO_TIMESTAMP_LTZ(double, precision)` → LTZ(3) | `ToTimestampLtzDouble(x, precision)` |
//! | `TO_TIMESTAMP_LTZ(decimal(p0, s0), precision)` → LTZ(3) | `ToTimestampLtzDecimal(x, s0, precision)` |
//! | `TO_TIMESTAMP_LTZ(s[, format[, zone]])` → LTZ(3) | `ToTimestampLtzStr(s, format, zone)`; defaults `'yyyy-MM-dd HH:mm:ss.SSS'`, `'UTC'` |
//! | `FROM_UNIXTIME(bigint)`, `FROM_UNIXTIME(bigint, format)` | `FromUnixtime(x)`, `FromUnixtimeFormat(x, format)` |
//! | `UNIX_TIMESTAMP()`, `UNIX_TIMESTAMP(s)`, `UNIX_TIMESTAMP(s, format)` | `UnixTimestampNow()`, `UnixTimestamp(s)`, `UnixTimestampFormat(s, format)` |
//! | `CONVERT_TZ(s, from, to)` | `ConvertTz(s, from, to)` |
//! | `EXTRACT(unit FROM x)`, `YEAR(x)` …, → BIGINT | `ExtractDate(x, unit)`, `ExtractTime(x, unit)`, `ExtractTimestamp(x, p, unit)` |
//! | `DAYOFWEEK(x)` (Sunday is 1), `WEEK(x)` (ISO), `DAYOFYEAR(x)` | as EXTRACT of DOW, WEEK, DOY |
//! | `FLOOR(x TO unit)`, `CEIL(x TO unit)` | `FloorDate(x, unit)`, `FloorTime(x, unit)`, `FloorTimestamp(x, p, unit)`; `CeilDate`, `CeilTime`, `CeilTimestamp` |
//! | DATE + INTERVAL YEAR TO MONTH | `AddMonthsDate(x, months)` |
//! | TIMESTAMP + INTERVAL YEAR TO MONTH; also LTZ, in UTC without conversion, as Flink does | `AddMonthsTimestamp(x, p, months)` |
//! | DATE + INTERVAL DAY TO SECOND → DATE | inline: days + interval / 86,400,000 |
//! | TIMESTAMP or LTZ + INTERVAL DAY TO SECOND | inline: x + interval · units per millisecond |
//! | TIME + INTERVAL DAY TO SECOND | `AddMillisTime(x, interval)` (wraps around midnight) |
//! | `TIMESTAMPADD(unit, n, x)` | n · unit as an interval (WEEK is 7 days, QUARTER 3 months), then as above |
//! | `TIMESTAMPDIFF(unit, a, b)` → INT, both of the same precision | `TimestampDiff(a, b, p, unit)`; DATE operands are cast to TIMESTAMP(0) |
//! | `CURRENT_TIMESTAMP`, `NOW()`, `CURRENT_ROW_TIMESTAMP()` → LTZ(3) | `CurrentTimestamp()` |
//! | `LOCALTIMESTAMP` → TIMESTAMP(3), `LOCALTIME`/`CURRENT_TIME` → TIME(0), `CURRENT_DATE` | `LocalTimestamp()`, `LocalTime()`, `CurrentDate()` |
//!
//! The clock is read for each row, as Flink does in streaming mode.

use crate::cache::Caches;
use crate::casts::{SHOWN, session_zone, shorten, small, unit};
use crate::context::{Failure, FunctionContext};
use crate::date_pattern::{DatePattern, Dialect, Moment};
use crate::text::Text;
use millstream_abi::Str;
use millstream_types::TimeUnit;
use millstream_types::text::calendar::{
    Civil, DateTimeUnit, MILLIS_PER_DAY, SECONDS_PER_DAY, add_months, civil_from_days, day_of_year, days_from_civil,
    iso_week, months_between, weekday,
};
use millstream_types::text::{cast_date, cast_timestamp, zone::Zone};
use std::time::{SystemTime, UNIX_EPOCH};

/// Format of text that names no other.
const DEFAULT_FORMAT: &str = "yyyy-MM-dd HH:mm:ss";
/// Flink's TO_TIMESTAMP_LTZ gives NULL out of the years 0 to 9999.
pub const LTZ_MILLIS: std::ops::RangeInclusive<i64> = -62_167_219_200_000..=253_402_300_799_999;

/// The compiled pattern; a pattern that is wrong fails the row.
#[inline]
fn pattern<'c>(caches: &'c mut Caches, text: Text<'_>, dialect: Dialect) -> Result<&'c mut DatePattern, Failure> {
    let cache = match dialect {
        Dialect::Formatter => &mut caches.formatters,
        Dialect::Simple => &mut caches.simple_formats,
    };
    match cache.get(text, |text| DatePattern::compile(text, dialect)) {
        Ok(pattern) => Ok(pattern),
        Err(message) => Err(Failure::argument(&**message)),
    }
}

/// Milliseconds of a moment read by a simple pattern, in the text's zone or else in `zone`.
fn read_simple(context: &mut FunctionContext, s: &str, format: Text<'_>, zone: Zone) -> Result<Option<i64>, Failure> {
    let current_year = civil_from_days(context.settings().query_start_ms.div_euclid(MILLIS_PER_DAY)).year;
    let parsed = pattern(&mut context.caches, format, Dialect::Simple)?.parse(s, current_year);
    Ok(parsed.map(|parsed| {
        let seconds = parsed.zone.unwrap_or(zone).local_to_utc_seconds(parsed.local_seconds);
        seconds.saturating_mul(1_000).saturating_add(i64::from(parsed.nanos) / 1_000_000)
    }))
}

/// Moment of milliseconds since the epoch, as local time of a zone.
fn local_moment(millis: i64, zone: Zone) -> Moment {
    let local_seconds = zone.utc_to_local_seconds(millis.div_euclid(1_000));
    Moment { local_seconds, nanos: millis.rem_euclid(1_000) as u32 * 1_000_000, zone }
}

/// `DATE_FORMAT(timestamp, format)`
#[inline]
pub(crate) fn date_format(
    context: &mut FunctionContext,
    value: i64,
    precision: i32,
    format: Text<'_>,
) -> Result<Str, Failure> {
    let pattern = pattern(&mut context.caches, format, Dialect::Formatter)?;
    if pattern.template.is_none()
        && let Some(what) = pattern.unwritable()
    {
        let message =
            format!("the pattern '{}' has {what}, which a time without a zone has not", shorten(&format, SHOWN));
        return Err(Failure::argument(message));
    }
    // Divisions by constants are a fraction of the price of others.
    let (local_seconds, nanos) = match unit(precision) {
        TimeUnit::Milli => (value.div_euclid(1_000), value.rem_euclid(1_000) * 1_000_000),
        TimeUnit::Micro => (value.div_euclid(1_000_000), value.rem_euclid(1_000_000) * 1_000),
        unit => (
            value.div_euclid(unit.per_second()),
            value.rem_euclid(unit.per_second()) * (1_000_000_000 / unit.per_second()),
        ),
    };
    Ok(pattern.format(&mut context.arena, Moment { local_seconds, nanos: nanos as u32, zone: Zone::UTC }))
}

/// `DATE_FORMAT(string, format)`: the string as `yyyy-MM-dd HH:mm:ss`; NULL when it is not.
pub(crate) fn date_format_str(
    context: &mut FunctionContext,
    s: &str,
    format: Text<'_>,
) -> Result<Option<Str>, Failure> {
    let Some(millis) = read_simple(context, s, DEFAULT_FORMAT.into(), Zone::UTC)? else { return Ok(None) };
    let pattern = pattern(&mut context.caches, format, Dialect::Simple)?;
    Ok(Some(pattern.format(&mut context.arena, local_moment(millis, Zone::UTC))))
}

/// `TO_DATE(s)`: NULL when it is not a date.
pub(crate) fn to_date(s: &str) -> Option<i32> {
    cast_date(s)
}

/// `TO_DATE(s, format)`: NULL when it does not have the format.
pub(crate) fn to_date_format(context: &mut FunctionContext, s: &str, format: Text<'_>) -> Result<Option<i32>, Failure> {
    let millis = read_simple(context, s, format, Zone::UTC)?;
    Ok(millis.and_then(|millis| i32::try_from(millis.div_euclid(MILLIS_PER_DAY)).ok()))
}

/// `TO_TIMESTAMP(s)`: NULL when it is not a timestamp.
pub(crate) fn to_timestamp(s: &str) -> Option<i64> {
    cast_timestamp(s, 3, None)
}

/// `TO_TIMESTAMP(s, format)`: NULL when it has neither the format nor the default one.
pub(crate) fn to_timestamp_format(
    context: &mut FunctionContext,
    s: &str,
    format: Text<'_>,
) -> Result<Option<i64>, Failure> {
    let parsed = pattern(&mut context.caches, format, Dialect::Formatter)?.parse(s, 0);
    Ok(match parsed {
        Some(parsed) => parsed
            .local_seconds
            .checked_mul(1_000)
            .and_then(|millis| millis.checked_add(i64::from(parsed.nanos) / 1_000_000)),
        None => cast_timestamp(s.trim(), 3, None),
    })
}

fn ltz(millis: Option<i64>, precision: i32) -> Result<Option<i64>, Failure> {
    if precision != 0 && precision != 3 {
        return Err(Failure::argument(format!(
            "TO_TIMESTAMP_LTZ takes the precision 0 (seconds) or 3 (milliseconds), not {precision}"
        )));
    }
    Ok(millis.filter(|millis| LTZ_MILLIS.contains(millis)))
}

/// `TO_TIMESTAMP_LTZ(integer, precision)`: NULL out of the years 0 to 9999.
pub(crate) fn to_timestamp_ltz_int(x: i64, precision: i32) -> Result<Option<i64>, Failure> {
    ltz(if precision == 0 { x.checked_mul(1_000) } else { Some(x) }, precision)
}

/// `TO_TIMESTAMP_LTZ(double, precision)`
pub(crate) fn to_timestamp_ltz_double(x: f64, precision: i32) -> Result<Option<i64>, Failure> {
    ltz(Some((if precision == 0 { x * 1_000.0 } else { x }) as i64), precision)
}

/// `TO_TIMESTAMP_LTZ(decimal, precision)`: what is after the point is cut off.
pub(crate) fn to_timestamp_ltz_decimal(x: i128, scale: i32, precision: i32) -> Result<Option<i64>, Failure> {
    let whole = x / millstream_types::text::POWERS_OF_TEN[usize::from(small(scale))];
    match i64::try_from(whole) {
        Ok(whole) => to_timestamp_ltz_int(whole, precision),
        Err(_) => ltz(None, precision),
    }
}

/// `TO_TIMESTAMP_LTZ(s, format, zone)`: NULL when it has neither the format nor the default one.
pub(crate) fn to_timestamp_ltz_str(
    context: &mut FunctionContext,
    s: &str,
    format: Text<'_>,
    zone: &str,
) -> Result<Option<i64>, Failure> {
    let zone = known_zone(zone)?;
    let local = to_timestamp_format(context, s, format)?;
    Ok(local.map(|local| zone.local_to_utc(local, TimeUnit::Milli)))
}

fn known_zone(name: &str) -> Result<Zone, Failure> {
    Zone::parse(name).ok_or_else(|| Failure::argument(format!("'{}' is not a known time zone", shorten(name, SHOWN))))
}

/// `FROM_UNIXTIME(seconds)`
pub(crate) fn from_unixtime(context: &mut FunctionContext, seconds: i64) -> Result<Str, Failure> {
    from_unixtime_format(context, seconds, DEFAULT_FORMAT.into())
}

/// `FROM_UNIXTIME(seconds, format)`, in the session's zone.
pub(crate) fn from_unixtime_format(
    context: &mut FunctionContext,
    seconds: i64,
    format: Text<'_>,
) -> Result<Str, Failure> {
    let moment = local_moment(seconds.saturating_mul(1_000), session_zone(context));
    Ok(pattern(&mut context.caches, format, Dialect::Simple)?.format(&mut context.arena, moment))
}

/// `UNIX_TIMESTAMP()`
pub(crate) fn unix_timestamp_now() -> i64 {
    current_timestamp().div_euclid(1_000)
}

/// `UNIX_TIMESTAMP(s)`
pub(crate) fn unix_timestamp(context: &mut FunctionContext, s: &str) -> Result<i64, Failure> {
    unix_timestamp_format(context, s, DEFAULT_FORMAT.into())
}

/// `UNIX_TIMESTAMP(s, format)`, in the session's zone unless the text names one; the least BIGINT when the text does
/// not have the format, as Flink documents.
pub(crate) fn unix_timestamp_format(context: &mut FunctionContext, s: &str, format: Text<'_>) -> Result<i64, Failure> {
    let zone = session_zone(context);
    Ok(read_simple(context, s, format, zone)?.map_or(i64::MIN, |millis| millis / 1_000))
}

/// `CONVERT_TZ(s, from, to)`: NULL when the text is not a timestamp. Unknown zones are bad (Flink takes them for UTC,
/// which hides the mistake).
pub(crate) fn convert_tz(context: &mut FunctionContext, s: &str, from: &str, to: &str) -> Result<Option<Str>, Failure> {
    let (from, to) = (known_zone(from)?, known_zone(to)?);
    let Some(millis) = read_simple(context, s, DEFAULT_FORMAT.into(), from)? else { return Ok(None) };
    let pattern = pattern(&mut context.caches, DEFAULT_FORMAT.into(), Dialect::Simple)?;
    Ok(Some(pattern.format(&mut context.arena, local_moment(millis, to))))
}

fn unit_of(code: i32) -> Result<DateTimeUnit, Failure> {
    DateTimeUnit::from_code(code).ok_or_else(|| Failure::argument(format!("{code} is not a unit of time")))
}

fn extract_day(days: i64, unit: DateTimeUnit) -> i64 {
    let Civil { year, month, day } = civil_from_days(days);
    match unit {
        DateTimeUnit::Millennium => ordinal_of(year, 1_000),
        DateTimeUnit::Century => ordinal_of(year, 100),
        DateTimeUnit::Decade => year / 10,
        DateTimeUnit::Year => year,
        DateTimeUnit::IsoYear => iso_week(days).0,
        DateTimeUnit::Quarter => i64::from(month + 2) / 3,
        DateTimeUnit::Month => i64::from(month),
        DateTimeUnit::Week => iso_week(days).1,
        DateTimeUnit::Day => i64::from(day),
        DateTimeUnit::DayOfWeek => (weekday(days) + 1) % 7 + 1,
        DateTimeUnit::IsoDayOfWeek => weekday(days) + 1,
        DateTimeUnit::DayOfYear => day_of_year(days),
        DateTimeUnit::Epoch => days * SECONDS_PER_DAY,
        _ => 0,
    }
}

/// Number of the century or millennium that a year is in: 2000 is in the 20th century, 2001 in the 21st.
fn ordinal_of(year: i64, length: i64) -> i64 {
    if year > 0 { (year + length - 1) / length } else { (year - length + 1) / length }
}

fn extract_clock(nano_of_day: i64, unit: DateTimeUnit) -> i64 {
    match unit {
        DateTimeUnit::Hour => nano_of_day / 3_600_000_000_000,
        DateTimeUnit::Minute => nano_of_day / 60_000_000_000 % 60,
        DateTimeUnit::Second => nano_of_day / 1_000_000_000 % 60,
        DateTimeUnit::Millisecond => nano_of_day / 1_000_000 % 1_000,
        DateTimeUnit::Microsecond => nano_of_day / 1_000 % 1_000_000,
        DateTimeUnit::Nanosecond => nano_of_day % 1_000_000_000,
        _ => 0,
    }
}

/// `EXTRACT(unit FROM date)`; 0 for parts of a day.
pub(crate) fn extract_date(days: i32, unit: i32) -> Result<i64, Failure> {
    Ok(extract_day(i64::from(days), unit_of(unit)?))
}

/// `EXTRACT(unit FROM time)`; 0 for units of days and more, seconds of the day for EPOCH.
pub(crate) fn extract_time(millis: i32, unit: i32) -> Result<i64, Failure> {
    let millis = i64::from(millis).rem_euclid(MILLIS_PER_DAY);
    Ok(match unit_of(unit)? {
        DateTimeUnit::Epoch => millis / 1_000,
        unit => extract_clock(millis * 1_000_000, unit),
    })
}

/// `EXTRACT(unit FROM timestamp)`. EPOCH counts local seconds, which for a TIMESTAMP_LTZ in local time is what Flink
/// does.
pub(crate) fn extract_timestamp(value: i64, precision: i32, code: i32) -> Result<i64, Failure> {
    let per_second = unit(precision).per_second();
    let per_day = per_second * SECONDS_PER_DAY;
    Ok(match unit_of(code)? {
        DateTimeUnit::Epoch => value.div_euclid(per_second),
        clock if clock.code() >= DateTimeUnit::Hour.code() && clock.code() <= DateTimeUnit::Nanosecond.code() => {
            extract_clock(value.rem_euclid(per_day) * (1_000_000_000 / per_second), clock)
        }
        unit => extract_day(day_of(value, self::unit(precision)), unit),
    })
}

/// The day of a timestamp. Divisions by constants are a fraction of the price of others.
#[inline]
fn day_of(value: i64, unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Milli => value.div_euclid(SECONDS_PER_DAY * 1_000),
        TimeUnit::Micro => value.div_euclid(SECONDS_PER_DAY * 1_000_000),
        TimeUnit::Nano => value.div_euclid(SECONDS_PER_DAY * 1_000_000_000),
    }
}

/// First day of the unit that a day is in; weeks start on Sunday, centuries and millennia in year 1, as in Flink.
fn floor_day(days: i64, unit: DateTimeUnit) -> i64 {
    let Civil { year, month, .. } = civil_from_days(days);
    match unit {
        DateTimeUnit::Millennium => days_from_civil((year - 1).div_euclid(1_000) * 1_000 + 1, 1, 1),
        DateTimeUnit::Century => days_from_civil((year - 1).div_euclid(100) * 100 + 1, 1, 1),
        DateTimeUnit::Decade => days_from_civil(year.div_euclid(10) * 10, 1, 1),
        DateTimeUnit::Year => days_from_civil(year, 1, 1),
        DateTimeUnit::Quarter => days_from_civil(year, (month - 1) / 3 * 3 + 1, 1),
        DateTimeUnit::Month => days_from_civil(year, month, 1),
        DateTimeUnit::Week => days - (weekday(days) + 1) % 7,
        _ => days,
    }
}

/// First day of a unit that is not before the day.
fn ceil_day(days: i64, unit: DateTimeUnit) -> i64 {
    let floor = floor_day(days, unit);
    match unit {
        _ if floor == days => days,
        DateTimeUnit::Week => floor + 7,
        unit => unit.months().map_or(days, |months| add_months(floor, months)),
    }
}

/// `FLOOR(date TO unit)`
pub(crate) fn floor_date(days: i32, unit: i32) -> Result<i32, Failure> {
    Ok(floor_day(i64::from(days), unit_of(unit)?) as i32)
}

/// `CEIL(date TO unit)`
pub(crate) fn ceil_date(days: i32, unit: i32) -> Result<i32, Failure> {
    Ok(ceil_day(i64::from(days), unit_of(unit)?) as i32)
}

/// `FLOOR(time TO unit)`
pub(crate) fn floor_time(millis: i32, unit: i32) -> Result<i32, Failure> {
    let step = unit_of(unit)?.millis().unwrap_or(1).min(MILLIS_PER_DAY) as i32;
    Ok(millis - millis.rem_euclid(step))
}

/// `CEIL(time TO unit)`; wraps around midnight.
pub(crate) fn ceil_time(millis: i32, unit: i32) -> Result<i32, Failure> {
    let step = unit_of(unit)?.millis().unwrap_or(1).min(MILLIS_PER_DAY);
    let up = (i64::from(millis) + step - 1).div_euclid(step) * step;
    Ok(up.rem_euclid(MILLIS_PER_DAY) as i32)
}

/// What a timestamp that counts `per_second` in a second counts in a unit of time no longer than a day; 1 where the unit is finer
/// than the timestamp. `None` of units whose length differs, and of weeks, which do not begin where time does.
pub fn fixed_step(unit: DateTimeUnit, per_second: i64) -> Option<i64> {
    match unit {
        DateTimeUnit::Microsecond => Some((per_second / 1_000_000).max(1)),
        DateTimeUnit::Nanosecond => Some(1),
        DateTimeUnit::Week => None,
        unit => unit.millis().map(|millis| millis * (per_second / 1_000)),
    }
}

/// `FLOOR(timestamp TO unit)`
pub(crate) fn floor_timestamp(value: i64, precision: i32, code: i32) -> Result<Option<i64>, Failure> {
    let (target, per_second) = (unit_of(code)?, unit(precision).per_second());
    if let Some(step) = fixed_step(target, per_second) {
        return Ok(value.checked_sub(value.rem_euclid(step)));
    }
    let per_day = per_second * SECONDS_PER_DAY;
    Ok(floor_day(value.div_euclid(per_day), target).checked_mul(per_day))
}

/// `CEIL(timestamp TO unit)`: the first boundary of the unit that is not before the timestamp.
pub(crate) fn ceil_timestamp(value: i64, precision: i32, code: i32) -> Result<Option<i64>, Failure> {
    let (target, per_second) = (unit_of(code)?, unit(precision).per_second());
    if let Some(step) = fixed_step(target, per_second) {
        let past = value.rem_euclid(step);
        return Ok(if past == 0 { Some(value) } else { value.checked_add(step - past) });
    }
    let per_day = per_second * SECONDS_PER_DAY;
    let day = value.div_euclid(per_day) + i64::from(value.rem_euclid(per_day) > 0);
    Ok(ceil_day(day, target).checked_mul(per_day))
}

/// DATE + INTERVAL YEAR TO MONTH
pub(crate) fn add_months_date(days: i32, months: i32) -> Option<i32> {
    i32::try_from(add_months(i64::from(days), i64::from(months))).ok()
}

/// TIMESTAMP + INTERVAL YEAR TO MONTH
pub(crate) fn add_months_timestamp(value: i64, precision: i32, months: i32) -> Option<i64> {
    let per_day = unit(precision).per_second() * SECONDS_PER_DAY;
    let day = add_months(value.div_euclid(per_day), i64::from(months));
    i64::try_from(i128::from(day) * i128::from(per_day) + i128::from(value.rem_euclid(per_day))).ok()
}

/// TIME + INTERVAL DAY TO SECOND
pub(crate) fn add_millis_time(time: i32, interval: i64) -> i32 {
    (i64::from(time) + interval % MILLIS_PER_DAY).rem_euclid(MILLIS_PER_DAY) as i32
}

/// `TIMESTAMPDIFF(unit, from, to)`: whole units, truncated toward zero.
pub(crate) fn timestamp_diff(from: i64, to: i64, precision: i32, code: i32) -> Result<i32, Failure> {
    let (target, per_second) = (unit_of(code)?, unit(precision).per_second());
    if let Some(months) = target.months() {
        let per_day = per_second * SECONDS_PER_DAY;
        let split = |value: i64| (value.div_euclid(per_day), value.rem_euclid(per_day));
        return Ok((months_between(split(from), split(to)) / months) as i32);
    }
    let units = i128::from(to) - i128::from(from);
    let per_second = i128::from(per_second);
    let whole = match target {
        DateTimeUnit::Microsecond => units * 1_000_000 / per_second,
        DateTimeUnit::Nanosecond => units * 1_000_000_000 / per_second,
        unit => units / (i128::from(unit.millis().unwrap_or(1_000)) * (per_second / 1_000)),
    };
    Ok(whole as i32)
}

/// `CURRENT_TIMESTAMP`: milliseconds since the epoch.
pub(crate) fn current_timestamp() -> i64 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_millis() as i64,
        Err(before) => -(before.duration().as_millis() as i64),
    }
}

/// `LOCALTIMESTAMP`: milliseconds in the session's zone.
pub(crate) fn local_timestamp(context: &mut FunctionContext) -> i64 {
    let now = current_timestamp();
    session_zone(context).utc_to_local(now, TimeUnit::Milli)
}

/// `CURRENT_DATE`, in the session's zone.
pub(crate) fn current_date(context: &mut FunctionContext) -> i32 {
    local_timestamp(context).div_euclid(MILLIS_PER_DAY) as i32
}

/// `LOCALTIME`, a TIME(0) in the session's zone.
pub(crate) fn local_time(context: &mut FunctionContext) -> i32 {
    (local_timestamp(context).rem_euclid(MILLIS_PER_DAY) / 1_000 * 1_000) as i32
}

#[cfg(test)]
mod tests;
