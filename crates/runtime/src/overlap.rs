//! Overlapping windows at run time: which of them to fire, and what their slices have become.
//!
//! The tables of complete slices are sealed once. Each range of partitions has a [`Combiner`] that takes the slices in and
//! makes the windows in the order of their ends: a job for each window ([`Ordered`]), which any worker performs. Only
//! windows that hold a slice with rows are jobs, however far the watermark has jumped.

use crate::combining::{Combining, Report};
use crate::config::RunConfig;
use crate::ordered::Ordered;
use crate::tables::{Frozen, FrozenByNumber, TablesByNumber, Taken};
use crate::trigger::Firing;
use millstream_abi::EntryLayout;
use millstream_plan::pipeline::Combination;
use millstream_plan::window::{Overlap, SliceTable};
use millstream_state::{Charge, Combiner, MemoryBudget, MemoryClass, PARTITIONS};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// See the file's description.
pub(crate) struct OverlapRuntime {
    /// The windows.
    pub(crate) overlap: Overlap,
    /// Locked within the aggregation's progress.
    pub(crate) sweep: Mutex<Sweep>,
    /// How windows are made of slices.
    pub(crate) combining: Combining,
    /// One for each range of partitions.
    pub(crate) lanes: Vec<Ordered<Lane, Arc<Firing>>>,
    /// What slices that are in the windows to come consist of, by number of the table: kept for checkpoints, if there are any.
    /// Locked within the aggregation's progress.
    pub(crate) swept: Option<Mutex<SweptTables>>,
}

/// Tables of slices of which some windows have been fired.
#[derive(Debug, Default)]
pub(crate) struct SweptTables {
    tables: FrozenByNumber,
    /// Those of a checkpoint, which enter with the first window.
    restored: FrozenByNumber,
}

impl SweptTables {
    /// Those of a checkpoint that a query is recovered from.
    pub(crate) fn restored(tables: FrozenByNumber) -> SweptTables {
        SweptTables { tables: tables.clone(), restored: tables }
    }

    /// Takes note of tables that are to enter windows, and of the end of the last window that has been fired.
    pub(crate) fn enter(&mut self, overlap: Overlap, tables: TablesByNumber, last_end: Option<i64>) -> TablesByNumber {
        let mut shared = TablesByNumber::new();
        for (number, tables) in tables {
            let frozen: Vec<Arc<Frozen>> = tables.into_iter().map(Frozen::shared).collect();
            shared.insert(number, frozen.iter().cloned().map(Taken::Frozen).collect());
            self.tables.entry(number).or_default().extend(frozen);
        }
        if let Some(last_end) = last_end {
            let is_over =
                |number: i64| overlap.ends(overlap.table(number).slice_start).is_none_or(|(_, last)| last <= last_end);
            self.tables.retain(|&number, _| !is_over(number));
        }
        shared
    }

    /// The tables of the checkpoint, once.
    pub(crate) fn take_restored(&mut self) -> FrozenByNumber {
        std::mem::take(&mut self.restored)
    }

    /// All of them.
    pub(crate) fn all(&self) -> FrozenByNumber {
        self.tables.clone()
    }
}

/// The slices of a range of partitions.
pub(crate) struct Lane {
    /// What makes windows of them.
    pub(crate) combiner: Combiner,
    /// Of what the combiner has besides the partials.
    pub(crate) charge: Charge,
    /// What was seen of windows, for `combining`.
    pub(crate) report: Report,
}

impl OverlapRuntime {
    /// Without slices, for the workers of a run to combine at a time. The ranges stay the same for the whole run.
    pub(crate) fn new(
        overlap: Overlap,
        layout: &Arc<EntryLayout>,
        planned: Combination,
        config: &RunConfig,
        budget: &Arc<MemoryBudget>,
    ) -> OverlapRuntime {
        let ranges = config.workers.next_power_of_two().min(PARTITIONS);
        let size = PARTITIONS / ranges;
        let combining = Combining::new(&config.adaptivity, layout, planned, ranges);
        let lane = |r: usize| Lane {
            combiner: Combiner::new(Arc::clone(layout), combining.next(None), r * size..(r + 1) * size),
            charge: Charge::new(budget, MemoryClass::Partials, 0),
            report: Report::default(),
        };
        let lanes = (0..ranges).map(|r| Ordered::new(lane(r))).collect();
        OverlapRuntime { overlap, sweep: Mutex::new(Sweep::default()), combining, lanes, swept: None }
    }
}

/// How far the windows have been fired.
#[derive(Debug)]
pub(crate) struct Sweep {
    /// End of the last window.
    last: Option<i64>,
    /// End of the last window that holds a slice taken so far.
    until: i64,
    /// Windows so far.
    pub(crate) windows: u64,
}

impl Default for Sweep {
    fn default() -> Sweep {
        Sweep { last: None, until: i64::MIN, windows: 0 }
    }
}

