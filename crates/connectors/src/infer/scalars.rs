//! Which type the values of a column have in common.

use crate::times;
use millstream_types::DataType;
use millstream_types::text::{
    EpochUnit, TimestampStyle, parse_date, parse_f64, parse_integer, parse_time, parse_timestamp, parse_timestamp_ltz,
};
use std::time::Duration;

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScalarKind {
    Boolean,
    /// Within 64 bits.
    Integer,
    /// Up to 38 digits.
    Long,
    Fraction,
    Date,
    /// Its digits of a second.
    Time(u8),
    /// Its digits of a second, and its microseconds since 1970.
    Local(u8, i64),
    Instant(u8, i64),
    Text,
}

impl ScalarKind {
    /// Of a text that may be a date or a time.
    pub(crate) fn of_time(text: &str) -> ScalarKind {
        if !(8..=64).contains(&text.len()) || !text.as_bytes()[0].is_ascii_digit() {
            return ScalarKind::Text;
        }
        if parse_date(text).is_some() {
            return ScalarKind::Date;
        }
        if let Some(micros) = parse_timestamp(text, 6) {
            return ScalarKind::Local(digits(text), micros);
        }
        if let Some(micros) = parse_timestamp_ltz(text, 6) {
            return ScalarKind::Instant(digits(text), micros);
        }
        let is_time = text.as_bytes()[2] == b':' && text.as_bytes()[5] == b':' && parse_time(text).is_some();
        if is_time { ScalarKind::Time(digits(text).min(3)) } else { ScalarKind::Text }
    }

    /// Of a text that may be any scalar, as CSV has them.
    pub(crate) fn of_text(text: &str) -> ScalarKind {
        if text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false") {
            return ScalarKind::Boolean;
        }
        let unsigned = text.strip_prefix('-').unwrap_or(text);
        // Zeros in front are those of a code, such as a postcode, which a number would lose.
        let is_code = unsigned.len() > 1 && unsigned.starts_with('0') && unsigned.as_bytes()[1].is_ascii_digit();
        let is_number = unsigned.as_bytes().first().is_some_and(|b| b.is_ascii_digit() || *b == b'.') && !is_code;
        if is_number {
            if unsigned.bytes().all(|b| b.is_ascii_digit()) {
                return match parse_integer(text, i64::MIN, i64::MAX) {
                    Some(_) => ScalarKind::Integer,
                    None if unsigned.len() <= 38 => ScalarKind::Long,
                    None => ScalarKind::Text,
                };
            }
            if parse_f64(text).is_some_and(f64::is_finite) && !text.ends_with(['f', 'F', 'd', 'D']) {
                return ScalarKind::Fraction;
            }
        }
        ScalarKind::of_time(text)
    }
}

/// The digits of a second that a time is written with.
fn digits(text: &str) -> u8 {
    let Some(point) = text.find(['.', ',']) else { return 0 };
    text.as_bytes()[point + 1..].iter().take_while(|b| b.is_ascii_digit()).count().min(9) as u8
}

/// What is known of a column's values.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scalars {
    /// Which kinds there were, a bit for each.
    kinds: u16,
    digits: u8,
    latest: Option<i64>,
    delay: i64,
    /// The least and the greatest number.
    numbers: Option<(f64, f64)>,
}

/// Seconds of 1990 and of 2100, since 1970.
const MOMENTS: std::ops::Range<f64> = 631_152_000.0..4_102_444_800.0;

const BOOLEAN: u16 = 1;
const INTEGER: u16 = 2;
const LONG: u16 = 4;
const FRACTION: u16 = 8;
const DATE: u16 = 16;
const TIME: u16 = 32;
const LOCAL: u16 = 64;
const INSTANT: u16 = 128;
const TEXT: u16 = 256;

impl Scalars {
    /// Counts a value in.
    pub(crate) fn add(&mut self, kind: ScalarKind) {
        let bit = match kind {
            ScalarKind::Boolean => BOOLEAN,
            ScalarKind::Integer => INTEGER,
            ScalarKind::Long => LONG,
            ScalarKind::Fraction => FRACTION,
            ScalarKind::Date => DATE,
            ScalarKind::Time(digits) => {
                self.digits = self.digits.max(digits);
                TIME
            }
            ScalarKind::Local(digits, micros) => {
                self.moment(digits, micros);
                LOCAL
            }
            ScalarKind::Instant(digits, micros) => {
                self.moment(digits, micros);
                INSTANT
            }
            ScalarKind::Text => TEXT,
        };
        self.kinds |= bit;
    }

    fn moment(&mut self, digits: u8, micros: i64) {
        self.digits = self.digits.max(digits);
        let latest = *self.latest.get_or_insert(micros);
        self.delay = self.delay.max(latest.saturating_sub(micros));
        self.latest = Some(latest.max(micros));
    }

