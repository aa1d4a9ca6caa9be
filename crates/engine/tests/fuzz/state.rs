//! The state directory of a job that was stopped, and damage to it.

use crate::stopping::run_or_stop;
use crate::{Random, session};
use millstream::{Diagnostic, Session};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use xxhash_rust::xxh3::xxh3_64;

/// Rows of each of two files: enough for a job to take some checkpoints before it ends.
const ROWS: usize = 400;

/// Aggregations of each kind of window, and keyed operators with rows, groups and slots.
const INSERTS: &str = "EXECUTE STATEMENT SET BEGIN
INSERT INTO tumble SELECT k, s, window_start, COUNT(*), COUNT(DISTINCT id), MIN(s), CAST(SUM(id) AS BIGINT)
FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY k, s, window_start, window_end;
INSERT INTO hop SELECT k, window_start, COUNT(*), MAX(s)
FROM TABLE(HOP(TABLE b, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end;
INSERT INTO sessions SELECT k, window_start, window_end, COUNT(*), MAX(s)
FROM TABLE(SESSION(TABLE a PARTITION BY k, DESCRIPTOR(ts), INTERVAL '2' SECOND)) GROUP BY k, window_start, window_end;
INSERT INTO interval_join SELECT a.k, a.id, b.id
FROM a LEFT JOIN b ON a.k = b.k AND a.ts BETWEEN b.ts - INTERVAL '1' SECOND AND b.ts;
INSERT INTO top SELECT k, id, r, window_start FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY id DESC, k) AS r
  FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '10' SECOND))) WHERE r <= 3;
INSERT INTO over_rows SELECT k, id, COUNT(*) OVER (
  PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '3' SECOND PRECEDING AND CURRENT ROW) FROM a;
END;";

const SINKS: [(&str, &str); 6] = [
    ("tumble", "k BIGINT, s STRING, ws TIMESTAMP(3), n BIGINT, d BIGINT, x STRING, y BIGINT"),
    ("hop", "k BIGINT, ws TIMESTAMP(3), n BIGINT, m STRING"),
    ("sessions", "k BIGINT, ws TIMESTAMP(3), we TIMESTAMP(3), n BIGINT, x STRING"),
    ("interval_join", "k BIGINT, i BIGINT, j BIGINT"),
    ("top", "k BIGINT, id BIGINT, r BIGINT, ws TIMESTAMP(3)"),
    ("over_rows", "k BIGINT, id BIGINT, n BIGINT"),
];

/// A file with its content.
type File = (PathBuf, Vec<u8>);

/// What a job has left that was stopped, and what it has to give in the end.
pub(crate) struct Stopped {
    folder: TempDir,
    files: Vec<File>,
    pub(crate) expected: Vec<String>,
}

/// How a state directory is damaged.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Checksums {
    /// As they are: whatever is damaged is found by them.
    Kept,
    /// Made again behind the damage: what is read must be looked at nevertheless.
    Repaired,
}

impl Stopped {
    pub(crate) fn new() -> Stopped {
        let folder = tempfile::tempdir().unwrap();
        let mut random = Random::new(7);
        for table in ["a", "b"] {
            let row = |i: usize| {
                let ms = i * 60 + random.below(2500);
                let (k, s) = (random.below(7), random.below(3));
                format!("{i},{k},the text number {s},2024-01-01 00:00:{:02}.{:03}\n", ms / 1000, ms % 1000)
            };
            fs::write(folder.path().join(table), (0..ROWS).map(row).collect::<String>()).unwrap();
        }
        let mut stopped = Stopped { folder, files: Vec::new(), expected: Vec::new() };
        let whole = stopped.run(100_000, "2", false, None);
        assert!(whole.is_ok_and(|has_ended| has_ended));
        stopped.expected = stopped.rows();
        assert!(stopped.expected.len() > ROWS * 3);
        // The machine decides how many checkpoints come before that row; until two have.
        for row in (100..).step_by(50) {
            stopped.put_back();
            let has_ended = stopped.run(300, "2", true, Some(row)).unwrap();
            let mut files = Vec::new();
            read_all(stopped.folder.path(), &["state", "out"], &mut files);
            let manifests = files.iter().filter(|(path, _)| is_manifest(path)).count();
            assert!(!has_ended, "the job has come to its end before it had left two checkpoints");
            if manifests >= 2 {
                stopped.files = files;
                break;
            }
        }
        stopped
    }

