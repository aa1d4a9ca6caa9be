//! What the first of several processes tells of all: metrics, statistics, and the status of a cluster.

use crate::processes::{Node, nodes as processes, on};
use crate::support::millstream;
use crate::text;
use crate::watching::{Watching, sample};
use serde_json::Value;
use std::path::Path;

/// Rows of each of the files.
const ROWS: u64 = 3000;
const FILES: u64 = 6;

/// Files whose rows take a second or two, a table of them, and one that takes all.
fn tables(folder: &Path) -> String {
    let rows: String = (0..ROWS).map(|row| format!("{},{}\n", row, row % 7)).collect();
    std::fs::create_dir(folder.join("in")).unwrap();
    (0..FILES).for_each(|file| std::fs::write(folder.join(format!("in/{file}.csv")), &rows).unwrap());
    format!(
        "CREATE TABLE t (id BIGINT, k BIGINT, ts AS TO_TIMESTAMP_LTZ(id, 3), WATERMARK FOR ts AS ts)
         WITH ('connector' = 'filesystem', 'path' = '{}/in', 'format' = 'csv', 'scan.rate-limit.rows-per-second' = '1500');
         CREATE TABLE o (k BIGINT, n BIGINT) WITH ('connector' = 'blackhole');",
        folder.display()
    )
}

/// The JSON object that is in a log.
fn stats_in(log: &str) -> Value {
    let line = log.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{log}"));
    serde_json::from_str(line).unwrap()
}

/// The sum of a number of all nodes.
fn sum(stats: &Value, field: &str) -> u64 {
    stats["nodes"].as_array().unwrap().iter().map(|node| node[field].as_u64().unwrap()).sum()
}

#[test]
fn the_first_node_tells_what_all_have_done() {
    let folder = tempfile::tempdir().unwrap();
    let nodes: Vec<Node> = processes(2, folder.path());
    let sql = format!(
        "{} INSERT INTO o SELECT k, COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND))
         GROUP BY k, window_start, window_end",
        tables(folder.path())
    );
    let mut command = millstream(folder.path());
    command.args(["run", "-e", &sql, "--stats", "json", "--state-dir", "state", "--workers", "1"]);
    let job = Watching::start(on(&mut command, &nodes, "5"));
    let of_nodes =
        |metric: &str| [0, 1, 2].map(|node| format!("millstream_node_{metric}{{job=\"o\",node=\"{node}\"}}"));
    let mut series = Vec::from(of_nodes("rows_in_total"));
    series.push("millstream_rows_in_total{job=\"o\"}".into());
    let series: Vec<&str> = series.iter().map(String::as_str).collect();
    job.shows(&series, |rows| rows[..3].iter().all(|&rows| rows > 0.0) && rows[3] > rows[0]);
    let status = millstream(folder.path()).args(["cluster", "status", "--state-dir", "state"]).output().unwrap();
    let (status, errors) = (text(&status.stdout), text(&status.stderr));
    let lines: Vec<&str> = status.lines().collect();
    assert!(lines.len() == 4 && lines[0] == "3 nodes", "{status}{errors}");
    for (node, line) in lines[1..].iter().enumerate() {
        let address = if node == 0 { "127.0.0.1" } else { &nodes[node - 1].address };
        let is_of_node = line.starts_with(&format!("node {node} at {address}"));
        assert!(is_of_node && line.contains(" rows read, ") && line.contains(" rows/s, "), "{status}");
        assert!(!line.contains(": 0 rows read"), "{status}");
    }
    let page = job.get("/metrics").1;
    for metric in ["rows_out_total", "state_bytes", "sent_bytes_total", "report_age_seconds"] {
        assert!(of_nodes(metric).iter().all(|series| sample(&page, series).is_some()), "{metric}\n{page}");
    }
    let (code, log) = job.ended();
    let stats = stats_in(&log);
    assert_eq!((code, stats["rows_in"].as_u64()), (Some(0), Some(ROWS * FILES)), "{log}");
    // Seven keys in each of three windows; every node writes what it has.
    assert_eq!((stats["rows_out"].as_u64(), stats["windows"].as_u64()), (Some(21), Some(3)), "{log}");
    assert_eq!((sum(&stats, "rows_in"), sum(&stats, "rows_out")), (ROWS * FILES, 21), "{log}");
    assert!(stats["nodes"].as_array().unwrap().iter().all(|node| node["rows_in"] == 2 * ROWS), "{log}");
    assert_eq!(stats["aggregations"][0]["sent_bytes"].as_u64(), Some(sum(&stats, "sent_bytes")), "{log}");
    assert_eq!(stats["sources"][0]["split_count"].as_u64(), Some(FILES), "{log}");
    let mut names: Vec<&str> = stats["nodes"][2].as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    let wanted =
        "age_s elapsed_s lanes lost node replaced rows_in rows_out rows_per_second sent_bytes state_bytes watermark_ms";
    assert_eq!(names.join(" "), wanted);
    let lanes = stats["nodes"][2]["lanes"].as_array().unwrap();
    assert_eq!(lanes.iter().map(|lane| lane["to"].as_u64()).collect::<Vec<_>>(), [Some(0), Some(1)], "{log}");
}

