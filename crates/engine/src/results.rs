//! Where the rows of a bare SELECT go.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use millstream_connectors::{ColumnEncoder, Encoded, Encoder, Sink, discarding_sink};
use millstream_types::{Diagnostic, Schema};
use std::sync::{Arc, Mutex, PoisonError};

/// Makes a sink for the result of a SELECT once its columns are known.
pub trait ResultTarget {
    /// Opens a sink for rows of `schema`.
    fn open(&mut self, schema: &Schema) -> Result<Box<dyn Sink>, Diagnostic>;
}

/// Collects results in memory.
#[derive(Debug, Default)]
pub struct Collected {
    schema: Schema,
    batches: Arc<Mutex<Vec<RecordBatch>>>,
}

impl Collected {
    /// Nothing collected yet.
    pub fn new() -> Collected {
        Collected::default()
    }

    /// The rows of the last SELECT as one batch.
    pub fn into_batch(self) -> Result<RecordBatch, Diagnostic> {
        let batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner);
        arrow_select::concat::concat_batches(&self.schema.to_arrow(), batches.iter())
            .map_err(|e| Diagnostic::bug(format!("result batches cannot be joined: {e}")))
    }

    /// Columns of the last SELECT.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }
}

impl ResultTarget for Collected {
    fn open(&mut self, schema: &Schema) -> Result<Box<dyn Sink>, Diagnostic> {
        self.schema = schema.clone();
        self.batches = Arc::default();
        let batches = self.batches.clone();
        Ok(batch_sink(schema, move |batch| {
            batches.lock().unwrap_or_else(PoisonError::into_inner).push(batch);
            Ok(())
        }))
    }
}

/// A sink that hands on each piece of a result as a batch.
pub(crate) fn batch_sink(
    schema: &Schema,
    hand_on: impl FnMut(RecordBatch) -> Result<(), Diagnostic> + Send + 'static,
) -> Box<dyn Sink> {
    Box::new(BatchSink { schema: schema.to_arrow(), hand_on })
}

struct BatchSink<F> {
    schema: SchemaRef,
    hand_on: F,
}

impl<F: FnMut(RecordBatch) -> Result<(), Diagnostic> + Send> Sink for BatchSink<F> {
    fn encoder(&self) -> Arc<dyn Encoder> {
        Arc::new(ColumnEncoder)
    }

    fn write(&mut self, piece: Encoded) -> Result<(), Diagnostic> {
        (self.hand_on)(piece.into_batch(&self.schema)?)
    }

    fn flush(&mut self) -> Result<(), Diagnostic> {
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), Diagnostic> {
        Ok(())
    }
}

/// Forgets results.
#[derive(Debug)]
pub struct Discarded;

impl ResultTarget for Discarded {
    fn open(&mut self, _: &Schema) -> Result<Box<dyn Sink>, Diagnostic> {
        Ok(discarding_sink())
    }
}
