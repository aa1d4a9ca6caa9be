//! Egress: the way of rows into a sink, in order.
//!
//! Every (stream, pipeline) that ends in the sink has a *lane*. Workers encode the output of their task and push the
//! piece under its buffer's number; those that are next in their lane become ready (of a buffer that becomes many rows, also before it is done), and whoever finds the sink free
//! writes them. So each lane is in order, lanes interleave, nobody waits for a piece to be written, and the sink is used by one
//! thread at a time. A piece holds its chunk's permit until it is written: a slow sink slows the readers down. Before it makes another
//! piece of a buffer, a worker waits for a moment while much is to be written that others write, or that comes behind what they make.
//!
//! Under cuts a sink writes all pieces of one generation before the first of the next: lanes that a cut has come by wait
//! for the others, with the pieces that they have. Then the sink is told ([`Sink::cut`]), if the cut is a checkpoint.
//!
//! With a `LIMIT` pieces stay columns until their turn, because only then it is known which rows are the first.

use crate::buffer::Generation;
use crate::checkpoint::Part;
use crate::columns::{bytes_of, sliced};
use crate::flow::Permit;
use crate::query::Query;
use crate::threads::Watch;
use arrow_array::ArrayRef;
use millstream_connectors::{Encoded, Encoder, Sink};
use millstream_state::{Charge, MemoryBudget, MemoryClass};
use millstream_sync::epochs::Release;
use millstream_types::Diagnostic;
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What waits for its sink is much if it is one in so many bytes of the budget.
const UNWRITTEN: u64 = 8;
/// How long a worker waits at most before it makes more.
const PATIENCE: Duration = Duration::from_millis(500);

/// Output of one task.
#[derive(Debug)]
pub(crate) struct Piece {
    content: Content,
    _permit: Option<Arc<Permit>>,
    _charge: Charge,
}

#[derive(Debug)]
enum Content {
    Encoded(Encoded),
    /// To be cut at the limit and encoded when it is written.
    Columns(Vec<ArrayRef>, usize),
}

/// See the file's description.
pub(crate) struct Egress {
    encoder: Arc<dyn Encoder>,
    limited: bool,
    budget: Arc<MemoryBudget>,
    /// Nothing more is written; tasks that end here need not run.
    done: AtomicBool,
    state: Mutex<State>,
    /// Pieces have been written.
    written: Condvar,
}

struct State {
    lanes: Vec<Lane>,
    open_lanes: usize,
    ready: VecDeque<Ready>,
    /// Generation of the pieces that are written now. Those of the next one wait until no lane has any of this.
    generation: Generation,
    /// A cut waits for the sink to come to this generation.
    awaited: Option<Generation>,
    /// Absent while a thread is using it.
    sink: Option<Box<dyn Sink>>,
    /// When the first rows were written that have not been flushed.
    unflushed: Option<Instant>,
    /// Whether to flush before the sink is left.
    flush_wanted: bool,
    /// Rows until the limit.
    remaining: Option<u64>,
    done: bool,
}

/// What is done with the sink next.
enum Ready {
    Piece(Piece),
    /// All pieces of the generations before this one have been written.
    Cut(Generation),
}

#[derive(Default)]
struct Lane {
    /// All pieces of generations before this one have arrived.
    reached: Generation,
    has_ended: bool,
    next: u64,
    /// Output that is not complete, or whose predecessors are not.
    waiting: BTreeMap<u64, Output>,
}

/// What tasks have made of a buffer so far.
#[derive(Default)]
struct Output {
    pieces: Vec<Piece>,
    complete: bool,
    generation: Generation,
}

