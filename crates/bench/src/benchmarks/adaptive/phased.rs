//! A stream in memory whose rows change from phase to phase: each phase repeats some blocks of rows, in which only
//! event time advances.
//!
//! A phase lasts either some seconds of the reader's clock or a number of blocks. The first run of a scenario goes by
//! the clock and notes its blocks; all others read as many, so that every plan sees the same rows. Or rows come at a
//! rate: then those of a millisecond are handed over at its end.
//!
//! Event time advances by a millisecond with every [`BLOCKS_PER_MS`] blocks, about as the clock does at the rates of these
//! benchmarks; blocks of a millisecond share one column of times, so that making it costs little beside the query.

use crate::suite::Random;
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMillisecondType;
use arrow_array::{Array, ArrayRef, TimestampMillisecondArray};
use millstream::connectors::{Chunk, Decoded, Decoder, Source, SourceRequest, SplitReader};
use millstream::{Diagnostic, TableProvider};
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Rows of a block.
pub(super) const BLOCK: usize = 64 << 10;
/// Blocks of a millisecond of event time.
pub(super) const BLOCKS_PER_MS: u64 = 8;
/// Blocks of a phase that differ: too many to stay in the processor's cache.
const BLOCKS: usize = 64;
/// By how many rows blocks are shifted at most when they come again, and from round to round.
const SHIFT: usize = 32 << 10;
const SHIFT_A_ROUND: u64 = 12_347;
/// Columns of times that are kept for blocks of the same millisecond.
const SHARED_TIMES: usize = 4;

/// Rows that are alike.
#[derive(Clone)]
pub(super) struct Phase {
    pub(super) name: String,
    /// Columns without the event time, which is the last one of the table.
    columns: Vec<ArrayRef>,
    /// How many milliseconds each row of a block is late; no row without.
    pub(super) delays: Option<Arc<[i64]>>,
}

impl Phase {
    /// The rows of [`BLOCKS`], of which `columns` makes the columns without the event time; fewer when rows are scaled down.
    pub(super) fn new(
        name: impl Into<String>,
        scale: f64,
        columns: impl FnOnce(&mut Random, usize) -> Vec<ArrayRef>,
    ) -> Phase {
        let rows = (BLOCKS as f64 * scale.min(1.0)).ceil() as usize * BLOCK + SHIFT;
        Phase { name: name.into(), columns: columns(&mut Random::new(83), rows), delays: None }
    }

    /// `rows` consecutive rows. Each round begins with another row, so that samples of the first rows of some
    /// buffers are not the same rows again.
    fn slice(&self, column: &ArrayRef, at: u64, rows: usize) -> ArrayRef {
        let blocks = ((column.len() - SHIFT) / rows) as u64;
        let shift = at / blocks * SHIFT_A_ROUND % SHIFT as u64;
        column.slice((at % blocks) as usize * rows + shift as usize, rows)
    }
}

/// How long phases last.
#[derive(Debug, Clone)]
pub(super) enum Lengths {
    /// Each has this duration by the clock; the blocks that were read are noted.
    Clock(Duration, Arc<Mutex<Vec<u64>>>),
    /// The blocks of each.
    Blocks(Vec<u64>),
    /// The milliseconds of every phase, the rows per millisecond of each, and when the first one began.
    Paced(u64, Vec<usize>, Arc<OnceLock<Instant>>),
}

impl Lengths {
    /// As many blocks as were read by the clock.
    pub(super) fn as_read(&self) -> Lengths {
        match self {
            Lengths::Clock(_, noted) => Lengths::Blocks(noted.lock().unwrap_or_else(PoisonError::into_inner).clone()),
            fixed => fixed.clone(),
        }
    }
}

/// The table.
#[derive(Clone)]
pub(super) struct Phased {
    /// Names of the columns, the event time last.
    pub(super) columns: &'static [&'static str],
    pub(super) phases: Arc<Vec<Phase>>,
    pub(super) lengths: Lengths,
    times: Arc<Times>,
}

/// Columns of times of the last few milliseconds.
type Times = Mutex<VecDeque<ArrayRef>>;

impl Phased {
    pub(super) fn new(columns: &'static [&'static str], phases: &Arc<Vec<Phase>>, lengths: Lengths) -> Phased {
        Phased { columns, phases: Arc::clone(phases), lengths, times: Arc::default() }
    }

    /// Event times of a piece.
    fn times(&self, piece: &Piece) -> ArrayRef {
        if let Some(delays) = &self.phases[piece.phase].delays {
            return Arc::new(TimestampMillisecondArray::from_iter_values(delays.iter().map(|delay| piece.ms - delay)));
        }
        let mut shared = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |times: &&ArrayRef| {
            let times = times.as_primitive::<TimestampMillisecondType>();
            times.len() == piece.rows && times.value(0) == piece.ms
        };
        if let Some(times) = shared.iter().find(fits) {
            return Arc::clone(times);
        }
        let times: ArrayRef = Arc::new(TimestampMillisecondArray::from_value(piece.ms, piece.rows));
        shared.truncate(SHARED_TIMES - 1);
        shared.push_front(Arc::clone(&times));
        times
    }
}

