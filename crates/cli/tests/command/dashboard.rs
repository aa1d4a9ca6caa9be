//! The REST interface behind the dashboard, of jobs that run: what it says, what can be asked for, and what it finds wrong.

use crate::asking::{answers, post};
use crate::support::millstream;
use crate::watching::Watching;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

const SOURCE: &str = "CREATE TABLE numbers (n BIGINT, ts AS TO_TIMESTAMP_LTZ(n, 3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen', \
     'rows-per-second' = '20000', 'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '1000000000');";
const COUNTS: &str = "CREATE TABLE counts (w TIMESTAMP(3), c BIGINT) WITH ('connector' = 'blackhole'); \
     INSERT INTO counts SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE numbers, DESCRIPTOR(ts), INTERVAL '1' SECOND)) \
     GROUP BY window_start, window_end";

fn names(of: &Value, key: &str) -> BTreeSet<String> {
    of.as_array()
        .unwrap()
        .iter()
        .map(|part| part[key].as_str().unwrap().split(':').next().unwrap().to_string())
        .collect()
}

/// The variants of a program.
fn variants<'a>(code: &'a Value, program: &str) -> &'a [Value] {
    let programs = code["programs"].as_array().unwrap();
    programs.iter().find(|one| one["name"] == program).unwrap()["variants"].as_array().unwrap()
}

#[test]
fn a_job_is_shown_checkpointed_and_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let (sql, state) = (format!("{SOURCE} {COUNTS}"), folder.path().join("state"));
    let job =
        Watching::start(millstream(folder.path()).args(["run", "--state-dir", state.to_str().unwrap(), "-e", &sql]));
    let summary = answers(&job, "/api/v1/jobs/counts", |job| job["rows_out_per_s"].as_f64() > Some(0.0));
    assert_eq!(
        (summary["state"].as_str(), summary["nodes"].as_u64(), &summary["problems"]),
        (Some("running"), Some(1), &Value::Array(vec![]))
    );
    assert!(
        summary["sql"].as_str().unwrap().starts_with("INSERT INTO counts") && summary["state_dir"].is_string(),
        "{summary}"
    );
    // The graph has the parts that statistics have, and its edges lead from the source to the sink.
    let plan = answers(&job, "/api/v1/jobs/counts/plan", |_| true);
    let stats = answers(&job, "/api/v1/jobs/counts/stats", |_| true);
    let parts: BTreeSet<String> = ["sources", "pipelines", "aggregations", "operators", "sinks"]
        .iter()
        .flat_map(|kind| names(&stats[kind], "name"))
        .collect();
    assert_eq!(names(&plan["nodes"], "id"), parts);
    let mut at = "source 0".to_string();
    let edges = plan["edges"].as_array().unwrap();
    while let Some(edge) = edges.iter().find(|edge| edge["from"] == at.as_str()) {
        at = edge["to"].as_str().unwrap().to_string();
    }
    assert!(at == "sink 0" && plan["explain"].as_str().unwrap().contains("TUMBLE"), "{plan}");
    let code = answers(&job, "/api/v1/jobs/counts/code", |_| true);
    let generic = &variants(&code, "pipeline 0")[0];
    let [program, ir, assembly] = ["program", "ir", "assembly"].map(|form| generic[form].as_str().unwrap());
    assert!(program.contains("load 1") && ir.contains("define") && assembly.contains("ret"), "it is of no program");
    // Rows are shown once somebody has looked.
    let rows = answers(&job, "/api/v1/jobs/counts/rows", |rows| {
        rows["sinks"][0]["rows"].as_array().is_some_and(|rows| !rows.is_empty())
    });
    let sink = &rows["sinks"][0];
    assert_eq!((sink["columns"][1]["name"].as_str(), sink["rows"][0][1].as_str()), (Some("c"), Some("1000")));
    let history =
        answers(&job, "/api/v1/jobs/counts/history", |history| history["at_ms"].as_array().unwrap().len() > 2);
    let lengths: BTreeSet<usize> =
        history.as_object().unwrap().values().filter_map(|column| Some(column.as_array()?.len())).collect();
    assert_eq!(lengths.len(), 1, "{history}");
    // A checkpoint, with its phases; then the end.
    let (status, said) = post(&job, "/api/v1/jobs/counts/checkpoint", "");
    assert!(status == 202 && said.contains("being taken"), "{said}");
    let stats = answers(&job, "/api/v1/jobs/counts/stats", |stats| stats["checkpoints"]["complete"].as_u64() > Some(0));
    let checkpoint = &stats["checkpoints"]["recent"][0];
    let phases: f64 = ["cut_s", "write_s", "commit_s"].iter().map(|phase| checkpoint[phase].as_f64().unwrap()).sum();
    let duration = checkpoint["duration_s"].as_f64().unwrap();
    assert!(
        duration > 0.0 && (phases - duration).abs() < 0.01 * duration && checkpoint["state_bytes"].is_u64(),
        "{checkpoint}"
    );
    let (status, said) = post(&job, "/api/v1/jobs/counts/rescale", "{\"nodes\": 2}");
    assert!(status == 409 && said.contains("one process"), "{said}");
    let (status, said) = post(&job, "/api/v1/jobs/counts/stop", "");
    assert!(status == 202 && said.contains("the job takes a checkpoint and stops"), "{said}");
    let (code, log) = job.ended();
    assert_eq!(code, Some(0), "{log}");
}

