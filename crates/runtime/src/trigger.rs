//! Triggers: from the tables of complete slices to buffers of the aggregation's output stream.
//!
//! When an aggregation's watermark advances past the ends of slices, their tables are taken from all workers (see
//! `tables` for why nobody writes to them any more) and become a [`Firing`] for each window. Its tables are sealed and
//! its partitions merged by tasks that any worker runs ahead of other work. The units of the output stream are numbered
//! when the tables are taken, in window order; so the stream's sequencer puts the results in that order, whichever
//! merge is done first, and then releases the aggregation's watermark to whatever reads its output. (Rows of a window
//! carry `window_end - 1` as their time, which is at or before that watermark, and after the previous one: chains of
//! windows neither lose rows nor find them late.)

use crate::aggregation::Aggregation;
use crate::buffer::Rows;
use crate::epoch::Release;
use crate::query::Query;
use crate::sequencer::Unit;
use crate::task::Task;
use millstream_plan::window::WindowAssigner;
use millstream_state::{PARTITIONS, Partial, Table, merge};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Windows of at most so many entries (before the merge) are sealed and merged by one task: more would cost more than
/// they share.
const SMALL_WINDOW_ENTRIES: usize = 4096;

/// A window being written.
pub(crate) struct Firing {
    aggregation: usize,
    slice_start: i64,
    /// Number of its first unit in the output stream.
    first_unit: u64,
    /// Partition ranges, a unit each.
    groups: usize,
    /// Tables to be sealed.
    tables: Mutex<Vec<Table>>,
    /// Tables that are not sealed yet; the task that brings it to 0 goes on to the merge. Acquire-release, although the
    /// lock of `partials` already orders what is in them.
    unsealed: AtomicUsize,
    partials: Mutex<Vec<Arc<Partial>>>,
}

impl Firing {
    fn partitions(&self, group: usize) -> Range<usize> {
        let size = PARTITIONS / self.groups;
        group * size..(group + 1) * size
    }
}

impl Query {
    /// A channel of an aggregation has released a watermark or ended.
    pub(crate) fn release_to(&self, aggregation: usize, port: usize, release: Release) {
        self.aggregations[aggregation].progress().release(port, release);
        self.settle(aggregation);
    }

    /// Acts on what the inputs of an aggregation have released together: fires windows, and passes the watermark on.
    pub(crate) fn settle(&self, aggregation: usize) {
        let runtime = &self.aggregations[aggregation];
        let mut progress = runtime.progress();
        let Some(advance) = runtime.advance(&mut progress) else { return };
        // Taking the tables under the lock keeps windows in order between threads that advance the watermark.
        let mut tasks = Vec::new();
        if let Some(before) = advance.complete {
            let mut slices = self.take_tables(aggregation, before);
            if slices.is_empty() && runtime.has_group_of_nothing() {
                slices.insert(0, vec![Table::of_nothing(Arc::clone(&runtime.layout))]);
            }
            for (slice_start, tables) in slices {
                tasks.extend(self.fire(aggregation, slice_start, tables, &mut progress.units));
            }
        }
        let last_unit = progress.units;
        progress.units += 1;
        drop(progress);
        self.scheduler.push(tasks);
        let unit = Unit { watermark: Some(advance.watermark), end: advance.end, ..Unit::default() };
        self.deliver(runtime.output, last_unit, unit);
    }

    /// The tables of complete slices, by slice.
    fn take_tables(&self, aggregation: usize, before: Option<i64>) -> BTreeMap<i64, Vec<Table>> {
        let mut slices: BTreeMap<i64, Vec<Table>> = BTreeMap::new();
        for worker in &self.tables {
            for (slice_start, table) in worker.take(aggregation, before) {
                slices.entry(slice_start).or_default().push(table);
            }
        }
        slices
    }

    fn fire(&self, aggregation: usize, slice_start: i64, tables: Vec<Table>, units: &mut u64) -> Vec<Task> {
        let entries: usize = tables.iter().map(|t| t.len()).sum();
        if entries == 0 {
            return Vec::new();
        }
        self.stats.windows_fired.fetch_add(1, Ordering::Relaxed);
        let (groups, seals) = if entries <= SMALL_WINDOW_ENTRIES { (1, 1) } else { (PARTITIONS, tables.len()) };
        let firing = Arc::new(Firing {
            aggregation,
            slice_start,
            first_unit: *units,
            groups,
            unsealed: AtomicUsize::new(tables.len()),
            partials: Mutex::new(Vec::with_capacity(tables.len())),
            tables: Mutex::new(tables),
        });
        *units += groups as u64;
        (0..seals).map(|_| Task::Seal(Arc::clone(&firing))).collect()
    }

    /// Seals one table of a window, or all of a small one; whoever seals the last one has the window merged.
    pub(crate) fn seal(&self, firing: Arc<Firing>) {
        loop {
            let Some(table) = firing.tables.lock().pop() else { return };
            let partial = Arc::new(table.seal());
            firing.partials.lock().push(partial);
            if firing.unsealed.fetch_sub(1, Ordering::AcqRel) == 1 {
                break;
            }
            if firing.groups > 1 {
                return;
            }
        }
        match firing.groups {
            1 => self.merge(&firing, 0),
            groups => self.scheduler.push((0..groups).map(|g| Task::Merge(Arc::clone(&firing), g)).collect()),
        }
    }

    /// Merges one range of partitions and delivers the rows to the output stream.
    pub(crate) fn merge(&self, firing: &Firing, group: usize) {
        let runtime = &self.aggregations[firing.aggregation];
        let partials = firing.partials.lock().clone();
        let merged = merge(&partials, firing.partitions(group));
        let window = window_of(runtime, firing.slice_start);
        let most = self.config.rows_per_buffer();
        let rows = (0..merged.len())
            .step_by(most)
            .map(|start| {
                let range = start..merged.len().min(start + most);
                let rows = range.len();
                Rows { columns: merged.columns(range, &runtime.types, &window), rows, ..Rows::default() }
            })
            .collect();
        self.deliver(runtime.output, firing.first_unit + group as u64, Unit { rows, ..Unit::default() });
    }
}

/// The window columns of the slice at `slice_start`: its start and end, if it is a window.
fn window_of(runtime: &Aggregation, slice_start: i64) -> Vec<i64> {
    match runtime.assigner {
        WindowAssigner::Tumble(slicing) => vec![slice_start, slice_start.saturating_add(slicing.size_ms)],
        _ => vec![],
    }
}
