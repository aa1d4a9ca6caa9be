//! Patterns of dates and times: Java's `DateTimeFormatter` and `SimpleDateFormat`, which Flink's functions use side by
//! side.
//!
//! Both are sequences of letters (`yyyy-MM-dd`), but they differ in some letters, in what repeating one means, and in
//! reading: the formatter is exact, the older one skips spaces, lets fields overflow and ignores what follows. (Unlike
//! Java's older class, both use the Gregorian calendar before 1582 too.) Names are English, as in Java's root and US locales; weeks start on Sunday, as in the US. A pattern is compiled once and
//! cached by its text.

use crate::arena::Arena;
use crate::date_template::DateTemplate;
use millstream_abi::Str;
use millstream_types::text::calendar::{
    Civil, SECONDS_PER_DAY, civil_from_days, day_of_year, days_from_civil, days_in_month, weekday,
};
use millstream_types::text::{write_digits, zone::Zone};

pub(crate) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// From Monday, as [`weekday`] counts.
pub(crate) const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// Which of Java's two classes a pattern is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Dialect {
    /// `java.time.format.DateTimeFormatter`: DATE_FORMAT, TO_TIMESTAMP.
    Formatter,
    /// `java.text.SimpleDateFormat`: FROM_UNIXTIME, UNIX_TIMESTAMP, TO_DATE, DATE_FORMAT of strings.
    Simple,
}

/// A field, by what it means in both dialects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    Era,
    YearOfEra,
    Year,
    WeekYear,
    Month,
    DayOfMonth,
    DayOfYear,
    /// Monday is 1.
    IsoDayOfWeek,
    /// Sunday is 1.
    LocalDayOfWeek,
    DayName,
    WeekOfYear,
    WeekOfMonth,
    /// Which Monday (Tuesday, …) of the month, from 1.
    WeekdayInMonth,
    /// Day within the weeks that start on the 1st, 8th, … of the month.
    AlignedDay,
    Quarter,
    AmPm,
    /// 0–23.
    Hour,
    /// 1–24.
    HourFromOne,
    /// 0–11.
    HalfHour,
    /// 1–12.
    HalfHourFromOne,
    Minute,
    Second,
    /// The first digits of the fraction of a second.
    Fraction,
    /// Milliseconds as a number.
    Millis,
    Nanos,
    MilliOfDay,
    NanoOfDay,
    ZoneName,
    /// `+0800`.
    ZoneRfc,
    /// `+08`, `+0800`, `+08:00`, or `Z` for UTC.
    ZoneIso,
    /// An offset in one of the forms of formatters, which only reading knows.
    Offset(OffsetForm),
    /// `Europe/Berlin`: reading only.
    ZoneId,
    /// `PST`, `UTC`: reading only.
    ZoneShort,
}

/// How an offset is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OffsetForm {
    /// `GMT` stands before it.
    pub(crate) is_localized: bool,
    /// `Z` may stand for none.
    pub(crate) has_letter: bool,
    /// Between hours, minutes and seconds.
    pub(crate) has_colons: bool,
    /// Hours may have one digit.
    pub(crate) is_short: bool,
    pub(crate) needs_minutes: bool,
    pub(crate) may_have_seconds: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Item {
    Literal(String),
    /// A field and how often its letter is repeated.
    Field(Field, usize),
    /// `[`, with the index of the item after its `]`.
    OptionalStart(usize),
    OptionalEnd,
}

/// A compiled pattern.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DatePattern {
    pub(crate) dialect: Dialect,
    pub(crate) items: Vec<Item>,
    /// The same, laid out for writing, if it is of fixed width.
    pub(crate) template: Option<DateTemplate>,
}

