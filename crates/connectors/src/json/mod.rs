//! The `json` format: objects, one per line (NDJSON), in an array, or over several lines.
//!
//! Decoding is on the hot path of most queries and therefore ours: [`decode`] walks the wanted columns, [`keys`] guesses
//! which key comes next, [`value`] converts, [`scan`] skips. [`split`] finds records that are no lines.

mod decode;
mod encode;
mod infer;
mod keys;
mod messages;
mod scan;
mod split;
#[cfg(test)]
mod tests;
mod value;

use crate::format::{Format, MessageFormat, StreamFormat, record_output};
use crate::messages::TextMessageEncoder;
use crate::option_table::option_list;
use crate::records::Framer;
use crate::text_chunk::Framing;
use std::sync::Arc;

pub(crate) use decode::JsonDecoder;
pub(crate) use encode::JsonEncoder;

/// The format's entry in the table of all formats.
pub(crate) const FORMAT: Format = Format {
    files: None,
    name: "json",
    summary: "JSON objects: one per line (NDJSON), in one array, or over several lines. Only the columns that a query reads are decoded; all else is still checked.",
    options: OPTIONS,
    extension: Some("json"),
    stream: |request| {
        let framer = |info| Box::new(split::JsonFramer::new(info)) as Box<dyn Framer>;
        let decoder = Arc::new(JsonDecoder::new(request, "json")?);
        Ok(Some(StreamFormat { framer: Box::new(framer), decoder }))
    },
    stream_output: |request| record_output(JsonEncoder::new(request, "json")?, Vec::new()),
    messages: Some(MessageFormat {
        decoder: |request| Ok(Box::new(JsonDecoder::new(request, "json")?)),
        encoder: |request| {
            let encoder = JsonEncoder::new(request, "json")?;
            Ok(Box::new(TextMessageEncoder { encoder, framing: Framing::default() }))
        },
        change_decoder: None,
        changes: None,
        null_is_row: false,
    }),
    infer: Some(infer::infer),
};

option_list! {
    OPTIONS;
    "json.fail-on-missing-field": Bool, "false", "Whether a record without one of the columns ends the query; otherwise the column is NULL.";
    "json.ignore-parse-errors": Bool, "false", "Skip malformed records (they are counted) and make values of the wrong type NULL, instead of ending the query.";
    "json.timestamp-format.standard": Choice(&["SQL", "ISO-8601", "epoch-seconds", "epoch-millis", "epoch-micros", "epoch-nanos"]), "SQL",
        "What a sink writes: `SQL`: `2020-12-30 12:13:14.123`; `ISO-8601`: `2020-12-30T12:13:14.123`; TIMESTAMP_LTZ ends in `Z`; `epoch-…` (not in Flink): \
         the number of units since 1970. A source reads both kinds of text whatever is set, and numbers with one of the last four.";
    "json.map-null-key.mode": Choice(&["FAIL", "DROP", "LITERAL"]), "FAIL", "What a sink does with a NULL key of a MAP: `FAIL`, `DROP` the entry, or write the `LITERAL`.";
    "json.map-null-key.literal": Text, "null", "The key that `LITERAL` writes.";
    "json.encode.decimal-as-plain-number": Bool, "false", "Accepted; decimals are always written as plain numbers.";
    "json.encode.ignore-null-fields": Bool, "false", "Leave fields that are NULL out of the output.";
}
