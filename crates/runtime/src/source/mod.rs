//! Sources: what their chunks become. Threads that read them are in `reader`.

pub(crate) mod event_time;
pub(crate) mod open_split;
pub(crate) mod phases;
pub(crate) mod processing_time;
pub(crate) mod pulled;
pub(crate) mod reader;
pub(crate) mod skipping;
pub(crate) mod split;

use crate::buffer::{Rows, list_of_rows};
use crate::columns::{all_joined, bytes_of, sliced};
use crate::host::Host;
use crate::ids::StreamId;
use crate::row_errors::RowErrors;
use crate::schedule::flow::Permit;
use crate::station::DecodeTask;
use crate::stream::sequencer::Unit;
use arrow_array::{ArrayRef, new_empty_array};
use event_time::{EventTime, RowTimes};
use millstream_connectors::drop_columns;
use millstream_connectors::{Acknowledger, Decoded, Decoder, SplitReader};
use millstream_functions::FunctionContext;
use millstream_plan::pipeline::{SourceColumn, SourcePlan};
use millstream_sync::epoch_ring::End;
use millstream_types::{Diagnostic, RecordPlace};
use parking_lot::Mutex;
use skipping::Skipping;
use split::{Begin, Split};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Columns and rows of a constant source.
pub(crate) type Constant = (Vec<ArrayRef>, usize);

/// A source of the plan.
pub(crate) struct SourceRuntime {
    /// In the places of its rows; see [`StreamNumber`](crate::ids::StreamNumber).
    pub(crate) number: u16,
    /// `None` for constant rows.
    pub(crate) decoder: Option<Arc<dyn Decoder>>,
    pub(crate) event_time: Option<EventTime>,
    /// What may be left out when chunks are decoded.
    pub(crate) skipping: Option<Skipping>,
    /// Whether time is that of processing.
    pub(crate) follows_clock: bool,
    pub(crate) splits: Vec<Split>,
    pub(crate) idle_timeout: Option<Duration>,
    /// Splits that no thread has begun to read, in order; without a reader those that had ended before.
    pub(crate) unread: Mutex<VecDeque<Unread>>,
    /// How many of them are read at a time.
    pub(crate) readers: usize,
    /// Whether workers read them, and not threads: see [`pulled`].
    pub(crate) is_pulled: bool,
    /// Who is told of complete checkpoints, until the checkpointing thread has it.
    pub(crate) acknowledger: Mutex<Option<Box<dyn Acknowledger>>>,
    /// Constant rows, until the start.
    pub(crate) constant: Mutex<Option<Constant>>,
}

/// The number of a split with its reader.
pub(crate) type Unread = (usize, Option<Box<dyn SplitReader>>);

impl SourceRuntime {
    /// The stream of its first split; those of the others follow.
    pub(crate) fn first_stream(&self) -> Option<StreamId> {
        self.splits.first().map(|split| split.stream)
    }

    /// Cuts decoded columns into buffers.
    fn unit(
        &self,
        decoded: Decoded,
        most_rows: usize,
        permit: Option<Arc<Permit>>,
        functions: &mut FunctionContext,
        errors: &mut RowErrors<'_>,
    ) -> Result<Unit, Diagnostic> {
        let Decoded { mut columns, mut rows, error, in_memory, .. } = decoded;
        let mut times: Option<RowTimes> = None;
        if let Some(event_time) = self.event_time.as_ref().filter(|_| rows > 0) {
            let timed = event_time.attach(columns, rows, in_memory.as_ref(), functions, &mut |e| errors.take(e))?;
            (columns, rows, times) = (timed.0, timed.1, Some(timed.2));
        }
        let cut = |start: usize| {
            let length = most_rows.min(rows - start);
            Rows {
                columns: sliced(&columns, start, length),
                rows: length,
                times: times.as_ref().map(|t| t.slice(start, length)),
                watermarks: None,
                are_of_table: in_memory.is_some(),
                permit: permit.clone(),
            }
        };
        let mut cuts = list_of_rows();
        cuts.extend((0..rows).step_by(most_rows).map(cut));
        drop_columns(columns);
        Ok(Unit { rows: cuts, error: errors.fatal().or(error), ..Unit::default() })
    }