impl DatePattern {
    /// Compiles a pattern, or says what is wrong with it.
    pub(crate) fn compile(pattern: &str, dialect: Dialect) -> Result<DatePattern, String> {
        let mut compiler = Compiler { dialect, items: Vec::new(), open: Vec::new() };
        let mut rest = pattern;
        while let Some(c) = rest.chars().next() {
            let length = match c {
                'A'..='Z' | 'a'..='z' => {
                    let count = rest.len() - rest.trim_start_matches(c).len();
                    let field = field(c, count, dialect).ok_or_else(|| {
                        format!("the pattern '{pattern}' has '{}', which is not supported here", &rest[..count])
                    })?;
                    compiler.items.push(Item::Field(field, count));
                    count
                }
                '\'' => compiler.quoted(rest).ok_or_else(|| format!("the pattern '{pattern}' has an open quote"))?,
                '[' | ']' | '{' | '}' | '#' if dialect == Dialect::Formatter => {
                    compiler.reserved(c).ok_or_else(|| format!("the pattern '{pattern}' has a misplaced '{c}'"))?;
                    1
                }
                c => {
                    compiler.literal(&rest[..c.len_utf8()]);
                    c.len_utf8()
                }
            };
            rest = &rest[length..];
        }
        while !compiler.open.is_empty() {
            compiler.close();
        }
        let template = DateTemplate::of(&compiler.items);
        Ok(DatePattern { dialect, items: compiler.items, template })
    }
}

struct Compiler {
    dialect: Dialect,
    items: Vec<Item>,
    /// Positions of the open `[`.
    open: Vec<usize>,
}

impl Compiler {
    fn literal(&mut self, text: &str) {
        match self.items.last_mut() {
            Some(Item::Literal(before)) => before.push_str(text),
            _ => self.items.push(Item::Literal(text.to_owned())),
        }
    }

    /// A quoted text at the start of `rest`, where two quotes are one; its length.
    fn quoted(&mut self, rest: &str) -> Option<usize> {
        if rest.starts_with("''") {
            self.literal("'");
            return Some(2);
        }
        let mut at = 1;
        loop {
            let end = at + rest[at..].find('\'')?;
            self.literal(&rest[at..end]);
            if !rest[end + 1..].starts_with('\'') {
                return Some(end + 1);
            }
            self.literal("'");
            at = end + 2;
        }
    }

    fn reserved(&mut self, c: char) -> Option<()> {
        match c {
            '[' => {
                self.open.push(self.items.len());
                self.items.push(Item::OptionalStart(0));
            }
            ']' if !self.open.is_empty() => self.close(),
            _ => return None,
        }
        Some(())
    }

    fn close(&mut self) {
        debug_assert_eq!(self.dialect, Dialect::Formatter);
        if let Some(start) = self.open.pop() {
            self.items.push(Item::OptionalEnd);
            self.items[start] = Item::OptionalStart(self.items.len());
        }
    }
}

/// The field of a letter repeated `count` times.
fn field(letter: char, count: usize, dialect: Dialect) -> Option<Field> {
    use Field::*;
    let (field, most) = match (letter, dialect) {
        ('G', _) => (Era, 5),
        ('y', _) => (YearOfEra, 19),
        ('M' | 'L', _) => (Month, 5),
        ('d', _) => (DayOfMonth, 2),
        ('D', _) => (DayOfYear, 3),
        ('E', _) => (DayName, 5),
        ('H', _) => (Hour, 2),
        ('k', _) => (HourFromOne, 2),
        ('K', _) => (HalfHour, 2),
        ('h', _) => (HalfHourFromOne, 2),
        ('m', _) => (Minute, 2),
        ('s', _) => (Second, 2),
        ('a', _) => (AmPm, 1),
        ('w', _) => (WeekOfYear, 2),
        ('W', _) => (WeekOfMonth, 1),
        ('F', Dialect::Formatter) => (AlignedDay, 1),
        ('F', Dialect::Simple) => (WeekdayInMonth, 64),
        ('Y', _) => (WeekYear, 19),
        ('u', Dialect::Formatter) => (Year, 19),
        ('Q' | 'q', Dialect::Formatter) => (Quarter, 5),
        ('e' | 'c', Dialect::Formatter) if count >= 3 => (DayName, 5),
        ('e' | 'c', Dialect::Formatter) => (LocalDayOfWeek, 2),
        ('S', Dialect::Formatter) => (Fraction, 9),
        ('n', Dialect::Formatter) => (Nanos, 19),
        ('A', Dialect::Formatter) => (MilliOfDay, 19),
        ('N', Dialect::Formatter) => (NanoOfDay, 19),
        ('u', Dialect::Simple) => (IsoDayOfWeek, 19),
        ('S', Dialect::Simple) => (Millis, 19),
        ('V', Dialect::Formatter) if count == 2 => (ZoneId, 2),
        ('z', Dialect::Formatter) => (ZoneShort, 3),
        ('X' | 'x' | 'Z' | 'O', Dialect::Formatter) => (Offset(offset_form(letter, count)?), 5),
        ('z', Dialect::Simple) => (ZoneName, 19),
        ('Z', Dialect::Simple) => (ZoneRfc, 19),
        ('X', Dialect::Simple) => (ZoneIso, 3),
        _ => return None,
    };
    let most = if dialect == Dialect::Simple && field != ZoneIso { 64 } else { most };
    (count <= most).then_some(field)
}

