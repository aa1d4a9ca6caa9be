//! Columns of random rows in memory, and sessions over them.

use super::Failure;
use arrow_array::{Int64Array, RecordBatch, TimestampMillisecondArray};
use millstream::{DataType, Field, Schema, Session, SessionConfig};
use std::sync::Arc;

/// Rows of a batch.
const BATCH: usize = 64 << 10;

/// Numbers that are the same in every run (xorshift64*).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// 64 random bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> i64 {
        ((self.next() >> 32) % end) as i64
    }
}

/// A table of two integers and an event time in milliseconds.
#[derive(Default)]
pub(crate) struct Columns {
    pub(crate) keys: Vec<i64>,
    pub(crate) values: Vec<i64>,
    pub(crate) times: Vec<i64>,
}

impl Columns {
    /// Adds a row.
    pub(crate) fn push(&mut self, key: i64, value: i64, time: i64) {
        self.keys.push(key);
        self.values.push(value);
        self.times.push(time);
    }

    /// Key, value and time of each row.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (i64, i64, i64)> {
        self.keys.iter().zip(&self.values).zip(&self.times).map(|((key, value), time)| (*key, *value, *time))
    }

    /// Makes the rows a table `name (k, v, ts)` of the session, with a watermark that stays behind by `delay_ms`.
    pub(crate) fn register(&self, session: &mut Session, name: &str, delay_ms: u64) -> Result<(), Failure> {
        let schema = Schema::new(vec![
            Field::new("k", DataType::BigInt, false),
            Field::new("v", DataType::BigInt, false),
            Field::new("ts", DataType::Timestamp(3), false),
        ])
        .to_arrow();
        let batch = |from: usize| {
            let range = from..(from + BATCH).min(self.keys.len());
            RecordBatch::try_new(
                schema.clone(),
                vec![
                    Arc::new(Int64Array::from(self.keys[range.clone()].to_vec())),
                    Arc::new(Int64Array::from(self.values[range.clone()].to_vec())),
                    Arc::new(TimestampMillisecondArray::from(self.times[range].to_vec())),
                ],
            )
        };
        let batches = (0..self.keys.len()).step_by(BATCH).map(batch).collect::<Result<Vec<_>, _>>()?;
        let delay = format!("INTERVAL '{}.{:03}' SECOND", delay_ms / 1000, delay_ms % 1000);
        let columns =
            format!("k BIGINT NOT NULL, v BIGINT NOT NULL, ts TIMESTAMP(3) NOT NULL, WATERMARK FOR ts AS ts - {delay}");
        Ok(session.register(name, &columns, batches)?)
    }
}

/// A session that compiles before it runs.
pub(crate) fn session(threads: usize) -> Result<Session, Failure> {
    let mut session = Session::new(SessionConfig::default());
    session.set("parallelism.default", &threads.to_string())?;
    session.set("pipeline.tier", "compiled")?;
    Ok(session)
}
