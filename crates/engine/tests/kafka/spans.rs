//! Exactly once on several nodes: spans that wait until their checkpoint is complete, whoever writes them then.

use crate::broker::{Kafka, shared};
use crate::transactions::{assert_seen, open, seen, write};
use millstream::code;
use millstream::connectors::{Commit, Committed, LostSink, RestoredSink, Sink, SinkJob, SinkWriter};
use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// The job of a node, in a process of the job.
fn job(name: &str, directory: &Path, run: u64, node: usize, is_distributed: bool) -> SinkJob {
    SinkJob {
        job: name.into(),
        sink: 0,
        writer: SinkWriter { run, node, attempt: run },
        is_distributed,
        resumes: None,
        directory: directory.to_path_buf(),
        remote: None,
        shared: Arc::default(),
    }
}

/// What several processes of a job need.
struct Bench<'a> {
    kafka: &'a Kafka,
    name: &'static str,
    topic: String,
    directory: TempDir,
}

impl Bench<'_> {
    fn new<'a>(kafka: &'a Kafka, name: &'static str) -> Bench<'a> {
        Bench { kafka, name, topic: kafka.topic(2), directory: tempfile::tempdir().unwrap() }
    }

    fn job(&self, run: u64, node: usize) -> SinkJob {
        job(self.name, self.directory.path(), run, node, true)
    }

    /// The sink of the first node, which resumes.
    fn resumed(&self, job: &SinkJob, checkpoint: u64, tokens: &[Value]) -> Box<dyn Sink> {
        let mut sink = open(self.kafka, &self.topic, &[]);
        let job = SinkJob { resumes: Some(checkpoint), ..job.clone() };
        sink.committed(&job).unwrap();
        sink.begin(&job, Some(&RestoredSink { checkpoint, tokens: tokens.to_vec() })).unwrap();
        sink
    }

    /// The sink of another node.
    fn other(&self, run: u64, node: usize) -> Box<dyn Sink> {
        let mut sink = open(self.kafka, &self.topic, &[]);
        sink.begin(&self.job(run, node), None).unwrap();
        sink
    }

    fn sees(&self, expected: std::ops::Range<i64>) {
        assert_seen(self.kafka, &self.topic, &expected.collect::<Vec<_>>());
    }

    fn files(&self) -> usize {
        std::fs::read_dir(self.directory.path()).unwrap().count()
    }
}

/// Ends the span of a checkpoint.
fn prepared(sink: &mut dyn Sink, checkpoint: u64) -> (Box<dyn Commit>, Value) {
    let mut commit = sink.cut(checkpoint).unwrap().unwrap();
    let token = commit.prepare().unwrap();
    (commit, token)
}

#[test]
fn each_node_writes_its_span_once_whoever_is_left() {
    let Some(kafka) = shared() else { return };
    let bench = Bench::new(&kafka, "on-nodes");
    let mut first = open(&kafka, &bench.topic, &[]);
    assert_eq!(first.committed(&bench.job(1, 0)).unwrap(), Committed::Nothing);
    first.begin(&bench.job(1, 0), None).unwrap();
    let mut other = bench.other(1, 1);
    write(&mut *first, 0..5).unwrap();
    write(&mut *other, 5..10).unwrap();
    let (of_first, of_other) = (prepared(&mut *first, 1), prepared(&mut *other, 1));
    assert!(!of_first.0.dies_with_process());
    assert!(seen(&kafka, &bench.topic).is_empty());
    of_first.0.commit().unwrap();
    bench.sees(0..5);
    of_other.0.commit().unwrap();
    bench.sees(0..10);
    assert_eq!(bench.files(), 0);
    // A span without rows needs no transaction.
    write(&mut *other, 10..20).unwrap();
    let (of_first, of_other) = (prepared(&mut *first, 2), prepared(&mut *other, 2));
    of_first.0.commit().unwrap();
    // The process of the first node ends, and that of the other is late.
    drop(first);
    let (run, tokens) = (bench.job(2, 0), [of_first.1, of_other.1]);
    let mut first = open(&kafka, &bench.topic, &[]);
    assert_eq!(first.committed(&run).unwrap(), Committed::Resumable);
    drop(first);
    let mut first = bench.resumed(&run, 2, &tokens);
    bench.sees(0..20);
    let error = of_other.0.commit().unwrap_err();
    assert!(error.code == code::WRITE_FAILED && error.message.contains("another process has taken over"), "{error}");
    bench.sees(0..20);
    // At its end the first node writes what others have prepared.
    let mut other = bench.other(2, 1);
    write(&mut *other, 20..25).unwrap();
    write(&mut *first, 25..30).unwrap();
    let (of_first, of_other) = (prepared(&mut *first, 3), prepared(&mut *other, 3));
    of_first.0.commit().unwrap();
    other.finish().unwrap();
    first.commit_of_others(std::slice::from_ref(&of_other.1)).unwrap();
    first.commit_of_others(&[of_other.1]).unwrap();
    first.finish().unwrap();
    bench.sees(0..30);
    assert_eq!(bench.files(), 0);
}