impl Egress {
    /// For a sink in which `lanes` lanes end.
    pub(crate) fn new(sink: Box<dyn Sink>, lanes: usize, limit: Option<u64>, budget: &Arc<MemoryBudget>) -> Egress {
        let encoder = sink.encoder();
        let state = State {
            lanes: (0..lanes).map(|_| Lane::default()).collect(),
            open_lanes: lanes,
            ready: VecDeque::new(),
            generation: Generation::default(),
            awaited: None,
            sink: Some(sink),
            unflushed: None,
            flush_wanted: false,
            remaining: limit,
            done: false,
        };
        let (limited, budget, done) = (limit.is_some(), Arc::clone(budget), AtomicBool::new(false));
        Egress { encoder, limited, budget, done, state: Mutex::new(state), written: Condvar::new() }
    }

    /// Whether output is still wanted. Relaxed: a task that reads an old value only does work for nothing.
    pub(crate) fn is_done(&self) -> bool {
        self.done.load(Ordering::Relaxed)
    }

    /// Makes a piece of rows.
    pub(crate) fn piece(
        &self,
        columns: Vec<ArrayRef>,
        rows: usize,
        permit: Option<Arc<Permit>>,
    ) -> Result<Option<Piece>, Diagnostic> {
        if rows == 0 {
            return Ok(None);
        }
        let content = if self.limited {
            Content::Columns(columns, rows)
        } else {
            Content::Encoded(self.encoder.encode(&columns, rows)?)
        };
        let bytes = match &content {
            Content::Encoded(Encoded::Bytes { data, .. }) => data.capacity(),
            Content::Encoded(Encoded::Columns { columns, .. }) | Content::Columns(columns, _) => bytes_of(columns),
        };
        let charge = Charge::new(&self.budget, MemoryClass::Sinks, bytes);
        Ok(Some(Piece { content, _permit: permit, _charge: charge }))
    }

    /// Waits, before another piece of a buffer is made, while much is to be written by another worker, or behind what another
    /// worker makes. Not for ever: a sink that stands still must not hold back the workers, which have other sinks.
    pub(crate) fn wait_for_others(&self, lane: usize, number: u64) {
        let is_much = || self.budget.used_by(MemoryClass::Sinks) > self.budget.limit() / UNWRITTEN;
        if !is_much() {
            return;
        }
        let until = Instant::now() + PATIENCE;
        let mut state = self.state.lock();
        while !state.done && (state.sink.is_none() || state.lanes[lane].next != number) && is_much() {
            if self.written.wait_until(&mut state, until).timed_out() {
                break;
            }
        }
    }

    /// Notes that a cut to a generation waits for the sink; `false` if there is nothing to wait for.
    pub(crate) fn await_cut(&self, generation: Generation) -> bool {
        let mut state = self.state.lock();
        state.awaited = (!state.done).then_some(generation);
        !state.done
    }

    /// Does something with the sink when nobody else does any more; `None` if it is gone.
    pub(crate) fn with_sink<T>(
        &self,
        act: impl FnOnce(&mut dyn Sink) -> Result<T, Diagnostic>,
    ) -> Result<Option<T>, Diagnostic> {
        let mut state = self.state.lock();
        match &mut state.sink {
            Some(sink) => act(&mut **sink).map(Some),
            None => Ok(None),
        }
    }

    /// The sink, at the end of the query.
    pub(crate) fn take_sink(&self) -> Option<Box<dyn Sink>> {
        self.state.lock().sink.take()
    }
}

impl State {
    /// When written rows have waited for as long as they may.
    fn flush_due(&self, interval: Duration) -> Option<Instant> {
        self.unflushed.and_then(|since| since.checked_add(interval))
    }

    /// Rows have been written, and perhaps flushed after that.
    fn note_written(&mut self, flushed: bool, rows: u64, now: Instant) {
        if flushed {
            self.unflushed = None;
        } else if rows > 0 {
            self.unflushed.get_or_insert(now);
        }
    }

    fn arrive(&mut self, lane: usize, place: (u64, Generation), piece: Option<Piece>, complete: bool) {
        let (number, generation) = place;
        let output = self.lanes[lane].waiting.entry(number).or_default();
        output.pieces.extend(piece);
        output.complete |= complete;
        output.generation = generation;
        self.drain(lane);
    }

