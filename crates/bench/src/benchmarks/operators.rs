//! Operators one by one, and what they allocate.

use crate::suite::{
    Across, Benchmark, Case, Failure, Random, Record, Runs, Suite, System, allocations, median, query, session, timed,
};
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringViewArray, TimestampMillisecondArray};
use millstream::{DataType, Field, Schema, Session};
use serde_json::json;
use std::sync::Arc;

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "operators",
    title: "operators one by one, and what they allocate",
    data: "8 M rows in memory: k (10,000 values), h (the same, scattered over 64 bits), v (1,000 values), d (DOUBLE), s (100 texts),
           ts (100 rows a millisecond, in order)",
    query: "one operator each: a filter that nothing and one that half of the rows pass, a projection, groupings without a key and by dense
            keys, scattered keys and texts, windows that slide, aggregates, a join of windows, sessions, ranks",
    measured: "the whole statement with one thread, its rows added up; cycles are those of the processor's nominal clock. Then
               allocations of all threads with so many buffers and with twice as many, over the same number of windows",
    runs: Runs::Always,
    run,
};

const ROWS: u64 = 8_000_000;
const ROWS_PER_MS: u64 = 100;
const KEYS: u64 = 10_000;
const BATCH: u64 = 64 << 10;
/// Buffers of the measurement of allocations, which is done again with twice as many; fewer with fewer rows.
const BUFFERS: u64 = 32;
/// Event time of the rows of the measurement of allocations: four windows of 10 s.
const SPAN_MS: u64 = 40_000;

/// Name, columns of 8 bytes that the query touches, SQL.
pub(super) const OPERATORS: [(&str, u64, &str); 15] = [
    ("filter, nothing passes", 1, "SELECT v FROM t WHERE v < 0"),
    ("filter, half passes", 1, "SELECT v FROM t WHERE v < 500"),
    ("projection", 2, "SELECT k + v * 3 FROM t"),
    ("count", 1, "SELECT window_start, COUNT(*) FROM w GROUP BY window_start, window_end"),
    ("sum", 2, "SELECT window_start, SUM(v) FROM w GROUP BY window_start, window_end"),
    ("sum by dense key", 3, "SELECT k, window_start, SUM(v) FROM w GROUP BY k, window_start, window_end"),
    ("sum by scattered key", 3, "SELECT h, window_start, SUM(v) FROM w GROUP BY h, window_start, window_end"),
    ("sum by text", 4, "SELECT s, window_start, SUM(v) FROM w GROUP BY s, window_start, window_end"),
    ("minimum by dense key", 3, "SELECT k, window_start, MIN(v) FROM w GROUP BY k, window_start, window_end"),
    ("mean of doubles by dense key", 3, "SELECT k, window_start, AVG(d) FROM w GROUP BY k, window_start, window_end"),
    (
        "distinct count by dense key",
        3,
        "SELECT k, window_start, COUNT(DISTINCT v) FROM w GROUP BY k, window_start, window_end",
    ),
    (
        "sum by dense key, ten windows slide",
        3,
        "SELECT k, window_start, SUM(v) FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '10' SECOND))
         GROUP BY k, window_start, window_end",
    ),
    (
        "window join",
        4,
        "SELECT a.k, a.v, b.v FROM (SELECT * FROM w WHERE v < 100) AS a JOIN (SELECT * FROM w WHERE v >= 900) AS b
         ON a.h = b.h AND a.window_start = b.window_start AND a.window_end = b.window_end",
    ),
    (
        "sessions by dense key",
        3,
        "SELECT k, window_start, SUM(v) FROM TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '0.5' SECOND))
         GROUP BY k, window_start, window_end",
    ),
    (
        "first three of a window by text",
        4,
        "SELECT s, v FROM (SELECT s, v, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, s ORDER BY v DESC) AS n FROM w)
         WHERE n <= 3",
    ),
];

