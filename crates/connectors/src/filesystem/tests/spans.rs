//! Spans of the sink: whatever step a process dies at, the output after recovery is that of an undisturbed run.

use super::super::checksum::Checksum;
use super::{columns, names, path, schema, sink_request, source_request};
use crate::{Commit, Delivery, LostSink, RestoredSink, Sink, SinkJob, SinkRequest, SinkWriter, open_sink};
use millstream_types::{Diagnostic, code};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Pieces between two checkpoints.
const PIECES: i64 = 4;
const ROWS: i64 = 50;
const CHECKPOINTS: u64 = 4;

fn job() -> SinkJob {
    SinkJob {
        job: "job-1".into(),
        sink: 2,
        writer: SinkWriter::first(5),
        is_distributed: false,
        resumes: None,
        directory: PathBuf::new(),
        remote: None,
        shared: std::sync::Arc::default(),
    }
}

/// Where a process dies.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Crash {
    BeforeCut,
    BeforePrepare,
    /// In the next span, while this one is on its way.
    InNextSpan,
    BeforeManifest,
    BeforeCommit,
    /// Some files of the span have their names, others not.
    WithinCommit,
    AfterCommit,
}

const CRASHES: [Crash; 7] = [
    Crash::BeforeCut,
    Crash::BeforePrepare,
    Crash::InNextSpan,
    Crash::BeforeManifest,
    Crash::BeforeCommit,
    Crash::WithinCommit,
    Crash::AfterCommit,
];

/// What a process that dies has.
type Alive = (Box<dyn Sink>, Option<Box<dyn Commit>>);

/// A job that writes the same rows in every run: those between two checkpoints depend on the checkpoint only.
struct Run<'a> {
    request: &'a SinkRequest,
    directory: &'a Path,
    manifest: Option<RestoredSink>,
}

impl Run<'_> {
    fn open(&self) -> Box<dyn Sink> {
        let mut sink = open_sink(self.request).unwrap();
        sink.begin(&job(), self.manifest.as_ref()).unwrap();
        sink
    }

    fn write_span(&self, sink: &mut Box<dyn Sink>, checkpoint: u64) {
        let encoder = sink.encoder();
        let first = (checkpoint as i64 - 1) * PIECES * ROWS;
        for piece in 0..PIECES {
            sink.write(encoder.encode(&columns(first + piece * ROWS, ROWS), ROWS as usize).unwrap()).unwrap();
        }
    }

    fn written(&self, checkpoint: u64, token: Value) -> RestoredSink {
        RestoredSink { checkpoint, tokens: vec![token] }
    }

    /// Runs from the last checkpoint to the end, or to a crash at a checkpoint.
    fn run(&mut self, crash: Option<(u64, Crash)>) -> Option<Alive> {
        let mut sink = self.open();
        let first = self.manifest.as_ref().map_or(1, |manifest| manifest.checkpoint + 1);
        for checkpoint in first..=CHECKPOINTS {
            let dies = |step| crash == Some((checkpoint, step));
            self.write_span(&mut sink, checkpoint);
            if dies(Crash::BeforeCut) {
                return Some((sink, None));
            }
            let mut commit = sink.cut(checkpoint).unwrap().unwrap();
            if dies(Crash::BeforePrepare) {
                return Some((sink, Some(commit)));
            }
            if dies(Crash::InNextSpan) {
                self.write_span(&mut sink, checkpoint + 1);
            }
            let token = commit.prepare().unwrap();
            if dies(Crash::BeforeManifest) {
                return Some((sink, Some(commit)));
            }
            self.manifest = Some(self.written(checkpoint, token));
            if dies(Crash::BeforeCommit) || dies(Crash::InNextSpan) {
                return Some((sink, Some(commit)));
            }
            if dies(Crash::WithinCommit) {
                let hidden = names(self.directory).into_iter().find(|name| name.starts_with(".part-"));
                if let Some(hidden) = hidden {
                    fs::rename(self.directory.join(&hidden), self.directory.join(&hidden[1..])).unwrap();
                }
                return Some((sink, Some(commit)));
            }
            commit.commit().unwrap();
            if dies(Crash::AfterCommit) {
                return Some((sink, None));
            }
        }
        sink.finish().unwrap();
        None
    }
}

