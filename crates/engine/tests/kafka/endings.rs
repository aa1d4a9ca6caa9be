//! Where reading ends: every `scan.bounded.mode`, also where transactions have left marks that are not messages.

use crate::broker::{Kafka, Record, rows, shared};
use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use std::time::Duration;

fn numbers(kafka: &Kafka, topic: &str, numbers: std::ops::Range<i64>, timestamp: i64) {
    let record = |n| Record { value: Some(format!("{{\"n\":{n}}}").into_bytes()), ..Record::default() };
    kafka.send_records(topic, &numbers.map(record).collect::<Vec<_>>(), Some(timestamp));
}

fn all(kafka: &Kafka, topic: &str, options: &str) -> Vec<String> {
    rows(&(kafka.table("t", "n BIGINT", topic, options) + "SELECT n FROM t")).unwrap()
}

#[test]
fn every_mode_ends_where_it_says() {
    let Some(kafka) = shared() else { return };
    let topic = kafka.topic(1);
    numbers(&kafka, &topic, 0..3, 1_000);
    numbers(&kafka, &topic, 3..6, 2_000);
    let timestamp = "'scan.bounded.mode' = 'timestamp', 'scan.bounded.timestamp-millis' = '1500'";
    assert_eq!(all(&kafka, &topic, timestamp), ["0", "1", "2"]);
    let specific = "'scan.bounded.mode' = 'specific-offsets', 'scan.bounded.specific-offsets' = 'partition:0,offset:4'";
    assert_eq!(all(&kafka, &topic, specific), ["0", "1", "2", "3"]);
    let first = "'properties.group.id' = 'ends', 'properties.enable.auto.commit' = 'true'";
    let four = "'scan.bounded.mode' = 'specific-offsets', 'scan.bounded.specific-offsets' = 'partition:0,offset:5'";
    assert_eq!(all(&kafka, &topic, &format!("{four}, {first}")).len(), 5);
    let group = "'scan.bounded.mode' = 'group-offsets', 'properties.group.id' = 'ends'";
    assert_eq!(all(&kafka, &topic, group), ["0", "1", "2", "3", "4"]);
    // Empty topics and empty ranges end at once.
    let empty = kafka.topic(3);
    assert!(all(&kafka, &empty, "").is_empty());
    let nothing = "'scan.bounded.mode' = 'timestamp', 'scan.bounded.timestamp-millis' = '1'";
    assert!(all(&kafka, &topic, nothing).is_empty());
}

#[test]
fn marks_of_transactions_at_the_end_are_passed() {
    let Some(kafka) = shared() else { return };
    let topic = kafka.topic(1);
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &kafka.servers).set("transactional.id", "marks");
    let producer: BaseProducer = config.create().unwrap();
    producer.init_transactions(Duration::from_secs(30)).unwrap();
    for (n, commits) in [(1, true), (2, false)] {
        producer.begin_transaction().unwrap();
        let value = format!("{{\"n\":{n}}}");
        producer.send(BaseRecord::<[u8], str>::to(&topic).payload(value.as_str())).map_err(|(e, _)| e).unwrap();
        producer.flush(Duration::from_secs(30)).unwrap();
        if commits {
            producer.commit_transaction(Duration::from_secs(30)).unwrap();
        } else {
            producer.abort_transaction(Duration::from_secs(30)).unwrap();
        }
    }
    // What was aborted is not read, unless that is asked for.
    assert_eq!(all(&kafka, &topic, ""), ["1"]);
    assert_eq!(all(&kafka, &topic, "'properties.isolation.level' = 'read_uncommitted'"), ["1", "2"]);
}
