//! Whether the workers share the tables of an aggregation: the rule behind `MergeStrategy::Auto` (design section 7).
//!
//! # Cost of a row
//!
//! Over a slice of *R* rows with *K* different keys, *W* workers fill private tables of *k* entries each, where
//! *k* = *K* (1 − exp(−*R* / *WK*)) if keys are drawn alike, or one shared table of *K* entries. In nanoseconds per row:
//!
//! | strategy | update | end of the slice |
//! | --- | --- | --- |
//! | local | touch(*k* entries, all of which share the last cache with those of the others) | *Wk* / *R* entries sealed and merged |
//! | global | touch(*K* entries) + an atomic update of each accumulator | *K* / *R* entries sealed and merged, for a key may be in it twice |
//!
//! `touch` is what it costs to reach an entry in memory of a size: that of the cache it fits into, in proportion where it
//! fits only in part. So private tables are best while keys are few (all in the second-level cache, next to nothing to
//! merge, no word that several workers write), and the shared one when there are so many that entries are merged about as
//! often as they are updated. Skew keeps *k* small for its rows, and so speaks for private tables by itself.
//!
//! Partitioning is never chosen: it hashes every row twice and moves it through memory once more than the others do. That
//! pays from about a million scattered keys on, where its tables fit the caches (`make bench-runtime` shows it); but by the
//! time that a slice has shown so many keys, most of its private tables are there.
//!
//! # What is observed
//!
//! Private tables give *Wk*, from which *K* follows; a shared one gives *K*, from which *k* follows. Rows are counted. Slices
//! are judged when they fire, not before: a slice with tables of both kinds costs more than with either. The other
//! strategy has to be cheaper by a margin ([`MARGIN`]), so that the choice does not swing. It holds from the next task on,
//! so slices that are open have tables of both kinds once; all become partials.

use crate::config::{MergeStrategy, RunConfig};
use crate::tables::Taken;
use millstream_abi::EntryLayout;
use millstream_codegen::partition::can_partition;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// What the other strategy may cost at most, relative to the one in use, to replace it.
const MARGIN: f64 = 0.85;
/// Nanoseconds to reach an entry in the second-level cache, in the last-level cache, and in memory. Neighbouring rows
/// overlap their misses.
const TOUCH: [f64; 3] = [1.0, 4.0, 14.0];
/// Nanoseconds of an atomic update beyond a plain one.
const ATOMIC: f64 = 4.0;
/// Nanoseconds to seal an entry.
const SEAL: f64 = 6.0;
/// Nanoseconds to merge an entry, besides reaching its place.
const MERGE: f64 = 12.0;
/// Slots of a table for each entry, on average: tables double when they are half full.
const SLOTS_PER_ENTRY: f64 = 3.0;

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
        Strategy { merge, situation, is_global, rows: AtomicU64::new(0) }
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

    /// So many slices fire, with these tables.
    pub(crate) fn note_slices<'a>(&self, slices: usize, tables: impl Iterator<Item = &'a Taken>) {
        if self.merge != MergeStrategy::Auto || slices == 0 {
            return;
        }
        let (mut private, mut shared) = (0, 0);
        for table in tables {
            match table {
                Taken::Own(table) => private += table.len(),
                Taken::Shared(table) => shared += table.len(),
            }
        }
        self.note_entries(slices as f64, private, shared);
    }

    /// So many slices fire, with so many entries in private and in shared tables.
    fn note_entries(&self, slices: f64, private: usize, shared: usize) {
        let rows = self.rows.swap(0, Relaxed) as f64 / slices;
        // Slices of both kinds were in between: the next ones tell more.
        match (private, shared) {
            (_, 0) => self.judge(Seen::Private { rows, entries: private as f64 / slices }),
            (0, _) => self.judge(Seen::Shared { rows, entries: shared as f64 / slices }),
            _ => {}
        }
    }

    fn judge(&self, seen: Seen) {
        let chosen = self.situation.choose(self.sharing(), seen);
        self.is_global.store(chosen == Sharing::Global, Relaxed);
    }
}

/// How an aggregation's tables are shared at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// A table for each worker.
    Local,
    /// One for each NUMA node.
    Global,
}

