//! The format `avro-confluent`: messages that begin with the number of their writer's schema in a Confluent schema registry.

mod registry;

use super::decode::{AvroRecordReader, WantedFields};
use super::encode::AvroEncoder;
use super::infer::columns;
use super::schema::AvroSchema;
use crate::format::{Format, MessageFormat};
use crate::infer::{FormatInput, not_known};
use crate::messages::{DecodedMessages, MessageDecoder, MessageEncoder, Messages, failure};
use crate::option_table::option_list;
use crate::{SinkRequest, SourceRequest, locked};
use millstream_types::{Diagnostic, Inferred, Place, code};
use registry::Registry;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// The entry of `avro-confluent` in the table of all formats.
pub(crate) const FORMAT: Format = Format {
    name: "avro-confluent",
    summary: "Records in Avro's binary form behind the number of their schema in a Confluent schema registry. Columns are \
        found by name in the writer's schema. A sink registers the schema of its table. \
        Only for connectors of messages.",
    options: OPTIONS,
    messages: Some(MessageFormat { decoder, encoder, change_decoder: None, changes: None, null_is_row: false }),
    infer: Some(infer),
    ..Format::NONE
};

option_list! {
    OPTIONS;
    URL = "avro-confluent.url": Required(&Text), "", "Address of the schema registry, such as `http://localhost:8081`.";
    SUBJECT = "avro-confluent.subject": Text, "<topic>-value", "The subject that a sink registers its schema for; `<topic>-key` for keys.";
    CREDENTIALS = "avro-confluent.basic-auth.credentials-source": Choice(&["USER_INFO"]), "USER_INFO", "Only `USER_INFO`.";
    USER = "avro-confluent.basic-auth.user-info": Text, "", "`user:password` for the registry.";
    TOKEN = "avro-confluent.bearer-auth.token": Text, "", "Token for the registry.";
    LEGACY_TIMESTAMPS = "avro-confluent.timestamp_mapping.legacy": Bool, "true", "As `avro.timestamp_mapping.legacy`.";
    "avro-confluent.ignore-parse-errors": Bool, "false", "As `avro.ignore-parse-errors`.";
}

/// Schemas that are kept; a stream has a few, and what names more is damaged.
const MOST_SCHEMAS: usize = 1000;

/// The columns of the newest schema of the table's subject.
fn infer(input: &FormatInput<'_>) -> Result<Inferred, Diagnostic> {
    CREDENTIALS.only(input.options)?;
    let subject = input.options.require(SUBJECT.key)?;
    let schema = Registry::open(input.options)?.latest(subject)?;
    let columns = schema.and_then(|text| columns(&text));
    let columns = columns.map_err(|why| not_known(format!("the schema of '{subject}' says no columns: {why}")))?;
    Ok(Inferred::of_columns(columns))
}

/// A decoder of records.
pub(crate) fn decoder(request: &SourceRequest) -> Result<Box<dyn MessageDecoder>, Diagnostic> {
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

/// An encoder of records, whose schema it registers.
pub(crate) fn encoder(request: &SinkRequest) -> Result<Box<dyn MessageEncoder>, Diagnostic> {
    let options = &request.options;
    CREDENTIALS.only(options)?;
    let (mut encoder, schema) = AvroEncoder::new(&request.schema, LEGACY_TIMESTAMPS.boolean(options)?)?;
    let no_subject = || Diagnostic::new(code::MISSING_OPTION, "the schema has no subject");
    let subject = options.get(SUBJECT.key).ok_or_else(|| no_subject().at(Place::Option(SUBJECT.key.into())))?;
    let id = Registry::open(options)?.register(subject, &schema.to_string())?;
    encoder.prefix.push(0);
    encoder.prefix.extend(id.to_be_bytes());
    Ok(Box::new(encoder))
}
