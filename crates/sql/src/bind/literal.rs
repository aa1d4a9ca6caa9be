//! Literals with Flink's types: `12` INT, `0.908` DECIMAL(4, 3), `1e3` DOUBLE, `'abc'` CHAR(3),
//! `TIMESTAMP '2020-01-01 00:00:00.000'` TIMESTAMP(3), `INTERVAL '1:30' HOUR TO MINUTE`.

use super::place::{error, from_parser, span_of, unsupported};
use millstream_plan::expr::{Expr, Span};
use millstream_types::text::calendar::{days_from_civil, days_in_month};
use millstream_types::{DataType, Diagnostic, Value, code};
use sqlparser::ast;

/// A plain literal.
pub(crate) fn bind_value(literal: &ast::ValueWithSpan) -> Result<Expr, Diagnostic> {
    let span = from_parser(literal.span);
    let (value, data_type) = match &literal.value {
        ast::Value::Number(text, _) => number(text, span)?,
        ast::Value::SingleQuotedString(s)
        | ast::Value::UnicodeStringLiteral(s)
        | ast::Value::NationalStringLiteral(s) => (Value::String(s.clone()), DataType::Char(count(s.chars().count()))),
        ast::Value::HexStringLiteral(digits) => {
            let bytes = hex(digits).ok_or_else(|| {
                error(code::INVALID_LITERAL, span, "a binary literal needs pairs of hexadecimal digits")
                    .advise("write it as X'0AFF'")
            })?;
            let length = count(bytes.len());
            (Value::Bytes(bytes), DataType::Binary(length))
        }
        ast::Value::Boolean(b) => (Value::Boolean(*b), DataType::Boolean),
        ast::Value::Null => (Value::Null, DataType::Null),
        ast::Value::DoubleQuotedString(s) => {
            let advice = format!("write '{s}' for a string and `{s}` for a name");
            return Err(error(code::INVALID_LITERAL, span, "double quotes mean nothing in Flink SQL").advise(advice));
        }
        other => {
            let message = format!("{other} is not a literal of Flink SQL");
            return Err(error(code::INVALID_LITERAL, span, message).advise("write strings in single quotes"));
        }
    };
    Ok(Expr::literal(value, data_type).at(span))
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(i32::MAX as u32)
}

/// Integers are INT or, when too large, BIGINT; with a point DECIMAL with as many digits as written; with an exponent
/// DOUBLE.
fn number(text: &str, span: Span) -> Result<(Value, DataType), Diagnostic> {
    let invalid = |why: &str| {
        error(code::INVALID_LITERAL, span, format!("{text} {why}"))
            .advise("write it with an exponent, as in 1.5E0, for a DOUBLE")
    };
    if text.contains(['e', 'E']) {
        let number: f64 = text.parse().map_err(|_| invalid("is not a number"))?;
        return Ok((Value::Float(number), DataType::Double));
    }
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.is_empty()
        && let Ok(number) = whole.parse::<i64>()
    {
        let data_type = if i32::try_from(number).is_ok() { DataType::Int } else { DataType::BigInt };
        return Ok((Value::Int(number), data_type));
    }
    // As in Calcite, every digit that is written counts, so that 0.908 is DECIMAL(4, 3) and .5 is DECIMAL(1, 1).
    let precision = whole.len() + fraction.len();
    if precision > 38 {
        return Err(invalid("has more than the 38 digits of DECIMAL"));
    }
    let unscaled: i128 = format!("{whole}{fraction}").parse().map_err(|_| invalid("is not a number"))?;
    Ok((Value::Decimal(unscaled), DataType::decimal(precision as u8, fraction.len() as u8)))
}

/// Minus an integer that is written with any number of signs and parentheses. As in Flink these are one literal, whose
/// value says whether it is an INT: `-2147483648` is one, and `-(-2147483648)` a BIGINT.
pub(crate) fn negated_integer(operand: &ast::Expr) -> Option<(i64, DataType)> {
    let (mut is_negative, mut inner) = (true, operand);
    let text = loop {
        inner = match inner {
            ast::Expr::Nested(inner) => inner,
            ast::Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr } => {
                is_negative = !is_negative;
                expr
            }
            ast::Expr::Value(value) => match &value.value {
                ast::Value::Number(text, _) => break text,
                _ => return None,
            },
            _ => return None,
        };
    };
    let value: i128 = text.parse().ok()?;
    let value = i64::try_from(if is_negative { -value } else { value }).ok()?;
    Some((value, if i32::try_from(value).is_ok() { DataType::Int } else { DataType::BigInt }))
}

fn hex(digits: &str) -> Option<Vec<u8>> {
    if !digits.is_ascii() || !digits.len().is_multiple_of(2) {
        return None;
    }
    (0..digits.len()).step_by(2).map(|i| u8::from_str_radix(&digits[i..i + 2], 16).ok()).collect()
}

