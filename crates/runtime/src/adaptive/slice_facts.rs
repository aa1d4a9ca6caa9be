//! What is known of the keys and slices of an aggregation: from samples of its rows, and from slices that have fired.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// See the module. Numbers are the bits of an f64; relaxed, for they guide decisions only.
#[derive(Debug, Default)]
pub(crate) struct SliceFacts {
    /// The share of the rows that is of the few heaviest keys.
    heavy: AtomicU64,
    /// Rows of the last slices that have fired, on average; 0 while none are counted.
    rows: AtomicU64,
}

impl SliceFacts {
    /// This share of the rows is of the few heaviest keys.
    pub(crate) fn note_skew(&self, heavy: f64) {
        self.heavy.store(heavy.to_bits(), Relaxed);
    }

    /// The share of the rows that is of the few heaviest keys.
    pub(crate) fn heavy(&self) -> f64 {
        f64::from_bits(self.heavy.load(Relaxed))
    }

    /// So many rows are in a slice.
    pub(crate) fn note_rows(&self, rows: f64) {
        self.rows.store(rows.to_bits(), Relaxed);
    }

    /// Rows of a slice, before any filter, where they are counted.
    pub(crate) fn rows_per_slice(&self) -> Option<f64> {
        Some(f64::from_bits(self.rows.load(Relaxed))).filter(|&rows| rows > 0.0)
    }
}
