//! Columns → Avro's binary form, by the schema that is derived from the table.

use super::schema;
use crate::messages::{MessageEncoder, Messages, MessagesBuilder};
use crate::values::{ColumnView, Kind};
use arrow_array::ArrayRef;
use millstream_types::{DataType, Diagnostic, Field, Schema, TimeUnit};
use serde_json::Value;

/// Encodes rows of one schema.
pub(super) struct AvroEncoder {
    fields: Vec<Field>,
    /// What each message starts with.
    pub prefix: Vec<u8>,
}

impl AvroEncoder {
    /// An encoder and its schema.
    pub(super) fn new(table: &Schema, legacy: bool) -> Result<(AvroEncoder, Value), Diagnostic> {
        let json = schema::derived(&table.fields, legacy)?;
        Ok((AvroEncoder { fields: table.fields.clone(), prefix: Vec::new() }, json))
    }
}

impl MessageEncoder for AvroEncoder {
    fn encode(&self, columns: &[ArrayRef], rows: usize) -> Result<Messages, Diagnostic> {
        let views = self.fields.iter().zip(columns);
        let views = views.map(|(f, c)| ColumnView::new(&f.data_type, c)).collect::<Result<Vec<_>, _>>()?;
        let mut messages = MessagesBuilder::with_capacity(rows, rows * (self.prefix.len() + 8 * views.len()));
        for row in 0..rows {
            let out = messages.bytes();
            out.extend_from_slice(&self.prefix);
            record(&self.fields, &views, row, out);
            messages.end(true);
        }
        Ok(messages.finish())
    }
}

fn record(fields: &[Field], views: &[ColumnView<'_>], row: usize, out: &mut Vec<u8>) {
    for (field, view) in fields.iter().zip(views) {
        if field.nullable {
            optional(&field.data_type, view, row, out);
        } else {
            value(&field.data_type, view, row, out);
        }
    }
}

/// A value of the union of null and its type.
fn optional(data_type: &DataType, view: &ColumnView<'_>, row: usize, out: &mut Vec<u8>) {
    if view.is_null(row) {
        return long(0, out);
    }
    long(1, out);
    value(data_type, view, row, out);
}

fn value(data_type: &DataType, view: &ColumnView<'_>, row: usize, out: &mut Vec<u8>) {
    match (&view.kind, data_type) {
        (Kind::Boolean(values), _) => out.push(u8::from(values.value(row))),
        (Kind::Int8(values), _) => long(values[row].into(), out),
        (Kind::Int16(values), _) => long(values[row].into(), out),
        (Kind::Int32(values) | Kind::Date(values) | Kind::Time(values), _) => long(values[row].into(), out),
        (Kind::Int64(values), _) => long(values[row], out),
        (Kind::Float32(values), _) => out.extend(values[row].to_le_bytes()),
        (Kind::Float64(values), _) => out.extend(values[row].to_le_bytes()),
        (Kind::Decimal(values, _), _) => decimal(values[row], out),
        (Kind::String(values), _) => bytes(values.value(row).as_bytes(), out),
        (Kind::Bytes(values), _) => bytes(values.value(row), out),
        (Kind::Timestamp(values, TimeUnit::Milli | TimeUnit::Micro, _), _) => long(values[row], out),
        // The schema says microseconds; more digits were refused.
        (Kind::Timestamp(values, TimeUnit::Nano, _), _) => long(values[row].div_euclid(1000), out),
        (Kind::Row(fields, children), _) => record(fields, children, row, out),
        (Kind::List(list, elements), DataType::Array(element)) => {
            let offsets = list.value_offsets();
            let range = offsets[row] as usize..offsets[row + 1] as usize;
            block(range.len(), out);
            for at in range.clone() {
                optional(element, elements, at, out);
            }
            long(0, out);
        }
        (Kind::Map(map, keys, values), DataType::Map(key, value_type)) => {
            let offsets = map.value_offsets();
            let range = offsets[row] as usize..offsets[row + 1] as usize;
            block(range.len(), out);
            for at in range.clone() {
                value(key, keys, at, out);
                optional(value_type, values, at, out);
            }
            long(0, out);
        }
        // NULL has no bytes; nothing else is left that the schema lets through.
        _ => {}
    }
}

fn block(count: usize, out: &mut Vec<u8>) {
    if count > 0 {
        long(count as i64, out);
    }
}

/// A number of variable length, small ones short.
pub(super) fn long(value: i64, out: &mut Vec<u8>) {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

pub(super) fn bytes(value: &[u8], out: &mut Vec<u8>) {
    long(value.len() as i64, out);
    out.extend_from_slice(value);
}

/// The shortest big-endian two's complement.
fn decimal(value: i128, out: &mut Vec<u8>) {
    let whole = value.to_be_bytes();
    let sign = if value < 0 { 0xff } else { 0 };
    let is_spare = |at: usize| whole[at] == sign && (whole[at + 1] ^ sign) < 0x80;
    let start = (0..15).find(|at| !is_spare(*at)).unwrap_or(15);
    bytes(&whole[start..], out);
}
