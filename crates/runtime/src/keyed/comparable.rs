//! Rows as bytes that are equal, and sort, as their values do.

use arrow_array::{Array, ArrayRef};
use arrow_row::{Row, RowConverter, Rows, SortField};
use millstream_types::Diagnostic;

/// Rows of some columns; without columns all are equal.
pub(super) struct Comparable(Option<Rows>);

impl Comparable {
    /// The rows of each of these sets of columns, which have the same types.
    pub(super) fn of<const N: usize>(sets: [&[ArrayRef]; N]) -> Result<[Comparable; N], Diagnostic> {
        let incomparable = |error| Diagnostic::bug(format!("rows cannot be compared: {error}"));
        let types = sets[0].iter().map(|column| SortField::new(column.data_type().clone()));
        let converter = RowConverter::new(types.collect()).map_err(incomparable)?;
        let mut rows = Vec::with_capacity(N);
        for columns in sets {
            rows.push(Comparable(match columns.is_empty() {
                true => None,
                false => Some(converter.convert_columns(columns).map_err(incomparable)?),
            }));
        }
        rows.try_into().map_err(|_| Diagnostic::bug("as many sets of rows as of columns"))
    }

    /// A row.
    pub(super) fn row(&self, row: usize) -> Option<Row<'_>> {
        self.0.as_ref().map(|rows| rows.row(row))
    }
}
