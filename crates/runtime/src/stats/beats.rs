//! Beats of a query whose results change.

use millstream_types::RowKind;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How far the beats of a run have come, and what they have changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BeatSnapshot {
    /// Beats that have ended, but for that which ends with the input.
    pub ended: u64,
    /// Rows of each split of each source that are in them: what is written is the result for these. Empty before the first has ended.
    pub prefix: Vec<Vec<u64>>,
    /// Rows that were added.
    pub inserted: u64,
    /// Rows that replaced others.
    pub updated: u64,
    /// Rows that were taken back.
    pub deleted: u64,
}

/// Counters of beats.
#[derive(Debug, Default)]
pub(crate) struct BeatStats {
    ended: AtomicU64,
    prefix: Mutex<Vec<Vec<u64>>>,
    /// By the number of the [`RowKind`].
    changes: [AtomicU64; 4],
}

impl BeatStats {
    /// A beat ends. Splits that have ended are in it with all their rows, which nobody waits for; the others with those that
    /// [`BeatStats::ends_behind`] says.
    pub(crate) fn end(&self, prefix: Vec<Vec<u64>>) {
        self.ended.fetch_add(1, Relaxed);
        *self.prefix.lock() = prefix;
    }

    /// It ends behind so many rows of a split. Noted before anybody can know that it has.
    pub(crate) fn ends_behind(&self, source: usize, split: usize, rows: u64) {
        let splits = &mut self.prefix.lock()[source];
        if split >= splits.len() {
            // Of several nodes each tells of those that it reads.
            splits.resize(split + 1, 0);
        }
        splits[split] = rows;
    }

    /// Counts changes of results.
    pub(crate) fn count(&self, kinds: &[i8]) {
        for kind in RowKind::ALL {
            let rows = kinds.iter().filter(|&&number| number == kind as i8).count();
            self.changes[kind as usize].fetch_add(rows as u64, Relaxed);
        }
    }

    pub(crate) fn snapshot(&self) -> BeatSnapshot {
        let count = |kind: RowKind| self.changes[kind as usize].load(Relaxed);
        BeatSnapshot {
            ended: self.ended.load(Relaxed),
            prefix: self.prefix.lock().clone(),
            inserted: count(RowKind::Insert),
            updated: count(RowKind::UpdateAfter),
            deleted: count(RowKind::Delete),
        }
    }
}
