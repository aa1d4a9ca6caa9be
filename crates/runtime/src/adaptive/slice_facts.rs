//! What is known of the keys and slices of an aggregation: from samples of its rows, and from slices that have fired.

use millstream_state::TableHint;
use parking_lot::Mutex;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct SliceFacts {
    /// The share of the rows that is of the few heaviest keys.
    pub(crate) heavy: Mutex<f64>,
    /// Rows of a slice of those that have fired last, on average, before any filter; `None` where they are not counted.
    pub(crate) rows: Mutex<Option<f64>>,
    /// What tables of slices to come begin with.
    pub(crate) tables: Mutex<TableHints>,
}

/// What new tables begin with, by what those had that were completed last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TableHints {
    /// Of one owner.
    pub(crate) own: TableHint,
    /// Of a NUMA node.
    pub(crate) shared: TableHint,
    /// Whether those of owners append rows instead of aggregating them.
    pub(crate) appends: bool,
}
