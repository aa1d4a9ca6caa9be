//! Triggers: from complete tables to buffers of the aggregation's output stream.
//!
//! When an aggregation's watermark advances past the ends of windows, complete tables are taken from all workers (see
//! `tables` for why nobody writes to them any more) and become a [`Firing`] for each window. Its tables are sealed by
//! tasks that any worker runs ahead of other work. Then its partitions are merged, if a window is one slice, or they are
//! combined with the slices of other windows (`overlap`). The units of the output stream are numbered when the tables are
//! taken, in window order; so the stream's sequencer puts the results in that order, whichever merge is done first, and
//! then releases the aggregation's watermark to whatever reads its output. (Rows of a window carry `window_end - 1` as
//! their time, which is at or before that watermark, and after the watermark before them: chains of windows neither lose
//! rows nor find them late.)

use crate::aggregation::Advance;
use crate::buffer::{Generation, Rows};
use crate::checkpoint::{Part, SweptSlices};
use crate::overlap::{Due, Lane, OverlapRuntime};
use crate::progress::{Forward, Progress};
use crate::query::Query;
use crate::sequencer::Unit;
use crate::spill::Unconsumed;
use crate::strategy::Switch;
use crate::tables::{FrozenByNumber, Stored, Taken};
use crate::task::Task;
use crate::threads::Watch;
use millstream_plan::window::WindowAssigner;
use millstream_state::{Merged, PARTITIONS, Partial, Table, merge};
use millstream_sync::epochs::Release;
use millstream_types::Diagnostic;
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Windows of at most so many entries (before the merge) are sealed and merged by one task: more would cost more than
/// they share. Larger ones are merged by about a task for each so many.
const SMALL_WINDOW_ENTRIES: usize = 4096;

/// Rows that are put out at a time have strings and objects of one in so many bytes of the budget.
const ROWS_SHARE: u64 = 64;

/// A window being written.
pub(crate) struct Firing {
    aggregation: usize,
    /// Start and end of the window, `None` when all time is one.
    window: Option<(i64, i64)>,
    /// Number of its first unit in the output stream.
    first_unit: u64,
    /// Whether one task seals all tables.
    is_small: bool,
    /// Tables to be sealed, with the slice of `slices` that they are of.
    tables: Mutex<Vec<(usize, Taken)>>,
    /// Tables that are not sealed yet; the task that brings it to 0 goes on to the merge. Acquire-release, although the
    /// lock of `slices` already orders what is in them.
    unsealed: AtomicUsize,
    /// When its watermark came, and the units whose rows are not delivered yet: for the statistics.
    completed: Instant,
    undelivered: AtomicUsize,
    /// Starts of slices, and what their tables have become.
    slices: Mutex<Vec<(i64, Vec<Arc<Partial>>)>>,
    /// Tables that are in files, with the slice of `slices` that they are of: read where they are merged or combined.
    stored: Mutex<Vec<(usize, Arc<Stored>)>>,
    then: Then,
}

/// What happens to sealed tables.
enum Then {
    /// They are the window: merged in so many ranges of partitions, a unit each.
    Merge(usize),
    /// They enter the combiners of overlapping windows.
    Combine {
        /// Number of the lanes' job.
        number: u64,
        /// Whether no later window needs the slices so far.
        is_last: bool,
    },
    /// The combiners forget what they have.
    Forget {
        /// Number of the lanes' job.
        number: u64,
    },
}

impl Query {
    /// A channel of an aggregation has released a watermark or ended.
    pub(crate) fn release_to(&self, aggregation: usize, port: usize, release: Release) {
        self.aggregations[aggregation].progress().release(port, release);
        self.settle(aggregation);
    }

    /// Acts on what the inputs of an aggregation have released together: fires windows, and passes the watermark on.
    pub(crate) fn settle(&self, aggregation: usize) {
        while self.step(aggregation) {}
    }

