//! Looking at checkpoints and after them; damage.

use crate::job::{FAST, Job, SLOW, fails, kill, message, succeeds};

#[test]
fn checkpoints_are_listed_shown_verified_and_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let job = Job::new(folder.path(), "looking");
    let expected = job.expected();
    let number = |line: &str| line.split_whitespace().nth(1).unwrap().to_string();
    // Until the newest one has state of its own: where no row has come since the one before, it has that one's.
    let (numbers, run) = (1..9)
        .find_map(|run| {
            let mut child = job.job(SLOW, 2).spawn().unwrap();
            job.await_checkpoints(2, &mut child);
            succeeds(&mut job.command(&["stop"]));
            assert!(child.wait().unwrap().success());
            let list = succeeds(&mut job.command(&["checkpoint", "list"]));
            assert_eq!(list.matches("complete").count(), 2, "{list}");
            let numbers: Vec<String> = list.lines().skip(1).map(number).collect();
            let state = format!("some/job/job-1/state-{:0>8}r{run}-0.bin", numbers[0]);
            job.server.keys(&job.bucket).contains(&state).then_some((numbers, run))
        })
        .unwrap();
    let shown = succeeds(&mut job.command(&["checkpoint", "show"]));
    assert!(shown.contains(&format!("checkpoint {} of job-1", numbers[0])) && shown.contains("sink joined"), "{shown}");
    let verified = succeeds(&mut job.command(&["checkpoint", "verify"]));
    assert_eq!(verified.matches("whole").count(), 2, "{verified}");
    // Damage to what only the newest one has.
    let newest = format!("some/job/job-1/checkpoint-{:0>8}r{run}.json", numbers[0]);
    assert!(job.manifests().contains(&newest), "{newest}: {:?}", job.manifests());
    let good = job.server.get(&job.bucket, &newest);
    let mut bad = good.clone();
    bad[good.len() / 2] ^= 1;
    job.server.put(&job.bucket, &newest, &bad);
    let damaged = fails(&mut job.command(&["checkpoint", "verify"]));
    assert!(damaged.contains("MS3012") && damaged.contains("1 of 2"), "{damaged}");
    job.server.put(&job.bucket, &newest, &good);
    let state = format!("some/job/job-1/state-{:0>8}r{run}-0.bin", numbers[0]);
    let mut bad = job.server.get(&job.bucket, &state);
    bad[8] ^= 1;
    job.server.put(&job.bucket, &state, &bad);
    let output = job.job(FAST, 4).output().unwrap();
    assert!(output.status.success(), "{}", message(&output));
    let (damaged, older) =
        (format!("checkpoint {} cannot be used", numbers[0]), format!("checkpoint {} of", numbers[1]));
    assert!(message(&output).contains(&damaged) && message(&output).contains(&older), "{}", message(&output));
    job.assert_rows(&expected, "after a damaged checkpoint");
    let last = number(succeeds(&mut job.command(&["checkpoint", "list"])).lines().nth(1).unwrap());
    succeeds(&mut job.command(&["checkpoint", "delete", &last]));
    let list = succeeds(&mut job.command(&["checkpoint", "list"]));
    assert!(list.lines().skip(1).all(|line| number(line) != last), "{list}");
}

#[test]
fn a_job_with_nothing_whole_does_not_start_anew() {
    let folder = tempfile::tempdir().unwrap();
    let job = Job::new(folder.path(), "nothing");
    let mut child = job.job(SLOW, 2).spawn().unwrap();
    job.await_checkpoints(2, &mut child);
    kill(child);
    for manifest in job.manifests() {
        job.server.put(&job.bucket, &manifest, b"nonsense");
    }
    let refused = fails(&mut job.job(FAST, 2));
    assert!(refused.contains("MS3012") && refused.contains("s3://nothing/some/job/job-1"), "{refused}");
}
