//! What can be tested without a broker; the rest is in `crates/engine/tests/kafka`.

use super::decode::KafkaDecoder;
use super::offsets::{TopicExtent, is_bounded};
use super::properties::client_config;
use super::record::{RecordEncoder, records};
use crate::messages::testing::options;
use crate::{ChangedBy, ColumnRequest, Encoder, RequestOrigin, SinkRequest, SourceRequest, check_table_options};
use arrow_array::{ArrayRef, Int8Array, Int64Array, StringViewArray};
use millstream_types::{CHANGE_COLUMN, DataType, Diagnostic, Field, RowKind, Schema, code};
use std::sync::Arc;

fn config(pairs: &[(&str, &str)]) -> Result<rdkafka::ClientConfig, Diagnostic> {
    let servers = [("properties.bootstrap.servers", "localhost:9092")];
    client_config(&options(&[&servers, pairs].concat()))
}

#[test]
fn a_broker_that_knows_less_than_was_read_says_nothing_of_the_lag() {
    let lags =
        [(375, 6000), (6000, 6000), (375, 0), (-1, 6000)].map(|(from, end)| super::reader::lag_behind(from, end));
    assert_eq!(lags, [Some(5625), Some(0), None, None]);
}

#[test]
fn properties_of_java_are_translated_or_refused() {
    let config_of = |key: &str, value: &str| config(&[(key, value)]);
    let jaas = r#"org.apache.kafka.common.security.scram.ScramLoginModule required username="a" password="b\"c";"#;
    let scram = config_of("properties.sasl.jaas.config", jaas).unwrap();
    assert_eq!((scram.get("sasl.username"), scram.get("sasl.password")), (Some("a"), Some("b\"c")));
    let other = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true;";
    let error = config_of("properties.sasl.jaas.config", other).unwrap_err();
    assert!(error.advice.unwrap().contains("properties.sasl.username"));
    assert_eq!(config_of("properties.max.request.size", "7").unwrap().get("message.max.bytes"), Some("7"));
    let kilobytes = config_of("properties.buffer.memory", "33554432").unwrap();
    assert_eq!(kilobytes.get("queue.buffering.max.kbytes"), Some("32768"));
    let protocol = config_of("properties.security.protocol", "SASL_SSL").unwrap();
    assert_eq!(protocol.get("security.protocol"), Some("sasl_ssl"));
    let error = config_of("properties.ssl.truststore.location", "x.jks").unwrap_err();
    assert!(error.code == code::INVALID_OPTION && error.advice.unwrap().contains("ssl.ca.location"));
    // What librdkafka has as Java does comes through, what is the connector's own does not.
    assert_eq!(config_of("properties.linger.ms", "9").unwrap().get("linger.ms"), Some("9"));
    assert_eq!(config_of("properties.auto.offset.reset", "earliest").unwrap().get("auto.offset.reset"), None);
}

#[test]
fn the_library_has_tls_sasl_and_all_compressions() {
    for (key, value) in [
        ("properties.security.protocol", "SASL_SSL"),
        ("properties.sasl.mechanism", "SCRAM-SHA-512"),
        ("properties.sasl.mechanism", "PLAIN"),
        ("properties.compression.type", "zstd"),
        ("properties.compression.type", "lz4"),
        ("properties.compression.type", "snappy"),
        ("properties.compression.type", "gzip"),
    ] {
        let user = [
            ("properties.sasl.mechanism", "PLAIN"),
            ("properties.sasl.username", "u"),
            ("properties.sasl.password", "p"),
            (key, value),
        ];
        super::producer::Producer::open(&config(&user).unwrap()).unwrap_or_else(|e| panic!("{key} = {value}: {e}"));
    }
    let unknown = config(&[("properties.no.such.property", "1")]).unwrap();
    assert_eq!(super::producer::Producer::open(&unknown).err().unwrap().code, code::INVALID_OPTION);
}

#[test]
fn starts_and_ends_are_checked() {
    let extent = |pairs: &[(&str, &str)]| TopicExtent::of(&options(pairs));
    assert_eq!(extent(&[]).unwrap_err().code, code::MISSING_OPTION);
    assert!(extent(&[("properties.group.id", "g")]).is_ok());
    let earliest = ("scan.startup.mode", "earliest-offset");
    assert!(extent(&[earliest, ("scan.bounded.mode", "earliest-offset")]).is_err());
    for text in ["", "partition:0", "partition:x,offset:1", "partition:0,offset:-1", "partition:0;offset:1"] {
        let pairs = [("scan.startup.mode", "specific-offsets"), ("scan.startup.specific-offsets", text)];
        assert_eq!(extent(&pairs).is_err(), !text.is_empty(), "{text}");
    }
    assert!(is_bounded(&options(&[("scan.bounded.mode", "latest-offset")])));
    assert!(!is_bounded(&options(&[("scan.bounded.mode", "unbounded")])) && !is_bounded(&options(&[])));
}

