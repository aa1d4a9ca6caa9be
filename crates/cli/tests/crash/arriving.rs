//! Jobs whose input grows by files while they run: each row comes once, whoever dies, and on any number of nodes.

use crate::draws::Draws;
use crate::processes::{Node, nodes as processes, on};
use crate::support::millstream;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Rows of a file.
const ROWS: usize = 200;

struct Growing {
    folder: tempfile::TempDir,
    query: &'static str,
}

impl Growing {
    fn new(query: &'static str) -> Growing {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("in")).unwrap();
        Growing { folder, query }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Has a file appear as a whole, with a row for each of some times in minutes.
    fn put(&self, name: &str, minutes: impl Iterator<Item = usize>) {
        let mut text = String::new();
        minutes.for_each(|minute| {
            writeln!(text, "{name}-{minute},2026-01-01 {:02}:{:02}:30", minute / 60, minute % 60).unwrap();
        });
        fs::write(self.path("in/.new"), text).unwrap();
        fs::rename(self.path("in/.new"), self.path("in").join(name)).unwrap();
    }

    /// The job on simulated nodes, or on these and one more.
    fn start(&self, simulated: usize, nodes: &[Node]) -> Child {
        self.start_with("'source.monitor-interval'='20 ms'", simulated, nodes)
    }

    /// The same with an option of its input.
    fn start_with(&self, option: &str, simulated: usize, nodes: &[Node]) -> Child {
        let sql = format!(
            "SET 'execution.checkpointing.interval' = '50 ms'; SET 'pipeline.nodes' = '{simulated}';
             CREATE TABLE t (k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
             WITH ('connector'='filesystem', 'path'='in', 'format'='csv', {option});
             CREATE TABLE o (k STRING, n BIGINT) WITH ('connector'='filesystem', 'path'='out', 'format'='csv');
             INSERT INTO o {};",
            self.query
        );
        let mut command = millstream(self.folder.path());
        command.args(["run", "-e", &sql, "--quiet", "--state-dir", "state", "--workers", "2"]);
        on(&mut command, nodes, "20").stderr(Stdio::piped()).spawn().unwrap()
    }

    /// The rows that can be seen, and how often.
    fn rows(&self) -> BTreeMap<String, usize> {
        let mut rows = BTreeMap::new();
        for entry in fs::read_dir(self.path("out")).into_iter().flatten().map(Result::unwrap) {
            if entry.file_name().to_string_lossy().starts_with("part-") {
                // A recovery may remove it.
                let text = fs::read_to_string(entry.path()).unwrap_or_default();
                text.lines().for_each(|line| *rows.entry(line.to_string()).or_default() += 1);
            }
        }
        rows
    }

    /// Waits until the output has so many rows.
    fn await_rows(&self, count: usize, child: &mut Child) -> BTreeMap<String, usize> {
        let since = Instant::now();
        loop {
            let rows = self.rows();
            if rows.len() >= count {
                return rows;
            }
            if child.try_wait().unwrap().is_some() || since.elapsed() > Duration::from_secs(40) {
                _ = child.kill();
                let mut errors = String::new();
                std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut errors).unwrap();
                panic!("{} of {count} rows have come: {errors}", rows.len());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn stop(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Runs and kills the job on one number of nodes after the other, while files come.
fn each_row_comes_once(starts: &[(usize, &[Node])], job: &Growing) {
    let mut draws = Draws(7);
    let mut files = 0;
    let mut put = |count: usize| {
        for _ in 0..count {
            job.put(&format!("f-{files}.csv"), 0..ROWS);
            files += 1;
        }
        files
    };
    put(3);
    for (round, (simulated, nodes)) in starts.iter().enumerate() {
        let mut child = job.start(*simulated, nodes);
        let all = put(1) * ROWS;
        job.await_rows(all, &mut child);
        // Found and begun, or not yet; and one that comes when nobody looks.
        put(3);
        std::thread::sleep(Duration::from_millis(draws.below(300)));
        stop(child);
        let all = put(1) * ROWS;
        let mut child = job.start(*simulated, nodes);
        let rows = job.await_rows(all, &mut child);
        assert_eq!(rows.len(), all, "round {round}");
        let twice: Vec<_> = rows.iter().filter(|(_, count)| **count != 1).take(5).collect();
        assert!(twice.is_empty(), "round {round}: {twice:?}");
        stop(child);
    }
}

#[test]
fn files_that_come_while_a_job_runs_and_dies_are_read_once() {
    let job = Growing::new("SELECT k, 1 FROM t");
    each_row_comes_once(&[(1, &[]), (3, &[]), (2, &[]), (1, &[])], &job);
}

#[test]
fn a_job_that_has_read_some_files_goes_on_with_those_that_come() {
    let job = Growing::new("SELECT k, 1 FROM t");
    (0..3).for_each(|file| job.put(&format!("f-{file}.csv"), 0..ROWS));
    // It is within one of them or behind it.
    let mut child = job.start_with("'scan.rate-limit.rows-per-second'='500'", 1, &[]);
    let read = job.await_rows(ROWS / 2, &mut child).len();
    stop(child);
    assert!(read < 3 * ROWS, "it has come to its end");
    for nodes in [3, 1] {
        job.put(&format!("g-{nodes}.csv"), 0..ROWS);
        let all = fs::read_dir(job.path("in")).unwrap().count() * ROWS;
        let mut child = job.start(nodes, &[]);
        let rows = job.await_rows(all, &mut child);
        assert!(rows.values().all(|count| *count == 1) && rows.len() == all);
        stop(child);
    }
    // Without the option nobody knows what has been read.
    let child = job.start_with("'csv.ignore-parse-errors'='false'", 1, &[]).wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&child.stderr).into_owned();
    assert!(errors.contains("MS4013") && errors.contains("is gone, but had not been read"), "{errors}");
}

#[test]
fn one_of_several_processes_reads_a_file_that_comes() {
    let job = Growing::new("SELECT k, 1 FROM t");
    let nodes = processes(2, job.folder.path());
    each_row_comes_once(&[(1, &nodes), (1, &nodes[..1])], &job);
}

#[test]
fn windows_wait_for_all_files_that_come_together_and_for_none_that_have_been_read() {
    for nodes in [1, 3] {
        let query = "SELECT DATE_FORMAT(window_start, 'HH:mm'), COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end";
        let job = Growing::new(query);
        (0..6).for_each(|file| job.put(&format!("a-{file}.csv"), 0..=10));
        let mut child = job.start(nodes, &[]);
        let minutes =
            |minutes: std::ops::Range<usize>, count: usize| minutes.map(move |m| (format!("00:{m:02},{count}"), 1));
        let mut expected: BTreeMap<String, usize> = minutes(0..10, 6).collect();
        assert_eq!(job.await_rows(expected.len(), &mut child), expected, "{nodes} nodes");
        // Files of one look; nobody knows of them before their directory has its name.
        fs::create_dir(job.path("in/.day")).unwrap();
        (0..5).for_each(|file| job.put(&format!(".day/b-{file}.csv"), 11..=20));
        job.put(".day/z-empty.csv", 0..0);
        fs::rename(job.path("in/.day"), job.path("in/day")).unwrap();
        expected.extend(minutes(10..11, 6).chain(minutes(11..20, 5)));
        assert_eq!(job.await_rows(expected.len(), &mut child), expected, "{nodes} nodes");
        // Rows behind the watermark are late, whatever file they are in; it goes on with the next rows that are not.
        job.put("c.csv", (5..15).chain(20..=30));
        expected.extend(minutes(20..21, 6).chain(minutes(21..30, 1)));
        assert_eq!(job.await_rows(expected.len(), &mut child), expected, "{nodes} nodes");
        stop(child);
    }
}