/// The form of an offset in a formatter's pattern.
fn offset_form(letter: char, count: usize) -> Option<OffsetForm> {
    let form = OffsetForm {
        is_localized: letter == 'O' || letter == 'Z' && count == 4,
        has_letter: letter == 'X' || letter == 'Z' && count == 5,
        has_colons: matches!((letter, count), ('X' | 'x', 3 | 5) | ('Z', 4 | 5) | ('O', _)),
        is_short: letter == 'O' && count == 1,
        needs_minutes: !matches!((letter, count), ('X' | 'x' | 'O', 1)),
        may_have_seconds: matches!((letter, count), ('X' | 'x', 4 | 5) | ('Z', 4 | 5) | ('O', _)),
    };
    (letter != 'O' || matches!(count, 1 | 4)).then_some(form)
}

/// A local date and time to write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    /// Seconds since 1970-01-01 00:00:00 local time.
    pub(crate) local_seconds: i64,
    /// Nanoseconds within the second.
    pub(crate) nanos: u32,
    /// Zone of the local time, for patterns that show it.
    pub(crate) zone: Zone,
}

impl DatePattern {
    /// The letters of a field that only reading knows, if there is one: a local time has no zone to show.
    pub(crate) fn unwritable(&self) -> Option<&'static str> {
        self.items.iter().find_map(|item| match item {
            Item::Field(Field::Offset(_), _) => Some("an offset"),
            Item::Field(Field::ZoneId | Field::ZoneShort, _) => Some("a zone"),
            _ => None,
        })
    }

    /// The moment as text. Patterns with [`DatePattern::unwritable`] parts are not for this.
    #[inline]
    pub(crate) fn format(&mut self, arena: &mut Arena, moment: Moment) -> Str {
        match self.template.as_mut().and_then(|template| template.write(arena, moment)) {
            Some(written) => written,
            None => arena.keep_written(|out| self.write(out, moment)),
        }
    }

    /// Appends the moment, whatever the pattern.
    pub(crate) fn write(&self, out: &mut Vec<u8>, moment: Moment) {
        let days = moment.local_seconds.div_euclid(SECONDS_PER_DAY);
        let parts = Parts {
            moment,
            days,
            civil: civil_from_days(days),
            second: moment.local_seconds.rem_euclid(SECONDS_PER_DAY),
        };
        for item in &self.items {
            match item {
                Item::Literal(text) => out.extend_from_slice(text.as_bytes()),
                // Every field is known, so every optional part is written.
                Item::OptionalStart(_) | Item::OptionalEnd => {}
                Item::Field(field, count) => parts.write(out, *field, *count, self.dialect),
            }
        }
    }
}

struct Parts {
    moment: Moment,
    days: i64,
    civil: Civil,
    second: i64,
}

impl Parts {
    fn write(&self, out: &mut Vec<u8>, field: Field, count: usize, dialect: Dialect) {
        use Field::*;
        let simple = dialect == Dialect::Simple;
        match field {
            Era => self.write_era(out, if simple { 1 } else { count }),
            YearOfEra => {
                let year = if self.civil.year > 0 { self.civil.year } else { 1 - self.civil.year };
                write_year(out, year, count, dialect);
            }
            Year => write_year(out, self.civil.year, count, dialect),
            WeekYear => write_year(out, us_week(self.days).0, count, dialect),
            Month if count >= 3 => write_name(out, MONTHS[self.civil.month as usize - 1], count, simple),
            DayName => write_name(out, DAYS[weekday(self.days) as usize], count.max(3), simple),
            AmPm => out.extend_from_slice(if self.second < 43_200 { b"AM" } else { b"PM" }),
            Quarter => self.write_quarter(out, count),
            Fraction => {
                let start = out.len();
                write_padded(out, i64::from(self.moment.nanos), 9);
                out.truncate(start + count);
            }
            ZoneName | ZoneRfc | ZoneIso => self.write_zone(out, field, count),
            _ => write_padded(out, self.number(field), count),
        }
    }

