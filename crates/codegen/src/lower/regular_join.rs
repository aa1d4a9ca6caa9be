//! Programs of the regular join: the keys of both sides, and the condition of a pair.

use super::keyed::ByKey;
use super::lowered::Lowered;
use crate::programs::Keyed;
use millstream_plan::expr::Expr;
use millstream_types::Diagnostic;
use std::sync::Arc;

/// Lowers them.
pub(super) fn lower(by_key: &ByKey<'_>, residual: Option<&Expr>) -> Result<Keyed<Arc<Lowered>>, Diagnostic> {
    Ok(Keyed { residual: by_key.condition(residual)?, ..by_key.keys()? })
}