#[test]
fn a_run_that_is_interrupted_tells_what_all_have_done() {
    let folder = tempfile::tempdir().unwrap();
    let nodes: Vec<Node> = processes(2, folder.path());
    let sql = format!("{} INSERT INTO o SELECT k, id FROM t", tables(folder.path()));
    for state in [&["--state-dir", "state"][..], &[]] {
        let mut command = millstream(folder.path());
        command.args(["run", "-e", &sql, "--stats", "json", "--workers", "1"]).args(state);
        let job = Watching::start(on(&mut command, &nodes, "5"));
        let series = [0, 1, 2].map(|node| format!("millstream_node_rows_in_total{{job=\"o\",node=\"{node}\"}}"));
        job.shows(&series.each_ref().map(String::as_str), |rows| rows.iter().all(|&rows| rows > 0.0));
        let (_, log) = job.stopped();
        let stats = stats_in(&log);
        let rows = stats["rows_in"].as_u64().unwrap();
        assert!(rows > 0 && rows == sum(&stats, "rows_in") && rows <= ROWS * FILES, "{log}");
        assert_eq!(stats["nodes"].as_array().unwrap().len(), 3, "{log}");
        assert!(stats["nodes"].as_array().unwrap().iter().all(|node| node["rows_in"].as_u64() > Some(0)), "{log}");
    }
}

#[test]
fn a_run_waits_for_nodes_that_another_one_has() {
    let folder = tempfile::tempdir().unwrap();
    let nodes: Vec<Node> = processes(2, folder.path());
    let sql = format!("{} INSERT INTO o SELECT k, id FROM t", tables(folder.path()));
    let mut command = millstream(folder.path());
    command.args(["run", "-e", &sql, "--workers", "1"]);
    let job = Watching::start(on(&mut command, &nodes, "5"));
    let series = [0, 1, 2].map(|node| format!("millstream_node_rows_in_total{{job=\"o\",node=\"{node}\"}}"));
    job.shows(&series.each_ref().map(String::as_str), |rows| rows.iter().all(|&rows| rows > 0.0));
    let other = |seconds: &str| {
        let mut command = millstream(folder.path());
        on(command.args(["run", "-e", "SELECT 1 AS x", "--output", "csv"]), &nodes, seconds);
        command
    };
    let output = other("1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let waits = format!("waiting for {}, which takes part in the job ", nodes[0].address);
    assert!(!output.status.success() && said.contains(&waits) && said.contains("MS5004"), "{said}");
    let waiting = other("30").stdout(std::process::Stdio::piped()).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    job.stopped();
    let output = waiting.wait_with_output().unwrap();
    assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).contains('1'));
}
