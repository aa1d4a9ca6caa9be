//! Jobs that are run again after somebody has changed their input, their output, their query or their state directory.

use crate::support::millstream;
use crate::{ended, text};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Output};
use std::time::{Duration, Instant};

/// A job that copies two files, of which it has read one to its end and the other in part when it is stopped.
struct Copying {
    folder: tempfile::TempDir,
}

const ROWS: u64 = 400;

fn rows(from: u64, to: u64) -> String {
    (from..to).map(|i| format!("{i},the text of row {i:05}\n")).collect()
}

impl Copying {
    fn new() -> Copying {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("in")).unwrap();
        fs::write(folder.path().join("in/0.csv"), rows(0, 3)).unwrap();
        fs::write(folder.path().join("in/1.csv"), rows(3, ROWS)).unwrap();
        Copying { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, rate: u64) -> std::process::Command {
        let sql = format!(
            "SET 'execution.checkpointing.interval' = '50 ms';
             CREATE TABLE t (k BIGINT, v STRING) WITH ('connector'='filesystem', 'path'='in', 'format'='csv',
             'scan.rate-limit.rows-per-second'='{rate}');
             CREATE TABLE o (k BIGINT, v STRING) WITH ('connector'='filesystem', 'path'='out.csv', 'format'='csv');
             INSERT INTO o SELECT k, v FROM t;"
        );
        let mut command = millstream(self.folder.path());
        command.args(["run", "-e", &sql, "--quiet", "--state-dir", "state"]);
        command
    }

    /// Runs it until it is in the middle of the second file.
    fn stopped() -> Copying {
        let job = Copying::new();
        let mut child = job.command(100).spawn().unwrap();
        let since = Instant::now();
        // 3 rows of the first file, and at least 30 of the second.
        while rows_read(job.folder.path()) < 30 {
            assert!(
                child.try_wait().unwrap().is_none() && since.elapsed() < Duration::from_secs(20),
                "it was not stopped in time"
            );
        }
        let stopped = run(job.folder.path(), &["stop", "--state-dir", "state"]);
        assert!(stopped.status.success(), "{}", text(&stopped.stderr));
        assert!(child.wait().unwrap().success());
        assert!(!job.path("out.csv").exists(), "it has come to its end too early");
        job
    }

    fn go_on(&self) -> Output {
        self.command(1_000_000).output().unwrap()
    }

    fn refused(&self, code: &str, what: &str) {
        let output = self.go_on();
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{what}: {errors}");
        assert!(errors.contains(code) && errors.contains(what), "{what}: {errors}");
        assert!(!self.path("out.csv").exists(), "{what}");
    }

    fn copied(&self) -> Vec<String> {
        let mut lines: Vec<String> =
            fs::read_to_string(self.path("out.csv")).unwrap().lines().map(String::from).collect();
        lines.sort_by_key(|line| line.split(',').next().unwrap().parse::<u64>().unwrap());
        lines
    }
}

/// Most rows of an input in the newest checkpoint.
fn rows_read(folder: &Path) -> u64 {
    let shown = run(folder, &["checkpoint", "show", "--state-dir", "state"]);
    let count = |line: &str| line.split_once(" rows")?.0.rsplit(' ').next()?.parse::<u64>().ok();
    text(&shown.stdout).lines().filter_map(count).max().unwrap_or(0)
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    millstream(folder).args(arguments).output().unwrap()
}

