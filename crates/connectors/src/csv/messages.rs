//! CSV records that come one by one: each message is one record, with or without a line feed at its end.

use super::decode::{CsvDecoder, CsvDecoding, CsvFailure, malformed, null};
use crate::messages::{DecodedMessages, MessageDecoder, Messages, place};
use millstream_types::Diagnostic;
use std::ops::Range;

impl MessageDecoder for CsvDecoder {
    fn decode(&self, messages: &Messages) -> Result<DecodedMessages, Diagnostic> {
        let data = messages.data().as_slice();
        let mut state = CsvDecoding::new(self, data, messages.text(), messages.len())?;
        let mut decoded = DecodedMessages::of(messages, |range| {
            let outcome = match range.clone() {
                None => state.absent(),
                Some(range) => {
                    // What comes behind is another message.
                    state.data = &data[..range.end];
                    state.message(range)
                }
            };
            match &outcome {
                Ok(()) => state.rows += 1,
                Err(_) => state.undo(),
            }
            outcome.map_err(|failure| failure.diagnostic(range.map_or(&[][..], |range| &data[range]), place))
        })?;
        let columns = state.builders.into_iter().map(|builder| builder.finish(messages.data()));
        decoded.columns = columns.collect::<Result<_, _>>()?;
        Ok(decoded)
    }
}

impl CsvDecoding<'_> {
    fn message(&mut self, range: Range<usize>) -> Result<(), CsvFailure> {
        if self.data[range.clone()].iter().all(|byte| matches!(byte, b'\r' | b'\n')) {
            return Err(malformed("the message is empty"));
        }
        let end = self.record(range.start)?;
        if end < range.end {
            return Err(malformed("something follows the record in its message"));
        }
        Ok(())
    }

    /// A row of NULLs, for a message that is absent.
    fn absent(&mut self) -> Result<(), CsvFailure> {
        self.builders.iter_mut().zip(&self.plan.columns).try_for_each(|(builder, column)| null(builder, column))
    }
}
