//! Weights of rows: 1 for one that comes, -1 for one that is taken back. A row that is there twice comes twice.

use arrow_array::cast::AsArray;
use arrow_array::types::Int8Type;
use arrow_array::{ArrayRef, Int8Array};
use millstream_types::Diagnostic;
use std::sync::Arc;

/// A row comes.
pub(super) const ADDED: i8 = 1;
/// It is taken back.
pub(super) const TAKEN_BACK: i8 = -1;

/// The same weight for some rows.
pub(super) fn weights(weight: i8, rows: usize) -> ArrayRef {
    Arc::new(Int8Array::from(vec![weight; rows]))
}

/// The weights of a column.
pub(super) fn of_column(column: &ArrayRef) -> Result<&[i8], Diagnostic> {
    let weights = column.as_primitive_opt::<Int8Type>();
    weights.map(|weights| &**weights.values()).ok_or_else(|| Diagnostic::bug("weights are no TINYINT"))
}
