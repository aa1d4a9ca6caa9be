//! The `debezium-avro-confluent` format: envelopes of Debezium in Avro, behind the number of their schema in a schema registry.

use super::debezium::{ROWS, deed, operation};
use super::{EnvelopeFormat, changes, insertions};
use crate::avro::confluent;
use crate::changes::Change;
use crate::format::{Format, MessageFormat};
use crate::messages::{ChangeEncoder, MessageEncoder, Messages};
use crate::option_table::option_list;
use crate::{SinkRequest, SourceRequest};
use arrow_array::{ArrayRef, StringViewArray, StructArray, UInt32Array};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, Fields};
use millstream_types::{DataType, Diagnostic, Field, Options, Schema};
use std::sync::Arc;

/// The format's entry in the table of all formats.
pub(crate) const FORMAT: Format = Format {
    name: NAME,
    summary: "Changes of a database as Debezium writes them in Avro, behind the number of their schema in a Confluent schema registry. Rows and \
        changes are as with `debezium-json`. A sink registers the schema of its changes. Only for connectors of messages.",
    options: OPTIONS,
    messages: Some(MessageFormat {
        decoder: |request| insertions(request, &ENVELOPE),
        encoder: |request| Ok(Box::new(EnvelopeEncoder::open(request)?)),
        change_decoder: Some(|request| changes(request, &ENVELOPE)),
        changes: Some(|request| Ok(Box::new(EnvelopeEncoder::open(request)?))),
        null_is_row: false,
    }),
    ..Format::NONE
};

const NAME: &str = "debezium-avro-confluent";

static ENVELOPE: EnvelopeFormat = EnvelopeFormat {
    format: NAME,
    operation: "op",
    rows: ROWS,
    deed,
    in_payload: |_| Ok(false),
    records: |request| {
        let options = of_records(&request.options);
        confluent::decoder(&SourceRequest { options, ..request.clone() })
    },
};

option_list! {
    OPTIONS;
    "debezium-avro-confluent.url": Required(&Text), "", "Address of the schema registry, such as `http://localhost:8081`.";
    "debezium-avro-confluent.subject": Text, "<topic>-value", "The subject that a sink registers its schema for.";
    "debezium-avro-confluent.basic-auth.credentials-source": Choice(&["USER_INFO"]), "USER_INFO", "Only `USER_INFO`.";
    "debezium-avro-confluent.basic-auth.user-info": Text, "", "`user:password` for the registry.";
    "debezium-avro-confluent.bearer-auth.token": Text, "", "Token for the registry.";
    "debezium-avro-confluent.ignore-parse-errors": Bool, "false", "Skip bad messages (they are counted) instead of ending the query.";
    "debezium-avro-confluent.timestamp_mapping.legacy": Bool, "true", "As `avro.timestamp_mapping.legacy`.";
}

/// The options of the records that are envelopes: those of `avro-confluent`.
fn of_records(options: &Options) -> Options {
    let mut all = options.clone();
    for (key, value) in options.iter() {
        if let Some(own) = key.strip_prefix("debezium-") {
            all.set(own, value);
        }
    }
    all
}

/// Writes changes as records of what was there, what is there, and the operation.
struct EnvelopeEncoder {
    records: Box<dyn MessageEncoder>,
    /// Of a row.
    fields: Fields,
}

impl EnvelopeEncoder {
    fn open(request: &SinkRequest) -> Result<EnvelopeEncoder, Diagnostic> {
        let row = DataType::Row(request.schema.fields.clone().into());
        let arrow_schema::DataType::Struct(fields) = row.to_arrow() else {
            return Err(Diagnostic::bug("a row is no struct"));
        };
        let schema = Schema::new(vec![
            Field::new("before", row.clone(), true),
            Field::new("after", row, true),
            Field::new("op", DataType::STRING, false),
        ]);
        let options = of_records(&request.options);
        let records = confluent::encoder(&SinkRequest { options, schema, ..request.clone() })?;
        Ok(EnvelopeEncoder { records, fields })
    }

    /// The rows at some places.
    fn rows(&self, columns: &[ArrayRef], places: &[Option<u32>]) -> Result<ArrayRef, ArrowError> {
        let nulls = NullBuffer::from_iter(places.iter().map(Option::is_some));
        // A column that has no NULL keeps none: where there is no row, it has some value that nobody looks at.
        let places = UInt32Array::from_iter_values(places.iter().map(|place| place.unwrap_or(0)));
        let columns: Result<Vec<ArrayRef>, ArrowError> =
            columns.iter().map(|column| arrow_select::take::take(column, &places, None)).collect();
        Ok(Arc::new(StructArray::try_new(self.fields.clone(), columns?, Some(nulls))?))
    }
}

impl MessageEncoder for EnvelopeEncoder {
    fn encode(&self, columns: &[ArrayRef], rows: usize) -> Result<Messages, Diagnostic> {
        ChangeEncoder::encode(self, columns, rows, &Change::insertions(rows))
    }
}

impl ChangeEncoder for EnvelopeEncoder {
    fn encode(&self, columns: &[ArrayRef], _rows: usize, changes: &[Change]) -> Result<Messages, Diagnostic> {
        let places = |of: fn(&Change) -> Option<usize>| -> Vec<Option<u32>> {
            changes.iter().map(|change| of(change).map(|row| row as u32)).collect()
        };
        let (before, after) = (places(|change| change.before), places(|change| change.after));
        let rows = self.rows(columns, &before).and_then(|before| Ok((before, self.rows(columns, &after)?)));
        let (before, after) = rows.map_err(|e| Diagnostic::bug(format!("changes cannot be written: {e}")))?;
        let operations: ArrayRef = Arc::new(StringViewArray::from_iter_values(changes.iter().map(operation)));
        self.records.encode(&[before, after, operations], changes.len())
    }
}
