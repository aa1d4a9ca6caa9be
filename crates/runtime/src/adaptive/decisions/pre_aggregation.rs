//! Whether rows are aggregated in a table before they are merged, or just appended.
//!
//! # Model
//!
//! A worker's *R* rows of a slice make *k* entries. In nanoseconds per row, with *e* = *k* / *R*:
//!
//! | | row | end of the slice |
//! | --- | --- | --- |
//! | aggregated | [`PROBE`] + touch(*k* entries) + *e* · [`INSERT`] | *e* · ([`SEAL`] + merged) |
//! | appended | [`APPEND`] | [`SEAL`] + merged |
//!
//! where merged is [`MERGE`] + touch(*k* entries), by one worker at a time. Where workers may share a table, rows are appended
//! only if that is better than sharing, too (`sharing`).
//!
//! A table pays unless nearly every row has a different key: then it is missed in, grown, and merged row by row anyway.
//! Appended rows take memory each; where that could go beyond its share, rows are aggregated.

use super::costs::{APPEND, Caches, INSERT, MERGE, PROBE, SEAL, SLOTS_PER_ENTRY};
use super::draws::different;
use super::hysteresis::TABLES;

/// What is known of the rows of a slice that one worker gets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AppendingCase {
    /// Rows.
    pub(crate) rows: f64,
    /// Keys that they are drawn from, at a guess.
    pub(crate) keys: f64,
    /// The share of rows of a few heavy keys.
    pub(crate) heavy: f64,
    /// Bytes of an entry.
    pub(crate) stride: usize,
    /// Nanoseconds per row of a table that workers share; infinite where there can be none.
    pub(crate) shared: f64,
    /// Tables that are open at a time, of workers and slices.
    pub(crate) tables: usize,
    /// Memory that is left of the budget, in bytes.
    pub(crate) memory_left: u64,
    /// Of the machine.
    pub(crate) caches: Caches,
}

impl AppendingCase {
    /// Whether rows are aggregated from now on.
    pub(crate) fn choose(&self, aggregates: bool) -> bool {
        if self.rows < 1.0 || self.appended_bytes() > self.memory_left as f64 / 4.0 {
            return true;
        }
        let (aggregated, appended) = (self.aggregated().min(self.shared), self.appended());
        match aggregates {
            true => appended >= TABLES.margin * aggregated,
            false => aggregated < TABLES.margin * appended,
        }
    }

    fn appended_bytes(&self) -> f64 {
        self.rows * (self.stride * self.tables) as f64
    }

    /// Nanoseconds per row with a table.
    fn aggregated(&self) -> f64 {
        let entries = self.entries();
        let touched = (1.0 - self.heavy) * self.caches.touch(self.bytes(entries), self.tables as f64);
        PROBE + touched + (INSERT + self.merged()) * (entries / self.rows).min(1.0)
    }

    /// Nanoseconds per row without.
    fn appended(&self) -> f64 {
        APPEND + self.merged()
    }

    /// Nanoseconds to seal and merge an entry.
    fn merged(&self) -> f64 {
        SEAL + MERGE + self.caches.touch(self.bytes(self.entries()), 1.0)
    }

    /// Entries of a table.
    fn entries(&self) -> f64 {
        different(self.keys.max(1.0), (1.0 - self.heavy) * self.rows).max(1.0)
    }

    fn bytes(&self, entries: f64) -> f64 {
        entries * SLOTS_PER_ENTRY * self.stride as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn situation(rows: f64, keys: f64) -> AppendingCase {
        AppendingCase {
            rows,
            keys,
            heavy: 0.0,
            shared: f64::INFINITY,
            stride: 40,
            tables: 4,
            memory_left: 8 << 30,
            caches: Caches { second: 1 << 20, last: 32 << 20 },
        }
    }

    #[test]
    fn only_nearly_unique_keys_are_appended() {
        for (rows, keys, aggregates) in [
            (1e6, 1.0, true),
            (1e6, 1e4, true),
            (1e6, 1e5, true),
            (1e6, 2e5, true),
            (1e6, 1e7, false),
            (1e6, 1e9, false),
            (0.0, 1e9, true),
        ] {
            assert_eq!(situation(rows, keys).choose(true), aggregates, "{rows} rows of {keys} keys");
            assert_eq!(situation(rows, keys).choose(false), aggregates, "{rows} rows of {keys} keys, appended so far");
        }
    }

    #[test]
    fn heavy_keys_speak_for_a_table() {
        let mut of = situation(1e6, 1e8);
        assert!(!of.choose(true));
        of.heavy = 0.6;
        assert!(of.choose(false));
    }

    #[test]
    fn a_shared_table_may_be_better_than_both() {
        let mut of = situation(1e6, 1e8);
        of.shared = 0.8 * of.appended();
        assert!(of.choose(true) && of.choose(false));
        of.shared = 2.0 * of.appended();
        assert!(!of.choose(true));
    }

    #[test]
    fn what_could_fill_the_memory_is_aggregated() {
        let mut of = situation(1e6, 1e8);
        of.memory_left = 1 << 28;
        assert!(of.choose(false));
    }

    #[test]
    fn the_choice_does_not_swing() {
        for rows in [1e3, 1e5, 1e7] {
            for step in 0..200 {
                let of = situation(rows, 10f64.powf(f64::from(step) / 20.0));
                assert!(of.choose(true) || !of.choose(false), "{of:?}");
            }
        }
    }
}
