//! Patterns of fixed width: numbers of two digits and a year of four among literals, as `yyyy-MM-dd HH:mm:ss.SSS`.
//!
//! Nearly every pattern in use is one. Its text is laid out once, with zeros where the digits go; writing a moment then
//! is a few pairs of digits put into it, without a decision that depends on the pattern. A short text is kept for as long as the time
//! shows nothing else, since rows mostly come in the order of their times: `HH:mm` is written once a minute. What is not of this kind
//! (names, numbers without leading zeros) and years that have no four digits are left to [`DatePattern::write`].
//!
//! [`DatePattern::write`]: crate::date_pattern::DatePattern::write

use crate::arena::Arena;
use crate::date_pattern::{Field, Item, Moment};
use millstream_abi::Str;
use millstream_types::text::calendar::{Civil, SECONDS_PER_DAY, civil_from_days};

/// Bytes of the longest template.
const WIDTH: usize = 32;
/// The days of the years 1 to 9999.
const FOUR_DIGITS: std::ops::RangeInclusive<i64> = -719_162..=2_932_896;

/// Where the digits of a value are found, in the order in which they are computed.
const CENTURY: u8 = 0;
const YEAR_OF_CENTURY: u8 = 1;
const MONTH: u8 = 2;
const DAY: u8 = 3;
const HOUR: u8 = 4;
const MINUTE: u8 = 5;
const SECOND: u8 = 6;
/// Of the fraction the digits 1 and 2, 2 and 3, …, 8 and 9: the last pair of an odd number of digits overlaps the one before.
const FRACTION: u8 = 8;
const VALUES: usize = 16;

/// Two digits of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pair {
    /// Of the first digit, from the start of the text.
    at: u8,
    value: u8,
}

/// A pattern of fixed width.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DateTemplate {
    /// The literals, with zeros between and behind them.
    text: [u8; WIDTH],
    length: usize,
    /// The text as a short string, if it is short enough.
    short: Option<Str>,
    pairs: Vec<Pair>,
    /// Whether the date is shown.
    has_date: bool,
    /// The smallest unit that is shown: [`DAY`] (also where nothing is), [`HOUR`], [`MINUTE`], [`SECOND`] or [`FRACTION`].
    shows: u8,
    /// Most digits of the fraction that are shown.
    fraction_digits: usize,
    /// The short text that was written last.
    last: Written,
}

/// A short text, and when a moment has it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Written {
    /// The first second.
    from: i64,
    /// How many there are; 0 before anything is written.
    seconds: u64,
    text: Str,
}

impl DateTemplate {
    /// The template of a pattern, if it is of fixed width.
    pub(crate) fn of(items: &[Item]) -> Option<DateTemplate> {
        let mut template = DateTemplate {
            text: [0; WIDTH],
            length: 0,
            short: None,
            pairs: Vec::new(),
            has_date: false,
            shows: DAY,
            fraction_digits: 0,
            last: Written::default(),
        };
        for item in items {
            match *item {
                Item::Literal(ref text) => template.room(text.len())?.copy_from_slice(text.as_bytes()),
                // Every field is known, so every optional part is written.
                Item::OptionalStart(_) | Item::OptionalEnd => {}
                Item::Field(Field::Year | Field::YearOfEra, 4) => {
                    template.pair(CENTURY)?;
                    template.pair(YEAR_OF_CENTURY)?;
                }
                Item::Field(Field::Year | Field::YearOfEra, 2) => template.pair(YEAR_OF_CENTURY)?,
                Item::Field(Field::Month, 2) => template.pair(MONTH)?,
                Item::Field(Field::DayOfMonth, 2) => template.pair(DAY)?,
                Item::Field(Field::Hour, 2) => template.pair(HOUR)?,
                Item::Field(Field::Minute, 2) => template.pair(MINUTE)?,
                Item::Field(Field::Second, 2) => template.pair(SECOND)?,
                Item::Field(Field::Fraction, digits @ 2..=9) => template.fraction(digits)?,
                Item::Field(Field::Millis, 3) => template.fraction(3)?,
                Item::Field(..) => return None,
            }
        }
        template.has_date = template.pairs.iter().any(|pair| pair.value <= DAY);
        template.shows = template.pairs.iter().map(|pair| pair.value.clamp(DAY, FRACTION)).max().unwrap_or(DAY);
        let text = &template.text[..template.length];
        template.short = (text.len() <= Str::INLINE).then(|| Str::new(text));
        Some(template)
    }

