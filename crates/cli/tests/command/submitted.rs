//! `millstream serve --allow-submit`: scripts that come in over HTTP, and who is refused.

use crate::served::{by_text, copying, counting};
use crate::serving::{Served, eventually};
use crate::support::millstream;
use crate::text;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const TOKEN: &str = "0123456789abcdef";

/// A service that takes scripts from who has the token.
fn taking_scripts(folder: &Path) -> Served {
    let mut served = Served::new(folder);
    fs::write(folder.join("token"), TOKEN).unwrap();
    served.options = ["--allow-submit", "--http-token-file", "token"].map(String::from).to_vec();
    served.token = Some(TOKEN.into());
    served.start();
    served
}

impl Served {
    fn submit(&self, name: &str, sql: &str) -> (u16, String) {
        self.send("PUT", &format!("/api/v1/scripts/{name}"), sql)
    }

    fn accepts(&self, name: &str, sql: &str) {
        let (status, answer) = self.submit(name, sql);
        assert_eq!(status, 202, "{answer}\n{}", self.log());
    }

    /// Code and message of what is wrong with a script.
    fn refuses(&self, name: &str, sql: &str) -> (String, String) {
        let (status, answer) = self.submit(name, sql);
        assert_eq!(status, 422, "{answer}\n{}", self.log());
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let text = |key: &str| answer["error"][key].as_str().unwrap_or_default().to_string();
        (text("code"), text("message") + "; " + &text("advice"))
    }

    /// What is in its directory, hidden or not.
    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.join("jobs")).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn a_script_comes_in_changes_and_goes() {
    let folder = tempfile::tempdir().unwrap();
    let mut served = taking_scripts(folder.path());
    served.add_rows(0, 100);
    served.accepts("copy", &format!("-- hunter2\n{}", copying("old", "copy")));
    served.until_rows("copy", 100);
    let mode = fs::metadata(served.script("copy")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it may have passwords");
    served.until_is("copy", "running");
    let resumed = || served.log().matches("resuming from checkpoint").count();
    // What is refused changes neither the file nor the job.
    let before = fs::read_to_string(served.script("copy")).unwrap();
    for (sql, words) in [
        ("INSERT INTO", ["MS2001", "jobs/copy.sql"]),
        ("", ["MS1006", "no INSERT"]),
        ("SELECT 1", ["MS1006", "nobody would see"]),
        ("SET 'execution.checkpointing.dir' = 'other'", ["MS1006", "not for its script to choose"]),
        (
            "CREATE TABLE t (n BIGINT) WITH ('connector'='datagen');\nINSERT INTO nowhere SELECT n FROM t;",
            ["MS2002", "nowhere"],
        ),
        ("INSERT INTO o SELECT '${NOBODY_HAS_THIS}'", ["MS1005", "NOBODY_HAS_THIS"]),
    ] {
        let (code, message) = served.refuses("copy", sql);
        assert!(words.iter().all(|word| code == *word || message.contains(word)), "{sql}: {code} {message}");
    }
    served.refuses("new", "INSERT INTO");
    let (code, message) = served.refuses("second", &copying("x", "copy"));
    assert!(code == "MS4015" && message.contains("the job copy writes"), "{code} {message}");
    assert_eq!(fs::read_to_string(served.script("copy")).unwrap(), before);
    assert_eq!(served.files(), [".state", "copy.sql"]);
    let job = served.job("copy").unwrap();
    assert_eq!((&job["state"], &job["error"], resumed()), (&"running".into(), &Value::Null, 0), "{}", served.log());
    served.add_rows(100, 200);
    served.until_rows("copy", 200);
    // One that can be run resumes.
    served.accepts("copy", &copying("new", "copy"));
    eventually(&|| format!("it resumes\n{}", served.log()), || (resumed() > 0).then_some(()));
    served.until_is("copy", "running");
    served.add_rows(200, 300);
    let rows = served.until_rows("copy", 300);
    assert_eq!(by_text(&rows, "old"), (0..200).collect::<Vec<_>>());
    assert_eq!(by_text(&rows, "new"), (200..300).collect::<Vec<_>>());
    // It goes, and its state stays.
    let (status, answer) = served.ask("DELETE", "/api/v1/scripts/copy");
    assert!(status == 202 && answer.contains("stops with a checkpoint"), "{status} {answer}");
    eventually(&|| format!("it stops\n{}", served.log()), || served.job("copy").is_none().then_some(()));
    let (status, answer) = served.ask("DELETE", "/api/v1/scripts/copy");
    assert!(status == 404 && answer.contains("no script"), "{status} {answer}");
    served.add_rows(300, 400);
    served.accepts("copy", &copying("back", "copy"));
    let rows = served.until_rows("copy", 400);
    let (code, log) = served.terminate();
    assert_eq!(code, Some(0), "{log}");
    assert_eq!(by_text(&rows, "back"), (300..400).collect::<Vec<_>>());
    assert_eq!(served.rows("copy"), rows);
    assert_eq!(served.files(), [".state", "copy.sql"]);
    // Who has asked for what is written down, and no text.
    for words in [
        "submit script \"copy\": the script is written, and its job starts",
        "submit script \"copy\": refused: MS2001",
        "submit script \"new\": refused: MS2001",
        "submit script \"copy\": the script is written, and its job resumes",
        "remove script \"copy\": the script is removed",
    ] {
        assert!(log.contains(words), "{words} in\n{log}");
    }
    assert!(!log.contains("hunter2") && !log.contains("NOBODY_HAS_THIS") && !log.contains(TOKEN), "{log}");
}

#[test]
fn a_script_that_does_not_fit_the_state_is_refused_before_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let served = taking_scripts(folder.path());
    fs::write(served.script("_common"), "SET 'pipeline.name' = 'common';").unwrap();
    served.accepts("count", &counting("count", 5_000, ""));
    served.until_rows("count", 3);
    let (code, message) = served.refuses("count", &counting("count", 5_000, "WHERE n > 10"));
    assert!(code == "MS3013" && message.contains("the filter before it changed"), "{code} {message}");
    assert!(!fs::read_to_string(served.script("count")).unwrap().contains("WHERE"));
    // What all scripts have in front of them is looked at as well.
    fs::write(served.script("_common"), "INSERT INTO o SELECT 1").unwrap();
    let (_, message) = served.refuses("other", &counting("other", 5_000, ""));
    assert!(message.contains("jobs/_common.sql") && message.contains("would run with each job"), "{message}");
    served.until("count", |job| job["state"] == "running");
    assert!(!served.log().contains("resuming"), "{}", served.log());
}