/// Leaves everything as a process that is killed does: nothing is cleaned up, and its locks are gone.
fn die<T>(alive: T, directory: &Path) {
    std::mem::forget(alive);
    for name in names(directory).into_iter().filter(|name| name.starts_with(".millstream-")) {
        let (file, copy) = (directory.join(name), directory.join("copy"));
        fs::copy(&file, &copy).unwrap();
        fs::rename(copy, file).unwrap();
    }
}

fn snapshot(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    names(directory).into_iter().map(|name| (name.clone(), fs::read(directory.join(&name)).unwrap())).collect()
}

const OUTPUTS: &[(&str, &str)] = &[
    ("", "json"),
    ("", "csv"),
    ("", "parquet"),
    ("", "arrow"),
    ("a.json", "json"),
    ("a.csv.gz", "csv"),
    ("a.json.zst", "json"),
    ("a.arrows", "arrow"),
    ("a.arrows.gz", "arrow"),
    ("", "avro"),
    ("a.avro", "avro"),
    ("a.avro.zst", "avro"),
];

fn request(directory: &TempDir, name: &str, format: &str) -> SinkRequest {
    let mut extra = vec![("sink.rolling-policy.file-size", "4kb")];
    match format {
        "csv" => extra.push(("csv.header", "true")),
        // Its records are the shortest.
        "avro" => extra.extend([("avro.codec", "null"), ("sink.rolling-policy.file-size", "1kb")]),
        _ => {}
    }
    sink_request(&path(directory, name), format, &extra)
}

fn undisturbed(name: &str, format: &str) -> BTreeMap<String, Vec<u8>> {
    let directory = TempDir::new().unwrap();
    let request = request(&directory, name, format);
    Run { request: &request, directory: directory.path(), manifest: None }.run(None);
    let ids = ids(&directory, name, format);
    assert_eq!(ids, (0..CHECKPOINTS as i64 * PIECES * ROWS).collect::<Vec<_>>(), "{name} {format}");
    snapshot(directory.path())
}

fn ids(directory: &TempDir, name: &str, format: &str) -> Vec<i64> {
    let extra: &[(&str, &str)] = if format == "csv" { &[("csv.header", "true")] } else { &[] };
    let mut ids = super::ids(&source_request(&path(directory, name), format, extra));
    ids.sort_unstable();
    ids
}

#[test]
fn a_crash_at_any_step_leaves_no_trace() {
    for (name, format) in OUTPUTS {
        let expected = undisturbed(name, format);
        assert!(name.len() > 1 || expected.len() > CHECKPOINTS as usize, "rolls: {:?}", expected.keys());
        for crash in CRASHES {
            // A process that is killed leaves what it has; a query that fails cleans up.
            for killed in [true, false] {
                for checkpoint in [1, 3] {
                    let directory = TempDir::new().unwrap();
                    let request = request(&directory, name, format);
                    let mut run = Run { request: &request, directory: directory.path(), manifest: None };
                    let alive = run.run(Some((checkpoint, crash)));
                    let seen = snapshot(directory.path());
                    let committed = seen.iter().filter(|(name, _)| !name.starts_with('.'));
                    for (name, data) in committed {
                        assert!(expected.get(name) == Some(data), "{name} is visible and not committed: {crash:?}");
                    }
                    if killed {
                        die(alive, directory.path());
                    } else {
                        drop(alive);
                    }
                    run.run(None);
                    let what = format!("{name} {format} {crash:?} at {checkpoint}, killed: {killed}");
                    assert!(snapshot(directory.path()) == expected, "{what}: {:?}", names(directory.path()));
                }
            }
        }
    }
}

#[test]
fn an_older_checkpoint_takes_back_what_later_ones_have_shown() {
    for (name, format) in OUTPUTS {
        let expected = undisturbed(name, format);
        let directory = TempDir::new().unwrap();
        let request = request(&directory, name, format);
        let mut run = Run { request: &request, directory: directory.path(), manifest: None };
        drop(run.run(Some((1, Crash::AfterCommit))));
        let first = run.manifest.clone();
        drop(run.run(Some((3, Crash::AfterCommit))));
        run.manifest = first;
        drop(run.run(Some((2, Crash::BeforeCommit))));
        run.run(None);
        assert!(snapshot(directory.path()) == expected, "{name} {format}: {:?}", names(directory.path()));
        // Starting over means going back to the beginning.
        run.manifest = None;
        if name.is_empty() {
            drop(run.open());
            assert_eq!(names(directory.path()), [""; 0], "{format}");
        }
    }
}

