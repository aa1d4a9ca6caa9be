//! Merged entries as the Arrow columns of a trigger's output.
//!
//! Columns are the keys, the outputs, then those of the window, as `plan`'s `Aggregation::output_schema` describes them.

use crate::accumulator::sum_of;
use crate::arrow_column::{byte_strings, floats, integers, primitive};
use crate::entry::{null_mask, read};
use crate::finish;
use crate::merge::Merged;
use crate::object::object_at;
use crate::output::{Output, OutputTypes};
use arrow_array::types::{Decimal128Type, Float32Type};
use arrow_array::{ArrayRef, BooleanArray, NullArray, TimestampMillisecondArray};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::DataType as Arrow;
use millstream_abi::{Accumulator, EntryLayout, KeySlot, Phys, Str};
use millstream_types::DataType;
use std::ops::Range;
use std::sync::Arc;

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
        field_column(rows, key.phys, key.offset, nulls.filter(|n| n.null_count() > 0), data_type)
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
        (Accumulator::SumF64, offset) => {
            floats(gather(rows, offset, |[high, low]: [f64; 2]| sum_of(high, low)), None, &output.data_type.to_arrow())
        }
        (component, offset) => {
            let is_there = |s: Str| s != Str::NONE;
            let phys = component.output();
            let nulls = (phys == Phys::Str).then(|| NullBuffer::from(gather(rows, offset, is_there)));
            field_column(rows, phys, offset, nulls, &output.data_type)
        }
    };
    outputs.iter().map(column).collect()
}

/// The values of one field, in the order of `rows`.
fn gather<T: Copy, V>(rows: &[*const u8], offset: usize, convert: impl Fn(T) -> V) -> Vec<V> {
    // SAFETY: callers take offset and type from the layout of the rows.
    rows.iter().map(|&e| convert(unsafe { read::<T>(e, offset) })).collect()
}

/// A field that is a value of its physical type.
fn field_column(
    rows: &[*const u8],
    phys: Phys,
    at: usize,
    nulls: Option<NullBuffer>,
    data_type: &DataType,
) -> ArrayRef {
    let arrow = data_type.to_arrow();
    if arrow == Arrow::Null {
        return Arc::new(NullArray::new(rows.len()));
    }
    match phys {
        Phys::Bool => Arc::new(BooleanArray::new(BooleanBuffer::from(gather(rows, at, |b: u8| b != 0)), nulls)),
        Phys::I8 => integers(gather(rows, at, |x: i8| x as i64), nulls, &arrow),
        Phys::I16 => integers(gather(rows, at, |x: i16| x as i64), nulls, &arrow),
        Phys::I32 => integers(gather(rows, at, |x: i32| x as i64), nulls, &arrow),
        Phys::I64 => integers(gather(rows, at, |x: i64| x), nulls, &arrow),
        Phys::I128 => primitive::<Decimal128Type>(gather(rows, at, |x: i128| x), nulls, &arrow),
        Phys::F32 => primitive::<Float32Type>(gather(rows, at, |x: f32| x), nulls, &arrow),
        Phys::F64 => floats(gather(rows, at, |x: f64| x), nulls, &arrow),
        Phys::Str => strings(gather(rows, at, |s: Str| s), nulls.as_ref(), &arrow),
    }
}

/// Strings or byte strings of an entry; long ones are copied into buffers of the array.
fn strings(values: Vec<Str>, nulls: Option<&NullBuffer>, arrow: &Arrow) -> ArrayRef {
    // SAFETY: the caller's rows are alive, and so are their strings.
    let value = |i: usize| unsafe { values[i].as_bytes() };
    // SAFETY: what a character column has put into an entry is valid UTF-8, since the decoder checked it.
    unsafe { byte_strings(values.len(), value, nulls, arrow) }
}
