//! Jobs of `millstream serve` that would write the same files: the second one is kept out until the first one has gone.

use crate::served::{by_text, copying};
use crate::serving::{Served, eventually};
use serde_json::Value;
use std::fs;

/// Another job writes what this one would.
fn is_kept_out_by(job: &Value, other: &str) -> bool {
    job["error"].as_str().is_some_and(|error| error.contains("MS4015") && error.contains(&format!("job {other} ")))
}

impl Served {
    /// Until a job has failed because of another one; why.
    fn until_kept_out(&self, job: &str, other: &str) -> String {
        let found = self.until(job, |job| job["state"] == "failed" && is_kept_out_by(job, other));
        found["error"].as_str().unwrap().to_string()
    }

    fn until_gone(&self, job: &str) {
        let is_gone = || self.job(job).is_none().then_some(());
        eventually(&|| format!("{job} is gone\n{}", self.log()), is_gone);
    }

    fn runs_with(&self, job: &str, rows: usize) {
        self.writes(job, job, rows);
    }

    fn writes(&self, job: &str, output: &str, rows: usize) {
        self.until(job, |found| found["state"] == "running" && found["error"].is_null());
        self.until_rows(output, rows);
    }
}

#[test]
fn a_second_job_waits_for_the_first_to_go() {
    let folder = tempfile::tempdir().unwrap();
    let mut served = Served::new(folder.path());
    served.add_rows(0, 10);
    std::os::unix::fs::symlink("out", folder.path().join("link")).unwrap();
    served.write("first", &copying("first", "first"));
    served.start();
    served.runs_with("first", 10);
    let path = fs::canonicalize(folder.path().join("out/first")).unwrap();
    let path = path.display();
    // The same, a directory in it, a file in it, what it is in, and the same by another way.
    for (output, words) in [
        ("first", format!("writes '{path}' as well")),
        ("first/inner", format!("'{path}/inner' is in '{path}'")),
        ("first/rows.csv", format!("'{path}/rows.csv' is in '{path}'")),
        ("", format!("has '{path}' in it")),
        ("nowhere/.././first", format!("writes '{path}' as well")),
        ("../link/first", format!("writes '{path}' as well")),
    ] {
        served.write("second", &copying("second", output));
        let is_so = |job: &Value| is_kept_out_by(job, "first") && job["error"].as_str().unwrap().contains(&words);
        let job = served.until("second", |job| job["state"] == "failed" && is_so(job));
        assert!(job["error"].as_str().unwrap().contains("remove the script of the other job"), "{job}");
    }
    // Others write beside it, and devices take the output of several.
    served.write("other", &copying("other", "other"));
    for job in ["null", "null-too"] {
        served.write(job, &copying("x", "null").replace("out/null", "/dev/null"));
        served.until(job, |job| job["state"] == "running" && job["error"].is_null());
    }
    served.runs_with("other", 10);
    served.write("second", &copying("second", "first"));
    served.until_kept_out("second", "first");
    assert_eq!(served.job("first").unwrap()["restarts"], 0);
    served.add_rows(10, 20);
    let rows = served.until_rows("first", 20);
    assert_eq!(by_text(&rows, "first"), (0..20).collect::<Vec<_>>());
    served.remove("first");
    served.until("second", |job| job["state"] == "running" && job["error"].is_null());
    let rows = served.until_rows("first", 40);
    assert_eq!(by_text(&rows, "second"), (0..20).collect::<Vec<_>>());
    // Now it is the other way round.
    served.write("first", &copying("back", "first"));
    served.until_kept_out("first", "second");
    let (code, log) = served.terminate();
    assert_eq!(code, Some(0), "{log}");
}

