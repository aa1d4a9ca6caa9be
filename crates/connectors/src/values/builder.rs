//! Collects decoded values of one column, nested ones included, and makes an Arrow array of them.
//!
//! Unlike Arrow's builders it can take back its last rows, because a record may turn out malformed after some of its
//! columns were read, and a key may occur twice.

use super::views::ViewValues;
use crate::fit::stored_as;
use arrow_array::types::*;
use arrow_array::{ArrayRef, ArrowPrimitiveType, BooleanArray, ListArray, MapArray, PrimitiveArray, StructArray};
use arrow_buffer::{Buffer, NullBuffer, NullBufferBuilder, OffsetBuffer};
use arrow_schema::DataType as ArrowType;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use millstream_types::text::{self, TimestampStyle};
use millstream_types::{DataType, Diagnostic, code};
use std::sync::Arc;

/// Values of a column under construction.
pub(crate) struct ColumnBuilder {
    /// The SQL type.
    pub(crate) data_type: DataType,
    /// The values; those under a NULL are arbitrary.
    pub(crate) values: Values,
    nulls: NullBufferBuilder,
}

/// Storage by physical type.
pub(crate) enum Values {
    Boolean(Vec<bool>),
    Int8(Vec<i8>),
    Int16(Vec<i16>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Float32(Vec<f32>),
    Float64(Vec<f64>),
    Decimal(Vec<i128>),
    String(ViewValues),
    Bytes(ViewValues),
    /// Number of elements up to each row's end.
    List(Vec<i32>, Box<ColumnBuilder>),
    Row(Vec<ColumnBuilder>),
    /// Number of entries up to each row's end; keys; values.
    Map(Vec<i32>, Box<ColumnBuilder>, Box<ColumnBuilder>),
}

impl ColumnBuilder {
    /// A builder for columns of this type with room for `capacity` rows.
    pub(crate) fn new(data_type: &DataType, capacity: usize) -> Result<ColumnBuilder, Diagnostic> {
        let nested = |t: &DataType| ColumnBuilder::new(t, 0).map(Box::new);
        let values = match data_type {
            DataType::Boolean => Values::Boolean(Vec::with_capacity(capacity)),
            DataType::TinyInt => Values::Int8(Vec::with_capacity(capacity)),
            DataType::SmallInt => Values::Int16(Vec::with_capacity(capacity)),
            DataType::Int | DataType::Date | DataType::Time(_) | DataType::IntervalMonth => {
                Values::Int32(Vec::with_capacity(capacity))
            }
            DataType::BigInt | DataType::Timestamp(_) | DataType::TimestampLtz(_) | DataType::IntervalMilli => {
                Values::Int64(Vec::with_capacity(capacity))
            }
            DataType::Float => Values::Float32(Vec::with_capacity(capacity)),
            DataType::Double => Values::Float64(Vec::with_capacity(capacity)),
            DataType::Decimal { .. } => Values::Decimal(Vec::with_capacity(capacity)),
            DataType::Char(_) | DataType::Varchar(_) => Values::String(ViewValues::default()),
            DataType::Binary(_) | DataType::Varbinary(_) => Values::Bytes(ViewValues::default()),
            DataType::Array(element) => Values::List(Vec::new(), nested(element)?),
            DataType::Row(fields) => {
                let children = fields.iter().map(|f| ColumnBuilder::new(&f.data_type, capacity));
                Values::Row(children.collect::<Result<_, _>>()?)
            }
            DataType::Map(key, value) => Values::Map(Vec::new(), nested(key)?, nested(value)?),
            DataType::Null => {
                return Err(Diagnostic::new(code::UNSUPPORTED, "a column of type NULL cannot be read or written"));
            }
        };
        Ok(ColumnBuilder { data_type: data_type.clone(), values, nulls: NullBufferBuilder::new(capacity) })
    }

    /// Rows so far.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.nulls.len()
    }

    /// Whether the value of a row is NULL.
    pub(crate) fn is_null(&self, row: usize) -> bool {
        !self.nulls.is_valid(row)
    }

    /// Marks the value that was just pushed to `values` as present.
    #[inline]
    pub(crate) fn mark_valid(&mut self) {
        self.nulls.append_non_null();
    }

