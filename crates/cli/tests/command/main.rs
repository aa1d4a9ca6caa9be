//! The command as a program: what it writes where, how it ends, what it does when it is interrupted.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]
#![cfg(unix)]

#[path = "../support/asking.rs"]
mod asking;
mod changed;
mod cluster;
mod connections;
mod dashboard;
#[path = "../support/folders.rs"]
mod folders;
mod giants;
#[path = "../support/manifests.rs"]
mod manifests;
mod memory;
mod messages;
mod named;
mod outputs;
mod piped;
#[path = "../support/nodes.rs"]
mod processes;
mod resumed;
mod secrets;
mod served;
#[path = "../support/serving.rs"]
mod serving;
mod submitted;
#[path = "../support/mod.rs"]
mod support;
mod terminal;
mod watched;
#[path = "../support/watching.rs"]
mod watching;

use manifests::manifests;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use support::millstream;

/// Has tests that measure time or memory run one after the other.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

const ENDLESS: &str = "CREATE TABLE g (id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) \
     WITH ('connector' = 'datagen', 'rows-per-second' = '20000');";

fn run(arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    millstream(folder.path()).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Sends SIGINT through the shell's own `kill`, so that no unsafe call is needed.
fn interrupt(child: &Child) {
    let status = Command::new("sh").arg("-c").arg(format!("kill -INT {}", child.id())).status().unwrap();
    assert!(status.success());
}

/// Exit code and standard error of a process that has to end soon.
fn ended(mut child: Child) -> (Option<i32>, String) {
    let since = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if since.elapsed() > Duration::from_secs(20) {
            child.kill().unwrap();
            panic!("the command did not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    (status.code(), errors)
}

#[test]
fn the_version_says_what_the_program_was_built_of() {
    let version = text(&run(&["--version"]).stdout);
    let rest = version.strip_prefix(concat!("millstream ", env!("CARGO_PKG_VERSION"), " (")).unwrap();
    let (source, llvm) = rest.trim_end().trim_end_matches(')').split_once(", LLVM ").unwrap();
    assert!(source == "development build" || source.starts_with("commit "), "{version}");
    assert!(llvm.starts_with("19."), "{version}");
}

#[test]
fn shells_complete_commands_and_options() {
    for (shell, expected) in
        [("bash", "_millstream()"), ("zsh", "#compdef millstream"), ("fish", "complete -c millstream")]
    {
        let output = run(&["completions", shell]);
        let script = text(&output.stdout);
        assert!(output.status.success() && output.stderr.is_empty());
        for part in [expected, "state-dir", "checkpoint", "explain"] {
            assert!(script.contains(part), "{shell}: {part}");
        }
        assert!(!script.contains("\"docs\""), "hidden commands are not completed");
    }
    let refused = run(&["completions", "cmd"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("possible values: bash, elvish, fish, powershell, zsh"));
}

#[test]
fn manual_pages_are_written_for_each_command() {
    let folder = tempfile::tempdir().unwrap();
    assert!(millstream(folder.path()).args(["man", "."]).output().unwrap().status.success());
    let page = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    assert!(page("millstream.1").contains(".TH millstream 1"));
    let run = page("millstream-run.1");
    assert!(
        run.contains("Run a SQL script") && run.contains("\\fBmillstream run\\fR") && run.contains("state\\-dir"),
        "{run}"
    );
    assert!(page("millstream-checkpoint-show.1").contains("\\fBmillstream checkpoint show\\fR"));
    assert!(!folder.path().join("millstream-docs.1").exists());
    let refused = millstream(folder.path()).args(["man", "nowhere"]).output().unwrap();
    assert!(!refused.status.success() && text(&refused.stderr).contains("cannot be written"));
}

#[test]
fn rows_come_in_every_form() {
    let sql = "SELECT 1 AS a, CAST(NULL AS STRING) AS b, 'x,y' AS c";
    let form = |form: &str| run(&["run", "-e", sql, "--output", form]).stdout;
    assert_eq!(text(&form("json")), "{\"a\":1,\"b\":null,\"c\":\"x,y\"}\n");
    assert_eq!(text(&form("csv")), "a,b,c\n1,,\"x,y\"\n");
    let table = text(&form("text"));
    assert!(table.contains("NULL") && table.contains("x,y") && table.ends_with("(1 row)\n"), "{table}");
    let parquet = form("parquet");
    assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"));
    let arrow = form("arrow");
    assert!(arrow.starts_with(&[0xff; 4]) && arrow.len() > 100);
    assert_eq!(run(&["run", "-e", sql]).stdout, form("json"), "JSON is the default where there is no terminal");
}

#[test]
fn scripts_come_from_files_arguments_and_standard_input() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("q.sql"), "\u{feff}SELECT ${X} AS x;\r\n-- that was all\r\n").unwrap();
    let output = millstream(folder.path()).args(["run", "q.sql", "--var", "X=7", "-e", "SELECT 2 AS y"]).output();
    assert_eq!(text(&output.unwrap().stdout), "{\"x\":7}\n{\"y\":2}\n");
    for command in [&["run", "-"][..], &["sql"]] {
        let mut child = millstream(folder.path()).args(command).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"SELECT 1 AS a; SELECT nope; SELECT 3").unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!((text(&output.stdout).as_str(), output.status.code()), ("{\"a\":1}\n", Some(1)));
        assert!(text(&output.stderr).contains(":1:23"), "{}", text(&output.stderr));
    }
    let table = "CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', 'path' = '-', 'format' = 'json');";
    let mut child = millstream(folder.path())
        .args(["run", "-e", &format!("{table} SELECT a + 1 AS b FROM t")])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"{\"a\":1}\n{\"a\":2}").unwrap();
    assert_eq!(text(&child.wait_with_output().unwrap().stdout), "{\"b\":2}\n{\"b\":3}\n");
}

