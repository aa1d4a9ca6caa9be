//! Merged entries as the Arrow columns of a trigger's output.
//!
//! Columns are the keys, the components, then `window_start` and `window_end`, as `plan`'s
//! `Aggregation::output_schema` describes them.

use crate::accumulator::sum_of;
use crate::entry::{null_mask, read};
use crate::merge::Merged;
use arrow_array::builder::{BinaryViewBuilder, StringViewBuilder};
use arrow_array::types::*;
use arrow_array::{ArrayRef, ArrowPrimitiveType, BooleanArray, NullArray, PrimitiveArray, TimestampMillisecondArray};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::{DataType as Arrow, IntervalUnit, TimeUnit};
use millstream_abi::{Accumulator, KeySlot, Phys, Str};
use millstream_types::DataType;
use std::ops::Range;
use std::sync::Arc;

/// SQL types of the output's columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputTypes {
    /// Of the keys, in the order of the layout.
    pub keys: Vec<DataType>,
    /// Of the components: `Accumulator::output` is narrowed to its physical type (integers wrap, DOUBLE rounds).
    pub components: Vec<DataType>,
}

impl Merged {
    /// The output columns of the rows in `range`; `window` is start and end of the window in milliseconds, `None` when
    /// all time is one window.
    pub fn columns(&self, range: Range<usize>, types: &OutputTypes, window: Option<(i64, i64)>) -> Vec<ArrayRef> {
        let rows = &self.rows()[range];
        let layout = self.layout();
        assert_eq!((layout.keys.len(), layout.accumulators.len()), (types.keys.len(), types.components.len()));
        let mut columns = Vec::with_capacity(types.keys.len() + types.components.len() + 2);
        for (i, (key, data_type)) in layout.keys.iter().zip(&types.keys).enumerate() {
            let nulls = key.nullable.then(|| {
                // SAFETY: rows are entries of the layout.
                NullBuffer::from_iter(rows.iter().map(|&e| unsafe { null_mask(layout, e) } >> i & 1 == 0))
            });
            columns.push(key_column(rows, key, data_type, nulls.filter(|n| n.null_count() > 0)));
        }
        for (&(component, offset), data_type) in layout.accumulators.iter().zip(&types.components) {
            columns.push(component_column(rows, component, offset, data_type));
        }
        for time in window.map_or(vec![], |(start, end)| vec![start, end]) {
            columns.push(Arc::new(TimestampMillisecondArray::from_value(time, rows.len())));
        }
        columns
    }
}

/// The values of one field, in the order of `rows`.
fn gather<T: Copy, V>(rows: &[*const u8], offset: usize, convert: impl Fn(T) -> V) -> Vec<V> {
    // SAFETY: callers take offset and type from the layout of the rows.
    rows.iter().map(|&e| convert(unsafe { read::<T>(e, offset) })).collect()
}

fn key_column(rows: &[*const u8], key: &KeySlot, data_type: &DataType, nulls: Option<NullBuffer>) -> ArrayRef {
    let arrow = data_type.to_arrow();
    let at = key.offset;
    if arrow == Arrow::Null {
        return Arc::new(NullArray::new(rows.len()));
    }
    match key.phys {
        Phys::Bool => Arc::new(BooleanArray::new(BooleanBuffer::from(gather(rows, at, |b: u8| b != 0)), nulls)),
        Phys::I8 => integers(gather(rows, at, |x: i8| x as i64), nulls, &arrow),
        Phys::I16 => integers(gather(rows, at, |x: i16| x as i64), nulls, &arrow),
        Phys::I32 => integers(gather(rows, at, |x: i32| x as i64), nulls, &arrow),
        Phys::I64 => integers(gather(rows, at, |x: i64| x), nulls, &arrow),
        Phys::I128 => primitive::<Decimal128Type>(gather(rows, at, |x: i128| x), nulls, &arrow),
        Phys::F32 => primitive::<Float32Type>(gather(rows, at, |x: f32| x), nulls, &arrow),
        Phys::F64 => primitive::<Float64Type>(gather(rows, at, |x: f64| x), nulls, &arrow),
        Phys::Str => strings(gather(rows, at, |s: Str| s), nulls.as_ref(), &arrow),
    }
}

