//! Overlapping windows from their slices (design section 5).
//!
//! Slices arrive in order, each as the partials of several workers; windows are asked for in the order of their ends, and
//! begin no earlier than the window before. How much of the work of one window serves the next is a matter of the
//! [`Combination`]: none (recompute), all but what enters and leaves (subtract), or, for accumulators without inverse, the
//! merges of two stacks of slices. All give the same rows, and one may take the place of another between any two windows:
//! the slices that are kept enter it again.
//!
//! # Components over shorter windows
//!
//! ```text
//!  slice    1  2  3  4  5  6  7 │ 8  9
//!  window  [        masked      │ whole ]      method: 1…7, merged with 8 and 9 for this window
//! ```
//!
//! Some components may count only a shorter window, which ends with the other ([`ShorterWindows`]). Then a slice enters the
//! method when it leaves the shorter window, *masked*: as if no row had updated those components. So the method never
//! has them, and whether slices can be subtracted is a matter of the others alone. The slices of the shorter window are merged for each
//! window, as they are.

mod running;
mod stacks;
mod together;

use crate::merge::{Merged, merge};
use crate::partial::Partial;
use millstream_abi::{Accumulator, Combination, EntryLayout, ShorterWindows};
use running::Running;
use stacks::Stacks;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Makes the windows of one range of partitions of an aggregation. Tasks over disjoint ranges can run at once.
#[derive(Debug)]
pub struct Combiner {
    layout: Arc<EntryLayout>,
    shorter: Option<ShorterWindows>,
    partitions: Range<usize>,
    /// In order of start; those before `entered` are part of `method`. The others are in the shorter window, start after the
    /// last window, or the method is new.
    slices: VecDeque<Slice>,
    entered: usize,
    /// Those behind them that the last window has.
    whole: usize,
    late: Vec<Late>,
    combination: Combination,
    method: Method,
    /// The last window. It may point into `method` and `slices`: cleared before they change.
    window: Merged,
}

/// The partials of a slice.
#[derive(Debug)]
struct Slice {
    start: i64,
    partials: Vec<Arc<Partial>>,
    /// Whether they lack the components of shorter windows.
    is_masked: bool,
    /// Entries of all partials.
    entries: usize,
}

/// What a window was made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WindowContents {
    /// Slices with rows.
    pub slices: usize,
    /// Entries of their partials.
    pub entries: usize,
    /// Keys of the window.
    pub keys: usize,
}

/// Partials of rows that came when some windows of their slice were complete.
#[derive(Debug)]
struct Late {
    slice: Slice,
    from_end: i64,
}

#[derive(Debug)]
enum Method {
    Recompute,
    Subtract(Box<Running>),
    TwoStacks(Box<Stacks>),
}

impl Combiner {
    /// Without slices.
    ///
    /// # Panics
    /// For [`Combination::Subtract`] with accumulators that are not invertible.
    pub fn new(layout: Arc<EntryLayout>, combination: Combination, partitions: Range<usize>) -> Combiner {
        Combiner::of_two(layout, None, combination, partitions)
    }

    /// The same, of which some components may count shorter windows.
    ///
    /// # Panics
    /// For [`Combination::Subtract`] with other accumulators that are not invertible.
    pub fn of_two(
        layout: Arc<EntryLayout>,
        shorter: Option<ShorterWindows>,
        combination: Combination,
        partitions: Range<usize>,
    ) -> Combiner {
        let window = Merged::empty(Arc::clone(&layout));
        Combiner {
            method: Method::new(combination, (&layout, shorter.as_ref()), &partitions),
            layout,
            shorter,
            partitions,
            slices: VecDeque::new(),
            entered: 0,
            whole: 0,
            late: Vec::new(),
            combination,
            window,
        }
    }

    /// How windows are made now.
    pub fn combination(&self) -> Combination {
        self.combination
    }

    /// Makes the windows to come in another way. The next one costs as much as merging all of its slices.
    ///
    /// # Panics
    /// As for [`Combiner::new`].
    pub fn set_combination(&mut self, combination: Combination) {
        if combination == self.combination {
            return;
        }
        self.forget_window();
        self.combination = combination;
        self.method = Method::new(combination, (&self.layout, self.shorter.as_ref()), &self.partitions);
        (self.entered, self.whole) = (0, 0);
    }

