//! The memory budget: what fits only when sources are slowed runs through, what does not fit at all is an error.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use millstream::{Collected, Diagnostic, RunMonitor, Session, SessionConfig, StatsSnapshot, code};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs a script within `memory`, without spilling, and gives the number of rows of its last query.
fn run(memory: &str, script: &str) -> Result<usize, Diagnostic> {
    let mut session = Session::new(SessionConfig::default());
    session.set("pipeline.memory", memory)?;
    session.set("pipeline.spill", "never")?;
    session.set("pipeline.tier", "interpreted")?;
    Ok(session.query(script)?.num_rows())
}

/// Runs a script that may spill to a directory; the numbers of the last column of its last query, in order, and what the
/// statistics say.
fn run_spilling(
    directory: &Path,
    settings: &[(&str, &str)],
    script: &str,
) -> Result<(Vec<i64>, StatsSnapshot), Diagnostic> {
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
    let last = rows.column(rows.num_columns() - 1).as_primitive::<Int64Type>();
    let mut numbers: Vec<i64> = last.values().to_vec();
    numbers.sort_unstable();
    Ok((numbers, monitor.stats().expect("it has run").snapshot()))
}

fn is_empty(directory: &Path) -> bool {
    std::fs::read_dir(directory).unwrap().next().is_none()
}

/// A table `name` of `rows` rows with the times 0, 1, 2, … seconds and the numbers from `first` on.
fn counting(name: &str, first: u64, rows: u64, options: &str) -> String {
    let last = first + rows - 1;
    format!(
        "CREATE TABLE {name} (id BIGINT, ts AS TO_TIMESTAMP_LTZ(id * 1000, 3), WATERMARK FOR ts AS ts) WITH (\
         'connector' = 'datagen', 'rows-per-second' = '0', 'fields.id.kind' = 'sequence', \
         'fields.id.start' = '{first}', 'fields.id.end' = '{last}' {options});"
    )
}

/// Runs the calling test in its own process, because what other tests hold counts for every query of a process. Returns
/// whether this is the calling process, where nothing is left to do.
fn has_run_alone() -> bool {
    const ALONE: &str = "MILLSTREAM_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return false;
    }
    let thread = std::thread::current();
    let test = thread.name().expect("a test's thread has its name");
    let run = Command::new(std::env::current_exe().unwrap()).args(["--exact", test]).env(ALONE, "1").output().unwrap();
    let printed = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && printed.contains("1 passed"), "{printed}{}", String::from_utf8_lossy(&run.stderr));
    true
}

/// By keys that are far from each other: those of arrays would take a third.
const COUNT: &str = "SELECT COUNT(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' DAY)) \
     GROUP BY window_start, window_end, id * 65537";

#[test]
fn more_keys_than_fit_are_an_error_that_says_so() {
    let table = counting("t", 0, 800_000, "");
    let error = run("16 MB", &format!("{table} {COUNT}")).unwrap_err();
    assert_eq!(error.code, code::OUT_OF_MEMORY, "{error}");
    assert!(error.message.contains("budget of 16.0 MiB") && error.message.contains("tables"), "{error}");
    assert!(error.help().is_some_and(|help| help.contains("--memory")), "{error}");
    let distinct = "SELECT COUNT(DISTINCT id) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '100' DAY)) \
         GROUP BY window_start, window_end";
    let error = run("3 MB", &format!("{table} {distinct}")).unwrap_err();
    assert_eq!(error.code, code::OUT_OF_MEMORY, "{error}");
}

#[test]
fn more_keys_than_fit_are_spilled() {
    let directory = tempfile::tempdir().unwrap();
    let table = counting("t", 0, 1_728_000, "");
    // Each key comes twice, far apart, and there are two windows.
    let query = "SELECT COUNT(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' DAY)) \
         GROUP BY window_start, window_end, MOD(id, 432000) * 65537";
    for merge in ["local", "global", "partition"] {
        let settings = [("pipeline.memory", "8 MB"), ("pipeline.merge", merge)];
        let (counts, stats) = run_spilling(directory.path(), &settings, &format!("{table} {query}")).unwrap();
        assert_eq!(counts, vec![2; 864_000], "{merge}");
        assert!(stats.spill.bytes_written > 16 << 20, "{merge}: {:?}", stats.spill);
        assert_eq!(stats.spill.bytes_held, 0, "{merge}");
        assert!(is_empty(directory.path()), "{merge}");
    }
}

