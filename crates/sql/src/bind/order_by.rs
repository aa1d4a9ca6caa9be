//! ORDER BY, LIMIT, OFFSET and FETCH.
//!
//! A name in ORDER BY is first that of a column of the result, then one of the input of the SELECT. What is not a column of the
//! result is bound as one more column, which is left out when the rows are in order. ORDER BY counts at the top of a statement and
//! together with LIMIT or OFFSET; elsewhere a relation has no order.

use super::cures::{WindowCure, windows_over};
use super::expression::Binder;
use super::extent::Extent;
use super::over::first_rows;
use super::place::{error, span_of, type_name, unsupported};
use super::relation::Relation;
use super::scope::{Column, Scope};
use millstream_plan::changes::changing;
use millstream_plan::expr::{Expr, ExprKind, Span};
use millstream_plan::logical::{Rel, SortKey};
use millstream_types::{DataType, Diagnostic, Value, code};
use sqlparser::ast;

/// A relation with what its rows are to be ordered by.
pub(super) struct Ordered {
    pub(super) relation: Relation,
    pub(super) keys: Vec<SortKey>,
    /// Columns of the result; those behind them are there for the keys.
    pub(super) visible: usize,
}

/// Whether the order of the rows of a query means something where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// At the top of a statement.
    Top,
    /// In parentheses, with LIMIT or OFFSET behind them.
    Sliced,
    /// Elsewhere.
    Within,
}

/// The rows that LIMIT, OFFSET and FETCH leave.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slice {
    offset: u64,
    count: Option<u64>,
    span: Span,
}

impl Slice {
    /// That of a query.
    pub(super) fn of(query: &ast::Query) -> Result<Option<Slice>, Diagnostic> {
        let (mut limit, mut offset) = (None, None);
        match &query.limit_clause {
            None => {}
            Some(ast::LimitClause::LimitOffset { limit: rows, offset: skipped, limit_by }) => {
                if let Some(by) = limit_by.first() {
                    return Err(error(code::SYNTAX, span_of(by), "Flink SQL has no LIMIT … BY"));
                }
                limit = rows.as_ref().map(|rows| constant(rows, "LIMIT")).transpose()?;
                offset = skipped.as_ref().map(|skipped| constant(&skipped.value, "OFFSET")).transpose()?;
            }
            Some(ast::LimitClause::OffsetCommaLimit { offset, .. }) => {
                return Err(unsupported("LIMIT with a comma", span_of(offset), "write LIMIT n OFFSET m"));
            }
        }
        let fetched = match &query.fetch {
            None => None,
            Some(fetch) if fetch.with_ties || fetch.percent || limit.is_some() => {
                return Err(unsupported("this form of FETCH", span_of(query), "write LIMIT n"));
            }
            Some(ast::Fetch { quantity: Some(rows), .. }) => Some(constant(rows, "FETCH")?),
            Some(_) => Some((1, span_of(query))),
        };
        let limit = limit.or(fetched);
        Ok(limit.or(offset).map(|(_, span)| Slice {
            offset: offset.map_or(0, |(rows, _)| rows),
            count: limit.map(|(rows, _)| rows),
            span,
        }))
    }
}

fn constant(expr: &ast::Expr, clause: &'static str) -> Result<(u64, Span), Diagnostic> {
    let span = span_of(expr);
    match Binder::scalar(&Scope::default(), clause).bind(expr)?.kind {
        ExprKind::Literal(Value::Int(n)) if n >= 0 => Ok((n as u64, span)),
        _ => {
            let message = format!("{clause} needs a constant whole number");
            Err(error(code::TYPE_MISMATCH, span, message).advise("write LIMIT 10 or OFFSET 10"))
        }
    }
}

