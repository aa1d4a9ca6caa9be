//! Which formats there are, and how a table's options name one.
//!
//! A format is one entry of [`FORMATS`]; options, documentation and error messages follow from it. Arrow and Parquet are not
//! described as the others are, since their records do not follow each other in bytes.

use crate::arrow_stream::{ArrowDecoder, ArrowFramer};
use crate::format::{
    BareFormat, MessageFormat, RecordDecoder, StreamDecoder, StreamFormat, StreamOutput, TextFormat, foreign_chunk,
};
use crate::option_table::{OptionInfo, nearest};
use crate::records::{Framer, TextFramer};
use crate::text_chunk::{FileInfo, TextChunk};
use crate::{Chunk, Decoded, Position, SinkRequest, SourceRequest};
use crate::{arrow_stream, avro, csv, debezium, json, parquet, raw, row};
use millstream_types::{Diagnostic, Options, Place, code};
use std::sync::Arc;

/// A format of files.
pub(crate) enum Format {
    /// Records that follow each other.
    Text(TextFormat),
    /// A stream of Arrow record batches.
    Arrow,
    /// Parquet, which is columnar and has its own reader and writer.
    Parquet,
    /// Messages.
    Bare(BareFormat),
}

/// Every format.
pub(crate) const FORMATS: &[Format] = &[
    Format::Text(json::FORMAT),
    Format::Text(csv::FORMAT),
    Format::Text(row::FORMAT),
    Format::Arrow,
    Format::Parquet,
    Format::Bare(raw::FORMAT),
    Format::Bare(avro::FORMAT),
    Format::Bare(avro::CONFLUENT_FORMAT),
    Format::Bare(debezium::FORMAT),
];

impl Format {
    /// Value of the option `format`.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Format::Text(text) => text.name,
            Format::Arrow => "arrow",
            Format::Parquet => "parquet",
            Format::Bare(bare) => bare.name,
        }
    }

    /// For the documentation.
    pub(crate) fn summary(&self) -> &'static str {
        match self {
            Format::Text(text) => text.summary,
            Format::Arrow => arrow_stream::SUMMARY,
            Format::Parquet => parquet::SUMMARY,
            Format::Bare(bare) => bare.summary,
        }
    }

    /// Its options.
    pub(crate) fn options(&self) -> &'static [OptionInfo] {
        match self {
            Format::Text(text) => text.options,
            Format::Arrow => &[],
            Format::Parquet => parquet::OPTIONS,
            Format::Bare(bare) => bare.options,
        }
    }

    /// How it is read and written message by message; `None` if it is not.
    pub(crate) fn messages(&self) -> Option<&MessageFormat> {
        match self {
            Format::Text(text) => text.messages,
            Format::Bare(bare) => Some(&bare.messages),
            Format::Arrow | Format::Parquet => None,
        }
    }

    /// How it is read from a stream of bytes; `None` if it needs a file to seek in.
    pub(crate) fn stream(&self, request: &SourceRequest) -> Result<Option<StreamFormat>, Diagnostic> {
        match self {
            Format::Text(text) => {
                let framing = (text.framing)(request)?;
                let decoder = Arc::new(TextDecoder((text.decoder)(request)?));
                let framer = move |info| Box::new(TextFramer::new(info, framing)) as Box<dyn Framer>;
                Ok(Some(StreamFormat { framer: Box::new(framer), decoder }))
            }
            Format::Arrow => {
                let decoder = Arc::new(ArrowDecoder::new(request)?);
                let framer = |info| Box::new(ArrowFramer::new(info)) as Box<dyn Framer>;
                Ok(Some(StreamFormat { framer: Box::new(framer), decoder }))
            }
            Format::Parquet | Format::Bare(_) => Ok(None),
        }
    }

    /// How it is written as a stream of bytes; `None` if it is written otherwise.
    pub(crate) fn stream_output(&self, request: &SinkRequest) -> Result<Option<StreamOutput>, Diagnostic> {
        match self {
            Format::Text(text) => {
                let (encoder, header) = ((text.encoder)(request)?, (text.header)(request)?);
                Ok(Some(StreamOutput { encoder, header: header.unwrap_or_default(), trailer: b"" }))
            }
            Format::Arrow => arrow_stream::output(request).map(Some),
            Format::Parquet | Format::Bare(_) => Ok(None),
        }
    }

    /// Of files that a sink names.
    pub(crate) fn extension(&self) -> &'static str {
        match self {
            Format::Text(text) => text.extension,
            Format::Arrow => "arrows",
            Format::Parquet => "parquet",
            Format::Bare(bare) => bare.name,
        }
    }

    /// Cuts about the first `rows` rows off a chunk, for sources with a limited rate.
    pub(crate) fn split_front(_: &Options, chunk: &mut Chunk, rows: u64) -> Option<(Chunk, u64)> {
        if let Some(parts) = parquet::split_front(chunk, rows).or_else(|| arrow_stream::split_front(chunk, rows)) {
            return parts;
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
        if let Some(format) = FORMATS.iter().find(|format| format.name() == name) {
            return Ok(format);
        }
        let names: Vec<&str> = FORMATS.iter().map(Format::name).collect();
        let list = format!("known formats: {}", names.join(", "));
        let advice = match nearest(name, names.iter().copied()) {
            Some(near) => format!("did you mean '{near}'? {list}"),
            None => list,
        };
        Err(Diagnostic::new(code::UNKNOWN_FORMAT, format!("there is no format '{name}'"))
            .at(Place::Option(key.into()))
            .advise(advice))
    }
}

/// Decodes chunks of text.
struct TextDecoder(Box<dyn RecordDecoder>);

impl StreamDecoder for TextDecoder {
    fn decode(&self, chunk: Chunk) -> (Decoded, Arc<FileInfo>) {
        match chunk.payload.downcast::<TextChunk>() {
            Ok(chunk) => (self.0.decode(&chunk), chunk.file),
            Err(_) => foreign_chunk(),
        }
    }
}
