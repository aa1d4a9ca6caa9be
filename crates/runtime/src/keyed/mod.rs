//! Keyed operators: joins, ranks, OVER, sessions and count windows (design section 1, idea 2).
//!
//! ```text
//! pipeline ─ rows with the hash of their key ─► exchange ─┬► inbox of partition 0 ─ job ─► state ─► unit of the output
//! (any worker, any order)                                 ├► inbox of partition 1 ─ job ─► state ─► unit of the output
//!                                                         └► …          (one worker at a time)
//! ```
//!
//! A process task routes the rows of its buffer to the inboxes of the partitions of their keys: see [`partition_bits`].
//! When the operator's watermark advances to *W*, every partition that has something due gets a *job*: it takes the rows
//! with a watermark before them below *W* out of the inbox, which have all come, puts them in merged order and lets the
//! partition's [`State`] consume them. So state changes in the same order in every run, without a lock while a row is
//! processed, and partitions proceed independently on all workers.
//!
//! When memory is short, states and waiting rows of partitions are in files (`spilling`, `kept`, `inbox`), and the operator acts
//! on its watermark in larger steps (`rounds`). A job that puts out more than a part of the budget does so by files (`output`).
//!
//! The units of the output stream are numbered when jobs are made; the watermark follows behind them.

mod batch;
mod behind;
mod counts;
mod cut;
mod driver;
mod encoding;
mod fifo;
mod groups;
mod inbox;
mod kept;
mod order;
mod output;
mod over;
mod over_order;
mod pairs;
mod rank;
mod rounds;
mod session_rows;
mod sessions;
mod slots;
mod spilling;
mod store;
mod stream_join;
mod versioned_join;
mod window_join;

#[cfg(test)]
mod tests;

use crate::buffer::Rows;
use crate::columns::{bytes_of, sliced};
use crate::input::OperatorCode;
use crate::row_errors::RowErrors;
use crate::stats::QueryStats;
use arrow_array::ArrayRef;
use batch::Batch;
pub(crate) use behind::most_behind;
pub(crate) use driver::{KeyedRuntime, KeyedTask};
use millstream_functions::FunctionContext;
use millstream_plan::logical::Frame;
use millstream_plan::pipeline::{KeyedKind, KeyedOperator};
use millstream_plan::window::Timeline;
use millstream_storage::{ByteReader, ByteWriter};
use millstream_types::Diagnostic;
use output::Output;
pub(crate) use output::SpooledOutput;

/// Bits of the hash of a key that choose its partition, usually.
const FEWEST_BITS: u32 = 6;
/// The same where memory is little.
const MOST_BITS: u32 = 8;
/// Where memory is little: a budget of less than so many bytes.
const LITTLE: u64 = 512 << 20;
/// Where it is so little that of more partitions each would be a file of a few kilobytes.
const LEAST: u64 = 32 << 20;

/// How many bits of the hash of a key choose its partition in a query that has so many bytes and may spill, or not. One partition
/// has to fit into memory with what its jobs need, beside those that other workers are at, when all of them together are many times
/// as large as memory. So there are more where that is little, although routing rows costs more then: of ten million sessions one of
/// 64 partitions takes 44 MiB. Which rows are output does not depend on it, and a query that is recovered keeps what it had.
pub(crate) fn partition_bits(limit: u64, may_spill: bool) -> u32 {
    if may_spill && (LEAST..LITTLE).contains(&limit) { MOST_BITS } else { FEWEST_BITS }
}

/// The bits that there are so many partitions by, if so many there can be.
pub(crate) fn bits_of_partitions(partitions: usize) -> Option<u32> {
    [FEWEST_BITS, MOST_BITS].into_iter().find(|bits| partitions == 1 << bits)
}