    /// The next `length` bytes.
    fn room(&mut self, length: usize) -> Option<&mut [u8]> {
        let start = self.length;
        self.length += length;
        self.text.get_mut(start..self.length)
    }

    fn pair(&mut self, value: u8) -> Option<()> {
        self.pairs.push(Pair { at: self.length as u8, value });
        self.room(2).map(|_| ())
    }

    fn fraction(&mut self, digits: usize) -> Option<()> {
        self.fraction_digits = self.fraction_digits.max(digits);
        for digit in (0..digits - 1).step_by(2) {
            self.pair(FRACTION + digit as u8)?;
        }
        if digits % 2 == 1 {
            self.pairs.push(Pair { at: self.length as u8 - 1, value: FRACTION + digits as u8 - 2 });
            self.room(1)?;
        }
        Some(())
    }

    /// The moment as text; `None` when its year is not from 1 to 9999.
    #[inline]
    pub(crate) fn write(&mut self, arena: &mut Arena, moment: Moment) -> Option<Str> {
        // Before the first text no moment is within.
        if (moment.local_seconds.wrapping_sub(self.last.from) as u64) < self.last.seconds {
            return Some(self.last.text);
        }
        self.write_digits(arena, moment)
    }

    #[inline(never)]
    fn write_digits(&mut self, arena: &mut Arena, moment: Moment) -> Option<Str> {
        let digits = self.digits(moment)?;
        let (digits, _) = digits.as_chunks::<2>();
        let put = |out: &mut [u8], at: usize, pair: Pair| {
            out[at..at + 2].copy_from_slice(&digits[usize::from(pair.value) % VALUES]);
        };
        if let Some(short) = self.short {
            let mut bytes = short.bits().to_le_bytes();
            for pair in &self.pairs {
                // Behind the length.
                put(&mut bytes, 4 + usize::from(pair.at), *pair);
            }
            let text = Str::from_bits(u128::from_le_bytes(bytes));
            self.last = self.written(text, moment.local_seconds);
            return Some(text);
        }
        Some(arena.keep_some(WIDTH, |out| {
            out.copy_from_slice(&self.text);
            for pair in &self.pairs {
                put(out, usize::from(pair.at), *pair);
            }
            self.length
        }))
    }

    /// A text of a moment, and the others that have it: the seconds of its day, hour or minute, by the smallest unit that is shown.
    #[inline]
    fn written(&self, text: Str, local_seconds: i64) -> Written {
        let second = local_seconds.rem_euclid(SECONDS_PER_DAY) as u32;
        let (within, seconds) = match self.shows {
            DAY => (second, 86_400),
            HOUR => (second % 3_600, 3_600),
            MINUTE => (second % 60, 60),
            SECOND => (0, 1),
            _ => (0, 0),
        };
        Written { from: local_seconds.wrapping_sub(i64::from(within)), seconds, text }
    }

    /// The two digits of every value; anything for those that are not shown.
    #[inline]
    fn digits(&self, moment: Moment) -> Option<[u8; 2 * VALUES]> {
        let mut all = [0; 2 * VALUES];
        let (groups, _) = all.as_chunks_mut::<8>();
        if self.has_date {
            let days = moment.local_seconds.div_euclid(SECONDS_PER_DAY);
            if !FOUR_DIGITS.contains(&days) {
                return None;
            }
            let Civil { year, month, day } = civil_from_days(days);
            groups[0] = digits([year as u32 / 100, year as u32 % 100, month, day]);
        }
        let second = moment.local_seconds.rem_euclid(SECONDS_PER_DAY) as u32;
        groups[1] = digits([second / 3_600, second / 60 % 60, second % 60, 0]);
        if self.fraction_digits > 0 {
            let five = moment.nanos / 10_000;
            groups[2] = digits([five / 1_000, five / 100 % 100, five / 10 % 100, five % 100]);
        }
        if self.fraction_digits > 5 {
            let five = moment.nanos % 100_000;
            groups[3] = digits([five / 1_000, five / 100 % 100, five / 10 % 100, five % 100]);
        }
        Some(all)
    }
}

