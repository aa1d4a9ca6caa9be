//! Cuts: where one generation of tables ends and the next begins (design section 9).
//!
//! A cut is a place in every split, between two units. Nothing stops for it: tasks of buffers before it write tables of
//! the old generation, tasks after it those of the new one, at the same time. When all buffers before the cut have been
//! processed, the old tables of an aggregation are frozen: nobody writes to them any more, though windows that they belong
//! to may still be open. A cut of an operator's inputs becomes one of its output (see `progress`), so it travels through
//! chains of operators to the sinks. What a checkpoint consists of is handed over where the cut comes by (see
//! `checkpoint`).
//!
//! One cut at a time is on its way: the next one waits until it has come by every aggregation, keyed operator and sink. So
//! there are two generations at most that are written to.

use crate::buffer::Generation;
use crate::checkpoint::Part;
use crate::query::Query;
use millstream_storage::{SourceState, SplitState};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// The cuts of a query.
#[derive(Debug)]
pub(crate) struct Cuts {
    /// Buffers of sources from one cut to the next; 0 if there are none but those of checkpoints.
    every: u64,
    /// Buffers of sources so far. Relaxed: who counts which is all the same.
    buffers: AtomicU64,
    /// Aggregations, operators and sinks that the last cut waits for, and one while it is being made. Only who has seen 0
    /// here makes the next (acquire), after all have been reached (release).
    awaited: AtomicUsize,
    /// A checkpoint could not be begun, because a cut was on its way: no other cut is made before it. Relaxed: a hint.
    checkpoint_waits: AtomicBool,
    last: Mutex<Generation>,
}

impl Cuts {
    /// A cut after every so many buffers of sources.
    pub(crate) fn new(every: u64) -> Cuts {
        let (buffers, awaited, checkpoint_waits) = (AtomicU64::new(0), AtomicUsize::new(0), AtomicBool::new(false));
        Cuts { every, buffers, awaited, checkpoint_waits, last: Mutex::new(Generation::default()) }
    }

    /// Whether somebody still waits for the last cut.
    pub(crate) fn is_on_its_way(&self) -> bool {
        self.awaited.load(Ordering::Acquire) > 0
    }

    /// The generation that would begin with the next cut.
    pub(crate) fn next(&self) -> Generation {
        Generation(self.last.lock().0 + 1)
    }
}

impl Query {
    /// Counts buffers of sources, and makes a cut when it is time and the last one has come through.
    pub(crate) fn count_buffers(&self, buffers: u64) {
        if self.cuts.every == 0 {
            return;
        }
        let before = self.cuts.buffers.fetch_add(buffers, Ordering::Relaxed);
        if before / self.cuts.every != (before + buffers) / self.cuts.every {
            self.make_cut(false);
        }
    }

    /// Begins a new generation in all splits, unless a cut is on its way; whether it has. What `is_checkpoint` is stored.
    pub(crate) fn make_cut(&self, is_checkpoint: bool) -> bool {
        if !is_checkpoint && self.cuts.checkpoint_waits.load(Ordering::Relaxed) {
            return false;
        }
        let last = self.cuts.last.try_lock();
        let last =
            last.filter(|_| self.cuts.awaited.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok());
        if is_checkpoint {
            self.cuts.checkpoint_waits.store(last.is_none(), Ordering::Relaxed);
        }
        let Some(mut last) = last else { return false };
        let generation = Generation(last.0 + 1);
        *last = generation;
        if is_checkpoint {
            self.checkpoint_begins(generation);
        }
        // Each is counted before anybody can say that it has come there.
        let count = |waits: &bool| {
            if *waits {
                self.cuts.awaited.fetch_add(1, Ordering::Relaxed);
            }
            *waits
        };
        let aggregations = self.aggregations.iter().map(|a| a.progress().await_cut(generation));
        let operators = self.operators.iter().map(|o| o.progress().await_cut(generation));
        let mut components = aggregations.chain(operators).filter(count).count();
        // A sink that has got all is not on the way of the cut, but what it has written since the last one belongs to this.
        let done: Vec<usize> =
            (0..self.sinks.len()).filter(|&sink| !count(&self.sinks[sink].await_cut(generation))).collect();
        components += self.sinks.len();
        let mut sources = Vec::with_capacity(self.sources.len());
        for (number, source) in self.sources.iter().enumerate() {
            let mut state = SourceState { table: self.plan.sources[number].name().to_string(), splits: Vec::new() };
            for split in &source.splits {
                let (consequences, reached) = self.streams[split.stream].cut(generation);
                // One that has just been found has a position in its first unit, or will be found again.
                if !split.is_spare() && (reached.position.is_some() || !split.was_spare()) {
                    state.splits.push(SplitState {
                        name: split.name().to_string(),
                        stream: self.streams[split.stream].number,
                        at: reached.position.map(|position| position.at),
                        line: reached.position.map_or(0, |position| position.line),
                        rows: reached.rows,
                        watermark: reached.watermark,
                        ended: reached.ended,
                        // Whoever writes the checkpoint has time to look.
                        input: None,
                    });
                }
                self.act_on(split.stream, consequences);
            }
            sources.push(state);
        }
        if is_checkpoint {
            self.hand_over(generation, || Part::Sources { sources, components });
            for sink in done {
                if let Err(diagnostic) = self.end_span_of_done(sink, generation) {
                    self.fail(diagnostic);
                }
            }
        }
        self.cuts.awaited.fetch_sub(1, Ordering::Release);
        true
    }

    /// An aggregation, operator or sink that a cut has waited for has been reached.
    pub(crate) fn cut_reached(&self) {
        self.cuts.awaited.fetch_sub(1, Ordering::Release);
    }
}
