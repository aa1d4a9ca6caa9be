//! A job that is killed before and after each of its commits, to the last, gives the rows of an undisturbed run. In one process its
//! topics are written in one transaction, on several nodes each node writes its spans; those of a result that changes have its rows in the end,
//! as messages by key and as changes.

use crate::broker::{Kafka, alone};
use crate::folded::{current, left};
use crate::how_often::how_often;
use crate::nodes::{Node, nodes, on};
use crate::proxy::{Moment, Proxy};
use crate::support::millstream;
use rustix::process::Pid;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;
use tempfile::TempDir;

const ROWS: u64 = 6000;

/// Checkpoints so often that one is on its way whenever the input ends.
const SCRIPT: &str = "
SET 'execution.checkpointing.interval' = '20 ms';
SET 'execution.runtime-mode' = 'streaming';
SET 'pipeline.beat' = '2 s';
CREATE TABLE source (id BIGINT, ts AS CAST(TO_TIMESTAMP_LTZ(id * 10, 3) AS TIMESTAMP(3)), WATERMARK FOR ts AS ts) WITH (
    'connector' = 'datagen', 'rows-per-second' = '40000',
    'fields.id.kind' = 'sequence', 'fields.id.start' = '0', 'fields.id.end' = '5999');
CREATE TABLE ids (id BIGINT) WITH (TOPIC, 'topic' = 'ids');
CREATE TABLE odd (id BIGINT) WITH (TOPIC, 'topic' = 'odd');
CREATE TABLE sums (k STRING, n BIGINT) WITH (TOPIC, 'topic' = 'sums');
CREATE TABLE windows (k BIGINT, n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'windows', 'format' = 'csv');
CREATE TABLE current (k BIGINT, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH (UPSERTS, 'topic' = 'current');
CREATE TABLE log (k BIGINT, n BIGINT) WITH (CHANGES, 'topic' = 'log');
CREATE VIEW words AS SELECT CAST(MOD(id, 7) AS STRING) AS k, ts FROM source;
CREATE VIEW counts AS SELECT MOD(id, 50) AS k, COUNT(*) AS n FROM source GROUP BY MOD(id, 50) HAVING MOD(COUNT(*), 7) <> 3;
BEGIN STATEMENT SET;
INSERT INTO current SELECT * FROM counts;
INSERT INTO log SELECT * FROM counts;
INSERT INTO windows SELECT MOD(id, 7), COUNT(*) FROM TABLE(TUMBLE(TABLE source, DESCRIPTOR(ts), INTERVAL '5' SECOND))
GROUP BY MOD(id, 7), window_start, window_end;
INSERT INTO sums SELECT k, COUNT(*) FROM TABLE(TUMBLE(TABLE words, DESCRIPTOR(ts), INTERVAL '5' SECOND))
GROUP BY k, window_start, window_end;
INSERT INTO ids SELECT id FROM source;
INSERT INTO odd SELECT id FROM source WHERE MOD(id, 2) = 1;
END;
";

/// The same without what nodes send each other: those that are lost are replaced while the others go on.
const KEPT: &str = "
SET 'execution.checkpointing.interval' = '20 ms';
CREATE TABLE source (id BIGINT) WITH (
    'connector' = 'filesystem', 'path' = 'in', 'format' = 'csv', 'scan.rate-limit.rows-per-second' = '400');
CREATE TABLE ids (id BIGINT) WITH (TOPIC, 'topic' = 'ids');
CREATE TABLE odd (id BIGINT) WITH (TOPIC, 'topic' = 'odd');
BEGIN STATEMENT SET;
INSERT INTO ids SELECT id FROM source;
INSERT INTO odd SELECT id FROM source WHERE MOD(id, 2) = 1;
END;
";

/// A job, and where what it writes is.
struct Job<'a> {
    kafka: &'a Kafka,
    folder: TempDir,
    /// What the names of its topics end in.
    suffix: String,
    script: &'static str,
}

