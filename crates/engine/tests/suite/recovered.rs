//! Queries that are stopped with a checkpoint at some moment, and resume from it with another number of workers and
//! nodes, several times: together they give what Apache Flink answers. Those of Nexmark, and some in which rows are late.

use crate::configurations::Configuration;
use crate::flink;
use crate::nexmark::{COUNT_CHAR, QUERIES, actual, bag, difference, expected};
use crate::stopping::{run_or_stop, run_or_stop_with};
use crate::tests_dir;
use arrow_array::cast::AsArray;
use millstream::{Collected, Diagnostic, RunMonitor, Session};
use std::collections::HashSet;
use std::path::Path;

/// How the parts of a run differ: workers, whether state is spilled, and the partitions of keyed operators.
type RunSettings = (&'static str, &'static str, &'static str);

const RUNS: [RunSettings; 4] = [("2", "auto", "64"), ("1", "always", "16"), ("4", "auto", "256"), ("3", "always", "1")];

/// The nodes of the runs: every other query moves between one and several.
const NODES: [[&str; 4]; 2] = [["1", "1", "1", "1"], ["3", "1", "5", "2"]];

/// The runs that are stopped: all but the last.
const STOPS: u64 = RUNS.len() as u64 - 1;

fn session(folder: &Path, (workers, spill, key_partitions): RunSettings, nodes: &str) -> Session {
    let state = folder.join("state").to_string_lossy().into_owned();
    let settings = [
        ("pipeline.tier", "interpreted"),
        ("pipeline.buffer-rows", "32"),
        ("parallelism.default", workers),
        ("pipeline.spill", spill),
        ("pipeline.key-partitions", key_partitions),
        ("pipeline.nodes", nodes),
        ("execution.checkpointing.dir", &state),
        ("execution.checkpointing.interval", "5 ms"),
    ];
    Configuration::new("recovered", &settings).session()
}

/// The files of Nexmark, with their rows.
const FILES: [(&str, u64); 4] = [("person", 400), ("auction", 1200), ("bid", 18_400), ("events", 20_000)];

/// How long a run that is stopped would take to read each file. A stop is a checkpoint, and rows are read until that is complete: on
/// a busy disk three of them may take three seconds together. The last run is not slowed down.
const SECONDS: u64 = 8;

/// Defines the tables of Nexmark, the view `q` of a query, and the table `out` for its rows; how many rows the query reads.
fn define(session: &mut Session, folder: &Path, ddl: &str, query: &str, is_slow: bool) -> Result<u64, Diagnostic> {
    let data = tests_dir().join("nexmark").to_string_lossy().into_owned();
    let mut ddl = std::fs::read_to_string(tests_dir().join("nexmark").join(ddl)).unwrap().replace("${DATA}", &data);
    let query = std::fs::read_to_string(tests_dir().join(format!("nexmark/queries/{query}.sql"))).unwrap();
    let mut read = 0;
    for (table, rows) in FILES {
        let path = format!("{table}.jsonl.zst'");
        if ddl.contains(&path) {
            if is_slow {
                let limit = format!("'scan.rate-limit.rows-per-second' = '{}'", rows / SECONDS);
                ddl = ddl.replace(&path, &format!("{path}, {limit}"));
            }
            let is_read = table == "events" || query.split(|c: char| !c.is_alphanumeric()).any(|word| word == table);
            read += if is_read { rows } else { 0 };
        }
    }
    session.run(&ddl)?;
    session.run(COUNT_CHAR)?;
    define_query(session, folder, &query)?;
    Ok(read)
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

/// Runs the query until it ends, or until that many rows have been read; whether it has ended.
fn run(session: &mut Session, stop_at_row: Option<u64>) -> Result<bool, Diagnostic> {
    run_or_stop(session, "INSERT INTO `out` SELECT * FROM q", stop_at_row)
}

/// The number of times that the query has been stopped before its end, and how its rows differ from Flink's.
fn check(ddl: &str, query: &str, seed: u64) -> Result<(u64, String), Diagnostic> {
    let folder = tempfile::tempdir().unwrap();
    let mut stopped = 0;
    for (number, settings) in (0..).zip(RUNS) {
        let mut session = session(folder.path(), settings, NODES[seed as usize % 2][number as usize]);
        let is_stopped = number < STOPS;
        let rows = define(&mut session, folder.path(), ddl, query, is_stopped)?;
        // At another row of each query and run, and early enough that the last run has rows left.
        let percent = 8 + (seed * 7 + number * 13) % 13;
        stopped += u64::from(!run(&mut session, is_stopped.then_some(rows * percent / 100))?);
    }
    let mut session = session(folder.path(), RUNS[0], "1");
    define(&mut session, folder.path(), ddl, query, false)?;
    Ok((stopped, difference(&expected(query), &actual(&mut session, "SELECT * FROM `out`")?)))
}

#[test]
fn queries_that_are_stopped_and_go_on_give_flinks_rows() {
    let mut failures = Vec::new();
    for (seed, query) in (0..).zip(QUERIES) {
        let ddl = ["ddl_flat.sql", "ddl_combined.sql"][seed as usize % 2];
        match check(ddl, query, seed) {
            Ok((times, difference)) => {
                if times < STOPS || !difference.is_empty() {
                    failures.push(format!("{query} over {ddl}, stopped {times} times:\n{difference}"));
                }
            }
            Err(error) => failures.push(format!("{query} over {ddl}: {error}")),
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
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
fn check_late(query: &str, seed: u64) -> Result<(u64, String), Diagnostic> {
    let (folder, mut stopped) = (tempfile::tempdir().unwrap(), 0);
    let read = |file: String| std::fs::read_to_string(flink::folder().join(file)).unwrap();
    // As above: the files would take four to ten seconds.
    let slow = "'scan.rate-limit.rows-per-second' = '25', 'format' = 'json'";
    let ddl = read("queries/ddl.sql".into());
    for (number, settings) in (0..).zip(RUNS) {
        let mut session = session(folder.path(), settings, NODES[seed as usize % 2][number as usize]);
        let stop_at_row = (number < STOPS).then(|| 15 + (seed * 37 + number * 53) % 30);
        let is_stopped = stop_at_row.is_some();
        flink::execute(&mut session, &if is_stopped { ddl.replace("'format' = 'json'", slow) } else { ddl.clone() })?;
        define_query(&mut session, folder.path(), &read(format!("queries/{query}.sql")))?;
        stopped += u64::from(!run(&mut session, stop_at_row)?);
    }
    let mut session = session(folder.path(), RUNS[0], "1");
    flink::execute(&mut session, &ddl)?;
    define_query(&mut session, folder.path(), &read(format!("queries/{query}.sql")))?;
    let results = flink::execute(&mut session, "SELECT * FROM `out`")?;
    Ok((stopped, flink::difference_to(&read(format!("rows/{query}.csv")), results)?))
}

#[test]
fn queries_with_late_rows_that_are_stopped_and_go_on_give_flinks_rows() {
    let mut failures = Vec::new();
    for (seed, query) in (0..).zip(LATE) {
        match check_late(query, seed) {
            Ok((times, difference)) => {
                if times < STOPS || !difference.is_empty() {
                    failures.push(format!("{query}, stopped {times} times:\n{difference}"));
                }
            }
            Err(error) => failures.push(format!("{query}: {error}")),
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

/// Rows and keys of the lists: two thirds are read before the first stop, so that a list has 20,000 values by then.
const LISTED: (i64, i64) = (60_000, 2);

/// Key, value, and a text of a listed row, which has a row every 10 ms.
fn listed(row: i64) -> (i64, i64, String) {
    (row % LISTED.1, row * 7919 % 10_007, format!("{:03}", row % 1000))
}

/// Stops a query over the listed rows twice, and says how its rows differ from these.
fn check_listed(query: &str, rows: impl Iterator<Item = String>) -> Result<String, Diagnostic> {
    let folder = tempfile::tempdir().unwrap();
    let line = |row: i64| {
        let (k, v, s) = listed(row);
        format!("{k},{v},{s},2024-01-01 00:{:02}:{:02}.{:02}0\n", row / 6000, row / 100 % 60, row % 100)
    };
    std::fs::write(folder.path().join("t.csv"), (0..LISTED.0).map(line).collect::<String>()).unwrap();
    let open = |settings, rows_per_second: u32| -> Result<Session, Diagnostic> {
        let mut session = session(folder.path(), settings, "1");
        session.set("pipeline.buffer-rows", "1024")?;
        session.run(&format!(
            "CREATE TABLE t (k BIGINT, v BIGINT, s STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
             WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'csv',
                   'scan.rate-limit.rows-per-second' = '{rows_per_second}')",
            folder.path().join("t.csv").display()
        ))?;
        define_query(&mut session, folder.path(), query)?;
        Ok(session)
    };
    for (settings, stop_at_row) in RUNS.into_iter().zip([Some(40_000), Some(5_000), None]) {
        let mut session = open(settings, if stop_at_row.is_some() { 30_000 } else { 10_000_000 })?;
        assert_eq!(run(&mut session, stop_at_row)?, stop_at_row.is_none(), "{query}");
    }
    Ok(difference(&bag(rows), &actual(&mut open(RUNS[0], 10_000_000)?, "SELECT * FROM `out`")?))
}

#[test]
fn lists_and_sets_of_twenty_thousand_values_resume() {
    let of_key = |key: i64| (0..LISTED.0).map(listed).filter(move |row| row.0 == key);
    let rows = (0..LISTED.1).map(|key| {
        let mut values: Vec<i64> = of_key(key).map(|row| row.1).collect();
        let texts: Vec<String> = of_key(key).map(|row| row.2).collect();
        values.sort_unstable();
        let middle = values[values.len() / 2 - 1..=values.len() / 2].iter().sum::<i64>() as f64 / 2.0;
        let distinct = values.chunk_by(|a, b| a == b).count();
        format!("{key},{middle:?},{distinct},{},{}", texts.len(), texts.join(";"))
    });
    let query = "SELECT k, MEDIAN(v) AS m, COUNT(DISTINCT v) AS d, CARDINALITY(ARRAY_AGG(v)) AS n, LISTAGG(s, ';') AS l
                 FROM TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
                 GROUP BY k, window_start, window_end";
    assert_eq!(check_listed(query, rows).unwrap(), "");

    let mut seen = [(); 2].map(|()| HashSet::new());
    let rows = (0..LISTED.0).map(|row| {
        let (key, value, _) = listed(row);
        seen[key as usize].insert(value);
        format!("{key},{value},{}", seen[key as usize].len())
    });
    let query = "SELECT k, v, COUNT(DISTINCT v) OVER (PARTITION BY k ORDER BY ts) AS d FROM t";
    assert_eq!(check_listed(query, rows).unwrap(), "");
}

#[test]
fn windows_of_two_lengths_resume() {
    const ROWS_OF_MINUTE: i64 = 6000;
    let of_minutes = |key: i64, minutes: std::ops::Range<i64>| {
        let rows = (minutes.start.max(0) * ROWS_OF_MINUTE..minutes.end * ROWS_OF_MINUTE).map(listed);
        rows.filter(move |row| row.0 == key).map(|row| row.1)
    };
    let rows = (0..LISTED.0 / ROWS_OF_MINUTE).flat_map(|minute| {
        (0..LISTED.1).map(move |key| {
            let distinct: HashSet<i64> = of_minutes(key, minute..minute + 1).collect();
            let (least, last) = (distinct.iter().min().copied(), || of_minutes(key, minute - 2..minute + 1));
            format!("{key},{},{},{},{}", distinct.len(), least.unwrap_or(0), last().sum::<i64>(), last().count())
        })
    });
    let query = "SELECT a.k, a.cars, a.least, b.total, b.n
                 FROM (SELECT k, window_time AS at, COUNT(DISTINCT v) AS cars, MIN(v) AS least
                       FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
                       GROUP BY k, window_start, window_end, window_time) AS a
                 JOIN (SELECT k, window_time AS at, SUM(v) AS total, COUNT(*) AS n
                       FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '3' MINUTE))
                       GROUP BY k, window_start, window_end, window_time) AS b ON a.k = b.k AND a.at = b.at";
    assert_eq!(check_listed(query, rows).unwrap(), "");
}

/// Groups that come first, and those of them that change from then on.
const STANDING: (u64, u64) = (20_000, 200);
const STANDING_ROWS: u64 = 100_000;

/// Runs of partitions that the newest checkpoint of a job has.
fn runs(job: &Path) -> usize {
    let names = std::fs::read_dir(job).unwrap().map(|entry| entry.unwrap().path());
    let manifests = names.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    std::fs::read_to_string(manifests.max().unwrap()).unwrap().matches("\"level\":").count()
}

/// Runs a query over rows of a file, stopped twice, whose state stands while little of it changes; how its rows differ from those of all
/// rows at once.
fn check_standing(query: &str) -> Result<String, Diagnostic> {
    let folder = tempfile::tempdir().unwrap();
    let row = |row: u64| {
        let group = if row < STANDING.0 { row } else { row * 7919 % STANDING.1 };
        format!("customer number {group},{},{row}\n", row * 31 % 1000)
    };
    std::fs::write(folder.path().join("in.csv"), (0..STANDING_ROWS).map(row).collect::<String>()).unwrap();
    let open = |settings: RunSettings, rate: u64| {
        let mut session = session(folder.path(), settings, "1");
        session.run(&format!(
            "CREATE TABLE t (k STRING, v BIGINT, id BIGINT) WITH ('connector' = 'filesystem', 'path' = '{}',
             'format' = 'csv', 'scan.rate-limit.rows-per-second' = '{rate}')",
            folder.path().join("in.csv").display()
        ))?;
        define_query(&mut session, folder.path(), query)?;
        session.run("DROP TABLE `out`")?;
        session.run(&format!(
            "CREATE TABLE `out` (k STRING, a BIGINT, b BIGINT, PRIMARY KEY (k) NOT ENFORCED)
             WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'debezium-json')",
            folder.path().join("out").display()
        ))?;
        Ok::<_, Diagnostic>(session)
    };
    // The second of two runs is spilled, and the last resumes what that has left.
    let of_runs = [(RUNS[0], Some(45_000), 25_000), (RUNS[1], Some(3_000), 4_000), (RUNS[2], None, 10_000_000)];
    for (settings, stop_at_row, rate) in of_runs {
        let mut session = open(settings, rate)?;
        session.set("execution.runtime-mode", "streaming")?;
        session.set("pipeline.buffer-rows", "500")?;
        let monitor = RunMonitor::new();
        let has_ended = run_or_stop_with(&mut session, "INSERT INTO `out` SELECT * FROM q", stop_at_row, &monitor)?;
        assert_eq!(has_ended, stop_at_row.is_none(), "{query}");
        if settings == RUNS[0] {
            let checkpoints = monitor.stats().unwrap().snapshot().checkpoints;
            let written = checkpoints.bytes_written as f64 / checkpoints.last as f64;
            let part = written / checkpoints.state_bytes as f64;
            // While groups come nearly all is new; on a busy machine that is most of the checkpoints.
            assert!(checkpoints.last < 12 || part < 0.25, "{query}: {part} of the state was written, {checkpoints:?}");
            assert!(runs(&folder.path().join("state/job-1")) > 0, "{query}: {checkpoints:?}");
        }
    }
    let mut all = open(RUNS[0], 10_000_000)?;
    all.set("execution.runtime-mode", "batch")?;
    Ok(difference(&actual(&mut all, "SELECT * FROM q")?, &actual(&mut all, "SELECT * FROM `out`")?))
}

#[test]
fn what_stands_is_written_as_it_changes_and_resumes() {
    let groups = "SELECT k, COUNT(*) AS a, SUM(v) AS b FROM t GROUP BY k";
    let best = "SELECT k, v AS a, id AS b FROM
                (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, id) AS r FROM t) WHERE r = 1";
    let joined = "SELECT l.k, l.a, r.b FROM (SELECT k, MIN(id) AS a FROM t GROUP BY k) AS l
                  LEFT JOIN (SELECT k, COUNT(*) AS b FROM t WHERE v > 500 GROUP BY k) AS r ON l.k = r.k";
    // Most of the time they wait for rows.
    std::thread::scope(|scope| {
        for query in [groups, best, joined] {
            scope.spawn(move || assert_eq!(check_standing(query).unwrap(), "", "{query}"));
        }
    });
}
