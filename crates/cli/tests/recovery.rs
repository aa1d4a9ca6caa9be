//! Jobs resume from what an earlier run has left. Damaged state, and that of another query, is refused or left out,
//! never trusted.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]
#![cfg(unix)]

#[path = "support/draws.rs"]
mod draws;
#[path = "support/folders.rs"]
mod folders;
#[path = "support/job.rs"]
mod job;
#[path = "support/manifests.rs"]
mod manifests;
mod support;

use draws::Draws;
use folders::copy;
use job::{Job, assert_same, lines_of};
use manifests::manifests;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use support::millstream;

#[test]
fn damaged_state_is_never_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let job = Job::new(folder.path(), 2000);
    assert!(job.run("expected", None, 2).status.success());
    let expected = job.rows("expected");
    let mut draws = Draws(3);
    let mut child = job.command("out", 3000, 2).args(["--state-dir", "state"]).spawn().unwrap();
    let state = folder.path().join("state/job-1");
    while manifests(&state).len() < 2 {
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
    assert!(message.contains("its aggregates changed from SUM to MAX"), "{message}");
    let fits = run("SELECT k + 100, SUM(v) * 2 FROM t GROUP BY k", "out").output().unwrap();
    assert!(fits.status.success(), "{}", String::from_utf8_lossy(&fits.stderr));
    let files = fs::read_dir(folder.join("out")).unwrap().map(|file| fs::read_to_string(file.unwrap().path()).unwrap());
    let mut rows: Vec<String> = files.flat_map(|text| lines_of(&text)).collect();
    rows.sort();
    assert_eq!(rows, ["101,10", "102,12"]);
}