    /// Fields that are just numbers.
    fn number(&self, field: Field) -> i64 {
        let hour = self.second / 3_600;
        let from_one = |value: i64, cycle: i64| if value % cycle == 0 { cycle } else { value % cycle };
        match field {
            Field::Month => i64::from(self.civil.month),
            Field::DayOfMonth => i64::from(self.civil.day),
            Field::DayOfYear => day_of_year(self.days),
            Field::IsoDayOfWeek => weekday(self.days) + 1,
            Field::LocalDayOfWeek => (weekday(self.days) + 1) % 7 + 1,
            Field::WeekOfYear => us_week(self.days).1,
            Field::WeekOfMonth => {
                let first = self.days - i64::from(self.civil.day) + 1;
                (i64::from(self.civil.day) + sunday_based(first) - 1) / 7 + 1
            }
            Field::WeekdayInMonth => (i64::from(self.civil.day) - 1) / 7 + 1,
            Field::AlignedDay => (i64::from(self.civil.day) - 1) % 7 + 1,
            Field::Hour => hour,
            Field::HourFromOne => from_one(hour, 24),
            Field::HalfHour => hour % 12,
            Field::HalfHourFromOne => from_one(hour, 12),
            Field::Minute => self.second / 60 % 60,
            Field::Second => self.second % 60,
            Field::Millis => i64::from(self.moment.nanos / 1_000_000),
            Field::Nanos => i64::from(self.moment.nanos),
            Field::MilliOfDay => self.second * 1_000 + i64::from(self.moment.nanos / 1_000_000),
            Field::NanoOfDay => self.second * 1_000_000_000 + i64::from(self.moment.nanos),
            _ => 0,
        }
    }

    fn write_era(&self, out: &mut Vec<u8>, count: usize) {
        let current = self.civil.year > 0;
        out.extend_from_slice(match (count, current) {
            (4, true) => b"Anno Domini",
            (4, false) => b"Before Christ",
            (5, true) => b"A",
            (5, false) => b"B",
            (_, true) => b"AD",
            (_, false) => b"BC",
        });
    }

    fn write_quarter(&self, out: &mut Vec<u8>, count: usize) {
        let quarter = (self.civil.month as usize - 1) / 3;
        match count {
            1 | 2 => write_padded(out, quarter as i64 + 1, count),
            3 => out.extend_from_slice([b"Q1", b"Q2", b"Q3", b"Q4"][quarter]),
            4 => {
                out.extend_from_slice([b"1st", b"2nd", b"3rd", b"4th"][quarter]);
                out.extend_from_slice(b" quarter");
            }
            _ => out.push(b'1' + quarter as u8),
        }
    }

    fn write_zone(&self, out: &mut Vec<u8>, field: Field, count: usize) {
        let offset = self.moment.local_seconds - self.moment.zone.local_to_utc_seconds(self.moment.local_seconds);
        match field {
            Field::ZoneName if offset == 0 => out.extend_from_slice(b"UTC"),
            Field::ZoneIso if offset == 0 => out.push(b'Z'),
            _ => {
                if field == Field::ZoneName {
                    out.extend_from_slice(b"GMT");
                }
                out.push(if offset < 0 { b'-' } else { b'+' });
                let minutes = offset.abs() / 60;
                write_padded(out, minutes / 60, 2);
                if field == Field::ZoneIso && count == 1 {
                    return;
                }
                if field == Field::ZoneName || field == Field::ZoneIso && count == 3 {
                    out.push(b':');
                }
                write_padded(out, minutes % 60, 2);
            }
        }
    }
}

/// 0 for Sunday to 6 for Saturday.
fn sunday_based(days: i64) -> i64 {
    (weekday(days) + 1) % 7
}

/// Week-based year and week as in the US: weeks start on Sunday, and the week of 1 January is the first.
fn us_week(days: i64) -> (i64, i64) {
    let year = civil_from_days(days).year;
    let next = days_from_civil(year + 1, 1, 1);
    if days >= next - sunday_based(next) {
        return (year + 1, 1);
    }
    let first = days_from_civil(year, 1, 1);
    (year, (days - first + sunday_based(first)) / 7 + 1)
}

fn write_padded(out: &mut Vec<u8>, value: i64, width: usize) {
    if value < 0 {
        out.push(b'-');
    }
    // No number has more digits than that.
    out.resize(out.len() + width.saturating_sub(20), b'0');
    write_digits(out, value.unsigned_abs(), width.min(20));
}

