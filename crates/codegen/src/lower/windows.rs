//! Produce before windows that rows are repeated for: the time is emitted behind the columns.

use super::{Lowered, Lowering};
use millstream_abi::ErrorKind;
use millstream_plan::expr::Expr;
use millstream_types::Diagnostic;

impl Lowering<'_> {
    /// Ends the stage. Rows without time have no windows: they are errors.
    pub(super) fn windows(mut self, name: &str, time: &Expr) -> Result<Lowered, Diagnostic> {
        let depth = self.depth();
        let scalar = self.validity(time, depth)?;
        let what = self.text(time, depth);
        self.trap_null(scalar, ErrorKind::NullRowtime, what, time.span);
        self.emit_with(name, std::slice::from_ref(time))
    }
}
