//! What a format is: how records are told apart, decoded and encoded.

use crate::option_table::OptionInfo;
use crate::text_chunk::{Framing, TextChunk};
use crate::{Decoded, Encoder, SinkRequest, SourceRequest};
use crate::{csv, json, parquet};
use millstream_types::{Diagnostic, Options, Place, code};
use std::sync::Arc;

/// Decodes the records of a chunk of text into the columns that have a path, in the order of the request.
pub(crate) trait RecordDecoder: Send + Sync {
    /// Decodes a chunk.
    fn decode(&self, chunk: &TextChunk) -> Decoded;
}

/// A format of records that are text.
pub(crate) struct TextFormat {
    /// Value of the option `format`.
    pub name: &'static str,
    /// For the documentation.
    pub summary: &'static str,
    /// Its options.
    pub options: &'static [OptionInfo],
    /// How records are told apart.
    pub framing: fn(&Options) -> Result<Framing, Diagnostic>,
    /// Makes a decoder.
    pub decoder: fn(&SourceRequest) -> Result<Box<dyn RecordDecoder>, Diagnostic>,
    /// Makes an encoder.
    pub encoder: fn(&SinkRequest) -> Result<Arc<dyn Encoder>, Diagnostic>,
    /// What each file of a sink starts with.
    pub header: fn(&SinkRequest) -> Result<Option<Vec<u8>>, Diagnostic>,
    /// Of files that a sink names.
    pub extension: &'static str,
}

/// A format of files.
pub(crate) enum Format {
    /// Text records.
    Text(TextFormat),
    /// Parquet, which is columnar and has its own reader and writer.
    Parquet,
}

/// Every format.
pub(crate) const FORMATS: &[Format] = &[json::FORMAT, csv::FORMAT, Format::Parquet];

impl Format {
    /// Value of the option `format`.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Format::Text(text) => text.name,
            Format::Parquet => "parquet",
        }
    }

    /// For the documentation.
    pub(crate) fn summary(&self) -> &'static str {
        match self {
            Format::Text(text) => text.summary,
            Format::Parquet => parquet::SUMMARY,
        }
    }

    /// Its options.
    pub(crate) fn options(&self) -> &'static [OptionInfo] {
        match self {
            Format::Text(text) => text.options,
            Format::Parquet => parquet::OPTIONS,
        }
    }

    /// The format that the option `format` names.
    pub(crate) fn of(options: &Options) -> Result<&'static Format, Diagnostic> {
        let name = options.require("format")?;
        if let Some(format) = FORMATS.iter().find(|format| format.name() == name) {
            return Ok(format);
        }
        let names: Vec<&str> = FORMATS.iter().map(Format::name).collect();
        let list = format!("known formats: {}", names.join(", "));
        let advice = match crate::option_table::nearest(name, names.iter().copied()) {
            Some(near) => format!("did you mean '{near}'? {list}"),
            None => list,
        };
        Err(Diagnostic::new(code::UNKNOWN_FORMAT, format!("there is no format '{name}'"))
            .at(Place::Option("format".into()))
            .advise(advice))
    }
}
