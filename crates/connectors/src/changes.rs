//! The changes of a result as they reach an encoder: the columns of the sink's schema, and behind them what each row does. And those that a
//! source reads: a metadata column says of each row whether it is there from now on.

use crate::option_table::option_fault;
use arrow_array::cast::AsArray;
use arrow_array::types::Int8Type;
use arrow_array::{Array, ArrayRef, make_array};
use millstream_types::{Diagnostic, RowKind, code};

/// The columns of the schema, and what each row does. Where rows are only added there is no such column, and nothing is said of
/// any row.
pub(crate) fn parted(columns: &[ArrayRef], changes: bool) -> Result<(&[ArrayRef], Option<Vec<RowKind>>), Diagnostic> {
    if !changes {
        return Ok((columns, None));
    }
    with_kinds(columns).map(|(columns, kinds)| (columns, Some(kinds)))
}

/// The columns of rows that change, and what each row does: their last column, a [`RowKind`] as TINYINT.
///
/// # Errors
/// A bug, if that is another column.
pub fn with_kinds(columns: &[ArrayRef]) -> Result<(&[ArrayRef], Vec<RowKind>), Diagnostic> {
    let kinds = columns.split_last().and_then(|(kinds, columns)| Some((columns, kinds_of(kinds)?)));
    kinds.ok_or_else(|| Diagnostic::bug("a change is of no kind"))
}

/// Why changes are not written at least once: what a recovered query does again after a checkpoint is cut into other beats, so a row that
/// came and went between the two would stay.
pub(crate) fn not_at_least_once(advice: &str) -> Diagnostic {
    let message =
        "rows that are taken back cannot be written at least once: after a recovery some would stay that are gone";
    option_fault(code::INVALID_OPTION, "sink.delivery-guarantee", message, advice)
}

fn kinds_of(column: &ArrayRef) -> Option<Vec<RowKind>> {
    let numbers = column.as_primitive_opt::<Int8Type>().filter(|numbers| numbers.null_count() == 0)?;
    numbers.values().iter().map(|number| RowKind::of(*number)).collect()
}

/// The same values with whatever stands in place of NULL: of a row that is gone often only the key is known.
pub(crate) fn without_nulls(column: &ArrayRef) -> ArrayRef {
    if column.null_count() == 0 {
        return column.clone();
    }
    let known = column.to_data().into_builder().nulls(None).build();
    known.map_or_else(|_| column.clone(), make_array)
}

/// What became of a row: the places of what it was and what it is in a piece, one of them at least.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Change {
    pub before: Option<usize>,
    pub after: Option<usize>,
}

impl Change {
    /// Rows that only come.
    pub(crate) fn insertions(rows: usize) -> Vec<Change> {
        (0..rows).map(|row| Change { before: None, after: Some(row) }).collect()
    }

    /// A place of a row that has the key.
    pub(crate) fn row(self) -> usize {
        self.after.or(self.before).unwrap_or_default()
    }
}

/// The changes of the rows of a piece: a row and what replaces it, behind it, are one. Those that a piece parts are a deletion and an
/// insertion.
pub(crate) fn paired(kinds: &[RowKind]) -> Vec<Change> {
    let mut changes = Vec::with_capacity(kinds.len());
    let mut row = 0;
    while row < kinds.len() {
        let is_update = kinds[row..].starts_with(&[RowKind::UpdateBefore, RowKind::UpdateAfter]);
        let (before, after) = match (is_update, kinds[row].adds()) {
            (true, _) => (Some(row), Some(row + 1)),
            (false, true) => (None, Some(row)),
            (false, false) => (Some(row), None),
        };
        changes.push(Change { before, after });
        row += if is_update { 2 } else { 1 };
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Int8Array, Int64Array};
    use std::sync::Arc;

    #[test]
    fn a_row_and_what_replaces_it_are_one_change() {
        use RowKind::{Delete, Insert, UpdateAfter, UpdateBefore};
        let change = |before, after| Change { before, after };
        let kinds = [UpdateBefore, UpdateAfter, Insert, Delete, UpdateBefore, Insert, UpdateAfter];
        let expected = [
            change(Some(0), Some(1)),
            change(None, Some(2)),
            change(Some(3), None),
            change(Some(4), None),
            change(None, Some(5)),
            change(None, Some(6)),
        ];
        assert_eq!(paired(&kinds), expected);
        assert_eq!(expected.map(Change::row), [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn the_last_column_says_what_rows_do() {
        let row: ArrayRef = Arc::new(Int64Array::from(vec![7, 8, 9, 10]));
        let with = |kinds: Vec<Option<i8>>| [row.clone(), Arc::new(Int8Array::from(kinds)) as ArrayRef];
        let changes = with((0..4).map(Some).collect());
        let (columns, kinds) = parted(&changes, true).unwrap();
        assert_eq!((columns.len(), kinds.as_deref()), (1, Some(RowKind::ALL.as_slice())));
        assert_eq!(parted(&changes, false).unwrap().0.len(), 2);
        for unknown in [Some(4), Some(-1), None] {
            assert!(parted(&with(vec![Some(0), Some(0), Some(0), unknown]), true).is_err());
        }
        assert!(parted(&[row], true).is_err() && parted(&[], true).is_err());
    }
}
