//! The proleptic Gregorian calendar: days since 1970-01-01 to and from years, months, weeks and days.
//!
//! Days and years are `i64`, so that no intermediate step overflows for any day that fits an `i32` or any timestamp.
//! The conversions are Howard Hinnant's (`chrono`-compatible low-level date algorithms): they count in eras of 400
//! years that start on 1 March, which puts the leap day last.

/// Milliseconds of a day.
pub const MILLIS_PER_DAY: i64 = 86_400_000;
/// Seconds of a day.
pub const SECONDS_PER_DAY: i64 = 86_400;

/// A date: year (0 is 1 BC), month 1–12, day 1–31.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Civil {
    /// Astronomical year.
    pub year: i64,
    /// Month from 1.
    pub month: u32,
    /// Day of the month from 1.
    pub day: u32,
}

/// Days since 1970-01-01 of a valid date. A day past the month's end overflows into the next month.
#[inline]
pub fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let shifted_month = (i64::from(month) + 9) % 12;
    let day_of_year = (153 * shifted_month + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The date of a day since 1970-01-01.
#[inline]
pub fn civil_from_days(days: i64) -> Civil {
    let shifted = days + 719_468;
    match u32::try_from(shifted) {
        Ok(shifted) if shifted < 1 << 30 => civil_in_32_bits(shifted),
        _ => civil_in_64_bits(shifted),
    }
}

/// The date of a day since 0000-03-01, up to the year 2,939,000: by multiplications of 32 bits, after Cassio Neri and Lorenz
/// Schneider, "Euclidean affine functions and their application to calendar algorithms".
#[inline]
fn civil_in_32_bits(shifted: u32) -> Civil {
    let quarters = 4 * shifted + 3;
    let century = quarters / 146_097;
    let quarters = quarters % 146_097 / 4 * 4 + 3;
    // 2,939,745 is 2³² / 1,461 rounded up: the high half is the year of the century, the low half the day of the year.
    let product = 2_939_745 * u64::from(quarters);
    let (year_of_century, day_of_year) = ((product >> 32) as u32, product as u32 / 2_939_745 / 4);
    let months = 2_141 * day_of_year + 197_913;
    let (month, day) = (months >> 16, (months & 0xffff) / 2_141 + 1);
    // Years start in March.
    let is_next = day_of_year >= 306;
    let year = i64::from(100 * century + year_of_century) + i64::from(is_next);
    Civil { year, month: if is_next { month - 12 } else { month }, day }
}

fn civil_in_64_bits(shifted: i64) -> Civil {
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * shifted_month + 2) / 5 + 1) as u32;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 } as u32;
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    Civil { year, month, day }
}

