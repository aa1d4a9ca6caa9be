//! Each format both ways, keys, and what a message may look like.

use crate::broker::{Kafka, Record, rows, run, shared};
use millstream::code;

const COLUMNS: &str = "id BIGINT NOT NULL, name STRING, amount DECIMAL(10, 2), at TIMESTAMP(3), tags ARRAY<STRING>, \
     place ROW<city STRING, zip INT>, ok BOOLEAN, ratio DOUBLE, day DATE";
const VALUES: &str = "SELECT 1, 'Ada, \"A\"', 12.50, TIMESTAMP '2020-01-02 03:04:05.678', ARRAY['x', 'y'], \
     ROW('Berlin', 10115), TRUE, 0.5, DATE '2020-02-29'";

fn round_trip(kafka: &Kafka, options: &str, columns: &str, insert: &str, select: &str) -> (Vec<String>, String) {
    let topic = kafka.topic(1);
    let table = kafka.table("t", columns, &topic, options);
    run(&(table.clone() + "INSERT INTO t " + insert)).unwrap();
    (rows(&(table + select)).unwrap(), topic)
}

#[test]
fn what_is_written_is_read_in_every_format() {
    let Some(kafka) = shared() else { return };
    let select = "SELECT id, name, amount, at, tags[2], place.city, place.zip, ok, ratio, day FROM t";
    let expected = "1,Ada, \"A\",12.50,2020-01-02T03:04:05.678,y,Berlin,10115,true,0.5,2020-02-29";
    for format in ["json", "csv", "avro", "debezium-json"] {
        let options = format!("'format' = '{format}'");
        let (rows, topic) = round_trip(&kafka, &options, COLUMNS, VALUES, select);
        assert_eq!(rows, [expected], "{format}");
        let text = kafka.read(&topic)[0].value.clone().unwrap();
        let text = String::from_utf8_lossy(&text);
        match format {
            "csv" => assert!(text.starts_with("1,\"Ada, \"\"A\"\"\",12.50,") && !text.ends_with('\n'), "{text}"),
            "json" => {
                assert!(text.starts_with("{\"id\":1,\"name\":\"Ada, \\\"A\\\"\"") && text.ends_with('}'), "{text}")
            }
            "debezium-json" => assert!(text.starts_with("{\"before\":null,\"after\":{\"id\":1,"), "{text}"),
            _ => {}
        }
    }
}

#[test]
fn nulls_survive() {
    let Some(kafka) = shared() else { return };
    let columns = "id BIGINT NOT NULL, name STRING, amount DECIMAL(10, 2), m MAP<STRING, INT>, place ROW<city STRING>";
    let insert = "SELECT 1, CAST(NULL AS STRING), CAST(NULL AS DECIMAL(10, 2)), CAST(NULL AS MAP<STRING, INT>), \
         CAST(NULL AS ROW<city STRING>)";
    for format in ["json", "avro"] {
        let select = "SELECT id, name, amount, m['a'], place.city FROM t";
        let (rows, _) = round_trip(&kafka, &format!("'format' = '{format}'"), columns, insert, select);
        assert_eq!(rows, ["1,,,,"], "{format}");
    }
}

#[test]
fn raw_messages_are_values() {
    let Some(kafka) = shared() else { return };
    for (data_type, value, extra, bytes) in [
        ("STRING", "'héllo'", "", "héllo".as_bytes()),
        ("INT", "258", "", &[0, 0, 1, 2][..]),
        ("BIGINT", "258", ", 'raw.endianness' = 'little-endian'", &[2, 1, 0, 0, 0, 0, 0, 0]),
        ("BOOLEAN", "TRUE", "", &[1]),
        ("BYTES", "X'00ff'", "", &[0, 255]),
    ] {
        let options = format!("'format' = 'raw'{extra}");
        let (read, topic) =
            round_trip(&kafka, &options, &format!("v {data_type}"), &format!("SELECT {value}"), "SELECT v FROM t");
        assert_eq!(read.len(), 1);
        assert_eq!(kafka.read(&topic)[0].value.as_deref(), Some(bytes), "{data_type}");
    }
    let topic = kafka.topic(1);
    kafka.send_records(&topic, &[Record::default()], None);
    let table = kafka.table("t", "v STRING", &topic, "'format' = 'raw'");
    assert_eq!(rows(&(table + "SELECT v IS NULL FROM t")).unwrap(), ["true"]);
}