/// Runs each operator, then counts allocations.
fn run(suite: &mut Suite) -> Result<(), Failure> {
    let rows = suite.rows(ROWS);
    let batches = suite.generate("the rows", || generate(rows, |row| row / ROWS_PER_MS))?;
    let cycles_per_s = nominal_cycles_per_s();
    for (name, columns, sql) in OPERATORS {
        let mut session = open(&batches, 1)?;
        let system = System::measured("millstream", 1, move || {
            let mut measured = query(&mut session, sql)?;
            if let Some(cycles_per_s) = cycles_per_s {
                measured.more.insert("cycles_per_row".into(), json!(measured.seconds * cycles_per_s / rows as f64));
            }
            Ok(measured)
        });
        let case = Case::new(format!("operators/{name}"), rows).limited_by_memory(8 * columns, &[1]).with(system);
        suite.measure(Across::Different, vec![case])?;
    }
    count_allocations(suite)
}

/// The rows of a table with these times.
pub(super) fn generate(rows: u64, time: impl Fn(u64) -> u64) -> Result<Vec<RecordBatch>, Failure> {
    let schema = Schema::new(vec![
        Field::new("k", DataType::BigInt, false),
        Field::new("h", DataType::BigInt, false),
        Field::new("v", DataType::BigInt, false),
        Field::new("d", DataType::Double, false),
        Field::new("s", DataType::STRING, false),
        Field::new("ts", DataType::Timestamp(3), false),
    ])
    .to_arrow();
    let mut random = Random::new(47);
    let mut batch = |first: u64| {
        let range = first..(first + BATCH).min(rows);
        let keys: Vec<i64> = range.clone().map(|_| random.below(KEYS)).collect();
        let values: Vec<i64> = range.clone().map(|_| random.below(1000)).collect();
        let scattered = keys.iter().map(|key| key.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64));
        let doubles = values.iter().map(|value| *value as f64 / 4.0);
        let texts: Vec<String> = keys.iter().map(|key| format!("text {}", key % 100)).collect();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(keys.iter().copied())),
            Arc::new(Int64Array::from_iter_values(scattered)),
            Arc::new(Int64Array::from_iter_values(values.iter().copied())),
            Arc::new(Float64Array::from_iter_values(doubles)),
            Arc::new(StringViewArray::from_iter_values(texts)),
            Arc::new(TimestampMillisecondArray::from_iter_values(range.map(|row| time(row) as i64))),
        ];
        Ok(RecordBatch::try_new(schema.clone(), columns)?)
    };
    (0..rows).step_by(BATCH as usize).map(&mut batch).collect()
}

/// A session with the table and its windows of 10 s.
pub(super) fn open(batches: &[RecordBatch], threads: usize) -> Result<Session, Failure> {
    let mut session = session(threads)?;
    session.register(
        "t",
        "k BIGINT NOT NULL, h BIGINT NOT NULL, v BIGINT NOT NULL, d DOUBLE NOT NULL, s STRING NOT NULL,
         ts TIMESTAMP(3) NOT NULL, WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND",
        batches.to_vec(),
    )?;
    session.run("CREATE VIEW w AS SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))")?;
    Ok(session)
}

/// What the processor says of its clock.
fn nominal_cycles_per_s() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("cpu MHz"))?;
    Some(line.split_once(':')?.1.trim().parse::<f64>().ok()? * 1e6)
}

/// Allocations of each operator with `BUFFERS` buffers and with twice as many. What is made per query, per worker and
/// per window is the same in both; the difference is what is made per buffer. Operators that keep rows or write many of
/// them allocate for those.
fn count_allocations(suite: &mut Suite) -> Result<(), Failure> {
    let threads = suite.threads();
    let buffers = (BUFFERS as f64 * suite.options.rows_scale.min(1.0)).ceil() as u64;
    let tables = [buffers, 2 * buffers].map(|buffers| {
        let rows = buffers * BATCH;
        generate(rows, |row| row * SPAN_MS / rows)
    });
    let [few, many] = tables;
    let (few, many) = (few?, many?);
    suite.say(&format!("  allocations, {threads} threads\n    {:<36} {buffers:>8} {:>8} buffers", "", 2 * buffers));
    for (name, _, sql) in OPERATORS {
        let counted = [&few, &many].map(|batches| count(batches, threads, suite.options.repetitions, sql));
        let [few, many] = counted;
        let ((few, _), (many, seconds)) = (few?, many?);
        let per_buffer = (many - few) / buffers as f64;
        suite.say(&format!("    {name:<36} {few:>8} {many:>8} {per_buffer:>8.2} per buffer"));
        let (rows, more) = (2 * buffers * BATCH, json!({ "allocations_per_buffer": per_buffer }));
        suite.record(Record {
            benchmark: BENCHMARK.name.into(),
            case: format!("allocations/{name}"),
            system: "millstream".into(),
            threads,
            rows,
            seconds,
            rows_per_s: rows as f64 / seconds,
            bytes_per_s: 0.0,
            checksum: None,
            more: more.as_object().cloned().unwrap_or_default(),
        })?;
    }
    Ok(())
}