#[test]
fn options_of_formats_have_their_prefix() {
    let base = [("connector", "kafka"), ("topic", "t"), ("properties.bootstrap.servers", "b")];
    let check = |pairs: &[(&str, &str)]| check_table_options("t", &options(&[&base, pairs].concat()));
    check(&[("format", "json"), ("json.ignore-parse-errors", "true")]).unwrap();
    let parts = [("key.format", "csv"), ("value.format", "json")];
    check(&[&parts[..], &[("key.csv.field-delimiter", "|"), ("value.json.ignore-parse-errors", "true")]].concat())
        .unwrap();
    let error = check(&[&parts[..], &[("json.ignore-parse-errors", "true")]].concat()).unwrap_err();
    assert_eq!(error.code, code::UNKNOWN_OPTION);
    assert!(error.advice.unwrap().starts_with("did you mean 'value.json.ignore-parse-errors'?"));
    assert_eq!(check(&[("format", "parquet")]).unwrap_err().code, code::INVALID_OPTION);
    let file = options(&[("connector", "filesystem"), ("path", "x"), ("format", "avro-confluent")]);
    assert_eq!(check_table_options("t", &file).unwrap_err().code, code::INVALID_OPTION);
}

#[test]
fn records_keep_their_bounds() {
    let schema = Schema::new(vec![Field::new("k", DataType::STRING, true), Field::new("n", DataType::BigInt, true)]);
    let options = options(&[
        ("format", "json"),
        ("key.format", "raw"),
        ("key.fields", "k"),
        ("value.fields-include", "EXCEPT_KEY"),
    ]);
    let encoder = RecordEncoder::open(
        &SinkRequest { table: "t".into(), options, schema, metadata: vec![], primary_key: vec![], changes: None },
        false,
    )
    .unwrap();
    let columns: [ArrayRef; 2] = [
        Arc::new(StringViewArray::from(vec![Some("a"), None, Some("")])),
        Arc::new(Int64Array::from(vec![Some(1), Some(2), None])),
    ];
    let piece = encoder.encode(&columns, 3).unwrap();
    let text = |part: Option<&[u8]>| part.map(|part| String::from_utf8(part.to_vec()).unwrap());
    let records: Vec<_> =
        records(&piece).unwrap().map(|record| (text(record.key), text(record.value).unwrap())).collect();
    let expected = [(Some("a"), "{\"n\":1}"), (None, "{\"n\":2}"), (Some(""), "{\"n\":null}")];
    assert_eq!(records, expected.map(|(key, value)| (key.map(str::to_string), value.to_string())));
}

#[test]
fn changes_are_messages_by_key_or_by_format() {
    let schema = Schema::new(vec![Field::new("k", DataType::STRING, true), Field::new("n", DataType::BigInt, true)]);
    let columns: [ArrayRef; 3] = [
        Arc::new(StringViewArray::from(vec!["a", "b", "b", "c"])),
        Arc::new(Int64Array::from(vec![1, 2, 3, 4])),
        Arc::new(Int8Array::from(
            [RowKind::Insert, RowKind::UpdateBefore, RowKind::UpdateAfter, RowKind::Delete]
                .map(|kind| kind as i8)
                .to_vec(),
        )),
    ];
    let messages = |format: &str, is_upserted| {
        let request = SinkRequest {
            table: "t".into(),
            options: options(&[("value.format", format), ("key.format", "raw"), ("key.fields", "k")]),
            schema: schema.clone(),
            metadata: vec![],
            primary_key: vec![0],
            changes: Some(ChangedBy { key: Some(vec![0]) }),
        };
        let piece = RecordEncoder::open(&request, is_upserted).unwrap().encode(&columns, 4).unwrap();
        let text = |part: Option<&[u8]>| part.map(|part| String::from_utf8(part.to_vec()).unwrap());
        records(&piece).unwrap().map(|r| (text(r.key).unwrap(), text(r.value))).collect::<Vec<_>>()
    };
    let message = |key: &str, value: &str| (key.to_string(), Some(value.to_string()));
    let deleted = ("c".to_string(), None);
    let upserts = [message("a", r#"{"k":"a","n":1}"#), message("b", r#"{"k":"b","n":3}"#), deleted];
    assert_eq!(messages("json", true), upserts);
    let log = [
        message("a", r#"{"before":null,"after":{"k":"a","n":1},"op":"c"}"#),
        message("b", r#"{"before":{"k":"b","n":2},"after":{"k":"b","n":3},"op":"u"}"#),
        message("c", r#"{"before":{"k":"c","n":4},"after":null,"op":"d"}"#),
    ];
    assert_eq!(messages("debezium-json", false), log);
}

#[test]
fn only_changes_say_what_became_of_a_row() {
    for (format, primary_key, data_type) in [
        ("json", vec![0], DataType::TinyInt),
        ("debezium-json", vec![], DataType::TinyInt),
        ("debezium-json", vec![0], DataType::Int),
    ] {
        let origin = RequestOrigin::Metadata(CHANGE_COLUMN.into());
        let column = ColumnRequest { name: "c".into(), origin, data_type, nullable: true };
        let request = SourceRequest {
            options: options(&[("format", format)]),
            schema: Schema::new(vec![Field::new("k", DataType::BigInt, false)]),
            columns: vec![column],
            primary_key,
            ..SourceRequest::default()
        };
        let error = KafkaDecoder::open(&request, false).err().unwrap();
        assert_eq!(error.code, code::INVALID_TABLE, "{format}: {error}");
        assert!(error.message.contains("no metadata '$change'"), "{error}");
    }
}