impl fmt::Debug for Phased {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Phased").field("columns", &self.columns).field("lengths", &self.lengths).finish_non_exhaustive()
    }
}

impl TableProvider for Phased {
    fn open(&self, request: &SourceRequest) -> Result<Box<dyn Source>, Diagnostic> {
        let column = |name: &str| self.columns.iter().position(|column| *column == name);
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
    table: Phased,
    /// The columns that the query reads, in its order.
    columns: Arc<[usize]>,
}

impl Source for Reading {
    fn splits(&mut self) -> Result<Vec<Box<dyn SplitReader>>, Diagnostic> {
        let table = self.table.clone();
        Ok(vec![Box::new(Pieces { table, phase: 0, in_phase: 0, number: 0, began: None })])
    }

    fn decoder(&self) -> Arc<dyn Decoder> {
        Arc::new(self.clone())
    }

    fn is_bounded(&self) -> bool {
        true
    }
}

/// Rows to be handed over.
struct Piece {
    phase: usize,
    /// Pieces of the phase before it.
    at: u64,
    rows: usize,
    /// Event time.
    ms: i64,
}

/// Hands out pieces.
struct Pieces {
    table: Phased,
    phase: usize,
    /// Pieces of the phase, and of the stream, that were handed out.
    in_phase: u64,
    number: u64,
    /// When the phase began.
    began: Option<Instant>,
}

impl Pieces {
    /// Whether the phase has had all its pieces; it has one at least.
    fn has_ended(&mut self) -> bool {
        let began = *self.began.get_or_insert_with(Instant::now);
        self.in_phase > 0
            && match &self.table.lengths {
                Lengths::Clock(duration, _) => began.elapsed() >= *duration,
                Lengths::Blocks(blocks) => self.in_phase == blocks[self.phase],
                Lengths::Paced(ms, ..) => self.in_phase == *ms,
            }
    }

    /// The next piece, when it is due.
    fn piece(&self) -> Piece {
        let Lengths::Paced(_, rows, clock) = &self.table.lengths else {
            let ms = (self.number / BLOCKS_PER_MS) as i64;
            return Piece { phase: self.phase, at: self.in_phase, rows: BLOCK, ms };
        };
        let due = Duration::from_millis(self.number + 1);
        let elapsed = clock.get_or_init(Instant::now).elapsed();
        // Sleeping takes some 50 µs more than asked for. Waiting busily would take a core from the workers.
        std::thread::sleep(due.saturating_sub(elapsed));
        Piece { phase: self.phase, at: self.in_phase, rows: rows[self.phase], ms: self.number as i64 }
    }
}

impl SplitReader for Pieces {
    fn name(&self) -> &str {
        "phases"
    }

    fn never_waits(&self) -> bool {
        !matches!(self.table.lengths, Lengths::Paced(..))
    }

    fn next(&mut self) -> Result<Option<Chunk>, Diagnostic> {
        if self.has_ended() {
            if let Lengths::Clock(_, noted) = &self.table.lengths {
                noted.lock().unwrap_or_else(PoisonError::into_inner).push(self.in_phase);
            }
            (self.phase, self.in_phase, self.began) = (self.phase + 1, 0, None);
            if self.phase == self.table.phases.len() {
                return Ok(None);
            }
        }
        let piece = self.piece();
        self.in_phase += 1;
        self.number += 1;
        Ok(Some(Chunk { payload: Box::new(piece), bytes: 0, after: None }))
    }
}

impl Decoder for Reading {
    fn decode(&self, chunk: Chunk) -> Decoded {
        let Ok(piece) = chunk.payload.downcast::<Piece>() else {
            let error = Some(Diagnostic::bug("a chunk of another source reached the phases"));
            return Decoded { error, ..Decoded::default() };
        };
        let phase = &self.table.phases[piece.phase];
        let slice = |column: &ArrayRef| phase.slice(column, piece.at, piece.rows);
        let column = |at: &usize| phase.columns.get(*at).map_or_else(|| self.table.times(&piece), slice);
        Decoded { columns: self.columns.iter().map(column).collect(), rows: piece.rows, ..Decoded::default() }
    }
}
