//! Values as text: as JSON, and as CAST writes nested values.

use super::{Input, Output};
use arrow_array::builder::StringViewBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, DurationMillisecondType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, IntervalYearMonthType, Time32MillisecondType, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType,
};
use arrow_array::{Array, ArrowPrimitiveType};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use millstream_types::text::{self, TimestampStyle};
use millstream_types::{DataType, TimeUnit};
use std::sync::Arc;

/// How values are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// JSON.
    Json,
    /// `[1, 2]`, `{a=1}`, `(1, a)`, NULL.
    Text,
}

/// The values of the first argument, of the type `data_type`, as text. NULL stays NULL.
pub fn texts(input: &Input, data_type: &DataType, form: Form) -> Output {
    let column = &input.columns[0];
    let mut texts = StringViewBuilder::new();
    let mut out = Vec::new();
    for row in 0..input.rows {
        if column.is_null(row) {
            texts.append_null();
            continue;
        }
        out.clear();
        write(&mut out, column, row, data_type, form);
        texts.append_value(String::from_utf8_lossy(&out));
    }
    Ok(Arc::new(texts.finish()))
}

fn number<T: ArrowPrimitiveType>(column: &dyn Array, row: usize) -> T::Native {
    column.as_primitive::<T>().value(row)
}

/// Appends the value of a row.
pub(super) fn write(out: &mut Vec<u8>, column: &dyn Array, row: usize, data_type: &DataType, form: Form) {
    if column.is_null(row) || *data_type == DataType::Null {
        out.extend_from_slice(if form == Form::Json { b"null" } else { b"NULL" });
        return;
    }
    match data_type {
        DataType::Row(_) | DataType::Array(_) | DataType::Map(..) => nested(out, column, row, data_type, form),
        DataType::Boolean if form == Form::Text => text::write_boolean(out, column.as_boolean().value(row)),
        DataType::Boolean => out.extend_from_slice(if column.as_boolean().value(row) { b"true" } else { b"false" }),
        DataType::TinyInt => text::write_integer(out, number::<Int8Type>(column, row).into()),
        DataType::SmallInt => text::write_integer(out, number::<Int16Type>(column, row).into()),
        DataType::Int => text::write_integer(out, number::<Int32Type>(column, row).into()),
        DataType::BigInt => text::write_integer(out, number::<Int64Type>(column, row)),
        DataType::Decimal { scale, .. } => text::write_decimal(out, number::<Decimal128Type>(column, row), *scale),
        DataType::Float if number::<Float32Type>(column, row).is_finite() => {
            text::write_f32(out, number::<Float32Type>(column, row));
        }
        DataType::Double if number::<Float64Type>(column, row).is_finite() => {
            text::write_f64(out, number::<Float64Type>(column, row));
        }
        _ => {
            let mut unquoted = Vec::new();
            string(&mut unquoted, column, row, data_type, form);
            match form {
                Form::Text => out.append(&mut unquoted),
                Form::Json => quoted(out, &String::from_utf8_lossy(&unquoted)),
            }
        }
    }
}

/// Appends a JSON string.
pub(super) fn quoted(out: &mut Vec<u8>, s: &str) {
    out.extend_from_slice(serde_json::Value::from(s).to_string().as_bytes());
}

/// What JSON writes as a string, without quotes.
fn string(out: &mut Vec<u8>, column: &dyn Array, row: usize, data_type: &DataType, form: Form) {
    match data_type {
        DataType::Float => text::write_f32(out, number::<Float32Type>(column, row)),
        DataType::Double => text::write_f64(out, number::<Float64Type>(column, row)),
        DataType::Binary(_) | DataType::Varbinary(_) => {
            let bytes = column.as_binary_view().value(row);
            match form {
                Form::Json => out.extend_from_slice(STANDARD.encode(bytes).as_bytes()),
                Form::Text => out.extend_from_slice(String::from_utf8_lossy(bytes).as_bytes()),
            }
        }
        DataType::Date => text::write_date(out, number::<Date32Type>(column, row)),
        DataType::Time(precision) => match form {
            Form::Json => text::write_time_trimmed(out, number::<Time32MillisecondType>(column, row)),
            Form::Text => text::write_time_cast(out, number::<Time32MillisecondType>(column, row), *precision),
        },
        DataType::Timestamp(precision) | DataType::TimestampLtz(precision) => {
            let unit = data_type.time_unit();
            let value = match unit {
                TimeUnit::Milli => number::<TimestampMillisecondType>(column, row),
                TimeUnit::Micro => number::<TimestampMicrosecondType>(column, row),
                TimeUnit::Nano => number::<TimestampNanosecondType>(column, row),
            };
            match (form, data_type) {
                (Form::Json, DataType::Timestamp(_)) => {
                    text::write_timestamp_trimmed(out, value, unit, TimestampStyle::Iso);
                }
                (Form::Json, _) => text::write_timestamp_ltz(out, value, unit, TimestampStyle::Iso),
                (Form::Text, _) => text::write_timestamp(out, value, unit, *precision),
            }
        }
        DataType::IntervalMonth => text::write_interval_months(out, number::<IntervalYearMonthType>(column, row)),
        DataType::IntervalMilli => text::write_interval_millis(out, number::<DurationMillisecondType>(column, row)),
        _ => out.extend_from_slice(column.as_string_view().value(row).as_bytes()),
    }
}

fn nested(out: &mut Vec<u8>, column: &dyn Array, row: usize, data_type: &DataType, form: Form) {
    let json = form == Form::Json;
    match data_type {
        DataType::Row(fields) => {
            let columns = column.as_struct();
            let brackets = if json { b"{}" } else { b"()" };
            sequence(out, brackets, fields.len(), form, |out, i| {
                if json {
                    quoted(out, &fields[i].name);
                    out.push(b':');
                }
                write(out, columns.column(i), row, &fields[i].data_type, form);
            });
        }
        DataType::Array(element) => {
            let elements = column.as_list::<i32>().value(row);
            sequence(out, b"[]", elements.len(), form, |out, i| write(out, &elements, i, element, form));
        }
        DataType::Map(key, value) => {
            let entries = column.as_map().value(row);
            sequence(out, b"{}", entries.len(), form, |out, i| {
                let mut name = Vec::new();
                write(&mut name, entries.column(0), i, key, Form::Text);
                match form {
                    Form::Json => {
                        quoted(out, &String::from_utf8_lossy(&name));
                        out.push(b':');
                    }
                    Form::Text => {
                        out.append(&mut name);
                        out.push(b'=');
                    }
                }
                write(out, entries.column(1), i, value, form);
            });
        }
        _ => {}
    }
}

fn sequence(
    out: &mut Vec<u8>,
    brackets: &[u8; 2],
    count: usize,
    form: Form,
    mut item: impl FnMut(&mut Vec<u8>, usize),
) {
    out.push(brackets[0]);
    for i in 0..count {
        if i > 0 {
            out.extend_from_slice(if form == Form::Json { b"," } else { b", " });
        }
        item(out, i);
    }
    out.push(brackets[1]);
}