/// What the lost node has prepared is written while another one is writing its span: that one is at work, and not fenced.
#[test]
fn the_span_of_a_lost_node_is_written_beside_those_of_others() {
    let Some(kafka) = shared() else { return };
    let bench = Bench::new(&kafka, "beside");
    let mut first = open(&kafka, &bench.topic, &[]);
    first.begin(&bench.job(1, 0), None).unwrap();
    let mut lost = bench.other(1, 1);
    write(&mut *first, 0..5).unwrap();
    write(&mut *lost, 5..10).unwrap();
    let (of_first, of_lost) = (prepared(&mut *first, 1), prepared(&mut *lost, 1));
    of_first.0.commit().unwrap();
    // What it has begun since.
    write(&mut *lost, 10..20).unwrap();
    let token = of_lost.1.clone();
    let lost_sink = || LostSink { node: 1, token: Some(&token), is_lost: &|node| node == 1 };
    // Node 2 sends the token of its span first, and is not done with the rows for a while.
    let patience = Duration::from_secs(30);
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &kafka.servers).set("transactional.id", "millstream-beside-0-node-2");
    let busy: BaseProducer = config.create().unwrap();
    busy.init_transactions(patience).unwrap();
    busy.begin_transaction().unwrap();
    busy.send(BaseRecord::to("millstream-checkpoints").key("millstream/beside/0/2").payload("1")).unwrap();
    busy.flush(patience).unwrap();
    std::thread::scope(|scope| {
        let succeeding = scope.spawn(|| first.succeed(&lost_sink()));
        std::thread::sleep(Duration::from_secs(2));
        assert!(!succeeding.is_finished(), "the token of the lost node is behind that of another");
        busy.commit_transaction(patience).unwrap();
        succeeding.join().unwrap().unwrap();
    });
    bench.sees(0..10);
    first.succeed(&lost_sink()).unwrap();
    bench.sees(0..10);
    // The lost one comes back, and its id is another's.
    let error = of_lost.0.commit().unwrap_err();
    assert!(error.code == code::WRITE_FAILED, "{error}");
    let mut again = bench.other(2, 1);
    write(&mut *again, 10..20).unwrap();
    prepared(&mut *again, 2).0.commit().unwrap();
    bench.sees(0..20);
    drop((lost, again));
    assert_eq!(bench.files(), 0);
}

