//! Rows that come through standard input, whose columns are found on the way.

use crate::support::millstream;
use crate::text;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What a command says whose standard input is `input`.
fn piped(folder: &Path, input: &[u8], arguments: &[&str]) -> Output {
    let mut child = millstream(folder).args(arguments).stdin(Stdio::piped()).spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // A command that has failed reads no more.
        scope.spawn(move || _ = pipe.write_all(input));
        child.wait_with_output().unwrap()
    })
}

/// The rows of a query as CSV without its header.
fn queried(input: &[u8], query: &str) -> String {
    let output = piped(Path::new("/tmp"), input, &["run", "-e", query, "-o", "csv"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).split_inclusive('\n').skip(1).collect()
}

#[test]
fn columns_of_standard_input_are_found() {
    let grouped = "SELECT level, COUNT(*) AS n FROM '-' GROUP BY level ORDER BY level";
    let json = b"{\"level\":\"info\"}\n{\"level\":\"error\",\"n\":1}\n{\"level\":\"info\"}";
    assert_eq!(queried(json, grouped), "error,1\ninfo,2\n");
    assert_eq!(queried(b"id;level\n1;info\n2;error\n3;info\n", grouped), "error,1\ninfo,2\n");
    assert_eq!(queried(b"1\n2\n3\n", "SELECT SUM(column0) AS s FROM '/dev/stdin'"), "6\n");
    let declared = "CREATE TABLE t WITH ('connector' = 'filesystem', 'path' = '-', 'format' = 'json');";
    assert_eq!(queried(json, &format!("{declared} SELECT SUM(n) AS s FROM t")), "1\n");
}

/// The start that is looked at ends within a record, or within an array.
#[test]
fn all_of_standard_input_is_read() {
    let (mut lines, mut array, mut csv) = (String::new(), String::new(), String::from("n,t\n"));
    for n in 0..60_000 {
        writeln!(lines, "{{\"n\":{n},\"t\":\"{n:>30}\"}}").unwrap();
        write!(array, "{}{{\n \"n\": {n},\n \"t\": \"{n:>20}\"\n}}", if n == 0 { "[" } else { ",\n" }).unwrap();
        writeln!(csv, "{n},\"{n:>20}\n\"").unwrap();
    }
    array.push(']');
    for input in [lines, array, csv] {
        assert!(input.len() > 1 << 20);
        let counted = queried(input.as_bytes(), "SELECT COUNT(*) AS n, COUNT(t) AS t, SUM(n) AS s FROM '-'");
        assert_eq!(counted, "60000,60000,1799970000\n");
    }
}

#[test]
fn formats_of_bytes_come_through_a_pipe() {
    let folder = tempfile::tempdir().unwrap();
    for format in ["arrow", "avro"] {
        let path = format!("rows.{format}");
        let script = format!(
            "CREATE TABLE o (n BIGINT, t STRING) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = '{format}');
             INSERT INTO o VALUES (1, 'a'), (2, 'b')"
        );
        let written = millstream(folder.path()).args(["run", "-e", &script]).output().unwrap();
        assert!(written.status.success(), "{}", text(&written.stderr));
        let bytes = fs::read(folder.path().join(path)).unwrap();
        assert_eq!(queried(&bytes, "SELECT t, n FROM '-' ORDER BY n"), "a,1\nb,2\n");
    }
}

/// As `tail -F` gives them.
#[test]
fn rows_are_seen_when_they_come() {
    let query = ["run", "-e", "SELECT n FROM '-'", "-o", "json"];
    let mut child = millstream(Path::new("/tmp")).args(query).stdin(Stdio::piped()).spawn().unwrap();
    let (mut input, mut output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    for n in 0..5 {
        writeln!(input, "{{\"n\":{n}}}").unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, format!("{{\"n\":{n}}}\n"));
    }
    drop(input);
    assert!(child.wait().unwrap().success());
}

/// Columns are not looked for as long as rows come.
#[test]
fn a_steady_stream_is_read_soon() {
    let query = ["run", "-e", "SELECT n FROM '-'", "-o", "json"];
    let mut child = millstream(Path::new("/tmp")).args(query).stdin(Stdio::piped()).spawn().unwrap();
    let (mut input, mut output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    let has_come = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut sent = 0;
            while !has_come.load(Ordering::Relaxed) && sent < 1000 {
                writeln!(input, "{{\"n\":{sent}}}").unwrap();
                sent += 1;
                std::thread::sleep(Duration::from_millis(20));
            }
            drop(input);
            sent
        });
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        has_come.store(true, Ordering::Relaxed);
        assert_eq!(line, "{\"n\":0}\n");
        assert!(writer.join().unwrap() < 1000);
    });
    std::io::copy(&mut output, &mut std::io::sink()).unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_statement_for_standard_input_is_printed() {
    let output = piped(Path::new("/tmp"), b"a,b\n1,x\n", &["schema", "-"]);
    let expected = "CREATE TABLE `stdin` (\n  `a` BIGINT,\n  `b` STRING\n) WITH (\n  'connector' = 'filesystem',\n  'path' = '-',\n  \
        'format' = 'csv',\n  'csv.header' = 'true'\n);\n";
    assert_eq!(text(&output.stdout), expected, "{}", text(&output.stderr));
}

