//! INSERT INTO: the query's columns become the table's, as Flink assigns them.
//!
//! Numbers may be narrowed or widened, strings and binaries of any length fit (Flink's default enforcement of
//! CHAR/VARCHAR lengths is none), dates and timestamps convert among themselves; everything else needs a CAST. NULL in
//! a NOT NULL column is found when a row has it: the plan keeps the nullable expression, and the sink checks.

use super::coercion::{convert, has_same_layout, is_implicit, keeps_values};
use super::place::{columns_text, error, from_parser, span_of, span_of_path, suggestion, unsupported};
use super::query::QueryBinder;
use super::relation::Relation;
use super::scope::Scope;
use crate::catalog::PARTITION_KEY;
use millstream_plan::expr::{Expr, Span};
use millstream_plan::logical::{ColumnKind, Insert, Rel, Table, Target};
use millstream_types::{Diagnostic, Field, Value, code, counted};
use sqlparser::ast;
use std::sync::Arc;

/// Binds `INSERT INTO table [(columns)] query`.
pub(super) fn bind(
    binder: &mut QueryBinder<'_>,
    table: Arc<Table>,
    columns: &[ast::Ident],
    query: &ast::Query,
) -> Result<Insert, Diagnostic> {
    let place = if columns.is_empty() { span_of(query) } else { span_of_path(columns) };
    if table
        .columns
        .iter()
        .any(|c| matches!(&c.kind, ColumnKind::Metadata { key, .. } if key.starts_with(PARTITION_KEY)))
    {
        let feature = format!("INSERT INTO `{}`, which is PARTITIONED BY columns,", table.name);
        return Err(unsupported(
            &feature,
            place,
            "write a table without PARTITIONED BY; its columns are in the records then",
        ));
    }
    let targets = target_columns(&table, columns)?;
    let relation = binder.query(query, true)?;
    if relation.columns.len() != targets.len() {
        return Err(mismatch(&table, &targets, &relation, place));
    }
    let scope = Scope::of(relation.columns.clone());
    let mut projection = Vec::new();
    for writable in table.writable() {
        let field = &table.columns[writable].field;
        let expr = match targets.iter().position(|&t| t == writable) {
            Some(position) => {
                let item = selected_item(query, position);
                let place = item.map_or(place, span_of);
                assign(scope.column(position, place), field, &table, item)?
            }
            None if field.nullable => Expr::literal(Value::Null, field.data_type.clone()),
            None => {
                let message = format!("column `{}` of `{}` is NOT NULL and gets no value", field.name, table.name);
                return Err(error(code::SCHEMA_MISMATCH, place, message).advise("add it to the list of columns"));
            }
        };
        projection.push((expr, field.name.clone()));
    }
    let query = project_below_limit(relation.rel, projection);
    Ok(Insert { target: Target::Table(table), query })
}

/// The table of INSERT OVERWRITE: its sink may replace what is there.
pub(super) fn overwritten(table: &Table, target: &[ast::Ident]) -> Result<Arc<Table>, Diagnostic> {
    let connector = table.options.get("connector").unwrap_or_default();
    if connector != "filesystem" {
        let place = span_of_path(target);
        let feature = format!("INSERT OVERWRITE with the connector '{connector}'");
        return Err(unsupported(&feature, place, "use INSERT INTO; only single files can be replaced"));
    }
    let mut table = table.clone();
    table.options.set("sink.overwrite", "true");
    Ok(Arc::new(table))
}

/// LIMIT stays on top, where it counts the rows of the whole insert.
pub(super) fn project_below_limit(rel: Rel, columns: Vec<(Expr, String)>) -> Rel {
    match rel {
        Rel::Limit { input, offset, count } => {
            Rel::Limit { input: Box::new(Rel::Project { input, columns }), offset, count }
        }
        other => Rel::Project { input: Box::new(other), columns },
    }
}

