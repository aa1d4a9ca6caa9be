//! The `debezium-json` format: changes of a database's rows.
//!
//! A message is `{"before": …, "after": {row}, "op": "c", …}`, or has that below `payload` when it carries a schema. The
//! operations `c` (a row was inserted) and `r` (a row was there when the stream began) are rows. Those of `u` (an update) and `d` (a
//! deletion) replace and take back the row of their key, so a table needs a PRIMARY KEY for them; without one they are bad messages.
//! What was there is read for its key alone: databases often say no more of it. An update is two rows only if its key is another. A
//! sink writes `c`, `u` with both rows, and `d`.

use crate::changes::{Change, without_nulls};
use crate::format::{Format, MessageFormat};
use crate::json::{JsonDecoder, JsonEncoder};
use crate::messages::{
    ChangeEncoder, DecodedMessages, MessageDecoder, MessageEncoder, Messages, MessagesBuilder, failure, missing,
};
use crate::option_table::option_list;
use crate::{ColumnRequest, Encoder, RequestOrigin, SourceRequest};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, UInt32Array};
use arrow_schema::ArrowError;
use millstream_types::{DataType, Diagnostic, Field, Schema, code};

#[cfg(test)]
mod tests;

/// The format's entry in the table of all formats.
pub(crate) const FORMAT: Format = Format {
    name: "debezium-json",
    summary: "Changes of a database as Debezium writes them in JSON. A table with a `PRIMARY KEY` has the rows that are there: \
        inserted (`op` is `c` or `r`), updated (`u`), and not deleted (`d`). One without reads insertions; updates and deletions \
        are bad messages there. A sink takes results that change: it writes insertions (`c`), updates with the row as it was and \
        as it is (`u`), and deletions (`d`). Only for connectors of messages.",
    options: OPTIONS,
    messages: Some(MessageFormat {
        decoder: |request| Ok(Box::new(DebeziumDecoder::open(request)?)),
        encoder: |request| Ok(Box::new(DebeziumEncoder(JsonEncoder::new(request, NAME)?))),
        change_decoder: Some(|request| Ok(Box::new(ChangeDecoder::open(request)?))),
        changes: Some(|request| Ok(Box::new(DebeziumEncoder(JsonEncoder::new(request, NAME)?)))),
        null_is_row: false,
    }),
    ..Format::NONE
};

const NAME: &str = "debezium-json";

option_list! {
    OPTIONS;
    WITH_SCHEMA = "debezium-json.schema-include": Bool, "false", "Whether messages carry their schema, and the change in `payload`.";
    "debezium-json.ignore-parse-errors": Bool, "false",
        "Skip bad messages (they are counted), and make values of the wrong type NULL, instead of ending the \
         query.";
    "debezium-json.timestamp-format.standard": Choice(&["SQL", "ISO-8601", "epoch-seconds", "epoch-millis", "epoch-micros", "epoch-nanos"]), "SQL", "As `json.timestamp-format.standard`.";
    "debezium-json.map-null-key.mode": Choice(&["FAIL", "DROP", "LITERAL"]), "FAIL", "As `json.map-null-key.mode`.";
    "debezium-json.map-null-key.literal": Text, "null", "As `json.map-null-key.literal`.";
    "debezium-json.encode.decimal-as-plain-number": Bool, "false", "As `json.encode.decimal-as-plain-number`.";
    "debezium-json.encode.ignore-null-fields": Bool, "false", "As `json.encode.ignore-null-fields`.";
}

/// Decodes `op`, then the wanted columns of these rows of a change, one row after the other.
struct Envelope {
    decoder: JsonDecoder,
    /// The wanted columns.
    columns: Vec<ColumnRequest>,
}

impl Envelope {
    fn open(request: &SourceRequest, rows: &[&str]) -> Result<Envelope, Diagnostic> {
        let has_schema = WITH_SCHEMA.boolean(&request.options)?;
        let row = |name: &&str| Field::new(*name, DataType::Row(request.schema.fields.clone().into()), true);
        let change: Vec<Field> =
            std::iter::once(Field::new("op", DataType::STRING, true)).chain(rows.iter().map(row)).collect();
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
        let wanted: Vec<ColumnRequest> =
            request.columns.iter().filter(|column| matches!(column.origin, RequestOrigin::Path(_))).cloned().collect();
        for row in 1..=rows.len() {
            for column in &wanted {
                let RequestOrigin::Path(path) = &column.origin else { continue };
                let path: Vec<usize> = std::iter::once(row).chain(path.iter().copied()).collect();
                let origin = RequestOrigin::Path(below(&path));
                // A deletion has no row, which is not what is wrong with it.
                columns.push(ColumnRequest { origin, nullable: true, ..column.clone() });
            }
        }
        let request = SourceRequest { schema: Schema::new(fields), columns, ..request.clone() };
        Ok(Envelope { decoder: JsonDecoder::new(&request, NAME)?, columns: wanted })
    }

