//! Consume of a filter: rows whose predicate is not TRUE are dropped.

use super::Lowering;
use millstream_plan::expr::Expr;
use millstream_plan::operators::filter::conjuncts;
use millstream_types::Diagnostic;

impl Lowering<'_> {
    /// Keeps the rows for which `predicate` is TRUE. Each operand of a conjunction becomes a separate filter, so that
    /// what only later operands need is loaded and computed for the rows that the earlier ones left.
    pub(super) fn filter(&mut self, predicate: &Expr) -> Result<(), Diagnostic> {
        for condition in conjuncts(predicate) {
            let scalar = self.expression(condition)?;
            let holds = self.is_true(scalar);
            self.builder.filter(holds, false);
        }
        Ok(())
    }
}
