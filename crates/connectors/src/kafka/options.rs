//! The options of the connector.

use crate::option_table::OptionKind::{Format, Required, Text};
use crate::option_table::{OptionInfo, option_list};

option_list! {
    pub(super) OPTIONS;
    "topic": List(";"), "", "Topic; a source may read several: `a;b`.";
    "topic-pattern": Text, "", "A source reads all topics whose whole names match this regular expression.";
    SERVERS = "properties.bootstrap.servers": Required(&List(",")), "", "Brokers to begin with: `host:port,host:port`.";
    GROUP = "properties.group.id": Text, "", "Consumer group in which offsets are committed and looked up.";
    PROPERTIES = "properties.*": Map, "", "Properties of Kafka's clients, in librdkafka's names; those of Java are translated or refused with advice.";
    CONNECT_TIMEOUT = "connect.timeout": Duration, "30 s", "How long brokers are tried to be reached when a query starts.";
    "format": Required(&Format("")), "", "Format of the values: `json`, `csv`, `avro`, `avro-confluent`, `raw`, or of changes `debezium-json`, `debezium-avro-confluent`, `canal-json` or `maxwell-json`.";
    "value.format": Alias, "", "The same; its options have the prefix `value.` then, such as `value.json.ignore-parse-errors`.";
    KEY_FORMAT = "key.format": Format("key."), "", "Format of the keys; its options have the prefix `key.`.";
    "key.fields": List(";"), "", "Columns that make the key: `a;b`.";
    KEY_PREFIX = "key.fields-prefix": Text, "", "What the names of these columns begin with in the table, but not in the key.";
    VALUE_FIELDS = "value.fields-include": Choice(&["ALL", "EXCEPT_KEY"]), "ALL", "Whether the value has the key's columns, too: `ALL` or `EXCEPT_KEY`.";
    "scan.startup.mode": Choice(&["earliest-offset", "latest-offset", "group-offsets", "timestamp", "specific-offsets"]), "group-offsets", "Where reading starts: `earliest-offset`, `latest-offset`, `group-offsets`, `timestamp` or `specific-offsets`.";
    "scan.startup.timestamp-millis": Instant(&[]), "", "For `timestamp`: the first message at or behind this time is the first.";
    "scan.startup.specific-offsets": Offsets, "", "For `specific-offsets`: `partition:0,offset:42;partition:1,offset:300`.";
    BOUNDED_MODE = "scan.bounded.mode": Choice(&["unbounded", "latest-offset", "group-offsets", "timestamp", "specific-offsets"]), "unbounded", "Where reading ends: `unbounded`, `latest-offset`, `group-offsets`, `timestamp` or `specific-offsets`.";
    BOUNDED_TIME = "scan.bounded.timestamp-millis": Instant(&[]), "", "For `timestamp`: the first message at or behind this time is not read.";
    BOUNDED_OFFSETS = "scan.bounded.specific-offsets": Offsets, "", "For `specific-offsets`: the offsets of the first messages not to be read.";
    DISCOVERY = "scan.topic-partition-discovery.interval": Duration, "5 min",
        "How often new partitions and topics are looked for; they are read from the earliest offset. `0 s`: never.";
    DEAD_LETTER_TOPIC = "scan.dead-letter.topic": Text, "", "Topic that bad messages are sent to, with what is wrong with them in headers.";
    DEAD_LETTER_PATH = "scan.dead-letter.path": Path, "", "File that bad messages are appended to: JSON lines with topic, partition, offset, error, and base64 of key and value.";
    PARTITIONER = "sink.partitioner": Choice(&["default", "fixed", "round-robin"]), "default", "`default`: by the key, as clients in Java do, else any; `fixed`: one partition; `round-robin`.";
    GUARANTEE = "sink.delivery-guarantee": Choice(&["none", "at-least-once", "exactly-once"]), "at-least-once", "`none`, `at-least-once`, or `exactly-once`: transactions that are committed with checkpoints.";
    ID_PREFIX = "sink.transactional-id-prefix": Text, "millstream", "What the transactional ids of an `exactly-once` sink begin with.";
    TOKEN_TOPIC = "sink.token-topic": Text, "millstream-checkpoints", "Compacted topic that says which checkpoint was committed last; it is created if there is none.";
}

/// Those of topics in which the last message of a key counts, which are read from the earliest offset.
pub(super) const OPTIONS_OF_UPSERTS: &[OptionInfo] = &[
    OptionInfo { key: "topic", kind: Required(&Text), default: "", meaning: "Topic." },
    SERVERS,
    PROPERTIES,
    CONNECT_TIMEOUT,
    OptionInfo { kind: Required(&Format("key.")), ..KEY_FORMAT },
    OptionInfo {
        key: "value.format",
        kind: Required(&Format("value.")),
        default: "",
        meaning: "Format of the values; its options have the prefix `value.`, such as `value.json.timestamp-format.standard`.",
    },
    OptionInfo {
        meaning: "What the names of the columns of the PRIMARY KEY begin with in the table, but not in the key.",
        ..KEY_PREFIX
    },
    VALUE_FIELDS,
    GROUP,
    BOUNDED_MODE,
    BOUNDED_TIME,
    BOUNDED_OFFSETS,
    DISCOVERY,
    DEAD_LETTER_TOPIC,
    DEAD_LETTER_PATH,
    GUARANTEE,
    ID_PREFIX,
    TOKEN_TOPIC,
];