/// `DATE '…'`, `TIME '…'`, `TIMESTAMP '…'`: the precision is the number of digits given.
pub(crate) fn bind_typed_string(literal: &ast::TypedString) -> Result<Expr, Diagnostic> {
    let span = span_of(&literal.value);
    let Some(text) = literal.value.value.clone().into_string() else {
        return Err(error(code::INVALID_LITERAL, span, "expected a string in single quotes"));
    };
    let invalid = |what: &str, form: &str| {
        error(code::INVALID_LITERAL, span, format!("'{text}' is not a {what}")).advise(format!("write it as {form}"))
    };
    let (value, data_type) = match &literal.data_type {
        ast::DataType::Date => {
            let days = parse_date(&text).ok_or_else(|| invalid("date", "DATE '2020-12-31'"))?;
            (days, DataType::Date)
        }
        ast::DataType::Time(_, ast::TimezoneInfo::None | ast::TimezoneInfo::WithoutTimeZone) => {
            let (nanos, digits) = parse_time(&text).ok_or_else(|| invalid("time", "TIME '23:59:59'"))?;
            (nanos / 1_000_000, DataType::Time(digits))
        }
        ast::DataType::Timestamp(_, ast::TimezoneInfo::None | ast::TimezoneInfo::WithoutTimeZone) => {
            let form = "TIMESTAMP '2020-12-31 23:59:59.999'";
            let (value, digits) = parse_timestamp(&text).ok_or_else(|| invalid("timestamp", form))?;
            (value, DataType::Timestamp(digits))
        }
        other => {
            let advice = "write CAST('…' AS the type), or a DATE, TIME or TIMESTAMP literal";
            return Err(error(code::INVALID_LITERAL, span, format!("there are no {other} literals")).advise(advice));
        }
    };
    Ok(Expr::literal(Value::Int(value), data_type).at(span))
}

fn parse_date(text: &str) -> Option<i64> {
    let mut parts = text.split('-');
    let (year, month, day) = (digits(parts.next()?, 4, 4)?, digits(parts.next()?, 1, 2)?, digits(parts.next()?, 1, 2)?);
    let in_range = (1..=12).contains(&month) && day >= 1 && day <= i64::from(days_in_month(year, month as u32));
    (parts.next().is_none() && in_range).then(|| days_from_civil(year, month as u32, day as u32))
}

/// Nanoseconds of the day, and the number of digits of the fraction.
fn parse_time(text: &str) -> Option<(i64, u8)> {
    let (clock, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut parts = clock.split(':');
    let (hour, minute) = (digits(parts.next()?, 1, 2)?, digits(parts.next()?, 1, 2)?);
    let second = parts.next().map_or(Some(0), |s| digits(s, 1, 2))?;
    if parts.next().is_some() || hour > 23 || minute > 59 || second > 59 || fraction.len() > 9 {
        return None;
    }
    let nanos = if fraction.is_empty() { 0 } else { digits(&format!("{fraction:0<9}"), 9, 9)? };
    Some((((hour * 60 + minute) * 60 + second) * 1_000_000_000 + nanos, fraction.len() as u8))
}

/// The value in the unit of TIMESTAMP(digits), and the digits.
fn parse_timestamp(text: &str) -> Option<(i64, u8)> {
    let (date, time) = text.trim().split_once([' ', 'T']).unwrap_or((text, "00:00:00"));
    let (days, (nanos, digits)) = (parse_date(date)?, parse_time(time)?);
    let per_second = DataType::Timestamp(digits).time_unit().per_second();
    let whole = days.checked_mul(86_400)?.checked_mul(per_second)?;
    Some((whole.checked_add(nanos / (1_000_000_000 / per_second))?, digits))
}

fn digits(text: &str, min: usize, max: usize) -> Option<i64> {
    let fine = (min..=max).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    fine.then(|| text.parse().ok()).flatten()
}

/// Units of intervals from large to small, with what the next smaller one counts up to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Unit {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
}

impl Unit {
    /// Months, or milliseconds.
    fn size(self) -> i64 {
        match self {
            Unit::Year => 12,
            Unit::Month => 1,
            Unit::Day => 86_400_000,
            Unit::Hour => 3_600_000,
            Unit::Minute => 60_000,
            Unit::Second => 1_000,
        }
    }

    /// The next smaller unit, the largest value that it has after this one, and what stands before its number then.
    fn next(self) -> Option<(Unit, i64, char)> {
        match self {
            Unit::Year => Some((Unit::Month, 11, '-')),
            Unit::Day => Some((Unit::Hour, 23, ' ')),
            Unit::Hour => Some((Unit::Minute, 59, ':')),
            Unit::Minute => Some((Unit::Second, 59, ':')),
            Unit::Month | Unit::Second => None,
        }
    }
}

