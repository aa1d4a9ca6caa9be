//! Overlapping windows at run time: which of them to fire, and what their slices have become.
//!
//! The tables of complete slices are sealed once. Each range of partitions has a [`Combiner`] that takes the slices in and
//! makes the windows in the order of their ends: a job for each window ([`Ordered`]), which any worker performs. Only
//! windows that hold a slice with rows are jobs, however far the watermark has jumped, and a bounded number of them at a time.
//!
//! When memory is short, the slices are spilled. Then combiners forget what they have, and windows are merged anew from the
//! tables of all of their slices, as windows of one slice are (`spill::merging`): that reads a slice once for each of its
//! windows, but needs a bounded amount of memory. The same happens when slices that were spilled before they were complete are too large to
//! be read as a whole. When no slice is in files any more, all of them enter the combiners again.

use crate::combining::{Combining, Report};
use crate::config::RunConfig;
use crate::ordered::Ordered;
use crate::progress::Forward;
use crate::query::Query;
use crate::spill::SpillMode;
use crate::tables::{Frozen, FrozenByNumber, TablesByNumber, Taken};
use crate::task::Task;
use crate::trigger::Firing;
use millstream_abi::EntryLayout;
use millstream_plan::pipeline::Combination;
use millstream_plan::window::{Overlap, SliceTable};
use millstream_state::{Charge, Combiner, MemoryBudget, MemoryClass, PARTITIONS};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Windows that are fired at a time. A watermark may complete a million, each of which is a job with an output of its own; more
/// are fired when half of them have been delivered.
const MOST_WINDOWS: usize = 256;

/// Tables in files enter combiners while they take less than one in so many bytes of the budget.
const READ_SHARE: u64 = 16;

/// The windows of an aggregation that share slices.
pub(crate) struct OverlapRuntime {
    /// The windows.
    pub(crate) overlap: Overlap,
    /// Locked within the aggregation's progress.
    pub(crate) sweep: Mutex<Sweep<Vec<Taken>>>,
    /// How windows are made of slices.
    pub(crate) combining: Combining,
    /// One for each range of partitions.
    pub(crate) lanes: Vec<Ordered<Lane, Arc<Firing>>>,
    /// What slices that are in the windows to come consist of. Locked within the aggregation's progress.
    pub(crate) swept: Mutex<SweptTables>,
    /// Windows that have been fired and not been delivered.
    under_way: AtomicUsize,
    /// What the inputs have brought, while not all windows that it completes have been fired. Locked within the
    /// aggregation's progress.
    held: Mutex<Option<Forward>>,
}

/// Tables of slices of which some windows have been fired, by number.
#[derive(Debug)]
pub(crate) struct SweptTables {
    tables: FrozenByNumber,
    /// Those that no combiner has, and that enter with the next window: of a checkpoint, or that have been in files.
    apart: FrozenByNumber,
    /// Whether windows are merged from these tables, instead of being made by combiners.
    is_by_blocks: bool,
}

impl SweptTables {
    /// Has those of a checkpoint that a query is recovered from.
    pub(crate) fn restore(&mut self, tables: FrozenByNumber) {
        self.tables = tables;
        self.combine_again();
    }

    /// From the next window on, combiners have all of them.
    fn combine_again(&mut self) {
        self.apart = self.tables.clone();
    }

    /// From the next window on, no combiner has any of them.
    fn combine_no_more(&mut self) {
        (self.is_by_blocks, self.apart) = (true, FrozenByNumber::new());
    }

    /// Whether one of them is in files only.
    fn is_any_stored(&self) -> bool {
        self.tables.values().flatten().any(|table| table.is_stored())
    }

    /// Bytes in files of those that have not entered a combiner, if `tables` have not.
    fn bytes_to_read(&self, tables: &TablesByNumber) -> u64 {
        let frozen = |taken: &Taken| match taken {
            Taken::Frozen(table) => table.stored(),
            Taken::Own(_) | Taken::Shared(_) | Taken::Array(_) => None,
        };
        let entering = tables.values().flatten().filter_map(frozen);
        let apart = self.apart.values().flatten().filter_map(|table| table.stored());
        entering.chain(apart).map(|stored| stored.bytes()).sum()
    }

