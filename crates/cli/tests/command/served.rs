//! `millstream serve`: the scripts of a directory as jobs, whatever happens to the files and the process.

use crate::serving::{Served, eventually};
use crate::support::millstream;
use crate::text;
use serde_json::Value;
use std::fs;

/// Rows of files that come, of which the text says by which script they were read.
pub fn copying(by: &str, output: &str) -> String {
    format!(
        "SET 'execution.checkpointing.interval' = '100 ms';
         CREATE TABLE t (n BIGINT) WITH ('connector'='filesystem', 'path'='in', 'format'='csv', 'source.monitor-interval'='100 ms');
         CREATE TABLE o (n BIGINT, by_text STRING) WITH ('connector'='filesystem', 'path'='out/{output}', 'format'='csv');
         INSERT INTO o SELECT n, '{by}' FROM t;"
    )
}

/// Numbers from 0, so many a second.
pub fn counting(output: &str, rate: u64, condition: &str) -> String {
    format!(
        "SET 'execution.checkpointing.interval' = '100 ms';
         CREATE TABLE s (n BIGINT, ts AS TO_TIMESTAMP_LTZ(n, 3), WATERMARK FOR ts AS ts) WITH ('connector'='datagen',
         'rows-per-second'='{rate}', 'fields.n.kind'='sequence', 'fields.n.start'='0', 'fields.n.end'='1000000000');
         CREATE TABLE w (ws TIMESTAMP(3), n BIGINT) WITH ('connector'='filesystem', 'path'='out/{output}', 'format'='csv');
         INSERT INTO w SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '0.1' SECOND))
         {condition} GROUP BY window_start, window_end;"
    )
}

impl Served {
    pub fn add_rows(&self, from: u64, to: u64) {
        let new = self.folder.join(format!("new-{from}"));
        fs::write(&new, (from..to).map(|n| format!("{n}\n")).collect::<String>()).unwrap();
        fs::rename(new, self.folder.join(format!("in/{from}.csv"))).unwrap();
    }

    pub fn error(&self, job: &str) -> String {
        self.job(job).unwrap()["error"].as_str().unwrap_or_default().to_string()
    }
}

