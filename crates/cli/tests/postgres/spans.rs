//! Spans under checkpoints: whatever step a process dies at, the table after recovery is that of an undisturbed run.

use crate::server::Database;
use arrow_array::{ArrayRef, Int64Array, StringViewArray};
use millstream::connectors::{
    Commit, Delivery, RestoredSink, Sink, SinkFiles, SinkJob, SinkRequest, SinkWriter, open_sink,
};
use millstream::{DataType, Diagnostic, Field, Schema, code};
use serde_json::{Value, json};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use tempfile::TempDir;

const ROWS: i64 = 100;
const CHECKPOINTS: u64 = 4;

/// A job with one sink, and the rows that it writes between checkpoints: the same in every run.
pub struct Job {
    pub request: SinkRequest,
    pub state: TempDir,
    pub manifest: Option<RestoredSink>,
    /// Where files are for good, if the state is not on this machine.
    remote: Option<Arc<dyn SinkFiles>>,
    sink: usize,
    /// Who writes.
    node: usize,
    /// How long names are, to make much of few rows.
    padding: usize,
}

impl Job {
    pub fn new(database: &Database, table: &str, key: bool) -> Job {
        let fields = vec![Field::new("id", DataType::BigInt, false), Field::new("name", DataType::STRING, true)];
        let request = SinkRequest {
            table: "out".into(),
            options: database.options(table).into_iter().collect(),
            schema: Schema::new(fields),
            metadata: vec![],
            primary_key: if key { vec![0] } else { vec![] },
            changes: None,
        };
        let state = TempDir::new().unwrap();
        Job { request, state, manifest: None, remote: None, sink: usize::from(key), node: 0, padding: 0 }
    }

    fn job(&self) -> SinkJob {
        let (directory, remote) = (self.state.path().join("sinks"), self.remote.clone());
        SinkJob {
            job: "job-1".into(),
            sink: self.sink,
            writer: SinkWriter { run: 1, node: self.node, attempt: 1 },
            is_distributed: false,
            resumes: None,
            directory,
            remote,
            shared: Arc::default(),
        }
    }

    pub fn begin(&self) -> Result<Box<dyn Sink>, Diagnostic> {
        let mut sink = open_sink(&self.request)?;
        assert_eq!(sink.delivery(), Delivery::ExactlyOnce);
        sink.begin(&self.job(), self.manifest.as_ref())?;
        Ok(sink)
    }

    /// The rows before a checkpoint; with a key they replace some of those before.
    pub fn write_span(&self, sink: &mut Box<dyn Sink>, checkpoint: u64) {
        let first = checkpoint as i64 * ROWS;
        let encoder = sink.encoder();
        for piece in 0..4 {
            let ids = (0..ROWS / 4).map(|row| (first + piece * ROWS / 4 + row) * 3 / 4);
            let ids = ids.map(|id| if self.request.primary_key.is_empty() { id * 2 } else { id }).collect::<Vec<_>>();
            let name = |id: &i64| format!("{id} of {checkpoint} and {piece}{}", "x".repeat(self.padding));
            let names = StringViewArray::from_iter_values(ids.iter().map(name));
            let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(ids)), Arc::new(names)];
            sink.write(encoder.encode(&columns, (ROWS / 4) as usize).unwrap()).unwrap();
        }
        sink.flush().unwrap();
    }

    pub fn cut(sink: &mut Box<dyn Sink>, checkpoint: u64) -> Box<dyn Commit> {
        sink.cut(checkpoint).unwrap().unwrap()
    }

    pub fn restored(checkpoint: u64, token: Value) -> Option<RestoredSink> {
        Some(RestoredSink { checkpoint, tokens: vec![token] })
    }

    /// Runs from the last checkpoint to the end, or to a crash.
    fn run(&mut self, crash: Option<(u64, Crash)>) -> Option<(Box<dyn Sink>, Box<dyn Commit>)> {
        let mut sink = self.begin().unwrap();
        let first = self.manifest.as_ref().map_or(1, |manifest| manifest.checkpoint + 1);
        for checkpoint in first..=CHECKPOINTS {
            let dies = |step| crash == Some((checkpoint, step));
            self.write_span(&mut sink, checkpoint);
            let mut commit = Job::cut(&mut sink, checkpoint);
            if dies(Crash::BeforePrepare) {
                return Some((sink, commit));
            }
            if dies(Crash::InNextSpan) {
                self.write_span(&mut sink, checkpoint + 1);
            }
            let token = commit.prepare().unwrap();
            if dies(Crash::BeforeManifest) {
                return Some((sink, commit));
            }
            self.manifest = Job::restored(checkpoint, token);
            if dies(Crash::BeforeCommit) || dies(Crash::InNextSpan) {
                return Some((sink, commit));
            }
            commit.commit().unwrap();
            if dies(Crash::AfterCommit) {
                let commit = Job::cut(&mut sink, checkpoint + 1);
                return Some((sink, commit));
            }
        }
        sink.finish().unwrap();
        None
    }

    fn files(&self) -> usize {
        fs::read_dir(self.job().directory).unwrap().count()
    }
}

