//! The `kafka` connector: topics of Apache Kafka, over librdkafka.
//!
//! A partition is a split ([`reader`]), with its own client: its messages come in order, and clients fetch and
//! decompress in parallel. Partitions are assigned by hand, so no consumer group can take one away; a group only holds
//! offsets, which are committed after checkpoints ([`acknowledge`]). A sink produces ([`sink`]), and in transactions
//! when rows are to be seen exactly once ([`exactly_once`]).

mod acknowledge;
mod client;
mod dead_letters;
mod decode;
mod discovery;
mod exactly_once;
mod fields;
mod kept_records;
mod metadata;
mod node_spans;
mod offsets;
mod options;
mod producer;
mod properties;
mod reader;
mod record;
mod sink;
mod source;
#[cfg(test)]
mod tests;
mod tokens;
mod topics;
mod transactional;
mod transactions;

use crate::declaration::{Connector, TakesFormats};
use millstream_types::TakesChanges;

/// The connector's entry in the registry.
pub(crate) const CONNECTOR: Connector = Connector {
    name: "kafka",
    summary: "Topics of Apache Kafka. Each partition is a split, read in order; new partitions are found while a query runs. \
        Metadata columns: `topic` STRING, `partition` INT, `offset` BIGINT, `timestamp` TIMESTAMP_LTZ(3), \
        `timestamp-type` STRING, `leader-epoch` INT, `headers` MAP<STRING, BYTES>; a sink writes `timestamp` and `headers`. \
        How to use it: [how-to/kafka.md](how-to/kafka.md).",
    options: options::OPTIONS,
    formats: TakesFormats::OfMessages(fields::formats),
    require: |options| match options.get("topic-pattern") {
        Some(_) => Ok(()),
        None => options.require("topic").map(drop),
    },
    source: Some(source::open),
    sink: Some(sink::open),
    is_on_every_node: |request| request.changes.is_none(),
    changes: fields::takes_changes,
    gives_changes: fields::gives_changes,
    split_front: Some(source::split_front),
    is_bounded: offsets::is_bounded,
    infer: Some(fields::infer),
    ..Connector::NEITHER
};

/// The entry of topics in which the last message of a key counts.
pub(crate) const UPSERTS: Connector = Connector {
    name: "upsert-kafka",
    summary: "Topics of Apache Kafka in which the last message of a key counts, such as compacted ones. The key of a message is the table's `PRIMARY KEY`; \
        a message replaces the one of its key, and one without a value (a tombstone) deletes it. A source is read from its start, and has the rows that are there. \
        How to use it: [how-to/compacted-topic.md](how-to/compacted-topic.md).",
    options: options::OPTIONS_OF_UPSERTS,
    formats: TakesFormats::OfMessages(fields::formats),
    require: |options| {
        options.require("topic")?;
        options.require("key.format").map(drop)
    },
    source: Some(source::open_upserts),
    sink: Some(sink::open_upserts),
    changes: |_| TakesChanges::ByPrimaryKey,
    gives_changes: |_| true,
    split_front: Some(source::split_front),
    is_bounded: offsets::is_bounded,
    ..Connector::NEITHER
};