#[test]
fn a_checkpoint_that_will_not_be_taken_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let sql = format!(
        "{SOURCE} CREATE TABLE few (n BIGINT) WITH ('connector' = 'blackhole'); \
         INSERT INTO few SELECT n FROM numbers LIMIT 1000000000"
    );
    let job = Watching::start(millstream(folder.path()).args(["run", "--state-dir", "state", "-e", &sql]));
    answers(&job, "/api/v1/jobs/few", |job| job["state"] == "running");
    let (status, said) = post(&job, "/api/v1/jobs/few/checkpoint", "");
    assert!(status == 409 && said.contains("LIMIT or ORDER BY takes no checkpoint"), "{said}");
    for name in [vec![], vec!["--name", "kept"]] {
        let mut create = millstream(folder.path());
        let output = create.args(["checkpoint", "--state-dir", "state", "create"]).args(name).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("LIMIT or ORDER BY takes no checkpoint"), "{said}");
    }
    job.stopped();
}

#[test]
fn secrets_are_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    // A server that takes the connection and says nothing.
    let sql = format!(
        "{SOURCE} CREATE TABLE t (n BIGINT, PRIMARY KEY (n) NOT ENFORCED) WITH ('connector' = 'jdbc', \
         'url' = 'jdbc:postgresql://127.0.0.1:{port}/d', 'table-name' = 't', 'username' = 'u', 'password' = 'hunter2hunter2'); \
         INSERT INTO t SELECT n + LENGTH('hunter2hunter2') FROM numbers"
    );
    let job = Watching::start(millstream(folder.path()).args(["run", "-e", &sql]));
    let shown = answers(&job, "/api/v1/jobs/t", |job| job["sql"].is_string());
    assert!(shown["sql"].as_str().unwrap().contains("LENGTH('******')"), "{shown}");
    for path in [
        "/api/v1/jobs",
        "/api/v1/jobs/t",
        "/api/v1/jobs/t/plan",
        "/api/v1/jobs/t/code",
        "/metrics",
        "/jobs.html",
        "/ready",
    ] {
        let body = job.get(path).1;
        assert!(!body.contains("hunter2"), "{path}: {body}");
    }
}

/// One column after the other ceases to be constant, each as soon as code assumes that the rest of them are.
#[test]
fn the_code_in_use_is_shown_and_a_job_that_recompiles_too_often_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let columns = ["a", "b", "c", "d", "e", "f", "g"];
    let sum: Vec<String> = columns.iter().map(|column| format!("SUM({column} * 3 + n)")).collect();
    let sql = format!(
        "SET 'pipeline.assume-constant' = 'always'; \
         CREATE TABLE s (n BIGINT, {} BIGINT, at AS TO_TIMESTAMP_LTZ(n, 3), WATERMARK FOR at AS at) \
         WITH ('connector' = 'socket', 'hostname' = '127.0.0.1', 'port' = '{}', 'format' = 'csv'); \
         CREATE TABLE t (w TIMESTAMP(3), {} BIGINT) WITH ('connector' = 'blackhole'); \
         INSERT INTO t SELECT window_start, {} FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(at), INTERVAL '1' SECOND)) \
         GROUP BY window_start, window_end",
        columns.join(" BIGINT, "),
        listener.local_addr().unwrap().port(),
        columns.join(" BIGINT, "),
        sum.join(", "),
    );
    let job = Watching::start(millstream(folder.path()).args(["run", "--workers", "1", "-e", &sql]));
    let (mut server, _) = listener.accept().unwrap();
    let changing = Arc::new(AtomicUsize::new(0));
    let varies = Arc::clone(&changing);
    std::thread::spawn(move || {
        let (mut n, mut rows) = (0u64, String::new());
        loop {
            rows.clear();
            let varies = varies.load(Relaxed);
            for _ in 0..1000 {
                rows += &n.to_string();
                (0..7).for_each(|column| rows += if column < varies && n % 2 == 0 { ",8" } else { ",7" });
                rows += "\n";
                n += 1;
            }
            if server.write_all(rows.as_bytes()).is_err() {
                break;
            }
        }
    });
    for still in (1..=7).rev() {
        let in_use = |code: &Value| {
            let last = variants(code, "pipeline 0").last().unwrap();
            let mut choices = last["choices"].as_str().unwrap().split("; ");
            let constant = choices.find_map(|choice| choice.strip_suffix(" constant"));
            constant.is_some_and(|names| names.split(", ").count() == still) && last["tier"] == "compiled"
        };
        let code = answers(&job, "/api/v1/jobs/t/code", in_use);
        let [generic, special] = variants(&code, "pipeline 0") else { panic!("two variants are shown") };
        assert!(special["number"].is_u64() && generic["number"].is_null() && generic["tier"].is_null());
        assert!(["program", "ir", "assembly"].iter().all(|form| special[form] != generic[form]));
        changing.fetch_add(1, Relaxed);
    }
    let problem =
        |job: &Value| job["problems"].as_array().unwrap().iter().find(|one| one["kind"] == "recompiles").cloned();
    let shown = answers(&job, "/api/v1/jobs/t", |job| problem(job).is_some());
    let problem = problem(&shown).unwrap();
    let text = problem["text"].as_str().unwrap();
    let times = text.split_once("has been given other code ").and_then(|(_, rest)| rest.split_once(" times"));
    assert!(problem["subject"] == "pipeline 0" && times.unwrap().0.parse::<u64>().unwrap() >= 12, "{problem}");
    let stats = answers(&job, "/api/v1/jobs/t/stats", |_| true);
    let broken = stats["events"].as_array().unwrap().iter().filter(|event| event["kind"] == "deoptimised").count();
    assert!(broken >= 6, "{broken}");
    job.stopped();
}

