//! A job that is killed before and after each of its commits, to the last, gives the rows of an undisturbed run. Its
//! topics are written in one transaction; those of a result that changes have its rows in the end, as messages by key and as changes.

use crate::broker::{Kafka, alone};
use crate::folded::{current, left};
use crate::how_often::how_often;
use crate::nodes::{Node, nodes, on};
use crate::proxy::{Moment, Proxy};
use crate::support::millstream;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

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
CREATE TABLE windows (k BIGINT, n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'windows', 'format' = 'csv');
CREATE TABLE current (k BIGINT, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH (UPSERTS, 'topic' = 'current');
CREATE TABLE log (k BIGINT, n BIGINT) WITH (CHANGES, 'topic' = 'log');
CREATE VIEW counts AS SELECT MOD(id, 50) AS k, COUNT(*) AS n FROM source GROUP BY MOD(id, 50) HAVING MOD(COUNT(*), 7) <> 3;
BEGIN STATEMENT SET;
INSERT INTO current SELECT * FROM counts;
INSERT INTO log SELECT * FROM counts;
INSERT INTO windows SELECT MOD(id, 7), COUNT(*) FROM TABLE(TUMBLE(TABLE source, DESCRIPTOR(ts), INTERVAL '5' SECOND))
GROUP BY MOD(id, 7), window_start, window_end;
INSERT INTO ids SELECT id FROM source;
INSERT INTO odd SELECT id FROM source WHERE MOD(id, 2) = 1;
END;
";

/// On so many other processes; the names of its topics end in that.
fn command(folder: &Path, port: u16, others: &[Node]) -> Command {
    let options =
        format!("'properties.bootstrap.servers' = '127.0.0.1:{port}', 'sink.delivery-guarantee' = 'exactly-once'");
    let script = [
        ("TOPIC", "'connector' = 'kafka', 'format' = 'json'"),
        ("UPSERTS", "'connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = 'json'"),
        ("CHANGES", "'connector' = 'kafka', 'format' = 'debezium-json', 'key.format' = 'json', 'key.fields' = 'k'"),
    ];
    let script = script.iter().fold(SCRIPT.to_string(), |script, (name, connector)| {
        script.replace(&format!("({name},"), &format!("({connector}, {options},"))
    });
    let of_topics = ["ids", "odd", "current", "log"].into_iter().fold(script, |script, topic| {
        script.replace(&format!("'topic' = '{topic}'"), &format!("'topic' = '{topic}{}'", others.len()))
    });
    fs::write(folder.join("job.sql"), of_topics).unwrap();
    let mut command = millstream(folder);
    command.args(["run", "job.sql", "--quiet", "--workers", "2", "--state-dir", "state"]);
    on(&mut command, others, "20");
    command
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

#[test]
fn a_job_that_is_killed_at_its_commits_loses_and_repeats_nothing() {
    let Some(kafka) = alone() else { return };
    let proxy = Proxy::start(kafka.between());
    kill_at_commits(&kafka, &proxy, 0, u64::MAX);
    // On several processes, each start of which takes longer.
    kill_at_commits(&kafka, &proxy, 2, how_often("MILLSTREAM_NODE_KILLS", 6));
}

/// Kills the first of a job's processes, beside which there are so many others, at each of its commits, or at so many.
fn kill_at_commits(kafka: &Kafka, proxy: &Proxy, others: usize, most: u64) {
    let folder = tempfile::tempdir().unwrap();
    let topic = |name: &str| format!("{name}{others}");
    kafka.create(&topic("ids"), 2, &[]);
    kafka.create(&topic("odd"), 2, &[]);
    kafka.create(&topic("current"), 2, &[("cleanup.policy", "compact")]);
    kafka.create(&topic("log"), 2, &[]);
    let others = nodes(others, folder.path());
    let mut kills = 0;
    loop {
        // Behind a kill before a commit that checkpoint comes again, behind the other one the next.
        let moment = if kills % 2 == 0 { Moment::Before } else { Moment::Behind };
        let child = command(folder.path(), kafka.between().1, &others).spawn().unwrap();
        if kills < most {
            proxy.kill(&child, moment);
        }
        let output = child.wait_with_output().unwrap();
        let is_last = kills == most;
        if is_last || !proxy.has_killed() {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            break;
        }
        kills += 1;
        assert!(kills < 400, "the job makes no progress");
    }
    eprintln!("{kills} kills");
    assert!(kills >= 4, "every run but the last ends at a commit");
    let expected = |step| -> BTreeMap<String, u64> {
        (0..ROWS).rev().step_by(step).map(|id| (format!("{{\"id\":{id}}}"), 1)).collect()
    };
    for (name, step) in [("ids", 1), ("odd", 2)] {
        kafka.shows(&topic(name), |texts| {
            let mut seen = BTreeMap::new();
            texts.iter().for_each(|text| *seen.entry(text.clone()).or_default() += 1);
            seen == expected(step)
        });
    }
    let rows: BTreeSet<String> = (0..50).map(|k| format!("{{\"k\":{k},\"n\":120}}")).collect();
    kafka.shows(&topic("current"), |_| BTreeSet::from_iter(current(kafka.read(&topic("current")))) == rows);
    // Beats of event time make the same changes in every run, whatever kills it.
    let changes = changes_of_beats();
    kafka.shows(&topic("log"), |texts| {
        let mut written = BTreeMap::new();
        for text in texts {
            let change: serde_json::Value = serde_json::from_str(text).unwrap();
            *written.entry((change["before"].to_string(), change["after"].to_string())).or_insert(0) += 1;
        }
        written == changes
    });
    // Each takes back what is there, and nothing else.
    kafka.shows(&topic("log"), |texts| left(texts).as_ref() == Some(&rows));
    let files = fs::read_dir(folder.path().join("windows")).unwrap().map(|file| file.unwrap().path());
    let shown = files.filter(|file| !file.file_name().unwrap().to_string_lossy().starts_with('.'));
    let lines: Vec<String> = shown
        .flat_map(|file| fs::read_to_string(file).unwrap().lines().map(str::to_string).collect::<Vec<_>>())
        .collect();
    let counted = lines.iter().map(|line| line.split(',').nth(1).unwrap().parse::<u64>().unwrap());
    // 12 windows of 500 rows and 7 keys each.
    assert_eq!((lines.len(), counted.sum::<u64>()), (12 * 7, ROWS));
}
