//! Whether the workers share the tables of an aggregation: what is set, or what `adaptive::decisions::sharing` decides; and
//! whether the tables of workers append rows (`appending`). The latter is decided first: where nearly every row has a key of
//! its own, a row that is appended costs less than one that finds its entry in a table, own or shared.
//!
//! Slices are judged when they fire, not before: a slice with tables of both kinds costs more than with either. Private
//! tables give the number of their entries together, a shared one that of its keys; rows are counted. The choice holds from
//! the next task on, so slices that are open have tables of both kinds once; all become partials.

mod appending;

use crate::adaptive::decisions::costs::Caches;
use crate::adaptive::decisions::draws::{different, drawn_from};
use crate::adaptive::decisions::sharing::{Seen, Sharing, Situation};
use crate::config::{MergeStrategy, RunConfig};
use crate::tables::Taken;
pub(crate) use appending::Appending;
use appending::Filled;
use millstream_abi::EntryLayout;
use millstream_codegen::partition::can_partition;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// How the tables of an aggregation with entries of this layout are merged: as was asked for, if that is possible.
/// `Auto` remains where there is a choice.
pub fn merge_strategy(config: &RunConfig, layout: &EntryLayout) -> MergeStrategy {
    match config.merge {
        MergeStrategy::Partition if can_partition(layout) => MergeStrategy::Partition,
        MergeStrategy::Global if layout.allows_sharing() => MergeStrategy::Global,
        MergeStrategy::Auto if layout.allows_sharing() && config.workers > 1 => MergeStrategy::Auto,
        _ => MergeStrategy::Local,
    }
}

/// Slices that are filled at a time: the one that fires next, and the one that begins.
const OPEN_SLICES: f64 = 2.0;

/// The tables of slices that fire.
#[derive(Debug, Clone, Copy, Default)]
struct Fired {
    slices: f64,
    /// Private tables that aggregate, and their entries.
    own: usize,
    private: usize,
    /// Private tables that append.
    appended: usize,
    /// Entries of shared tables.
    shared: usize,
}

/// The strategy of an aggregation, and what was seen of its slices. All atomics are relaxed: tasks may use any strategy.
#[derive(Debug)]
pub(crate) struct Strategy {
    merge: MergeStrategy,
    situation: Situation,
    is_global: AtomicBool,
    /// Whether private tables append.
    appending: Appending,
    /// The share of the heaviest keys' rows, as the bits of an f64.
    heavy: AtomicU64,
    /// Rows since a slice was judged last.
    rows: AtomicU64,
}

impl Strategy {
    /// Of an aggregation with such entries.
    pub(crate) fn new(config: &RunConfig, layout: &EntryLayout) -> Strategy {
        let merge = merge_strategy(config, layout);
        let situation = Situation {
            workers: config.workers,
            stride: layout.stride,
            accumulators: layout.accumulators.len(),
            caches: Caches::of_machine(),
        };
        let is_global = AtomicBool::new(merge == MergeStrategy::Global);
        let appending = Appending::new(&config.adaptivity, layout);
        Strategy { merge, situation, is_global, appending, heavy: AtomicU64::new(0), rows: AtomicU64::new(0) }
    }

    /// Whether private tables append.
    pub(crate) fn appending(&self) -> &Appending {
        &self.appending
    }

    /// What was decided before the run.
    pub(crate) fn merge(&self) -> MergeStrategy {
        self.merge
    }

    /// What the next task uses.
    pub(crate) fn sharing(&self) -> Sharing {
        if self.is_global.load(Relaxed) { Sharing::Global } else { Sharing::Local }
    }

    /// A task has put so many rows into tables.
    pub(crate) fn note_task(&self, rows: usize) {
        if self.merge == MergeStrategy::Auto || self.appending.is_chosen() {
            self.rows.fetch_add(rows as u64, Relaxed);
        }
    }

