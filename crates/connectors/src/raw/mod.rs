//! The `raw` format: a message is the value of the table's only column.

use crate::format::{Format, MessageFormat};
use crate::messages::{DecodedMessages, MessageDecoder, MessageEncoder, Messages, MessagesBuilder, failure, missing};
use crate::option_table::{option_fault, option_list};
use crate::values::{ColumnBuilder, ColumnView, Kind, Values};
use crate::{RequestOrigin, SinkRequest, SourceRequest};
use arrow_array::{Array, ArrayRef};
use millstream_types::{DataType, Diagnostic, Options, Schema, code};

#[cfg(test)]
mod tests;

/// The format's entry in the table of all formats.
pub(crate) const FORMAT: Format = Format {
    name: "raw",
    summary: "The message is the value of the table's only column: a STRING as UTF-8, BYTES as they are, a BOOLEAN as one \
        byte, numbers in binary. A message without a value is NULL. Only for connectors of messages.",
    options: OPTIONS,
    messages: Some(MessageFormat { decoder, encoder, change_decoder: None, changes: None, null_is_row: true }),
    ..Format::NONE
};

option_list! {
    OPTIONS;
    CHARSET = "raw.charset": Choice(&["UTF-8"]), "UTF-8", "Only `UTF-8`.";
    ENDIANNESS = "raw.endianness": Choice(&["big-endian", "little-endian"]), "big-endian", "Order of the bytes of a number: `big-endian` or `little-endian`.";
    IGNORE_ERRORS = "raw.ignore-parse-errors": Bool, "false", "Skip messages that are not a value of the column's type (they are counted), instead of ending the query.";
}

/// How a table's messages look.
struct Raw {
    name: String,
    data_type: DataType,
    little_endian: bool,
}

impl Raw {
    fn of(options: &Options, schema: &Schema) -> Result<Raw, Diagnostic> {
        let little_endian = ENDIANNESS.choice(options, &[("big-endian", false), ("little-endian", true)])?;
        if !CHARSET.text(options).eq_ignore_ascii_case(CHARSET.default) {
            return Err(options.invalid(CHARSET.key, CHARSET.default));
        }
        IGNORE_ERRORS.boolean(options)?;
        let [field] = &schema.fields[..] else {
            let message = format!("the format raw is for one column, not {}", schema.fields.len());
            let advice = "use json, csv or avro for several columns";
            return Err(option_fault(code::INVALID_TABLE, "format", message, advice));
        };
        let (name, data_type) = (field.name.clone(), field.data_type.clone());
        if width(&data_type).is_none() && !data_type.is_string() && !data_type.is_binary() {
            let message = format!("column {name}: the format raw has no {data_type}");
            return Err(Diagnostic::new(code::UNSUPPORTED, message)
                .advise("STRING, BYTES, BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT and DOUBLE are possible"));
        }
        Ok(Raw { name, data_type, little_endian })
    }

    /// Appends the value of a message; `None` if it is not one of the type.
    fn push(&self, builder: &mut ColumnBuilder, bytes: &[u8], offset: usize) -> Option<()> {
        let number = |bytes: &[u8]| {
            let mut number = [0u8; 8];
            number[..bytes.len()].copy_from_slice(bytes);
            if !self.little_endian {
                number[..bytes.len()].reverse();
            }
            u64::from_le_bytes(number)
        };
        if width(&self.data_type).is_some_and(|width| width != bytes.len()) {
            return None;
        }
        match &mut builder.values {
            Values::String(values) => {
                std::str::from_utf8(bytes).ok()?;
                values.push_in_chunk(bytes, offset);
            }
            Values::Bytes(values) => values.push_in_chunk(bytes, offset),
            Values::Boolean(values) => values.push(bytes[0] != 0),
            Values::Int8(values) => values.push(number(bytes) as i8),
            Values::Int16(values) => values.push(number(bytes) as i16),
            Values::Int32(values) => values.push(number(bytes) as i32),
            Values::Int64(values) => values.push(number(bytes) as i64),
            Values::Float32(values) => values.push(f32::from_bits(number(bytes) as u32)),
            Values::Float64(values) => values.push(f64::from_bits(number(bytes))),
            Values::Decimal(_) | Values::List(..) | Values::Row(_) | Values::Map(..) => return None,
        }
        builder.mark_valid();
        Some(())
    }

