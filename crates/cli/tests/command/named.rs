//! Names of jobs and of savepoints, and checkpoints of earlier builds.

use crate::folders::copy;
use crate::support::millstream;
use crate::{ended, text};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn run(folder: &Path, arguments: &[&str]) -> Output {
    millstream(folder).args(arguments).output().unwrap()
}

/// Standard output of a command that has to work.
fn told(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Standard error of a command that has to fail.
fn refused(folder: &Path, arguments: &[&str], code: &str) -> String {
    let output = run(folder, arguments);
    let errors = text(&output.stderr);
    assert!(!output.status.success() && errors.contains(code), "{arguments:?}: {errors}");
    errors
}

/// The lines of all files of a folder, in order.
fn lines(folder: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        // What is written and not yet committed has a name with a dot in front.
        if path.file_name().is_some_and(|name| !name.to_string_lossy().starts_with('.')) {
            lines.extend(fs::read_to_string(path).unwrap().lines().map(String::from));
        }
    }
    lines.sort_unstable();
    lines
}

/// Every checkpoint that `scripts/keep_checkpoints.sh` has kept, of this format and of those before.
#[test]
fn kept_checkpoints_of_earlier_builds_are_resumed() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/checkpoints");
    let formats: Vec<PathBuf> = fs::read_dir(&kept).unwrap().map(|entry| entry.unwrap().path()).collect();
    let formats = formats.iter().filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("format-"));
    let tables = fs::read_to_string(kept.join("tables.sql")).unwrap();
    let mut resumed = 0;
    for job in formats.flat_map(|format| fs::read_dir(format).unwrap()).map(|entry| entry.unwrap().path()) {
        let folder = tempfile::tempdir().unwrap();
        copy(&job, folder.path());
        let name = job.file_name().unwrap().to_string_lossy();
        let script = fs::read_to_string(kept.join(format!("jobs/{name}.sql"))).unwrap();
        fs::write(folder.path().join("job.sql"), tables.clone() + &script).unwrap();
        fs::copy(kept.join("categories.csv"), folder.path().join("categories.csv")).unwrap();
        told(folder.path(), &["checkpoint", "verify", "--state-dir", "state"]);
        let output = run(folder.path(), &["run", "job.sql", "--state-dir", "state", "--var", "LIMITED=false"]);
        let errors = text(&output.stderr);
        assert!(output.status.success() && errors.contains("resuming from checkpoint"), "{}: {errors}", job.display());
        let mut rows = lines(&folder.path().join("rows"));
        rows.extend(["steps", "best", "items"].iter().flat_map(|name| lines(&folder.path().join(name))));
        rows.sort_unstable();
        let expected = fs::read_to_string(job.join("expected")).unwrap();
        let mut expected: Vec<&str> = expected.lines().collect();
        expected.sort_unstable();
        assert_eq!(rows, expected, "{}", job.display());
        resumed += 1;
    }
    assert!(resumed >= 10, "{resumed}");
}

/// A job that copies numbers, fast or so slowly that it can be met.
struct Numbers {
    folder: tempfile::TempDir,
}

const ROWS: usize = 400;

impl Numbers {
    fn new() -> Numbers {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("in.csv"), (0..ROWS).map(|i| format!("{i}\n")).collect::<String>()).unwrap();
        Numbers { folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// `{insert}` reads `t` and writes `a` or `b`.
    fn command(&self, rate: usize, inserts: &str) -> Command {
        let table = |name: &str| {
            format!(
                "CREATE TABLE {name} (k BIGINT) WITH ('connector'='filesystem', 'path'='{name}', 'format'='csv');\n"
            )
        };
        let sql = format!(
            "SET 'execution.checkpointing.interval' = '50 ms';
             CREATE TABLE t (k BIGINT) WITH ('connector'='filesystem', 'path'='in.csv', 'format'='csv',
             'scan.rate-limit.rows-per-second'='{rate}');
             {}{}{inserts}",
            table("a"),
            table("b"),
        );
        let mut command = millstream(self.path());
        command.args(["run", "-e", &sql, "--state-dir", "state"]).stdout(Stdio::null());
        command
    }

    fn start(&self, inserts: &str) -> Child {
        let child = self.command(100, inserts).spawn().unwrap();
        let since = Instant::now();
        while self.read() < 10 {
            assert!(since.elapsed() < Duration::from_secs(20), "no checkpoint");
            std::thread::sleep(Duration::from_millis(20));
        }
        child
    }

    /// Rows before the newest checkpoint.
    fn read(&self) -> usize {
        let shown = text(&run(self.path(), &["checkpoint", "show", "--state-dir", "state"]).stdout);
        let count = |line: &str| line.split_once(" rows")?.0.rsplit(' ').next()?.parse().ok();
        shown.lines().find_map(count).unwrap_or(0)
    }

    fn finish(&self, inserts: &str) -> String {
        let output = self.command(1_000_000, inserts).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stderr)
    }

    fn all(&self) -> Vec<String> {
        let mut all: Vec<String> = (0..ROWS).map(|i| i.to_string()).collect();
        all.sort_unstable();
        all
    }
}

