//! JSON text: testing, quoting, and the arrays of strings in which functions that give several strings hand them over.

use serde_json::Value;

/// `s IS JSON`: 0 any value, 1 a scalar, 2 an array, 3 an object.
pub(crate) fn is_json(s: &str, kind: i32) -> bool {
    match serde_json::from_str::<Value>(s) {
        Ok(_) if kind == 0 => true,
        Ok(Value::Array(_)) => kind == 2,
        Ok(Value::Object(_)) => kind == 3,
        Ok(_) => kind == 1,
        Err(_) => false,
    }
}

/// `JSON_QUOTE(s)`: as Flink does, with `/` escaped and everything beyond ASCII as `\uXXXX`.
pub(crate) fn quote(s: &str) -> String {
    let mut out = String::with_capacity(s.len() + 2);
    out.push('"');
    for c in s.chars() {
        match c {
            '"' | '\\' | '/' => out.extend(['\\', c]),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_ascii() => out.push(c),
            c => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}"))),
        }
    }
    out.push('"');
    out
}

/// `JSON_UNQUOTE(s)`: the text of a JSON string; anything else stays as it is.
pub(crate) fn unquote(s: &str) -> String {
    match serde_json::from_str::<Value>(s) {
        Ok(Value::String(text)) if s.starts_with('"') => text,
        _ => s.to_owned(),
    }
}

/// Strings, or NULLs, as the text of a JSON array.
pub(crate) fn array_of_strings<'s>(values: impl Iterator<Item = Option<&'s str>>) -> String {
    Value::Array(values.map(|value| value.map_or(Value::Null, Value::from)).collect()).to_string()
}
