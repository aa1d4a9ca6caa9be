//! Jobs that are killed at random moments and run again give the rows of an undisturbed run, and damaged state is refused or
//! left out, never trusted. `MILLSTREAM_KILLS=200` kills more often (`make crash`).
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![cfg(unix)]

#[path = "support/draws.rs"]
mod draws;
mod support;

use draws::{Draws, kills};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;
use support::millstream;

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
struct Job {
    folder: PathBuf,
}

impl Job {
    /// With two files of rows, out of order, for each table.
    fn new(folder: &Path, rows: u64) -> Job {
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

    fn command(&self, out: &str, rate: u64, workers: u64) -> Command {
        let mut command = millstream(&self.folder);
        command.args(["run", "job.sql", "--quiet", "--workers", &workers.to_string()]);
        let var = |name: &str, value: String| format!("--var={name}={value}");
        command.arg(var("IN", "in".into())).arg(var("OUT", out.into())).arg(var("RATE", rate.to_string()));
        command
    }

    fn run(&self, out: &str, state: Option<&str>, workers: u64) -> Output {
        let mut command = self.command(out, 100_000_000, workers);
        if let Some(state) = state {
            command.args(["--state-dir", state]);
        }
        command.output().unwrap()
    }

    /// Runs it with kills in between, and then to its end.
    fn run_with_kills(&self, kills: u64, draws: &mut Draws) {
        for _ in 0..kills {
            let mut command = self.command("out", 6000, 1 + draws.below(4));
            // Tables that are spilled are in checkpoints like others.
            let spill = ["pipeline.spill=auto", "pipeline.spill=always"][draws.below(2) as usize];
            let mut child = command.args(["--state-dir", "state", "--set", spill]).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(50 + draws.below(900)));
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let last = self.run("out", Some("state"), 2);
        assert!(last.status.success(), "{}", String::from_utf8_lossy(&last.stderr));
    }

    /// The rows of every table, sorted; those of Parquet files as this engine reads them.
    fn rows(&self, out: &str) -> BTreeMap<String, Vec<String>> {
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

fn lines_of(text: &str) -> Vec<String> {
    text.lines().map(str::to_string).collect()
}

fn assert_same(found: &BTreeMap<String, Vec<String>>, expected: &BTreeMap<String, Vec<String>>, when: &str) {
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{when}");
    for (table, rows) in expected {
        let first = found[table].iter().zip(rows).position(|(a, b)| a != b);
        let (has, wants) = (found[table].len(), rows.len());
        assert!(found[table] == *rows, "{table} has {has} rows instead of {wants}, first difference {first:?}; {when}");
    }
}

#[test]
fn a_job_that_is_killed_loses_and_repeats_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let job = Job::new(folder.path(), 3000);
    let undisturbed = job.run("expected", None, 2);
    assert!(undisturbed.status.success(), "{}", String::from_utf8_lossy(&undisturbed.stderr));
    let expected = job.rows("expected");
    assert_eq!(expected.len(), 9);
    assert!(expected.values().all(|rows| rows.len() > 10));
    let mut draws = Draws(kills(8));
    let mut left = kills(8);
    while left > 0 {
        // A few in each run of the job, so that all parts of it are met.
        let now = left.min(8);
        left -= now;
        job.run_with_kills(now, &mut draws);
        assert_same(&job.rows("out"), &expected, &format!("{left} kills before the end"));
        // What has come to its end is not run again.
        let again = job.run("out", Some("state"), 2);
        assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
        assert_same(&job.rows("out"), &expected, "after the end");
        fs::remove_dir_all(folder.path().join("out")).unwrap();
        fs::remove_dir_all(folder.path().join("state")).unwrap();
    }
}

#[test]
fn damaged_state_is_never_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let job = Job::new(folder.path(), 2000);
    assert!(job.run("expected", None, 2).status.success());
    let expected = job.rows("expected");
    let mut draws = Draws(3);
    let mut child = job.command("out", 3000, 2).args(["--state-dir", "state"]).spawn().unwrap();
    let state = folder.path().join("state/job-1");
    let manifests = || {
        let files = fs::read_dir(&state).map(|files| files.map(|file| file.unwrap().file_name()).collect::<Vec<_>>());
        let is_manifest = |name: &std::ffi::OsString| name.to_string_lossy().starts_with("checkpoint-");
        files.unwrap_or_default().iter().filter(|name| is_manifest(name)).count()
    };
    while manifests() < 2 {
        assert!(child.try_wait().unwrap().is_none(), "it has ended too early");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    copy(&folder.path().join("state"), &folder.path().join("state.kept"));
    copy(&folder.path().join("out"), &folder.path().join("out.kept"));
    let mut files: Vec<PathBuf> = fs::read_dir(&state).unwrap().map(|file| file.unwrap().path()).collect();
    files.retain(|file| fs::metadata(file).unwrap().len() > 0);
    let mut refused = 0;
    for round in 0..8 {
        let file = &files[round % files.len()];
        let mut bytes = fs::read(file).unwrap();
        let at = draws.below(bytes.len() as u64) as usize;
        match round % 3 {
            0 => bytes.truncate(at),
            1 => bytes[at] ^= 1 << draws.below(8),
            _ => bytes[at..].fill(0),
        }
        fs::write(file, bytes).unwrap();
        let output = job.run("out", Some("state"), 2);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        match output.status.success() {
            true => assert_same(&job.rows("out"), &expected, &format!("{} damaged at {at}: {message}", file.display())),
            false => {
                assert!(message.contains("error[MS301"), "{message}");
                refused += 1;
            }
        }
        for kept in ["state", "out"] {
            fs::remove_dir_all(folder.path().join(kept)).unwrap();
            copy(&folder.path().join(format!("{kept}.kept")), &folder.path().join(kept));
        }
    }
    assert!(refused < 8, "one damaged file leaves a checkpoint");
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => copy(&entry.path(), &target),
            kind if kind.is_file() => drop(fs::copy(entry.path(), target).unwrap()),
            // A socket.
            _ => {}
        }
    }
}

