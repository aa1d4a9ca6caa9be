//! Arrow batches that the program has which uses the engine: in memory, or made while a query reads them.
//!
//! Columns are read in place where their Arrow type is that of the table's column, and cast by the decoder where another one holds the
//! same values (an Arrow string of 32-bit offsets, an unsigned integer).

use crate::fit::{self, Wanted};
use crate::kept::{InMemory, Kept};
use crate::{
    CHUNK_ROWS, Chunk, Decoded, Decoder, Position, Source, SourceRequest, SplitReader, Witness, casts, locked,
};
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, Schema as ArrowSchema};
use millstream_types::{Diagnostic, Place, Schema, Spare, code, counted};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use xxhash_rust::xxh3::xxh3_64;

/// A batch is read in pieces of at most so many rows. Each costs some tens of microseconds until it is handed out, and a call of each
/// function of the program.
const MOST_PIECE_ROWS: usize = 8 * CHUNK_ROWS;
/// Smaller pieces are not worth that.
const LEAST_PIECE_ROWS: usize = 2 * CHUNK_ROWS;
/// In between, all workers have something to do if each can have so many pieces.
const PIECES_PER_WORKER: usize = 4;

/// Rows that are looked at to know batches again.
const SAMPLES: usize = 64;

/// Name of the one split.
const SPLIT: &str = "memory";

/// Batches in memory.
#[derive(Debug, Clone)]
pub struct Frame {
    batches: Arc<[RecordBatch]>,
    summary: Arc<Summary>,
    kept: Arc<Kept>,
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
                        text += &casts::text(column, row).unwrap_or_default();
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
        let batches: Arc<[RecordBatch]> = batches.into();
        Ok(Frame { kept: Arc::new(Kept::new(Arc::clone(&batches))), batches, summary: Arc::default() })
    }

    /// Whether there may be a NULL in a column.
    pub fn may_be_null(&self, column: usize) -> bool {
        self.batches.iter().any(|batch| batch.column(column).is_nullable())
    }

    /// The batches.
    pub fn batches(&self) -> &[RecordBatch] {
        &self.batches
    }

    /// Opens the batches for a query.
    pub fn open(&self, request: &SourceRequest) -> Result<Box<dyn Source>, Diagnostic> {
        let decoder = FrameDecoder::new(request, Some(Arc::clone(&self.kept)))?;
        let (batches, summary) = (self.batches.clone(), Arc::clone(&self.summary));
        Ok(Box::new(FrameSource { batches, summary, most: self.piece_rows(request), decoder: Arc::new(decoder) }))
    }

    /// Rows of a piece.
    fn piece_rows(&self, request: &SourceRequest) -> usize {
        let rows: usize = self.batches.iter().map(RecordBatch::num_rows).sum();
        let workers = thread::available_parallelism().map_or(1, usize::from);
        let share = rows.div_ceil(PIECES_PER_WORKER * workers).next_multiple_of(CHUNK_ROWS);
        let rows = share.clamp(LEAST_PIECE_ROWS, MOST_PIECE_ROWS);
        if request.buffer_rows == 0 { rows } else { request.buffer_rows.min(rows) }
    }
}

