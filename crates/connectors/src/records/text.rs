//! Streams of records that end with line feeds or have a length.

use super::{Framer, MAX_RECORD_BYTES};
use crate::text_chunk::{FileInfo, FrameScanner, Framing, TextChunk};
use crate::{Chunk, Position};
use arrow_buffer::Buffer;
use millstream_types::{Diagnostic, Place, code};
use std::sync::Arc;

/// How streams start that a user may take for text, what they are, and what to do.
const NOT_TEXT: &[(&[u8], &str, &str)] = &[
    (b"\x1f\x8b", "gzip data", "decompress it, or let the file's name end in .gz, so that it is decompressed"),
    (b"\x28\xb5\x2f\xfd", "zstd data", "decompress it, or let the file's name end in .zst, so that it is decompressed"),
    (b"PAR1", "Parquet", "use 'format' = 'parquet'"),
    (b"ARROW1", "an Arrow file", "use 'format' = 'arrow'"),
    (b"Obj\x01", "an Avro file", "use 'format' = 'avro'"),
    (b"\xff\xff\xff\xff", "an Arrow stream", "use 'format' = 'arrow'"),
    (b"\xff\xfe", "UTF-16", "convert it to UTF-8"),
    (b"\xfe\xff", "UTF-16", "convert it to UTF-8"),
];

/// Finds the ends of records, and keeps count of bytes and lines for messages.
pub(crate) struct TextFramer {
    info: Arc<FileInfo>,
    framing: Framing,
    scanner: FrameScanner,
    at_start: bool,
    offset: u64,
    line: u64,
    check_header: Option<HeaderCheck>,
}

/// Looks at the header of a stream.
pub(crate) type HeaderCheck = Arc<dyn Fn(&[u8]) -> Result<(), Diagnostic> + Send + Sync>;

impl TextFramer {
    /// A framer at the start of a stream.
    pub(crate) fn new(info: Arc<FileInfo>, framing: Framing) -> TextFramer {
        TextFramer {
            info,
            framing,
            scanner: FrameScanner::default(),
            at_start: true,
            offset: 0,
            line: 1,
            check_header: None,
        }
    }

    /// Has headers looked at.
    pub(crate) fn checking(self, check: HeaderCheck) -> TextFramer {
        TextFramer { check_header: Some(check), ..self }
    }

    /// Has the records that follow have no lines: between them are line feeds that the stream does not have. Positions have `kept` instead.
    pub(crate) fn without_lines(&mut self, kept: u64) {
        self.framing.is_rewritten = true;
        self.line = kept;
    }

    fn place(&self, line: Option<u64>) -> Place {
        let line = line.filter(|_| !self.framing.is_rewritten);
        Place::Data { resource: self.info.path.clone(), offset: Some(self.offset), line, column: None }
    }

    /// The next records.
    fn records(&self, data: Buffer) -> TextChunk {
        let (offset, line, file) = (self.offset, self.line, self.info.clone());
        TextChunk { data, offset, line, file, framing: self.framing }
    }

    /// Cuts a byte order mark and a header off; fails if it is not the start of a text. Records of
    /// a length begin at once.
    fn start(&mut self, mut data: Buffer) -> Result<Buffer, Diagnostic> {
        if self.framing.record_bytes.is_some() {
            return Ok(data);
        }
        if let Some((_, kind, advice)) = NOT_TEXT.iter().find(|(magic, ..)| data.starts_with(magic)) {
            let message = format!("the input is {kind}, not text");
            return Err(Diagnostic::new(code::MALFORMED_FILE, message).at(self.place(None)).advise(*advice));
        }
        if data.starts_with(b"\xef\xbb\xbf") {
            data = data.slice(3);
            self.offset += 3;
        }
        if self.framing.header {
            let mut rest = self.records(data);
            let header = rest.split_front(1);
            if let Some(check) = &self.check_header {
                check(&header.data).map_err(|error| error.at(self.place(Some(self.line))))?;
            }
            self.offset = rest.offset;
            self.line = rest.line;
            data = rest.data;
        }
        Ok(data)
    }
}

impl Framer for TextFramer {
    fn last_end(&mut self, data: &[u8], from: usize) -> Result<Option<usize>, Diagnostic> {
        if from == 0 {
            self.scanner = FrameScanner::default();
        }
        Ok(self.scanner.last_end(&self.framing, data, from))
    }

    fn chunk(&mut self, mut data: Buffer) -> Result<Option<Chunk>, Diagnostic> {
        let bytes = data.len() as u64;
        if std::mem::take(&mut self.at_start) {
            data = self.start(data)?;
        }
        if data.is_empty() {
            return Ok(None);
        }
        let chunk = self.records(data);
        self.offset += chunk.data.len() as u64;
        // A resumed reader has its line number from a checkpoint, unchecked: the sum must not overflow.
        self.line = self.line.saturating_add(self.framing.lines(&chunk.data));
        let after = Some(Position { at: self.offset, line: self.line });
        Ok(Some(Chunk { payload: Box::new(chunk), bytes, after }))
    }

    fn resume(&mut self, from: Position) -> u64 {
        (self.offset, self.line, self.at_start) = (from.at, from.line, from.at == 0);
        from.at
    }

    fn endless_record(&self) -> Diagnostic {
        Diagnostic::new(code::MALFORMED_RECORD, format!("a record is longer than {} MiB", MAX_RECORD_BYTES >> 20))
            .at(self.place(Some(self.line)))
            .advise("check that there is one record per line and that quotes are closed")
    }
}
