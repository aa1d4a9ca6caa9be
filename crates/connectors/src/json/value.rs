//! One JSON value into one column: the conversions of Flink's `json` format.
//!
//! Numbers may be written as strings; integer columns of 32 and 64 bits take numbers with a fraction and cut it off;
//! STRING columns take any value, of other kinds as their JSON text; dates and times are strings, timestamps too unless the
//! table's option says which unit their numbers have; BYTES is base64.

use super::decode::{JsonFailure, Rules, UnreadTime, string_text};
use super::keys::{KeyTable, START};
use super::scan::{self, byte, skip_space, skip_value};
use crate::text_chunk::excerpt;
use crate::times;
use crate::values::{ColumnBuilder, Values};
use millstream_types::text::{TimestampStyle, parse_f64, parse_integer};
use millstream_types::{DataType, Field, code};
use std::sync::Arc;

/// The keys of the rows within a value, learned while decoding.
pub(super) enum Shape {
    Scalar,
    Row { keys: KeyTable, fields: Arc<[Field]>, children: Vec<Shape> },
    List(Box<Shape>),
    Map(Box<Shape>),
}

impl Shape {
    /// The shape of a type's values.
    pub(super) fn of(data_type: &DataType) -> Shape {
        match data_type {
            DataType::Row(fields) => Shape::Row {
                keys: KeyTable::new(fields.iter().map(|f| f.name.as_str())),
                fields: fields.clone(),
                children: fields.iter().map(|f| Shape::of(&f.data_type)).collect(),
            },
            DataType::Array(element) => Shape::List(Box::new(Shape::of(element))),
            DataType::Map(_, value) => Shape::Map(Box::new(Shape::of(value))),
            _ => Shape::Scalar,
        }
    }
}

type End = Result<usize, Box<JsonFailure>>;

/// Reads values of a text that lies at `base` of its chunk.
pub(super) struct ValueReader<'a> {
    pub text: &'a str,
    pub base: usize,
    pub rules: Rules,
}

