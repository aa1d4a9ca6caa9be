//! Finds the blocks of a container file.

use super::super::cursor::{Cursor, ENDS, Fault, MORE_ELEMENTS};
use super::super::decode::AvroRecordReader;
use super::super::schema::AvroSchema;
use super::codec::{CODECS, Codec};
use super::{MAGIC, MARKER_BYTES};
use crate::records::{Framer, MAX_RECORD_BYTES, RowBlock, RowCount};
use crate::text_chunk::FileInfo;
use crate::unfit::sniffed;
use crate::{Chunk, Position};
use arrow_buffer::Buffer;
use millstream_types::{Diagnostic, Place, code};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Bytes of the longest header that is read: what its schema becomes in memory is larger.
const MOST_HEADER_BYTES: usize = 4 << 20;

/// What a file says before its blocks.
#[derive(Debug)]
pub(super) struct Header {
    /// The JSON form.
    pub text: String,
    pub schema: AvroSchema,
    pub codec: Codec,
    marker: [u8; MARKER_BYTES],
    /// Of the table that is read, or why it cannot be; made by the first worker that needs it.
    pub reader: OnceLock<Result<AvroRecordReader, String>>,
}

/// A block as it came.
#[derive(Debug, Clone)]
pub(in crate::avro) struct AvroBlock {
    /// The bytes of the whole chunk, the same for all of its blocks.
    pub(super) chunk: Buffer,
    /// Those of the block.
    pub(super) bytes: Range<usize>,
    /// Records in it.
    pub(super) count: usize,
    /// Place in the file of what `bytes` begins with.
    pub(super) offset: u64,
    pub(super) header: Arc<Header>,
    /// The records of it that are wanted.
    rows: Range<usize>,
}

impl RowBlock for AvroBlock {
    fn rows(&self) -> &Range<usize> {
        &self.rows
    }

    fn rows_mut(&mut self) -> &mut Range<usize> {
        &mut self.rows
    }
}

/// A block in the bytes that were received.
struct BlockSpan {
    bytes: Range<usize>,
    count: usize,
}

/// See the module.
#[derive(Default)]
pub(super) struct AvroFramer {
    info: Arc<FileInfo>,
    /// Bytes before those of the next chunk.
    offset: u64,
    /// Shared with whoever only wants the header.
    header: Arc<OnceLock<Arc<Header>>>,
    /// The blocks found behind the last chunk.
    spans: Vec<BlockSpan>,
    /// Where the next block begins there.
    next: usize,
    count: RowCount,
}

impl AvroFramer {
    /// A framer at the start of a file.
    pub(super) fn new(info: Arc<FileInfo>) -> AvroFramer {
        AvroFramer { info, ..AvroFramer::default() }
    }

    /// Where the header appears once it has been read.
    pub(super) fn header(&self) -> Arc<OnceLock<Arc<Header>>> {
        self.header.clone()
    }

    fn damaged(&self, at: usize, what: &str) -> Diagnostic {
        damaged(&self.info, self.offset + at as u64, what)
    }

    /// The header, and where it ends; `None` while there is less than the whole.
    fn find_header(&self, data: &[u8]) -> Result<Option<(Header, usize)>, Diagnostic> {
        let begun = data.len().min(MAGIC.len());
        if data[..begun] != MAGIC[..begun] {
            let message = "the input is no Avro container file: it does not start with 'Obj' and a byte 1";
            let advice = "see whether 'format' is right; records of Avro without a container are read as messages only (connector 'kafka')";
            let advice = sniffed(&self.info.path).unwrap_or_else(|| advice.into());
            return Err(Diagnostic::new(code::MALFORMED_FILE, message).at(place(&self.info, 0)).advise(advice));
        }
        let mut cursor = Cursor::new(data, begun..data.len());
        match read_header(&mut cursor) {
            Ok(parts) => Ok(Some((self.understood(parts)?, cursor.at))),
            Err(fault) if data.len() < MOST_HEADER_BYTES && [ENDS, MORE_ELEMENTS].contains(&fault) => Ok(None),
            Err(fault) => Err(self.damaged(cursor.at, &format!("its header: {fault}"))),
        }
    }

    fn understood(&self, parts: HeaderParts) -> Result<Header, Diagnostic> {
        let codec = parts.codec.as_deref().map_or(Some(Codec::Null), Codec::named).ok_or_else(|| {
            let name = String::from_utf8_lossy(parts.codec.as_deref().unwrap_or_default()).into_owned();
            let message = format!("the file's blocks are compressed by '{name}', which cannot be read");
            let known: Vec<&str> = CODECS.iter().map(|(name, _)| *name).collect();
            let advice = format!("write it with another codec: {}", known.join(", "));
            Diagnostic::new(code::MALFORMED_FILE, message).at(place(&self.info, 0)).advise(advice)
        })?;
        let text = parts.schema.ok_or_else(|| self.damaged(0, "its header has no schema"))?;
        let text = String::from_utf8(text).map_err(|_| self.damaged(0, "its schema is not UTF-8"))?;
        let schema = AvroSchema::parse(&text).map_err(|why| self.damaged(0, &format!("its schema: {why}")))?;
        Ok(Header { text, schema, codec, marker: parts.marker, reader: OnceLock::new() })
    }

