//! PRINTF: the formats of Java's `Formatter`, in English, over columns of any types.
//!
//! A format that is malformed, or does not fit its values, gives NULL, as in Flink. Decimals can be written with `%f`
//! and `%s`; `%g`, `%a` and `%t` do not exist here.

use crate::collection::{Input, Output};
use arrow_array::builder::StringViewBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef};
use millstream_types::{DataType, text};
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq)]
enum FormatValue<'a> {
    Null,
    Boolean(bool),
    Integer(i64, u32),
    Float(f64),
    Decimal(&'a str),
    Text(&'a str),
}

/// `PRINTF(format, value, …)`, with the type that each value had. Integers come as BIGINT, floats as DOUBLE, booleans as they
/// are and everything else as STRING.
pub fn printf(input: &Input, types: &[DataType]) -> Output {
    let formats = input.columns[0].as_string_view();
    let mut texts = StringViewBuilder::new();
    for row in 0..input.rows {
        let values = input.columns[1..].iter().zip(types).map(|(column, data_type)| value(column, data_type, row));
        match formats.is_valid(row).then(|| print(formats.value(row), &values.collect::<Vec<_>>())).flatten() {
            Some(text) => texts.append_value(text),
            None => texts.append_null(),
        }
    }
    Ok(Arc::new(texts.finish()))
}

fn value<'a>(column: &'a ArrayRef, data_type: &DataType, row: usize) -> FormatValue<'a> {
    if column.is_null(row) {
        return FormatValue::Null;
    }
    let integer = |bits| FormatValue::Integer(column.as_primitive::<Int64Type>().value(row), bits);
    match data_type {
        DataType::Boolean => FormatValue::Boolean(column.as_boolean().value(row)),
        DataType::TinyInt => integer(8),
        DataType::SmallInt => integer(16),
        DataType::Int => integer(32),
        DataType::BigInt => integer(64),
        DataType::Float | DataType::Double => FormatValue::Float(column.as_primitive::<Float64Type>().value(row)),
        DataType::Decimal { .. } => FormatValue::Decimal(column.as_string_view().value(row)),
        _ => FormatValue::Text(column.as_string_view().value(row)),
    }
}

/// One `%…` of a format.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Specifier {
    /// `n$`, from 1.
    argument: Option<usize>,
    flags: String,
    width: Option<usize>,
    precision: Option<usize>,
    conversion: char,
}

