//! A job whose nodes send each other nothing: one that is lost is replaced while the others go on.

use crate::disturb::await_end;
use crate::draws::Draws;
use crate::how_often::how_often;
use crate::job::{Job, assert_same};
use crate::manifests::manifests;
use crate::processes::{Node, nodes as processes, on};
use crate::support::millstream;
use crate::{FAST, SLOW, await_two_more};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Filters and projections, into files of two formats.
const SCRIPT: &str = "
SET 'execution.checkpointing.interval' = '20 ms';
CREATE TABLE a (id BIGINT, k BIGINT, s STRING)
WITH ('connector'='filesystem', 'path'='${IN}/rows', 'format'='csv', 'scan.rate-limit.rows-per-second'='${RATE}');
CREATE TABLE kept (id BIGINT, k BIGINT) WITH ('connector'='filesystem', 'path'='${OUT}/kept', 'format'='csv');
CREATE TABLE loud (id BIGINT, s STRING) WITH ('connector'='filesystem', 'path'='${OUT}/loud', 'format'='json');
BEGIN STATEMENT SET;
INSERT INTO kept SELECT id, k FROM a WHERE MOD(k, 3) <> 0;
INSERT INTO loud SELECT id * 7, UPPER(s) FROM a;
END;
";

/// A lookup join of files that come while it runs.
const LOOKUP: &str = "
SET 'execution.checkpointing.interval' = '50 ms';
CREATE TABLE a (id BIGINT, k BIGINT, s STRING)
WITH ('connector'='filesystem', 'path'='in/rows', 'format'='csv', 'scan.rate-limit.rows-per-second'='1000',
  'source.monitor-interval'='100 ms');
CREATE TABLE names (k BIGINT, name STRING) WITH ('connector'='filesystem', 'path'='in/names.csv', 'format'='csv');
CREATE TABLE named (id BIGINT, name STRING) WITH ('connector'='filesystem', 'path'='out/named', 'format'='csv');
INSERT INTO named SELECT a.id, names.name FROM a JOIN names ON names.k = a.k;
";

fn job(folder: &Path) -> Job {
    let mut draws = Draws(11);
    fs::create_dir_all(folder.join("in/rows")).unwrap();
    for file in 0..6 {
        let row = |i: u64| format!("{},{},text {}\n", i * 6 + file, draws.below(40), draws.below(1000));
        fs::write(folder.join(format!("in/rows/{file}.csv")), (0..1500).map(row).collect::<String>()).unwrap();
    }
    let names: String = (0..30).map(|k| format!("{k},name {k}\n")).collect();
    fs::write(folder.join("in/names.csv"), names).unwrap();
    fs::write(folder.join("job.sql"), SCRIPT).unwrap();
    let job = Job { folder: folder.to_path_buf() };
    assert!(job.run("expected", None, 2).status.success());
    assert_eq!(job.rows("expected").len(), 2);
    job
}

/// The job on two of these nodes and one more process, which waits so long for those that are gone.
fn command(job: &Job, nodes: &[Node], rate: u64, seconds: &str) -> Command {
    let mut command = job.command("out", rate, 1);
    on(command.args(["--state-dir", "state", "--nodes", "3"]), nodes, seconds).stderr(Stdio::piped());
    command
}

/// Waits for a checkpoint of the job that is later than those that are there.
fn await_checkpoint(job: &Job, running: &mut Child) {
    let state = job.folder.join("state/job-1");
    await_two_more(&state, &manifests(&state), running);
}