#[test]
fn names_that_lead_elsewhere_and_large_texts_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut served = taking_scripts(folder.path());
    served.add_rows(0, 10);
    let sql = copying("x", "x");
    fs::write(folder.path().join("kept.sql"), "kept").unwrap();
    let long = "x".repeat(252);
    for name in [
        "..%2Fkept",
        "..%2F..%2Fetc%2Fx",
        "%2e%2e%2fkept",
        ".hidden",
        "_common",
        "a%2Fb",
        "a%00b",
        "a%0Ab",
        "%2Ftmp%2Fx",
        &long,
    ] {
        let (status, answer) = served.submit(name, &sql);
        assert_eq!(status, 400, "{name}: {answer}");
        let (status, answer) = served.ask("DELETE", &format!("/api/v1/scripts/{name}"));
        assert_eq!(status, 400, "{name}: {answer}");
    }
    for path in ["/api/v1/scripts/", "/api/v1/scripts/../kept", "/api/v1/scripts/a/b", "/api/v1/scripts/../../kept"] {
        let (status, answer) = served.send("PUT", path, &sql);
        assert_eq!(status, 404, "{path}: {answer}");
    }
    let (status, answer) = served.submit("large", &format!("{sql}{}", " ".repeat(2 << 20)));
    assert!(status == 413 && answer.contains("1024 KiB"), "{status} {answer}");
    assert_eq!(served.files(), [".state"]);
    assert_eq!(fs::read_to_string(folder.path().join("kept.sql")).unwrap(), "kept");
    for token in [None, Some("0123456789abcdeF".to_string())] {
        served.token = token;
        assert_eq!(served.submit("job", &sql).0, 401);
        assert_eq!(served.ask("DELETE", "/api/v1/scripts/job").0, 401);
    }
    assert_eq!(served.files(), [".state"]);
    // A name with other characters is a name, and the longest that there can be, too.
    served.token = Some(TOKEN.into());
    served.accepts("%C3%BC%20%28x%29", &copying("x", "umlaut"));
    assert_eq!(served.until_rows("umlaut", 10).len(), 10);
    served.until_is("ü (x)", "running");
    served.accepts(&long[1..], &copying("x", "long"));
    assert_eq!(served.until_rows("long", 10).len(), 10);
}

#[test]
fn scripts_are_taken_with_the_flag_and_a_token_only() {
    let folder = tempfile::tempdir().unwrap();
    let mut served = Served::new(folder.path());
    fs::write(folder.path().join("token"), TOKEN).unwrap();
    served.options = ["--http-token-file", "token"].map(String::from).to_vec();
    served.token = Some(TOKEN.into());
    served.start();
    for method in ["PUT", "DELETE"] {
        let (status, answer) = served.send(method, "/api/v1/scripts/a", &copying("x", "a"));
        assert!(status == 403 && answer.contains("--allow-submit"), "{method}: {status} {answer}");
    }
    assert_eq!(served.terminate().0, Some(0));
    for (options, words) in [
        (&["--allow-submit"][..], "--allow-submit without --http"),
        (&["--allow-submit", "--http-token-file", "token"], "--allow-submit without --http"),
        (&["--allow-submit", "--http", "0"], "--allow-submit without a token"),
        (&["--allow-submit", "--http", "0.0.0.0:0"], "--allow-submit without a token"),
    ] {
        let output =
            millstream(folder.path()).args(["serve", "jobs", "--log-format", "text"]).args(options).output().unwrap();
        let errors = text(&output.stderr);
        assert!(output.status.code() == Some(2) && errors.contains("MS1006") && errors.contains(words), "{errors}");
        assert!(errors.contains("--http-token-file"), "{errors}");
    }
    let output = millstream(folder.path()).args(["run", "-e", "SELECT 1", "--allow-submit"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
}