impl Specifier {
    /// Reads what follows a `%`; `None` when it is malformed.
    fn read<'f>(rest: &'f str) -> Option<(Specifier, &'f str)> {
        let mut specifier = Specifier::default();
        let digits = |text: &'f str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let mut rest = rest;
        let end = digits(rest);
        if end > 0 && rest[end..].starts_with('$') {
            specifier.argument = Some(rest[..end].parse().ok()?);
            rest = &rest[end + 1..];
        }
        let end = rest.find(|c: char| !"-#+ 0,(".contains(c)).unwrap_or(rest.len());
        specifier.flags = rest[..end].to_owned();
        rest = &rest[end..];
        let end = digits(rest);
        if end > 0 {
            specifier.width = Some(rest[..end].parse().ok()?);
            rest = &rest[end..];
        }
        if let Some(after) = rest.strip_prefix('.') {
            let end = digits(after);
            specifier.precision = Some(after[..end].parse().ok()?);
            rest = &after[end..];
        }
        specifier.conversion = rest.chars().next()?;
        Some((specifier.clone(), &rest[specifier.conversion.len_utf8()..]))
    }

    fn has(&self, flag: char) -> bool {
        self.flags.contains(flag)
    }

    /// Text in the width that is asked for.
    fn padded(&self, text: &str) -> String {
        let missing = self.width.unwrap_or(0).saturating_sub(text.chars().count());
        let blanks = " ".repeat(missing);
        if self.has('-') { format!("{text}{blanks}") } else { format!("{blanks}{text}") }
    }

    /// A number of these digits with sign, groups and zeros.
    fn number(&self, negative: bool, digits: &str) -> String {
        let grouped = if self.has(',') { with_groups(digits) } else { digits.to_owned() };
        let (before, after) = match negative {
            true if self.has('(') => ("(", ")"),
            true => ("-", ""),
            false if self.has('+') => ("+", ""),
            false if self.has(' ') => (" ", ""),
            false => ("", ""),
        };
        let zeros = match (self.has('0'), self.width) {
            (true, Some(width)) => width.saturating_sub(before.len() + grouped.len() + after.len()),
            _ => 0,
        };
        self.padded(&format!("{before}{}{grouped}{after}", "0".repeat(zeros)))
    }

    /// The value in this form; `None` when it does not fit.
    fn write(&self, value: &FormatValue) -> Option<String> {
        let precise = |text: &str| match self.precision {
            Some(count) => text.chars().take(count).collect(),
            None => text.to_owned(),
        };
        Some(match (self.conversion, value) {
            ('b', FormatValue::Boolean(truth)) => self.padded(&precise(&truth.to_string())),
            ('b', FormatValue::Null) => self.padded(&precise("false")),
            ('b', _) => self.padded(&precise("true")),
            ('s' | 'd' | 'f' | 'e' | 'x' | 'o' | 'c', FormatValue::Null) => self.padded(&precise("null")),
            ('s', value) => self.padded(&precise(&plain(value))),
            ('d', FormatValue::Integer(i, _)) if self.precision.is_none() => {
                self.number(*i < 0, &i.unsigned_abs().to_string())
            }
            ('x' | 'o', FormatValue::Integer(i, bits)) if self.precision.is_none() => {
                let bits = *i as u64 & (u64::MAX >> (64 - bits));
                let (prefix, digits) =
                    if self.conversion == 'x' { ("0x", format!("{bits:x}")) } else { ("0", format!("{bits:o}")) };
                let prefix = if self.has('#') { prefix } else { "" };
                let missing = match (self.has('0'), self.width) {
                    (true, Some(width)) => width.saturating_sub(prefix.len() + digits.len()),
                    _ => 0,
                };
                self.padded(&format!("{prefix}{}{digits}", "0".repeat(missing)))
            }
            ('c', FormatValue::Integer(i, _)) => self.padded(&char::from_u32(u32::try_from(*i).ok()?)?.to_string()),
            ('c', FormatValue::Text(text)) if text.chars().count() == 1 => self.padded(text),
            ('f', FormatValue::Float(x)) if !x.is_finite() => self.padded(&plain(value)),
            ('f', FormatValue::Float(_) | FormatValue::Decimal(_)) => self.fixed(value)?,
            ('e', FormatValue::Float(x)) => self.scientific(*x),
            ('e', FormatValue::Decimal(text)) => self.scientific(text.parse().ok()?),
            _ => return None,
        })
    }

    /// `%f`: rounded half up, as decimals are.
    fn fixed(&self, value: &FormatValue) -> Option<String> {
        const DIGITS: u8 = 38;
        let places = self.precision.unwrap_or(6);
        let scale = u8::try_from(places).ok().filter(|places| *places < DIGITS);
        let unscaled = scale.and_then(|scale| match value {
            FormatValue::Float(x) => text::decimal_of_f64(*x, DIGITS, scale),
            FormatValue::Decimal(text) => text::parse_decimal(text, DIGITS, scale),
            _ => None,
        });
        let digits = match (unscaled, scale, value) {
            (Some(unscaled), Some(scale), _) => {
                let mut digits = Vec::new();
                text::write_decimal(&mut digits, unscaled, scale);
                String::from_utf8(digits).ok()?
            }
            (_, _, FormatValue::Float(x)) => format!("{x:.places$}"),
            _ => return None,
        };
        let negative = digits.starts_with('-');
        Some(self.number(negative, digits.trim_start_matches('-')))
    }

    /// `%e`: an exponent of at least two digits.
    fn scientific(&self, x: f64) -> String {
        if !x.is_finite() {
            return self.padded(&plain(&FormatValue::Float(x)));
        }
        let written = format!("{:.*e}", self.precision.unwrap_or(6), x.abs());
        let (mantissa, exponent) = written.split_once('e').unwrap_or((&written, "0"));
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(exponent) => ('-', exponent),
            None => ('+', exponent),
        };
        self.number(x < 0.0, &format!("{mantissa}e{sign}{exponent:0>2}"))
    }
}

