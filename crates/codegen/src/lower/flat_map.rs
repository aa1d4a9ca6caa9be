//! Produce before a flat map: what it needs of each row is emitted; the columns that it makes are those of the program
//! behind it.

use super::{Lowered, Lowering};
use millstream_abi::ErrorKind;
use millstream_plan::pipeline::FlatMap;
use millstream_types::Diagnostic;

impl Lowering<'_> {
    /// Ends the program with the columns, followed by the arguments of the flat map. Rows without time have no windows:
    /// they are errors.
    pub(super) fn flat_map(mut self, name: &str, flat_map: &FlatMap) -> Result<Lowered, Diagnostic> {
        if let FlatMap::Windows { time, .. } = flat_map {
            let depth = self.depth();
            let scalar = self.validity(time, depth)?;
            let what = self.text(time, depth);
            self.trap_null(scalar, ErrorKind::NullRowtime, what, time.span);
        }
        let mut columns = self.current_columns();
        columns.extend(flat_map.arguments().iter().cloned());
        let (emits, outputs) = self.emitted(&columns, &[])?;
        self.finish_emit(name, emits, outputs, &columns)
    }
}