    /// A value that is missing in a row that is there.
    fn missing(&self, columns: &[ArrayRef], row: usize) -> Option<Diagnostic> {
        let is_missing = |(wanted, array): &(&ColumnRequest, &ArrayRef)| !wanted.nullable && array.is_null(row);
        self.columns.iter().zip(columns).find(is_missing).map(|(wanted, _)| missing(&wanted.name))
    }
}

/// What is wrong with the name of an operation.
fn no_operation(op: &str) -> Diagnostic {
    match op {
        "t" => failure(
            code::MALFORMED_RECORD,
            "a truncation (op 't') cannot be applied: it does not say which rows are gone",
            None,
        ),
        _ => failure(code::MALFORMED_RECORD, format!("'{op}' is no operation of Debezium"), None),
    }
}

/// Reads insertions.
struct DebeziumDecoder(Envelope);

impl DebeziumDecoder {
    fn open(request: &SourceRequest) -> Result<DebeziumDecoder, Diagnostic> {
        Ok(DebeziumDecoder(Envelope::open(request, &["after"])?))
    }

    /// What is wrong with a row.
    fn fault(&self, op: &str, columns: &[ArrayRef], row: usize) -> Option<Diagnostic> {
        let what = match op {
            "c" | "r" => return self.0.missing(columns, row),
            "u" => "an update",
            "d" => "a deletion",
            _ => return Some(no_operation(op)),
        };
        let message = format!(
            "{what} (op '{op}') cannot be applied: the table has no PRIMARY KEY, by which its row would be found"
        );
        Some(failure(code::MALFORMED_RECORD, message, None).advise(
            "add PRIMARY KEY (k) NOT ENFORCED to CREATE TABLE; or set 'debezium-json.ignore-parse-errors' = 'true' or a dead-letter topic to \
             skip such messages",
        ))
    }
}

impl MessageDecoder for DebeziumDecoder {
    fn decode(&self, messages: &Messages) -> Result<DecodedMessages, Diagnostic> {
        let mut decoded = MessageDecoder::decode(&self.0.decoder, messages)?;
        let operations = decoded.columns.remove(0);
        let operations = operations.as_string_view();
        decoded.check(|columns, row| {
            let op = if operations.is_null(row) { "" } else { operations.value(row) };
            self.fault(op, columns, row)
        })?;
        Ok(decoded)
    }
}

/// Reads changes.
struct ChangeDecoder {
    envelope: Envelope,
    /// Positions of the primary key among the wanted columns.
    key: Vec<usize>,
}

impl ChangeDecoder {
    fn open(request: &SourceRequest) -> Result<ChangeDecoder, Diagnostic> {
        let envelope = Envelope::open(request, &["before", "after"])?;
        let is_key = |column: &ColumnRequest| match &column.origin {
            RequestOrigin::Path(path) => path.first().is_some_and(|first| request.primary_key.contains(first)),
            _ => false,
        };
        let key = (0..envelope.columns.len()).filter(|&at| is_key(&envelope.columns[at])).collect();
        Ok(ChangeDecoder { envelope, key })
    }

    /// The rows of a change: whether what was there and what is there from now on are.
    fn rows(&self, op: &str, before: &[ArrayRef], after: &[ArrayRef], row: usize) -> Result<(bool, bool), Diagnostic> {
        let comes = match op {
            "c" | "r" | "u" => true,
            "d" => false,
            _ => return Err(no_operation(op)),
        };
        if comes {
            self.envelope.missing(after, row).map_or(Ok(()), Err)?;
        }
        let is_known = self.key.iter().any(|&at| before[at].is_valid(row));
        // A row replaces that of its key; only one of another key is gone.
        let is_replaced = || self.key.iter().all(|&at| is_equal(&before[at], &after[at], row));
        let goes = is_known && (op == "d" || (op == "u" && !is_replaced()));
        if !comes && !goes {
            let message = "a deletion (op 'd') does not say which row is gone: it has no `before`";
            return Err(failure(code::MALFORMED_RECORD, message, None)
                .advise("in PostgreSQL, give the table a primary key, or ALTER TABLE t REPLICA IDENTITY FULL"));
        }
        Ok((goes, comes))
    }
}

