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
    /// Runs a statement until 30 rows or more of each of `inputs` inputs are in a checkpoint, but not all.
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
        let is_done = ["sums", "lasts"].iter().any(|table| !job.rows(table).is_empty());
        assert!(!is_done && job.rows("more").len() < ROWS as usize / 3, "it has come to its end too early");
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

    /// Continues with another statement, to its end; returns what it says.
    fn go_on(&self, statement: &str, option: &str) -> String {
        let output = self.command(statement, 1_000_000, option).output().unwrap();
        let errors = text(&output.stderr).to_string();
        assert!(output.status.success(), "{statement}: {errors}");
        assert!(errors.contains("resuming from checkpoint"), "{errors}");
        errors
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
fn inserts_of_a_set_may_change_places() {
    let job = Stopped::in_the_middle_of(&set(&[SUM, LAST]), 2);
    job.go_on(&set(&[LAST, SUM]), "");
    assert_eq!((job.rows("sums"), job.rows("lasts")), (sums(), lasts()));
}

#[test]
fn inserts_may_be_added_to_a_set_before_and_behind() {
    let more = SUM.replace("INTO sums", "INTO more").replace("SUM(v), LAST_VALUE(v)", "COUNT(*), 0");
    let plain = "INSERT INTO more SELECT k, v, 0 FROM t";
    for (added, of_rows) in [(more.as_str(), false), (plain, true)] {
        for sets in [[added, SUM, LAST], [LAST, SUM, added], [SUM, added, LAST]] {
            let job = Stopped::in_the_middle_of(&set(&[SUM, LAST]), 2);
            let errors = job.go_on(&set(&sets), "");
            assert!(errors.contains("INSERT INTO more is new: it begins behind checkpoint"), "{errors}");
            assert_eq!((job.rows("sums"), job.rows("lasts")), (sums(), lasts()), "{sets:?}");
            // It has the rows behind the checkpoint: some, and not all.
            let rows = job.rows("more");
            let count = |row: &String| row.split(',').nth(1).unwrap().parse::<u64>().unwrap();
            let seen = if of_rows { rows.len() as u64 } else { rows.iter().map(count).sum() };
            assert!(0 < seen && seen <= ROWS - 30, "{seen}: {rows:?}");
            // A set that has grown is found again, in any order.
            let again = job.command(&set(&[sets[2], sets[0], sets[1]]), 1_000_000, "").output().unwrap();
            assert!(again.status.success(), "{}", text(&again.stderr));
            assert_eq!((job.rows("sums"), job.rows("more")), (sums(), rows));
        }
    }
}

#[test]
fn inserts_of_a_script_are_found_wherever_they_stand() {
    let both = |first: &str, second: &str| format!("{first}; {second}");
    let job = Stopped::in_the_middle_of(SUM, 1);
    // The other one begins from the start, as a separate job.
    let errors = job.go_on(&both(LAST, SUM), "");
    assert!(
        errors.contains("INSERT INTO lasts is new in state, and begins from the start; there is job-1"),
        "{errors}"
    );
    assert_eq!((job.rows("sums"), job.rows("lasts")), (sums(), lasts()));
    for script in [both(SUM, LAST), both(LAST, SUM)] {
        let again = job.command(&script, 1_000_000, "").output().unwrap();
        assert!(again.status.success(), "{}", text(&again.stderr));
        assert_eq!((job.rows("sums"), job.rows("lasts")), (sums(), lasts()), "nothing is run again");
    }
}

#[test]
fn inserts_into_one_table_are_told_from_each_other() {
    let of = |filter: &str| format!("INSERT INTO more SELECT k, v, 0 FROM t WHERE {filter}");
    let (zero, one, two) = (of("k = 0"), of("k = 1"), of("k = 2"));
    let expected = |keys: &[u64]| {
        let mut rows: Vec<String> =
            (0..ROWS).filter(|i| keys.contains(&(i % 3))).map(|i| format!("{},{i},0", i % 3)).collect();
        rows.sort();
        rows
    };
    let job = Stopped::in_the_middle_of(&zero, 1);
    // A new one in front of it could be what it was changed to.
    let refused = job.command(&format!("{one}; {zero}"), 1_000_000, "").output().unwrap();
    let errors = text(&refused.stderr);
    assert!(
        refused.status.code() == Some(1) && errors.contains("several INSERTs or jobs in state write the table"),
        "{errors}"
    );
    job.go_on(&format!("{zero}; {one}"), "");
    assert_eq!(job.rows("more"), expected(&[0, 1]));
    // Each is found, in another order, and the new one behind them begins.
    let again = job.command(&format!("{one}; {zero}; {two}"), 1_000_000, "").output().unwrap();
    assert!(again.status.success(), "{}", text(&again.stderr));
    assert_eq!(job.rows("more"), expected(&[0, 1, 2]));
}

#[test]
fn sets_that_keep_something_else_are_refused() {
    let job = Stopped::in_the_middle_of(&set(&[SUM, LAST]), 2);
    let changed = set(&[LAST, &SUM.replace("SUM(v)", "MAX(v)"), "INSERT INTO more SELECT k, v, 0 FROM t"]);
    for (other, why) in [
        (set(&[SUM]), "the session aggregation by k, which the query does not have"),
        (SUM.to_string(), "the session aggregation by k, which the query does not have"),
        (changed, "its aggregates changed from SUM"),
    ] {
        let output = job.command(&other, 1_000_000, "").output().unwrap();
        let errors = text(&output.stderr);
        assert!(output.status.code() == Some(1) && errors.contains("error[MS3013]"), "{other}: {errors}");
        assert!(errors.contains(why), "{other}: {errors}");
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
