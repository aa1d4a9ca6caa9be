//! Finds the messages of an Arrow stream, and keeps what its record batches refer to: the schema and dictionaries.
//!
//! ```text
//! message:  FF FF FF FF | length of the header, 4 bytes | header (flatbuffer), padded | body, padded
//! stream:   schema message, then dictionary and record batch messages; a header of length 0 ends it
//! file:     "ARROW1" 0 0, padding, a stream, a footer that says where its messages are
//! ```
//! All lengths are multiples of 8, so messages lie aligned in a block that begins with one.

use crate::fit::guarded;
use crate::records::{Framer, MAX_RECORD_BYTES, RowBlock, RowBlocks, RowCount};
use crate::text_chunk::FileInfo;
use crate::unfit::sniffed;
use crate::{Chunk, Position};
use arrow_array::ArrayRef;
use arrow_buffer::Buffer;
use arrow_ipc::convert::fb_to_schema;
use arrow_ipc::reader::read_dictionary;
use arrow_ipc::{Message, MessageHeader, RecordBatch, root_as_message};
use arrow_schema::{DataType, FieldRef, Schema, SchemaRef};
use millstream_types::{Diagnostic, Place, code};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// What a file starts with.
const FILE_MAGIC: &[u8] = b"ARROW1\0\0";
/// What a message starts with.
const CONTINUATION: &[u8] = &[0xff; 4];
/// The continuation and the length of the header.
const PREFIX: usize = 8;

/// Record batches of one stream.
pub(super) type ArrowChunk = RowBlocks<Batch>;

/// A record batch as it came.
#[derive(Clone)]
pub(super) struct Batch {
    /// Flatbuffer of a message with a record batch.
    pub header: Buffer,
    pub body: Buffer,
    pub context: Arc<Context>,
    /// Its place in the stream.
    pub offset: u64,
    /// The rows of it that are wanted.
    pub rows: Range<usize>,
}

impl RowBlock for Batch {
    fn rows(&self) -> &Range<usize> {
        &self.rows
    }

    fn rows_mut(&mut self) -> &mut Range<usize> {
        &mut self.rows
    }
}

/// What was said in a stream before a record batch.
#[derive(Clone)]
pub(super) struct Context {
    pub schema: SchemaRef,
    pub dictionaries: HashMap<i64, ArrayRef>,
}

/// A message in a block.
struct Span {
    start: usize,
    header: Range<usize>,
    body: Range<usize>,
}

/// What stands at a place of a block.
enum Found {
    Message(Span),
    /// The mark that ends a stream.
    End,
    /// Eight bytes between a file's first ones and its stream.
    Padding,
    /// Less than a message.
    Part,
}

/// See the module.
#[derive(Default)]
pub(crate) struct ArrowFramer {
    info: Arc<FileInfo>,
    /// Bytes before the block.
    offset: u64,
    has_begun: bool,
    is_file: bool,
    /// The stream in a file has ended; what follows is its footer.
    in_footer: bool,
    context: Option<Arc<Context>>,
    /// The messages of the block that were found so far.
    spans: Vec<Span>,
    /// Where the next message of the block begins.
    next: usize,
    count: RowCount,
}

impl ArrowFramer {
    /// A framer at the start of a stream.
    pub(crate) fn new(info: Arc<FileInfo>) -> ArrowFramer {
        ArrowFramer { info, ..ArrowFramer::default() }
    }

    fn damaged(&self, at: usize, what: &str) -> Diagnostic {
        damaged(&self.info, self.offset + at as u64, what)
    }