#[test]
fn a_slow_sink_is_the_cause_of_backpressure() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let sql = format!(
        "CREATE TABLE t (n BIGINT, text STRING) WITH ('connector' = 'socket', 'hostname' = '127.0.0.1', 'port' = '{}', 'format' = 'json'); \
         CREATE TABLE s (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000000'); INSERT INTO t SELECT n, REPEAT('x', 1000) FROM s",
        listener.local_addr().unwrap().port()
    );
    let job = Watching::start(millstream(folder.path()).args(["run", "-e", &sql]));
    let (mut reader, _) = listener.accept().unwrap();
    // It takes some megabytes a second, which is never one write of ten seconds.
    std::thread::spawn(move || {
        let mut piece = vec![0; 64 << 10];
        while matches!(reader.read(&mut piece), Ok(1..)) {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let is_slow = |problem: &Value| problem["kind"] == "sink-slow" && problem["subject"] == "sink 0: t";
    let found =
        answers(&job, "/api/v1/jobs/t", |job| job["problems"].as_array().is_some_and(|all| all.iter().any(is_slow)));
    let problem = found["problems"].as_array().unwrap().iter().find(|problem| is_slow(problem)).unwrap();
    assert!(problem["text"].as_str().unwrap().contains("source 0: table s waits"), "{problem}");
    let stats = answers(&job, "/api/v1/jobs/t/stats", |_| true);
    let waits = &stats["sources"][0]["splits"][0]["waits"];
    assert!(waits["in_flight_s"].as_f64().unwrap() + waits["memory_s"].as_f64().unwrap() > 0.1, "{waits}");
}

#[test]
fn bad_rows_have_samples() {
    let folder = tempfile::tempdir().unwrap();
    let lines = "{\"n\": 1, \"t\": \"2026-01-01 00:00:10\"}\n{\"n\": }\n{\"n\": 0, \"t\": \"2026-01-01 00:00:11\"}\n{\"n\": 2, \"t\": \"2026-01-01 00:00:01\"}\n";
    std::fs::create_dir(folder.path().join("in")).unwrap();
    std::fs::write(folder.path().join("in/rows.jsonl"), lines).unwrap();
    let sql = "SET 'pipeline.error-policy' = 'skip'; \
         CREATE TABLE r (n BIGINT, t TIMESTAMP(3), WATERMARK FOR t AS t) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json', \
         'json.ignore-parse-errors' = 'true', 'source.monitor-interval' = '100 ms'); \
         CREATE TABLE o (w TIMESTAMP(3), c BIGINT) WITH ('connector' = 'blackhole'); \
         INSERT INTO o SELECT window_start, SUM(10 / n) FROM TABLE(TUMBLE(TABLE r, DESCRIPTOR(t), INTERVAL '1' SECOND)) GROUP BY window_start, window_end";
    let job = Watching::start(millstream(folder.path()).args(["run", "-e", sql]));
    let kinds = |stats: &Value| -> BTreeSet<String> {
        stats["samples"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|sample| sample["kind"].as_str().unwrap().to_string())
            .collect()
    };
    let stats = answers(&job, "/api/v1/jobs/o/stats", |stats| kinds(stats).len() == 3);
    let text = |kind: &str| {
        stats["samples"].as_array().unwrap().iter().find(|s| s["kind"] == kind).unwrap()["text"].as_str().unwrap()
    };
    assert!(text("malformed").contains("MS") && text("malformed").contains("rows.jsonl"), "{stats}");
    assert!(
        text("failed").contains("MS3") && text("late").contains("1 row behind the watermark at aggregation 0"),
        "{stats}"
    );
}
