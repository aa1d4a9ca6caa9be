//! Sources, sinks and formats.
//!
//! A source has *splits*, each read in order by one [`SplitReader`] on an I/O thread. A reader hands over [`Chunk`]s,
//! which are cheap to make (a block of bytes cut at a record's end, a range of generated rows, a row group); any
//! worker turns a chunk into columns with the source's [`Decoder`], so decoding is parallel while the order of a
//! split is kept by the chunk's number. On the way out, any worker turns columns into an [`Encoded`] piece with the
//! sink's [`Encoder`], and the [`Sink`] writes the pieces in order.
//!
//! Invariants: connectors know nothing of pipelines, windows or SQL; everything read from outside is checked; a sink
//! shows nothing half-written.

// Formats of messages are there for Kafka, files that are sought in for Parquet, spans for what is written in transactions.
#![cfg_attr(not(all(feature = "kafka", feature = "columnar", feature = "postgres")), allow(dead_code, unused_imports))]

#[cfg(feature = "columnar")]
mod arrow_stream;
mod avro;
mod blackhole;
mod casts;
mod changes;
mod csv;
mod datagen;
mod declaration;
pub mod display;
mod envelope;
mod filesystem;
mod fit;
mod format;
mod formats;
mod frames;
mod generated;
mod infer;
mod json;
#[cfg(feature = "kafka")]
mod kafka;
mod kept;
mod messages;
mod nexmark;
mod option_table;
#[cfg(feature = "columnar")]
mod parquet;
#[cfg(feature = "postgres")]
mod postgres;
mod print;
mod python;
mod random;
mod rate_limit;
mod raw;
mod records;
mod registry;
mod request;
mod row;
mod sink_job;
mod socket;
mod spans;
mod survivors;
mod text_chunk;
mod times;
mod unfit;
mod values;

pub use blackhole::{discarding_sink, encoding_sink};
pub use changes::with_kinds;
pub use fit::fit;
pub use frames::{Frame, FrameReader, FrameSplit, PlacedBatch, SplitKind, open_reader, open_splits};
pub use kept::InMemory;
pub use python::python_module;
pub use registry::{
    check_table_options, gives_changes, infer_columns, is_bounded, is_on_every_node, open_sink, open_source,
    options_reference_markdown, takes_changes, written_path,
};
pub use request::{ChangedBy, ColumnRequest, RequestOrigin, SinkRequest, SourceRequest};
pub use row::{RowDecoder, record_layout};
pub use sink_job::{
    Committed, Delivery, LostSink, RestoredSink, SharedBySinks, SharedPlace, SinkFiles, SinkJob, SinkWriter,
};
pub use text_chunk::{FileInfo, Framing, TextChunk};

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_buffer::BooleanBuffer;
use arrow_schema::SchemaRef;
use millstream_types::Diagnostic;
use millstream_types::Spare;
use serde_json::Value;
use std::any::Any;
use std::fmt::Debug;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

pub use filesystem::{file_options, release_standard_input, stdout_error, take_standard_input};

/// A table being read.
pub trait Source: Send {
    /// The splits, in a fixed order; called once.
    fn splits(&mut self) -> Result<Vec<Box<dyn SplitReader>>, Diagnostic>;

    /// The source is read by several processes, of which this one has that number: what it finds while it runs (splits in reserve) must be
    /// found by one of them. Called before [`Source::splits`].
    fn share(&mut self, _node: usize, _nodes: usize) {}

    /// The query is recovered from a checkpoint that has splits of these names. Called before [`Source::splits`].
    fn resumes(&mut self, _splits: &[&str]) {}

    /// The splits of all nodes, as the first one has told; called before [`Source::splits`]. What is not among them has come later, and is found
    /// while the query runs, if at all.
    fn agreed(&mut self, _splits: &[String]) {}

    /// The decoder of the chunks of every split.
    fn decoder(&self) -> Arc<dyn Decoder>;

    /// Whether the source ends by itself.
    fn is_bounded(&self) -> bool;

    /// Whether its splits may wait for the outside, so that all are read at the same time.
    fn waits(&self) -> bool {
        !self.is_bounded()
    }

    /// Whether its splits can be read again from a [`Position`]. Without that, rows that were read before a failure and are in
    /// no checkpoint are lost.
    fn is_replayable(&self) -> bool {
        false
    }