/// The numbers that were read by each of two texts.
pub fn by_text(rows: &[String], text: &str) -> Vec<u64> {
    let mut numbers: Vec<u64> =
        rows.iter().filter_map(|row| row.strip_suffix(&format!(",{text}"))?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn a_broken_file_is_seen_and_takes_nobody_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut served = Served::new(folder.path());
    served.add_rows(0, 100);
    served.write("good", &copying("good", "good"));
    served.write(
        "broken",
        "CREATE TABLE t (n BIGINT) WITH ('connector'='datagen');\nINSERT INTO nowhere SELECT m FROM t;",
    );
    served.write("rows", "SELECT 1");
    served.write("nothing", "SET 'pipeline.name' = 'x'");
    served.write("elsewhere", &format!("SET 'execution.checkpointing.dir' = 'other'; {}", copying("x", "x")));
    fs::write(served.script("_left_out"), "no SQL at all").unwrap();
    served.start();
    served.until_is("good", "running");
    assert_eq!(served.until_rows("good", 100).len(), 100);
    for (job, words) in [
        ("broken", ["jobs/broken.sql", "MS2002"]),
        ("rows", ["nobody would see", "millstream run"]),
        ("nothing", ["no INSERT", "_common.sql"]),
        ("elsewhere", ["not for its script to choose", "jobs/.state/elsewhere"]),
    ] {
        served.until_is(job, "failed");
        assert!(words.iter().all(|word| served.error(job).contains(word)), "{job}: {}", served.error(job));
    }
    assert_eq!(served.jobs().len(), 5, "{:?}", served.jobs());
    assert!(served.log().contains("broken: error[MS2002]"), "{}", served.log());
    // It is corrected, and runs.
    served.write("broken", &copying("corrected", "broken"));
    served.until_is("broken", "running");
    let rows = served.until_rows("broken", 100);
    assert_eq!(by_text(&rows, "corrected"), (0..100).collect::<Vec<_>>());
    assert_eq!(served.error("broken"), "");
    assert_eq!(served.job("good").unwrap()["restarts"], 0);
    // No SQL comes in over HTTP where nothing is said of it.
    for path in ["/api/v1/jobs", "/api/v1/sql", "/api/v1/jobs/good", "/api/v1/statements"] {
        let (status, body) = served.ask("POST", path);
        assert!([404, 405].contains(&status), "{path}: {status} {body}");
    }
    for method in ["PUT", "DELETE", "POST", "GET"] {
        let (status, body) = served.ask(method, "/api/v1/scripts/good");
        assert!(status == 403 && body.contains("--allow-submit"), "{method}: {status} {body}");
    }
    let (code, log) = served.terminate();
    assert_eq!(code, Some(0), "{log}");
}

#[test]
fn a_change_of_a_file_is_applied_from_the_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let mut served = Served::new(folder.path());
    served.add_rows(0, 100);
    served.write("copy", &copying("old", "copy"));
    served.start();
    served.until_rows("copy", 100);
    // A file that is broken changes nothing, and neither does the process that dies with it.
    served.write("copy", "INSERT INTO");
    let refused = |job: &Value| job["error"].as_str().is_some_and(|error| error.contains("MS2001"));
    served.until("copy", |job| job["state"] == "running" && refused(job));
    served.add_rows(100, 200);
    served.until_rows("copy", 200);
    served.kill();
    served.start();
    served.until("copy", |job| job["state"] == "running" && refused(job));
    served.add_rows(200, 300);
    served.until_rows("copy", 300);
    // One that cannot be begun is seen only then.
    served.write("copy", &copying("lost", "copy").replace("'path'='in'", "'path'='nowhere'"));
    let refused = |job: &Value| job["error"].as_str().is_some_and(|error| error.contains("MS4001"));
    served.until("copy", |job| job["state"] == "running" && refused(job));
    // Comments change nothing, either.
    served.write("copy", &format!("-- A comment\n{}", copying("old", "copy")));
    served.tells("says the same in other words");
    let before = served.job("copy").unwrap();
    assert_eq!((before["state"].as_str(), before["error"].as_str()), (Some("running"), None), "{}", served.log());
    let resumed = || served.log().matches("resuming from checkpoint").count();
    let before = resumed();
    served.write("copy", &copying("new", "copy"));
    eventually(&|| format!("it resumes\n{}", served.log()), || (resumed() > before).then_some(()));
    served.add_rows(300, 400);
    let rows = served.until_rows("copy", 400);
    let (code, log) = served.terminate();
    assert_eq!(code, Some(0), "{log}");
    assert_eq!(by_text(&rows, "old"), (0..300).collect::<Vec<_>>());
    assert_eq!(by_text(&rows, "new"), (300..400).collect::<Vec<_>>());
    assert_eq!(served.rows("copy"), rows);
}

#[test]
fn a_change_that_does_not_fit_the_state_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut served = Served::new(folder.path());
    served.write("count", &counting("count", 5_000, ""));
    served.start();
    served.until_rows("count", 3);
    served.write("count", &counting("count", 5_000, "WHERE n > 10"));
    let job = served.until("count", |job| job["error"].is_string());
    let error = job["error"].as_str().unwrap();
    assert!(error.contains("MS3013") && error.contains("the filter before it changed"), "{error}");
    assert_eq!(job["state"], "running", "{}", served.log());
    let count = served.rows("count").len();
    served.until_rows("count", count + 5);
    assert!(!served.log().contains("resuming"), "the old text was not stopped: {}", served.log());
    let (code, log) = served.terminate();
    assert_eq!(code, Some(0), "{log}");
    let rows = served.rows("count");
    assert!(rows.iter().all(|row| row.ends_with(",100")), "{rows:?}");
}

