//! Parameters of a script: `?` and `$name` stand for values of the program.
//!
//! A parameter becomes the tokens of a literal, at the place of the placeholder. So its type is that of the literal, errors show
//! the placeholder, and no text of a value is ever read as SQL.

use crate::diagnostics::error_at;
use crate::dialect::FlinkDialect;
use millstream_types::{Diagnostic, code, counted, secret};
use serde::{Deserialize, Serialize};
use sqlparser::tokenizer::{Span, Token, TokenWithSpan, Tokenizer};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Write;

/// A value of the program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ParameterValue {
    /// `NULL`
    Null,
    /// BOOLEAN
    Boolean(bool),
    /// INT, BIGINT or DECIMAL, by its digits: an optional sign and digits, with a point for decimals.
    Number(String),
    /// DOUBLE
    Double(f64),
    /// STRING
    String(String),
    /// BYTES
    Bytes(Vec<u8>),
    /// `YYYY-MM-DD`
    Date(String),
    /// `HH:MM:SS[.fff]`
    Time(String),
    /// `YYYY-MM-DD HH:MM:SS[.fffffffff]`
    Timestamp(String),
    /// TIMESTAMP_LTZ(3): milliseconds since the epoch.
    Instant(i64),
    /// INTERVAL DAY TO SECOND: milliseconds.
    Interval(i64),
    /// ARRAY
    List(Vec<ParameterValue>),
}

/// The parameters of a script.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub enum Parameters {
    /// There are none.
    #[default]
    None,
    /// For each `?` in order; `$1` is the first.
    Positional(Vec<ParameterValue>),
    /// By name, without the `$`.
    Named(BTreeMap<String, ParameterValue>),
}

