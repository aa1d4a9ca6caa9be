//! Where reading starts: every `scan.startup.mode`, topics by list and pattern, and new partitions.

use crate::broker::{Kafka, Record, rows, run, shared};
use millstream::{Collected, RunMonitor, Session, SessionConfig, code};
use std::time::{Duration, Instant};

const N: &str = "n BIGINT";

/// Sends numbers to a partition, at a time.
fn numbers(kafka: &Kafka, topic: &str, partition: i32, numbers: std::ops::Range<i64>, timestamp: i64) {
    let record = |n| Record { partition, value: Some(format!("{{\"n\":{n}}}").into_bytes()), ..Record::default() };
    kafka.send_records(topic, &numbers.map(record).collect::<Vec<_>>(), Some(timestamp));
}

fn all(kafka: &Kafka, topic: &str, options: &str) -> Result<Vec<String>, millstream::Diagnostic> {
    rows(&(kafka.table("t", N, topic, options) + "SELECT n FROM t"))
}

#[test]
fn every_mode_starts_where_it_says() {
    let Some(kafka) = shared() else { return };
    let topic = kafka.topic(2);
    numbers(&kafka, &topic, 0, 0..3, 1_000);
    numbers(&kafka, &topic, 1, 10..12, 2_000);
    assert_eq!(all(&kafka, &topic, "").unwrap(), ["0", "1", "10", "11", "2"]);
    assert!(all(&kafka, &topic, "'scan.startup.mode' = 'latest-offset'").unwrap().is_empty());
    let timestamp = "'scan.startup.mode' = 'timestamp', 'scan.startup.timestamp-millis' = '1500'";
    assert_eq!(all(&kafka, &topic, timestamp).unwrap(), ["10", "11"]);
    let specific = "'scan.startup.mode' = 'specific-offsets', \
         'scan.startup.specific-offsets' = 'partition:0,offset:2;partition:1,offset:1'";
    assert_eq!(all(&kafka, &topic, specific).unwrap(), ["11", "2"]);
    // A partition that is not listed is read from its start.
    let one = "'scan.startup.mode' = 'specific-offsets', 'scan.startup.specific-offsets' = 'partition:0,offset:2'";
    assert_eq!(all(&kafka, &topic, one).unwrap(), ["10", "11", "2"]);
}

#[test]
fn a_group_goes_on_where_it_was() {
    let Some(kafka) = shared() else { return };
    let topic = kafka.topic(1);
    numbers(&kafka, &topic, 0, 0..5, 1_000);
    let group = "'scan.startup.mode' = 'group-offsets', 'properties.group.id' = 'goes-on'";
    let error = all(&kafka, &topic, group).unwrap_err();
    assert_eq!(error.code, code::READ_FAILED, "{error}");
    assert!(error.message.contains("has committed no offset"), "{error}");
    let commits =
        format!("{group}, 'properties.auto.offset.reset' = 'earliest', 'properties.enable.auto.commit' = 'true'");
    assert_eq!(all(&kafka, &topic, &commits).unwrap().len(), 5);
    assert_eq!(kafka.committed("goes-on", &topic), Some(5));
    numbers(&kafka, &topic, 0, 5..7, 1_000);
    assert_eq!(all(&kafka, &topic, group).unwrap(), ["5", "6"]);
    // Without auto commit nothing has moved.
    assert_eq!(kafka.committed("goes-on", &topic), Some(5));
    let error = all(&kafka, &topic, "'scan.startup.mode' = 'group-offsets'").unwrap_err();
    assert_eq!(error.code, code::MISSING_OPTION, "{error}");
}

#[test]
fn several_topics_are_read_by_list_and_by_pattern() {
    let Some(kafka) = shared() else { return };
    for (name, n) in [("many-a", 1), ("many-b", 2), ("not-many-a", 3)] {
        kafka.create(name, 1, &[]);
        numbers(&kafka, name, 0, n..n + 1, 1_000);
    }
    assert_eq!(all(&kafka, "many-a;not-many-a", "").unwrap(), ["1", "3"]);
    let table = kafka.table("t", N, "x", "").replace("'topic' = 'x'", "'topic-pattern' = 'many-.*'");
    assert_eq!(rows(&(table + "SELECT n FROM t")).unwrap(), ["1", "2"]);
}

