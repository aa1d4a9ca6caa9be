//! Exactly once: spans of checkpoints as transactions, and what another process finds of them.

use crate::broker::{Kafka, shared};
use arrow_array::{ArrayRef, Int64Array};
use millstream::connectors::{Committed, Delivery, RestoredSink, Sink, SinkJob, SinkRequest, SinkWriter, open_sink};
use millstream::{Collected, DataType, Diagnostic, Field, Options, RunMonitor, Schema, Session, SessionConfig, code};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub fn open(kafka: &Kafka, topic: &str, extra: &[(&str, &str)]) -> Box<dyn Sink> {
    let base = [
        ("connector", "kafka"),
        ("topic", topic),
        ("properties.bootstrap.servers", kafka.servers.as_str()),
        ("sink.delivery-guarantee", "exactly-once"),
        ("format", "json"),
    ];
    let options: Options = base.iter().chain(extra).map(|(key, value)| (key.to_string(), value.to_string())).collect();
    let schema = Schema::new(vec![Field::new("n", DataType::BigInt, true)]);
    let sink = open_sink(&SinkRequest {
        table: "t".into(),
        options,
        schema,
        metadata: vec![],
        primary_key: vec![],
        changes: None,
    })
    .unwrap();
    assert_eq!(sink.delivery(), Delivery::ExactlyOnce);
    sink
}

pub fn write(sink: &mut dyn Sink, numbers: std::ops::Range<i64>) -> Result<(), Diagnostic> {
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers.clone()));
    let piece = sink.encoder().encode(&[column], numbers.count())?;
    sink.write(piece)
}

fn job(name: &str) -> SinkJob {
    SinkJob {
        job: name.into(),
        sink: 0,
        writer: SinkWriter::first(1),
        is_distributed: false,
        resumes: None,
        directory: std::path::PathBuf::new(),
        remote: None,
        shared: Arc::default(),
    }
}

fn restored(checkpoint: u64) -> RestoredSink {
    RestoredSink { checkpoint, tokens: Vec::new() }
}

/// Checks what is seen in the end.
pub fn assert_seen(kafka: &Kafka, topic: &str, expected: &[i64]) {
    kafka.shows(topic, |texts| numbers(texts) == expected);
}

pub fn seen(kafka: &Kafka, topic: &str) -> Vec<i64> {
    numbers(&kafka.texts(topic))
}

fn numbers(texts: &[String]) -> Vec<i64> {
    let number = |text: &String| text.trim_start_matches("{\"n\":").trim_end_matches('}').parse().unwrap();
    let mut numbers: Vec<i64> = texts.iter().map(number).collect();
    numbers.sort();
    numbers
}

#[test]
fn sinks_of_a_job_share_a_transaction() {
    let Some(kafka) = shared() else { return };
    let topics = [kafka.topic(1), kafka.topic(1)];
    let first = job("together");
    let jobs = [first.clone(), SinkJob { sink: 1, ..first }];
    let mut sinks = topics.each_ref().map(|topic| open(&kafka, topic, &[]));
    for (sink, job) in sinks.iter_mut().zip(&jobs) {
        assert_eq!(sink.committed(job).unwrap(), Committed::Nothing);
        sink.begin(job, None).unwrap();
    }
    let [one, other] = &mut sinks;
    for checkpoint in 1..5 {
        let n = checkpoint as i64 * 10;
        write(&mut **one, n..n + 1).unwrap();
        let first = one.cut(checkpoint).unwrap().unwrap();
        // The next span of one begins while the other has not come to the end of this one, or has nothing to write.
        write(&mut **one, n + 1..n + 2).unwrap();
        if checkpoint != 3 {
            write(&mut **other, n..n + 1).unwrap();
        }
        let mut commits = [first, other.cut(checkpoint).unwrap().unwrap()];
        commits.iter_mut().for_each(|commit| _ = commit.prepare().unwrap());
        let [first, second] = commits;
        first.commit().unwrap();
        // All of both is there with the first of the commits.
        let of_one: Vec<i64> = (1..=checkpoint as i64).flat_map(|c| [c * 10, c * 10 + 1]).collect();
        assert_seen(&kafka, &topics[0], &of_one[..of_one.len() - 1]);
        let of_other: Vec<i64> = (1..=checkpoint as i64).filter(|c| *c != 3).map(|c| c * 10).collect();
        assert_seen(&kafka, &topics[1], &of_other);
        second.commit().unwrap();
    }
    let mut again = topics.each_ref().map(|topic| open(&kafka, topic, &[]));
    let first = job("together");
    for (number, sink) in again.iter_mut().enumerate() {
        let job = SinkJob { sink: number, ..first.clone() };
        assert_eq!(sink.committed(&job).unwrap(), Committed::Checkpoint(4));
    }
}

