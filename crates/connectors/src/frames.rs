//! Arrow batches that the program has which uses the engine: in memory, or made while a query reads them.
//!
//! Columns are read in place where their Arrow type is that of the table's column, and cast by the decoder where another one holds the
//! same values (an Arrow string of 32-bit offsets, an unsigned integer).

use crate::fit::{self, Wanted};
use crate::{CHUNK_ROWS, Chunk, Decoded, Decoder, Position, Source, SourceRequest, SplitReader, Witness};
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_cast::display::array_value_to_string;
use arrow_schema::{Field, Schema as ArrowSchema};
use millstream_types::{Diagnostic, Place, Schema, code};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use xxhash_rust::xxh3::xxh3_64;

/// A larger batch is read in pieces of at most so many rows, so that several workers have something to do.
const PIECE_ROWS: usize = 4 * CHUNK_ROWS;

/// Rows that are looked at to know batches again.
const SAMPLES: usize = 64;

/// Name of the one split.
const SPLIT: &str = "memory";

/// Batches in memory.
#[derive(Debug, Clone)]
pub struct Frame {
    batches: Arc<[RecordBatch]>,
    summary: Arc<Summary>,
}

/// What a checkpoint remembers of batches, so that a job does not resume in other ones: made when the first one asks.
#[derive(Debug, Default)]
struct Summary(OnceLock<Value>);

impl Summary {
    /// The number of rows, and the hash of some of them as text.
    fn of(&self, batches: &[RecordBatch]) -> Value {
        let summarised = self.0.get_or_init(|| {
            let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
            let mut text = String::new();
            let (mut before, mut sample) = (0, 0);
            for batch in batches {
                while sample < SAMPLES && sample * rows / SAMPLES < before + batch.num_rows() {
                    let row = sample * rows / SAMPLES - before;
                    for column in batch.columns() {
                        // What has no text is not compared.
                        text += &array_value_to_string(column, row).unwrap_or_default();
                        text.push('\n');
                    }
                    sample += 1;
                }
                before += batch.num_rows();
            }
            json!({ "rows": rows, "sample": format!("{:016x}", xxh3_64(text.as_bytes())) })
        });
        summarised.clone()
    }
}

#[derive(Debug)]
struct FrameWitness {
    batches: Arc<[RecordBatch]>,
    summary: Arc<Summary>,
}

impl Witness for FrameWitness {
    fn describe(&self, _: Option<Position>, _: bool) -> Option<Value> {
        Some(self.summary.of(&self.batches))
    }
}

impl Frame {
    /// Batches that have the columns of `schema`, in order, whatever they are called.
    ///
    /// Fails when a batch has other columns, of types that do not fit, or NULLs where the schema says NOT NULL.
    pub fn new(schema: &Schema, batches: Vec<RecordBatch>) -> Result<Frame, Diagnostic> {
        let named = |(number, batch)| {
            named(schema, &batch).map_err(|reason| {
                Diagnostic::new(
                    code::TYPE_MISMATCH,
                    format!("batch {number} does not have the columns of the table: {reason}"),
                )
                .advise("give columns of Arrow types that fit the schema, without NULLs where it says NOT NULL")
            })
        };
        let batches = batches.into_iter().enumerate().map(named).collect::<Result<Vec<_>, _>>()?;
        Ok(Frame { batches: batches.into(), summary: Arc::default() })
    }

    /// Opens the batches for a query.
    pub fn open(&self, request: &SourceRequest) -> Result<Box<dyn Source>, Diagnostic> {
        let decoder = FrameDecoder::new(request)?;
        let (batches, summary) = (self.batches.clone(), Arc::clone(&self.summary));
        Ok(Box::new(FrameSource { batches, summary, most: piece_rows(request), decoder: Arc::new(decoder) }))
    }
}

fn piece_rows(request: &SourceRequest) -> usize {
    if request.buffer_rows == 0 { PIECE_ROWS } else { request.buffer_rows.min(PIECE_ROWS) }
}