#[test]
fn what_cannot_be_used_ends_with_2_and_what_fails_with_1() {
    let unusable: &[(&[&str], &str)] = &[
        (&["run"], "required"),
        (&["run", "nowhere.sql"], "MS4001"),
        (&["run", "--bogus", "-e", "SELECT 1"], "--bogus"),
        (&["run", "--workers", "0", "-e", "SELECT 1"], "MS1002"),
        (&["run", "--workers", "many", "-e", "SELECT 1"], "--workers"),
        (&["run", "--tier", "x", "-e", "SELECT 1"], "interpret, compile"),
        (&["run", "--set", "pipeline.buffer-row=1", "-e", "SELECT 1"], "'pipeline.buffer-rows'"),
        (&["run", "--set", "pipeline.buffer-rows", "-e", "SELECT 1"], "MS1006"),
        (&["run", "--var", "=1", "-e", "SELECT 1"], "MS1006"),
        (&["run", "--config", "nowhere.toml", "-e", "SELECT 1"], "MS1001"),
    ];
    for (arguments, message) in unusable {
        let output = run(arguments);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {errors}");
        assert!(errors.contains(message), "{arguments:?}: {errors}");
        assert!(output.stdout.is_empty());
    }
    for (sql, message) in
        [("SELECT\n  nope", " 2 |   nope\n   |   ^^^^\n"), ("SELECT 1/0", "MS3002"), ("SELECT ${X_X}", "--var X_X")]
    {
        let output = run(&["run", "-e", sql]);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{sql}: {errors}");
        assert!(errors.contains(message) && errors.contains("= help: "), "{sql}: {errors}");
    }
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let toml = "output = \"csv\"\n[set]\n\"pipeline.buffer-rows\" = 1\n[var]\nX = 7\n";
    fs::write(folder.path().join("millstream.toml"), toml).unwrap();
    let rows = |command: &mut Command| text(&command.args(["run", "-e", "SELECT ${X} AS x"]).output().unwrap().stdout);
    assert_eq!(rows(&mut millstream(folder.path())), "x\n7\n");
    assert_eq!(rows(millstream(folder.path()).env("MILLSTREAM_OUTPUT", "json")), "{\"x\":7}\n");
    assert_eq!(rows(millstream(folder.path()).env("MILLSTREAM_VAR", "X=8").env("MILLSTREAM_QUIET", "1")), "x\n8\n");
    let both =
        rows(millstream(folder.path()).env("MILLSTREAM_OUTPUT", "json").args(["--output", "csv", "--var", "X=9"]));
    assert_eq!(both, "x\n9\n");
    fs::write(folder.path().join("millstream.toml"), "\nworkerz = 3\n").unwrap();
    let output = millstream(folder.path()).args(["run", "-e", "SELECT 1"]).output().unwrap();
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(errors.contains("workerz") && errors.contains("line 2"), "{errors}");
}

