//! What the process holds in memory is what its budget says, and 64 MiB at most on top of that.

use crate::alone;
use crate::support::millstream;
use std::fs;
use std::io::Read;
use std::process::{Child, Command};
use std::time::Duration;

const MIB: u64 = 1 << 20;
/// What nobody counts: code, threads, what lives within a task, what the allocator keeps.
const UNCOUNTED: u64 = 64 * MIB;

/// Rows with keys of their own, a millisecond apart for each thousand.
fn numbers(name: &str, rows: u64) -> String {
    format!(
        "CREATE TABLE {name} (id BIGINT, k AS MOD(id * 7919, 10000000), v AS MOD(id, 1000), ts AS TO_TIMESTAMP_LTZ(id / 1000, 3), \
         WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH ('connector' = 'datagen', 'rows-per-second' = '0', \
         'number-of-rows' = '{rows}', 'fields.id.kind' = 'sequence', 'fields.id.start' = '0', 'fields.id.end' = '{rows}');"
    )
}

/// The most private memory of a process until it ends, as the system tells it.
fn watch(child: &mut Child) -> u64 {
    let file = format!("/proc/{}/status", child.id());
    let mut most = 0;
    while child.try_wait().unwrap().is_none() {
        let status = fs::read_to_string(&file).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok()).unwrap_or(0);
        most = most.max(kib << 10);
        std::thread::sleep(Duration::from_millis(2));
    }
    most
}

/// Standard output, standard error, and private memory of a query with a budget.
fn run(budget: u64, sql: &str) -> (String, String, u64) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("q.sql"), sql).unwrap();
    let budget = format!("{}", budget);
    let arguments = ["run", "q.sql", "--quiet", "--output", "csv", "--memory", &budget, "--set"];
    let mut command: Command = millstream(folder.path());
    let mut child = command.args(arguments).arg("execution.runtime-mode=batch").spawn().unwrap();
    let most = watch(&mut child);
    let (mut out, mut errors) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    (out, errors, most)
}

/// Queries over a million rows and more, whose state is many times the budget, and their rows.
#[test]
fn the_process_holds_little_more_than_its_budget() {
    let _alone = alone();
    let budget = 24 * MIB;
    let windows = |rows: u64, query: &str| numbers("s", rows) + &numbers("t", rows) + query;
    let joined = |condition: &str| {
        let rows =
            |table: &str| format!("(SELECT * FROM TABLE(TUMBLE(TABLE {table}, DESCRIPTOR(ts), INTERVAL '1' HOUR)))");
        format!(
            "SELECT COUNT(*), SUM(v) FROM (SELECT a.k, b.v FROM {} a JOIN {} b ON {condition} AND a.window_start = b.window_start \
             AND a.window_end = b.window_end);",
            rows("s"),
            rows("t")
        )
    };
    let cases = [
        (
            "a tumbling count",
            windows(
                1_500_000,
                "SELECT COUNT(*), SUM(n) FROM (SELECT k, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), \
                 INTERVAL '1' HOUR)) GROUP BY k, window_start, window_end);",
            ),
            "1500000,1500000",
        ),
        (
            "overlapping windows",
            windows(
                1_000_000,
                "SELECT COUNT(*), SUM(n) FROM (SELECT k, COUNT(*) AS n FROM TABLE(HOP(TABLE s, DESCRIPTOR(ts), \
                 INTERVAL '1' MINUTE, INTERVAL '2' MINUTE)) GROUP BY k, window_start, window_end);",
            ),
            "2000000,2000000",
        ),
        (
            "a million windows of a few rows",
            windows(
                2_000,
                "SELECT COUNT(*), SUM(n) FROM (SELECT COUNT(*) AS n FROM TABLE(HOP(TABLE s, DESCRIPTOR(ts), \
                 INTERVAL '0.001' SECOND, INTERVAL '1000' SECOND)) GROUP BY window_start, window_end);",
            ),
            "1000001,2000000000",
        ),
        (
            "sessions",
            windows(
                500_000,
                "SELECT COUNT(*), SUM(n) FROM (SELECT k, COUNT(*) AS n FROM TABLE(SESSION(TABLE s PARTITION BY k, \
                 DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY k, window_start, window_end);",
            ),
            "500000,500000",
        ),
        ("a window join", windows(400_000, &joined("a.k = b.k")), "400000,199800000"),
        (
            "a join whose output is a hundred times its input",
            windows(20_000, &joined("MOD(a.v, 100) = MOD(b.v, 100)")),
            "4000000,1998000000",
        ),
        (
            "OVER",
            windows(
                400_000,
                "SELECT COUNT(*), SUM(n) FROM (SELECT SUM(v) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 10 PRECEDING AND \
                 CURRENT ROW) AS n FROM s);",
            ),
            "400000,199800000",
        ),
        (
            "sets of values",
            windows(
                1_000_000,
                "SELECT COUNT(*), SUM(n) FROM (SELECT v, COUNT(DISTINCT k) AS n FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), \
                 INTERVAL '1' HOUR)) GROUP BY v, window_start, window_end);",
            ),
            "1000,1000000",
        ),
        (
            "long texts",
            windows(
                50_000,
                "SELECT COUNT(*), SUM(CHAR_LENGTH(t)) FROM (SELECT LISTAGG(REPEAT(CAST(MOD(id, 10) AS STRING), 1000)) AS t \
                 FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY v, window_start, window_end);",
            ),
            "1000,50049000",
        ),
    ];
    for (what, sql, expected) in cases {
        // How far it gets before memory is given back depends on what else the machine does: the median of three counts.
        let mut held = Vec::new();
        while held.len() < 3 && held.last().is_none_or(|&most| most > budget + UNCOUNTED) {
            let (out, errors, most) = run(budget, &sql);
            assert_eq!(out.lines().nth(1), Some(expected), "{what}: {errors}");
            held.push(most);
        }
        if held.len() > 1 {
            held.resize_with(3, || run(budget, &sql).2);
        }
        held.sort_unstable();
        let most = held[held.len() / 2];
        assert!(most <= budget + UNCOUNTED, "{what}: {} MiB with a budget of {} MiB", most / MIB, budget / MIB);
    }
}

/// A group whose values do not fit is an error before they are in memory.
#[test]
fn a_group_that_does_not_fit_is_refused() {
    let _alone = alone();
    for aggregate in ["LISTAGG(REPEAT('x', 1000))", "COUNT(DISTINCT id * 7919)"] {
        let rows = if aggregate.starts_with('L') { 100_000 } else { 3_000_000 };
        let sql = format!(
            "{}SELECT {aggregate} FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY window_start, \
             window_end;",
            numbers("s", rows)
        );
        let (_, errors, most) = run(24 * MIB, &sql);
        assert!(errors.contains("MS3010") && errors.contains("of one group in one window"), "{aggregate}: {errors}");
        assert!(most <= 24 * MIB + 2 * UNCOUNTED, "{aggregate}: {} MiB", most / MIB);
    }
}