/// Whether the year has a 29 February.
#[inline]
pub fn is_leap_year(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Days of a month of a year.
#[inline]
pub fn days_in_month(year: i64, month: u32) -> u32 {
    match month {
        2 if is_leap_year(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Day of the year from 1.
#[inline]
pub fn day_of_year(days: i64) -> i64 {
    days - days_from_civil(civil_from_days(days).year, 1, 1) + 1
}

/// Day of the week: 0 for Monday to 6 for Sunday.
#[inline]
pub fn weekday(days: i64) -> i64 {
    // 1970-01-01 was a Thursday.
    (days + 3).rem_euclid(7)
}

/// ISO 8601 week-based year and week (1–53): week 1 has the year's first Thursday.
pub fn iso_week(days: i64) -> (i64, i64) {
    // A week belongs to the year that its Thursday is in.
    let thursday = days - weekday(days) + 3;
    (civil_from_days(thursday).year, (day_of_year(thursday) - 1) / 7 + 1)
}

/// The day `months` later (or earlier); a day past the end of the month becomes its last.
pub fn add_months(days: i64, months: i64) -> i64 {
    let Civil { year, month, day } = civil_from_days(days);
    let total = year * 12 + i64::from(month) - 1 + months;
    let (year, month) = (total.div_euclid(12), total.rem_euclid(12) as u32 + 1);
    days_from_civil(year, month, day.min(days_in_month(year, month)))
}

/// Whole months from one moment to another, each given as day and a time within it in any common unit; truncated
/// toward zero, negative when `to` is before `from`. This is SQL's `TIMESTAMPDIFF(MONTH, from, to)`.
pub fn months_between(from: (i64, i64), to: (i64, i64)) -> i64 {
    if to < from {
        return -months_between(to, from);
    }
    let (a, b) = (civil_from_days(from.0), civil_from_days(to.0));
    let months = (b.year - a.year) * 12 + i64::from(b.month) - i64::from(a.month);
    // The last month counts only when its day and time have come; adding months clamps to the month's end.
    if (add_months(from.0, months), from.1) > to { months - 1 } else { months }
}

/// A unit of time in EXTRACT, FLOOR, CEIL, TIMESTAMPADD and TIMESTAMPDIFF. As an argument of a runtime function it is
/// its [`DateTimeUnit::code`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
#[allow(missing_docs)]
pub enum DateTimeUnit {
    Millennium = 0,
    Century = 1,
    Decade = 2,
    Year = 3,
    Quarter = 4,
    Month = 5,
    Week = 6,
    Day = 7,
    Hour = 8,
    Minute = 9,
    Second = 10,
    Millisecond = 11,
    Microsecond = 12,
    Nanosecond = 13,
    /// Day of the week, 1 for Sunday to 7 for Saturday.
    DayOfWeek = 14,
    /// Day of the week, 1 for Monday to 7 for Sunday.
    IsoDayOfWeek = 15,
    /// Day of the year from 1.
    DayOfYear = 16,
    /// Seconds since 1970-01-01 00:00:00.
    Epoch = 17,
    /// Week-based year of ISO 8601.
    IsoYear = 18,
}

impl DateTimeUnit {
    /// Every unit with its SQL name, in the order of the codes.
    pub const ALL: &[(DateTimeUnit, &str)] = &[
        (DateTimeUnit::Millennium, "MILLENNIUM"),
        (DateTimeUnit::Century, "CENTURY"),
        (DateTimeUnit::Decade, "DECADE"),
        (DateTimeUnit::Year, "YEAR"),
        (DateTimeUnit::Quarter, "QUARTER"),
        (DateTimeUnit::Month, "MONTH"),
        (DateTimeUnit::Week, "WEEK"),
        (DateTimeUnit::Day, "DAY"),
        (DateTimeUnit::Hour, "HOUR"),
        (DateTimeUnit::Minute, "MINUTE"),
        (DateTimeUnit::Second, "SECOND"),
        (DateTimeUnit::Millisecond, "MILLISECOND"),
        (DateTimeUnit::Microsecond, "MICROSECOND"),
        (DateTimeUnit::Nanosecond, "NANOSECOND"),
        (DateTimeUnit::DayOfWeek, "DOW"),
        (DateTimeUnit::IsoDayOfWeek, "ISODOW"),
        (DateTimeUnit::DayOfYear, "DOY"),
        (DateTimeUnit::Epoch, "EPOCH"),
        (DateTimeUnit::IsoYear, "ISOYEAR"),
    ];

    /// Number under which runtime functions know the unit.
    pub const fn code(self) -> i32 {
        self as i32
    }

    /// The inverse of [`DateTimeUnit::code`].
    pub fn from_code(code: i32) -> Option<DateTimeUnit> {
        DateTimeUnit::ALL.get(usize::try_from(code).ok()?).map(|&(unit, _)| unit)
    }

    /// The unit of a SQL keyword in any case, singular or plural (`DAY`, `days`, also `DAYOFWEEK`, `DAYOFYEAR` and
    /// `DAYOFMONTH`, and the `SQL_TSI_…` names).
    pub fn from_name(name: &str) -> Option<DateTimeUnit> {
        let upper = name.to_ascii_uppercase();
        let name = upper.strip_prefix("SQL_TSI_").unwrap_or(&upper);
        let name = match name {
            "DAYOFWEEK" => "DOW",
            "DAYOFYEAR" => "DOY",
            "DAYOFMONTH" => "DAY",
            other => other,
        };
        let find = |name: &str| DateTimeUnit::ALL.iter().find(|(_, n)| *n == name).map(|&(unit, _)| unit);
        find(name).or_else(|| find(name.strip_suffix('S')?))
    }

    /// Length in milliseconds of the units that have a fixed one of at least a millisecond.
    pub const fn millis(self) -> Option<i64> {
        match self {
            DateTimeUnit::Week => Some(7 * MILLIS_PER_DAY),
            DateTimeUnit::Day => Some(MILLIS_PER_DAY),
            DateTimeUnit::Hour => Some(3_600_000),
            DateTimeUnit::Minute => Some(60_000),
            DateTimeUnit::Second => Some(1_000),
            DateTimeUnit::Millisecond => Some(1),
            _ => None,
        }
    }

    /// Length in months of the units that are made of months.
    pub const fn months(self) -> Option<i64> {
        match self {
            DateTimeUnit::Millennium => Some(12_000),
            DateTimeUnit::Century => Some(1_200),
            DateTimeUnit::Decade => Some(120),
            DateTimeUnit::Year => Some(12),
            DateTimeUnit::Quarter => Some(3),
            DateTimeUnit::Month => Some(1),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::{Datelike, NaiveDate};

    #[test]
    fn agrees_with_chrono() {
        let epoch = NaiveDate::from_ymd_opt(1970, 1, 1).unwrap();
        // Steps of a prime number of days visit all kinds of dates from 3000 BC to AD 12000.
        for days in (-1_815_000..3_660_000).step_by(37) {
            let date = epoch + chrono::Duration::days(days);
            let civil = civil_from_days(days);
            assert_eq!((civil.year, civil.month, civil.day), (i64::from(date.year()), date.month(), date.day()));
            assert_eq!(days_from_civil(civil.year, civil.month, civil.day), days);
            assert_eq!(weekday(days), i64::from(date.weekday().num_days_from_monday()));
            assert_eq!(day_of_year(days), i64::from(date.ordinal()));
            assert_eq!(iso_week(days), (i64::from(date.iso_week().year()), i64::from(date.iso_week().week())));
            let months = days % 50;
            let later = if months >= 0 {
                date + chrono::Months::new(months as u32)
            } else {
                date - chrono::Months::new(-months as u32)
            };
            assert_eq!(add_months(days, months), (later - epoch).num_days());
        }
    }

    #[test]
    fn dates_are_the_same_in_32_and_64_bits() {
        // Every day of eight eras, and steps through all that are counted in 32 bits.
        for shifted in (0..8 * 146_097).chain((0..1 << 30).step_by(10_007)).chain([(1 << 30) - 1]) {
            assert_eq!(civil_in_32_bits(shifted), civil_in_64_bits(shifted.into()), "{shifted}");
        }
        let (last, next) = (civil_from_days((1 << 30) - 719_469), civil_from_days((1 << 30) - 719_468));
        assert_eq!(
            days_from_civil(last.year, last.month, last.day) + 1,
            days_from_civil(next.year, next.month, next.day)
        );
    }

    #[test]
    fn months_between_counts_whole_months() {
        let day = |y, m, d| days_from_civil(y, m, d);
        assert_eq!(months_between((day(2023, 1, 31), 0), (day(2023, 2, 28), 0)), 1);
        assert_eq!(months_between((day(2023, 1, 15), 5), (day(2023, 3, 15), 4)), 1);
        assert_eq!(months_between((day(2023, 1, 15), 4), (day(2023, 3, 15), 4)), 2);
        assert_eq!(months_between((day(2023, 3, 15), 4), (day(2023, 1, 15), 5)), -1);
        assert_eq!(months_between((day(2023, 1, 15), 0), (day(2023, 1, 15), 0)), 0);
    }

    #[test]
    fn extremes_do_not_overflow() {
        for days in [i64::from(i32::MIN), i64::from(i32::MAX), i64::MIN / MILLIS_PER_DAY, i64::MAX / MILLIS_PER_DAY] {
            let Civil { year, month, day } = civil_from_days(days);
            assert_eq!(days_from_civil(year, month, day), days);
        }
    }

    #[test]
    fn units_are_found_by_name_and_code() {
        for &(unit, name) in DateTimeUnit::ALL {
            assert_eq!(DateTimeUnit::from_name(name), Some(unit));
            assert_eq!(DateTimeUnit::from_code(unit.code()), Some(unit));
        }
        assert_eq!(DateTimeUnit::from_name("days"), Some(DateTimeUnit::Day));
        assert_eq!(DateTimeUnit::from_name("SQL_TSI_MONTH"), Some(DateTimeUnit::Month));
        assert_eq!(DateTimeUnit::from_name("fortnight"), None);
    }
}