    /// Those that the window of these bounds is made of.
    fn of_window(&self, overlap: Overlap, start: i64, end: i64) -> Vec<Taken> {
        let is_in = |number: i64| {
            let SliceTable { slice_start, from_end } = overlap.table(number);
            start <= slice_start && slice_start < end && from_end <= end
        };
        let tables = self.tables.iter().filter(|&(&number, _)| is_in(number));
        tables.flat_map(|(_, tables)| tables).cloned().map(Taken::Frozen).collect()
    }

    /// Takes note of tables that are to enter windows.
    fn enter(&mut self, tables: TablesByNumber) -> TablesByNumber {
        let mut shared = TablesByNumber::new();
        for (number, tables) in tables {
            let frozen: Vec<Arc<Frozen>> = tables.into_iter().map(Frozen::shared).collect();
            shared.insert(number, frozen.iter().cloned().map(Taken::Frozen).collect());
            self.tables.entry(number).or_default().extend(frozen);
        }
        shared
    }

    /// Forgets those that no window after `last_end` has.
    fn forget(&mut self, overlap: Overlap, last_end: i64) {
        let is_over =
            |number: i64| overlap.ends(overlap.table(number).slice_start).is_none_or(|(_, last)| last <= last_end);
        self.tables.retain(|&number, _| !is_over(number));
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
    /// Rows of the window that the combiner has made last which have been delivered, while some have not.
    pub(crate) delivered: Option<usize>,
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
        let is_by_blocks = config.spill.mode == SpillMode::Always;
        let swept = SweptTables { tables: FrozenByNumber::new(), apart: FrozenByNumber::new(), is_by_blocks };
        let ranges = config.workers.next_power_of_two().min(PARTITIONS);
        let size = PARTITIONS / ranges;
        let combining = Combining::new(&config.adaptivity, layout, planned, ranges);
        let lane = |r: usize| Lane {
            combiner: Combiner::new(Arc::clone(layout), combining.next(None), r * size..(r + 1) * size),
            charge: Charge::new(budget, MemoryClass::Partials, 0),
            report: Report::default(),
            delivered: None,
        };
        let lanes = (0..ranges).map(|r| Ordered::new(lane(r))).collect();
        let (sweep, swept) = (Mutex::new(Sweep::default()), Mutex::new(swept));
        let (under_way, held) = (AtomicUsize::new(0), Mutex::new(None));
        OverlapRuntime { overlap, sweep, combining, lanes, swept, under_way, held }
    }

    /// What the inputs have brought and has not been acted on to its end. `Err` while too many windows are under way.
    pub(crate) fn take_held(&self) -> Result<Option<Forward>, ()> {
        let mut held = self.held.lock();
        match held.is_some() && self.under_way.load(Ordering::SeqCst) > MOST_WINDOWS / 2 {
            true => Err(()),
            false => Ok(held.take()),
        }
    }

    /// Acts on the rest of what the inputs have brought later.
    pub(crate) fn hold(&self, forward: Forward) {
        *self.held.lock() = Some(forward);
    }

    /// A window has been delivered.
    pub(crate) fn window_delivered(&self) {
        self.under_way.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether windows that were held back can be fired now. Who delivers a window asks after it has said so, who holds windows back
    /// looks at those under way after that: one of the two sees the other.
    pub(crate) fn may_fire(&self) -> bool {
        self.under_way.load(Ordering::SeqCst) <= MOST_WINDOWS / 2 && self.held.lock().is_some()
    }
}

/// How far the windows have been fired.
#[derive(Debug)]
pub(crate) struct Sweep<T> {
    /// End of the last window.
    last: Option<i64>,
    /// End of the last window that holds a slice taken so far.
    until: i64,
    /// Tables that were taken and whose first window has not been fired, by its end and by slice.
    waiting: BTreeMap<i64, BTreeMap<i64, T>>,
    /// Jobs of the lanes so far.
    jobs: u64,
}

impl<T> Default for Sweep<T> {
    fn default() -> Sweep<T> {
        Sweep { last: None, until: i64::MIN, waiting: BTreeMap::new(), jobs: 0 }
    }
}

/// A window to be fired.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Due<T> {
    /// Its end.
    pub(crate) end: i64,
    /// What counts from it on, by slice.
    pub(crate) enters: BTreeMap<i64, T>,
    /// Whether no later window needs what has been taken so far.
    pub(crate) is_last: bool,
}