/// The sizes of a machine's caches, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Caches {
    /// Of one core.
    second: u64,
    /// Shared by all.
    last: u64,
}

impl Caches {
    /// Those of this machine; usual ones where it does not say.
    fn of_machine() -> Caches {
        let size = |index: u32| {
            let text = fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size")).ok()?;
            parse_size(text.trim())
        };
        let second = size(2).unwrap_or(1 << 20);
        Caches { second, last: size(3).unwrap_or(16 << 20).max(second) }
    }
}

/// `512K`, `32M` in bytes.
fn parse_size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit).filter(|&size| size > 0)
}

/// What does not change during a run.
#[derive(Debug, Clone, Copy)]
struct Situation {
    workers: usize,
    /// Bytes of an entry.
    stride: usize,
    /// Accumulators of an entry.
    accumulators: usize,
    caches: Caches,
}

/// What was seen of a slice, or of one while it grows.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Seen {
    /// So many rows have made so many entries in all private tables together.
    Private { rows: f64, entries: f64 },
    /// So many rows have made so many entries of a shared table.
    Shared { rows: f64, entries: f64 },
}

impl Situation {
    /// The strategy from now on.
    fn choose(&self, now: Sharing, seen: Seen) -> Sharing {
        if self.workers < 2 {
            return Sharing::Local;
        }
        let workers = self.workers as f64;
        let (rows, private, keys) = match seen {
            Seen::Private { rows, entries } => (rows, entries / workers, drawn_from(rows / workers, entries / workers)),
            Seen::Shared { rows, entries } => {
                let keys = drawn_from(rows, entries);
                (rows, different(keys, rows / workers), keys)
            }
        };
        if rows < 1.0 {
            return now;
        }
        let shared = different(keys, rows);
        let (local, global) = (self.local(rows, private), self.global(rows, shared));
        match now {
            Sharing::Local if global < MARGIN * local => Sharing::Global,
            Sharing::Global if local < MARGIN * global => Sharing::Local,
            _ => now,
        }
    }

    /// Nanoseconds per row with private tables of so many entries each.
    fn local(&self, rows: f64, entries: f64) -> f64 {
        let workers = self.workers as f64;
        let merged = self.touch(entries, 1.0) + SEAL + MERGE;
        self.touch(entries, workers) + merged * workers * entries / rows
    }

    /// Nanoseconds per row with a shared table of so many entries.
    fn global(&self, rows: f64, entries: f64) -> f64 {
        self.touch(entries, 1.0) + ATOMIC * self.accumulators as f64 + (SEAL + MERGE) * entries / rows
    }

    fn bytes(&self, entries: f64) -> f64 {
        entries * SLOTS_PER_ENTRY * self.stride as f64
    }

    /// Nanoseconds to reach one of so many entries, when `tables` of their size share the last cache.
    fn touch(&self, entries: f64, tables: f64) -> f64 {
        let bytes = self.bytes(entries).max(1.0);
        let near = (self.caches.second as f64 / bytes).min(1.0);
        let cached = (self.caches.last as f64 / (bytes * tables)).clamp(near, 1.0);
        TOUCH[0] * near + TOUCH[1] * (cached - near) + TOUCH[2] * (1.0 - cached)
    }
}

/// How many different keys of `keys` come up in so many draws.
fn different(keys: f64, draws: f64) -> f64 {
    keys * -(-draws / keys).exp_m1()
}

