//! Jobs of the command while the server is away, hangs, or does not want what they ask for.

use crate::server::{Database, Server};
use crate::support::millstream;
use crate::watching::Watching;
use std::fs;
use std::path::Path;
use std::process::Command;

const ROWS: u64 = 12_000;

/// A job with checkpoints that writes [`ROWS`] rows in some seconds.
fn command(folder: &Path, with: &str, patience: &str) -> Command {
    let with = with.replace("'30s'", &format!("'{patience}'"));
    let script = format!(
        "SET 'execution.checkpointing.interval' = '100 ms';
         SET 'restart-strategy.exponential-delay.initial-backoff' = '200 ms';
         CREATE TABLE s (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '3000',
         'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '{ROWS}');
         CREATE TABLE t (id BIGINT) {with};
         INSERT INTO t SELECT id FROM s"
    );
    fs::write(folder.join("job.sql"), script).unwrap();
    let mut command = millstream(folder);
    command.args(["run", "job.sql", "--state-dir", "state", "--workers", "1"]);
    command
}

/// The table has each row once.
fn has_every_row_once(database: &mut Database) {
    let rows = database.rows("COUNT(*), COUNT(DISTINCT id), MIN(id), MAX(id)", "FROM t");
    assert_eq!(rows, [format!("{ROWS}|{ROWS}|1|{ROWS}")]);
}

const READY: &str = "millstream_job_ready{job=\"t\"}";
const RESTARTS: &str = "millstream_job_restarts_total{job=\"t\"}";
const CHECKPOINTS: &str = "millstream_checkpoints_total{job=\"t\"}";

#[test]
fn an_outage_is_waited_out() {
    let (server, folder) = (Server::new(), tempfile::tempdir().unwrap());
    let mut database = server.database("away");
    database.execute("CREATE TABLE t (id BIGINT)");
    // The server is not there at the start, ...
    server.crash();
    let job = Watching::start(&mut command(folder.path(), &database.with("t"), "0s"));
    let names = format!("MS5001]: no connection to PostgreSQL at '127.0.0.1:{}/away'", server.port());
    job.tells(&[&names, "note: restart 1 in 200.0 ms", "note: restart 2 in 300.0 ms"]);
    job.shows(&[READY], |samples| samples[0] == 0.0);
    assert_eq!(job.get("/ready").0, 503);
    server.start();
    job.shows(&[READY, RESTARTS, CHECKPOINTS], |samples| samples[0] == 1.0 && samples[1] > 1.0 && samples[2] > 1.0);
    // ... and goes away when some rows are there.
    database.reconnect();
    assert!(database.number("SELECT COUNT(*) FROM t") > 0);
    let before = job.log().matches("restart").count();
    server.crash();
    job.shows(&[READY], |samples| samples[0] == 0.0);
    while job.log().matches("restart").count() < before + 2 {
        std::thread::yield_now();
    }
    server.start();
    let (code, log) = job.ended();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("note: resuming from checkpoint"), "{log}");
    database.reconnect();
    has_every_row_once(&mut database);
}

#[test]
fn what_is_no_outage_ends_the_job_at_once() {
    let (folder, mut database) = (tempfile::tempdir().unwrap(), Database::new("no_outage"));
    database.execute("CREATE TABLE t (id BIGINT)");
    let wrong = database.with("t").replace("'a ''secret'' word'", "'guessed'");
    let (code, log) = Watching::start(&mut command(folder.path(), &wrong, "30s")).ended();
    assert!(
        code == Some(1) && log.contains("error[MS5004]") && log.contains("password authentication failed"),
        "{log}"
    );
    assert!(!log.contains("restart"), "{log}");
    // The state is there now; the right password goes on.
    let job = Watching::start(&mut command(folder.path(), &database.with("t"), "30s"));
    job.shows(&[CHECKPOINTS], |samples| samples[0] > 1.0);
    database.execute("DROP TABLE t");
    let (code, log) = job.ended();
    assert!(code == Some(1) && log.contains("error[MS4003]") && log.contains("does not exist"), "{log}");
    assert!(!log.contains("restart"), "{log}");
}

#[test]
fn a_server_that_hangs_is_named() {
    let (folder, mut database) = (tempfile::tempdir().unwrap(), Database::new("hangs"));
    database.execute("CREATE TABLE t (id BIGINT)");
    let job = Watching::start(&mut command(folder.path(), &database.with("t"), "30s"));
    job.shows(&[CHECKPOINTS], |samples| samples[0] > 1.0);
    database.execute("BEGIN; LOCK TABLE t");
    job.shows(&["millstream_sink_committing_seconds{job=\"t\",sink=\"sink 0: t\"}"], |samples| samples[0] > 10.0);
    job.tells(&[
        "the rows of a checkpoint have not been committed for 10 s: does the server of sink 0: t still take rows?",
    ]);
    database.execute("COMMIT");
    let (code, log) = job.ended();
    assert!(code == Some(0) && log.matches("have not been committed").count() == 1, "{log}");
    has_every_row_once(&mut database);
}