#[test]
fn ten_times_the_budget_takes_little_more_than_that() {
    if has_run_alone() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let table = counting("t", 0, 4_000_000, "");
    // In memory they would be two million keys, too far apart for an array, in each of two tables, of about 80 bytes each.
    let query = "SELECT COUNT(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '100' DAY)) \
         GROUP BY window_start, window_end, MOD(id, 2000000) * 1000003";
    let settings =
        [("pipeline.memory", "32 MB"), ("pipeline.pre-aggregate", "always"), ("pipeline.dense-tables", "never")];
    let (counts, stats) = run_spilling(directory.path(), &settings, &format!("{table} {query}")).unwrap();
    assert_eq!(counts, vec![2; 2_000_000]);
    assert!(stats.spill.bytes_written > 64 << 20, "{:?}", stats.spill);
    // A tenth more at most is what is aimed at, and measured by the benchmark; here others use the machine.
    assert!(stats.memory.peak <= (32 << 20) / 4 * 5, "{:?}", stats.memory);
}

/// Queries whose keyed operator keeps much more than a few megabytes, with the number of their rows and the sum of the last
/// column.
fn keeping_operators() -> Vec<(&'static str, String, usize, i64)> {
    let t = counting("t", 0, 300_000, "");
    let (l, r) = (counting("l", 0, 200_000, ""), counting("r", 100_000, 200_000, ""));
    let sum = |range: std::ops::Range<i64>| range.sum::<i64>();
    let pairs = sum(100_000..200_000);
    vec![
        (
            "regular join",
            format!(
                "{l} {r} SELECT l.id, CAST(l.id AS STRING) || ' is long enough', r.id FROM l JOIN r ON l.id = r.id"
            ),
            100_000,
            pairs,
        ),
        (
            "interval join",
            format!(
                "{l} {r} SELECT l.id, r.id FROM l JOIN r ON l.id = r.id \
                 AND l.ts BETWEEN r.ts - INTERVAL '50' DAY AND r.ts + INTERVAL '50' DAY"
            ),
            100_000,
            pairs,
        ),
        (
            "outer interval join",
            format!(
                "{l} {r} SELECT r.id, l.id FROM l LEFT JOIN r ON l.id = r.id \
                 AND l.ts BETWEEN r.ts - INTERVAL '50' DAY AND r.ts + INTERVAL '50' DAY"
            ),
            200_000,
            sum(0..200_000),
        ),
        (
            "window join",
            format!(
                "{l} {r} SELECT l.id, r.id FROM \
                 (SELECT * FROM TABLE(TUMBLE(TABLE l, DESCRIPTOR(ts), INTERVAL '20' DAY))) l JOIN \
                 (SELECT * FROM TABLE(TUMBLE(TABLE r, DESCRIPTOR(ts), INTERVAL '20' DAY))) r \
                 ON l.id = r.id AND l.window_start = r.window_start AND l.window_end = r.window_end"
            ),
            100_000,
            pairs,
        ),
        (
            "Top-N",
            format!(
                "{t} SELECT k, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k \
                 ORDER BY id DESC) AS rn FROM (SELECT *, id / 2 AS k FROM \
                 TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '100' DAY)))) WHERE rn <= 1"
            ),
            150_000,
            sum(0..150_000) * 2 + 150_000,
        ),
        (
            "sessions",
            format!(
                "{t} SELECT id, COUNT(*) FROM (SELECT ts, MOD(id, 100000) AS id FROM t) \
                 GROUP BY SESSION(ts, INTERVAL '3' DAY), id"
            ),
            100_000,
            300_000,
        ),
        (
            "rows before",
            format!(
                "{t} SELECT id, SUM(one) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) \
                 FROM (SELECT *, MOD(id, 150000) AS k, CAST(1 AS BIGINT) AS one FROM t)"
            ),
            300_000,
            450_000,
        ),
        (
            "a range of rows before",
            format!(
                "{t} SELECT id, COUNT(*) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '30' DAY PRECEDING AND CURRENT \
                 ROW) FROM (SELECT *, MOD(id, 150000) AS k FROM t)"
            ),
            300_000,
            450_000,
        ),
        (
            "count windows",
            format!(
                "{t} CREATE VIEW v AS SELECT MOD(id, 150000) AS k, ts FROM t; SELECT k, COUNT(*) AS n FROM \
                 TABLE(COUNT_TUMBLE(TABLE v PARTITION BY k, DESCRIPTOR(ts), 2)) GROUP BY k, window_start, window_end"
            ),
            150_000,
            300_000,
        ),
    ]
}

