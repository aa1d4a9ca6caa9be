//! Records that come one by one, each with its own bounds, as those of message brokers do.
//!
//! A message is one record: it becomes one row, or it fails without any effect on its neighbours. Unlike in a stream of
//! records ([`crate::records`]) nothing has to be looked for, and each row is known to belong to a message, so that
//! what a broker says of the message (its key, its time) can stand in the row.

use crate::Encoder;
use crate::text_chunk::{FrameScanner, Framing};
use arrow_array::{ArrayRef, UInt32Array};
use arrow_buffer::Buffer;
use millstream_types::{Code, Diagnostic, Place, code};
use std::ops::Range;

/// Messages, one after the other in one buffer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Messages {
    data: Buffer,
    /// Where each begins and the last one ends.
    bounds: Vec<usize>,
    /// Of each, whether it is not there at all, which is not the same as being empty. Empty if all are there.
    absent: Vec<bool>,
}

impl Messages {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.bounds.len().saturating_sub(1)
    }

    /// The buffer in which they lie.
    pub(crate) fn data(&self) -> &Buffer {
        &self.data
    }

    /// Where a message lies in the buffer; `None` if it is absent.
    pub(crate) fn range(&self, number: usize) -> Option<Range<usize>> {
        let is_absent = self.absent.get(number).copied().unwrap_or(false);
        (!is_absent).then(|| self.bounds[number]..self.bounds[number + 1])
    }

    /// The bytes of a message; `None` if it is absent.
    pub(crate) fn bytes(&self, number: usize) -> Option<&[u8]> {
        self.range(number).map(|range| &self.data[range])
    }

    /// Whether any is absent.
    pub(crate) fn has_absent(&self) -> bool {
        self.absent.contains(&true)
    }

    /// Bytes of all of them.
    pub(crate) fn bytes_of_all(&self) -> usize {
        self.bounds.last().zip(self.bounds.first()).map_or(0, |(end, start)| end - start)
    }

    /// Some of the messages.
    pub(crate) fn slice(&self, range: Range<usize>) -> Messages {
        let absent = if self.absent.is_empty() { Vec::new() } else { self.absent[range.clone()].to_vec() };
        Messages { data: self.data.clone(), bounds: self.bounds[range.start..=range.end].to_vec(), absent }
    }

    /// The same messages with other bytes.
    pub(crate) fn map_bytes(&self, map: impl Fn(u8) -> u8) -> Messages {
        let data: Vec<u8> = self.data.iter().map(|byte| map(*byte)).collect();
        Messages { data: Buffer::from_vec(data), ..self.clone() }
    }

    /// All messages as text, if that is what they are and none begins within a character.
    pub(crate) fn text(&self) -> Option<&str> {
        let text = simdutf8::basic::from_utf8(&self.data).ok()?;
        self.bounds.iter().all(|bound| text.is_char_boundary(*bound)).then_some(text)
    }
}

/// Collects messages.
#[derive(Debug, Default)]
pub(crate) struct MessagesBuilder {
    data: Vec<u8>,
    bounds: Vec<usize>,
    absent: Vec<bool>,
    has_absent: bool,
}

impl MessagesBuilder {
    /// No messages yet, and room for some.
    pub(crate) fn with_capacity(messages: usize, bytes: usize) -> MessagesBuilder {
        let bounds = Vec::with_capacity(messages + 1);
        MessagesBuilder { data: Vec::with_capacity(bytes), bounds, ..MessagesBuilder::default() }
    }

    /// Appends a message.
    pub(crate) fn push(&mut self, message: Option<&[u8]>) {
        match message {
            Some(bytes) => {
                self.data.extend_from_slice(bytes);
                self.end();
            }
            None => self.end_absent(),
        }
    }

    /// Where the bytes of the next message go; [`MessagesBuilder::end`] ends it.
    pub(crate) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.data
    }

    /// Ends the message whose bytes were written.
    pub(crate) fn end(&mut self) {
        self.bound(false);
    }

    /// Appends a message that is not there.
    pub(crate) fn end_absent(&mut self) {
        self.bound(true);
    }

    fn bound(&mut self, is_absent: bool) {
        if self.bounds.is_empty() {
            self.bounds.push(0);
        }
        self.bounds.push(self.data.len());
        self.absent.push(is_absent);
        self.has_absent |= is_absent;
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.absent.len()
    }

    /// Bytes of all.
    pub(crate) fn size(&self) -> usize {
        self.data.len()
    }

    /// The messages.
    pub(crate) fn finish(self) -> Messages {
        let absent = if self.has_absent { self.absent } else { Vec::new() };
        Messages { data: Buffer::from_vec(self.data), bounds: self.bounds, absent }
    }
}

/// What a decoder has made of messages.
#[derive(Debug, Default)]
pub(crate) struct DecodedMessages {
    /// The columns that have a path, in the order of the request.
    pub columns: Vec<ArrayRef>,
    /// The message of each row, ascending.
    pub rows: Vec<u32>,
    /// The other messages, ascending, and what is wrong with each; the column is the place.
    pub failures: Vec<(usize, Diagnostic)>,
}