#[test]
fn new_partitions_and_topics_are_found() {
    let Some(kafka) = shared() else { return };
    kafka.create("grows-a", 1, &[]);
    numbers(&kafka, "grows-a", 0, 0..1, 1_000);
    let table = kafka
        .table("t", N, "x", "'scan.bounded.mode' = 'unbounded', 'scan.topic-partition-discovery.interval' = '200 ms'")
        .replace("'topic' = 'x'", "'topic-pattern' = 'grows-.*'");
    let output = kafka.topic(1);
    let script = table + &kafka.table("o", N, &output, "") + "INSERT INTO o SELECT n FROM t";
    let monitor = RunMonitor::new();
    std::thread::scope(|scope| {
        let query = scope.spawn(|| {
            let mut session = Session::new(SessionConfig::default());
            for statement in &session.parse(&script).unwrap() {
                session.execute(statement, &mut Collected::new(), &monitor)?;
            }
            Ok::<(), millstream::Diagnostic>(())
        });
        let see = |count: usize| {
            let start = Instant::now();
            while kafka.read(&output).len() < count {
                assert!(start.elapsed() < Duration::from_secs(20), "{:?}", kafka.texts(&output));
                assert!(!query.is_finished());
                std::thread::sleep(Duration::from_millis(50));
            }
        };
        see(1);
        kafka.grow("grows-a", 2);
        numbers(&kafka, "grows-a", 1, 1..2, 1_000);
        see(2);
        kafka.create("grows-b", 1, &[]);
        numbers(&kafka, "grows-b", 0, 2..3, 1_000);
        see(3);
        monitor.cancel().stop();
        let ended = query.join().unwrap();
        assert!(ended.as_ref().is_err_and(|e| e.code == code::CANCELLED) || ended.is_ok(), "{ended:?}");
    });
    let mut texts = kafka.texts(&output);
    texts.sort();
    assert_eq!(texts, ["{\"n\":0}", "{\"n\":1}", "{\"n\":2}"]);
}

#[test]
fn what_cannot_be_is_said_at_once() {
    let Some(kafka) = shared() else { return };
    let error = all(&kafka, "does-not-exist", "").unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (code::READ_FAILED, "there is no topic 'does-not-exist'"));
    let topic = kafka.topic(1);
    for (options, code, message) in [
        ("'scan.startup.mode' = 'first'", code::INVALID_OPTION, "scan.startup.mode"),
        ("'properties.fetch.min.bites' = '1'", code::INVALID_OPTION, "fetch.min.bites"),
        ("'properties.ssl.truststore.location' = 'x'", code::INVALID_OPTION, "ssl.truststore.location"),
        ("'key.format' = 'json'", code::MISSING_OPTION, "key.fields"),
        ("'format' = 'parquet'", code::INVALID_OPTION, "not for messages"),
        ("'scan.startup.specific-offsets' = '0'", code::INVALID_OPTION, "specific-offsets"),
    ] {
        let options = match options.contains("specific-offsets") {
            true => format!("{options}, 'scan.startup.mode' = 'specific-offsets'"),
            false => options.to_string(),
        };
        let error = all(&kafka, &topic, &options).unwrap_err();
        assert!(error.code == code && error.to_string().contains(message), "{options}: {error}");
    }
    let table = kafka.table("t", N, &topic, "").replace(&kafka.servers, "127.0.0.1:1");
    let table = table.replace("'format'", "'connect.timeout' = '1 s', 'format'");
    let error = run(&(table.clone() + "SELECT n FROM t")).unwrap_err();
    assert_eq!(error.code, code::CONNECTION_FAILED, "{error}");
    let error = run(&(table + "INSERT INTO t VALUES (1)")).unwrap_err();
    assert_eq!(error.code, code::CONNECTION_FAILED, "{error}");
}
