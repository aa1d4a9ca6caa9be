//! Expressions over the columns of relations and tables.

use crate::expr::Expr;
use crate::logical::{ColumnKind, Table, TableColumn};
use millstream_types::{Field, Schema};

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

/// Whether two expressions compute the same, wherever they stand in the text.
pub(super) fn same_computation(a: &Expr, b: &Expr) -> bool {
    a.clone().unplaced() == b.clone().unplaced()
}
