//! Egress: the way of rows into a sink, in order.
//!
//! Every (stream, pipeline) that ends in the sink has a *lane*. Workers encode the output of their task and push the
//! piece under its buffer's number; those that are next in their lane become ready (of a buffer that becomes many rows, also before it is done), and whoever finds the sink free
//! writes them. So each lane is in order, lanes interleave, no worker waits for another, and the sink is used by one
//! thread at a time. A piece holds its chunk's permit until it is written: a slow sink slows the readers down.
//!
//! With a `LIMIT` pieces stay columns until their turn, because only then it is known which rows are the first.

use crate::columns::sliced;
use crate::flow::Permit;
use crate::query::Query;
use arrow_array::ArrayRef;
use millstream_connectors::{Encoded, Encoder, Sink};
use millstream_types::Diagnostic;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Output of one task.
#[derive(Debug)]
pub(crate) struct Piece {
    content: Content,
    _permit: Option<Arc<Permit>>,
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
    /// Nothing more is written; tasks that end here need not run.
    done: AtomicBool,
    state: Mutex<State>,
}

struct State {
    lanes: Vec<Lane>,
    open_lanes: usize,
    ready: VecDeque<Piece>,
    /// Absent while a thread is using it.
    sink: Option<Box<dyn Sink>>,
    unflushed: bool,
    /// Rows until the limit.
    remaining: Option<u64>,
    done: bool,
}

#[derive(Default)]
struct Lane {
    next: u64,
    /// Output that is not complete, or whose predecessors are not.
    waiting: BTreeMap<u64, Output>,
}

/// What tasks have made of a buffer so far.
#[derive(Default)]
struct Output {
    pieces: Vec<Piece>,
    complete: bool,
}

impl Egress {
    /// For a sink in which `lanes` lanes end.
    pub(crate) fn new(sink: Box<dyn Sink>, lanes: usize, limit: Option<u64>) -> Egress {
        let encoder = sink.encoder();
        let state = State {
            lanes: (0..lanes).map(|_| Lane::default()).collect(),
            open_lanes: lanes,
            ready: VecDeque::new(),
            sink: Some(sink),
            unflushed: false,
            remaining: limit,
            done: false,
        };
        Egress { encoder, limited: limit.is_some(), done: AtomicBool::new(false), state: Mutex::new(state) }
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
        Ok(Some(Piece { content, _permit: permit }))
    }

    /// The sink, at the end of the query.
    pub(crate) fn take_sink(&self) -> Option<Box<dyn Sink>> {
        self.state.lock().sink.take()
    }
}

impl State {
    fn arrive(&mut self, lane: usize, number: u64, piece: Option<Piece>, complete: bool) {
        let lane = &mut self.lanes[lane];
        let output = lane.waiting.entry(number).or_default();
        output.pieces.extend(piece);
        output.complete |= complete;
        while let Some(output) = lane.waiting.get_mut(&lane.next) {
            self.ready.extend(output.pieces.drain(..));
            if !output.complete {
                break;
            }
            lane.waiting.remove(&lane.next);
            lane.next += 1;
        }
    }
}

impl Query {
    /// A piece of output number `number` of a lane has been made, the last one if it is `complete`.
    pub(crate) fn write(
        &self,
        sink: usize,
        lane: usize,
        number: u64,
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
        state.arrive(lane, number, piece, complete);
        drop(state);
        self.drive(sink, false)
    }

    /// A lane has ended; its pieces have arrived before.
    pub(crate) fn end_lane(&self, sink: usize) -> Result<(), Diagnostic> {
        let mut state = self.sinks[sink].state.lock();
        state.open_lanes -= 1;
        drop(state);
        self.drive(sink, false)
    }

    /// Hands what was written to the reader, unless the sink is in use.
    pub(crate) fn flush(&self, sink: usize) -> Result<(), Diagnostic> {
        self.drive(sink, true)
    }

    /// Writes what is ready, unless another thread is at it: that one will see it before it leaves.
    pub(crate) fn drive(&self, sink: usize, mut flush: bool) -> Result<(), Diagnostic> {
        let egress = &self.sinks[sink];
        loop {
            let mut state = egress.state.lock();
            if state.done || state.sink.is_none() {
                return Ok(());
            }
            let flushes = flush && state.unflushed;
            if state.ready.is_empty() && !flushes {
                let exhausted = state.remaining == Some(0) || state.open_lanes == 0;
                if exhausted {
                    state.done = true;
                    // Pieces beyond the limit hold permits, which the other sinks' input needs.
                    let beyond = std::mem::take(&mut state.lanes);
                    drop(state);
                    drop(beyond);
                    egress.done.store(true, Ordering::Relaxed);
                    self.sink_done();
                }
                return Ok(());
            }
            let pieces = std::mem::take(&mut state.ready);
            let mut remaining = state.remaining;
            let Some(mut writer) = state.sink.take() else { return Ok(()) };
            drop(state);
            let mut written = 0;
            let mut result = pieces.into_iter().try_for_each(|piece| {
                written += self.write_piece(egress, &mut *writer, piece, &mut remaining)?;
                Ok(())
            });
            if flush && result.is_ok() {
                result = writer.flush();
            }
            self.stats.rows_out.fetch_add(written, Ordering::Relaxed);
            let mut state = egress.state.lock();
            state.sink = Some(writer);
            state.remaining = remaining;
            state.unflushed = if flush { false } else { state.unflushed || written > 0 };
            flush = false;
            if remaining == Some(0) {
                state.ready.clear();
            }
            drop(state);
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
