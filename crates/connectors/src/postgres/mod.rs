//! The `jdbc` connector: rows into a table of a PostgreSQL database, by the protocol of the database itself.
//!
//! Workers encode rows as text of `COPY`, the fastest way in, which the server reads as values of the table's own types. With a
//! PRIMARY KEY the rows go through a temporary table, from which they replace those of the same key.
//!
//! Without checkpoints rows are written in batches, each in a transaction ([`batches`]); with them, the rows of a span wait in
//! a file and are written, with a note of the checkpoint, in one transaction ([`spans`]).

mod batches;
mod connection;
mod encode;
mod encryption;
mod sink;
mod span_file;
mod spans;
mod table;
#[cfg(test)]
mod tests;

use crate::connector::Connector;
use crate::option_table::option_list;

/// The entry of the registry.
pub(crate) const CONNECTOR: Connector = Connector {
    name: "jdbc",
    summary: "A table of a PostgreSQL database, which must exist. Columns are found by name. With a `PRIMARY KEY (…) NOT ENFORCED`, \
        for which the database's table needs a unique index, a row replaces that of the same key; without, rows are added. \
        [How to](how-to/postgresql.md).",
    options: OPTIONS,
    sink: Some(sink::open),
    ..Connector::NEITHER
};

option_list! {
    OPTIONS {
        "url", "",
            "`jdbc:postgresql://host:port/database`, or `postgresql://…` as of psql, with its parameters; for TLS `sslmode`, `sslrootcert`, \
             `sslcert` and `sslkey`.";
        "table-name", "", "The table, as in SQL: `orders`, `shop.orders`, `\"Orders\"`.";
        "username", "", "The user; by default that of the URL.";
        "password", "", "The password; by default that of the URL.";
        PATIENCE = "connection.max-retry-timeout", "60s", "How long a connection is tried for, at the start and after it was lost.";
        BATCH_ROWS = "sink.buffer-flush.max-rows", "5000", "Without exactly once: rows after which a batch is written; `0`: only the other limits count.";
        BATCH_AGE = "sink.buffer-flush.interval", "1s",
            "Without exactly once: age after which a batch is written with the next rows. When none come, it is written within the engine's own \
             flush interval.";
        RETRIES = "sink.max-retries", "3", "How often a transaction is tried again after the connection was lost.";
        GUARANTEE = "sink.delivery-guarantee", "exactly-once",
            "Under checkpoints: `exactly-once` writes the rows between two of them in one transaction; `at-least-once` writes them in batches, at \
             once. Without checkpoints it is always batches.";
    }
}
