//! Generations of state: the last one, and whether a cut may begin the next (`durable::cuts` makes it).

use crate::ids::Generation;
use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// What a cut is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The end of a beat.
    Beat,
    /// A new generation of tables.
    Tables,
    /// The same, and what is kept is stored.
    Checkpoint,
}

/// See the module.
#[derive(Debug)]
pub struct Cuts {
    /// Buffers of sources from one cut to the next; 0 if there are none but those of checkpoints.
    every: u64,
    /// Buffers of sources so far. Relaxed: it does not matter who counts which.
    buffers: AtomicU64,
    /// Aggregations, operators and sinks that the last cut waits for, and one while it is being made. Only who has seen 0
    /// here makes the next (acquire), after all have been reached (release).
    awaited: AtomicUsize,
    /// A checkpoint could not be begun, because a cut was on its way: no other cut is made before it. Relaxed: a hint.
    checkpoint_waits: AtomicBool,
    /// Another node has asked for a cut. Relaxed: a hint.
    is_asked: AtomicBool,
    last: Mutex<Generation>,
}

impl Cuts {
    /// A cut after each `every` buffers of sources.
    pub fn new(every: u64) -> Cuts {
        let (buffers, awaited, checkpoint_waits) = (AtomicU64::new(0), AtomicUsize::new(0), AtomicBool::new(false));
        let (is_asked, last) = (AtomicBool::new(false), Mutex::new(Generation::default()));
        Cuts { every, buffers, awaited, checkpoint_waits, is_asked, last }
    }

    /// The last generation that has begun.
    pub fn last(&self) -> Generation {
        *self.last.lock()
    }

    /// Another node asks for a cut.
    pub fn ask(&self) {
        self.is_asked.store(true, Ordering::Relaxed);
    }

    /// Whether one has; once.
    pub fn take_asked(&self) -> bool {
        self.is_asked.swap(false, Ordering::Relaxed)
    }

    /// Whether somebody still waits for the last cut.
    pub fn is_on_its_way(&self) -> bool {
        self.awaited.load(Ordering::Acquire) > 0
    }

    /// Counts buffers of sources; whether it is time for a cut.
    pub fn is_due(&self, buffers: u64) -> bool {
        if self.every == 0 {
            return false;
        }
        let before = self.buffers.fetch_add(buffers, Ordering::Relaxed);
        before / self.every != (before + buffers) / self.every
    }

    /// Begins a generation, unless a cut is on its way.
    pub fn begin(&self, is_checkpoint: bool) -> Option<(Generation, BeginningCut<'_>)> {
        if !is_checkpoint && self.checkpoint_waits.load(Ordering::Relaxed) {
            return None;
        }
        let last = self.last.try_lock();
        let last = last.filter(|_| self.awaited.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok());
        if is_checkpoint {
            self.checkpoint_waits.store(last.is_none(), Ordering::Relaxed);
        }
        let mut last = last?;
        *last = Generation(last.0 + 1);
        Some((*last, BeginningCut { cuts: self, _last: last }))
    }

    /// `stations` stations that a cut has waited for have been reached; whether it waits for no other.
    pub fn reached(&self, stations: usize) -> bool {
        self.awaited.fetch_sub(stations, Ordering::Release) == stations
    }
}

/// A cut that is being made: nobody makes another.
pub struct BeginningCut<'a> {
    cuts: &'a Cuts,
    _last: MutexGuard<'a, Generation>,
}

impl BeginningCut<'_> {
    /// A station is awaited. Counted before anybody can say that the cut has come there.
    pub fn awaits(&self) {
        self.cuts.awaited.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for BeginningCut<'_> {
    fn drop(&mut self) {
        self.cuts.reached(1);
    }
}
