//! WHERE, with `IN (SELECT …)` and `EXISTS (SELECT …)` as semi joins and their negations as anti joins.
//!
//! A subquery is first bound by itself. Only when that misses a column is it taken as correlated: then it must be a
//! plain SELECT … FROM … WHERE, and the conjuncts of its WHERE that use columns of the query around it become
//! conditions of the join.
//!
//! `x NOT IN (…)` follows SQL: a NULL on either side keeps the row out, unless the other side has no rows. Where both
//! sides cannot be NULL the comparison is a key of the join; elsewhere it is tested as "not FALSE".

use super::super::expression::Binder;
use super::super::operators;
use super::super::place::{error, span_of, unsupported};
use super::super::query::QueryBinder;
use super::super::scope::Column;
use super::super::select::{check_clauses, nothing};
use super::super::select_list::select_list;
use super::conditions::{Side, split_conjuncts};
use super::tree::{Join, Tree};
use millstream_plan::expr::{CompareOp, Expr, ExprKind, Span};
use millstream_plan::logical::JoinKind;
use millstream_types::{Diagnostic, code, counted};
use sqlparser::ast::{self, BinaryOperator, UnaryOperator};
use std::sync::Arc;

/// Subqueries may be nested this deep: each level may be bound twice.
const MAX_DEPTH: usize = 6;

/// A conjunct of WHERE with a subquery.
struct Predicate<'a> {
    /// What is looked for; empty for EXISTS.
    operands: Vec<&'a ast::Expr>,
    is_in: bool,
    negated: bool,
    query: &'a ast::Query,
    place: Span,
}

/// A subquery as the right side of a join.
struct Subquery {
    right: Tree,
    /// The select list over the columns of `right`.
    items: Vec<Expr>,
    /// Conditions over the columns of the query around it, then those of `right`.
    correlated: Vec<Expr>,
}

impl QueryBinder<'_> {
    /// WHERE of a query, perhaps within another one with the columns `outer`: the filtered tree, and the conjuncts that use
    /// `outer`, over those columns followed by the tree's.
    pub(in super::super) fn conditions(
        &mut self,
        tree: Tree,
        selection: Option<&ast::Expr>,
        outer: &[Column],
    ) -> Result<(Tree, Vec<Expr>), Diagnostic> {
        let Some(selection) = selection else { return Ok((tree, vec![])) };
        let parts = conjuncts_of(selection);
        let mut predicates = vec![];
        let mut plain = vec![];
        for part in &parts {
            match Predicate::of(part, false) {
                Some(predicate) => predicates.push(predicate),
                None => plain.push(*part),
            }
        }
        let values = self.values_of(plain.iter().copied())?;
        let first = outer.len() + tree.width();
        let tree = values.join_tree(tree);
        let mut scope = self.scope(visible_together(outer, tree.columns()));
        values.name(&mut scope, first);
        let mut bound = vec![];
        if predicates.is_empty() {
            split_conjuncts(Binder::scalar(&scope, "WHERE").condition(selection, "WHERE")?, &mut bound);
        } else {
            for part in plain {
                split_conjuncts(Binder::scalar(&scope, "WHERE").condition(part, "AND")?, &mut bound);
            }
        }
        let width = outer.len();
        let of_tree = |e: &Expr| matches!(Side::of(e, width), Side::Right | Side::Neither);
        let (own, correlated): (Vec<Expr>, Vec<Expr>) = bound.into_iter().partition(of_tree);
        let mut tree = tree.filter(own.into_iter().map(|e| e.renumbered(|i| i - width)).collect());
        for predicate in predicates {
            tree = self.semi_join(tree, &predicate)?;
        }
        Ok((tree, correlated))
    }

    fn semi_join(&mut self, left: Tree, predicate: &Predicate<'_>) -> Result<Tree, Diagnostic> {
        let columns = left.columns();
        if self.subquery_depth >= MAX_DEPTH {
            let feature = format!("a subquery in WHERE more than {MAX_DEPTH} levels deep");
            return Err(unsupported(&feature, predicate.place, "compute the inner one in a view"));
        }
        self.subquery_depth += 1;
        let subquery = self.subquery(predicate, &columns);
        self.subquery_depth -= 1;
        let Subquery { right, items, correlated: mut conjuncts } = subquery?;
        let scope = self.scope(columns);
        let width = scope.columns.len();
        if predicate.is_in && predicate.operands.len() != items.len() {
            let (given, found) = (predicate.operands.len(), items.len());
            let message =
                format!("IN compares {} with {} of the subquery", counted(given, "value"), counted(found, "column"));
            return Err(error(code::TYPE_MISMATCH, predicate.place, message).advise("select as many columns as values"));
        }
        for (operand, item) in predicate.operands.iter().zip(items) {
            let operand = Binder::scalar(&scope, "IN").bind(operand)?;
            let place = operand.span;
            let item = item.renumbered(|i| i + width);
            let equal = operators::compare(CompareOp::Equal, operand, item, place)?;
            conjuncts.push(if predicate.negated && equal.nullable {
                let is_false = operators::boolean(ExprKind::IsBoolean(Box::new(equal), false), place);
                operators::not(is_false, place)
            } else {
                equal
            });
        }
        let kind = if predicate.negated { JoinKind::Anti } else { JoinKind::Semi };
        Ok(Tree::Join(Box::new(Join { left, right, kind, conjuncts, as_of: None, place: predicate.place })))
    }

    /// Binds a subquery of a query with the columns `outer`.
    fn subquery(&mut self, predicate: &Predicate<'_>, outer: &[Column]) -> Result<Subquery, Diagnostic> {
        // Whether a value comes once or more often makes no difference.
        let mut query = predicate.query.clone();
        if let ast::SetExpr::Select(select) = &mut *query.body
            && matches!(select.distinct, Some(ast::Distinct::Distinct))
        {
            select.distinct = None;
        }
        match self.query(&query, false) {
            Ok(relation) => {
                let scope = self.scope(relation.columns.clone());
                let items = (0..relation.columns.len()).map(|i| scope.column(i, predicate.place)).collect();
                Ok(Subquery { right: Tree::leaf(relation), items, correlated: vec![] })
            }
            Err(e) if e.code == code::UNKNOWN_COLUMN => match plain_select(&query) {
                Some(select) => self.correlated(select, outer),
                None => Err(e),
            },
            Err(e) => Err(e),
        }
    }

    fn correlated(&mut self, select: &ast::Select, outer: &[Column]) -> Result<Subquery, Diagnostic> {
        check_clauses(select)?;
        let tree = self.from(&select.from)?.unwrap_or_else(|| Tree::leaf(nothing()));
        let (right, correlated) = self.conditions(tree, select.selection.as_ref(), outer)?;
        let scope = self.scope(right.columns());
        let mut binder = Binder::scalar(&scope, "SELECT of a correlated subquery");
        let items = select_list(&mut binder, &select.projection)?;
        Ok(Subquery { right, items: items.into_iter().map(|(e, _)| e).collect(), correlated })
    }
}