#[test]
fn a_changed_text_that_writes_what_another_job_writes_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut served = Served::new(folder.path());
    served.add_rows(0, 10);
    served.write("first", &copying("first", "first"));
    served.write("second", &copying("old", "second"));
    served.start();
    served.runs_with("first", 10);
    served.runs_with("second", 10);
    served.write("second", &copying("new", "first"));
    served.until("second", |job| job["state"] == "running" && is_kept_out_by(job, "first"));
    served.add_rows(10, 20);
    assert_eq!(by_text(&served.until_rows("second", 20), "old"), (0..20).collect::<Vec<_>>());
    assert!(!served.log().contains("resuming"), "the old text was not stopped: {}", served.log());
    // The first one moves away, so the new text can be run.
    served.write("first", &copying("first", "third"));
    served.until("second", |job| job["state"] == "running" && job["error"].is_null());
    served.add_rows(20, 30);
    assert_eq!(by_text(&served.until_rows("first", 30), "new"), (20..30).collect::<Vec<_>>());
    assert_eq!(by_text(&served.until_rows("third", 10), "first"), (20..30).collect::<Vec<_>>());
    let (code, log) = served.terminate();
    assert_eq!(code, Some(0), "{log}");
}

#[test]
fn who_was_first_is_so_when_the_service_is_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut served = Served::new(folder.path());
    served.add_rows(0, 10);
    served.write("z", &copying("z", "z"));
    served.start();
    served.runs_with("z", 10);
    served.write("a", &copying("a", "z"));
    served.until_kept_out("a", "z");
    served.kill();
    served.start();
    served.runs_with("z", 10);
    served.until_kept_out("a", "z");
    // One that is stopped resumes where it has written.
    let (status, answer) = served.ask("POST", "/api/v1/jobs/z/stop");
    assert_eq!(status, 202, "{answer}");
    served.until_is("z", "stopped");
    assert_eq!(served.terminate().0, Some(0));
    served.start();
    served.until_is("z", "stopped");
    served.until_kept_out("a", "z");
    served.remove("z");
    served.until("a", |job| job["state"] == "running" && job["error"].is_null());
    assert_eq!(by_text(&served.until_rows("z", 20), "a"), (0..10).collect::<Vec<_>>());
}

#[test]
fn a_job_whose_place_another_has_taken_does_not_get_it_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut served = Served::new(folder.path());
    served.add_rows(0, 10);
    served.write("a", &copying("a", "shared"));
    served.start();
    served.writes("a", "shared", 10);
    served.remove("a");
    served.until_gone("a");
    served.write("b", &copying("b", "shared"));
    served.writes("b", "shared", 20);
    served.write("a", &copying("a", "shared"));
    served.until_kept_out("a", "b");
    // The name that comes first is not the one that was there last.
    for _ in 0..2 {
        served.kill();
        served.start();
        served.writes("b", "shared", 20);
        served.until_kept_out("a", "b");
    }
    assert_eq!(served.terminate().0, Some(0));
}

/// The first insert ends before the second one begins.
#[test]
fn what_later_inserts_of_a_script_write_is_taken_too() {
    let folder = tempfile::tempdir().unwrap();
    let mut served = Served::new(folder.path());
    served.add_rows(0, 10);
    fs::write(folder.path().join("some.csv"), "1\n2\n").unwrap();
    let first = "CREATE TABLE some (n BIGINT) WITH ('connector'='filesystem', 'path'='some.csv', 'format'='csv');
         CREATE TABLE before (n BIGINT) WITH ('connector'='filesystem', 'path'='out/before', 'format'='csv');
         INSERT INTO before SELECT n FROM some;";
    served.write("first", &format!("{first}\n{}", copying("first", "later")));
    served.start();
    served.until_rows("later", 10);
    for output in ["before", "later"] {
        served.write("second", &copying("second", output));
        served.until_kept_out("second", "first");
    }
    for _ in 0..2 {
        assert_eq!(served.terminate().0, Some(0));
        served.start();
        served.until_kept_out("second", "first");
        served.until_rows("later", 10);
    }
    served.remove("first");
    served.writes("second", "later", 20);
    assert_eq!(served.terminate().0, Some(0));
}