    /// Who tells the outside how far the source has been read for good; asked once, after [`Source::splits`].
    fn acknowledger(&self) -> Option<Box<dyn Acknowledger>> {
        None
    }
}

/// Tells the outside how far splits have been read, as consumer groups of Kafka want to know. Nothing depends on it:
/// positions are in the checkpoint.
pub trait Acknowledger: Send {
    /// A checkpoint with these positions, by names of splits, is complete. Called in the background; errors are warnings.
    fn acknowledge(&mut self, positions: &[(String, Position)]) -> Result<(), Diagnostic>;
}

/// A place in a split, behind a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Position {
    /// In the connector's unit: bytes of a (decompressed) file, rows or events that were generated, rows of a Parquet file, the
    /// offset of the next record of a Kafka partition.
    pub at: u64,
    /// For files of lines, the number of the next line, from 1, for messages; else 0, or what the format has to know there.
    pub line: u64,
}

/// Reads one split in order, on an I/O thread.
pub trait SplitReader: Send {
    /// Name of the split, for messages, statistics and checkpoints: a file path, a shard number, a topic with partition. No two
    /// splits of a source have the same. It may change once, before the first chunk, where a split waits for something to
    /// read.
    fn name(&self) -> &str;

    /// Whether it has nothing to read yet, and may never have: a split in reserve for parts of the source that are found
    /// later. It is not to hold a watermark back, and not part of a checkpoint, before it hands over its first chunk; its name
    /// changes just before that.
    fn is_spare(&self) -> bool {
        false
    }

    /// Whether [`SplitReader::wait`] and [`SplitReader::next`] return without waiting for anybody outside: rows in memory, and those that
    /// are generated. Such a split has no thread of its own: workers read it between their tasks, one at a time. It may still have to wait for
    /// a moment: see [`SplitReader::due`].
    fn never_waits(&self) -> bool {
        false
    }

    /// When the next chunk may be read, of readers that never wait but for a clock; a thread need not ask, as `next` waits for that moment.
    /// `None`: now.
    fn due(&mut self) -> Option<Instant> {
        None
    }

    /// Resumes after the position of an earlier chunk of the split of this name; called once, before anything else,
    /// when a query is recovered from a checkpoint. `None`: the split was not there then, and is read from its start,
    /// whatever the table's options say about where to start.
    ///
    /// Fails when the position does not exist any more. By default a split continues wherever it is.
    fn resume(&mut self, from: Option<Position>) -> Result<(), Diagnostic> {
        let _ = from;
        Ok(())
    }

    /// Who can say what was read, for checkpoints; asked once and before anything is read if there are any. `None`: nobody, so that a source
    /// that is replaced between two runs goes unnoticed.
    fn witness(&self) -> Option<Arc<dyn Witness>> {
        None
    }

    /// Whether what a checkpoint's [`Witness`] has described is still there; called before anything is read, also of a split that
    /// had been read to its end.
    fn verify(&self, described: &Value, has_ended: bool) -> Result<(), Diagnostic> {
        let (_, _) = (described, has_ended);
        Ok(())
    }

    /// Bounds the bytes of a record that the reader has to hold as a whole before it hands it over; called before the
    /// first chunk. By default there are no such records.
    fn limit_records(&mut self, bytes: usize) {
        let _ = bytes;
    }

    /// Asks for chunks of about `bytes` bytes; called before each. Readers whose format defines the chunks (row groups)
    /// ignore it.
    fn aim(&mut self, bytes: usize) {
        let _ = bytes;
    }

    /// Waits a moment, a second at most, until [`SplitReader::next`] need not wait for the outside; `false` while it
    /// would have to. A query that is to end does not ask again, so readers that may wait forever wait here.
    fn wait(&mut self) -> Result<bool, Diagnostic> {
        Ok(true)
    }

    /// Records that are there behind `after`, if it is known without asking: the lag. `after` is the place behind the last chunk that
    /// was taken, or where reading resumes; `None` is the start. Called after each wait.
    fn lag(&self, after: Option<Position>) -> Option<u64> {
        let _ = after;
        None
    }

    /// Why the outside does not answer, while it does not: for readers that wait for it to come back. Called after each wait.
    fn trouble(&self) -> Option<String> {
        None
    }

    /// How the watermark follows what is read. Called after each wait, and after each chunk, of whose rows it is said then.
    fn outlook(&self) -> Outlook {
        Outlook::Rows
    }

