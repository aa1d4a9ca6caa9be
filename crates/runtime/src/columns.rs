//! Rows of Arrow columns: selected, cut out, put together, parted by key, and strings in separate buffers.

use arrow_array::cast::AsArray;
use arrow_array::types::{BinaryViewType, ByteViewType, StringViewType};
use arrow_array::{Array, ArrayRef, GenericByteViewArray, UInt32Array};
use arrow_buffer::{Buffer, ScalarBuffer};
use arrow_schema::DataType;
use arrow_select::concat::concat;
use arrow_select::take::take;
use millstream_abi::Str;
use millstream_connectors::list_of_columns;
use millstream_types::Diagnostic;
use std::ops::Range;
use std::sync::Arc;

/// A column of views into more buffers than this is copied.
const MANY_BUFFERS: usize = 8;
/// A column of more buffers is left as it is, too, where each has this many rows on average.
const ROWS_OF_BUFFER: usize = 2;

/// A column at some rows; NULL where the number of the row is.
pub(crate) fn selected(column: &dyn Array, rows: &dyn Array) -> Result<ArrayRef, Diagnostic> {
    take(column, rows, None).map_err(unselectable)
}

/// Columns at some rows.
pub(crate) fn all_selected(columns: &[ArrayRef], rows: &dyn Array) -> Result<Vec<ArrayRef>, Diagnostic> {
    each_once(columns, |_, column| selected(column, rows))
}

/// Columns one after the other: of each part the same number of columns.
pub(crate) fn all_joined(parts: &[&[ArrayRef]]) -> Result<Vec<ArrayRef>, Diagnostic> {
    let Some(first) = parts.first() else { return Ok(Vec::new()) };
    each_once(first, |place, _| {
        let arrays: Vec<&ArrayRef> = parts.iter().filter_map(|part| part.get(place)).collect();
        joined(&arrays)
    })
}

/// Columns made of these, by place. Those that are one array, as those are that stay in packed records, remain one.
fn each_once(
    columns: &[ArrayRef],
    make: impl Fn(usize, &ArrayRef) -> Result<ArrayRef, Diagnostic>,
) -> Result<Vec<ArrayRef>, Diagnostic> {
    let mut made: Vec<ArrayRef> = Vec::with_capacity(columns.len());
    for (place, column) in columns.iter().enumerate() {
        let same = columns.iter().zip(&made).find(|(before, _)| Arc::ptr_eq(before, column));
        let column = same.map_or_else(|| make(place, column), |(_, made)| Ok(Arc::clone(made)))?;
        made.push(column);
    }
    Ok(made)
}

/// `rows` rows of columns, from `first` on.
pub(crate) fn sliced(columns: &[ArrayRef], first: usize, rows: usize) -> Vec<ArrayRef> {
    let mut made = list_of_columns();
    let slice = |c: &ArrayRef| if first == 0 && c.len() == rows { Arc::clone(c) } else { c.slice(first, rows) };
    made.extend(columns.iter().map(slice));
    made
}

/// Arrays one after the other.
pub(crate) fn joined(arrays: &[&ArrayRef]) -> Result<ArrayRef, Diagnostic> {
    put_together(arrays, tidy)
}

/// The same; strings stay in the buffers that they are in, unless there is one for every other string.
pub(crate) fn chained(arrays: &[&ArrayRef]) -> Result<ArrayRef, Diagnostic> {
    put_together(arrays, of_few_buffers)
}

fn put_together(arrays: &[&ArrayRef], finish: impl FnOnce(ArrayRef) -> ArrayRef) -> Result<ArrayRef, Diagnostic> {
    if let [only] = arrays {
        return Ok(Arc::clone(only));
    }
    let arrays: Vec<&dyn Array> = arrays.iter().map(|a| &***a).collect();
    concat(&arrays).map(finish).map_err(unselectable)
}

/// The partition of a key: the top bits of its hash. So of twice as many partitions two are one of these.
#[inline]
pub(crate) fn partition_of(hash: u64, bits: u32) -> usize {
    // In two steps, because there may be one partition.
    (hash >> 1 >> (u64::BITS - 1 - bits)) as usize
}

/// Which partition each row belongs to, by the top bits of the hash of its key.
pub(crate) struct Parts {
    /// Numbers of the rows, partition by partition, in each of them ascending; `None`: all rows in their order, for
    /// they belong to one.
    order: Option<UInt32Array>,
    /// Partition *p* has places `starts[p]..starts[p + 1]`.
    starts: Vec<usize>,
}

impl Parts {
    /// Of rows with these hashes, of which `bits` bits choose the partition.
    pub(crate) fn new(hashes: &[i64], bits: u32) -> Parts {
        let partitions = 1 << bits;
        let partition = |hash: &i64| partition_of(*hash as u64, bits);
        let mut starts = vec![0; partitions + 1];
        hashes.iter().for_each(|h| starts[partition(h) + 1] += 1);
        let has_only_one = starts.contains(&hashes.len());
        for p in 0..partitions {
            starts[p + 1] += starts[p];
        }
        if has_only_one {
            return Parts { order: None, starts };
        }
        let mut next = starts.clone();
        let mut order = vec![0u32; hashes.len()];
        for (row, hash) in hashes.iter().enumerate() {
            let place = &mut next[partition(hash)];
            order[*place] = row as u32;
            *place += 1;
        }
        Parts { order: Some(order.into()), starts }
    }

