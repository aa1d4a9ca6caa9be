//! Statements of absurd size end soon, with rows or with an error, and never with an overflow of a stack.

use crate::alone;
use crate::support::millstream;
use std::fmt::Write;
use std::fs;
use std::time::{Duration, Instant};

const TABLE: &str = "CREATE TABLE t (x BIGINT, s STRING) WITH ('connector' = 'datagen', 'rows-per-second' = '0', \
     'number-of-rows' = '100', 'fields.x.kind' = 'sequence', 'fields.x.start' = '1', 'fields.x.end' = '100');";

/// What `item` gives for the numbers below `count`, with `separator` in between.
fn joined(count: usize, separator: &str, item: impl Fn(usize) -> String) -> String {
    (0..count).map(item).collect::<Vec<_>>().join(separator)
}

/// `WITH a0 AS (SELECT x FROM t), …`: each query after the first is made by `next` of the name of the one before.
fn chain(count: usize, next: impl Fn(&str) -> String) -> String {
    let mut sql = String::from("WITH a0 AS (SELECT x FROM t)");
    for i in 1..count {
        let _ = write!(sql, ", a{i} AS ({})", next(&format!("a{}", i - 1)));
    }
    sql + &format!(" SELECT COUNT(*), SUM(x) FROM a{};", count - 1)
}

/// Windows over windows of a file without rows.
fn windows(count: usize) -> String {
    let mut sql = String::from(
        "CREATE TABLE w (x INT, t TIMESTAMP(3), WATERMARK FOR t AS t) WITH ('connector' = 'filesystem', 'path' = '/dev/null', \
         'format' = 'csv'); WITH a0 AS (SELECT x, t FROM w)",
    );
    for i in 1..=count {
        let _ = write!(
            sql,
            ", a{i} AS (SELECT x, window_time AS t FROM TABLE(TUMBLE(TABLE a{}, DESCRIPTOR(t), INTERVAL '1' SECOND)) \
             GROUP BY x, window_start, window_end, window_time)",
            i - 1
        );
    }
    sql + &format!(" SELECT COUNT(*) FROM a{count};")
}

/// The first row, or the first line of the error; how long it took.
fn answer(what: &str, query: &str) -> (String, Duration) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("q.sql"), format!("{TABLE}{query}")).unwrap();
    let started = Instant::now();
    let mut command = millstream(folder.path());
    let arguments = ["run", "q.sql", "--quiet", "--output", "csv", "--set", "execution.runtime-mode=batch"];
    let output = command.args(arguments).output().unwrap();
    let took = started.elapsed();
    assert!(output.status.code().is_some(), "{what} ended by a signal: {}", String::from_utf8_lossy(&output.stderr));
    let text = if output.status.success() { &output.stdout } else { &output.stderr };
    let text = String::from_utf8_lossy(text);
    (text.lines().nth(usize::from(output.status.success())).unwrap_or_default().to_string(), took)
}

