//! A window on its way from complete tables to rows.

use super::sweep::DueWindow;
use super::tables::Taken;
use super::tables::frozen::Stored;
use millstream_plan::pipeline::ShorterWindows;
use millstream_state::Partial;
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Instant;

/// Windows of at most this many entries (before the merge) are sealed and merged by one task: more would cost more than
/// they share. Larger ones are merged by about one task per this many.
const SMALL_WINDOW_ENTRIES: usize = 4096;

/// Which part of a window that is merged has its masked tables.
const MASKED: usize = 1;

/// A window being written.
pub(crate) struct Firing {
    /// Start and end of the window, `None` when all time is one.
    pub(super) window: Option<(i64, i64)>,
    /// Number of its first unit in the output stream.
    first_unit: u64,
    /// Whether one task seals all tables.
    pub(super) is_small: bool,
    /// Tables to be sealed, with the slice of `slices` that they are of.
    pub(super) tables: Mutex<Vec<(usize, Taken)>>,
    /// Tables that are not sealed yet; the task that brings it to 0 continues with the merge. Acquire-release, although
    /// the lock of `slices` already orders what is in them.
    pub(super) unsealed: AtomicUsize,
    /// When its watermark came, and the units whose rows are not delivered yet: for the statistics.
    pub(super) completed: Instant,
    pub(super) undelivered: AtomicUsize,
    /// Starts of slices, and what their tables have become. Of a window that is merged part [`MASKED`] is of the tables that are
    /// masked, the other of all others.
    pub(super) slices: Mutex<Vec<(i64, Vec<Arc<Partial>>)>>,
    /// Tables that are in files, with the slice of `slices` that they are of: read where they are merged or combined.
    pub(super) stored: Mutex<Vec<(usize, Arc<Stored>)>>,
    pub(super) then: Then,
}

/// What happens to sealed tables.
pub(super) enum Then {
    /// They are the window: merged in ranges of so many partitions, a unit each.
    Merge {
        /// Number of ranges.
        groups: usize,
        /// Partitions of each.
        size: usize,
    },
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

impl Firing {
    /// Of tables by slice, and of `outputs` units of the output stream.
    fn new(
        window: Option<(i64, i64)>,
        tables: impl IntoIterator<Item = (i64, Vec<Taken>)>,
        (then, outputs): (Then, usize),
        completed: Instant,
        units: &mut u64,
    ) -> Firing {
        let (mut slices, mut all) = (Vec::new(), Vec::new());
        for (slice, tables) in tables {
            all.extend(tables.into_iter().map(|table| (slices.len(), table)));
            slices.push((slice, Vec::new()));
        }
        let first_unit = *units;
        *units += outputs as u64;
        Firing {
            window,
            first_unit,
            is_small: all.iter().map(|(_, table)| table.len()).sum::<usize>() <= SMALL_WINDOW_ENTRIES,
            unsealed: AtomicUsize::new(all.len()),
            completed,
            undelivered: AtomicUsize::new(outputs),
            tables: Mutex::new(all),
            slices: Mutex::new(slices),
            stored: Mutex::default(),
            then,
        }
    }

    /// A window of these tables, which have so many partitions.
    pub(crate) fn of_tables(
        window: Option<(i64, i64)>,
        (tables, partitions): (Vec<Taken>, usize),
        completed: Instant,
        units: &mut u64,
    ) -> Firing {
        Firing::of_parts(window, [Vec::new(), tables], partitions, (completed, units))
    }

    /// A window of tables that are masked, as those of slices before the shorter window of some components, and of others.
    pub(crate) fn of_parts(
        window: Option<(i64, i64)>,
        [masked, whole]: [Vec<Taken>; 2],
        partitions: usize,
        (completed, units): (Instant, &mut u64),
    ) -> Firing {
        let entries: usize = masked.iter().chain(&whole).map(Taken::len).sum();
        let groups = entries.div_ceil(SMALL_WINDOW_ENTRIES).next_power_of_two().min(partitions);
        let start = window.map_or(0, |(start, _)| start);
        let masked = Some(masked).filter(|tables| !tables.is_empty());
        let parts = [Some(whole), masked].into_iter().flatten().map(|tables| (start, tables));
        let then = Then::Merge { groups, size: partitions / groups };
        Firing::new(window, parts, (then, groups), completed, units)
    }

    /// No window: job `number` of the lanes, which forget all slices.
    pub(crate) fn of_nothing(number: u64) -> Firing {
        Firing::new(None, [], (Then::Forget { number }, 0), Instant::now(), &mut 0)
    }

    /// A window from `start` on that `lanes` lanes make of slices, as their job `number`.
    pub(crate) fn of_slices(
        (start, lanes): (i64, usize),
        due: DueWindow,
        number: u64,
        completed: Instant,
        units: &mut u64,
    ) -> Firing {
        let then = Then::Combine { number, is_last: due.is_last };
        Firing::new(Some((start, due.end)), due.enters, (then, lanes), completed, units)
    }

    /// End of the window, for the order of the work.
    pub(crate) fn end(&self) -> i64 {
        self.window.map_or(i64::MAX, |(_, end)| end)
    }

    /// The unit of a range of partitions.
    pub(crate) fn unit(&self, group: usize) -> u64 {
        self.first_unit + group as u64
    }

    /// Its tables that are in memory, of a window that is merged, each with whether it is masked; all have been sealed.
    pub(crate) fn sealed_tables(&self) -> Vec<(Arc<Partial>, bool)> {
        let parts = self.slices.lock();
        let tables = parts.iter().enumerate().flat_map(|(part, (_, partials))| partials.iter().map(move |p| (part, p)));
        tables.map(|(part, partial)| (Arc::clone(partial), part == MASKED)).collect()
    }

    /// The same as they count for the window: masked ones with the entries of a range of partitions.
    pub(crate) fn counted_tables(
        &self,
        shorter: Option<&ShorterWindows>,
        partitions: &Range<usize>,
    ) -> Vec<Arc<Partial>> {
        let counted = |(partial, is_masked): (Arc<Partial>, bool)| match shorter.filter(|_| is_masked) {
            Some(shorter) => partial.masked(partitions, &shorter.components),
            None => partial,
        };
        self.sealed_tables().into_iter().map(counted).collect()
    }

    /// Its tables that are in files, each with whether it is masked.
    pub(crate) fn stored_tables(&self) -> Vec<(Arc<Stored>, bool)> {
        self.stored.lock().iter().map(|(part, table)| (Arc::clone(table), *part == MASKED)).collect()
    }

    /// Whether one of its tables has something in a partition.
    pub(crate) fn has_some_of(&self, partition: usize) -> bool {
        let is_filled = |partial: &Arc<Partial>| partial.len_of(&(partition..partition + 1)) > 0;
        self.slices.lock().iter().flat_map(|(_, partials)| partials).any(is_filled)
            || self.stored.lock().iter().any(|(_, table)| !table.is_empty(partition))
    }

    /// The partitions of a range.
    pub(crate) fn partitions(&self, group: usize) -> Range<usize> {
        let Then::Merge { size, .. } = self.then else { unreachable!("only what is merged has ranges") };
        group * size..(group + 1) * size
    }
}
