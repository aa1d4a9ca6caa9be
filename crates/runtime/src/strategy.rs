//! Whether the workers share the tables of an aggregation: what is set, or what `adaptive::decisions::sharing` decides.
//!
//! Slices are judged when they fire, not before: a slice with tables of both kinds costs more than with either. Private
//! tables give the number of their entries together, a shared one that of its keys; rows are counted. The choice holds from
//! the next task on, so slices that are open have tables of both kinds once; all become partials.

use crate::adaptive::decisions::costs::Caches;
use crate::adaptive::decisions::sharing::{Seen, Sharing, Situation};
use crate::config::{MergeStrategy, RunConfig};
use crate::tables::Taken;
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

/// The strategy of an aggregation, and what was seen of its slices. All atomics are relaxed: tasks may use any strategy.
#[derive(Debug)]
pub(crate) struct Strategy {
    merge: MergeStrategy,
    situation: Situation,
    is_global: AtomicBool,
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
        Strategy { merge, situation, is_global, heavy: AtomicU64::new(0), rows: AtomicU64::new(0) }
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
        if self.merge == MergeStrategy::Auto {
            self.rows.fetch_add(rows as u64, Relaxed);
        }
    }

    /// This share of the rows is of the few heaviest keys.
    pub(crate) fn note_skew(&self, heavy: f64) {
        self.heavy.store(heavy.to_bits(), Relaxed);
    }

    /// So many slices fire, with these tables; says what was seen if that changes the strategy.
    pub(crate) fn note_slices<'a>(&self, slices: usize, tables: impl Iterator<Item = &'a Taken>) -> Option<Switch> {
        if self.merge != MergeStrategy::Auto || slices == 0 {
            return None;
        }
        let (mut private, mut shared) = (0, 0);
        for table in tables {
            match table {
                Taken::Own(table) => private += table.len(),
                Taken::Shared(table) => shared += table.len(),
                // Next to nothing to merge.
                Taken::Array(_) => {}
            }
        }
        self.note_entries(slices as f64, private, shared)
    }

    /// So many slices fire, with so many entries in private and in shared tables.
    fn note_entries(&self, slices: f64, private: usize, shared: usize) -> Option<Switch> {
        let rows = self.rows.swap(0, Relaxed) as f64 / slices;
        // Slices of both kinds were in between: the next ones tell more.
        match (private, shared) {
            (_, 0) => self.judge(Seen::Private { rows, entries: private as f64 / slices }),
            (0, _) => self.judge(Seen::Shared { rows, entries: shared as f64 / slices }),
            _ => None,
        }
    }

    fn judge(&self, seen: Seen) -> Option<Switch> {
        let chosen = self.situation.choose(self.sharing(), seen, f64::from_bits(self.heavy.load(Relaxed)));
        let is_global = chosen == Sharing::Global;
        (self.is_global.swap(is_global, Relaxed) != is_global).then_some(Switch { seen, chosen })
    }
}

/// A change of the strategy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Switch {
    seen: Seen,
    chosen: Sharing,
}

impl Switch {
    /// What was seen, for people.
    pub(crate) fn observed(&self) -> String {
        match self.seen {
            Seen::Private { rows, entries } => {
                format!("{rows:.0} rows of a slice made {entries:.0} entries in tables of workers")
            }
            Seen::Shared { rows, entries } => {
                format!("{rows:.0} rows of a slice made {entries:.0} entries in a shared table")
            }
        }
    }

    /// What is done, for people.
    pub(crate) fn decided(&self) -> String {
        match self.chosen {
            Sharing::Local => "a table for each worker, merged at the end of a slice".into(),
            Sharing::Global => "one table that workers share".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adaptive::decisions::draws::different;
    use millstream_abi::{Accumulator, ObjectKind, Phys};

    #[test]
    fn slices_are_judged_when_they_fire() {
        let config = RunConfig { workers: 8, merge: MergeStrategy::Auto, ..RunConfig::default() };
        let layout = EntryLayout::new(&[(Phys::I64, false)], &[Accumulator::Count, Accumulator::SumI64]);
        let mut strategy = Strategy::new(&config, &layout);
        strategy.situation.caches = Caches { second: 1 << 20, last: 32 << 20 };
        let entries = (8.0 * different(3e6, 1e7 / 8.0)) as usize;
        strategy.note_task(10_000_000);
        assert_eq!(strategy.sharing(), Sharing::Local);
        let switch = strategy.note_entries(1.0, entries, 0).expect("many keys");
        assert!(switch.observed().contains("10000000 rows") && switch.decided().contains("share"), "{switch:?}");
        assert_eq!(strategy.sharing(), Sharing::Global);
        strategy.note_task(10_000_000);
        assert_eq!(strategy.note_entries(1.0, 10, 10), None);
        assert_eq!(strategy.sharing(), Sharing::Global, "a slice of both kinds tells nothing");
        strategy.note_task(10_000_000);
        assert!(strategy.note_entries(1.0, 0, 10).is_some());
        assert_eq!(strategy.sharing(), Sharing::Local);
        strategy.note_skew(0.9);
        strategy.note_task(10_000_000);
        assert_eq!(strategy.note_entries(1.0, entries, 0), None);
        assert_eq!(strategy.sharing(), Sharing::Local, "heavy keys stay private");
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
