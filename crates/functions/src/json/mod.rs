//! JSON functions on strings.
//!
//! What a path finds in a document is one of three: a value, nothing, or an error ([`Outcome`]). SQL says for the last
//! two what the function gives; that choice is made outside, by a CASE over [`value_outcome`], or by a number that
//! stands for the clause. The document of the row before is kept parsed, because queries tend to take several values
//! out of one column.

mod document;
mod path;
mod quoting;

pub(crate) use document::LastDocument;
pub(crate) use path::Path;
pub(crate) use quoting::{array_of_strings, is_json, quote, unquote};

use crate::casts::shorten;
use crate::context::{Failure, FunctionContext};
use document::{Value, write_array};
use millstream_types::text;
use path::{Mode, Selected};

/// What a path finds.
enum Outcome<T> {
    Value(T),
    Empty,
    /// What is wrong.
    Error(String),
}

/// Looks a path up; `use_value` gets what it selects, `None` for nothing or `null`.
fn look_up<T>(
    context: &mut FunctionContext,
    json: &str,
    path: &str,
    use_value: impl FnOnce(Mode, Option<Selected>) -> Outcome<T>,
) -> Outcome<T> {
    let caches = &mut context.caches;
    let path = match caches.json_paths.get(path, Path::parse) {
        Ok(path) => path,
        Err(message) => return Outcome::Error(message.clone()),
    };
    let Some(document) = caches.document.parse(json) else {
        return match path.mode {
            Mode::Lax => Outcome::Empty,
            Mode::Strict => Outcome::Error("the text is not JSON".to_owned()),
        };
    };
    if *document == Value::Null {
        // Flink's library knows no paths into nothing, whatever their mode.
        return Outcome::Error("the document is null".to_owned());
    }
    match path.select(document) {
        None if path.mode == Mode::Lax && !path.is_definite() => use_value(path.mode, Some(Selected::Many(vec![]))),
        None if path.mode == Mode::Strict => Outcome::Error("the path selects nothing".to_owned()),
        Some(Selected::One(Value::Null)) => use_value(path.mode, None),
        selected => use_value(path.mode, selected),
    }
}

/// Types that JSON_VALUE gives, by number.
const BOOLEAN: i32 = 1;
const INT: i32 = 2;
const BIGINT: i32 = 3;
const DOUBLE: i32 = 4;

/// The text of a scalar, if it is one that a type of JSON_VALUE takes.
fn scalar_text(value: &Value, returning: i32) -> Result<String, String> {
    let text = match value {
        Value::Bool(truth) => truth.to_string(),
        Value::String(text) => text.clone(),
        Value::Number(number) => number.clone(),
        _ => return Err("the value is not a scalar".to_owned()),
    };
    let fits = match (returning, value) {
        (BOOLEAN, Value::Number(_)) | (INT..=DOUBLE, Value::Bool(_)) => false,
        (BOOLEAN, _) => text::parse_boolean(&text).is_some(),
        (INT, _) => text::parse_integer(&text, i32::MIN.into(), i32::MAX.into()).is_some(),
        (BIGINT, _) => text::parse_integer(&text, i64::MIN, i64::MAX).is_some(),
        (DOUBLE, _) => text::parse_f64(&text).is_some(),
        _ => true,
    };
    if fits { Ok(text) } else { Err(format!("'{text}' is not a value of the type that is returned")) }
}

fn find_scalar(context: &mut FunctionContext, json: &str, path: &str, returning: i32) -> Outcome<String> {
    look_up(context, json, path, |mode, selected| match selected {
        None => Outcome::Empty,
        Some(Selected::One(value)) if value.is_scalar() => match scalar_text(value, returning) {
            Ok(text) => Outcome::Value(text),
            Err(message) => Outcome::Error(message),
        },
        Some(_) if mode == Mode::Lax => Outcome::Empty,
        Some(_) => Outcome::Error("the value is not a scalar".to_owned()),
    })
}

/// `JSON_VALUE(json, path)` as text that can be cast to the type of this number; NULL for nothing and for an error.
pub(crate) fn json_value(context: &mut FunctionContext, json: &str, path: &str, returning: i32) -> Option<String> {
    match find_scalar(context, json, path, returning) {
        Outcome::Value(text) => Some(text),
        Outcome::Empty | Outcome::Error(_) => None,
    }
}

