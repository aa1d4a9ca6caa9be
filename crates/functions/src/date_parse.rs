//! Reading dates and times by a [`DatePattern`].

use crate::date_pattern::{DAYS, DatePattern, Dialect, Field, Item, MONTHS, OffsetForm, clamped_seconds};
use millstream_types::text::calendar::{SECONDS_PER_DAY, days_from_civil, days_in_month, weekday};
use millstream_types::text::zone::{Zone, parse_offset};

/// Zones that people call by a few letters, and that no file of the time zone database is named after.
const SHORT_NAMES: [&str; 34] = [
    "PST", "PDT", "MDT", "CST", "CDT", "EDT", "AKST", "AKDT", "HDT", "AST", "ADT", "NST", "NDT", "BST", "IST", "WEST",
    "CEST", "EEST", "MSK", "MSD", "TRT", "SAST", "JST", "KST", "HKT", "SGT", "AEST", "AEDT", "ACST", "ACDT", "AWST",
    "NZST", "NZDT", "BRT",
];

/// The moment that a text names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parsed {
    /// Seconds since 1970-01-01 00:00:00 in the zone of the text, or in that of the caller.
    pub(crate) local_seconds: i64,
    /// Nanoseconds within the second.
    pub(crate) nanos: u32,
    /// Zone that the text names.
    pub(crate) zone: Option<Zone>,
}

impl DatePattern {
    /// Reads `text`; `None` when it does not have the pattern's form. Years of two digits lie in the hundred years
    /// that end 20 years after `current_year` (formatter patterns: from 2000 to 2099).
    pub(crate) fn parse(&self, text: &str, current_year: i64) -> Option<Parsed> {
        let mut reader = Reader { pattern: self, text: text.as_bytes(), at: 0, fields: Fields::default() };
        match self.dialect {
            Dialect::Formatter => {
                reader.items(0, self.items.len())?;
                if reader.at != reader.text.len() {
                    return None;
                }
                reader.fields.resolve_exactly()
            }
            Dialect::Simple => {
                reader.items(0, self.items.len())?;
                reader.fields.resolve_leniently(current_year)
            }
        }
    }
}

/// What has been read so far.
#[derive(Debug, Clone, Copy, Default)]
struct Fields {
    year: Option<i64>,
    two_digit_year: bool,
    before_christ: bool,
    week_year: Option<i64>,
    week: Option<i64>,
    /// From 0 for Sunday.
    weekday: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    hour: Option<i64>,
    half_hour: Option<i64>,
    afternoon: Option<bool>,
    minute: Option<i64>,
    second: Option<i64>,
    nanos: Option<i64>,
    millis: Option<i64>,
    second_of_day: Option<i64>,
    zone: Option<Zone>,
}

struct Reader<'a> {
    pattern: &'a DatePattern,
    text: &'a [u8],
    at: usize,
    fields: Fields,
}