impl MessageDecoder for ChangeDecoder {
    fn decode(&self, messages: &Messages) -> Result<DecodedMessages, Diagnostic> {
        let mut envelopes = MessageDecoder::decode(&self.envelope.decoder, messages)?;
        let operations = envelopes.columns.remove(0);
        let operations = operations.as_string_view();
        let (before, after) = envelopes.columns.split_at(self.envelope.columns.len());
        let mut decoded = DecodedMessages { failures: envelopes.failures, ..DecodedMessages::default() };
        // A row of what was there is one of the first half, one of what is there of the second.
        let (mut places, all) = (Vec::new(), envelopes.rows.len() as u32);
        for (row, &message) in envelopes.rows.iter().enumerate() {
            let op = if operations.is_null(row) { "" } else { operations.value(row) };
            let (goes, comes) = match self.rows(op, before, after, row) {
                Ok(rows) => rows,
                Err(fault) => {
                    decoded.failures.push((message as usize, fault));
                    continue;
                }
            };
            for (_, comes) in [(goes, false), (comes, true)].into_iter().filter(|(is_there, _)| *is_there) {
                places.push(row as u32 + if comes { all } else { 0 });
                decoded.rows.push(message);
                decoded.comes.push(comes);
            }
        }
        decoded.failures.sort_by_key(|(message, _)| *message);
        let places = UInt32Array::from(places);
        let column = |((before, after), wanted): ((&ArrayRef, &ArrayRef), &ColumnRequest)| {
            let both = arrow_select::concat::concat(&[before, after])?;
            let column = arrow_select::take::take(&both, &places, None)?;
            // Of what was there often only the key is known.
            Ok(if wanted.nullable { column } else { without_nulls(&column) })
        };
        let columns = before.iter().zip(after).zip(&self.envelope.columns).map(column);
        let columns: Result<Vec<ArrayRef>, ArrowError> = columns.collect();
        decoded.columns = columns.map_err(|e| Diagnostic::bug(format!("rows of changes cannot be made: {e}")))?;
        Ok(decoded)
    }
}

/// Whether two columns have the same value in a row.
fn is_equal(a: &ArrayRef, b: &ArrayRef, row: usize) -> bool {
    if a.is_null(row) || b.is_null(row) {
        return a.is_null(row) == b.is_null(row);
    }
    if let (Some(a), Some(b)) = (a.as_primitive_opt::<Int64Type>(), b.as_primitive_opt::<Int64Type>()) {
        return a.value(row) == b.value(row);
    }
    if let (Some(a), Some(b)) = (a.as_string_view_opt(), b.as_string_view_opt()) {
        return a.value(row) == b.value(row);
    }
    a.slice(row, 1).to_data() == b.slice(row, 1).to_data()
}

struct DebeziumEncoder(JsonEncoder);

impl MessageEncoder for DebeziumEncoder {
    fn encode(&self, columns: &[ArrayRef], rows: usize) -> Result<Messages, Diagnostic> {
        let insertions: Vec<Change> = (0..rows).map(|row| Change { before: None, after: Some(row) }).collect();
        ChangeEncoder::encode(self, columns, rows, &insertions)
    }
}

impl ChangeEncoder for DebeziumEncoder {
    fn encode(&self, columns: &[ArrayRef], rows: usize, changes: &[Change]) -> Result<Messages, Diagnostic> {
        let data = self.0.encode(columns, rows)?.into_bytes()?;
        // The encoder escapes line feeds within values.
        let texts: Vec<&[u8]> = data.split(|byte| *byte == b'\n').take(rows).collect();
        let text = |row: Option<usize>| row.map_or(&b"null"[..], |row| texts[row]);
        let mut messages = MessagesBuilder::with_capacity(changes.len(), data.len() + changes.len() * 40);
        for Change { before, after } in changes {
            let op: &[u8] = match (before, after) {
                (None, _) => b"c",
                (Some(_), Some(_)) => b"u",
                (Some(_), None) => b"d",
            };
            let message = messages.bytes();
            for part in [b"{\"before\":", text(*before), b",\"after\":", text(*after), b",\"op\":\"", op, b"\"}"] {
                message.extend_from_slice(part);
            }
            messages.end(true);
        }
        Ok(messages.finish())
    }
}