    /// The next block; `None` while there is less than the whole.
    fn find_block(&self, data: &[u8], header: &Header) -> Result<Option<BlockSpan>, Diagnostic> {
        let start = self.next;
        let mut cursor = Cursor::new(data, start..data.len());
        let (count, size) = match cursor.long().and_then(|count| Ok((count, cursor.long()?))) {
            Ok(numbers) => numbers,
            Err(ENDS) => return Ok(None),
            Err(fault) => return Err(self.damaged(start, &format!("a block: {fault}"))),
        };
        let count = usize::try_from(count).ok().filter(|count| u32::try_from(*count).is_ok());
        let size = usize::try_from(size).ok().filter(|size| *size <= MAX_RECORD_BYTES);
        let (Some(count), Some(size)) = (count, size) else {
            return Err(self.damaged(start, "the size of a block is impossible"));
        };
        let bytes = cursor.at..cursor.at + size;
        let Some(marker) = data.get(bytes.end..bytes.end + MARKER_BYTES) else { return Ok(None) };
        if marker != header.marker {
            let what = format!("the block at byte {} does not end with the file's marker", self.offset + start as u64);
            return Err(self.damaged(bytes.end, &what));
        }
        Ok(Some(BlockSpan { bytes, count }))
    }
}

/// What is used of a header.
struct HeaderParts {
    schema: Option<Vec<u8>>,
    codec: Option<Vec<u8>>,
    marker: [u8; MARKER_BYTES],
}

fn read_header(cursor: &mut Cursor<'_>) -> Result<HeaderParts, Fault> {
    let (mut schema, mut codec) = (None, None);
    cursor.blocks(|cursor| {
        let (key, value) = (cursor.bytes()?, cursor.bytes()?);
        match key {
            b"avro.schema" => schema = Some(value.to_vec()),
            b"avro.codec" => codec = Some(value.to_vec()),
            _ => {}
        }
        Ok(())
    })?;
    Ok(HeaderParts { schema, codec, marker: cursor.array()? })
}

impl Framer for AvroFramer {
    fn last_end(&mut self, data: &[u8], from: usize) -> Result<Option<usize>, Diagnostic> {
        if from == 0 {
            self.spans.clear();
            self.next = 0;
        }
        if self.header.get().is_none() {
            let Some((header, end)) = self.find_header(data)? else { return Ok(None) };
            self.header.get_or_init(|| Arc::new(header));
            self.next = end;
        }
        if let Some(header) = self.header.get().cloned() {
            while self.next < data.len() {
                let Some(span) = self.find_block(data, &header)? else { break };
                self.next = span.bytes.end + MARKER_BYTES;
                self.spans.push(span);
            }
        }
        Ok((self.next > 0).then_some(self.next))
    }

    fn chunk(&mut self, data: Buffer) -> Result<Option<Chunk>, Diagnostic> {
        let mut blocks = Vec::with_capacity(self.spans.len());
        if let Some(header) = self.header.get() {
            for BlockSpan { bytes, count } in std::mem::take(&mut self.spans) {
                let offset = self.offset + bytes.start as u64;
                let (chunk, header) = (data.clone(), header.clone());
                let block = AvroBlock { chunk, bytes, count, offset, header, rows: 0..count };
                blocks.extend(self.count.unread(block));
            }
        }
        self.offset += data.len() as u64;
        Ok(self.count.chunk(blocks, data.len(), &self.info))
    }

    fn rest(&mut self, data: Buffer) -> Result<Option<Chunk>, Diagnostic> {
        let part = match self.header.get() {
            None => "header",
            Some(_) => "block",
        };
        let message = format!("the Avro file ends in the middle of a {part}, {} bytes into it", data.len());
        Err(Diagnostic::new(code::MALFORMED_FILE, message)
            .at(place(&self.info, self.offset))
            .advise("see why its writer did not write it to the end, or fetch the file again"))
    }

    fn resume(&mut self, from: Position) -> u64 {
        self.count.resume(from);
        0
    }

    fn end(&self) -> Result<(), Diagnostic> {
        self.count.end(&self.info.path)
    }

    fn endless_record(&self) -> Diagnostic {
        self.damaged(0, &format!("a block is longer than {} MiB", MAX_RECORD_BYTES >> 20))
    }
}

/// A place in a file.
pub(super) fn place(info: &FileInfo, offset: u64) -> Place {
    Place::Data { resource: info.path.clone(), offset: Some(offset), line: None, column: None }
}

/// The error for bytes that make no sense.
pub(super) fn damaged(info: &FileInfo, offset: u64, what: &str) -> Diagnostic {
    Diagnostic::new(code::MALFORMED_FILE, format!("the Avro file is damaged: {what}"))
        .at(place(info, offset))
        .advise("write or fetch the file again")
}