    /// Adds the slice at `start`. Slices come in ascending order of start and before the first window that they belong to
    /// is asked for; what comes for a slice again counts from the next window on.
    pub fn add_slice(&mut self, start: i64, partials: &[Arc<Partial>]) {
        let in_order = self.slices.back().is_none_or(|last| last.start < start);
        if !in_order {
            return self.add_late(start, i64::MIN, partials);
        }
        self.forget_window();
        let slice = self.slice(start, partials);
        if !slice.partials.is_empty() {
            self.slices.push_back(slice);
        }
    }

    /// Adds rows of the slice at `start` that only count for windows that end at or after `from_end`. Not later than those
    /// windows are asked for.
    pub fn add_late(&mut self, start: i64, from_end: i64, partials: &[Arc<Partial>]) {
        self.forget_window();
        let slice = self.slice(start, partials);
        if !slice.partials.is_empty() {
            self.late.push(Late { slice, from_end });
        }
    }

    /// The rows of the window of the slices that start at or after `first_slice_start` and before `end_slice_start` (for
    /// late rows: the end of the window), sorted as those of [`merge`]. Neither is less than that of the window before.
    /// Slices that start before the window are forgotten.
    pub fn window(&mut self, first_slice_start: i64, end_slice_start: i64) -> &Merged {
        self.forget_window();
        self.evict(first_slice_start);
        self.enter(end_slice_start);
        self.window = self.combine(end_slice_start);
        &self.window
    }

    /// The rows of the last window, if nothing has changed since.
    pub fn made(&self) -> &Merged {
        &self.window
    }

    /// Forgets all slices.
    pub fn clear(&mut self) {
        let shorter = self.shorter.take();
        *self = Combiner::of_two(Arc::clone(&self.layout), shorter, self.combination, self.partitions.clone());
    }

    /// What the last window was made of, but for late rows that are merged by themselves.
    pub fn contents(&self) -> WindowContents {
        let slices = self.entered + self.whole;
        let entries = self.slices.range(..slices).map(|slice| slice.entries).sum();
        WindowContents { slices, entries, keys: self.window.len() }
    }

    /// Number of slices kept.
    pub fn slices(&self) -> usize {
        self.slices.len() + self.late.len()
    }

    /// Bytes of memory besides the partials, which several combiners share.
    pub fn bytes(&self) -> usize {
        match &self.method {
            Method::Recompute => 0,
            Method::Subtract(running) => running.bytes(),
            Method::TwoStacks(stacks) => stacks.bytes(),
        }
    }

    fn slice(&self, start: i64, partials: &[Arc<Partial>]) -> Slice {
        let mine = partials.iter().filter(|p| p.len_of(&self.partitions) > 0);
        let partials: Vec<Arc<Partial>> = mine.cloned().collect();
        let entries = partials.iter().map(|p| p.len_of(&self.partitions)).sum();
        Slice { start, partials, is_masked: false, entries }
    }

    fn forget_window(&mut self) {
        self.window = Merged::empty(Arc::clone(&self.layout));
    }

    /// Forgets slices that start before `first`.
    fn evict(&mut self, first: i64) {
        let count = self.slices.iter().take_while(|s| s.start < first).count();
        let evicted: Vec<Slice> = self.slices.drain(..count).collect();
        let entered = count.min(self.entered);
        (self.entered, self.whole) = (self.entered - entered, 0);
        self.late.retain(|late| late.slice.start >= first);
        match &mut self.method {
            Method::Recompute => {}
            Method::Subtract(running) => {
                for partial in evicted[..entered].iter().flat_map(|slice| &slice.partials) {
                    running.subtract(partial);
                }
                running.tidy();
            }
            Method::TwoStacks(stacks) => {
                let remaining = self.slices.range(..self.entered).map(|slice| slice.partials.as_slice());
                stacks.evict(entered, remaining);
            }
        }
    }

    /// Takes in slices that start before `end`, but for those of the shorter window, and late ones that count for the window
    /// that ends there.
    fn enter(&mut self, end: i64) {
        let shorter = self.start_of_shorter(end);
        while let Some(slice) = self.slices.get_mut(self.entered).filter(|slice| slice.start < shorter) {
            self.entered += 1;
            slice.mask(&self.partitions, self.shorter.as_ref());
            self.method.add(slice);
        }
        let (counts, waits) = std::mem::take(&mut self.late).into_iter().partition(|late| late.counts_for(end));
        self.late = waits;
        let counts: Vec<Late> = counts;
        for late in counts {
            let stays = self.rejoin(late, shorter);
            self.late.extend(stays);
        }
        self.whole = self.slices.range(self.entered..).take_while(|slice| slice.start < end).count();
    }

