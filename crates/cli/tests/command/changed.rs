//! Scripts that are changed while their jobs are stopped: what was kept is found again, or the change is refused.

use crate::support::millstream;
use crate::text;
use std::fs;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

const ROWS: u64 = 400;

/// Tables `t` and `u` of rows `k, v, ts` (all at one time), read slowly at first.
struct Stopped {
    folder: tempfile::TempDir,
}

const SUM: &str = "INSERT INTO sums SELECT k, SUM(v), LAST_VALUE(v) FROM
    TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY k, window_start, window_end";
const LAST: &str = "INSERT INTO lasts SELECT k, COUNT(*), LAST_VALUE(v) FROM
    TABLE(SESSION(TABLE u PARTITION BY k, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY k, window_start, window_end";

fn set(inserts: &[&str]) -> String {
    format!("EXECUTE STATEMENT SET BEGIN {}; END", inserts.join("; "))
}

impl Stopped {
    /// Runs a statement until 30 rows or more of each of so many inputs are in a checkpoint, but not all.
    fn in_the_middle_of(statement: &str, inputs: usize) -> Stopped {
        let folder = tempfile::tempdir().unwrap();
        let rows: String = (0..ROWS).map(|i| format!("{},{i},2024-01-01 00:00:00\n", i % 3)).collect();
        for name in ["t", "u"] {
            fs::create_dir(folder.path().join(name)).unwrap();
            fs::write(folder.path().join(name).join("0.csv"), &rows).unwrap();
        }
        let job = Stopped { folder };
        let mut child = job.command(statement, 50, "").spawn().unwrap();
        let since = Instant::now();
        let is_under_way = || {
            let shown = job.millstream(&["checkpoint", "show"]);
            let count = |line: &str| line.rsplit_once(" rows")?.0.rsplit(' ').next()?.parse::<u64>().ok();
            let counts: Vec<u64> = text(&shown.stdout).lines().filter_map(count).collect();
            counts.len() == inputs && counts.iter().all(|&rows| rows >= 30)
        };
        while !is_under_way() {
            let has_time = since.elapsed() < Duration::from_secs(20);
            assert!(has_time && child.try_wait().unwrap().is_none(), "it was not stopped in time");
        }
        let stopped = job.millstream(&["stop"]);
        assert!(stopped.status.success(), "{}", text(&stopped.stderr));
        assert!(child.wait().unwrap().success());
        assert!(job.rows("sums").is_empty() && job.rows("lasts").is_empty(), "it has come to its end too early");
        job
    }

    fn millstream(&self, arguments: &[&str]) -> Output {
        millstream(self.folder.path()).args(arguments).args(["--state-dir", "state"]).output().unwrap()
    }

    /// `option` is one more of every output.
    fn command(&self, statement: &str, rate: u64, option: &str) -> Command {
        let input = |name: &str| {
            format!(
                "CREATE TABLE {name} (k BIGINT, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector'='filesystem',
                 'path'='{name}/', 'format'='csv', 'scan.rate-limit.rows-per-second'='{rate}');"
            )
        };
        let output = |name: &str| {
            format!(
                "CREATE TABLE {name} (k BIGINT, a BIGINT, b BIGINT) WITH ('connector'='filesystem', 'path'='{name}/',
                 'format'='csv'{option});"
            )
        };
        let tables: String = ["t", "u"].map(input).concat() + &["sums", "lasts", "more"].map(output).concat();
        let sql = format!("SET 'execution.checkpointing.interval' = '50 ms'; {tables} {statement};");
        let mut command = millstream(self.folder.path());
        command.args(["run", "-e", &sql, "--state-dir", "state"]);
        command
    }

    /// Goes on with another statement, to its end.
    fn go_on(&self, statement: &str, option: &str) {
        let output = self.command(statement, 1_000_000, option).output().unwrap();
        let errors = text(&output.stderr).to_string();
        assert!(output.status.success(), "{statement}: {errors}");
        assert!(errors.contains("going on from checkpoint"), "{errors}");
    }

    fn rows(&self, table: &str) -> Vec<String> {
        let files = fs::read_dir(self.folder.path().join(table)).into_iter().flatten();
        let visible = files
            .map(|file| file.unwrap().path())
            .filter(|path| !path.file_name().unwrap().to_string_lossy().starts_with('.'));
        let mut rows: Vec<String> = visible
            .flat_map(|path| fs::read_to_string(path).unwrap().lines().map(String::from).collect::<Vec<_>>())
            .collect();
        rows.sort();
        rows
    }
}

/// A row of each key, made of its values.
fn by_key(row: impl Fn(u64, &[u64]) -> String) -> Vec<String> {
    (0..3)
        .map(|k| {
            let values: Vec<u64> = (0..ROWS).filter(|i| i % 3 == k).collect();
            row(k, &values)
        })
        .collect()
}

fn sums() -> Vec<String> {
    by_key(|k, values| format!("{k},{},{}", values.iter().sum::<u64>(), values.last().unwrap()))
}

fn lasts() -> Vec<String> {
    by_key(|k, values| format!("{k},{},{}", values.len(), values.last().unwrap()))
}

#[test]
fn filters_and_columns_behind_the_state_and_options_of_sinks_may_change() {
    let changes = [
        (format!("{SUM} HAVING k > 0"), "", sums().split_off(1)),
        (
            SUM.replace("SELECT k, SUM(v)", "SELECT k * 10, SUM(v) - k"),
            "",
            by_key(|k, values| format!("{},{},{}", k * 10, values.iter().sum::<u64>() - k, values.last().unwrap())),
        ),
        (SUM.into(), ", 'csv.field-delimiter'=';'", sums().iter().map(|row| row.replace(',', ";")).collect()),
    ];
    for (statement, option, expected) in changes {
        let job = Stopped::in_the_middle_of(SUM, 1);
        job.go_on(&statement, option);
        assert_eq!(job.rows("sums"), expected, "{statement}");
    }
}

#[test]
fn other_inserts_are_refused() {
    let job = Stopped::in_the_middle_of(&set(&[SUM, LAST]), 2);
    for other in
        [set(&[LAST, SUM]), set(&[SUM]), SUM.to_string(), set(&[SUM, LAST, &SUM.replace("INTO sums", "INTO more")])]
    {
        let output = job.command(&other, 1_000_000, "").output().unwrap();
        let errors = text(&output.stderr);
        assert!(output.status.code() == Some(1) && errors.contains("error[MS3013]"), "{other}: {errors}");
    }
    job.go_on(&set(&[SUM, LAST]), "");
    assert_eq!((job.rows("sums"), job.rows("lasts")), (sums(), lasts()));
}

#[test]
fn files_that_are_new_do_not_change_the_order_of_rows() {
    // The splits of the first table come before those of the second.
    let job = Stopped::in_the_middle_of(&set(&[SUM, LAST]), 2);
    for file in ["1.csv", "2.csv"] {
        fs::write(job.folder.path().join("t").join(file), "7,1,2024-01-01 00:00:00\n").unwrap();
    }
    job.go_on(&set(&[SUM, LAST]), "");
    let mut expected = sums();
    expected.push("7,2,1".into());
    assert_eq!((job.rows("sums"), job.rows("lasts")), (expected, lasts()));
}
