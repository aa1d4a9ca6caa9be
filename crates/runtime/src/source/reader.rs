//! How splits are read, by threads of their own or by workers (`pulled`), and splits that fall silent.

use super::open_split::{OpenSplit, Pulled, ReadChunk, Told};
use super::split::{Begin, Reading, Split};
use crate::ids::{SplitId, StreamId};
use crate::query::{Query, caught};
use crate::schedule::flow::Permit;
use crate::schedule::timers::{after, earlier};
use crate::station::{Consequences, DecodeTask, Task};
use crate::stats::SplitStats;
use crate::stream::sequencer::Unit;
use millstream_connectors::{Chunk, Outlook, Position, SplitReader};
use millstream_sync::epoch_ring::End;
use millstream_types::Diagnostic;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// A record that a reader has to hold as a whole may take 1/`RECORD_SHARE` of the budget: its columns and what becomes
/// of them are as large again.
const RECORD_SHARE: u64 = 4;

/// Rows that chunks have together which become one buffer.
const JOINED_ROWS: usize = 4 << 10;
/// Most of these chunks.
const JOINED: usize = 64;

/// A split that is read, or that something else is done with.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    query: &'a Query,
    id: SplitId,
    split: &'a Split,
}

/// What comes next of a split.
pub(super) enum Step {
    Chunk(ReadChunk),
    /// Nothing yet.
    Waits,
    /// It has ended, and is told so.
    Ended,
}

/// Reads splits of a source until there are no more, or the query ends. The body of a reader thread, which may begin with a split
/// that workers have read so far.
pub(crate) fn read(query: &Query, source: usize, begun: Option<Pulled>) {
    query.wait_for_phase_of(source);
    let read = || {
        let mut begun = begun.and_then(|pulled| pulled.open);
        while let Some(open) = begun.take().map_or_else(|| open_next(query, source), |open| Ok(Some(open)))? {
            read_to_end(query, *open)?;
        }
        Ok(())
    };
    if let Err(diagnostic) = caught("a reader", read) {
        query.fail(diagnostic);
    }
}

/// Hands over all chunks of a split.
fn read_to_end(query: &Query, mut open: OpenSplit) -> Result<(), Diagnostic> {
    let this = Reader::new(query, open.id);
    loop {
        match this.read(&mut open)? {
            Step::Chunk(read) => this.hand_over(read)?,
            Step::Waits => {}
            Step::Ended => return Ok(()),
        }
    }
}

/// Begins with the next split of a source that there is something to read of.
pub(super) fn open_next(query: &Query, source: usize) -> Result<Option<Box<OpenSplit>>, Diagnostic> {
    loop {
        let Some((split, reader)) = query.sources()[source].unread.lock().pop_front() else { return Ok(None) };
        if query.is_over() {
            return Ok(None);
        }
        let this = Reader::new(query, SplitId { source, split });
        match reader.filter(|_| this.split.begin != Begin::Ended) {
            None => this.end(End::Complete),
            Some(_) if query.is_stopping() => this.end(End::Stopped),
            Some(reader) => return this.open(reader).map(|open| Some(Box::new(open))),
        }
    }
}

/// Ends a split after what was handed over, unless it has ended.
pub(crate) fn end_split(query: &Query, id: SplitId, end: End) {
    Reader::new(query, id).end(end);
}

/// Leaves splits out of the watermark that have been silent for their source's timeout and whose rows have all been
/// processed; when the next one may be.
pub(crate) fn find_idle_splits(query: &Query, now: Instant) -> Option<Instant> {
    let mut next = None;
    for (source, runtime) in query.sources().iter().enumerate() {
        let Some(timeout) = runtime.idle_timeout else { continue };
        for split in 0..runtime.splits.len() {
            let this = Reader::new(query, SplitId { source, split });
            let mut reading = this.split.reading.lock();
            let Some(active) = reading.active.filter(|_| !reading.ended && !reading.idle) else { continue };
            let due = active.checked_add(timeout);
            if due.is_none_or(|due| due > now) {
                next = earlier(next, due);
            } else if !this.fall_silent(&mut reading) {
                // Its last rows are being processed, so it will not take long.
                next = earlier(next, after(now, query.host().config.flush_interval_ms.max(1)));
            }
        }
    }
    next
}

