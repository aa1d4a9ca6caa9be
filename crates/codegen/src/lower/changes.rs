//! Programs of net changes: the keys, by which rows are told apart.

use super::keyed::{ByKey, KeyedPrograms};

/// Lowers them.
pub(super) fn lower(by_key: &ByKey<'_>) -> KeyedPrograms {
    by_key.keys()
}
