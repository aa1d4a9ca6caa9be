//! The formats `avro` and `avro-confluent`: records in Avro's binary form.
//!
//! `avro` is object container files ([`container`]), which have their writer's schema in them; and messages, whose schema is derived
//! from the table's columns, for reading as for writing. A message of `avro-confluent` begins with a zero byte and the number of its
//! writer's schema in a registry, four bytes, big-endian.

mod container;
mod cursor;
mod decode;
mod encode;
mod infer;
mod registry;
mod schema;
#[cfg(test)]
mod tests;

use crate::format::{Format, MessageFormat};
use crate::messages::{DecodedMessages, MessageDecoder, MessageEncoder, Messages, failure};
use crate::option_table::option_list;
use crate::records::RowBlocks;
use crate::{Chunk, SinkRequest, SourceRequest, locked};
use decode::{AvroRecordReader, WantedFields};
use encode::AvroEncoder;
use millstream_types::{Diagnostic, Place, code};
use registry::Registry;
use schema::AvroSchema;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// The entry of `avro` in the table of all formats.
pub(crate) const FORMAT: Format = Format {
    name: "avro",
    summary: "Apache Avro. Files and connections have object container files: the schema of their writer comes first, and \
        columns are found in it by name; one that it does not have is NULL. Blocks may be compressed by `deflate`, `snappy` or \
        `zstandard`. A message is one record, without a schema: that follows from the table's columns (as in Flink: a column that may \
        be NULL is a union with `null`), and a sink writes files with it, too.",
    options: OPTIONS,
    extension: Some("avro"),
    stream: |request| container::stream(request).map(Some),
    stream_output: |request| container::output(request).map(Some),
    infer: Some(container::infer),
    messages: Some(MessageFormat { decoder: plain_decoder, encoder: plain_encoder, null_is_row: false }),
};

/// The entry of `avro-confluent` in the table of all formats.
pub(crate) const CONFLUENT_FORMAT: Format = Format {
    name: "avro-confluent",
    summary: "Records in Avro's binary form behind the number of their schema in a Confluent schema registry. Columns are \
        found by name in the writer's schema. A sink registers the schema of its table. \
        Only for connectors of messages.",
    options: CONFLUENT_OPTIONS,
    messages: Some(MessageFormat { decoder: confluent_decoder, encoder: confluent_encoder, null_is_row: false }),
    infer: Some(infer::infer),
    ..Format::NONE
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

option_list! {
    CONFLUENT_OPTIONS;
    URL = "avro-confluent.url": Required(&Text), "", "Address of the schema registry, such as `http://localhost:8081`.";
    SUBJECT = "avro-confluent.subject": Text, "<topic>-value", "The subject that a sink registers its schema for; `<topic>-key` for keys.";
    CREDENTIALS = "avro-confluent.basic-auth.credentials-source": Choice(&["USER_INFO"]), "USER_INFO", "Only `USER_INFO`.";
    USER = "avro-confluent.basic-auth.user-info": Text, "", "`user:password` for the registry.";
    TOKEN = "avro-confluent.bearer-auth.token": Text, "", "Token for the registry.";
    CONFLUENT_LEGACY_TIMESTAMPS = "avro-confluent.timestamp_mapping.legacy": Bool, "true", "As `avro.timestamp_mapping.legacy`.";
    "avro-confluent.ignore-parse-errors": Bool, "false", "As `avro.ignore-parse-errors`.";
}

/// Schemas that are kept; a stream has a few, and what names more is damaged.
const MOST_SCHEMAS: usize = 1000;

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

fn confluent_decoder(request: &SourceRequest) -> Result<Box<dyn MessageDecoder>, Diagnostic> {
    CREDENTIALS.only(&request.options)?;
    let registry = Registry::open(&request.options)?;
    Ok(Box::new(ConfluentDecoder { wanted: WantedFields::of(request)?, registry, readers: Mutex::default() }))
}

struct ConfluentDecoder {
    wanted: WantedFields,
    registry: Registry,
    /// By number of the schema; or why its messages cannot be read.
    readers: Mutex<HashMap<u32, Result<Arc<AvroRecordReader>, String>>>,
}

impl ConfluentDecoder {
    /// The reader of a schema, which is fetched the first time. Other workers wait meanwhile, since they would need it as
    /// well.
    fn reader(&self, id: u32) -> Result<Arc<AvroRecordReader>, Diagnostic> {
        let mut readers = locked(&self.readers);
        if let Some(known) = readers.get(&id) {
            return known.clone().map_err(unreadable);
        }
        let text = self.registry.schema(id)?;
        let describe = |e: String| format!("schema {id} of the registry cannot be used: {e}");
        let reader = text.and_then(|text| {
            let schema = AvroSchema::parse(&text).map_err(describe)?;
            AvroRecordReader::new(schema, &self.wanted).map(Arc::new).map_err(describe)
        });
        if readers.len() >= MOST_SCHEMAS {
            readers.clear();
        }
        readers.insert(id, reader.clone());
        reader.map_err(unreadable)
    }
}

fn unreadable(why: String) -> Diagnostic {
    failure(code::MALFORMED_RECORD, why, None).advise("see that the table's columns fit the writer's schema")
}

impl MessageDecoder for ConfluentDecoder {
    fn decode(&self, messages: &Messages) -> Result<DecodedMessages, Diagnostic> {
        self.wanted.decode(messages, |message| match message {
            [0, a, b, c, d, ..] => Ok((self.reader(u32::from_be_bytes([*a, *b, *c, *d]))?, 5)),
            _ => Err(failure(code::MALFORMED_RECORD, "the message does not begin with the number of a schema", None)
                .advise("use the format avro for messages without that")),
        })
    }
}

fn confluent_encoder(request: &SinkRequest) -> Result<Box<dyn MessageEncoder>, Diagnostic> {
    let options = &request.options;
    CREDENTIALS.only(options)?;
    let (mut encoder, schema) = AvroEncoder::new(&request.schema, CONFLUENT_LEGACY_TIMESTAMPS.boolean(options)?)?;
    let no_subject = || Diagnostic::new(code::MISSING_OPTION, "the schema has no subject");
    let subject = options.get(SUBJECT.key).ok_or_else(|| no_subject().at(Place::Option(SUBJECT.key.into())))?;
    let id = Registry::open(options)?.register(subject, &schema.to_string())?;
    encoder.prefix.push(0);
    encoder.prefix.extend(id.to_be_bytes());
    Ok(Box::new(encoder))
}
