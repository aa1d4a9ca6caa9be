//! A job on several processes, any of which dies: what it writes are the rows of an undisturbed run on one.

use crate::disk::Disk;
use crate::disturb::await_end;
use crate::draws::Draws;
use crate::how_often::how_often;
use crate::job::{Job, assert_same};
use crate::manifests::manifests;
use crate::processes::{Node, TOKEN, addresses, nodes as processes, on};
use crate::support::millstream;
use crate::{FAST, SLOW, await_two_more};
use rustix::process::Signal;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The job on these nodes and one more process, which waits so long for those that are gone.
fn command(job: &Job, nodes: &[Node], rate: u64, seconds: &str) -> Command {
    let mut command = job.command("out", rate, 1);
    on(command.args(["--state-dir", "state"]), nodes, seconds).stderr(Stdio::piped());
    command
}

#[test]
fn a_job_whose_nodes_are_killed_loses_and_repeats_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let job = Job::new(folder.path(), 3000);
    assert!(job.run("expected", None, 2).status.success());
    let expected = job.rows("expected");
    let mut nodes: Vec<Node> = processes(2, folder.path());
    let kills = how_often("MILLSTREAM_NODE_KILLS", 6);
    let (mut draws, mut killed, mut rounds) = (Draws(kills), 0, 0);
    while killed < kills {
        rounds += 1;
        let mut first = command(&job, &nodes, SLOW / 3, "20").spawn().unwrap();
        let mut has_ended = false;
        while killed < kills && !has_ended {
            std::thread::sleep(Duration::from_millis(200 + draws.below(1300)));
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
    let nodes: Vec<Node> = processes(2, folder.path());
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

#[test]
fn a_full_disk_ends_a_job_on_all_nodes_and_not_the_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let job = Job::new(folder.path(), 3000);
    let Some(disk) = Disk::mount(&folder.path().join("state"), 64) else { return };
    assert!(job.run("expected", None, 2).status.success());
    let expected = job.rows("expected");
    let nodes: Vec<Node> = processes(2, folder.path());
    let state = folder.path().join("state/job-1");
    // Nothing has room; then only what some of the nodes store.
    for left in [0, 20 << 10] {
        let before = manifests(&state);
        let mut first = command(&job, &nodes, SLOW / 8, "20").spawn().unwrap();
        await_two_more(&state, &before, &mut first);
        disk.fill(left);
        let output = await_end(first, "on a full disk");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && said.contains("error[MS3011]"), "{}: {said}", output.status);
        assert!(said.contains("No space left on device") && said.contains("free space"), "{said}");
        disk.free();
    }
    let output = command(&job, &nodes, FAST, "20").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_same(&job.rows("out"), &expected, "after full disks");
}

