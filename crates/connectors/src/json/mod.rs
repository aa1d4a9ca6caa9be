//! The `json` format: one object per line (NDJSON).
//!
//! Decoding is on the hot path of most queries and therefore ours: [`decode`] walks the wanted columns, [`keys`] guesses
//! which key comes next, [`value`] converts, [`scan`] skips.

mod decode;
mod encode;
mod keys;
mod scan;
#[cfg(test)]
mod tests;
mod value;

pub(crate) use encode::JsonEncoder;

use crate::format::{Format, RecordDecoder, TextFormat};
use crate::option_table::{OptionInfo, option};
use crate::text_chunk::Framing;
use crate::{Encoder, SinkRequest, SourceRequest};
use millstream_types::text::TimestampStyle;
use millstream_types::{Diagnostic, Options};
use std::sync::Arc;

/// The format's entry in the registry.
pub(crate) const FORMAT: Format = Format::Text(TextFormat {
    name: "json",
    summary: "One JSON object per line (NDJSON). Only the columns that a query reads are decoded; all else is still checked.",
    options: OPTIONS,
    framing: |_| Ok(Framing::default()),
    decoder,
    encoder,
    header: |_| Ok(None),
    extension: "json",
});

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

fn timestamp_style(options: &Options) -> Result<TimestampStyle, Diagnostic> {
    match options.get("json.timestamp-format.standard") {
        None | Some("SQL") => Ok(TimestampStyle::Sql),
        Some("ISO-8601") => Ok(TimestampStyle::Iso),
        Some(_) => Err(options.invalid("json.timestamp-format.standard", "SQL or ISO-8601")),
    }
}

fn decoder(request: &SourceRequest) -> Result<Box<dyn RecordDecoder>, Diagnostic> {
    let options = &request.options;
    let rules = decode::Rules {
        ignore_errors: options.boolean("json.ignore-parse-errors", false)?,
        fail_on_missing: options.boolean("json.fail-on-missing-field", false)?,
        timestamps: timestamp_style(options)?,
    };
    if rules.ignore_errors && rules.fail_on_missing {
        return Err(options
            .invalid("json.fail-on-missing-field", "possible together with 'json.ignore-parse-errors' = 'true'")
            .advise("set one of the two to 'false'"));
    }
    Ok(Box::new(decode::JsonDecoder::new(&request.schema, &request.columns, rules)?))
}

fn encoder(request: &SinkRequest) -> Result<Arc<dyn Encoder>, Diagnostic> {
    Ok(Arc::new(JsonEncoder::new(request, timestamp_style(&request.options)?)?))
}