    /// Acts on the next step of an aggregation's inputs, if there is one.
    fn step(&self, aggregation: usize) -> bool {
        let runtime = &self.aggregations[aggregation];
        let mut progress = runtime.progress();
        let step = runtime.advance(&mut progress);
        let Some(Advance { forward, completes, is_rest }) = step else { return false };
        if let Some(generation) = forward.cut.filter(|_| !is_rest) {
            let watch = Watch::start();
            runtime.tables.freeze_before(generation);
            self.stats.checkpoints.note_handing_over(&watch);
        }
        // Taking the tables under the lock keeps windows in order between threads that advance the watermark.
        let (tasks, is_all) = match completes {
            true => self.fire_complete(aggregation, runtime.timeline.reached(forward.watermark), &mut progress),
            false => (Vec::new(), true),
        };
        if let Some(overlap) = runtime.overlap.as_ref().filter(|_| !is_all) {
            overlap.hold(forward);
            drop(progress);
            self.scheduler.push(tasks);
            return true;
        }
        if let Some(generation) = progress.reached_cut() {
            self.cut_aggregation(aggregation, generation, forward);
        }
        let last_unit = progress.units;
        progress.units += 1;
        drop(progress);
        self.scheduler.push(tasks);
        if forward.cut.is_some()
            && self.spilling.is_eager()
            && let Err(diagnostic) = self.spill_tables(aggregation, 0).and_then(|_| self.spill_slices(aggregation, 0))
        {
            self.fail(diagnostic);
        }
        let Forward { watermark, cut, end } = forward;
        self.deliver(runtime.output, last_unit, Unit { watermark: Some(watermark), cut, end, ..Unit::default() });
        true
    }

    /// A cut has come by: what is kept is handed over. Under the lock of the progress, when the windows that belong before the cut
    /// have been fired.
    fn cut_aggregation(&self, aggregation: usize, generation: Generation, forward: Forward) {
        let watch = Watch::start();
        let runtime = &self.aggregations[aggregation];
        let has_ended = forward.cut.is_none();
        let watermark = if has_ended { i64::MAX } else { forward.watermark };
        self.hand_over(generation, || {
            let tables = if has_ended { FrozenByNumber::new() } else { runtime.tables.frozen_before(generation) };
            let overlap = runtime.overlap.as_ref().filter(|_| !has_ended).map(|overlap| {
                let swept = overlap.sweep.lock().reached();
                SweptSlices { slices: overlap.swept.lock().all(), swept }
            });
            Part::Aggregation { aggregation, watermark, tables, overlap }
        });
        self.cut_reached();
        self.stats.checkpoints.note_handing_over(&watch);
    }

    /// Fires windows that are complete as the watermark has reached a time of theirs; whether these are all.
    fn fire_complete(&self, aggregation: usize, reached: i64, progress: &mut Progress) -> (Vec<Task>, bool) {
        let (runtime, completed) = (&self.aggregations[aggregation], Instant::now());
        let mut tables = runtime.tables.take(runtime.ids(), reached);
        if tables.is_empty() && runtime.has_group_of_nothing() {
            tables.insert(0, vec![Taken::Own(Box::new(Table::of_nothing(Arc::clone(&runtime.layout))))]);
        }
        tables.retain(|_, tables| !tables.iter().all(Taken::is_empty));
        let fired = tables.values().flatten();
        self.note_switch(aggregation, runtime.strategy.note_slices(tables.len(), fired, runtime.tables.memory_left()));
        let (firings, may_be_more) = match &runtime.overlap {
            Some(overlap) => {
                self.fire_overlapping((aggregation, overlap), tables, reached, completed, &mut progress.units)
            }
            None => {
                let whole = |(id, tables)| {
                    let window = runtime.window_of(id);
                    Firing::of_tables(aggregation, window, tables, completed, &mut progress.units)
                };
                (tables.into_iter().map(whole).collect(), false)
            }
        };
        self.stats.windows_fired.fetch_add(firings.len() as u64, Ordering::Relaxed);
        self.stats.aggregations[aggregation].begun.fetch_add(firings.len() as u64, Ordering::Relaxed);
        (firings.into_iter().flat_map(|firing| self.begin(Arc::new(firing))).collect(), !may_be_more)
    }

    /// The tasks that a window begins with.
    fn begin(&self, firing: Arc<Firing>) -> Vec<Task> {
        let tables = firing.tables.lock().len();
        match tables {
            0 => self.sealed(&firing),
            _ if firing.is_small => vec![Task::Seal(firing)],
            _ => (0..tables).map(|_| Task::Seal(Arc::clone(&firing))).collect(),
        }
    }

