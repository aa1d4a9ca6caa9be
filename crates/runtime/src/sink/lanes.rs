//! The lanes of a sink: which piece is written next.
//!
//! Lanes that a cut has passed wait for the others, with the pieces that they have.

use crate::ids::{Generation, Port};
use crate::schedule::flow::Permit;
use arrow_array::ArrayRef;
use millstream_connectors::{Encoded, Sink};
use millstream_state::Charge;
use millstream_sync::epoch_ring::Release;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Output of one task.
#[derive(Debug)]
pub(super) struct SinkPiece {
    pub(super) content: PieceContent,
    pub(super) _permit: Option<Arc<Permit>>,
    pub(super) _charge: Charge,
}

#[derive(Debug)]
pub(super) enum PieceContent {
    Encoded(Encoded),
    /// To be cut at the limit and encoded when it is written.
    Columns(Vec<ArrayRef>, usize),
}

/// See the module; with the sink, changed under one lock.
pub(super) struct Lanes {
    lanes: Vec<Lane>,
    open_lanes: usize,
    pub(super) ready: VecDeque<Ready>,
    /// Generation of the pieces that are written now. Those of the next one wait until no lane has any of this.
    generation: Generation,
    /// A cut waits for the sink to come to this generation.
    pub(super) awaited: Option<Generation>,
    /// Absent while a thread is using it.
    pub(super) sink: Option<Box<dyn Sink>>,
    /// The sink is not taken from here on: somebody waits for it.
    pub(super) is_wanted: bool,
    /// When the first rows were written that have not been flushed.
    unflushed: Option<Instant>,
    /// Whether to flush before the sink is left.
    pub(super) flush_wanted: bool,
    /// Rows to leave out before the first one.
    pub(super) skip: u64,
    /// Rows until the limit.
    pub(super) remaining: Option<u64>,
    pub(super) done: bool,
}

/// What is done with the sink next.
pub(super) enum Ready {
    SinkPiece(SinkPiece),
    /// All pieces of the generations before this one have been written.
    Cut(Generation),
}

#[derive(Default)]
pub(super) struct Lane {
    /// All pieces of generations before this one have arrived.
    reached: Generation,
    has_ended: bool,
    next: u64,
    /// Output that is not complete, or whose predecessors are not.
    waiting: BTreeMap<u64, TaskOutput>,
}

/// What tasks have made of a buffer so far.
#[derive(Default)]
struct TaskOutput {
    pieces: Vec<SinkPiece>,
    complete: bool,
    generation: Generation,
}

impl Lanes {
    /// Empty lanes of a sink.
    pub(super) fn new(sink: Box<dyn Sink>, lanes: usize, (skip, limit): (u64, Option<u64>)) -> Lanes {
        Lanes {
            lanes: (0..lanes).map(|_| Lane::default()).collect(),
            open_lanes: lanes,
            ready: VecDeque::new(),
            generation: Generation::default(),
            awaited: None,
            sink: Some(sink),
            is_wanted: false,
            unflushed: None,
            flush_wanted: false,
            skip,
            remaining: limit,
            done: false,
        }
    }

    /// The generation that is written now.
    pub(super) fn generation(&self) -> Generation {
        self.generation
    }

    /// Whether a buffer is the next of its lane.
    pub(super) fn is_next(&self, lane: Port, number: u64) -> bool {
        self.lanes[lane.index()].next == number
    }

    /// Whether nothing more comes, or is wanted.
    pub(super) fn is_exhausted(&self) -> bool {
        self.remaining == Some(0) || self.open_lanes == 0
    }

    /// Takes out what waits in all lanes.
    pub(super) fn take_waiting(&mut self) -> Vec<Lane> {
        std::mem::take(&mut self.lanes)
    }

    /// When written rows have waited for as long as they may.
    pub(super) fn flush_due(&self, interval: Duration) -> Option<Instant> {
        self.unflushed.and_then(|since| since.checked_add(interval))
    }

    /// Rows have been written, and perhaps flushed after that.
    pub(super) fn note_written(&mut self, flushed: bool, rows: u64, now: Instant) {
        if flushed {
            self.unflushed = None;
        } else if rows > 0 {
            self.unflushed.get_or_insert(now);
        }
    }

    pub(super) fn arrive(&mut self, lane: Port, place: (u64, Generation), piece: Option<SinkPiece>, complete: bool) {
        let (number, generation) = place;
        let output = self.lanes[lane.index()].waiting.entry(number).or_default();
        output.pieces.extend(piece);
        output.complete |= complete;
        output.generation = generation;
        self.drain(lane.index());
    }

    /// Makes the pieces of a lane ready that are next in it.
    fn drain(&mut self, lane: usize) {
        let lane = &mut self.lanes[lane];
        while let Some(output) = lane.waiting.get_mut(&lane.next).filter(|o| o.generation <= self.generation) {
            self.ready.extend(output.pieces.drain(..).map(Ready::SinkPiece));
            if !output.complete {
                break;
            }
            lane.waiting.remove(&lane.next);
            lane.next += 1;
        }
    }

    /// Advances to the next generation if all lanes have reached it.
    fn align(&mut self) {
        let reached = self.lanes.iter().filter(|lane| !lane.has_ended).map(|lane| lane.reached).min();
        let Some(generation) = reached.or(self.awaited).filter(|&reached| reached > self.generation) else { return };
        self.generation = generation;
        self.ready.push_back(Ready::Cut(generation));
        (0..self.lanes.len()).for_each(|lane| self.drain(lane));
    }

    /// A lane has released what it has: all pieces of earlier generations, or all, have arrived. Whether that is news.
    pub(super) fn release(&mut self, lane: Port, release: Release) -> bool {
        let (reached, lane) = (Generation(release.generation), &mut self.lanes[lane.index()]);
        if !release.ended && reached <= lane.reached {
            return false;
        }
        lane.reached = reached.max(lane.reached);
        if release.ended && !std::mem::replace(&mut lane.has_ended, true) {
            self.open_lanes -= 1;
        }
        self.align();
        true
    }
}
