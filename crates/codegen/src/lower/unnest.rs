//! Produce before UNNEST: the collection is emitted behind the columns.

use super::{Lowered, Lowering};
use millstream_plan::expr::Expr;
use millstream_types::Diagnostic;

impl Lowering<'_> {
    /// Ends the stage.
    pub(super) fn unnest(self, name: &str, collection: &Expr) -> Result<Lowered, Diagnostic> {
        self.emit_with(name, std::slice::from_ref(collection))
    }
}
