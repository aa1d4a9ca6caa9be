//! Consume of a projection: its expressions become the columns that later operators see.

use super::{Layer, Lowering, schema_of};
use millstream_plan::expr::Expr;

impl<'a> Lowering<'a> {
    /// Replaces the columns. Nothing is computed yet: a column is lowered when an operator uses it, once in a scope.
    pub(super) fn project(&mut self, columns: &'a [Expr]) {
        self.layers.push(Layer { columns, schema: schema_of(columns) });
    }
}
