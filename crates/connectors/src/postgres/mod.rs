//! The `jdbc` connector: rows into a table of a PostgreSQL database, by the protocol of the database itself.
//!
//! Workers encode rows as text of `COPY`, the fastest way in, which the server reads as values of the table's own types. With a
//! PRIMARY KEY the rows go through a temporary table, from which they replace those of the same key. Of a result that changes,
//! which needs such a key, each row also says there whether it is gone: then the one of the same key is deleted.
//!
//! Without checkpoints rows are written in batches, each in a transaction ([`batches`]); with them, the rows of a span wait in
//! a file ([`crate::spans`]) and are written, with a note of the checkpoint, in one transaction ([`progress`]).

mod batches;
mod connection;
mod encode;
mod encryption;
mod options;
mod progress;
mod sink;
mod table;
#[cfg(test)]
mod tests;
mod waiting;

use crate::declaration::Connector;
use millstream_types::TakesChanges;

/// The entry of the registry.
pub(crate) const CONNECTOR: Connector = Connector {
    name: "jdbc",
    summary: "A table of a PostgreSQL database, which must exist. Columns are found by name. With a `PRIMARY KEY (…) NOT ENFORCED`, \
        for which the database's table needs a unique index, a row replaces that of the same key; without, rows are added. \
        [How to](how-to/postgresql.md).",
    options: options::OPTIONS,
    sink: Some(sink::open),
    // A beat of changes is one transaction, and the last row of a key counts.
    is_on_every_node: |request| request.changes.is_none() && request.primary_key.is_empty(),
    changes: |_| TakesChanges::ByPrimaryKey,
    ..Connector::NEITHER
};