#[test]
fn slices_of_overlapping_windows_are_spilled() {
    if has_run_alone() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let table = counting("t", 0, 1_036_800, "");
    // Twelve days. Each window has up to 345,600 keys, in four slices; a third of the keys comes again after a day.
    let key = "(MOD(id, 86400) + 86400 * (id / 172800))";
    let windows = [
        ("HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' DAY, INTERVAL '4' DAY)", 4 * 1_036_800),
        // The first has the rows of one day, the sixth those of six.
        ("CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' DAY, INTERVAL '6' DAY)", 2 * 86_400 * (1 + 2 + 3 + 4 + 5 + 6)),
    ];
    // Keys that are far from each other, and dense ones, whose arrays take a third.
    let layouts = [(format!("{key} * 65537"), "12 MB", 12 << 20), (key.to_string(), "5 MB", 5 << 20)];
    for ((window, rows), (key, memory, bytes)) in windows.into_iter().flat_map(|w| layouts.clone().map(|l| (w, l))) {
        let script =
            format!("{table} SELECT COUNT(*) AS n FROM TABLE({window}) GROUP BY window_start, window_end, {key}");
        let in_memory = run_spilling(directory.path(), &[("pipeline.spill", "never")], &script).unwrap();
        let (counts, stats) = run_spilling(directory.path(), &[("pipeline.memory", memory)], &script).unwrap();
        assert_eq!(counts.iter().sum::<i64>(), rows, "{window}");
        assert_eq!(counts, in_memory.0, "{window}");
        assert!(stats.spill.bytes_written > bytes, "{window}, {memory}: {:?}", stats.spill);
        assert_eq!(stats.spill.bytes_held, 0, "{window}");
        let (peak, in_memory) = (stats.memory.peak, in_memory.1.memory.peak);
        assert!(peak <= 2 * bytes, "{window}, {memory}: {peak} bytes");
        assert!(in_memory > 2 * bytes, "{window}, {memory}: {in_memory} bytes");
    }
    assert!(is_empty(directory.path()));
}

#[test]
fn what_operators_keep_is_spilled() {
    if has_run_alone() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for (number, (what, script, rows, sum)) in keeping_operators().into_iter().enumerate() {
        let (compression, io) = if number % 2 == 0 { ("none", "direct") } else { ("zstd", "buffered") };
        let settings =
            [("pipeline.memory", "8 MB"), ("pipeline.spill.compression", compression), ("pipeline.spill.io", io)];
        let (numbers, stats) = run_spilling(directory.path(), &settings, &script).expect(what);
        assert_eq!((numbers.len(), numbers.iter().sum::<i64>()), (rows, sum), "{what}");
        assert!(stats.spill.bytes_written > 1 << 19, "{what}: {:?}", stats.spill);
        // Of so little memory, what a few tasks hold at a moment is a large part.
        assert!(stats.memory.peak <= 2 * (8 << 20), "{what}: {:?}", stats.memory);
        assert_eq!(stats.spill.bytes_held, 0, "{what}");
        assert!(is_empty(directory.path()), "{what}");
    }
}

/// Damages files below a directory until it is told to stop: flipped bits, lost ends, lost files. How many.
fn damage(directory: &Path, is_over: &AtomicBool, seed: u64) -> usize {
    let (mut state, mut damaged) = (seed, 0);
    let mut draw = |bound: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % bound.max(1)
    };
    while !is_over.load(Ordering::Relaxed) {
        let runs = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let files = runs.flat_map(|run| std::fs::read_dir(run.path()).into_iter().flatten().flatten());
        let mut files: Vec<_> = files.map(|file| file.path()).collect();
        // They may be gone at any moment.
        files.retain(|file| file.extension().is_some_and(|end| end == "bin"));
        if files.is_empty() {
            std::thread::yield_now();
            continue;
        }
        let path = &files[draw(files.len() as u64) as usize];
        let Ok(mut bytes) = std::fs::read(path) else { continue };
        let at = draw(bytes.len() as u64) as usize;
        let done = match damaged % 3 {
            0 if !bytes.is_empty() => {
                bytes[at] ^= 1 << draw(8);
                std::fs::OpenOptions::new().write(true).open(path).and_then(|mut file| file.write_all(&bytes))
            }
            1 => std::fs::OpenOptions::new().write(true).open(path).and_then(|file| file.set_len(at as u64)),
            _ => std::fs::remove_file(path),
        };
        damaged += usize::from(done.is_ok());
    }
    damaged
}

