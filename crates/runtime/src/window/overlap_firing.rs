//! Firing windows that overlap: which of them a watermark completes, and which slices enter them.

use super::WindowStation;
use super::firing::Firing;
use super::overlap::{MOST_WINDOWS, OverlappingWindows, READ_SHARE, SweptTables};
use super::sweep::{DueWindow, Sweep};
use super::tables::{FrozenByNumber, TablesByNumber, Taken};
use crate::station::{Consequences, Task};
use millstream_plan::window::SliceTable;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

impl WindowStation {
    /// The next windows of slices that are complete at a time of theirs, with the tables that are, and whether there may be
    /// more. Under the lock of the progress.
    pub(super) fn fire_overlapping(
        &self,
        overlap: &OverlappingWindows,
        tables: TablesByNumber,
        reached: i64,
        completed: Instant,
        units: &mut u64,
        consequences: &mut Consequences,
    ) -> (Vec<Firing>, bool) {
        let (mut sweep, mut swept) = (overlap.sweep.lock(), overlap.swept.lock());
        let (spilling, windows) = (&self.host.spilling, overlap.overlap);
        // Not while tables wait for their first window: they enter with that.
        let may_combine = swept.is_by_blocks && sweep.waiting.is_empty();
        if may_combine && !spilling.is_eager() && !spilling.is_short() && !swept.is_any_stored() {
            swept.is_by_blocks = false;
            swept.combine_again();
        }
        if !swept.is_by_blocks && swept.bytes_to_read(&tables) > self.host.flow.budget.limit() / READ_SHARE {
            consequences.tasks.extend(self.combine_no_more(&mut sweep, &mut swept));
        }
        let tables = swept.enter(tables);
        self.note_late_for_shorter(overlap, &tables);
        let tables = tables.into_iter().map(|(id, tables)| (windows.table(id), tables));
        let mut due = sweep.due(windows, tables, reached, MOST_WINDOWS);
        let last_end = due.last().map(|due| due.end).filter(|_| due.len() == MOST_WINDOWS);
        if let Some(first) = due.first_mut().filter(|_| !swept.is_by_blocks) {
            first.take_over(windows, std::mem::take(&mut swept.apart));
        }
        let next_end = sweep.next_end(windows).map(|end| self.windows.timeline.watermark_at(end - 1));
        consequences.awaited.extend(next_end);
        let window = |due: DueWindow| {
            let (start, end) = (windows.start_of_window(due.end), due.end);
            match swept.is_by_blocks {
                true => {
                    let parts = swept.of_window((windows, overlap.shorter.as_ref()), start, end);
                    let partitions = self.windows.layout.partitions().len();
                    Firing::of_parts(Some((start, end)), parts, partitions, (completed, units))
                }
                false => Firing::of_slices((start, overlap.lanes.len()), due, sweep.next_job(), completed, units),
            }
        };
        let firings: Vec<Firing> = due.into_iter().map(window).collect();
        swept.forget(windows, last_end.unwrap_or(reached.saturating_add(1)));
        overlap.under_way.fetch_add(firings.len(), Ordering::SeqCst);
        (firings, last_end.is_some())
    }

    /// Counts rows that came too late for the shorter windows of some components, but not for the others. Those of tables in files
    /// are not counted.
    fn note_late_for_shorter(&self, overlap: &OverlappingWindows, tables: &TablesByNumber) {
        let (Some(shorter), Some(counter)) = (&overlap.shorter, self.windows.layout.counters.of_all()) else { return };
        let is_late = |number: i64| {
            let SliceTable { slice_start, from_end } = overlap.overlap.table(number);
            // The first window of all has the slice if any of the shorter ones has.
            let had = |end: i64| shorter.start_of_window(end) <= slice_start;
            overlap.overlap.ends(slice_start).is_some_and(|(first, _)| had(first)) && !had(from_end)
        };
        for table in tables.iter().filter(|&(&number, _)| is_late(number)).flat_map(|(_, tables)| tables) {
            // A table that cannot be read fails the query where its windows are made.
            if let Taken::Frozen(table) = table
                && table.stored().is_none()
                && let Ok(partial) = table.partial(&self.windows.tables)
            {
                let late = partial.count_of(&partial.partitions(), counter);
                self.host.stats.note_late(late, || self.stats.name.clone());
            }
        }
    }

    /// Has combiners forget what they have, behind the windows that are on their way: windows to come are merged by blocks.
    fn combine_no_more(&self, sweep: &mut Sweep, swept: &mut SweptTables) -> Vec<Task> {
        swept.combine_no_more();
        self.sealed(&Arc::new(Firing::of_nothing(sweep.next_job())))
    }

    /// The slices that no combiner has or will have: they can be spilled. Empty for windows that do not overlap.
    pub(super) fn slices_to_spill(&self, consequences: &mut Consequences) -> FrozenByNumber {
        let Some(overlap) = &self.windows.overlap else { return FrozenByNumber::new() };
        let _progress = self.windows.progress.lock();
        let (mut sweep, mut swept) = (overlap.sweep.lock(), overlap.swept.lock());
        if !swept.is_by_blocks && !swept.tables.is_empty() {
            consequences.tasks.extend(self.combine_no_more(&mut sweep, &mut swept));
        }
        swept.tables.clone()
    }
}
