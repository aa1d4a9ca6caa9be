//! A job on several processes, any of which dies: what it writes are the rows of an undisturbed run on one.

use crate::disturb::await_end;
use crate::draws::Draws;
use crate::how_often::how_often;
use crate::job::{Job, assert_same};
use crate::support::millstream;
use crate::{FAST, SLOW};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A process that takes part in runs.
struct Node {
    child: Child,
    address: String,
}

impl Node {
    fn start(folder: &Path, listen: &str) -> Node {
        let mut command = millstream(folder);
        command.args(["node", "--listen", listen]).env("MILLSTREAM_CLUSTER_TOKEN", TOKEN);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        let address = first.rsplit(' ').next().unwrap().to_string();
        assert!(address.starts_with("127.0.0.1:"), "{first}");
        // What it says is read, so that it never waits for a reader.
        std::thread::spawn(move || lines.for_each(drop));
        Node { child, address }
    }

    /// Ends it, and starts another one at its place.
    fn replace(&mut self, folder: &Path) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        *self = Node::start(folder, &self.address);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The job on these nodes and one more process, which waits so long for those that are gone.
fn command(job: &Job, nodes: &[Node], rate: u64, seconds: &str) -> Command {
    let mut command = job.command("out", rate, 1);
    let addresses: Vec<&str> = nodes.iter().map(|node| node.address.as_str()).collect();
    command.args(["--state-dir", "state", "--cluster", &format!("static://{}", addresses.join(","))]);
    command.args(["--cluster-replacement-timeout", seconds]).env("MILLSTREAM_CLUSTER_TOKEN", TOKEN);
    command.stderr(Stdio::piped());
    command
}

#[test]
fn a_job_whose_nodes_are_killed_loses_and_repeats_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let job = Job::new(folder.path(), 3000);
    assert!(job.run("expected", None, 2).status.success());
    let expected = job.rows("expected");
    let mut nodes: Vec<Node> = (0..2).map(|_| Node::start(folder.path(), "127.0.0.1:0")).collect();
    let kills = how_often("MILLSTREAM_NODE_KILLS", 6);
    let (mut draws, mut killed, mut rounds) = (Draws(kills), 0, 0);
    while killed < kills {
        rounds += 1;
        let mut first = command(&job, &nodes, SLOW, "20").spawn().unwrap();
        let mut has_ended = false;
        while killed < kills && !has_ended {
            std::thread::sleep(Duration::from_millis(300 + draws.below(2200)));
            if first.try_wait().unwrap().is_some() {
                has_ended = true;
                break;
            }
            killed += 1;
            match draws.below(3) {
                0 => {
                    first.kill().unwrap();
                    first.wait().unwrap();
                    has_ended = true;
                }
                node => nodes[node as usize - 1].replace(folder.path()),
            }
        }
        if !has_ended || first.try_wait().unwrap().is_some_and(|status| status.success()) {
            let output = await_end(first, "with nodes that were replaced");
            assert!(output.status.success(), "round {rounds}: {}", String::from_utf8_lossy(&output.stderr));
        } else {
            drop(first);
        }
        // On as many nodes as there are, then again, and on one process.
        for (nodes, rate) in [(&nodes[..], FAST), (&nodes[..1], FAST)] {
            let output = command(&job, nodes, rate, "20").output().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "round {rounds}, after {killed} kills: {errors}");
            assert_same(&job.rows("out"), &expected, &format!("round {rounds}, after {killed} kills"));
        }
        for directory in ["state", "out"] {
            crate::clear(&folder.path().join(directory));
        }
    }
}

#[test]
fn a_node_that_wakes_up_late_does_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let job = Job::new(folder.path(), 3000);
    assert!(job.run("expected", None, 2).status.success());
    let expected = job.rows("expected");
    let nodes: Vec<Node> = (0..2).map(|_| Node::start(folder.path(), "127.0.0.1:0")).collect();
    let mut first = command(&job, &nodes, SLOW / 8, "1").spawn().unwrap();
    while !folder.path().join("state/job-1/job").exists() {
        assert!(first.try_wait().unwrap().is_none(), "it has ended too early");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(1500));
    nodes[0].signal(Signal::STOP);
    // The others find that it is silent, and go on without it.
    let output = await_end(first, "with a node that is silent");
    nodes[0].signal(Signal::CONT);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::thread::sleep(Duration::from_millis(500));
    assert_same(&job.rows("out"), &expected, "beside a node that has woken up");
}