#[test]
fn rows_are_seen_when_their_checkpoint_is_committed() {
    let Some(kafka) = shared() else { return };
    let topic = kafka.topic(2);
    let mut sink = open(&kafka, &topic, &[]);
    sink.begin(&job("seen"), None).unwrap();
    write(&mut *sink, 0..10).unwrap();
    let mut first = sink.cut(1).unwrap().unwrap();
    // The next span begins while the first is being prepared.
    write(&mut *sink, 10..20).unwrap();
    first.prepare().unwrap();
    assert!(seen(&kafka, &topic).is_empty());
    first.commit().unwrap();
    assert_seen(&kafka, &topic, &(0..10).collect::<Vec<_>>());
    for checkpoint in 2..6 {
        let mut commit = sink.cut(checkpoint).unwrap().unwrap();
        commit.prepare().unwrap();
        commit.commit().unwrap();
    }
    assert_seen(&kafka, &topic, &(0..20).collect::<Vec<_>>());
    sink.finish().unwrap();
    let mut sink = open(&kafka, &topic, &[]);
    assert_eq!(sink.committed(&job("seen")).unwrap(), Committed::Checkpoint(5));
}

#[test]
fn a_job_goes_on_from_what_was_committed() {
    let Some(kafka) = shared() else { return };
    let topic = kafka.topic(1);
    let mut sink = open(&kafka, &topic, &[]);
    assert_eq!(sink.committed(&job("goes-on")).unwrap(), Committed::Nothing);
    sink.begin(&job("goes-on"), None).unwrap();
    write(&mut *sink, 0..5).unwrap();
    let mut commit = sink.cut(1).unwrap().unwrap();
    commit.prepare().unwrap();
    commit.commit().unwrap();
    write(&mut *sink, 5..10).unwrap();
    let mut prepared = sink.cut(2).unwrap().unwrap();
    write(&mut *sink, 10..15).unwrap();
    prepared.prepare().unwrap();
    // The process ends here: the manifest of checkpoint 2 may or may not be there.
    drop((prepared, sink));

    let mut sink = open(&kafka, &topic, &[]);
    assert_eq!(sink.committed(&job("goes-on")).unwrap(), Committed::Checkpoint(1));
    let error = sink.begin(&job("goes-on"), Some(&restored(2))).unwrap_err();
    assert_eq!(error.code, code::NOT_RECOVERABLE, "{error}");
    let mut sink = open(&kafka, &topic, &[]);
    assert_eq!(sink.committed(&job("goes-on")).unwrap(), Committed::Checkpoint(1));
    sink.begin(&job("goes-on"), Some(&restored(1))).unwrap();
    write(&mut *sink, 5..20).unwrap();
    let mut commit = sink.cut(2).unwrap().unwrap();
    commit.prepare().unwrap();
    commit.commit().unwrap();
    sink.finish().unwrap();
    assert_seen(&kafka, &topic, &(0..20).collect::<Vec<_>>());
    // A job that starts over under the same name does not take over the old tokens.
    let mut sink = open(&kafka, &topic, &[]);
    sink.begin(&job("goes-on"), None).unwrap();
    drop(sink);
    let mut sink = open(&kafka, &topic, &[]);
    assert_eq!(sink.committed(&job("goes-on")).unwrap(), Committed::Nothing);
}

#[test]
fn a_process_that_was_replaced_is_not_heard() {
    let Some(kafka) = shared() else { return };
    let topic = kafka.topic(1);
    let mut zombie = open(&kafka, &topic, &[]);
    zombie.begin(&job("fenced"), None).unwrap();
    write(&mut *zombie, 0..5).unwrap();
    let mut prepared = zombie.cut(1).unwrap().unwrap();
    prepared.prepare().unwrap();
    write(&mut *zombie, 5..10).unwrap();

    let mut sink = open(&kafka, &topic, &[]);
    assert_eq!(sink.committed(&job("fenced")).unwrap(), Committed::Nothing);
    sink.begin(&job("fenced"), None).unwrap();
    let error = prepared.commit().unwrap_err();
    assert_eq!(error.code, code::WRITE_FAILED, "{error}");
    assert!(error.message.contains("another process has taken over"), "{error}");
    let mut second = zombie.cut(2).unwrap().unwrap();
    let outcome = second.prepare().and_then(|_| second.commit());
    let error = outcome.unwrap_err();
    assert!(error.message.contains("another process has taken over"), "{error}");

    write(&mut *sink, 100..103).unwrap();
    let mut commit = sink.cut(1).unwrap().unwrap();
    commit.prepare().unwrap();
    commit.commit().unwrap();
    assert_seen(&kafka, &topic, &[100, 101, 102]);
}

