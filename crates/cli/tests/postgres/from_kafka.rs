//! A job from Kafka to files, Kafka and PostgreSQL that is killed at random moments leaves the rows of an undisturbed run in all of
//! them; topics of results that change, by key and as Debezium's changes, have its rows when they are put together. Needs a broker, too:
//! `MILLSTREAM_KAFKA=start`. `MILLSTREAM_KILLS=200` kills more often.

use crate::broker::{Kafka, shared};
use crate::draws::Draws;
use crate::folded::{current, left};
use crate::how_often::how_often;
use crate::server::Database;
use crate::support::millstream;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Windows and joins of every kind, and results that change, each to one of the systems.
const SCRIPT: &str = "
SET 'execution.checkpointing.interval' = '30 ms';
SET 'execution.runtime-mode' = 'streaming';
SET 'table.exec.mini-batch.allow-latency' = '5 ms';
CREATE TABLE a (id BIGINT, k BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH (SOURCE, 'topic'='from-a');
CREATE TABLE b (id BIGINT, k BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH (SOURCE, 'topic'='from-b');
CREATE TABLE tumble (k BIGINT, ws TIMESTAMP(3), n BIGINT) WITH (TOPIC, 'topic'='${OUT}-tumble');
CREATE TABLE session (k BIGINT, ws TIMESTAMP(3), we TIMESTAMP(3), n BIGINT) WITH (TOPIC, 'topic'='${OUT}-session');
CREATE TABLE current (k BIGINT, n BIGINT, latest BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH (UPSERTS, 'topic'='${OUT}-current');
CREATE TABLE log (k BIGINT, n BIGINT, other BIGINT) WITH (CHANGES, 'topic'='${OUT}-log');
CREATE TABLE ranks (k BIGINT, id BIGINT, r BIGINT) WITH (CHANGES, 'topic'='${OUT}-ranks');
CREATE TABLE hop (k BIGINT, ws TIMESTAMP(3), n BIGINT) WITH ('connector'='filesystem', 'path'='${OUT}/hop', 'format'='csv');
CREATE TABLE window_join (k BIGINT, i BIGINT, j BIGINT) WITH ('connector'='filesystem', 'path'='${OUT}/window_join', 'format'='csv');
CREATE TABLE joined (k BIGINT, i BIGINT, j BIGINT) WITH (DATABASE, 'table-name'='joined');
CREATE TABLE top (k BIGINT, n BIGINT, ws TIMESTAMP(3), r BIGINT) WITH (DATABASE, 'table-name'='top');
BEGIN STATEMENT SET;
INSERT INTO tumble SELECT k, window_start, COUNT(*)
FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '2' SECOND)) GROUP BY k, window_start, window_end;
INSERT INTO session SELECT k, window_start, window_end, COUNT(*)
FROM TABLE(SESSION(TABLE a PARTITION BY k, DESCRIPTOR(ts), INTERVAL '1' SECOND)) GROUP BY k, window_start, window_end;
INSERT INTO hop SELECT k, window_start, COUNT(*)
FROM TABLE(HOP(TABLE b, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '4' SECOND)) GROUP BY k, window_start, window_end;
INSERT INTO window_join SELECT l.k, l.id, r.id
FROM (SELECT * FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '2' SECOND))) l
JOIN (SELECT * FROM TABLE(TUMBLE(TABLE b, DESCRIPTOR(ts), INTERVAL '2' SECOND))) r
ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end;
INSERT INTO joined SELECT a.k, a.id, b.id
FROM a JOIN b ON a.k = b.k AND a.ts BETWEEN b.ts - INTERVAL '1' SECOND AND b.ts;
INSERT INTO top SELECT k, n, window_start, r FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY n DESC, k) AS r FROM (
    SELECT k, window_start, window_end, COUNT(*) AS n
    FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '2' SECOND)) GROUP BY k, window_start, window_end))
