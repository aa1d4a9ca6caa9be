//! Programs of ranks: the keys. What rows are ordered by are columns that the exchange brings.

use super::keyed::ByKey;
use super::lowered::Lowered;
use crate::programs::Keyed;
use millstream_types::Diagnostic;
use std::sync::Arc;

/// Lowers them.
pub(super) fn lower(by_key: &ByKey<'_>) -> Result<Keyed<Arc<Lowered>>, Diagnostic> {
    by_key.keys()
}
