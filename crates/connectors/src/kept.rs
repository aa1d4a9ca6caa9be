//! What is found out about the columns of a table in memory and kept with it, so that the next query need not read them for it.

use crate::locked;
use arrow_array::{Array, RecordBatch};
use arrow_buffer::Buffer;
use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

/// Of a table. It has the batches, so that no other values get the addresses of theirs.
pub(crate) struct Kept {
    batches: Arc<[RecordBatch]>,
    /// By where values are and how many bytes they have.
    found: Mutex<HashMap<(usize, usize), Box<dyn Any + Send + Sync>>>,
}

impl Kept {
    /// Nothing is known of these batches.
    pub(crate) fn new(batches: Arc<[RecordBatch]>) -> Kept {
        Kept { batches, found: Mutex::default() }
    }

    /// One of the batches.
    pub(crate) fn batch(&self, number: usize) -> Option<&RecordBatch> {
        self.batches.get(number)
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept").field("batches", &self.batches.len()).finish_non_exhaustive()
    }
}

/// A piece of a batch of a table in memory.
#[derive(Debug, Clone)]
pub struct InMemory {
    /// The number of the batch.
    batch: usize,
    kept: Arc<Kept>,
}

impl InMemory {
    /// A piece of one of the batches that `kept` is of, by its number.
    pub(crate) fn new(batch: usize, kept: Arc<Kept>) -> InMemory {
        InMemory { batch, kept }
    }

    /// What has been kept of these values. If nothing has, it is made, and kept if the values are those of a column of the table: a column
    /// that was cast for the query goes with it.
    pub fn keep<T: Any + Clone + Send + Sync>(&self, values: &Buffer, make: impl FnOnce() -> T) -> T {
        let place = (values.as_ptr() as usize, values.len());
        if let Some(found) = locked(&self.kept.found).get(&place).and_then(|found| found.downcast_ref::<T>()) {
            return found.clone();
        }
        let made = make();
        let is_within = |buffer: &Buffer| buffer.as_slice().as_ptr_range().contains(&values.as_ptr());
        let is_theirs = |column: &dyn Array| column.to_data().buffers().iter().any(is_within);
        let columns = self.kept.batch(self.batch).map_or(&[][..], RecordBatch::columns);
        if columns.iter().any(|column| is_theirs(column)) {
            locked(&self.kept.found).insert(place, Box::new(made.clone()));
        }
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, Int64Array};

    #[test]
    fn what_is_found_out_of_a_tables_own_values_is_kept() {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
        let batch = RecordBatch::try_from_iter([("k", column)]).unwrap();
        let kept = Arc::new(Kept::new([batch.clone()].into()));
        let buffer = |batch: &RecordBatch| {
            let values = batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap().values().clone();
            values.into_inner()
        };
        let of = |rows: RecordBatch| (buffer(&rows), InMemory::new(0, Arc::clone(&kept)));
        let (values, piece) = of(batch.slice(10, 20));
        assert_eq!([piece.keep(&values, || 1), piece.keep(&values, || 2)], [1, 1]);
        let (again, same) = of(batch.slice(10, 20));
        assert_eq!(same.keep(&again, || 3), 1);
        let (other, longer) = of(batch.slice(10, 21));
        assert_eq!(longer.keep(&other, || 4), 4);
        let cast = Buffer::from_vec((10..30).collect::<Vec<i64>>());
        assert_eq!([piece.keep(&cast, || 5), piece.keep(&cast, || 6)], [5, 6]);
        assert_eq!(piece.keep(&values, || "of another type"), "of another type");
    }
}
