//! Jobs that are disturbed at random moments, by signals and full disks, and run again give the rows of an undisturbed run.
//! `MILLSTREAM_SIGNALS=500` sends more signals (`make crash`).
#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]
#![cfg(unix)]

#[path = "crash/arriving.rs"]
mod arriving;
#[path = "support/disk.rs"]
mod disk;
#[path = "support/disturb.rs"]
mod disturb;
#[path = "support/draws.rs"]
mod draws;
#[path = "support/how_often.rs"]
mod how_often;
#[path = "support/job.rs"]
mod job;
#[path = "support/manifests.rs"]
mod manifests;
#[path = "crash/nodes.rs"]
mod nodes;
#[path = "support/nodes.rs"]
mod processes;
#[path = "crash/replaced.rs"]
mod replaced;
#[path = "crash/served.rs"]
mod served;
#[path = "support/serving.rs"]
mod serving;
mod support;

use disk::Disk;
use disturb::{Disturber, await_end, await_end_beside};
use draws::Draws;
use how_often::how_often;
use job::{Job, assert_same};
use manifests::manifests;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;
use support::millstream;

/// Rows in a second of a job that lasts a second or two.
const SLOW: u64 = 6000;
/// Of one that is over at once.
const FAST: u64 = 100_000_000;

/// With the memory of a small container.
fn command(job: &Job, rate: u64, workers: u64) -> Command {
    let mut command = job.command("out", rate, workers);
    command.args(["--state-dir", "state", "--memory", "32MiB"]);
    command
}

/// Removes what is in a directory, which may be a disk.
fn clear(directory: &Path) {
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => fs::remove_dir_all(entry.path()).unwrap(),
            false => fs::remove_file(entry.path()).unwrap(),
        }
    }
}

/// Runs a job to its end, and again, which changes nothing.
fn finish(job: &Job, expected: &BTreeMap<String, Vec<String>>, when: &str) {
    for again in ["", ", run again"] {
        let output = command(job, FAST, 2).output().unwrap();
        assert!(output.status.success(), "{when}: {}", String::from_utf8_lossy(&output.stderr));
        assert_same(&job.rows("out"), expected, &format!("{when}{again}"));
    }
}

#[test]
fn a_job_that_is_disturbed_loses_and_repeats_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let job = Job::new(folder.path(), 3000);
    let undisturbed = job.run("expected", None, 2);
    assert!(undisturbed.status.success(), "{}", String::from_utf8_lossy(&undisturbed.stderr));
    let expected = job.rows("expected");
    assert_eq!(expected.len(), 9);
    assert!(expected.values().all(|rows| rows.len() > 10));
    let disks: Vec<Disk> =
        ["state", "out"].iter().filter_map(|name| Disk::mount(&folder.path().join(name), 64)).collect();
    let signals = how_often("MILLSTREAM_SIGNALS", 10);
    let mut disturber = Disturber::new(Draws(signals), &disks);
    while disturber.signals() < signals {
        // A few in each run of the job, so that all parts of it are met.
        let until = signals.min(disturber.signals() + 10);
        while disturber.signals() < until {
            disturber.disturb(|draws| {
                let mut command = command(&job, SLOW, 1 + draws.below(4));
                // Tables that are spilled are in checkpoints like others.
                let spill = ["pipeline.spill=auto", "pipeline.spill=always"][draws.below(2) as usize];
                command.args(["--set", spill]);
                command
            });
        }
        finish(&job, &expected, &format!("after {}", disturber.report()));
        for directory in ["state", "out"] {
            clear(&folder.path().join(directory));
        }
    }
    eprintln!("state in a directory: {}", disturber.report());
}

/// Later rounds find checkpoints of earlier ones: only its own say that a job has begun.
fn await_two_more(state: &Path, before: &BTreeSet<String>, child: &mut Child) {
    while manifests(state).difference(before).count() < 2 {
        assert!(child.try_wait().unwrap().is_none(), "it has ended too early");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_disk_that_is_full_in_a_checkpoint_ends_the_query_and_nothing_is_half_written() {
    let folder = tempfile::tempdir().unwrap();
    let job = Job::new(folder.path(), 2000);
    let Some(disk) = Disk::mount(&folder.path().join("state"), 64) else { return };
    assert!(job.run("expected", None, 2).status.success());
    let expected = job.rows("expected");
    let looked_at = |arguments: &[&str]| {
        let output = millstream(folder.path()).args(arguments).args(["--state-dir", "state"]).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let state = folder.path().join("state/job-1");
    // Nothing has room; then only some of the files of a checkpoint.
    for (round, left) in [0, 5 << 10, 40 << 10].into_iter().enumerate() {
        // With enough memory that nothing is spilled to the disk, too.
        let run = |rate: u64| {
            let mut command = job.command("out", rate, 2);
            command.args(["--state-dir", "state"]);
            command
        };
        let before = manifests(&state);
        let mut child = run(2500).spawn().unwrap();
        await_two_more(&state, &before, &mut child);
        disk.fill(left);
        let output = await_end(child, "on a full disk");
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "round {round}: {message}");
        let says =
            ["error[MS3011]: checkpoint ", "could not be written to state", "No space left on device", "free space"];
        assert!(says.iter().all(|part| message.contains(part)), "round {round}: {message}");
        // What is there is whole: checkpoints, and in the output rows that are right.
        let verified = looked_at(&["checkpoint", "verify"]);
        assert!(verified.contains("whole") && !verified.contains("damaged"), "round {round}: {verified}");
        for (table, rows) in job.rows("out") {
            let mut left = expected[&table].iter();
            assert!(rows.iter().all(|row| left.any(|other| other == row)), "round {round}: {table} has wrong rows");
        }
        // What a process finds in part, and older checkpoints, it removes: their room is taken as soon as it is there.
        disk.fill(0);
        let child = run(2500).spawn().unwrap();
        let again = await_end_beside(child, "where the disk is full from the start", || disk.fill_up());
        let message = String::from_utf8_lossy(&again.stderr).into_owned();
        assert!(again.status.code() == Some(1) && message.contains("error[MS3011]"), "round {round}: {message}");
        disk.free();
    }
    finish(&job, &expected, "with room again");
}
