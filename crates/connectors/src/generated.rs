//! What sources of generated rows have in common: rows have numbers, a chunk is a range of them, and any worker makes its columns.

use crate::declaration::ReadySource;
use crate::{CHUNK_ROWS, Chunk, Decoded, Decoder, Position, Source, SplitReader};
use arrow_array::types::*;
use arrow_array::{ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use millstream_types::{DataType, Diagnostic, TimeUnit};
use std::ops::Range;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Rows to be generated.
pub(crate) struct Rows {
    pub numbers: Range<u64>,
    /// When they were handed out.
    pub now_ms: i64,
}

/// Milliseconds since the epoch.
pub(crate) fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as i64)
}

/// A source of one split of this name, of the rows before number `end`. `buffer_rows` is that of its request.
pub(crate) fn source(
    name: &'static str,
    generator: impl Decoder + 'static,
    end: Option<u64>,
    buffer_rows: usize,
) -> Box<dyn Source> {
    let rows = if buffer_rows == 0 { CHUNK_ROWS } else { buffer_rows.min(CHUNK_ROWS) } as u64;
    let split = Numbers { name, next: 0, end: end.unwrap_or(u64::MAX), rows };
    Box::new(ReadySource {
        splits: vec![Box::new(split)],
        decoder: Arc::new(generator),
        is_bounded: end.is_some(),
        is_replayable: true,
    })
}

/// Hands out ranges of row numbers.
struct Numbers {
    name: &'static str,
    next: u64,
    end: u64,
    rows: u64,
}

impl SplitReader for Numbers {
    fn name(&self) -> &str {
        self.name
    }

    fn never_waits(&self) -> bool {
        true
    }

    fn resume(&mut self, from: Option<Position>) -> Result<(), Diagnostic> {
        self.next = from.map_or(0, |position| position.at);
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Chunk>, Diagnostic> {
        let mut rest = self.next..self.end;
        let chunk = first(&mut rest, self.rows).map(|(chunk, _)| chunk);
        self.next = rest.start;
        Ok(chunk)
    }
}

/// A chunk of the first `rows` rows, which are cut off, and their number; `None` when there are none.
fn first(numbers: &mut Range<u64>, rows: u64) -> Option<(Chunk, u64)> {
    let front = numbers.start..numbers.end.min(numbers.start.saturating_add(rows));
    if front.is_empty() {
        return None;
    }
    numbers.start = front.end;
    let (count, after) = (front.end - front.start, Some(Position { at: front.end, line: 0 }));
    let rows = Rows { numbers: front, now_ms: now_ms() };
    Some((Chunk { payload: Box::new(rows), bytes: 0, after }, count))
}

/// The first `rows` rows of a chunk, generated as of now.
pub(crate) fn split_front(chunk: &mut Chunk, rows: u64) -> Option<(Chunk, u64)> {
    first(&mut chunk.payload.downcast_mut::<Rows>()?.numbers, rows)
}

/// The columns that are made of a chunk's rows.
pub(crate) fn decoded(chunk: Chunk, columns: impl FnOnce(&Rows) -> Vec<ArrayRef>) -> Decoded {
    let decode = |rows: Box<Rows>| {
        let count = (rows.numbers.end - rows.numbers.start) as usize;
        Decoded { columns: columns(&rows), rows: count, ..Decoded::default() }
    };
    chunk.content().map_or_else(Decoded::failed, decode)
}

/// A column of a type that is stored as whole numbers; what is too large for the type is cut off.
pub(crate) fn integers(data_type: &DataType, values: impl Iterator<Item = Option<i64>>) -> ArrayRef {
    let zone = matches!(data_type, DataType::TimestampLtz(_)).then(|| Arc::<str>::from("UTC"));
    match data_type {
        DataType::TinyInt => Arc::new(typed::<Int8Type>(values, |n| n as i8)),
        DataType::SmallInt => Arc::new(typed::<Int16Type>(values, |n| n as i16)),
        DataType::Int => Arc::new(typed::<Int32Type>(values, |n| n as i32)),
        DataType::Date => Arc::new(typed::<Date32Type>(values, |n| n as i32)),
        DataType::Time(_) => Arc::new(typed::<Time32MillisecondType>(values, |n| n as i32)),
        DataType::IntervalMonth => Arc::new(typed::<IntervalYearMonthType>(values, |n| n as i32)),
        DataType::IntervalMilli => Arc::new(typed::<DurationMillisecondType>(values, |n| n)),
        DataType::Timestamp(_) | DataType::TimestampLtz(_) => match data_type.time_unit() {
            TimeUnit::Milli => Arc::new(typed::<TimestampMillisecondType>(values, |n| n).with_timezone_opt(zone)),
            TimeUnit::Micro => Arc::new(typed::<TimestampMicrosecondType>(values, |n| n).with_timezone_opt(zone)),
            TimeUnit::Nano => Arc::new(typed::<TimestampNanosecondType>(values, |n| n).with_timezone_opt(zone)),
        },
        _ => Arc::new(typed::<Int64Type>(values, |n| n)),
    }
}

fn typed<T: ArrowPrimitiveType>(
    values: impl Iterator<Item = Option<i64>>,
    stored: impl Fn(i64) -> T::Native,
) -> PrimitiveArray<T> {
    values.map(|value| value.map(&stored)).collect()
}