fn write_year(out: &mut Vec<u8>, year: i64, count: usize, dialect: Dialect) {
    if count == 2 {
        return write_padded(out, year.rem_euclid(100), 2);
    }
    if dialect == Dialect::Formatter && count >= 4 && year >= 10i64.saturating_pow(count as u32) {
        out.push(b'+');
    }
    write_padded(out, year, count);
}

/// A name in three letters, in full, or (of the formatter, five letters) its initial.
fn write_name(out: &mut Vec<u8>, name: &str, count: usize, simple: bool) {
    out.extend_from_slice(match count {
        3 => &name.as_bytes()[..3],
        5 if !simple => &name.as_bytes()[..1],
        _ => name.as_bytes(),
    });
}

/// Seconds since 1970-01-01 00:00:00 of a date and a second of the day; a day past its month's end becomes the last.
pub(crate) fn clamped_seconds(year: i64, month: u32, day: u32, second: i64) -> i64 {
    days_from_civil(year, month, day.min(days_in_month(year, month))) * SECONDS_PER_DAY + second
}

#[cfg(test)]
mod tests {
    use super::*;

    fn formatted(pattern: &str, dialect: Dialect, zone: Zone) -> String {
        // 2023-11-14 07:09:01.552 local time, a Tuesday.
        let moment = Moment { local_seconds: 1_699_945_741, nanos: 552_000_000, zone };
        let mut out = Vec::new();
        DatePattern::compile(pattern, dialect).unwrap().write(&mut out, moment);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn formatter_patterns_write() {
        for (pattern, expected) in [
            ("yyyy-MM-dd HH:mm:ss.SSS", "2023-11-14 07:09:01.552"),
            ("yyyyMMddHHmmssSSS", "20231114070901552"),
            ("HH:mm", "07:09"),
            ("H:m:s.S", "7:9:1.5"),
            ("yy/M/d", "23/11/14"),
            ("EEE, d MMM yyyy h:mm a", "Tue, 14 Nov 2023 7:09 AM"),
            ("EEEE MMMM", "Tuesday November"),
            ("MMMMM EEEEE", "N T"),
            ("yyyy-'W'ww e", "2023-W46 3"),
            ("QQQ Q", "Q4 4"),
            ("''yyyy''", "'2023'"),
            ("'it''s' D", "it's 318"),
            ("yyyy[-MM]", "2023-11"),
            ("uuuu G n", "2023 AD 552000000"),
            ("SSSSSSSSS", "552000000"),
            ("kk KK", "07 07"),
        ] {
            assert_eq!(formatted(pattern, Dialect::Formatter, Zone::UTC), expected, "{pattern}");
        }
    }

    #[test]
    fn simple_patterns_write() {
        let shanghai = Zone::parse("Asia/Shanghai").unwrap();
        for (pattern, expected) in [
            ("yyyy-MM-dd HH:mm:ss", "2023-11-14 07:09:01"),
            ("y u S SSSSSS", "2023 2 552 000552"),
            ("EEEE, MMM d, yyyy", "Tuesday, Nov 14, 2023"),
            ("HH:mm Z", "07:09 +0800"),
            ("X XX XXX", "+08 +0800 +08:00"),
            ("[yyyy]", "[2023]"),
        ] {
            assert_eq!(formatted(pattern, Dialect::Simple, shanghai), expected, "{pattern}");
        }
        assert_eq!(formatted("X z", Dialect::Simple, Zone::UTC), "Z UTC");
    }

    #[test]
    fn bad_patterns_are_reported() {
        for pattern in ["yyyy-MM-ddd", "'open", "b", "]", "{", "HHH", "V", "zzzz", "OO", "XXXXXX", "j"] {
            assert!(DatePattern::compile(pattern, Dialect::Formatter).is_err(), "{pattern}");
        }
        for (pattern, what) in [("yyyy VV", "a zone"), ("HH[XXX]", "an offset")] {
            assert_eq!(DatePattern::compile(pattern, Dialect::Formatter).unwrap().unwritable(), Some(what));
        }
        assert!(DatePattern::compile("Q", Dialect::Simple).is_err());
        assert!(DatePattern::compile("'", Dialect::Simple).is_err());
    }
}