    /// Seals one table of a window, or all of a small one; whoever seals the last one goes on.
    pub(crate) fn seal(&self, firing: Arc<Firing>) -> Result<(), Diagnostic> {
        loop {
            let Some((slice, table)) = firing.tables.lock().pop() else { return Ok(()) };
            let runtime = &self.aggregations[firing.aggregation];
            let stored = match &table {
                Taken::Frozen(table) => table.stored(),
                Taken::Own(_) | Taken::Shared(_) | Taken::Array(_) => None,
            };
            match stored {
                Some(stored) => firing.stored.lock().push((slice, stored)),
                None => {
                    let kind = table.kind();
                    let partial = runtime.tables.seal(table)?;
                    runtime.strategy.note_sealed(kind, &partial);
                    firing.slices.lock()[slice].1.push(partial);
                }
            }
            if firing.unsealed.fetch_sub(1, Ordering::AcqRel) == 1 {
                break;
            }
            if !firing.is_small {
                return Ok(());
            }
        }
        let (runtime, slices) = (&self.aggregations[firing.aggregation], firing.slices.lock().len());
        let switch = runtime.strategy.note_slices_sealed(slices, runtime.tables.memory_left());
        self.note_switch(firing.aggregation, switch);
        match firing.then {
            Then::Merge(1) if !self.is_merged_by_blocks(&firing) => self.merge(&firing, 0),
            _ => {
                self.scheduler.push(self.sealed(&firing));
                Ok(())
            }
        }
    }

    /// Writes down a change of an aggregation's strategy.
    fn note_switch(&self, aggregation: usize, switch: Option<Switch>) {
        if let Some(switch) = switch {
            self.stats.note_event(format!("aggregation {aggregation}"), switch.observed(), switch.decided());
        }
    }

    /// The tasks that follow when all tables of a window are sealed.
    pub(crate) fn sealed(&self, firing: &Arc<Firing>) -> Vec<Task> {
        match firing.then {
            Then::Merge(groups) if self.is_merged_by_blocks(firing) => self.merges_of(firing, groups),
            Then::Merge(groups) => (0..groups).map(|g| Task::Merge(Arc::clone(firing), g)).collect(),
            Then::Combine { number, .. } | Then::Forget { number } => {
                let lanes = self.aggregations[firing.aggregation].overlap.iter().flat_map(|o| &o.lanes).enumerate();
                let free = lanes.filter(|(_, lane)| lane.add(number, Arc::clone(firing)));
                let (aggregation, end) = (firing.aggregation, firing.end());
                free.map(|(lane, _)| Task::Combine { aggregation, lane, end }).collect()
            }
        }
    }

    /// Merges one range of partitions in memory and delivers the rows to the output stream.
    pub(crate) fn merge(&self, firing: &Firing, group: usize) -> Result<(), Diagnostic> {
        self.deliver_window(firing, group, &merge(&firing.sealed_tables(), firing.partitions(group)));
        self.fire_held(firing.aggregation);
        Ok(())
    }

    /// Makes the windows of one range of partitions whose turn it is, until they have put out enough.
    pub(crate) fn combine(&self, aggregation: usize, lane: usize) -> Result<(), Diagnostic> {
        let overlap = self.aggregations[aggregation].overlap.as_ref();
        let overlap = overlap.ok_or_else(|| Diagnostic::bug("windows that do not overlap were combined"))?;
        let (mut output, mut end) = (Unconsumed::default(), 0);
        let is_over = overlap.lanes[lane].run(|state: &mut Lane, firing: &Arc<Firing>| {
            end = firing.end();
            if output.bytes() > self.most_unconsumed() {
                return Ok(false);
            }
            self.make_window((aggregation, lane), overlap, state, firing)?;
            self.deliver_made(lane, state, firing, &mut output)
        })?;
        if !is_over {
            self.park_until_consumed(output, Task::Combine { aggregation, lane, end });
        }
        self.fire_held(aggregation);
        Ok(())
    }

    /// Has the combiner of a lane make a window, or forget what it has, unless that has been done.
    fn make_window(
        &self,
        (aggregation, lane): (usize, usize),
        overlap: &OverlapRuntime,
        state: &mut Lane,
        firing: &Firing,
    ) -> Result<(), Diagnostic> {
        let Lane { combiner, charge, report, delivered } = state;
        let (Some((start, end)), &Then::Combine { number, .. }) = (firing.window, &firing.then) else {
            combiner.clear();
            charge.set(combiner.bytes());
            return Ok(());
        };
        if delivered.is_some() {
            return Ok(());
        }
        combiner.set_combination(overlap.combining.next(Some(combiner.combination())));
        let mut slices = firing.slices.lock().clone();
        let size = PARTITIONS / overlap.lanes.len();
        for (slice, table) in firing.stored.lock().iter() {
            let tables = &self.aggregations[aggregation].tables;
            slices[*slice].1.push(Arc::new(table.read(lane * size..(lane + 1) * size, tables)?));
        }
        for (slice, partials) in &slices {
            match overlap.overlap.ends(*slice) {
                Some((first, _)) if first < end => combiner.add_late(*slice, end, partials),
                _ => combiner.add_slice(*slice, partials),
            }
        }
        combiner.window(start, end);
        charge.set(combiner.bytes());
        if let Some(switch) = overlap.combining.note(number, combiner.contents(), report) {
            self.stats.note_event(format!("aggregation {aggregation}"), switch.observed(), switch.decided());
        }
        *delivered = Some(0);
        Ok(())
    }