#[test]
fn statistics_count_what_was_skipped() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("in.json"), "{\"id\":1}\n{\"id\":0}\nbroken\n{\"id\":5}\n").unwrap();
    let sql = "CREATE TABLE t (id INT) WITH ('connector' = 'filesystem', 'path' = 'in.json', 'format' = 'json', \
               'json.ignore-parse-errors' = 'true'); SELECT 10 / id AS r FROM t";
    for workers in ["1", "8"] {
        let output = millstream(folder.path())
            .args(["run", "--stats", "json", "--workers", workers, "--set", "pipeline.error-policy=skip"])
            .args(["--set", "pipeline.buffer-rows=1", "-e", sql])
            .output()
            .unwrap();
        assert!(output.status.success());
        let mut rows: Vec<String> = text(&output.stdout).lines().map(str::to_string).collect();
        rows.sort();
        assert_eq!(rows, ["{\"r\":10}", "{\"r\":2}"]);
        let stats: Value = serde_json::from_slice(&output.stderr).unwrap();
        assert_eq!((&stats["rows_in"], &stats["rows_out"]), (&3.into(), &2.into()), "{stats}");
        assert_eq!((&stats["records_malformed_total"], &stats["records_failed_total"]), (&1.into(), &1.into()));
        assert!(stats["first_error"].as_str().unwrap().contains("MS3002"), "{stats}");
    }
}