#[test]
fn a_job_moves_from_one_process_to_several_and_back() {
    let Some(kafka) = shared() else { return };
    let bench = Bench::new(&kafka, "moves");
    let alone = |run: u64| job(bench.name, bench.directory.path(), run, 0, false);
    let mut sink = open(&kafka, &bench.topic, &[]);
    sink.begin(&alone(1), None).unwrap();
    write(&mut *sink, 0..10).unwrap();
    let (commit, token) = prepared(&mut *sink, 1);
    commit.commit().unwrap();
    // Prepared, and never committed: that checkpoint cannot be resumed from.
    write(&mut *sink, 10..20).unwrap();
    let lost = prepared(&mut *sink, 2);
    drop((lost, sink));

    let mut sink = open(&kafka, &bench.topic, &[]);
    assert_eq!(sink.committed(&bench.job(2, 0)).unwrap(), Committed::Checkpoint(1));
    drop(sink);
    let mut first = bench.resumed(&bench.job(2, 0), 1, &[token]);
    // As long as no span is prepared, it is as if nobody had been there.
    let mut again = open(&kafka, &bench.topic, &[]);
    assert_eq!(again.committed(&bench.job(3, 0)).unwrap(), Committed::Checkpoint(1));
    drop((again, first));
    first = bench.resumed(&bench.job(4, 0), 1, &[]);
    let mut other = bench.other(4, 1);
    write(&mut *other, 10..20).unwrap();
    write(&mut *first, 20..30).unwrap();
    let (of_first, of_other) = (prepared(&mut *first, 2), prepared(&mut *other, 2));
    of_other.0.commit().unwrap();
    bench.sees(0..20);
    drop((first, other, of_first.0));

    // One process writes what is missing, and continues in its way.
    let tokens = [of_first.1, of_other.1];
    let mut sink = open(&kafka, &bench.topic, &[]);
    assert_eq!(sink.committed(&alone(5)).unwrap(), Committed::Resumable);
    let error = sink
        .begin(&SinkJob { resumes: Some(1), ..alone(5) }, Some(&RestoredSink { checkpoint: 1, tokens: vec![] }))
        .unwrap_err();
    assert!(error.code == code::NOT_RECOVERABLE && error.message.contains("committed checkpoint 2"), "{error}");
    let mut sink = bench.resumed(&alone(6), 2, &tokens);
    bench.sees(0..30);
    assert_eq!(bench.files(), 0);
    let mut again = open(&kafka, &bench.topic, &[]);
    assert_eq!(again.committed(&alone(7)).unwrap(), Committed::Checkpoint(2));
    drop((again, sink));
    // The spans of that checkpoint are there, as the nodes have said.
    sink = bench.resumed(&bench.job(8, 0), 2, &tokens);
    bench.sees(0..30);
    drop(sink);
    sink = bench.resumed(&alone(9), 2, &tokens);
    write(&mut *sink, 30..40).unwrap();
    prepared(&mut *sink, 3).0.commit().unwrap();
    sink.finish().unwrap();
    bench.sees(0..40);
    // A job that starts over under the same name does not take over old tokens, neither those of nodes.
    let mut first = open(&kafka, &bench.topic, &[]);
    first.begin(&bench.job(1, 0), None).unwrap();
    let mut other = bench.other(1, 1);
    write(&mut *other, 40..45).unwrap();
    let tokens = [prepared(&mut *first, 1).1, prepared(&mut *other, 1).1];
    drop((first, other));
    bench.resumed(&bench.job(2, 0), 1, &tokens).finish().unwrap();
    bench.sees(0..45);
}

#[test]
fn a_span_that_is_damaged_is_not_written() {
    let Some(kafka) = shared() else { return };
    let bench = Bench::new(&kafka, "damaged");
    let mut first = open(&kafka, &bench.topic, &[]);
    first.begin(&bench.job(1, 0), None).unwrap();
    write(&mut *first, 0..1000).unwrap();
    let (commit, token) = prepared(&mut *first, 1);
    drop((first, commit));
    let file = bench.directory.path().join(token["spans"][0]["file"].as_str().unwrap());
    let whole = std::fs::read(&file).unwrap();
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x40;
        bytes
    };
    let cases = [whole[..100].to_vec(), [&whole[..], b"x"].concat(), flipped(0), flipped(3), flipped(whole.len() - 1)];
    for (run, damaged) in (2..).zip(cases) {
        std::fs::write(&file, damaged).unwrap();
        let mut sink = open(&kafka, &bench.topic, &[]);
        let job = SinkJob { resumes: Some(1), ..bench.job(run, 0) };
        let error = sink.begin(&job, Some(&RestoredSink { checkpoint: 1, tokens: vec![token.clone()] })).unwrap_err();
        assert_eq!(error.code, code::CHECKPOINT_DAMAGED, "{error}");
    }
    assert!(seen(&kafka, &bench.topic).is_empty());
    std::fs::write(&file, &whole).unwrap();
    bench.resumed(&bench.job(9, 0), 1, &[token]).finish().unwrap();
    bench.sees(0..1000);
}
