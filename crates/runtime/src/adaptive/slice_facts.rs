//! What is known of the keys and slices of an aggregation: from samples of its rows, and from slices that have fired.

use parking_lot::Mutex;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct SliceFacts {
    /// The share of the rows that is of the few heaviest keys.
    pub(crate) heavy: Mutex<f64>,
    /// Rows of a slice of those that have fired last, on average, before any filter; `None` where they are not counted.
    pub(crate) rows: Mutex<Option<f64>>,
}
