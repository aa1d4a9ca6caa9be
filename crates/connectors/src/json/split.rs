//! Tells the records of JSON apart: one on each line, or else in an array or over several lines.
//!
//! How they lie the first bytes of a stream say ([`layout`]). Lines are left to [`TextFramer`]. Otherwise a scanner that knows strings and
//! brackets finds the end of each record, from the start to the end of the stream, and chunks get what the decoder expects: a line feed
//! between records and none within them, nothing of an array around them. Bytes are replaced, never moved, so places are those of the
//! stream. Lines have no numbers then, and positions have in their place whether an array is open ([`OPEN`]).

use crate::records::{Framer, TextFramer};
use crate::text_chunk::{FileInfo, Framing, whole};
use crate::{Chunk, Position};
use arrow_buffer::Buffer;
use millstream_types::{Diagnostic, code};
use std::sync::Arc;

/// What a position has for the number of the line behind a record in an array, and between records that are in none. Lines count from 1;
/// no file has so many, and a checkpoint has no numbers from 2^62 on.
const OPEN: u64 = 1 << 61;
const CLOSED: u64 = 0;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// How records lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// Each on its line.
    Lines,
    /// In an array, or over several lines.
    Free,
}

/// See the module.
pub(super) struct JsonFramer {
    text: TextFramer,
    info: Arc<FileInfo>,
    /// `None` until enough was seen.
    layout: Option<Layout>,
    /// Behind the last byte in which a record's end was looked for.
    ahead: Nesting,
    /// Behind the last byte that was handed over.
    behind: Nesting,
}

impl JsonFramer {
    /// A framer at the start of a stream.
    pub(super) fn new(info: Arc<FileInfo>) -> JsonFramer {
        let text = TextFramer::new(info.clone(), Framing::default());
        JsonFramer { text, info, layout: None, ahead: Nesting::default(), behind: Nesting::default() }
    }

    /// A chunk of bytes that are not lines.
    fn flattened(&mut self, data: &[u8]) -> Result<Option<Chunk>, Diagnostic> {
        let flat: Vec<u8> = data.iter().map(|byte| self.behind.flat(*byte)).collect();
        self.text.without_lines(if self.behind.in_array { OPEN } else { CLOSED });
        self.text.chunk(Buffer::from_vec(flat))
    }
}

impl Framer for JsonFramer {
    fn last_end(&mut self, data: &[u8], mut from: usize) -> Result<Option<usize>, Diagnostic> {
        if self.layout.is_none() {
            self.layout = layout(data);
            from = 0;
        }
        match self.layout {
            None => Ok(None),
            Some(Layout::Lines) => self.text.last_end(data, from),
            Some(Layout::Free) => {
                if from == 0 {
                    self.ahead = self.behind;
                }
                let ends = (from..data.len()).filter(|at| self.ahead.ends_record(data[*at]));
                Ok(ends.last().map(|at| at + 1))
            }
        }
    }

    fn chunk(&mut self, data: Buffer) -> Result<Option<Chunk>, Diagnostic> {
        if self.layout == Some(Layout::Free) { self.flattened(&data) } else { self.text.chunk(data) }
    }

    fn resume(&mut self, from: Position) -> u64 {
        if from.at > 0 {
            let is_free = [OPEN, CLOSED].contains(&from.line);
            self.layout = Some(if is_free { Layout::Free } else { Layout::Lines });
            self.behind.in_array = from.line == OPEN;
        }
        self.text.resume(from)
    }

    fn end(&self) -> Result<(), Diagnostic> {
        if !self.behind.in_array {
            return self.text.end();
        }
        Err(Diagnostic::new(code::MALFORMED_FILE, "the file ends before the JSON array does: there is no `]`")
            .at(whole(&*self.info.path))
            .advise("see why its writer did not write it to the end, or fetch the file again"))
    }

    fn endless_record(&self) -> Diagnostic {
        self.text.endless_record()
    }
}

/// Where in the nesting of JSON a byte is.
#[derive(Debug, Clone, Copy, Default)]
struct Nesting {
    /// Objects and arrays of the record that are open.
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    /// Within an array of records.
    in_array: bool,
}

