//! Rows of a buffer that several partitions share: each knows which rows are its own, and selects values when they are needed.
//!
//! Rows on their way to a partition would otherwise be copied, column by column, before anybody knows whether they meet a row of
//! the other side. Buffers stay in memory until the last partition has forgotten its rows, so they are shared only while
//! memory is plenty (`Spilling::is_plenty`): then partitions make copies of their own.

use crate::columns::{bytes_of, compact, is_sparse, selected};
use arrow_array::{ArrayRef, UInt32Array};
use arrow_buffer::ScalarBuffer;
use millstream_types::Diagnostic;
use std::sync::Arc;

/// Whole columns, of which partitions have some rows.
#[derive(Debug)]
struct Whole {
    columns: Vec<ArrayRef>,
    rows: usize,
    bytes: usize,
    /// Whether their buffers are those of a table in memory.
    are_of_table: bool,
}

/// Some rows, or all of them, of columns that others may share.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    of: Arc<Whole>,
    /// The numbers of the rows; `None`: all.
    rows: Option<ScalarBuffer<u32>>,
}

impl Part {
    /// All rows of columns that are nobody else's.
    pub(crate) fn own(columns: Vec<ArrayRef>, rows: usize) -> Part {
        Part::whole_of(columns, rows, false)
    }

    fn whole_of(columns: Vec<ArrayRef>, rows: usize, are_of_table: bool) -> Part {
        let bytes = bytes_of(&columns);
        Part { of: Arc::new(Whole { columns, rows, bytes, are_of_table }), rows: None }
    }

    /// All rows of columns that are going to be shared. Strings that are the smaller part of what their buffers hold are copied,
    /// unless the buffers are those of a table in memory, which stay anyway.
    pub(crate) fn to_share(columns: Vec<ArrayRef>, rows: usize, are_of_table: bool) -> Part {
        let keeps_little = |column: &ArrayRef| if is_sparse(column) { compact(column) } else { Arc::clone(column) };
        let columns = if are_of_table { columns } else { columns.iter().map(keeps_little).collect() };
        Part::whole_of(columns, rows, are_of_table)
    }

    /// Whether it keeps nothing in memory but numbers of rows: the buffers are those of a table that is there.
    pub(crate) fn is_of_table(&self) -> bool {
        self.of.are_of_table
    }

    /// Rows of one that has all, by ascending number.
    pub(crate) fn of(&self, rows: ScalarBuffer<u32>) -> Part {
        Part { of: Arc::clone(&self.of), rows: Some(rows) }
    }

    /// Number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.rows.as_ref().map_or(self.of.rows, |rows| rows.len())
    }

    /// Bytes of memory: of shared ones their part.
    pub(crate) fn bytes(&self) -> usize {
        let Some(rows) = &self.rows else { return self.of.bytes };
        let part = self.of.bytes as u128 * rows.len() as u128 / self.of.rows.max(1) as u128;
        part as usize + size_of_val(&**rows)
    }

    /// How many columns it has.
    pub(crate) fn width(&self) -> usize {
        self.of.columns.len()
    }

    /// Whether the columns have rows that are not its own.
    pub(crate) fn is_shared(&self) -> bool {
        self.rows.is_some()
    }

    /// The number in [`Part::wholes`] of one of its rows.
    #[inline]
    pub(crate) fn place(&self, row: usize) -> usize {
        self.rows.as_ref().map_or(row, |rows| rows[row] as usize)
    }

    /// The columns with all rows, those of others included.
    pub(crate) fn wholes(&self) -> &[ArrayRef] {
        &self.of.columns
    }

    /// One of [`Part::wholes`].
    pub(crate) fn whole(&self, column: usize) -> &ArrayRef {
        &self.of.columns[column]
    }

    /// One of its columns.
    pub(crate) fn column(&self, column: usize) -> Result<ArrayRef, Diagnostic> {
        let whole = self.whole(column);
        match &self.rows {
            None => Ok(Arc::clone(whole)),
            Some(rows) => selected(whole, &UInt32Array::new(rows.clone(), None)),
        }
    }

    /// All its columns.
    pub(crate) fn columns(&self) -> Result<Vec<ArrayRef>, Diagnostic> {
        (0..self.width()).map(|column| self.column(column)).collect()
    }

    /// Its columns with nothing of others in their buffers.
    pub(crate) fn copied(&self) -> Result<Vec<ArrayRef>, Diagnostic> {
        Ok(self.columns()?.iter().map(compact).collect())
    }

    /// Some of its rows, by ascending number.
    pub(crate) fn pick(&self, rows: impl Iterator<Item = u32>) -> Part {
        self.of(rows.map(|row| self.place(row as usize) as u32).collect())
    }
}