/// Positions of the table's columns that the query's columns go to, in order.
fn target_columns(table: &Table, columns: &[ast::Ident]) -> Result<Vec<usize>, Diagnostic> {
    let writable = table.writable();
    if columns.is_empty() {
        return Ok(writable);
    }
    let mut targets = Vec::new();
    for column in columns {
        let span = from_parser(column.span);
        let found = table.columns.iter().position(|c| c.field.name == column.value);
        match found {
            Some(index) if targets.contains(&index) => {
                let message = format!("column `{}` is listed twice", column.value);
                return Err(error(code::SCHEMA_MISMATCH, span, message).advise("list each column once"));
            }
            Some(index) if writable.contains(&index) => targets.push(index),
            Some(index) => {
                let what = match table.columns[index].kind {
                    ColumnKind::Computed(_) => "computed",
                    _ => "virtual metadata",
                };
                let message = format!("column `{}` is {what} and cannot be written", column.value);
                return Err(error(code::SCHEMA_MISMATCH, span, message).advise("leave it out"));
            }
            None => {
                let names = writable.iter().map(|&i| table.columns[i].field.name.as_str());
                let message = format!("table `{}` has no column `{}`", table.name, column.value);
                let advice = suggestion(&column.value, names, "columns");
                return Err(error(code::UNKNOWN_COLUMN, span, message).advise(advice));
            }
        }
    }
    Ok(targets)
}

/// The value as the table's column takes it.
fn assign(value: Expr, field: &Field, table: &Table, item: Option<&ast::Expr>) -> Result<Expr, Diagnostic> {
    let (from, to) = (&value.data_type, &field.data_type);
    if is_implicit(from, to) {
        // Whether values of one type are values of the other as they are.
        let are_kept = from == to || has_same_layout(from, to) && keeps_values(from, to);
        return Ok(if are_kept { value } else { convert(value, to) });
    }
    let message = format!("column `{}` of `{}` is {to}, but the query gives {from}", field.name, table.name);
    let item = item.map_or_else(|| "…".into(), ToString::to_string);
    let cast = if from.is_string() && !to.is_nested() { "TRY_CAST" } else { "CAST" };
    Err(error(code::SCHEMA_MISMATCH, value.span, message).advise(format!("write {cast}({item} AS {to}) in the query")))
}

/// The expression of a query's column `position`, if the query is a SELECT of expressions.
fn selected_item(query: &ast::Query, position: usize) -> Option<&ast::Expr> {
    let ast::SetExpr::Select(select) = &*query.body else { return None };
    // A star before it would shift its position.
    let is_star = |item: &ast::SelectItem| {
        !matches!(item, ast::SelectItem::UnnamedExpr(_) | ast::SelectItem::ExprWithAlias { .. })
    };
    match select.projection.get(position)? {
        _ if select.projection.iter().any(is_star) => None,
        ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

fn mismatch(table: &Table, targets: &[usize], relation: &Relation, place: Span) -> Diagnostic {
    let (given, wanted) = (relation.columns.len(), targets.len());
    let message = format!(
        "the query has {}, but {} of `{}` {} written",
        counted(given, "column"),
        counted(wanted, "column"),
        table.name,
        if wanted == 1 { "is" } else { "are" }
    );
    let sink = columns_text(targets.iter().map(|&i| &table.columns[i].field));
    let query = columns_text(relation.columns.iter().map(|c| &c.field));
    let names: Vec<&str> = targets.iter().map(|&i| table.columns[i].field.name.as_str()).collect();
    let advice = match given < wanted {
        true => {
            format!("name the columns that are given: INSERT INTO {} ({}) …", table.name, names[..given].join(", "))
        }
        false => format!("give {} only: {}", counted(wanted, "column"), names.join(", ")),
    };
    error(code::SCHEMA_MISMATCH, place, message).advise(format!("{advice}; query: [{query}]; table: [{sink}]"))
}
