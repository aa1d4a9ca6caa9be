//! Columns → one JSON object per line, as Flink's `json` format writes them.
//!
//! Columns stand in the table's order; timestamps, dates and times are strings; decimals are plain numbers; floats look
//! as in Java, those that JSON has no number for (`NaN`, `Infinity`) are strings; bytes are base64.

use crate::option_table::choice;
use crate::times;
use crate::values::{ColumnView, Kind};
use crate::{Encoded, Encoder, SinkRequest};
use arrow_array::ArrayRef;
use millstream_types::text::TimestampStyle;
use millstream_types::{Diagnostic, Schema, code};

/// What becomes of a NULL key of a MAP.
#[derive(Clone)]
enum NullKey {
    Fail,
    Drop,
    Literal(String),
}

/// Encodes rows of one schema.
pub(crate) struct JsonEncoder {
    schema: Schema,
    /// `"name":` of each column.
    names: Vec<Vec<u8>>,
    style: TimestampStyle,
    without_nulls: bool,
    null_key: NullKey,
}

impl JsonEncoder {
    /// An encoder whose options have the prefix `format`.
    pub(crate) fn new(request: &SinkRequest, format: &str) -> Result<JsonEncoder, Diagnostic> {
        let options = &request.options;
        let null_key_mode = format!("{format}.map-null-key.mode");
        let literal = options.get(&format!("{format}.map-null-key.literal")).unwrap_or("null").to_string();
        let modes = [("FAIL", NullKey::Fail), ("DROP", NullKey::Drop), ("LITERAL", NullKey::Literal(literal))];
        let null_key = choice(options, &null_key_mode, &modes)?;
        options.boolean(&format!("{format}.encode.decimal-as-plain-number"), false)?;
        for field in &request.schema.fields {
            super::decode::check_map_keys(&field.data_type, &field.name)?;
        }
        Ok(JsonEncoder {
            names: request.schema.fields.iter().map(|field| quoted_name(&field.name)).collect(),
            schema: request.schema.clone(),
            style: times::timestamp_style(options, format)?,
            without_nulls: options.boolean(&format!("{format}.encode.ignore-null-fields"), false)?,
            null_key,
        })
    }

    /// Writes a value of any type, `null` if it is NULL.
    pub(crate) fn value(&self, view: &ColumnView<'_>, row: usize, out: &mut Vec<u8>) -> Result<(), Diagnostic> {
        if view.is_null(row) {
            out.extend_from_slice(b"null");
            return Ok(());
        }
        match &view.kind {
            Kind::String(strings) => string(out, strings.value(row)),
            Kind::Timestamp(..) if matches!(self.style, TimestampStyle::Epoch(_)) => {
                view.write_scalar(row, self.style, out)
            }
            Kind::Bytes(_) | Kind::Date(_) | Kind::Time(_) | Kind::Timestamp(..) => {
                self.quoted(view, row, out);
            }
            // What JSON has no number for.
            Kind::Float32(values) if !values[row].is_finite() => self.quoted(view, row, out),
            Kind::Float64(values) if !values[row].is_finite() => self.quoted(view, row, out),
            Kind::Row(fields, children) => {
                let names = fields.iter().map(|field| quoted_name(&field.name));
                self.object(names.zip(children), row, out)?;
            }
            Kind::List(list, elements) => {
                let offsets = list.value_offsets();
                out.push(b'[');
                for element in offsets[row]..offsets[row + 1] {
                    if element > offsets[row] {
                        out.push(b',');
                    }
                    self.value(elements, element as usize, out)?;
                }
                out.push(b']');
            }
            Kind::Map(map, keys, values) => {
                let offsets = map.value_offsets();
                self.map(offsets[row] as usize..offsets[row + 1] as usize, keys, values, out)?;
            }
            _ => view.write_scalar(row, self.style, out),
        }
        Ok(())
    }

    fn quoted(&self, view: &ColumnView<'_>, row: usize, out: &mut Vec<u8>) {
        out.push(b'"');
        view.write_scalar(row, self.style, out);
        out.push(b'"');
    }

    fn object<'v, N: AsRef<[u8]>>(
        &self,
        members: impl Iterator<Item = (N, &'v ColumnView<'v>)>,
        row: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Diagnostic> {
        out.push(b'{');
        let mut first = true;
        for (name, view) in members {
            if self.without_nulls && view.is_null(row) {
                continue;
            }
            if !std::mem::take(&mut first) {
                out.push(b',');
            }
            out.extend_from_slice(name.as_ref());
            self.value(view, row, out)?;
        }
        out.push(b'}');
        Ok(())
    }

    fn map(
        &self,
        entries: std::ops::Range<usize>,
        keys: &ColumnView<'_>,
        values: &ColumnView<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Diagnostic> {
        out.push(b'{');
        let mut first = true;
        for entry in entries {
            let is_null = keys.is_null(entry);
            if is_null && matches!(self.null_key, NullKey::Drop) {
                continue;
            }
            if !std::mem::take(&mut first) {
                out.push(b',');
            }
            match (&keys.kind, &self.null_key) {
                (Kind::String(strings), _) if !is_null => string(out, strings.value(entry)),
                (_, NullKey::Literal(literal)) => string(out, literal),
                _ => {
                    return Err(Diagnostic::new(
                        code::NULL_IN_NOT_NULL,
                        "a MAP has a NULL key, which JSON cannot have",
                    )
                    .advise("set 'json.map-null-key.mode' to 'DROP' or 'LITERAL'"));
                }
            }
            out.push(b':');
            self.value(values, entry, out)?;
        }
        out.push(b'}');
        Ok(())
    }
}

impl Encoder for JsonEncoder {
    fn encode(&self, columns: &[ArrayRef], rows: usize) -> Result<Encoded, Diagnostic> {
        let views = self.schema.fields.iter().zip(columns);
        let views = views.map(|(f, c)| ColumnView::new(&f.data_type, c)).collect::<Result<Vec<_>, _>>()?;
        let mut data = Vec::with_capacity(rows * (16 + 24 * views.len()));
        for row in 0..rows {
            self.object(self.names.iter().zip(&views), row, &mut data)?;
            data.push(b'\n');
        }
        Ok(Encoded::Bytes { data, rows })
    }
}

fn quoted_name(name: &str) -> Vec<u8> {
    let mut quoted = Vec::with_capacity(name.len() + 3);
    string(&mut quoted, name);
    quoted.push(b':');
    quoted
}

/// Writes a string in quotes, escaping only what must be.
fn string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut written = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&bytes[written..at]);
        written = at + 1;
        let short = match byte {
            b'"' | b'\\' => byte,
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            8 => b'b',
            12 => b'f',
            _ => {
                let digit = |value: u8| b"0123456789ABCDEF"[usize::from(value)];
                out.extend_from_slice(&[b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte & 15)]);
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', short]);
    }
    out.extend_from_slice(&bytes[written..]);
    out.push(b'"');
}
