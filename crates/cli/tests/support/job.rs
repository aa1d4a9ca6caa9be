//! A job with everything that keeps state, from files to files.

use crate::draws::Draws;
use crate::support::millstream;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Aggregates of all kinds of windows, every keyed operator that keeps rows, and what is made of their output. All of them
/// write files.
const SCRIPT: &str = "
SET 'execution.checkpointing.interval' = '20 ms';
CREATE TABLE a (id BIGINT, k BIGINT, s STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
WITH ('connector'='filesystem', 'path'='${IN}/a', 'format'='csv', 'scan.rate-limit.rows-per-second'='${RATE}');
CREATE TABLE b (id BIGINT, k BIGINT, s STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
WITH ('connector'='filesystem', 'path'='${IN}/b', 'format'='csv', 'scan.rate-limit.rows-per-second'='${RATE}');
CREATE TABLE tumble (k BIGINT, s STRING, ws TIMESTAMP(3), n BIGINT, d BIGINT, x STRING)
WITH ('connector'='filesystem', 'path'='${OUT}/tumble', 'format'='csv');
CREATE TABLE hop (k BIGINT, ws TIMESTAMP(3), n BIGINT, m STRING)
WITH ('connector'='filesystem', 'path'='${OUT}/hop', 'format'='json');
CREATE TABLE cumulate (k BIGINT, we TIMESTAMP(3), n BIGINT)
WITH ('connector'='filesystem', 'path'='${OUT}/cumulate', 'format'='parquet');
CREATE TABLE session (k BIGINT, ws TIMESTAMP(3), we TIMESTAMP(3), n BIGINT, x STRING)
WITH ('connector'='filesystem', 'path'='${OUT}/session', 'format'='csv');
CREATE TABLE window_join (k BIGINT, i BIGINT, j BIGINT, ws TIMESTAMP(3))
WITH ('connector'='filesystem', 'path'='${OUT}/window_join', 'format'='csv');
CREATE TABLE interval_join (k BIGINT, i BIGINT, j BIGINT)
WITH ('connector'='filesystem', 'path'='${OUT}/interval_join.csv', 'format'='csv');
CREATE TABLE top (k BIGINT, n BIGINT, ws TIMESTAMP(3), r BIGINT)
WITH ('connector'='filesystem', 'path'='${OUT}/top', 'format'='csv');
CREATE TABLE over_rows (k BIGINT, id BIGINT, n BIGINT)
WITH ('connector'='filesystem', 'path'='${OUT}/over_rows', 'format'='csv');
CREATE TABLE regular_join (k BIGINT, i BIGINT, j BIGINT)
WITH ('connector'='filesystem', 'path'='${OUT}/regular_join', 'format'='csv');
BEGIN STATEMENT SET;
INSERT INTO tumble SELECT k, s, window_start, COUNT(*), COUNT(DISTINCT id), MIN(s)
FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY k, s, window_start, window_end;
INSERT INTO hop SELECT k, window_start, COUNT(*), MAX(s)
FROM TABLE(HOP(TABLE b, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end;
INSERT INTO cumulate SELECT k, window_end, COUNT(*)
FROM TABLE(CUMULATE(TABLE a, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND)) GROUP BY k, window_start, window_end;
INSERT INTO session SELECT k, window_start, window_end, COUNT(*), MAX(s)
FROM TABLE(SESSION(TABLE a PARTITION BY k, DESCRIPTOR(ts), INTERVAL '2' SECOND)) GROUP BY k, window_start, window_end;
INSERT INTO window_join SELECT l.k, l.id, r.id, l.window_start
FROM (SELECT * FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '5' SECOND))) l
JOIN (SELECT * FROM TABLE(TUMBLE(TABLE b, DESCRIPTOR(ts), INTERVAL '5' SECOND))) r
ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end WHERE l.id > r.id;
INSERT INTO interval_join SELECT a.k, a.id, b.id
FROM a JOIN b ON a.k = b.k AND a.ts BETWEEN b.ts - INTERVAL '1' SECOND AND b.ts;
INSERT INTO top SELECT k, n, window_start, r FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY n DESC, k) AS r FROM (
    SELECT k, window_start, window_end, COUNT(*) AS n
    FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end))
