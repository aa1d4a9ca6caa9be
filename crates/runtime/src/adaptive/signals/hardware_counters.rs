//! Hardware counters of worker threads, where the machine gives them: mispredicted branches and cache misses.
//!
//! They say at once why rows have become dearer, but containers and virtual machines rarely allow them. So nothing depends
//! on them: without them there are just none, and the cost per row must suffice. Each read is a system call; so they are
//! read once in [`TASKS_PER_READ`] tasks. What is missing is a count of contended cache lines, for which every
//! processor has its own events.

use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Tasks between two reads.
const TASKS_PER_READ: u32 = 32;

/// What was counted over all workers. All atomics are relaxed.
#[derive(Debug, Default)]
pub(crate) struct HardwareTotals {
    rows: AtomicU64,
    mispredictions: AtomicU64,
    cache_misses: AtomicU64,
}

/// What hardware counters have counted while workers were at work, per row that came into a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct HardwareSnapshot {
    /// Mispredicted branches.
    pub mispredictions_per_row: f64,
    /// Misses of the last cache.
    pub cache_misses_per_row: f64,
}

impl HardwareTotals {
    fn add(&self, rows: u64, counts: [u64; 2]) {
        self.rows.fetch_add(rows, Relaxed);
        self.mispredictions.fetch_add(counts[0], Relaxed);
        self.cache_misses.fetch_add(counts[1], Relaxed);
    }

    /// Per row of the tasks that were counted; `None` where there are no counters.
    pub(crate) fn per_row(&self) -> Option<HardwareSnapshot> {
        let rows = self.rows.load(Relaxed);
        let of = |count: &AtomicU64| count.load(Relaxed) as f64 / rows as f64;
        (rows > 0).then(|| HardwareSnapshot {
            mispredictions_per_row: of(&self.mispredictions),
            cache_misses_per_row: of(&self.cache_misses),
        })
    }
}

/// The counters of the thread that has opened them.
#[derive(Debug)]
pub(crate) struct HardwareCounters {
    pair: Option<machine::Pair>,
    last: [u64; 2],
    rows: u64,
    tasks: u32,
}

impl HardwareCounters {
    /// Those of this thread; silent ones where the machine has none or does not allow them.
    pub(crate) fn open() -> HardwareCounters {
        HardwareCounters { pair: machine::Pair::open(), last: [0; 2], rows: 0, tasks: 0 }
    }

    /// A task is done that has taken `rows` rows through a pipeline.
    pub(crate) fn note(&mut self, rows: usize, totals: &HardwareTotals) {
        let Some(pair) = &mut self.pair else { return };
        self.rows += rows as u64;
        self.tasks += 1;
        if self.tasks < TASKS_PER_READ {
            return;
        }
        match pair.read() {
            Some(now) => {
                totals.add(self.rows, [now[0].saturating_sub(self.last[0]), now[1].saturating_sub(self.last[1])]);
                self.last = now;
            }
            None => self.pair = None,
        }
        (self.rows, self.tasks) = (0, 0);
    }
}

#[cfg(target_os = "linux")]
mod machine {
    use perf_event::events::Hardware;
    use perf_event::{Builder, Counter};

    /// Mispredictions and cache misses of a thread, in user mode.
    #[derive(Debug)]
    pub(super) struct Pair([Counter; 2]);

    impl Pair {
        pub(super) fn open() -> Option<Pair> {
            let open = |event: Hardware| {
                let mut counter = Builder::new(event).exclude_kernel(true).exclude_hv(true).build().ok()?;
                counter.enable().ok()?;
                Some(counter)
            };
            Some(Pair([open(Hardware::BRANCH_MISSES)?, open(Hardware::CACHE_MISSES)?]))
        }

        pub(super) fn read(&mut self) -> Option<[u64; 2]> {
            let [mispredictions, cache_misses] = &mut self.0;
            Some([mispredictions.read().ok()?, cache_misses.read().ok()?])
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod machine {
    /// None on this system.
    #[derive(Debug)]
    pub(super) enum Pair {}

    impl Pair {
        pub(super) fn open() -> Option<Pair> {
            None
        }

        pub(super) fn read(&mut self) -> Option<[u64; 2]> {
            match *self {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_counters_there_is_silence() {
        let totals = HardwareTotals::default();
        let mut counters = HardwareCounters { pair: None, last: [0; 2], rows: 0, tasks: 0 };
        (0..3 * TASKS_PER_READ).for_each(|_| counters.note(1000, &totals));
        assert_eq!(totals.per_row(), None);
    }

    #[test]
    fn with_counters_or_not_nothing_fails() {
        let (totals, mut counters) = (HardwareTotals::default(), HardwareCounters::open());
        (0..TASKS_PER_READ).for_each(|_| counters.note(1000, &totals));
        assert_eq!(totals.per_row().is_some(), counters.pair.is_some(), "what was opened can be read");
    }

    #[test]
    fn counts_are_per_row() {
        let totals = HardwareTotals::default();
        totals.add(1000, [250, 10]);
        assert_eq!(
            totals.per_row(),
            Some(HardwareSnapshot { mispredictions_per_row: 0.25, cache_misses_per_row: 0.01 })
        );
    }
}