impl ValueReader<'_> {
    /// Appends the value at `at` to the builder, NULL if its type is wrong and errors are ignored. Gives the position
    /// behind it.
    #[inline]
    pub(super) fn field(&self, builder: &mut ColumnBuilder, shape: &mut Shape, nullable: bool, at: usize) -> End {
        let rows = builder.len();
        let end = match self.value(builder, shape, at) {
            Err(failure) if self.rules.ignore_errors && failure.code == code::WRONG_TYPE => {
                builder.truncate(rows);
                builder.push_null();
                skip_value(self.text.as_bytes(), at, 0)?
            }
            result => result?,
        };
        if !nullable && builder.is_null(rows) {
            return Err(self.null_in_not_null(at));
        }
        Ok(end)
    }

    #[inline]
    fn value(&self, builder: &mut ColumnBuilder, shape: &mut Shape, at: usize) -> End {
        let data = self.text.as_bytes();
        let first = byte(data, at);
        if first == b'n' {
            let end = scan::literal_end(data, at, b"null")?;
            builder.push_null();
            return Ok(end);
        }
        match &mut builder.values {
            Values::Int64(_) | Values::Int32(_) if matches!(first, b'-' | b'0'..=b'9') => self.integer(builder, at),
            Values::String(values) if first == b'"' => {
                let end = scan::string_end(data, at + 1)?;
                let inside = &self.text[at + 1..end.quote];
                if end.escaped {
                    values.push_copy(scan::unescape(inside).as_bytes());
                } else {
                    values.push_in_chunk(inside.as_bytes(), self.base + at + 1);
                }
                builder.mark_valid();
                Ok(end.quote + 1)
            }
            Values::String(_) => self.json_text(builder, at),
            Values::List(..) => self.list(builder, shape, at),
            Values::Row(_) => self.row(builder, shape, at),
            Values::Map(..) => self.map(builder, shape, at),
            _ => self.scalar(builder, at),
        }
    }

    /// A number into a column of 32 or 64 bits.
    fn integer(&self, builder: &mut ColumnBuilder, at: usize) -> End {
        let data = self.text.as_bytes();
        if !builder.data_type.is_integer() {
            return self.scalar(builder, at);
        }
        let negative = byte(data, at) == b'-';
        let first = at + usize::from(negative);
        let (value, mut end) = scan::digits(data, first);
        let plain = (end - first == 1 || byte(data, first) != b'0') && (1..=18).contains(&(end - first));
        let value = if plain && !matches!(byte(data, end), b'.' | b'e' | b'E') {
            // At most 18 digits.
            Some(if negative { -(value as i64) } else { value as i64 })
        } else {
            let number = scan::number_end(data, at)?;
            end = number.end;
            if number.integer {
                parse_integer(&self.text[at..end], i64::MIN, i64::MAX)
            } else {
                truncated(&self.text[at..end])
            }
        };
        match value.and_then(|value| builder.push_integer(value)) {
            Some(()) => Ok(end),
            None => Err(self.wrong_type(&builder.data_type, at)?),
        }
    }

    /// A value that is not a string into a STRING column: its JSON text.
    fn json_text(&self, builder: &mut ColumnBuilder, at: usize) -> End {
        let Values::String(values) = &mut builder.values else { unreachable!("called for strings") };
        let data = self.text.as_bytes();
        let end = skip_value(data, at, 0)?;
        let nested = matches!(byte(data, at), b'{' | b'[');
        if nested && data[at..end].iter().any(|b| matches!(b, b' ' | b'\t' | b'\r')) {
            values.push_copy(without_spaces(&self.text[at..end]).as_bytes());
        } else {
            values.push_in_chunk(&data[at..end], self.base + at);
        }
        builder.mark_valid();
        Ok(end)
    }

    /// Any other scalar, from the text that a number or a string has.
    fn scalar(&self, builder: &mut ColumnBuilder, at: usize) -> End {
        let data = self.text.as_bytes();
        let is_epoch = matches!(self.rules.timestamps, TimestampStyle::Epoch(_));
        let numeric = builder.data_type.is_numeric() || is_epoch && times::is_timestamp(&builder.data_type);
        let (pushed, end) = match byte(data, at) {
            b'"' => {
                let (text, end) = string_text(self.text, at)?;
                (builder.push_text(&text, self.rules.timestamps), end)
            }
            b'-' | b'0'..=b'9' if numeric => {
                let end = scan::number_end(data, at)?.end;
                (builder.push_text(&self.text[at..end], self.rules.timestamps), end)
            }
            b't' | b'f' if builder.data_type == DataType::Boolean => {
                let end = skip_value(data, at, 0)?;
                (builder.push_text(&self.text[at..end], self.rules.timestamps), end)
            }
            _ => (None, at),
        };
        match pushed {
            Some(()) => Ok(end),
            None => {
                let mut failure = self.wrong_type(&builder.data_type, at)?;
                if times::is_timestamp(&builder.data_type) {
                    let end = skip_value(data, at, 0)?;
                    let text = self.text[at..end].trim_matches('"');
                    let (data_type, format) = (builder.data_type.clone(), self.rules.format);
                    failure.unread_time = Some(UnreadTime { text: text.to_owned(), data_type, format });
                }
                Err(failure)
            }
        }
    }

    fn list(&self, builder: &mut ColumnBuilder, shape: &mut Shape, at: usize) -> End {
        let data = self.text.as_bytes();
        if byte(data, at) != b'[' {
            return Err(self.wrong_type(&builder.data_type, at)?);
        }
        let (Values::List(ends, elements), Shape::List(shape)) = (&mut builder.values, shape) else {
            unreachable!("shapes follow types")
        };
        let mut at = skip_space(data, at + 1);
        if byte(data, at) == b']' {
            at += 1;
        } else {
            loop {
                match scan::element_end(data, self.field(elements, shape, true, at)?)? {
                    (next, false) => at = next,
                    (behind, true) => break at = behind,
                }
            }
        }
        ends.push(elements.len() as i32);
        builder.mark_valid();
        Ok(at)
    }

    fn row(&self, builder: &mut ColumnBuilder, shape: &mut Shape, at: usize) -> End {
        let data = self.text.as_bytes();
        if byte(data, at) != b'{' {
            return Err(self.wrong_type(&builder.data_type, at)?);
        }
        let rows = builder.len();
        let (Values::Row(columns), Shape::Row { keys, fields, children }) = (&mut builder.values, shape) else {
            unreachable!("shapes follow types")
        };
        let start = at;
        let mut at = skip_space(data, at + 1);
        let mut previous = START;
        if byte(data, at) == b'}' {
            at += 1;
        } else {
            loop {
                let (meaning, behind) = keys.read(self.text, at, &mut previous)?;
                let value = skip_space(data, behind);
                let end = match meaning {
                    None => skip_value(data, value, 0)?,
                    Some(i) => {
                        if columns[i].len() > rows {
                            columns[i].truncate(rows);
                        }
                        self.field(&mut columns[i], &mut children[i], fields[i].nullable, value)
                            .map_err(|f| f.below(&fields[i].name))?
                    }
                };
                match scan::member_end(data, end)? {
                    (next, false) => at = next,
                    (behind, true) => break at = behind,
                }
            }
        }
        for (column, field) in columns.iter_mut().zip(fields.iter()) {
            if column.len() == rows {
                self.missing(start, field.nullable).map_err(|f| f.below(&field.name))?;
                column.push_null();
            }
        }
        builder.mark_valid();
        Ok(at)
    }

    fn map(&self, builder: &mut ColumnBuilder, shape: &mut Shape, at: usize) -> End {
        let data = self.text.as_bytes();
        if byte(data, at) != b'{' {
            return Err(self.wrong_type(&builder.data_type, at)?);
        }
        let (Values::Map(ends, keys, values), Shape::Map(shape)) = (&mut builder.values, shape) else {
            unreachable!("shapes follow types")
        };
        let mut at = skip_space(data, at + 1);
        if byte(data, at) == b'}' {
            at += 1;
        } else {
            loop {
                if byte(data, at) != b'"' {
                    return Err(scan::unexpected(data, at, "a key in quotes was expected").into());
                }
                let (key, behind) = string_text(self.text, at)?;
                let colon = skip_space(data, behind);
                if byte(data, colon) != b':' {
                    return Err(scan::unexpected(data, colon, "a colon was expected").into());
                }
                let end = self.field(values, shape, true, skip_space(data, colon + 1))?;
                keys.push_text(&key, self.rules.timestamps).expect("keys of maps are strings, checked at opening");
                match scan::member_end(data, end)? {
                    (next, false) => at = next,
                    (behind, true) => break at = behind,
                }
            }
        }
        ends.push(keys.len() as i32);
        builder.mark_valid();
        Ok(at)
    }

    /// Whether a field that is not in the record whose text starts at `at` may be NULL.
    pub(super) fn missing(&self, at: usize, nullable: bool) -> Result<(), Box<JsonFailure>> {
        if self.rules.fail_on_missing {
            let message = format!("the field is missing in '{}'", self.line_from(at));
            return Err(JsonFailure::new(code::MISSING_FIELD, at, message));
        }
        if nullable { Ok(()) } else { Err(self.null_in_not_null(at)) }
    }

    /// The error for a NULL in a NOT NULL column.
    pub(super) fn null_in_not_null(&self, at: usize) -> Box<JsonFailure> {
        JsonFailure::new(code::NULL_IN_NOT_NULL, at, "a NOT NULL column has no value in the record")
    }

    /// The error for a value that is not `expected`; or that of a value that is not even JSON.
    pub(super) fn wrong_type(
        &self,
        expected: impl std::fmt::Display,
        at: usize,
    ) -> Result<Box<JsonFailure>, Box<JsonFailure>> {
        let end = skip_value(self.text.as_bytes(), at, 0)?;
        let message = format!("{} cannot be read as {expected}", excerpt(&self.text.as_bytes()[at..end]));
        Ok(JsonFailure::new(code::WRONG_TYPE, at, message))
    }

    fn line_from(&self, at: usize) -> String {
        let rest = &self.text.as_bytes()[at..];
        excerpt(&rest[..memchr::memchr(b'\n', rest).unwrap_or(rest.len())])
    }
}

/// The whole part of a number with fraction or exponent, if it fits.
fn truncated(text: &str) -> Option<i64> {
    let value = parse_f64(text)?.trunc();
    // Both bounds are exact in binary64; 2^63 itself is out.
    (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value).then_some(value as i64)
}

/// Valid JSON without the white space between its tokens.
fn without_spaces(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut in_string = false;
    let mut escaped = false;
    for c in json.chars() {
        if in_string {
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
        } else if matches!(c, ' ' | '\t' | '\r') {
            continue;
        } else {
            in_string = c == '"';
        }
        out.push(c);
    }
    out
}