    /// Makes the pieces of a lane ready that are next in it.
    fn drain(&mut self, lane: usize) {
        let lane = &mut self.lanes[lane];
        while let Some(output) = lane.waiting.get_mut(&lane.next).filter(|o| o.generation <= self.generation) {
            self.ready.extend(output.pieces.drain(..).map(Ready::Piece));
            if !output.complete {
                break;
            }
            lane.waiting.remove(&lane.next);
            lane.next += 1;
        }
    }

    /// Goes on to the next generation if all lanes have come there.
    fn align(&mut self) {
        let reached = self.lanes.iter().filter(|lane| !lane.has_ended).map(|lane| lane.reached).min();
        let Some(generation) = reached.or(self.awaited).filter(|&reached| reached > self.generation) else { return };
        self.generation = generation;
        self.ready.push_back(Ready::Cut(generation));
        (0..self.lanes.len()).for_each(|lane| self.drain(lane));
    }
}

impl Query {
    /// A piece of the output of a buffer of a lane, known by number and generation, has been made, the last one if it is
    /// `complete`.
    pub(crate) fn write(
        &self,
        sink: usize,
        lane: usize,
        buffer: (u64, Generation),
        piece: Option<Piece>,
        complete: bool,
    ) -> Result<(), Diagnostic> {
        let egress = &self.sinks[sink];
        let mut state = egress.state.lock();
        if state.done {
            // The piece's permit is released after the lock.
            drop(state);
            return Ok(());
        }
        state.arrive(lane, buffer, piece, complete);
        drop(state);
        self.drive(sink)
    }

    /// A lane has released what it has: all pieces of earlier generations, or all, have arrived.
    pub(crate) fn release_lane(&self, sink: usize, lane: usize, release: Release) -> Result<(), Diagnostic> {
        let mut state = self.sinks[sink].state.lock();
        if state.done {
            return Ok(());
        }
        let reached = Generation(release.generation);
        if !release.ended && reached <= state.lanes[lane].reached {
            return Ok(());
        }
        state.lanes[lane].reached = reached.max(state.lanes[lane].reached);
        if release.ended && !std::mem::replace(&mut state.lanes[lane].has_ended, true) {
            state.open_lanes -= 1;
        }
        state.align();
        drop(state);
        self.drive(sink)
    }

    /// Ends the span of a sink that will not be reached by the cut, because it has got all.
    pub(crate) fn end_span_of_done(&self, sink: usize, generation: Generation) -> Result<(), Diagnostic> {
        let Some(number) = self.checkpoint_before(generation) else { return Ok(()) };
        let mut state = self.sinks[sink].state.lock();
        if state.awaited.is_some() || !state.done {
            return Ok(());
        }
        let commit = state.sink.as_deref_mut().map(|sink| sink.cut(number)).transpose()?.flatten();
        drop(state);
        self.hand_over(generation, || Part::Sink { sink, commit });
        Ok(())
    }

    /// The cut has reached a sink.
    fn end_span(&self, sink: usize, generation: Generation, writer: &mut dyn Sink) -> Result<(), Diagnostic> {
        if let Some(number) = self.checkpoint_before(generation) {
            let watch = Watch::start();
            let commit = writer.cut(number)?;
            self.hand_over(generation, || Part::Sink { sink, commit });
            self.stats.checkpoints.note_handing_over(&watch);
        }
        Ok(())
    }

    /// Hands what was written to the reader, if it has waited for the flush interval; when it will have, if not. A thread
    /// that is using the sink does it before it leaves.
    pub(crate) fn flush_if_due(&self, sink: usize, now: Instant) -> Result<Option<Instant>, Diagnostic> {
        let mut state = self.sinks[sink].state.lock();
        let due = state.flush_due(self.flush_interval());
        if state.flush_wanted || due.is_none_or(|due| due > now) {
            return Ok(due.filter(|_| !state.flush_wanted));
        }
        state.flush_wanted = true;
        drop(state);
        self.drive(sink)?;
        Ok(None)
    }