#[test]
fn a_token_behind_an_open_transaction_of_another_job_is_waited_for() {
    let Some(kafka) = shared() else { return };
    let topics = [kafka.topic(1), kafka.topic(1)];
    let tokens = [("sink.token-topic", "tokens-of-two"), ("connect.timeout", "3 s")];
    let mut first = open(&kafka, &topics[0], &tokens);
    first.begin(&job("first"), None).unwrap();
    let mut held = first.cut(1).unwrap().unwrap();
    held.prepare().unwrap();
    let mut second = open(&kafka, &topics[1], &tokens);
    // Its own token, which is behind that of the first, and this one's end.
    let error = second.committed(&job("second")).unwrap_err();
    assert_eq!(error.code, code::CONNECTION_FAILED, "{error}");
    assert!(error.message.contains("another job has a transaction open in the topic 'tokens-of-two'"), "{error}");
    held.commit().unwrap();
    second.begin(&job("second"), None).unwrap();
    let mut held = first.cut(2).unwrap().unwrap();
    held.prepare().unwrap();
    let mut commit = second.cut(1).unwrap().unwrap();
    commit.prepare().unwrap();
    commit.commit().unwrap();
    drop(second);
    let mut second = open(&kafka, &topics[1], &tokens);
    assert_eq!(second.committed(&job("second")).unwrap_err().code, code::CONNECTION_FAILED);
    std::thread::scope(|scope| {
        let answer = scope.spawn(|| open(&kafka, &topics[1], &tokens).committed(&job("second")));
        held.commit().unwrap();
        assert_eq!(answer.join().unwrap().unwrap(), Committed::Checkpoint(1));
    });
}

#[test]
fn a_transaction_that_is_open_for_too_long_is_said() {
    let Some(kafka) = shared() else { return };
    let topic = kafka.topic(1);
    let error = {
        let mut sink = open(&kafka, &topic, &[("properties.transaction.timeout.ms", "100000000")]);
        sink.begin(&job("too-long"), None).unwrap_err()
    };
    assert!(error.advice.as_ref().unwrap().contains("transaction.max.timeout.ms"), "{error}");
    let mut sink = open(&kafka, &topic, &[("sink.token-topic", "other-tokens"), ("sink.transactional-id-prefix", "p")]);
    sink.begin(&job("other"), None).unwrap();
    let mut commit = sink.cut(7).unwrap().unwrap();
    commit.prepare().unwrap();
    commit.commit().unwrap();
    let start = Instant::now();
    while kafka.read("other-tokens").is_empty() {
        assert!(start.elapsed() < Duration::from_secs(10));
    }
    let tokens = kafka.read("other-tokens");
    assert_eq!((tokens[0].key.as_deref(), tokens[0].text()), (Some(&b"p/other/0"[..]), "7"));
}