    fn find(&self, data: &[u8], start: usize) -> Result<Found, Diagnostic> {
        let rest = &data[start..];
        if self.is_file && self.context.is_none() && self.spans.is_empty() && rest[0] == 0 {
            return Ok(if rest.len() < PREFIX { Found::Part } else { Found::Padding });
        }
        let begun = rest.len().min(CONTINUATION.len());
        if rest[..begun] != CONTINUATION[..begun] {
            return Err(self.damaged(start, "a message does not start with FF FF FF FF"));
        }
        let Some(Ok(length)) = rest.get(CONTINUATION.len()..PREFIX).map(<[u8; 4]>::try_from) else {
            return Ok(Found::Part);
        };
        let too_long = || self.damaged(start, "the length of a message is impossible");
        let length = usize::try_from(i32::from_le_bytes(length)).map_err(|_| too_long())?;
        if length == 0 {
            return Ok(Found::End);
        }
        if length > MAX_RECORD_BYTES {
            return Err(too_long());
        }
        let header = start + PREFIX..start + PREFIX + length;
        let Some(bytes) = data.get(header.clone()) else { return Ok(Found::Part) };
        let message = root_as_message(bytes).map_err(|e| self.damaged(start, &e.to_string()))?;
        let length = usize::try_from(message.bodyLength()).ok().filter(|length| *length <= MAX_RECORD_BYTES);
        let body = header.end..header.end + length.ok_or_else(too_long)?;
        if body.end > data.len() {
            return Ok(Found::Part);
        }
        Ok(Found::Message(Span { start, header, body }))
    }

    /// Takes note of a schema or a dictionary; gives a record batch back.
    fn take(&mut self, data: &Buffer, span: &Span) -> Result<Option<Batch>, Diagnostic> {
        let header = data.slice_with_length(span.header.start, span.header.len());
        let body = data.slice_with_length(span.body.start, span.body.len());
        let message = root_as_message(&header).map_err(|e| self.damaged(span.start, &e.to_string()))?;
        if message.header_type() == MessageHeader::Schema {
            self.start_stream(&message, span.start)?;
            return Ok(None);
        }
        let Some(context) = &mut self.context else {
            return Err(self.damaged(span.start, "there is no schema before the first data"));
        };
        match message.header_type() {
            MessageHeader::DictionaryBatch => {
                let context = Arc::make_mut(context);
                let read = guarded(|| {
                    let batch = message.header_as_dictionary_batch().ok_or("a dictionary has no contents")?;
                    let Context { schema, dictionaries } = context;
                    read_dictionary(&body, batch, schema, dictionaries, &message.version()).map_err(|e| e.to_string())
                });
                read.map_err(|e| self.damaged(span.start, &e))?;
                Ok(None)
            }
            MessageHeader::RecordBatch => {
                let context = context.clone();
                let rows =
                    message.header_as_record_batch().and_then(|batch| rows_of(&batch, body.len(), &context.schema));
                let rows =
                    0..rows.ok_or_else(|| self.damaged(span.start, "the length of a record batch is impossible"))?;
                let offset = self.offset + span.start as u64;
                Ok(Some(Batch { header, body, context, offset, rows }))
            }
            other => Err(self.damaged(span.start, &format!("messages of the kind {other:?} are not understood"))),
        }
    }

    /// Takes the schema. Streams may follow each other, if they are alike.
    fn start_stream(&mut self, message: &Message<'_>, at: usize) -> Result<(), Diagnostic> {
        let schema = guarded::<_, String>(|| {
            let schema = message.header_as_schema().ok_or("a schema has no contents")?;
            Ok(Arc::new(fb_to_schema(schema)))
        });
        let schema: SchemaRef = schema.map_err(|e| self.damaged(at, &e))?;
        if let Some(before) = &self.context
            && before.schema.fields() != schema.fields()
        {
            let names = |schema: &SchemaRef| {
                schema.fields().iter().map(|f| format!("{} {}", f.name(), f.data_type())).collect::<Vec<_>>().join(", ")
            };
            let (now, before) = (names(&schema), names(&before.schema));
            let message = format!("the schema changes within the stream: first ({before}), then ({now})");
            return Err(Diagnostic::new(code::MALFORMED_FILE, message)
                .at(place(&self.info, Some(self.offset + at as u64), None))
                .advise("write streams of different schemas to different tables"));
        }
        self.context = Some(Arc::new(Context { schema, dictionaries: HashMap::new() }));
        Ok(())
    }
}