WHERE r <= 3;
INSERT INTO current SELECT k, COUNT(*), MAX(id) FROM a GROUP BY k HAVING MOD(COUNT(*), 5) <> 2;
INSERT INTO log SELECT l.k, l.n, r.n FROM (SELECT k, COUNT(*) AS n FROM a GROUP BY k) l
LEFT JOIN (SELECT k, COUNT(*) AS n FROM b WHERE MOD(id, 3) = 0 GROUP BY k) r ON l.k = r.k;
INSERT INTO ranks SELECT k, id, r FROM (
  SELECT k, id, ROW_NUMBER() OVER (PARTITION BY k ORDER BY MOD(id, 101) DESC, id) AS r FROM a)
WHERE r <= 3;
END;
";

/// Topics of results that change.
const CHANGING: [&str; 3] = ["current", "log", "ranks"];

/// Rows of each partition of a topic.
const ROWS: u64 = 1500;

/// The job with an output of its own.
struct Job<'a> {
    kafka: &'a Kafka,
    folder: &'a Path,
    database: Database,
    out: String,
}

impl Job<'_> {
    fn new<'a>(kafka: &'a Kafka, folder: &'a Path, out: &str) -> Job<'a> {
        for topic in ["tumble", "session"].into_iter().chain(CHANGING) {
            kafka.create(&format!("{out}-{topic}"), 2, &[]);
        }
        let mut database = Database::new(&format!("from_kafka_{}", out.replace('-', "_")));
        database.execute(
            "CREATE TABLE joined (k bigint, i bigint, j bigint);
             CREATE TABLE top (k bigint, n bigint, ws timestamp, r bigint)",
        );
        Job { kafka, folder, database, out: out.into() }
    }

    fn command(&self, rate: u64, workers: u64) -> Command {
        let quoted = |options: &[(String, String)]| {
            let options: Vec<String> =
                options.iter().map(|(k, v)| format!("'{k}'='{}'", v.replace('\'', "''"))).collect();
            options.join(", ")
        };
        let database: Vec<_> = self.database.options("").into_iter().filter(|(key, _)| key != "table-name").collect();
        let kafka = |more: &[(&str, &str)]| {
            let all = [("properties.bootstrap.servers", &*self.kafka.servers)];
            let all = all.iter().chain(more).map(|(key, value)| (key.to_string(), value.to_string()));
            quoted(&all.collect::<Vec<_>>())
        };
        let rate = rate.to_string();
        let source = kafka(&[
            ("connector", "kafka"),
            ("format", "json"),
            ("scan.startup.mode", "earliest-offset"),
            ("scan.bounded.mode", "latest-offset"),
            ("scan.rate-limit.rows-per-second", &rate),
        ]);
        let prefix = format!("prefix-{}", self.out);
        let written = |more: &[(&str, &str)]| {
            let once = [("sink.delivery-guarantee", "exactly-once"), ("sink.transactional-id-prefix", &*prefix)];
            kafka(&[&once, more].concat())
        };
        let topic = written(&[("connector", "kafka"), ("format", "json")]);
        let upserts = written(&[("connector", "upsert-kafka"), ("key.format", "json"), ("value.format", "json")]);
        let by_key = [("key.format", "json"), ("key.fields", "k")];
        let changes = written(&[&[("connector", "kafka"), ("format", "debezium-json")], &by_key[..]].concat());
        let script = SCRIPT.replace("SOURCE", &source).replace("TOPIC", &topic).replace("DATABASE", &quoted(&database));
        let script = script.replace("UPSERTS", &upserts).replace("CHANGES", &changes);
        fs::write(self.folder.join("job.sql"), script).unwrap();
        let mut command = millstream(self.folder);
        command.args(["run", "job.sql", "--quiet", "--workers", &workers.to_string()]);
        command.arg(format!("--var=OUT={}", self.out)).args(["--state-dir", &format!("state-{}", self.out)]);
        command
    }

    fn finish(&self) {
        let output = self.command(100_000_000, 2).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// The rows of all outputs, sorted.
    fn rows(&mut self) -> BTreeMap<&'static str, Vec<String>> {
        let mut rows = BTreeMap::new();
        for topic in ["tumble", "session"] {
            rows.insert(topic, self.kafka.texts(&format!("{}-{topic}", self.out)));
        }
        rows.insert("current", current(self.kafka.read(&format!("{}-current", self.out))));
        for topic in &CHANGING[1..] {
            let left = left(&self.kafka.texts(&format!("{}-{topic}", self.out)));
            let left = left.unwrap_or_else(|| panic!("{topic}: a change does not fit what is there"));
            rows.insert(topic, left.into_iter().collect());
        }
        for table in ["hop", "window_join"] {
            let files = fs::read_dir(self.folder.join(&self.out).join(table)).unwrap().map(|file| file.unwrap().path());
            let shown = files.filter(|file| !file.file_name().unwrap().to_string_lossy().starts_with('.'));
            let texts = shown.map(|file| fs::read_to_string(file).unwrap());
            rows.insert(table, texts.flat_map(|text| text.lines().map(str::to_string).collect::<Vec<_>>()).collect());
        }
        rows.insert("joined", self.database.rows("k, i, j", "FROM joined"));
        rows.insert("top", self.database.rows("k, n, ws, r", "FROM top"));
        rows.values_mut().for_each(|rows| rows.sort());
        rows
    }

    /// Waits until the outputs have these rows: a commit is one for the brokers before its marks are in all partitions.
    fn shows(&mut self, expected: &BTreeMap<&'static str, Vec<String>>, left: u64) {
        let start = Instant::now();
        loop {
            let found = self.rows();
            let Some((output, rows)) = found.iter().find(|(output, rows)| expected[*output] != **rows) else { return };
            let (has, wants) = (rows.len(), expected[output].len());
            let waited = start.elapsed() > Duration::from_secs(10);
            assert!(!waited, "{output} has {has} rows instead of {wants}, or others; {left} kills to come");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

#[test]
fn a_job_from_kafka_that_is_killed_loses_and_repeats_nothing() {
    let Some(kafka) = shared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let kills = how_often("MILLSTREAM_KILLS", 8);
    let mut draws = Draws(kills);
    for topic in ["from-a", "from-b"] {
        kafka.create(topic, 2, &[]);
        for partition in 0..2 {
            let mut row = |i: u64| {
                let (ms, k) = (i * 20 + draws.below(900), draws.below(40));
                format!(r#"{{"id":{i},"k":{k},"ts":"2024-01-01 00:00:{:02}.{:03}"}}"#, ms / 1000 % 60, ms % 1000)
            };
            let rows: Vec<String> = (0..ROWS).map(&mut row).collect();
            kafka.send(topic, partition, &rows.iter().map(String::as_str).collect::<Vec<_>>());
        }
    }
    let mut undisturbed = Job::new(&kafka, folder.path(), "undisturbed");
    undisturbed.finish();
    // Until the marks of the last commit are in all partitions.
    std::thread::sleep(Duration::from_secs(1));
    let expected = undisturbed.rows();
    // HAVING leaves a fifth of the keys out.
    let fewest = |output: &str| if output == "current" { 25 } else { 40 };
    assert!(expected.iter().all(|(output, rows)| rows.len() >= fewest(output)), "{expected:?}");
    let mut left = kills;
    while left > 0 {
        let mut job = Job::new(&kafka, folder.path(), &format!("killed-{left}"));
        let now = left.min(8);
        left -= now;
        for _ in 0..now {
            let mut command = job.command(3000, 1 + draws.below(4));
            let spill = ["pipeline.spill=auto", "pipeline.spill=always"][draws.below(2) as usize];
            let mut child = command.args(["--set", spill]).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(50 + draws.below(900)));
            child.kill().unwrap();
            child.wait().unwrap();
        }
        // A job that has ended is not run again.
        for _ in 0..2 {
            job.finish();
            job.shows(&expected, left);
        }
    }
}
