//! A stream whose rows are computed from their numbers: so it can be read again from any place, as recovery wants it, and takes
//! no memory, whatever its length.
//!
//! Columns are `event_type` (a third of the rows are 0), `k`, `v` (below 1,000) and `event_time`, which advances from block to
//! block.

use crate::suite::Random;
use arrow_array::{ArrayRef, Int8Array, Int64Array, TimestampMillisecondArray};
use millstream::connectors::{Chunk, Decoded, Decoder, Position, Source, SourceRequest, SplitReader};
use millstream::{Diagnostic, Session, TableProvider};
use std::sync::Arc;

/// Rows of a block.
pub(crate) const BLOCK: u64 = 64 << 10;
/// Blocks of columns that are kept and handed out in turn; the number of event types divides none of it.
const KEPT: u64 = 64;

/// The name of the table.
pub(super) const TABLE: &str = "events";
const DEFINITION: &str =
    "event_type TINYINT NOT NULL, k BIGINT NOT NULL, v BIGINT NOT NULL, event_time TIMESTAMP(3) NOT NULL,
     WATERMARK FOR event_time AS event_time - INTERVAL '0.001' SECOND";
const COLUMNS: [&str; 4] = ["event_type", "k", "v", "event_time"];

/// Which keys rows have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keys {
    /// At random below a number.
    Random(u64),
    /// At random from this many different ones, scattered over 64 bits.
    Scattered(u64),
    /// First each of the first number of keys once, in turn; then at random from the second number of them. All are
    /// scattered over 64 bits.
    Once(u64, u64),
}

impl Keys {
    /// That of a row.
    fn of(self, row: u64) -> i64 {
        // Odd, so that different numbers give different keys.
        let scattered = |number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15) as i64;
        match self {
            Keys::Random(keys) => below(row, keys) as i64,
            Keys::Scattered(keys) => scattered(below(row, keys)),
            Keys::Once(keys, _) if row < keys => scattered(row),
            Keys::Once(_, changing) => scattered(below(row, changing)),
        }
    }
}

/// A number below `end` that follows from the row (splitmix64).
fn below(row: u64, end: u64) -> u64 {
    let mut hash = row.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((hash >> 32) * end) >> 32
}

/// The value of a row.
pub(super) fn value(row: u64) -> i64 {
    (row % 1000) as i64
}

/// The table.
#[derive(Debug, Clone)]
pub(crate) struct Stream {
    keys: Keys,
    blocks: u64,
    rows_per_ms: u64,
    /// Keys of the first blocks, which the others have again, where making them would be part of what is measured.
    kept: Option<Arc<[ArrayRef]>>,
    types: ArrayRef,
}

impl Stream {
    /// A stream of `blocks` blocks.
    pub(crate) fn new(keys: Keys, blocks: u64, rows_per_ms: u64) -> Stream {
        let mut random = Random::new(29);
        let types: ArrayRef = Arc::new(Int8Array::from_iter_values((0..BLOCK).map(|_| random.below(3) as i8)));
        Stream { keys, blocks, rows_per_ms: rows_per_ms.max(1), kept: None, types }
    }

    /// The same with its keys at hand.
    pub(super) fn kept(mut self) -> Stream {
        self.kept = Some((0..KEPT.min(self.blocks)).map(|block| self.keys_of(block)).collect());
        self
    }

    /// All rows.
    pub(crate) fn rows(&self) -> u64 {
        self.blocks * BLOCK
    }

    /// The key of a row.
    #[cfg(feature = "rocksdb")]
    pub(super) fn key(&self, row: u64) -> i64 {
        self.keys.of(row)
    }

    /// Makes it the table [`TABLE`].
    pub(crate) fn register(&self, session: &mut Session) -> Result<(), Diagnostic> {
        session.register_source(TABLE, DEFINITION, Arc::new(self.clone()))
    }

    fn keys_of(&self, block: u64) -> ArrayRef {
        if let Some(kept) = &self.kept {
            return Arc::clone(&kept[block as usize % kept.len()]);
        }
        let first = block * BLOCK;
        Arc::new(Int64Array::from_iter_values((first..first + BLOCK).map(|row| self.keys.of(row))))
    }

    fn column(&self, block: u64, column: usize) -> ArrayRef {
        let first = block * BLOCK;
        match column {
            0 => Arc::clone(&self.types),
            1 => self.keys_of(block),
            2 => Arc::new(Int64Array::from_iter_values((first..first + BLOCK).map(value))),
            _ => Arc::new(TimestampMillisecondArray::from_value((first / self.rows_per_ms) as i64, BLOCK as usize)),
        }
    }
}

impl TableProvider for Stream {
    fn open(&self, request: &SourceRequest) -> Result<Box<dyn Source>, Diagnostic> {
        let column = |name: &str| COLUMNS.iter().position(|column| *column == name);
        let columns = request.columns.iter().map(|c| column(&c.name)).collect::<Option<Vec<usize>>>();
        let columns = columns.ok_or_else(|| Diagnostic::bug("a column was asked for that the stream does not have"))?;
        Ok(Box::new(Reading { table: self.clone(), columns: columns.into() }))
    }

    fn is_bounded(&self) -> bool {
        true
    }
}

/// The table, read by a query.
#[derive(Clone)]
struct Reading {
    table: Stream,
    /// The columns that the query reads, in its order.
    columns: Arc<[usize]>,
}

impl Source for Reading {
    fn splits(&mut self) -> Result<Vec<Box<dyn SplitReader>>, Diagnostic> {
        Ok(vec![Box::new(Blocks { block: 0, end: self.table.blocks })])
    }

    fn decoder(&self) -> Arc<dyn Decoder> {
        Arc::new(self.clone())
    }

    fn is_bounded(&self) -> bool {
        true
    }

    fn is_replayable(&self) -> bool {
        true
    }
}

/// Hands out numbers of blocks.
struct Blocks {
    block: u64,
    end: u64,
}

impl SplitReader for Blocks {
    fn name(&self) -> &str {
        "blocks"
    }

    fn never_waits(&self) -> bool {
        true
    }

    fn resume(&mut self, from: Option<Position>) -> Result<(), Diagnostic> {
        self.block = from.map_or(0, |position| position.at);
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Chunk>, Diagnostic> {
        if self.block >= self.end {
            return Ok(None);
        }
        let payload = Box::new(self.block);
        self.block += 1;
        Ok(Some(Chunk { payload, bytes: 0, after: Some(Position { at: self.block, line: 0 }) }))
    }
}

impl Decoder for Reading {
    fn decode(&self, chunk: Chunk) -> Decoded {
        let Ok(block) = chunk.payload.downcast::<u64>() else {
            let error = Some(Diagnostic::bug("a chunk of another source reached the stream"));
            return Decoded { error, ..Decoded::default() };
        };
        let columns = self.columns.iter().map(|column| self.table.column(*block, *column)).collect();
        Decoded { columns, rows: BLOCK as usize, ..Decoded::default() }
    }
}
