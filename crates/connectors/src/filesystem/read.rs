//! Reads a text file, compressed or not, and cuts it into chunks of whole records.

use super::block::{Block, BlockPool};
use super::discover::{InputFile, read_error};
use crate::text_chunk::{FileInfo, FrameScanner, Framing, TextChunk};
use crate::{CHUNK_BYTES, Chunk, SplitReader};
use arrow_buffer::Buffer;
use millstream_types::{Diagnostic, Place, code};
use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;

/// Longest record that is accepted; positions in a chunk must stay below 4 GiB.
const MAX_RECORD_BYTES: usize = 256 << 20;

/// How files start that a user may take for text, what they are, and what to do.
const NOT_TEXT: &[(&[u8], &str, &str)] = &[
    (b"\x1f\x8b", "gzip data", "let its name end in .gz, so that it is decompressed"),
    (b"\x28\xb5\x2f\xfd", "zstd data", "let its name end in .zst, so that it is decompressed"),
    (b"PAR1", "Parquet", "use 'format' = 'parquet'"),
    (b"\xff\xfe", "UTF-16", "convert it to UTF-8"),
    (b"\xfe\xff", "UTF-16", "convert it to UTF-8"),
];

/// Compression of a file, known by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    /// Plain.
    None,
    /// `.gz`
    Gzip,
    /// `.zst` or `.zstd`
    Zstd,
}

impl Compression {
    /// By the end of a file's name.
    pub(crate) fn of(name: &str) -> Compression {
        let name = name.to_ascii_lowercase();
        if name.ends_with(".gz") || name.ends_with(".gzip") {
            Compression::Gzip
        } else if name.ends_with(".zst") || name.ends_with(".zstd") {
            Compression::Zstd
        } else {
            Compression::None
        }
    }
}

/// The split of one text file.
pub(super) struct TextReader {
    file: InputFile,
    info: Arc<FileInfo>,
    framing: Framing,
    compression: Compression,
    state: State,
    /// The start of a record whose end was not yet read.
    carry: Vec<u8>,
    pool: BlockPool,
    offset: u64,
    line: u64,
}

enum State {
    /// Files are opened when their turn comes, so that a directory of many files needs few descriptors.
    Closed,
    Open(Box<dyn Read + Send>),
    Ended,
}

impl TextReader {
    pub(super) fn new(file: InputFile, framing: Framing) -> TextReader {
        let compression = if file.path.is_some() { Compression::of(&file.info.name) } else { Compression::None };
        let info = Arc::new(file.info.clone());
        let (carry, pool) = (Vec::new(), BlockPool::default());
        TextReader { file, info, framing, compression, state: State::Closed, carry, pool, offset: 0, line: 1 }
    }

    fn open(&self) -> Result<Box<dyn Read + Send>, Diagnostic> {
        let Some(path) = &self.file.path else { return Ok(Box::new(io::stdin())) };
        let failed = |e: io::Error| read_error(&self.info.path, &e);
        let file = File::open(path).map_err(failed)?;
        Ok(match self.compression {
            Compression::None => Box::new(file),
            Compression::Gzip => {
                Box::new(flate2::bufread::MultiGzDecoder::new(io::BufReader::with_capacity(1 << 17, file)))
            }
            Compression::Zstd => Box::new(zstd::stream::read::Decoder::new(file).map_err(failed)?),
        })
    }

    /// An error of the operating system is a failed read; anything else was found by the decompressor.
    fn failed(&self, error: &io::Error) -> Diagnostic {
        if self.compression == Compression::None || error.raw_os_error().is_some() {
            return read_error(&self.info.path, error);
        }
        let kind = if self.compression == Compression::Gzip { "gzip" } else { "zstd" };
        let what = if error.kind() == io::ErrorKind::UnexpectedEof {
            "ends too early".to_string()
        } else {
            format!("is damaged: {error}")
        };
        let offset = Some(self.offset + self.carry.len() as u64);
        let place = Place::Data { resource: self.info.path.clone(), offset, line: None, column: None };
        Diagnostic::new(code::MALFORMED_FILE, format!("the {kind} file {what}"))
            .at(place)
            .advise("fetch or compress the file again")
    }