/// What one partition of an operator remembers.
pub(crate) trait State: Send {
    /// Consumes rows, one batch for each input, in merged order, and outputs what is complete when the watermark has reached
    /// a time of the operator's timeline.
    fn advance(&mut self, inputs: Vec<Batch>, reached: i64, work: &mut Work<'_>) -> Result<(), Diagnostic>;

    /// The smallest time to be reached (regular joins: time of [`Work::now_ms`]) at which there is something to do even if no row
    /// comes; `i64::MAX` when there is none before the end.
    fn due(&self) -> i64;

    /// Bytes of memory, about; asked for after every job, so it has to be cheap.
    fn bytes(&mut self) -> usize;

    /// Writes all of it, between two calls of [`State::advance`].
    fn save(&self, out: &mut ByteWriter) -> Result<(), Diagnostic>;

    /// Takes over what [`State::save`] of a state of the same operator has written, perhaps in another process; `self` is fresh.
    ///
    /// Times of [`Work::now_ms`] are written relative to the last call of `advance`, and taken as if that had been at
    /// `now_ms`: for a query that has just started at 0, because rows of regular joins do not get older while nothing runs.
    ///
    /// # Errors
    /// `CHECKPOINT_DAMAGED`, when the bytes are something else. The state is not to be used then.
    fn restore(&mut self, from: &mut ByteReader<'_>, now_ms: i64) -> Result<(), Diagnostic>;
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
    /// Whether little is left of the memory budget, so that what is dead should be forgotten soon.
    pub(crate) is_tight: bool,
    /// Milliseconds since the query started.
    pub(crate) now_ms: i64,
    /// What the times of windows are.
    pub(crate) timeline: Timeline,
    /// `window_time` of the rows that are output; of operators without windows what the job's watermark has reached.
    pub(crate) window: i64,
    /// Output so far, with its window, in order of windows.
    pub(crate) output: Output<'a>,
}

impl Work<'_> {
    /// Adds rows to the output, none of which is late there.
    pub(crate) fn emit(&mut self, columns: Vec<ArrayRef>, rows: usize) {
        self.emit_behind(columns, rows, None);
    }

    /// Adds rows to the output, with the watermarks that some of them come behind, as [`Rows::watermarks`].
    pub(crate) fn emit_behind(&mut self, columns: Vec<ArrayRef>, rows: usize, watermarks: Option<&[i64]>) {
        let bytes = bytes_of(&columns) / rows.max(1);
        for first in (0..rows).step_by(self.most_rows) {
            let length = self.most_rows.min(rows - first);
            let columns = sliced(&columns, first, length);
            let watermarks = watermarks.map(|all| all[first..first + length].to_vec());
            let rows = Rows { columns, rows: length, watermarks, ..Rows::default() };
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

impl Due {
    fn of(kind: &KeyedKind) -> Due {
        match kind {
            KeyedKind::WindowJoin { .. } | KeyedKind::Rank { .. } | KeyedKind::Over { .. } => Due::Time(0),
            KeyedKind::SessionAggregate { gap_ms, .. } | KeyedKind::SessionRows { gap_ms } => Due::Time(gap_ms - 1),
            KeyedKind::VersionedJoin { .. } => Due::LeftTime,
            KeyedKind::IntervalJoin { .. } | KeyedKind::CountAggregate { .. } | KeyedKind::CountRows { .. } => {
                Due::Consumed
            }
            KeyedKind::RegularJoin { .. } => Due::Arrival,
        }
    }
}

/// The state of a partition at its start.
fn state_of(plan: &KeyedOperator, code: &OperatorCode) -> Result<Box<dyn State>, Diagnostic> {
    Ok(match &plan.kind {
        KeyedKind::WindowJoin { kind, .. } => Box::new(window_join::WindowJoin::new(plan, *kind, code)?),
        KeyedKind::IntervalJoin { kind, lower_ms, upper_ms, .. } => {
            Box::new(stream_join::StreamJoin::interval(plan, *kind, *lower_ms, *upper_ms, code)?)
        }
        KeyedKind::RegularJoin { ttl_ms, .. } => Box::new(stream_join::StreamJoin::regular(plan, *ttl_ms, code)?),
        KeyedKind::VersionedJoin { kind, .. } => Box::new(versioned_join::VersionedJoin::new(plan, *kind, code)?),
        KeyedKind::Rank { order, function, range } => {
            Box::new(rank::Rank::new(plan, order.clone(), *function, *range, code)?)
        }
        KeyedKind::Over { frame, aggregates } => Box::new(over::Over::new(plan, *frame, aggregates, code)?),
        KeyedKind::SessionAggregate { gap_ms, aggregates } => {
            Box::new(sessions::SessionAggregate::new(plan, *gap_ms, aggregates, code)?)
        }
        KeyedKind::SessionRows { gap_ms } => Box::new(session_rows::SessionRows::new(plan, *gap_ms, code)?),
        KeyedKind::CountAggregate { size, slide, aggregates } => {
            Box::new(counts::CountAggregate::new(plan, *size, *slide, aggregates, code)?)
        }
        KeyedKind::CountRows { size, slide } => Box::new(counts::CountRows::new(plan, *size, *slide, code)?),
    })
}

/// Checks that an operator has the parts that its kind needs, so that states may rely on them.
fn check(plan: &KeyedOperator, code: &OperatorCode) -> Result<(), Diagnostic> {
    let is_join = matches!(
        plan.kind,
        KeyedKind::WindowJoin { .. }
            | KeyedKind::IntervalJoin { .. }
            | KeyedKind::RegularJoin { .. }
            | KeyedKind::VersionedJoin { .. }
    );
    let inputs = if is_join { 2 } else { 1 };
    let mut needs_time = true;
    let mut needs_slots = false;
    match &plan.kind {
        KeyedKind::RegularJoin { .. } => needs_time = false,
        KeyedKind::Over { frame, .. } => {
            needs_slots = true;
            needs_time = matches!(frame, Frame::Range(Some(_)));
        }
        KeyedKind::SessionAggregate { .. } | KeyedKind::CountAggregate { .. } => needs_slots = true,
        _ => {}
    }
    let residual = match &plan.kind {
        KeyedKind::WindowJoin { residual, .. }
        | KeyedKind::IntervalJoin { residual, .. }
        | KeyedKind::RegularJoin { residual, .. }
        | KeyedKind::VersionedJoin { residual, .. } => residual.is_some(),
        _ => false,
    };
    let fits = plan.inputs.len() == inputs
        && code.keys.len() == inputs
        && (!needs_time || plan.inputs.iter().all(|i| i.time.is_some()))
        && code.slots.is_some() == needs_slots
        && code.residual.is_some() == residual;
    if !fits {
        return Err(Diagnostic::bug("a keyed operator lacks a part that its kind needs"));
    }
    Ok(())
}
