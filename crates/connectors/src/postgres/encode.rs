//! Columns → the text format of `COPY`: a line for each row, columns parted by tabs, `\N` for NULL.
//!
//! Of a result that changes, one more column says whether the row is gone. Rows that others replace are left out: the key finds
//! them.

use crate::changes::parted;
use crate::json::JsonEncoder;
use crate::values::{ColumnView, Kind};
use crate::{Encoded, Encoder, SinkRequest};
use arrow_array::ArrayRef;
use millstream_types::text::TimestampStyle;
use millstream_types::{Diagnostic, RowKind, Schema, code};

/// How the values of a column are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// As the text that the type has everywhere, which has no special characters.
    Plain,
    String,
    /// `\x0a0b`
    Bytes,
    /// `5 months`
    Months,
    /// `5 milliseconds`
    Milliseconds,
    /// `{"1",NULL,"3"}`
    Array,
    Json,
}

/// Encodes rows of one schema for one table.
pub(super) struct CopyEncoder {
    schema: Schema,
    /// Whether the last column is the kind of change.
    changes: bool,
    forms: Vec<Form>,
    /// Writes what is nested.
    json: JsonEncoder,
}

impl CopyEncoder {
    pub(super) fn new(request: &SinkRequest, forms: Vec<Form>) -> Result<CopyEncoder, Diagnostic> {
        let json = JsonEncoder::new(request, "json")?;
        Ok(CopyEncoder { schema: request.schema.clone(), changes: request.changes.is_some(), forms, json })
    }

    fn value(&self, view: &ColumnView<'_>, row: usize, form: Form, text: &mut Vec<u8>) -> Result<(), Diagnostic> {
        match (&view.kind, form) {
            (Kind::Row(..) | Kind::Map(..), _) | (_, Form::Json) => self.json.value(view, row, text)?,
            (Kind::Bytes(bytes), _) => hex(bytes.value(row), text),
            (Kind::List(..), _) => self.array(view, row, text)?,
            _ => view.write_scalar(row, TimestampStyle::Sql, text),
        }
        match form {
            Form::Months => text.extend_from_slice(b" months"),
            Form::Milliseconds => text.extend_from_slice(b" milliseconds"),
            _ => {}
        }
        Ok(())
    }

    /// An array as a literal of the database. Every element is in quotes, which all types allow.
    fn array(&self, view: &ColumnView<'_>, row: usize, out: &mut Vec<u8>) -> Result<(), Diagnostic> {
        let Kind::List(list, elements) = &view.kind else {
            return Err(Diagnostic::bug("a column that is no array is written as one"));
        };
        let range = list.value_offsets()[row]..list.value_offsets()[row + 1];
        let mut text = Vec::new();
        out.push(b'{');
        for element in range.clone() {
            if element > range.start {
                out.push(b',');
            }
            let element = element as usize;
            match &elements.kind {
                Kind::List(..) if elements.is_null(element) => {
                    let message = "an array has a NULL among its arrays, which PostgreSQL cannot have";
                    return Err(Diagnostic::new(code::WRONG_TYPE, message)
                        .advise("make the column jsonb in the database, or filter such rows"));
                }
                Kind::List(..) => self.array(elements, element, out)?,
                _ if elements.is_null(element) => out.extend_from_slice(b"NULL"),
                _ => {
                    text.clear();
                    self.value(elements, element, Form::Plain, &mut text)?;
                    out.push(b'"');
                    for &byte in &text {
                        if matches!(byte, b'"' | b'\\') {
                            out.push(b'\\');
                        }
                        out.push(byte);
                    }
                    out.push(b'"');
                }
            }
        }
        out.push(b'}');
        Ok(())
    }
}

impl Encoder for CopyEncoder {
    fn encode(&self, columns: &[ArrayRef], rows: usize) -> Result<Encoded, Diagnostic> {
        let (columns, kinds) = parted(columns, self.changes)?;
        let views = self.schema.fields.iter().zip(columns);
        let views = views.map(|(f, c)| ColumnView::new(&f.data_type, c)).collect::<Result<Vec<_>, _>>()?;
        let mut data = Vec::with_capacity(rows * (4 + 12 * views.len()));
        let (mut text, mut encoded) = (Vec::new(), 0);
        for row in 0..rows {
            let kind = kinds.as_ref().map(|kinds| kinds[row]);
            if kind == Some(RowKind::UpdateBefore) {
                continue;
            }
            for (at, (view, form)) in views.iter().zip(&self.forms).enumerate() {
                if at > 0 {
                    data.push(b'\t');
                }
                if view.is_null(row) {
                    data.extend_from_slice(b"\\N");
                } else if *form == Form::Plain {
                    self.value(view, row, *form, &mut data)?;
                } else {
                    text.clear();
                    self.value(view, row, *form, &mut text)?;
                    escape(&text, &mut data).ok_or_else(|| has_zero(&self.schema.fields[at].name))?;
                }
            }
            if let Some(kind) = kind {
                data.extend_from_slice(if kind.adds() { b"\tf" } else { b"\tt" });
            }
            data.push(b'\n');
            encoded += 1;
        }
        Ok(Encoded::Bytes { data, rows: encoded })
    }
}

/// Writes a text so that none of it has a meaning to `COPY`; `None` if it has the character 0, which no text of the database has.
fn escape(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut written = 0;
    for (at, &byte) in text.iter().enumerate() {
        let letter = match byte {
            0 => return None,
            b'\\' => b'\\',
            b'\t' => b't',
            b'\n' => b'n',
            b'\r' => b'r',
            _ => continue,
        };
        out.extend_from_slice(&text[written..at]);
        out.extend_from_slice(&[b'\\', letter]);
        written = at + 1;
    }
    out.extend_from_slice(&text[written..]);
    Some(())
}

fn hex(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend_from_slice(b"\\x");
    for byte in bytes {
        out.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

fn has_zero(column: &str) -> Diagnostic {
    let message = format!("a value of column {column} has the character 0, which no text of PostgreSQL can have");
    Diagnostic::new(code::WRONG_TYPE, message).advise("remove it in the query, or CAST to BYTES and use bytea")
}
