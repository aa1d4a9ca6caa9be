//! Event time over several partitions: each has a watermark of its own, and splits in reserve hold nothing back.

use crate::broker::{rows, shared};

const COLUMNS: &str = "id BIGINT, ms BIGINT, ts AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR ts AS ts";
const QUERY: &str = "SELECT COUNT(*) AS n, SUM(id) AS ids FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND)) \
     GROUP BY window_start, window_end";

#[test]
fn partitions_that_lag_are_not_late() {
    let Some(kafka) = shared() else { return };
    let topic = kafka.topic(3);
    // Partition 0 is far ahead when the others begin; within a partition time advances.
    for partition in 0..3 {
        let values: Vec<String> =
            (0..400).map(|n| format!("{{\"id\":{},\"ms\":{}}}", partition * 1000 + n, n * 10)).collect();
        kafka.send(&topic, partition, &values.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let counts = rows(&(kafka.table("t", COLUMNS, &topic, "") + QUERY)).unwrap();
    let sum = |window: i64| (0..3).flat_map(|p| (0..100).map(move |n| p * 1000 + window * 100 + n)).sum::<i64>();
    let mut expected: Vec<String> = (0..4).map(|window| format!("300,{}", sum(window))).collect();
    expected.sort();
    assert_eq!(counts, expected);
}

#[test]
fn the_time_of_messages_can_be_event_time() {
    let Some(kafka) = shared() else { return };
    let topic = kafka.topic(1);
    for (id, time) in [(1, 1_000), (2, 1_500), (3, 2_000)] {
        let value = Some(format!("{{\"id\":{id}}}").into_bytes());
        kafka.send_records(&topic, &[crate::broker::Record { value, ..Default::default() }], Some(time));
    }
    let columns = "id BIGINT, ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', WATERMARK FOR ts AS ts";
    assert_eq!(rows(&(kafka.table("t", columns, &topic, "") + QUERY)).unwrap(), ["1,3", "2,3"]);
}

#[test]
fn a_rate_can_be_set() {
    let Some(kafka) = shared() else { return };
    let topic = kafka.topic(2);
    for partition in 0..2 {
        kafka.send(&topic, partition, &["{\"id\":1}"; 50]);
    }
    let table = kafka.table("t", "id BIGINT", &topic, "'scan.rate-limit.rows-per-second' = '1000'");
    assert_eq!(rows(&(table + "SELECT id FROM t")).unwrap().len(), 100);
}