impl Reader<'_> {
    /// Reads items `from..to`; an optional part that is not there leaves no trace.
    fn items(&mut self, from: usize, to: usize) -> Option<()> {
        let pattern = self.pattern;
        let mut index = from;
        while index < to {
            match &pattern.items[index] {
                Item::Literal(text) => {
                    if !self.text[self.at..].starts_with(text.as_bytes()) {
                        return None;
                    }
                    self.at += text.len();
                    index += 1;
                }
                Item::OptionalStart(after) => {
                    let before = (self.at, self.fields);
                    if self.items(index + 1, after - 1).is_none() {
                        (self.at, self.fields) = before;
                    }
                    index = *after;
                }
                Item::OptionalEnd => index += 1,
                Item::Field(field, count) => {
                    self.field(index, *field, *count)?;
                    index += 1;
                }
            }
        }
        Some(())
    }

    fn field(&mut self, index: usize, field: Field, count: usize) -> Option<()> {
        let simple = self.pattern.dialect == Dialect::Simple;
        if simple {
            self.skip_spaces();
        }
        match field {
            Field::Era => {
                let names = ["Before Christ", "Anno Domini", "BC", "AD"];
                self.fields.before_christ = self.name(&names)? % 2 == 0;
            }
            Field::Month if count >= 3 => self.fields.month = Some(self.long_or_short(&MONTHS, count)? as i64 + 1),
            Field::DayName => {
                self.fields.weekday = Some((self.long_or_short(&DAYS, count.max(3))? as i64 + 1) % 7);
            }
            Field::AmPm => self.fields.afternoon = Some(self.name(&["AM", "PM"])? == 1),
            Field::ZoneName | Field::ZoneRfc | Field::ZoneIso => self.zone()?,
            Field::Offset(form) => self.offset(form)?,
            Field::ZoneId | Field::ZoneShort => self.zone_name(field)?,
            Field::Fraction => {
                let digits = self.digits(count, count)?;
                self.set_nanos(digits * 10i64.pow(9 - count as u32))?;
            }
            _ => {
                let (min, max) = self.widths(index, field, count);
                let start = self.at;
                let value = self.number(field, min, max)?;
                self.set(field, count, value, self.at - start)?;
            }
        }
        Some(())
    }

    fn skip_spaces(&mut self) {
        while matches!(self.text.get(self.at), Some(b' ' | b'\t')) {
            self.at += 1;
        }
    }

    /// Fewest and most digits of a number, leaving those that the fields right behind it need.
    fn widths(&self, index: usize, field: Field, count: usize) -> (usize, usize) {
        if self.pattern.dialect == Dialect::Simple {
            let adjacent =
                matches!(self.pattern.items.get(index + 1), Some(Item::Field(next, n)) if is_number(*next, *n));
            return (1, if adjacent { count } else { 19 });
        }
        let year = matches!(field, Field::YearOfEra | Field::Year | Field::WeekYear);
        let (min, max) = match count {
            2 => (2, if field == Field::DayOfYear { 3 } else { 2 }),
            1 => (1, 19),
            _ => (count, if year || count > 3 { 19 } else { count }),
        };
        if min == max {
            return (min, max);
        }
        let following: usize = self.pattern.items[index + 1..]
            .iter()
            .map_while(|item| match item {
                Item::Field(next, n) if is_number(*next, *n) && *n > 1 => Some(*n),
                _ => None,
            })
            .sum();
        let signed = year && matches!(self.text.get(self.at), Some(b'+' | b'-'));
        let run = self.text[self.at + usize::from(signed)..].iter().take_while(|b| b.is_ascii_digit()).count();
        (min, max.min(run.saturating_sub(following)).max(min))
    }

    /// A number; years may have a sign, and only then more than four digits where the pattern has four or more.
    fn number(&mut self, field: Field, min: usize, max: usize) -> Option<i64> {
        let year = matches!(field, Field::YearOfEra | Field::Year | Field::WeekYear);
        let simple = self.pattern.dialect == Dialect::Simple;
        let signed = match self.text.get(self.at) {
            Some(b'-') if year || simple => Some(-1),
            Some(b'+') if year && min >= 4 && !simple => Some(1),
            _ => None,
        };
        let mut max = max;
        if signed.is_some() {
            self.at += 1;
            // The older class counts the sign among the characters of an adjacent field.
            max -= usize::from(simple);
        }
        let start = self.at;
        let value = self.digits(min, max)?;
        let more = self.at - start > min;
        let misplaced = year && min >= 4 && (more && signed.is_none() || !more && signed == Some(1));
        (simple || !misplaced).then_some(value * signed.unwrap_or(1))
    }

    fn digits(&mut self, min: usize, max: usize) -> Option<i64> {
        let len = self.text[self.at..].iter().take(max).take_while(|b| b.is_ascii_digit()).count();
        if len < min || len > 18 {
            return None;
        }
        let value = self.text[self.at..self.at + len].iter().fold(0, |value, b| value * 10 + i64::from(b - b'0'));
        self.at += len;
        Some(value)
    }

    /// Which of the names is next: exactly for formatter patterns, in any case for simple ones.
    fn name(&mut self, names: &[&str]) -> Option<usize> {
        let rest = &self.text[self.at..];
        let matches = |name: &&str| match rest.get(..name.len()) {
            Some(start) if self.pattern.dialect == Dialect::Simple => start.eq_ignore_ascii_case(name.as_bytes()),
            Some(start) => start == name.as_bytes(),
            None => false,
        };
        let index = names.iter().position(matches)?;
        self.at += names[index].len();
        Some(index)
    }

    fn long_or_short(&mut self, names: &[&str], count: usize) -> Option<usize> {
        let simple = self.pattern.dialect == Dialect::Simple;
        if (simple || count == 4)
            && let Some(index) = self.name(names)
        {
            return Some(index);
        }
        let short: Vec<&str> = names.iter().map(|name| &name[..3]).collect();
        if simple || count == 3 { self.name(&short) } else { None }
    }

    fn zone(&mut self) -> Option<()> {
        let rest = std::str::from_utf8(&self.text[self.at..]).ok()?;
        let end = rest.find(|c: char| c.is_whitespace() || c == ',' || c == ')').unwrap_or(rest.len());
        self.fields.zone = Some(parse_offset(&rest[..end]).map(Zone::Fixed).or_else(|| Zone::parse(&rest[..end]))?);
        self.at += end;
        Some(())
    }

    /// An offset. It is read over: what a formatter's pattern gives is the local time, as in Flink.
    fn offset(&mut self, form: OffsetForm) -> Option<()> {
        let has = |reader: &Self, text: &str| reader.text[reader.at..].starts_with(text.as_bytes());
        if form.is_localized {
            if !has(self, "GMT") {
                return None;
            }
            self.at += 3;
            if !has(self, "+") && !has(self, "-") {
                return Some(());
            }
        } else if form.has_letter && has(self, "Z") {
            self.at += 1;
            return Some(());
        }
        if !has(self, "+") && !has(self, "-") {
            return None;
        }
        self.at += 1;
        let hours = self.digits(if form.is_short { 1 } else { 2 }, 2)?;
        let mut part = |is_needed: bool| -> Option<Option<i64>> {
            let before = self.at;
            if form.has_colons && !has(self, ":") {
                return if is_needed { None } else { Some(None) };
            }
            self.at += usize::from(form.has_colons);
            match self.digits(2, 2) {
                Some(value) => Some(Some(value)),
                None => {
                    self.at = before;
                    if is_needed { None } else { Some(None) }
                }
            }
        };
        let minutes = part(form.needs_minutes)?;
        let seconds = if form.may_have_seconds && minutes.is_some() { part(false)? } else { None };
        let is_time = hours <= 18 && minutes.is_none_or(|m| m < 60) && seconds.is_none_or(|s| s < 60);
        is_time.then_some(())
    }

    /// The name of a zone, which is read over, too.
    fn zone_name(&mut self, field: Field) -> Option<()> {
        let rest = std::str::from_utf8(&self.text[self.at..]).ok()?;
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '+' | '-' | ':');
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let name = &rest[..end];
        let is_known = Zone::parse(name).is_some() || field == Field::ZoneShort && SHORT_NAMES.contains(&name);
        self.at += end;
        is_known.then_some(())
    }

    fn set_nanos(&mut self, nanos: i64) -> Option<()> {
        self.fields.nanos = Some(nanos);
        (nanos < 1_000_000_000).then_some(())
    }

    fn set(&mut self, field: Field, count: usize, value: i64, digits: usize) -> Option<()> {
        let simple = self.pattern.dialect == Dialect::Simple;
        let in_range = |low: i64, high: i64| (simple || (low..=high).contains(&value)).then_some(Some(value));
        let fields = &mut self.fields;
        match field {
            Field::WeekYear => fields.week_year = Some(value),
            Field::WeekOfYear => fields.week = Some(value),
            Field::IsoDayOfWeek => fields.weekday = Some(value.rem_euclid(7)),
            Field::YearOfEra | Field::Year if count == 2 && !simple => fields.year = Some(2000 + value),
            Field::YearOfEra if value < 1 && !simple => return None,
            Field::YearOfEra | Field::Year => {
                fields.year = Some(value);
                fields.two_digit_year = simple && count <= 2 && digits == 2;
            }
            Field::Month => fields.month = in_range(1, 12)?,
            Field::DayOfMonth => fields.day = in_range(1, 31)?,
            Field::DayOfYear => fields.day_of_year = in_range(1, 366)?,
            Field::Hour => fields.hour = in_range(0, 24)?,
            Field::HourFromOne => fields.hour = in_range(1, 24)?.map(|hour| if hour == 24 { 0 } else { hour }),
            Field::HalfHour => fields.half_hour = in_range(0, 11)?,
            Field::HalfHourFromOne => fields.half_hour = in_range(1, 12)?.map(|hour| if hour == 12 { 0 } else { hour }),
            Field::Minute => fields.minute = in_range(0, 59)?,
            Field::Second => fields.second = in_range(0, 59)?,
            Field::Millis => fields.millis = Some(value),
            Field::Nanos => return self.set_nanos(value),
            Field::MilliOfDay => {
                fields.second_of_day = Some(in_range(0, SECONDS_PER_DAY * 1_000 - 1)?? / 1_000);
                return self.set_nanos(value % 1_000 * 1_000_000);
            }
            Field::NanoOfDay => {
                fields.second_of_day = Some(in_range(0, SECONDS_PER_DAY * 1_000_000_000 - 1)?? / 1_000_000_000);
                return self.set_nanos(value % 1_000_000_000);
            }
            // Weeks of months and quarters are read but say nothing that the date does not.
            _ => {}
        }
        Some(())
    }
}