/// `1234567.5` as `1,234,567.5`.
fn with_groups(digits: &str) -> String {
    let (whole, rest) = digits.split_at(digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len()));
    let mut out = String::new();
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out + rest
}

/// A value as `%s` writes it.
fn plain(value: &FormatValue) -> String {
    match value {
        FormatValue::Null => "null".to_owned(),
        FormatValue::Boolean(truth) => truth.to_string(),
        FormatValue::Integer(i, _) => i.to_string(),
        FormatValue::Float(x) => {
            let mut out = Vec::new();
            text::write_f64(&mut out, *x);
            String::from_utf8_lossy(&out).into_owned()
        }
        FormatValue::Decimal(text) | FormatValue::Text(text) => (*text).to_owned(),
    }
}

/// Writes values in a format; `None` when it is malformed or does not fit them.
fn print(format: &str, values: &[FormatValue]) -> Option<String> {
    let mut out = String::with_capacity(format.len());
    let mut rest = format;
    let mut next = 0;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        let (mut specifier, after) = Specifier::read(&rest[at + 1..])?;
        rest = after;
        let text = match specifier.conversion {
            '%' => specifier.padded("%"),
            'n' => "\n".to_owned(),
            conversion => {
                let index = match specifier.argument {
                    Some(position) => position.checked_sub(1)?,
                    None => {
                        next += 1;
                        next - 1
                    }
                };
                specifier.conversion = conversion.to_ascii_lowercase();
                let text = specifier.write(values.get(index)?)?;
                let upper = "BSXEC".contains(conversion);
                if conversion.is_ascii_uppercase() && !upper {
                    return None;
                }
                if upper { text.to_uppercase() } else { text }
            }
        };
        out.push_str(&text);
    }
    out.push_str(rest);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_as_java_does() {
        let cases: &[(&str, &[FormatValue], &str)] = &[
            (
                "%d%%|%5d|%-5d|%05d|%+d",
                &[7, 7, -7, -7, 7].map(|i| FormatValue::Integer(i, 32)),
                "7%|    7|-7   |-0007|+7",
            ),
            ("%,d (%(d)", &[FormatValue::Integer(1_234_567, 64), FormatValue::Integer(-5, 64)], "1,234,567 ((5))"),
            ("%x %X %#x %o", &[255, -1, 16, 8].map(|i| FormatValue::Integer(i, 32)), "ff FFFFFFFF 0x10 10"),
            ("%.2f %8.1f|%e", &[1.005, -2.25, 12345.678].map(FormatValue::Float), "1.01     -2.3|1.234568e+04"),
            ("%.1f %s", &[FormatValue::Decimal("0.25"), FormatValue::Decimal("1.50")], "0.3 1.50"),
            ("%2$s %1$S %s", &[FormatValue::Text("a"), FormatValue::Text("b")], "b A a"),
            (
                "%s %b %c %.2s",
                &[FormatValue::Null, FormatValue::Null, FormatValue::Integer(65, 32), FormatValue::Text("abc")],
                "null false A ab",
            ),
        ];
        for (format, values, expected) in cases {
            assert_eq!(print(format, values).as_deref(), Some(*expected), "{format}");
        }
    }

    #[test]
    fn rejects_what_does_not_fit() {
        for (format, values) in [
            ("%d", vec![]),
            ("%d", vec![FormatValue::Text("a")]),
            ("%", vec![]),
            ("%q", vec![FormatValue::Null]),
            ("%1$", vec![]),
        ] {
            assert_eq!(print(format, &values), None, "{format}");
        }
    }
}