    fn flush_interval(&self) -> Duration {
        Duration::from_millis(self.config.flush_interval_ms)
    }

    /// Writes what is ready, unless another thread is at it: that one will see it before it leaves.
    pub(crate) fn drive(&self, sink: usize) -> Result<(), Diagnostic> {
        let egress = &self.sinks[sink];
        loop {
            let mut state = egress.state.lock();
            if state.done || state.sink.is_none() {
                return Ok(());
            }
            if state.ready.is_empty() && !state.flush_wanted {
                let exhausted = state.remaining == Some(0) || state.open_lanes == 0;
                if exhausted {
                    state.done = true;
                    let is_awaited = state.awaited.take();
                    // Pieces beyond the limit hold permits, which the other sinks' input needs.
                    let beyond = std::mem::take(&mut state.lanes);
                    drop(state);
                    drop(beyond);
                    if let Some(generation) = is_awaited {
                        self.end_span_of_done(sink, generation)?;
                        self.cut_reached();
                    }
                    egress.done.store(true, Ordering::Relaxed);
                    self.sink_done();
                }
                return Ok(());
            }
            let pieces = std::mem::take(&mut state.ready);
            let (mut remaining, flush) = (state.remaining, std::mem::take(&mut state.flush_wanted));
            let Some(mut writer) = state.sink.take() else { return Ok(()) };
            drop(state);
            let (mut written, started) = (0, Instant::now());
            let mut reached = None;
            let mut result = pieces.into_iter().try_for_each(|ready| {
                match ready {
                    Ready::Piece(piece) => {
                        written += self.write_piece(egress, &mut *writer, piece, &mut remaining)?;
                        egress.written.notify_all();
                    }
                    Ready::Cut(generation) => {
                        self.end_span(sink, generation, &mut *writer)?;
                        reached = Some(generation);
                    }
                }
                Ok(())
            });
            if flush && result.is_ok() {
                result = writer.flush();
            }
            self.stats.rows_out.fetch_add(written, Ordering::Relaxed);
            self.stats.sinks[sink].wrote(written, started.elapsed());
            let mut state = egress.state.lock();
            state.sink = Some(writer);
            egress.written.notify_all();
            state.remaining = remaining;
            let is_awaited = state.awaited.take_if(|awaited| reached >= Some(*awaited)).is_some();
            let was_due = state.flush_due(self.flush_interval());
            state.note_written(flush, written, Instant::now());
            let due = state.flush_due(self.flush_interval());
            // What is dropped gives memory back, for which other locks are taken.
            let beyond = if remaining == Some(0) { std::mem::take(&mut state.ready) } else { VecDeque::new() };
            drop(state);
            drop(beyond);
            if is_awaited {
                self.cut_reached();
            }
            due.filter(|_| due != was_due).into_iter().for_each(|due| self.due_at(due));
            result?;
        }
    }

    /// Writes a piece and returns its rows.
    fn write_piece(
        &self,
        egress: &Egress,
        sink: &mut dyn Sink,
        piece: Piece,
        remaining: &mut Option<u64>,
    ) -> Result<u64, Diagnostic> {
        let encoded = match piece.content {
            Content::Encoded(encoded) => encoded,
            Content::Columns(columns, rows) => {
                let rows = remaining.map_or(rows, |r| rows.min(usize::try_from(r).unwrap_or(usize::MAX)));
                if rows == 0 {
                    return Ok(0);
                }
                *remaining = remaining.map(|r| r - rows as u64);
                let first = sliced(&columns, 0, rows);
                egress.encoder.encode(&first, rows)?
            }
        };
        let rows = match &encoded {
            Encoded::Bytes { rows, .. } | Encoded::Columns { rows, .. } => *rows as u64,
        };
        sink.write(encoded)?;
        Ok(rows)
    }
}