fn component_column(rows: &[*const u8], component: Accumulator, at: usize, data_type: &DataType) -> ArrayRef {
    let arrow = data_type.to_arrow();
    match component {
        Accumulator::SumF64 => floats(gather(rows, at, |[high, low]: [f64; 2]| sum_of(high, low)), &arrow),
        Accumulator::MinF64 | Accumulator::MaxF64 => floats(gather(rows, at, |x: f64| x), &arrow),
        Accumulator::Count
        | Accumulator::SumI64
        | Accumulator::MinI64
        | Accumulator::MaxI64
        | Accumulator::Group
        | Accumulator::Object(..) => integers(gather(rows, at, |x: i64| x), None, &arrow),
        Accumulator::SumI128 | Accumulator::MinI128 | Accumulator::MaxI128 => {
            primitive::<Decimal128Type>(gather(rows, at, |x: i128| x), None, &arrow)
        }
        Accumulator::MinStr | Accumulator::MaxStr => {
            let values = gather(rows, at, |s: Str| s);
            let nulls = NullBuffer::from_iter(values.iter().map(|&s| s != Str::NONE));
            strings(values, Some(&nulls), &arrow)
        }
    }
}

/// A primitive column; `arrow` adds scale or time zone to the type.
fn primitive<T: ArrowPrimitiveType>(values: Vec<T::Native>, nulls: Option<NullBuffer>, arrow: &Arrow) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(values.into(), nulls).with_data_type(arrow.clone()))
}

/// 64-bit integers as a column of the type, keeping the low bits as SQL's integers wrap.
fn integers(values: Vec<i64>, nulls: Option<NullBuffer>, arrow: &Arrow) -> ArrayRef {
    let low_32 = || values.iter().map(|&v| v as i32).collect();
    match arrow {
        Arrow::Boolean => {
            Arc::new(BooleanArray::new(BooleanBuffer::collect_bool(values.len(), |i| values[i] != 0), nulls))
        }
        Arrow::Int8 => primitive::<Int8Type>(values.iter().map(|&v| v as i8).collect(), nulls, arrow),
        Arrow::Int16 => primitive::<Int16Type>(values.iter().map(|&v| v as i16).collect(), nulls, arrow),
        Arrow::Int32 => primitive::<Int32Type>(low_32(), nulls, arrow),
        Arrow::Date32 => primitive::<Date32Type>(low_32(), nulls, arrow),
        Arrow::Time32(_) => primitive::<Time32MillisecondType>(low_32(), nulls, arrow),
        Arrow::Interval(IntervalUnit::YearMonth) => primitive::<IntervalYearMonthType>(low_32(), nulls, arrow),
        Arrow::Timestamp(TimeUnit::Millisecond, _) => primitive::<TimestampMillisecondType>(values, nulls, arrow),
        Arrow::Timestamp(TimeUnit::Microsecond, _) => primitive::<TimestampMicrosecondType>(values, nulls, arrow),
        Arrow::Timestamp(TimeUnit::Nanosecond, _) => primitive::<TimestampNanosecondType>(values, nulls, arrow),
        Arrow::Duration(_) => primitive::<DurationMillisecondType>(values, nulls, arrow),
        Arrow::Int64 => primitive::<Int64Type>(values, nulls, arrow),
        other => unreachable!("no SQL type of integers is stored as {other}"),
    }
}

/// Doubles as DOUBLE or, rounded, FLOAT.
fn floats(values: Vec<f64>, arrow: &Arrow) -> ArrayRef {
    match arrow {
        Arrow::Float32 => primitive::<Float32Type>(values.into_iter().map(|x| x as f32).collect(), None, arrow),
        _ => primitive::<Float64Type>(values, None, arrow),
    }
}

/// Strings or byte strings; long ones are copied into buffers of the array.
fn strings(values: Vec<Str>, nulls: Option<&NullBuffer>, arrow: &Arrow) -> ArrayRef {
    let is_valid = |i: usize| nulls.is_none_or(|n| n.is_valid(i));
    if *arrow == Arrow::BinaryView {
        let mut builder = BinaryViewBuilder::with_capacity(values.len());
        for (i, value) in values.iter().enumerate() {
            // SAFETY: the caller's rows are alive, and so are their strings.
            builder.append_option(is_valid(i).then(|| unsafe { value.as_bytes() }));
        }
        return Arc::new(builder.finish());
    }
    let mut builder = StringViewBuilder::with_capacity(values.len());
    for (i, value) in values.iter().enumerate() {
        // SAFETY: the strings are alive, and those of a character column are valid UTF-8 since the decoder checked them.
        builder.append_option(is_valid(i).then(|| unsafe { std::str::from_utf8_unchecked(value.as_bytes()) }));
    }
    Arc::new(builder.finish())
}