/// The batch with the names of `schema` for its columns.
fn named(schema: &Schema, batch: &RecordBatch) -> Result<RecordBatch, String> {
    let (found, wanted) = (batch.num_columns(), schema.fields.len());
    if found != wanted {
        return Err(format!("it has {}, the table {wanted}", counted(found, "column")));
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

    fn never_waits(&self) -> bool {
        true
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
        let number = usize::try_from(self.next.at).unwrap_or(usize::MAX);
        let Some(batch) = self.witness.batches.get(number) else { return Ok(None) };
        let start = usize::try_from(self.next.line).unwrap_or(usize::MAX).min(batch.num_rows());
        let rows = self.most.min(batch.num_rows() - start);
        self.next = match start + rows == batch.num_rows() {
            true => Position { at: self.next.at + 1, line: 0 },
            false => Position { at: self.next.at, line: (start + rows) as u64 },
        };
        let piece = Piece { batch: number, start, rows };
        let payload = PIECES.with(|pieces| pieces.boxed(piece));
        Ok(Some(Chunk { payload, bytes: 0, after: Some(self.next) }))
    }
}

thread_local! {
    /// Pieces that have been decoded, for the memory that they have.
    static PIECES: Spare<Box<Piece>> = const { Spare::new() };
}

/// Rows of a batch of a table.
struct Piece {
    /// Its number.
    batch: usize,
    start: usize,
    rows: usize,
}

/// Batches that are made one after the other. An error ends the query.
pub type FrameReader = Box<dyn Iterator<Item = Result<RecordBatch, Diagnostic>> + Send>;

/// A split whose rows the program makes: batches in order, with the columns of the table by name. Used by one thread.
pub trait FrameSplit: Send {
    /// Its name, which it keeps: see [`SplitReader::name`].
    fn name(&self) -> &str;

    /// Begins, once and before anything else: behind a batch that had this position in an earlier process, or at the start.
    fn begin(&mut self, after: Option<Value>) -> Result<(), Diagnostic>;

    /// See [`SplitReader::wait`].
    fn wait(&mut self) -> Result<bool, Diagnostic>;

    /// The next batch; blocks until there is one; `None` at the end. After an error it is not called again.
    fn next(&mut self) -> Result<Option<PlacedBatch>, Diagnostic>;
}

/// A batch and its place in its split.
#[derive(Debug, Clone)]
pub struct PlacedBatch {
    /// The rows.
    pub batch: RecordBatch,
    /// What [`FrameSplit::begin`] is told to go on behind it: for splits that can be read again.
    pub position: Value,
}

/// Opens batches for a query that are made one after the other. They are read once.
pub fn open_reader(request: &SourceRequest, reader: FrameReader) -> Result<Box<dyn Source>, Diagnostic> {
    let kind = SplitKind { is_bounded: true, is_replayable: false, waits: false };
    open_splits(request, vec![Box::new(OneReader(reader))], kind)
}

/// What is said of all splits of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SplitKind {
    /// They end.
    pub is_bounded: bool,
    /// They begin behind the position of any batch, and give the rows behind it in the same order.
    pub is_replayable: bool,
    /// They may wait for the outside, or for each other.
    pub waits: bool,
}

/// Opens splits that the program makes for a query. Batches have the columns of the request's schema by name; one that is absent is NULL.
pub fn open_splits(
    request: &SourceRequest,
    splits: Vec<Box<dyn FrameSplit>>,
    kind: SplitKind,
) -> Result<Box<dyn Source>, Diagnostic> {
    let most = if request.buffer_rows == 0 { MOST_PIECE_ROWS } else { request.buffer_rows.min(MOST_PIECE_ROWS) };
    let decoder = Arc::new(FrameDecoder::new(request, None)?);
    Ok(Box::new(SplitSource { splits, most, kind, decoder }))
}

/// A reader as the only split.
struct OneReader(FrameReader);

impl FrameSplit for OneReader {
    fn name(&self) -> &str {
        SPLIT
    }

    fn begin(&mut self, _: Option<Value>) -> Result<(), Diagnostic> {
        Ok(())
    }

    fn wait(&mut self) -> Result<bool, Diagnostic> {
        Ok(true)
    }

    fn next(&mut self) -> Result<Option<PlacedBatch>, Diagnostic> {
        self.0.next().map(|batch| Ok(PlacedBatch { batch: batch?, position: Value::Null })).transpose()
    }
}

struct SplitSource {
    /// Until they have been handed out.
    splits: Vec<Box<dyn FrameSplit>>,
    most: usize,
    kind: SplitKind,
    decoder: Arc<FrameDecoder>,
}

impl Source for SplitSource {
    fn splits(&mut self) -> Result<Vec<Box<dyn SplitReader>>, Diagnostic> {
        let stream = |split| Box::new(FrameStream::new(split, self.most, self.kind)) as Box<dyn SplitReader>;
        Ok(std::mem::take(&mut self.splits).into_iter().map(stream).collect())
    }