    /// Delivers rows of the window that the combiner of a lane has made, until there are no more, or enough of what has been
    /// delivered is not consumed; whether there are no more.
    fn deliver_made(
        &self,
        lane: usize,
        state: &mut Lane,
        firing: &Firing,
        output: &mut Unconsumed,
    ) -> Result<bool, Diagnostic> {
        let Lane { combiner, charge, delivered, .. } = state;
        let Some(from) = *delivered else { return Ok(true) };
        let overlap = self.aggregations[firing.aggregation].overlap.as_ref();
        let overlap = overlap.ok_or_else(|| Diagnostic::bug("windows that do not overlap were combined"))?;
        let merged = combiner.made();
        let (mut rows, mut from) = (self.rows_of_window(firing, merged, from), from);
        loop {
            let part = rows.next().map(|rows| self.held(rows, output));
            from += part.as_ref().map_or(0, |part| part.rows);
            let continues = from < merged.len();
            let rows = part.into_iter().collect();
            let unit = Unit { rows, before: self.before(firing), continues, ..Unit::default() };
            self.deliver(self.aggregations[firing.aggregation].output, firing.unit(lane), unit);
            if !continues {
                break;
            }
            if output.bytes() > self.most_unconsumed() {
                *delivered = Some(from);
                return Ok(false);
            }
        }
        drop(rows);
        *delivered = None;
        if let Then::Combine { is_last: true, .. } = firing.then {
            let next = overlap.overlap.start_of_window(firing.end().saturating_add(overlap.overlap.step_ms()));
            combiner.window(next, next);
        }
        charge.set(combiner.bytes());
        self.window_delivered(firing);
        Ok(true)
    }

    /// Delivers the rows of a range of partitions of a window to the output stream.
    fn deliver_window(&self, firing: &Firing, group: usize, merged: &Merged) {
        let unit = Unit {
            rows: self.rows_of_window(firing, merged, 0).collect(),
            before: self.before(firing),
            ..Unit::default()
        };
        self.deliver(self.aggregations[firing.aggregation].output, firing.unit(group), unit);
        self.window_delivered(firing);
    }

    /// Merged entries of a window from one on as rows, in buffers.
    pub(crate) fn rows_of_window<'m>(
        &'m self,
        firing: &Firing,
        merged: &'m Merged,
        from: usize,
    ) -> impl Iterator<Item = Rows> + use<'m> {
        let runtime = &self.aggregations[firing.aggregation];
        let window: Vec<i64> = match (runtime.assigner, firing.window) {
            (WindowAssigner::Attached, Some((_, end))) => vec![end],
            (_, window) => window.into_iter().flat_map(|(start, end)| [start, end]).collect(),
        };
        let most = self.buffer_size.rows();
        let stats = &self.stats.aggregations[firing.aggregation];
        let most_bytes = usize::try_from(self.flow.budget.limit() / ROWS_SHARE).unwrap_or(usize::MAX);
        let mut from = from;
        std::iter::from_fn(move || {
            let rest = from..merged.len().min(from + most);
            if rest.is_empty() {
                return None;
            }
            let range = merged.within(rest, most_bytes);
            from = range.end;
            let rows = range.len();
            stats.rows_out.fetch_add(rows as u64, Ordering::Relaxed);
            Some(Rows { columns: merged.columns(range, &runtime.types, &window), rows, ..Rows::default() })
        })
    }

    /// Fires windows that were held back, if it is their turn. Asked for by who has delivered windows, without a lock.
    pub(crate) fn fire_held(&self, aggregation: usize) {
        if self.aggregations[aggregation].overlap.as_ref().is_some_and(OverlapRuntime::may_fire) {
            self.settle(aggregation);
        }
    }

    /// The watermark before the rows of a window: the windows before this one are complete, whichever watermark has brought
    /// them, and it is not.
    pub(crate) fn before(&self, firing: &Firing) -> Option<i64> {
        let timeline = self.aggregations[firing.aggregation].timeline;
        firing.window.map(|(_, end)| timeline.watermark_at(end.saturating_sub(1)).saturating_sub(1))
    }

    /// A range of partitions of a window has been delivered.
    pub(crate) fn window_delivered(&self, firing: &Firing) {
        if firing.undelivered.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.stats.aggregations[firing.aggregation].delay.record(firing.completed.elapsed());
            self.aggregations[firing.aggregation].overlap.iter().for_each(OverlapRuntime::window_delivered);
        }
    }
}

