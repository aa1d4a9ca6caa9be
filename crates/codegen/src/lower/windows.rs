//! Produce before windows that rows are repeated for: the time is emitted behind the columns.

use super::{Lowered, Lowering};
use millstream_plan::expr::Expr;
use millstream_types::Diagnostic;

impl Lowering<'_> {
    /// Ends the stage. Rows without time have no windows: they are errors.
    pub(super) fn windows(mut self, name: &str, time: &Expr) -> Result<Lowered, Diagnostic> {
        self.require_time(time)?;
        self.emit_with(name, std::slice::from_ref(time))
    }
}
