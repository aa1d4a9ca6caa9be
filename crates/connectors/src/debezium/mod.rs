//! The `debezium-json` format: changes of a database's rows, of which only insertions can be taken.
//!
//! A message is `{"before": …, "after": {row}, "op": "c", …}`, or has that below `payload` when it carries a schema. The
//! operations `c` (a row was inserted) and `r` (a row was there when the stream began) are rows; updates and deletions
//! would take rows back, which queries cannot do, so such messages are bad ones.

use crate::format::{Format, MessageFormat};
use crate::json::{JsonDecoder, JsonEncoder};
use crate::messages::{DecodedMessages, MessageDecoder, MessageEncoder, Messages, MessagesBuilder, failure, missing};
use crate::option_table::option_list;
use crate::{ColumnRequest, Encoder, RequestOrigin, SourceRequest};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use millstream_types::{DataType, Diagnostic, Field, Schema, code};

#[cfg(test)]
mod tests;

/// The format's entry in the table of all formats.
pub(crate) const FORMAT: Format = Format {
    name: "debezium-json",
    summary: "Changes of a database as Debezium writes them in JSON: rows that were inserted (`op` is `c` or `r`). \
        Updates and deletions cannot be applied and count as bad messages. A sink writes insertions. \
        Only for connectors of messages.",
    options: OPTIONS,
    messages: Some(MessageFormat {
        decoder: |request| Ok(Box::new(DebeziumDecoder::open(request)?)),
        encoder: |request| Ok(Box::new(DebeziumEncoder(JsonEncoder::new(request, NAME)?))),
        null_is_row: false,
    }),
    ..Format::NONE
};

const NAME: &str = "debezium-json";

option_list! {
    OPTIONS;
    WITH_SCHEMA = "debezium-json.schema-include": Bool, "false", "Whether messages carry their schema, and the change in `payload`.";
    "debezium-json.ignore-parse-errors": Bool, "false",
        "Skip bad messages, updates and deletions among them (they are counted), and make values of the wrong type NULL, instead of ending the \
         query.";
    "debezium-json.timestamp-format.standard": Choice(&["SQL", "ISO-8601", "epoch-seconds", "epoch-millis", "epoch-micros", "epoch-nanos"]), "SQL", "As `json.timestamp-format.standard`.";
    "debezium-json.map-null-key.mode": Choice(&["FAIL", "DROP", "LITERAL"]), "FAIL", "As `json.map-null-key.mode`.";
    "debezium-json.map-null-key.literal": Text, "null", "As `json.map-null-key.literal`.";
    "debezium-json.encode.decimal-as-plain-number": Bool, "false", "As `json.encode.decimal-as-plain-number`.";
    "debezium-json.encode.ignore-null-fields": Bool, "false", "As `json.encode.ignore-null-fields`.";
}

struct DebeziumDecoder {
    /// Decodes `op`, then the wanted columns of `after`.
    envelope: JsonDecoder,
    /// The wanted columns.
    columns: Vec<ColumnRequest>,
}

impl DebeziumDecoder {
    fn open(request: &SourceRequest) -> Result<DebeziumDecoder, Diagnostic> {
        let has_schema = WITH_SCHEMA.boolean(&request.options)?;
        let change = vec![
            Field::new("op", DataType::STRING, true),
            Field::new("after", DataType::Row(request.schema.fields.clone().into()), true),
        ];
        let (fields, above) = match has_schema {
            true => (vec![Field::new("payload", DataType::Row(change.into()), true)], vec![0]),
            false => (change, Vec::new()),
        };
        let below = |path: &[usize]| above.iter().chain(path).copied().collect();
        let mut columns = vec![ColumnRequest {
            name: "op".into(),
            origin: RequestOrigin::Path(below(&[0])),
            data_type: DataType::STRING,
            nullable: true,
        }];
        let mut wanted = Vec::new();
        for column in &request.columns {
            let RequestOrigin::Path(path) = &column.origin else { continue };
            wanted.push(column.clone());
            let path: Vec<usize> = std::iter::once(1).chain(path.iter().copied()).collect();
            let origin = RequestOrigin::Path(below(&path));
            // A deletion has no row, which is not what is wrong with it.
            columns.push(ColumnRequest { origin, nullable: true, ..column.clone() });
        }
        let request = SourceRequest { schema: Schema::new(fields), columns, ..request.clone() };
        Ok(DebeziumDecoder { envelope: JsonDecoder::new(&request, NAME)?, columns: wanted })
    }

    /// What is wrong with a row.
    fn fault(&self, op: &str, columns: &[ArrayRef], row: usize) -> Option<Diagnostic> {
        let what = match op {
            "c" | "r" => {
                let is_missing = |(wanted, array): &(&ColumnRequest, &ArrayRef)| !wanted.nullable && array.is_null(row);
                return self.columns.iter().zip(columns).find(is_missing).map(|(wanted, _)| missing(&wanted.name));
            }
            "u" => "an update",
            "d" => "a deletion",
            "t" => "a truncation",
            _ => return Some(failure(code::MALFORMED_RECORD, format!("'{op}' is no operation of Debezium"), None)),
        };
        let message = format!("{what} (op '{op}') cannot be applied: only insertions can be read");
        Some(
            failure(code::MALFORMED_RECORD, message, None).advise(
                "set 'debezium-json.ignore-parse-errors' = 'true' or a dead-letter topic to skip such messages",
            ),
        )
    }
}

impl MessageDecoder for DebeziumDecoder {
    fn decode(&self, messages: &Messages) -> Result<DecodedMessages, Diagnostic> {
        let mut decoded = MessageDecoder::decode(&self.envelope, messages)?;
        let operations = decoded.columns.remove(0);
        let operations = operations.as_string_view();
        decoded.check(|columns, row| {
            let op = if operations.is_null(row) { "" } else { operations.value(row) };
            self.fault(op, columns, row)
        })?;
        Ok(decoded)
    }
}

struct DebeziumEncoder(JsonEncoder);

impl MessageEncoder for DebeziumEncoder {
    fn encode(&self, columns: &[ArrayRef], rows: usize) -> Result<Messages, Diagnostic> {
        let data = self.0.encode(columns, rows)?.into_bytes()?;
        let mut messages = MessagesBuilder::with_capacity(rows, data.len() + rows * 40);
        // The encoder escapes line feeds within values.
        for row in data.split(|byte| *byte == b'\n').take(rows) {
            for part in [&b"{\"before\":null,\"after\":"[..], row, b",\"op\":\"c\"}"] {
                messages.bytes().extend_from_slice(part);
            }
            messages.end(true);
        }
        Ok(messages.finish())
    }
}