/// The rows of a record batch; `None` if it cannot have that many. Nothing else checks this when no column is wanted.
fn rows_of(batch: &RecordBatch<'_>, bytes: usize, schema: &Schema) -> Option<usize> {
    let rows = usize::try_from(batch.length()).ok()?;
    let has_buffers = |field: &FieldRef| {
        let data_type = field.data_type();
        data_type.is_primitive() || data_type.is_string() || *data_type == DataType::Boolean
    };
    // The least is a bit of a BOOLEAN. Columns may be NULL without a byte.
    let most = match batch.compression().is_none() && schema.fields().iter().any(has_buffers) {
        true => bytes.saturating_mul(8),
        false => u32::MAX as usize,
    };
    let first = batch.nodes().filter(|nodes| !nodes.is_empty()).map(|nodes| nodes.get(0).length());
    (rows <= most && first.is_none_or(|length| length == batch.length())).then_some(rows)
}

impl Framer for ArrowFramer {
    fn last_end(&mut self, data: &[u8], from: usize) -> Result<Option<usize>, Diagnostic> {
        if from == 0 {
            self.spans.clear();
            self.next = 0;
        }
        if !self.has_begun && self.next == 0 && data[0] == FILE_MAGIC[0] {
            let begun = data.len().min(FILE_MAGIC.len());
            if data[..begun] != FILE_MAGIC[..begun] {
                return Err(self.damaged(0, "it starts with neither FF FF FF FF nor ARROW1"));
            }
            if begun < FILE_MAGIC.len() {
                return Ok(None);
            }
            self.is_file = true;
            self.next = FILE_MAGIC.len();
        }
        while !self.in_footer && self.next < data.len() {
            match self.find(data, self.next)? {
                Found::Message(span) => {
                    self.next = span.body.end;
                    self.spans.push(span);
                }
                Found::End => {
                    self.next += PREFIX;
                    self.in_footer = self.is_file;
                }
                Found::Padding => self.next += PREFIX,
                Found::Part => break,
            }
        }
        if self.in_footer {
            self.next = data.len();
        }
        Ok((self.next > 0).then_some(self.next))
    }

    fn chunk(&mut self, data: Buffer) -> Result<Option<Chunk>, Diagnostic> {
        self.has_begun = true;
        let mut batches = Vec::new();
        for span in std::mem::take(&mut self.spans) {
            let batch = self.take(&data, &span)?;
            batches.extend(batch.and_then(|batch| self.count.unread(batch)));
        }
        self.offset += data.len() as u64;
        Ok(self.count.chunk(batches, data.len(), &self.info))
    }

    fn rest(&mut self, _: Buffer) -> Result<Option<Chunk>, Diagnostic> {
        let message = "the Arrow stream ends in the middle of a message";
        Err(Diagnostic::new(code::MALFORMED_FILE, message)
            .at(place(&self.info, Some(self.offset), None))
            .advise("see why its producer did not write it to the end"))
    }

    fn resume(&mut self, from: Position) -> u64 {
        self.count.resume(from);
        0
    }

    fn end(&self) -> Result<(), Diagnostic> {
        self.count.end(&self.info.path)
    }

    fn endless_record(&self) -> Diagnostic {
        self.damaged(0, &format!("a message is longer than {} MiB", MAX_RECORD_BYTES >> 20))
    }
}

/// A place in a stream.
pub(super) fn place(info: &FileInfo, offset: Option<u64>, column: Option<String>) -> Place {
    Place::Data { resource: info.path.clone(), offset, line: None, column }
}

/// The error for bytes that make no sense.
pub(super) fn damaged(info: &FileInfo, offset: u64, what: &str) -> Diagnostic {
    let message = format!("the input is damaged or no Arrow stream: {what}");
    let diagnostic = Diagnostic::new(code::MALFORMED_FILE, message).at(place(info, Some(offset), None));
    match sniffed(&info.path).filter(|_| offset == 0) {
        Some(advice) => diagnostic.advise(advice),
        None => diagnostic,
    }
}
