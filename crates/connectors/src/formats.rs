//! Which formats there are, and how a table's options name one.
//!
//! A format is one entry of [`FORMATS`]; options, documentation and error messages follow from it.

use crate::format::Format;
use crate::option_table::{known_names, not_built, option_fault};
use crate::text_chunk::TextChunk;
use crate::{Chunk, Position};
#[cfg(feature = "columnar")]
use crate::{arrow_stream, parquet};
use crate::{avro, csv, envelope, json, raw, row};
use millstream_types::{Diagnostic, Options, code};

/// Every format.
pub(crate) const FORMATS: &[Format] = &[
    json::FORMAT,
    csv::FORMAT,
    row::FORMAT,
    #[cfg(feature = "columnar")]
    arrow_stream::FORMAT,
    #[cfg(feature = "columnar")]
    parquet::FORMAT,
    raw::FORMAT,
    avro::FORMAT,
    #[cfg(feature = "kafka")]
    avro::confluent::FORMAT,
    envelope::debezium::FORMAT,
    #[cfg(feature = "kafka")]
    envelope::avro::FORMAT,
    envelope::canal::FORMAT,
    envelope::maxwell::FORMAT,
];

/// Formats that this program was built without.
const LEFT_OUT: &[&str] = &[
    #[cfg(not(feature = "columnar"))]
    "arrow",
    #[cfg(not(feature = "columnar"))]
    "parquet",
    #[cfg(not(feature = "kafka"))]
    "avro-confluent",
    #[cfg(not(feature = "kafka"))]
    "debezium-avro-confluent",
];

impl Format {
    /// Cuts about the first `rows` rows off a chunk, for sources with a limited rate.
    pub(crate) fn split_front(chunk: &mut Chunk, rows: u64) -> Option<(Chunk, u64)> {
        for split in [
            #[cfg(feature = "columnar")]
            parquet::split_front,
            #[cfg(feature = "columnar")]
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
        // A reader may count the bytes of several files.
        let after = chunk.after.map(|end| Position { at: end.at - text.data.len() as u64, line: text.line });
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