#[test]
fn a_query_that_has_changed_is_refused_unless_its_state_fits() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("in.csv"), "1,5\n2,6\n").unwrap();
    let run = |query: &str, out: &str| {
        let sql = format!(
            "CREATE TABLE t (k BIGINT, v BIGINT) WITH ('connector'='filesystem', 'path'='in.csv', 'format'='csv',
             'scan.rate-limit.rows-per-second'='1');
             CREATE TABLE o (k BIGINT, v BIGINT) WITH ('connector'='filesystem', 'path'='{out}/', 'format'='csv');
             SET 'execution.runtime-mode' = 'batch';
             INSERT INTO o {query};"
        );
        let mut command = millstream(folder);
        command.args(["run", "-e", &sql, "--quiet", "--state-dir", "state"]);
        command
    };
    let mut first = run("SELECT k, SUM(v) FROM t GROUP BY k", "out").spawn().unwrap();
    let stop = || {
        Command::new(env!("CARGO_BIN_EXE_millstream"))
            .args(["stop", "--state-dir", "state"])
            .current_dir(folder)
            .output()
    };
    while !stop().unwrap().status.success() {
        assert!(first.try_wait().unwrap().is_none(), "it has ended too early");
    }
    assert!(first.wait().unwrap().success());
    let changed = run("SELECT k, MAX(v) FROM t GROUP BY k", "out").output().unwrap();
    let message = String::from_utf8_lossy(&changed.stderr).into_owned();
    assert!(!changed.status.success() && message.contains("MS3013"), "{message}");
    assert!(message.contains("MaxI64") && message.contains("SumI64"), "{message}");
    let fits = run("SELECT k + 100, SUM(v) * 2 FROM t GROUP BY k", "out").output().unwrap();
    assert!(fits.status.success(), "{}", String::from_utf8_lossy(&fits.stderr));
    let files = fs::read_dir(folder.join("out")).unwrap().map(|file| fs::read_to_string(file.unwrap().path()).unwrap());
    let mut rows: Vec<String> = files.flat_map(|text| lines_of(&text)).collect();
    rows.sort();
    assert_eq!(rows, ["101,10", "102,12"]);
}