impl Job<'_> {
    fn new(kafka: &Kafka, suffix: impl Into<String>) -> Job<'_> {
        let job = Job { kafka, folder: tempfile::tempdir().unwrap(), suffix: suffix.into(), script: SCRIPT };
        for name in ["ids", "odd", "log", "sums"] {
            kafka.create(&job.topic(name), 2, &[]);
        }
        kafka.create(&job.topic("current"), 2, &[("cleanup.policy", "compact")]);
        job
    }

    fn topic(&self, name: &str) -> String {
        format!("{name}{}", self.suffix)
    }

    /// Starts it, on other processes as well.
    fn start(&self, others: &[Node]) -> Child {
        let options = format!(
            "'properties.bootstrap.servers' = '127.0.0.1:{}', 'sink.delivery-guarantee' = 'exactly-once'",
            self.kafka.between().1
        );
        let script = [
            ("TOPIC", "'connector' = 'kafka', 'format' = 'json'"),
            ("UPSERTS", "'connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = 'json'"),
            ("CHANGES", "'connector' = 'kafka', 'format' = 'debezium-json', 'key.format' = 'json', 'key.fields' = 'k'"),
        ];
        let script = script.iter().fold(self.script.to_string(), |script, (name, connector)| {
            script.replace(&format!("({name},"), &format!("({connector}, {options},"))
        });
        let of_topics = ["ids", "odd", "current", "log", "sums"].into_iter().fold(script, |script, topic| {
            script.replace(&format!("'topic' = '{topic}'"), &format!("'topic' = '{}'", self.topic(topic)))
        });
        fs::write(self.folder.path().join("job.sql"), of_topics).unwrap();
        let mut command = millstream(self.folder.path());
        command.args(["run", "job.sql", "--quiet", "--workers", "2", "--state-dir", "state"]);
        on(&mut command, others, "20").stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Whether the topics have each row once.
    fn check_kept(&self) {
        let Job { kafka, folder, .. } = self;
        let expected = |step| -> BTreeMap<String, u64> {
            (0..ROWS).rev().step_by(step).map(|id| (format!("{{\"id\":{id}}}"), 1)).collect()
        };
        for (name, step) in [("ids", 1), ("odd", 2)] {
            kafka.shows(&self.topic(name), |texts| {
                let mut seen = BTreeMap::new();
                texts.iter().for_each(|text| *seen.entry(text.clone()).or_default() += 1);
                seen == expected(step)
            });
        }
        // One process has no such directory.
        let waiting = fs::read_dir(folder.path().join("state/job-1/sinks")).into_iter().flatten();
        let waiting: Vec<PathBuf> = waiting.map(|file| file.unwrap().path()).collect();
        assert!(waiting.is_empty(), "rows that have been written still wait: {waiting:?}");
    }

    /// What was written is what an undisturbed run writes.
    fn check(&self) {
        self.check_kept();
        let Job { kafka, folder, .. } = self;
        let rows: BTreeSet<String> = (0..50).map(|k| format!("{{\"k\":{k},\"n\":120}}")).collect();
        let topic = self.topic("current");
        kafka.shows(&topic, |_| BTreeSet::from_iter(current(kafka.read(&topic))) == rows);
        // Beats of event time make the same changes in every run, whatever kills it.
        let changes = changes_of_beats();
        kafka.shows(&self.topic("log"), |texts| {
            let mut written = BTreeMap::new();
            for text in texts {
                let change: serde_json::Value = serde_json::from_str(text).unwrap();
                *written.entry((change["before"].to_string(), change["after"].to_string())).or_insert(0) += 1;
            }
            written == changes
        });
        // Each takes back what is there, and nothing else.
        kafka.shows(&self.topic("log"), |texts| left(texts).as_ref() == Some(&rows));
        // 12 windows of 500 rows and 7 keys each.
        kafka.shows(&self.topic("sums"), |texts| {
            let count = |text: &String| serde_json::from_str::<serde_json::Value>(text).unwrap()["n"].as_u64().unwrap();
            (texts.len(), texts.iter().map(count).sum::<u64>()) == (12 * 7, ROWS)
        });
        let files = fs::read_dir(folder.path().join("windows")).unwrap().map(|file| file.unwrap().path());
        let shown = files.filter(|file| !file.file_name().unwrap().to_string_lossy().starts_with('.'));
        let lines: Vec<String> = shown
            .flat_map(|file| fs::read_to_string(file).unwrap().lines().map(str::to_string).collect::<Vec<_>>())
            .collect();
        let counted = lines.iter().map(|line| line.split(',').nth(1).unwrap().parse::<u64>().unwrap());
        assert_eq!((lines.len(), counted.sum::<u64>()), (12 * 7, ROWS));
    }
}

/// What the log says, and how often: counts before and behind each beat of two seconds, in which 200 rows come.
fn changes_of_beats() -> BTreeMap<(String, String), u64> {
    let (mut counts, mut changes) = (BTreeMap::<u64, u64>::new(), BTreeMap::new());
    // The watermark before a row is the time of the row before, and the first row has none.
    let beat_of = |id: u64| id.saturating_sub(1) * 10 / 2000;
    for beat in 0..=beat_of(ROWS - 1) {
        let before = counts.clone();
        (0..ROWS).filter(|&id| beat_of(id) == beat).for_each(|id| *counts.entry(id % 50).or_default() += 1);
        for (k, &n) in &counts {
            let shown = |n: Option<u64>| match n.filter(|n| n % 7 != 3) {
                Some(n) => format!("{{\"k\":{k},\"n\":{n}}}"),
                None => "null".to_string(),
            };
            let change = (shown(before.get(k).copied()), shown(Some(n)));
            if change.0 != change.1 {
                *changes.entry(change).or_insert(0) += 1;
            }
        }
    }
    changes
}

