//! Programs of ranks of all rows: the keys. What rows are ordered by are columns that the exchange brings.

use super::keyed::{ByKey, KeyedPrograms};

/// Lowers them.
pub(super) fn lower(by_key: &ByKey<'_>) -> KeyedPrograms {
    by_key.keys()
}