impl Due<Vec<Taken>> {
    /// Has slices enter with this window that no combiner has. They have been in windows before, so they are late for this
    /// one, and count for it and those to come.
    fn take_over(&mut self, overlap: Overlap, apart: FrozenByNumber) {
        for (number, tables) in apart {
            let slice = overlap.table(number).slice_start;
            self.enters.entry(slice).or_default().extend(tables.into_iter().map(Taken::Frozen));
        }
    }
}

impl<T> Sweep<T> {
    /// Of a checkpoint, with the end of the last window and that of the last window that holds a slice.
    pub(crate) fn restored(last: i64, until: i64) -> Sweep<T> {
        Sweep { last: Some(last), until, ..Sweep::default() }
    }

    /// The number of the next job of the lanes.
    fn next_job(&mut self) -> u64 {
        self.jobs += 1;
        self.jobs - 1
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

    /// The next windows with rows that a watermark completes, in order, given the tables that it has completed: `most` of
    /// them. Ask again until there are fewer.
    pub(crate) fn due(
        &mut self,
        overlap: Overlap,
        tables: impl IntoIterator<Item = (SliceTable, T)>,
        watermark: i64,
        most: usize,
    ) -> Vec<Due<T>> {
        for (SliceTable { slice_start, from_end }, table) in tables {
            self.waiting.entry(from_end).or_default().insert(slice_start, table);
        }
        let mut due = Vec::new();
        while due.len() < most {
            let next = self.next_end(overlap);
            let first = self.waiting.keys().next().copied();
            let Some(end) = next.into_iter().chain(first).min().filter(|end| end.saturating_sub(1) <= watermark) else {
                debug_assert!(self.waiting.is_empty(), "a complete table has a complete window");
                break;
            };
            let enters = self.waiting.remove(&end).unwrap_or_default();
            for &slice in enters.keys() {
                self.until = self.until.max(overlap.ends(slice).map_or(end, |(_, last)| last));
            }
            self.last = Some(end);
            due.push(Due { end, enters, is_last: self.until <= end && self.waiting.is_empty() });
        }
        due
    }
}

impl Query {
    /// The next windows of slices that are complete at a time of theirs, with the tables that are, and whether there may be
    /// more. Under the lock of the aggregation's progress.
    pub(crate) fn fire_overlapping(
        &self,
        (aggregation, overlap): (usize, &OverlapRuntime),
        tables: TablesByNumber,
        reached: i64,
        completed: Instant,
        units: &mut u64,
    ) -> (Vec<Firing>, bool) {
        let (mut sweep, mut swept) = (overlap.sweep.lock(), overlap.swept.lock());
        // Not while tables wait for their first window: they enter with that.
        let may_combine = swept.is_by_blocks && sweep.waiting.is_empty();
        if may_combine && !self.spilling.is_eager() && !self.spilling.is_short() && !swept.is_any_stored() {
            swept.is_by_blocks = false;
            swept.combine_again();
        }
        let mut tasks = Vec::new();
        if !swept.is_by_blocks && swept.bytes_to_read(&tables) > self.flow.budget.limit() / READ_SHARE {
            tasks = self.combine_no_more(aggregation, &mut sweep, &mut swept);
        }
        let tables = swept.enter(tables).into_iter().map(|(id, tables)| (overlap.overlap.table(id), tables));
        let mut due = sweep.due(overlap.overlap, tables, reached, MOST_WINDOWS);
        let last_end = due.last().map(|due| due.end).filter(|_| due.len() == MOST_WINDOWS);
        if let Some(first) = due.first_mut().filter(|_| !swept.is_by_blocks) {
            first.take_over(overlap.overlap, std::mem::take(&mut swept.apart));
        }
        let timeline = self.aggregations[aggregation].timeline;
        let next_end = sweep.next_end(overlap.overlap);
        next_end.into_iter().for_each(|end| self.due_at_watermark(timeline.watermark_at(end - 1)));
        let window = |due: Due<Vec<Taken>>| match swept.is_by_blocks {
            true => {
                let (start, end) = (overlap.overlap.start_of_window(due.end), due.end);
                let tables = swept.of_window(overlap.overlap, start, end);
                Firing::of_tables(aggregation, Some((start, end)), tables, completed, units)
            }
            false => Firing::of_slices(aggregation, overlap, due, sweep.next_job(), completed, units),
        };
        let firings: Vec<Firing> = due.into_iter().map(window).collect();
        swept.forget(overlap.overlap, last_end.unwrap_or(reached.saturating_add(1)));
        overlap.under_way.fetch_add(firings.len(), Ordering::SeqCst);
        self.scheduler.push(tasks);
        (firings, last_end.is_some())
    }