fn said_of(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The runs that a node has begun.
fn begun(node: &Node) -> usize {
    node.said().matches(": node ").count()
}

/// Files that no checkpoint knows.
fn hidden(job: &Job) -> Vec<String> {
    let all = ["kept", "loud"].map(|table| fs::read_dir(job.folder.join("out").join(table)).unwrap());
    let names = all.into_iter().flatten().map(|file| file.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with('.')).collect()
}

#[test]
fn a_node_that_is_killed_resumes_alone() {
    let folder = tempfile::tempdir().unwrap();
    let job = job(folder.path());
    let expected = job.rows("expected");
    let mut nodes: Vec<Node> = processes(3, folder.path());
    // The same process once more, then one that took no part so far.
    for has_spare in [false, true] {
        let taken = if has_spare { &nodes[..] } else { &nodes[..2] };
        let mut first = command(&job, taken, SLOW / 10, "20").spawn().unwrap();
        await_checkpoint(&job, &mut first);
        let before = [begun(&nodes[0]), begun(&nodes[2])];
        match has_spare {
            false => nodes[1].replace(folder.path()),
            true => nodes[1].kill(),
        }
        let said = said_of(&await_end(first, "with a node that was replaced"));
        let address = &nodes[if has_spare { 2 } else { 1 }].address;
        let wanted = format!("{address} takes its place from checkpoint ");
        assert!(said.contains(&wanted) && said.contains("the others have not stopped"), "{said}");
        let after = [begun(&nodes[0]), begun(&nodes[2])];
        assert_eq!(after, [before[0], before[1] + usize::from(has_spare)], "{said}");
        assert_same(&job.rows("out"), &expected, "with a node that was replaced");
        assert_eq!(hidden(&job), [] as [&str; 0], "what the lost one has left is removed");
        ["state", "out"].iter().for_each(|directory| crate::clear(&folder.path().join(directory)));
    }
}

#[test]
fn a_node_that_is_silent_is_replaced_and_does_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let job = job(folder.path());
    let nodes: Vec<Node> = processes(3, folder.path());
    let mut first = command(&job, &nodes, SLOW / 16, "20").spawn().unwrap();
    await_checkpoint(&job, &mut first);
    nodes[0].signal(Signal::STOP);
    let output = await_end(first, "with a node that is silent");
    nodes[0].signal(Signal::CONT);
    let said = said_of(&output);
    assert!(said.contains(&format!("{} takes its place", nodes[2].address)), "{said}");
    let until = Instant::now() + Duration::from_secs(20);
    while !nodes[0].said().contains("has ended here") {
        assert!(Instant::now() < until, "{}", nodes[0].said());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_same(&job.rows("out"), &job.rows("expected"), "beside a node that has woken up");
}

#[test]
fn what_is_looked_up_and_what_arrives_is_there_for_a_node_that_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let job = job(folder.path());
    fs::write(folder.path().join("job.sql"), LOOKUP).unwrap();
    let mut nodes: Vec<Node> = processes(2, folder.path());
    let mut first = command(&job, &nodes, 0, "20").spawn().unwrap();
    await_checkpoint(&job, &mut first);
    // One is found before the node is lost, or while it is away, or behind that.
    let arrive = |number: u64| {
        let rows: String = (0..500).map(|i| format!("{},{},late\n", (number + 1) * 100_000 + i, i % 40)).collect();
        fs::write(folder.path().join("late"), rows).unwrap();
        fs::rename(folder.path().join("late"), folder.path().join(format!("in/rows/late-{number}.csv"))).unwrap();
    };
    for number in 0..6 {
        arrive(number);
        std::thread::sleep(Duration::from_millis(150));
        if number % 2 == 0 {
            nodes[number as usize / 2 % 2].replace(folder.path());
        }
    }
    let wanted: Vec<String> = {
        let all = fs::read_dir(folder.path().join("in/rows")).unwrap().map(|file| file.unwrap().path());
        let lines: Vec<String> = all.map(|file| fs::read_to_string(file).unwrap()).collect();
        let named = |line: &str| {
            let mut parts = line.split(',');
            let (id, k) = (parts.next().unwrap(), parts.next().unwrap().parse::<u64>().unwrap());
            (k < 30).then(|| format!("{id},name {k}"))
        };
        let mut rows: Vec<String> = lines.concat().lines().filter_map(named).collect();
        rows.sort();
        rows
    };
    let until = Instant::now() + Duration::from_secs(60);
    while job.rows("out").get("named").is_none_or(|rows| rows.len() < wanted.len()) {
        assert!(first.try_wait().unwrap().is_none() && Instant::now() < until, "not all rows come");
        std::thread::sleep(Duration::from_millis(100));
    }
    kill_process(Pid::from_child(&first), Signal::TERM).unwrap();
    let output = await_end(first, "that was stopped");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("takes its place"), "{said}");
    assert!(job.rows("out")["named"] == wanted, "{} rows of {}", job.rows("out")["named"].len(), wanted.len());
}

