//! Where the rows of a bare SELECT go.

use arrow_array::{ArrayRef, RecordBatch, StringViewArray};
use arrow_schema::SchemaRef;
use millstream_connectors::{ColumnEncoder, Encoded, Encoder, Sink, discarding_sink, with_kinds};
use millstream_types::{DataType, Diagnostic, Field, RowKind, Schema};
use std::sync::{Arc, Mutex, PoisonError};

/// Makes a sink for the result of a SELECT once its columns are known.
pub trait ResultTarget {
    /// Opens a sink for rows of `schema`.
    fn open(&mut self, schema: &Schema) -> Result<Box<dyn Sink>, Diagnostic>;

    /// Opens a sink for the changes of rows of `schema`, which these columns tell apart, if any do: the kind of change, a
    /// [`RowKind`] as TINYINT, is one more column. Unless a target says otherwise, its rows are those of a changelog.
    fn open_changing(&mut self, schema: &Schema, _key: Option<&[usize]>) -> Result<Box<dyn Sink>, Diagnostic> {
        changelog(self, schema)
    }
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

/// The columns of a changing result as rows: what a row does (`+I`, `-U`, `+U`, `-D`), then its columns.
pub(crate) fn with_kind(schema: &Schema) -> Schema {
    let kind = Field::new("op", DataType::STRING, false);
    Schema::new([kind].into_iter().chain(schema.fields.iter().cloned()).collect())
}

/// Opens a sink of a target for the changes of rows of `schema`, whose first column shows what they do.
pub fn changelog<T: ResultTarget + ?Sized>(target: &mut T, schema: &Schema) -> Result<Box<dyn Sink>, Diagnostic> {
    Ok(Box::new(Changelog(target.open(&with_kind(schema))?)))
}

struct Changelog(Box<dyn Sink>);

struct KindAsText(Arc<dyn Encoder>);

impl Encoder for KindAsText {
    fn encode(&self, columns: &[ArrayRef], rows: usize) -> Result<Encoded, Diagnostic> {
        let (shown, kinds) = with_kinds(columns)?;
        let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values(kinds.into_iter().map(RowKind::text)));
        let columns: Vec<ArrayRef> = [texts].into_iter().chain(shown.iter().cloned()).collect();
        self.0.encode(&columns, rows)
    }
}

impl Sink for Changelog {
    fn encoder(&self) -> Arc<dyn Encoder> {
        Arc::new(KindAsText(self.0.encoder()))
    }

    fn write(&mut self, piece: Encoded) -> Result<(), Diagnostic> {
        self.0.write(piece)
    }

    fn end_beat(&mut self) -> Result<(), Diagnostic> {
        self.0.end_beat()
    }

    fn flush(&mut self) -> Result<(), Diagnostic> {
        self.0.flush()
    }

    fn finish(self: Box<Self>) -> Result<(), Diagnostic> {
        self.0.finish()
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

    fn open_changing(&mut self, _: &Schema, _: Option<&[usize]>) -> Result<Box<dyn Sink>, Diagnostic> {
        Ok(discarding_sink())
    }
}
