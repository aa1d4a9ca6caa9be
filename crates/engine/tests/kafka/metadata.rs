//! Metadata columns.

use crate::broker::{Record, rows, run, shared};
use millstream::code;

const COLUMNS: &str = "n BIGINT, tp STRING METADATA FROM 'topic', p INT METADATA FROM 'partition' VIRTUAL, \
     o BIGINT METADATA FROM 'offset' VIRTUAL, ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', \
     tt STRING METADATA FROM 'timestamp-type' VIRTUAL, le INT METADATA FROM 'leader-epoch' VIRTUAL, \
     h MAP<STRING, BYTES> METADATA FROM 'headers'";

#[test]
fn every_key_gives_what_the_broker_says() {
    let Some(kafka) = shared() else { return };
    let topic = kafka.topic(2);
    let headers = |all: &[(&str, &str)]| all.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let record = |partition, n: i64, headers| {
        let value = Some(format!("{{\"n\":{n}}}").into_bytes());
        Record { partition, value, headers, ..Record::default() }
    };
    let records = [
        record(0, 1, headers(&[])),
        record(1, 2, headers(&[("a", "x"), ("b", "y"), ("a", "last")])),
        record(1, 3, headers(&[("b", "z")])),
    ];
    kafka.send_records(&topic, &records, Some(1_577_880_000_123));
    let script = kafka.table("t", COLUMNS, &topic, "")
        + "SELECT n, tp, p, o, CAST(ts AS TIMESTAMP(3)), tt, le, DECODE(h['a'], 'UTF-8'), CARDINALITY(h) FROM t";
    let row = |start: &str, end: &str| format!("{start},2020-01-01T12:00:00.123,CreateTime,0,{end}");
    let expected = [
        row(&format!("1,{topic},0,0"), ",0"),
        row(&format!("2,{topic},1,0"), "last,2"),
        row(&format!("3,{topic},1,1"), ",1"),
    ];
    assert_eq!(rows(&script).unwrap(), expected);
    // Metadata can be read without any of the columns.
    assert_eq!(rows(&(kafka.table("t", COLUMNS, &topic, "") + "SELECT p, o FROM t")).unwrap(), ["0,0", "1,0", "1,1"]);
    assert_eq!(rows(&(kafka.table("t", COLUMNS, &topic, "") + "SELECT COUNT(*) FROM t")).unwrap(), ["3"]);
}

#[test]
fn keys_and_types_are_checked() {
    let Some(kafka) = shared() else { return };
    let topic = kafka.topic(1);
    for (column, code) in [
        ("x STRING METADATA FROM 'topics'", code::INVALID_TABLE),
        ("x MAP<STRING, STRING> METADATA FROM 'headers'", code::TYPE_MISMATCH),
    ] {
        let table = kafka.table("t", &format!("n BIGINT, {column}"), &topic, "");
        let error = rows(&(table + "SELECT x FROM t")).unwrap_err();
        assert_eq!(error.code, code, "{error}");
    }
}

#[test]
fn time_and_headers_can_be_written() {
    let Some(kafka) = shared() else { return };
    let topic = kafka.topic(1);
    let columns = "n BIGINT, ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', h MAP<STRING, BYTES> METADATA FROM 'headers', \
         o BIGINT METADATA FROM 'offset' VIRTUAL";
    let table = kafka.table("t", columns, &topic, "");
    let insert = "INSERT INTO t SELECT 1, TO_TIMESTAMP_LTZ(1577880000123, 3), MAP['a', ENCODE('x', 'UTF-8')] UNION ALL \
         SELECT 2, TO_TIMESTAMP_LTZ(5, 3), CAST(NULL AS MAP<STRING, BYTES>)";
    run(&(table.clone() + insert)).unwrap();
    let select = "SELECT n, CAST(CAST(ts AS TIMESTAMP(3)) AS STRING), DECODE(h['a'], 'UTF-8') FROM t";
    assert_eq!(rows(&(table + select)).unwrap(), ["1,2020-01-01 12:00:00.123,x", "2,1970-01-01 00:00:00.005,"]);
    // The record has what is left.
    let mut texts = kafka.texts(&topic);
    texts.sort();
    assert_eq!(texts, ["{\"n\":1}", "{\"n\":2}"]);
    let table = kafka.table("t", "n BIGINT, o BIGINT METADATA FROM 'offset'", &topic, "");
    let error = run(&(table + "INSERT INTO t VALUES (1, 2)")).unwrap_err();
    assert_eq!(error.code, code::INVALID_TABLE, "{error}");
}
