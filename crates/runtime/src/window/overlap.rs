//! Overlapping windows at run time: which of them to fire, and what their slices have become.
//!
//! The tables of complete slices are sealed once. Each range of partitions has a [`Combiner`] that takes the slices in and
//! makes the windows in the order of their ends: a job for each window ([`Ordered`]), which any worker performs. Only
//! windows that hold a slice with rows are jobs, however far the watermark has jumped, and a bounded number of them at a time.
//!
//! When memory is short, the slices are spilled. Then combiners forget what they have, and windows are recomputed from
//! the tables of all of their slices, as windows of one slice are (`block_merges`). That reads a slice once for each of
//! its windows, but needs a bounded amount of memory. The same happens when slices that were spilled before they were
//! complete are too large to be read as a whole. When no slice is in files any more, all of them enter the combiners
//! again.

use super::combining::{Combining, Report};
use super::firing::Firing;
use super::ordered::Ordered;
use super::sweep::{DueWindow, Sweep};
use super::tables::frozen::Frozen;
use super::tables::{FrozenByNumber, TablesByNumber, Taken};
use crate::config::{RunConfig, When};
use crate::station::progress::Forward;
use millstream_abi::EntryLayout;
use millstream_plan::pipeline::{Aggregation as Planned, ShorterWindows};
use millstream_plan::window::{Overlap, SliceTable};
use millstream_state::{Charge, Combiner, MemoryBudget, MemoryClass};
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Windows that are fired at a time. A watermark may complete a million, each of which is a job with its own output;
/// more are fired when half of them have been delivered.
pub(super) const MOST_WINDOWS: usize = 256;

/// Tables in files enter combiners while they take less than 1/`READ_SHARE` of the budget.
pub(super) const READ_SHARE: u64 = 16;

/// The windows of an aggregation that share slices.
pub(crate) struct OverlappingWindows {
    /// The windows.
    pub(crate) overlap: Overlap,
    /// Components that count shorter ones.
    pub(crate) shorter: Option<ShorterWindows>,
    /// Locked within the aggregation's progress.
    pub(crate) sweep: Mutex<Sweep>,
    /// How windows are made of slices.
    pub(crate) combining: Combining,
    /// One for each range of partitions.
    pub(crate) lanes: Vec<Ordered<SliceLane, Arc<Firing>>>,
    /// Partitions of such a range.
    range: usize,
    /// What slices that are in the windows to come consist of. Locked within the aggregation's progress.
    pub(crate) swept: Mutex<SweptTables>,
    /// Windows that have been fired and not been delivered.
    pub(super) under_way: AtomicUsize,
    /// What the inputs have brought, while not all windows that it completes have been fired. Locked within the
    /// aggregation's progress.
    pub(super) held: Mutex<Option<Forward>>,
}

/// Tables of slices of which some windows have been fired, by number.
#[derive(Debug)]
pub(crate) struct SweptTables {
    pub(super) tables: FrozenByNumber,
    /// Those that no combiner has, and that enter with the next window: of a checkpoint, or that have been in files.
    pub(super) apart: FrozenByNumber,
    /// Whether windows are merged from these tables, instead of being made by combiners.
    pub(super) is_by_blocks: bool,
}

impl SweptTables {
    /// From the next window on, combiners have all of them.
    pub(super) fn combine_again(&mut self) {
        self.apart = self.tables.clone();
    }

    /// From the next window on, no combiner has any of them.
    pub(super) fn combine_no_more(&mut self) {
        (self.is_by_blocks, self.apart) = (true, FrozenByNumber::new());
    }

    /// Whether one of them is in files only.
    pub(super) fn is_any_stored(&self) -> bool {
        self.tables.values().flatten().any(|table| table.stored().is_some())
    }

    /// Bytes in files of those that have not entered a combiner, if `tables` have not.
    pub(super) fn bytes_to_read(&self, tables: &TablesByNumber) -> u64 {
        let entering = tables.values().flatten().filter_map(Taken::stored);
        let apart = self.apart.values().flatten().filter_map(|table| table.stored());
        entering.chain(apart).map(|stored| stored.bytes()).sum()
    }

    /// Those that the window of these bounds is made of: of slices before the shorter window with that end, if there are such,
    /// and of others.
    pub(super) fn of_window(
        &self,
        (overlap, shorter): (Overlap, Option<&ShorterWindows>),
        start: i64,
        end: i64,
    ) -> [Vec<Taken>; 2] {
        let whole_from = shorter.map_or(i64::MIN, |shorter| shorter.start_of_window(end));
        let is_in = |number: i64| {
            let SliceTable { slice_start, from_end } = overlap.table(number);
            start <= slice_start && slice_start < end && from_end <= end
        };
        let mut parts = [Vec::new(), Vec::new()];
        for (&number, tables) in self.tables.iter().filter(|&(&number, _)| is_in(number)) {
            let is_whole = overlap.table(number).slice_start >= whole_from;
            parts[usize::from(is_whole)].extend(tables.iter().cloned().map(Taken::Frozen));
        }
        parts
    }

