//! Sinks: partitioning, guarantees, and messages that are too large.

use crate::broker::{Kafka, run, shared};
use millstream::code;
use std::collections::BTreeMap;

/// The partition that Java's clients give a key, by murmur2.
fn partition_of(key: &[u8], partitions: u32) -> i32 {
    const M: u32 = 0x5bd1_e995;
    let mix = |k: u32| {
        let k = k.wrapping_mul(M);
        (k ^ (k >> 24)).wrapping_mul(M)
    };
    let mut hash = 0x9747_b28c ^ key.len() as u32;
    let words = key.chunks_exact(4);
    let rest = words.remainder();
    for word in words {
        hash = hash.wrapping_mul(M) ^ mix(u32::from_le_bytes(word.try_into().unwrap()));
    }
    if !rest.is_empty() {
        let tail = rest.iter().enumerate().fold(0, |tail, (at, byte)| tail | u32::from(*byte) << (8 * at));
        hash = (hash ^ tail).wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    hash ^= hash >> 15;
    ((hash & 0x7fff_ffff) % partitions) as i32
}

fn numbers(kafka: &Kafka, topic: &str, options: &str) -> Result<(), millstream::Diagnostic> {
    let source = "CREATE TABLE s (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '0', \
         'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '1000');";
    let sink = kafka.table("t", "name STRING, n BIGINT", topic, options);
    run(&format!("{source}{sink}INSERT INTO t SELECT 'key ' || CAST(id % 50 AS STRING), id FROM s"))
}

#[test]
fn equal_keys_go_where_java_sends_them() {
    let Some(kafka) = shared() else { return };
    let topic = kafka.topic(5);
    numbers(&kafka, &topic, "'key.format' = 'raw', 'key.fields' = 'name'").unwrap();
    let records = kafka.read(&topic);
    assert_eq!(records.len(), 1000);
    for record in &records {
        assert_eq!(record.partition, partition_of(record.key.as_deref().unwrap(), 5));
    }
    // The rows of a key keep their order.
    let mut last = BTreeMap::new();
    for record in &records {
        let n: i64 = record.text().rsplit([':', '}']).nth(1).unwrap().parse().unwrap();
        assert!(last.insert(record.key.clone(), n).is_none_or(|before| before < n));
    }
}

#[test]
fn partitioners_do_what_they_say() {
    let Some(kafka) = shared() else { return };
    for (partitioner, expected) in [("round-robin", vec![250, 250, 250, 250]), ("fixed", vec![1000])] {
        let topic = kafka.topic(4);
        let options = format!("'sink.partitioner' = '{partitioner}', 'sink.delivery-guarantee' = 'none'");
        numbers(&kafka, &topic, &options).unwrap();
        let mut counts = BTreeMap::new();
        kafka.read(&topic).iter().for_each(|record| *counts.entry(record.partition).or_insert(0) += 1);
        assert_eq!(counts.into_values().collect::<Vec<_>>(), expected, "{partitioner}");
    }
}

#[test]
fn what_is_too_large_is_said() {
    let Some(kafka) = shared() else { return };
    let large = "SELECT REPEAT('x', 2000000), CAST(1 AS BIGINT)";
    let insert = |topic: &str, options: &str| {
        run(&(kafka.table("t", "name STRING, n BIGINT", topic, options) + "INSERT INTO t " + large))
    };
    // The client's limit, then the topic's, then none.
    let topic = kafka.topic(1);
    for options in ["", "'properties.max.request.size' = '4000000'"] {
        let error = insert(&topic, options).unwrap_err();
        assert_eq!(error.code, code::WRITE_FAILED, "{error}");
        assert!(error.message.contains("of 2000017 bytes") && error.message.contains("larger"), "{error}");
        assert!(error.advice.unwrap().contains("max.request.size"));
    }
    let topic = kafka.topic_with(1, &[("max.message.bytes", "4000000")]);
    insert(&topic, "'properties.max.request.size' = '4000000'").unwrap();
    let table = kafka.table("t", "name STRING, n BIGINT", &topic, "");
    assert_eq!(crate::broker::rows(&(table + "SELECT CHAR_LENGTH(name) FROM t")).unwrap(), ["2000000"]);
}

#[test]
fn exactly_once_needs_checkpoints() {
    let Some(kafka) = shared() else { return };
    let topic = kafka.topic(1);
    let error = numbers(&kafka, &topic, "'sink.delivery-guarantee' = 'exactly-once'").unwrap_err();
    assert_eq!(error.code, code::INVALID_OPTION, "{error}");
    assert!(error.advice.unwrap().contains("execution.checkpointing.interval"));
    assert!(kafka.read(&topic).is_empty());
}

#[test]
fn a_sink_has_one_topic() {
    let Some(kafka) = shared() else { return };
    assert_eq!(numbers(&kafka, "a;b", "").unwrap_err().code, code::INVALID_OPTION);
    let error = numbers(&kafka, "is-not-there", "").unwrap_err();
    assert_eq!(error.message, "there is no topic 'is-not-there'");
}
