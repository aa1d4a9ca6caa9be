//! Consume of a projection: its expressions become the columns that later operators see.

use super::{Layer, Lowering};
use millstream_plan::expr::Expr;
use millstream_plan::operators::project::schema_of;

impl<'a> Lowering<'a> {
    /// Replaces the columns. Nothing is computed yet: a column is lowered when an operator uses it, once in a scope.
    pub(super) fn project(&mut self, columns: &'a [Expr]) {
        self.layers.push(Layer { columns, schema: schema_of(columns) });
        self.depth = self.layers.len();
    }
}
