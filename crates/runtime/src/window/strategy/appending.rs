//! Whether the private tables of an aggregation append rows instead of aggregating them: what is set, what
//! `adaptive::decisions::pre_aggregation` decides, or chance.
//!
//! What decides is how many keys the rows of a table have. An appended row is an entry, which says nothing of keys; but sealing
//! sorts entries, equal keys become neighbours, and counting these ([`Partial::keys_of`]) is a small part of the cost of sealing. The entries of
//! a table that aggregates are its keys, and where one of the components is a COUNT(*), its sum is the rows. So both kinds
//! of tables tell the same, exactly, when they are sealed, and no slice has to be aggregated for the sake of knowing.
//!
//! Without COUNT(*), the rows of tables that aggregate are taken to be those of the buffers. Of these, filters may
//! have dropped some, and others are of slices that are still open. Summed up over some slices the latter hardly count; the
//! former make it look as if keys came again more often than they do. So such tables are left unchanged for too long
//! rather than too short a time.
//!
//! Where an array would have the keys of most tables, none appends: an array neither searches nor sorts. A table that appends has none
//! and cannot come to have one, so its keys are looked at when it is sealed.
//!
//! The kind of a table is that of when it was made: a slice may have tables of both, and all become partials. Not every table
//! may append. Without keys there is nothing to search for; shared tables are written by many at once; arrays have no keys to
//! compare. Objects (DISTINCT, lists, sketches) can be merged, but each row would have its own, so only `never` asks
//! for that.

use crate::adaptive::decisions::draws::drawn_from;
use crate::adaptive::decisions::pre_aggregation::AppendingCase;
use crate::adaptive::decisions::sharing::SharingCase;
use crate::adaptive::slice_facts::SliceFacts;
use crate::adaptive::{Decision, Policy};
use crate::config::{Adaptivity, When};
use millstream_abi::{Accumulator, EntryLayout};
use millstream_state::Partial;
use parking_lot::Mutex;
use std::sync::Arc;

/// Slices that are filled at a time: the one that fires next, and the one that begins.
const OPEN_SLICES: f64 = 2.0;
/// Slices whose tables are judged together, as long as they aggregate; half of them are forgotten then.
const REMEMBERED: f64 = 32.0;
/// Least rows of sealed tables that are judged together.
const LEAST_ROWS: f64 = 1024.0;

/// See the module. Whether tables append is one of the hints for the next run, so it is among the facts.
#[derive(Debug)]
pub(crate) struct Appending {
    pub(super) policy: Policy,
    facts: Arc<SliceFacts>,
    /// The component that counts all rows.
    pub(super) count: Option<usize>,
    /// Tables that have been sealed since the last judgement, of which rows and keys are known.
    pub(super) sealed: Mutex<Filled>,
    /// Tables that aggregate, of the last slices, where rows are not counted.
    aggregated: Mutex<Filled>,
}

/// Private tables of slices, together.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Filled {
    pub(super) slices: f64,
    pub(super) tables: f64,
    pub(super) rows: f64,
    /// Keys of each table, summed up.
    pub(super) keys: f64,
    /// Tables whose keys an array would have.
    pub(super) dense: f64,
}

impl Filled {
    pub(super) fn add(&mut self, other: Filled) {
        self.slices += other.slices;
        self.tables += other.tables;
        self.rows += other.rows;
        self.keys += other.keys;
        self.dense += other.dense;
    }
}

impl Appending {
    /// Of tables with such entries, of which component `count` counts all rows.
    pub(super) fn new(
        adaptivity: &Adaptivity,
        layout: &EntryLayout,
        count: Option<usize>,
        facts: Arc<SliceFacts>,
    ) -> Appending {
        let is_possible = !layout.keys.is_empty();
        let has_objects = layout.accumulators.iter().any(|(a, _)| matches!(a, Accumulator::Object(..)));
        let policy = match Policy::new(is_possible && adaptivity.pre_aggregation == When::Auto, adaptivity) {
            Policy::Chosen if has_objects => Policy::Fixed,
            policy => policy,
        };
        facts.tables.lock().appends = is_possible && adaptivity.pre_aggregation == When::Never;
        Appending { policy, facts, count, sealed: Mutex::default(), aggregated: Mutex::default() }
    }

    /// Whether it was decided that tables append.
    pub(super) fn is_on(&self) -> bool {
        self.facts.tables.lock().appends
    }

    /// Whether a table that is made now appends.
    pub(crate) fn begins(&self) -> bool {
        match &self.policy {
            Policy::Random(dice) => dice.below(2) == 0,
            Policy::Fixed | Policy::Chosen => self.is_on(),
        }
    }

    /// Whether a table that appends ceases to, although there is memory.
    pub(crate) fn ceases(&self) -> bool {
        matches!(&self.policy, Policy::Random(dice) if dice.below(8) == 0)
    }

