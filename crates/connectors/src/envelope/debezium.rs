//! The `debezium-json` format. A message is `{"before": …, "after": {row}, "op": "c", …}`, or has that below `payload` when it carries a
//! schema. The operations are `c` (a row was inserted), `r` (it was there when the stream began), `u` and `d`. A sink writes `c`, `u` with
//! both rows, and `d`.

use super::lines::{lines, lines_of_changes};
use super::{Deed, EnvelopeFormat, RowsOf, changes, insertions, json_records, takes_unknown_rows, unknown};
use crate::Encoder;
use crate::changes::Change;
use crate::format::{Format, MessageFormat};
use crate::json::JsonEncoder;
use crate::messages::{ChangeEncoder, MessageEncoder, Messages, MessagesBuilder};
use crate::option_table::option_list;
use arrow_array::ArrayRef;
use millstream_types::Diagnostic;

/// The format's entry in the table of all formats.
pub(crate) const FORMAT: Format = Format {
    name: NAME,
    summary: "Changes of a database as Debezium writes them in JSON, one in a message or line. A table with a `PRIMARY KEY` has the rows that are \
        there: inserted (`op` is `c` or `r`), updated (`u`), and not deleted (`d`). One without reads insertions; updates and deletions \
        are bad messages there. A sink takes results that change: it writes insertions (`c`), updates with the row as it was and \
        as it is (`u`), and deletions (`d`).",
    options: OPTIONS,
    extension: Some("json"),
    stream: |request| lines(request, &MESSAGES, NAME),
    stream_output: |request| lines_of_changes(request, &MESSAGES),
    messages: Some(MESSAGES),
    ..Format::NONE
};

const MESSAGES: MessageFormat = MessageFormat {
    decoder: |request| insertions(request, &ENVELOPE),
    encoder: |request| Ok(Box::new(DebeziumEncoder(JsonEncoder::new(request, NAME)?))),
    change_decoder: Some(|request| changes(request, &ENVELOPE)),
    changes: Some(|request| Ok(Box::new(DebeziumEncoder(JsonEncoder::new(request, NAME)?)))),
    null_is_row: false,
};

const NAME: &str = "debezium-json";

static ENVELOPE: EnvelopeFormat = EnvelopeFormat {
    format: NAME,
    operation: "op",
    rows: ROWS,
    deed,
    in_payload: |options| WITH_SCHEMA.boolean(options),
    records: |request| json_records(request, NAME),
};

pub(super) const ROWS: RowsOf = RowsOf::Both { before: "before", after: "after" };

/// What an operation of Debezium does.
pub(super) fn deed(operation: &str) -> Result<Option<Deed>, Diagnostic> {
    match operation {
        "c" | "r" => Ok(Some(Deed::Comes)),
        "u" => Ok(Some(Deed::Replaces)),
        "d" => Ok(Some(Deed::Goes)),
        "t" => Err(takes_unknown_rows("a truncation (op 't')")),
        // What is told to consumers beside the rows.
        "m" => Ok(None),
        _ => Err(unknown(operation, "Debezium")),
    }
}

/// The operation of a change.
pub(super) fn operation(change: &Change) -> &'static str {
    match (change.before, change.after) {
        (None, _) => "c",
        (Some(_), Some(_)) => "u",
        (Some(_), None) => "d",
    }
}

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

struct DebeziumEncoder(JsonEncoder);

impl MessageEncoder for DebeziumEncoder {
    fn encode(&self, columns: &[ArrayRef], rows: usize) -> Result<Messages, Diagnostic> {
        ChangeEncoder::encode(self, columns, rows, &Change::insertions(rows))
    }
}

impl ChangeEncoder for DebeziumEncoder {
    fn encode(&self, columns: &[ArrayRef], rows: usize, changes: &[Change]) -> Result<Messages, Diagnostic> {
        let data = self.0.encode(columns, rows)?.into_bytes()?;
        // The encoder escapes line feeds within values.
        let texts: Vec<&[u8]> = data.split(|byte| *byte == b'\n').take(rows).collect();
        let text = |row: Option<usize>| row.map_or(&b"null"[..], |row| texts[row]);
        let mut messages = MessagesBuilder::with_capacity(changes.len(), data.len() + changes.len() * 40);
        for change in changes {
            let (before, after, op) = (text(change.before), text(change.after), operation(change).as_bytes());
            let message = messages.bytes();
            for part in [b"{\"before\":", before, b",\"after\":", after, b",\"op\":\"", op, b"\"}"] {
                message.extend_from_slice(part);
            }
            messages.end(true);
        }
        Ok(messages.finish())
    }
}
