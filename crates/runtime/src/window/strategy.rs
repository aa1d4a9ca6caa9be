//! Whether the workers share the tables of an aggregation: what is set, or what `adaptive::decisions::sharing` decides; and
//! whether the tables of workers append rows (`appending`). The latter is decided first, and by comparison with both own and
//! shared tables; while rows are appended, sharing is not asked for.
//!
//! Slices are judged when they fire, not before: a slice with tables of both kinds costs more than with either. Private
//! tables give the number of their entries together, a shared one that of its keys; rows are counted. The choice holds from
//! the next task on, so slices that are open have tables of both kinds once; all become partials.

mod appending;

use crate::adaptive::Decision;
use crate::adaptive::decisions::costs::Caches;
use crate::adaptive::decisions::draws::{different, drawn_from};
use crate::adaptive::decisions::sharing::{Seen, Sharing, SharingCase};
use crate::adaptive::slice_facts::SliceFacts;
use crate::config::{MergeStrategy, RunConfig};
use crate::window::tables::{Kind, Taken};
pub(crate) use appending::Appending;
use appending::Filled;
use millstream_abi::EntryLayout;
use millstream_codegen::partition::can_partition;
use millstream_state::Partial;
use std::sync::Arc;
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
    /// What was decided before the run.
    pub(crate) merge: MergeStrategy,
    situation: SharingCase,
    is_global: AtomicBool,
    /// Whether private tables append.
    pub(crate) appending: Appending,
    /// Of keys and slices, shared with whoever specialises the programs.
    facts: Arc<SliceFacts>,
    /// Rows since a slice was judged last.
    rows: AtomicU64,
}

impl Strategy {
    /// Of an aggregation with such entries, of which component `count` counts all rows, if there is one.
    pub(crate) fn new(
        config: &RunConfig,
        layout: &EntryLayout,
        count: Option<usize>,
        facts: Arc<SliceFacts>,
    ) -> Strategy {
        let merge = merge_strategy(config, layout);
        let situation = SharingCase {
            workers: config.workers,
            stride: layout.stride,
            accumulators: layout.accumulators.len(),
            caches: Caches::of_machine(),
        };
        let is_global = AtomicBool::new(merge == MergeStrategy::Global);
        let appending = Appending::new(&config.adaptivity, layout, count, Arc::clone(&facts));
        Strategy { merge, situation, is_global, appending, facts, rows: AtomicU64::new(0) }
    }

    /// What the next task uses. When memory is short, it is to be tables that can be spilled one by one, unless something else
    /// was asked for.
    pub(crate) fn sharing(&self, is_short: bool) -> Sharing {
        let is_global = self.is_global.load(Relaxed) && !(is_short && self.merge == MergeStrategy::Auto);
        if is_global { Sharing::Global } else { Sharing::Local }
    }

    /// A task has put `rows` rows into tables.
    pub(crate) fn note_task(&self, rows: usize) {
        if self.merge == MergeStrategy::Auto || self.appending.policy.is_chosen() {
            self.rows.fetch_add(rows as u64, Relaxed);
        }
    }

    /// `slices` slices fire, with these tables, while `memory_left` bytes of memory are left; says what was seen if
    /// that changes the strategy.
    pub(crate) fn note_slices<'a>(
        &self,
        slices: usize,
        tables: impl Iterator<Item = &'a Taken>,
        memory_left: u64,
    ) -> Option<Decision> {
        if slices == 0 || !(self.merge == MergeStrategy::Auto || self.appending.policy.is_chosen()) {
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

    fn note_fired(&self, fired: Fired, memory_left: u64) -> Option<Decision> {
        let rows = self.rows.swap(0, Relaxed) as f64;
        *self.facts.rows.lock() = Some(rows / fired.slices).filter(|&rows| rows > 0.0);
        let switch = self.estimated(&fired, rows).and_then(|filled| self.judge_appending(filled, memory_left));
        if switch.is_some() {
            return switch;
        }
        let judge = |tables, entries| {
            self.judge(Seen { tables, rows: rows / fired.slices, entries: entries as f64 / fired.slices })
        };
        // Slices of several kinds were in between: the next ones tell more.
        match (fired.private, fired.shared) {
            _ if self.merge != MergeStrategy::Auto || fired.appended > 0 || self.appending.is_on() => None,
            (private, 0) => judge(Sharing::Local, private),
            (0, shared) => judge(Sharing::Global, shared),
            _ => None,
        }
    }

    /// What private tables have been or would be like, where they cannot tell when they are sealed.
    fn estimated(&self, fired: &Fired, rows: f64) -> Option<Filled> {
        let Fired { slices, own, appended, private, shared } = *fired;
        match (own, appended, shared) {
            _ if self.appending.count.is_some() => None,
            (1.., 0, 0) => {
                let fired = Filled { slices, tables: own as f64, rows, keys: private as f64, dense: 0.0 };
                Some(self.appending.note_aggregated(fired))
            }
            (0, 0, 1..) if self.merge == MergeStrategy::Auto => {
                Some(self.unshared(Filled { slices, tables: slices, rows, keys: shared as f64, dense: 0.0 }))
            }
            // Slices of several kinds were in between: the next ones tell more.
            _ => None,
        }
    }

    /// What private tables would be like instead of shared ones.
    fn unshared(&self, shared: Filled) -> Filled {
        let (workers, rows) =
            (self.situation.workers as f64, (1.0 - *self.facts.heavy.lock()) * shared.rows / shared.tables);
        let keys = different(drawn_from(rows, shared.keys / shared.tables), rows / workers);
        let tables = workers * shared.tables;
        Filled { tables, keys: keys * tables, dense: shared.dense * tables / shared.tables, ..shared }
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
        filled.into_iter().for_each(|table| self.appending.sealed.lock().add(table));
    }

    /// All tables of `slices` slices were sealed, while `memory_left` bytes of memory are left; says what was seen if
    /// that changes the strategy.
    pub(crate) fn note_slices_sealed(&self, slices: usize, memory_left: u64) -> Option<Decision> {
        self.judge_appending(self.appending.take_sealed(slices as f64)?, memory_left)
    }

    /// Whether private tables are to begin or to cease to append.
    fn judge_appending(&self, filled: Filled, memory_left: u64) -> Option<Decision> {
        let is_open = self.merge == MergeStrategy::Auto;
        let sharing = (&self.situation, is_open);
        let decision = self.appending.judge(filled, sharing, *self.facts.heavy.lock(), memory_left)?;
        if is_open {
            self.is_global.store(false, Relaxed);
        }
        Some(decision)
    }

    fn judge(&self, seen: Seen) -> Option<Decision> {
        let chosen = self.situation.choose(self.sharing(false), seen, *self.facts.heavy.lock());
        let is_global = chosen == Sharing::Global;
        if self.is_global.swap(is_global, Relaxed) == is_global {
            return None;
        }
        let Seen { rows, entries, tables } = seen;
        let tables = match tables {
            Sharing::Local => "tables of workers",
            Sharing::Global => "a shared table",
        };
        let decided = match chosen {
            Sharing::Local => "a table for each worker, merged at the end of a slice",
            Sharing::Global => "one table that workers share",
        };
        Some(Decision::new(format!("{rows:.0} rows of a slice made {entries:.0} entries in {tables}"), decided))
    }
}

#[cfg(test)]
mod tests;