#[test]
fn a_job_that_is_stopped_stays_so() {
    let folder = tempfile::tempdir().unwrap();
    let mut served = Served::new(folder.path());
    served.add_rows(0, 10);
    for job in ["by-http", "by-command", "goes"] {
        served.write(job, &copying("x", job));
    }
    served.start();
    for job in ["by-http", "by-command", "goes"] {
        served.until_rows(job, 10);
        served.until_is(job, "running");
    }
    let (status, answer) = served.ask("POST", "/api/v1/jobs/by-http/stop");
    assert!((200..300).contains(&status) && answer.contains("stays stopped"), "{status} {answer}");
    let command = |words: &[&str]| {
        let output = millstream(folder.path()).args(words).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
    };
    command(&["checkpoint", "create", "--state-dir", "jobs/.state/by-command"]);
    command(&["stop", "--state-dir", "jobs/.state/by-command"]);
    // Its file goes, and the state stays.
    served.remove("goes");
    let gone = || served.job("goes").is_none().then_some(());
    eventually(&|| format!("goes goes\n{}", served.log()), gone);
    for again in [false, true] {
        if again {
            assert_eq!(served.terminate().0, Some(0));
            served.start();
        }
        served.until_is("by-http", "stopped");
        served.until_is("by-command", "stopped");
    }
    let (status, answer) = served.ask("POST", "/api/v1/jobs/by-http/stop");
    assert!(status == 409 && answer.contains("touch its file"), "{status} {answer}");
    served.add_rows(10, 20);
    served.write("goes", &copying("x", "goes"));
    served.until_rows("goes", 20);
    assert_eq!((served.rows("by-http").len(), served.rows("by-command").len()), (10, 10));
    // Touched, they resume.
    for job in ["by-http", "by-command"] {
        fs::File::options()
            .write(true)
            .open(served.script(job))
            .unwrap()
            .set_modified(std::time::SystemTime::now())
            .unwrap();
        served.until_rows(job, 20);
    }
    let (code, log) = served.terminate();
    assert_eq!(code, Some(0), "{log}");
    for job in ["by-http", "by-command", "goes"] {
        assert_eq!(by_text(&served.rows(job), "x"), (0..20).collect::<Vec<_>>(), "{job}");
    }
}

#[test]
fn a_process_that_is_killed_loses_and_repeats_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut served = Served::new(folder.path());
    for job in ["a", "b"] {
        served.write(job, &counting(job, 5_000, ""));
    }
    for round in 1..=4 {
        served.start();
        ["a", "b"].into_iter().for_each(|job| drop(served.until_rows(job, round * 5)));
        served.kill();
    }
    served.start();
    ["a", "b"].into_iter().for_each(|job| drop(served.until_rows(job, 25)));
    let (code, log) = served.terminate();
    assert_eq!(code, Some(0), "{log}");
    for job in ["a", "b"] {
        let rows = served.rows(job);
        let mut windows: Vec<&str> = rows.iter().map(|row| row.strip_suffix(",100").expect(row)).collect();
        windows.dedup();
        assert_eq!(windows.len(), rows.len(), "{job}: a window is there once");
        assert!(rows[0].starts_with("1970-01-01 00:00:00"), "{rows:?}");
    }
}

#[test]
fn memory_is_shared_by_those_that_run() {
    let folder = tempfile::tempdir().unwrap();
    let mut served = Served::new(folder.path());
    served.options = vec!["--memory".into(), "130 MiB".into()];
    served.write("a", &counting("a", 1_000, ""));
    served.start();
    let mib = |job: &Value| job["memory_limit_bytes"].as_u64().unwrap_or_default() >> 20;
    served.until("a", |job| mib(job) == 130);
    served.write("b", &counting("b", 1_000, ""));
    served.until("b", |job| mib(job) == 65);
    assert_eq!(mib(&served.job("a").unwrap()), 65, "without a restart");
    served.write("c", &counting("c", 1_000, ""));
    let waits = |job: &Value| job["error"].as_str().is_some_and(|error| error.contains("enough for 2 jobs"));
    served.until("c", |job| job["state"] == "starting" && waits(job));
    served.remove("a");
    served.until("c", |job| job["state"] == "running" && mib(job) == 65 && job["error"].is_null());
    served.remove("b");
    served.until("c", |job| mib(job) == 130);
    assert!(!served.log().contains("resuming"), "{}", served.log());
}

