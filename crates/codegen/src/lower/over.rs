//! Programs of OVER: the keys, and the update of the aggregates of a slot, which is a row's frame.

use super::keyed::{ByKey, KeyedPrograms};

/// Lowers them.
pub(super) fn lower(by_key: &ByKey<'_>) -> KeyedPrograms {
    by_key.keys_and_slots()
}