#[test]
fn statistics_add_up_and_keep_their_names() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("in")).unwrap();
    let rows = |from: u64, to: u64| {
        let row = |i: u64| format!("{{\"id\":{i},\"ts\":\"2024-01-01 00:00:{:02}\"}}\n", i / 10);
        (from..to).map(row).collect::<String>()
    };
    fs::write(folder.path().join("in/a.json"), rows(0, 300)).unwrap();
    fs::write(folder.path().join("in/b.json"), rows(100, 250)).unwrap();
    let sql = "CREATE TABLE t (id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', \
               'path' = 'in', 'format' = 'json'); SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE t, \
               DESCRIPTOR(ts), INTERVAL '1' SECOND)) GROUP BY window_start, window_end";
    let run = |form: &str| {
        millstream(folder.path()).args(["run", "--stats", form, "--workers", "2", "-e", sql]).output().unwrap()
    };
    let s: Value = serde_json::from_slice(&run("json").stderr).unwrap();
    let names = |of: &Value| {
        let mut names: Vec<&str> = of.as_object().unwrap().keys().map(String::as_str).collect();
        names.sort_unstable();
        names.join(" ")
    };
    assert_eq!(
        names(&s),
        "aggregations beats buffers bytes_in checkpoints compilations cycles_per_nano elapsed_s events first_error hardware memory nodes operators pipelines \
         programs queued records_failed_total records_late_total records_malformed_total rows_in rows_out samples sinks sources \
         spill trigger_delay version watermark_ms windows workers workers_idle"
    );
    let variant = "buffers choices current cycles_per_row nanos_per_row number rows tier time_s";
    let programs = s["programs"].as_array().unwrap();
    let variants = |program: &Value| program["variants"].as_array().unwrap().clone();
    assert!(programs.iter().all(|p| names(p) == "filter_nanos name profile variants"), "{s}");
    assert!(programs.iter().flat_map(variants).all(|v| names(&v) == variant), "{s}");
    let times = "count max_s mean_s p50_s p99_s sum_s";
    let (source, splits) = (&s["sources"][0], s["sources"][0]["splits"].as_array().unwrap());
    assert_eq!(
        names(source),
        "bytes chunks decode_time empty_columns idle_splits lag_records name queued rows split_count splits waits watermark_ms"
    );
    assert_eq!((&source["name"], &source["split_count"]), (&"source 0: table t".into(), &2.into()));
    assert_eq!(s["nodes"], Value::Array(vec![]), "it runs on one process");
    assert!(
        splits.iter().all(|x| names(x)
            == "bytes chunks ended idle lag_records name node queued rows silent_s trouble waits watermark_ms"),
        "{s}"
    );
    let of_split =
        |x: &Value| (Path::new(x["name"].as_str().unwrap()).file_name().unwrap().to_owned(), x["rows"].clone());
    let mut of_splits: Vec<_> = splits.iter().map(of_split).collect();
    of_splits.sort_by_key(|x| x.0.clone());
    assert_eq!(of_splits, [("a.json".into(), 300.into()), ("b.json".into(), 150.into())]);
    for sum in ["rows", "bytes", "chunks", "queued"] {
        let total: u64 = splits.iter().map(|x| x[sum].as_u64().unwrap()).sum();
        assert_eq!(source[sum], total, "{sum}: {s}");
    }
    assert_eq!((&source["rows"], &source["bytes"], &source["queued"]), (&s["rows_in"], &s["bytes_in"], &0.into()));
    assert_eq!(
        (names(&source["decode_time"]), &source["decode_time"]["count"]),
        (times.to_string(), &source["chunks"])
    );

    let pipelines = s["pipelines"].as_array().unwrap();
    let shape = "buffers epochs_in_flight name queued queued_max rows_in rows_out task_time watermark_ms";
    assert!(pipelines.iter().all(|p| names(p) == shape && names(&p["task_time"]) == times), "{s}");
    assert_eq!((&pipelines[0]["name"], &pipelines[1]["name"]), (&"pipeline 0".into(), &"pipeline 1".into()));
    assert_eq!((&pipelines[0]["rows_in"], &pipelines[1]["rows_out"]), (&s["rows_in"], &s["rows_out"]));
    for pipeline in pipelines {
        assert_eq!(pipeline["task_time"]["count"], pipeline["buffers"], "{s}");
        assert_eq!((&pipeline["queued"], &pipeline["epochs_in_flight"]), (&0.into(), &0.into()), "{s}");
        assert!(pipeline["queued_max"].as_u64() >= Some(1), "{s}");
    }
    let aggregation = &s["aggregations"][0];
    assert_eq!(
        names(aggregation),
        "busy_s in_flight name rows_out sent_bytes sent_frames state_bytes trigger_delay windows"
    );
    assert_eq!(aggregation["rows_out"], pipelines[1]["rows_in"], "{s}");
    let sink = &s["sinks"][0];
    assert_eq!(names(sink), "busy_s committing_s name rows sent_bytes sent_frames writing_s");
    assert_eq!(sink["rows"], s["rows_out"]);
    assert_eq!((&sink["sent_frames"], &aggregation["sent_frames"]), (&0.into(), &0.into()), "one node sends nothing");
    assert_eq!((&aggregation["windows"], &s["windows"], &s["rows_out"]), (&30.into(), &30.into(), &30.into()), "{s}");
    assert_eq!(
        (names(&aggregation["trigger_delay"]), &aggregation["trigger_delay"]["count"]),
        (times.to_string(), &30.into())
    );
    assert_eq!(names(&s["memory"]), "by_class limit_bytes peak_bytes used_bytes");
    assert_eq!(names(&s["memory"]["by_class"]), "buffers lookups operators other partials sinks tables");
    assert!(s["memory"]["peak_bytes"].as_u64().unwrap() > 0, "{s}");
    let workers = s["workers"].as_array().unwrap();
    assert!(workers.len() == 2 && workers.iter().all(|w| names(w) == "busy_s idle_s tasks"), "{s}");

    let page = text(&run("text").stderr);
    let parts =
        ["450 rows in, 30 rows out", "\nsource 0: table t: 450 rows", "\npipeline 1: ", "\naggregation 0: 30 windows"];
    assert!(parts.iter().all(|part| page.contains(part)) && page.contains("\nworker 1: "), "{page}");
}