#[test]
fn a_job_that_fails_for_ever_is_seen_and_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut served = Served::new(folder.path());
    served.add_rows(0, 10);
    served.write("fails", &copying("x", "fails").replace("SELECT n,", "SELECT 100 / (n - 5),"));
    served.write("good", &copying("x", "good"));
    served.start();
    let failed = |job: &Value| job["error"].as_str().is_some_and(|error| error.contains("MS3002"));
    served.until("fails", |job| job["state"] == "failed" && failed(job));
    served.until("fails", |job| failed(job) && job["restarts"].as_u64() > Some(1));
    served.tells("fails: note: the job has failed; it is tried again in 2.0 s");
    assert_eq!(served.until_rows("good", 10).len(), 10);
    served.write("fails", &copying("y", "fails").replace("SELECT n,", "SELECT 100 / NULLIF(n - 5, 0),"));
    assert_eq!(served.until_rows("fails", 10).len(), 10);
    served.until("fails", |job| job["error"].is_null());
}

#[test]
fn changes_leave_no_threads_and_files_behind() {
    let folder = tempfile::tempdir().unwrap();
    let mut served = Served::new(folder.path());
    served.add_rows(0, 10);
    served.write("a", &copying("0", "a"));
    served.write("b", &counting("b", 1_000, ""));
    served.start();
    let held = |served: &Served| {
        let count = |what: &str| fs::read_dir(format!("/proc/{}/{what}", served.id())).unwrap().count();
        (count("task"), count("fd"))
    };
    let change = |round: u64| {
        served.write("a", &copying(&round.to_string(), "a"));
        served.add_rows(round * 10, round * 10 + 10);
        served.until_rows("a", round as usize * 10 + 10);
    };
    // What threads and files there are for the process is known when one change has been made.
    change(1);
    let before = held(&served);
    (2..12).for_each(change);
    // A request and a run may be ending just now.
    let what = || format!("{before:?} threads and files before, {:?} after", held(&served));
    eventually(&what, || (held(&served).0 <= before.0 && held(&served).1 <= before.1).then_some(()));
    let rows = served.rows("a");
    let numbers: Vec<u64> = {
        let mut numbers: Vec<u64> = rows.iter().map(|row| row.split(',').next().unwrap().parse().unwrap()).collect();
        numbers.sort_unstable();
        numbers
    };
    assert_eq!(numbers, (0..120).collect::<Vec<_>>());
}

#[test]
fn a_state_belongs_to_one_service() {
    let folder = tempfile::tempdir().unwrap();
    let mut served = Served::new(folder.path());
    served.write("a", &counting("a", 1_000, ""));
    served.start();
    let output = millstream(folder.path()).args(["serve", "jobs"]).output().unwrap();
    let errors = text(&output.stderr);
    assert!(output.status.code() == Some(2) && errors.contains("MS3015") && errors.contains("another"), "{errors}");
    // Logs are for machines where there is no terminal.
    let error: Value = serde_json::from_str(errors.lines().last().unwrap()).unwrap();
    assert_eq!(error["level"], "ERROR");
    let output = millstream(folder.path()).args(["serve", "nowhere"]).output().unwrap();
    assert!(output.status.code() == Some(2) && text(&output.stderr).contains("no such directory"));
}

#[test]
fn definitions_and_settings_are_shared() {
    let folder = tempfile::tempdir().unwrap();
    let mut served = Served::new(folder.path());
    served.add_rows(0, 10);
    let script = copying("x", "both");
    let (common, insert) = script.split_at(script.find("INSERT").unwrap());
    fs::write(served.script("_common"), common).unwrap();
    fs::write(folder.path().join("jobs/millstream.toml"), "[var]\nwho = \"toml\"\n").unwrap();
    let second = "CREATE TABLE p (n BIGINT) WITH ('connector'='filesystem', 'path'='out/second', 'format'='csv'); ";
    let insert = insert.replace("'x'", "'${who}'");
    served.write("two", &format!("{second}{insert} INSERT INTO p SELECT n FROM t;"));
    served.start();
    served.until_is("two.o", "running");
    served.until_is("two.p", "running");
    assert_eq!(by_text(&served.until_rows("both", 10), "toml"), (0..10).collect::<Vec<_>>());
    assert_eq!(served.until_rows("second", 10).len(), 10);
    assert_eq!(served.job("two.p").unwrap()["file"], "jobs/two.sql");
    // Of all jobs the definitions change.
    fs::write(served.script("_common"), "INSERT INTO o SELECT 1").unwrap();
    served.until("two.o", |job| job["error"].as_str().is_some_and(|error| error.contains("would run with each job")));
    assert_eq!(served.job("two.o").unwrap()["state"], "running");
}
