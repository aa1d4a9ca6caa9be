//! Files of every format, and damage to them.

use crate::{Random, session};
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

pub(crate) const COLUMNS: &str = "id INT, b BIGINT, d DOUBLE, n DECIMAL(10, 2), s STRING, f BOOLEAN, ts TIMESTAMP(3), a ARRAY<INT>, r ROW<x INT, y STRING>";
const FORMATS: &[&str] = &["json", "csv", "arrow", "parquet", "avro"];

/// A file of each format.
pub(crate) struct Samples {
    folder: TempDir,
    files: Vec<(&'static str, Vec<u8>)>,
}

impl Samples {
    pub(crate) fn new() -> Samples {
        let folder = tempfile::tempdir().unwrap();
        let mut files = Vec::new();
        for &format in FORMATS {
            let path = folder.path().join(format!("sample.{format}"));
            let row = |i: i32| {
                format!(
                    "({i}, {i}00000, {i}.5, {i}.25, 'text {i} \u{e4}', {}, TIMESTAMP '2026-01-01 00:00:{:02}', ARRAY[{i}, NULL], ROW({i}, 'y'))",
                    i % 2 == 0,
                    i % 60
                )
            };
            let rows: Vec<String> = (1..60).map(row).collect();
            let sql = format!(
                "CREATE TABLE t ({COLUMNS}) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = '{format}'); INSERT INTO t VALUES {};",
                path.display(),
                rows.join(", ")
            );
            session(&[("parallelism.default", "1")]).run(&sql).unwrap();
            files.push((format, fs::read(path).unwrap()));
        }
        Samples { folder, files }
    }

    /// Writes a file of some format with some damage; what it is, and a query over it.
    pub(crate) fn damaged(&self, random: &mut Random) -> (String, String) {
        let (format, whole) = &self.files[random.below(self.files.len())];
        let bytes = damaged(whole, random);
        let path: PathBuf = self.folder.path().join("damaged");
        fs::write(&path, &bytes).unwrap();
        let tolerant = tolerance(format, random);
        let wanted = random.pick(&["*", "COUNT(*)", "MAX(id), MAX(s)", "SUM(n), COUNT(a), MAX(r.y)"]);
        let sql = format!(
            "SET 'execution.runtime-mode' = 'batch'; CREATE TABLE t ({COLUMNS}) WITH ('connector' = 'filesystem', 'path' = '{}', \
             'format' = '{format}'{tolerant}); SELECT {wanted} FROM t;",
            path.display()
        );
        (format!("{format}, {} bytes instead of {}", bytes.len(), whole.len()), sql)
    }
    /// The format, the damaged bytes and the options of what may come over a connection.
    pub(crate) fn damaged_stream(&self, random: &mut Random) -> (&'static str, Vec<u8>, String) {
        // A file of Parquet is read from its end.
        let streams: Vec<_> = self.files.iter().filter(|(format, _)| *format != "parquet").collect();
        let (format, whole) = streams[random.below(streams.len())];
        (format, damaged(whole, random), tolerance(format, random))
    }
}

/// Whether records that cannot be read are skipped.
fn tolerance(format: &str, random: &mut Random) -> String {
    match format {
        "json" | "csv" if random.below(2) == 0 => format!(", '{format}.ignore-parse-errors' = 'true'"),
        _ => String::new(),
    }
}

/// The bytes with some damage.
fn damaged(whole: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len().max(1));
        match random.below(6) {
            0 => bytes.truncate(at),
            1 => bytes[at..].reverse(),
            2 => bytes.splice(at..at, (0..random.below(9)).map(|i| (i * 37) as u8)).for_each(drop),
            3 => {
                let end = (at + random.below(64)).min(bytes.len());
                bytes.drain(at..end);
            }
            4 if !bytes.is_empty() => bytes[at] = random.pick(&[0, 1, 0x7F, 0x80, 0xFF, b'"', b'{', b'[', b',', b'\n']),
            _ if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
            _ => {}
        }
        if bytes.is_empty() {
            break;
        }
    }
    bytes
}