/// A node whose process is gone.
fn lost(node: usize, token: Option<&Value>) -> LostSink<'_> {
    LostSink { node, token, is_lost: &|_| true }
}

/// The spans of the first checkpoint of all nodes, of which so many commit theirs; their tokens. Each writes another one then.
fn first_spans(run: &Run<'_>, sinks: &mut [Box<dyn Sink>], committed: usize) -> Vec<Value> {
    let mut tokens = Vec::new();
    for (node, sink) in sinks.iter_mut().enumerate() {
        run.write_span(sink, node as u64 + 1);
        let mut commit = sink.cut(1).unwrap().unwrap();
        tokens.push(commit.prepare().unwrap());
        if node < committed {
            commit.commit().unwrap();
        }
        run.write_span(sink, 9);
    }
    tokens
}

/// Sinks of three nodes, of which the first has begun before the others.
fn on_nodes(request: &SinkRequest, restored: Option<&RestoredSink>) -> Vec<Box<dyn Sink>> {
    let sink = |node| {
        let mut sink = open_sink(request).unwrap();
        let writer = SinkWriter { run: 5, node, attempt: 1 };
        let resumes = restored.map(|restored| restored.checkpoint);
        sink.begin(&SinkJob { writer, resumes, ..job() }, restored.filter(|_| node == 0)).unwrap();
        sink
    };
    (0..3).map(sink).collect()
}

#[test]
fn nodes_write_into_one_directory() {
    for format in ["json", "parquet"] {
        let directory = TempDir::new().unwrap();
        let request = request(&directory, "", format);
        let run = Run { request: &request, directory: directory.path(), manifest: None };
        let mut sinks = on_nodes(&request, None);
        // The checkpoint is complete, and only the first has heard of it.
        let tokens = first_spans(&run, &mut sinks, 1);
        die(sinks, directory.path());
        let rows = |spans: i64| (0..spans * PIECES * ROWS).collect::<Vec<_>>();
        let restored = RestoredSink { checkpoint: 1, tokens };
        let mut sinks = on_nodes(&request, Some(&restored));
        assert_eq!(ids(&directory, "", format), rows(3));
        assert!(names(directory.path()).iter().all(|name| name.starts_with("part-")));
        // The end: the first commits for all.
        let mut tokens = Vec::new();
        for (node, sink) in sinks.iter_mut().enumerate() {
            run.write_span(sink, node as u64 + 4);
            let mut commit = sink.cut(2).unwrap().unwrap();
            let token = commit.prepare().unwrap();
            if node == 0 {
                commit.commit().unwrap();
            } else {
                tokens.push(token);
            }
        }
        sinks.truncate(1);
        let mut first = sinks.remove(0);
        first.commit_of_others(&tokens).unwrap();
        first.finish().unwrap();
        assert_eq!(ids(&directory, "", format), rows(6));
    }
}

#[test]
fn what_a_lost_node_has_prepared_is_committed_and_what_it_has_begun_removed() {
    let directory = TempDir::new().unwrap();
    let request = request(&directory, "", "json");
    let run = Run { request: &request, directory: directory.path(), manifest: None };
    let mut sinks = on_nodes(&request, None);
    // The checkpoint is complete: the first node and node 1 have committed their spans, and node 2 has not.
    let tokens = first_spans(&run, &mut sinks, 2);
    die(sinks.split_off(1), directory.path());
    let hidden = |node: usize| {
        let of_node = move |name: &String| name.starts_with('.') && name.contains(&format!("n{node}a"));
        names(directory.path()).into_iter().filter(of_node).count()
    };
    assert!(hidden(1) > 0 && hidden(2) > 0);
    for node in [1, 2, 2] {
        sinks[0].succeed(&lost(node, Some(&tokens[node]))).unwrap();
        assert_eq!(hidden(node), 0, "of node {node}");
    }
    assert_eq!(ids(&directory, "", "json"), (0..3 * PIECES * ROWS).collect::<Vec<_>>());
    // One that had prepared nothing.
    sinks[0].succeed(&lost(1, None)).unwrap();
    let damaged = sinks[0].succeed(&lost(1, Some(&serde_json::json!({ "files": 7 })))).unwrap_err();
    assert_eq!(damaged.code, code::CHECKPOINT_DAMAGED);
    // What the first node itself is writing stays.
    let mut commit = sinks[0].cut(2).unwrap().unwrap();
    commit.prepare().unwrap();
    commit.commit().unwrap();
    let all: Vec<_> = (0..3 * PIECES * ROWS).chain(8 * PIECES * ROWS..9 * PIECES * ROWS).collect();
    assert_eq!(ids(&directory, "", "json"), all);
}

