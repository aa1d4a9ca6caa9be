//! A block of records, as readers of files and streams hand it to the decoders of record formats.

use arrow_buffer::Buffer;
use millstream_types::Place;
use std::sync::Arc;

/// What is known of a file, for metadata columns and messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileInfo {
    /// Path as the user would write it, or `stdin`.
    pub path: String,
    /// Last component of the path.
    pub name: String,
    /// Size on disk in bytes; 0 for streams.
    pub size: u64,
    /// Milliseconds since the epoch; 0 for streams.
    pub modified_ms: i64,
}

/// Whole records of one file.
#[derive(Debug, Clone)]
pub struct TextChunk {
    /// The records; the last one of a file may lack its line feed or, if records have a length, its end.
    pub data: Buffer,
    /// Position of the first byte in the (decompressed) file.
    pub offset: u64,
    /// Number of the first line, from 1; what the positions of the framer have instead where lines are not counted.
    pub line: u64,
    /// The file.
    pub file: Arc<FileInfo>,
    /// How the records are told apart.
    pub framing: Framing,
}

impl TextChunk {
    /// The place of the byte at `at`.
    pub fn place(&self, at: usize, column: Option<String>) -> Place {
        let at = at.min(self.data.len());
        let has_lines = self.framing.record_bytes.is_none() && !self.framing.is_rewritten;
        let line = has_lines.then(|| self.line.saturating_add(self.framing.lines(&self.data[..at])));
        Place::Data { resource: self.file.path.clone(), offset: Some(self.offset + at as u64), line, column }
    }
}

/// The place of what is wrong with a file, a topic or the like.
pub(crate) fn whole(resource: impl Into<String>) -> Place {
    Place::Data { resource: resource.into(), offset: None, line: None, column: None }
}

/// Offending text, shortened for a message, with what cannot be printed replaced.
pub(crate) fn excerpt(text: &[u8]) -> String {
    const LENGTH: usize = 60;
    let text = String::from_utf8_lossy(&text[..text.len().min(4 * LENGTH)]);
    let shown: String = text.chars().take(LENGTH).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().count() > LENGTH { format!("{shown}…") } else { shown }
}

/// How records of a format are told apart: by line feeds or by their length. Where a quote is given, line feeds between
/// quotes belong to the record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Framing {
    /// Length of a record in bytes; then the rest of this is unused. `None`: records end with line feeds.
    pub record_bytes: Option<usize>,
    /// Quote character.
    pub quote: Option<u8>,
    /// Separates fields; a quote counts only at the start of a field. Unused without quotes.
    pub delimiter: u8,
    /// Character that takes the meaning from the next one.
    pub escape: Option<u8>,
    /// Character that starts a comment line, in which quotes mean nothing.
    pub comment: Option<u8>,
    /// Whether the first record of each file is a header to be left out.
    pub header: bool,
    /// Whether the line feeds between records are not those of the file, so that lines have no numbers.
    pub is_rewritten: bool,
}

impl Framing {
    /// Lines that end in `data`; 0 where there are none to be counted.
    pub fn lines(&self, data: &[u8]) -> u64 {
        if self.record_bytes.is_some() || self.is_rewritten {
            0
        } else {
            memchr::memchr_iter(b'\n', data).count() as u64
        }
    }
}

/// Finds record ends in a growing block of bytes, remembering where in a record it is.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FrameScanner {
    state: ScanState,
    escaped: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum ScanState {
    #[default]
    RecordStart,
    FieldStart,
    Field,
    Quoted,
    /// Behind a quote within a quoted field, which closes it or is the first of two.
    QuoteSeen,
    Comment,
}