    /// Marks `rows` values that were pushed to `values` as present.
    pub(crate) fn mark_all_valid(&mut self, rows: usize) {
        self.nulls.append_n_non_nulls(rows);
    }

    /// Appends NULL.
    pub(crate) fn push_null(&mut self) {
        match &mut self.values {
            Values::Boolean(v) => v.push(false),
            Values::Int8(v) => v.push(0),
            Values::Int16(v) => v.push(0),
            Values::Int32(v) => v.push(0),
            Values::Int64(v) => v.push(0),
            Values::Float32(v) => v.push(0.0),
            Values::Float64(v) => v.push(0.0),
            Values::Decimal(v) => v.push(0),
            Values::String(v) | Values::Bytes(v) => v.push_null(),
            Values::List(ends, _) | Values::Map(ends, ..) => ends.push(ends.last().copied().unwrap_or(0)),
            Values::Row(children) => children.iter_mut().for_each(ColumnBuilder::push_null),
        }
        self.nulls.append_null();
    }

    /// Forgets all rows from `length` on.
    pub(crate) fn truncate(&mut self, length: usize) {
        let kept = |ends: &[i32]| ends.last().map_or(0, |end| *end as usize);
        match &mut self.values {
            Values::Boolean(v) => v.truncate(length),
            Values::Int8(v) => v.truncate(length),
            Values::Int16(v) => v.truncate(length),
            Values::Int32(v) => v.truncate(length),
            Values::Int64(v) => v.truncate(length),
            Values::Float32(v) => v.truncate(length),
            Values::Float64(v) => v.truncate(length),
            Values::Decimal(v) => v.truncate(length),
            Values::String(v) | Values::Bytes(v) => v.truncate(length),
            Values::List(ends, elements) => {
                ends.truncate(length);
                elements.truncate(kept(ends));
            }
            Values::Row(children) => children.iter_mut().for_each(|c| c.truncate(length)),
            Values::Map(ends, keys, values) => {
                ends.truncate(length);
                keys.truncate(kept(ends));
                values.truncate(kept(ends));
            }
        }
        if self.nulls.len() > length {
            self.nulls.truncate(length);
        }
    }

    /// Appends an integer if it is in the range of the column's integer type.
    #[inline]
    pub(crate) fn push_integer(&mut self, value: i64) -> Option<()> {
        match &mut self.values {
            Values::Int64(v) => v.push(value),
            Values::Int32(v) => v.push(i32::try_from(value).ok()?),
            Values::Int16(v) => v.push(i16::try_from(value).ok()?),
            Values::Int8(v) => v.push(i8::try_from(value).ok()?),
            _ => return None,
        }
        self.mark_valid();
        Some(())
    }

    /// Appends the scalar that `text` stands for; `None`, and no change, if it stands for none of the column's type.
    pub(crate) fn push_text(&mut self, text: &str, style: TimestampStyle) -> Option<()> {
        let trimmed = text.trim_matches(|c: char| c <= ' ');
        match (&mut self.values, &self.data_type) {
            (Values::String(v), _) => v.push_copy(text.as_bytes()),
            (Values::Bytes(v), _) => v.push_copy(&BASE64.decode(text).ok()?),
            (Values::Boolean(v), _) => v.push(truth(trimmed)?),
            (Values::Float32(v), _) => v.push(text::parse_f32(text)?),
            (Values::Float64(v), _) => v.push(text::parse_f64(text)?),
            (Values::Decimal(v), DataType::Decimal { precision, scale }) => {
                v.push(text::parse_decimal(text, *precision, *scale)?);
            }
            (Values::Int32(v), DataType::Date) => v.push(text::parse_date(text)?),
            (Values::Int32(v), DataType::Time(_)) => v.push(text::parse_time(text)?),
            (Values::Int64(v), DataType::Timestamp(p)) => v.push(timestamp(text, style, *p, text::parse_timestamp)?),
            (Values::Int64(v), DataType::TimestampLtz(p)) => {
                v.push(timestamp(text, style, *p, text::parse_timestamp_ltz)?)
            }
            _ => return self.push_integer(text::parse_integer(trimmed, i64::MIN, i64::MAX)?),
        }
        self.mark_valid();
        Some(())
    }

