//! Programs of OVER: the keys, and the update of the aggregates of a slot, which is a row's frame.

use super::keyed::ByKey;
use super::lowered::Lowered;
use crate::programs::Keyed;
use millstream_plan::pipeline::SlotAggregates;
use millstream_types::Diagnostic;
use std::sync::Arc;

/// Lowers them.
pub(super) fn lower(by_key: &ByKey<'_>, aggregates: &SlotAggregates) -> Result<Keyed<Arc<Lowered>>, Diagnostic> {
    Ok(Keyed { slots: Some(by_key.slots(aggregates)?), ..by_key.keys()? })
}
