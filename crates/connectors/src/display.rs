//! Values as people read them: the form of `CAST(x AS STRING)`, for tables on a terminal and the `print` connector.
//!
//! Unlike the formats it writes every fraction digit of a timestamp's precision, as Flink's client does.

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use millstream_types::{DataType, TimeUnit, text};

/// Appends the value of `array` at `row`; NULL as `NULL`.
pub fn write_value(out: &mut Vec<u8>, array: &dyn Array, row: usize, data_type: &DataType) {
    if array.is_null(row) {
        out.extend_from_slice(b"NULL");
        return;
    }
    macro_rules! number {
        ($ty:ty) => {
            array.as_primitive::<$ty>().value(row)
        };
    }
    match data_type {
        DataType::Null => out.extend_from_slice(b"NULL"),
        DataType::Boolean => text::write_boolean(out, array.as_boolean().value(row)),
        DataType::TinyInt => text::write_integer(out, number!(Int8Type).into()),
        DataType::SmallInt => text::write_integer(out, number!(Int16Type).into()),
        DataType::Int => text::write_integer(out, number!(Int32Type).into()),
        DataType::BigInt => text::write_integer(out, number!(Int64Type)),
        DataType::Float => text::write_f32(out, number!(Float32Type)),
        DataType::Double => text::write_f64(out, number!(Float64Type)),
        DataType::Decimal { scale, .. } => text::write_decimal(out, number!(Decimal128Type), *scale),
        DataType::Char(_) | DataType::Varchar(_) => {
            out.extend_from_slice(array.as_string_view().value(row).as_bytes());
        }
        DataType::Binary(_) | DataType::Varbinary(_) => {
            text::write_bytes_literal(out, array.as_binary_view().value(row));
        }
        DataType::Date => text::write_date(out, number!(Date32Type)),
        DataType::Time(precision) => text::write_time(out, number!(Time32MillisecondType), *precision),
        DataType::Timestamp(precision) | DataType::TimestampLtz(precision) => {
            let value = match data_type.time_unit() {
                TimeUnit::Milli => number!(TimestampMillisecondType),
                TimeUnit::Micro => number!(TimestampMicrosecondType),
                TimeUnit::Nano => number!(TimestampNanosecondType),
            };
            text::write_timestamp(out, value, data_type.time_unit(), *precision);
            if matches!(data_type, DataType::TimestampLtz(_)) {
                out.push(b'Z');
            }
        }
        DataType::IntervalMonth => text::write_interval_months(out, number!(IntervalYearMonthType)),
        DataType::IntervalMilli => text::write_interval_millis(out, number!(DurationMillisecondType)),
        DataType::Row(fields) => {
            let columns = array.as_struct();
            sequence(out, b"(", b")", fields.len(), |out, i| {
                write_value(out, columns.column(i).as_ref(), row, &fields[i].data_type);
            });
        }
        DataType::Array(element) => {
            let elements = array.as_list::<i32>().value(row);
            sequence(out, b"[", b"]", elements.len(), |out, i| write_value(out, elements.as_ref(), i, element));
        }
        DataType::Map(key, value) => {
            let entries = array.as_map().value(row);
            sequence(out, b"{", b"}", entries.len(), |out, i| {
                write_value(out, entries.column(0).as_ref(), i, key);
                out.push(b'=');
                write_value(out, entries.column(1).as_ref(), i, value);
            });
        }
    }
}

fn sequence(out: &mut Vec<u8>, open: &[u8], close: &[u8], count: usize, mut item: impl FnMut(&mut Vec<u8>, usize)) {
    out.extend_from_slice(open);
    for i in 0..count {
        if i > 0 {
            out.extend_from_slice(b", ");
        }
        item(out, i);
    }
    out.extend_from_slice(close);
}