#[test]
fn nodes_find_out_that_their_directories_are_different_ones() {
    let (one, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let sink = |directory: &TempDir| open_sink(&request(directory, "", "json")).unwrap();
    let first = sink(&one);
    let shared = first.share().unwrap().unwrap();
    sink(&one).meet(&shared.name).unwrap();
    let error = sink(&other).meet(&shared.name).unwrap_err();
    assert_eq!(error.code, code::OUTPUT_NOT_SHARED);
    assert!(error.advice.unwrap().contains("'sink.parallelism' = '1'"));
    assert!(sink(&one).meet("../etc/passwd").is_err());
    drop(shared);
    assert_eq!(names(one.path()), [""; 0]);
}

#[test]
fn a_query_that_had_finished_finishes_again() {
    for (name, format) in OUTPUTS {
        let expected = undisturbed(name, format);
        let directory = TempDir::new().unwrap();
        let request = request(&directory, name, format);
        let mut run = Run { request: &request, directory: directory.path(), manifest: None };
        run.run(None);
        for _ in 0..2 {
            run.run(None);
            assert!(snapshot(directory.path()) == expected, "{name} {format}: {:?}", names(directory.path()));
        }
    }
}

#[test]
fn a_checkpoint_that_is_not_whole_leaves_its_files_to_the_next() {
    for (name, format) in [("", "json"), ("", "parquet"), ("a.csv.gz", "csv")] {
        for prepared in [false, true] {
            let directory = TempDir::new().unwrap();
            let request = request(&directory, name, format);
            let mut run = Run { request: &request, directory: directory.path(), manifest: None };
            let mut sink = run.open();
            for checkpoint in 1..=CHECKPOINTS {
                run.write_span(&mut sink, checkpoint);
                let mut commit = sink.cut(checkpoint).unwrap().unwrap();
                if checkpoint == 3 {
                    run.manifest = Some(run.written(3, commit.prepare().unwrap()));
                } else if prepared {
                    commit.prepare().unwrap();
                }
                // The checkpoints before and behind this one failed.
            }
            die(sink, directory.path());
            let sink = run.open();
            if name.is_empty() {
                assert_eq!(ids(&directory, name, format), (0..3 * PIECES * ROWS).collect::<Vec<_>>());
            }
            drop(sink);
            run.run(None);
            assert_eq!(ids(&directory, name, format), (0..4 * PIECES * ROWS).collect::<Vec<_>>());
        }
    }
}

#[test]
fn files_of_others_are_left_alone() {
    let directory = TempDir::new().unwrap();
    let others = [
        ".part-job-1-3-7-1-0.json",
        ".part-job-2-7-1-0.json",
        "_SUCCESS",
        "part-job-1-2-0-0-0-0.json",
        "part-job-1-2-0-0.json",
        "part-job-1-2-0-5n2-0.json",
        "part-job-1-2-0-n2a1-0.json",
        "part-job-1-2-a-1-0.json",
        "part-job-1-22-0-1-0.json",
        "part-job-2-1-2-1-0.json",
    ];
    for name in others {
        fs::write(directory.path().join(name), "").unwrap();
    }
    // Of whichever process and node.
    let own = [
        ".part-job-1-2-0-1-7.json",
        "part-job-1-2-0-1-0.json",
        "part-job-1-2-12-2-3.csv",
        ".part-job-1-2-0-5n2a1-0.json",
    ];
    for name in own {
        fs::write(directory.path().join(name), "").unwrap();
    }
    let request = request(&directory, "", "json");
    drop(Run { request: &request, directory: directory.path(), manifest: None }.open());
    assert_eq!(names(directory.path()), others);
}

fn refused(request: &SinkRequest, tokens: Vec<Value>) -> Diagnostic {
    let mut sink = open_sink(request).unwrap();
    sink.begin(&job(), Some(&RestoredSink { checkpoint: 3, tokens })).unwrap_err()
}

#[test]
fn output_that_was_changed_is_refused() {
    let directory = TempDir::new().unwrap();
    let parts = request(&directory, "", "json");
    let mut run = Run { request: &parts, directory: directory.path(), manifest: None };
    drop(run.run(Some((3, Crash::BeforeCommit))));
    let token = run.manifest.unwrap().tokens;
    let hidden = names(directory.path()).into_iter().find(|name| name.starts_with(".part-")).unwrap();
    fs::write(directory.path().join(&hidden), "less").unwrap();
    let error = refused(&parts, token.clone());
    assert_eq!(error.code, code::NOT_RECOVERABLE);
    assert!(error.message.contains("has 4 bytes, but") && error.message.contains("checkpoint 3"), "{error}");
    fs::remove_file(directory.path().join(&hidden)).unwrap();
    let error = refused(&parts, token);
    assert!(error.message.contains(&hidden[1..]) && error.message.contains("is not there"), "{error}");
    for damaged in
        [json!({}), json!({"files": [{"name": "../part-x", "contents": {"bytes": 1, "xxh3": 2}}]}), json!({"bytes": 3})]
    {
        assert_eq!(refused(&parts, vec![damaged]).code, code::CHECKPOINT_DAMAGED);
    }

    let single = request(&directory, "a.json", "json");
    assert_eq!(refused(&single, vec![]).code, code::CHECKPOINT_DAMAGED);
    let mut of_file = Checksum::new();
    of_file.update(&[b'x'; 100]);
    let token = vec![json!({"bytes": 100, "xxh3": of_file.value()})];
    let error = refused(&single, token.clone());
    assert_eq!(error.code, code::NOT_RECOVERABLE);
    assert!(error.message.contains("had 100 bytes at checkpoint 3"), "{error}");
    let hidden = directory.path().join(".millstream-job-1-2-a.json");
    fs::write(&hidden, vec![b'x'; 99]).unwrap();
    assert!(refused(&single, token.clone()).message.contains("has 99"));
    fs::write(directory.path().join("a.json"), vec![b'x'; 101]).unwrap();
    assert!(refused(&single, token.clone()).message.contains("has 101"));
    fs::write(directory.path().join("a.json"), vec![b'y'; 100]).unwrap();
    assert!(refused(&single, token.clone()).message.contains("has other bytes than the 100"));
    fs::remove_file(&hidden).unwrap();
    fs::write(directory.path().join("a.json"), vec![b'x'; 100]).unwrap();
    open_sink(&single).unwrap().begin(&job(), Some(&RestoredSink { checkpoint: 3, tokens: token })).unwrap();
}

#[test]
fn output_of_the_same_size_is_looked_at() {
    for (name, format) in OUTPUTS {
        for alteration in 0..3 {
            let directory = TempDir::new().unwrap();
            let request = request(&directory, name, format);
            let mut run = Run { request: &request, directory: directory.path(), manifest: None };
            drop(run.run(Some((3, Crash::BeforeCommit))));
            let token = run.manifest.clone().unwrap().tokens;
            // The files of the last span, or the one that grows.
            let hidden = names(directory.path()).into_iter().find(|name| name.starts_with('.')).unwrap();
            let file = directory.path().join(&hidden);
            let mut bytes = fs::read(&file).unwrap();
            match alteration {
                0 => {
                    let middle = bytes.len() / 2;
                    bytes[middle] ^= 1;
                    fs::write(&file, bytes).unwrap();
                }
                1 => {
                    let elsewhere = directory.path().join("elsewhere");
                    fs::rename(&file, &elsewhere).unwrap();
                    std::os::unix::fs::symlink(&elsewhere, &file).unwrap();
                }
                // A copy is as good.
                _ => {
                    fs::remove_file(&file).unwrap();
                    fs::write(&file, bytes).unwrap();
                    run.run(None);
                    continue;
                }
            }
            let error = refused(&request, token);
            assert_eq!(error.code, code::NOT_RECOVERABLE, "{name} {format}: {error}");
            let what = if alteration == 0 { "other" } else { "is a symbolic link now" };
            assert!(error.message.contains(what), "{name} {format}: {error}");
        }
    }
}

#[test]
fn a_process_that_still_writes_is_not_written_over() {
    let directory = TempDir::new().unwrap();
    let request = request(&directory, "a.json", "json");
    let mut run = Run { request: &request, directory: directory.path(), manifest: None };
    let alive = run.run(Some((2, Crash::AfterCommit)));
    for manifest in [run.manifest.clone(), None] {
        let mut sink = open_sink(&request).unwrap();
        let error = sink.begin(&job(), manifest.as_ref()).unwrap_err();
        assert_eq!(error.code, code::STATE_IN_USE, "{error}");
        assert!(error.message.contains("another process still writes") && error.message.contains("a.json"), "{error}");
    }
    drop(alive);
    run.run(None);
    assert_eq!(ids(&directory, "a.json", "json"), (0..4 * PIECES * ROWS).collect::<Vec<_>>());
}

#[test]
fn what_cannot_be_exactly_once_says_so() {
    let directory = TempDir::new().unwrap();
    let parquet = request(&directory, "a.parquet", "parquet");
    let error = open_sink(&parquet).unwrap().begin(&job(), None).unwrap_err();
    assert_eq!(error.code, code::INVALID_OPTION);
    assert!(error.advice.unwrap().contains("give a directory"));
    for device in ["-", "/dev/null"] {
        let mut sink = open_sink(&sink_request(device, "json", &[])).unwrap();
        assert_eq!(sink.delivery(), Delivery::AtLeastOnce);
        sink.begin(&job(), None).unwrap();
        assert!(sink.cut(1).unwrap().is_none());
    }
    for name in ["", "a.json"] {
        let sink = open_sink(&request(&directory, name, "json")).unwrap();
        assert_eq!(sink.delivery(), Delivery::ExactlyOnce);
    }
    let print = SinkRequest {
        table: "p".into(),
        options: [("connector".to_string(), "print".to_string())].into_iter().collect(),
        schema: schema(),
        metadata: vec![],
        primary_key: vec![],
        changes: None,
    };
    assert_eq!(open_sink(&print).unwrap().delivery(), Delivery::AtLeastOnce);
    // A query that fails before its first checkpoint leaves nothing, and an old file as it was.
    fs::write(directory.path().join("a.json"), "old").unwrap();
    let single = request(&directory, "a.json", "json");
    let mut run = Run { request: &single, directory: directory.path(), manifest: None };
    drop(run.run(Some((1, Crash::BeforePrepare))));
    assert_eq!(names(directory.path()), ["a.json"]);
    assert_eq!(fs::read(directory.path().join("a.json")).unwrap(), b"old");
}

#[test]
fn files_that_cannot_be_written_are_named() {
    let directory = TempDir::new().unwrap();
    let request = request(&directory, "", "json");
    let run = Run { request: &request, directory: directory.path(), manifest: None };
    let mut sink = run.open();
    run.write_span(&mut sink, 1);
    let mut commit = sink.cut(1).unwrap().unwrap();
    // The hidden files are gone by the time that they are to be committed.
    commit.prepare().unwrap();
    let lost = names(directory.path()).remove(0);
    fs::remove_file(directory.path().join(&lost)).unwrap();
    let error = commit.commit().unwrap_err();
    assert_eq!(error.code, code::WRITE_FAILED);
    assert!(error.to_string().contains(&lost[1..]), "{error}");
    // The directory cannot be written any more.
    let gone = directory.path().join("gone");
    let request = sink_request(&gone.to_string_lossy(), "json", &[]);
    let mut sink = open_sink(&request).unwrap();
    sink.begin(&job(), None).unwrap();
    fs::remove_dir(&gone).unwrap();
    let piece = sink.encoder().encode(&columns(0, 1), 1).unwrap();
    let error = sink.write(piece).unwrap_err();
    assert_eq!(error.code, code::WRITE_FAILED);
    assert!(error.to_string().contains("gone/part-job-1-2-0-5-0.json"), "{error}");
}