/// The expressions of the ORDER BY of a query.
pub(super) fn order_of(query: &ast::Query) -> Result<&[ast::OrderByExpr], Diagnostic> {
    let Some(order_by) = &query.order_by else { return Ok(&[]) };
    let foreign = |clause: &str| Err(error(code::SYNTAX, span_of(order_by), format!("Flink SQL has no {clause}")));
    match &order_by.kind {
        ast::OrderByKind::All(_) => {
            Err(unsupported("ORDER BY ALL", span_of(order_by), "name the columns, or their numbers"))
        }
        _ if order_by.interpolate.is_some() => foreign("INTERPOLATE"),
        ast::OrderByKind::Expressions(keys) if keys.iter().any(|key| key.with_fill.is_some()) => foreign("WITH FILL"),
        ast::OrderByKind::Expressions(keys) => Ok(keys),
    }
}

/// Whether a key descends, and whether its NULLs come first: NULL is the smallest value unless the query says where it goes.
pub(super) fn direction(key: &ast::OrderByExpr) -> Result<(bool, bool), Diagnostic> {
    let descending = match &key.options.sort {
        None | Some(ast::OrderBySort::Asc) => false,
        Some(ast::OrderBySort::Desc) => true,
        Some(ast::OrderBySort::Using(_)) => {
            return Err(error(code::SYNTAX, span_of(&key.expr), "Flink SQL has no ORDER BY … USING")
                .advise("write ASC or DESC"));
        }
    };
    Ok((descending, key.options.nulls_first.unwrap_or(!descending)))
}

/// An expression that has an order.
pub(super) fn comparable(expr: Expr, clause: &str) -> Result<Expr, Diagnostic> {
    if expr.data_type.is_nested() || expr.data_type == DataType::Null {
        let message = format!("{clause} of {} is not possible", type_name(&expr.data_type));
        return Err(error(code::TYPE_MISMATCH, expr.span, message).advise("use single fields"));
    }
    Ok(expr)
}

/// The keys over the columns of a result. What is none of these is bound by `other`, which says what to do about it.
fn keys_of(
    order: &[ast::OrderByExpr],
    columns: Vec<Column>,
    mut other: impl FnMut(&ast::Expr, Diagnostic) -> Result<Expr, Diagnostic>,
) -> Result<Vec<SortKey>, Diagnostic> {
    let scope = Scope { columns, ..Scope::default() };
    let mut keys = Vec::new();
    for key in order {
        let (descending, nulls_first) = direction(key)?;
        let span = span_of(&key.expr);
        let expr = match ordinal(&key.expr) {
            Some(number) => match number.checked_sub(1).filter(|&column| column < scope.columns.len()) {
                Some(column) => scope.column(column, span),
                None => {
                    let message = format!("ORDER BY names column {number}, but the result has {}", scope.columns.len());
                    let advice = "the first column is 1";
                    return Err(error(code::UNKNOWN_COLUMN, span, message).advise(advice));
                }
            },
            None => match Binder::scalar(&scope, "ORDER BY").bind(&key.expr) {
                Ok(expr) => expr,
                Err(failure) => other(&key.expr, failure)?,
            },
        };
        let expr = comparable(expr, "ORDER BY")?;
        if !matches!(expr.kind, ExprKind::Literal(_)) {
            keys.push(SortKey { expr, descending, nulls_first });
        }
    }
    Ok(keys)
}

