//! Tables whose rows are changes: what a query sees of them are the rows that are there.
//!
//! The connector says of each row whether it is there from now on or gone, in a column of its own. The last row of a key counts, so the
//! table is its own deduplication: the last row of each PRIMARY KEY, unless that is gone. Changes that come twice, and deletions of rows
//! that never came, change nothing.

use super::extent::Extent;
use super::from::scan;
use super::over::last_rows;
use super::relation::Relation;
use super::scope::Scope;
use millstream_plan::expr::{CompareOp, Expr, Span};
use millstream_plan::logical::{ColumnKind, Rel, Table, TableColumn};
use millstream_types::{CHANGE_COLUMN, DataType, Field, Value};
use std::sync::Arc;

/// The rows of a table that are there.
pub(super) fn current_rows(table: &Arc<Table>, late: Option<Arc<Table>>, extent: impl Fn(&Rel) -> Extent) -> Relation {
    let mut changes = Table::clone(table);
    // As in Flink, a key is NOT NULL: a row without one could not be found again.
    table.primary_key.iter().for_each(|&at| changes.columns[at].field.nullable = false);
    let kind = ColumnKind::Metadata { key: CHANGE_COLUMN.into(), is_virtual: true };
    changes.columns.push(TableColumn { field: Field::new(CHANGE_COLUMN, DataType::TinyInt, false), kind });
    let all = scan(&Arc::new(changes), late);
    let extent = extent(&all.rel);
    let scope = Scope::of(all.columns.clone());
    let column = |at: usize| scope.column(at, Span::default());
    let width = table.columns.len();
    let mut rows = last_rows(all, table.primary_key.iter().map(|&at| column(at)).collect(), extent);
    let zero = Expr::literal(Value::Int(0), DataType::TinyInt);
    let predicate = Expr::compare(CompareOp::Greater, column(width), zero);
    rows.rel = Rel::Filter { input: Box::new(rows.rel), predicate };
    rows.forget_times();
    rows.first_columns(width)
}
