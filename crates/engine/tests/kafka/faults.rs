//! Brokers that crash, topics that are deleted, messages that are gone.

use crate::broker::{Kafka, alone, rows, shared};
use millstream::connectors::{ColumnRequest, Position, RequestOrigin, SourceRequest, open_source};
use millstream::{Collected, DataType, Diagnostic, Field, Options, RunMonitor, Schema, Session, SessionConfig, code};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Runs a script that does not end by itself beside `meanwhile`, then stops it.
fn beside(script: &str, meanwhile: impl FnOnce(&dyn Fn() -> bool)) -> Result<(), Diagnostic> {
    let monitor = RunMonitor::new();
    std::thread::scope(|scope| {
        let query = scope.spawn(|| {
            let mut session = Session::new(SessionConfig::default());
            for statement in &session.parse(script)? {
                session.execute(statement, &mut Collected::new(), &monitor)?;
            }
            Ok::<(), Diagnostic>(())
        });
        meanwhile(&|| query.is_finished());
        monitor.cancel().stop();
        match query.join().unwrap() {
            Err(stopped) if stopped.code == code::CANCELLED => Ok(()),
            ended => ended,
        }
    })
}

fn numbers(range: std::ops::Range<i64>) -> Vec<String> {
    range.map(|n| format!("{{\"n\":{n}}}")).collect()
}

fn send(kafka: &Kafka, topic: &str, range: std::ops::Range<i64>) {
    kafka.send(topic, 0, &numbers(range).iter().map(String::as_str).collect::<Vec<_>>());
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(40), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn queries_outlive_a_crash_of_the_broker() {
    let Some(kafka) = alone() else { return };
    let (input, output) = (kafka.topic(1), kafka.topic(1));
    send(&kafka, &input, 0..1000);
    let script = kafka.table("t", "n BIGINT", &input, "'scan.bounded.mode' = 'unbounded'")
        + &kafka.table("o", "n BIGINT", &output, "")
        + "INSERT INTO o SELECT n FROM t";
    beside(&script, |is_finished| {
        eventually("the first rows arrive", || kafka.read(&output).len() >= 1000);
        kafka.kill();
        kafka.restart();
        send(&kafka, &input, 1000..2000);
        eventually("the rows behind the crash arrive", || kafka.read(&output).len() >= 2000);
        assert!(!is_finished());
    })
    .unwrap();
    let texts = kafka.texts(&output);
    // Producers are idempotent: what was sent again is there once.
    assert_eq!(texts.len(), 2000);
    assert_eq!(texts.into_iter().collect::<BTreeSet<_>>(), numbers(0..2000).into_iter().collect());
}

#[test]
fn rows_written_while_the_broker_is_away_arrive() {
    let Some(kafka) = alone() else { return };
    let output = kafka.topic(1);
    let script = "CREATE TABLE s (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '2000', \
         'fields.id.kind' = 'sequence', 'fields.id.start' = '0', 'fields.id.end' = '9999');"
        .to_string()
        + &kafka.table("o", "n BIGINT", &output, "")
        + "INSERT INTO o SELECT id FROM s";
    std::thread::scope(|scope| {
        let query = scope.spawn(|| crate::broker::run(&script));
        eventually("rows arrive", || !kafka.read(&output).is_empty());
        kafka.kill();
        kafka.restart();
        query.join().unwrap().unwrap();
    });
    let texts = kafka.texts(&output);
    assert_eq!(texts.len(), 10_000);
    assert_eq!(texts.into_iter().collect::<BTreeSet<_>>().len(), 10_000);
}

#[test]
fn a_deleted_topic_ends_its_query() {
    let Some(kafka) = shared() else { return };
    let (input, output) = (kafka.topic(1), kafka.topic(1));
    send(&kafka, &input, 0..10);
    let options = "'scan.bounded.mode' = 'unbounded', 'properties.topic.metadata.propagation.max.ms' = '500', \
         'properties.topic.metadata.refresh.interval.ms' = '500'";
    let script = kafka.table("t", "n BIGINT", &input, options)
        + &kafka.table("o", "n BIGINT", &output, "")
        + "INSERT INTO o SELECT n FROM t";
    let error = beside(&script, |is_finished| {
        eventually("rows arrive", || kafka.read(&output).len() == 10);
        kafka.delete(&input);
        eventually("the query ends", is_finished);
    })
    .unwrap_err();
    assert_eq!(error.code, code::READ_FAILED, "{error}");
    assert_eq!(error.message, format!("{input}-0 does not exist any more"));
}

#[test]
fn messages_that_are_gone_are_missed() {
    let Some(kafka) = shared() else { return };
    let topic = kafka.topic(1);
    send(&kafka, &topic, 0..10);
    kafka.truncate(&topic, 5);
    let select = |options: &str| rows(&(kafka.table("t", "n BIGINT", &topic, options) + "SELECT n FROM t"));
    assert_eq!(select("").unwrap(), ["5", "6", "7", "8", "9"]);
    let specific = "'scan.startup.mode' = 'specific-offsets', 'scan.startup.specific-offsets' = 'partition:0,offset:2'";
    let error = select(specific).unwrap_err();
    assert_eq!(error.code, code::READ_FAILED, "{error}");
    assert!(error.message.contains("are not there any more"), "{error}");
    let reset = format!("{specific}, 'properties.auto.offset.reset' = 'earliest'");
    assert_eq!(select(&reset).unwrap().len(), 5);
    // A query that is recovered does not pass over them, whatever the options say.
    let error = resumed(&kafka, &topic, Some(2)).unwrap_err();
    assert_eq!(error.code, code::INPUT_CHANGED, "{error}");
    assert_eq!(resumed(&kafka, &topic, Some(7)).unwrap(), 3);
    assert_eq!(resumed(&kafka, &topic, None).unwrap(), 5);
}

/// Messages that the split of a topic gives behind a position.
fn resumed(kafka: &Kafka, topic: &str, at: Option<u64>) -> Result<usize, Diagnostic> {
    let options: Options = [
        ("connector", "kafka"),
        ("topic", topic),
        ("properties.bootstrap.servers", kafka.servers.as_str()),
        ("scan.startup.mode", "latest-offset"),
        ("scan.bounded.mode", "latest-offset"),
        ("properties.auto.offset.reset", "earliest"),
        ("format", "json"),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_string(), value.to_string()))
    .collect();
    let schema = Schema::new(vec![Field::new("n", DataType::BigInt, true)]);
    let column = ColumnRequest {
        name: "n".into(),
        origin: RequestOrigin::Path(vec![0]),
        data_type: DataType::BigInt,
        nullable: true,
    };
    let request =
        SourceRequest { table: "t".into(), options, schema, columns: vec![column], ..SourceRequest::default() };
    let mut source = open_source(&request)?;
    assert!(source.is_replayable() && source.is_bounded());
    let (decoder, mut splits) = (source.decoder(), source.splits()?);
    let [split] = &mut splits[..] else { panic!("one partition is one split") };
    assert_eq!(split.name(), format!("{topic}-0"));
    split.resume(at.map(|at| Position { at, line: 0 }))?;
    let mut rows = 0;
    while let Some(chunk) = split.next()? {
        assert_eq!(chunk.after.unwrap().line, 0);
        rows += decoder.decode(chunk).rows;
    }
    Ok(rows)
}
