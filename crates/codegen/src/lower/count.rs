//! Programs of count windows: the keys, and the update of the aggregates of a slot, which is a slice of a window.

use super::keyed::ByKey;
use super::lowered::Lowered;
use crate::programs::Keyed;
use millstream_plan::pipeline::SlotAggregates;
use millstream_types::Diagnostic;
use std::sync::Arc;

/// Lowers them.
pub(super) fn lower(
    by_key: &ByKey<'_>,
    aggregates: Option<&SlotAggregates>,
) -> Result<Keyed<Arc<Lowered>>, Diagnostic> {
    by_key.keys_and_slots(aggregates)
}
