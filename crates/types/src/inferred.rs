//! What is found out about a table whose definition does not say it.

use crate::Field;
use std::time::Duration;

/// What a table's input says of its columns.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Inferred {
    /// The columns of a record, in order.
    pub columns: Vec<Field>,
    /// Columns that directories such as `day=2026-01-01` give.
    pub partitions: Vec<Field>,
    /// Options that the table needs besides its own, such as the delimiter that was found.
    pub options: Vec<(String, String)>,
    /// When things happened, if a column says so.
    pub event_time: Option<InferredTime>,
}

/// The event time of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct InferredTime {
    /// Its column.
    pub column: String,
    /// How much older than an earlier row a row of the sample is.
    pub delay: Duration,
}

impl Inferred {
    /// Columns, and nothing else that is known.
    pub fn of_columns(columns: Vec<Field>) -> Inferred {
        Inferred { columns, ..Inferred::default() }
    }
}