#[test]
fn a_job_with_a_name_is_found_by_it() {
    let job = Numbers::new();
    let insert = |from: &str| format!("INSERT INTO a SELECT k FROM t{from};");
    let child = job.start(&insert(""));
    told(job.path(), &["stop", "--state-dir", "state"]);
    assert_eq!(ended(child).0, Some(0));

    // It had no name until now; behind another INSERT into the same table only its name tells which it is.
    let named = |name: &str, insert: &str| format!("SET 'pipeline.name' = '{name}';\n{insert}\n");
    let errors =
        job.finish(&format!("{}{}", named("copy all", &insert("")), named("the small ones", &insert(" WHERE k < 5"))));
    assert!(errors.contains("job-1 (INSERT INTO a) is called 'copy all' from now on"), "{errors}");
    let listed = told(job.path(), &["checkpoint", "list", "--state-dir", "state"]);
    for name in ["copy all  ", "the small ones  "] {
        assert!(listed.contains(name) && !listed.contains("job-"), "{listed}");
    }
    let mut expected = job.all();
    expected.extend((0..5).map(|i| i.to_string()));
    expected.sort_unstable();
    assert_eq!(lines(&job.path().join("a")), expected);

    // In another order, and changed: nothing is written again.
    let again =
        job.finish(&format!("{}{}", named("the small ones", &insert(" WHERE k < 7")), named("copy all", &insert(""))));
    assert!(!again.contains("is new"), "{again}");
    assert_eq!(lines(&job.path().join("a")), expected);
    let shown = told(job.path(), &["checkpoint", "show", "--state-dir", "state", "--job", "the small ones"]);
    assert!(shown.contains("of the small ones"), "{shown}");
    let errors = refused(job.path(), &["checkpoint", "show", "--state-dir", "state", "--job", "other"], "MS4001");
    assert!(errors.contains("there is copy all, the small ones"), "{errors}");
}

#[test]
fn two_inserts_with_one_name_are_refused() {
    let job = Numbers::new();
    let sql = "SET 'pipeline.name' = 'x'; INSERT INTO a SELECT k FROM t; INSERT INTO b SELECT k FROM t;";
    let output = job.command(1_000_000, sql).output().unwrap();
    let errors = text(&output.stderr);
    assert!(!output.status.success() && errors.contains("MS1002") && errors.contains("the job 'x'"), "{errors}");
    assert!(errors.contains("set another name before each INSERT"), "{errors}");
    assert!(!job.path().join("b").exists());
}

#[test]
fn a_savepoint_outlives_its_checkpoint_and_is_restored() {
    let job = Numbers::new();
    let insert = "SET 'pipeline.name' = 'copy';\nINSERT INTO a SELECT k FROM t;";
    let child = job.start(insert);
    let saved = told(job.path(), &["checkpoint", "create", "--name", "early", "--state-dir", "state"]);
    assert!(saved.starts_with("savepoint early: checkpoint ") && saved.ends_with(" of copy\n"), "{saved}");
    let errors = refused(job.path(), &["checkpoint", "create", "--name", "early", "--state-dir", "state"], "MS3011");
    assert!(errors.contains("there is a savepoint 'early'"), "{errors}");
    refused(job.path(), &["stop", "--savepoint", "../x", "--state-dir", "state"], "is no name");
    refused(job.path(), &["checkpoint", "restore", "early", "--state-dir", "state"], "MS3015");
    let saved = told(job.path(), &["stop", "--savepoint", "late", "--state-dir", "state"]);
    assert!(saved.starts_with("savepoint late: checkpoint "), "{saved}");
    assert_eq!(ended(child).0, Some(0));
    let early = told(job.path(), &["checkpoint", "show", "early", "--state-dir", "state"]);
    assert!(early.contains(" of copy "), "{early}");
    refused(job.path(), &["checkpoint", "restore", "never", "--state-dir", "state"], "there is no savepoint 'never'");
    refused(job.path(), &["checkpoint", "restore", "-x", "--state-dir", "state"], "-x");

    // To its end, back to the first, and to its end again: rows are there once.
    job.finish(insert);
    assert_eq!(lines(&job.path().join("a")), job.all());
    let restored = told(job.path(), &["checkpoint", "restore", "early", "--state-dir", "state"]);
    assert!(
        restored.contains("copy resumes from checkpoint ") && restored.contains("when it is run again"),
        "{restored}"
    );
    let errors = job.finish(insert);
    assert!(errors.contains("resuming from checkpoint"), "{errors}");
    assert_eq!(lines(&job.path().join("a")), job.all());
    told(job.path(), &["checkpoint", "verify", "--state-dir", "state"]);

    let deleted = told(job.path(), &["checkpoint", "delete", "early", "late", "--state-dir", "state"]);
    assert_eq!(deleted, "copy savepoint 'early' deleted\ncopy savepoint 'late' deleted\n");
    assert!(!told(job.path(), &["checkpoint", "list", "--state-dir", "state"]).contains("savepoint"));
    // Of a job that does not run its newest checkpoint is kept.
    let saved = told(job.path(), &["checkpoint", "create", "--name", "end", "--state-dir", "state"]);
    assert!(saved.starts_with("savepoint end: checkpoint "), "{saved}");
}
