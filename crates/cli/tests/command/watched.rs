//! What operators see of a job: metrics, probes, logs, and restarts after an outage.

use crate::support::millstream;
use crate::watching::{Watching, sample};
use crate::{ended, interrupt, text};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::time::{Duration, Instant};

const ENDLESS: &str = "CREATE TABLE numbers (n BIGINT, ts AS TO_TIMESTAMP_LTZ(n, 3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen', \
     'rows-per-second' = '1000'); CREATE TABLE nowhere (n BIGINT) WITH ('connector' = 'blackhole');";

#[test]
fn a_job_can_be_watched() {
    let folder = tempfile::tempdir().unwrap();
    let sql = format!("{ENDLESS} INSERT INTO nowhere SELECT n FROM numbers");
    let state = folder.path().join("state");
    let interval = "execution.checkpointing.interval=100 ms";
    let words = ["run", "--state-dir", state.to_str().unwrap(), "--set", interval, "-e", &sql];
    let job = Watching::start(millstream(folder.path()).args(words));
    let address = &job.address;
    assert!(address.starts_with("127.0.0.1:"), "{address}: others cannot reach it unless that is asked for");
    job.shows(&["millstream_checkpoints_total{job=\"nowhere\"}"], |samples| samples[0] > 0.0);
    assert_eq!(job.get("/ready").0, 200);
    let (status, page) = job.get("/metrics");
    assert_eq!(status, 200);
    assert!(sample(&page, "millstream_rows_in_total{job=\"nowhere\"}").unwrap() > 0.0, "{page}");
    assert!(sample(&page, "millstream_checkpoint_age_seconds{job=\"nowhere\"}").unwrap() < 30.0, "{page}");
    assert_eq!(sample(&page, "millstream_job_restarts_total{job=\"nowhere\"}"), Some(0.0), "{page}");
    assert!(page.contains("millstream_build_info{version="), "{page}");
    assert_eq!(job.get("/health"), (200, "ok\n".to_string()));
    let (status, body) = job.get("/stats");
    assert!(status == 404 && body.contains("/metrics"), "{body}");
    assert_eq!(job.stopped().0, Some(0));
}

#[test]
fn a_job_that_waits_is_not_ready() {
    let folder = tempfile::tempdir().unwrap();
    let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let sql = format!(
        "CREATE TABLE t (n BIGINT) WITH ('connector' = 'socket', 'hostname' = '127.0.0.1', 'port' = '{port}', 'format' = 'json', \
         'connect.timeout' = '60 s'); {ENDLESS} INSERT INTO t SELECT n FROM numbers"
    );
    let job = Watching::start(millstream(folder.path()).args(["run", "-e", &sql]));
    job.shows(&["millstream_job_ready{job=\"t\"}"], |samples| samples[0] == 0.0);
    // The table is named once it is being opened.
    let since = Instant::now();
    while job.get("/ready").1 != "t: t does not answer yet\n" && since.elapsed() < Duration::from_secs(10) {}
    let (status, body) = job.get("/ready");
    assert_eq!((status, body.as_str()), (503, "t: t does not answer yet\n"));
    assert_eq!(job.get("/health").0, 200);
    job.tells(&["the query has not begun after 10 s: t does not answer yet"]);
}

#[test]
fn a_sink_that_hangs_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let sql = format!(
        "CREATE TABLE t (n BIGINT, text STRING) WITH ('connector' = 'socket', 'hostname' = '127.0.0.1', 'port' = '{}', 'format' = 'json'); \
         CREATE TABLE s (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '100000'); \
         INSERT INTO t SELECT n, REPEAT('x', 1000) FROM s",
        listener.local_addr().unwrap().port()
    );
    let job = Watching::start(millstream(folder.path()).args(["run", "-e", &sql]));
    let (mut reader, _) = listener.accept().unwrap();
    let writing = "millstream_sink_writing_seconds{job=\"t\",sink=\"sink 0: t\"}";
    job.shows(&[writing], |samples| samples[0] > 10.0);
    job.tells(&["sink 0: t has been busy with one write"]);
    // It is told once, not every second.
    job.shows(&[writing], |samples| samples[0] > 12.0);
    assert_eq!(job.log().matches("busy with one write").count(), 1, "{}", job.log());
    // The reader reads on.
    std::thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
    job.shows(&[writing], |samples| samples[0] < 1.0);
    job.stopped();
}