/// Sets the stream idle or not for all stations that it reaches; the highest watermark that one of them has acted on.
fn set_idle(query: &Query, stream: StreamId, is_idle: bool) -> i64 {
    let mut highest = i64::MIN;
    for channel in &query.stream(stream).channels {
        let (watermark, consequences) = query.station(channel.station).set_idle(channel.port, is_idle);
        query.act(consequences);
        highest = highest.max(watermark);
    }
    highest
}

impl<'a> Reader<'a> {
    /// Reads the next chunk, or takes the one that was kept.
    pub(super) fn read(self, open: &mut OpenSplit) -> Result<Step, Diagnostic> {
        let Reader { query, split, .. } = self;
        if let Some(kept) = open.kept.take() {
            return Ok(Step::Chunk(kept));
        }
        if query.is_stopping() {
            if !query.is_over() {
                self.end(End::Stopped);
            }
            return Ok(Step::Ended);
        }
        let (flow, reader) = (&query.host().flow, &mut *open.reader);
        reader.aim(flow.aim());
        let is_ready = reader.wait()?;
        self.note_outside(reader, open.after);
        self.follow(reader.outlook(), &mut open.told);
        if !is_ready {
            return Ok(Step::Waits);
        }
        let Some(chunk) = reader.next()? else {
            self.end(End::Complete);
            return Ok(Step::Ended);
        };
        if *reader.name() != **split.name.load() {
            split.name.store(Arc::new(reader.name().to_string()));
        }
        if split.is_spare.swap(false, Relaxed) {
            flow.set_silent(split.stream, false);
        }
        open.after = chunk.after;
        let is_held = reader.outlook() == Outlook::Holds;
        open.told.is_settled &= !is_held;
        Ok(Step::Chunk(ReadChunk { chunk, is_held }))
    }

    pub(super) fn new(query: &'a Query, id: SplitId) -> Reader<'a> {
        Reader { query, id, split: &query.sources()[id.source].splits[id.split] }
    }

    pub(super) fn stream(self) -> StreamId {
        self.split.stream
    }

    /// Has a reader begin where it is to.
    fn open(self, mut reader: Box<dyn SplitReader>) -> Result<OpenSplit, Diagnostic> {
        let Reader { query, split, .. } = self;
        let flow = &query.host().flow;
        let mut after = None;
        if let Begin::Resume(from) = split.begin {
            reader.resume(from)?;
            after = from;
        }
        reader.limit_records(usize::try_from(flow.budget.limit() / RECORD_SHARE).unwrap_or(usize::MAX));
        if split.is_spare() {
            // Nobody waits for what may never come: it is idle until it has something.
            split.reading.lock().idle = true;
            self.note_idle(true);
            set_idle(query, split.stream, true);
        } else {
            self.heard_if_awaited(&mut split.reading.lock());
            flow.set_silent(split.stream, false);
        }
        Ok(OpenSplit { id: self.id, reader, after, told: Told::default(), kept: None })
    }

    /// What the split says of the outside: records that are there behind `after`, and whether it answers.
    fn note_outside(&self, reader: &dyn SplitReader, after: Option<Position>) {
        let stats = self.counters();
        if let Some(lag) = reader.lag(after) {
            stats.note_lag(lag);
        }
        stats.note_trouble(reader.trouble());
    }

    /// Has the watermark follow the outlook of the reader, who has no chunk yet.
    fn follow(self, outlook: Outlook, told: &mut Told) {
        let is_settled = matches!(outlook, Outlook::Settled | Outlook::Silent);
        if is_settled && !told.is_settled {
            told.is_settled = true;
            let mut reading = self.split.reading.lock();
            if reading.ended {
                return;
            }
            let unit = reading.units;
            reading.units += 1;
            drop(reading);
            let mut consequences = Consequences::default();
            consequences.deliver(self.split.stream, unit, Unit { lifts: true, ..Unit::default() });
            self.query.act(consequences);
        }
        if outlook == Outlook::Silent {
            told.is_silent |= self.fall_silent(&mut self.split.reading.lock());
        } else if std::mem::take(&mut told.is_silent) {
            let mut reading = self.split.reading.lock();
            self.heard(&mut reading);
            self.speak(&mut reading);
        }
    }

    /// Leaves the split out of the watermark, if all of its rows have been processed; whether it is left out.
    fn fall_silent(self, reading: &mut Reading) -> bool {
        let Reader { query, split, .. } = self;
        if !reading.idle && !reading.ended && query.stream(split.stream).is_drained(reading.units) {
            reading.idle = true;
            self.note_idle(true);
            query.host().flow.set_silent(split.stream, true);
            set_idle(query, split.stream, true);
            // A beat of event time may have waited for it alone.
            query.look_at_beat();
        }
        reading.idle
    }

    /// The split is silent no longer.
    fn speak(self, reading: &mut Reading) {
        if std::mem::take(&mut reading.idle) {
            self.note_idle(false);
            self.wake();
        }
    }

    /// What is counted of the split.
    pub(super) fn counters(&self) -> &'a SplitStats {
        self.query.host().stats.sources[self.id.source].split(self.id.split)
    }

