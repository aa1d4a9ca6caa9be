//! Records that come one by one, each with its own bounds, as those of message brokers do.
//!
//! A message is one record: it becomes one row, or it fails without any effect on its neighbours. Unlike in a stream of
//! records ([`crate::records`]) nothing has to be looked for, and each row is known to belong to a message, so that
//! what a broker says of the message (its key, its time) can stand in the row.

use crate::Encoder;
use crate::changes::Change;
use crate::text_chunk::{FrameScanner, Framing};
use arrow_array::{Array, ArrayRef, LargeBinaryArray, UInt32Array};
use arrow_buffer::{Buffer, NullBufferBuilder, OffsetBuffer};
use millstream_types::{Code, Diagnostic, Place, code};
use std::ops::Range;

/// Messages, one after the other in one buffer. One that is NULL is not there at all, which is not the same as being empty.
#[derive(Debug, Clone)]
pub(crate) struct Messages(pub(crate) LargeBinaryArray);

impl Messages {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The buffer in which they lie.
    pub(crate) fn data(&self) -> &Buffer {
        self.0.values()
    }

    /// Where a message lies in the buffer; `None` if it is absent.
    pub(crate) fn range(&self, number: usize) -> Option<Range<usize>> {
        let bounds = self.0.value_offsets();
        self.0.is_valid(number).then(|| bounds[number] as usize..bounds[number + 1] as usize)
    }

    /// The bytes of a message; `None` if it is absent.
    pub(crate) fn bytes(&self, number: usize) -> Option<&[u8]> {
        self.0.is_valid(number).then(|| self.0.value(number))
    }

    /// Bytes of all of them.
    pub(crate) fn bytes_of_all(&self) -> usize {
        self.0.value_offsets().last().zip(self.0.value_offsets().first()).map_or(0, |(end, start)| end - start) as usize
    }

    /// Some of the messages.
    pub(crate) fn slice(&self, range: Range<usize>) -> Messages {
        Messages(self.0.slice(range.start, range.len()))
    }

    /// The same messages with other bytes.
    pub(crate) fn map_bytes(&self, map: impl Fn(u8) -> u8) -> Messages {
        let data: Vec<u8> = self.data().iter().map(|byte| map(*byte)).collect();
        let (offsets, nulls) = (self.0.offsets().clone(), self.0.nulls().cloned());
        Messages(LargeBinaryArray::new(offsets, Buffer::from_vec(data), nulls))
    }

    /// All messages as text, if that is what they are and none begins within a character.
    pub(crate) fn text(&self) -> Option<&str> {
        let text = simdutf8::basic::from_utf8(self.data()).ok()?;
        self.0.value_offsets().iter().all(|bound| text.is_char_boundary(*bound as usize)).then_some(text)
    }
}

/// Collects messages.
#[derive(Debug)]
pub(crate) struct MessagesBuilder {
    data: Vec<u8>,
    /// Where each begins and the last one ends.
    bounds: Vec<i64>,
    present: NullBufferBuilder,
}

impl Default for MessagesBuilder {
    fn default() -> MessagesBuilder {
        MessagesBuilder::with_capacity(0, 0)
    }
}

impl MessagesBuilder {
    /// No messages yet, and room for some.
    pub(crate) fn with_capacity(messages: usize, bytes: usize) -> MessagesBuilder {
        let mut bounds = Vec::with_capacity(messages + 1);
        bounds.push(0);
        MessagesBuilder { data: Vec::with_capacity(bytes), bounds, present: NullBufferBuilder::new(messages) }
    }

    /// Appends a message.
    pub(crate) fn push(&mut self, message: Option<&[u8]>) {
        self.data.extend_from_slice(message.unwrap_or_default());
        self.end(message.is_some());
    }

    /// Where the bytes of the next message go; [`MessagesBuilder::end`] ends it.
    pub(crate) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.data
    }

    /// Ends the message whose bytes were written, or one that is absent.
    pub(crate) fn end(&mut self, is_present: bool) {
        self.bounds.push(self.data.len() as i64);
        self.present.append(is_present);
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.present.len()
    }

    /// Bytes of all.
    pub(crate) fn size(&self) -> usize {
        self.data.len()
    }

    /// The messages.
    pub(crate) fn finish(mut self) -> Messages {
        let (bounds, data) = (OffsetBuffer::new(self.bounds.into()), Buffer::from_vec(self.data));
        Messages(LargeBinaryArray::new(bounds, data, self.present.finish()))
    }
}