/// Whether a field is read as a number of fixed or variable width.
fn is_number(field: Field, count: usize) -> bool {
    use Field::*;
    match field {
        Era | DayName | AmPm | ZoneName | ZoneRfc | ZoneIso => false,
        Month => count <= 2,
        _ => true,
    }
}

impl Fields {
    /// Hour of the day, from whichever fields there are.
    fn hour_of_day(&self) -> i64 {
        match (self.hour, self.half_hour, self.afternoon) {
            (Some(hour), ..) => hour,
            (None, Some(half), Some(afternoon)) => half + if afternoon { 12 } else { 0 },
            _ => 0,
        }
    }

    /// As `DateTimeFormatter` resolves with Flink's defaults for what is missing: 1970-01-01 00:00:00. Values are in
    /// range already, but a day may be past its month's end, and 24:00 is the next midnight. A week-based year (`YYYY`)
    /// is not a year and does not count.
    fn resolve_exactly(self) -> Option<Parsed> {
        let year = self.year.unwrap_or(1970);
        let year = if self.before_christ { 1 - year } else { year };
        let second = match self.second_of_day {
            Some(second) => second,
            None => self.hour_of_day() * 3_600 + self.minute.unwrap_or(0) * 60 + self.second.unwrap_or(0),
        };
        let nanos = self.nanos.unwrap_or(0);
        if second > SECONDS_PER_DAY || second == SECONDS_PER_DAY && nanos > 0 {
            return None;
        }
        if year.abs() > 999_999_999 {
            return None;
        }
        let local_seconds = match self.day_of_year {
            Some(day) if self.month.is_none() && self.day.is_none() => {
                let days = days_from_civil(year, 1, 1) + day - 1;
                if day == 366 && days_in_month(year, 2) == 28 {
                    return None;
                }
                days * SECONDS_PER_DAY + second
            }
            _ => clamped_seconds(year, self.month.unwrap_or(1) as u32, self.day.unwrap_or(1) as u32, second),
        };
        Some(Parsed { local_seconds, nanos: nanos as u32, zone: None })
    }