/// Another place for files.
#[derive(Debug)]
struct Elsewhere(TempDir);

impl SinkFiles for Elsewhere {
    fn put(&self, name: &str, file: &Path) -> io::Result<()> {
        fs::copy(file, self.0.path().join(name)).map(drop)
    }

    fn get(&self, name: &str, file: &Path) -> io::Result<()> {
        fs::copy(self.0.path().join(name), file).map(drop)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(self.0.path())?;
        entries.map(|entry| Ok(entry?.file_name().into_string().unwrap())).collect()
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.0.path().join(name))
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Crash {
    BeforePrepare,
    InNextSpan,
    BeforeManifest,
    BeforeCommit,
    AfterCommit,
}

pub const TABLES: &str =
    "CREATE TABLE plain (id bigint, name text); CREATE TABLE keyed (id bigint PRIMARY KEY, name text);";

fn reset(database: &mut Database) {
    database.execute("TRUNCATE plain, keyed; DROP TABLE IF EXISTS millstream_progress");
}

fn content(database: &mut Database, table: &str) -> Vec<String> {
    database.rows("id, name", &format!("FROM {table} ORDER BY id, name"))
}

#[test]
fn a_crash_at_any_step_loses_and_doubles_nothing() {
    let mut database = Database::new("crashes");
    database.execute(TABLES);
    for (table, key) in [("plain", false), ("keyed", true)] {
        reset(&mut database);
        Job::new(&database, table, key).run(None);
        let expected = content(&mut database, table);
        assert!(expected.len() > if key { 200 } else { 399 }, "{}", expected.len());
        let steps =
            [Crash::BeforePrepare, Crash::InNextSpan, Crash::BeforeManifest, Crash::BeforeCommit, Crash::AfterCommit];
        for crash in steps {
            for killed in [true, false] {
                reset(&mut database);
                let mut job = Job::new(&database, table, key);
                for checkpoint in [1, 3] {
                    let alive = job.run(Some((checkpoint, crash)));
                    if killed {
                        std::mem::forget(alive);
                    }
                }
                job.run(None);
                let found = content(&mut database, table);
                assert!(found == expected, "{table} {crash:?}, killed: {killed}: {} rows", found.len());
                assert_eq!(job.files(), 0, "{crash:?}");
            }
        }
    }
}

#[test]
fn an_older_checkpoint_than_the_database_has_is_refused() {
    let mut database = Database::new("older");
    database.execute(TABLES);
    let mut job = Job::new(&database, "plain", false);
    drop(job.run(Some((2, Crash::AfterCommit))));
    let second = job.manifest.clone();
    drop(job.run(Some((3, Crash::AfterCommit))));
    for (manifest, expected) in [(second, "resumes from checkpoint 2"), (None, "starts from the beginning")] {
        job.manifest = manifest;
        let error = job.begin().err().unwrap();
        assert_eq!(error.code, code::NOT_RECOVERABLE);
        assert!(error.message.contains(expected) && error.message.contains("up to checkpoint 3"), "{error}");
        assert!(error.advice.unwrap().contains("from checkpoint 3 or a later one"));
    }
    // Another sink of the job has nothing to do with it.
    Job::new(&database, "keyed", true).begin().unwrap();
}

#[test]
fn spans_that_overlap_are_each_committed_once() {
    let mut database = Database::new("overlap");
    database.execute(TABLES);
    let mut job = Job::new(&database, "plain", false);
    let mut sink = job.begin().unwrap();
    job.write_span(&mut sink, 1);
    let mut first = Job::cut(&mut sink, 1);
    first.prepare().unwrap();
    job.write_span(&mut sink, 2);
    let mut second = Job::cut(&mut sink, 2);
    let token = second.prepare().unwrap();
    assert_eq!(token["spans"].as_array().unwrap().len(), 2);
    first.commit().unwrap();
    assert_eq!(database.number("SELECT COUNT(*) FROM plain"), ROWS);
    drop((sink, second));
    job.manifest = Job::restored(2, token.clone());
    for _ in 0..2 {
        drop(job.begin().unwrap());
        assert_eq!(database.number("SELECT COUNT(*) FROM plain"), 2 * ROWS);
    }
    // A checkpoint that was never whole leaves its rows to the next; one without rows leaves no trace.
    let mut sink = job.begin().unwrap();
    job.write_span(&mut sink, 3);
    drop(Job::cut(&mut sink, 3));
    let mut fourth = Job::cut(&mut sink, 4);
    fourth.prepare().unwrap();
    fourth.commit().unwrap();
    assert_eq!(database.number("SELECT COUNT(*) FROM plain"), 3 * ROWS);
    let mut fifth = Job::cut(&mut sink, 5);
    assert_eq!(fifth.prepare().unwrap(), json!({"spans": []}));
    fifth.commit().unwrap();
    sink.finish().unwrap();
    assert_eq!(database.number("SELECT checkpoint FROM millstream_progress"), 3);
}

/// Sinks of three nodes, of which the first has begun before the others.
fn on_nodes(job: &mut Job) -> Vec<Box<dyn Sink>> {
    let restored = job.manifest.take();
    let begin = |node| {
        (job.node, job.manifest) = (node, restored.clone().filter(|_| node == 0));
        job.begin().unwrap()
    };
    (0..3).map(begin).collect()
}

#[test]
fn nodes_commit_each_its_own_rows_once() {
    let mut database = Database::new("nodes");
    database.execute(TABLES);
    let mut job = Job::new(&database, "plain", false);
    let mut sinks = on_nodes(&mut job);
    // All have prepared; the second has committed, too.
    let (mut tokens, mut spans) = (Vec::new(), Vec::new());
    for sink in &mut sinks {
        job.write_span(sink, 1);
        let mut span = Job::cut(sink, 1);
        tokens.push(span.prepare().unwrap());
        spans.push(span);
    }
    spans.remove(1).commit().unwrap();
    assert_eq!(database.number("SELECT COUNT(*) FROM plain"), ROWS);
    // One wakes up after the others have resumed.
    let late = spans.remove(1);
    drop((sinks, spans));
    job.manifest = Some(RestoredSink { checkpoint: 1, tokens });
    let mut sinks = on_nodes(&mut job);
    assert_eq!(database.number("SELECT COUNT(*) FROM plain"), 3 * ROWS);
    late.commit().unwrap();
    assert_eq!(database.number("SELECT COUNT(*) FROM plain"), 3 * ROWS);
    // The end: the first commits for all.
    let mut tokens = Vec::new();
    for sink in &mut sinks {
        job.write_span(sink, 2);
        tokens.push(Job::cut(sink, 2).prepare().unwrap());
    }
    sinks.truncate(1);
    let mut first = sinks.remove(0);
    first.commit_of_others(&tokens).unwrap();
    first.finish().unwrap();
    assert_eq!(database.number("SELECT COUNT(*) FROM plain"), 6 * ROWS);
    assert_eq!(job.files(), 0);
    assert_eq!(database.number("SELECT COUNT(*) FROM millstream_progress WHERE checkpoint = 2"), 3);
    // What any node has committed cannot be taken back.
    (job.node, job.manifest) = (0, None);
    assert_eq!(job.begin().err().unwrap().code, code::NOT_RECOVERABLE);
}

#[test]
fn what_an_earlier_process_still_writes_is_waited_for() {
    let mut database = Database::new("zombie");
    database.execute(TABLES);
    let job = Job::new(&database, "plain", false);
    let mut sink = job.begin().unwrap();
    job.write_span(&mut sink, 1);
    let mut commit = Job::cut(&mut sink, 1);
    commit.prepare().unwrap();
    let (begun, waiting) = channel();
    let (go, may_go) = channel::<()>();
    let mut other = database.client();
    let zombie = std::thread::spawn(move || {
        let mut transaction = other.transaction().unwrap();
        transaction
            .batch_execute("UPDATE millstream_progress SET checkpoint = 1; INSERT INTO plain VALUES (1, 'zombie')")
            .unwrap();
        begun.send(()).unwrap();
        may_go.recv().unwrap();
        transaction.commit().unwrap();
    });
    waiting.recv().unwrap();
    let committing = std::thread::spawn(move || commit.commit());
    while database.number("SELECT COUNT(*) FROM pg_locks WHERE NOT granted") == 0 {
        std::thread::yield_now();
    }
    go.send(()).unwrap();
    zombie.join().unwrap();
    committing.join().unwrap().unwrap();
    assert_eq!(content(&mut database, "plain"), ["1|zombie"]);
}

#[test]
fn a_crash_of_a_machine_loses_and_doubles_nothing() {
    let mut database = Database::new("machines");
    database.execute(TABLES);
    Job::new(&database, "plain", false).run(None);
    let expected = content(&mut database, "plain");
    for crash in
        [Crash::BeforePrepare, Crash::InNextSpan, Crash::BeforeManifest, Crash::BeforeCommit, Crash::AfterCommit]
    {
        reset(&mut database);
        let elsewhere: Arc<dyn SinkFiles> = Arc::new(Elsewhere(TempDir::new().unwrap()));
        let mut job = Job { remote: Some(elsewhere.clone()), ..Job::new(&database, "plain", false) };
        for checkpoint in [1, 3] {
            let alive = job.run(Some((checkpoint, crash)));
            fs::remove_dir_all(job.job().directory).unwrap();
            std::mem::forget(alive);
        }
        job.run(None);
        assert_eq!(content(&mut database, "plain"), expected, "{crash:?}");
        assert_eq!(elsewhere.list().unwrap(), [""; 0], "{crash:?}");
    }
    let lost = Elsewhere(TempDir::new().unwrap());
    reset(&mut database);
    let mut job = Job { remote: Some(Arc::new(lost)), ..Job::new(&database, "plain", false) };
    drop(job.run(Some((1, Crash::BeforeCommit))));
    fs::remove_dir_all(job.job().directory).unwrap();
    job.remote = Some(Arc::new(Elsewhere(TempDir::new().unwrap())));
    assert_eq!(job.begin().err().unwrap().code, code::CHECKPOINT_DAMAGED);
}

#[test]
fn spans_larger_than_memory_are_in_files() {
    let mut database = Database::new("large");
    database.execute(TABLES);
    let mut job = Job { padding: 100_000, ..Job::new(&database, "plain", false) };
    let alive = job.run(Some((1, Crash::InNextSpan)));
    // The span that is prepared, and the one that is being written.
    assert_eq!(job.files(), 2);
    std::mem::forget(alive);
    let sink = job.begin().unwrap();
    assert_eq!(database.number("SELECT SUM(LENGTH(name))::bigint / 100000 FROM plain"), ROWS);
    assert_eq!(job.files(), 0);
    drop(sink);
    job.run(None);
    assert_eq!(database.number("SELECT COUNT(*) FROM plain"), 4 * ROWS);
}

#[test]
fn damaged_state_is_refused_and_writes_nothing() {
    let mut database = Database::new("damaged");
    database.execute(TABLES);
    let mut job = Job::new(&database, "plain", false);
    drop(job.run(Some((1, Crash::BeforeCommit))));
    let file = job.job().directory.join("sink-0-1-1.rows");
    let whole = fs::read(&file).unwrap();
    let mut flipped = whole.clone();
    flipped[10] ^= 1;
    let torn = &whole[..whole.len() / 2];
    let torn = &torn[..torn.iter().rposition(|byte| *byte == b'\n').unwrap() + 1];
    for (data, expected) in [(flipped.as_slice(), "checksum"), (torn, "bytes instead of")] {
        fs::write(&file, data).unwrap();
        let error = job.begin().err().unwrap();
        assert_eq!(error.code, code::CHECKPOINT_DAMAGED, "{error}");
        assert!(error.message.contains(expected) && error.message.contains("checkpoint 1"), "{error}");
    }
    fs::remove_file(&file).unwrap();
    let error = job.begin().err().unwrap();
    assert!(error.message.contains("cannot be read") && error.to_string().contains("sink-0-1-1.rows"), "{error}");
    for token in [json!({}), json!({"spans": [{"checkpoint": 1}]}), json!({"files": []})] {
        let whole = std::mem::replace(&mut job.manifest, Job::restored(1, token));
        assert_eq!(job.begin().err().unwrap().code, code::CHECKPOINT_DAMAGED);
        job.manifest = whole;
    }
    assert_eq!(database.number("SELECT COUNT(*) FROM plain"), 0);
    fs::write(&file, whole).unwrap();
    job.run(None);
    assert_eq!(database.number("SELECT COUNT(*) FROM plain"), 4 * ROWS);
}

#[test]
fn a_span_that_cannot_be_kept_fails_its_checkpoint_and_all_later_ones() {
    let mut database = Database::new("not_kept");
    database.execute(TABLES);
    let job = Job::new(&database, "plain", false);
    let mut sink = job.begin().unwrap();
    fs::remove_dir(job.job().directory).unwrap();
    for checkpoint in 1..=2 {
        job.write_span(&mut sink, checkpoint);
        let error = Job::cut(&mut sink, checkpoint).prepare().unwrap_err();
        assert_eq!(error.code, code::WRITE_FAILED, "{error}");
        // Even when there is room again: rows of the first are lost.
        fs::create_dir_all(job.job().directory).unwrap();
    }
    drop(sink);
    assert_eq!(database.number("SELECT COUNT(*) FROM plain"), 0);
}

#[test]
fn a_constraint_fails_the_commit_and_can_be_mended() {
    let mut database = Database::new("mended");
    database.execute(TABLES);
    database.execute("ALTER TABLE plain ADD CONSTRAINT few CHECK (id < 300)");
    let mut job = Job::new(&database, "plain", false);
    let mut sink = job.begin().unwrap();
    for checkpoint in 1..=2 {
        job.write_span(&mut sink, checkpoint);
        let mut commit = Job::cut(&mut sink, checkpoint);
        job.manifest = Job::restored(checkpoint, commit.prepare().unwrap());
        let result = commit.commit();
        if checkpoint == 2 {
            let error = result.unwrap_err();
            assert_eq!(error.code, code::WRITE_FAILED);
            assert!(error.message.contains("violates check constraint \"few\""), "{error}");
        }
    }
    drop(sink);
    assert!(job.begin().is_err());
    assert_eq!(database.number("SELECT COUNT(*) FROM plain"), ROWS);
    database.execute("ALTER TABLE plain DROP CONSTRAINT few");
    job.run(None);
    assert_eq!(database.number("SELECT COUNT(*) FROM plain"), 4 * ROWS);
}

#[test]
fn at_least_once_writes_at_once() {
    let mut database = Database::new("at_least_once");
    database.execute(TABLES);
    let mut job = Job::new(&database, "plain", false);
    job.request.options.set("sink.delivery-guarantee", "at-least-once");
    let mut sink = open_sink(&job.request).unwrap();
    assert_eq!(sink.delivery(), Delivery::AtLeastOnce);
    sink.begin(&job.job(), None).unwrap();
    let encoder = sink.encoder();
    let columns: Vec<ArrayRef> =
        vec![Arc::new(Int64Array::from(vec![1])), Arc::new(StringViewArray::from_iter_values(["a"]))];
    sink.write(encoder.encode(&columns, 1).unwrap()).unwrap();
    assert!(sink.cut(1).unwrap().is_none());
    assert_eq!(content(&mut database, "plain"), ["1|a"]);
    sink.write(encoder.encode(&columns, 1).unwrap()).unwrap();
    sink.flush().unwrap();
    assert_eq!(database.number("SELECT COUNT(*) FROM plain"), 2);
    // A batch that nobody has finished is not written.
    sink.write(encoder.encode(&columns, 1).unwrap()).unwrap();
    drop(sink);
    assert_eq!(database.number("SELECT COUNT(*) FROM plain"), 2);
    assert_eq!(database.number("SELECT COUNT(*) FROM pg_tables WHERE tablename = 'millstream_progress'"), 0);
}