    fn decoder(&self) -> Arc<dyn Decoder> {
        self.decoder.clone()
    }

    fn is_bounded(&self) -> bool {
        self.kind.is_bounded
    }

    fn waits(&self) -> bool {
        self.kind.waits
    }

    fn is_replayable(&self) -> bool {
        self.kind.is_replayable
    }
}

/// Positions that are kept without a checkpoint: no more batches are ever on their way to where a checkpoint cuts.
const MOST_POSITIONS: usize = 16 << 10;

/// Positions of batches by number, as long as a checkpoint may want them.
#[derive(Debug, Default)]
struct Positions(Mutex<VecDeque<(u64, Value)>>);

impl Positions {
    fn push(&self, batches: u64, position: Value) {
        let mut positions = locked(&self.0);
        positions.push_back((batches, position));
        if positions.len() > MOST_POSITIONS {
            positions.pop_front();
        }
    }
}

impl Witness for Positions {
    /// The position that the program has given, which the number of batches stands for in this process.
    fn describe(&self, at: Option<Position>, _: bool) -> Option<Value> {
        let Position { at, line } = at?;
        let mut positions = locked(&self.0);
        // Checkpoints come in order: nobody asks for earlier ones.
        while positions.get(1).is_some_and(|(batches, _)| *batches <= at) {
            positions.pop_front();
        }
        // None while nothing has been read in this process: then what the last checkpoint says still holds.
        let (batches, position) = positions.front()?;
        match *batches <= at {
            true => Some(json!({ "after": position, "rows": line })),
            false => (at > 0).then(|| json!({ "lost": true })),
        }
    }
}

/// Cuts the batches of a split into pieces, and says where they are.
struct FrameStream {
    split: Box<dyn FrameSplit>,
    has_begun: bool,
    has_ended: bool,
    most: usize,
    is_replayable: bool,
    /// What is left of a batch.
    rest: Option<PlacedBatch>,
    /// The number of batches that were handed out, and in `line` the rows of the next one.
    next: Position,
    /// Rows that were read before the checkpoint.
    skipped: u64,
    /// Kept when there are checkpoints.
    positions: OnceLock<Arc<Positions>>,
    /// What the checkpoint says of the position.
    described: Mutex<Option<Value>>,
}

impl FrameStream {
    fn new(split: Box<dyn FrameSplit>, most: usize, kind: SplitKind) -> FrameStream {
        FrameStream {
            split,
            has_begun: false,
            has_ended: false,
            most,
            is_replayable: kind.is_replayable,
            rest: None,
            next: Position::default(),
            skipped: 0,
            positions: OnceLock::new(),
            described: Mutex::default(),
        }
    }

    fn begin(&mut self, after: Option<Value>) -> Result<(), Diagnostic> {
        self.has_begun = true;
        if let (Some(positions), Some(after)) = (self.positions.get(), &after) {
            positions.push(self.next.at, after.clone());
        }
        self.split.begin(after)
    }

    /// What is left of a batch, or the next one.
    fn following(&mut self) -> Result<Option<PlacedBatch>, Diagnostic> {
        if self.has_ended {
            return Ok(None);
        }
        let following = match self.rest.take() {
            Some(rest) => Some(rest),
            None => self.split.next()?,
        };
        self.has_ended = following.is_none();
        Ok(following)
    }

    /// Takes so many rows off a batch, of which the rest comes next.
    fn take(&mut self, batch: PlacedBatch, rows: usize) -> RecordBatch {
        let piece = batch.batch.slice(0, rows);
        if rows < batch.batch.num_rows() {
            self.next.line += rows as u64;
            let rest = batch.batch.slice(rows, batch.batch.num_rows() - rows);
            self.rest = Some(PlacedBatch { batch: rest, position: batch.position });
        } else {
            self.next = Position { at: self.next.at + 1, line: 0 };
            if let Some(positions) = self.positions.get() {
                positions.push(self.next.at, batch.position);
            }
        }
        piece
    }
}

impl SplitReader for FrameStream {
    fn name(&self) -> &str {
        self.split.name()
    }

