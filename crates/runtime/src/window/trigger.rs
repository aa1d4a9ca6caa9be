//! Triggers: from complete tables to buffers of the aggregation's output stream.
//!
//! When an aggregation's watermark advances past the ends of windows, complete tables are taken from all workers (see
//! `tables` for why nobody writes to them any more) and become a [`Firing`] for each window. Its tables are sealed by
//! tasks that any worker runs ahead of other work. Then its partitions are merged, if a window is one slice, or they are
//! combined with the slices of other windows (`overlap`). The units of the output stream are numbered when the tables are
//! taken, in window order. So the stream's sequencer puts the results in that order, whichever merge is done first, and
//! then releases the aggregation's watermark to whatever reads its output. (Rows of a window carry `window_end - 1` as
//! their time, which is at or before that watermark, and after the watermark before them: chains of windows neither lose
//! rows nor find them late.)

use super::aggregation::Advance;
use super::distributed::DistributedSlices;
use super::firing::{Firing, Then};
use super::overlap::{OverlappingWindows, SliceLane};
use super::tables::Taken;
use super::{WindowJob, WindowStation};
use crate::adaptive::Decision;
use crate::buffer::Rows;
use crate::ids::Generation;
use crate::schedule::threads::Watch;
use crate::station::progress::{Forward, Progress};
use crate::station::{Consequences, Job, Task, Unconsumed, Until};
use crate::stream::sequencer::Unit;
use millstream_plan::window::WindowAssigner;
use millstream_state::{Merged, Table, merge};
use millstream_types::Diagnostic;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Rows that are put out at a time have strings and objects of 1/`ROWS_SHARE` of the budget.
const ROWS_SHARE: u64 = 64;

/// Rows that are put out at a time have entries of so many bytes, for which a core's cache has room: each column reads them again, and
/// what comes next reads the columns.
const CACHED_BYTES: usize = 256 << 10;
/// Unless that is fewer rows than these.
const FEWEST_ROWS: usize = 2048;

impl WindowStation {
    /// Acts on all steps of what the inputs have released together.
    pub(super) fn settle_windows(&self, consequences: &mut Consequences) {
        while self.step(consequences) {}
    }

    /// Acts on the next step of what the inputs have released together, if there is one: fires windows, and passes the watermark
    /// on.
    pub(super) fn step(&self, consequences: &mut Consequences) -> bool {
        let windows = &self.windows;
        let mut progress = windows.progress.lock();
        let step = windows.advance(&mut progress);
        let Some(Advance { forward, completes, is_rest }) = step else { return false };
        let begins_tables = |generation: &Generation| !is_rest && self.host.tables.begin_with(*generation);
        if let Some(generation) = forward.cut.filter(begins_tables) {
            let watch = Watch::start();
            windows.tables.freeze_before(self.host.tables.of(generation));
            self.host.stats.checkpoints.note_handing_over(&watch);
        }
        // Taking the tables under the lock keeps windows in order between threads that advance the watermark.
        let is_all = match completes {
            true => self.fire_complete(windows.timeline.reached(forward.watermark), &mut progress, consequences),
            false => true,
        };
        if let Some(overlap) = windows.overlap.as_ref().filter(|_| !is_all) {
            *overlap.held.lock() = Some(forward);
            return true;
        }
        if let Some(generation) = progress.reached_cut() {
            self.hand_over(generation, forward);
            consequences.cuts += 1;
        }
        let last_unit = progress.units;
        progress.units += 1;
        drop(progress);
        if forward.cut.is_some() && self.host.spilling.is_eager() {
            let tables = self.spill_all(windows.tables.frozen(), 0);
            let spilled = tables.and_then(|_| self.spill_all(self.slices_to_spill(consequences), 0));
            consequences.note(spilled);
        }
        let Forward { watermark, cut, end } = forward;
        let unit = Unit { watermark: Some(watermark), cut, end, ..Unit::default() };
        consequences.deliver(self.output.id, last_unit, unit);
        true
    }