#[test]
fn the_next_command_loads_the_code_that_the_first_has_compiled() {
    let folder = tempfile::tempdir().unwrap();
    let sql = "SELECT k, COUNT(*), MAX(UPPER(s)) FROM (VALUES (1, 'a long text, longer than inline'), (2, 'b')) AS t (k, s) \
               WHERE s <> 'another long text, which is not there' GROUP BY k";
    let run = |cache: &str| {
        let mut command = millstream(folder.path());
        command
            .env("XDG_CACHE_HOME", folder.path().join("cache"))
            .args(["run", "--stats", "json", "--tier", "compile"]);
        command.args(["--set", "execution.runtime-mode=batch", "--set", &format!("pipeline.code-cache={cache}")]);
        let output = command.args(["--workers", "1", "-e", sql]).output().unwrap();
        let stats: Value =
            serde_json::from_slice(&output.stderr).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
        let compilations = stats["compilations"].as_array().unwrap().clone();
        assert!(!compilations.is_empty() && compilations.iter().all(|c| c["cache_problem"].is_null()), "{stats}");
        let of = |name: &str| compilations.iter().all(|c| c["origin"] == name && c["reused"] == (name != "compiled"));
        (text(&output.stdout), ["compiled", "disk"].into_iter().find(|name| of(name)).unwrap_or("mixed"))
    };
    let (rows, origin) = run("off");
    assert_eq!((rows.lines().count(), origin), (2, "compiled"), "{rows}");
    assert!(!folder.path().join("cache").exists());
    assert_eq!(run("auto"), (rows.clone(), "compiled"));
    assert_eq!(run("auto"), (rows.clone(), "disk"));
    assert!(folder.path().join("cache/millstream/code").is_dir());
    assert_eq!(run("./code"), (rows.clone(), "compiled"));
    assert_eq!(run("./code"), (rows, "disk"));
}

#[test]
fn bench_starts_the_program_beside_the_command() {
    let folder = tempfile::tempdir().unwrap();
    // A copy, so that what lies beside it is known.
    let command = folder.path().join("millstream");
    fs::copy(env!("CARGO_BIN_EXE_millstream"), &command).unwrap();
    let bench = || Command::new(&command).args(["bench", "--list", "ysb"]).output().unwrap();
    let missing = bench();
    assert_eq!(missing.status.code(), Some(2));
    assert!(text(&missing.stderr).contains("make release"), "{}", text(&missing.stderr));
    let program = folder.path().join("millstream-bench");
    fs::write(&program, "#!/bin/sh\necho \"$@\"\nexit 7\n").unwrap();
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let started = bench();
    assert_eq!((started.status.code(), text(&started.stdout).as_str()), (Some(7), "--list ysb\n"));
}

