//! Programs of the changing join: the keys of both sides, and the condition of a pair.

use super::keyed::{ByKey, KeyedPrograms};

/// Lowers them.
pub(super) fn lower(by_key: &ByKey<'_>) -> KeyedPrograms {
    by_key.keys_and_condition()
}
