//! ORDER BY: more rows than there is memory for, ends before the end, and jobs with a state directory.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use millstream::{Collected, Diagnostic, RunMonitor, Session, SessionConfig, StatsSnapshot, code};
use std::path::Path;

/// `rows` rows in an order that looks random: each number below `rows`, and a text that goes with it.
fn table(rows: u64) -> String {
    format!(
        "CREATE TABLE g (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '0', 'fields.id.kind' = 'sequence', \
         'fields.id.start' = '0', 'fields.id.end' = '{}');
         CREATE VIEW m AS SELECT CAST(id * 7919 % {rows} AS BIGINT) AS x, id % 10 AS y, 'a text beside the number ' || CAST(id AS STRING) AS s FROM g;",
        rows - 1
    )
}

/// Runs a script within some memory; the numbers of the first column of its last query, and the statistics.
fn run(directory: &Path, settings: &[(&str, &str)], script: &str) -> Result<(Vec<i64>, StatsSnapshot), Diagnostic> {
    let mut session = Session::new(SessionConfig::default());
    session.set("pipeline.spill.directory", &directory.to_string_lossy())?;
    session.set("pipeline.tier", "interpreted")?;
    session.set("parallelism.default", "2")?;
    settings.iter().try_for_each(|(key, value)| session.set(key, value))?;
    let (mut results, monitor) = (Collected::new(), RunMonitor::new());
    for statement in &session.parse(script)? {
        session.execute(statement, &mut results, &monitor)?;
    }
    let rows = results.into_batch()?;
    let numbers = rows.column(0).as_primitive::<Int64Type>().values().to_vec();
    Ok((numbers, monitor.stats().expect("it has run").snapshot()))
}

/// A number without a factor of the one that [`table`] multiplies with.
const ROWS: u64 = 400_000;

#[test]
fn rows_that_do_not_fit_are_sorted_in_files() {
    let directory = tempfile::tempdir().unwrap();
    let script = format!("{} SELECT x FROM (SELECT x, s FROM m) ORDER BY x DESC, s", table(ROWS));
    let (numbers, stats) = run(directory.path(), &[("pipeline.memory", "16 MB")], &script).unwrap();
    assert!(numbers.iter().rev().copied().eq(0..ROWS as i64));
    // The rows are several times the budget.
    assert!(stats.spill.bytes_written > 16 << 20, "{} bytes were written", stats.spill.bytes_written);
    assert!(std::fs::read_dir(directory.path()).unwrap().next().is_none(), "files were left behind");
}

#[test]
fn ties_are_in_the_order_of_the_input_however_they_are_sorted() {
    let directory = tempfile::tempdir().unwrap();
    let script = format!("{} SELECT id FROM g ORDER BY id % 3", table(20_000));
    let expected: Vec<i64> = (0..3).flat_map(|rest| (0..20_000).filter(move |id| id % 3 == rest)).collect();
    for settings in [
        [("pipeline.spill", "always"), ("pipeline.buffer-rows", "100")],
        [("pipeline.spill", "never"), ("parallelism.default", "4")],
        [("pipeline.spill", "auto"), ("parallelism.default", "1")],
    ] {
        assert_eq!(run(directory.path(), &settings, &script).unwrap().0, expected, "{settings:?}");
    }
}

#[test]
fn the_first_rows_need_little_memory() {
    let directory = tempfile::tempdir().unwrap();
    let settings = [("pipeline.memory", "4 MB"), ("pipeline.spill", "never")];
    let script = format!("{} SELECT x, s FROM m ORDER BY x LIMIT 1000 OFFSET 500", table(ROWS));
    assert!(run(directory.path(), &settings, &script).unwrap().0.into_iter().eq(500..1500));
    // The worst order: each row comes before those that are kept.
    let script = format!("{} SELECT id FROM g ORDER BY id DESC LIMIT 1000", table(ROWS));
    assert!(run(directory.path(), &settings, &script).unwrap().0.into_iter().rev().eq(399_000..400_000));
    let script = format!("{} SELECT x FROM m ORDER BY y, x LIMIT 3", table(ROWS));
    assert_eq!(run(directory.path(), &settings, &script).unwrap().0.len(), 3);
}

#[test]
fn without_files_rows_that_do_not_fit_are_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let settings = [("pipeline.memory", "8 MB"), ("pipeline.spill", "never")];
    let script = format!("{} SELECT x, s FROM m ORDER BY x", table(ROWS));
    let error = run(directory.path(), &settings, &script).unwrap_err();
    assert_eq!(error.code, code::OUT_OF_MEMORY, "{error}");
    assert!(error.message.contains("operators"), "{error}");
}