#[test]
fn explain_runs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let sql = "CREATE TABLE s (a INT) WITH ('connector' = 'filesystem', 'path' = 'out.json', 'format' = 'json'); \
               INSERT INTO s SELECT 1";
    for (codegen, part) in [(false, "== Pipelines =="), (true, "== LLVM IR ==")] {
        let mut command = millstream(folder.path());
        command.args(["explain", "-e", sql]);
        if codegen {
            command.arg("--codegen");
        }
        let output = command.output().unwrap();
        assert!(output.status.success() && text(&output.stdout).contains(part));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

#[test]
fn an_interrupted_query_writes_its_complete_windows() {
    let folder = tempfile::tempdir().unwrap();
    let sql = format!(
        "{ENDLESS} CREATE TABLE s (w TIMESTAMP(3), c BIGINT) \
         WITH ('connector' = 'filesystem', 'path' = 'out.json', 'format' = 'json'); \
         INSERT INTO s SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE g, DESCRIPTOR(ts), INTERVAL '1' SECOND)) \
         GROUP BY window_start, window_end"
    );
    let child = millstream(folder.path()).args(["run", "--stats", "json", "-e", &sql]).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(3500));
    assert!(!folder.path().join("out.json").exists(), "nothing half-written is visible");
    interrupt(&child);
    let (exit_code, errors) = ended(child);
    assert_eq!(exit_code, Some(130), "{errors}");
    let stats: Value = serde_json::from_str(errors.lines().next().unwrap()).unwrap();
    let windows = fs::read_to_string(folder.path().join("out.json")).unwrap();
    assert!(windows.lines().count() >= 1);
    assert_eq!(stats["rows_out"], windows.lines().count(), "{stats}");
    assert!(errors.contains("MS3007") && !errors.contains("panicked"), "{errors}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
}

#[test]
fn a_second_interrupt_aborts() {
    let folder = tempfile::tempdir().unwrap();
    // Standard output that nobody reads blocks the sink, so that the first interrupt alone cannot end the query.
    let child = millstream(folder.path())
        .args(["run", "-e", &format!("{ENDLESS} SELECT id, CAST(ts AS STRING) AS t FROM g")])
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    for _ in 0..3 {
        interrupt(&child);
        std::thread::sleep(Duration::from_millis(500));
    }
    assert_eq!(ended(child).0, Some(130));
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let folder = tempfile::tempdir().unwrap();
    for form in ["json", "csv", "text", "arrow"] {
        let sql = ENDLESS.replace("20000", "10000000") + "SELECT id FROM g";
        let mut child = millstream(folder.path()).args(["run", "--output", form, "-e", &sql]).spawn().unwrap();
        let mut reader = BufReader::new(child.stdout.take().unwrap());
        let mut line = Vec::new();
        reader.read_until(b'\n', &mut line).unwrap();
        assert!(!line.is_empty());
        drop(reader);
        assert_eq!(ended(child), (Some(0), String::new()), "{form}");
    }
}

#[test]
fn a_limit_ends_an_endless_source() {
    let output = run(&["run", "-e", &format!("{ENDLESS} SELECT id FROM g LIMIT 3")]);
    assert!(output.status.success());
    assert_eq!(text(&output.stdout).lines().count(), 3);
}

#[test]
fn a_full_device_is_reported() {
    if !Path::new("/dev/full").exists() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for form in ["json", "csv", "parquet", "arrow", "text"] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let child =
            millstream(folder.path()).args(["run", "--output", form, "-e", "SELECT 1"]).stdout(full).spawn().unwrap();
        let (exit_code, errors) = ended(child);
        assert_eq!(exit_code, Some(1), "{form}");
        assert!(errors.contains("MS4003") && errors.contains("free some space"), "{form}: {errors}");
    }
}

/// The most memory that a running process has had, in KiB; `None` when it has ended.
fn high_water_mark(child: &Child) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[test]
#[cfg(target_os = "linux")]
fn a_query_that_does_not_fit_ends_within_its_memory() {
    let sql = "CREATE TABLE t (id BIGINT, ts AS TO_TIMESTAMP_LTZ(id, 3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen', \
         'rows-per-second' = '0', 'fields.id.kind' = 'sequence', 'fields.id.start' = '0', 'fields.id.end' = '100000000'); \
         SELECT id, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '100' DAY)) \
         GROUP BY window_start, window_end, id";
    let folder = tempfile::tempdir().unwrap();
    let mut child = millstream(folder.path())
        .args(["run", "--memory", "64 MB", "--set", "pipeline.spill=never", "-e", sql])
        .spawn()
        .unwrap();
    let mut most_kib = 0;
    while child.try_wait().unwrap().is_none() {
        most_kib = most_kib.max(high_water_mark(&child).unwrap_or(0));
        std::thread::sleep(Duration::from_millis(5));
    }
    let (code, errors) = ended(child);
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("MS3010") && errors.contains("64.0 MiB"), "{errors}");
    // The budget, tables that have just doubled, what they were copied from, and the program itself.
    assert!((1..512 << 10).contains(&most_kib), "{most_kib} KiB");
}

