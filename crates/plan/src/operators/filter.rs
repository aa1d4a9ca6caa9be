//! The filter: rows whose predicate is TRUE pass.

use crate::explain::shown::Shown;
use crate::expr::{Expr, ExprKind};
use millstream_types::Schema;

/// What EXPLAIN says of it.
pub(crate) fn text(predicate: &Expr, schema: &Schema) -> String {
    format!("filter {}", Shown(predicate, schema))
}

/// The conditions that a predicate is the conjunction of, in order.
pub fn conjuncts(predicate: &Expr) -> Vec<&Expr> {
    match &predicate.kind {
        ExprKind::And(operands) => operands.iter().flat_map(conjuncts).collect(),
        _ => vec![predicate],
    }
}