    /// Reads until the block is full, or once if bytes come as they are written. `false` at the end of the file.
    fn fill(&self, reader: &mut dyn Read, block: &mut Block, until: usize) -> Result<bool, Diagnostic> {
        loop {
            match reader.read(block.room(until)) {
                Ok(0) => return Ok(false),
                Ok(read) => block.advance(read),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(self.failed(&e)),
            }
            if block.bytes().len() == until || self.file.stream {
                return Ok(true);
            }
        }
    }

    /// The next block that ends at a record's end or the end of the file, and whether there is more.
    fn block(&mut self, reader: &mut dyn Read) -> Result<(Block, bool), Diagnostic> {
        let mut target = CHUNK_BYTES.max(self.carry.len() + CHUNK_BYTES / 2);
        let mut block = self.pool.take();
        block.extend(&self.carry);
        let mut scanner = FrameScanner::default();
        let mut scanned = 0;
        loop {
            let more = self.fill(reader, &mut block, target)?;
            if !more {
                self.carry.clear();
                return Ok((block, false));
            }
            if let Some(end) = scanner.last_end(&self.framing, block.bytes(), scanned) {
                self.carry.clear();
                self.carry.extend_from_slice(&block.bytes()[end..]);
                block.truncate(end);
                return Ok((block, true));
            }
            scanned = block.bytes().len();
            if scanned >= MAX_RECORD_BYTES {
                return Err(self.endless_record());
            }
            if scanned == target {
                target = (target * 2).min(MAX_RECORD_BYTES);
            }
        }
    }

    fn endless_record(&self) -> Diagnostic {
        let place = Place::Data {
            resource: self.info.path.clone(),
            offset: Some(self.offset),
            line: Some(self.line),
            column: None,
        };
        Diagnostic::new(code::MALFORMED_RECORD, format!("a record is longer than {} MiB", MAX_RECORD_BYTES >> 20))
            .at(place)
            .advise("check that the file has one record per line and that quotes are closed")
    }

    /// Cuts a byte order mark and a header off the first block; fails if it is not the start of a text.
    fn start_of_file(&mut self, mut data: Buffer) -> Result<Buffer, Diagnostic> {
        if let Some((_, kind, advice)) = NOT_TEXT.iter().find(|(magic, ..)| data.starts_with(magic)) {
            let place = Place::Data { resource: self.info.path.clone(), offset: Some(0), line: None, column: None };
            let message = format!("the file is {kind}, not text");
            return Err(Diagnostic::new(code::MALFORMED_FILE, message).at(place).advise(*advice));
        }
        if data.starts_with(b"\xef\xbb\xbf") {
            data = data.slice(3);
            self.offset += 3;
        }
        if self.framing.header {
            let mut rest = TextChunk { data, offset: self.offset, line: self.line, file: self.info.clone() };
            rest.split_front(&self.framing, 1);
            self.offset = rest.offset;
            self.line = rest.line;
            data = rest.data;
        }
        Ok(data)
    }
}

impl SplitReader for TextReader {
    fn name(&self) -> &str {
        self.info.path.as_str()
    }

    fn next(&mut self) -> Result<Option<Chunk>, Diagnostic> {
        let mut first = false;
        loop {
            let mut reader = match std::mem::replace(&mut self.state, State::Ended) {
                State::Ended => return Ok(None),
                State::Open(reader) => reader,
                State::Closed => {
                    first = true;
                    self.open()?
                }
            };
            let (block, more) = self.block(&mut *reader)?;
            if more {
                self.state = State::Open(reader);
            }
            let bytes = block.bytes().len() as u64;
            let mut data = block.into_buffer();
            if first {
                data = self.start_of_file(data)?;
                first = false;
            }
            if data.is_empty() {
                continue;
            }
            let chunk = TextChunk { data, offset: self.offset, line: self.line, file: self.info.clone() };
            self.offset += chunk.data.len() as u64;
            self.line += memchr::memchr_iter(b'\n', &chunk.data).count() as u64;
            return Ok(Some(Chunk { payload: Box::new(chunk), bytes }));
        }
    }
}
