//! Sorts: all rows of a bounded input, put in order when the last one has come.
//!
//! It has no programs of its own: the pipelines that end in it bring what rows are ordered by as columns.

use crate::keyed::SortColumn;
use crate::operators::rank::order_text;
use millstream_types::Schema;

/// A sort. Of equal rows that comes first which stands first in the input.
#[derive(Debug, Clone, PartialEq)]
pub struct Sort {
    /// Columns that arrive, and that it puts out.
    pub schema: Schema,
    /// What rows are ordered by; without any, by their places in the input alone.
    pub order: Vec<SortColumn>,
    /// Rows that are left out.
    pub offset: u64,
    /// Rows behind these; `None`: all.
    pub count: Option<u64>,
}

impl Sort {
    /// Rows that may come to be put out, or before those: no more need be kept.
    pub fn kept(&self) -> Option<u64> {
        self.count.map(|count| self.offset.saturating_add(count))
    }
}

/// What EXPLAIN calls it.
pub(crate) fn sort_text(sort: &Sort) -> String {
    let rows = match rows_text(sort.offset, sort.count) {
        none if none.is_empty() => none,
        rows => format!(", rows{rows}"),
    };
    format!("by [{}]{rows}", order_text(&sort.order, &sort.schema))
}

/// The rows that LIMIT and OFFSET leave, as EXPLAIN shows them behind what they are of.
pub(crate) fn rows_text(offset: u64, count: Option<u64>) -> String {
    let count = count.map_or_else(String::new, |count| format!(" {count}"));
    if offset == 0 { count } else { format!("{count} offset {offset}") }
}
