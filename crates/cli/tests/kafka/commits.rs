//! A job that is killed before and after each of its commits, to the last, gives the rows of an undisturbed run. Its
//! two topics are written in one transaction.

use crate::broker::alone;
use crate::proxy::{Moment, Proxy};
use crate::support::millstream;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

const ROWS: u64 = 6000;

/// Checkpoints so often that one is on its way whenever the input ends.
const SCRIPT: &str = "
SET 'execution.checkpointing.interval' = '20 ms';
CREATE TABLE source (id BIGINT, ts AS CAST(TO_TIMESTAMP_LTZ(id * 10, 3) AS TIMESTAMP(3)), WATERMARK FOR ts AS ts) WITH (
    'connector' = 'datagen', 'rows-per-second' = '40000',
    'fields.id.kind' = 'sequence', 'fields.id.start' = '0', 'fields.id.end' = '5999');
CREATE TABLE ids (id BIGINT) WITH (TOPIC, 'topic' = 'ids');
CREATE TABLE odd (id BIGINT) WITH (TOPIC, 'topic' = 'odd');
CREATE TABLE windows (k BIGINT, n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'windows', 'format' = 'csv');
BEGIN STATEMENT SET;
INSERT INTO windows SELECT MOD(id, 7), COUNT(*) FROM TABLE(TUMBLE(TABLE source, DESCRIPTOR(ts), INTERVAL '5' SECOND))
GROUP BY MOD(id, 7), window_start, window_end;
INSERT INTO ids SELECT id FROM source;
INSERT INTO odd SELECT id FROM source WHERE MOD(id, 2) = 1;
END;
";

fn command(folder: &Path, port: u16) -> Command {
    let topic = format!(
        "'connector' = 'kafka', 'properties.bootstrap.servers' = '127.0.0.1:{port}', 'format' = 'json', \
         'sink.delivery-guarantee' = 'exactly-once'"
    );
    fs::write(folder.join("job.sql"), SCRIPT.replace("TOPIC", &topic)).unwrap();
    let mut command = millstream(folder);
    command.args(["run", "job.sql", "--quiet", "--workers", "2", "--state-dir", "state"]);
    command
}

#[test]
fn a_job_that_is_killed_at_each_of_its_commits_loses_and_repeats_nothing() {
    let Some(kafka) = alone() else { return };
    let folder = tempfile::tempdir().unwrap();
    kafka.create("ids", 2, &[]);
    kafka.create("odd", 2, &[]);
    let (proxy, mut kills) = (Proxy::start(kafka.between()), 0);
    loop {
        // Behind a kill before a commit that checkpoint comes again, behind the other one the next.
        let moment = if kills % 2 == 0 { Moment::Before } else { Moment::Behind };
        let child = command(folder.path(), kafka.between().1).spawn().unwrap();
        proxy.kill(&child, moment);
        let output = child.wait_with_output().unwrap();
        if !proxy.has_killed() {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            break;
        }
        kills += 1;
        assert!(kills < 400, "the job makes no progress");
    }
    println!("{kills} kills");
    assert!(kills >= 4, "every run but the last ends at a commit");
    let expected = |step| -> BTreeMap<String, u64> {
        (0..ROWS).rev().step_by(step).map(|id| (format!("{{\"id\":{id}}}"), 1)).collect()
    };
    for (topic, step) in [("ids", 1), ("odd", 2)] {
        kafka.shows(topic, |texts| {
            let mut seen = BTreeMap::new();
            texts.iter().for_each(|text| *seen.entry(text.clone()).or_default() += 1);
            seen == expected(step)
        });
    }
    let files = fs::read_dir(folder.path().join("windows")).unwrap().map(|file| file.unwrap().path());
    let shown = files.filter(|file| !file.file_name().unwrap().to_string_lossy().starts_with('.'));
    let lines: Vec<String> = shown
        .flat_map(|file| fs::read_to_string(file).unwrap().lines().map(str::to_string).collect::<Vec<_>>())
        .collect();
    let counted = lines.iter().map(|line| line.split(',').nth(1).unwrap().parse::<u64>().unwrap());
    // 12 windows of 500 rows and 7 keys each.
    assert_eq!((lines.len(), counted.sum::<u64>()), (12 * 7, ROWS));
}
