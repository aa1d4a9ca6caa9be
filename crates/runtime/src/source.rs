//! Sources at run time: their splits, the threads that read them, and how chunks become units of a stream.

use crate::buffer::Rows;
use crate::columns::sliced;
use crate::event_time::{EventTime, RowTimes};
use crate::flow::{Others, Permit};
use crate::plan_graph::Constant;
use crate::processing_time::machine_time;
use crate::query::Query;
use crate::row_errors::RowErrors;
use crate::sequencer::Unit;
use crate::skipping::Skipping;
use crate::stream::StreamId;
use crate::task::{DecodeTask, Task};
use crate::timers::{after, earlier};
use arc_swap::ArcSwap;
use millstream_connectors::{Acknowledger, Chunk, Decoded, Decoder, Position, SplitReader, Witness};
use millstream_functions::FunctionContext;
use millstream_storage::SplitState;
use millstream_sync::epochs::End;
use millstream_types::Diagnostic;
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::VecDeque;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// A source of the plan.
pub(crate) struct SourceRuntime {
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
    /// Threads that read them.
    pub(crate) readers: usize,
    /// Who is told of complete checkpoints, until the checkpointing thread has it.
    pub(crate) acknowledger: Mutex<Option<Box<dyn Acknowledger>>>,
    /// Constant rows, until the start.
    pub(crate) constant: Mutex<Option<Constant>>,
}

/// The number of a split with its reader.
pub(crate) type Unread = (usize, Option<Box<dyn SplitReader>>);

/// A record that a reader has to hold as a whole may have one in so many bytes of the budget: its columns and what becomes of them
/// are as large again.
const RECORD_SHARE: u64 = 4;

/// A split of a source.
pub(crate) struct Split {
    pub(crate) stream: StreamId,
    /// Set again when the reader has found what it waited for.
    name: ArcSwap<String>,
    /// Whether it waits for something to read, and is not part of checkpoints. Written by its reader alone, before its first
    /// chunk is handed over.
    is_spare: AtomicBool,
    /// Whether it was so at first.
    was_spare: bool,
    /// How its reader begins.
    begin: Begin,
    input: Described,
    progress: Mutex<Reading>,
}

/// Who describes what is read of a split.
#[derive(Debug, Default)]
pub(crate) struct Described {
    pub(crate) witness: Option<Arc<dyn Witness>>,
    /// What the checkpoint says that the query was recovered from.
    pub(crate) before: Option<Value>,
}

/// How a reader begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begin {
    /// As the table's options say.
    Fresh,
    /// Where a checkpoint was taken; `None` if the split is younger than that.
    Resume(Option<Position>),
    /// It had been read to its end when the checkpoint was taken.
    Ended,
}

/// How far a split has been read. Its lock is taken before that of the stream and of aggregations.
#[derive(Debug, Default)]
struct Reading {
    units: u64,
    ended: bool,
    /// When the reader started or last brought a chunk.
    active: Option<Instant>,
    idle: bool,
}

impl Split {
    pub(crate) fn new(stream: StreamId, name: &str, begin: Begin, is_spare: bool, input: Described) -> Split {
        let (name, was_spare) = (ArcSwap::from_pointee(name.into()), is_spare);
        let is_spare = AtomicBool::new(is_spare);
        Split { stream, name, is_spare, was_spare, begin, input, progress: Mutex::new(Reading::default()) }
    }

    /// What was read of it up to a position, or to its end, for a checkpoint. May wait for the disk.
    pub(crate) fn describe(&self, at: Option<Position>, has_ended: bool) -> Option<Value> {
        let now = self.input.witness.as_ref().and_then(|witness| witness.describe(at, has_ended));
        // Nothing has been read since the last checkpoint of an earlier process.
        now.or_else(|| self.input.before.clone())
    }

    /// The same for the last checkpoint, with the number of its stream and the rows that came of it; `None` if nothing has.
    pub(crate) fn as_read(&self, stream: u32, rows: u64) -> Option<SplitState> {
        let (name, ended) = (self.name().to_string(), self.progress.lock().ended);
        let state = SplitState { name, stream, rows, watermark: i64::MAX, ended, ..SplitState::default() };
        (!self.is_spare()).then_some(state)
    }

    /// Whether it was spare at first.
    pub(crate) fn was_spare(&self) -> bool {
        self.was_spare
    }

    /// Whether nothing has come of it and perhaps never will.
    pub(crate) fn is_spare(&self) -> bool {
        self.is_spare.load(Relaxed)
    }

    /// Its name.
    pub(crate) fn name(&self) -> Arc<String> {
        self.name.load_full()
    }
}

impl SourceRuntime {
    /// The stream of its first split; those of the others follow.
    pub(crate) fn first_stream(&self) -> StreamId {
        self.splits.first().map_or(0, |split| split.stream)
    }

