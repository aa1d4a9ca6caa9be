//! Expressions over the columns of relations and tables.

use crate::expr::{Expr, ExprKind};
use crate::logical::{ColumnKind, Rel, Table, TableColumn};
use millstream_types::{Field, Schema, Value};

/// The columns of a relation, each as an expression.
pub(super) fn columns_of(schema: &Schema) -> Vec<Expr> {
    columns_from(0, &schema.fields)
}

/// Columns of which the first is column `first`, each as an expression.
pub(super) fn columns_from(first: usize, fields: &[Field]) -> Vec<Expr> {
    let fields = fields.iter().enumerate();
    fields.map(|(i, f)| Expr::column(first + i, f.data_type.clone(), f.nullable)).collect()
}

/// Every column of a table over its physical and metadata columns.
pub(super) fn expand_computed(table: &Table) -> Vec<Expr> {
    let physical = columns_of(&table.schema());
    let expand = |(i, column): (usize, &TableColumn)| match &column.kind {
        ColumnKind::Computed(expression) => expression.clone().substitute(&physical),
        _ => physical[i].clone(),
    };
    table.columns.iter().enumerate().map(expand).collect()
}

/// Whether an expression is a column, but for casts.
pub(super) fn is_column(expr: &Expr, column: usize) -> bool {
    match &expr.kind {
        ExprKind::Column(i) => *i == column,
        ExprKind::Cast { operand, .. } => is_column(operand, column),
        _ => false,
    }
}

/// Whether an expression is the `window_time` of a window whose columns begin at `first`, even if computed from the
/// end.
pub(super) fn is_window_time(expr: &Expr, first: usize) -> bool {
    match &expr.kind {
        ExprKind::AddInterval(end, step) => {
            matches!(step.kind, ExprKind::Literal(Value::Int(-1))) && is_column(end, first + 1)
        }
        _ => is_column(expr, first + 2),
    }
}

/// Whether an expression uses only columns before `width`.
pub(super) fn is_below(expr: &Expr, width: usize) -> bool {
    let mut below = true;
    expr.each_column(|i| below &= i < width);
    below
}

/// Whether two expressions compute the same, wherever they stand in the text.
pub(super) fn same_computation(a: &Expr, b: &Expr) -> bool {
    a.clone().unplaced() == b.clone().unplaced()
}

/// The relation without places in the text and names of columns, which is equal for relations of equal rows; `None` if something in
/// it gives another value each time.
pub(super) fn meaning(rel: &Rel) -> Option<Rel> {
    let mut is_deterministic = true;
    let rel = unplaced(rel.clone(), &mut is_deterministic);
    is_deterministic.then_some(rel)
}

#[recursive::recursive]
fn unplaced(mut rel: Rel, is_deterministic: &mut bool) -> Rel {
    for expression in rel.expressions_mut() {
        *is_deterministic &= expression.is_deterministic();
        *expression = expression.take().unplaced();
    }
    match &mut rel {
        Rel::Project { columns, .. } => columns.iter_mut().for_each(|(_, name)| name.clear()),
        Rel::Aggregate { keys, aggregates, .. } => {
            keys.iter_mut().for_each(|(_, name)| name.clear());
            aggregates.iter_mut().for_each(|(_, name)| name.clear());
        }
        Rel::Over { aggregates, .. } => aggregates.iter_mut().for_each(|(_, name)| name.clear()),
        _ => {}
    }
    for input in rel.inputs_mut() {
        *input = unplaced(input.take(), is_deterministic);
    }
    rel
}