    /// Makes state and output what they were when the job had been stopped.
    fn put_back(&self) {
        for part in ["state", "out"] {
            let _ = fs::remove_dir_all(self.folder.path().join(part));
        }
        for (path, content) in &self.files {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
    }

    /// Damages the state that the job has left; what was done.
    pub(crate) fn damage(&self, random: &mut Random, checksums: Checksums) -> String {
        self.put_back();
        let state = self.folder.path().join("state");
        let is_state = |(path, content): &&File| path.starts_with(&state) && !content.is_empty();
        let files: Vec<&File> = self.files.iter().filter(is_state).collect();
        let mut done = Vec::new();
        for _ in 0..=random.below(3) {
            let (path, content) = random.pick(&files);
            let other = random.pick(&files);
            let what = match random.below(12) {
                0 => {
                    let _ = fs::remove_file(path);
                    "gone"
                }
                1 => {
                    fs::write(path, &other.1).unwrap();
                    "another file"
                }
                _ if checksums == Checksums::Repaired && is_manifest(path) => {
                    fs::write(path, with_other_values(content, random)).unwrap();
                    "other values"
                }
                _ => {
                    let mut bytes = fs::read(path).unwrap_or_else(|_| content.clone());
                    let what = damage_bytes(&mut bytes, random);
                    fs::write(path, bytes).unwrap();
                    what
                }
            };
            done.push(format!("{}: {what}", path.strip_prefix(&state).unwrap().display()));
        }
        if checksums == Checksums::Repaired {
            for (path, _) in files.iter().filter(|(path, _)| is_manifest(path)) {
                repair(path);
            }
        }
        done.join(", ")
    }

    /// Runs the job, from the state that is there; whether it has ended.
    pub(crate) fn run(
        &self,
        rate: usize,
        workers: &str,
        has_state: bool,
        stop_at_row: Option<u64>,
    ) -> Result<bool, Diagnostic> {
        let state = self.folder.path().join("state").display().to_string();
        let mut settings = vec![
            ("pipeline.tier", "interpreted"),
            ("pipeline.buffer-rows", "16"),
            ("parallelism.default", workers),
            ("pipeline.memory", "256 mb"),
        ];
        if has_state {
            // A run to the end takes as much time for a checkpoint as for the rows.
            let interval = if stop_at_row.is_some() { "20 ms" } else { "1 min" };
            settings.extend([
                ("execution.checkpointing.dir", state.as_str()),
                ("execution.checkpointing.interval", interval),
            ]);
        }
        let mut session: Session = session(&settings);
        for table in ["a", "b"] {
            session.run(&format!(
                "CREATE TABLE {table} (id BIGINT, k BIGINT, s STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) \
                 WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'csv', 'scan.rate-limit.rows-per-second' = '{rate}')",
                self.folder.path().join(table).display()
            ))?;
        }
        for (name, columns) in SINKS {
            session.run(&format!(
                "CREATE TABLE {name} ({columns}) WITH ('connector' = 'filesystem', 'path' = '{}/', 'format' = 'csv')",
                self.folder.path().join("out").join(name).display()
            ))?;
        }
        run_or_stop(&mut session, INSERTS, stop_at_row)
    }

    /// The rows of all tables that are to be seen, with the table's name, sorted.
    pub(crate) fn rows(&self) -> Vec<String> {
        let mut rows = Vec::new();
        for (table, _) in SINKS {
            let Ok(files) = fs::read_dir(self.folder.path().join("out").join(table)) else { continue };
            for path in files.map(|file| file.unwrap().path()) {
                if !path.file_name().unwrap().to_string_lossy().starts_with('.') {
                    let text = fs::read_to_string(path).unwrap();
                    rows.extend(text.lines().map(|line| format!("{table}: {line}")));
                }
            }
        }
        rows.sort();
        rows
    }
}

fn is_manifest(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("checkpoint-"))
}

/// The files of some folders, and those of the folders in them.
fn read_all(folder: &Path, parts: &[&str], files: &mut Vec<File>) {
    for part in parts {
        for entry in fs::read_dir(folder.join(part)).into_iter().flatten().map(Result::unwrap) {
            let name = entry.file_name().to_string_lossy().into_owned();
            match entry.file_type().unwrap() {
                kind if kind.is_dir() => read_all(&folder.join(part), &[&name], files),
                // The lock is the process's, and is made again.
                _ if name == "lock" => {}
                _ => files.push((entry.path(), fs::read(entry.path()).unwrap())),
            }
        }
    }
    files.sort();
}

