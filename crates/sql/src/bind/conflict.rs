//! `INSERT … ON CONFLICT`: which row counts of those that have the same primary key.
//!
//! The rows of a key are ranked, and the first is written. Rows that only come are in the order in which they come. Rows that an operator
//! takes back have no such order that were the same in every run: theirs is that of their values.

use super::over::within;
use super::place::{error, unsupported};
use super::relation::Relation;
use super::scope::{Column, Scope};
use crate::statement::OnConflict;
use millstream_plan::changes::changing;
use millstream_plan::expr::{Expr, Span};
use millstream_plan::logical::{Insert, Rel, SortKey, Table};
use millstream_types::{Diagnostic, code};

/// The insert of one row of each key.
pub(super) fn resolved(insert: Insert, table: &Table, action: OnConflict, place: Span) -> Result<Insert, Diagnostic> {
    let key = table.written_key();
    if key.is_empty() {
        let message = format!("ON CONFLICT is for tables with a PRIMARY KEY, and `{}` has none", table.name);
        return Err(error(code::INVALID_TABLE, place, message)
            .advise("add PRIMARY KEY (k) NOT ENFORCED to CREATE TABLE, or leave ON CONFLICT out"));
    }
    if let Rel::Limit { .. } = insert.query {
        return Err(unsupported("ON CONFLICT behind LIMIT", place, "put the query with LIMIT in a subquery of FROM"));
    }
    let changes = changing(&insert.query);
    if changes.as_ref().is_some_and(|changes| changes.is_unique(&key)) {
        return Ok(insert);
    }
    let columns: Vec<Column> = insert.query.schema().fields.into_iter().map(Column::plain).collect();
    let (width, scope) = (columns.len(), Scope::of(columns.clone()));
    let column = |at: usize| scope.column(at, Span::default());
    let partition: Vec<Expr> = key.iter().map(|&at| column(at)).collect();
    let all = Relation { rel: insert.query, columns };
    let descending = |at: usize| SortKey { expr: column(at), descending: true, nulls_first: false };
    let first = |all, order, is_last| within(all, None, partition.clone(), order, (1, 1), is_last);
    let rows = match (action, changes.is_some()) {
        (OnConflict::Error, _) => {
            let mut two = within(all, None, partition.clone(), vec![], (1, 2), false);
            if let Rel::Rank { is_alone, .. } = &mut two.rel {
                *is_alone = true;
            }
            two
        }
        (OnConflict::Nothing, _) => first(all, vec![], false),
        (OnConflict::Deduplicate, false) => first(all, vec![], true),
        (OnConflict::Deduplicate, true) => {
            let plain = (0..width).filter(|&at| !scope.columns[at].field.data_type.is_nested());
            first(all, plain.map(descending).collect(), false)
        }
    };
    Ok(Insert { target: insert.target, query: rows.first_columns(width).rel })
}