#[test]
fn damaged_files_give_errors_and_never_wrong_rows() {
    let windows = format!("{} {COUNT}", counting("t", 0, 300_000, ""));
    let mut scripts = vec![("windows", windows, 300_000, 300_000)];
    scripts.extend(keeping_operators());
    let mut failed = 0;
    for (number, (what, script, rows, sum)) in scripts.into_iter().enumerate() {
        let (directory, is_over) = (tempfile::tempdir().unwrap(), AtomicBool::new(false));
        let (result, damaged) = std::thread::scope(|scope| {
            let damaging = scope.spawn(|| damage(directory.path(), &is_over, number as u64));
            let result = run_spilling(directory.path(), &[("pipeline.memory", "8 MB")], &script);
            is_over.store(true, Ordering::Relaxed);
            (result, damaging.join().unwrap())
        });
        match result {
            Ok((numbers, _)) => assert_eq!((numbers.len(), numbers.iter().sum::<i64>()), (rows, sum), "{what}"),
            Err(error) => {
                assert!(damaged > 0 && error.code == code::SPILL_FAILED, "{what}: {error}");
                failed += 1;
            }
        }
        assert!(is_empty(directory.path()), "{what}");
    }
    assert!(failed >= 5, "only {failed} queries met damage");
}

/// Two nodes read what is ten minutes ahead of what a third one reads slowly, and a fourth reads nothing. What waits for the third is spilled.
#[test]
fn a_node_that_is_ten_minutes_behind_does_not_fill_the_memory_of_others() {
    if has_run_alone() {
        return;
    }
    let table = |name: &str, first: u64, from_ms: u64, rate: u64| {
        let last = first + 299_999;
        format!(
            "CREATE TABLE {name} (id BIGINT, ts AS TO_TIMESTAMP_LTZ((id - {first}) * 4 + {from_ms}, 3), WATERMARK FOR ts AS ts) WITH (
             'connector' = 'datagen', 'rows-per-second' = '{rate}', 'fields.id.kind' = 'sequence', 'fields.id.start' = '{first}', 'fields.id.end' = '{last}');"
        )
    };
    let tables = [table("a", 0, 600_000, 0), table("b", 300_000, 600_000, 0), table("c", 600_000, 0, 150_000)];
    let script = tables.concat()
        + "SELECT COUNT(*) AS n FROM TABLE(TUMBLE((SELECT * FROM a UNION ALL SELECT * FROM b UNION ALL SELECT * FROM c),
           DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, id * 65537";
    let directory = tempfile::tempdir().unwrap();
    let settings = [("pipeline.nodes", "4"), ("pipeline.memory", "32 MB"), ("execution.runtime-mode", "streaming")];
    let (numbers, stats) = run_spilling(directory.path(), &settings, &script).unwrap();
    assert_eq!((numbers.len(), numbers.iter().sum::<i64>()), (900_000, 900_000));
    assert!(stats.spill.files > 0 && stats.memory.peak < 35 << 20, "{} files, {:?}", stats.spill.files, stats.memory);
    let read: Vec<u64> = stats.nodes.iter().map(|node| node.rows_in).collect();
    assert_eq!((stats.late_rows, read), (0, vec![300_000, 300_000, 300_000, 0]));
    assert!(is_empty(directory.path()));
}

#[test]
fn more_than_the_disk_budget_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let table = counting("t", 0, 1_600_000, "");
    let settings = [("pipeline.memory", "8 MB"), ("pipeline.spill.budget", "1 MB")];
    let error = run_spilling(directory.path(), &settings, &format!("{table} {COUNT}")).unwrap_err();
    assert_eq!(error.code, code::SPILL_FAILED, "{error}");
    assert!(error.message.contains("of the 1.0 MiB that it may hold"), "{error}");
    assert!(is_empty(directory.path()));
}

