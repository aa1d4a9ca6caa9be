//! Tables that a query names and the catalog does not have: the program that uses the session has them.

use crate::relation::Relation;
use arrow_array::RecordBatch;
use arrow_schema::Schema as ArrowSchema;
use millstream_connectors::FrameReader;
use millstream_types::{DataType, Diagnostic, Field, code};
use std::fmt::{self, Write};
use std::time::Duration;

/// A table of the program.
pub enum LocalTable {
    /// Batches in memory.
    Frame {
        /// As for [`crate::Session::register`].
        columns: String,
        /// The rows.
        batches: Vec<RecordBatch>,
    },
    /// Batches that are made while a query reads them, once.
    Reader {
        /// As for [`crate::Session::register`].
        columns: String,
        /// The rows.
        reader: FrameReader,
    },
    /// A query, of which the name is a view.
    Query(Box<Relation>),
    /// A table that another process has; queries are bound to it, and none reads it here.
    Declared {
        /// As for [`crate::Session::register`].
        columns: String,
        /// Whether it ends by itself.
        is_bounded: bool,
    },
}

impl fmt::Debug for LocalTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LocalTable::Frame { .. } => "Frame",
            LocalTable::Reader { .. } => "Reader",
            LocalTable::Query(_) => "Query",
            LocalTable::Declared { .. } => "Declared",
        })
    }
}

/// The event time of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventTime {
    /// Its column, a TIMESTAMP or TIMESTAMP_LTZ. It is read in milliseconds.
    pub column: String,
    /// How much older than the latest row a row may be without being late: a millisecond at least, because a row as old as the watermark
    /// is late, also in Flink, and rows of one millisecond are the rule.
    pub delay: Duration,
}

/// What stands between the parentheses of CREATE TABLE for batches of an Arrow schema.
///
/// Fails when SQL has no type for a column, and when the event time is no column of a timestamp.
pub fn columns_text(schema: &ArrowSchema, time: Option<&EventTime>) -> Result<String, Diagnostic> {
    if schema.fields().is_empty() {
        return Err(Diagnostic::new(code::INVALID_TABLE, "the table has no columns").advise("give one with a column"));
    }
    let mut text = String::new();
    let mut known = None;
    for field in schema.fields() {
        let name = field.name();
        let mut column = Field::from_arrow(field).ok_or_else(|| {
            Diagnostic::new(
                code::TYPE_MISMATCH,
                format!("SQL has no type for column `{name}`, which is {} in Arrow", field.data_type()),
            )
            .advise("leave the column out, or cast it")
        })?;
        if let Some(time) = time.filter(|time| time.column == *name) {
            column.data_type = match column.data_type {
                DataType::Timestamp(_) => DataType::Timestamp(3),
                DataType::TimestampLtz(_) => DataType::TimestampLtz(3),
                other => {
                    let message = format!("the event time `{name}` is {other}");
                    return Err(Diagnostic::new(code::INVALID_WINDOW, message).advise("give a column of timestamps"));
                }
            };
            known = Some(time);
        }
        let separator = if text.is_empty() { "" } else { ", " };
        let not_null = if column.nullable { "" } else { " NOT NULL" };
        // Writing to a string cannot fail.
        let _ = write!(text, "{separator}{} {}{not_null}", quoted(name), column.data_type);
    }
    match (time, known) {
        (Some(time), None) => {
            let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            Err(Diagnostic::new(
                code::UNKNOWN_COLUMN,
                format!("there is no column `{}` for the event time", time.column),
            )
            .advise(format!("the columns are {}", names.join(", "))))
        }
        (_, None) => Ok(text),
        (_, Some(time)) => {
            let delay = time.delay.max(Duration::from_millis(1));
            let (name, seconds) = (quoted(&time.column), delay.as_secs());
            let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
            let _ = write!(
                text,
                ", WATERMARK FOR {name} AS {name} - INTERVAL '{days} {hours:02}:{minutes:02}:{:02}.{:03}' DAY(9) TO SECOND(3)",
                seconds % 60,
                delay.subsec_millis()
            );
            Ok(text)
        }
    }
}

fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}