/// Median allocations of a query that is compiled already, and the seconds of one.
fn count(batches: &[RecordBatch], threads: usize, repetitions: usize, sql: &str) -> Result<(f64, f64), Failure> {
    let mut session = open(batches, threads)?;
    query(&mut session, sql)?;
    let mut counts = Vec::new();
    let mut seconds = Vec::new();
    for _ in 0..repetitions {
        let (count, (taken, run)) = allocations(|| timed(|| query(&mut session, sql)));
        run?;
        counts.push(count as f64);
        seconds.push(taken);
    }
    Ok((median(&counts), median(&seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::waits;
    use std::process::Command;

    /// Says that the process is that of one test.
    const ALONE: &str = "MILLSTREAM_BENCH_COUNTS";
    /// Rows of a buffer: so many that none are joined.
    const ROWS_OF_BUFFER: u64 = 8 << 10;

    fn table(buffers: u64) -> Vec<RecordBatch> {
        let rows = buffers * ROWS_OF_BUFFER;
        let batches = generate(rows, |row| row * SPAN_MS / rows).unwrap();
        let cut = |batch: &RecordBatch| {
            let places = (0..batch.num_rows()).step_by(ROWS_OF_BUFFER as usize);
            places.map(|at| batch.slice(at, ROWS_OF_BUFFER as usize)).collect::<Vec<_>>()
        };
        batches.iter().flat_map(cut).collect()
    }

    /// What a query allocates beyond what it does with half of the buffers, for each of the others; and how often its threads wait for one
    /// another.
    fn of_a_buffer(sql: &str, threads: usize) -> (f64, i64) {
        let [few, many] = [64, 128].map(|buffers| {
            let mut session = open(&table(buffers), threads).unwrap();
            // Samples of rows are looked at by the clock.
            session.set("pipeline.adaptive", "never").unwrap();
            session.set("pipeline.tier", "compiled").unwrap();
            session.set("pipeline.buffer-rows", &ROWS_OF_BUFFER.to_string()).unwrap();
            query(&mut session, sql).unwrap();
            let counts = (0..9).map(|_| {
                let before = waits();
                let (count, run) = allocations(|| query(&mut session, sql));
                run.unwrap();
                (count as f64, waits() - before)
            });
            let (counts, waits): (Vec<f64>, Vec<i64>) = counts.unzip();
            (median(&counts), *waits.iter().min().unwrap())
        });
        ((many.0 - few.0) / 64.0, many.1)
    }

    #[test]
    fn no_buffer_of_a_table_allocates_or_wakes_anybody() {
        if std::env::var_os(ALONE).is_none() {
            // Other tests of this process allocate, too.
            let name = "benchmarks::operators::tests::no_buffer_of_a_table_allocates_or_wakes_anybody";
            let status = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", name, "--nocapture"])
                .env(ALONE, "yes")
                .status();
            assert!(status.unwrap().success());
            return;
        }
        for name in ["count", "sum", "sum by dense key", "minimum by dense key"] {
            let (_, _, sql) = OPERATORS.into_iter().find(|operator| operator.0 == name).unwrap();
            for threads in [1, 2] {
                let (allocated, waited) = of_a_buffer(sql, threads);
                println!("{name}, {threads} threads: {allocated} allocations for each buffer, {waited} waits");
                // Which of two workers has a table of a window is a matter of time, and so is what it allocates for that.
                assert!(threads > 1 || allocated == 0.0, "{name}: {allocated} allocations for each buffer");
                assert!(waited < 20, "{name}, {threads} threads: a query waits {waited} times");
            }
        }
    }
}
