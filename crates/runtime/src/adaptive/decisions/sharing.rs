//! Whether the workers share the tables of an aggregation (design section 7; Grizzly section 6.2.3).
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
//! fits only in part. So private tables are best while keys are few: all in the second-level cache, next to nothing to
//! merge, no word that several workers write. The shared one is best when keys are so many that entries are merged
//! about as often as they are updated.
//!
//! Of the rows of a few heavy keys, a share *h* of all, each finds its entry near; in a shared table, a core has to fetch the
//! line from another one for (*W* − 1) / *W* of them. The other keys are drawn alike from the other rows. So skew speaks for
//! private tables.
//!
//! Partitioning is never chosen: it hashes every row twice and moves it through memory once more than the others do. That
//! pays from about a million scattered keys on, where its tables fit the caches (`make bench-runtime` shows it); but by the
//! time that a slice has shown that many keys, most of its private tables exist.

use super::costs::{ATOMIC, CONTENDED, Caches, INSERT, MERGE, PROBE, SEAL, SLOTS_PER_ENTRY, TOUCH};
use super::draws::{different, drawn_from};
use super::hysteresis::TABLES;

/// How an aggregation's tables are shared at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// A table for each worker.
    Local,
    /// One for each NUMA node.
    Global,
}

/// What does not change during a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SharingCase {
    /// Workers.
    pub(crate) workers: usize,
    /// Bytes of an entry.
    pub(crate) stride: usize,
    /// Accumulators of an entry.
    pub(crate) accumulators: usize,
    /// Of the machine.
    pub(crate) caches: Caches,
}

/// What was seen of a slice, or of one while it grows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Seen {
    /// In which tables.
    pub(crate) tables: Sharing,
    /// Rows.
    pub(crate) rows: f64,
    /// Entries that they have made, in all private tables together or in a shared one.
    pub(crate) entries: f64,
}

impl SharingCase {
    /// The strategy from now on, when a share of the rows is of a few `heavy` keys.
    pub(crate) fn choose(&self, now: Sharing, seen: Seen, heavy: f64) -> Sharing {
        if self.workers < 2 {
            return Sharing::Local;
        }
        let (workers, others) = (self.workers as f64, (1.0 - heavy).max(0.01));
        let Seen { rows, entries, .. } = seen;
        let (private, keys) = match seen.tables {
            Sharing::Local => (entries / workers, drawn_from(others * rows / workers, entries / workers)),
            Sharing::Global => {
                let keys = drawn_from(others * rows, entries);
                (different(keys, others * rows / workers), keys)
            }
        };
        if rows < 1.0 {
            return now;
        }
        let shared = different(keys, others * rows);
        let (local, global) = (self.local(rows, private, heavy), self.global(rows, shared, heavy));
        match now {
            Sharing::Local if global < TABLES.margin * local => Sharing::Global,
            Sharing::Global if local < TABLES.margin * global => Sharing::Local,
            _ => now,
        }
    }

    /// Nanoseconds per row with private tables of `entries` entries each.
    fn local(&self, rows: f64, entries: f64, heavy: f64) -> f64 {
        let workers = self.workers as f64;
        let merged = self.touch(entries, 1.0, 0.0) + SEAL + MERGE;
        self.touch(entries, workers, heavy) + merged * workers * entries / rows
    }

    /// Nanoseconds per row with a shared table, in which rows of `keys` keys are searched and inserted: to be compared with
    /// what does neither (`pre_aggregation`).
    pub(crate) fn shared(&self, rows: f64, keys: f64, heavy: f64) -> f64 {
        let entries = different(keys, (1.0 - heavy) * rows);
        self.global(rows, entries, heavy) + PROBE + INSERT * entries / rows
    }

    /// Nanoseconds per row with a shared table of `entries` entries.
    fn global(&self, rows: f64, entries: f64, heavy: f64) -> f64 {
        let workers = self.workers as f64;
        let contended = CONTENDED * heavy * (workers - 1.0) / workers;
        let update = self.touch(entries, 1.0, heavy) + ATOMIC * self.accumulators as f64 + contended;
        update + (SEAL + MERGE) * entries / rows
    }

    /// Nanoseconds to reach one of `entries` entries, when `tables` of their size share the last cache and a share of
    /// the rows is of keys whose entries are near anyway.
    fn touch(&self, entries: f64, tables: f64, heavy: f64) -> f64 {
        let bytes = entries * SLOTS_PER_ENTRY * self.stride as f64;
        heavy * TOUCH[0] + (1.0 - heavy) * self.caches.touch(bytes, tables)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CACHES: Caches = Caches { second: 1 << 20, last: 32 << 20 };

    fn situation(workers: usize) -> SharingCase {
        SharingCase { workers, stride: 40, accumulators: 2, caches: CACHES }
    }

    /// What private tables show of `keys` keys.
    fn private(workers: usize, rows: f64, keys: f64) -> Seen {
        Seen { tables: Sharing::Local, rows, entries: workers as f64 * different(keys, rows / workers as f64) }
    }

    fn shared(rows: f64, keys: f64) -> Seen {
        Seen { tables: Sharing::Global, rows, entries: different(keys, rows) }
    }

    #[test]
    fn few_keys_stay_private_and_many_are_shared() {
        for workers in [2, 8, 64] {
            let of = situation(workers);
            for keys in [1.0, 100.0, 10_000.0] {
                assert_eq!(of.choose(Sharing::Local, private(workers, 1e7, keys), 0.0), Sharing::Local, "{keys} keys");
                assert_eq!(of.choose(Sharing::Global, shared(1e7, keys), 0.0), Sharing::Local, "{keys} keys");
            }
            for keys in [3e6, 5e6].into_iter().filter(|_| workers > 2) {
                assert_eq!(of.choose(Sharing::Local, private(workers, 1e7, keys), 0.0), Sharing::Global, "{keys} keys");
                assert_eq!(of.choose(Sharing::Global, shared(1e7, keys), 0.0), Sharing::Global, "{keys} keys");
            }
        }
    }

    #[test]
    fn one_worker_shares_with_nobody() {
        assert_eq!(situation(1).choose(Sharing::Local, private(1, 1e7, 1e7), 0.0), Sharing::Local);
    }

    #[test]
    fn skew_keeps_tables_private() {
        // Nearly all rows are of one key, the others of a million.
        let seen = Seen { tables: Sharing::Local, rows: 1e7, entries: 2.0 * different(1e6, 0.01 * 5e6) };
        assert_eq!(situation(2).choose(Sharing::Local, seen, 0.0), Sharing::Local, "even when it is not known");
        // A share of 60 % of one key, among a million others, with many workers.
        let of = situation(16);
        let tail =
            |heavy: f64| Seen { tables: Sharing::Global, rows: 5e6, entries: different(1e6, (1.0 - heavy) * 5e6) };
        assert_eq!(of.choose(Sharing::Global, tail(0.0), 0.0), Sharing::Global);
        assert_eq!(of.choose(Sharing::Global, tail(0.6), 0.6), Sharing::Local, "lines move from core to core");
    }

    #[test]
    fn the_choice_does_not_swing() {
        for workers in [2, 4, 16] {
            let of = situation(workers);
            for step in 0..400 {
                let keys = 10f64.powf(f64::from(step) / 50.0);
                let (up, down) = (private(workers, 1e7, keys), shared(1e7, keys));
                let shares = of.choose(Sharing::Local, up, 0.0) == Sharing::Global;
                let returns = of.choose(Sharing::Global, down, 0.0) == Sharing::Local;
                assert!(!(shares && returns), "{workers} workers, {keys} keys");
            }
        }
    }
}
