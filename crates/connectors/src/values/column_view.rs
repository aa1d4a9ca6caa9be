//! A column of a result, downcast once, for encoders that write it value by value.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, BinaryViewArray, BooleanArray, ListArray, MapArray, StringViewArray, StructArray};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use millstream_types::text::{self, TimestampStyle};
use millstream_types::{DataType, Diagnostic, Field, TimeUnit};

/// A column by its SQL type.
pub(crate) struct ColumnView<'a> {
    array: &'a dyn Array,
    /// The values.
    pub(crate) kind: Kind<'a>,
}

/// The values of a column.
pub(crate) enum Kind<'a> {
    Null,
    Boolean(&'a BooleanArray),
    Int8(&'a [i8]),
    Int16(&'a [i16]),
    /// INT and INTERVAL YEAR TO MONTH.
    Int32(&'a [i32]),
    /// BIGINT and INTERVAL DAY TO SECOND.
    Int64(&'a [i64]),
    Float32(&'a [f32]),
    Float64(&'a [f64]),
    Decimal(&'a [i128], u8),
    String(&'a StringViewArray),
    Bytes(&'a BinaryViewArray),
    Date(&'a [i32]),
    Time(&'a [i32]),
    /// Values, unit, whether it is TIMESTAMP_LTZ.
    Timestamp(&'a [i64], TimeUnit, bool),
    Row(&'a [Field], Vec<ColumnView<'a>>),
    List(&'a ListArray, Box<ColumnView<'a>>),
    Map(&'a MapArray, Box<ColumnView<'a>>, Box<ColumnView<'a>>),
}

impl<'a> ColumnView<'a> {
    /// A view of an array of the type's Arrow type.
    pub(crate) fn new(data_type: &'a DataType, array: &'a ArrayRef) -> Result<ColumnView<'a>, Diagnostic> {
        if *array.data_type() != data_type.to_arrow() {
            return Err(Diagnostic::bug(format!("a column of type {data_type} is stored as {}", array.data_type())));
        }
        let kind = match data_type {
            DataType::Null => Kind::Null,
            DataType::Boolean => Kind::Boolean(array.as_boolean()),
            DataType::TinyInt => Kind::Int8(array.as_primitive::<Int8Type>().values()),
            DataType::SmallInt => Kind::Int16(array.as_primitive::<Int16Type>().values()),
            DataType::Int => Kind::Int32(array.as_primitive::<Int32Type>().values()),
            DataType::BigInt => Kind::Int64(array.as_primitive::<Int64Type>().values()),
            DataType::Float => Kind::Float32(array.as_primitive::<Float32Type>().values()),
            DataType::Double => Kind::Float64(array.as_primitive::<Float64Type>().values()),
            DataType::Decimal { scale, .. } => Kind::Decimal(array.as_primitive::<Decimal128Type>().values(), *scale),
            DataType::Char(_) | DataType::Varchar(_) => Kind::String(array.as_string_view()),
            DataType::Binary(_) | DataType::Varbinary(_) => Kind::Bytes(array.as_binary_view()),
            DataType::Date => Kind::Date(array.as_primitive::<Date32Type>().values()),
            DataType::Time(_) => Kind::Time(array.as_primitive::<Time32MillisecondType>().values()),
            DataType::Timestamp(_) | DataType::TimestampLtz(_) => {
                let values = match data_type.time_unit() {
                    TimeUnit::Milli => array.as_primitive::<TimestampMillisecondType>().values(),
                    TimeUnit::Micro => array.as_primitive::<TimestampMicrosecondType>().values(),
                    TimeUnit::Nano => array.as_primitive::<TimestampNanosecondType>().values(),
                };
                Kind::Timestamp(values, data_type.time_unit(), matches!(data_type, DataType::TimestampLtz(_)))
            }
            DataType::IntervalMonth => Kind::Int32(array.as_primitive::<IntervalYearMonthType>().values()),
            DataType::IntervalMilli => Kind::Int64(array.as_primitive::<DurationMillisecondType>().values()),
            DataType::Row(fields) => {
                let rows: &StructArray = array.as_struct();
                let children = fields.iter().zip(rows.columns());
                let children = children.map(|(f, c)| ColumnView::new(&f.data_type, c)).collect::<Result<_, _>>()?;
                Kind::Row(fields, children)
            }
            DataType::Array(element) => {
                let list: &ListArray = array.as_list();
                Kind::List(list, Box::new(ColumnView::new(element, list.values())?))
            }
            DataType::Map(key, value) => {
                let map: &MapArray = array.as_map();
                let (keys, values) = (ColumnView::new(key, map.keys())?, ColumnView::new(value, map.values())?);
                Kind::Map(map, Box::new(keys), Box::new(values))
            }
        };
        Ok(ColumnView { array, kind })
    }

    /// Whether the value of `row` is NULL.
    #[inline]
    pub(crate) fn is_null(&self, row: usize) -> bool {
        matches!(self.kind, Kind::Null) || self.array.is_null(row)
    }

    /// Writes the text of a scalar that is not NULL; strings as they are. Nested values write nothing.
    pub(crate) fn write_scalar(&self, row: usize, style: TimestampStyle, out: &mut Vec<u8>) {
        match &self.kind {
            Kind::Boolean(v) => out.extend_from_slice(if v.value(row) { b"true" } else { b"false" }),
            Kind::Int8(v) => text::write_integer(out, v[row].into()),
            Kind::Int16(v) => text::write_integer(out, v[row].into()),
            Kind::Int32(v) => text::write_integer(out, v[row].into()),
            Kind::Int64(v) => text::write_integer(out, v[row]),
            Kind::Float32(v) => text::write_f32(out, v[row]),
            Kind::Float64(v) => text::write_f64(out, v[row]),
            Kind::Decimal(v, scale) => text::write_decimal(out, v[row], *scale),
            Kind::String(v) => out.extend_from_slice(v.value(row).as_bytes()),
            Kind::Bytes(v) => out.extend_from_slice(BASE64.encode(v.value(row)).as_bytes()),
            Kind::Date(v) => text::write_date(out, v[row]),
            Kind::Time(v) => text::write_time_trimmed(out, v[row]),
            Kind::Timestamp(v, unit, true) => text::write_timestamp_ltz(out, v[row], *unit, style),
            Kind::Timestamp(v, unit, false) => text::write_timestamp_trimmed(out, v[row], *unit, style),
            Kind::Null | Kind::Row(..) | Kind::List(..) | Kind::Map(..) => {}
        }
    }
}
