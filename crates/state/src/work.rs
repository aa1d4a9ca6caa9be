//! Counts of what the state crate does entry by entry, in the process: what dense keys are to do without.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What has been done since the start of the process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Entries that tables had by their hash, when they were sealed and moved out.
    pub hashed: u64,
    /// Entries that were sorted.
    pub sorted: u64,
    /// Entries of arrays that were given hash and key.
    pub spread: u64,
}

/// A count, each in its own cache line, to which is added once for many entries.
#[repr(align(128))]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    const fn new() -> Counter {
        Counter(AtomicU64::new(0))
    }

    pub(crate) fn add(&self, count: usize) {
        if count > 0 {
            self.0.fetch_add(count as u64, Relaxed);
        }
    }
}

pub(crate) static HASHED: Counter = Counter::new();
pub(crate) static SORTED: Counter = Counter::new();
pub(crate) static SPREAD: Counter = Counter::new();

/// What has been done.
pub fn work() -> Work {
    let [hashed, sorted, spread] = [&HASHED, &SORTED, &SPREAD].map(|counter| counter.0.load(Relaxed));
    Work { hashed, sorted, spread }
}