    /// This share of the rows is of the few heaviest keys.
    #[cfg_attr(not(test), expect(dead_code, reason = "nothing tells it of the skew of keys yet"))]
    pub(crate) fn note_skew(&self, heavy: f64) {
        self.heavy.store(heavy.to_bits(), Relaxed);
    }

    /// So many slices fire, with these tables, while so many bytes of memory are left; says what was seen if that changes the
    /// strategy.
    pub(crate) fn note_slices<'a>(
        &self,
        slices: usize,
        tables: impl Iterator<Item = &'a Taken>,
        memory_left: u64,
    ) -> Option<Switch> {
        if slices == 0 || !(self.merge == MergeStrategy::Auto || self.appending.is_chosen()) {
            return None;
        }
        let mut fired = Fired { slices: slices as f64, ..Fired::default() };
        for table in tables {
            match table {
                Taken::Own(table) if table.is_appending() => fired.appended += 1,
                Taken::Own(table) => {
                    fired.own += 1;
                    fired.private += table.len();
                }
                Taken::Shared(table) => fired.shared += table.len(),
                // Next to nothing to merge.
                Taken::Array(_) => {}
            }
        }
        self.note_fired(fired, memory_left)
    }

    fn note_fired(&self, fired: Fired, memory_left: u64) -> Option<Switch> {
        let rows = self.rows.swap(0, Relaxed) as f64;
        if let Some(switch) = self.judge_appending(&fired, rows, memory_left) {
            if self.merge == MergeStrategy::Auto {
                self.is_global.store(false, Relaxed);
            }
            return Some(Switch::Appending(switch));
        }
        let rows = rows / fired.slices;
        // Slices of several kinds were in between: the next ones tell more.
        match (fired.private, fired.shared) {
            _ if self.merge != MergeStrategy::Auto || fired.appended > 0 => None,
            (private, 0) => self.judge(Seen::Private { rows, entries: private as f64 / fired.slices }),
            (0, shared) => self.judge(Seen::Shared { rows, entries: shared as f64 / fired.slices }),
            _ => None,
        }
    }

    /// Whether private tables are to begin or to cease to append.
    fn judge_appending(&self, fired: &Fired, rows: f64, memory_left: u64) -> Option<appending::Switch> {
        let (heavy, sealed) = (self.heavy(), self.appending.take_sealed());
        let filled = match (fired.own, fired.appended, fired.shared) {
            (0, 1.., 0) => sealed,
            (1.., 0, 0) => self.appending.note_aggregated(Filled {
                slices: fired.slices,
                tables: fired.own as f64,
                rows,
                keys: fired.private as f64,
            }),
            (0, 0, 1..) if self.merge == MergeStrategy::Auto => {
                // What private tables would be like.
                let (slices, workers) = (fired.slices, self.situation.workers as f64);
                let of_slice = (1.0 - heavy) * rows / slices;
                let keys = different(drawn_from(of_slice, fired.shared as f64 / slices), of_slice / workers);
                Filled { slices, tables: workers * slices, rows, keys: keys * workers * slices }
            }
            // Slices of several kinds were in between: the next ones tell more.
            _ => return None,
        };
        let of_slice = match fired.own + fired.appended {
            0 => self.situation.workers as f64,
            tables => tables as f64 / fired.slices,
        };
        self.appending.judge(filled, (OPEN_SLICES * of_slice).ceil() as usize, heavy, memory_left)
    }

    /// The share of the rows that is of the few heaviest keys.
    fn heavy(&self) -> f64 {
        f64::from_bits(self.heavy.load(Relaxed))
    }

    fn judge(&self, seen: Seen) -> Option<Switch> {
        let chosen = self.situation.choose(self.sharing(), seen, self.heavy());
        let is_global = chosen == Sharing::Global;
        (self.is_global.swap(is_global, Relaxed) != is_global).then_some(Switch::Sharing { seen, chosen })
    }
}