    /// The unit of a constant source, once; `None` for others.
    pub(crate) fn constant_unit(&self, number: usize, host: &Host) -> Result<Option<Unit>, Diagnostic> {
        let Some((columns, rows)) = self.constant.lock().take() else { return Ok(None) };
        if std::mem::replace(&mut self.splits[0].reading.lock().ended, true) {
            return Ok(None);
        }
        let end = Some(End::Complete);
        if self.splits[0].begin == Begin::Ended {
            return Ok(Some(Unit { end, ..Unit::default() }));
        }
        let mut functions = FunctionContext::new(host.config.settings.clone());
        let mut errors = host.row_errors();
        let decoded = Decoded { columns, rows, ..Decoded::default() };
        host.stats.sources[number].split(0).rows.fetch_add(rows as u64, Relaxed);
        let unit = self.unit(decoded, host.buffer_size.rows(), None, &mut functions, &mut errors)?;
        Ok(Some(Unit { end, ..unit }))
    }

    /// Makes a unit of a chunk. Any worker does that, in any order. `waiting` tells how many tasks wait for a worker.
    pub(crate) fn decode(
        &self,
        plan: &SourcePlan,
        task: DecodeTask,
        (host, waiting): (&Host, &dyn Fn() -> usize),
        functions: &mut FunctionContext,
    ) -> Result<Unit, Diagnostic> {
        let decoder = self.decoder.as_ref().ok_or_else(|| Diagnostic::bug("constant rows have no decoder"))?;
        let counters = &host.stats.sources[task.split.source];
        let split = counters.split(task.split.split);
        split.begun.fetch_add(1, Relaxed);
        let after = task.more.last().unwrap_or(&task.chunk).after;
        let mut decode = |chunk| match &self.skipping {
            Some(skipping) => skipping.decode(&**decoder, chunk, functions, &host.stats),
            None => decoder.decode(chunk),
        };
        let mut decoded = decode(task.chunk);
        self.splits[task.split.split].chunk_rows.store(decoded.rows, Relaxed);
        if !task.more.is_empty() {
            let mut parts = vec![decoded];
            for chunk in task.more {
                if parts.last().is_some_and(|part| part.error.is_some()) {
                    break;
                }
                parts.push(decode(chunk));
            }
            decoded = one_after_the_other(parts)?;
        }
        let expected = plan.columns.len();
        if decoded.error.is_some() && decoded.rows == 0 && decoded.columns.is_empty() {
            // A decoder that could not even begin has no columns; its error is what counts.
            let data_type =
                |c: &SourceColumn| c.in_record.map_or_else(|| c.data_type.to_arrow(), RecordPlace::to_arrow);
            decoded.columns = plan.columns.iter().map(|c| new_empty_array(&data_type(c))).collect();
        }
        if decoded.columns.len() != expected || decoded.columns.iter().any(|c| c.len() != decoded.rows) {
            let message = format!("a decoder did not deliver {expected} columns of {} rows", decoded.rows);
            return Err(Diagnostic::bug(message));
        }
        split.rows.fetch_add(decoded.rows as u64, Relaxed);
        if decoded.rows > 0 {
            let whole = self.skipping.as_ref().map(|skipping| &*skipping.head.columns);
            counters.look_for_values(&decoded.columns, whole);
        }
        host.stats.skip_records(decoded.skipped, decoded.skipped_for.as_ref());
        let mut permit = task.permit;
        permit.decoded(bytes_of(&decoded.columns));
        // Of a split that workers read there always is more.
        let waiting = if self.is_pulled { usize::MAX } else { waiting() };
        host.buffer_size.observe(waiting, host.config.workers);
        let (most, permit) = (host.buffer_size.rows().min(host.most_rows_in_beats()), Some(permit.shared()));
        let unit = self.unit(decoded, most, permit, functions, &mut host.row_errors())?;
        split.chunks.fetch_add(1, Relaxed);
        let unit = if task.is_held { held(unit) } else { unit };
        Ok(Unit { after, ..unit })
    }
}

/// What several chunks of a split are decoded to, as one.
fn one_after_the_other(parts: Vec<Decoded>) -> Result<Decoded, Diagnostic> {
    let mut all = Decoded::default();
    for part in &parts {
        (all.rows, all.skipped) = (all.rows + part.rows, all.skipped + part.skipped);
        all.error = all.error.or_else(|| part.error.clone());
        all.skipped_for = all.skipped_for.or_else(|| part.skipped_for.clone());
    }
    // One that could not even begin has no columns.
    let columns = parts.iter().map(|part| &part.columns[..]).filter(|columns| !columns.is_empty());
    all.columns = all_joined(&columns.collect::<Vec<_>>())?;
    Ok(all)
}

/// A unit whose rows do not raise the watermark.
fn held(mut unit: Unit) -> Unit {
    for times in unit.rows.iter_mut().filter_map(|rows| rows.times.as_mut()) {
        unit.held = unit.held.max(Some(times.max_watermark));
        *times = times.clone().held();
    }
    unit
}
