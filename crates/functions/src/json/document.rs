//! JSON documents whose numbers keep their digits.
//!
//! Numbers are written as Jackson writes those that it has read as `BigInteger` and `BigDecimal`, as Flink's functions
//! do: `1.50` stays what it is, `1e5` becomes `1E+5`, and there is no negative zero. Paths meet fields in their order,
//! but objects are written with their names in order, as Flink's are; of equal names the last value counts.

/// Values within values. Deeper ones are refused: walking over them is recursive.
const DEEPEST: usize = 128;

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    /// As Java writes it.
    Number(String),
    String(String),
    Array(Vec<Value>),
    Object(Vec<(String, Value)>),
}

impl Value {
    /// Reads a document; `None` when the text is not JSON.
    pub(crate) fn parse(text: &str) -> Option<Value> {
        let mut reader = JsonReader { text, at: 0 };
        let value = reader.value(DEEPEST)?;
        reader.skip_space();
        (reader.at == text.len()).then_some(value)
    }

    /// Whether it is neither an array nor an object.
    pub(crate) fn is_scalar(&self) -> bool {
        !matches!(self, Value::Array(_) | Value::Object(_))
    }

    /// The field of an object.
    pub(crate) fn field(&self, name: &str) -> Option<&Value> {
        match self {
            Value::Object(fields) => fields.iter().find(|(known, _)| known == name).map(|(_, value)| value),
            _ => None,
        }
    }

    /// Appends it, without white space.
    pub(crate) fn write(&self, out: &mut String) {
        match self {
            Value::Null => out.push_str("null"),
            Value::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
            Value::Number(number) => out.push_str(number),
            Value::String(text) => write_string(text, out),
            Value::Array(items) => write_array(items.iter(), out),
            Value::Object(fields) => {
                let mut fields: Vec<&(String, Value)> = fields.iter().collect();
                // As Java compares strings: by units of UTF-16.
                fields.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
                out.push('{');
                for (i, (name, value)) in fields.into_iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    write_string(name, out);
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
        }
    }
}

/// The document that was parsed last; `None` inside for text that is not JSON.
#[derive(Debug, Default)]
pub(crate) struct LastDocument {
    text: String,
    value: Option<Value>,
    is_set: bool,
}

impl LastDocument {
    /// The document that `text` stands for.
    pub(super) fn parse(&mut self, text: &str) -> Option<&Value> {
        if !self.is_set || self.text != text {
            self.text.clear();
            self.text.push_str(text);
            self.value = Value::parse(text);
            self.is_set = true;
        }
        self.value.as_ref()
    }
}

/// Appends an array of values.
pub(crate) fn write_array<'v>(items: impl Iterator<Item = &'v Value>, out: &mut String) {
    out.push('[');
    for (i, item) in items.enumerate() {
        if i > 0 {
            out.push(',');
        }
        item.write(out);
    }
    out.push(']');
}

fn write_string(text: &str, out: &mut String) {
    out.push_str(&serde_json::Value::from(text).to_string());
}

struct JsonReader<'t> {
    text: &'t str,
    at: usize,
}