#[test]
fn an_input_that_was_changed_is_refused() {
    type Change = (&'static str, fn(&Copying));
    let changes: &[Change] = &[
        ("1.csv", |job| {
            // Of the same length.
            let text = fs::read_to_string(job.path("in/1.csv")).unwrap();
            fs::write(job.path("in/1.csv"), text.replacen("the text", "THE TEXT", 1)).unwrap();
        }),
        ("1.csv", |job| fs::write(job.path("in/1.csv"), rows(1003, 2000)).unwrap()),
        ("1.csv", |job| {
            fs::write(job.path("other"), rows(1003, 2000)).unwrap();
            fs::remove_file(job.path("in/1.csv")).unwrap();
            std::os::unix::fs::symlink(job.path("other"), job.path("in/1.csv")).unwrap();
        }),
        ("read to its end", |job| fs::write(job.path("in/0.csv"), rows(0, 3) + &rows(1000, 1001)).unwrap()),
        ("0.csv", |job| fs::write(job.path("in/0.csv"), rows(7, 10)).unwrap()),
    ];
    for (what, change) in changes {
        let job = Copying::stopped();
        change(&job);
        job.refused("MS4013", what);
        // It is as if nothing had been tried.
        fs::remove_dir_all(job.path("in")).unwrap();
        fs::create_dir(job.path("in")).unwrap();
        fs::write(job.path("in/0.csv"), rows(0, 3)).unwrap();
        fs::write(job.path("in/1.csv"), rows(3, ROWS)).unwrap();
        let output = job.go_on();
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(job.copied(), rows(0, ROWS).lines().collect::<Vec<_>>(), "{what}");
    }
}

#[test]
fn new_rows_at_the_end_are_read_or_told() {
    let job = Copying::stopped();
    fs::write(job.path("in/1.csv"), rows(3, ROWS + 5)).unwrap();
    fs::write(job.path("in/2.csv"), rows(ROWS + 5, ROWS + 7)).unwrap();
    let output = job.go_on();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(job.copied(), rows(0, ROWS + 7).lines().collect::<Vec<_>>());
    let untold = job.go_on();
    assert!(
        untold.status.success() && !text(&untold.stderr).contains("nothing is read again"),
        "{}",
        text(&untold.stderr)
    );
    // The job has ended, so nobody reads these.
    fs::write(job.path("in/2.csv"), rows(ROWS + 5, ROWS + 9)).unwrap();
    fs::write(job.path("in/3.csv"), rows(ROWS + 9, ROWS + 10)).unwrap();
    let output = job.go_on();
    let errors = text(&output.stderr);
    assert!(output.status.success(), "{errors}");
    for what in ["nothing is read again", "2.csv", "and 1 more", "another state directory"] {
        assert!(errors.contains(what), "{what}: {errors}");
    }
    assert_eq!(job.copied(), rows(0, ROWS + 7).lines().collect::<Vec<_>>());
}

#[test]
fn an_output_that_was_changed_is_refused() {
    for is_link in [false, true] {
        let job = Copying::stopped();
        let is_hidden = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with(".millstream-");
        let hidden = fs::read_dir(job.folder.path()).unwrap().map(|file| file.unwrap().path()).find(is_hidden).unwrap();
        let written = fs::read_to_string(&hidden).unwrap();
        if is_link {
            fs::rename(&hidden, job.path("moved")).unwrap();
            std::os::unix::fs::symlink(job.path("moved"), &hidden).unwrap();
            job.refused("MS3014", "is a symbolic link now");
            assert_eq!(fs::read_to_string(job.path("moved")).unwrap(), written, "nobody has written through the link");
        } else {
            fs::write(&hidden, written.replacen("text", "TEXT", 1)).unwrap();
            job.refused("MS3014", "has other bytes");
        }
    }
}

#[test]
fn an_aggregate_does_not_end_what_another_has_begun() {
    let tumble = "FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY k, window_start, window_end";
    let session = "FROM TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY k, window_start, window_end";
    let over = "OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) FROM t";
    let cases = [
        (format!("k, AVG(v) {tumble}"), format!("k, SUM(v) {tumble}"), "AVG"),
        (format!("k, SUM(v) {tumble}"), format!("k, AVG(v) {tumble}"), "SUM"),
        (format!("k, CAST(SUM(v) AS DOUBLE) {session}"), format!("k, CAST(AVG(v) AS DOUBLE) {session}"), "SUM"),
        (format!("k, STDDEV_POP(v) {session}"), format!("k, STDDEV_SAMP(v) {session}"), "STDDEV_POP"),
        (format!("k, AVG(v) {over}"), format!("k, SUM(v) {over}"), "AVG"),
        (
            format!("k, LISTAGG(CAST(v AS STRING), ';') {tumble}"),
            format!("k, LISTAGG(CAST(v AS STRING), '/') {tumble}"),
            "';'",
        ),
        (format!("k, PERCENTILE(v, 0.5) {tumble}"), format!("k, PERCENTILE(v, 0.9) {tumble}"), "PERCENTILE"),
    ];
    for (before, after, named) in cases {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("in.csv"), "1,5,2024-01-01 00:00:00\n1,6,2024-01-01 00:00:01\n").unwrap();
        let command = |query: &str, rate: u64| {
            let sql = format!(
                "CREATE TABLE t (k BIGINT, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector'='filesystem',
                 'path'='in.csv', 'format'='csv', 'scan.rate-limit.rows-per-second'='{rate}');
                 CREATE TABLE o (k BIGINT, v STRING) WITH ('connector'='filesystem', 'path'='out/', 'format'='csv');
                 INSERT INTO o SELECT k, CAST(x AS STRING) FROM (SELECT {query}) AS q (k, x);"
            );
            let mut command = millstream(folder.path());
            command.args(["run", "-e", &sql, "--quiet", "--state-dir", "state"]);
            command
        };
        let mut first = command(&before, 1).spawn().unwrap();
        while !run(folder.path(), &["stop", "--state-dir", "state"]).status.success() {
            assert!(first.try_wait().unwrap().is_none(), "{before} has ended too early");
        }
        assert!(first.wait().unwrap().success(), "{before}");
        let changed = command(&after, 1000).output().unwrap();
        let errors = text(&changed.stderr);
        assert!(
            changed.status.code() == Some(1) && errors.contains("MS3013") && errors.contains(named),
            "{after}: {errors}"
        );
        let same = command(&before, 1000).output().unwrap();
        assert!(same.status.success(), "{before}: {}", text(&same.stderr));
    }
}

