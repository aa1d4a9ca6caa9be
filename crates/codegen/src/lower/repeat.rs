//! Produce before a repetition of rows: the columns alone are emitted.

use super::{Lowered, Lowering};
use millstream_types::Diagnostic;

impl Lowering<'_> {
    /// Ends the stage.
    pub(super) fn repeat(self, name: &str) -> Result<Lowered, Diagnostic> {
        self.emit(name)
    }
}
