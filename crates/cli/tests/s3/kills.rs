//! Jobs that are disturbed, by signals and full disks, and go on. `MILLSTREAM_SIGNALS=500` sends more signals (`make crash`).

use crate::disk::Disk;
use crate::disturb::Disturber;
use crate::draws::Draws;
use crate::how_often::how_often;
use crate::job::{FAST, Job, kill, message, succeeds};
use crate::server::Server;

#[test]
fn a_job_that_is_disturbed_loses_and_repeats_nothing() {
    let signals = how_often("MILLSTREAM_SIGNALS", 8);
    let (mut sent, mut round) = (0, 0);
    // One for all rounds.
    let _server = Server::shared();
    while sent < signals {
        // A few in each run of the job, so that all parts of it are met.
        let until = (signals - sent).min(10);
        let folder = tempfile::tempdir().unwrap();
        let job = Job::new(folder.path(), &format!("kills-{round}"));
        let expected = job.expected();
        let disks: Vec<Disk> = Disk::mount(&folder.path().join("out"), 64).into_iter().collect();
        let mut disturber = Disturber::new(Draws(signals + round), &disks);
        while disturber.signals() < until {
            disturber.disturb(|draws| {
                let mut command = job.job(6000, 1 + draws.below(4));
                command.args(["--memory", "32MiB"]);
                command
            });
        }
        // What has come to its end is not run again.
        for when in ["at the end", "after it"] {
            succeeds(job.job(FAST, 2).args(["--memory", "32MiB"]));
            job.assert_rows(&expected, &format!("{when} of round {round}: {}", disturber.report()));
        }
        assert!(succeeds(&mut job.command(&["checkpoint", "list"])).contains("finished"));
        assert!(succeeds(&mut job.command(&["checkpoint", "verify"])).contains("whole"));
        eprintln!("state in an object store: {}", disturber.report());
        sent += disturber.signals();
        round += 1;
    }
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