impl Nesting {
    /// Takes the next byte; whether a record ends with it.
    fn ends_record(&mut self, byte: u8) -> bool {
        if self.in_string {
            // No string has a line feed in it, so one that is not closed does not swallow the next lines.
            self.in_string = (byte != b'"' || self.is_escaped) && byte != b'\n';
            self.is_escaped = byte == b'\\' && !self.is_escaped;
            return false;
        }
        match byte {
            b'"' => self.in_string = true,
            b'[' if self.depth == 0 => self.in_array = true,
            b']' if self.depth == 0 => self.in_array = false,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' if self.depth > 0 => {
                self.depth -= 1;
                return self.depth == 0;
            }
            _ => {}
        }
        false
    }

    /// Takes the next byte; what the decoder gets for it.
    fn flat(&mut self, byte: u8) -> u8 {
        let before = *self;
        self.ends_record(byte);
        match byte {
            // The decoder says of a line feed in a string what is wrong.
            _ if before.in_string => byte,
            b'\n' if before.depth > 0 || before.in_array => b' ',
            b',' if before.depth == 0 => b'\n',
            b'[' | b']' if before.depth == 0 => b' ',
            _ => byte,
        }
    }
}

/// How the records of a stream lie that begins with these bytes; `None` if they are too few to say. Free is an array with an object in
/// it, or nothing; and an object that goes on behind a line feed. A line that merely lacks its end is a malformed line.
fn layout(data: &[u8]) -> Option<Layout> {
    if BYTE_ORDER_MARK.starts_with(data) {
        return None;
    }
    let text = data.strip_prefix(BYTE_ORDER_MARK).unwrap_or(data).trim_ascii_start();
    match text.first()? {
        b'[' => match text[1..].trim_ascii_start().first()? {
            b'{' | b']' => Some(Layout::Free),
            _ => Some(Layout::Lines),
        },
        b'{' => {
            let mut nesting = Nesting::default();
            for (at, &byte) in text.iter().enumerate() {
                if byte == b'\n' {
                    let goes_on = !nesting.in_string && goes_on(&text[..at], text[at..].trim_ascii_start().first()?);
                    return Some(if goes_on { Layout::Free } else { Layout::Lines });
                }
                if nesting.ends_record(byte) {
                    return Some(Layout::Lines);
                }
            }
            None
        }
        _ => Some(Layout::Lines),
    }
}

/// Whether an object that is open at the end of its line goes on with the next one, which begins with `next`.
fn goes_on(line: &[u8], next: &u8) -> bool {
    let last = line.trim_ascii_end().last();
    match next {
        b',' | b'}' | b']' | b':' => true,
        // A line that was cut off there, and the next record.
        b'{' => matches!(last, Some(b'[' | b':')) || line.trim_ascii_end().ends_with(b"},"),
        _ => matches!(last, Some(b'{' | b'[' | b':' | b',')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_say_how_records_lie() {
        let (lines, free) = (Some(Layout::Lines), Some(Layout::Free));
        for (text, expected) in [
            ("", None),
            ("\u{feff}", None),
            (" \n", None),
            ("{\"a\": 1}", lines),
            ("{\"a\": {\"b\": \"}\\\"\"}}\n", lines),
            ("{\"a\": 1} {\"a\":\n", lines),
            ("{\"a\": ", None),
            ("{\n", None),
            ("{\n\"a\"", free),
            ("\n\u{feff}", lines),
            ("\u{feff}{\r\n  \"a\": 1", free),
            ("{\"a\": 1,\n\"b\"", free),
            ("{\"a\": 1\n, \"b\"", free),
            ("{\"a\": [\n{", free),
            ("{\"a\": [{},\n{", free),
            // Lines that were cut off.
            ("{\"a\": 1\n{\"a\"", lines),
            ("{\"a\": 1,\n{\"a\"", lines),
            ("{\"a\": \"x\n{\"a\"", lines),
            ("[", None),
            (" [\n {", free),
            ("[{", free),
            ("[ ]", free),
            ("[1, 2]", lines),
            ("[INFO] started", lines),
            ("1", lines),
        ] {
            assert_eq!(layout(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn no_byte_moves() {
        for (text, expected) in [
            ("[{\"a\": 1}, {\"b\": [1, \"],\"]}]\n", " {\"a\": 1}\n {\"b\": [1, \"],\"]} \n"),
            ("[\n{\n\"a\":\n1\n}\n,\n{}\n]", "  { \"a\": 1 } \n {}  "),
            ("{\n\"a\": \"x\\\"}\"\n}\n{}", "{ \"a\": \"x\\\"}\" }\n{}"),
            ("{\n\"a\": \"x\n}", "{ \"a\": \"x\n}"),
            ("[{}][{}]", " {}  {} "),
        ] {
            let mut nesting = Nesting::default();
            let flat: Vec<u8> = text.bytes().map(|byte| nesting.flat(byte)).collect();
            assert_eq!(String::from_utf8(flat).unwrap(), expected, "{text:?}");
        }
    }
}
