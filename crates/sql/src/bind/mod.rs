//! Binding: names, types and functions of a parsed query.
//!
//! sqlparser's AST goes in, a typed [`Rel`] comes out, with Flink's (Calcite's) name resolution and type rules: every
//! cast is explicit, every expression knows whether it can be NULL and where it stands in the text, and what streaming
//! cannot do is an error that says what to do instead.
//!
//! | file | what |
//! | --- | --- |
//! | `query` | WITH, UNION ALL, VALUES |
//! | `order_by` | ORDER BY, LIMIT, OFFSET |
//! | `select`, `select_list`, `from` | one SELECT, clause by clause |
//! | `group`, `group_keys`, `grouping_sets`, `aggregate`, `aggregate_order` | GROUP BY and aggregate functions |
//! | `window_kind`, `window`, `window_table`, `group_window` | windows, as table functions and in GROUP BY |
//! | `over`, `over_whole`, `over_shift`, `rank` | OVER and Top-N |
//! | `markers`, `aggregate_list`, `over_list` | what of a SELECT is computed from several rows |
//! | `late_rows` | where late rows go |
//! | `cures` | what to write instead of what streams cannot do |
//! | `insert` | INSERT INTO |
//! | `extent` | what is known of the end of an input |
//! | `relation`, `scope` | bound relations; names, and the roles of columns in time |
//! | `expression`, `call`, `arguments`, `literal`, `operators` | scalar expressions |
//! | [`coercion`] | how types combine |
//!
//! Invariants: every error has a place in the text; input of any shape gives an error, never a panic; the depth of
//! recursion is bounded by the parser's limits and by the nesting of views, and there is stack for it (`with_stack`).

mod aggregate;
mod aggregate_list;
mod aggregate_order;
mod arguments;
mod call;
mod changelog;
mod changes;
pub mod coercion;
mod conflict;
mod cures;
mod expression;
mod extent;
mod from;
mod group;
mod group_keys;
mod group_window;
mod grouping_sets;
mod hints;
mod insert;
mod join;
mod late_rows;
mod literal;
mod markers;
mod operators;
mod order_by;
mod over;
mod over_list;
mod over_shift;
mod over_whole;
mod place;
mod query;
mod rank;
mod relation;
mod scope;
mod select;
mod select_list;
#[cfg(test)]
mod tests;
mod window;
mod window_kind;
mod window_table;

use crate::catalog::Catalog;
use crate::settings::BindSettings;
use crate::statement::{InsertStatement, Statement};
use crate::user_function::SqlFunctions;
pub(crate) use call::is_builtin_function;
use expression::Binder;
use millstream_plan::expr::Expr;
use millstream_plan::logical::{Insert, Rel};
use millstream_types::{DataType, Diagnostic, Field, code};
pub(crate) use place::{at, columns_text, error};
use query::QueryBinder;
use relation::Relation;
use scope::{Column, Scope};
use sqlparser::ast;
use std::sync::Arc;

/// Bytes of stack that binding may need: what `statement` lets through is walked recursively, by the parser's library too, which takes
/// 4 KiB for each query of a UNION.
const STACK: usize = 16 << 20;

/// Runs `work` with enough stack for any statement, whatever thread it is in.
fn with_stack<T>(work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(STACK, STACK + (1 << 20), work)
}

/// Binds a query whose rows are shown or returned. Names of the result's columns are unique.
pub fn bind_query(catalog: &Catalog, settings: &BindSettings, query: &ast::Query) -> Result<Rel, Diagnostic> {
    let bind = || {
        let mut binder = QueryBinder::of_shown(catalog, settings);
        let relation = binder.query(query, true)?;
        let extent = binder.extent(&relation.rel);
        changes::check_operators(&relation.rel, extent, place::span_of(query))?;
        Ok::<_, Diagnostic>(relation)
    };
    let rel = finished(with_stack(bind)?).rel.with_copies();
    check_stability(catalog, &rel)?;
    Ok(rel)
}

/// Binds an INSERT.
pub fn bind_insert(
    catalog: &Catalog,
    settings: &BindSettings,
    statement: &InsertStatement,
) -> Result<Insert, Diagnostic> {
    bind_insert_of(catalog, catalog, settings, statement)
}