/// Behind a kill before a commit that checkpoint comes again, behind the other one the next.
fn moment(kills: u64) -> Moment {
    if kills.is_multiple_of(2) { Moment::Before } else { Moment::Behind }
}

#[test]
fn a_job_that_is_killed_at_its_commits_loses_and_repeats_nothing() {
    let Some(kafka) = alone() else { return };
    let proxy = Proxy::start(kafka.between());
    let job = Job::new(&kafka, "");
    let mut kills = 0;
    loop {
        let child = job.start(&[]);
        proxy.kill(Pid::from_child(&child), moment(kills), "");
        let output = child.wait_with_output().unwrap();
        if !proxy.has_killed() {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            break;
        }
        kills += 1;
        assert!(kills < 400, "the job makes no progress");
    }
    assert!(kills >= 4, "every run but the last ends at a commit");
    job.check();
    drop(job);
    // On several processes, each start of which takes longer.
    let (most, mut kills) = (how_often("MILLSTREAM_NODE_KILLS", 6), 0);
    for round in 0.. {
        let job = Job::new(&kafka, format!("-{round}"));
        kills += kill_all_along(&job, &proxy, kills, most);
        job.check();
        if kills >= most {
            break;
        }
    }
    eprintln!("{kills} kills of processes of several");
    kill_and_replace(&kafka, &proxy, most);
}

/// Kills nodes at their commits while the first one, and the other, go on.
fn kill_and_replace(kafka: &Kafka, proxy: &Proxy, most: u64) {
    let (mut kills, mut replaced) = (0, 0);
    for round in 0.. {
        assert!(round <= most, "{kills} kills");
        let job = Job { script: KEPT, ..Job::new(kafka, format!("-kept-{round}")) };
        fs::create_dir(job.folder.path().join("in")).unwrap();
        for file in 0..6 {
            let rows: String = (0..ROWS / 6).map(|row| format!("{}\n", row * 6 + file)).collect();
            fs::write(job.folder.path().join(format!("in/{file}.csv")), rows).unwrap();
        }
        let mut nodes = nodes(2, job.folder.path());
        let mut child = job.start(&nodes);
        while kills < most {
            let victim = kills as usize % 2;
            proxy.kill(nodes[victim].pid(), moment(kills / 2), &format!("node-{}", victim + 1));
            await_kill(&mut child, proxy);
            if !proxy.has_killed() {
                break;
            }
            nodes[victim].replace(job.folder.path());
            kills += 1;
        }
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !said.contains("restart"), "{said}");
        eprintln!("{said}");
        replaced += said.matches("takes its place").count();
        job.check_kept();
        if kills >= most {
            break;
        }
    }
    assert!(replaced > 0);
    eprintln!("{kills} kills of nodes, {replaced} replaced while the others went on");
}

/// Runs a job on three processes, any of which is killed at a commit, and sometimes on one, until it has come to its end or there were `most`
/// kills. Returns how many it has added to those of earlier jobs.
fn kill_all_along(job: &Job, proxy: &Proxy, earlier: u64, most: u64) -> u64 {
    let mut nodes = nodes(2, job.folder.path());
    let mut kills = 0;
    for run in 0.. {
        // What several have prepared one has to finish, and the other way round.
        let others = if run % 3 == 2 { &mut [][..] } else { &mut nodes[..] };
        let child = job.start(others);
        let (more, has_ended) = kill_until_first(job, proxy, (child, others), earlier + kills, most);
        kills += more;
        if has_ended {
            break;
        }
    }
    kills
}

/// Kills processes of a run until its first one is killed or ends, which is the second thing that is returned.
fn kill_until_first(
    job: &Job,
    proxy: &Proxy,
    (mut child, others): (Child, &mut [Node]),
    earlier: u64,
    most: u64,
) -> (u64, bool) {
    for number in earlier.. {
        let victim = if others.is_empty() { 0 } else { number as usize % 3 };
        if number < most {
            let process = if victim == 0 { Pid::from_child(&child) } else { others[victim - 1].pid() };
            let of = if others.is_empty() { String::new() } else { format!("node-{victim}") };
            proxy.kill(process, moment(number / 3), &of);
            await_kill(&mut child, proxy);
        }
        if number >= most || !proxy.has_killed() {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            return (number - earlier, true);
        }
        match victim {
            0 => {
                child.wait().unwrap();
                return (number - earlier + 1, false);
            }
            node => others[node - 1].replace(job.folder.path()),
        }
    }
    unreachable!("numbers do not end")
}

/// Until there is nobody to be killed, or the job has ended.
fn await_kill(child: &mut Child, proxy: &Proxy) {
    while proxy.waits() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
}