#[test]
fn a_query_goes_on_where_it_was_stopped() {
    let Some(kafka) = shared() else { return };
    let (input, output) = (kafka.topic(2), kafka.topic(1));
    let directory = std::env::temp_dir().join(format!("millstream-kafka-state-{}", std::process::id()));
    let options = "'scan.startup.mode' = 'latest-offset', 'scan.bounded.mode' = 'unbounded', \
         'properties.group.id' = 'state', 'scan.topic-partition-discovery.interval' = '0 s'";
    let script = format!(
        "SET 'execution.checkpointing.dir' = '{}'; SET 'execution.checkpointing.interval' = '200 ms'; {}{}\
         INSERT INTO o SELECT n FROM t WHERE n >= 0",
        directory.display(),
        kafka.table("t", "n BIGINT", &input, options),
        kafka.table("o", "n BIGINT", &output, "'sink.delivery-guarantee' = 'exactly-once'")
    );
    // Nothing has come before the first stop: the second run begins where the first one has.
    for (run, numbers) in [0..0, 0..100, 100..200].into_iter().enumerate() {
        let send = |numbers: std::ops::Range<i64>| {
            for n in numbers {
                kafka.send(&input, (n % 2) as i32, &[&format!("{{\"n\":{n}}}")]);
            }
        };
        let half = numbers.start + (numbers.end - numbers.start) / 2;
        // Some come while nobody reads.
        send(numbers.start..half);
        let monitor = RunMonitor::new();
        std::thread::scope(|scope| {
            let query = scope.spawn(|| {
                let mut session = Session::new(SessionConfig::default());
                for statement in &session.parse(&script).unwrap() {
                    session.execute(statement, &mut Collected::new(), &monitor)?;
                }
                Ok::<(), Diagnostic>(())
            });
            let start = Instant::now();
            let is_reading = || monitor.stats().is_some_and(|stats| stats.snapshot().checkpoints.begun > 2);
            while !is_reading() {
                assert!(start.elapsed() < Duration::from_secs(20) && !query.is_finished());
                std::thread::sleep(Duration::from_millis(20));
            }
            send(half..numbers.end);
            while seen(&kafka, &output).len() < numbers.end as usize {
                assert!(start.elapsed() < Duration::from_secs(40) && !query.is_finished(), "{run}");
                std::thread::sleep(Duration::from_millis(20));
            }
            monitor.cancel().stop();
            let ended = query.join().unwrap();
            assert_eq!(ended.unwrap_err().code, code::SUSPENDED);
        });
    }
    std::fs::remove_dir_all(directory).unwrap();
    assert_seen(&kafka, &output, &(0..200).collect::<Vec<_>>());
    assert_eq!(kafka.committed("state", &input), Some(100));
}

#[test]
fn inserts_are_added_to_a_set_and_change_places() {
    let Some(kafka) = shared() else { return };
    let (input, first, second) = (kafka.topic(1), kafka.topic(1), kafka.topic(1));
    let directory = tempfile::tempdir().unwrap();
    let started = |exactly: &str, inserts: &str| {
        let script = format!(
            "SET 'execution.checkpointing.dir' = '{}'; SET 'execution.checkpointing.interval' = '200 ms'; {}{}{}",
            directory.path().display(),
            kafka.table(
                "t",
                "n BIGINT",
                &input,
                "'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'unbounded'"
            ),
            kafka.table("a", "n BIGINT", &first, exactly),
            kafka.table("b", "n BIGINT", &second, exactly),
        );
        let mut session = Session::new(SessionConfig::default());
        session.run(&script).unwrap();
        let set = format!("EXECUTE STATEMENT SET BEGIN {inserts} END");
        let statement = &session.parse(&set).unwrap()[0];
        session.submit(statement)
    };
    let exactly = "'sink.delivery-guarantee' = 'exactly-once'";
    let (a, b) = ("INSERT INTO a SELECT n FROM t;", "INSERT INTO b SELECT n FROM t WHERE n >= 0;");
    for (run, inserts) in [a.to_string(), [b, a].concat(), [a, b].concat()].into_iter().enumerate() {
        let job = started(exactly, &inserts).unwrap();
        let numbers = run * 100..(run + 1) * 100;
        numbers.clone().for_each(|n| kafka.send(&input, 0, &[&format!("{{\"n\":{n}}}")]));
        let since = Instant::now();
        let has_come = |topic: &str| seen(&kafka, topic).len() >= numbers.end - if topic == second { 100 } else { 0 };
        while !(has_come(&first) && (run == 0 || has_come(&second))) {
            assert!(since.elapsed() < Duration::from_secs(40) && !job.has_ended(), "{run}");
            std::thread::sleep(Duration::from_millis(20));
        }
        job.stop();
        assert_eq!(job.wait().unwrap_err().code, code::SUSPENDED);
    }
    assert_seen(&kafka, &first, &(0..300).collect::<Vec<_>>());
    assert_seen(&kafka, &second, &(100..300).collect::<Vec<_>>());
    // A sink that knows nothing of what was committed does not begin again.
    let prefix = format!("{exactly}, 'sink.transactional-id-prefix' = 'other'");
    for other in [&*prefix, "'sink.delivery-guarantee' = 'at-least-once'"] {
        let error = started(other, &[a, b].concat()).unwrap().wait().unwrap_err();
        assert_eq!(error.code, code::NOT_RECOVERABLE, "{error}");
    }
    assert_seen(&kafka, &first, &(0..300).collect::<Vec<_>>());
}