impl DecodedMessages {
    /// Leaves out the rows that have a fault.
    pub(crate) fn check(&mut self, fault: impl Fn(&[ArrayRef], usize) -> Option<Diagnostic>) -> Result<(), Diagnostic> {
        let faults: Vec<Option<Diagnostic>> = (0..self.rows.len()).map(|row| fault(&self.columns, row)).collect();
        if faults.iter().all(Option::is_none) {
            return Ok(());
        }
        let mut kept = Vec::new();
        for ((row, message), fault) in self.rows.iter().enumerate().zip(faults) {
            match fault {
                None => kept.push(row as u32),
                Some(fault) => self.failures.push((*message as usize, fault)),
            }
        }
        self.failures.sort_by_key(|(message, _)| *message);
        self.keep(kept)
    }

    /// Leaves out all rows but these.
    pub(crate) fn keep(&mut self, rows: Vec<u32>) -> Result<(), Diagnostic> {
        self.rows = rows.iter().map(|row| self.rows[*row as usize]).collect();
        let rows = UInt32Array::from(rows);
        for column in &mut self.columns {
            *column = arrow_select::take::take(column, &rows, None)
                .map_err(|e| Diagnostic::bug(format!("rows that were decoded are not there: {e}")))?;
        }
        Ok(())
    }
}

/// Decodes messages; stateless, called by any worker at any time.
pub(crate) trait MessageDecoder: Send + Sync {
    /// Decodes messages. One that is absent is a row of NULLs. An error is not that of a message.
    fn decode(&self, messages: &Messages) -> Result<DecodedMessages, Diagnostic>;
}

/// Encodes rows as messages; stateless, called by any worker at any time.
pub(crate) trait MessageEncoder: Send + Sync {
    /// A message for each row.
    fn encode(&self, columns: &[ArrayRef], rows: usize) -> Result<Messages, Diagnostic>;
}

/// What is wrong with a message; its place is only the column until somebody knows where the message comes from.
pub(crate) fn failure(code: Code, message: impl Into<String>, column: Option<String>) -> Diagnostic {
    let place = Place::Data { resource: String::new(), offset: None, line: None, column };
    Diagnostic::new(code, message).at(place)
}

/// The failure of a message that comes from `resource`.
pub(crate) fn located(mut failure: Diagnostic, resource: String) -> Diagnostic {
    let column = match failure.place.take() {
        Some(Place::Data { column, .. }) => column,
        _ => None,
    };
    failure.at(Place::Data { resource, offset: None, line: None, column })
}

/// The failure for a value that is missing in a NOT NULL column.
pub(crate) fn missing(column: &str) -> Diagnostic {
    let message = "a NOT NULL column has no value in the message";
    failure(code::NULL_IN_NOT_NULL, message, Some(column.to_string()))
}

/// Encodes messages as a format of text does, without the line feed behind each.
pub(crate) struct TextMessageEncoder<E> {
    /// That of the format.
    pub(crate) encoder: E,
    /// Tells its records apart.
    pub(crate) framing: Framing,
}

impl<E: Encoder> MessageEncoder for TextMessageEncoder<E> {
    fn encode(&self, columns: &[ArrayRef], rows: usize) -> Result<Messages, Diagnostic> {
        let data = self.encoder.encode(columns, rows)?.into_bytes()?;
        let mut messages = MessagesBuilder::with_capacity(rows, data.len());
        let mut start = 0;
        FrameScanner::default().ends(&self.framing, &data, 0, |end| {
            messages.push(Some(&data[start..end - 1]));
            start = end;
            true
        });
        if messages.len() != rows {
            let message = "a value has a line feed that nothing encloses, so the records cannot be told apart";
            return Err(Diagnostic::new(code::INVALID_OPTION, message)
                .advise("let the format have a quote character, or use the format json"));
        }
        Ok(messages.finish())
    }
}

#[cfg(test)]
mod damaged;

#[cfg(test)]
pub(crate) mod testing {
    //! For the tests of formats of messages.

    use super::*;
    use crate::format::MessageFormat;
    use crate::{ColumnRequest, RequestOrigin, SinkRequest, SourceRequest};
    use millstream_types::{Field, Options, Schema};

    /// Options from pairs.
    pub(crate) fn options(pairs: &[(&str, &str)]) -> Options {
        pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
    }

    /// A decoder of all columns.
    pub(crate) fn decoder(
        format: &MessageFormat,
        fields: &[Field],
        pairs: &[(&str, &str)],
    ) -> Result<Box<dyn MessageDecoder>, Diagnostic> {
        let column = |(at, field): (usize, &Field)| ColumnRequest {
            name: field.name.clone(),
            origin: RequestOrigin::Path(vec![at]),
            data_type: field.data_type.clone(),
            nullable: field.nullable,
        };
        (format.decoder)(&SourceRequest {
            table: "t".into(),
            options: options(pairs),
            schema: Schema::new(fields.to_vec()),
            columns: fields.iter().enumerate().map(column).collect(),
            buffer_rows: 0,
        })
    }

    /// An encoder of all columns.
    pub(crate) fn encoder(
        format: &MessageFormat,
        fields: &[Field],
        pairs: &[(&str, &str)],
    ) -> Result<Box<dyn MessageEncoder>, Diagnostic> {
        let schema = Schema::new(fields.to_vec());
        (format.encoder)(&SinkRequest {
            table: "t".into(),
            options: options(pairs),
            schema,
            metadata: vec![],
            primary_key: vec![],
        })
    }

    /// Messages of these bytes.
    pub(crate) fn messages(all: &[Option<&[u8]>]) -> Messages {
        let mut messages = MessagesBuilder::default();
        all.iter().for_each(|message| messages.push(*message));
        messages.finish()
    }
}