/// What JSON_VALUE finds: 0 a value, 1 nothing, 2 an error. Fails the row for nothing if `fail` has bit 1, for an error
/// if it has bit 2.
pub(crate) fn value_outcome(
    context: &mut FunctionContext,
    json: &str,
    path: &str,
    returning: i32,
    fail: i32,
) -> Result<i32, Failure> {
    match find_scalar(context, json, path, returning) {
        Outcome::Value(_) => Ok(0),
        Outcome::Empty if fail & 1 != 0 => Err(nothing("JSON_VALUE", path)),
        Outcome::Empty => Ok(1),
        Outcome::Error(message) if fail & 2 != 0 => Err(failed("JSON_VALUE", path, &message)),
        Outcome::Error(_) => Ok(2),
    }
}

fn nothing(function: &str, path: &str) -> Failure {
    Failure::argument(format!("{function}: the path '{path}' selects nothing"))
}

fn failed(function: &str, path: &str, message: &str) -> Failure {
    Failure::argument(format!("{function} with the path '{path}': {message}"))
}

/// `JSON_EXISTS(json, path)`; on an error 0 gives FALSE, 1 TRUE, 2 NULL, and 3 fails the row.
pub(crate) fn exists(
    context: &mut FunctionContext,
    json: &str,
    path: &str,
    on_error: i32,
) -> Result<Option<bool>, Failure> {
    let outcome = look_up(context, json, path, |_, selected| match selected {
        Some(_) => Outcome::Value(()),
        None => Outcome::Empty,
    });
    match (outcome, on_error) {
        (Outcome::Value(()), _) => Ok(Some(true)),
        (Outcome::Empty, _) | (Outcome::Error(_), 0) => Ok(Some(false)),
        (Outcome::Error(_), 1) => Ok(Some(true)),
        (Outcome::Error(_), 2) => Ok(None),
        (Outcome::Error(message), _) => Err(failed("JSON_EXISTS", path, &message)),
    }
}

/// `JSON_QUERY(json, path)`. The wrapper is 0 for none, 1 for a conditional, 2 for an unconditional one; where nothing is
/// selected, or an error occurs, 0 gives NULL, 1 `[]`, 2 `{}`, and 3 fails the row.
pub(crate) fn query(
    context: &mut FunctionContext,
    json: &str,
    path: &str,
    wrapper: i32,
    on_empty: i32,
    on_error: i32,
) -> Result<Option<String>, Failure> {
    let outcome = look_up(context, json, path, |mode, selected| {
        let mut text = String::new();
        let (is_array, is_scalar) = match selected {
            None => return Outcome::Empty,
            Some(Selected::Many(values)) => {
                write_array(values.into_iter(), &mut text);
                (true, false)
            }
            Some(Selected::One(value)) => {
                value.write(&mut text);
                (matches!(value, Value::Array(_)), value.is_scalar())
            }
        };
        match wrapper {
            2 => Outcome::Value(format!("[{text}]")),
            1 if !is_array => Outcome::Value(format!("[{text}]")),
            _ if !is_scalar => Outcome::Value(text),
            _ if mode == Mode::Lax => Outcome::Empty,
            _ => Outcome::Error("the value is neither an array nor an object".to_owned()),
        }
    });
    let instead = |choice: i32| match choice {
        1 => Some("[]".to_owned()),
        2 => Some("{}".to_owned()),
        _ => None,
    };
    match outcome {
        Outcome::Value(text) => Ok(Some(text)),
        Outcome::Empty if on_empty == 3 => Err(nothing("JSON_QUERY", path)),
        Outcome::Empty => Ok(instead(on_empty)),
        Outcome::Error(message) if on_error == 3 => Err(failed("JSON_QUERY", path, &message)),
        Outcome::Error(_) => Ok(instead(on_error)),
    }
}

/// `JSON(text)`: the text itself, without white space; fails the row when it is not JSON.
pub(crate) fn json(context: &mut FunctionContext, text: &str) -> Result<String, Failure> {
    let Some(value) = context.caches.document.parse(text) else {
        return Err(Failure::argument(format!("JSON: '{}' is not JSON", shorten(text, 40))));
    };
    let mut written = String::new();
    value.write(&mut written);
    Ok(written)
}

#[cfg(test)]
mod tests;