    /// Start of the shorter window that ends with a window; without shorter ones its end.
    fn start_of_shorter(&self, end: i64) -> i64 {
        self.shorter.as_ref().map_or(end, |shorter| shorter.start_of_window(end))
    }

    /// Puts late rows to those of their slice, so that windows do not merge them one by one; gives them back where the
    /// slice is in the front of the stacks, which does not change. (Most are late by less than a window, and the front is
    /// old.) Slices from `shorter` on have not entered.
    fn rejoin(&mut self, mut late: Late, shorter: i64) -> Option<Late> {
        let place = self.slices.partition_point(|slice| slice.start < late.slice.start);
        let has_entered = late.slice.start < shorter;
        if has_entered {
            late.slice.mask(&self.partitions, self.shorter.as_ref());
            if matches!(&self.method, Method::TwoStacks(stacks) if place < stacks.front()) {
                return Some(late);
            }
            self.method.add(&late.slice);
        }
        match self.slices.get_mut(place).filter(|slice| slice.start == late.slice.start) {
            Some(slice) => {
                slice.entries += late.slice.entries;
                slice.partials.extend(late.slice.partials);
            }
            None => {
                self.slices.insert(place, late.slice);
                self.entered += usize::from(has_entered);
            }
        }
        None
    }

    fn combine(&mut self, end: i64) -> Merged {
        let late = self.late.iter().filter(|late| late.counts_for(end)).map(|late| &late.slice);
        let whole = self.slices.range(self.entered..self.entered + self.whole);
        let apart: Vec<&Arc<Partial>> = whole.chain(late).flat_map(|slice| &slice.partials).collect();
        let entered = self.slices.range(..self.entered).flat_map(|slice| &slice.partials);
        if self.entered <= 1 || matches!(self.method, Method::Recompute) {
            let partials: Vec<Arc<Partial>> = entered.chain(apart).cloned().collect();
            return match partials.as_slice() {
                [] => Merged::empty(Arc::clone(&self.layout)),
                partials => merge(partials, self.partitions.clone()),
            };
        }
        let merged = match &mut self.method {
            // SAFETY: the running window, and the slices that are not in it, are not changed while this one is used.
            Method::Subtract(running) => unsafe { running.merged(&apart) },
            // SAFETY: strings are those of slices and late partials; neither they nor the stacks are changed while the
            // window is used.
            Method::TwoStacks(stacks) => unsafe { stacks.merged(&apart) },
            Method::Recompute => unreachable!("recomputed above"),
        };
        // What is far is rare, and merged again for each window.
        merged.with_far(entered.chain(apart), &self.partitions)
    }
}

impl Method {
    /// Without slices.
    ///
    /// # Panics
    /// As for [`Combiner::new`].
    fn new(
        combination: Combination,
        (layout, shorter): (&Arc<EntryLayout>, Option<&ShorterWindows>),
        partitions: &Range<usize>,
    ) -> Method {
        match combination {
            Combination::Recompute => Method::Recompute,
            Combination::Subtract => {
                let components = layout.accumulators.iter().map(|(a, _)| *a);
                let invertible = ShorterWindows::others(shorter, components).all(Accumulator::is_invertible);
                assert!(invertible, "only what is invertible can be subtracted");
                Method::Subtract(Box::new(Running::new(layout, partitions.clone())))
            }
            Combination::TwoStacks => Method::TwoStacks(Box::new(Stacks::new(Arc::clone(layout), partitions.clone()))),
        }
    }

    /// Takes in what belongs to a slice.
    fn add(&mut self, slice: &Slice) {
        for partial in &slice.partials {
            match self {
                Method::Recompute => {}
                Method::Subtract(running) => running.add(partial),
                Method::TwoStacks(stacks) => stacks.push(partial),
            }
        }
    }
}

impl Slice {
    /// Takes the components of shorter windows out, unless that has been done.
    fn mask(&mut self, partitions: &Range<usize>, shorter: Option<&ShorterWindows>) {
        let Some(shorter) = shorter.filter(|_| !self.is_masked) else { return };
        let masked = |partial: &Arc<Partial>| partial.masked(partitions, &shorter.components);
        self.partials = self.partials.iter().map(masked).collect();
        self.is_masked = true;
    }
}

impl Late {
    /// Whether the rows belong to the window that ends at `end` and holds the slice unless that starts later.
    fn counts_for(&self, end: i64) -> bool {
        self.from_end <= end && self.slice.start < end
    }
}