impl Firing {
    /// A window of these tables.
    pub(crate) fn of_tables(
        aggregation: usize,
        window: Option<(i64, i64)>,
        tables: Vec<Taken>,
        completed: Instant,
        units: &mut u64,
    ) -> Firing {
        let entries: usize = tables.iter().map(Taken::len).sum();
        let is_small = entries <= SMALL_WINDOW_ENTRIES;
        let groups = entries.div_ceil(SMALL_WINDOW_ENTRIES).next_power_of_two().min(PARTITIONS);
        let first_unit = *units;
        *units += groups as u64;
        let tables: Vec<(usize, Taken)> = tables.into_iter().map(|t| (0, t)).collect();
        Firing {
            aggregation,
            window,
            first_unit,
            is_small,
            unsealed: AtomicUsize::new(tables.len()),
            completed,
            undelivered: AtomicUsize::new(groups),
            tables: Mutex::new(tables),
            slices: Mutex::new(vec![(window.map_or(0, |(start, _)| start), Vec::new())]),
            stored: Mutex::default(),
            then: Then::Merge(groups),
        }
    }

    /// No window: job `number` of the lanes, which forget all slices.
    pub(crate) fn of_nothing(aggregation: usize, number: u64) -> Firing {
        Firing {
            aggregation,
            window: None,
            first_unit: 0,
            is_small: true,
            tables: Mutex::default(),
            unsealed: AtomicUsize::new(0),
            completed: Instant::now(),
            undelivered: AtomicUsize::new(0),
            slices: Mutex::default(),
            stored: Mutex::default(),
            then: Then::Forget { number },
        }
    }

    /// A window that lanes make of slices, as their job `number`.
    pub(crate) fn of_slices(
        aggregation: usize,
        overlap: &OverlapRuntime,
        due: Due<Vec<Taken>>,
        number: u64,
        completed: Instant,
        units: &mut u64,
    ) -> Firing {
        let slices = due.enters.keys().map(|&slice| (slice, Vec::new())).collect();
        let tables: Vec<(usize, Taken)> = due
            .enters
            .into_values()
            .enumerate()
            .flat_map(|(i, tables)| tables.into_iter().map(move |t| (i, t)))
            .collect();
        let entries: usize = tables.iter().map(|(_, t)| t.len()).sum();
        let first_unit = *units;
        *units += overlap.lanes.len() as u64;
        Firing {
            aggregation,
            window: Some((overlap.overlap.start_of_window(due.end), due.end)),
            first_unit,
            is_small: entries <= SMALL_WINDOW_ENTRIES,
            unsealed: AtomicUsize::new(tables.len()),
            completed,
            undelivered: AtomicUsize::new(overlap.lanes.len()),
            tables: Mutex::new(tables),
            slices: Mutex::new(slices),
            stored: Mutex::default(),
            then: Then::Combine { number, is_last: due.is_last },
        }
    }

    /// The aggregation whose window it is.
    pub(crate) fn aggregation(&self) -> usize {
        self.aggregation
    }

    /// End of the window, for the order of the work.
    pub(crate) fn end(&self) -> i64 {
        self.window.map_or(i64::MAX, |(_, end)| end)
    }

    /// The unit of a range of partitions.
    pub(crate) fn unit(&self, group: usize) -> u64 {
        self.first_unit + group as u64
    }

    /// The unit that a lane puts out for it, if it is a window.
    pub(crate) fn first_output(&self, lane: usize) -> Option<u64> {
        self.window.map(|_| self.unit(lane))
    }

    /// Its tables that are in memory; all have been sealed.
    pub(crate) fn sealed_tables(&self) -> Vec<Arc<Partial>> {
        self.slices.lock().iter().flat_map(|(_, partials)| partials).cloned().collect()
    }

    /// Its tables that are in files.
    pub(crate) fn stored_tables(&self) -> Vec<Arc<Stored>> {
        self.stored.lock().iter().map(|(_, table)| Arc::clone(table)).collect()
    }

    /// Whether there are any.
    pub(crate) fn has_stored_tables(&self) -> bool {
        !self.stored.lock().is_empty()
    }

    /// The partitions of a range.
    pub(crate) fn partitions(&self, group: usize) -> Range<usize> {
        let Then::Merge(groups) = self.then else { return 0..PARTITIONS };
        let size = PARTITIONS / groups;
        group * size..(group + 1) * size
    }
}
