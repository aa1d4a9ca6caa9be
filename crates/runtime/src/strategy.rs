//! Whether the workers share the tables of an aggregation: what is set, or what `adaptive::decisions::sharing` decides; and
//! whether the tables of workers append rows (`appending`). The latter is decided first, and by comparison with both own and
//! shared tables; while rows are appended, sharing is not asked for.
//!
//! Slices are judged when they fire, not before: a slice with tables of both kinds costs more than with either. Private
//! tables give the number of their entries together, a shared one that of its keys; rows are counted. The choice holds from
//! the next task on, so slices that are open have tables of both kinds once; all become partials.

mod appending;

use crate::adaptive::decisions::costs::Caches;
use crate::adaptive::decisions::draws::{different, drawn_from};
use crate::adaptive::decisions::sharing::{Seen, Sharing, Situation};
use crate::config::{MergeStrategy, RunConfig};
use crate::tables::{Kind, Taken};
pub(crate) use appending::Appending;
use appending::Filled;
use millstream_abi::EntryLayout;
use millstream_codegen::partition::can_partition;
use millstream_state::Partial;
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
    /// Of an aggregation with such entries, of which component `count` counts all rows, if there is one.
    pub(crate) fn new(config: &RunConfig, layout: &EntryLayout, count: Option<usize>) -> Strategy {
        let merge = merge_strategy(config, layout);
        let situation = Situation {
            workers: config.workers,
            stride: layout.stride,
            accumulators: layout.accumulators.len(),
            caches: Caches::of_machine(),
        };
        let is_global = AtomicBool::new(merge == MergeStrategy::Global);
        let appending = Appending::new(&config.adaptivity, layout, count);
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
            match table.kind() {
                Kind::Appended => fired.appended += 1,
                Kind::Own => {
                    fired.own += 1;
                    fired.private += table.len();
                }
                Kind::Shared => fired.shared += table.len(),
                // Next to nothing to merge.
                Kind::Array => {}
            }
        }
        self.note_fired(fired, memory_left)
    }

    fn note_fired(&self, fired: Fired, memory_left: u64) -> Option<Switch> {
        let rows = self.rows.swap(0, Relaxed) as f64;
        let switch = self.estimated(&fired, rows).and_then(|filled| self.judge_appending(filled, memory_left));
        if switch.is_some() {
            return switch;
        }
        let rows = rows / fired.slices;
        // Slices of several kinds were in between: the next ones tell more.
        match (fired.private, fired.shared) {
            _ if self.merge != MergeStrategy::Auto || fired.appended > 0 || self.appending.is_on() => None,
            (private, 0) => self.judge(Seen::Private { rows, entries: private as f64 / fired.slices }),
            (0, shared) => self.judge(Seen::Shared { rows, entries: shared as f64 / fired.slices }),
            _ => None,
        }
    }

    /// What private tables have been or would be like, where they cannot tell when they are sealed.
    fn estimated(&self, fired: &Fired, rows: f64) -> Option<Filled> {
        let Fired { slices, own, appended, private, shared } = *fired;
        match (own, appended, shared) {
            _ if self.appending.counts_rows() => None,
            (1.., 0, 0) => {
                let fired = Filled { slices, tables: own as f64, rows, keys: private as f64 };
                Some(self.appending.note_aggregated(fired))
            }
            (0, 0, 1..) if self.merge == MergeStrategy::Auto => {
                Some(self.unshared(Filled { slices, tables: slices, rows, keys: shared as f64 }))
            }
            // Slices of several kinds were in between: the next ones tell more.
            _ => None,
        }
    }

    /// What private tables would be like instead of shared ones.
    fn unshared(&self, shared: Filled) -> Filled {
        let (workers, rows) = (self.situation.workers as f64, (1.0 - self.heavy()) * shared.rows / shared.tables);
        let keys = different(drawn_from(rows, shared.keys / shared.tables), rows / workers);
        let tables = workers * shared.tables;
        Filled { tables, keys: keys * tables, ..shared }
    }

    /// A table of the kind was sealed.
    pub(crate) fn note_sealed(&self, kind: Kind, partial: &Partial) {
        let looked_at = |appended| self.appending.look_at(partial, appended);
        let filled = match kind {
            Kind::Own => looked_at(false),
            Kind::Appended => looked_at(true),
            Kind::Shared if self.merge == MergeStrategy::Auto => looked_at(false).map(|shared| self.unshared(shared)),
            Kind::Shared | Kind::Array => None,
        };
        filled.into_iter().for_each(|table| self.appending.note_sealed(table));
    }

    /// All tables of so many slices were sealed, while so many bytes of memory are left; says what was seen if that changes
    /// the strategy.
    pub(crate) fn note_slices_sealed(&self, slices: usize, memory_left: u64) -> Option<Switch> {
        self.judge_appending(self.appending.take_sealed(slices as f64)?, memory_left)
    }

    /// Whether private tables are to begin or to cease to append.
    fn judge_appending(&self, filled: Filled, memory_left: u64) -> Option<Switch> {
        let heavy = self.heavy();
        let shared = |rows, keys| match self.merge {
            MergeStrategy::Auto => self.situation.shared(rows, keys, heavy),
            _ => f64::INFINITY,
        };
        let switch = self.appending.judge(filled, shared, heavy, (self.situation.caches, memory_left))?;
        if self.merge == MergeStrategy::Auto {
            self.is_global.store(false, Relaxed);
        }
        Some(Switch::Appending(switch))
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
        let mut strategy = Strategy::new(&config, &layout, None);
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

    /// A table of so many rows, `each` of every key, that appends or does not.
    fn sealed(layout: &Arc<EntryLayout>, rows: i64, each: i64, appends: bool) -> Partial {
        let mut table = Table::new(Arc::clone(layout));
        table.set_appending(appends);
        for row in (0..rows).step_by(if appends { 1 } else { each as usize }) {
            let key = (row / each) as u64;
            let hash = hash_finish(hash_word(HASH_SEED, key));
            // SAFETY: a key of the layout, which the table does not have unless it appends; the first accumulator is a count.
            unsafe {
                let entry = table.insert(hash, 0, &[Slot::of(key.to_le_bytes())]);
                entry.add(layout.accumulators[0].1).cast::<i64>().write(if appends { 1 } else { each });
            }
        }
        table.drain()
    }

    #[test]
    fn rows_of_keys_of_their_own_are_appended_until_keys_come_again() {
        for (workers, merge) in [(1, MergeStrategy::Local), (4, MergeStrategy::Auto), (4, MergeStrategy::Partition)] {
            let config = RunConfig { workers, merge, ..RunConfig::default() };
            let layout = Arc::new(EntryLayout::new(&[(Phys::I64, false)], &[Accumulator::Count]));
            let strategy = Strategy::new(&config, &layout, Some(0));
            let fire = |each, kind: Kind, memory| {
                let partial = sealed(&layout, 50_000, each, kind == Kind::Appended);
                (0..workers).for_each(|_| strategy.note_sealed(kind, &partial));
                strategy.note_slices_sealed(1, memory)
            };
            let begins = || strategy.appending().begins();
            assert_eq!(fire(10, Kind::Own, 8 << 30), None, "ten rows of each key");
            assert_eq!(fire(1, Kind::Own, 1 << 20), None, "there is no memory for so many rows");
            assert!(!begins());
            let switch = fire(1, Kind::Own, 8 << 30).expect("a key for each row");
            assert!(switch.observed().contains("50000 rows of a table had 50000 keys"), "{switch:?}");
            assert!(switch.decided().contains("appended"), "{switch:?}");
            assert!(begins() && strategy.sharing() == Sharing::Local);
            assert_eq!(fire(1, Kind::Appended, 8 << 30), None);
            assert_eq!(fire(1, Kind::Own, 8 << 30), None, "made before");
            assert_eq!(strategy.note_slices_sealed(1, 8 << 30), None, "nothing has been sealed");
            assert!(begins());
            assert!(fire(10, Kind::Appended, 8 << 30).is_some_and(|switch| switch.decided().contains("before")));
            assert!(!begins());
        }
    }

    #[test]
    fn rows_that_nobody_counts_are_estimated() {
        let config = RunConfig { workers: 1, ..RunConfig::default() };
        let layout = EntryLayout::new(&[(Phys::I64, false)], &[Accumulator::MaxI64]);
        let strategy = Strategy::new(&config, &layout, None);
        let fire = |rows, private| {
            strategy.note_task(rows);
            strategy.note_fired(Fired { slices: 1.0, own: 1, private, ..Fired::default() }, 8 << 30)
        };
        assert_eq!(fire(20_000, 10_000), None, "half of the rows are of the next slice");
        let switches = (0..20).filter_map(|_| fire(10_000, 10_000)).count();
        assert_eq!(switches, 1);
    }

    #[test]
    fn shared_tables_give_way_to_appended_rows() {
        let config = RunConfig { workers: 4, merge: MergeStrategy::Auto, ..RunConfig::default() };
        let layout = EntryLayout::new(&[(Phys::I64, false)], &[Accumulator::Count]);
        let strategy = Strategy::new(&config, &layout, None);
        strategy.is_global.store(true, Relaxed);
        strategy.note_task(1_000_000);
        assert!(strategy.note_entries(0, 1_000_000).is_some_and(|switch| switch.decided().contains("appended")));
        assert_eq!(strategy.sharing(), Sharing::Local);
        let global = RunConfig { merge: MergeStrategy::Global, ..config };
        let strategy = Strategy::new(&global, &layout, None);
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
