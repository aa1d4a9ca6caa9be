//! Columns → packed records, column by column into the places of their fields.

use crate::values::{ColumnView, Kind};
use crate::{Encoded, Encoder, SinkRequest};
use arrow_array::ArrayRef;
use millstream_types::{DataType, Diagnostic, Field, RecordField, RecordLayout, Schema, code};

/// Encodes rows of one schema.
pub(super) struct RowEncoder {
    schema: Schema,
    layout: RecordLayout,
}

impl RowEncoder {
    pub(super) fn new(request: &SinkRequest) -> Result<RowEncoder, Diagnostic> {
        Ok(RowEncoder { schema: request.schema.clone(), layout: RecordLayout::of(&request.schema)? })
    }

    /// Writes a column into the records.
    fn column(&self, view: &ColumnView<'_>, place: usize, records: &mut [u8]) -> Result<(), Diagnostic> {
        let (field, length) = (self.layout.fields[place], self.layout.length);
        let mut slots = Slots { records, length, field };
        match &view.kind {
            Kind::Boolean(values) => slots.fixed(values.values().iter().map(|v| [v as u8])),
            Kind::Int8(values) => slots.fixed(values.iter().map(|v| v.to_le_bytes())),
            Kind::Int16(values) => slots.fixed(values.iter().map(|v| v.to_le_bytes())),
            Kind::Int32(values) | Kind::Date(values) | Kind::Time(values) => {
                slots.fixed(values.iter().map(|v| v.to_le_bytes()));
            }
            Kind::Int64(values) | Kind::Timestamp(values, ..) => slots.fixed(values.iter().map(|v| v.to_le_bytes())),
            Kind::Float32(values) => slots.fixed(values.iter().map(|v| v.to_le_bytes())),
            Kind::Float64(values) => slots.fixed(values.iter().map(|v| v.to_le_bytes())),
            Kind::Decimal(values, _) => slots.fixed(values.iter().map(|v| v.to_le_bytes())),
            Kind::String(values) => {
                let texts = values.iter().map(|v| v.unwrap_or_default().as_bytes());
                return slots.bytes(texts, &self.schema.fields[place]);
            }
            Kind::Bytes(values) => {
                return slots.bytes(values.iter().map(Option::unwrap_or_default), &self.schema.fields[place]);
            }
            Kind::Null | Kind::Row(..) | Kind::List(..) | Kind::Map(..) => {
                return Err(Diagnostic::bug("a column without a fixed width came to a sink of packed records"));
            }
        }
        Ok(())
    }
}

/// The places of a column in the records.
struct Slots<'a> {
    records: &'a mut [u8],
    length: usize,
    field: RecordField,
}

impl Slots<'_> {
    fn fixed<const N: usize>(&mut self, values: impl Iterator<Item = [u8; N]>) {
        let RecordField { offset, width } = self.field;
        for (record, value) in self.records.chunks_exact_mut(self.length).zip(values) {
            record[offset..offset + width].copy_from_slice(&value);
        }
    }

    /// Text is padded with zeros, so it must have none; CHAR loses the spaces that pad it. Bytes must fill their place.
    fn bytes<'v>(&mut self, values: impl Iterator<Item = &'v [u8]>, column: &Field) -> Result<(), Diagnostic> {
        let RecordField { offset, width } = self.field;
        let is_char = matches!(column.data_type, DataType::Char(_));
        for (record, value) in self.records.chunks_exact_mut(self.length).zip(values) {
            let value = if is_char { without_spaces_at_end(value) } else { value };
            let why = match column.data_type {
                DataType::Binary(_) if value.len() != width => Some(format!("has {} bytes", value.len())),
                DataType::Binary(_) => None,
                _ if value.len() > width => Some(format!("has {} bytes of UTF-8", value.len())),
                _ => memchr::memchr(0, value).map(|at| format!("has the character 0 at byte {at}")),
            };
            if let Some(why) = why {
                let (name, shown) = (&column.name, crate::text_chunk::excerpt(value));
                let message =
                    format!("the value '{shown}' for column {name} {why}, which a field of {width} bytes cannot hold");
                return Err(
                    Diagnostic::new(code::WRONG_TYPE, message).advise("declare a longer column, or cut the value")
                );
            }
            record[offset..offset + value.len()].copy_from_slice(value);
        }
        Ok(())
    }
}

impl Encoder for RowEncoder {
    fn encode(&self, columns: &[ArrayRef], rows: usize) -> Result<Encoded, Diagnostic> {
        let mut data = vec![0; rows * self.layout.length];
        for (place, (field, column)) in self.schema.fields.iter().zip(columns).enumerate() {
            self.column(&ColumnView::new(&field.data_type, column)?, place, &mut data)?;
        }
        Ok(Encoded::Bytes { data, rows })
    }
}

fn without_spaces_at_end(text: &[u8]) -> &[u8] {
    let length = text.iter().rposition(|&byte| byte != b' ').map_or(0, |last| last + 1);
    &text[..length]
}
