//! Jobs that resume with another number of partitions of their tables than their checkpoint has.

use crate::configurations::Configuration;
use crate::nexmark::{actual, difference};
use crate::stopping::run_or_stop;
use millstream::{Diagnostic, Session};
use std::path::Path;

/// A row every 10 ms.
const ROWS: u64 = 24_000;

/// Partitions, nodes, workers, and how many rows a run reads before it is stopped: at 5,000 a second, so that there are others left while it is.
const RUNS: [(&str, &str, &str, Option<u64>); 3] =
    [("auto", "1", "2", Some(5_000)), ("64", "3", "1", Some(2_500)), ("4", "2", "3", None)];

/// Windows of all kinds, by keys that can be in arrays and others: with strings, objects, NULL keys, and sums of doubles that are far.
const QUERY: &str = "
    SELECT 'tumbling' AS kind, CAST(k AS STRING) AS k, window_end AS at, COUNT(*) AS a, MAX(v) AS b, SUM(d) AS c
    FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY k, window_start, window_end
    UNION ALL
    SELECT 'hopping', CAST(k AS STRING), window_end, COUNT(*), SUM(v), SUM(d)
    FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '20' SECOND, INTERVAL '1' MINUTE)) GROUP BY k, window_start, window_end
    UNION ALL
    SELECT 'hopping by text', s, window_end, COUNT(DISTINCT v), MIN(v), CAST(CARDINALITY(ARRAY_AGG(v)) AS DOUBLE)
    FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '20' SECOND, INTERVAL '1' MINUTE)) GROUP BY s, window_start, window_end
    UNION ALL
    SELECT 'cumulating', MAX(s), window_end, COUNT(*), v, MAX(d)
    FROM TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '20' SECOND, INTERVAL '2' MINUTE)) GROUP BY v, window_start, window_end
    UNION ALL
    SELECT 'joined', CAST(l.k AS STRING), l.at, l.n, r.n, CAST(r.total AS DOUBLE) FROM
        (SELECT k, window_end AS at, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
         WHERE v < 400 GROUP BY k, window_start, window_end) AS l
    JOIN (SELECT k, window_end AS at, COUNT(*) AS n, SUM(v) AS total
          FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
          WHERE v > 300 GROUP BY k, window_start, window_end) AS r ON l.k = r.k AND l.at = r.at";

fn line(row: u64) -> String {
    let (key, value) = (row * 7919 % 701, row * 31 % 997);
    let far = if row.is_multiple_of(97) { "e30" } else { "" };
    let (minute, second, hundredth) = (row / 6000, row / 100 % 60, row % 100);
    format!(
        "{key},customer number {},{value},{value}.5{far},2024-01-01 00:{minute:02}:{second:02}.{hundredth:02}0\n",
        key % 211
    )
}

fn open(folder: &Path, settings: &[(&str, &str)], rows_per_second: u64) -> Result<Session, Diagnostic> {
    let state = folder.join("state").to_string_lossy().into_owned();
    let always = [
        ("pipeline.tier", "interpreted"),
        ("pipeline.buffer-rows", "256"),
        ("execution.checkpointing.dir", &state),
        ("execution.checkpointing.interval", "100 ms"),
    ];
    let mut session = Configuration::new("repartitioned", &[&always, settings].concat()).session();
    session.run(&format!(
        "CREATE TABLE rows_of_file (key BIGINT, s STRING, v BIGINT, d DOUBLE, ts TIMESTAMP(3),
             WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
         WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'csv',
               'scan.rate-limit.rows-per-second' = '{rows_per_second}');
         CREATE VIEW t AS SELECT CASE key WHEN 3 THEN NULL WHEN 5 THEN 9000000000000000000 ELSE key END AS k, s, v, d, ts
         FROM rows_of_file;
         CREATE VIEW q AS {QUERY};
         CREATE TABLE `out` (kind STRING, k STRING, at TIMESTAMP(3), a BIGINT, b BIGINT, c DOUBLE)
         WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'parquet')",
        folder.join("in.csv").display(),
        folder.join("out").display()
    ))?;
    Ok(session)
}

/// What the newest checkpoint says of partitions, and how many tables it has.
fn newest(folder: &Path) -> (String, usize) {
    let names = std::fs::read_dir(folder.join("state/job-1")).unwrap().map(|entry| entry.unwrap().path());
    let manifest = names.filter(|path| path.extension().is_some_and(|extension| extension == "json")).max().unwrap();
    let text = std::fs::read_to_string(manifest).unwrap();
    let partitions = text.split("\"partitions\":{\"tables\":").nth(1).unwrap().split(',').next().unwrap();
    (partitions.to_string(), text.matches("\"entries\":").count())
}

/// How the rows of a job that is stopped and resumes differ from those of one that is not.
fn check(spill: &str) -> Result<String, Diagnostic> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("in.csv"), (0..ROWS).map(line).collect::<String>()).unwrap();
    for (partitions, nodes, workers, stop_at_row) in RUNS {
        let settings = [
            ("pipeline.table-partitions", partitions),
            ("pipeline.nodes", nodes),
            ("parallelism.default", workers),
            ("pipeline.spill", spill),
        ];
        let rows_per_second = if stop_at_row.is_some() { 5_000 } else { 10_000_000 };
        let mut session = open(folder.path(), &settings, rows_per_second)?;
        let has_ended = run_or_stop(&mut session, "INSERT INTO `out` SELECT * FROM q", stop_at_row)?;
        assert_eq!(has_ended, stop_at_row.is_none());
        if !has_ended {
            let (of_checkpoint, tables) = newest(folder.path());
            assert_eq!(of_checkpoint, if partitions == "auto" { "16" } else { partitions });
            // Those of several nodes are in the manifests of these.
            assert!(tables >= 5 || nodes != "1", "{tables} tables with {partitions} partitions");
        }
    }
    let mut whole = open(folder.path(), &[], 10_000_000)?;
    Ok(difference(&actual(&mut whole, "SELECT * FROM q")?, &actual(&mut whole, "SELECT * FROM `out`")?))
}

#[test]
fn jobs_resume_with_other_partitions() {
    // Most of the time they wait for rows.
    std::thread::scope(|scope| {
        for spill in ["auto", "always"] {
            scope.spawn(move || assert_eq!(check(spill).unwrap(), "", "pipeline.spill = {spill}"));
        }
    });
}