/// What comes first may be less than a record.
#[test]
fn the_rest_of_a_first_record_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let script = "CREATE TABLE o (a BIGINT) WITH ('connector' = 'filesystem', 'path' = 'rows.avro', 'format' = 'avro');
        INSERT INTO o VALUES (1), (2)";
    assert!(millstream(folder.path()).args(["run", "-e", script]).status().unwrap().success());
    let avro = fs::read(folder.path().join("rows.avro")).unwrap();
    let long = format!("{{\"a\":1,\"t\":\"{}\"}}\n{{\"a\":2}}\n", "x".repeat(3 << 20));
    for (first, rest) in [
        (&b"{\n"[..], &b"\"a\": 1}\n{\"a\":2}\n"[..]),
        (b"[\n", b"  {\"a\":1}, {\"a\":2}]"),
        (b"\n\n", b"{\"a\":1}\n{\"a\":2}"),
        (b"\xef\xbb\xbf{\"a\":1}\n", b"{\"a\":2}\n"),
        (b"a,b\n1,\"x\n", b"y\"\n2,z\n"),
        (&avro[..5], &avro[5..]),
        (b"", long.as_bytes()),
    ] {
        let query = ["run", "-e", "SELECT SUM(a) AS s FROM '-'", "-o", "json"];
        let mut child = millstream(folder.path()).args(query).stdin(Stdio::piped()).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(first).unwrap();
        // Longer than more is waited for behind a record.
        std::thread::sleep(Duration::from_millis(300));
        input.write_all(rest).unwrap();
        drop(input);
        let output = child.wait_with_output().unwrap();
        assert_eq!(text(&output.stdout), "{\"s\":3}\n", "{first:?}: {}", text(&output.stderr));
    }
}

#[test]
fn standard_input_is_read_once() {
    let read = "standard input is read once, and another table or statement has read it";
    let declared = "CREATE TABLE t (n INT) WITH ('connector' = 'filesystem', 'path' = '-', 'format' = 'csv');";
    for query in [
        "SELECT COUNT(*) FROM '-' AS a, '-' AS b".to_string(),
        "SELECT column0 FROM '-' WHERE column0 > (SELECT AVG(column0) FROM '-')".into(),
        "SELECT * FROM '-' LIMIT 2; SELECT * FROM '-'".into(),
        format!("{declared} SELECT n FROM t; SELECT n FROM t"),
    ] {
        let output = piped(Path::new("/tmp"), b"1\n2\n3\n4\n", &["run", "-e", &query]);
        let errors = text(&output.stderr);
        assert!(!output.status.success() && errors.contains(read) && errors.contains("one query"), "{query}: {errors}");
    }
    let script = b"SELECT * FROM '-'";
    for (arguments, by) in [(&["run", "-"][..], "the script comes from it"), (&["sql"], "statements come from it")] {
        let errors = text(&piped(Path::new("/tmp"), script, arguments).stderr);
        assert!(errors.contains(&format!("standard input is read once, and {by}")), "{errors}");
    }
    // One table that is read for several outputs, or joined with itself, is read once.
    assert_eq!(
        queried(b"1\n2\n", "SELECT SUM(n) AS s FROM (SELECT column0 AS n FROM '-' UNION ALL SELECT column0 FROM '-')"),
        "6\n"
    );
}

#[test]
fn a_pipe_with_a_name_needs_columns() {
    let folder = tempfile::tempdir().unwrap();
    assert!(Command::new("mkfifo").arg(folder.path().join("p.json")).status().unwrap().success());
    let output = millstream(folder.path()).args(["run", "-e", "SELECT * FROM 'p.json'"]).output().unwrap();
    let errors = text(&output.stderr);
    assert!(errors.contains("'p.json' is a pipe, which is read once") && errors.contains("FROM '-'"), "{errors}");
    assert_eq!(queried(b"1\n2\n", "SELECT SUM(column0) AS s FROM '/dev/fd/0'"), "3\n");
}

/// Nothing runs yet, so nothing has to be stopped in good order.
#[test]
fn a_signal_ends_a_command_that_waits_for_rows() {
    let mut child =
        millstream(Path::new("/tmp")).args(["run", "-e", "SELECT * FROM '-'"]).stdin(Stdio::piped()).spawn().unwrap();
    let input = child.stdin.take().unwrap();
    // The command is there when it handles signals.
    let status = format!("/proc/{}/status", child.id());
    let is_handled = |line: &str| {
        let mask = line.strip_prefix("SigCgt:\t");
        mask.is_some_and(|mask| u64::from_str_radix(mask, 16).unwrap() & (1 << 14) != 0)
    };
    let handles = || fs::read_to_string(&status).unwrap().lines().any(is_handled);
    while !handles() {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    drop(input);
}

#[test]
fn standard_input_that_cannot_be_read_is_said() {
    for (input, message, advice) in [
        (&b""[..], "standard input has ended, and no row has come from it", "the command before the pipe"),
        (b"\x1f\x8b\x08\0\0\0\0\0", "standard input is compressed with gzip", "zcat FILE | millstream"),
        (b"\x28\xb5\x2f\xfd\0\0\0\0", "standard input is compressed with zstd", "zstdcat FILE | millstream"),
        (b"\0\0\0\0\0\0\0\0\n\n", "neither the name nor the start of 'stdin'", "'format' = 'csv'"),
        (b"PAR1\0\0\0\0", "a Parquet file cannot be read from standard input", "columns"),
        (b"{\"a\":1}\nnot JSON\n", "no JSON object", "json.ignore-parse-errors"),
    ] {
        let output = piped(Path::new("/tmp"), input, &["run", "-e", "SELECT * FROM '-'"]);
        let errors = text(&output.stderr);
        assert!(!output.status.success() && errors.contains(message) && errors.contains(advice), "{errors}");
    }
}
