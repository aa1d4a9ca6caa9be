//! Columns → CSV records. Only fields that need it are quoted, an empty STRING among them, so that it differs from NULL.

use super::Dialect;
use crate::values::{ColumnView, Kind};
use crate::{Encoded, Encoder, SinkRequest};
use arrow_array::ArrayRef;
use millstream_types::{Diagnostic, Schema};

/// Encodes rows of one schema.
pub(super) struct CsvEncoder {
    schema: Schema,
    dialect: Dialect,
}

/// The names of the columns, if the table has a header.
pub(super) fn header(request: &SinkRequest) -> Result<Vec<u8>, Diagnostic> {
    let dialect = Dialect::of(&request.options)?;
    let mut out = Vec::new();
    if !dialect.framing.header {
        return Ok(out);
    }
    for (at, field) in request.schema.fields.iter().enumerate() {
        if at > 0 {
            out.push(dialect.framing.delimiter);
        }
        quote(&mut out, field.name.as_bytes(), &dialect, false);
    }
    out.push(b'\n');
    Ok(out)
}

impl CsvEncoder {
    pub(super) fn new(request: &SinkRequest) -> Result<CsvEncoder, Diagnostic> {
        let dialect = Dialect::of(&request.options)?;
        for field in &request.schema.fields {
            super::check_type(&field.data_type, &field.name)?;
        }
        Ok(CsvEncoder { schema: request.schema.clone(), dialect })
    }

    /// Writes the bare text of a value that is not NULL.
    fn text(&self, view: &ColumnView<'_>, row: usize, out: &mut Vec<u8>) {
        let delimiter = self.dialect.element_delimiter.as_bytes();
        let part = |view: &ColumnView<'_>, row: usize, out: &mut Vec<u8>| {
            if !view.is_null(row) {
                self.text(view, row, out);
            } else if let Some(literal) = &self.dialect.null_literal {
                out.extend_from_slice(literal.as_bytes());
            }
        };
        match &view.kind {
            Kind::List(list, elements) => {
                let offsets = list.value_offsets();
                for element in offsets[row]..offsets[row + 1] {
                    if element > offsets[row] {
                        out.extend_from_slice(delimiter);
                    }
                    part(elements, element as usize, out);
                }
            }
            Kind::Row(_, children) => {
                for (at, child) in children.iter().enumerate() {
                    if at > 0 {
                        out.extend_from_slice(delimiter);
                    }
                    part(child, row, out);
                }
            }
            _ => view.write_scalar(row, self.dialect.timestamps, out),
        }
    }
}

impl Encoder for CsvEncoder {
    fn encode(&self, columns: &[ArrayRef], rows: usize) -> Result<Encoded, Diagnostic> {
        let views = self.schema.fields.iter().zip(columns);
        let views = views.map(|(f, c)| ColumnView::new(&f.data_type, c)).collect::<Result<Vec<_>, _>>()?;
        let mut data = Vec::with_capacity(rows * (4 + 12 * views.len()));
        let mut field = Vec::new();
        for row in 0..rows {
            for (at, view) in views.iter().enumerate() {
                if at > 0 {
                    data.push(self.dialect.framing.delimiter);
                }
                if view.is_null(row) {
                    data.extend_from_slice(self.dialect.null_literal.as_deref().unwrap_or_default().as_bytes());
                    continue;
                }
                field.clear();
                self.text(view, row, &mut field);
                let first_is_comment =
                    at == 0 && self.dialect.framing.comment.is_some_and(|mark| field.first() == Some(&mark));
                let is_literal = self.dialect.null_literal.as_deref().is_some_and(|l| l.as_bytes() == field);
                quote(&mut data, &field, &self.dialect, first_is_comment || is_literal || field.is_empty());
            }
            data.push(b'\n');
        }
        Ok(Encoded::Bytes { data, rows })
    }
}

/// Writes a field, in quotes if some character of it has a meaning or `force`.
fn quote(out: &mut Vec<u8>, field: &[u8], dialect: &Dialect, force: bool) {
    let special = |byte: u8| {
        byte == dialect.framing.delimiter
            || matches!(byte, b'\n' | b'\r')
            || Some(byte) == dialect.framing.quote
            || Some(byte) == dialect.framing.escape
    };
    if !force && !field.iter().any(|byte| special(*byte)) {
        return out.extend_from_slice(field);
    }
    let Some(quote) = dialect.framing.quote else {
        // Without quotes only an escape character can take the meaning from a character, if there is one.
        for &byte in field {
            if special(byte) {
                out.extend(dialect.framing.escape);
            }
            out.push(byte);
        }
        return;
    };
    out.push(quote);
    for &byte in field {
        if byte == quote {
            out.push(dialect.framing.escape.unwrap_or(quote));
        } else if Some(byte) == dialect.framing.escape {
            out.push(byte);
        }
        out.push(byte);
    }
    out.push(quote);
}