    /// Cuts decoded columns into buffers.
    pub(crate) fn unit(
        &self,
        decoded: Decoded,
        most_rows: usize,
        permit: Option<Arc<Permit>>,
        functions: &mut FunctionContext,
        errors: &mut RowErrors<'_>,
    ) -> Result<Unit, Diagnostic> {
        let Decoded { mut columns, mut rows, error, .. } = decoded;
        let mut times: Option<RowTimes> = None;
        if let Some(event_time) = self.event_time.as_ref().filter(|_| rows > 0) {
            let timed = event_time.attach(columns, rows, functions, &mut |e| errors.take(e))?;
            (columns, rows, times) = (timed.columns, timed.rows, Some(timed.times));
        }
        let cut = |start: usize| {
            let length = most_rows.min(rows - start);
            Rows {
                columns: sliced(&columns, start, length),
                rows: length,
                times: times.as_ref().map(|t| t.slice(start, length)),
                watermarks: None,
                permit: permit.clone(),
            }
        };
        let cuts = (0..rows).step_by(most_rows).map(cut).collect();
        Ok(Unit { rows: cuts, error: errors.fatal().or(error), ..Unit::default() })
    }
}

impl Others for Query {
    fn are_at_rest(&self) -> bool {
        self.scheduler.queued() == 0 && self.scheduler.idle() == self.config.workers
    }

    fn spill(&self) {
        self.spill_if_needed();
    }
}

impl Query {
    /// Lets the sources of some phases begin.
    pub(crate) fn open_phases(&self, phases: Range<usize>) {
        for source in 0..self.sources.len() {
            if phases.contains(&self.plan.sources[source].phase)
                && let Err(diagnostic) = self.deliver_constant(source)
            {
                self.fail(diagnostic);
            }
        }
    }

    /// Delivers the rows of a constant source.
    fn deliver_constant(&self, source: usize) -> Result<(), Diagnostic> {
        let runtime = &self.sources[source];
        let Some((columns, rows)) = runtime.constant.lock().take() else { return Ok(()) };
        if std::mem::replace(&mut runtime.splits[0].progress.lock().ended, true) {
            return Ok(());
        }
        if runtime.splits[0].begin == Begin::Ended {
            let end = Some(End::Complete);
            self.deliver(runtime.splits[0].stream, 0, Unit { end, ..Unit::default() });
            return Ok(());
        }
        let mut functions = FunctionContext::new(self.config.settings.clone());
        let mut errors = RowErrors::new(self.config.error_policy, &self.stats);
        let decoded = Decoded { columns, rows, ..Decoded::default() };
        self.stats.sources[source].split(0).rows.fetch_add(rows as u64, Relaxed);
        let unit = runtime.unit(decoded, self.buffer_size.rows(), None, &mut functions, &mut errors)?;
        self.deliver(runtime.splits[0].stream, 0, Unit { end: Some(End::Complete), ..unit });
        Ok(())
    }

    /// Reads splits of a source until there are no more, or the query ends. The body of a reader thread.
    pub(crate) fn read(&self, source: usize) {
        self.phases.wait(self.plan.sources[source].phase, || self.is_stopping());
        loop {
            let Some((split, reader)) = self.sources[source].unread.lock().pop_front() else { return };
            if self.is_over() {
                return;
            }
            let Some(mut reader) = reader.filter(|_| self.sources[source].splits[split].begin != Begin::Ended) else {
                self.end_split(source, split, End::Complete);
                continue;
            };
            if self.is_stopping() {
                self.end_split(source, split, End::Stopped);
                continue;
            }
            let outcome = catch_unwind(AssertUnwindSafe(|| self.read_split(source, split, &mut *reader)));
            match outcome {
                Ok(Ok(())) => {}
                Ok(Err(diagnostic)) => return self.fail(diagnostic),
                Err(panic) => return self.fail(crate::query::panicked("a reader", &*panic)),
            }
        }
    }

    fn read_split(&self, source: usize, split: usize, reader: &mut dyn SplitReader) -> Result<(), Diagnostic> {
        let runtime = &self.sources[source].splits[split];
        match runtime.begin {
            Begin::Resume(from) => reader.resume(from)?,
            Begin::Fresh | Begin::Ended => {}
        }
        reader.limit_records(usize::try_from(self.flow.budget.limit() / RECORD_SHARE).unwrap_or(usize::MAX));
        if runtime.is_spare() {
            // Nobody waits for what may never come: it is idle until it has something.
            runtime.progress.lock().idle = true;
            self.stats.sources[source].split(split).is_idle.store(true, Relaxed);
            self.set_idle(runtime.stream, true);
        } else {
            self.heard(source, &mut runtime.progress.lock());
            self.flow.begin(runtime.stream);
        }
        while !self.is_stopping() {
            reader.aim(self.flow.aim());
            if !reader.wait()? {
                continue;
            }
            match reader.next()? {
                Some(chunk) => {
                    if *reader.name() != **runtime.name.load() {
                        runtime.name.store(Arc::new(reader.name().to_string()));
                    }
                    if runtime.is_spare.swap(false, Relaxed) {
                        self.flow.begin(runtime.stream);
                    }
                    self.hand_over_chunk(source, split, chunk)?;
                }
                None => {
                    self.end_split(source, split, End::Complete);
                    return Ok(());
                }
            }
        }
        if !self.is_over() {
            self.end_split(source, split, End::Stopped);
        }
        Ok(())
    }