/// Of how many keys so many draws have brought up `different_ones`.
fn drawn_from(draws: f64, different_ones: f64) -> f64 {
    /// Many times more keys than draws can tell.
    const MOST: f64 = 100.0;
    let (mut low, mut high) = (different_ones.max(1.0), MOST * draws.max(1.0));
    if different(high, draws) <= different_ones {
        return high;
    }
    // The number of different keys grows with that of all.
    for _ in 0..40 {
        let middle = (low * high).sqrt();
        if different(middle, draws) < different_ones { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_abi::{Accumulator, ObjectKind, Phys};

    const CACHES: Caches = Caches { second: 1 << 20, last: 32 << 20 };

    fn situation(workers: usize) -> Situation {
        Situation { workers, stride: 40, accumulators: 2, caches: CACHES }
    }

    /// What private tables show of so many keys.
    fn private(workers: usize, rows: f64, keys: f64) -> Seen {
        Seen::Private { rows, entries: workers as f64 * different(keys, rows / workers as f64) }
    }

    fn shared(rows: f64, keys: f64) -> Seen {
        Seen::Shared { rows, entries: different(keys, rows) }
    }

    #[test]
    fn few_keys_stay_private_and_many_are_shared() {
        for workers in [2, 8, 64] {
            let of = situation(workers);
            for keys in [1.0, 100.0, 10_000.0] {
                assert_eq!(of.choose(Sharing::Local, private(workers, 1e7, keys)), Sharing::Local, "{keys} keys");
                assert_eq!(of.choose(Sharing::Global, shared(1e7, keys)), Sharing::Local, "{keys} keys");
            }
            for keys in [3e6, 5e6].into_iter().filter(|_| workers > 2) {
                assert_eq!(of.choose(Sharing::Local, private(workers, 1e7, keys)), Sharing::Global, "{keys} keys");
                assert_eq!(of.choose(Sharing::Global, shared(1e7, keys)), Sharing::Global, "{keys} keys");
            }
        }
    }

    #[test]
    fn slices_are_judged_when_they_fire() {
        let config = RunConfig { workers: 8, merge: MergeStrategy::Auto, ..RunConfig::default() };
        let layout = EntryLayout::new(&[(Phys::I64, false)], &[Accumulator::Count, Accumulator::SumI64]);
        let mut strategy = Strategy::new(&config, &layout);
        strategy.situation.caches = CACHES;
        let entries = (8.0 * different(3e6, 1e7 / 8.0)) as usize;
        strategy.note_task(10_000_000);
        assert_eq!(strategy.sharing(), Sharing::Local);
        strategy.note_entries(1.0, entries, 0);
        assert_eq!(strategy.sharing(), Sharing::Global);
        strategy.note_task(10_000_000);
        strategy.note_entries(1.0, 10, 10);
        assert_eq!(strategy.sharing(), Sharing::Global, "a slice of both kinds tells nothing");
        strategy.note_task(10_000_000);
        strategy.note_entries(1.0, 0, 10);
        assert_eq!(strategy.sharing(), Sharing::Local);
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

    #[test]
    fn one_worker_shares_with_nobody() {
        assert_eq!(situation(1).choose(Sharing::Local, private(1, 1e7, 1e7)), Sharing::Local);
    }

    #[test]
    fn skew_keeps_tables_private() {
        // Nearly all rows are of one key, the others of a million.
        let seen = Seen::Private { rows: 1e7, entries: 2.0 * different(1e6, 0.01 * 5e6) };
        assert_eq!(situation(2).choose(Sharing::Local, seen), Sharing::Local);
    }

    #[test]
    fn the_choice_does_not_swing() {
        for workers in [2, 4, 16] {
            let of = situation(workers);
            for step in 0..400 {
                let keys = 10f64.powf(f64::from(step) / 50.0);
                let (up, down) = (private(workers, 1e7, keys), shared(1e7, keys));
                let shares = of.choose(Sharing::Local, up) == Sharing::Global;
                let returns = of.choose(Sharing::Global, down) == Sharing::Local;
                assert!(!(shares && returns), "{workers} workers, {keys} keys");
            }
        }
    }

    #[test]
    fn the_number_of_keys_follows_from_what_was_drawn() {
        for keys in [1.0, 50.0, 1e4, 1e6] {
            for draws in [1e4, 1e6, 1e7] {
                let found = drawn_from(draws, different(keys, draws));
                assert!(keys > 20.0 * draws || (found / keys - 1.0).abs() < 0.01, "{found} instead of {keys}");
            }
        }
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(
            (parse_size("512K"), parse_size("32M"), parse_size("7")),
            (Some(524_288), Some(33_554_432), Some(7))
        );
        assert_eq!((parse_size(""), parse_size("x"), parse_size("3T"), parse_size("0K")), (None, None, None, None));
        assert!(Caches::of_machine().second > 0);
    }
}