impl Parameters {
    /// Replaces the placeholders among the tokens of a script.
    pub(crate) fn replace(&self, tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>, Diagnostic> {
        if matches!(self, Parameters::None) {
            return Ok(tokens);
        }
        let used = Cell::new(0_usize);
        let mut replaced = Vec::with_capacity(tokens.len());
        for token in tokens {
            match &token.token {
                Token::Placeholder(placeholder) => {
                    let literal = self.value(placeholder, &used).map_err(|(message, advice)| {
                        error_at(code::UNUSABLE_PARAMETER, token.span, message).advise(advice)
                    })?;
                    remember_secret(&replaced, literal);
                    replaced.extend(literal_tokens(literal, token.span)?);
                }
                _ => replaced.push(token),
            }
        }
        match self {
            Parameters::Positional(given) if used.get() < given.len() => {
                let message = format!("the script uses {} of {}", used.get(), counted(given.len(), "parameter"));
                Err(Diagnostic::new(code::UNUSABLE_PARAMETER, message).advise("write a `?` for each parameter"))
            }
            _ => Ok(replaced),
        }
    }

    /// The value of a placeholder; else message and advice.
    fn value(&self, placeholder: &str, used: &Cell<usize>) -> Result<&ParameterValue, (String, String)> {
        let name = placeholder.trim_start_matches(['?', '$', ':']);
        match self {
            Parameters::Positional(given) => {
                let number = match name.parse::<usize>() {
                    Ok(number) => number,
                    Err(_) if name.is_empty() => used.get() + 1,
                    Err(_) => {
                        let message =
                            format!("the parameter `{placeholder}` has a name, and a list of values was given");
                        return Err((message, "give a mapping of names to values, or write `?`".into()));
                    }
                };
                used.set(used.get().max(number));
                number.checked_sub(1).and_then(|index| given.get(index)).ok_or_else(|| {
                    (
                        format!("parameter {number} has no value: {} are given", given.len()),
                        "give one value more".into(),
                    )
                })
            }
            Parameters::Named(given) if name.is_empty() => {
                let names: Vec<&str> = given.keys().map(String::as_str).collect();
                Err((
                    "`?` has no name, and named values were given".into(),
                    format!("write one of ${}", names.join(", $")),
                ))
            }
            Parameters::Named(given) => given.get(name).ok_or_else(|| {
                let names: Vec<&str> = given.keys().map(String::as_str).collect();
                (format!("the parameter `${name}` has no value"), format!("values are given for: {}", names.join(", ")))
            }),
            Parameters::None => unreachable!("without parameters a placeholder is an error of syntax"),
        }
    }
}

/// Has a value masked that stands behind the key of a secret, as `'password' = ?`.
fn remember_secret(before: &[TokenWithSpan], value: &ParameterValue) {
    if let [.., key, equals] = before
        && let (Token::SingleQuotedString(key), Token::Eq, ParameterValue::String(value)) =
            (&key.token, &equals.token, value)
    {
        let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
        secret::remember_statement(&format!("{} = {}", quoted(key), quoted(value)));
    }
}

fn literal_tokens(value: &ParameterValue, span: Span) -> Result<Vec<TokenWithSpan>, Diagnostic> {
    check_numbers(value)?;
    let mut text = String::new();
    write_literal(value, &mut text);
    let tokens = Tokenizer::new(&FlinkDialect, &text).tokenize();
    let tokens = tokens.map_err(|e| Diagnostic::bug(format!("the literal of a parameter cannot be read: {e}")))?;
    let of_literal = tokens.into_iter().filter(|token| !matches!(token, Token::Whitespace(_)));
    Ok(of_literal.map(|token| TokenWithSpan { token, span }).collect())
}

/// A number is digits with a sign and a point, whatever made its text.
fn check_numbers(value: &ParameterValue) -> Result<(), Diagnostic> {
    match value {
        ParameterValue::List(values) => values.iter().try_for_each(check_numbers),
        ParameterValue::Number(text) => {
            let digits = text.strip_prefix('-').unwrap_or(text);
            let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
            let are_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
            match are_digits(whole) && are_digits(fraction) {
                true => Ok(()),
                false => Err(Diagnostic::new(code::UNUSABLE_PARAMETER, format!("'{text}' is not a number"))),
            }
        }
        _ => Ok(()),
    }
}

fn write_literal(value: &ParameterValue, text: &mut String) {
    let quoted = |value: &str| format!("'{}'", value.replace('\'', "''"));
    // Writing to a string cannot fail.
    let _ = match value {
        ParameterValue::Null => write!(text, "NULL"),
        ParameterValue::Boolean(value) => write!(text, "{}", if *value { "TRUE" } else { "FALSE" }),
        ParameterValue::Number(digits) if digits.starts_with('-') => write!(text, "({digits})"),
        ParameterValue::Number(digits) => write!(text, "{digits}"),
        ParameterValue::Double(value) => {
            let word = match value {
                _ if value.is_nan() => "NaN".into(),
                _ if value.is_infinite() => if *value > 0.0 { "Infinity" } else { "-Infinity" }.into(),
                _ => format!("{value:e}"),
            };
            write!(text, "CAST('{word}' AS DOUBLE)")
        }
        ParameterValue::String(value) => write!(text, "{}", quoted(value)),
        ParameterValue::Bytes(bytes) => {
            let _ = write!(text, "X'");
            for byte in bytes {
                let _ = write!(text, "{byte:02X}");
            }
            write!(text, "'")
        }
        ParameterValue::Date(value) => write!(text, "DATE {}", quoted(value)),
        ParameterValue::Time(value) => write!(text, "TIME {}", quoted(value)),
        ParameterValue::Timestamp(value) => write!(text, "TIMESTAMP {}", quoted(value)),
        ParameterValue::Instant(millis) => write!(text, "TO_TIMESTAMP_LTZ({millis}, 3)"),
        ParameterValue::Interval(millis) => {
            let (sign, left) = (if *millis < 0 { "-" } else { "" }, millis.unsigned_abs());
            let (days, hours, minutes) = (left / 86_400_000, left / 3_600_000 % 24, left / 60_000 % 60);
            let (seconds, millis) = (left / 1_000 % 60, left % 1_000);
            write!(text, "INTERVAL '{sign}{days} {hours:02}:{minutes:02}:{seconds:02}.{millis:03}' DAY(9) TO SECOND(3)")
        }
        ParameterValue::List(values) => {
            let _ = write!(text, "ARRAY[");
            for (number, value) in values.iter().enumerate() {
                if number > 0 {
                    text.push_str(", ");
                }
                write_literal(value, text);
            }
            write!(text, "]")
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_script_with;
    use millstream_types::Place;

    fn shown(script: &str, parameters: &Parameters) -> Result<String, Diagnostic> {
        let statements = parse_script_with(script, parameters)?;
        let crate::Statement::Query(query) = &statements[0].statement else { panic!("a query") };
        Ok(query.to_string())
    }

    #[test]
    fn placeholders_become_literals() {
        let values = vec![
            ParameterValue::Number("-5".into()),
            ParameterValue::String("it's; DROP".into()),
            ParameterValue::Double(0.1),
            ParameterValue::Null,
            ParameterValue::List(vec![ParameterValue::Number("1".into()), ParameterValue::Number("2.50".into())]),
            ParameterValue::Bytes(vec![1, 255]),
            ParameterValue::Interval(90_061_001),
        ];
        assert_eq!(
            shown("SELECT ?, ?, ?, ?, ?, ?, ?", &Parameters::Positional(values)).unwrap(),
            "SELECT (-5), 'it''s; DROP', CAST('1e-1' AS DOUBLE), NULL, ARRAY[1, 2.50], X'01FF', \
             INTERVAL '1 01:01:01.001' DAY (9) TO SECOND (3)"
        );
        let named = BTreeMap::from([("low".into(), ParameterValue::Number("7".into()))]);
        assert_eq!(shown("SELECT $low + $low", &Parameters::Named(named)).unwrap(), "SELECT 7 + 7");
        let one = Parameters::Positional(vec![ParameterValue::Boolean(true)]);
        assert_eq!(shown("SELECT $1, '?', `?` -- ?", &one).unwrap(), "SELECT true, '?', `?`");
    }

    #[test]
    fn what_does_not_fit_says_where() {
        let one = Parameters::Positional(vec![ParameterValue::Null]);
        let cases: [(&str, &Parameters, &str, Option<u64>); 4] = [
            ("SELECT 1", &one, "the script uses 0 of 1 parameter", None),
            ("SELECT ?, ?", &one, "parameter 2 has no value: 1 are given", Some(11)),
            ("SELECT $low", &one, "the parameter `$low` has a name, and a list of values was given", Some(8)),
            ("SELECT $x", &Parameters::Named(BTreeMap::new()), "the parameter `$x` has no value", Some(8)),
        ];
        for (script, parameters, message, at) in cases {
            let error = shown(script, parameters).unwrap_err();
            assert_eq!((error.code, error.message.as_str()), (code::UNUSABLE_PARAMETER, message), "{script}");
            let column = error.place.map(|place| match place {
                Place::Sql { column, .. } => column,
                other => panic!("{other}"),
            });
            assert_eq!(column, at, "{script}");
        }
    }
}
