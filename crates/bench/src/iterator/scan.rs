//! Rows of Arrow batches.

use super::{Operator, Row, Value};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int8Type, Int32Type, Int64Type, TimestampMillisecondType};
use arrow_array::{Array, ArrayRef, RecordBatch};

/// Reads columns of batches, row by row.
pub(crate) struct Scan<'a> {
    batches: &'a [RecordBatch],
    columns: Vec<usize>,
    batch: usize,
    row: usize,
}

impl<'a> Scan<'a> {
    /// Reads these columns.
    pub(crate) fn new(batches: &'a [RecordBatch], columns: &[usize]) -> Scan<'a> {
        Scan { batches, columns: columns.to_vec(), batch: 0, row: 0 }
    }
}

impl Operator for Scan<'_> {
    fn next(&mut self) -> Option<Row> {
        while self.row == self.batches.get(self.batch)?.num_rows() {
            (self.batch, self.row) = (self.batch + 1, 0);
        }
        let batch = &self.batches[self.batch];
        let row = self.row;
        self.row += 1;
        Some(self.columns.iter().map(|column| value(batch.column(*column), row)).collect())
    }
}

/// The value in a row of a column without NULLs.
fn value(column: &ArrayRef, row: usize) -> Value {
    if let Some(column) = column.as_primitive_opt::<Int64Type>() {
        return Value::Integer(column.value(row));
    }
    if let Some(column) = column.as_primitive_opt::<TimestampMillisecondType>() {
        return Value::Integer(column.value(row));
    }
    if let Some(column) = column.as_string_view_opt() {
        return Value::Text(column.value(row).into());
    }
    if let Some(column) = column.as_primitive_opt::<Float64Type>() {
        return Value::Double(column.value(row));
    }
    if let Some(column) = column.as_primitive_opt::<Int32Type>() {
        return Value::Integer(column.value(row).into());
    }
    match column.as_primitive_opt::<Int8Type>() {
        Some(column) => Value::Integer(column.value(row).into()),
        None => panic!("the iterators know no {}", column.data_type()),
    }
}
