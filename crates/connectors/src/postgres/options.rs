//! The options of the connector.

use crate::option_table::option_list;

option_list! {
    pub(super) OPTIONS;
    "url": Required(&Text), "",
        "`jdbc:postgresql://host:port/database`, or `postgresql://…` as of psql, with its parameters; for TLS `sslmode`, `sslrootcert`, \
         `sslcert` and `sslkey`.";
    "table-name": Required(&Text), "", "The table, as in SQL: `orders`, `shop.orders`, `\"Orders\"`.";
    "username": Text, "", "The user; by default that of the URL.";
    "password": Text, "", "The password; by default that of the URL.";
    PATIENCE = "connection.max-retry-timeout": Duration, "60s", "How long a connection is tried for, at the start and after it was lost.";
    BATCH_ROWS = "sink.buffer-flush.max-rows": Integer, "5000", "Without exactly once: rows after which a batch is written; `0`: only the other limits count.";
    BATCH_AGE = "sink.buffer-flush.interval": Duration, "1s",
        "Without exactly once: age after which a batch is written with the next rows. When none come, it is written within the engine's own \
         flush interval.";
    RETRIES = "sink.max-retries": Integer, "3", "How often a transaction is tried again after the connection was lost.";
    GUARANTEE = "sink.delivery-guarantee": Choice(&["exactly-once", "at-least-once"]), "exactly-once",
        "Under checkpoints: `exactly-once` writes the rows between two of them in one transaction; `at-least-once` writes them in batches, at \
         once. Without checkpoints it is always batches.";
}
