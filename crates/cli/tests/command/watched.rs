//! What operators see of a job: metrics, probes, logs, and restarts after an outage.

use crate::support::millstream;
use crate::{ended, interrupt, text};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Child;
use std::time::{Duration, Instant};

const ENDLESS: &str = "CREATE TABLE numbers (n BIGINT, ts AS TO_TIMESTAMP_LTZ(n, 3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen', \
     'rows-per-second' = '1000'); CREATE TABLE nowhere (n BIGINT) WITH ('connector' = 'blackhole');";

/// Status and body of an answer.
fn get(address: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_string())
}

/// The address that a process says it serves.
fn served(child: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("metrics at http://").and_then(|rest| rest.strip_suffix("/metrics"));
    address.unwrap_or_else(|| panic!("{line}")).to_string()
}

/// Until `done` gives something.
fn eventually<T>(what: &str, mut done: impl FnMut() -> Option<T>) -> T {
    let since = Instant::now();
    loop {
        if let Some(value) = done() {
            return value;
        }
        assert!(since.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn sample(page: &str, series: &str) -> Option<f64> {
    page.lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok())
}

#[test]
fn a_job_can_be_watched() {
    let folder = tempfile::tempdir().unwrap();
    let sql = format!("{ENDLESS} INSERT INTO nowhere SELECT n FROM numbers");
    let state = folder.path().join("state");
    let words = [
        "run",
        "--http",
        "0",
        "--state-dir",
        state.to_str().unwrap(),
        "--set",
        "execution.checkpointing.interval=100 ms",
        "-e",
        &sql,
    ];
    let mut child = millstream(folder.path()).args(words).spawn().unwrap();
    let address = served(&mut child);
    assert!(address.starts_with("127.0.0.1:"), "{address}: others cannot reach it unless that is asked for");
    eventually("the job begins", || (get(&address, "/ready").0 == 200).then_some(()));
    let page = eventually("there is a checkpoint", || {
        let (status, page) = get(&address, "/metrics");
        assert_eq!(status, 200);
        (sample(&page, "millstream_checkpoints_total{job=\"nowhere\"}")? > 0.0).then_some(page)
    });
    assert!(sample(&page, "millstream_rows_in_total{job=\"nowhere\"}").unwrap() > 0.0, "{page}");
    assert!(sample(&page, "millstream_checkpoint_age_seconds{job=\"nowhere\"}").unwrap() < 30.0, "{page}");
    assert_eq!(sample(&page, "millstream_job_restarts_total{job=\"nowhere\"}"), Some(0.0), "{page}");
    assert!(page.contains("millstream_build_info{version="), "{page}");
    assert_eq!(get(&address, "/health"), (200, "ok\n".to_string()));
    let stats: Value = serde_json::from_str(&get(&address, "/stats").1).unwrap();
    assert_eq!((stats[0]["job"].as_str(), stats[0]["stats"]["version"].as_u64()), (Some("nowhere"), Some(1)));
    let (status, body) = get(&address, "/dashboard");
    assert!(status == 404 && body.contains("/metrics"), "{body}");
    interrupt(&child);
    assert_eq!(ended(child).0, Some(0));
}

#[test]
fn a_job_that_waits_is_not_ready() {
    let folder = tempfile::tempdir().unwrap();
    let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let sql = format!(
        "CREATE TABLE t (n BIGINT) WITH ('connector' = 'socket', 'hostname' = '127.0.0.1', 'port' = '{port}', 'format' = 'json', \
         'connect.timeout' = '60 s'); {ENDLESS} INSERT INTO t SELECT n FROM numbers"
    );
    let mut child = millstream(folder.path()).args(["run", "--http", "0", "-e", &sql]).spawn().unwrap();
    let address = served(&mut child);
    let (status, body) =
        eventually("it says so", || Some(get(&address, "/ready")).filter(|(status, _)| *status == 503));
    assert!(status == 503 && body.contains("t: "), "{body}");
    assert_eq!(get(&address, "/health").0, 200);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn an_address_that_cannot_be_served_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    for address in [taken.local_addr().unwrap().to_string().as_str(), "no such host:1", "x"] {
        let output = millstream(folder.path()).args(["run", "--http", address, "-e", "SELECT 1"]).output().unwrap();
        let errors = text(&output.stderr);
        assert!(
            output.status.code() == Some(2) && errors.contains("--http") && errors.contains("give a port"),
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
    let child = run(&["restart-strategy.type=fixed-delay", "restart-strategy.fixed-delay.delay=1 h"]);
    std::thread::sleep(Duration::from_secs(1));
    interrupt(&child);
    let (code, errors) = ended(child);
    assert!(code == Some(1) && errors.contains("restart 1 in 60.0 min"), "{errors}");
}