    /// Counts an integer in.
    pub(crate) fn add_integer(&mut self, value: i64) {
        self.add(ScalarKind::Integer);
        self.number(value as f64);
    }

    /// Counts a number with a fraction in.
    pub(crate) fn add_fraction(&mut self, value: f64) {
        self.add(ScalarKind::Fraction);
        self.number(value);
    }

    fn number(&mut self, value: f64) {
        let (least, greatest) = self.numbers.unwrap_or((value, value));
        self.numbers = Some((least.min(value), greatest.max(value)));
    }

    /// Whether numbers of this unit since 1970 are all moments that computers have clocks for.
    fn are_moments(&self, unit: EpochUnit) -> bool {
        let seconds = |number: f64| number / unit.per_second() as f64;
        self.numbers
            .is_some_and(|(least, greatest)| MOMENTS.contains(&seconds(least)) && MOMENTS.contains(&seconds(greatest)))
    }

    /// Whether there was none but NULL.
    pub(crate) fn is_empty(&self) -> bool {
        self.kinds == 0
    }

    /// How much older than an earlier value one is, of times.
    pub(crate) fn delay(&self) -> Duration {
        Duration::from_micros(self.delay.unsigned_abs())
    }

    /// [`data_type`](Scalars::data_type) where times may be written as numbers since 1970: numbers that are moments are times.
    pub(crate) fn data_type_in(&self, style: TimestampStyle) -> DataType {
        match (self.data_type(), style) {
            (DataType::BigInt | DataType::Double, TimestampStyle::Epoch(unit)) if self.are_moments(unit) => {
                DataType::TimestampLtz(times::digits(unit))
            }
            (data_type, _) => data_type,
        }
    }

    /// The type of all values; STRING, which takes any, if they have nothing in common.
    pub(crate) fn data_type(&self) -> DataType {
        let precision = match self.digits {
            0..=3 => 3,
            4..=6 => 6,
            _ => 9,
        };
        match self.kinds {
            BOOLEAN => DataType::Boolean,
            INTEGER => DataType::BigInt,
            kinds if kinds & !(INTEGER | LONG) == 0 && kinds != 0 => DataType::decimal(38, 0),
            kinds if kinds & !(INTEGER | LONG | FRACTION) == 0 && kinds != 0 => DataType::Double,
            DATE => DataType::Date,
            TIME => DataType::Time(if self.digits == 0 { 0 } else { 3 }),
            kinds if kinds & !(DATE | LOCAL) == 0 && kinds != 0 => DataType::Timestamp(precision),
            INSTANT => DataType::TimestampLtz(precision),
            _ => DataType::STRING,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn type_of(texts: &[&str]) -> String {
        let mut scalars = Scalars::default();
        texts.iter().for_each(|text| scalars.add(ScalarKind::of_text(text)));
        scalars.data_type().to_string()
    }

    #[test]
    fn values_have_a_type_in_common() {
        for (texts, expected) in [
            (&["1", "-2", "0"][..], "BIGINT"),
            (&["1", "2.5"], "DOUBLE"),
            (&["1e5", "-.5"], "DOUBLE"),
            (&["1", "99999999999999999999"], "DECIMAL(38, 0)"),
            (&["true", "FALSE"], "BOOLEAN"),
            (&["true", "1"], "STRING"),
            (&["01234", "99999"], "STRING"),
            (&["0", "0.5"], "DOUBLE"),
            (&["2026-01-01"], "DATE"),
            (&["2026-01-01", "2026-01-01 10:00:00"], "TIMESTAMP(3)"),
            (&["2026-01-01T10:00:00.123456"], "TIMESTAMP(6)"),
            (&["2026-01-01T10:00:00Z", "2026-01-01T10:00:00.5+02:00"], "TIMESTAMP_LTZ(3)"),
            (&["2026-01-01T10:00:00Z", "2026-01-01T10:00:00"], "STRING"),
            (&["10:00:00"], "TIME(0)"),
            (&["10:00:00", "10:00:00.25"], "TIME(3)"),
            (&["12:30"], "STRING"),
            (&["NaN"], "STRING"),
            (&["1f"], "STRING"),
            (&["2026-02-30"], "STRING"),
            (&["192.168.0.1"], "STRING"),
            (&[], "STRING"),
        ] {
            assert_eq!(type_of(texts), expected, "{texts:?}");
        }
    }

    #[test]
    fn times_say_how_late_they_are() {
        let mut scalars = Scalars::default();
        for text in ["2026-01-01T10:00:10Z", "2026-01-01T10:00:00Z", "2026-01-01T10:01:00Z", "2026-01-01T10:00:57Z"] {
            scalars.add(ScalarKind::of_time(text));
        }
        assert_eq!(scalars.delay(), Duration::from_secs(10));
    }
}
