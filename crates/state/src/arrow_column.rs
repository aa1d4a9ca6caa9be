//! Values as an Arrow column of a type of SQL.

use arrow_array::builder::BinaryViewBuilder;
use arrow_array::types::*;
use arrow_array::{ArrayRef, ArrowPrimitiveType, BooleanArray, PrimitiveArray};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::{DataType as Arrow, IntervalUnit, TimeUnit};
use std::sync::Arc;

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
    let mut builder = BinaryViewBuilder::with_capacity(len);
    for i in 0..len {
        builder.append_option(is_valid(i).then(|| value(i)));
    }
    let bytes = builder.finish();
    match arrow {
        Arrow::BinaryView => Arc::new(bytes),
        // SAFETY: promised by the caller.
        _ => Arc::new(unsafe { bytes.to_string_view_unchecked() }),
    }
}