/// What a decoder has made of messages.
#[derive(Debug, Default)]
pub(crate) struct DecodedMessages {
    /// The columns that have a path, in the order of the request.
    pub columns: Vec<ArrayRef>,
    /// The message of each row, ascending. One of changes may be two rows: what was there, and what is there from now on.
    pub rows: Vec<u32>,
    /// Of changes, whether each row is there from now on, or gone; otherwise empty.
    pub comes: Vec<bool>,
    /// The other messages, ascending, and what is wrong with each; the column is the place.
    pub failures: Vec<(usize, Diagnostic)>,
}

impl DecodedMessages {
    /// What `row` makes of each message, by where that lies: a row, or a failure. The columns are still to come.
    pub(crate) fn of(
        messages: &Messages,
        mut row: impl FnMut(Option<Range<usize>>) -> Result<(), Diagnostic>,
    ) -> Result<DecodedMessages, Diagnostic> {
        let mut decoded = DecodedMessages::default();
        decoded.rows.reserve(messages.len());
        for number in 0..messages.len() {
            match row(messages.range(number)) {
                Ok(()) => decoded.rows.push(number as u32),
                // What is not an error of the message ends the query.
                Err(error) if !matches!(error.place, Some(Place::Data { .. })) => return Err(error),
                Err(failure) => decoded.failures.push((number, failure)),
            }
        }
        Ok(decoded)
    }

    /// Leaves out the rows that have a fault.
    pub(crate) fn check(&mut self, fault: impl Fn(&[ArrayRef], usize) -> Option<Diagnostic>) -> Result<(), Diagnostic> {
        let faults: Vec<Option<Diagnostic>> = (0..self.rows.len()).map(|row| fault(&self.columns, row)).collect();
        let is_good: Vec<bool> = faults.iter().map(Option::is_none).collect();
        let failures = self.rows.iter().zip(faults).filter_map(|(message, fault)| Some((*message as usize, fault?)));
        let failures: Vec<(usize, Diagnostic)> = failures.collect();
        self.fail(failures);
        self.retain(|row, _| is_good[row])
    }

    /// Notes what is wrong with further messages.
    pub(crate) fn fail(&mut self, failures: Vec<(usize, Diagnostic)>) {
        self.failures.extend(failures);
        self.failures.sort_by_key(|(message, _)| *message);
    }

    /// Leaves out all rows but those that are kept, by their numbers and those of their messages.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(usize, u32) -> bool) -> Result<(), Diagnostic> {
        let (kept, messages): (Vec<u32>, Vec<u32>) =
            (0..).zip(self.rows.iter().copied()).filter(|(row, message)| is_kept(*row as usize, *message)).unzip();
        if kept.len() == self.rows.len() {
            return Ok(());
        }
        if !self.comes.is_empty() {
            self.comes = kept.iter().map(|row| self.comes[*row as usize]).collect();
        }
        self.rows = messages;
        let kept = UInt32Array::from(kept);
        for column in &mut self.columns {
            *column = arrow_select::take::take(column, &kept, None)
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

/// Encodes changes as messages; stateless, called by any worker at any time.
pub(crate) trait ChangeEncoder: Send + Sync {
    /// A message for each change of rows of these columns.
    fn encode(&self, columns: &[ArrayRef], rows: usize, changes: &[Change]) -> Result<Messages, Diagnostic>;
}

/// What is wrong with a message; its place is only the column until somebody knows where the message comes from.
pub(crate) fn failure(code: Code, message: impl Into<String>, column: Option<String>) -> Diagnostic {
    Diagnostic::new(code, message).at(place(column))
}

/// The place of what is wrong with a message.
pub(crate) fn place(column: Option<String>) -> Place {
    Place::Data { resource: String::new(), offset: None, line: None, column }
}

/// The failure of a message that comes from `resource`.
pub(crate) fn located(failure: Diagnostic, resource: String) -> Diagnostic {
    located_by(failure, |column| Place::Data { resource, offset: None, line: None, column })
}

/// The failure of a message whose place follows from its column.
pub(crate) fn located_by(mut failure: Diagnostic, place: impl FnOnce(Option<String>) -> Place) -> Diagnostic {
    let column = if let Some(Place::Data { column, .. }) = failure.place.take() { column } else { None };
    failure.at(place(column))
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
            ..SourceRequest::default()
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
            changes: None,
        })
    }

    /// Messages of these bytes.
    pub(crate) fn messages(all: &[Option<&[u8]>]) -> Messages {
        let mut messages = MessagesBuilder::default();
        all.iter().for_each(|message| messages.push(*message));
        messages.finish()
    }
}