    /// The next chunk; blocks until there is one; `None` at the end. After an error it is not called again.
    fn next(&mut self) -> Result<Option<Chunk>, Diagnostic>;
}

/// How the watermark of a split follows what is read of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outlook {
    /// It is that of the rows.
    Rows,
    /// Something else is there to be read, of a time that nobody knows: rows do not raise it.
    Holds,
    /// All that was there has been handed over: it is that of all rows.
    Settled,
    /// The same, and nothing has come since: the split does not hold the watermark of a query back.
    Silent,
}

/// Says of a split what was read of it, so that a recovery notices that it is not the same any more.
pub trait Witness: Send + Sync + Debug {
    /// Describes what was read up to a position, or to the end; `None` if nothing was. Called in the background while the split is
    /// read, and after its end.
    fn describe(&self, at: Option<Position>, has_ended: bool) -> Option<Value>;
}

/// Undecoded input: about [`CHUNK_BYTES`] of a file or [`CHUNK_ROWS`] generated rows.
pub struct Chunk {
    /// What the decoder of the same source understands.
    pub payload: Box<dyn Any + Send>,
    /// Bytes read from outside for it, after decompression; 0 for generated rows.
    pub bytes: u64,
    /// Where reading resumes after it; every chunk of a replayable source has it.
    pub after: Option<Position>,
}

impl Chunk {
    /// What the reader of the same source has put in.
    pub(crate) fn content<T: Any>(self) -> Result<Box<T>, Diagnostic> {
        self.payload.downcast().map_err(|_| Diagnostic::bug("a decoder got a chunk of another source"))
    }
}

thread_local! {
    static COLUMNS: Spare<Vec<ArrayRef>> = const { Spare::new() };
}

/// An empty list of columns; for those of a chunk.
pub fn list_of_columns() -> Vec<ArrayRef> {
    COLUMNS.with(Spare::take)
}

/// Columns that nobody looks at any more: the memory of their list is used again.
pub fn drop_columns(columns: Vec<ArrayRef>) {
    COLUMNS.with(|spare| spare.give(columns));
}

/// Aim for the size of a chunk of bytes.
pub const CHUNK_BYTES: usize = 1 << 20;
/// Aim for the size of a chunk of generated rows.
pub const CHUNK_ROWS: usize = 16 << 10;

/// Turns chunks into columns; stateless, called by any worker at any time.
pub trait Decoder: Send + Sync {
    /// Decodes a chunk.
    fn decode(&self, chunk: Chunk) -> Decoded;

    /// Decodes a chunk for readers that drop rows first of all: only what survives is looked at of the columns that the
    /// filter does not need.
    ///
    /// The same as [`Decoder::decode`] in its rows, their order, `skipped` and errors, in the columns of the filter, and in
    /// all columns of rows that survive. What the other columns hold elsewhere is up to the decoder, but of their types, and
    /// not NULL where they are NOT NULL. Which input is malformed does not depend on the filter, so what can fail because of
    /// a value is decoded of all rows. (Parts of a damaged file that need not be read may go unnoticed, as those of columns
    /// that nobody wants do.)
    ///
    /// The filter is asked once at most, and not at all when there is nothing to leave out, as here.
    fn decode_survivors(&self, chunk: Chunk, filter: &mut dyn HeadFilter) -> Decoded {
        let _ = filter;
        self.decode(chunk)
    }

    /// Whether [`Decoder::decode_survivors`] leaves anything out: otherwise nobody need make a filter for it.
    fn can_skip(&self) -> bool {
        false
    }
}

/// Which rows of a chunk anybody looks at: what the filters at the head of all that reads a source let through.
pub trait HeadFilter {
    /// The requested columns, by position and ascending, that are needed of every row: what the filters look at, and what is
    /// looked at before them.
    fn columns(&self) -> &[usize];

    /// A bit for each of `rows` rows: whether it survives. `columns` are those of [`HeadFilter::columns`], whole. An error
    /// ends the query.
    fn survivors(&mut self, columns: &[ArrayRef], rows: usize) -> Result<BooleanBuffer, Diagnostic>;
}

