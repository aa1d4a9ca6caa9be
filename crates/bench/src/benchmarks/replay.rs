//! A stream in memory that repeats some rows: each round advances event time and ids, so that the stream continues
//! instead of starting over, and shares all other columns with the rounds before it.
//!
//! The table `replay` of the Flink program (crates/bench/flink) does the same with the rows of a file.

use crate::suite::{Failure, session};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMillisecondType};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;
use millstream::{DataType, Field, Schema, Session};
use std::path::Path;
use std::sync::Arc;

/// Rows of a batch.
const BATCH: usize = 64 << 10;

/// Rows of a table, and how each round changes them.
#[derive(Debug)]
pub(crate) struct Replay {
    pub(crate) name: &'static str,
    /// Name and SQL type (STRING, BIGINT or TIMESTAMP(3)) of each column; there are no NULLs.
    pub(crate) columns: &'static [(&'static str, &'static str)],
    /// How far the watermark stays behind [`Replay::time`], as an interval.
    pub(crate) delay: &'static str,
    /// The column with the event time.
    pub(crate) time: &'static str,
    /// What a round adds to a column.
    pub(crate) shifts: Vec<(&'static str, i64)>,
    pub(crate) rows: RecordBatch,
}

impl Replay {
    /// The rows of `rounds` rounds.
    pub(crate) fn rounds(&self, rounds: u64) -> Result<Vec<RecordBatch>, Failure> {
        let (mut batches, schema) = (Vec::new(), schema(self.columns));
        for round in 0..rounds as i64 {
            let columns = self.columns.iter().zip(self.rows.columns());
            let columns = columns.map(|((name, _), column)| {
                let shift = self.shifts.iter().find(|(shifted, _)| shifted == name).map_or(0, |(_, shift)| *shift);
                shifted(column, shift * round)
            });
            let rows = RecordBatch::try_new(schema.clone(), columns.collect())?;
            let starts = (0..rows.num_rows()).step_by(BATCH);
            batches.extend(starts.map(|start| rows.slice(start, BATCH.min(rows.num_rows() - start))));
        }
        Ok(batches)
    }

    /// Makes `rounds` rounds a table of the session.
    pub(crate) fn register(&self, session: &mut Session, rounds: u64) -> Result<(), Failure> {
        Ok(session.register(self.name, &self.definition(), self.rounds(rounds)?)?)
    }

    /// What stands between the parentheses of CREATE TABLE, here and in Flink.
    pub(crate) fn definition(&self) -> String {
        let columns = self.columns.iter().map(|(name, kind)| format!("`{name}` {kind} NOT NULL, ")).collect::<String>();
        format!("{columns}WATERMARK FOR `{0}` AS `{0}` - INTERVAL {1}", self.time, self.delay)
    }

    /// Writes `rounds` rounds into a file, with times as epoch milliseconds.
    pub(crate) fn write(&self, rounds: u64, file: &Path, format: &str) -> Result<(), Failure> {
        let numbers_and_texts =
            self.columns.iter().map(|(name, kind)| (*name, if *kind == "STRING" { kind } else { "BIGINT" }));
        let schema = schema(&numbers_and_texts.collect::<Vec<_>>());
        let numbers = |column: &ArrayRef| -> ArrayRef {
            match column.as_primitive_opt::<TimestampMillisecondType>() {
                Some(times) => Arc::new(times.reinterpret_cast::<Int64Type>()),
                None => column.clone(),
            }
        };
        let batches = self.rounds(rounds)?.into_iter();
        let batches = batches.map(|b| RecordBatch::try_new(schema.clone(), b.columns().iter().map(numbers).collect()));
        let columns = physical(self.columns);
        let mut session = session(1)?;
        session.register("rows_of_file", &columns, batches.collect::<Result<_, _>>()?)?;
        // A file that was not finished is never taken for one that was.
        let unfinished = file.with_extension("unfinished");
        session.run(&format!(
            "CREATE TABLE file_of_rows ({columns})
             WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = '{format}'{});
             INSERT INTO file_of_rows SELECT * FROM rows_of_file",
            unfinished.display(),
            if format == "parquet" { ", 'parquet.block.size' = '16mb'" } else { "" },
        ))?;
        Ok(std::fs::rename(&unfinished, file)?)
    }

    /// CREATE TABLE for Flink, which replays the rows of a file of JSON lines.
    pub(crate) fn flink(&self, file: &Path, rounds: u64) -> String {
        let shifts = self.shifts.iter().map(|(name, shift)| format!("{name}:{shift}")).collect::<Vec<_>>().join(",");
        format!(
            "CREATE TABLE {} ({}) WITH ('connector' = 'replay', 'path' = '{}', 'rounds' = '{rounds}', 'shift' = '{shifts}')",
            self.name,
            self.definition(),
            file.display()
        )
    }
}

/// Columns of these types without NULL.
pub(crate) fn schema(columns: &[(&str, &str)]) -> SchemaRef {
    let fields = columns.iter().map(|(name, kind)| {
        let kind = match *kind {
            "STRING" => DataType::STRING,
            "BIGINT" => DataType::BigInt,
            _ => DataType::Timestamp(3),
        };
        Field::new(*name, kind, false)
    });
    Schema::new(fields.collect()).to_arrow()
}

/// The columns of a file: times are epoch milliseconds.
pub(crate) fn physical(columns: &[(&str, &str)]) -> String {
    let column =
        |(name, kind): &(&str, &str)| format!("`{name}` {}", if *kind == "TIMESTAMP(3)" { "BIGINT" } else { kind });
    columns.iter().map(column).collect::<Vec<_>>().join(", ")
}

/// The column with a number added to every value.
fn shifted(column: &ArrayRef, shift: i64) -> ArrayRef {
    if shift == 0 {
        return column.clone();
    }
    match column.as_primitive_opt::<Int64Type>() {
        Some(numbers) => Arc::new(numbers.unary::<_, Int64Type>(|value| value + shift)),
        None => {
            let times = column.as_primitive::<TimestampMillisecondType>();
            Arc::new(times.unary::<_, TimestampMillisecondType>(|value| value + shift))
        }
    }
}