/// Two inserts from endless sources: what `second` selects, and options of the command.
fn two_inserts(folder: &Path, second: &str, options: &[&str]) -> Child {
    let sink = |name: &str| {
        format!(
            "CREATE TABLE {name} (id BIGINT) WITH ('connector' = 'filesystem', 'path' = '{name}/', 'format' = 'json');"
        )
    };
    let sql = format!(
        "{ENDLESS}{}INSERT INTO a SELECT id FROM g;{}INSERT INTO b SELECT {second} FROM g;",
        sink("a"),
        sink("b")
    );
    fs::write(folder.join("q.sql"), sql).unwrap();
    let arguments = ["run", "q.sql", "--stats", "json", "--memory", "200MB"];
    millstream(folder).args(arguments).args(options).spawn().unwrap()
}

/// The objects of statistics among the lines of standard error.
fn statistics(errors: &str) -> Vec<Value> {
    errors.lines().filter(|line| line.starts_with('{')).map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn inserts_that_do_not_end_run_together() {
    let folder = tempfile::tempdir().unwrap();
    let child = two_inserts(folder.path(), "id + 1", &[]);
    std::thread::sleep(Duration::from_secs(3));
    interrupt(&child);
    let (code, errors) = ended(child);
    let statistics = statistics(&errors);
    assert_eq!((code, statistics.len()), (Some(130), 2), "{errors}");
    assert!(errors.contains("note: 2 INSERTs that read endless input run together"), "{errors}");
    for job in &statistics {
        assert!(
            job["rows_out"].as_u64() > Some(1000) && job["memory"]["limit_bytes"].as_u64() == Some(100 << 20),
            "{job}"
        );
    }
    assert!(["a", "b"].iter().all(|name| fs::read_dir(folder.path().join(name)).unwrap().count() > 0));
}

#[test]
fn an_insert_that_fails_stops_those_beside_it_with_a_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["--state-dir", "state", "--set", "execution.checkpointing.interval=1 h"];
    let (code, errors) = ended(two_inserts(folder.path(), "1000 / (id - id)", &options));
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("error[MS3002]") && errors.contains("the query was stopped; checkpoint"), "{errors}");
    assert!(!manifests(&folder.path().join("state/job-1")).is_empty(), "{errors}");
}

#[test]
fn inserts_that_run_together_write_no_file_twice() {
    let folder = tempfile::tempdir().unwrap();
    let sql = format!(
        "{ENDLESS}CREATE TABLE a (id BIGINT) WITH ('connector' = 'filesystem', 'path' = 'a.jsonl', 'format' = 'json');\
         INSERT INTO a SELECT id FROM g; INSERT INTO a SELECT id FROM g;"
    );
    let child = millstream(folder.path()).args(["run", "-e", &sql]).spawn().unwrap();
    let (code, errors) = ended(child);
    assert!(code == Some(1) && errors.contains("two inserts that run together write the file"), "{errors}");
}

#[test]
fn a_silent_source_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let sql = format!(
        "CREATE TABLE s (id INT) WITH ('connector' = 'socket', 'hostname' = '127.0.0.1', 'port' = '{}', 'format' = 'json'); SELECT * FROM s;",
        listener.local_addr().unwrap().port()
    );
    let folder = tempfile::tempdir().unwrap();
    let child = millstream(folder.path()).args(["run", "-e", &sql]).spawn().unwrap();
    let (connection, _) = listener.accept().unwrap();
    std::thread::sleep(Duration::from_secs(12));
    drop(connection);
    let (_, errors) = ended(child);
    assert!(errors.contains("note: nothing has come out for 10 s: source 0: table s has sent no rows"), "{errors}");
}