#[test]
fn a_job_resumes_on_another_number_of_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let job = Job::new(folder.path(), 3000);
    assert!(job.run("expected", None, 2).status.success());
    let nodes: Vec<Node> = processes(3, folder.path());
    let cluster = |words: &[&str]| {
        let output =
            millstream(folder.path()).arg("cluster").args(words).args(["--state-dir", "state"]).output().unwrap();
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        (output.status.success(), said)
    };
    // It must not come to its end before it has been rescaled, however busy the machine is.
    let mut first = command(&job, &nodes, SLOW / 20, "20");
    let mut first = first.args(["--nodes", "3"]).spawn().unwrap();
    let mut status = (false, String::new());
    while !status.1.contains("3 nodes") {
        assert!(first.try_wait().unwrap().is_none(), "it has ended: {}", status.1);
        std::thread::sleep(Duration::from_millis(20));
        status = cluster(&["status"]);
    }
    assert!(status.0 && status.1.matches("127.0.0.1:").count() == 3, "{}", status.1);
    for (words, wanted) in [
        (&["rescale", "--nodes", "2"][..], "resumed on 2 nodes instead of 3 after"),
        (&["rescale"], "resumed on 4 nodes instead of 2 after"),
        (&["rescale", "--nodes", "1"], "resumed on 1 node instead of 4 after"),
    ] {
        let (is_done, said) = cluster(words);
        assert!(is_done && said.contains(wanted), "{words:?}: {said}");
    }
    for (words, wanted) in [
        (&["rescale", "--nodes", "9"][..], "with this process there are 4"),
        (&["rescale", "--nodes", "0"], "number would be zero"),
        (&["status", "--nodes", "2"], "MS1006"),
    ] {
        let (is_done, said) = cluster(words);
        assert!(!is_done && said.contains(wanted), "{words:?}: {said}");
    }
    let (is_done, said) = cluster(&["stop"]);
    assert!(is_done, "{said}");
    assert!(!first.wait().unwrap().success() || said.is_empty());
    let output = command(&job, &nodes, FAST, "20").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_same(&job.rows("out"), &job.rows("expected"), "after other numbers of nodes");
    let (is_done, said) = cluster(&["status"]);
    assert!(!is_done && said.contains("MS3018"), "{said}");
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
        (refused(folder.path(), &nodes, Some(TOKEN), &["--job", "x"]), vec!["MS1006", "--job", "--cluster ray"]),
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
fn every_node_writes_into_a_directory_that_all_see() {
    let [here, elsewhere] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    std::fs::create_dir(here.path().join("in")).unwrap();
    (0..4).for_each(|file| std::fs::write(here.path().join(format!("in/{file}.csv")), format!("{file}\n")).unwrap());
    let run_as = |nodes: &[Node], insert: &str| {
        let table = "CREATE TABLE t (v BIGINT) WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '";
        let sql = format!("{table}{}/in'); {insert}", here.path().display());
        let mut command = millstream(here.path());
        on(command.args(["run", "-e", &sql]), nodes, "1").output().unwrap()
    };
    let run = |nodes: &[Node], out: &str, options: &str| {
        let with = format!("WITH ('connector' = 'filesystem', 'path' = '{out}', 'format' = 'csv'{options})");
        run_as(nodes, &format!("CREATE TABLE o (v BIGINT) {with}; INSERT INTO o SELECT v FROM t"))
    };
    let rows = |out: &str| {
        let files = std::fs::read_dir(here.path().join(out)).unwrap().map(|entry| entry.unwrap().path());
        let files: Vec<String> = files.map(|file| std::fs::read_to_string(file).unwrap()).collect();
        let mut rows: Vec<String> = files.concat().lines().map(str::to_string).collect();
        rows.sort();
        (rows, files.len())
    };
    let all: Vec<String> = (0..4).map(|file| file.to_string()).collect();
    let nodes: Vec<Node> = processes(1, here.path());
    let output = run(&nodes, "out", "");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(rows("out"), (all.clone(), 2));
    // The INSERT of such a statement is run by all of them, once.
    let with = "WITH ('connector' = 'filesystem', 'path' = 'as', 'format' = 'csv')";
    let output = run_as(&nodes, &format!("CREATE TABLE o {with} AS SELECT v FROM t"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(rows("as"), (all.clone(), 2));
    // A node that sees another directory under the name.
    let nodes: Vec<Node> = processes(1, elsewhere.path());
    let output = run(&nodes, "other", "");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("MS5019") && said.contains("'sink.parallelism' = '1'"), "{said}");
    assert_eq!(rows("other"), (vec![], 0));
    let output = run(&nodes, "one", ", 'sink.parallelism' = '1'");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(rows("one"), (all, 1));
}

#[test]
fn a_select_on_several_processes_gives_its_rows_here() {
    let folder = tempfile::tempdir().unwrap();
    let rows = |file: u64| (0..200u64).map(|i| format!("{},{}\n", i % 7, i * 3 + file)).collect::<String>();
    std::fs::create_dir(folder.path().join("in")).unwrap();
    (0..5).for_each(|file| std::fs::write(folder.path().join(format!("in/{file}.csv")), rows(file)).unwrap());
    let nodes: Vec<Node> = processes(2, folder.path());
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
    let lines: Vec<String> = nodes.iter().map(|node| format!("\n{}\n", node.address)).collect();
    std::fs::write(&list, format!("# nodes\n{}", lines.concat())).unwrap();
    let from_file = format!("static+file://{}", list.display());
    for cluster in [addresses(&nodes), addresses(&nodes), from_file] {
        assert_eq!(run(&["--cluster", &cluster]), alone);
    }
}

/// Every query of Nexmark as a script of SELECTs, with the rows of those that change written at the end.
fn nexmark() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/nexmark");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let mut script = read("ddl_flat.sql");
    script += "CREATE FUNCTION count_char(text STRING, letter STRING) RETURNS BIGINT
               RETURN CHAR_LENGTH(text) - CHAR_LENGTH(REPLACE(text, letter, ''));\n";
    script += "SET 'pipeline.beat' = 'end';\n";
    let mut queries: Vec<String> = std::fs::read_dir(folder.join("queries"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    queries.sort();
    for query in queries {
        script += &format!(
            "SELECT '{query}' AS query;\n{};\n",
            read(&format!("queries/{query}")).trim().trim_end_matches(';')
        );
    }
    script.replace("${DATA}", &folder.to_string_lossy())
}

/// The lines of each SELECT of an output, sorted.
fn results(output: &str) -> Vec<(String, Vec<&str>)> {
    let mut results: Vec<(String, Vec<&str>)> = Vec::new();
    for line in output.lines() {
        match line.strip_prefix("{\"query\":\"") {
            Some(query) => results.push((query.to_string(), Vec::new())),
            None => results.last_mut().unwrap().1.push(line),
        }
    }
    results.iter_mut().for_each(|(_, lines)| lines.sort_unstable());
    results
}

/// `MILLSTREAM_NODE_COUNTS='2 3 5'` runs on more numbers of processes (`make test-cluster`).
#[test]
fn nexmark_on_several_processes_gives_the_same_rows() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("nexmark.sql"), nexmark()).unwrap();
    let run = |nodes: &[Node]| {
        let mut command = millstream(folder.path());
        command.args(["run", "nexmark.sql", "--output", "json", "--workers", "1"]);
        let output = on(&mut command, nodes, "5").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let alone = run(&[]);
    let expected = results(&alone);
    assert!(expected.len() > 20 && expected.iter().all(|(_, lines)| !lines.is_empty()));
    let counts = std::env::var("MILLSTREAM_NODE_COUNTS").unwrap_or_else(|_| "3".into());
    for count in counts.split_whitespace().map(|count| count.parse::<usize>().unwrap()) {
        let nodes: Vec<Node> = processes(count - 1, folder.path());
        let together = run(&nodes);
        for (alone, together) in expected.iter().zip(results(&together)) {
            assert!(*alone == together, "{} on {count} processes has other rows", alone.0);
        }
    }
}