/// The columns of a chunk.
#[derive(Debug, Default)]
pub struct Decoded {
    /// One for each requested column, each `rows` long.
    pub columns: Vec<ArrayRef>,
    /// Rows.
    pub rows: usize,
    /// Malformed records that were skipped, as the table's options ask for.
    pub skipped: u64,
    /// What is wrong with one of those.
    pub skipped_for: Option<Diagnostic>,
    /// A record that ends the query; `columns` hold the rows before it.
    pub error: Option<Diagnostic>,
    /// Where the rows are, if that is a table in memory.
    pub in_memory: Option<InMemory>,
}

impl Decoded {
    /// These columns, or what is wrong with them.
    pub(crate) fn of(
        columns: Result<Vec<ArrayRef>, Diagnostic>,
        rows: usize,
        skipped: u64,
        error: Option<Diagnostic>,
    ) -> Decoded {
        match columns {
            Ok(columns) => Decoded { columns, rows, skipped, error, ..Decoded::default() },
            Err(bug) => Decoded { skipped, error: error.or(Some(bug)), ..Decoded::default() },
        }
    }

    /// The same, with what is wrong with one of the records that were skipped.
    pub(crate) fn because(self, skipped_for: Option<Diagnostic>) -> Decoded {
        Decoded { skipped_for, ..self }
    }

    /// No rows, and what ends the query.
    pub(crate) fn failed(error: Diagnostic) -> Decoded {
        Decoded { error: Some(error), ..Decoded::default() }
    }
}

/// Encodes columns for a sink; stateless, called by any worker at any time.
pub trait Encoder: Send + Sync {
    /// Encodes `rows` rows of the sink's schema; of a result that changes, the kinds of change are one more column
    /// ([`SinkRequest::changes`]). The piece says how many rows are in it: some may be of no use to the sink.
    fn encode(&self, columns: &[ArrayRef], rows: usize) -> Result<Encoded, Diagnostic>;
}

/// A piece of output.
#[derive(Debug)]
pub enum Encoded {
    /// Text or binary records.
    Bytes {
        /// The records.
        data: Vec<u8>,
        /// How many.
        rows: usize,
    },
    /// Columns, for columnar sinks.
    Columns {
        /// The columns.
        columns: Vec<ArrayRef>,
        /// How many rows.
        rows: usize,
    },
}

impl Encoded {
    /// The records, for a sink that writes bytes.
    pub(crate) fn into_bytes(self) -> Result<Vec<u8>, Diagnostic> {
        match self {
            Encoded::Bytes { data, .. } => Ok(data),
            Encoded::Columns { .. } => Err(Diagnostic::bug("a sink of bytes got columns")),
        }
    }

    /// The columns as a batch of this schema, for a sink that hands on batches.
    pub fn into_batch(self, schema: &SchemaRef) -> Result<RecordBatch, Diagnostic> {
        let Encoded::Columns { columns, rows } = self else {
            return Err(Diagnostic::bug("a sink of columns got bytes"));
        };
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
            .map_err(|e| Diagnostic::bug(format!("the result does not have the announced columns: {e}")))
    }
}

/// Hands columns on as they are, to sinks that write columns.
#[derive(Debug, Clone, Copy)]
pub struct ColumnEncoder;

impl Encoder for ColumnEncoder {
    fn encode(&self, columns: &[ArrayRef], rows: usize) -> Result<Encoded, Diagnostic> {
        Ok(Encoded::Columns { columns: columns.to_vec(), rows })
    }
}

/// Writes encoded pieces in order; used by one thread at a time.
///
/// Under checkpoints ([`Sink::begin`]) the output falls into *spans*: what is written between two checkpoints. The life of a
/// span, of which the ones of two checkpoints overlap at most:
///
/// ```text
/// write…  → Sink::cut → Commit::prepare → (manifest is written) → Commit::commit
/// ```
///
/// After a failure the query resumes from a checkpoint: what was written after it must not be seen, and is written
/// again. A sink can keep that promise in one of two ways ([`Committed`]).
pub trait Sink: Send {
    /// The encoder of this sink's pieces.
    fn encoder(&self) -> Arc<dyn Encoder>;

    /// The one file that is written and replaced as a whole: no other sink of the same run may write it.
    fn file(&self) -> Option<&Path> {
        None
    }

    /// What would be replaced at the end without permission: a query that does not resume it must not begin.
    fn replaces(&self) -> Option<&Path> {
        None
    }