#[test]
fn statements_of_absurd_size_end_soon() {
    let _alone = alone();
    let cases = [
        (
            "an IN list",
            format!("SELECT COUNT(*) FROM t WHERE x IN ({});", joined(20_000, ",", |i| i.to_string())),
            "100",
        ),
        (
            "an IN list of strings",
            format!("SELECT COUNT(*) FROM t WHERE s IN ({});", joined(20_000, ",", |i| format!("'text number {i}'"))),
            "0",
        ),
        (
            "a NOT IN list",
            format!("SELECT COUNT(*) FROM t WHERE x NOT IN ({});", joined(20_000, ",", |i| (i + 50).to_string())),
            "49",
        ),
        (
            "ANDs",
            format!("SELECT COUNT(*) FROM t WHERE {};", joined(400, " AND ", |i| format!("x <> {}", i + 50))),
            "49",
        ),
        (
            "too many ANDs",
            format!("SELECT COUNT(*) FROM t WHERE {};", joined(20_000, " AND ", |i| format!("x <> {i}"))),
            "error[MS2001]",
        ),
        ("parentheses", format!("SELECT {}x{} FROM t;", "(".repeat(30_000), ")".repeat(30_000)), "error[MS2001]"),
        ("calls", format!("SELECT {}x{} FROM t;", "ABS(".repeat(10_000), ")".repeat(10_000)), "error[MS2001]"),
        (
            "UNION ALL",
            format!("SELECT COUNT(*) FROM ({});", joined(900, " UNION ALL ", |_| "SELECT x FROM t".into())),
            "90000",
        ),
        (
            "too many UNION ALL",
            format!("{};", joined(20_000, " UNION ALL ", |_| "SELECT x FROM t".into())),
            "error[MS2001]",
        ),
        (
            "a CASE",
            format!("SELECT SUM(CASE {} ELSE 0 END) FROM t;", joined(5_000, " ", |i| format!("WHEN x = {i} THEN {i}"))),
            "5050",
        ),
        (
            "a CASE of calls",
            format!(
                "SELECT SUM(CASE {} ELSE x END) FROM t;",
                joined(2_000, " ", |i| format!("WHEN s LIKE '%<{i}>%' THEN {i}"))
            ),
            "5050",
        ),
        (
            "a CASE of too many calls",
            format!(
                "SELECT SUM(CASE {} ELSE x END) FROM t;",
                joined(3_100, " ", |i| format!("WHEN s LIKE '%<{i}>%' THEN {i}"))
            ),
            "error[MS2015]",
        ),
        ("aggregates", format!("SELECT {} FROM t;", joined(1_000, ", ", |i| format!("SUM(x + {i})"))), "5050,"),
        ("columns", format!("SELECT {} FROM t LIMIT 1;", joined(5_000, ", ", |i| format!("x + {i}"))), "1,2,3,"),
        (
            "WITHs that double",
            chain(17, |before| format!("SELECT * FROM {before} UNION ALL SELECT * FROM {before}")),
            "6553600,330956800",
        ),
        (
            "WITHs that unite what differs",
            chain(12, |before| {
                format!("SELECT x + 1 AS x FROM {before} UNION ALL SELECT x * 2 FROM {before} WHERE x < 9")
            }),
            "178,7656",
        ),
        (
            "WITHs joined with themselves",
            chain(100, |before| format!("SELECT l.x FROM {before} l JOIN {before} r ON l.x = r.x")),
            "100,5050",
        ),
        (
            "WITHs that unite two before",
            (2..40).fold("WITH a0 AS (SELECT x FROM t), a1 AS (SELECT x FROM t)".into(), |sql: String, i| {
                format!("{sql}, a{i} AS (SELECT * FROM a{} UNION ALL SELECT * FROM a{})", i - 1, i - 2)
            }) + " SELECT COUNT(*) FROM a39;",
            "error[MS2015]",
        ),
        (
            "views that double",
            (1..17).fold("CREATE VIEW a0 AS SELECT x FROM t;".into(), |sql: String, i| {
                format!("{sql} CREATE VIEW a{i} AS SELECT * FROM a{0} UNION ALL SELECT * FROM a{0};", i - 1)
            }) + " SELECT COUNT(*), SUM(x) FROM a16;",
            "6553600,330956800",
        ),
        ("chained WITHs", chain(3_000, |before| format!("SELECT x + 1 AS x FROM {before}")), "100,304950"),
        (
            "WITHs that filter",
            chain(3_000, |before| format!("SELECT x + 1 AS x FROM {before} WHERE x > 3")),
            "97,295947",
        ),
        ("WITHs that group", chain(300, |before| format!("SELECT x FROM {before} GROUP BY x")), "100,5050"),
        ("windows over windows", windows(300), "0"),
        ("too many windows over windows", windows(3_000), "error[MS2015]"),
        ("too many chained WITHs", chain(50_100, |before| format!("SELECT x + 1 AS x FROM {before}")), "error[MS2015]"),
        ("a value that doubles", chain(40, |before| format!("SELECT x + x - x AS x FROM {before}")), "100,5050"),
        (
            "columns of JSON",
            format!(
                "CREATE TABLE j ({}) WITH ('connector' = 'filesystem', 'path' = 'none.jsonl', 'format' = 'json'); SELECT c7 FROM j;",
                joined(100_000, ", ", |i| format!("c{i} INT"))
            ),
            "error[MS4001]",
        ),
    ];
    for (what, query, expected) in cases {
        let (found, took) = answer(what, &query);
        assert!(found.starts_with(expected), "{what}: {found:.200}");
        assert!(took < Duration::from_secs(60), "{what} took {took:?}");
    }
}
