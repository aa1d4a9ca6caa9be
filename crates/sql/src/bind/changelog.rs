//! Tables whose rows are changes: what a query sees of them are the rows that are there.
//!
//! The connector says of each row whether it is there from now on or gone, in a column of its own. The last row of a key counts, so the
//! table is its own deduplication: the last row of each PRIMARY KEY, unless that is gone. Changes that come twice, and deletions of rows
//! that never came, change nothing.

use super::extent::Extent;
use super::from::scan;
use super::relation::Relation;
use super::scope::Attribute;
use millstream_plan::expr::{CompareOp, Expr};
use millstream_plan::logical::{ColumnKind, RankFunction, Rel, Table, TableColumn};
use millstream_plan::window::{Timeline, end_of_input};
use millstream_types::{DataType, Field, Value};
use std::sync::Arc;

/// The connector's name for what a row does: 1 if it is there from now on, -1 if it is gone.
const CHANGE: &str = "$change";

/// The rows of a table that are there.
pub(super) fn current_rows(table: &Arc<Table>, late: Option<Arc<Table>>, extent: impl Fn(&Rel) -> Extent) -> Relation {
    let mut changes = Table::clone(table);
    // As in Flink, a key is NOT NULL: a row without one could not be found again.
    table.primary_key.iter().for_each(|&at| changes.columns[at].field.nullable = false);
    let kind = ColumnKind::Metadata { key: CHANGE.into(), is_virtual: true };
    changes.columns.push(TableColumn { field: Field::new(CHANGE, DataType::TinyInt, false), kind });
    let Relation { rel, mut columns } = scan(&Arc::new(changes), late);
    let column = |at: usize| {
        let field = &columns[at].field;
        Expr::column(at, field.data_type.clone(), field.nullable)
    };
    let change = columns.len() - 1;
    let time = matches!(extent(&rel), Extent::Whole | Extent::Shown).then(end_of_input);
    let partition = table.primary_key.iter().map(|&at| column(at)).collect();
    let comes = Expr::compare(CompareOp::Greater, column(change), Expr::literal(Value::Int(0), DataType::TinyInt));
    let kept = (0..change).map(|at| (column(at), columns[at].field.name.clone())).collect();
    let last = Rel::Rank {
        input: Box::new(rel),
        time,
        timeline: Timeline::Own,
        partition,
        order: vec![],
        function: RankFunction::RowNumber,
        range: (1, 1),
        is_by_time: true,
        shows_rank: false,
    };
    let there = Rel::Filter { input: Box::new(last), predicate: comes };
    columns.truncate(change);
    // A row comes again when it changes, behind all times.
    columns.iter_mut().for_each(|column| column.attribute = Attribute::None);
    Relation { rel: Rel::Project { input: Box::new(there), columns: kept }, columns }
}
