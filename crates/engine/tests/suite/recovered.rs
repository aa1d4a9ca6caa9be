//! Queries that are stopped with a checkpoint at some moment, and go on from it with another number of workers, several
//! times: together they give what Apache Flink answers. Those of Nexmark, and some in which rows are late.

use crate::configurations::Configuration;
use crate::flink;
use crate::nexmark::{COUNT_CHAR, QUERIES, actual, difference, expected};
use crate::stopping::run_or_stop;
use crate::tests_dir;
use arrow_array::cast::AsArray;
use millstream::{Collected, Diagnostic, RunMonitor, Session};
use std::path::Path;
use std::time::{Duration, Instant};

/// How the parts of a run differ: workers, and whether state is spilled.
const RUNS: [(&str, &str); 4] = [("2", "auto"), ("1", "always"), ("4", "auto"), ("3", "always")];

fn session(folder: &Path, (workers, spill): (&str, &str)) -> Session {
    let state = folder.join("state").to_string_lossy().into_owned();
    let settings = [
        ("pipeline.tier", "interpreted"),
        ("pipeline.buffer-rows", "32"),
        ("parallelism.default", workers),
        ("pipeline.spill", spill),
        ("execution.checkpointing.dir", &state),
        ("execution.checkpointing.interval", "5 ms"),
    ];
    Configuration::new("recovered", &settings).session()
}

/// Defines the tables of Nexmark, the view `q` of a query, and the table `out` for its rows.
fn define(session: &mut Session, folder: &Path, ddl: &str, query: &str) -> Result<(), Diagnostic> {
    let data = tests_dir().join("nexmark").to_string_lossy().into_owned();
    let ddl = std::fs::read_to_string(tests_dir().join("nexmark").join(ddl)).unwrap().replace("${DATA}", &data);
    session.run(&ddl)?;
    session.run(COUNT_CHAR)?;
    define_query(
        session,
        folder,
        &std::fs::read_to_string(tests_dir().join(format!("nexmark/queries/{query}.sql"))).unwrap(),
    )
}

/// The same of a query over tables that are there.
fn define_query(session: &mut Session, folder: &Path, query: &str) -> Result<(), Diagnostic> {
    session.run(&format!("CREATE VIEW q AS {query}"))?;
    let mut described = Collected::new();
    session.execute(&session.parse("DESCRIBE q")?[0], &mut described, &RunMonitor::new())?;
    let described = described.into_batch()?;
    let (names, types) = (described.column(0).as_string_view(), described.column(1).as_string_view());
    let type_of = |text: &str| text.split(" *").next().unwrap_or(text).to_string();
    let columns = names.iter().flatten().zip(types.iter().flatten());
    let columns: Vec<String> = columns.map(|(name, text)| format!("`{name}` {}", type_of(text))).collect();
    session.run(&format!(
        "CREATE TABLE `out` ({}) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'parquet')",
        columns.join(", "),
        folder.join("out").display()
    ))
}

/// Runs the query until it ends, or, for a while, until it has stopped; whether it has ended.
fn run(session: &mut Session, stop_after: Option<Duration>) -> Result<bool, Diagnostic> {
    run_or_stop(session, "INSERT INTO `out` SELECT * FROM q", stop_after)
}

/// How long the query takes when it is not stopped.
fn undisturbed(ddl: &str, query: &str) -> Result<Duration, Diagnostic> {
    let folder = tempfile::tempdir().unwrap();
    let mut session = session(folder.path(), RUNS[0]);
    define(&mut session, folder.path(), ddl, query)?;
    let start = Instant::now();
    run(&mut session, None)?;
    Ok(start.elapsed())
}