#[test]
fn without_a_replacement_all_resume_on_fewer_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let job = job(folder.path());
    let mut nodes: Vec<Node> = processes(2, folder.path());
    let mut first = command(&job, &nodes, SLOW / 10, "2").spawn().unwrap();
    await_checkpoint(&job, &mut first);
    nodes[1].kill();
    let said = said_of(&await_end(first, "with a node fewer"));
    assert!(
        said.contains("waiting for it, or for another in its place") && said.contains("begins with 2 nodes"),
        "{said}"
    );
    assert!(!said.contains("waiting for 127"), "it is waited for once: {said}");
    assert_same(&job.rows("out"), &job.rows("expected"), "on fewer nodes");
}

/// A stop does not wait for a node that is lost: there is a checkpoint to resume from.
#[test]
fn a_job_without_one_of_its_nodes_can_be_stopped_and_rescaled() {
    let folder = tempfile::tempdir().unwrap();
    let job = job(folder.path());
    let mut nodes: Vec<Node> = processes(2, folder.path());
    let lose = |nodes: &mut Vec<Node>| {
        let mut first = command(&job, nodes, SLOW / 40, "60").spawn().unwrap();
        await_checkpoint(&job, &mut first);
        nodes[1].kill();
        std::thread::sleep(Duration::from_millis(700));
        assert!(first.try_wait().unwrap().is_none(), "it waits for a node");
        first
    };
    let first = lose(&mut nodes);
    kill_process(Pid::from_child(&first), Signal::TERM).unwrap();
    let output = await_end(first, "that was stopped");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("waiting for it, or for another in its place"), "{said}");
    assert!(said.contains("has all that it needs to resume") && !said.contains("MS3007"), "{said}");
    nodes[1] = Node::start(folder.path(), &nodes[1].address);
    let first = lose(&mut nodes);
    let mut rescale = millstream(folder.path());
    rescale.args(["cluster", "rescale", "--nodes", "2", "--state-dir", "state"]);
    let output = rescale.output().unwrap();
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
    assert!(said.contains("resumed on 2 nodes instead of 3"), "{said}");
    kill_process(Pid::from_child(&first), Signal::TERM).unwrap();
    await_end(first, "on fewer nodes");
    said_of(&command(&job, &nodes[..1], FAST, "60").output().unwrap());
    assert_same(&job.rows("out"), &job.rows("expected"), "on fewer nodes");
}

#[test]
fn a_job_whose_nodes_are_replaced_loses_and_repeats_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let job = job(folder.path());
    let expected = job.rows("expected");
    let mut nodes: Vec<Node> = processes(3, folder.path());
    let kills = how_often("MILLSTREAM_NODE_KILLS", 6);
    let (mut draws, mut killed, mut replaced) = (Draws(kills + 1), 0, 0);
    while killed < kills {
        let mut first = command(&job, &nodes, SLOW / 10, "20").spawn().unwrap();
        let mut of_round = 0;
        while first.try_wait().unwrap().is_none() && of_round < 8 {
            std::thread::sleep(Duration::from_millis(20 + draws.below(500)));
            nodes[draws.below(3) as usize].replace(folder.path());
            of_round += 1;
            // One time in five two of them at once.
            if draws.below(5) == 0 {
                nodes[draws.below(3) as usize].replace(folder.path());
                of_round += 1;
            }
        }
        killed += of_round;
        let said = said_of(&await_end(first, "with nodes that were replaced"));
        replaced += said.matches("takes its place").count();
        assert_same(&job.rows("out"), &expected, &format!("after {killed} kills: {said}"));
        ["state", "out"].iter().for_each(|directory| crate::clear(&folder.path().join(directory)));
    }
    assert!(replaced > 0, "{killed} kills");
    eprintln!("{killed} kills, {replaced} nodes replaced");
}
