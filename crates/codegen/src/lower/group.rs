//! Programs of groups of all rows: the keys, and the update of the aggregates of a group.

use super::keyed::{ByKey, KeyedPrograms};

/// Lowers them.
pub(super) fn lower(by_key: &ByKey<'_>) -> KeyedPrograms {
    by_key.keys_and_slots()
}
