//! What the command tells of how a query ran: EXPLAIN ANALYZE, variants and events in statistics, reports during a run.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]
#![cfg(unix)]

mod support;

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Output};
use support::millstream;
use tempfile::TempDir;

/// A thousand rows, two thirds of which have an even `a`.
const TABLE: &str =
    "CREATE TABLE t (a INT, b STRING) WITH ('connector' = 'filesystem', 'path' = 't.csv', 'format' = 'csv');";

fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let rows: String = (0..1000).map(|i| format!("{},row {i}\n", if i % 3 == 0 { 1 } else { 2 * i })).collect();
    fs::write(folder.path().join("t.csv"), rows).unwrap();
    folder
}

fn run(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = millstream(folder).args(arguments).output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

fn contains_all(text: &str, parts: &[&str]) {
    parts.iter().for_each(|part| assert!(text.contains(part), "no {part:?} in\n{text}"));
}

#[test]
fn explain_analyze_runs_a_query_and_tells_what_it_did() {
    let folder = folder();
    let sql = format!("{TABLE} EXPLAIN ANALYZE SELECT b FROM t WHERE MOD(a, 2) = 0");
    let (exit_code, out, errors) = run(folder.path(), &["run", "--tier", "interpret", "-e", &sql]);
    assert_eq!((exit_code, errors.as_str()), (Some(0), ""));
    contains_all(&out, &["source 0: table t", "  | 1000 rows, ", "  | 1000 rows in, 666 out, 1 buffer, "]);
    contains_all(&out, &["  | variant 0 (interpreted, generic): 1000 rows, ", " per row, in use\n"]);
    contains_all(&out, &["== Run ==\n1000 rows in, 666 rows out in ", "\n== Events ==\nnone\n"]);
    assert!(!out.contains("row 1\n"), "rows are discarded: {out}");
}

#[test]
fn each_operator_tells_of_its_rows_and_cost() {
    let folder = folder();
    let sql = format!("{TABLE} EXPLAIN ANALYZE SELECT b FROM t WHERE MOD(a, 2) = 0 AND b LIKE 'row 9%'");
    for tier in ["interpret", "compile"] {
        let (exit_code, out, errors) = run(folder.path(), &["run", "--tier", tier, "-e", &sql]);
        assert_eq!((exit_code, errors.as_str()), (Some(0), ""), "{tier}");
        let filters: Vec<&str> = out.lines().filter(|line| line.contains(" % of rows pass, ")).collect();
        assert_eq!(filters.len(), 2, "{tier}: {out}");
        assert!(filters[0].trim_start().starts_with("| 66.6 % of rows pass, "), "{tier}: {out}");
        contains_all(&out, &["    | the rest: ", "sink 0: result: 72 rows written, "]);
        assert_eq!(out.contains(" cycles) per row"), cfg!(target_arch = "x86_64"), "{tier}: {out}");
    }
}

#[test]
fn functions_of_few_values_are_not_called() {
    let folder = tempfile::tempdir().unwrap();
    let rows: String = (0..300_000).map(|i| ["apple\n", "pear\n", "orange\n"][i % 3]).collect();
    fs::write(folder.path().join("fruit.csv"), rows).unwrap();
    let table = "CREATE TABLE fruit (name STRING) WITH ('connector' = 'filesystem', 'path' = 'fruit.csv', 'format' = 'csv', \
                 'scan.rate-limit.rows-per-second' = '500000')";
    let sql = format!("{table}; EXPLAIN ANALYZE SELECT name FROM fruit WHERE name LIKE '%le' OR name LIKE 'o%'");
    let arguments = ["run", "--set", "pipeline.few-values=always", "--set", "pipeline.buffer-rows=2000", "-e", &sql];
    let (exit_code, out, errors) = run(folder.path(), &arguments);
    assert_eq!((exit_code, errors.as_str()), (Some(0), ""));
    contains_all(&out, &["300000 rows in, 200000 rows out", "3 values of name were seen; ", "name mostly one of 3"]);
}

#[test]
fn an_analyzed_insert_writes_its_rows() {
    let folder = folder();
    let sink = "CREATE TABLE s (b STRING) WITH ('connector' = 'filesystem', 'path' = 'out.csv', 'format' = 'csv');";
    let sql = format!("{TABLE} {sink} INSERT INTO s SELECT b FROM t WHERE a = 1");
    let (exit_code, out, errors) = run(folder.path(), &["explain", "--analyze", "-e", &sql]);
    assert_eq!(exit_code, Some(0), "{errors}");
    contains_all(&out, &["1000 rows in, 334 out, ", "== Run =="]);
    assert_eq!(fs::read_to_string(folder.path().join("out.csv")).unwrap().lines().count(), 334);
}

#[test]
fn aggregations_tell_of_windows_and_keys() {
    let folder = folder();
    let sql =
        format!("{TABLE} SET 'execution.runtime-mode' = 'batch'; EXPLAIN ANALYZE SELECT a, COUNT(*) FROM t GROUP BY a");
    let (exit_code, out, errors) = run(folder.path(), &["run", "-e", &sql]);
    assert_eq!(exit_code, Some(0), "{errors}");
    contains_all(
        &out,
        &["aggregation 0: ", "  | 1 window, delivered after ", "pipeline 0: from source 0", "pipeline 1: "],
    );
}

#[test]
fn what_cannot_be_analyzed_is_refused() {
    let folder = folder();
    for (arguments, exit_code, part) in [
        (vec!["run", "-e", "EXPLAIN ANALYZE CREATE TABLE x (a INT) WITH ('connector' = 'blackhole')"], 1, "EXPLAIN"),
        (vec!["run", "-e", "EXPLAIN ANALYZE EXPLAIN SELECT 1"], 1, "EXPLAIN"),
        (vec!["run", "-e", "EXPLAIN ANALYZE SELECT nope FROM missing"], 1, "MS2002"),
        (vec!["run", "-e", "EXPLAIN ANALYZE SELECT 1 / (a - a) FROM (VALUES (1)) AS v (a)"], 1, "MS3"),
        (vec!["explain", "--analyze", "--codegen", "-e", "SELECT 1"], 2, "--codegen"),
        (vec!["run", "--stats-every", "0", "-e", "SELECT 1"], 2, "--stats-every"),
    ] {
        let (code, out, errors) = run(folder.path(), &arguments);
        assert_eq!((code, out.as_str()), (Some(exit_code), ""), "{arguments:?}: {errors}");
        assert!(errors.contains(part) && !errors.contains("panicked"), "{arguments:?}: {errors}");
    }
}

#[test]
fn reports_come_during_a_run_and_an_interrupt_ends_in_an_analysis() {
    let folder = folder();
    let sql = "CREATE TABLE g (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '50000'); \
               EXPLAIN ANALYZE SELECT id FROM g WHERE id > 3 AND MOD(id, 7) = 0";
    let arguments = ["run", "--stats", "json", "--stats-every", "1", "-e", sql];
    let mut child = millstream(folder.path()).args(arguments).spawn().unwrap();
    let reports = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut reports = reports.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let report = reports.find(|report| report["programs"][0].is_object()).unwrap();
    let variants = report["programs"][0]["variants"].as_array().unwrap();
    assert!(report["rows_in"].as_u64() > Some(0) && !variants.is_empty(), "{report}");
    assert_eq!(variants.iter().filter(|v| v["current"] == true).count(), 1, "{report}");
    let mut ran = variants.iter().filter(|v| v["rows"].as_u64() > Some(0));
    assert!(ran.all(|v| v["cycles_per_row"].is_f64() == cfg!(target_arch = "x86_64")), "{report}");
    assert!(report["sinks"][0]["rows"].is_u64() && report["hardware"].is_object() | report["hardware"].is_null());
    let rows: u64 = variants.iter().map(|v| v["rows"].as_u64().unwrap()).sum();
    assert!(rows > 0 && report["events"].is_array(), "{report}");
    let status = Command::new("sh").arg("-c").arg(format!("kill -INT {}", child.id())).status().unwrap();
    assert!(status.success());
    let mut out = String::new();
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    // Code that is in the cache is there before the first row: then nothing is interpreted.
    contains_all(&out, &["pipeline 0: from source 0", "  | variant ", " per row, in use\n", "== Run =="]);
}
