//! The `canal-json` format. A message is `{"type": "UPDATE", "data": [{row}, …], "old": [{what an update has changed}, …], …}`: the rows of
//! one statement. Of a deletion `data` has the rows that are gone.

use super::lines::lines;
use super::{Deed, EnvelopeFormat, RowsOf, changes, insertions, json_records, read_only, takes_unknown_rows, unknown};
use crate::format::{Format, MessageFormat};
use crate::option_table::option_list;
use millstream_types::Diagnostic;

/// The format's entry in the table of all formats.
pub(crate) const FORMAT: Format = Format {
    name: NAME,
    summary: "Changes of a MySQL database as Canal writes them in JSON: the rows of one statement in a message or line. A table with a `PRIMARY \
        KEY` has the rows that are there; one without reads insertions, and updates and deletions are bad messages. Definitions of tables are \
        passed over. Only for sources.",
    options: OPTIONS,
    extension: Some("json"),
    stream: |request| lines(request, &MESSAGES, NAME),
    messages: Some(MESSAGES),
    ..Format::NONE
};

const MESSAGES: MessageFormat =
    read_only(|request| insertions(request, &ENVELOPE), |request| changes(request, &ENVELOPE));

const NAME: &str = "canal-json";

static ENVELOPE: EnvelopeFormat = EnvelopeFormat {
    format: NAME,
    operation: "type",
    rows: RowsOf::ChangedLists { old: "old", data: "data" },
    deed,
    in_payload: |_| Ok(false),
    records: |request| json_records(request, NAME),
};

option_list! {
    OPTIONS;
    "canal-json.ignore-parse-errors": Bool, "false",
        "Skip bad messages (they are counted), and make values of the wrong type NULL, instead of ending the query.";
    "canal-json.timestamp-format.standard": Choice(&["SQL", "ISO-8601", "epoch-seconds", "epoch-millis", "epoch-micros", "epoch-nanos"]), "SQL", "As `json.timestamp-format.standard`.";
}

fn deed(operation: &str) -> Result<Option<Deed>, Diagnostic> {
    match operation {
        "INSERT" => Ok(Some(Deed::Comes)),
        "UPDATE" => Ok(Some(Deed::Replaces)),
        "DELETE" => Ok(Some(Deed::Goes)),
        "TRUNCATE" | "ERASE" => Err(takes_unknown_rows(&format!("type '{operation}'"))),
        "CREATE" | "ALTER" | "RENAME" | "CINDEX" | "DINDEX" | "QUERY" => Ok(None),
        _ => Err(unknown(operation, "Canal")),
    }
}