/// The number that an expression is, as it stands there.
fn ordinal(expr: &ast::Expr) -> Option<usize> {
    match expr {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::Number(text, _) => text.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

/// The keys of a SELECT, over its items and those that it adds to them.
pub(super) fn keys_of_select(
    order: &[ast::OrderByExpr],
    items: &mut Vec<(Expr, String)>,
    is_distinct: bool,
    binder: &mut Binder<'_>,
) -> Result<Vec<SortKey>, Diagnostic> {
    if order.is_empty() {
        return Ok(vec![]);
    }
    let columns = items.iter().map(|(expr, name)| Column::plain(expr.field(name))).collect();
    binder.clause = "ORDER BY";
    keys_of(order, columns, |expr, _| {
        let value = comparable(binder.bind(expr)?, "ORDER BY")?;
        let plain = value.clone().unplaced();
        let known = items.iter().position(|(item, _)| item.clone().unplaced() == plain);
        let (data_type, nullable, span) = (value.data_type.clone(), value.nullable, value.span);
        let column = match known {
            Some(column) => column,
            None if is_distinct => {
                let message = "with DISTINCT, rows can only be ordered by what is selected";
                return Err(error(code::NOT_GROUPED, span, message).advise("select it too, or group instead"));
            }
            None => {
                items.push((value, format!("order{}", items.len())));
                items.len() - 1
            }
        };
        Ok(Expr::column(column, data_type, nullable).at(span))
    })
}

/// The keys of a query that is not a SELECT: over its columns.
pub(super) fn ordered(order: &[ast::OrderByExpr], relation: Relation) -> Result<Ordered, Diagnostic> {
    let columns = relation.columns.clone();
    let visible = columns.len();
    let keys = keys_of(order, columns, |_, failure| Err(failure))?;
    Ok(Ordered { relation, keys, visible })
}

/// Puts rows in order, where that counts, and leaves out what LIMIT and OFFSET do.
pub(super) fn in_order(
    ordered: Ordered,
    slice: Option<Slice>,
    order: &[ast::OrderByExpr],
    standing: Standing,
    extent: Extent,
) -> Result<Relation, Diagnostic> {
    let Ordered { relation, mut keys, visible } = ordered;
    let Relation { mut rel, columns } = relation;
    let counts = slice.is_some() || standing != Standing::Within;
    if !counts {
        keys.clear();
    }
    let (offset, count) = slice.map_or((0, None), |slice| (slice.offset, slice.count));
    let is_whole = extent.end().is_some();
    let changes = !is_whole && changing(&rel).is_some();
    if let Some(count) = count
        && (changes || !keys.is_empty() || standing != Standing::Top)
        && !is_whole
    {
        if count == 0 {
            let rel = Rel::Filter { input: Box::new(rel), predicate: Expr::boolean(false) };
            return Ok(Relation { rel, columns }.first_columns(visible));
        }
        // The first rows of an order are others with every beat, and so are any of a result that changes.
        let mut first = first_rows(Relation { rel, columns }, keys, offset, count);
        first.forget_times();
        return Ok(first.first_columns(visible));
    }
    let input = Box::new(rel.take());
    rel = match (slice, standing) {
        _ if !keys.is_empty() => {
            if !is_whole {
                return Err(endless_order(&input, extent, order));
            }
            Rel::Sort { input, keys, offset, count }
        }
        (None, _) => *input,
        (Some(slice), Standing::Top) if count.is_none() && extent == Extent::Endless => {
            return Err(unsupported("OFFSET of an endless input without LIMIT", slice.span, "filter with WHERE"));
        }
        (Some(_), Standing::Top) => Rel::Limit { input, offset, count },
        (Some(slice), _) if !is_whole => {
            let advice = format!("add LIMIT, or {}", extent.advice());
            return Err(unsupported("OFFSET within a subquery or a view over a stream", slice.span, &advice));
        }
        (Some(_), _) => Rel::Sort { input, keys, offset, count },
    };
    Ok(Relation { rel, columns }.first_columns(visible))
}

fn endless_order(input: &Rel, extent: Extent, order: &[ast::OrderByExpr]) -> Diagnostic {
    let WindowCure { from, first } = windows_over(input);
    let keys = order.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let advice = format!(
        "add LIMIT, and the first rows are kept up to date; or {first}rank the rows of each window: SELECT * FROM {from} QUALIFY ROW_NUMBER() \
         OVER (PARTITION BY window_start, window_end ORDER BY {keys}) <= 10; or leave ORDER BY out: rows come as soon as they are final; or {}",
        extent.advice()
    );
    let message = "on a stream, there is no last row to put in order";
    error(code::NEEDS_UPDATES, order.first().map(span_of).unwrap_or_default(), message).advise(advice)
}
