//! What rows bring along to keyed operators.

use super::expressions::same_computation;
use crate::aggregate::Components;
use crate::expr::{Expr, ExprKind};
use crate::operators::project::schema_of;
use crate::pipeline::*;
use millstream_types::{Schema, Value};

/// The columns that rows bring to a keyed operator: expressions over the columns of the relation below, each once.
pub(super) struct Payload(Vec<Expr>);

impl Payload {
    pub(super) fn new(columns: Vec<Expr>) -> Payload {
        Payload(columns)
    }

    /// Position of an expression, which is added unless it is there.
    pub(super) fn add(&mut self, expr: &Expr) -> usize {
        let same = |known: &Expr| same_computation(known, expr);
        self.0.iter().position(same).unwrap_or_else(|| {
            self.0.push(expr.clone());
            self.0.len() - 1
        })
    }

    /// The expressions.
    pub(super) fn columns(&self) -> &[Expr] {
        &self.0
    }

    /// The column of an expression.
    pub(super) fn column(&mut self, expr: &Expr) -> Expr {
        if let ExprKind::Literal(_) = expr.kind {
            return expr.clone();
        }
        let index = self.add(expr);
        Expr::column(index, expr.data_type.clone(), expr.nullable).at(expr.span)
    }

    pub(super) fn schema(&self) -> Schema {
        schema_of(&self.0)
    }

    /// Components whose arguments and guards are computed before the exchange.
    pub(super) fn slots(&mut self, components: Components) -> SlotAggregates {
        let Components { list, outputs, calls } = components;
        let mut updates = Vec::with_capacity(list.len());
        let mut kinds = Vec::with_capacity(list.len());
        for (kind, update) in list {
            let guard = update.guard.as_ref().map(|g| self.column(g));
            // An argument is only computed for the rows that its guard admits.
            let argument = update.argument.as_ref().map(|argument| match &update.guard {
                None => self.column(argument),
                Some(guard) => self.column(&only_if(guard, argument)),
            });
            kinds.push(kind);
            updates.push(ComponentUpdate { argument, guard });
        }
        SlotAggregates { components: kinds, updates, outputs, calls }
    }
}

fn only_if(guard: &Expr, value: &Expr) -> Expr {
    let null = Expr::literal(Value::Null, value.data_type.clone());
    let case = ExprKind::Case(vec![(guard.clone(), value.clone())], Box::new(null));
    Expr::new(case, value.data_type.clone(), true).at(value.span)
}