/// What a run on these nodes says that does not work.
fn refused(folder: &Path, nodes: &str, token: Option<&str>, arguments: &[&str]) -> String {
    let mut command = millstream(folder);
    command.args(["run", "-e", "SELECT 1", "--cluster", nodes, "--cluster-replacement-timeout", "1"]).args(arguments);
    command.envs(token.map(|token| ("MILLSTREAM_CLUSTER_TOKEN", token)));
    let output = command.output().unwrap();
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_is_wrong_with_a_cluster_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), "127.0.0.1:0");
    let nodes = format!("static://{}", node.address);
    let cases = [
        (refused(folder.path(), "somewhere", Some(TOKEN), &[]), vec!["MS1006", "static://"]),
        (refused(folder.path(), "static+file:///nowhere/nodes", Some(TOKEN), &[]), vec!["MS1001", "/nowhere/nodes"]),
        (refused(folder.path(), "ray", None, &["--nodes", "2"]), vec!["MS1006", "pip install 'millstream[ray]'"]),
        (refused(folder.path(), "ray://127.0.0.1:10001", None, &[]), vec!["MS1006", "pip install 'millstream[ray]'"]),
        (refused(folder.path(), &nodes, Some(TOKEN), &["--nodes", "2"]), vec!["MS1006", "--nodes", "--cluster ray"]),
        (refused(folder.path(), &nodes, None, &[]), vec!["MS1001", "MILLSTREAM_CLUSTER_TOKEN"]),
        (refused(folder.path(), &nodes, Some("short"), &[]), vec!["MS1001", "16"]),
        (
            refused(folder.path(), &nodes, Some("another token of the cluster".replace(' ', "-").as_str()), &[]),
            vec!["MS5015"],
        ),
        (refused(folder.path(), "static://127.0.0.1:1", Some(TOKEN), &[]), vec!["MS5013", "millstream node"]),
        (refused(folder.path(), &nodes, Some(TOKEN), &["--cluster-listen", "0.0.0.0:0"]), vec!["MS5017"]),
    ];
    for (said, wanted) in cases {
        assert!(wanted.iter().all(|part| said.contains(part)), "{wanted:?}: {said}");
        assert!(!said.contains(TOKEN) && !said.contains("panicked"), "{said}");
    }
    let mut open = millstream(folder.path());
    open.args(["node", "--listen", "0.0.0.0:0"]).env("MILLSTREAM_CLUSTER_TOKEN", TOKEN);
    let output = open.output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("MS5017") && !output.status.success());
}

#[test]
fn a_select_on_several_processes_gives_its_rows_here() {
    let folder = tempfile::tempdir().unwrap();
    let rows = |file: u64| (0..200u64).map(|i| format!("{},{}\n", i % 7, i * 3 + file)).collect::<String>();
    std::fs::create_dir(folder.path().join("in")).unwrap();
    (0..5).for_each(|file| std::fs::write(folder.path().join(format!("in/{file}.csv")), rows(file)).unwrap());
    let nodes: Vec<Node> = (0..2).map(|_| Node::start(folder.path(), "127.0.0.1:0")).collect();
    let addresses = format!("static://{},{}", nodes[0].address, nodes[1].address);
    let sql = "CREATE TABLE t (k BIGINT, v BIGINT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'csv');
               SELECT k, COUNT(*) AS n, SUM(v) AS s, MAX(v) AS m FROM t GROUP BY k ORDER BY k";
    let run = |arguments: &[&str]| {
        let mut command = millstream(folder.path());
        command.args(["run", "-e", sql, "--output", "csv"]).args(arguments).env("MILLSTREAM_CLUSTER_TOKEN", TOKEN);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let alone = run(&[]);
    assert_eq!(alone.lines().count(), 8);
    let list = folder.path().join("nodes");
    let from_file = format!("static+file://{}", list.display());
    std::fs::write(&list, format!("# nodes\n{}\n\n{}\n", nodes[0].address, nodes[1].address)).unwrap();
    for addresses in [&addresses, &addresses, &from_file] {
        assert_eq!(run(&["--cluster", addresses]), alone);
    }
}
