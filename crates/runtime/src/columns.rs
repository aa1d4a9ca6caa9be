//! Rows of Arrow columns: selected, cut out, put together, and strings in buffers of their own.

use arrow_array::cast::AsArray;
use arrow_array::types::{BinaryViewType, ByteViewType, StringViewType};
use arrow_array::{Array, ArrayRef, GenericByteViewArray};
use arrow_select::concat::concat;
use arrow_select::take::take;
use millstream_types::Diagnostic;
use std::sync::Arc;

/// A column of views into more buffers than this is copied.
const MANY_BUFFERS: usize = 8;

/// A column at some rows; NULL where the number of the row is.
pub(crate) fn selected(column: &dyn Array, rows: &dyn Array) -> Result<ArrayRef, Diagnostic> {
    take(column, rows, None).map_err(unselectable)
}

/// `rows` rows of columns, from `first` on.
pub(crate) fn sliced(columns: &[ArrayRef], first: usize, rows: usize) -> Vec<ArrayRef> {
    columns.iter().map(|c| if first == 0 && c.len() == rows { Arc::clone(c) } else { c.slice(first, rows) }).collect()
}

/// Arrays one after the other.
pub(crate) fn joined(arrays: &[&ArrayRef]) -> Result<ArrayRef, Diagnostic> {
    if let [only] = arrays {
        return Ok(Arc::clone(only));
    }
    let arrays: Vec<&dyn Array> = arrays.iter().map(|a| &***a).collect();
    concat(&arrays).map(tidy).map_err(unselectable)
}

/// The diagnostic of a failed selection of rows.
pub(crate) fn unselectable(error: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::bug(format!("rows of a column cannot be selected: {error}"))
}

/// A column of strings in a buffer of its own, so that it does not keep the input alive; others as they are.
pub(crate) fn compact(column: &ArrayRef) -> ArrayRef {
    views(column, 0)
}

/// Puts strings that are spread over many buffers into one.
pub(crate) fn tidy(column: ArrayRef) -> ArrayRef {
    views(&column, MANY_BUFFERS)
}

fn views(column: &ArrayRef, buffers: usize) -> ArrayRef {
    fn copied<T: ByteViewType>(views: &GenericByteViewArray<T>, buffers: usize) -> Option<ArrayRef> {
        (views.data_buffers().len() > buffers).then(|| Arc::new(views.gc()) as ArrayRef)
    }
    let copy = if let Some(strings) = column.as_byte_view_opt::<StringViewType>() {
        copied(strings, buffers)
    } else if let Some(bytes) = column.as_byte_view_opt::<BinaryViewType>() {
        copied(bytes, buffers)
    } else {
        None
    };
    copy.unwrap_or_else(|| Arc::clone(column))
}