    /// Has a chunk decoded, once there is room for it.
    fn hand_over_chunk(&self, source: usize, split: usize, chunk: Chunk) -> Result<(), Diagnostic> {
        let runtime = &self.sources[source].splits[split];
        // A reader that waits for room is not silent.
        runtime.progress.lock().active = None;
        let permit = self.flow.acquire(runtime.stream, chunk.bytes, self)?;
        let mut reading = runtime.progress.lock();
        if reading.ended {
            return Ok(());
        }
        self.heard(source, &mut reading);
        if std::mem::take(&mut reading.idle) {
            self.stats.sources[source].split(split).is_idle.store(false, Relaxed);
            self.wake_split(runtime.stream);
        }
        let unit = reading.units;
        reading.units += 1;
        drop(reading);
        let stats = self.stats.sources[source].split(split);
        stats.read.fetch_add(1, Relaxed);
        stats.bytes.fetch_add(chunk.bytes, Relaxed);
        self.scheduler.push(vec![Task::Decode(DecodeTask { stream: runtime.stream, unit, chunk, permit })]);
        Ok(())
    }

    /// Ends a split after what was handed over, unless it has ended.
    pub(crate) fn end_split(&self, source: usize, split: usize, end: End) {
        let runtime = &self.sources[source].splits[split];
        let mut reading = runtime.progress.lock();
        if std::mem::replace(&mut reading.ended, true) {
            return;
        }
        let unit = reading.units;
        drop(reading);
        self.stats.sources[source].split(split).has_ended.store(true, Relaxed);
        self.flow.set_silent(runtime.stream, true);
        if end == End::Stopped {
            self.cut_short();
        }
        self.deliver(runtime.stream, unit, Unit { end: Some(end), ..Unit::default() });
    }

    /// Lets the watermarks of sources without event time follow the clock, if it has reached one that someone waits for;
    /// when it will reach the next.
    pub(crate) fn follow_clock(&self, now: Instant) -> Option<Instant> {
        let due = self.timers.clock_due(machine_time());
        if due.reached {
            for stream in self.sources.iter().filter(|s| s.follows_clock).flat_map(|s| &s.splits).map(|s| s.stream) {
                let consequences = self.streams[stream].tick();
                self.act_on(stream, consequences);
            }
        }
        due.next_ms.and_then(|ms| after(now, ms))
    }

    /// Leaves splits out of the watermark that have been silent for their source's timeout and whose rows have all been
    /// processed; when the next one may be.
    pub(crate) fn find_idle_splits(&self, now: Instant) -> Option<Instant> {
        let mut next = None;
        for (source, stats) in self.sources.iter().zip(&self.stats.sources) {
            let Some(timeout) = source.idle_timeout else { continue };
            for (number, split) in source.splits.iter().enumerate() {
                let mut reading = split.progress.lock();
                let Some(active) = reading.active.filter(|_| !reading.ended && !reading.idle) else { continue };
                let due = active.checked_add(timeout);
                if due.is_none_or(|due| due > now) {
                    next = earlier(next, due);
                } else if self.streams[split.stream].is_drained(reading.units) {
                    reading.idle = true;
                    stats.split(number).is_idle.store(true, Relaxed);
                    self.flow.set_silent(split.stream, true);
                    self.set_idle(split.stream, true);
                } else {
                    // Its last rows are being processed, so it will not take long.
                    next = earlier(next, after(now, self.config.flush_interval_ms.max(1)));
                }
            }
        }
        next
    }

    /// A split is not silent now.
    fn heard(&self, source: usize, reading: &mut Reading) {
        let now = Instant::now();
        reading.active = Some(now);
        if let Some(due) = self.sources[source].idle_timeout.and_then(|timeout| now.checked_add(timeout)) {
            self.due_at(due);
        }
    }

    /// A silent split speaks again: it holds the watermark from now on, and its rows come after what was decided
    /// without it, or a row could be accepted for a window that has been fired.
    fn wake_split(&self, stream: StreamId) {
        self.flow.set_silent(stream, false);
        let floor = self.set_idle(stream, false);
        let consequences = self.streams[stream].raise(floor);
        self.act_on(stream, consequences);
    }

    /// Sets the stream idle or not for all aggregations and keyed operators that it reaches; the highest watermark that
    /// one of them has acted on.
    fn set_idle(&self, stream: StreamId, idle: bool) -> i64 {
        let channels = self.streams[stream].channels.iter();
        channels.map(|&channel| self.set_channel_idle(channel, idle)).max().unwrap_or(i64::MIN)
    }
}