/// A window to be fired.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Due<T> {
    /// Its number, from 0.
    pub(crate) number: u64,
    /// Its end.
    pub(crate) end: i64,
    /// What counts from it on, by slice.
    pub(crate) enters: BTreeMap<i64, T>,
    /// Whether no later window needs what has been taken so far.
    pub(crate) is_last: bool,
}

impl Due<Vec<Taken>> {
    /// Has the slices of a checkpoint enter with this window, which is the first one. They have been in windows before, so they
    /// are late for this one, and count for it and those to come.
    pub(crate) fn take_over(&mut self, overlap: Overlap, swept: &mut SweptTables) {
        for (number, tables) in swept.take_restored() {
            let slice = overlap.table(number).slice_start;
            self.enters.entry(slice).or_default().extend(tables.into_iter().map(Taken::Frozen));
        }
    }
}

impl Sweep {
    /// Of a checkpoint, with the end of the last window and that of the last window that holds a slice.
    pub(crate) fn restored(last: i64, until: i64) -> Sweep {
        Sweep { last: Some(last), until, windows: 0 }
    }

    /// End of the last window, and of the last window that holds a slice taken so far.
    pub(crate) fn reached(&self) -> Option<(i64, i64)> {
        self.last.map(|last| (last, self.until))
    }

    /// End of the next window that holds a slice taken so far: one that is in the last window and in a later one is in the
    /// next.
    pub(crate) fn next_end(&self, overlap: Overlap) -> Option<i64> {
        self.last.and_then(|last| last.checked_add(overlap.step_ms())).filter(|&end| end <= self.until)
    }

    /// The windows with rows that a watermark completes, in order, given the tables that it has completed.
    pub(crate) fn due<T>(
        &mut self,
        overlap: Overlap,
        tables: impl IntoIterator<Item = (SliceTable, T)>,
        watermark: i64,
    ) -> Vec<Due<T>> {
        let mut waiting: BTreeMap<i64, BTreeMap<i64, T>> = BTreeMap::new();
        for (SliceTable { slice_start, from_end }, table) in tables {
            waiting.entry(from_end).or_default().insert(slice_start, table);
        }
        let mut due = Vec::new();
        loop {
            let next = self.next_end(overlap);
            let first = waiting.keys().next().copied();
            let Some(end) = next.into_iter().chain(first).min().filter(|end| end.saturating_sub(1) <= watermark) else {
                break;
            };
            let enters = waiting.remove(&end).unwrap_or_default();
            for &slice in enters.keys() {
                self.until = self.until.max(overlap.ends(slice).map_or(end, |(_, last)| last));
            }
            self.last = Some(end);
            due.push(Due { number: self.windows, end, enters, is_last: self.until <= end && waiting.is_empty() });
            self.windows += 1;
        }
        debug_assert!(waiting.is_empty(), "a complete table has a complete window");
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(due: &[Due<()>]) -> Vec<(i64, Vec<i64>, bool)> {
        due.iter().map(|d| (d.end, d.enters.keys().copied().collect(), d.is_last)).collect()
    }

    fn table(slice_start: i64, from_end: i64) -> (SliceTable, ()) {
        (SliceTable { slice_start, from_end }, ())
    }

    #[test]
    fn windows_with_rows_are_fired_in_order_and_no_others() {
        let overlap = Overlap::Hop { size_ms: 6, slide_ms: 2, offset_ms: 0 };
        let mut sweep = Sweep::default();
        let due = sweep.due(overlap, [table(0, 2), table(2, 4)], 4);
        assert_eq!(ends(&due), [(2, vec![0], false), (4, vec![2], false)]);
        // A straggler of the first slice counts for the window that ends at 6 only.
        let due = sweep.due(overlap, [table(0, 6)], 5);
        assert_eq!(ends(&due), [(6, vec![0], false)]);
        let far = 1 << 50;
        let due = sweep.due(overlap, [table(far, far + 2)], far + 3);
        assert_eq!(ends(&due), [(8, vec![], false), (far + 2, vec![far], false), (far + 4, vec![], false)]);
        let due = sweep.due(overlap, [], i64::MAX);
        assert_eq!(ends(&due), [(far + 6, vec![], true)]);
        assert_eq!(sweep.windows, 7);
    }

    #[test]
    fn slices_of_one_first_window_enter_it_together() {
        let overlap = Overlap::Cumulate { size_ms: 6, step_ms: 2, offset_ms: 1 };
        let mut sweep = Sweep::default();
        let due = sweep.due(overlap, [table(-5, -3), table(-3, -1)], i64::MAX);
        assert_eq!(ends(&due), [(-3, vec![-5], false), (-1, vec![-3], false), (1, vec![], true)]);
        let overlap = Overlap::Hop { size_ms: 3, slide_ms: 2, offset_ms: 0 };
        let due = Sweep::default().due(overlap, [table(1, 3), table(0, 3)], i64::MAX);
        assert_eq!(ends(&due), [(3, vec![0, 1], true)]);
    }
}
