//! Cuts: where one generation of tables ends and the next begins (design section 9).
//!
//! A cut is a place in every split, between two buffers. Nothing stops for it: tasks of buffers before it write tables of
//! the old generation, tasks after it those of the new one, at the same time. When all buffers before the cut have been
//! processed, the old tables of an aggregation are frozen: nobody writes to them any more, though windows that they belong
//! to may still be open. A cut of an operator's inputs becomes one of its output (see `progress`), so it travels through
//! chains of windows.
//!
//! One cut at a time is on its way: the next one waits until every aggregation has frozen its old tables. So there are two
//! generations at most that are written to.

use crate::buffer::Generation;
use crate::query::Query;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The cuts of a query.
#[derive(Debug)]
pub(crate) struct Cuts {
    /// Buffers of sources from one cut to the next; 0 if there are none.
    every: u64,
    /// Buffers of sources so far. Relaxed: who counts which is all the same.
    buffers: AtomicU64,
    /// Aggregations that the last cut waits for, and one while it is being made. Only who has seen 0 here makes the next
    /// (acquire), after all have frozen their tables (release).
    awaited: AtomicUsize,
    last: Mutex<Generation>,
}

impl Cuts {
    /// A cut after every so many buffers of sources.
    pub(crate) fn new(every: u64) -> Cuts {
        let (buffers, awaited) = (AtomicU64::new(0), AtomicUsize::new(0));
        Cuts { every, buffers, awaited, last: Mutex::new(Generation::default()) }
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
            self.make_cut();
        }
    }

    /// Begins a new generation in all splits, unless a cut is on its way.
    fn make_cut(&self) {
        let Some(mut last) = self.cuts.last.try_lock() else { return };
        if self.cuts.awaited.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return;
        }
        let generation = Generation(last.0 + 1);
        *last = generation;
        let waits = |a: &&crate::aggregation::Aggregation| a.progress().await_cut(generation);
        // Counted before anybody can say that it has come there.
        for _ in self.aggregations.iter().filter(waits) {
            self.cuts.awaited.fetch_add(1, Ordering::Relaxed);
        }
        for stream in self.sources.iter().flat_map(|s| &s.splits).map(|s| s.stream) {
            let consequences = self.streams[stream].cut(generation);
            self.act_on(stream, consequences);
        }
        self.cuts.awaited.fetch_sub(1, Ordering::Release);
    }

    /// An aggregation that a cut has waited for has come there.
    pub(crate) fn cut_reached(&self) {
        self.cuts.awaited.fetch_sub(1, Ordering::Release);
    }
}
