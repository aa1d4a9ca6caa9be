//! A store that goes away, and stores that cannot be used.

use crate::job::{FAST, Job, SLOW, fails, message, succeeds, with_store};
use crate::nodes::{Node, on};
use crate::server::{Gate, Server};
use crate::support::millstream;
use std::process::Child;
use std::time::Duration;

#[test]
fn a_store_that_comes_back_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let job = Job::new(folder.path(), "short");
    let gate = Gate::new(&job.server);
    let job = job.at(gate.port());
    let expected = job.expected();
    let mut child = job.job(SLOW, 2).spawn().unwrap();
    job.await_checkpoints(1, &mut child);
    for _ in 0..3 {
        gate.close();
        std::thread::sleep(Duration::from_millis(300));
        gate.open();
        std::thread::sleep(Duration::from_millis(200));
    }
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", message(&output));
    job.assert_rows(&expected, "after outages");
}

/// The store goes away under a job, which says so and ends, and comes back.
fn ends_without_its_store(child: Child, gate: &Gate) {
    gate.close();
    let output = child.wait_with_output().unwrap();
    let failed = message(&output);
    assert!(!output.status.success() && failed.contains("MS3011") && failed.contains("AWS_ENDPOINT_URL"), "{failed}");
    gate.open();
}

#[test]
fn a_job_that_fails_without_its_store_goes_on_later() {
    let folder = tempfile::tempdir().unwrap();
    let job = Job::new(folder.path(), "long");
    let gate = Gate::new(&job.server);
    let job = job.at(gate.port());
    let expected = job.expected();
    let mut child = job.job(SLOW, 2).spawn().unwrap();
    job.await_checkpoints(1, &mut child);
    ends_without_its_store(child, &gate);
    succeeds(&mut job.job(FAST, 4));
    job.assert_rows(&expected, "after the store has come back");
}

#[test]
fn a_store_that_another_node_does_not_reach_ends_the_job_and_not_the_node() {
    let folder = tempfile::tempdir().unwrap();
    let job = Job::new(folder.path(), "far");
    let expected = job.expected();
    // The first node has its own way to the store.
    let gate = Gate::new(&job.server);
    let nodes = [Node::of(with_store(millstream(folder.path()), gate.port()), "127.0.0.1:0")];
    let on_nodes = |rate: u64| {
        let mut command = job.job(rate, 1);
        on(&mut command, &nodes, "20");
        command
    };
    let mut child = on_nodes(SLOW / 2).spawn().unwrap();
    job.await_checkpoints(1, &mut child);
    ends_without_its_store(child, &gate);
    succeeds(&mut on_nodes(FAST));
    job.assert_rows(&expected, "after the store has come back");
}

#[test]
fn what_cannot_be_used_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let insert = "CREATE TABLE o (k BIGINT) WITH ('connector'='blackhole'); INSERT INTO o VALUES (1);";
    let run = |port: u16, address: &str| {
        fails(with_store(millstream(folder), port).args(["run", "-e", insert, "--state-dir", address]))
    };
    let server = Server::shared();
    for command in [run(server.port(), "s3://no-such-bucket/job"), run(server.port(), "s3://no-such-bucket")] {
        assert!(
            command.contains("MS3011") && command.contains("bucket") && command.contains("does not exist"),
            "{command}"
        );
    }
    let listed = ["checkpoint", "list", "--state-dir", "s3://no-such-bucket/job"];
    let listed = fails(with_store(millstream(folder), server.port()).args(listed));
    assert!(listed.contains("does not exist") && listed.contains("AWS_REGION"), "{listed}");
    server.make_bucket("empty");
    let listed = ["checkpoint", "list", "--state-dir", "s3://empty/job"];
    let listed = fails(with_store(millstream(folder), server.port()).args(listed));
    assert!(listed.contains("MS4001") && listed.contains("there is no state directory s3://empty/job"), "{listed}");
    for address in ["s3://", "ftp://somewhere/job"] {
        let refused = run(server.port(), address);
        assert!(refused.contains("MS1") && refused.contains("s3://bucket/prefix"), "{refused}");
    }
    let strict = Server::start(&[("INITIAL_NO_AUTH_ACTION_COUNT", "0")]);
    let denied = run(strict.port(), "s3://some-bucket/job");
    assert!(denied.contains("MS3011") && denied.contains("denied") && denied.contains("AWS_ACCESS_KEY_ID"), "{denied}");
}