fn damage_bytes(bytes: &mut Vec<u8>, random: &mut Random) -> &'static str {
    if bytes.is_empty() {
        return "as it was";
    }
    let at = random.below(bytes.len());
    let end = (at + 1 + random.below(64)).min(bytes.len());
    match random.below(6) {
        0 => {
            bytes.truncate(at);
            "cut"
        }
        1 => {
            bytes[at..end].fill(random.pick(&[0, 0xFF]));
            "zeroed or filled"
        }
        2 => {
            let other = random.below(bytes.len());
            bytes.swap(at, other);
            "swapped"
        }
        3 => {
            bytes[at..].rotate_left((end - at) / 2);
            "moved"
        }
        4 => {
            let inserted: Vec<u8> = bytes[at..end].to_vec();
            bytes.splice(at..at, inserted).for_each(drop);
            "repeated"
        }
        _ => {
            bytes[at] ^= 1 << random.below(8);
            "flipped"
        }
    }
}

/// The body of a manifest, without its checksum.
fn body(manifest: &[u8]) -> Option<Value> {
    let text = manifest.strip_suffix(b"\n")?;
    let end = text.iter().rposition(|&byte| byte == b'\n')?;
    serde_json::from_slice(&text[..end]).ok()
}

fn encode(body: &Value) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(body).unwrap();
    let checksum = xxh3_64(&bytes);
    bytes.extend(format!("\nxxh3:{checksum:016x}\n").as_bytes());
    bytes
}

/// A manifest in which some value is another one.
fn with_other_values(manifest: &[u8], random: &mut Random) -> Vec<u8> {
    let Some(mut body) = body(manifest) else { return manifest.to_vec() };
    // What the plan is, and of which version, is compared as text; the rest is read.
    let part = random.pick(&["sources", "aggregations", "operators", "sinks", "checkpoint"]);
    let mut leaves = Vec::new();
    collect(&mut body[part], &mut leaves);
    if !leaves.is_empty() {
        let at = random.below(leaves.len());
        let leaf = &mut *leaves[at];
        *leaf = match (&*leaf, random.below(8)) {
            (Value::Number(number), 0..=5) => {
                let number = number.as_i64().unwrap_or(1 << 40);
                let other = [
                    0,
                    -1,
                    number.wrapping_add(1),
                    number.wrapping_sub(1),
                    number ^ (1 << random.below(63)),
                    i64::MAX,
                    i64::MIN,
                    1 << 32,
                ];
                Value::from(random.pick(&other))
            }
            (_, 6) => Value::Null,
            (_, 7) => Value::from(u64::MAX),
            (Value::String(_), _) => Value::from("nothing"),
            (Value::Array(_), _) => Value::Array(Vec::new()),
            (other, _) => other.clone(),
        };
    }
    encode(&body)
}

/// All values without parts, and some lists, which may be emptied.
fn collect<'a>(value: &'a mut Value, leaves: &mut Vec<&'a mut Value>) {
    let has_parts = match value {
        Value::Array(items) => items.len() != 3,
        Value::Object(_) => true,
        _ => false,
    };
    match value {
        leaf if !has_parts => leaves.push(leaf),
        Value::Array(items) => items.iter_mut().for_each(|item| collect(item, leaves)),
        Value::Object(fields) => fields.values_mut().for_each(|field| collect(field, leaves)),
        _ => {}
    }
}

/// Makes the checksums of a manifest those of what is there.
fn repair(path: &Path) {
    let Some(mut body) = fs::read(path).ok().and_then(|manifest| body(&manifest)) else { return };
    repair_blobs(&mut body, path.parent().unwrap());
    fs::write(path, encode(&body)).unwrap();
}

fn repair_blobs(value: &mut Value, folder: &Path) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| repair_blobs(item, folder)),
        Value::Object(fields) => {
            let number = |key: &str| fields.get(key).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
            let range = number("offset").zip(number("bytes")).map(|(from, bytes)| from..from.saturating_add(bytes));
            let file = fields.get("file").and_then(Value::as_str).map(|name| fs::read(folder.join(name)));
            if let (Some(range), Some(Ok(content))) = (range, file)
                && let Some(blob) = content.get(range)
            {
                fields.insert("checksum".into(), xxh3_64(blob).into());
            }
            fields.values_mut().for_each(|field| repair_blobs(field, folder));
        }
        _ => {}
    }
}
