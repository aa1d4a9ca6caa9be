//! A job with its input, output and state.

use crate::draws::Draws;
use crate::server::Server;
use crate::support::millstream;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Tables, an operator with rows, one with state of its own; directories and a file.
const SCRIPT: &str = "
SET 'execution.checkpointing.interval' = '50 ms';
CREATE TABLE a (id BIGINT, k BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
WITH ('connector'='filesystem', 'path'='in/a', 'format'='csv', 'scan.rate-limit.rows-per-second'='${RATE}');
CREATE TABLE b (id BIGINT, k BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
WITH ('connector'='filesystem', 'path'='in/b', 'format'='csv', 'scan.rate-limit.rows-per-second'='${RATE}');
CREATE TABLE tumble (k BIGINT, ws TIMESTAMP(3), n BIGINT)
WITH ('connector'='filesystem', 'path'='${OUT}/tumble', 'format'='csv');
CREATE TABLE session (k BIGINT, ws TIMESTAMP(3), we TIMESTAMP(3), n BIGINT)
WITH ('connector'='filesystem', 'path'='${OUT}/session', 'format'='csv');
CREATE TABLE joined (k BIGINT, i BIGINT, j BIGINT)
WITH ('connector'='filesystem', 'path'='${OUT}/joined.csv', 'format'='csv');
BEGIN STATEMENT SET;
INSERT INTO tumble SELECT k, window_start, COUNT(*)
FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end;
INSERT INTO session SELECT k, window_start, window_end, COUNT(*)
FROM TABLE(SESSION(TABLE a PARTITION BY k, DESCRIPTOR(ts), INTERVAL '2' SECOND)) GROUP BY k, window_start, window_end;
INSERT INTO joined SELECT a.k, a.id, b.id
FROM a JOIN b ON a.k = b.k AND a.ts BETWEEN b.ts - INTERVAL '1' SECOND AND b.ts;
END;
";

/// Rows in a second, of a job that is over at once.
pub const FAST: u64 = 100_000_000;
/// Of one that lasts some seconds.
pub const SLOW: u64 = 3000;

pub struct Job {
    pub folder: PathBuf,
    pub server: Arc<Server>,
    pub bucket: String,
    port: u16,
}

impl Job {
    /// With a bucket of its own.
    pub fn new(folder: &Path, bucket: &str) -> Job {
        let server = Server::shared();
        server.make_bucket(bucket);
        let mut draws = Draws(7);
        for (table, file) in [("a", 0), ("a", 1), ("b", 0), ("b", 1)] {
            let row = |i: u64| {
                let (ms, k) = (i * 20 + draws.below(900), draws.below(40));
                format!("{i},{k},2024-01-01 00:{:02}:{:02}.{:03}\n", ms / 60_000, ms / 1000 % 60, ms % 1000)
            };
            let text: String = (0..6000).map(row).collect();
            fs::create_dir_all(folder.join("in").join(table)).unwrap();
            fs::write(folder.join("in").join(table).join(format!("{file}.csv")), text).unwrap();
        }
        fs::write(folder.join("job.sql"), SCRIPT).unwrap();
        for machine in ["here", "there"] {
            fs::create_dir(folder.join(machine)).unwrap();
        }
        let port = server.port();
        Job { folder: folder.to_path_buf(), server, bucket: bucket.into(), port }
    }

    /// The same behind a gate.
    pub fn at(self, port: u16) -> Job {
        Job { port, ..self }
    }

    /// The command on a machine, which is its directory for temporary files.
    pub fn command_at(&self, machine: &str, arguments: &[&str]) -> Command {
        let mut command = with_store(millstream(&self.folder), self.port);
        command.env("TMPDIR", self.folder.join(machine));
        command.args(arguments).args(["--state-dir", &format!("s3://{}/some/job", self.bucket)]);
        command
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        self.command_at("here", arguments)
    }

    pub fn job_at(&self, machine: &str, rate: u64, workers: u64) -> Command {
        let mut command = self.command_at(machine, &["run", "job.sql", "--workers", &workers.to_string()]);
        command.arg("--var=OUT=out").arg(format!("--var=RATE={rate}"));
        command
    }

    pub fn job(&self, rate: u64, workers: u64) -> Command {
        self.job_at("here", rate, workers)
    }

    /// The rows of a run without checkpoints.
    pub fn expected(&self) -> BTreeMap<String, Vec<String>> {
        let mut command = millstream(&self.folder);
        succeeds(command.args(["run", "job.sql", "--var=OUT=expected", &format!("--var=RATE={FAST}")]));
        self.rows("expected")
    }

    /// The rows of each table, sorted.
    pub fn rows(&self, out: &str) -> BTreeMap<String, Vec<String>> {
        let mut rows: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for table in ["tumble", "session", "."] {
            for file in fs::read_dir(self.folder.join(out).join(table)).unwrap().map(Result::unwrap) {
                if file.file_type().unwrap().is_file() && !file.file_name().to_string_lossy().starts_with('.') {
                    let text = fs::read_to_string(file.path()).unwrap();
                    rows.entry(table.into()).or_default().extend(text.lines().map(str::to_string));
                }
            }
        }
        rows.values_mut().for_each(|rows| rows.sort());
        assert_eq!(rows.len(), 3);
        rows
    }

    pub fn assert_rows(&self, expected: &BTreeMap<String, Vec<String>>, when: &str) {
        let found = self.rows("out");
        for (table, rows) in expected {
            assert!(found[table] == *rows, "{table} has {} rows instead of {}; {when}", found[table].len(), rows.len());
        }
    }

    /// The keys of manifests, in order.
    pub fn manifests(&self) -> Vec<String> {
        let mut keys = self.server.keys(&self.bucket);
        keys.retain(|key| key.starts_with("some/job/job-1/checkpoint-"));
        keys
    }

    /// Waits until there are `wanted` checkpoints.
    pub fn await_checkpoints(&self, wanted: usize, child: &mut Child) {
        let since = Instant::now();
        while self.manifests().len() < wanted {
            assert!(child.try_wait().unwrap().is_none(), "it has ended too early");
            assert!(since.elapsed() < Duration::from_secs(60), "there are no checkpoints");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// What finds the store at a port.
pub fn of_store(port: u16) -> Vec<(&'static str, String)> {
    let named = |(name, value): (&'static str, &str)| (name, value.to_string());
    let fixed = [("AWS_REGION", "us-east-1"), ("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test")];
    let endpoint = ("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{port}"));
    fixed.map(named).into_iter().chain([endpoint]).collect()
}

/// The command with access to a store.
pub fn with_store(mut command: Command, port: u16) -> Command {
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("AWS_")) {
        command.env_remove(name);
    }
    command.envs(of_store(port));
    command
}

pub fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// What a command that succeeds writes to standard output.
pub fn succeeds(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", message(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// What a command that fails says.
pub fn fails(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(!output.status.success(), "{command:?}");
    message(&output)
}

pub fn message(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
