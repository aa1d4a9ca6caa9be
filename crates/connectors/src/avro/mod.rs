//! The formats `avro` and `avro-confluent`: records in Avro's binary form.
//!
//! `avro` is object container files ([`container`]), which have their writer's schema in them; and messages, whose schema is derived
//! from the table's columns, for reading as for writing. A message of `avro-confluent` begins with a zero byte and the number of its
//! writer's schema in a registry, four bytes, big-endian.

#[cfg(feature = "kafka")]
pub(crate) mod confluent;
mod container;
mod cursor;
mod decode;
mod encode;
mod infer;
mod schema;
#[cfg(test)]
mod tests;

use crate::format::{Format, MessageFormat};
use crate::messages::{DecodedMessages, MessageDecoder, MessageEncoder, Messages};
use crate::option_table::option_list;
use crate::records::RowBlocks;
use crate::{Chunk, SinkRequest, SourceRequest};
use decode::{AvroRecordReader, WantedFields};
use encode::AvroEncoder;
use millstream_types::Diagnostic;
use schema::AvroSchema;
use std::sync::Arc;

/// The entry of `avro` in the table of all formats.
pub(crate) const FORMAT: Format = Format {
    name: "avro",
    summary: "Apache Avro. Files and connections have object container files: the schema of their writer comes first, and \
        columns are found in it by name; one that it does not have is NULL. Blocks may be compressed by `deflate`, `snappy` or \
        `zstandard`. A message is one record, without a schema: that follows from the table's columns (as in Flink: a column that may \
        be NULL is a union with `null`), and a sink writes files with it, too.",
    options: OPTIONS,
    extension: Some("avro"),
    files: None,
    stream: |request| container::stream(request).map(Some),
    stream_output: |request| container::output(request).map(Some),
    infer: Some(container::infer),
    messages: Some(MessageFormat {
        decoder: plain_decoder,
        encoder: plain_encoder,
        change_decoder: None,
        changes: None,
        null_is_row: false,
    }),
};

option_list! {
    OPTIONS;
    ENCODING = "avro.encoding": Choice(&["binary"]), "binary", "Only `binary`.";
    LEGACY_TIMESTAMPS = "avro.timestamp_mapping.legacy": Bool, "true",
        "Whether a sink writes TIMESTAMP as an instant, as TIMESTAMP_LTZ; otherwise as a local time. Both are read.";
    CODEC = "avro.codec": Choice(&["snappy", "deflate", "zstandard", "null"]), "snappy", "How a sink compresses the blocks of a file; with `null` not at all. A file says it itself.";
    IGNORE_ERRORS = "avro.ignore-parse-errors": Bool, "false", "Skip malformed messages (they are counted), instead of ending the query. \
         Not for files: behind a malformed record the next one cannot be found.";
}

/// Cuts about the first `rows` rows off a chunk of a container file; `None` for others.
pub(crate) fn split_front(chunk: &mut Chunk, rows: u64) -> Option<Option<(Chunk, u64)>> {
    RowBlocks::<container::AvroBlock>::split_front(chunk, rows)
}

fn plain_decoder(request: &SourceRequest) -> Result<Box<dyn MessageDecoder>, Diagnostic> {
    let options = &request.options;
    ENCODING.only(options)?;
    let legacy = LEGACY_TIMESTAMPS.boolean(options)?;
    let schema = schema::derived(&request.schema.fields, legacy)?;
    let wanted = WantedFields::of(request)?;
    let reader = AvroSchema::parse(&schema.to_string()).and_then(|schema| AvroRecordReader::new(schema, &wanted));
    let reader = reader.map_err(|e| Diagnostic::bug(format!("the schema of a table cannot be read: {e}")))?;
    Ok(Box::new(PlainDecoder { wanted, reader: Arc::new(reader) }))
}

struct PlainDecoder {
    wanted: WantedFields,
    reader: Arc<AvroRecordReader>,
}

impl MessageDecoder for PlainDecoder {
    fn decode(&self, messages: &Messages) -> Result<DecodedMessages, Diagnostic> {
        self.wanted.decode(messages, |_| Ok((self.reader.clone(), 0)))
    }
}

fn plain_encoder(request: &SinkRequest) -> Result<Box<dyn MessageEncoder>, Diagnostic> {
    let legacy = LEGACY_TIMESTAMPS.boolean(&request.options)?;
    Ok(Box::new(AvroEncoder::new(&request.schema, legacy)?.0))
}
