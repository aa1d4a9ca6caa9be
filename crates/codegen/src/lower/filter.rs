//! Consume of a filter: rows whose predicate is not TRUE are dropped.

use super::Lowering;
use millstream_plan::expr::{Expr, ExprKind};
use millstream_types::Diagnostic;

impl Lowering<'_> {
    /// Keeps the rows for which `predicate` is TRUE. Each operand of a conjunction becomes a filter of its own, so
    /// that what only later operands need is loaded and computed for the rows that the earlier ones left.
    pub(super) fn filter(&mut self, predicate: &Expr) -> Result<(), Diagnostic> {
        let depth = self.depth();
        self.filter_at(predicate, depth)
    }

    fn filter_at(&mut self, predicate: &Expr, depth: usize) -> Result<(), Diagnostic> {
        if let ExprKind::And(operands) = &predicate.kind {
            return operands.iter().try_for_each(|operand| self.filter_at(operand, depth));
        }
        let scalar = self.expression(predicate, depth)?;
        let holds = self.is_true(scalar);
        self.builder.filter(holds, false);
        Ok(())
    }
}
