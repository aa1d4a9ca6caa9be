//! Merged entries as the Arrow columns of a trigger's output.
//!
//! Columns are the keys, the outputs, then those of the window, as `plan`'s `Aggregation::output_schema` describes them.

use crate::array::BLOCK;
use crate::arrow_column::{byte_strings, floats, integers, primitive};
use crate::dense::key_of_entry;
use crate::entry::{null_mask, read};
use crate::far::{FarRows, Row, nearest_of_both};
use crate::finish;
use crate::list::{Element, Run};
use crate::merge::Merged;
use crate::object::{Exact, object_at};
use crate::output::{Output, OutputTypes};
use crate::rows::Chunk;
use arrow_array::types::{Decimal128Type, Float32Type};
use arrow_array::{ArrayRef, BooleanArray, NullArray, TimestampMillisecondArray};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::DataType as Arrow;
use millstream_abi::exact::{Fixed, nearest};
use millstream_abi::{Accumulator, EntryLayout, KeySlot, Phys, Str, prefetch};
use millstream_types::DataType;
use std::ops::Range;
use std::sync::Arc;

impl Merged {
    /// The output columns of the rows in `range`: keys, outputs, then a TIMESTAMP(3) column for each constant of `window`,
    /// in milliseconds (start and end of the window, or only the end, or none).
    pub fn columns(&self, range: Range<usize>, types: &OutputTypes, window: &[i64]) -> Vec<ArrayRef> {
        let (rows, layout) = (range.len(), self.layout());
        let chunks = self.chunks(range);
        // SAFETY: the rows are entries of the layout, alive and unchanged as long as `self` is borrowed.
        let mut columns = unsafe { keys_of(layout, &chunks, &types.keys) };
        // SAFETY: as above.
        columns.extend(unsafe {
            match self.far() {
                None => outputs_of(layout, &chunks, &types.outputs, None),
                // SAFETY: rows are entries of the layout, or keys of an array of it.
                Some(far) => {
                    outputs_of(layout, &chunks, &types.outputs, Some(&|row, sum| FarRows::find(far, row, sum)))
                }
            }
        });
        for &time in window {
            columns.push(Arc::new(TimestampMillisecondArray::from_value(time, rows)));
        }
        columns
    }
}

/// The keys of entries as columns of these types.
///
/// # Safety
/// `rows` are entries of `layout` whose strings are alive.
pub(crate) unsafe fn key_columns(layout: &EntryLayout, rows: &[*const u8], types: &[DataType]) -> Vec<ArrayRef> {
    // SAFETY: promised by the caller.
    unsafe { keys_of(layout, &[Chunk::Entries(rows)], types) }
}

/// What the outputs show of entries.
///
/// # Safety
/// `rows` are entries of `layout` whose strings are alive and whose objects are not changed meanwhile.
pub(crate) unsafe fn output_columns<'a>(
    layout: &EntryLayout,
    rows: &[*const u8],
    outputs: &[Output],
    far: Option<FindFar<'a, '_>>,
) -> Vec<ArrayRef> {
    // SAFETY: promised by the caller.
    unsafe { outputs_of(layout, &[Chunk::Entries(rows)], outputs, far) }
}

/// Finds what is far of a row's sum by the number of that among the sums.
pub(crate) type FindFar<'a, 'f> = &'f dyn Fn(Row, usize) -> Option<&'a Exact>;