    /// The array. Strings pushed by reference must lie in `chunk`.
    pub(crate) fn finish(mut self, chunk: &Buffer) -> Result<ArrayRef, Diagnostic> {
        let rows = self.nulls.len();
        let nulls = self.nulls.finish();
        let arrow_type = self.data_type.to_arrow();
        let broken = |e: arrow_schema::ArrowError| Diagnostic::bug(format!("a decoded column is inconsistent: {e}"));
        Ok(match self.values {
            Values::Boolean(v) => Arc::new(BooleanArray::new(v.into(), nulls)),
            Values::Int8(v) => primitive::<Int8Type>(v, nulls, arrow_type),
            Values::Int16(v) => primitive::<Int16Type>(v, nulls, arrow_type),
            Values::Int32(v) => primitive::<Int32Type>(v, nulls, arrow_type),
            Values::Int64(v) => primitive::<Int64Type>(v, nulls, arrow_type),
            Values::Float32(v) => primitive::<Float32Type>(v, nulls, arrow_type),
            Values::Float64(v) => primitive::<Float64Type>(v, nulls, arrow_type),
            Values::Decimal(v) => primitive::<Decimal128Type>(v, nulls, arrow_type),
            Values::String(v) => v.finish_strings(chunk, nulls),
            Values::Bytes(v) => v.finish_bytes(chunk, nulls),
            Values::List(ends, elements) => {
                let ArrowType::List(field) = arrow_type else { unreachable!("ARRAY is stored as a list") };
                Arc::new(ListArray::try_new(field, offsets(ends), elements.finish(chunk)?, nulls).map_err(broken)?)
            }
            Values::Row(children) => {
                let ArrowType::Struct(fields) = arrow_type else { unreachable!("ROW is stored as a struct") };
                let children = children.into_iter().map(|c| c.finish(chunk)).collect::<Result<Vec<_>, _>>()?;
                Arc::new(StructArray::try_new_with_length(fields, children, nulls, rows).map_err(broken)?)
            }
            Values::Map(ends, keys, values) => {
                let ArrowType::Map(field, ordered) = arrow_type else { unreachable!("MAP is stored as a map") };
                let ArrowType::Struct(fields) = field.data_type() else { unreachable!("entries are structs") };
                let (entry_rows, columns) = (keys.len(), vec![keys.finish(chunk)?, values.finish(chunk)?]);
                let entries =
                    StructArray::try_new_with_length(fields.clone(), columns, None, entry_rows).map_err(broken)?;
                Arc::new(MapArray::try_new(field, offsets(ends), entries, nulls, ordered).map_err(broken)?)
            }
        })
    }
}

/// A timestamp: a number where the style has one, or a text that `parse` reads.
fn timestamp(text: &str, style: TimestampStyle, precision: u8, parse: fn(&str, u8) -> Option<i64>) -> Option<i64> {
    let epoch = match style {
        TimestampStyle::Epoch(unit) => text::parse_epoch(text, unit, precision),
        TimestampStyle::Sql | TimestampStyle::Iso => None,
    };
    epoch.or_else(|| parse(text, precision))
}

/// `true` or `false` in any case; what else CAST takes is not a truth value in a data format.
fn truth(text: &str) -> Option<bool> {
    let is_true = text.eq_ignore_ascii_case("true");
    (is_true || text.eq_ignore_ascii_case("false")).then_some(is_true)
}

/// A column of numbers; dates, times and the like are stored as such.
fn primitive<T: ArrowPrimitiveType>(values: Vec<T::Native>, nulls: Option<NullBuffer>, stored: ArrowType) -> ArrayRef {
    let numbers = PrimitiveArray::<T>::new(values.into(), nulls);
    if stored == T::DATA_TYPE { Arc::new(numbers) } else { stored_as(&numbers, stored) }
}

fn offsets(mut ends: Vec<i32>) -> OffsetBuffer<i32> {
    ends.insert(0, 0);
    OffsetBuffer::new(ends.into())
}
