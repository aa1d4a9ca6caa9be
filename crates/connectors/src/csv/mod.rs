//! The `csv` format: RFC 4180 with Flink's options.

mod decode;
mod encode;
mod infer;
mod messages;
#[cfg(test)]
mod tests;

use crate::SourceRequest;
use crate::format::{Format, MessageFormat, StreamFormat, record_output};
use crate::messages::TextMessageEncoder;
use crate::option_table::option_list;
use crate::records::{Framer, HeaderCheck, TextFramer};
use crate::text_chunk::Framing;
use crate::times;
use decode::CsvDecoder;
use encode::CsvEncoder;
use millstream_types::text::TimestampStyle;
use millstream_types::{Diagnostic, Options};
use std::sync::Arc;

/// The format's entry in the table of all formats.
pub(crate) const FORMAT: Format = Format {
    files: None,
    name: "csv",
    summary: "Comma-separated values. Columns are found by their position in the table; quoted fields may have line feeds. \
        An empty field is NULL, except that it is an empty STRING. Blank lines are skipped.",
    options: OPTIONS,
    extension: Some("csv"),
    stream,
    stream_output: |request| record_output(CsvEncoder::new(request)?, encode::header(request)?),
    messages: Some(MessageFormat {
        decoder: |request| Ok(Box::new(CsvDecoder::new(request)?)),
        encoder: |request| {
            let framing = Dialect::of(&request.options)?.framing;
            Ok(Box::new(TextMessageEncoder { encoder: CsvEncoder::new(request)?, framing }))
        },
        change_decoder: None,
        changes: None,
        null_is_row: false,
    }),
    infer: Some(infer::infer),
};

/// Records of files and connections, whose headers, if they have any, do not contradict the columns.
fn stream(request: &SourceRequest) -> Result<Option<StreamFormat>, Diagnostic> {
    let dialect = Dialect::of(&request.options)?;
    let framing = dialect.framing;
    let columns: Vec<String> = request.schema.fields.iter().map(|field| field.name.clone()).collect();
    let check: HeaderCheck = Arc::new(move |header| infer::check_header(header, &framing, &columns));
    let framer = move |info| Box::new(TextFramer::new(info, framing).checking(check.clone())) as Box<dyn Framer>;
    Ok(Some(StreamFormat { framer: Box::new(framer), decoder: Arc::new(CsvDecoder::new(request)?) }))
}

option_list! {
    OPTIONS;
    DELIMITER = "csv.field-delimiter": Text, ",", "One ASCII character between fields; `\\t` and `\\u0001` are understood.";
    QUOTE = "csv.quote-character": Text, "\"", "Encloses fields with special characters; doubled within such a field.";
    WITHOUT_QUOTES = "csv.disable-quote-character": Bool, "false", "No character has the meaning of a quote.";
    ESCAPE = "csv.escape-character": Text, "", "Takes the special meaning from the next character.";
    COMMENTS = "csv.allow-comments": Bool, "false", "Skip lines that start with `#`.";
    IGNORE_ERRORS = "csv.ignore-parse-errors": Bool, "false",
        "Skip malformed records (they are counted) and make values of the wrong type NULL, instead of ending the query.";
    NULL_LITERAL = "csv.null-literal": Text, "", "Unquoted text that stands for NULL, and that a sink writes for it.";
    ELEMENT_DELIMITER = "csv.array-element-delimiter": Text, ";", "Between the elements of an ARRAY and the fields of a ROW.";
    "csv.write-bigdecimal-in-scientific-notation": Bool, "true", "Accepted; decimals are always written as plain numbers.";
    "csv.timestamp-format.standard": Choice(&["SQL", "ISO-8601", "epoch-seconds", "epoch-millis", "epoch-micros", "epoch-nanos"]), "SQL",
        "As `json.timestamp-format.standard` (not in Flink).";
    HEADER = "csv.header": Bool, "false", "The first record of each file is a header (not in Flink): a source skips it, after a look whether its names stand where the table's do; a sink writes it.";
}

/// How a table's CSV is written.
#[derive(Debug, Clone)]
struct Dialect {
    framing: Framing,
    null_literal: Option<String>,
    element_delimiter: String,
    timestamps: TimestampStyle,
}

impl Dialect {
    fn of(options: &Options) -> Result<Dialect, Diagnostic> {
        let delimiter = character(options, DELIMITER.key)?.unwrap_or(b',');
        let disabled = WITHOUT_QUOTES.boolean(options)?;
        if disabled && options.get(QUOTE.key).is_some() {
            return Err(options.invalid(QUOTE.key, "possible with 'csv.disable-quote-character' = 'true'"));
        }
        let quote = if disabled { None } else { Some(character(options, QUOTE.key)?.unwrap_or(b'"')) };
        let escape = character(options, ESCAPE.key)?;
        for (option, special) in [(DELIMITER, Some(delimiter)), (QUOTE, quote), (ESCAPE, escape)] {
            if matches!(special, Some(b'\n' | b'\r')) {
                return Err(options.invalid(option.key, "possible, since lines end records"));
            }
        }
        if quote == Some(delimiter) || escape == Some(delimiter) {
            return Err(options.invalid(DELIMITER.key, "different from the other special characters"));
        }
        let framing = Framing {
            quote,
            delimiter,
            escape: escape.filter(|escape| Some(*escape) != quote),
            comment: COMMENTS.boolean(options)?.then_some(b'#'),
            header: HEADER.boolean(options)?,
            record_bytes: None,
            is_rewritten: false,
        };
        Ok(Dialect {
            framing,
            null_literal: options.get(NULL_LITERAL.key).map(str::to_string),
            element_delimiter: match ELEMENT_DELIMITER.text(options) {
                "" => return Err(options.invalid(ELEMENT_DELIMITER.key, "at least one character")),
                given => given.to_string(),
            },
            timestamps: times::timestamp_style(options, "csv")?,
        })
    }
}

/// The ASCII character under `key`, which may be written as a Java escape.
fn character(options: &Options, key: &str) -> Result<Option<u8>, Diagnostic> {
    let Some(text) = options.get(key) else { return Ok(None) };
    let byte = match text.as_bytes() {
        [byte] => Some(*byte),
        [b'\\', b't'] => Some(b'\t'),
        [b'\\', b'\\'] => Some(b'\\'),
        [b'\\', b'"'] => Some(b'"'),
        [b'\\', b'\''] => Some(b'\''),
        [b'\\', b'u', ..] if text.len() == 6 => {
            text.get(2..).and_then(|hex| u8::from_str_radix(hex.trim_start_matches('0'), 16).ok())
        }
        _ => None,
    };
    match byte.filter(u8::is_ascii) {
        Some(byte) => Ok(Some(byte)),
        None => Err(options.invalid(key, "one ASCII character")),
    }
}

/// MAPs have no text form in CSV.
fn check_type(data_type: &millstream_types::DataType, column: &str) -> Result<(), Diagnostic> {
    use millstream_types::{DataType, code};
    match data_type {
        DataType::Map(..) => {
            let message = format!("column {column}: the csv format has no {data_type}");
            Err(Diagnostic::new(code::UNSUPPORTED, message).advise("use the json format"))
        }
        DataType::Array(element) => check_type(element, column),
        DataType::Row(fields) => fields.iter().try_for_each(|field| check_type(&field.data_type, column)),
        _ => Ok(()),
    }
}
