//! Parquet files whose columns behind the first filters are decoded for survivors only: the same rows, lateness, statistics and
//! errors as when all is decoded.

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringViewArray, TimestampMillisecondArray, new_null_array};
use millstream::{Collected, Outcome, RunMonitor, Session, SessionConfig, StatsSnapshot, code};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

const COLUMNS: &str =
    "id BIGINT, kind STRING, price BIGINT, divisor BIGINT, name STRING, noise STRING, ts TIMESTAMP(3)";
const ROWS: i64 = 20_000;

/// Out of order by up to 3 s; a kind that is rare, one that comes in runs, one that is frequent.
fn batch() -> RecordBatch {
    let rows = || 0..ROWS;
    let kind = |i: i64| match i {
        _ if i % 500 == 7 => "rare",
        _ if i / 1_000 % 4 == 2 => "run",
        _ => "often",
    };
    let time = |i: i64| 1_600_000_000_000 + i * 10 - i * 7_919 % 3_000;
    let text = |i: i64| (i % 5 != 0).then(|| format!("the name of user {}", i % 97));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(rows()))),
        ("kind", Arc::new(StringViewArray::from_iter(rows().map(|i| (i % 11 != 0).then(|| kind(i)))))),
        ("price", Arc::new(Int64Array::from_iter(rows().map(|i| (i % 13 != 0).then_some(i % 1_000))))),
        ("divisor", Arc::new(Int64Array::from_iter_values(rows().map(|i| i64::from(i % 500 == 7))))),
        ("name", Arc::new(StringViewArray::from_iter(rows().map(text)))),
        ("noise", Arc::new(StringViewArray::from_iter_values(rows().map(|i| format!("noise {}", i % 7))))),
        ("ts", Arc::new(TimestampMillisecondArray::from_iter_values(rows().map(time)))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

/// A session with a table `t` over a Parquet file of the batch.
fn session(directory: &Path, settings: &[(&str, &str)]) -> Session {
    let mut session = Session::new(SessionConfig::default());
    let file = directory.join("t.parquet");
    let with = format!("('connector' = 'filesystem', 'format' = 'parquet', 'path' = '{}')", file.display());
    if !file.exists() {
        session.register("rows_of_t", COLUMNS, vec![batch()]).unwrap();
        session
            .query(&format!("CREATE TABLE copy ({COLUMNS}) WITH {with}; INSERT INTO copy SELECT * FROM rows_of_t"))
            .unwrap();
    }
    session
        .query(&format!("CREATE TABLE t ({COLUMNS}, WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH {with}"))
        .unwrap();
    session.set("pipeline.buffer-rows", "1024").unwrap();
    settings.iter().for_each(|(key, value)| session.set(key, value).unwrap());
    session
}

const QUERIES: &[&str] = &[
    "SELECT id, name, price, noise FROM t WHERE kind = 'rare'",
    "SELECT id, UPPER(name) AS n, 100 / divisor AS q FROM t WHERE kind = 'rare' AND id > 1000",
    "SELECT name, noise, ts FROM t WHERE kind = 'run' AND price > 500",
    "SELECT id FROM t WHERE kind = 'none' AND name <> noise",
    "SELECT name, window_start, COUNT(*) AS n, SUM(price) AS s FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)) \
     WHERE kind = 'run' GROUP BY name, window_start, window_end",
    "SELECT price, window_end, MAX(noise) AS m FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND)) \
     WHERE id > 15000 GROUP BY price, window_start, window_end",
    "SELECT SPLIT(name, ' ') AS parts, noise FROM t WHERE kind = 'rare'",
    "SELECT id, name FROM t WHERE 100 / divisor > 0 AND kind = 'none'",
    "SELECT a.name, b.noise FROM t a JOIN t b ON a.id = b.id AND a.ts BETWEEN b.ts - INTERVAL '1' SECOND AND b.ts \
     WHERE a.kind = 'run' AND b.price > 900",
    "SELECT name, noise FROM t WHERE kind = 'rare' UNION ALL SELECT name, CAST(price AS STRING) FROM t WHERE id < 2000",
    "SELECT name FROM t WHERE kind = 'rare' UNION ALL SELECT noise FROM t",
];

/// The rows of a query as sorted text, or its error; and the statistics.
fn run(session: &mut Session, query: &str) -> (Result<Vec<String>, String>, Option<StatsSnapshot>) {
    let statement = session.parse(query).unwrap().remove(0);
    let mut results = Collected::new();
    let stats = match session.execute(&statement, &mut results, &RunMonitor::new()) {
        Ok(Outcome::Ran(stats)) => *stats,
        Ok(other) => panic!("{query}: {other:?}"),
        Err(error) => return (Err(error.to_string()), None),
    };
    let batch = results.into_batch().unwrap();
    let row = |row| (0..batch.num_columns()).map(|c| format!("{:?}", batch.column(c).slice(row, 1))).collect();
    let mut rows: Vec<String> = (0..batch.num_rows()).map(row).collect();
    rows.sort();
    (Ok(rows), Some(stats))
}

/// Rows that went through the filters of a source before its other columns were decoded.
fn filtered_first(stats: &StatsSnapshot) -> u64 {
    let heads = stats.programs.iter().filter(|program| program.name.starts_with("head of"));
    heads.flat_map(|program| &program.variants).map(|variant| variant.rows).sum()
}

#[test]
fn rows_do_not_depend_on_what_is_decoded() {
    let directory = TempDir::new().unwrap();
    let cases: [&[(&str, &str)]; 5] = [
        &[("pipeline.decode-skipping", "always"), ("pipeline.tier", "interpreted")],
        &[("pipeline.decode-skipping", "always"), ("pipeline.tier", "compiled"), ("parallelism.default", "3")],
        &[("pipeline.decode-skipping", "auto")],
        &[("pipeline.chaos-seed", "7"), ("pipeline.tier", "interpreted")],
        &[("pipeline.decode-skipping", "always"), ("pipeline.adaptive", "never"), ("pipeline.error-policy", "skip")],
    ];
    let mut whole =
        session(directory.path(), &[("pipeline.decode-skipping", "never"), ("pipeline.tier", "interpreted")]);
    let (mut late_rows, mut skipping) = (0, 0);
    for query in QUERIES {
        for settings in cases {
            let is_skipped = settings.contains(&("pipeline.error-policy", "skip"));
            whole.set("pipeline.error-policy", if is_skipped { "skip" } else { "fail" }).unwrap();
            let (expected, expected_stats) = run(&mut whole, query);
            let (rows, stats) = run(&mut session(directory.path(), settings), query);
            assert_eq!(rows, expected, "{settings:?}: {query}");
            let (Some(stats), Some(expected)) = (stats, expected_stats) else { continue };
            let of = |s: &StatsSnapshot| (s.rows_in, s.late_rows, s.error_rows, s.windows_fired, s.bytes_in);
            assert_eq!(of(&stats), of(&expected), "{settings:?}: {query}");
            assert_eq!(filtered_first(&expected), 0);
            late_rows += stats.late_rows;
            skipping += u64::from(filtered_first(&stats) > 0);
        }
    }
    assert!(late_rows > 0 && skipping > 20, "{late_rows} late rows, {skipping} runs that left something out");
}

#[test]
fn only_filters_that_come_first_count() {
    let directory = TempDir::new().unwrap();
    let mut session = session(directory.path(), &[("pipeline.decode-skipping", "always")]);
    let mut filtered = |query: &str| filtered_first(&run(&mut session, query).1.unwrap());
    assert_eq!(filtered("SELECT name FROM t WHERE kind = 'rare'"), ROWS as u64);
    assert_eq!(filtered("SELECT name, noise FROM t"), 0, "there is no filter");
    assert_eq!(filtered("SELECT kind FROM t WHERE kind = 'rare'"), 0, "there is no other column");
    let both = "SELECT name FROM t WHERE kind = 'rare' UNION ALL SELECT name FROM t WHERE id = 3";
    assert_eq!(filtered(both), 2 * ROWS as u64, "a row is left if any pipeline wants it");
    let open = "SELECT name FROM t WHERE kind = 'rare' UNION ALL SELECT name FROM t";
    assert_eq!(filtered(open), 0, "a pipeline without a filter wants all rows");
    let failing = "SELECT name FROM t WHERE 100 / (divisor + 1) > 60 AND kind = 'run'";
    assert_eq!(filtered(failing), 0, "a row that fails has to fail");
}

#[test]
fn malformed_files_fail_either_way() {
    let directory = TempDir::new().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let with = |name: &str| format!("('connector' = 'filesystem', 'format' = 'parquet', 'path' = '{}')", path(name));
    let mut writer = Session::new(SessionConfig::default());
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(0..3_000));
    let wide: ArrayRef =
        Arc::new(Int64Array::from_iter_values((0..3_000).map(|i| if i == 2_500 { 1 << 40 } else { i })));
    let text = new_null_array(&arrow_schema::DataType::Utf8View, 3_000);
    let batch = RecordBatch::try_from_iter([("id", keys), ("wide", wide), ("text", text)]).unwrap();
    let columns = "id BIGINT, wide BIGINT, text STRING";
    writer.register("rows_of_t", columns, vec![batch]).unwrap();
    let script =
        format!("CREATE TABLE copy ({columns}) WITH {}; INSERT INTO copy SELECT * FROM rows_of_t", with("t.parquet"));
    writer.query(&script).unwrap();
    let good = std::fs::read(path("t.parquet")).unwrap();
    std::fs::write(path("cut.parquet"), &good[..good.len() / 2]).unwrap();
    let tables = [
        ("t.parquet", "id BIGINT, wide INT, text STRING", code::WRONG_TYPE),
        ("t.parquet", "id BIGINT, wide BIGINT, text STRING NOT NULL", code::NULL_IN_NOT_NULL),
        ("cut.parquet", columns, code::MALFORMED_FILE),
    ];
    for (file, columns, expected) in tables {
        for skipping in ["always", "never", "auto"] {
            let mut session = Session::new(SessionConfig::default());
            session.query(&format!("CREATE TABLE t ({columns}) WITH {}", with(file))).unwrap();
            session.set("pipeline.decode-skipping", skipping).unwrap();
            session.set("pipeline.buffer-rows", "1024").unwrap();
            let error = session.query("SELECT wide, text FROM t WHERE id = 17").unwrap_err();
            assert_eq!(error.code, expected, "{skipping}: {error}");
        }
    }
}