#[test]
fn a_directory_that_cannot_be_used_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    let table = counting("t", 0, 800_000, "");
    let error = run_spilling(&file, &[("pipeline.memory", "8 MB")], &format!("{table} {COUNT}")).unwrap_err();
    assert_eq!(error.code, code::SPILL_FAILED, "{error}");
    assert!(error.message.contains("file"), "{error}");
}

#[test]
fn wide_rows_are_made_few_at_a_time() {
    const WIDTH: u64 = 100_000;
    const ROWS: u64 = 1_500;
    let (directory, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = folder.path().join("out.csv");
    let script = format!(
        "{} CREATE TABLE o (id BIGINT, s STRING, n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'csv'); \
         INSERT INTO o SELECT id, REPEAT('x', {WIDTH}), n FROM t CROSS JOIN UNNEST(ARRAY[id, id + 1, id + 2]) AS e (n);",
        counting("t", 0, ROWS / 3, ""),
        path.display()
    );
    let mut session = Session::new(SessionConfig::default());
    let settings = [("pipeline.memory", "32 MB"), ("parallelism.default", "2")];
    settings.iter().for_each(|(key, value)| session.set(key, value).unwrap());
    session.set("pipeline.spill.directory", &directory.path().to_string_lossy()).unwrap();
    let (mut results, monitor) = (Collected::new(), RunMonitor::new());
    for statement in &session.parse(&script).unwrap() {
        session.execute(statement, &mut results, &monitor).unwrap();
    }
    let bytes = std::fs::metadata(&path).unwrap().len();
    assert!((ROWS * WIDTH..ROWS * (WIDTH + 20)).contains(&bytes), "{bytes} bytes");
    let memory = monitor.stats().expect("it has run").snapshot().memory;
    assert!(memory.peak <= 32 << 20, "{memory:?}");
}

#[test]
fn windows_that_close_in_time_fit() {
    let table = counting("t", 0, 800_000, "");
    let query = COUNT.replace("'10' DAY", "'1' HOUR").replace(", id * 65537", "");
    assert_eq!(run("2 MB", &format!("{table} {query}")).unwrap(), 800_000usize.div_ceil(3600));
    let hopping = "SELECT COUNT(*) AS n FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '12' HOUR)) \
         GROUP BY window_start, window_end";
    // Hundreds of windows are open at a time.
    assert_eq!(run("4 MB", &format!("{table} {hopping}")).unwrap(), 800_000usize.div_ceil(60) + 719);
}

#[test]
fn thousands_of_open_windows_fit() {
    let table = counting("t", 0, 100_000, "").replace("FOR ts AS ts)", "FOR ts AS ts - INTERVAL '5' HOUR)");
    let query = "SELECT COUNT(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND)) \
         GROUP BY window_start, window_end";
    // 18,000 windows are open once the watermark has begun to follow.
    assert_eq!(run("64 MB", &format!("{table} {query}")).unwrap(), 100_000);
}

#[test]
fn the_inputs_of_a_join_wait_for_each_other() {
    let (left, right) = (counting("l", 0, 600_000, ""), counting("r", 0, 600_000, ""));
    let query = "SELECT l.id FROM l JOIN r ON l.id = r.id \
         AND l.ts BETWEEN r.ts - INTERVAL '1' MINUTE AND r.ts + INTERVAL '1' MINUTE";
    assert_eq!(run("12 MB", &format!("{left} {right} {query}")).unwrap(), 600_000);
}

#[test]
fn a_join_that_keeps_everything_is_an_error() {
    let (left, right) = (counting("l", 0, 600_000, ""), counting("r", 600_000, 600_000, ""));
    let error = run("16 MB", &format!("{left} {right} SELECT l.id FROM l JOIN r ON l.id = r.id")).unwrap_err();
    assert_eq!(error.code, code::OUT_OF_MEMORY, "{error}");
    assert!(error.message.contains("operators"), "{error}");
}

#[test]
fn a_lookup_table_that_does_not_fit_is_an_error() {
    let (left, right) = (counting("l", 0, 10, ""), counting("r", 0, 900_000, ""));
    let query = "SELECT l.id FROM l WHERE l.id IN (SELECT r.id FROM r)";
    let error = run("4 MB", &format!("SET 'execution.runtime-mode' = 'batch'; {left} {right} {query}")).unwrap_err();
    assert_eq!(error.code, code::OUT_OF_MEMORY, "{error}");
}
