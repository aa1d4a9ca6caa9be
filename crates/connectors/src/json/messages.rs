//! JSON objects that come one by one: each message is one object.

use super::decode::{JsonDecoder, JsonDecoding, JsonFailure};
use super::scan::Malformed;
use crate::messages::{DecodedMessages, MessageDecoder, Messages, place};
use millstream_types::Diagnostic;
use std::ops::Range;

impl MessageDecoder for JsonDecoder {
    fn decode(&self, messages: &Messages) -> Result<DecodedMessages, Diagnostic> {
        let mut state = JsonDecoding::new(self, messages.len())?;
        // Elsewhere a line feed ends a record, and the scanner stops there.
        let blanked =
            messages.data().contains(&b'\n').then(|| messages.map_bytes(|b| if b == b'\n' { b' ' } else { b }));
        let messages = blanked.as_ref().unwrap_or(messages);
        let whole = messages.text();
        let mut decoded = DecodedMessages::of(messages, |range| {
            let (start, end) = range.as_ref().map_or((0, 0), |range| (range.start, range.end));
            let outcome = match range {
                None => state.absent(),
                Some(range) => text_of(whole, messages, range).and_then(|text| state.message(text, start)),
            };
            outcome.map_err(|failure| failure.diagnostic(&messages.data()[..end], start, place))
        })?;
        let columns = state.columns.into_iter().map(|(builder, _)| builder.finish(messages.data()));
        decoded.columns = columns.collect::<Result<_, _>>()?;
        Ok(decoded)
    }
}

/// The text of a message; `whole` is that of all, if they are text.
fn text_of<'a>(
    whole: Option<&'a str>,
    messages: &'a Messages,
    range: Range<usize>,
) -> Result<&'a str, Box<JsonFailure>> {
    match whole {
        Some(text) => Ok(&text[range]),
        None => std::str::from_utf8(&messages.data()[range.clone()])
            .map_err(|e| Malformed { at: range.start + e.valid_up_to(), what: "a byte is not UTF-8" }.into()),
    }
}
