//! Jobs that are killed and go on.

use crate::draws::{Draws, kills};
use crate::job::{FAST, Job, kill, message, succeeds};
use std::time::Duration;

#[test]
fn a_job_that_is_killed_loses_and_repeats_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let job = Job::new(folder.path(), "kills");
    let expected = job.expected();
    let kills = kills(6);
    let mut draws = Draws(kills);
    for _ in 0..kills {
        let child = job.job(6000, 1 + draws.below(4)).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(50 + draws.below(1200)));
        kill(child);
    }
    // What has come to its end is not run again.
    for when in ["at the end", "after it"] {
        succeeds(&mut job.job(FAST, 2));
        job.assert_rows(&expected, when);
    }
    assert!(succeeds(&mut job.command(&["checkpoint", "list"])).contains("finished"));
    assert!(succeeds(&mut job.command(&["checkpoint", "verify"])).contains("whole"));
}

#[test]
fn a_job_goes_on_on_another_machine() {
    let folder = tempfile::tempdir().unwrap();
    let job = Job::new(folder.path(), "machines");
    let expected = job.expected();
    let mut child = job.job(6000, 2).spawn().unwrap();
    job.await_checkpoints(2, &mut child);
    kill(child);
    let output = job.job_at("there", FAST, 3).output().unwrap();
    assert!(output.status.success(), "{}", message(&output));
    assert!(message(&output).contains("going on from checkpoint"), "{}", message(&output));
    job.assert_rows(&expected, "on another machine");
}
