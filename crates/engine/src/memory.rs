//! Tables of the program that uses a session: sources of its own, and Arrow batches in memory.
//!
//! The columns of batches are read in place: a chunk is the number of a batch, "decoding" it picks the columns that the
//! query uses.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use millstream_connectors::{
    Chunk, ColumnRequest, Decoded, Decoder, Position, RequestOrigin, Source, SourceRequest, SplitReader,
};
use millstream_types::{Diagnostic, Options, RecordLayout, Schema, code};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Value of the `connector` option of such tables. SQL cannot name it: there would be nothing behind it.
pub(crate) const CONNECTOR: &str = "memory";
/// Option of such tables: whether they are endless.
pub(crate) const ENDLESS: &str = "endless";

/// Where the rows of a program's own table come from ([`crate::Session::register_source`]).
pub trait TableProvider: fmt::Debug + Send + Sync {
    /// Opens the table for a query. The request names the columns that it reads.
    fn open(&self, request: &SourceRequest) -> Result<Box<dyn Source>, Diagnostic>;

    /// Whether the table ends by itself.
    fn is_bounded(&self) -> bool;

    /// The layout of its rows, all physical columns of the table, if they are packed records whose columns can be read in
    /// place. Then requests may be of [`RequestOrigin::Record`].
    fn record_layout(&self) -> Option<&RecordLayout> {
        None
    }
}

/// The program's own tables by name.
pub(crate) type MemoryTables = BTreeMap<String, Arc<dyn TableProvider>>;

/// Whether a table with these options ends by itself.
pub(crate) fn is_bounded(options: &Options) -> bool {
    match options.get("connector") {
        Some(CONNECTOR) => options.get(ENDLESS) != Some("true"),
        _ => millstream_connectors::is_bounded(options),
    }
}

/// Checks the options of a table as far as that is possible without opening it.
pub(crate) fn check(table: &str, options: &Options) -> Result<(), Diagnostic> {
    match options.get("connector") {
        Some(CONNECTOR) => Ok(()),
        _ => millstream_connectors::check_table_options(table, options),
    }
}

/// The batches of a table.
#[derive(Debug, Clone)]
pub(crate) struct MemoryTable {
    batches: Arc<[RecordBatch]>,
}

impl MemoryTable {
    /// Checks that every batch has the columns of `schema`, in order.
    pub(crate) fn new(schema: &Schema, batches: Vec<RecordBatch>) -> Result<MemoryTable, Diagnostic> {
        for (number, batch) in batches.iter().enumerate() {
            let matches = batch.num_columns() == schema.fields.len()
                && batch
                    .columns()
                    .iter()
                    .zip(&schema.fields)
                    .all(|(c, f)| *c.data_type() == f.data_type.to_arrow() && (f.nullable || c.null_count() == 0));
            if !matches {
                return Err(Diagnostic::new(
                    code::TYPE_MISMATCH,
                    format!("batch {number} does not have the columns of the table"),
                )
                .advise("give columns of the Arrow types of the schema, without NULLs where it says NOT NULL"));
            }
        }
        Ok(MemoryTable { batches: batches.into() })
    }
}

impl TableProvider for MemoryTable {
    fn open(&self, request: &SourceRequest) -> Result<Box<dyn Source>, Diagnostic> {
        Ok(Box::new(Reader { batches: self.batches.clone(), columns: request.columns.clone().into() }))
    }

    fn is_bounded(&self) -> bool {
        true
    }
}

#[derive(Clone)]
struct Reader {
    batches: Arc<[RecordBatch]>,
    columns: Arc<[ColumnRequest]>,
}

impl Source for Reader {
    fn splits(&mut self) -> Result<Vec<Box<dyn SplitReader>>, Diagnostic> {
        Ok(vec![Box::new(Numbers { next: 0, end: self.batches.len() })])
    }

    fn decoder(&self) -> Arc<dyn Decoder> {
        Arc::new(self.clone())
    }

    fn is_bounded(&self) -> bool {
        true
    }

    fn is_replayable(&self) -> bool {
        true
    }
}

/// Hands out the numbers of the batches.
struct Numbers {
    next: usize,
    end: usize,
}

impl SplitReader for Numbers {
    fn name(&self) -> &str {
        CONNECTOR
    }

    fn resume(&mut self, from: Option<Position>) -> Result<(), Diagnostic> {
        self.next = from.map_or(0, |position| usize::try_from(position.at).unwrap_or(self.end).min(self.end));
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Chunk>, Diagnostic> {
        if self.next == self.end {
            return Ok(None);
        }
        self.next += 1;
        let after = Some(Position { at: self.next as u64, line: 0 });
        Ok(Some(Chunk { payload: Box::new(self.next - 1), bytes: 0, after }))
    }
}

impl Decoder for Reader {
    fn decode(&self, chunk: Chunk) -> Decoded {
        let Ok(number) = chunk.payload.downcast::<usize>() else {
            let error = Diagnostic::bug("a chunk of another source reached a table in memory");
            return Decoded { error: Some(error), ..Decoded::default() };
        };
        let batch = &self.batches[*number];
        match self.columns.iter().map(|c| column(batch, c)).collect() {
            Ok(columns) => Decoded { columns, rows: batch.num_rows(), skipped: 0, error: None },
            Err(error) => Decoded { error: Some(error), ..Decoded::default() },
        }
    }
}

fn column(batch: &RecordBatch, request: &ColumnRequest) -> Result<ArrayRef, Diagnostic> {
    let RequestOrigin::Path(path) = &request.origin else {
        return Err(Diagnostic::new(code::INVALID_TABLE, "a table in memory has no metadata columns"));
    };
    let mut column = batch.column(path[0]).clone();
    for &step in &path[1..] {
        let row = column.as_struct();
        let field = row.column(step).clone();
        // A field of a row that is NULL is NULL.
        column = match row.nulls() {
            None => field,
            Some(valid) => {
                let nulls = arrow_buffer::NullBuffer::union(Some(valid), field.nulls());
                let data = field.to_data().into_builder().nulls(nulls).build();
                let data = data.map_err(|e| Diagnostic::bug(format!("a field of a row cannot be masked: {e}")))?;
                arrow_array::make_array(data)
            }
        };
    }
    Ok(column)
}