impl JsonReader<'_> {
    fn next(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then(|| self.at += 1)
    }

    fn skip_space(&mut self) {
        while matches!(self.next(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self, deepest: usize) -> Option<Value> {
        self.skip_space();
        match self.next()? {
            b'n' => self.word("null", Value::Null),
            b't' => self.word("true", Value::Bool(true)),
            b'f' => self.word("false", Value::Bool(false)),
            b'"' => self.string().map(Value::String),
            b'[' => self.array(deepest.checked_sub(1)?),
            b'{' => self.object(deepest.checked_sub(1)?),
            _ => self.number().map(Value::Number),
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Option<Value> {
        self.text[self.at..].starts_with(word).then(|| {
            self.at += word.len();
            value
        })
    }

    /// Elements up to `close`, each read by `element`.
    fn elements(&mut self, close: u8, mut element: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.at += 1;
        self.skip_space();
        if self.take(close).is_some() {
            return Some(());
        }
        loop {
            element(self)?;
            self.skip_space();
            if self.take(close).is_some() {
                return Some(());
            }
            self.take(b',')?;
        }
    }

    fn array(&mut self, deepest: usize) -> Option<Value> {
        let mut items = Vec::new();
        self.elements(b']', |reader| {
            items.push(reader.value(deepest)?);
            Some(())
        })?;
        Some(Value::Array(items))
    }

    fn object(&mut self, deepest: usize) -> Option<Value> {
        let mut fields: Vec<(String, Value)> = Vec::new();
        let mut places = std::collections::HashMap::new();
        self.elements(b'}', |reader| {
            reader.skip_space();
            let name = reader.string()?;
            reader.skip_space();
            reader.take(b':')?;
            let value = reader.value(deepest)?;
            match places.get(&name) {
                Some(&place) => {
                    let (_, known): &mut (String, Value) = &mut fields[place];
                    *known = value;
                }
                None => {
                    places.insert(name.clone(), fields.len());
                    fields.push((name, value));
                }
            }
            Some(())
        })?;
        Some(Value::Object(fields))
    }

    fn string(&mut self) -> Option<String> {
        let start = self.at;
        self.take(b'"')?;
        let mut is_plain = true;
        loop {
            match self.next()? {
                b'"' => break,
                b'\\' => {
                    is_plain = false;
                    self.at += 2;
                }
                0..0x20 => return None,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        let quoted = self.text.get(start..self.at)?;
        match is_plain {
            true => Some(quoted[1..quoted.len() - 1].to_owned()),
            false => serde_json::from_str(quoted).ok(),
        }
    }

    fn digits(&mut self) -> Option<&str> {
        let start = self.at;
        while self.next().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        Some(&self.text[start..self.at]).filter(|digits| !digits.is_empty())
    }

    fn number(&mut self) -> Option<String> {
        let is_negative = self.take(b'-').is_some();
        let whole = self.digits()?.to_owned();
        if whole.len() > 1 && whole.starts_with('0') {
            return None;
        }
        let fraction = match self.take(b'.') {
            Some(()) => Some(self.digits()?.to_owned()),
            None => None,
        };
        let mut exponent = None;
        if matches!(self.next(), Some(b'e' | b'E')) {
            self.at += 1;
            let sign = if self.take(b'-').is_some() { "-" } else { "" };
            if sign.is_empty() {
                let _ = self.take(b'+');
            }
            let number: i32 = format!("{sign}{}", self.digits()?).parse().ok()?;
            exponent = Some(i64::from(number));
        }
        let number = match (&fraction, exponent) {
            (None, None) => whole,
            _ => decimal(&whole, fraction.as_deref().unwrap_or(""), exponent.unwrap_or(0)),
        };
        let is_zero = number.bytes().take_while(|b| *b != b'E').all(|b| matches!(b, b'0' | b'.'));
        Some(if is_negative && !is_zero { format!("-{number}") } else { number })
    }
}

/// The text of Java's `BigDecimal` for digits that are moved by a power of ten.
fn decimal(whole: &str, fraction: &str, exponent: i64) -> String {
    let all = format!("{whole}{fraction}");
    let digits = match all.trim_start_matches('0') {
        "" => "0",
        digits => digits,
    };
    let scale = fraction.len() as i64 - exponent;
    let adjusted = digits.len() as i64 - 1 - scale;
    if scale == 0 {
        return digits.to_owned();
    }
    if scale > 0 && adjusted >= -6 {
        let scale = scale as usize;
        let padded = format!("{digits:0>width$}", width = scale + 1);
        let (whole, fraction) = padded.split_at(padded.len() - scale);
        return format!("{whole}.{fraction}");
    }
    let (first, rest) = digits.split_at(1);
    let point = if rest.is_empty() { "" } else { "." };
    let sign = if adjusted > 0 { "+" } else { "" };
    let power = if adjusted == 0 { String::new() } else { format!("E{sign}{adjusted}") };
    format!("{first}{point}{rest}{power}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(text: &str) -> Option<String> {
        let mut out = String::new();
        Value::parse(text)?.write(&mut out);
        Some(out)
    }

    #[test]
    fn numbers_keep_their_digits() {
        let cases = [
            ("12345678901234567890.123", "12345678901234567890.123"),
            ("1.50", "1.50"),
            ("-0.0", "0.0"),
            ("-0", "0"),
            ("1e5", "1E+5"),
            ("1.5e5", "1.5E+5"),
            ("150e-2", "1.50"),
            ("1E-7", "1E-7"),
            ("0.000001", "0.000001"),
            ("0.0000001", "1E-7"),
            ("-1.25e-10", "-1.25E-10"),
            ("0e5", "0E+5"),
            ("0.00e0", "0.00"),
            ("1e400", "1E+400"),
            ("12e0", "12"),
        ];
        for (text, expected) in cases {
            assert_eq!(rewritten(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn documents_are_those_of_another_reader() {
        let texts = [
            r#" {"a" : [1, true, null, "x\n\u00e9\"", {}], "b": {"c": []}} "#,
            r#""\ud83d\ude00 ü""#,
            "[ ]",
            "{\"a\":1,}",
            "[1 2]",
            "[01]",
            "[1.]",
            "[.5]",
            "[+1]",
            "[1e]",
            "{\"a\" 1}",
            "{a:1}",
            "\"open",
            "\"\u{1}\"",
            "\"\\x\"",
            "\"\\",
            "nul",
            "1 2",
            "",
            "[[[",
            "ü",
            "\"\\é\"",
        ];
        for text in texts {
            let expected = serde_json::from_str::<serde_json::Value>(text).ok();
            let found = rewritten(text).map(|text| serde_json::from_str::<serde_json::Value>(&text).unwrap());
            assert_eq!(found, expected, "{text}");
        }
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(Value::parse(&nested(DEEPEST)).is_some() && Value::parse(&nested(DEEPEST + 1)).is_none());
    }

    #[test]
    fn names_are_written_in_order_and_the_last_of_equal_ones_counts() {
        assert_eq!(rewritten(r#"{"b": 1, "a": 2, "b": 3}"#).as_deref(), Some(r#"{"a":2,"b":3}"#));
        assert_eq!(rewritten(r#"{"ﬀ": 1, "😀": 2, "ä": 3, "B": 4}"#).as_deref(), Some(r#"{"B":4,"ä":3,"😀":2,"ﬀ":1}"#));
    }
}
