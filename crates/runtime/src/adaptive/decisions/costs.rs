//! Every cost that decisions are made with, in nanoseconds unless said otherwise.
//!
//! They need not be exact: alternatives that cost nearly the same may be chosen either way, and margins keep them from
//! swinging. What matters is the order of magnitude and that relations hold from machine to machine. Those of tables were
//! taken from `make bench-runtime` on a server core of 2.5 to 3.5 GHz; those of loops are estimates.

use std::fs;
use std::sync::OnceLock;

/// To reach an entry in the second-level cache, in the last-level cache, and in memory. Neighbouring rows overlap their
/// misses.
pub(crate) const TOUCH: [f64; 3] = [1.0, 4.0, 14.0];
/// An atomic update beyond a plain one.
pub(crate) const ATOMIC: f64 = 4.0;
/// An update of a cache line that another core has written last: the line moves from core to core.
pub(crate) const CONTENDED: f64 = 60.0;
/// To seal an entry.
pub(crate) const SEAL: f64 = 6.0;
/// To merge an entry, besides reaching its place.
pub(crate) const MERGE: f64 = 12.0;
/// Slots of a hash table for each entry, on average: tables double when they are half full.
pub(crate) const SLOTS_PER_ENTRY: f64 = 3.0;
/// To hash a key and compare it with that of an entry.
pub(crate) const PROBE: f64 = 2.5;
/// To insert an entry, with its share of growing the table.
pub(crate) const INSERT: f64 = 12.0;
/// To append a row to a table that is not looked into.
pub(crate) const APPEND: f64 = 4.0;

/// A mispredicted branch: 15 to 20 cycles.
pub(crate) const MISPREDICTION: f64 = 5.0;
/// To write a row's number into a selection without a branch, for each row of the stage.
pub(crate) const PACK: f64 = 0.5;
/// A row of a loop over a selection: its number is loaded, and columns are read one by one.
pub(crate) const SELECTED: f64 = 0.8;
/// A row of a loop over neighbouring rows.
pub(crate) const ROW: f64 = 0.2;
/// What a condition costs in a loop of vectors, relative to one row at a time.
pub(crate) const VECTOR: f64 = 0.35;

/// An operation on numbers, for one row at a time.
pub(crate) const OPERATION: f64 = 0.3;
/// An operation that reads a string.
pub(crate) const TEXT_OPERATION: f64 = 1.5;
/// A call of a function that reads a string.
pub(crate) const CALL: f64 = 12.0;
/// To compare a string that is held in place with a constant.
pub(crate) const COMPARE: f64 = 0.6;
/// To look whether a value is NULL.
pub(crate) const VALIDITY: f64 = 0.4;
/// To compare a column with a constant before the program runs, for a row.
pub(crate) const GUARD: f64 = 0.15;

/// To run the rest of a buffer with generic code after an assumption broke, and to compile another variant, which a
/// background thread does.
pub(crate) const BREAK: f64 = 2e6;

/// To hand a task over to a worker and to take its result in: of a buffer, whatever its size.
pub(crate) const TASK: f64 = 4e3;

/// The sizes of a machine's caches, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caches {
    /// Of one core.
    pub(crate) second: u64,
    /// Shared by all.
    pub(crate) last: u64,
}

impl Caches {
    /// Those of this machine; usual ones where it does not say. Read once.
    pub(crate) fn of_machine() -> Caches {
        static MACHINE: OnceLock<Caches> = OnceLock::new();
        *MACHINE.get_or_init(Caches::read)
    }

    fn read() -> Caches {
        let size = |index: u32| {
            let text = fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size")).ok()?;
            parse_size(text.trim())
        };
        let second = size(2).unwrap_or(1 << 20);
        Caches { second, last: size(3).unwrap_or(16 << 20).max(second) }
    }

    /// To reach one of the places in `bytes` bytes, each as often as the others, when `tables` of that size share the
    /// last cache.
    pub(crate) fn touch(&self, bytes: f64, tables: f64) -> f64 {
        let bytes = bytes.max(1.0);
        let near = (self.second as f64 / bytes).min(1.0);
        let cached = (self.last as f64 / (bytes * tables)).clamp(near, 1.0);
        TOUCH[0] * near + TOUCH[1] * (cached - near) + TOUCH[2] * (1.0 - cached)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(
            (parse_size("512K"), parse_size("32M"), parse_size("7")),
            (Some(524_288), Some(33_554_432), Some(7))
        );
        assert_eq!((parse_size(""), parse_size("x"), parse_size("3T"), parse_size("0K")), (None, None, None, None));
        assert!(Caches::of_machine().second > 0);
    }

    #[test]
    fn larger_tables_are_farther_away() {
        let caches = Caches { second: 1 << 20, last: 32 << 20 };
        let costs: Vec<f64> = (10..36).map(|bits| caches.touch(f64::from(bits).exp2(), 2.0)).collect();
        assert!(costs.is_sorted(), "{costs:?}");
        assert!(costs[0] == TOUCH[0] && costs[25] > 0.9 * TOUCH[2], "{costs:?}");
    }
}
