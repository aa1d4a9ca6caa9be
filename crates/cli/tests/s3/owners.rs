//! Several processes with one state directory: one of them is its owner.

use crate::job::{FAST, Job, SLOW, fails, message, succeeds};
use rustix::process::{Pid, Signal, kill_process};

#[test]
fn a_job_that_runs_is_not_run_twice_and_can_be_stopped_by_its_address() {
    let folder = tempfile::tempdir().unwrap();
    let job = Job::new(folder.path(), "twice");
    let expected = job.expected();
    let mut child = job.job(SLOW / 5, 2).spawn().unwrap();
    job.await_checkpoints(1, &mut child);
    let here = fails(&mut job.job(FAST, 2));
    assert!(here.contains("MS3015") && here.contains(&child.id().to_string()), "{here}");
    let there = fails(&mut job.job_at("there", FAST, 2));
    assert!(there.contains("MS3015") && there.contains("on the machine"), "{there}");
    let deleted = fails(&mut job.command(&["checkpoint", "delete", "1"]));
    assert!(deleted.contains("MS3015"), "{deleted}");
    let unreached = fails(&mut job.command_at("there", &["stop"]));
    assert!(unreached.contains("MS3018") && unreached.contains("on this machine"), "{unreached}");
    succeeds(&mut job.command(&["checkpoint", "create"]));
    succeeds(&mut job.command(&["stop", "--savepoint", "last"]));
    assert!(child.wait().unwrap().success());
    // It has said that it has ended, so nobody has to wait.
    succeeds(&mut job.job_at("there", FAST, 4));
    job.assert_rows(&expected, "after a stop");
}

#[test]
fn a_process_that_was_taken_for_dead_commits_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let job = Job::new(folder.path(), "undead");
    let expected = job.expected();
    let mut child = job.job(6000, 2).spawn().unwrap();
    job.await_checkpoints(2, &mut child);
    let process = Pid::from_child(&child);
    kill_process(process, Signal::STOP).unwrap();
    succeeds(&mut job.job_at("there", FAST, 3));
    job.assert_rows(&expected, "after the other process has taken over");
    kill_process(process, Signal::CONT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(!output.status.success());
    assert!(message(&output).contains("another process has taken over"), "{}", message(&output));
    job.assert_rows(&expected, "after the first process has woken up");
    assert_eq!(succeeds(&mut job.command(&["checkpoint", "verify"])).matches("whole").count(), 2);
    succeeds(&mut job.job(FAST, 2));
    job.assert_rows(&expected, "in the end");
}