    /// Takes note of tables that are to enter windows.
    pub(super) fn enter(&mut self, tables: TablesByNumber) -> TablesByNumber {
        let mut shared = TablesByNumber::new();
        for (number, tables) in tables {
            let frozen: Vec<Arc<Frozen>> = tables.into_iter().map(Frozen::shared).collect();
            shared.insert(number, frozen.iter().cloned().map(Taken::Frozen).collect());
            self.tables.entry(number).or_default().extend(frozen);
        }
        shared
    }

    /// Forgets those that no window after `last_end` has.
    pub(super) fn forget(&mut self, overlap: Overlap, last_end: i64) {
        let is_over =
            |number: i64| overlap.ends(overlap.table(number).slice_start).is_none_or(|(_, last)| last <= last_end);
        self.tables.retain(|&number, _| !is_over(number));
    }
}

/// The slices of a range of partitions.
pub(crate) struct SliceLane {
    /// What makes windows of them.
    pub(crate) combiner: Combiner,
    /// Of what the combiner has besides the partials.
    pub(crate) charge: Charge,
    /// What was seen of windows, for `combining`.
    pub(crate) report: Report,
    /// Rows of the window that the combiner has made last which have been delivered, while some have not.
    pub(crate) delivered: Option<usize>,
}

impl OverlappingWindows {
    /// Without slices, for the workers of a run to combine at a time. The ranges stay the same for the whole run.
    pub(crate) fn new(
        overlap: Overlap,
        (layout, plan): (&Arc<EntryLayout>, &Planned),
        config: &RunConfig,
        budget: &Arc<MemoryBudget>,
    ) -> OverlappingWindows {
        let is_by_blocks = config.spill.mode == When::Always;
        let swept = SweptTables { tables: FrozenByNumber::new(), apart: FrozenByNumber::new(), is_by_blocks };
        let partitions = layout.partitions().len();
        let ranges = config.workers.next_power_of_two().min(partitions);
        let range = partitions / ranges;
        let components = (plan.components.as_slice(), plan.shorter.as_ref());
        let combining = Combining::new(&config.adaptivity, components, plan.combination, ranges);
        let lane = |r: usize| SliceLane {
            combiner: Combiner::of_two(
                Arc::clone(layout),
                plan.shorter.clone(),
                combining.next(None),
                r * range..(r + 1) * range,
            ),
            charge: Charge::new(budget, MemoryClass::Partials, 0),
            report: Report::default(),
            delivered: None,
        };
        let lanes = (0..ranges).map(|r| Ordered::new(lane(r))).collect();
        let (sweep, swept) = (Mutex::new(Sweep::default()), Mutex::new(swept));
        let (under_way, held) = (AtomicUsize::new(0), Mutex::new(None));
        let shorter = plan.shorter.clone();
        OverlappingWindows { overlap, shorter, sweep, combining, lanes, range, swept, under_way, held }
    }

    /// The partitions of a lane.
    pub(super) fn partitions(&self, lane: usize) -> Range<usize> {
        lane * self.range..(lane + 1) * self.range
    }

    /// What the inputs have brought and has not been acted on to its end. `Err` while too many windows are under way.
    pub(crate) fn take_held(&self) -> Result<Option<Forward>, ()> {
        let mut held = self.held.lock();
        match held.is_some() && self.under_way.load(Ordering::SeqCst) > MOST_WINDOWS / 2 {
            true => Err(()),
            false => Ok(held.take()),
        }
    }

    /// Whether windows that were held back can be fired now. Who delivers a window asks after it has said so, who holds windows back
    /// looks at those under way after that: one of the two sees the other.
    pub(crate) fn may_fire(&self) -> bool {
        self.under_way.load(Ordering::SeqCst) <= MOST_WINDOWS / 2 && self.held.lock().is_some()
    }
}

impl DueWindow {
    /// Has slices enter with this window that no combiner has. They have been in windows before, so they are late for this
    /// one, and count for it and those to come.
    pub(super) fn take_over(&mut self, overlap: Overlap, apart: FrozenByNumber) {
        for (number, tables) in apart {
            let slice = overlap.table(number).slice_start;
            self.enters.entry(slice).or_default().extend(tables.into_iter().map(Taken::Frozen));
        }
    }
}