impl FrameScanner {
    /// The position behind the last record end in `data`, which starts with a record, and of which everything before
    /// `from` was scanned before.
    pub(crate) fn last_end(&mut self, framing: &Framing, data: &[u8], from: usize) -> Option<usize> {
        if let Some(length) = framing.record_bytes {
            return Some(data.len() / length * length).filter(|end| *end > 0);
        }
        let new = &data[from..];
        let absent = |byte: Option<u8>| byte.is_none_or(|byte| memchr::memchr(byte, new).is_none());
        let plain = framing.quote.is_none() || (absent(framing.quote) && absent(framing.escape));
        if plain && self.state != ScanState::Quoted && !self.escaped {
            let last = memchr::memrchr(b'\n', new).map(|at| from + at + 1);
            if framing.quote.is_some() {
                // The open record at the end must be scanned in case that more of it comes.
                if last.is_some() {
                    *self = FrameScanner::default();
                }
                self.ends(framing, data, last.unwrap_or(from), |_| true);
            }
            return last;
        }
        let mut last = None;
        self.ends(framing, data, from, |end| {
            last = Some(end);
            true
        });
        last
    }

    /// Calls `found` with the position behind each record end from `from` on, until it answers `false`.
    pub(crate) fn ends(&mut self, framing: &Framing, data: &[u8], from: usize, mut found: impl FnMut(usize) -> bool) {
        for (at, &byte) in data.iter().enumerate().skip(from) {
            let open = self.state == ScanState::Quoted || (self.escaped && framing.quote.is_some());
            if byte == b'\n' && !open {
                *self = FrameScanner::default();
                if !found(at + 1) {
                    return;
                }
            } else {
                self.step(framing, byte);
            }
        }
    }

    fn step(&mut self, framing: &Framing, byte: u8) {
        if self.state == ScanState::Comment {
            return;
        }
        if std::mem::take(&mut self.escaped) {
            return;
        }
        if self.state == ScanState::RecordStart && framing.comment == Some(byte) {
            self.state = ScanState::Comment;
            return;
        }
        if framing.escape == Some(byte) {
            self.escaped = true;
            if self.state != ScanState::Quoted {
                self.state = ScanState::Field;
            }
            return;
        }
        let quote = framing.quote == Some(byte);
        self.state = match self.state {
            ScanState::Quoted if quote => ScanState::QuoteSeen,
            ScanState::Quoted => ScanState::Quoted,
            ScanState::QuoteSeen if quote => ScanState::Quoted,
            _ if byte == framing.delimiter => ScanState::FieldStart,
            ScanState::RecordStart | ScanState::FieldStart if quote => ScanState::Quoted,
            _ => ScanState::Field,
        };
    }
}

impl TextChunk {
    /// Number of records, as far as framing tells.
    pub(crate) fn records(&self) -> u64 {
        let framing = &self.framing;
        if let Some(length) = framing.record_bytes {
            return self.data.len().div_ceil(length) as u64;
        }
        let last_is_open = self.data.last().is_some_and(|byte| *byte != b'\n');
        if framing.quote.is_none() {
            return memchr::memchr_iter(b'\n', &self.data).count() as u64 + u64::from(last_is_open);
        }
        let mut count = 0;
        FrameScanner::default().ends(framing, &self.data, 0, |_| {
            count += 1;
            true
        });
        count + u64::from(last_is_open)
    }

    /// Cuts off a chunk of the first `records` records.
    pub(crate) fn split_front(&mut self, records: u64) -> TextChunk {
        let end = self.end_of(records.max(1));
        let front = TextChunk { data: self.data.slice_with_length(0, end), ..self.clone() };
        self.data = self.data.slice(end);
        self.offset += end as u64;
        self.line = self.line.saturating_add(self.framing.lines(&front.data));
        front
    }

    /// The position behind the first `records` records.
    fn end_of(&self, records: u64) -> usize {
        let mut end = self.data.len();
        if let Some(length) = self.framing.record_bytes {
            return end.min((records as usize).saturating_mul(length));
        }
        let mut left = records;
        FrameScanner::default().ends(&self.framing, &self.data, 0, |at| {
            left -= 1;
            end = if left == 0 { at } else { end };
            left > 0
        });
        end
    }
}