    /// The number of the row at each place; `None`: it is that of the place.
    pub(crate) fn numbers(&self) -> Option<ScalarBuffer<u32>> {
        self.order.as_ref().map(|order| order.values().clone())
    }

    /// What belongs to the rows, in the order of places.
    pub(crate) fn arranged_values<T: Copy>(&self, values: Vec<T>) -> Vec<T> {
        match &self.order {
            Some(order) => order.values().iter().map(|&row| values[row as usize]).collect(),
            None => values,
        }
    }

    /// A column in the order of places.
    pub(crate) fn arranged(&self, column: &ArrayRef) -> Result<ArrayRef, Diagnostic> {
        self.order.as_ref().map_or_else(|| Ok(Arc::clone(column)), |order| selected(column, order))
    }

    /// The partitions that have rows, and their places.
    pub(crate) fn places(&self) -> impl Iterator<Item = (usize, Range<usize>)> {
        let places = |p: usize| (p, self.starts[p]..self.starts[p + 1]);
        (0..self.starts.len() - 1).map(places).filter(|(_, places)| !places.is_empty())
    }
}

/// Bytes of the rows of columns, about: of a slice only its own, of strings also what they refer to. Packed records, which stand
/// for each of their columns, count once.
///
/// Strings are not looked at one by one where their buffers tell enough: a column that is only passed on would be read for
/// that alone.
pub(crate) fn bytes_of(columns: &[ArrayRef]) -> usize {
    /// Strings of more than this many times the bytes of their views are looked at: their buffers may be those of other rows.
    const TELLING: usize = 16;
    fn viewed<T: ByteViewType>(views: &GenericByteViewArray<T>) -> usize {
        let own = size_of_val(&**views.views()) + views.nulls().map_or(0, |_| views.len().div_ceil(8));
        if views.data_buffers().is_empty() {
            return own;
        }
        // The share of the rows in all that the buffers are for, unless one allocation has more than views.
        let all = views.views().inner();
        let is_of_views = views.data_buffers().iter().all(|buffer| buffer.data_ptr() != all.data_ptr());
        let data: usize = views.data_buffers().iter().map(Buffer::len).sum();
        let share = (data as u128 * size_of_val(&**views.views()) as u128 / all.capacity().max(1) as u128) as usize;
        if is_of_views && share.min(data) <= TELLING * own {
            return own + share.min(data);
        }
        let lengths = views.views().iter().map(|&view| view as u32 as usize);
        own + lengths.filter(|&length| length > Str::INLINE).sum::<usize>()
    }
    let bytes = |column: &ArrayRef| match column.data_type() {
        DataType::Utf8View => viewed(column.as_string_view()),
        DataType::BinaryView => viewed(column.as_binary_view()),
        other => match other.primitive_width() {
            Some(width) => column.len() * width,
            // A size that cannot be told is that of the whole array.
            None => column.to_data().get_slice_memory_size().unwrap_or_else(|_| column.get_array_memory_size()),
        },
    };
    let are_records = |column: &&ArrayRef| matches!(column.data_type(), DataType::FixedSizeBinary(_));
    let others = columns.iter().filter(|column| !are_records(column));
    others.chain(columns.iter().find(are_records)).map(bytes).sum()
}

/// The diagnostic of a failed selection of rows.
pub(crate) fn unselectable(error: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::bug(format!("rows of a column cannot be selected: {error}"))
}

/// Whether strings are less than half of what their buffers hold.
pub(crate) fn is_sparse(column: &ArrayRef) -> bool {
    fn of_views<T: ByteViewType>(views: &GenericByteViewArray<T>) -> bool {
        let held: usize = views.data_buffers().iter().map(Buffer::len).sum();
        let lengths = views.views().iter().map(|&view| view as u32 as usize);
        held > 0 && 2 * lengths.filter(|&length| length > Str::INLINE).sum::<usize>() < held
    }
    match column.data_type() {
        DataType::Utf8View => of_views(column.as_string_view()),
        DataType::BinaryView => of_views(column.as_binary_view()),
        _ => false,
    }
}

/// A column of strings in its own buffer, so that it does not keep the input alive; others unchanged.
pub(crate) fn compact(column: &ArrayRef) -> ArrayRef {
    views(column, 0)
}

/// Puts strings that are spread over many buffers into one.
pub(crate) fn tidy(column: ArrayRef) -> ArrayRef {
    views(&column, MANY_BUFFERS)
}

/// Puts strings into one buffer where they are in many buffers with few strings each.
pub(crate) fn of_few_buffers(column: ArrayRef) -> ArrayRef {
    let rows = column.len();
    views(&column, MANY_BUFFERS.max(rows / ROWS_OF_BUFFER))
}

fn views(column: &ArrayRef, buffers: usize) -> ArrayRef {
    fn copied<T: ByteViewType>(views: &GenericByteViewArray<T>, buffers: usize) -> Option<ArrayRef> {
        (views.data_buffers().len() > buffers).then(|| Arc::new(views.gc()) as ArrayRef)
    }
    let strings = column.as_byte_view_opt::<StringViewType>().and_then(|views| copied(views, buffers));
    let bytes = || column.as_byte_view_opt::<BinaryViewType>().and_then(|views| copied(views, buffers));
    strings.or_else(bytes).unwrap_or_else(|| Arc::clone(column))
}
