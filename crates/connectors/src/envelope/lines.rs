//! Changes in files and over connections: each line is a message.

use crate::changes::{Change, paired, parted};
use crate::format::{MessageFormat, RecordDecoder, StreamFormat, StreamOutput, record_output, record_stream};
use crate::messages::{ChangeEncoder, MessageDecoder, MessagesBuilder, located_by};
use crate::text_chunk::{Framing, TextChunk};
use crate::{ChangedBy, Decoded, Encoded, Encoder, RequestOrigin, SinkRequest, SourceRequest};
use arrow_array::{ArrayRef, Int8Array};
use millstream_types::Diagnostic;
use std::sync::Arc;

/// Reads the lines of a stream as messages of changes; `format` is what its options begin with.
pub(super) fn lines(
    request: &SourceRequest,
    messages: &MessageFormat,
    format: &str,
) -> Result<Option<StreamFormat>, Diagnostic> {
    let before = |at: usize| {
        request.columns[..at].iter().filter(|column| !matches!(column.origin, RequestOrigin::Metadata(_))).count()
    };
    let change = request.columns.iter().position(|column| request.says_changes(column)).map(before);
    let open = messages.change_decoder.filter(|_| change.is_some()).unwrap_or(messages.decoder);
    let skips = request.options.boolean(&format!("{format}.ignore-parse-errors"), false)?;
    record_stream(Framing::default(), Lines { messages: open(request)?, change, skips })
}

/// Writes changes, or insertions, as lines.
pub(super) fn lines_of_changes(
    request: &SinkRequest,
    messages: &MessageFormat,
) -> Result<Option<StreamOutput>, Diagnostic> {
    let Some(open) = messages.changes else { return Ok(None) };
    record_output(ChangeLines { changes: request.changes.clone(), encoder: open(request)? }, Vec::new())
}

/// Decodes lines.
struct Lines {
    messages: Box<dyn MessageDecoder>,
    /// The place of what the rows do among the columns that have a path, if that is asked for.
    change: Option<usize>,
    /// Whether bad lines are skipped.
    skips: bool,
}

impl RecordDecoder for Lines {
    fn decode(&self, chunk: &TextChunk) -> Decoded {
        self.columns(chunk).unwrap_or_else(Decoded::failed)
    }
}

impl Lines {
    fn columns(&self, chunk: &TextChunk) -> Result<Decoded, Diagnostic> {
        let (mut messages, mut starts, mut start) = (MessagesBuilder::default(), Vec::new(), 0);
        for line in chunk.data.split(|byte| *byte == b'\n') {
            if !line.trim_ascii().is_empty() {
                messages.push(Some(line));
                starts.push(start);
            }
            start += line.len() + 1;
        }
        let mut decoded = self.messages.decode(&messages.finish())?;
        let failures = std::mem::take(&mut decoded.failures);
        let (mut skipped, mut skipped_for, mut error) = (0, None, None);
        if let Some(first) = failures.first() {
            let located = || located_by(first.1.clone(), |column| chunk.place(starts[first.0], column));
            let is_bad = |message: u32| failures.binary_search_by_key(&(message as usize), |(bad, _)| *bad).is_ok();
            match self.skips {
                true => {
                    skipped = failures.chunk_by(|(one, _), (other, _)| one == other).count() as u64;
                    skipped_for = Some(located());
                    decoded.retain(|_, message| !is_bad(message))?;
                }
                false => {
                    decoded.retain(|_, message| (message as usize) < first.0)?;
                    error = Some(located());
                }
            }
        }
        let rows = decoded.rows.len();
        if let Some(at) = self.change {
            let change = Int8Array::from_iter_values(decoded.comes.iter().map(|&comes| if comes { 1 } else { -1 }));
            decoded.columns.insert(at, Arc::new(change));
        }
        Ok(Decoded { columns: decoded.columns, rows, skipped, skipped_for, error, ..Decoded::default() })
    }
}

/// Encodes changes.
struct ChangeLines {
    changes: Option<ChangedBy>,
    encoder: Box<dyn ChangeEncoder>,
}

impl Encoder for ChangeLines {
    fn encode(&self, columns: &[ArrayRef], rows: usize) -> Result<Encoded, Diagnostic> {
        let (columns, kinds) = parted(columns, self.changes.is_some())?;
        let changes = kinds.map_or_else(|| Change::insertions(rows), |kinds| paired(&kinds));
        let messages = self.encoder.encode(columns, rows, &changes)?;
        let mut data = Vec::with_capacity(messages.bytes_of_all() + messages.len());
        for message in 0..messages.len() {
            data.extend_from_slice(messages.bytes(message).unwrap_or_default());
            data.push(b'\n');
        }
        Ok(Encoded::Bytes { data, rows })
    }
}