    /// Fires windows that are complete as the watermark has reached a time of theirs; whether these are all.
    fn fire_complete(&self, reached: i64, progress: &mut Progress, consequences: &mut Consequences) -> bool {
        let (windows, completed) = (&self.windows, Instant::now());
        let mut tables = windows.tables.take(windows.ids(), reached);
        let is_here = self.distributed.as_ref().is_none_or(DistributedSlices::has_group_of_nothing);
        if tables.is_empty() && is_here && windows.has_group_of_nothing() {
            tables.insert(0, vec![Taken::Own(Box::new(Table::of_nothing(Arc::clone(&windows.layout))))]);
        }
        tables.retain(|_, tables| !tables.iter().all(Taken::is_empty));
        let fired = tables.values().flatten();
        self.note(windows.strategy.note_slices(tables.len(), fired, windows.tables.memory_left()));
        let (firings, may_be_more) = match &windows.overlap {
            Some(overlap) => {
                self.fire_overlapping(overlap, tables, reached, completed, &mut progress.units, consequences)
            }
            None => {
                let (partitions, units) = (windows.layout.partitions().len(), &mut progress.units);
                let whole =
                    |(id, tables)| Firing::of_tables(windows.window_of(id), (tables, partitions), completed, units);
                (tables.into_iter().map(whole).collect(), false)
            }
        };
        self.host.stats.windows_fired.fetch_add(firings.len() as u64, Ordering::Relaxed);
        self.stats.begun.fetch_add(firings.len() as u64, Ordering::Relaxed);
        consequences.tasks.extend(firings.into_iter().flat_map(|firing| self.begin(Arc::new(firing))));
        !may_be_more
    }

    /// The task of a job for a window that ends at a time.
    pub(super) fn task(&self, end: i64, job: WindowJob) -> Task {
        Task::output(self.id, end, job)
    }

    /// The tasks that a window begins with.
    fn begin(&self, firing: Arc<Firing>) -> Vec<Task> {
        let tables = firing.tables.lock().len();
        let seal = || self.task(firing.end(), WindowJob::Seal(Arc::clone(&firing)));
        match tables {
            0 => self.sealed(&firing),
            _ if firing.is_small => vec![seal()],
            _ => (0..tables).map(|_| seal()).collect(),
        }
    }

    /// Seals one table of a window, or all of a small one; whoever seals the last one continues.
    pub(super) fn seal(&self, firing: Arc<Firing>) -> Result<Consequences, Diagnostic> {
        let windows = &self.windows;
        let mut consequences = Consequences::default();
        loop {
            let Some((slice, table)) = firing.tables.lock().pop() else { return Ok(consequences) };
            match table.stored() {
                Some(stored) => firing.stored.lock().push((slice, stored)),
                None => {
                    let kind = table.kind();
                    let partial = windows.tables.seal(table)?;
                    windows.strategy.note_sealed(kind, &partial);
                    firing.slices.lock()[slice].1.push(partial);
                }
            }
            if firing.unsealed.fetch_sub(1, Ordering::AcqRel) == 1 {
                break;
            }
            if !firing.is_small {
                return Ok(consequences);
            }
        }
        let slices = firing.slices.lock().len();
        self.note(windows.strategy.note_slices_sealed(slices, windows.tables.memory_left()));
        match firing.then {
            Then::Merge { groups: 1, .. } if !self.is_merged_by_blocks(&firing) => {
                self.merge(&firing, 0, &mut consequences)
            }
            _ => consequences.tasks = self.sealed(&firing),
        }
        Ok(consequences)
    }

