//! Watermarks more and less often: each completes a window, whose rows are written.

use crate::suite::{Across, Benchmark, Case, Failure, Random, Runs, Suite, System, query, session};
use arrow_array::{ArrayRef, Int64Array, RecordBatch, TimestampMillisecondArray};
use millstream::{DataType, Field, Schema};
use std::sync::Arc;

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "watermarks",
    title: "distance of watermarks (StreamBox, figure 11)",
    data:
        "10 M rows in memory: k (100 keys), ts (a row a millisecond, in order), wm, the watermark, which advances every
           1,000 to 1 M rows",
    query: "rows by key and window, each as long as the distance between two watermarks",
    measured: "the whole query, compilation included, its rows added up",
    runs: Runs::Always,
    run,
};

const ROWS: u64 = 10_000_000;
const BATCH: i64 = 64 << 10;
const KEYS: u64 = 100;
/// Rows between two watermarks; the first is what is compared with.
const DISTANCES: [i64; 4] = [1_000_000, 100_000, 10_000, 1000];

/// Runs the query for each distance.
fn run(suite: &mut Suite) -> Result<(), Failure> {
    let (rows, threads) = (suite.rows(ROWS) as i64, suite.threads());
    let mut cases = Vec::new();
    for distance in DISTANCES {
        let mut session = session(threads)?;
        session.register(
            "t",
            "k BIGINT NOT NULL, ts TIMESTAMP(3) NOT NULL, wm TIMESTAMP(3) NOT NULL, WATERMARK FOR ts AS wm",
            batches(rows, distance)?,
        )?;
        let sql = format!(
            "SELECT k, window_start, COUNT(*)
             FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '{}.{:03}' SECOND))
             GROUP BY k, window_start, window_end",
            distance / 1000,
            distance % 1000
        );
        let system = System::measured("millstream", threads, move || {
            let measured = query(&mut session, &sql)?;
            match measured.checksum {
                Some(result) if result.rows < (rows / distance) as u64 => {
                    Err(format!("there are only {} rows of windows of {distance} rows", result.rows).into())
                }
                _ => Ok(measured),
            }
        });
        cases.push(Case::new(format!("distance={distance}"), rows as u64).with(system));
    }
    suite.measure(Across::Different, cases)?;
    Ok(())
}

fn batches(rows: i64, distance: i64) -> Result<Vec<RecordBatch>, Failure> {
    let schema = Schema::new(vec![
        Field::new("k", DataType::BigInt, false),
        Field::new("ts", DataType::Timestamp(3), false),
        Field::new("wm", DataType::Timestamp(3), false),
    ])
    .to_arrow();
    let mut random = Random::new(13);
    let mut batch = |first: i64| {
        let range = first..(first + BATCH).min(rows);
        let keys = range.clone().map(|_| random.below(KEYS));
        // Before the first row of a window the watermark is the last millisecond of the one before.
        let watermarks = range.clone().map(|row| row / distance * distance - 1);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(keys)),
            Arc::new(TimestampMillisecondArray::from_iter_values(range.clone())),
            Arc::new(TimestampMillisecondArray::from_iter_values(watermarks)),
        ];
        Ok(RecordBatch::try_new(schema.clone(), columns)?)
    };
    (0..rows).step_by(BATCH as usize).map(&mut batch).collect()
}
