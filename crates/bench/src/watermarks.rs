//! Watermarks more and less often (StreamBox, figure 11): each completes a window, whose rows are written.
//!
//! Columns from memory: `k` (100 keys), `ts` (a row a millisecond, in order), `wm`, the watermark, which advances every so
//! many rows. Measured: rows by key and window, as long as the distance between two watermarks.

use crate::checksum::checksum;
use crate::columns::{Random, session};
use crate::measure::{REPETITIONS, alternate, median, report};
use arrow_array::{ArrayRef, Int64Array, RecordBatch, TimestampMillisecondArray};
use millstream::{DataType, Field, Schema};
use std::error::Error;
use std::sync::Arc;

const ROWS: i64 = 10_000_000;
const BATCH: i64 = 64 << 10;
const KEYS: u64 = 100;
/// Rows between two watermarks; the last is what is compared with.
const DISTANCES: [i64; 4] = [1000, 10_000, 100_000, 1_000_000];

/// Runs the query for each distance.
pub(crate) fn run(threads: usize) -> Result<(), Box<dyn Error>> {
    let mut session = session(threads)?;
    for distance in DISTANCES {
        session.register(
            &format!("every{distance}"),
            "k BIGINT NOT NULL, ts TIMESTAMP(3) NOT NULL, wm TIMESTAMP(3) NOT NULL, WATERMARK FOR ts AS wm",
            batches(distance)?,
        )?;
    }
    println!("\nwatermarks: rows by key and window, {ROWS} rows in memory, {KEYS} keys, {threads} threads");
    let runs = alternate(&DISTANCES, REPETITIONS, |distance| {
        let sql = format!(
            "SELECT k, window_start, COUNT(*)
             FROM TABLE(TUMBLE(TABLE every{distance}, DESCRIPTOR(ts), INTERVAL '{}.{:03}' SECOND))
             GROUP BY k, window_start, window_end",
            distance / 1000,
            distance % 1000
        );
        Ok(checksum(&mut session, &sql)?)
    })?;
    let baseline = runs.last().map_or(0.0, |(_, seconds)| median(seconds));
    for (distance, (result, seconds)) in DISTANCES.iter().zip(&runs) {
        if result.rows < (ROWS / distance) as u64 {
            return Err(format!("there are only {} rows of windows of {distance} rows", result.rows).into());
        }
        report(&format!("every {distance} rows"), seconds, ROWS as u64, baseline);
    }
    Ok(())
}

fn batches(distance: i64) -> Result<Vec<RecordBatch>, Box<dyn Error>> {
    let schema = Schema::new(vec![
        Field::new("k", DataType::BigInt, false),
        Field::new("ts", DataType::Timestamp(3), false),
        Field::new("wm", DataType::Timestamp(3), false),
    ])
    .to_arrow();
    let mut random = Random::new(13);
    let mut batch = |first: i64| {
        let rows = first..(first + BATCH).min(ROWS);
        let keys = rows.clone().map(|_| random.below(KEYS));
        // Before the first row of a window the watermark is the last millisecond of the one before.
        let watermarks = rows.clone().map(|row| row / distance * distance - 1);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(keys)),
            Arc::new(TimestampMillisecondArray::from_iter_values(rows.clone())),
            Arc::new(TimestampMillisecondArray::from_iter_values(watermarks)),
        ];
        Ok(RecordBatch::try_new(schema.clone(), columns)?)
    };
    (0..ROWS).step_by(BATCH as usize).map(&mut batch).collect()
}
