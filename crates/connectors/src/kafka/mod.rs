//! The `kafka` connector: topics of Apache Kafka, over librdkafka.
//!
//! A partition is a split ([`reader`]), with a client of its own: its messages come in order, and clients fetch and
//! decompress beside each other. Partitions are assigned by hand, so no consumer group can take one away; what a group is for
//! is to hold offsets, which are committed behind checkpoints ([`acknowledge`]). A sink produces ([`sink`]), and in
//! transactions when rows are to be seen exactly once ([`transactions`]).

mod acknowledge;
mod client;
mod dead_letters;
mod decode;
mod discovery;
mod fields;
mod metadata;
mod offsets;
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
mod transactions;

use crate::connector::Connector;
use crate::option_table::option_list;

pub(crate) use fields::formats;

/// The connector's entry in the registry.
pub(crate) const CONNECTOR: Connector = Connector {
    name: "kafka",
    summary: "Topics of Apache Kafka. Each partition is a split, read in order; new partitions are found while a query runs. \
        Metadata columns: `topic` STRING, `partition` INT, `offset` BIGINT, `timestamp` TIMESTAMP_LTZ(3), \
        `timestamp-type` STRING, `leader-epoch` INT, `headers` MAP<STRING, BYTES>; a sink writes `timestamp` and `headers`. \
        How to use it: [how-to/kafka.md](how-to/kafka.md).",
    options: OPTIONS,
    source: Some(source::open),
    sink: Some(sink::open),
    split_front: Some(source::split_front),
    is_bounded: offsets::is_bounded,
    ..Connector::NEITHER
};

option_list! {
    OPTIONS {
        "topic", "", "Topic; a source may read several: `a;b`.";
        "topic-pattern", "", "A source reads all topics whose whole names match this regular expression.";
        "properties.bootstrap.servers", "", "Brokers to begin with: `host:port,host:port`.";
        "properties.group.id", "", "Consumer group in which offsets are committed and looked up.";
        "properties.*", "", "Properties of Kafka's clients, in librdkafka's names; those of Java are translated or refused with advice.";
        CONNECT_TIMEOUT = "connect.timeout", "30 s", "How long brokers are tried to be reached when a query starts.";
        "format", "", "Format of the values: `json`, `csv`, `avro`, `avro-confluent`, `raw` or `debezium-json`.";
        "value.format", "", "The same; its options have the prefix `value.` then, such as `value.json.ignore-parse-errors`.";
        "key.format", "", "Format of the keys; its options have the prefix `key.`.";
        "key.fields", "", "Columns that make the key: `a;b`.";
        "key.fields-prefix", "", "What the names of these columns begin with in the table, but not in the key.";
        VALUE_FIELDS = "value.fields-include", "ALL", "Whether the value has the key's columns, too: `ALL` or `EXCEPT_KEY`.";
        "scan.startup.mode", "group-offsets", "Where reading starts: `earliest-offset`, `latest-offset`, `group-offsets`, `timestamp` or `specific-offsets`.";
        "scan.startup.timestamp-millis", "", "For `timestamp`: the first message at or behind this time is the first.";
        "scan.startup.specific-offsets", "", "For `specific-offsets`: `partition:0,offset:42;partition:1,offset:300`.";
        "scan.bounded.mode", "unbounded", "Where reading ends: `unbounded`, `latest-offset`, `group-offsets`, `timestamp` or `specific-offsets`.";
        "scan.bounded.timestamp-millis", "", "For `timestamp`: the first message at or behind this time is not read.";
        "scan.bounded.specific-offsets", "", "For `specific-offsets`: the offsets of the first messages not to be read.";
        DISCOVERY = "scan.topic-partition-discovery.interval", "5 min",
            "How often new partitions and topics are looked for; they are read from the earliest offset. `0 s`: never.";
        "scan.dead-letter.topic", "", "Topic that bad messages are sent to, with what is wrong with them in headers.";
        "scan.dead-letter.path", "", "File that bad messages are appended to: JSON lines with topic, partition, offset, error, and base64 of key and value.";
        PARTITIONER = "sink.partitioner", "default", "`default`: by the key, as clients in Java do, else any; `fixed`: one partition; `round-robin`.";
        GUARANTEE = "sink.delivery-guarantee", "at-least-once", "`none`, `at-least-once`, or `exactly-once`: transactions that are committed with checkpoints.";
        ID_PREFIX = "sink.transactional-id-prefix", "millstream", "What the transactional ids of an `exactly-once` sink begin with.";
        TOKEN_TOPIC = "sink.token-topic", "millstream-checkpoints", "Compacted topic that says which checkpoint was committed last; it is created if there is none.";
        "sink.parallelism", "", "Accepted; one client writes, whatever the number of workers.";
    }
}