    /// Has combiners forget what they have, behind the windows that are on their way: windows to come are merged by blocks.
    fn combine_no_more(&self, aggregation: usize, sweep: &mut Sweep<Vec<Taken>>, swept: &mut SweptTables) -> Vec<Task> {
        swept.combine_no_more();
        self.sealed(&Arc::new(Firing::of_nothing(aggregation, sweep.next_job())))
    }

    /// The slices of an aggregation that no combiner has or will have: they can be spilled. Empty for windows that do not
    /// overlap.
    pub(crate) fn slices_to_spill(&self, aggregation: usize) -> FrozenByNumber {
        let runtime = &self.aggregations[aggregation];
        let Some(overlap) = &runtime.overlap else { return FrozenByNumber::new() };
        let _progress = runtime.progress();
        let (mut sweep, mut swept) = (overlap.sweep.lock(), overlap.swept.lock());
        if !swept.is_by_blocks && !swept.tables.is_empty() {
            let tasks = self.combine_no_more(aggregation, &mut sweep, &mut swept);
            self.scheduler.push(tasks);
        }
        swept.all()
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
        let due = sweep.due(overlap, [table(0, 2), table(2, 4)], 4, 10);
        assert_eq!(ends(&due), [(2, vec![0], false), (4, vec![2], false)]);
        // A straggler of the first slice counts for the window that ends at 6 only.
        let due = sweep.due(overlap, [table(0, 6)], 5, 10);
        assert_eq!(ends(&due), [(6, vec![0], false)]);
        let far = 1 << 50;
        let due = sweep.due(overlap, [table(far, far + 2)], far + 3, 10);
        assert_eq!(ends(&due), [(8, vec![], false), (far + 2, vec![far], false), (far + 4, vec![], false)]);
        let due = sweep.due(overlap, [], i64::MAX, 10);
        assert_eq!(ends(&due), [(far + 6, vec![], true)]);
    }

    #[test]
    fn a_bounded_number_of_windows_is_fired_at_a_time() {
        let overlap = Overlap::Hop { size_ms: 4, slide_ms: 1, offset_ms: 0 };
        let mut sweep = Sweep::default();
        let mut next = |tables: &[(SliceTable, ())]| ends(&sweep.due(overlap, tables.iter().copied(), 9, 3));
        assert_eq!(next(&[table(0, 1), table(2, 3)]), [(1, vec![0], false), (2, vec![], false), (3, vec![2], false)]);
        assert_eq!(next(&[]), [(4, vec![], false), (5, vec![], false), (6, vec![], true)]);
        assert_eq!(next(&[table(1, 8)]), [(8, vec![1], true)], "a straggler");
        assert_eq!(next(&[]), []);
    }

    #[test]
    fn slices_of_one_first_window_enter_it_together() {
        let overlap = Overlap::Cumulate { size_ms: 6, step_ms: 2, offset_ms: 1 };
        let mut sweep = Sweep::default();
        let due = sweep.due(overlap, [table(-5, -3), table(-3, -1)], i64::MAX, 10);
        assert_eq!(ends(&due), [(-3, vec![-5], false), (-1, vec![-3], false), (1, vec![], true)]);
        let overlap = Overlap::Hop { size_ms: 3, slide_ms: 2, offset_ms: 0 };
        let due = Sweep::default().due(overlap, [table(1, 3), table(0, 3)], i64::MAX, 10);
        assert_eq!(ends(&due), [(3, vec![0, 1], true)]);
    }
}