/// The digits of four numbers below 100.
#[inline]
fn digits(values: [u32; 4]) -> [u8; 8] {
    let lanes = values.iter().rev().fold(0, |lanes, value| lanes << 16 | u64::from(*value));
    // 103 / 1,024 is a tenth as far as 100.
    let tens = (lanes * 103) >> 10 & 0x000f_000f_000f_000f;
    (tens + ((lanes - tens * 10) << 8) + 0x3030_3030_3030_3030).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::date_pattern::{DatePattern, Dialect};
    use crate::draws::draws;
    use millstream_types::text::zone::Zone;

    #[test]
    fn templates_write_what_patterns_do() {
        let parts = [
            "yyyy",
            "yy",
            "uuuu",
            "uu",
            "MM",
            "dd",
            "HH",
            "mm",
            "ss",
            "S",
            "SS",
            "SSS",
            "SSSS",
            "SSSSSS",
            "SSSSSSSSS",
            "-",
            ":",
            " ",
            "'T'",
            ".",
            "''",
            "'é'",
            "[",
            "]",
            "d",
            "H",
            "EEE",
            "a",
            "yyyyy",
            "DDD",
            "hh",
        ];
        let (mut below, mut arena, mut written) = (draws(7), Arena::default(), [0, 0, 0]);
        for _ in 0..20_000 {
            let dialect = if below(2) == 0 { Dialect::Formatter } else { Dialect::Simple };
            // Half of the patterns have parts of fixed width only.
            let most = if below(2) == 0 { 22 } else { parts.len() };
            let text: String = (0..below(10)).map(|_| parts[below(most)]).collect();
            let Ok(pattern) = DatePattern::compile(&text, dialect) else { continue };
            let Some(mut template) = DateTemplate::of(&pattern.items) else {
                written[0] += 1;
                continue;
            };
            let mut before = 0;
            for _ in 0..8 {
                let near = 2 * [1, 60, 3_600, 86_400][below(4)];
                let local_seconds = match below(7) {
                    0 => below(1 << 31) as i64,
                    1 => below(400_000_000_000) as i64 - 70_000_000_000,
                    2 => (below(4) as i64 - 2) + FOUR_DIGITS.start() * SECONDS_PER_DAY,
                    3 => (below(4) as i64 - 2) + (FOUR_DIGITS.end() + 1) * SECONDS_PER_DAY,
                    // Of the same second, minute, hour or day as the one before, or not.
                    _ => before + below(near) as i64 - 1,
                };
                before = local_seconds;
                let nanos = [0, 999_999_999, below(1_000_000_000) as u32, 1_000_000][below(4)];
                let moment = Moment { local_seconds, nanos, zone: Zone::UTC };
                let Some(short) = template.write(&mut arena, moment) else {
                    written[1] += 1;
                    continue;
                };
                let mut expected = Vec::new();
                pattern.write(&mut expected, moment);
                // SAFETY: the arena is alive.
                let got = unsafe { short.as_bytes() };
                assert_eq!(String::from_utf8_lossy(got), String::from_utf8_lossy(&expected), "{text} {moment:?}");
                assert_eq!(short.is_inline(), expected.len() <= Str::INLINE);
                assert!(!short.is_inline() || short == Str::new(&expected), "no bytes behind the text");
                written[2] += 1;
            }
        }
        assert!(written[0] > 1_000 && written[1] > 1_000 && written[2] > 10_000, "{written:?}");
    }

    #[test]
    fn years_without_four_digits_are_left_out() {
        let pattern = DatePattern::compile("yyyy-MM-dd", Dialect::Formatter).unwrap();
        let mut template = DateTemplate::of(&pattern.items).unwrap();
        for (days, is_written) in [
            (FOUR_DIGITS.start() - 1, false),
            (*FOUR_DIGITS.start(), true),
            (*FOUR_DIGITS.end(), true),
            (FOUR_DIGITS.end() + 1, false),
        ] {
            let moment = Moment { local_seconds: days * SECONDS_PER_DAY, nanos: 0, zone: Zone::UTC };
            assert_eq!(template.write(&mut Arena::default(), moment).is_some(), is_written, "{days}");
        }
    }
}