WHERE r <= 3;
INSERT INTO over_rows SELECT k, id, COUNT(*) OVER (
  PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '3' SECOND PRECEDING AND CURRENT ROW) FROM a;
INSERT INTO regular_join SELECT a.k, a.id, b.id FROM a JOIN b ON a.k = b.k AND a.id = b.id;
END;
";

/// A job with its input, output and state.
pub struct Job {
    pub folder: PathBuf,
}

impl Job {
    /// With two files of rows, out of order, for each table.
    pub fn new(folder: &Path, rows: u64) -> Job {
        let mut draws = Draws(7);
        for (table, files) in [("a", 2), ("b", 2)] {
            fs::create_dir_all(folder.join("in").join(table)).unwrap();
            for file in 0..files {
                let row = |i: u64| {
                    let ms = i * 20 + draws.below(900);
                    let (k, s) = (draws.below(40), draws.below(3));
                    let (minute, second, ms) = (ms / 60_000, ms / 1000 % 60, ms % 1000);
                    format!("{i},{k},the text number {s},2024-01-01 00:{minute:02}:{second:02}.{ms:03}\n")
                };
                let text: String = (0..rows).map(row).collect();
                fs::write(folder.join("in").join(table).join(format!("{file}.csv")), text).unwrap();
            }
        }
        fs::write(folder.join("job.sql"), SCRIPT).unwrap();
        Job { folder: folder.to_path_buf() }
    }

    pub fn command(&self, out: &str, rate: u64, workers: u64) -> Command {
        let mut command = millstream(&self.folder);
        command.args(["run", "job.sql", "--quiet", "--workers", &workers.to_string()]);
        let var = |name: &str, value: String| format!("--var={name}={value}");
        command.arg(var("IN", "in".into())).arg(var("OUT", out.into())).arg(var("RATE", rate.to_string()));
        command
    }

    pub fn run(&self, out: &str, state: Option<&str>, workers: u64) -> Output {
        let mut command = self.command(out, 100_000_000, workers);
        if let Some(state) = state {
            command.args(["--state-dir", state]);
        }
        command.output().unwrap()
    }

    /// The rows of every table, sorted; those of Parquet files as this engine reads them.
    pub fn rows(&self, out: &str) -> BTreeMap<String, Vec<String>> {
        let mut rows = BTreeMap::new();
        for entry in fs::read_dir(self.folder.join(out)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let mut lines: Vec<String> = match name.as_str() {
                _ if name.starts_with('.') => continue,
                "cumulate" => self.parquet(&path),
                _ if path.is_dir() => {
                    let files = fs::read_dir(&path).unwrap().map(|file| file.unwrap().path());
                    let shown = files.filter(|file| !file.file_name().unwrap().to_string_lossy().starts_with('.'));
                    shown.flat_map(|file| lines_of(&fs::read_to_string(file).unwrap())).collect()
                }
                _ => lines_of(&fs::read_to_string(&path).unwrap()),
            };
            lines.sort();
            rows.insert(name, lines);
        }
        rows
    }

    fn parquet(&self, path: &Path) -> Vec<String> {
        let sql = format!(
            "CREATE TABLE t (k BIGINT, we TIMESTAMP(3), n BIGINT)
             WITH ('connector'='filesystem', 'path'='{}', 'format'='parquet'); SELECT * FROM t;",
            path.display()
        );
        let command = ["run", "-e", &sql, "-o", "json", "--quiet"];
        let output = millstream(&self.folder).args(command).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        lines_of(&String::from_utf8(output.stdout).unwrap())
    }
}

pub fn lines_of(text: &str) -> Vec<String> {
    text.lines().map(str::to_string).collect()
}

pub fn assert_same(found: &BTreeMap<String, Vec<String>>, expected: &BTreeMap<String, Vec<String>>, when: &str) {
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{when}");
    for (table, rows) in expected {
        let first = found[table].iter().zip(rows).position(|(a, b)| a != b);
        let (has, wants) = (found[table].len(), rows.len());
        assert!(found[table] == *rows, "{table} has {has} rows instead of {wants}, first difference {first:?}; {when}");
    }
}