#[test]
fn an_address_that_cannot_be_served_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    for address in [taken.local_addr().unwrap().to_string().as_str(), "no such host:1", "x"] {
        let output = millstream(folder.path()).args(["run", "--http", address, "-e", "SELECT 1"]).output().unwrap();
        let errors = text(&output.stderr);
        assert!(
            output.status.code() == Some(2)
                && errors.contains("--http")
                && (errors.contains("give a port") || errors.contains("give another port")),
            "{errors}"
        );
    }
}

#[test]
fn logs_have_time_and_level() {
    let folder = tempfile::tempdir().unwrap();
    let sql = "SELECT * FROM (VALUES (1)) AS v(x); SELECT y FROM (VALUES (1)) AS v(x)";
    let run = |form: &str| millstream(folder.path()).args(["run", "--log-format", form, "-e", sql]).output().unwrap();
    let output = run("json");
    let lines: Vec<Value> = text(&output.stderr).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.iter().map(|line| line["level"].as_str().unwrap()).collect::<Vec<_>>(), ["INFO", "ERROR"]);
    assert!(lines[0]["message"].as_str().unwrap().contains("1 row out"), "{lines:?}");
    assert_eq!(lines[1]["code"], "MS2003");
    assert!(lines.iter().all(|line| line["time"].as_str().unwrap().ends_with('Z')), "{lines:?}");
    assert_eq!(text(&output.stdout), "{\"x\":1}\n");
    let lines = text(&run("lines").stderr);
    let (info, error) = lines.split_once('\n').unwrap();
    assert!(
        info.contains("Z INFO ") && error.contains("Z ERROR error[MS2003]") && error.lines().count() == 1,
        "{lines}"
    );
}

#[test]
fn an_outage_is_waited_out() {
    let folder = tempfile::tempdir().unwrap();
    let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let sql = format!(
        "CREATE TABLE t (n BIGINT) WITH ('connector' = 'socket', 'hostname' = '127.0.0.1', 'port' = '{port}', 'format' = 'json', \
         'connect.timeout' = '0 s'); INSERT INTO t VALUES (1), (2)"
    );
    let run = |settings: &[&str]| {
        let set = settings.iter().flat_map(|setting| ["--set", setting]);
        millstream(folder.path()).args(["run", "-e", &sql]).args(set).spawn().unwrap()
    };
    // Without a state directory a failure ends the job, and so does one too many.
    let (code, errors) = ended(run(&[]));
    assert!(code == Some(1) && !errors.contains("restart"), "{errors}");
    let fixed = [
        "restart-strategy.type=fixed-delay",
        "restart-strategy.fixed-delay.attempts=2",
        "restart-strategy.fixed-delay.delay=50 ms",
    ];
    let (code, errors) = ended(run(&fixed));
    assert!(code == Some(1) && errors.matches("MS5001").count() == 3, "{errors}");
    assert!(errors.contains("note: restart 1 in 50.0 ms") && errors.contains("restart 2"), "{errors}");
    // The server comes back.
    let backoff =
        ["restart-strategy.type=exponential-delay", "restart-strategy.exponential-delay.initial-backoff=100 ms"];
    let mut child = run(&backoff);
    let mut errors = BufReader::new(child.stderr.take().unwrap()).lines();
    while !errors.next().unwrap().unwrap().contains("restart 2") {}
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let mut rows = String::new();
    listener.accept().unwrap().0.read_to_string(&mut rows).unwrap();
    assert_eq!(rows, "{\"n\":1}\n{\"n\":2}\n");
    errors.for_each(drop);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    // Who does not want to wait stops it.
    drop(listener);
    let mut child = run(&["restart-strategy.type=fixed-delay", "restart-strategy.fixed-delay.delay=1 h"]);
    let mut errors = BufReader::new(child.stderr.take().unwrap()).lines();
    while !errors.next().unwrap().unwrap().contains("restart 1 in 60.0 min") {}
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(1));
}
