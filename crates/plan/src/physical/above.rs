//! What projections and filters do with the rows of the relation that they stand above.

use super::branch::is_inlined;
use super::expressions::columns_of;
use crate::expr::Expr;
use crate::logical::Rel;

/// Projections and filters over a relation.
pub(super) struct Above<'a> {
    /// The relation, which is neither.
    pub(super) below: &'a Rel,
    /// What is shown, over its columns.
    pub(super) columns: Vec<Expr>,
    /// Predicates of the filters, over its columns.
    pub(super) filters: Vec<Expr>,
}

impl<'a> Above<'a> {
    /// `None` if an expression is better computed one after the other.
    #[recursive::recursive]
    pub(super) fn of(rel: &'a Rel) -> Option<Above<'a>> {
        let above = match rel {
            Rel::Project { input, columns } => {
                let mut above = Above::of(input)?;
                above.columns = columns.iter().map(|(e, _)| e.clone().substitute(&above.columns)).collect();
                above
            }
            Rel::Filter { input, predicate } => {
                let mut above = Above::of(input)?;
                above.filters.push(predicate.clone().substitute(&above.columns));
                above
            }
            _ => Above { below: rel, columns: columns_of(&rel.schema()), filters: Vec::new() },
        };
        above.columns.iter().chain(&above.filters).all(is_inlined).then_some(above)
    }
}
