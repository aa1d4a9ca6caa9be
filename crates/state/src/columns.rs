//! Merged entries as the Arrow columns of a trigger's output.
//!
//! Columns are the keys, the outputs, then those of the window, as `plan`'s `Aggregation::output_schema` describes them.

use crate::accumulator::sum_of;
use crate::entry::{null_mask, read};
use crate::finish;
use crate::merge::Merged;
use crate::object::object_at;
use arrow_array::builder::{BinaryViewBuilder, StringViewBuilder};
use arrow_array::types::*;
use arrow_array::{ArrayRef, ArrowPrimitiveType, BooleanArray, NullArray, PrimitiveArray, TimestampMillisecondArray};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::{DataType as Arrow, IntervalUnit, TimeUnit};
use millstream_abi::{Accumulator, EntryLayout, Finish, KeySlot, Phys, Str};
use millstream_types::DataType;
use std::ops::Range;
use std::sync::Arc;

/// The columns of a trigger's output before those of the window.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputTypes {
    /// SQL types of the keys, in the order of the layout.
    pub keys: Vec<DataType>,
    /// What is shown of the components.
    pub outputs: Vec<Output>,
}

/// A column that shows an accumulator; several may show the same one.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// Index into the accumulators of the layout.
    pub component: usize,
    /// What is shown of it.
    pub finish: Finish,
    /// SQL type. For [`Finish::Value`], `Accumulator::output` is narrowed to its physical type (integers wrap, DOUBLE
    /// rounds).
    pub data_type: DataType,
}

impl Merged {
    /// The output columns of the rows in `range`: keys, outputs, then a TIMESTAMP(3) column for each constant of `window`,
    /// in milliseconds (start and end of the window, or only the end, or none).
    pub fn columns(&self, range: Range<usize>, types: &OutputTypes, window: &[i64]) -> Vec<ArrayRef> {
        let (rows, layout) = (&self.rows()[range.clone()], self.layout());
        let mut columns = match self.keys() {
            Some(keys) => vec![integers(keys[range].to_vec(), None, &types.keys[0].to_arrow())],
            // SAFETY: the rows are entries of the layout, alive and unchanged as long as `self` is borrowed.
            None => unsafe { key_columns(layout, rows, &types.keys) },
        };
        // SAFETY: as above.
        columns.extend(unsafe { output_columns(layout, rows, &types.outputs) });
        for &time in window {
            columns.push(Arc::new(TimestampMillisecondArray::from_value(time, rows.len())));
        }
        columns
    }
}

/// The keys of entries as columns of these types.
///
/// # Safety
/// `rows` are entries of `layout` whose strings are alive.
pub(crate) unsafe fn key_columns(layout: &EntryLayout, rows: &[*const u8], types: &[DataType]) -> Vec<ArrayRef> {
    assert_eq!(layout.keys.len(), types.len(), "a type for each key");
    let column = |(i, (key, data_type)): (usize, (&KeySlot, &DataType))| {
        let nulls = key.nullable.then(|| {
            // SAFETY: promised by the caller.
            NullBuffer::from_iter(rows.iter().map(|&e| unsafe { null_mask(layout, e) } >> i & 1 == 0))
        });
        key_column(rows, key, data_type, nulls.filter(|n| n.null_count() > 0))
    };
    layout.keys.iter().zip(types).enumerate().map(column).collect()
}

/// What the outputs show of entries.
///
/// # Safety
/// `rows` are entries of `layout` whose strings are alive and whose objects are not changed meanwhile.
pub(crate) unsafe fn output_columns(layout: &EntryLayout, rows: &[*const u8], outputs: &[Output]) -> Vec<ArrayRef> {
    let column = |output: &Output| match layout.accumulators[output.component] {
        (Accumulator::Object(_, phys), offset) => {
            // SAFETY: promised by the caller; there is an object at the offset.
            let objects: Vec<_> = rows.iter().map(|&e| unsafe { object_at(e, offset) }).collect();
            finish::column(&objects, phys, &output.finish, &output.data_type)
        }
        (component, offset) => component_column(rows, component, offset, &output.data_type),
    };
    outputs.iter().map(column).collect()
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
        Accumulator::SumF64 => floats(gather(rows, at, |[high, low]: [f64; 2]| sum_of(high, low)), None, &arrow),
        Accumulator::MinF64 | Accumulator::MaxF64 => floats(gather(rows, at, |x: f64| x), None, &arrow),
        Accumulator::Count | Accumulator::SumI64 | Accumulator::MinI64 | Accumulator::MaxI64 | Accumulator::Group => {
            integers(gather(rows, at, |x: i64| x), None, &arrow)
        }
        Accumulator::SumI128 | Accumulator::MinI128 | Accumulator::MaxI128 => {
            primitive::<Decimal128Type>(gather(rows, at, |x: i128| x), None, &arrow)
        }
        Accumulator::MinStr | Accumulator::MaxStr => {
            let values = gather(rows, at, |s: Str| s);
            let nulls = NullBuffer::from_iter(values.iter().map(|&s| s != Str::NONE));
            strings(values, Some(&nulls), &arrow)
        }
        Accumulator::Object(..) => unreachable!("objects are shown by `finish`"),
    }
}

/// A primitive column; `arrow` adds scale or time zone to the type.
pub(crate) fn primitive<T: ArrowPrimitiveType>(
    values: Vec<T::Native>,
    nulls: Option<NullBuffer>,
    arrow: &Arrow,
) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(values.into(), nulls).with_data_type(arrow.clone()))
}

/// 64-bit integers as a column of the type, keeping the low bits as SQL's integers wrap.
pub(crate) fn integers(values: Vec<i64>, nulls: Option<NullBuffer>, arrow: &Arrow) -> ArrayRef {
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
pub(crate) fn floats(values: Vec<f64>, nulls: Option<NullBuffer>, arrow: &Arrow) -> ArrayRef {
    match arrow {
        Arrow::Float32 => primitive::<Float32Type>(values.into_iter().map(|x| x as f32).collect(), nulls, arrow),
        _ => primitive::<Float64Type>(values, nulls, arrow),
    }
}

/// Strings or byte strings of an entry; long ones are copied into buffers of the array.
fn strings(values: Vec<Str>, nulls: Option<&NullBuffer>, arrow: &Arrow) -> ArrayRef {
    // SAFETY: the caller's rows are alive, and so are their strings.
    let value = |i: usize| unsafe { values[i].as_bytes() };
    // SAFETY: what a character column has put into an entry is valid UTF-8, since the decoder checked it.
    unsafe { byte_strings(values.len(), value, nulls, arrow) }
}

/// The strings (or byte strings) `0..len`.
///
/// # Safety
/// Those of a character column are valid UTF-8.
pub(crate) unsafe fn byte_strings<'a>(
    len: usize,
    value: impl Fn(usize) -> &'a [u8],
    nulls: Option<&NullBuffer>,
    arrow: &Arrow,
) -> ArrayRef {
    let is_valid = |i: usize| nulls.is_none_or(|n| n.is_valid(i));
    if *arrow == Arrow::BinaryView {
        let mut builder = BinaryViewBuilder::with_capacity(len);
        for i in 0..len {
            builder.append_option(is_valid(i).then(|| value(i)));
        }
        return Arc::new(builder.finish());
    }
    let mut builder = StringViewBuilder::with_capacity(len);
    for i in 0..len {
        // SAFETY: promised by the caller.
        builder.append_option(is_valid(i).then(|| unsafe { std::str::from_utf8_unchecked(value(i)) }));
    }
    Arc::new(builder.finish())
}