/// Sums of doubles of rows.
fn sums_of(rows: &[Chunk<'_>], offset: usize, number: usize, far: Option<FindFar<'_, '_>>) -> Vec<f64> {
    let Some(find) = far else { return gather(rows, offset, nearest) };
    // SAFETY: the caller takes the offset from the layout of the rows.
    let sum = |entry: *const u8, row: Row| nearest_of_both(unsafe { read::<Fixed>(entry, offset) }, find(row, number));
    let mut sums = Vec::with_capacity(len_of(rows));
    for (number, chunk) in rows.iter().enumerate() {
        fetch(rows.get(number + 1));
        match *chunk {
            Chunk::Entries(entries) => sums.extend(entries.iter().map(|&entry| sum(entry, Row::Entry(entry)))),
            Chunk::Block(block) => sums.extend(
                block.numbers().map(|i| sum(block.at.wrapping_add(i * block.stride), Row::Key(block.first + i as i64))),
            ),
        }
    }
    sums
}

/// # Safety
/// As for [`key_columns`].
unsafe fn keys_of(layout: &EntryLayout, rows: &[Chunk<'_>], types: &[DataType]) -> Vec<ArrayRef> {
    assert_eq!(layout.keys.len(), types.len(), "a type for each key");
    let column = |(i, (key, data_type)): (usize, (&KeySlot, &DataType))| {
        // SAFETY: promised by the caller.
        let is_valid = |&e: &*const u8| unsafe { null_mask(layout, e) } >> i & 1 == 0;
        let nulls = key.nullable.then(|| {
            NullBuffer::from_iter(rows.iter().flat_map(|chunk| -> Box<dyn Iterator<Item = bool>> {
                match chunk {
                    Chunk::Entries(entries) => Box::new(entries.iter().map(is_valid)),
                    Chunk::Block(block) => Box::new(std::iter::repeat_n(true, block.len())),
                }
            }))
        });
        let nulls = nulls.filter(|n| n.null_count() > 0);
        if rows.iter().all(|chunk| matches!(chunk, Chunk::Entries(_))) {
            return field_column(rows, key.phys, key.offset, nulls, data_type);
        }
        // SAFETY: promised by the caller; those of a layout with arrays have this key.
        integers(unsafe { integer_keys(layout, rows) }, nulls, &data_type.to_arrow())
    };
    layout.keys.iter().zip(types).enumerate().map(column).collect()
}

/// The keys of rows of which some are in arrays.
///
/// # Safety
/// They are of the layout.
unsafe fn integer_keys(layout: &EntryLayout, rows: &[Chunk<'_>]) -> Vec<i64> {
    let mut keys = Vec::with_capacity(len_of(rows));
    // SAFETY: promised by the caller.
    let key = |&entry: &*const u8| unsafe { key_of_entry(layout, entry) }.unwrap_or(0);
    for chunk in rows {
        match chunk {
            Chunk::Entries(entries) => keys.extend(entries.iter().map(key)),
            Chunk::Block(block) if block.mask == u64::MAX => keys.extend((0..64).map(|i| block.first + i)),
            Chunk::Block(block) => keys.extend(block.numbers().map(|i| block.first + i as i64)),
        }
    }
    keys
}

fn len_of(rows: &[Chunk<'_>]) -> usize {
    let len = |chunk: &Chunk<'_>| match chunk {
        Chunk::Entries(entries) => entries.len(),
        Chunk::Block(block) => block.len(),
    };
    rows.iter().map(len).sum()
}

/// # Safety
/// As for [`output_columns`].
unsafe fn outputs_of(
    layout: &EntryLayout,
    rows: &[Chunk<'_>],
    outputs: &[Output],
    far: Option<FindFar<'_, '_>>,
) -> Vec<ArrayRef> {
    let column = |output: &Output| match layout.accumulators[output.component] {
        (Accumulator::Object(_, phys), offset) => {
            let entries = rows.iter().filter_map(|chunk| match chunk {
                Chunk::Entries(entries) => Some(*entries),
                // Arrays hold numbers.
                Chunk::Block(_) => None,
            });
            if let Some(element) = Element::of(layout.accumulators[output.component].0) {
                // SAFETY: promised by the caller; there is a sealed list at the offset.
                return unsafe {
                    let runs: Vec<Run> = entries.flatten().map(|&entry| read(entry, offset)).collect();
                    finish::list_column(&runs, element, phys, &output.finish, &output.data_type)
                };
            }
            // SAFETY: as above; there is an object at the offset.
            let objects: Vec<_> = entries.flatten().map(|&e| unsafe { object_at(e, offset) }).collect();
            finish::column(&objects, phys, &output.finish, &output.data_type)
        }
        (Accumulator::SumF64, offset) => {
            let sums = sums_of(rows, offset, layout.far_number(output.component), far);
            floats(sums, None, &output.data_type.to_arrow())
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

/// Fetches the entries of a block ahead: those of a partition are far from each other.
fn fetch(chunk: Option<&Chunk<'_>>) {
    if let Some(Chunk::Block(block)) = chunk {
        prefetch(block.at, block.stride * BLOCK);
    }
}

/// The values of one field, in the order of `rows`.
fn gather<T: Copy, V>(rows: &[Chunk<'_>], offset: usize, convert: impl Fn(T) -> V) -> Vec<V> {
    let mut values = Vec::with_capacity(len_of(rows));
    // SAFETY: callers take offset and type from the layout of the rows.
    let value = |entry: *const u8| convert(unsafe { read::<T>(entry, offset) });
    for (number, chunk) in rows.iter().enumerate() {
        fetch(rows.get(number + 1));
        match *chunk {
            Chunk::Entries(entries) => values.extend(entries.iter().map(|&entry| value(entry))),
            Chunk::Block(block) if block.mask == u64::MAX => match block.stride {
                // What the compiler knows it does with vectors.
                8 => values.extend((0..64).map(|i| value(block.at.wrapping_add(i * 8)))),
                16 => values.extend((0..64).map(|i| value(block.at.wrapping_add(i * 16)))),
                stride => values.extend((0..64).map(|i| value(block.at.wrapping_add(i * stride)))),
            },
            Chunk::Block(block) => {
                values.extend(block.numbers().map(|i| value(block.at.wrapping_add(i * block.stride))));
            }
        }
    }
    values
}

/// A field that is a value of its physical type.
fn field_column(
    rows: &[Chunk<'_>],
    phys: Phys,
    at: usize,
    nulls: Option<NullBuffer>,
    data_type: &DataType,
) -> ArrayRef {
    let arrow = data_type.to_arrow();
    if arrow == Arrow::Null {
        return Arc::new(NullArray::new(len_of(rows)));
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
