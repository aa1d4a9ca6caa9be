//! Which formats there are, and how a table's options name one.
//!
//! A format is one entry of [`FORMATS`]; options, documentation and error messages follow from it.

use crate::format::Format;
use crate::option_table::{known_names, not_built, option_fault};
#[cfg(feature = "parquet")]
use crate::parquet;
use crate::text_chunk::TextChunk;
use crate::{Chunk, Position};
use crate::{arrow_stream, avro, csv, debezium, json, raw, row};
use millstream_types::{Diagnostic, Options, code};

/// Every format.
pub(crate) const FORMATS: &[Format] = &[
    json::FORMAT,
    csv::FORMAT,
    row::FORMAT,
    arrow_stream::FORMAT,
    #[cfg(feature = "parquet")]
    parquet::FORMAT,
    raw::FORMAT,
    avro::FORMAT,
    #[cfg(feature = "kafka")]
    avro::confluent::FORMAT,
    debezium::FORMAT,
];

/// Formats that this program was built without.
const LEFT_OUT: &[&str] = &[
    #[cfg(not(feature = "parquet"))]
    "parquet",
    #[cfg(not(feature = "kafka"))]
    "avro-confluent",
];

impl Format {
    /// Cuts about the first `rows` rows off a chunk, for sources with a limited rate.
    pub(crate) fn split_front(chunk: &mut Chunk, rows: u64) -> Option<(Chunk, u64)> {
        for split in [
            #[cfg(feature = "parquet")]
            parquet::split_front,
            arrow_stream::split_front,
            avro::split_front,
        ] {
            if let Some(parts) = split(chunk, rows) {
                return parts;
            }
        }
        let text = chunk.payload.downcast_mut::<TextChunk>()?;
        if text.data.is_empty() {
            return None;
        }
        let front = text.split_front(rows);
        let (count, bytes) = (front.records(), front.data.len() as u64);
        let after = Some(Position { at: text.offset, line: text.line });
        chunk.bytes = chunk.bytes.saturating_sub(bytes);
        Some((Chunk { payload: Box::new(front), bytes, after }, count))
    }

    /// The format that the option `format` names.
    pub(crate) fn of(options: &Options) -> Result<&'static Format, Diagnostic> {
        Format::named(options.require("format")?, "format")
    }

    /// The format of this name, which the option `key` gives.
    pub(crate) fn named(name: &str, key: &str) -> Result<&'static Format, Diagnostic> {
        FORMATS.iter().find(|format| format.name == name).ok_or_else(|| {
            if LEFT_OUT.contains(&name) {
                return not_built(code::UNKNOWN_FORMAT, key, &format!("format '{name}'"));
            }
            let names: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
            let message = format!("there is no format '{name}'");
            option_fault(code::UNKNOWN_FORMAT, key, message, known_names(name, "formats", &names))
        })
    }
}
