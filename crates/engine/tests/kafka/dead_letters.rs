//! Bad messages, by each policy: they fail alone.

use crate::broker::{Kafka, Record, rows, shared};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use millstream::code;
use serde_json::Value;

/// A topic with good messages and bad ones of every kind, with keys; the offsets of the bad ones.
fn poisoned(kafka: &Kafka) -> (String, Vec<u64>) {
    let topic = kafka.topic(1);
    let values: [&[u8]; 10] = [
        b"{\"n\":1}",
        b"{\"n\":",
        b",\"n\":2}",
        b"",
        b"{\"n\":3}{\"n\":4}",
        b"{\"n\":\"x\"}",
        b"\xff\xfe",
        b"[1]",
        b"{}",
        b"{\"n\":5}",
    ];
    let record = |(at, value): (usize, &&[u8])| Record {
        key: Some(format!("k{at}").into_bytes()),
        value: Some(value.to_vec()),
        ..Record::default()
    };
    kafka.send_records(&topic, &values.iter().enumerate().map(record).collect::<Vec<_>>(), None);
    (topic, (1..9).collect())
}

const N: &str = "n BIGINT NOT NULL, o BIGINT METADATA FROM 'offset' VIRTUAL";

#[test]
fn the_first_ends_the_query() {
    let Some(kafka) = shared() else { return };
    let (topic, _) = poisoned(&kafka);
    let error = rows(&(kafka.table("t", N, &topic, "") + "SELECT n, o FROM t")).unwrap_err();
    assert_eq!(error.code, code::MALFORMED_RECORD, "{error}");
    assert!(error.to_string().contains(&format!("({topic}-0@1")), "{error}");
}

#[test]
fn they_are_skipped_and_counted() {
    let Some(kafka) = shared() else { return };
    let (topic, _) = poisoned(&kafka);
    let options = "'json.ignore-parse-errors' = 'true'";
    // The neighbours keep their offsets.
    let read = rows(&(kafka.table("t", N, &topic, options) + "SELECT n, o FROM t")).unwrap();
    assert_eq!(read, ["1,0", "5,9"]);
    let nullable = N.replace(" NOT NULL", "");
    let read = rows(&(kafka.table("t", &nullable, &topic, options) + "SELECT n, o FROM t")).unwrap();
    assert_eq!(read, [",5", ",8", "1,0", "5,9"]);
}

#[test]
fn a_file_takes_them() {
    let Some(kafka) = shared() else { return };
    let (topic, bad) = poisoned(&kafka);
    let path = std::env::temp_dir().join(format!("{topic}-{}.jsonl", std::process::id()));
    let options = format!("'scan.dead-letter.path' = '{}'", path.display());
    let read = rows(&(kafka.table("t", N, &topic, &options) + "SELECT n, o FROM t")).unwrap();
    assert_eq!(read, ["1,0", "5,9"]);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    let letters: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(letters.iter().map(|l| l["offset"].as_u64().unwrap()).collect::<Vec<_>>(), bad);
    let first = &letters[0];
    assert_eq!((first["topic"].as_str(), first["partition"].as_i64()), (Some(topic.as_str()), Some(0)));
    let bytes = |name: &str| STANDARD.decode(first[name].as_str().unwrap()).unwrap();
    assert_eq!((bytes("key"), bytes("value")), (b"k1".to_vec(), b"{\"n\":".to_vec()));
    assert!(first["error"].as_str().unwrap().starts_with("MS4004: malformed JSON"), "{first}");
}

#[test]
fn a_topic_takes_them() {
    let Some(kafka) = shared() else { return };
    let ((topic, bad), letters) = (poisoned(&kafka), kafka.topic(1));
    let options = format!("'scan.dead-letter.topic' = '{letters}'");
    let read = rows(&(kafka.table("t", N, &topic, &options) + "SELECT n, o FROM t")).unwrap();
    assert_eq!(read, ["1,0", "5,9"]);
    let letters = kafka.read(&letters);
    let header = |record: &Record, name: &str| record.headers.iter().find(|(key, _)| key == name).unwrap().1.clone();
    let offsets: Vec<u64> = letters.iter().map(|l| header(l, "millstream.offset").parse().unwrap()).collect();
    assert_eq!(offsets, bad);
    assert_eq!(letters[0].value.as_deref(), Some(&b"{\"n\":"[..]));
    assert_eq!(letters[0].key.as_deref(), Some(&b"k1"[..]));
    assert_eq!(header(&letters[0], "millstream.topic"), topic);
}

#[test]
fn every_format_knows_them() {
    let Some(kafka) = shared() else { return };
    for (format, columns, good, bad) in [
        ("csv", "n BIGINT NOT NULL, s STRING", "1,a", "1,a,b"),
        ("csv", "n BIGINT NOT NULL, s STRING", "1,\"a\nb\"", "x,\"a"),
        ("avro", "n BIGINT NOT NULL", "\u{2}", "\u{2}\u{2}"),
        ("raw", "n TINYINT NOT NULL", "\u{1}", "\u{1}\u{1}"),
        ("debezium-json", "n BIGINT NOT NULL", "{\"op\":\"c\",\"after\":{\"n\":1}}", "{\"op\":\"c\"}"),
    ] {
        let topic = kafka.topic(1);
        kafka.send(&topic, 0, &[good, bad, bad, good]);
        let fails = kafka.table("t", columns, &topic, &format!("'format' = '{format}'"));
        let error = rows(&(fails + "SELECT n FROM t")).unwrap_err();
        assert!(error.to_string().contains(&format!("{topic}-0@1")), "{format}: {error}");
        let options = format!("'format' = '{format}', '{format}.ignore-parse-errors' = 'true'");
        let skips = kafka.table("t", columns, &topic, &options);
        let read = rows(&(skips + "SELECT n FROM t")).unwrap();
        assert_eq!(read, ["1", "1"], "{format}");
    }
}