    /// Has a chunk decoded, once there is room for it.
    fn hand_over(self, read: ReadChunk) -> Result<(), Diagnostic> {
        let Reader { query, split, .. } = self;
        // A reader that waits for room is not silent.
        split.reading.lock().active = None;
        let permit = query.host().flow.acquire(split.stream, read.chunk.bytes, query, &self.counters().waits)?;
        if let Some(task) = self.announce(read, permit) {
            self.heard_if_awaited(&mut split.reading.lock());
            query.scheduler().push(&mut vec![Task::Decode(Box::new(task))]);
        }
        Ok(())
    }

    /// Numbers a chunk that is to be decoded; `None` if the split has been ended meanwhile.
    pub(super) fn announce(self, ReadChunk { chunk, is_held }: ReadChunk, permit: Permit) -> Option<DecodeTask> {
        let Reader { query, split, .. } = self;
        let mut reading = split.reading.lock();
        if reading.ended {
            return None;
        }
        reading.active = None;
        self.speak(&mut reading);
        let unit = reading.units;
        reading.units += 1;
        drop(reading);
        let stats = self.counters();
        stats.read.fetch_add(1, Relaxed);
        stats.bytes.fetch_add(chunk.bytes, Relaxed);
        stats.note_chunk(query.host().stats.elapsed());
        Some(DecodeTask { split: self.id, stream: split.stream, unit, chunk, more: Vec::new(), is_held, permit })
    }

    /// How many chunks more may be part of a unit: small ones that wait cost less together.
    pub(super) fn most_joined(self, ReadChunk { is_held, .. }: &ReadChunk) -> usize {
        let usual = self.split.chunk_rows.load(Relaxed);
        if *is_held || usual == 0 { 0 } else { (JOINED_ROWS / usual).min(JOINED).saturating_sub(1) }
    }

    /// Notes a chunk that is part of the unit of another.
    pub(super) fn note_joined(self, chunk: &Chunk) {
        let stats = self.counters();
        stats.bytes.fetch_add(chunk.bytes, Relaxed);
    }

    fn end(self, end: End) {
        let Reader { query, split, .. } = self;
        let mut reading = split.reading.lock();
        if std::mem::replace(&mut reading.ended, true) {
            return;
        }
        let unit = reading.units;
        drop(reading);
        self.counters().has_ended.store(true, Relaxed);
        query.host().flow.set_silent(split.stream, true);
        if end == End::Stopped {
            query.cut_short();
        }
        let mut consequences = Consequences::default();
        consequences.deliver(split.stream, unit, Unit { end: Some(end), ..Unit::default() });
        query.act(consequences);
    }

    /// The split is not silent now.
    fn heard(self, reading: &mut Reading) {
        let now = Instant::now();
        reading.active = Some(now);
        let timeout = self.query.sources()[self.id.source].idle_timeout;
        if let Some(due) = timeout.and_then(|timeout| now.checked_add(timeout)) {
            self.query.due_at(due);
        }
    }

    /// The same, unless its reader never waits: then it says something whenever it is asked.
    fn heard_if_awaited(self, reading: &mut Reading) {
        if !self.query.sources()[self.id.source].is_pulled {
            self.heard(reading);
        }
    }

    /// The next chunk comes at some moment.
    pub(super) fn waits_for_moment(self) {
        let mut reading = self.split.reading.lock();
        if reading.active.is_none() {
            self.heard(&mut reading);
        }
    }

    /// A silent split speaks again: it holds the watermark from now on, and its rows come after what was decided
    /// without it, or a row could be accepted for a window that has been fired.
    fn wake(self) {
        let Reader { query, split, .. } = self;
        query.host().flow.set_silent(split.stream, false);
        let floor = set_idle(query, split.stream, false);
        query.act(query.stream(split.stream).raise(floor));
    }

    fn note_idle(self, is_idle: bool) {
        self.counters().is_idle.store(is_idle, Relaxed);
    }
}