/// `INTERVAL '…' unit [TO unit]`.
pub(crate) fn bind_interval(interval: &ast::Interval) -> Result<Expr, Diagnostic> {
    let (negative, operand) = match &*interval.value {
        ast::Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr } => (true, &**expr),
        ast::Expr::UnaryOp { op: ast::UnaryOperator::Plus, expr } => (false, &**expr),
        other => (false, other),
    };
    let span = span_of(operand);
    let text = match operand {
        ast::Expr::Value(v) => match &v.value {
            ast::Value::SingleQuotedString(text) | ast::Value::Number(text, _) => text.trim(),
            _ => return Err(invalid_interval(span, "an interval needs a number in single quotes")),
        },
        _ => {
            return Err(unsupported(
                "an INTERVAL of an expression",
                span,
                "multiply a constant interval instead: x * INTERVAL '1' SECOND",
            ));
        }
    };
    let Some(leading) = &interval.leading_field else {
        let mut words = text.split_whitespace();
        let unit = |word: &str| word.to_uppercase().trim_end_matches('S').to_owned();
        return Err(match (words.next(), words.next()) {
            (Some(number), Some(word))
                if ["SECOND", "MINUTE", "HOUR", "DAY", "MONTH", "YEAR"].contains(&unit(word).as_str()) =>
            {
                error(code::INVALID_LITERAL, span, "an interval needs its unit behind the quotes")
                    .advise(format!("write INTERVAL '{number}' {}", unit(word)))
            }
            _ => invalid_interval(span, "an interval needs a unit"),
        });
    };
    let (scale, first) = unit_of(leading, span)?;
    let last = match &interval.last_field {
        Some(field) => unit_of(field, span)?.1,
        None => first,
    };
    let data_type = if first <= Unit::Month { DataType::IntervalMonth } else { DataType::IntervalMilli };
    if last < first || (first <= Unit::Month) != (last <= Unit::Month) {
        return Err(invalid_interval(span, "the units of the interval cannot be combined"));
    }
    let magnitude = parse_interval(text, first, last)
        .and_then(|n| n.checked_mul(if negative { -scale } else { scale }))
        .filter(|n| data_type == DataType::IntervalMilli || i32::try_from(*n).is_ok())
        .ok_or_else(|| invalid_interval(span, &format!("'{text}' does not have the form of the interval's units")))?;
    Ok(Expr::literal(Value::Int(magnitude), data_type).at(span))
}

fn invalid_interval(span: Span, message: &str) -> Diagnostic {
    error(code::INVALID_LITERAL, span, message)
        .advise("write INTERVAL '10' SECOND, INTERVAL '1:30' HOUR TO MINUTE or INTERVAL '1-6' YEAR TO MONTH")
}

/// A unit, and how many of it the keyword stands for.
fn unit_of(field: &ast::DateTimeField, span: Span) -> Result<(i64, Unit), Diagnostic> {
    use ast::DateTimeField as F;
    match field {
        F::Year | F::Years => Ok((1, Unit::Year)),
        F::Quarter => Ok((3, Unit::Month)),
        F::Month | F::Months => Ok((1, Unit::Month)),
        F::Week(None) | F::Weeks => Ok((7, Unit::Day)),
        F::Day | F::Days => Ok((1, Unit::Day)),
        F::Hour | F::Hours => Ok((1, Unit::Hour)),
        F::Minute | F::Minutes => Ok((1, Unit::Minute)),
        F::Second | F::Seconds => Ok((1, Unit::Second)),
        other => Err(invalid_interval(span, &format!("{other} is not a unit of intervals"))),
    }
}

/// Months or milliseconds.
fn parse_interval(text: &str, first: Unit, last: Unit) -> Option<i64> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (mut total, mut unit, mut limit) = (0i64, first, i64::MAX);
    loop {
        let (number, next) = match unit == last {
            true => (rest, None),
            false => {
                let next = unit.next()?;
                let (number, after) = rest.split_once(next.2)?;
                rest = after.trim_start();
                (number, Some(next))
            }
        };
        let units =
            if unit == Unit::Second { seconds(number)? } else { digits(number, 1, 18)?.checked_mul(unit.size())? };
        if units / unit.size() > limit {
            return None;
        }
        total = total.checked_add(units)?;
        let Some(next) = next else { return Some(sign * total) };
        (unit, limit) = (next.0, next.1);
    }
}

/// Milliseconds of a number of seconds with an optional fraction, of which three digits count.
fn seconds(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let millis = if fraction.is_empty() {
        0
    } else {
        digits(&format!("{fraction:0<3}"), 3, 9)? / 10i64.pow(fraction.len().max(3) as u32 - 3)
    };
    digits(whole, 1, 15)?.checked_mul(1_000)?.checked_add(millis)
}