    /// As `SimpleDateFormat` resolves: what is out of range runs over into the next larger unit.
    fn resolve_leniently(self, current_year: i64) -> Option<Parsed> {
        const FAR: i64 = 1 << 40;
        let mut year = self.year.unwrap_or(1970);
        if self.two_digit_year {
            year += current_year.div_euclid(100) * 100;
            if year > current_year + 20 {
                year -= 100;
            }
        }
        if self.before_christ {
            year = 1 - year;
        }
        let months = self.month.unwrap_or(1) - 1;
        let small = |value: Option<i64>| value.unwrap_or(0).clamp(-FAR, FAR);
        let days = match (self.day_of_year, self.day) {
            (Some(day), None) => small(Some(day)),
            (_, day) => small(Some(day.unwrap_or(1))),
        };
        let year = year.clamp(-(1 << 31), 1 << 31) + months.clamp(-FAR, FAR).div_euclid(12);
        let date = match self.week_year {
            // A week-based year (`YYYY`) goes with week and weekday, whatever month and day say.
            Some(week_year) if self.year.is_none() => {
                let new_year = days_from_civil(week_year.clamp(-(1 << 31), 1 << 31), 1, 1);
                let first = new_year - (weekday(new_year) + 1) % 7;
                first + (small(Some(self.week.unwrap_or(1))) - 1) * 7 + self.weekday.unwrap_or(0)
            }
            _ => days_from_civil(year, months.rem_euclid(12) as u32 + 1, 1) + days - 1,
        };
        let second = self.hour_of_day().clamp(-FAR, FAR) * 3_600 + small(self.minute) * 60 + small(self.second);
        let millis = small(self.millis);
        Some(Parsed {
            local_seconds: date * SECONDS_PER_DAY + second + millis.div_euclid(1_000),
            nanos: millis.rem_euclid(1_000) as u32 * 1_000_000,
            zone: self.zone,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds and nanoseconds that a text means.
    fn parsed(pattern: &str, dialect: Dialect, text: &str) -> Option<(i64, u32)> {
        let parsed = DatePattern::compile(pattern, dialect).unwrap().parse(text, 2026)?;
        Some((parsed.local_seconds, parsed.nanos))
    }

    /// 2023-11-14 07:09:01
    const MOMENT: i64 = 1_699_945_741;
    const MIDNIGHT: i64 = MOMENT - 25_741;

    #[test]
    fn formatter_patterns_read_exactly() {
        for (pattern, text, expected) in [
            ("yyyy-MM-dd HH:mm:ss", "2023-11-14 07:09:01", Some((MOMENT, 0))),
            ("yyyyMMddHHmmssSSS", "20231114070901552", Some((MOMENT, 552_000_000))),
            ("yyyyMMdd", "20231114", Some((MIDNIGHT, 0))),
            ("dd/MM/yy", "14/11/23", Some((MIDNIGHT, 0))),
            ("d MMM yyyy", "14 Nov 2023", Some((MIDNIGHT, 0))),
            ("EEEE, d MMMM yyyy", "Tuesday, 14 November 2023", Some((MIDNIGHT, 0))),
            ("yyyy-MM-dd[ HH:mm:ss]", "2023-11-14", Some((MIDNIGHT, 0))),
            ("yyyy-MM-dd[ HH:mm:ss]", "2023-11-14 07:09:01", Some((MOMENT, 0))),
            ("yyyy-MM-dd'T'HH:mm:ss", "2023-11-14T07:09:01", Some((MOMENT, 0))),
            ("yyyy-MM-dd hh:mm:ss a", "2023-11-14 07:09:01 PM", Some((MOMENT + 43_200, 0))),
            ("yyyy-DDD", "2023-318", Some((MIDNIGHT, 0))),
            ("HH:mm", "07:09", Some((25_740, 0))),
            ("yyyy-MM-dd", "2023-02-31", parsed("yyyy-MM-dd", Dialect::Formatter, "2023-02-28")),
            ("yyyy-MM-dd HH:mm", "2023-11-14 24:00", Some((MIDNIGHT + 86_400, 0))),
            ("yyyy-MM-dd", "+12023-11-14", Some((MIDNIGHT + 86_400 * 3_652_425, 0))),
            ("u-M-d", "-2023-1-1", Some((-126_006_883_200, 0))),
            ("YYYY-MM-dd", "2023-11-14", Some((317 * 86_400, 0))),
            ("yyyy-MM-dd", "+2023-11-14", None),
            ("yyyy-MM-dd", "0000-01-01", None),
            ("yyyy-MM-dd", "2023-13-01", None),
            ("yyyy-MM-dd", "2023-1-01", None),
            ("yyyy-MM-dd", "12023-01-01", None),
            ("yyyy-MM-dd", "2023-11-14 ", None),
            ("yyyy-MM-dd HH:mm:ss", "2023-11-14", None),
            ("d MMM yyyy", "14 nov 2023", None),
        ] {
            assert_eq!(parsed(pattern, Dialect::Formatter, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn simple_patterns_read_leniently() {
        for (pattern, text, expected) in [
            ("yyyy-MM-dd HH:mm:ss", "2023-11-14 07:09:01", Some((MOMENT, 0))),
            ("yyyy-MM-dd", "2023-11-14 and more", Some((MIDNIGHT, 0))),
            ("yyyy-MM-dd", "2023-1-9", Some((1_673_222_400, 0))),
            ("yyyy-MM-dd", "2023-10-45", Some((MIDNIGHT, 0))),
            ("yyyy-MM-dd", "2022-23-14", Some((MIDNIGHT, 0))),
            ("yyyyMMdd", "20231114", Some((MIDNIGHT, 0))),
            ("dd MMM yy", "14 NOVEMBER 23", Some((MIDNIGHT, 0))),
            ("yy", "60", Some((-315_619_200, 0))),
            ("yyyy-MM-dd HH:mm:ss.SSS", "2023-11-14 07:09:01.5", Some((MOMENT, 5_000_000))),
            ("YYYY-ww", "2023-11", Some((1_678_579_200, 0))),
            ("yyyyMMddHHmmss", "2023-11-14 07:09:01", Some((1_667_257_447, 0))),
            ("yyyy-MM-dd", "yesterday", None),
            ("yyyy-MM-dd", "", None),
        ] {
            assert_eq!(parsed(pattern, Dialect::Simple, text), expected, "{pattern} {text}");
        }
        let pattern = DatePattern::compile("yyyy-MM-dd HH:mm X", Dialect::Simple).unwrap();
        assert_eq!(pattern.parse("2023-11-14 07:09 +08", 2026).unwrap().zone, Some(Zone::Fixed(28_800)));
    }

    #[test]
    fn what_is_written_is_read_back() {
        use crate::date_pattern::Moment;
        for (pattern, dialect) in [
            ("yyyy-MM-dd HH:mm:ss.SSSSSSSSS", Dialect::Formatter),
            ("d.M.yyyy K:m:s a n", Dialect::Formatter),
            ("yyyyDDDHHmmssSSSSSSSSS", Dialect::Formatter),
            ("EEE d MMMM yyyy kk:mm:ss.SSS", Dialect::Simple),
        ] {
            let compiled = DatePattern::compile(pattern, dialect).unwrap();
            for i in 0..500i64 {
                let nanos = (i as u32 * 1_987) % 1_000 * 1_000_000;
                let moment = Moment { local_seconds: i * 7_654_321 - 900_000_000, nanos, zone: Zone::UTC };
                let mut out = Vec::new();
                compiled.write(&mut out, moment);
                let text = String::from_utf8(out).unwrap();
                let parsed = compiled.parse(&text, 2026).unwrap();
                assert_eq!((parsed.local_seconds, parsed.nanos), (moment.local_seconds, nanos), "{text}");
            }
        }
    }
}