    /// Writes a piece. Blocks while the outside is slow.
    fn write(&mut self, piece: Encoded) -> Result<(), Diagnostic>;

    /// All that has been written so far is the changes of whole beats: what a reader may see. Called where a beat ends, in order with
    /// [`Sink::write`]; sinks of queries whose rows only come are never told.
    fn end_beat(&mut self) -> Result<(), Diagnostic> {
        Ok(())
    }

    /// Hands what was written so far to the reader, as far as the sink can without ending (a flush of stdout).
    fn flush(&mut self) -> Result<(), Diagnostic>;

    /// Makes everything written visible, at the end of the query. A sink that is dropped without it has been aborted
    /// and leaves nothing half-written; what spans have been prepared stays as it is. Under checkpoints it comes after the
    /// commit of the last span, behind which nothing was written.
    fn finish(self: Box<Self>) -> Result<(), Diagnostic>;

    /// Puts something outside that sinks of the same table on other nodes have to find ([`Sink::meet`]), or their rows would come somewhere
    /// else; what it is called. `None`: wherever they are, they write to the same place.
    fn share(&self) -> Result<Option<SharedPlace>, Diagnostic> {
        Ok(None)
    }

    /// Looks for what the sink of the first node has put outside.
    fn meet(&self, name: &str) -> Result<(), Diagnostic> {
        let _ = name;
        Ok(())
    }

    /// What the sink can promise under checkpoints.
    fn delivery(&self) -> Delivery {
        Delivery::AtLeastOnce
    }

    /// Which span was committed last, as the outside knows; asked once, before [`Sink::begin`], by a query that is
    /// recovered. It also ends what an earlier process of the same job may still be writing (fencing).
    fn committed(&mut self, job: &SinkJob) -> Result<Committed, Diagnostic> {
        let _ = job;
        Ok(Committed::Resumable)
    }

    /// Says that there will be checkpoints; called once, before the first piece. If the job is `restored`, the spans of that
    /// checkpoint are committed with their tokens, unless they were before, and whatever later spans have left is removed. All that is
    /// done on the first node, for the others too: one of these is never `restored`, and begins when the first one has.
    fn begin(&mut self, job: &SinkJob, restored: Option<&RestoredSink>) -> Result<(), Diagnostic> {
        let (_, _) = (job, restored);
        Ok(())
    }

    /// Commits the last spans of sinks of the same table on other nodes, with their tokens: they have been prepared, and their nodes have
    /// ended.
    fn commit_of_others(&mut self, tokens: &[Value]) -> Result<(), Diagnostic> {
        let _ = tokens;
        Err(Diagnostic::bug("this sink is on one node only"))
    }

    /// Another process takes the place of a node, where the sink of the same table has been lost: commits the span that it has prepared for the
    /// last complete checkpoint, unless that has been done, and removes what it has left of later ones.
    fn succeed(&mut self, lost: &LostSink<'_>) -> Result<(), Diagnostic> {
        lost.token.map_or(Ok(()), |_| Err(Diagnostic::bug("a sink without spans has prepared one")))
    }

    /// Ends the span of a checkpoint: the pieces before it are in the span, those after it in the next. Quick, because a
    /// worker waits: the work is done by the [`Commit`]. By default what was written is flushed, and visible at once.
    fn cut(&mut self, checkpoint: u64) -> Result<Option<Box<dyn Commit>>, Diagnostic> {
        let _ = checkpoint;
        self.flush()?;
        Ok(None)
    }
}

/// The span of a checkpoint, on its way; used by the checkpointing thread. Spans are committed in order, each before the next is
/// prepared. One that is dropped without [`Commit::commit`] is left to the next recovery, and none follows it.
pub trait Commit: Send {
    /// Makes the span durable, but not visible. Returns its token: what a later process needs to commit it, and for
    /// messages.
    fn prepare(&mut self) -> Result<Value, Diagnostic>;

    /// Whether only this process can commit what was prepared. Such spans are committed first: the others of the checkpoint can
    /// follow with their tokens, whatever happens, but not be taken back.
    fn dies_with_process(&self) -> bool {
        false
    }

    /// Makes it visible; the manifest with the token has been written. An error ends the query, which can be recovered.
    fn commit(self: Box<Self>) -> Result<(), Diagnostic>;
}

/// The lock of a mutex, whatever became of who held it before.
pub(crate) fn locked<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