/// The number of times that the query has been stopped before its end, and how its rows differ from Flink's.
fn check(ddl: &str, query: &str, seed: u32) -> Result<(usize, String), Diagnostic> {
    let usual = undisturbed(ddl, query)?;
    let folder = tempfile::tempdir().unwrap();
    let mut stopped = 0;
    for (number, settings) in RUNS.into_iter().enumerate() {
        let mut session = session(folder.path(), settings);
        define(&mut session, folder.path(), ddl, query)?;
        let is_last = number + 1 == RUNS.len();
        // Soon enough that the query is still at work, however fast the machine is, at another point of it each time.
        let stop_after = usual * (1 + (seed * 7 + number as u32 * 13) % 8) / 20;
        if !run(&mut session, (!is_last).then_some(stop_after))? {
            stopped += 1;
        }
    }
    let mut session = session(folder.path(), RUNS[0]);
    define(&mut session, folder.path(), ddl, query)?;
    Ok((stopped, difference(&expected(query), &actual(&mut session, "SELECT * FROM `out`")?)))
}

#[test]
fn queries_that_are_stopped_and_go_on_give_flinks_rows() {
    let (mut failures, mut stopped) = (Vec::new(), 0);
    for (seed, query) in (0..).zip(QUERIES) {
        let ddl = ["ddl_flat.sql", "ddl_combined.sql"][seed as usize % 2];
        match check(ddl, query, seed) {
            Ok((times, difference)) => {
                stopped += times;
                if !difference.is_empty() {
                    failures.push(format!("{query} over {ddl}, stopped {times} times:\n{difference}"));
                }
            }
            Err(error) => failures.push(format!("{query} over {ddl}: {error}")),
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    // How many depends on the machine: where readers are much faster than workers, they have read all when the stop comes.
    assert!(stopped > 0, "no stop came before the end of a query");
}

/// Queries of `tests/flink` with late rows, or rows that wait.
const LATE: [&str; 9] = [
    "over_rows",
    "over_range",
    "over_range_then_window",
    "over_then_session",
    "temporal_late",
    "temporal_two_columns",
    "temporal_window_over",
    "interval_left",
    "interval_full_timely",
];

/// Stops a query over slow readers several times: how often before its end, and how its rows differ from Flink's.
fn check_late(query: &str, seed: u64) -> Result<(usize, String), Diagnostic> {
    let (folder, mut stopped) = (tempfile::tempdir().unwrap(), 0);
    let read = |file: String| std::fs::read_to_string(flink::folder().join(file)).unwrap();
    let slow = "'scan.rate-limit.rows-per-second' = '500', 'format' = 'json'";
    let ddl = read("queries/ddl.sql".into()).replace("'format' = 'json'", slow);
    for (number, settings) in (0..).zip(RUNS) {
        let mut session = session(folder.path(), settings);
        flink::execute(&mut session, &ddl)?;
        define_query(&mut session, folder.path(), &read(format!("queries/{query}.sql")))?;
        let stop_after = (number < 3).then(|| Duration::from_millis(40 + (seed * 37 + number * 53) % 90));
        stopped += usize::from(!run(&mut session, stop_after)?);
    }
    let mut session = session(folder.path(), RUNS[0]);
    flink::execute(&mut session, &ddl)?;
    define_query(&mut session, folder.path(), &read(format!("queries/{query}.sql")))?;
    let results = flink::execute(&mut session, "SELECT * FROM `out`")?;
    Ok((stopped, flink::difference_to(&read(format!("rows/{query}.csv")), results)?))
}

#[test]
fn queries_with_late_rows_that_are_stopped_and_go_on_give_flinks_rows() {
    let (mut failures, mut stopped) = (Vec::new(), 0);
    for (seed, query) in (0..).zip(LATE) {
        match check_late(query, seed) {
            Ok((times, difference)) => {
                stopped += times;
                if !difference.is_empty() {
                    failures.push(format!("{query}, stopped {times} times:\n{difference}"));
                }
            }
            Err(error) => failures.push(format!("{query}: {error}")),
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    assert!(stopped > LATE.len(), "{stopped} stops");
}