impl<'a> Predicate<'a> {
    /// The IN or EXISTS that a conjunct is.
    fn of(conjunct: &'a ast::Expr, negated: bool) -> Option<Predicate<'a>> {
        let place = span_of(conjunct);
        match conjunct {
            ast::Expr::Nested(inner) => Predicate::of(inner, negated),
            ast::Expr::UnaryOp { op: UnaryOperator::Not, expr } => Predicate::of(expr, !negated),
            ast::Expr::InSubquery { expr, subquery, negated: not } => {
                Some(Predicate { operands: row(expr), is_in: true, negated: negated != *not, query: subquery, place })
            }
            ast::Expr::Exists { subquery, negated: not } => {
                Some(Predicate { operands: vec![], is_in: false, negated: negated != *not, query: subquery, place })
            }
            _ => None,
        }
    }
}

/// The values of `(a, b)`, or the one value.
fn row(operand: &ast::Expr) -> Vec<&ast::Expr> {
    match operand {
        ast::Expr::Tuple(values) => values.iter().collect(),
        ast::Expr::Nested(inner) => row(inner),
        single => vec![single],
    }
}

/// The operands of the ANDs at the top of a condition. Long chains are left-deep.
fn conjuncts_of(condition: &ast::Expr) -> Vec<&ast::Expr> {
    let mut conjuncts = vec![];
    let mut pending = vec![condition];
    while let Some(next) = pending.pop() {
        match next {
            ast::Expr::Nested(inner) => pending.push(inner),
            ast::Expr::BinaryOp { left, op: BinaryOperator::And, right } => pending.extend([&**right, &**left]),
            other => conjuncts.push(other),
        }
    }
    conjuncts
}

/// The SELECT that a query is, if it is nothing more and has neither groups nor DISTINCT.
fn plain_select(query: &ast::Query) -> Option<&ast::Select> {
    let ast::SetExpr::Select(select) = &*query.body else { return None };
    let is_plain = query.with.is_none() && query.order_by.is_none() && query.limit_clause.is_none();
    let no_groups = matches!(&select.group_by, ast::GroupByExpr::Expressions(keys, _) if keys.is_empty());
    let is_plain = is_plain && query.fetch.is_none() && no_groups && select.having.is_none();
    (is_plain && select.distinct.is_none() && select.qualify.is_none()).then_some(select)
}

/// The columns of a query around a subquery, as far as the subquery does not use their names itself, then its own.
fn visible_together(outer: &[Column], inner: Vec<Column>) -> Vec<Column> {
    let shadowed = |column: &Column| {
        let mut column = column.clone();
        column.hidden |= inner.iter().any(|c| !c.hidden && c.field.name == column.field.name);
        let table = column.qualifier.last();
        if table.is_some() && inner.iter().any(|c| c.qualifier.last() == table) {
            column.qualifier = Arc::default();
            column.hidden = true;
        }
        column
    };
    let mut columns: Vec<Column> = outer.iter().map(shadowed).collect();
    columns.extend(inner);
    columns
}