    fn write(&self, view: &ColumnView<'_>, row: usize, out: &mut Vec<u8>) {
        let start = out.len();
        match &view.kind {
            Kind::String(values) => return out.extend_from_slice(values.value(row).as_bytes()),
            Kind::Bytes(values) => return out.extend_from_slice(values.value(row)),
            Kind::Boolean(values) => out.push(u8::from(values.value(row))),
            Kind::Int8(values) => out.extend(values[row].to_be_bytes()),
            Kind::Int16(values) => out.extend(values[row].to_be_bytes()),
            Kind::Int32(values) => out.extend(values[row].to_be_bytes()),
            Kind::Int64(values) => out.extend(values[row].to_be_bytes()),
            Kind::Float32(values) => out.extend(values[row].to_be_bytes()),
            Kind::Float64(values) => out.extend(values[row].to_be_bytes()),
            // Refused when the table was opened.
            _ => {}
        }
        if self.little_endian {
            out[start..].reverse();
        }
    }
}

/// Bytes of a value of fixed length.
fn width(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::Boolean | DataType::TinyInt => Some(1),
        DataType::SmallInt => Some(2),
        DataType::Int | DataType::Float => Some(4),
        DataType::BigInt | DataType::Double => Some(8),
        _ => None,
    }
}

fn decoder(request: &SourceRequest) -> Result<Box<dyn MessageDecoder>, Diagnostic> {
    let raw = Raw::of(&request.options, &request.schema)?;
    let wanted = request.columns.iter().filter(|column| matches!(column.origin, RequestOrigin::Path(_)));
    Ok(Box::new(RawDecoder { nullable: wanted.map(|column| column.nullable).collect(), raw }))
}

fn encoder(request: &SinkRequest) -> Result<Box<dyn MessageEncoder>, Diagnostic> {
    Ok(Box::new(Raw::of(&request.options, &request.schema)?))
}

struct RawDecoder {
    raw: Raw,
    /// Whether the column may be NULL, for each time that it is wanted.
    nullable: Vec<bool>,
}

impl MessageDecoder for RawDecoder {
    fn decode(&self, messages: &Messages) -> Result<DecodedMessages, Diagnostic> {
        let mut builder = ColumnBuilder::new(&self.raw.data_type, messages.len())?;
        let may_be_null = self.nullable.iter().all(|nullable| *nullable);
        let mut decoded = DecodedMessages::of(messages, |range| match range {
            None if may_be_null => {
                builder.push_null();
                Ok(())
            }
            None => Err(missing(&self.raw.name)),
            Some(range) => {
                let bytes = &messages.data()[range.clone()];
                self.raw.push(&mut builder, bytes, range.start).ok_or_else(|| {
                    let message = format!("a message of {} bytes is no {}", bytes.len(), self.raw.data_type);
                    failure(code::WRONG_TYPE, message, Some(self.raw.name.clone()))
                })
            }
        })?;
        let column = builder.finish(messages.data())?;
        decoded.columns = self.nullable.iter().map(|_| column.clone()).collect();
        Ok(decoded)
    }
}

impl MessageEncoder for Raw {
    fn encode(&self, columns: &[ArrayRef], rows: usize) -> Result<Messages, Diagnostic> {
        let column = columns.first().ok_or_else(|| Diagnostic::bug("the format raw got no column"))?;
        let view = ColumnView::new(&self.data_type, column)?;
        let mut messages = MessagesBuilder::with_capacity(rows, column.get_array_memory_size());
        for row in 0..rows {
            let is_present = !view.is_null(row);
            if is_present {
                self.write(&view, row, messages.bytes());
            }
            messages.end(is_present);
        }
        Ok(messages.finish())
    }
}