/// The batch with the names of `schema` for its columns.
fn named(schema: &Schema, batch: &RecordBatch) -> Result<RecordBatch, String> {
    let (found, wanted) = (batch.num_columns(), schema.fields.len());
    if found != wanted {
        return Err(format!("it has {found} columns, the table {wanted}"));
    }
    let mut fields = Vec::with_capacity(wanted);
    for (field, column) in schema.fields.iter().zip(batch.columns()) {
        let at = |e| format!("column `{}`: {e}", field.name);
        fit::fit(&column.slice(0, 0), &field.data_type).map_err(at)?;
        if !field.nullable && column.null_count() > 0 {
            return Err(at("it has NULLs".into()));
        }
        fields.push(Field::new(&field.name, column.data_type().clone(), true));
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let schema = Arc::new(ArrowSchema::new(fields));
    RecordBatch::try_new_with_options(schema, batch.columns().to_vec(), &options).map_err(|e| e.to_string())
}

struct FrameSource {
    batches: Arc<[RecordBatch]>,
    summary: Arc<Summary>,
    most: usize,
    decoder: Arc<FrameDecoder>,
}

impl Source for FrameSource {
    fn splits(&mut self) -> Result<Vec<Box<dyn SplitReader>>, Diagnostic> {
        let witness = FrameWitness { batches: self.batches.clone(), summary: Arc::clone(&self.summary) };
        Ok(vec![Box::new(Pieces { witness: Arc::new(witness), most: self.most, next: Position::default() })])
    }

    fn decoder(&self) -> Arc<dyn Decoder> {
        self.decoder.clone()
    }

    fn is_bounded(&self) -> bool {
        true
    }

    fn is_replayable(&self) -> bool {
        true
    }
}

/// Hands out the batches, large ones in pieces.
struct Pieces {
    witness: Arc<FrameWitness>,
    most: usize,
    /// The number of a batch, and in `line` the rows of it that were handed out.
    next: Position,
}

impl SplitReader for Pieces {
    fn name(&self) -> &str {
        SPLIT
    }

    fn resume(&mut self, from: Option<Position>) -> Result<(), Diagnostic> {
        self.next = from.unwrap_or_default();
        Ok(())
    }

    fn witness(&self) -> Option<Arc<dyn Witness>> {
        Some(self.witness.clone())
    }

    fn verify(&self, described: &Value, _: bool) -> Result<(), Diagnostic> {
        if *described == self.witness.summary.of(&self.witness.batches) {
            return Ok(());
        }
        let message = "the rows of a table in memory are not those that the job has read";
        Err(Diagnostic::new(code::INPUT_CHANGED, message)
            .advise("give the same rows, or start from the beginning with another state directory and output"))
    }

    fn next(&mut self) -> Result<Option<Chunk>, Diagnostic> {
        let batch = usize::try_from(self.next.at).ok().and_then(|number| self.witness.batches.get(number));
        let Some(batch) = batch else { return Ok(None) };
        let start = usize::try_from(self.next.line).unwrap_or(usize::MAX).min(batch.num_rows());
        let rows = self.most.min(batch.num_rows() - start);
        self.next = match start + rows == batch.num_rows() {
            true => Position { at: self.next.at + 1, line: 0 },
            false => Position { at: self.next.at, line: (start + rows) as u64 },
        };
        let piece = batch.slice(start, rows);
        Ok(Some(Chunk { payload: Box::new(piece), bytes: 0, after: Some(self.next) }))
    }
}

/// Batches that are made one after the other. An error ends the query.
pub type FrameReader = Box<dyn Iterator<Item = Result<RecordBatch, Diagnostic>> + Send>;

/// Opens batches with the columns of the request's schema by name, made one after the other, for a query. They are read once.
pub fn open_reader(request: &SourceRequest, reader: FrameReader) -> Result<Box<dyn Source>, Diagnostic> {
    let stream = FrameStream { reader, most: piece_rows(request), rest: None };
    let decoder = Arc::new(FrameDecoder::new(request)?);
    Ok(Box::new(ReaderSource { stream: Mutex::new(Some(stream)), decoder }))
}

struct ReaderSource {
    /// Until it has been handed out.
    stream: Mutex<Option<FrameStream>>,
    decoder: Arc<FrameDecoder>,
}

impl Source for ReaderSource {
    fn splits(&mut self) -> Result<Vec<Box<dyn SplitReader>>, Diagnostic> {
        let stream = self.stream.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        Ok(stream.into_iter().map(|stream| Box::new(stream) as Box<dyn SplitReader>).collect())
    }

    fn decoder(&self) -> Arc<dyn Decoder> {
        self.decoder.clone()
    }

    fn is_bounded(&self) -> bool {
        true
    }

    fn is_replayable(&self) -> bool {
        false
    }
}

struct FrameStream {
    reader: FrameReader,
    most: usize,
    /// What is left of a batch.
    rest: Option<RecordBatch>,
}

impl SplitReader for FrameStream {
    fn name(&self) -> &str {
        SPLIT
    }

    fn next(&mut self) -> Result<Option<Chunk>, Diagnostic> {
        let batch = match self.rest.take() {
            Some(rest) => rest,
            None => match self.reader.next() {
                None => return Ok(None),
                Some(batch) => batch?,
            },
        };
        let rows = self.most.min(batch.num_rows());
        self.rest = (rows < batch.num_rows()).then(|| batch.slice(rows, batch.num_rows() - rows));
        Ok(Some(Chunk { payload: Box::new(batch.slice(0, rows)), bytes: 0, after: None }))
    }
}

struct FrameDecoder {
    wanted: Vec<Wanted>,
}

impl FrameDecoder {
    fn new(request: &SourceRequest) -> Result<FrameDecoder, Diagnostic> {
        let wanted = Wanted::of(request)?;
        if wanted.len() < request.columns.len() {
            return Err(Diagnostic::new(code::INVALID_TABLE, "a table in memory has no metadata columns"));
        }
        Ok(FrameDecoder { wanted })
    }
}

impl Decoder for FrameDecoder {
    fn decode(&self, chunk: Chunk) -> Decoded {
        let batch = match chunk.content::<RecordBatch>() {
            Ok(batch) => batch,
            Err(bug) => return Decoded::failed(bug),
        };
        let at = |column| Place::Data { resource: SPLIT.into(), offset: None, line: None, column };
        let row_name = |row| format!("row {row} of a batch");
        let wanted: Vec<&Wanted> = self.wanted.iter().collect();
        fit::columns(&wanted, Some(&batch), batch.num_rows(), &at, &row_name).unwrap_or_else(Decoded::failed)
    }
}
