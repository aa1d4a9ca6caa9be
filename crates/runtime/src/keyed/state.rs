//! What a keyed operator is to the partitions that it works on: a state that consumes rows, and what it works with.

use super::batch::Batch;
use super::key_share::KeyShare;
use super::output::Output;
use super::versions::Versioned;
use crate::buffer::Rows;
use crate::columns::{bytes_of, sliced};
use crate::executable_plan::OperatorCode;
use crate::row_errors::RowErrors;
use crate::stats::QueryStats;
use arrow_array::ArrayRef;
use millstream_functions::FunctionContext;
use millstream_plan::window::Timeline;
use millstream_storage::{ByteReader, ByteWriter};
use millstream_types::Diagnostic;
use std::any::Any;

/// What one partition of an operator remembers.
pub(crate) trait State: Any + Send {
    /// Consumes rows, one batch for each input, in merged order, and outputs what is complete when the watermark has reached
    /// a time of the operator's timeline.
    fn advance(&mut self, inputs: Vec<Batch>, reached: i64, work: &mut Work<'_>) -> Result<(), Diagnostic>;

    /// All rows of a beat have been consumed: outputs what has changed. Only of operators that end beats.
    fn end_beat(&mut self, _work: &mut Work<'_>) -> Result<(), Diagnostic> {
        Ok(())
    }

    /// The smallest time to be reached (regular joins: time of [`Work::now_ms`]) at which there is something to do even if no row
    /// comes; `i64::MAX` when there is none before the end.
    fn due(&self) -> i64 {
        i64::MAX
    }

    /// Bytes of memory, about; asked for after every job, so it has to be cheap.
    fn bytes(&mut self) -> usize;

    /// Whether memory is plenty from now on; if not, what is kept in buffers of others becomes its own.
    fn settle(&mut self, _is_plenty: bool) -> Result<(), Diagnostic> {
        Ok(())
    }

    /// The same, if it notes what changes, so that checkpoints need not write all of it.
    fn versioned(&mut self) -> Option<&mut dyn Versioned> {
        None
    }

    /// Writes all of it, between two calls of [`State::advance`]; of operators that end beats, between two beats.
    fn save(&self, out: &mut ByteWriter) -> Result<(), Diagnostic>;

    /// Takes over what [`State::save`] of a state of the same operator has written, perhaps in another process; `self` is fresh.
    ///
    /// Times of [`Work::now_ms`] are written relative to the last call of `advance`, and taken as if that had been at
    /// `now_ms`: for a query that has just started at 0, because rows of regular joins do not get older while nothing runs.
    ///
    /// # Errors
    /// `CHECKPOINT_DAMAGED`, when the bytes are something else. The state is not to be used then.
    fn restore(&mut self, from: &mut ByteReader<'_>, now_ms: i64) -> Result<(), Diagnostic>;

    /// Takes over the keys of a share from a state of the same operator, which nobody uses afterwards. `self` has none of them, and is fresh
    /// but for what it has taken over before; the other has been restored. Times stay what they are, and entries get other numbers.
    fn absorb(&mut self, other: &mut dyn State, share: &mut KeyShare<'_>) -> Result<(), Diagnostic>;
}

/// What a job works with.
pub(crate) struct Work<'a> {
    /// The operator's programs.
    pub(crate) code: &'a OperatorCode,
    /// The worker's.
    pub(crate) functions: &'a mut FunctionContext,
    /// What becomes of rows that cannot be processed.
    pub(crate) errors: RowErrors<'a>,
    /// Counters.
    pub(crate) stats: &'a QueryStats,
    /// Most rows of an output buffer.
    pub(crate) most_rows: usize,
    /// Whether strings that are output are in buffers of tables in memory.
    pub(crate) are_of_table: bool,
    /// Whether little is left of the memory budget, so that what is dead should be forgotten soon.
    pub(crate) is_tight: bool,
    /// Whether rows without keys come to this partition.
    pub(crate) is_home: bool,
    /// Milliseconds since the query started.
    pub(crate) now_ms: i64,
    /// What the watermark of the output is behind the operator's.
    pub(crate) held_back_ms: i64,
    /// What the times of windows are.
    pub(crate) timeline: Timeline,
    /// `window_time` of the rows that are output; of operators without windows what the job's watermark has reached.
    pub(crate) window: i64,
    /// Output so far, with its window, in order of windows.
    pub(crate) output: Output<'a>,
}

impl Work<'_> {
    /// Adds rows of the window to the output, or rows whose order nobody can rely on.
    pub(crate) fn emit(&mut self, columns: Vec<ArrayRef>, rows: usize) {
        self.push(columns, rows, None);
    }

    /// Adds rows to the output, each with the highest watermark of the operator under which it is not put out. The rows of one
    /// watermark come in an order that depends on the input alone; so does then their place ([`Ordinal`](millstream_state::Ordinal)).
    pub(crate) fn emit_behind(&mut self, columns: Vec<ArrayRef>, mut watermarks: Vec<i64>) {
        watermarks.iter_mut().for_each(|watermark| *watermark = watermark.saturating_sub(self.held_back_ms));
        self.push(columns, watermarks.len(), Some(&watermarks));
    }

    /// Adds rows of several windows to the output, which come one window after the other: `windows` has that of each row.
    pub(crate) fn emit_by_window(&mut self, columns: &[ArrayRef], windows: &[i64]) {
        let mut first = 0;
        for of_window in windows.chunk_by(|a, b| a == b) {
            self.window = of_window[0];
            self.push(sliced(columns, first, of_window.len()), of_window.len(), None);
            first += of_window.len();
        }
    }

    fn push(&mut self, columns: Vec<ArrayRef>, rows: usize, watermarks: Option<&[i64]>) {
        let bytes = bytes_of(&columns) / rows.max(1);
        for first in (0..rows).step_by(self.most_rows) {
            let length = self.most_rows.min(rows - first);
            let columns = sliced(&columns, first, length);
            let watermarks = watermarks.map(|all| all[first..first + length].to_vec());
            let are_of_table = self.are_of_table;
            let rows = Rows { columns, rows: length, watermarks, are_of_table, ..Rows::default() };
            self.output.push(self.window, rows, bytes * length);
        }
    }
}

/// When waiting rows make a job necessary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// As soon as the watermark lets them be consumed.
    Consumed,
    /// When the watermark reaches their time plus this: nothing of them is output before.
    Time(i64),
    /// Those of the left when the watermark reaches their time; those of the right with others.
    LeftTime,
    /// At once, whatever the watermark is.
    Arrival,
}
