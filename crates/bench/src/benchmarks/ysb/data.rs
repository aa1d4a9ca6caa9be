//! The benchmark's rows: as columns of Arrow with texts or with small numbers, and as packed records.

use crate::by_hand::{Records, write_i64};
use crate::suite::{Failure, Random};
use arrow_array::builder::StringViewBuilder;
use arrow_array::{ArrayRef, Int8Array, Int64Array, RecordBatch, TimestampMillisecondArray};
use millstream::{DataType, Field, Schema};
use std::sync::Arc;

/// Rows of a batch, which is also what a thread takes at a time.
pub(super) const BATCH: usize = 64 << 10;
/// Values of `v`.
const VALUES: u64 = 1000;
/// Types of events by number; those with the number 0 are counted.
const TYPES: [&str; 3] = ["view", "click", "purchase"];

/// Bytes of a record, as in the prototypes of the papers: user, page and campaign of 16 bytes each, two texts of 9 bytes, time
/// and address.
pub(super) const RECORD: usize = 78;
/// Where fields of a record are. The campaign's number is the lower half of its 16 bytes, `v` the upper one.
pub(super) const CAMPAIGN_AT: usize = 32;
pub(super) const VALUE_AT: usize = 40;
pub(super) const TYPE_AT: usize = 57;
pub(super) const TIME_AT: usize = 66;

/// Shape of the rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) rows: u64,
    /// Campaigns, in random order.
    pub(super) keys: u64,
    pub(super) rows_per_ms: u64,
}

/// The rows as columns.
pub(super) struct Data {
    pub(super) shape: Shape,
    types: Vec<i8>,
    pub(super) campaigns: Vec<Int64Array>,
    pub(super) values: Vec<Int64Array>,
    pub(super) times: Vec<TimestampMillisecondArray>,
}

impl Data {
    pub(super) fn new(shape: Shape) -> Data {
        let rows = shape.rows as usize;
        let mut random = Random::new(29);
        let types = (0..rows).map(|_| random.below(TYPES.len() as u64) as i8).collect();
        let mut column = |end: u64| {
            let batch =
                |from: usize| Int64Array::from_iter_values((from..(from + BATCH).min(rows)).map(|_| random.below(end)));
            (0..rows).step_by(BATCH).map(batch).collect()
        };
        let (campaigns, values) = (column(shape.keys), column(VALUES));
        let time = |row: usize| (row as u64 / shape.rows_per_ms) as i64;
        let times =
            |from: usize| TimestampMillisecondArray::from_iter_values((from..(from + BATCH).min(rows)).map(time));
        Data { shape, types, campaigns, values, times: (0..rows).step_by(BATCH).map(times).collect() }
    }

    /// Event times end before this.
    pub(super) fn end_ms(&self) -> i64 {
        (self.shape.rows.saturating_sub(1) / self.shape.rows_per_ms) as i64 + 1
    }

    /// Types of the rows of a batch by number.
    pub(super) fn types(&self, batch: usize) -> &[i8] {
        &self.types[batch * BATCH..((batch + 1) * BATCH).min(self.types.len())]
    }

    /// Batches with `event_type` TINYINT.
    pub(super) fn small(&self) -> Result<Vec<RecordBatch>, Failure> {
        self.batches(DataType::TinyInt, |types| Arc::new(Int8Array::from(types.to_vec())))
    }

    /// Batches with `event_type` STRING.
    pub(super) fn texts(&self) -> Result<Vec<RecordBatch>, Failure> {
        self.batches(DataType::STRING, |types| {
            let mut texts = StringViewBuilder::with_capacity(types.len());
            types.iter().for_each(|number| texts.append_value(TYPES[*number as usize]));
            Arc::new(texts.finish())
        })
    }

    fn batches(&self, of_type: DataType, types: impl Fn(&[i8]) -> ArrayRef) -> Result<Vec<RecordBatch>, Failure> {
        let schema = Schema::new(vec![
            Field::new("event_type", of_type, false),
            Field::new("campaign", DataType::BigInt, false),
            Field::new("v", DataType::BigInt, false),
            Field::new("event_time", DataType::Timestamp(3), false),
        ])
        .to_arrow();
        let batch = |number: usize| {
            let (campaigns, values) = (&self.campaigns[number], &self.values[number]);
            let columns: [ArrayRef; 4] = [
                types(self.types(number)),
                Arc::new(campaigns.clone()),
                Arc::new(values.clone()),
                Arc::new(self.times[number].clone()),
            ];
            Ok(RecordBatch::try_new(schema.clone(), columns.to_vec())?)
        };
        (0..self.times.len()).map(batch).collect()
    }

    /// Packed records.
    pub(super) fn records(&self) -> Records<RECORD> {
        let mut random = Random::new(31);
        Records::new(self.types.len(), |row, record| {
            let (batch, at) = (row / BATCH, row % BATCH);
            // User and page are never read.
            for offset in (0..CAMPAIGN_AT).step_by(8) {
                write_i64(record, offset, random.next() as i64);
            }
            write_i64(record, CAMPAIGN_AT, self.campaigns[batch].value(at));
            write_i64(record, VALUE_AT, self.values[batch].value(at));
            let text = TYPES[self.types[row] as usize].as_bytes();
            record[TYPE_AT..TYPE_AT + text.len()].copy_from_slice(text);
            write_i64(record, TIME_AT, self.times[batch].value(at));
        })
    }
}