    /// Rows and keys of a sealed table; `None` if they are not known, or not asked for.
    pub(super) fn look_at(&self, partial: &Partial, appended: bool) -> Option<Filled> {
        if !self.policy.is_chosen() || !(appended || self.count.is_some()) {
            return None;
        }
        let all = partial.partitions();
        let rows = match self.count.filter(|_| !appended) {
            Some(count) => partial.count_of(&all, count),
            None => partial.len() as u64,
        };
        let keys = partial.keys_of(&all);
        let dense = f64::from(u8::from(partial.suits_array(keys)));
        Some(Filled { slices: 0.0, tables: 1.0, rows: rows as f64, keys: keys as f64, dense })
    }

    /// All tables of `slices` slices have been sealed. Gives those since the last time, if they are enough to be
    /// judged.
    pub(super) fn take_sealed(&self, slices: f64) -> Option<Filled> {
        let mut sealed = self.sealed.lock();
        sealed.slices += slices;
        (sealed.rows >= LEAST_ROWS).then(|| std::mem::take(&mut *sealed))
    }

    /// Tables that aggregate fire. Gives those of the last slices together.
    pub(super) fn note_aggregated(&self, fired: Filled) -> Filled {
        let mut all = self.aggregated.lock();
        if all.slices >= REMEMBERED {
            let Filled { slices, tables, rows, keys, dense } = *all;
            let [slices, tables, rows, keys, dense] = [slices, tables, rows, keys, dense].map(|of_all| of_all / 2.0);
            *all = Filled { slices, tables, rows, keys, dense };
        }
        all.add(fired);
        *all
    }

    /// Judges tables, which could be shared instead, or not, while a share of the rows is of a few heavy keys.
    pub(super) fn judge(
        &self,
        filled: Filled,
        (sharing, is_possible): (&SharingCase, bool),
        heavy: f64,
        memory_left: u64,
    ) -> Option<Decision> {
        if !self.policy.is_chosen() || filled.tables < 1.0 || filled.rows < 1.0 {
            return None;
        }
        let (rows, keys) = (filled.rows / filled.tables, filled.keys / filled.tables);
        let all_keys = drawn_from((1.0 - heavy) * rows, keys);
        let slices = filled.slices.max(1.0);
        let situation = AppendingCase {
            rows,
            keys: all_keys,
            heavy,
            stride: sharing.stride,
            shared: if is_possible { sharing.shared(filled.rows / slices, all_keys, heavy) } else { f64::INFINITY },
            tables: (OPEN_SLICES * filled.tables / slices).ceil() as usize,
            memory_left,
            caches: sharing.caches,
        };
        // In arrays, keys are not searched for.
        let are_dense = 2.0 * filled.dense > filled.tables;
        let appends = !are_dense && !situation.choose(!self.is_on());
        if std::mem::replace(&mut self.facts.tables.lock().appends, appends) == appends {
            return None;
        }
        *self.aggregated.lock() = Filled::default();
        let decided = match appends {
            true => "rows are appended, and aggregated when tables are merged",
            false => "rows are aggregated before tables are merged",
        };
        Some(Decision::new(format!("{rows:.0} rows of a table had {keys:.0} keys"), decided))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_abi::{ObjectKind, Phys};

    fn layout(accumulator: Accumulator) -> EntryLayout {
        EntryLayout::new(&[(Phys::I64, false)], &[accumulator])
    }

    #[test]
    fn only_what_is_possible_is_done() {
        let counts = layout(Accumulator::Count);
        let lists = layout(Accumulator::Object(ObjectKind::Bag, Phys::I64));
        let all = EntryLayout::new(&[], &[Accumulator::Count]);
        let of = |pre_aggregation, layout| {
            let adaptivity = Adaptivity { pre_aggregation, ..Adaptivity::default() };
            let appending = Appending::new(&adaptivity, layout, None, Arc::default());
            (appending.policy.is_chosen(), appending.begins(), appending.ceases())
        };
        use When::{Always, Auto, Never};
        let kinds = [&counts, &lists, &all];
        assert_eq!(kinds.map(|k| of(Auto, k)), [(true, false, false), (false, false, false), (false, false, false)]);
        assert_eq!(kinds.map(|k| of(Never, k)), [(false, true, false), (false, true, false), (false, false, false)]);
        assert_eq!(kinds.map(|k| of(Always, k)), [(false, false, false); 3]);
    }

    #[test]
    fn chance_decides_where_nothing_is_set() {
        let adaptivity = Adaptivity { chaos_seed: Some(1), ..Adaptivity::default() };
        let appending = Appending::new(&adaptivity, &layout(Accumulator::Count), None, Arc::default());
        assert!((0..100).any(|_| appending.begins()) && (0..100).any(|_| !appending.begins()));
        assert!((0..100).any(|_| appending.ceases()) && (0..100).any(|_| !appending.ceases()));
        assert!(!appending.policy.is_chosen());
        let set = Adaptivity { pre_aggregation: When::Always, ..adaptivity };
        let appending = Appending::new(&set, &layout(Accumulator::Count), None, Arc::default());
        assert!((0..100).all(|_| !appending.begins() && !appending.ceases()));
    }
}