#[test]
fn keys_have_formats_of_their_own() {
    let Some(kafka) = shared() else { return };
    let columns = "k_id BIGINT, k_region STRING, amount INT";
    let apart = "'key.format' = 'json', 'key.fields' = 'k_region;k_id', 'key.fields-prefix' = 'k_', \
         'value.format' = 'csv', 'value.fields-include' = 'EXCEPT_KEY', 'value.csv.field-delimiter' = '|'";
    let insert = "SELECT * FROM (VALUES (1, 'eu', 10), (2, 'us', 20))";
    let (read, topic) = round_trip(&kafka, apart, columns, insert, "SELECT k_id, k_region, amount FROM t");
    assert_eq!(read, ["1,eu,10", "2,us,20"]);
    let records = kafka.read(&topic);
    assert_eq!(records[0].key.as_deref(), Some(&b"{\"region\":\"eu\",\"id\":1}"[..]));
    assert_eq!(records[0].text(), "10");
    // Both ways: the value has all columns, and they are read from it.
    let both = "'key.format' = 'raw', 'key.fields' = 'name', 'format' = 'json'";
    let (read, topic) = round_trip(&kafka, both, "name STRING, n INT", "SELECT 'a', 1", "SELECT name, n FROM t");
    assert_eq!(read, ["a,1"]);
    let record = kafka.read(&topic).remove(0);
    assert_eq!((record.key.as_deref(), record.text()), (Some(&b"a"[..]), "{\"name\":\"a\",\"n\":1}"));
}

#[test]
fn messages_need_not_be_lines() {
    let Some(kafka) = shared() else { return };
    let topic = kafka.topic(1);
    kafka.send(&topic, 0, &["{\n  \"n\" : 1\n}\n", "{\"n\":2}", "  {\"n\":3}  "]);
    kafka.send_records(&topic, &[Record::default()], None);
    // A message without a value deletes a key; it is not a row.
    let table = kafka.table("t", "n BIGINT", &topic, "");
    assert_eq!(rows(&(table + "SELECT n FROM t")).unwrap(), ["1", "2", "3"]);
    let topic = kafka.topic(1);
    kafka.send(&topic, 0, &["1,a\r\n", "2,\"b\nc\"", "3,é"]);
    let table = kafka.table("t", "n BIGINT, s STRING", &topic, "'format' = 'csv'");
    assert_eq!(rows(&(table + "SELECT n, s FROM t")).unwrap(), ["1,a", "2,b\nc", "3,é"]);
}

#[test]
fn only_insertions_of_debezium_are_read() {
    let Some(kafka) = shared() else { return };
    let topic = kafka.topic(1);
    let change = |op: &str, n: i64| match op {
        "d" => format!("{{\"before\":{{\"n\":{n}}},\"after\":null,\"op\":\"d\",\"ts_ms\":1}}"),
        _ => format!("{{\"before\":null,\"after\":{{\"n\":{n},\"x\":0}},\"source\":{{}},\"op\":\"{op}\"}}"),
    };
    kafka.send(&topic, 0, &[&change("r", 1), &change("c", 2), &change("u", 3), &change("d", 4), &change("c", 5)]);
    let options = "'format' = 'debezium-json'";
    let table = kafka.table("t", "n BIGINT NOT NULL", &topic, options);
    let error = rows(&(table + "SELECT n FROM t")).unwrap_err();
    assert!(error.code == code::MALFORMED_RECORD && error.message.contains("an update (op 'u')"), "{error}");
    assert!(error.to_string().contains(&format!("{topic}-0@2")), "{error}");
    let options = format!("{options}, 'debezium-json.ignore-parse-errors' = 'true'");
    let table = kafka.table("t", "n BIGINT NOT NULL", &topic, &options);
    assert_eq!(rows(&(table + "SELECT n FROM t")).unwrap(), ["1", "2", "5"]);
    let topic = kafka.topic(1);
    kafka.send(&topic, 0, &[&format!("{{\"schema\":{{}},\"payload\":{}}}", change("c", 7))]);
    let options = "'format' = 'debezium-json', 'debezium-json.schema-include' = 'true'";
    assert_eq!(rows(&(kafka.table("t", "n BIGINT", &topic, options) + "SELECT n FROM t")).unwrap(), ["7"]);
}

#[test]
fn every_compression_is_understood() {
    let Some(kafka) = shared() else { return };
    for codec in ["gzip", "snappy", "lz4", "zstd", "none"] {
        let topic = kafka.topic(1);
        let table = kafka.table("t", "n BIGINT", &topic, &format!("'properties.compression.type' = '{codec}'"));
        let insert = "INSERT INTO t SELECT id FROM s";
        let numbers = "CREATE TABLE s (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '0', \
             'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '5000');";
        run(&(table.clone() + numbers + insert)).unwrap();
        assert_eq!(rows(&(table + "SELECT n FROM t")).unwrap().len(), 5000, "{codec}");
    }
}
