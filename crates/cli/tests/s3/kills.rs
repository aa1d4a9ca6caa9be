//! Jobs that are disturbed by signals and full disks, and resume. `MILLSTREAM_SIGNALS=500` sends more (`make crash`).

use crate::disk::Disk;
use crate::disturb::Disturber;
use crate::draws::Draws;
use crate::how_often::how_often;
use crate::job::{FAST, Job, kill, message, succeeds};
use crate::server::Server;
use std::fs;

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
        // A job that has ended is not run again.
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
    assert!(message(&output).contains("resuming from checkpoint"), "{}", message(&output));
    job.assert_rows(&expected, "on another machine");
}

#[test]
fn inserts_are_added_and_change_places() {
    let folder = tempfile::tempdir().unwrap();
    let job = Job::new(folder.path(), "changed");
    let expected = job.expected();
    let mut child = job.job(6000, 2).spawn().unwrap();
    job.await_checkpoints(2, &mut child);
    kill(child);
    // The last INSERT becomes the first, and one is added before them all.
    let path = folder.path().join("job.sql");
    let script = fs::read_to_string(&path).unwrap();
    let (before, inserts) = script.split_once("BEGIN STATEMENT SET;").unwrap();
    let at = inserts.find("INSERT INTO joined").unwrap();
    let last = inserts[at..].trim_end().strip_suffix("END;").unwrap();
    let table =
        "CREATE TABLE added (id BIGINT) WITH ('connector'='filesystem', 'path'='${OUT}/added', 'format'='csv');";
    let added = "INSERT INTO added SELECT id FROM a WHERE k >= 0;";
    fs::write(&path, format!("{before}{table} BEGIN STATEMENT SET; {added} {last} {} END;", &inserts[..at])).unwrap();
    succeeds(&mut job.job(FAST, 3));
    job.assert_rows(&expected, "with an INSERT more");
    // It has the rows behind the checkpoint: of each of the two files the last ones, each once.
    let mut numbers: Vec<u64> = Vec::new();
    for file in fs::read_dir(folder.path().join("out/added")).unwrap().map(|file| file.unwrap().path()) {
        if !file.file_name().unwrap().to_string_lossy().starts_with('.') {
            numbers.extend(fs::read_to_string(file).unwrap().lines().map(|line| line.parse::<u64>().unwrap()));
        }
    }
    numbers.sort_unstable_by(|x, y| y.cmp(x));
    let first = numbers.iter().zip(numbers.iter().skip(1)).take_while(|(x, y)| x == y || **x == **y + 1).count();
    assert!(numbers.len() < 12_000 && numbers.len() > 100, "{} rows", numbers.len());
    assert_eq!((numbers[0], first + 1), (5999, numbers.len()));
    assert!(numbers.windows(3).all(|three| three[0] != three[2]));
}