    /// Writes down a change of the strategy.
    pub(super) fn note(&self, decision: Option<Decision>) {
        if let Some(decision) = decision {
            self.host.stats.note_event(format!("aggregation {}", self.number), decision);
        }
    }
    /// The tasks that follow when all tables of a window are sealed.
    pub(super) fn sealed(&self, firing: &Arc<Firing>) -> Vec<Task> {
        match firing.then {
            Then::Merge { groups, .. } if self.is_merged_by_blocks(firing) => self.merges_of(firing, groups),
            Then::Merge { groups, .. } => {
                let merge = |group| self.task(firing.end(), WindowJob::Merge(Arc::clone(firing), group));
                (0..groups).map(merge).collect()
            }
            Then::Combine { number, .. } | Then::Forget { number } => {
                let lanes = self.windows.overlap.iter().flat_map(|o| &o.lanes).enumerate();
                let free = lanes.filter(|(_, lane)| lane.add(number, Arc::clone(firing)));
                free.map(|(lane, _)| self.task(firing.end(), WindowJob::Combine(lane, None))).collect()
            }
        }
    }

    /// Merges one range of partitions in memory, if its rows may be put out.
    pub(super) fn merge_in_turn(&self, firing: Arc<Firing>, group: usize) -> Result<Consequences, Diagnostic> {
        let unit = firing.unit(group);
        if !self.host.may_put_out(&self.output, unit) {
            let task = self.task(firing.end(), WindowJob::Merge(firing, group));
            return Ok(Consequences::parked(task, Until::Next(self.output.id, unit)));
        }
        let mut consequences = Consequences::default();
        self.merge(&firing, group, &mut consequences);
        Ok(consequences)
    }

    /// Merges one range of partitions in memory and delivers the rows to the output stream.
    fn merge(&self, firing: &Firing, group: usize, consequences: &mut Consequences) {
        let (shorter, partitions) = (self.windows.shorter(), firing.partitions(group));
        let merged = merge(&firing.counted_tables(shorter, &partitions), partitions);
        let rows = self.rows_of_window(firing, &merged, 0).collect();
        let unit =
            Unit { rows, before: self.before(firing), place: Some(firing.partitions(group).start), ..Unit::default() };
        consequences.deliver(self.output.id, firing.unit(group), unit);
        self.window_delivered(firing);
        self.fire_held(consequences);
    }

    /// Makes the next window of one range of partitions, or puts out more of it, until enough of `output` is not consumed.
    pub(super) fn combine(&self, lane: usize, output: Option<Unconsumed>) -> Result<Consequences, Diagnostic> {
        let overlap = self.windows.overlap.as_ref();
        let overlap = overlap.ok_or_else(|| Diagnostic::bug("windows that do not overlap were combined"))?;
        let next = overlap.lanes[lane].next(|firing| (firing.end(), firing.window.map(|_| firing.unit(lane))));
        let (end, first) = next.unwrap_or((i64::MAX, None));
        let again = || self.task(end, WindowJob::Combine(lane, None));
        if let (None, Some(unit)) = (&output, first)
            && !self.host.may_put_out(&self.output, unit)
        {
            return Ok(Consequences::parked(again(), Until::Next(self.output.id, unit)));
        }
        let (mut output, mut consequences) = (output.unwrap_or_default(), Consequences::default());
        if output.bytes() > self.host.spilling.most_unconsumed() {
            return Ok(Consequences::parked(again(), Until::Consumed(output)));
        }
        let goes_on = overlap.lanes[lane].step(|state: &mut SliceLane, firing: &Arc<Firing>| {
            self.make_window(lane, overlap, state, firing)?;
            self.deliver_made((lane, overlap), state, firing, &mut output, &mut consequences)
        })?;
        if goes_on {
            consequences.then = Some(Job::new(WindowJob::Combine(lane, Some(output))));
        }
        self.fire_held(&mut consequences);
        Ok(consequences)
    }

    /// Has the combiner of a lane make a window, or forget what it has, unless that has been done.
    fn make_window(
        &self,
        lane: usize,
        overlap: &OverlappingWindows,
        state: &mut SliceLane,
        firing: &Firing,
    ) -> Result<(), Diagnostic> {
        let SliceLane { combiner, charge, report, delivered } = state;
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
        for (slice, table) in firing.stored.lock().iter() {
            let partial = table.read(overlap.partitions(lane), &self.windows.tables)?;
            slices[*slice].1.push(Arc::new(partial));
        }
        for (slice, partials) in &slices {
            match overlap.overlap.ends(*slice) {
                Some((first, _)) if first < end => combiner.add_late(*slice, end, partials),
                _ => combiner.add_slice(*slice, partials),
            }
        }
        combiner.window(start, end);
        charge.set(combiner.bytes());
        self.note(overlap.combining.note(number, combiner.contents(), report));
        *delivered = Some(0);
        Ok(())
    }