    fn resume(&mut self, from: Option<Position>) -> Result<(), Diagnostic> {
        let described = locked(&self.described).take().unwrap_or_default();
        let Some(from) = from else { return Ok(()) };
        if !self.is_replayable || described.get("lost").is_some() {
            let message = match self.is_replayable {
                true => "the checkpoint does not have the position of the source",
                false => "the job has read the source with positions, and it has none any more",
            };
            return Err(Diagnostic::new(code::INPUT_CHANGED, message)
                .advise("give positions, or start from the beginning with another state directory and output"));
        }
        self.next = Position { at: from.at, line: 0 };
        self.skipped = from.line;
        self.begin(described.get("after").filter(|after| !after.is_null()).cloned())
    }

    fn witness(&self) -> Option<Arc<dyn Witness>> {
        self.is_replayable.then(|| self.positions.get_or_init(Arc::default).clone() as Arc<dyn Witness>)
    }

    fn verify(&self, described: &Value, _: bool) -> Result<(), Diagnostic> {
        *locked(&self.described) = Some(described.clone());
        Ok(())
    }

    fn wait(&mut self) -> Result<bool, Diagnostic> {
        if !self.has_begun {
            self.begin(None)?;
        }
        while self.skipped > 0 {
            if self.rest.is_none() && !self.split.wait()? {
                return Ok(false);
            }
            let Some(batch) = self.following()? else {
                self.skipped = 0;
                break;
            };
            let seen = batch.batch.num_rows().min(usize::try_from(self.skipped).unwrap_or(usize::MAX));
            self.skipped -= seen as u64;
            self.take(batch, seen);
        }
        if self.rest.is_some() || self.has_ended { Ok(true) } else { self.split.wait() }
    }

    fn next(&mut self) -> Result<Option<Chunk>, Diagnostic> {
        let Some(batch) = self.following()? else { return Ok(None) };
        let rows = self.most.min(batch.batch.num_rows());
        let piece = self.take(batch, rows);
        let after = self.is_replayable.then_some(self.next);
        Ok(Some(Chunk { payload: Box::new(piece), bytes: 0, after }))
    }
}

struct FrameDecoder {
    wanted: Vec<Wanted>,
    /// For a table whose batches stay.
    kept: Option<Arc<Kept>>,
}

impl FrameDecoder {
    fn new(request: &SourceRequest, kept: Option<Arc<Kept>>) -> Result<FrameDecoder, Diagnostic> {
        let wanted = Wanted::of(request)?;
        if wanted.len() < request.columns.len() {
            return Err(Diagnostic::new(code::INVALID_TABLE, "a table in memory has no metadata columns"));
        }
        Ok(FrameDecoder { wanted, kept })
    }
}

impl Decoder for FrameDecoder {
    fn decode(&self, chunk: Chunk) -> Decoded {
        let Some(kept) = &self.kept else {
            return chunk.content::<RecordBatch>().map_or_else(Decoded::failed, |batch| self.columns(&batch));
        };
        let piece = match chunk.content::<Piece>() {
            Ok(piece) => piece,
            Err(bug) => return Decoded::failed(bug),
        };
        let Some(batch) = kept.batch(piece.batch) else {
            return Decoded::failed(Diagnostic::bug("a table in memory does not have a batch that was read"));
        };
        let decoded = match piece.rows == batch.num_rows() {
            true => self.columns(batch),
            false => self.columns(&batch.slice(piece.start, piece.rows)),
        };
        let in_memory = Some(InMemory::new(piece.batch, Arc::clone(kept)));
        PIECES.with(|pieces| pieces.give(piece));
        Decoded { in_memory, ..decoded }
    }
}

impl FrameDecoder {
    /// The wanted columns of some rows.
    fn columns(&self, batch: &RecordBatch) -> Decoded {
        let at = |column| Place::Data { resource: SPLIT.into(), offset: None, line: None, column };
        let row_name = |row| format!("row {row} of a batch");
        let decoded = fit::columns(self.wanted.iter(), Some(batch), batch.num_rows(), &at, &row_name);
        decoded.unwrap_or_else(Decoded::failed)
    }
}