#[test]
fn who_ends_a_sort_does_not_wait_for_its_rows() {
    for ends in [millstream::Job::stop, millstream::Job::cancel] {
        let mut session = Session::new(SessionConfig::default());
        session.run(&table(ROWS)).unwrap();
        let job = session.submit(&session.parse("SELECT s, x FROM m ORDER BY x").unwrap()[0]).unwrap();
        // Nobody takes the rest, so it would never be over.
        let first = job.next_batch().unwrap();
        assert_eq!(first.column(1).as_primitive::<Int64Type>().value(0), 0);
        ends(&job);
        assert_eq!(job.wait().unwrap_err().code, code::CANCELLED);
    }
}

fn with_state(folder: &Path, interval: &str) -> Session {
    let mut session = Session::new(SessionConfig::default());
    session.set("pipeline.tier", "interpreted").unwrap();
    session.set("execution.checkpointing.dir", &folder.join("state").to_string_lossy()).unwrap();
    session.set("execution.checkpointing.interval", interval).unwrap();
    session
}

const INSERT: &str = "INSERT INTO sorted SELECT x, s FROM m ORDER BY x";

fn sorted(folder: &Path) -> String {
    format!(
        "CREATE TABLE sorted (x BIGINT, s STRING) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'csv')",
        folder.join("sorted").display()
    )
}

#[test]
fn a_job_that_sorts_begins_again_and_ends_once() {
    let folder = tempfile::tempdir().unwrap();
    let rate = "'rows-per-second' = '20000'";
    let mut session = with_state(folder.path(), "5 ms");
    session
        .run(&format!("{} {}", table(ROWS).replace("'rows-per-second' = '0'", rate), sorted(folder.path())))
        .unwrap();
    // It is stopped while rows come: nothing is kept, and nothing has been written for good.
    let job = session.submit(&session.parse(INSERT).unwrap()[0]).unwrap();
    while job.stats().is_none_or(|stats| stats.rows_in < 1000) {
        std::thread::yield_now();
    }
    job.stop();
    assert_eq!(job.wait().unwrap_err().code, code::CANCELLED);
    drop(session);
    for _ in 0..2 {
        // The second time it has come to its end.
        let mut session = with_state(folder.path(), "5 ms");
        session.run(&format!("{} {}", table(50_000), sorted(folder.path()))).unwrap();
        session.run(INSERT).unwrap();
        drop(session);
        let mut session = Session::new(SessionConfig::default());
        let numbers = session.query(&format!("{}; SELECT x FROM sorted", sorted(folder.path()))).unwrap();
        let numbers = numbers.column(0).as_primitive::<Int64Type>().values();
        assert!(numbers.iter().copied().eq(0..50_000));
    }
}

#[test]
fn a_lookup_table_may_be_sorted_in_a_job_with_checkpoints() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = with_state(folder.path(), "5 ms");
    session.run(&format!("{} {}", table(20_000), sorted(folder.path()))).unwrap();
    let insert = "INSERT INTO sorted SELECT id, 'found' FROM g WHERE id IN (SELECT x FROM m ORDER BY x DESC LIMIT 10)";
    session.run(insert).unwrap();
    drop(session);
    let mut session = with_state(folder.path(), "5 ms");
    session.run(&format!("{} {}", table(20_000), sorted(folder.path()))).unwrap();
    session.run(insert).unwrap();
    let numbers = session.query("SELECT x FROM sorted ORDER BY x").unwrap();
    assert!(numbers.column(0).as_primitive::<Int64Type>().values().iter().copied().eq(19_990..20_000));
}

#[test]
fn a_set_that_would_never_have_a_checkpoint_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = with_state(folder.path(), "5 ms");
    session.run(&format!("{} {}", table(100), sorted(folder.path()))).unwrap();
    session
        .run(
            "CREATE TABLE endless (x BIGINT, s STRING) WITH ('connector' = 'datagen');
             CREATE TABLE nothing (x BIGINT, s STRING) WITH ('connector' = 'blackhole')",
        )
        .unwrap();
    let set = format!("EXECUTE STATEMENT SET BEGIN {INSERT}; INSERT INTO nothing SELECT * FROM endless; END");
    let error = session.run(&set).unwrap_err();
    assert_eq!(error.code, code::UNSUPPORTED, "{error}");
    assert!(error.message.contains("cannot have checkpoints"), "{error}");
}