    /// Delivers rows of the window that the combiner of a lane has made, until there are no more, or enough of what has been
    /// delivered is not consumed; whether there are no more.
    fn deliver_made(
        &self,
        (lane, overlap): (usize, &OverlappingWindows),
        state: &mut SliceLane,
        firing: &Firing,
        output: &mut Unconsumed,
        consequences: &mut Consequences,
    ) -> Result<bool, Diagnostic> {
        let SliceLane { combiner, charge, delivered, .. } = state;
        let Some(from) = *delivered else { return Ok(true) };
        let merged = combiner.made();
        let (mut rows, mut from) = (self.rows_of_window(firing, merged, from), from);
        loop {
            let part = rows.next().map(|rows| self.host.held(rows, output));
            from += part.as_ref().map_or(0, |part| part.rows);
            let continues = from < merged.len();
            let rows = part.into_iter().collect();
            let (before, place) = (self.before(firing), Some(overlap.partitions(lane).start));
            let unit = Unit { rows, before, place, continues, ..Unit::default() };
            consequences.deliver(self.output.id, firing.unit(lane), unit);
            if !continues {
                break;
            }
            if output.bytes() > self.host.spilling.most_unconsumed() {
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

    /// Merged entries of a window from one on as rows, in buffers.
    pub(super) fn rows_of_window<'m>(
        &'m self,
        firing: &Firing,
        merged: &'m Merged,
        from: usize,
    ) -> impl Iterator<Item = Rows> + use<'m> {
        let window: Vec<i64> = match (self.windows.assigner, firing.window) {
            (WindowAssigner::Attached, Some((_, end))) => vec![end],
            (_, window) => window.into_iter().flat_map(|(start, end)| [start, end]).collect(),
        };
        let layout = &self.windows.layout;
        let stride = layout.array().map_or(layout.stride, |array| array.stride);
        let most = self.host.buffer_size.rows().min((CACHED_BYTES / stride).max(FEWEST_ROWS));
        let most_bytes = usize::try_from(self.host.flow.budget.limit() / ROWS_SHARE).unwrap_or(usize::MAX);
        let mut from = from;
        std::iter::from_fn(move || {
            let rest = from..merged.len().min(from + most);
            if rest.is_empty() {
                return None;
            }
            let range = merged.within(rest, most_bytes);
            from = range.end;
            let rows = range.len();
            self.stats.rows_out.fetch_add(rows as u64, Ordering::Relaxed);
            Some(Rows { columns: merged.columns(range, &self.windows.tables.types, &window), rows, ..Rows::default() })
        })
    }

    /// Fires windows that were held back, if it is their turn. Asked for by who has delivered windows, without a lock.
    pub(super) fn fire_held(&self, consequences: &mut Consequences) {
        if self.windows.overlap.as_ref().is_some_and(OverlappingWindows::may_fire) {
            self.settle_windows(consequences);
        }
    }

    /// The watermark before the rows of a window: the windows before this one are complete, whichever watermark has brought
    /// them, and it is not.
    pub(super) fn before(&self, firing: &Firing) -> Option<i64> {
        let timeline = self.windows.timeline;
        firing.window.map(|(_, end)| timeline.watermark_at(end.saturating_sub(1)).saturating_sub(1))
    }

    /// A range of partitions of a window has been delivered.
    pub(super) fn window_delivered(&self, firing: &Firing) {
        if firing.undelivered.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.stats.delivered(firing.completed.elapsed());
            if let Some(overlap) = &self.windows.overlap {
                overlap.under_way.fetch_sub(1, Ordering::SeqCst);
            }
        }
    }
}