/// A change of the strategy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Switch {
    /// Of whether workers share tables.
    Sharing {
        /// What was seen.
        seen: Seen,
        /// From now on.
        chosen: Sharing,
    },
    /// Of what their own tables do.
    Appending(appending::Switch),
}

impl Switch {
    /// What was seen, for people.
    pub(crate) fn observed(&self) -> String {
        match self {
            Switch::Sharing { seen: Seen::Private { rows, entries }, .. } => {
                format!("{rows:.0} rows of a slice made {entries:.0} entries in tables of workers")
            }
            Switch::Sharing { seen: Seen::Shared { rows, entries }, .. } => {
                format!("{rows:.0} rows of a slice made {entries:.0} entries in a shared table")
            }
            Switch::Appending(switch) => switch.observed(),
        }
    }

    /// What is done, for people.
    pub(crate) fn decided(&self) -> String {
        match self {
            Switch::Sharing { chosen: Sharing::Local, .. } => {
                "a table for each worker, merged at the end of a slice".into()
            }
            Switch::Sharing { chosen: Sharing::Global, .. } => "one table that workers share".into(),
            Switch::Appending(switch) => switch.decided(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_abi::{Accumulator, HASH_SEED, ObjectKind, Phys, Slot, hash_finish, hash_word};
    use millstream_state::{Partial, Table};
    use std::sync::Arc;

    impl Strategy {
        /// A slice fires, with so many entries in the tables of all workers and in shared ones.
        fn note_entries(&self, private: usize, shared: usize) -> Option<Switch> {
            let own = if private > 0 { self.situation.workers } else { 0 };
            self.note_fired(Fired { slices: 1.0, own, private, appended: 0, shared }, 64 << 30)
        }
    }

    #[test]
    fn slices_are_judged_when_they_fire() {
        let config = RunConfig { workers: 8, merge: MergeStrategy::Auto, ..RunConfig::default() };
        let layout = EntryLayout::new(&[(Phys::I64, false)], &[Accumulator::Count, Accumulator::SumI64]);
        let mut strategy = Strategy::new(&config, &layout);
        strategy.situation.caches = Caches { second: 1 << 20, last: 32 << 20 };
        let entries = (8.0 * different(3e6, 1e7 / 8.0)) as usize;
        strategy.note_task(10_000_000);
        assert_eq!(strategy.sharing(), Sharing::Local);
        let switch = strategy.note_entries(entries, 0).expect("many keys");
        assert!(switch.observed().contains("10000000 rows") && switch.decided().contains("share"), "{switch:?}");
        assert_eq!(strategy.sharing(), Sharing::Global);
        strategy.note_task(10_000_000);
        assert_eq!(strategy.note_entries(10, 10), None);
        assert_eq!(strategy.sharing(), Sharing::Global, "a slice of both kinds tells nothing");
        strategy.note_task(10_000_000);
        assert!(strategy.note_entries(0, 10).is_some());
        assert_eq!(strategy.sharing(), Sharing::Local);
        strategy.note_skew(0.9);
        strategy.note_task(10_000_000);
        assert_eq!(strategy.note_entries(entries, 0), None);
        assert_eq!(strategy.sharing(), Sharing::Local, "heavy keys stay private");
    }

    /// A partial of a table that appends: so many rows, `each` of every key.
    fn appended(layout: &Arc<EntryLayout>, rows: i64, each: i64) -> Partial {
        let mut table = Table::new(Arc::clone(layout));
        table.set_appending(true);
        for row in 0..rows {
            let key = (row / each) as u64;
            let hash = hash_finish(hash_word(HASH_SEED, key));
            // SAFETY: a key of the layout.
            unsafe { table.insert(hash, 0, &[Slot::of(key.to_le_bytes())]) };
        }
        table.drain()
    }

    #[test]
    fn rows_of_keys_of_their_own_are_appended_until_keys_come_again() {
        for (workers, merge) in [(1, MergeStrategy::Local), (4, MergeStrategy::Auto), (4, MergeStrategy::Partition)] {
            let config = RunConfig { workers, merge, ..RunConfig::default() };
            let layout = Arc::new(EntryLayout::new(&[(Phys::I64, false)], &[Accumulator::Count]));
            let mut strategy = Strategy::new(&config, &layout);
            strategy.situation.caches = Caches { second: 1 << 20, last: 32 << 20 };
            let fire = |own, private, appended, memory| {
                let fired = Fired { slices: 1.0, own, private, appended, shared: 0 };
                strategy.note_fired(fired, memory)
            };
            let begins = || strategy.appending().begins();
            strategy.note_task(1_000_000);
            assert_eq!(fire(workers, 500_000, 0, 8 << 30), None, "two rows of each key");
            for _ in 0..10 {
                strategy.note_task(1_000_000);
                assert_eq!(fire(workers, 1_000_000, 0, 1 << 20), None, "there is no memory for so many rows");
            }
            assert!(!begins());
            strategy.note_task(1_000_000);
            let switch = fire(workers, 1_000_000, 0, 8 << 30).expect("a key for each row");
            assert!(switch.observed().contains("had") && switch.decided().contains("appended"), "{switch:?}");
            assert!(begins() && strategy.sharing() == Sharing::Local);
            assert_eq!(fire(1, 1_000, 1, 8 << 30), None, "tables of both kinds tell nothing");
            strategy.appending().note_sealed(&appended(&layout, 50_000, 1));
            assert_eq!(fire(0, 0, workers, 8 << 30), None);
            assert_eq!(fire(0, 0, workers, 8 << 30), None, "nothing has been sealed");
            assert!(begins());
            strategy.appending().note_sealed(&appended(&layout, 50_000, 10));
            assert!(fire(0, 0, workers, 8 << 30).is_some_and(|switch| switch.decided().contains("before")));
            assert!(!begins());
        }
    }

    #[test]
    fn shared_tables_give_way_to_appended_rows() {
        let config = RunConfig { workers: 4, merge: MergeStrategy::Auto, ..RunConfig::default() };
        let layout = EntryLayout::new(&[(Phys::I64, false)], &[Accumulator::Count]);
        let strategy = Strategy::new(&config, &layout);
        strategy.is_global.store(true, Relaxed);
        strategy.note_task(1_000_000);
        assert!(strategy.note_entries(0, 1_000_000).is_some_and(|switch| switch.decided().contains("appended")));
        assert_eq!(strategy.sharing(), Sharing::Local);
        let global = RunConfig { merge: MergeStrategy::Global, ..config };
        let strategy = Strategy::new(&global, &layout);
        strategy.note_task(1_000_000);
        assert_eq!(strategy.note_entries(0, 1_000_000), None, "what is set is done");
    }

    #[test]
    fn only_what_is_possible_is_done() {
        let counts = EntryLayout::new(&[(Phys::I64, false)], &[Accumulator::Count]);
        let strings = EntryLayout::new(&[(Phys::I64, false)], &[Accumulator::MaxStr]);
        let first = EntryLayout::new(&[(Phys::I64, false)], &[Accumulator::Object(ObjectKind::First, Phys::I64)]);
        let all = EntryLayout::new(&[], &[Accumulator::Count]);
        let of = |merge, layout| merge_strategy(&RunConfig { merge, workers: 2, ..RunConfig::default() }, layout);
        use MergeStrategy::{Auto, Global, Local, Partition};
        assert_eq!([Auto, Global, Partition, Local].map(|m| of(m, &counts)), [Auto, Global, Partition, Local]);
        assert_eq!([Auto, Global, Partition].map(|m| of(m, &strings)), [Local, Local, Partition]);
        assert_eq!([Auto, Global, Partition].map(|m| of(m, &first)), [Local; 3]);
        assert_eq!([Auto, Global, Partition].map(|m| of(m, &all)), [Local; 3]);
    }
}
