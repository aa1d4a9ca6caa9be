//! The `json` format: one object per line (NDJSON).
//!
//! Decoding is on the hot path of most queries and therefore ours: [`decode`] walks the wanted columns, [`keys`] guesses
//! which key comes next, [`value`] converts, [`scan`] skips.

mod decode;
mod encode;
mod keys;
mod messages;
mod scan;
#[cfg(test)]
mod tests;
mod value;

use crate::format::{MessageFormat, RecordDecoder, TextFormat};
use crate::messages::TextMessageEncoder;
use crate::option_table::{OptionInfo, option};
use crate::text_chunk::Framing;
use crate::{Encoder, SinkRequest, SourceRequest};
use millstream_types::text::TimestampStyle;
use millstream_types::{Diagnostic, Options};
use std::sync::Arc;

pub(crate) use decode::JsonDecoder;
pub(crate) use encode::JsonEncoder;

/// The format's entry in the table of all formats.
pub(crate) const FORMAT: TextFormat = TextFormat {
    name: "json",
    summary: "One JSON object per line (NDJSON). Only the columns that a query reads are decoded; all else is still checked.",
    options: OPTIONS,
    framing: |_| Ok(Framing::default()),
    decoder,
    encoder,
    header: |_| Ok(None),
    extension: "json",
    messages: Some(&MESSAGES),
};

const MESSAGES: MessageFormat = MessageFormat {
    decoder: |request| Ok(Box::new(json_decoder(request, "json")?)),
    encoder: |request| Ok(Box::new(TextMessageEncoder::new(encoder(request)?, Framing::default()))),
    null_is_row: false,
};

const OPTIONS: &[OptionInfo] = &[
    option(
        "json.fail-on-missing-field",
        "false",
        "Whether a record without one of the columns ends the query; otherwise the column is NULL.",
    ),
    option(
        "json.ignore-parse-errors",
        "false",
        "Skip malformed records (they are counted) and make values of the wrong type NULL, instead of ending the query.",
    ),
    option(
        "json.timestamp-format.standard",
        "SQL",
        "`SQL`: `2020-12-30 12:13:14.123`; `ISO-8601`: `2020-12-30T12:13:14.123`; TIMESTAMP_LTZ ends in `Z`.",
    ),
    option(
        "json.map-null-key.mode",
        "FAIL",
        "What a sink does with a NULL key of a MAP: `FAIL`, `DROP` the entry, or write the `LITERAL`.",
    ),
    option("json.map-null-key.literal", "null", "The key that `LITERAL` writes."),
    option("json.encode.decimal-as-plain-number", "false", "Accepted; decimals are always written as plain numbers."),
    option("json.encode.ignore-null-fields", "false", "Leave fields that are NULL out of the output."),
];

/// `<format>.timestamp-format.standard`
fn timestamp_style(options: &Options, format: &str) -> Result<TimestampStyle, Diagnostic> {
    let key = format!("{format}.timestamp-format.standard");
    match options.get(&key) {
        None | Some("SQL") => Ok(TimestampStyle::Sql),
        Some("ISO-8601") => Ok(TimestampStyle::Iso),
        Some(_) => Err(options.invalid(&key, "SQL or ISO-8601")),
    }
}

fn decoder(request: &SourceRequest) -> Result<Box<dyn RecordDecoder>, Diagnostic> {
    Ok(Box::new(json_decoder(request, "json")?))
}

/// The decoder of a format with the options of this one.
pub(crate) fn json_decoder(request: &SourceRequest, format: &'static str) -> Result<JsonDecoder, Diagnostic> {
    let options = &request.options;
    let (ignore, fail) = (format!("{format}.ignore-parse-errors"), format!("{format}.fail-on-missing-field"));
    let rules = decode::Rules {
        ignore_errors: options.boolean(&ignore, false)?,
        fail_on_missing: options.boolean(&fail, false)?,
        timestamps: timestamp_style(options, format)?,
        format,
    };
    if rules.ignore_errors && rules.fail_on_missing {
        return Err(options
            .invalid(&fail, &format!("possible together with '{ignore}' = 'true'"))
            .advise("set one of the two to 'false'"));
    }
    JsonDecoder::new(&request.schema, &request.columns, rules)
}

fn encoder(request: &SinkRequest) -> Result<Arc<dyn Encoder>, Diagnostic> {
    Ok(Arc::new(json_encoder(request, "json")?))
}

/// The encoder of a format with the options of this one.
pub(crate) fn json_encoder(request: &SinkRequest, format: &str) -> Result<JsonEncoder, Diagnostic> {
    JsonEncoder::new(request, format, timestamp_style(&request.options, format)?)
}
