//! Rows as aligned text.
//!
//! Rows appear as they come, so a column's width is settled by its header and the first rows; a longer value later
//! pushes its line out rather than being cut.

use millstream::connectors::{ColumnEncoder, Encoded, Encoder, Sink, display, stdout_error};
use millstream::{DataType, Diagnostic, Schema, counted};
use std::io::{Stdout, Write, stdout};
use std::sync::Arc;
use unicode_width::UnicodeWidthStr;

/// Widest that a column is made by its values.
const MAX_WIDTH: usize = 60;

/// The columns of a table of text.
#[derive(Debug)]
pub(crate) struct Layout {
    schema: Schema,
    /// Empty until the first rows are there.
    widths: Vec<usize>,
}

impl Layout {
    pub(crate) fn new(schema: &Schema) -> Layout {
        Layout { schema: schema.clone(), widths: vec![] }
    }

    /// The text of each value of some rows.
    pub(crate) fn cells(&self, piece: &Encoded) -> Result<Vec<Vec<String>>, Diagnostic> {
        let Encoded::Columns { columns, rows } = piece else {
            return Err(Diagnostic::bug("encoded bytes reached the table of results"));
        };
        let mut bytes = Vec::new();
        let mut cell = |row: usize, i: usize| {
            bytes.clear();
            display::write_value(&mut bytes, columns[i].as_ref(), row, &self.schema.fields[i].data_type);
            // Control characters would disturb the terminal.
            String::from_utf8_lossy(&bytes).replace(|c: char| c.is_control(), " ")
        };
        Ok((0..*rows).map(|row| (0..columns.len()).map(|i| cell(row, i)).collect()).collect())
    }

    /// Settles the widths by the header and these rows, unless they are settled.
    pub(crate) fn settle<'a>(&mut self, cells: impl Iterator<Item = &'a Vec<String>> + Clone) {
        if self.widths.is_empty() {
            self.widths = widths(&self.schema, cells);
        }
    }

    pub(crate) fn is_settled(&self) -> bool {
        !self.widths.is_empty()
    }

    /// The names of the columns, and the line under them.
    pub(crate) fn header(&self) -> [String; 2] {
        let names: Vec<String> = self.schema.fields.iter().map(|f| f.name.clone()).collect();
        let rules: Vec<String> = self.widths.iter().map(|w| "─".repeat(*w)).collect();
        [self.line(&names), self.line(&rules)]
    }

    pub(crate) fn line(&self, cells: &[String]) -> String {
        let mut text = String::new();
        for (i, (cell, width)) in cells.iter().zip(&self.widths).enumerate() {
            let pad = " ".repeat(width.saturating_sub(cell.width()));
            text.push_str(if i == 0 { " " } else { "  " });
            if self.is_numeric(i) {
                text.push_str(&pad);
                text.push_str(cell);
            } else {
                text.push_str(cell);
                text.push_str(if i + 1 == cells.len() { "" } else { &pad });
            }
        }
        text
    }

    /// The first column of numbers.
    pub(crate) fn measure(&self) -> Option<usize> {
        (0..self.schema.fields.len()).find(|&i| self.is_numeric(i))
    }

    fn is_numeric(&self, column: usize) -> bool {
        self.schema.fields[column].data_type.is_numeric()
    }
}

/// Writes rows to standard output under a header.
pub(crate) struct TableSink {
    layout: Layout,
    rows: u64,
    out: Stdout,
}

impl TableSink {
    /// A table of these columns, with nothing printed yet.
    pub(crate) fn new(schema: &Schema) -> TableSink {
        TableSink { layout: Layout::new(schema), rows: 0, out: stdout() }
    }

    fn lines(&mut self, cells: &[Vec<String>]) -> String {
        let mut lines = Vec::new();
        if !self.layout.is_settled() {
            self.layout.settle(cells.iter());
            lines.extend(self.layout.header());
        }
        lines.extend(cells.iter().map(|row| self.layout.line(row)));
        lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
    }

    fn print(&mut self, text: &str) -> Result<(), Diagnostic> {
        self.out.write_all(text.as_bytes()).map_err(failed)
    }
}

fn widths<'a>(schema: &Schema, cells: impl Iterator<Item = &'a Vec<String>> + Clone) -> Vec<usize> {
    let width = |i: usize| {
        let least = match schema.fields[i].data_type {
            DataType::BigInt | DataType::Decimal { .. } | DataType::Double => 6,
            _ => 4,
        };
        let widest = cells.clone().map(|row| row[i].width()).max().unwrap_or(0).min(MAX_WIDTH);
        widest.max(schema.fields[i].name.width()).max(least)
    };
    (0..schema.fields.len()).map(width).collect()
}

impl Sink for TableSink {
    fn encoder(&self) -> Arc<dyn Encoder> {
        Arc::new(ColumnEncoder)
    }

    fn write(&mut self, piece: Encoded) -> Result<(), Diagnostic> {
        let cells = self.layout.cells(&piece)?;
        self.rows += cells.len() as u64;
        let text = self.lines(&cells);
        self.print(&text)
    }

    fn flush(&mut self) -> Result<(), Diagnostic> {
        self.out.flush().map_err(failed)
    }

    fn finish(mut self: Box<Self>) -> Result<(), Diagnostic> {
        let header = self.lines(&[]);
        self.print(&format!("{header}({})\n", counted(self.rows, "row")))?;
        self.flush()
    }
}

fn failed(error: std::io::Error) -> Diagnostic {
    stdout_error(&error)
}