/// The same for a query whose names are those of another catalog than the table's.
pub fn bind_insert_of(
    catalog: &Catalog,
    scope: &Catalog,
    settings: &BindSettings,
    statement: &InsertStatement,
) -> Result<Insert, Diagnostic> {
    let mut table = catalog.lookup_table(&statement.target)?;
    if statement.overwrites {
        table = insert::overwritten(&table, &statement.target)?;
    }
    let bind = || {
        let mut binder = QueryBinder::new(scope, settings);
        let insert = insert::bind(&mut binder, Arc::clone(&table), &statement.columns, &statement.query)?;
        let place = place::span_of_path(&statement.target);
        let insert = match statement.on_conflict {
            Some(action) => conflict::resolved(insert, &table, action, place)?,
            None => insert,
        };
        let extent = binder.extent(&insert.query);
        changes::check_operators(&insert.query, extent, place::span_of(&*statement.query))?;
        changes::check_table(catalog, &table, &insert.query, extent, place)?;
        Ok::<_, Diagnostic>(insert)
    };
    let Insert { target, query } = with_stack(bind)?;
    let insert = Insert { target, query: query.with_copies() };
    check_stability(scope, &insert.query)?;
    Ok(insert)
}

/// Refuses functions that give another value each time where rows could not be found again by it.
fn check_stability(catalog: &Catalog, rel: &Rel) -> Result<(), Diagnostic> {
    if catalog.functions().has_unstable() { millstream_plan::stability::check(rel) } else { Ok(()) }
}

/// The plain name of the first table or view that a query, or the queries of an INSERT, cannot be bound without, if that is
/// what they lack.
pub fn unknown_table(catalog: &Catalog, settings: &BindSettings, statement: &Statement) -> Option<String> {
    let unknown = |query: &ast::Query, is_top: bool| {
        let mut binder = QueryBinder::new(catalog, settings);
        let failure = with_stack(|| binder.query(query, is_top)).err()?;
        binder.into_unknown().filter(|_| failure.code == code::UNKNOWN_TABLE)
    };
    match statement {
        Statement::Query(query) => unknown(query, true),
        Statement::Insert(insert) => unknown(&insert.query, true),
        Statement::StatementSet(inserts) => inserts.iter().find_map(|insert| unknown(&insert.query, true)),
        Statement::Explain { inner, .. } => unknown_table(catalog, settings, inner),
        Statement::CreateTable(definition) => definition.query.as_ref().and_then(|query| unknown(query, true)),
        Statement::Describe(name) => match (catalog.lookup(name), &name[..]) {
            (Err(_), [single]) => Some(single.value.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// Binds an expression of a table's definition (a computed column, a watermark) over the table's columns.
pub fn bind_table_expression(
    columns: &[Field],
    functions: &SqlFunctions,
    expression: &ast::Expr,
) -> Result<Expr, Diagnostic> {
    with_stack(|| Binder::scalar(&plain_scope(columns, functions), "the definition of a table").bind(expression))
}

/// Binds the body of a SQL function over its parameters, cast to the type that it returns.
pub(crate) fn bind_function_body(
    parameters: &[Field],
    functions: &SqlFunctions,
    body: &ast::Expr,
    returns: &DataType,
) -> Result<Expr, Diagnostic> {
    let scope = plain_scope(parameters, functions);
    let bound = with_stack(|| Binder::scalar(&scope, "the body of a function").bind(body))?;
    let span = bound.span;
    operators::cast(bound, returns.clone(), false, span)
}

fn plain_scope(columns: &[Field], functions: &SqlFunctions) -> Scope {
    let columns = columns.iter().cloned().map(Column::plain).collect();
    Scope { columns, functions: functions.clone(), values: vec![] }
}

/// Gives columns of the type NULL a type that a result can have, and the columns the names that the query gives.
fn finished(relation: Relation) -> Relation {
    let names = scope::unique_names(relation.columns.iter().map(|c| c.field.name.clone()));
    let schema = relation.rel.schema();
    let untyped = relation.columns.iter().any(|c| c.field.data_type == DataType::Null);
    if !untyped && schema.fields.iter().map(|f| &f.name).eq(&names) {
        return relation;
    }
    let scope = Scope::of(relation.columns);
    let output = |(i, name): (usize, String)| {
        let column = scope.column(i, Default::default());
        let expr = if column.data_type == DataType::Null { Expr::null(DataType::STRING) } else { column };
        (expr, name)
    };
    let projection = names.into_iter().enumerate().map(output).collect();
    let rel = insert::project_below_limit(relation.rel, projection);
    Relation { rel, columns: scope.columns }
}