/// A job without an end that writes checkpoints.
fn endless(folder: &Path) -> Child {
    let sql = "SET 'execution.checkpointing.interval' = '50 ms';
        CREATE TABLE g (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000', 'fields.id.kind' = 'sequence',
        'fields.id.start' = '0', 'fields.id.end' = '1000000000');
        CREATE TABLE o (id BIGINT) WITH ('connector'='filesystem', 'path'='out/', 'format'='csv');
        INSERT INTO o SELECT id FROM g;";
    let mut command = millstream(folder);
    command.args(["run", "-e", sql, "--quiet", "--state-dir", "state"]);
    command.spawn().unwrap()
}

/// Waits until rows are visible; the identifiers that are.
fn visible(folder: &Path) -> Vec<u64> {
    let since = Instant::now();
    loop {
        let mut ids = Vec::new();
        for file in fs::read_dir(folder.join("out")).into_iter().flatten() {
            let path = file.unwrap().path();
            if !path.file_name().unwrap().to_string_lossy().starts_with('.') {
                ids.extend(fs::read_to_string(path).unwrap().lines().map(|line| line.parse::<u64>().unwrap()));
            }
        }
        if !ids.is_empty() {
            ids.sort_unstable();
            return ids;
        }
        assert!(since.elapsed() < Duration::from_secs(20), "no rows are visible");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Stops the endless job: it has lost and repeated nothing.
fn stop_exact(folder: &Path, job: Child) {
    let stopped = run(folder, &["stop", "--state-dir", "state"]);
    assert!(stopped.status.success(), "{}", text(&stopped.stderr));
    let (code, errors) = ended(job);
    assert_eq!(code, Some(0), "{errors}");
    let ids = visible(folder);
    assert_eq!(ids, (0..ids.len() as u64).collect::<Vec<_>>());
}

#[test]
fn one_process_has_a_state_directory_also_without_its_lock() {
    let folder = tempfile::tempdir().unwrap();
    let first = endless(folder.path());
    visible(folder.path());
    fs::remove_file(folder.path().join("state/lock")).unwrap();
    let (code, errors) = ended(endless(folder.path()));
    assert!(code == Some(1) && errors.contains("MS3015"), "{errors}");
    stop_exact(folder.path(), first);
}

#[test]
fn a_process_that_was_superseded_commits_nothing_more() {
    let folder = tempfile::tempdir().unwrap();
    let first = endless(folder.path());
    visible(folder.path());
    // Another process has the directory, on a machine whose locks this one does not see.
    fs::write(folder.path().join("state/run-00000002"), "").unwrap();
    let (code, errors) = ended(first);
    assert!(code == Some(1) && errors.contains("MS3011") && errors.contains("taken over"), "{errors}");
    // Whoever comes next loses and repeats nothing.
    let second = endless(folder.path());
    let before = visible(folder.path()).len();
    let since = Instant::now();
    while visible(folder.path()).len() == before {
        assert!(since.elapsed() < Duration::from_secs(20), "no more rows are visible");
    }
    stop_exact(folder.path(), second);
}

#[test]
fn a_file_that_is_there_is_replaced_only_when_told() {
    let folder = tempfile::tempdir().unwrap();
    let insert = |statement: &str, path: &str| {
        let sql = format!(
            "CREATE TABLE o (k BIGINT) WITH ('connector'='filesystem', 'path'='{path}', 'format'='csv');
             CREATE TABLE p (k BIGINT) WITH ('connector'='print'); {statement} VALUES (1), (2);"
        );
        let output = run(folder.path(), &["run", "-e", &sql, "--quiet"]);
        (output.status.code(), text(&output.stderr))
    };
    let file = folder.path().join("out.csv");
    fs::write(&file, "kept\n").unwrap();
    let (code, errors) = insert("INSERT INTO o", "out.csv");
    assert!(code == Some(1) && errors.contains("MS4014") && errors.contains("INSERT OVERWRITE"), "{errors}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "kept\n");
    assert_eq!(insert("INSERT OVERWRITE o", "out.csv"), (Some(0), String::new()));
    assert_eq!(fs::read_to_string(&file).unwrap(), "1\n2\n");
    // An empty file has nothing to lose.
    fs::write(&file, "").unwrap();
    assert_eq!(insert("INSERT INTO o", "out.csv").0, Some(0));
    let (code, errors) = insert("INSERT OVERWRITE o", "parts/");
    assert!(code == Some(1) && errors.contains("sink.overwrite") && errors.contains("directory"), "{errors}");
    let (code, errors) = insert("INSERT OVERWRITE p", "out.csv");
    assert!(code == Some(1) && errors.contains("MS2007") && errors.contains("'print'"), "{errors}");
    let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| !name.to_string_lossy().starts_with('.')), "{names:?}");
}

#[test]
fn a_column_that_no_record_has_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let rows: String = (0..50).map(|i| format!("{{\"id\":{i},\"price\":{},\"note\":null}}\n", i * 2)).collect();
    fs::write(folder.path().join("in.json"), rows).unwrap();
    let told = |query: &str, arguments: &[&str]| {
        let sql = format!(
            "CREATE TABLE t (id BIGINT, Price BIGINT, price BIGINT, note STRING, r ROW<x INT, y INT>)
             WITH ('connector'='filesystem', 'path'='in.json', 'format'='json'); {query}"
        );
        let output = run(folder.path(), &[&["run", "-e", &sql, "--output", "csv"], arguments].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    let note = told("SELECT id, Price FROM t;", &[]);
    assert!(note.contains("column `Price` of t is NULL in all 50 rows"), "{note}");
    let note = told("SELECT id FROM t WHERE note = 'x' AND r.y > 3;", &[]);
    assert!(note.contains("`note`") && note.contains("`r.y`"), "{note}");
    // Columns with values, and those that nobody reads, are not reported.
    assert_eq!(told("SELECT id, price FROM t;", &[]), "");
    assert_eq!(told("SELECT id, Price FROM t;", &["--quiet"]), "");
}

/// Gives checkpoints another text, with the checksum of that.
fn rewrite_checkpoints(folder: &Path, change: impl Fn(&str) -> String) {
    let folder = folder.join("state/job-1");
    let names = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let manifests: Vec<PathBuf> = names.filter(|path| path.extension().is_some_and(|e| e == "json")).collect();
    assert!(!manifests.is_empty());
    for path in manifests {
        let written = fs::read_to_string(&path).unwrap();
        let (body, _) = written.trim_end().rsplit_once('\n').unwrap();
        let changed = change(body);
        assert!(changed != body);
        fs::write(&path, format!("{changed}\nxxh3:{:016x}\n", xxhash_rust::xxh3::xxh3_64(changed.as_bytes()))).unwrap();
    }
}

#[test]
fn state_of_another_version_is_refused_with_both_numbers() {
    let job = Copying::stopped();
    let in_format = |from: &str, to: &str| {
        let (from, to) = (format!("\"format\":{from}"), format!("\"format\":{to}"));
        rewrite_checkpoints(job.folder.path(), |body| body.replacen(&from, &to, 1));
    };
    in_format("14", "15");
    job.refused("MS3012", "it has the format 15; this version reads the formats 7 to 14");
    in_format("15", "6");
    job.refused("MS3012", "it has the format 6; this version reads the formats 7 to 14");
    // The name of the job had no checksum once.
    let name = fs::read(job.path("state/job-1/job")).unwrap();
    fs::write(job.path("state/job-1/job"), "18ea61ab6b8dcc787a69").unwrap();
    job.refused("MS3012", "it has the format 6; this version reads the formats 7 to 14");
    // The format before this one is read.
    fs::write(job.path("state/job-1/job"), name).unwrap();
    in_format("6", "7");
    assert!(job.go_on().status.success());
}

#[test]
fn a_damaged_name_of_the_job_is_refused_also_without_checkpoints() {
    let job = Copying::stopped();
    let folder = job.path("state/job-1");
    let names = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    names.filter(|path| path.extension().is_some_and(|e| e == "json")).for_each(|path| fs::remove_file(path).unwrap());
    let name = fs::read_to_string(folder.join("job")).unwrap();
    fs::write(folder.join("job"), name.replacen(&name[..3], &name[..3].repeat(2), 1)).unwrap();
    job.refused("MS3012", "has no name of a job");
}

#[test]
fn slices_of_windows_that_were_fired_are_damage() {
    let folder = tempfile::tempdir().unwrap();
    let rows: String = (0..ROWS).map(|i| format!("{i},2024-01-01 00:{:02}:{:02}\n", i / 60, i % 60)).collect();
    fs::write(folder.path().join("in.csv"), rows).unwrap();
    let command = |rate: u64| {
        let sql = format!(
            "SET 'execution.checkpointing.interval' = '50 ms';
             CREATE TABLE t (v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector'='filesystem', 'path'='in.csv',
             'format'='csv', 'scan.rate-limit.rows-per-second'='{rate}');
             CREATE TABLE o (n BIGINT) WITH ('connector'='filesystem', 'path'='out/', 'format'='csv');
             INSERT INTO o SELECT COUNT(*) FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '10' SECOND))
             GROUP BY window_start, window_end;"
        );
        let mut command = millstream(folder.path());
        command.args(["run", "-e", &sql, "--quiet", "--state-dir", "state"]);
        command
    };
    let mut first = command(50).spawn().unwrap();
    let since = Instant::now();
    // Of 400 rows, so that windows have been fired and others are open.
    while rows_read(folder.path()) < 30 {
        let has_time = since.elapsed() < Duration::from_secs(20);
        assert!(has_time && first.try_wait().unwrap().is_none(), "it was not stopped in time");
    }
    assert!(run(folder.path(), &["stop", "--state-dir", "state"]).status.success());
    assert!(first.wait().unwrap().success());
    rewrite_checkpoints(folder.path(), |body| {
        let mut manifest: serde_json::Value = serde_json::from_str(body).unwrap();
        // A slice of 1970: all windows from there on would be looked at, one for each second.
        manifest["aggregations"][0]["tables"][0]["id"] = 0.into();
        manifest.to_string()
    });
    let output = command(1_000_000).output().unwrap();
    let errors = text(&output.stderr);
    assert!(output.status.code() == Some(1) && errors.contains("a slice is of windows that were fired"), "{errors}");
}
