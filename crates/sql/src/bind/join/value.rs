//! Subqueries as values: `x > (SELECT AVG(x) FROM t)`.
//!
//! Such a subquery sees only its own tables and is bounded, so it has one value for all rows. It is made a relation of exactly one row:
//! an aggregation of the whole gives NULL if the subquery has no row, and a check of the number of rows fails the query if it has more than
//! one. The rows that use the value look it up (a join with a bounded table, read before them).
//!
//! In a scope the values are hidden columns behind the others, found by the text of the subquery ([`Scope::value`]). Those of WHERE are joined to
//! the tree of FROM. Those of SELECT, HAVING and QUALIFY are joined to the input as far as aggregate functions use them, and to the groups as far
//! as other expressions do.

use super::super::aggregate_list::AggregateList;
use super::super::markers::VALUE_MARK;
use super::super::place::{error, from_parser, type_name, unsupported};
use super::super::query::QueryBinder;
use super::super::relation::Relation;
use super::super::scope::{Column, Scope};
use super::pairing::Pairing;
use super::strategy::{AsOf, lookup};
use super::tree::{Join, Tree};
use crate::functions::collection::vector_call;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use millstream_functions::collection::{Input, Output};
use millstream_plan::aggregate::{AggregateCall, AggregateFunction};
use millstream_plan::expr::{Expr, ExprKind, Span};
use millstream_plan::logical::{JoinKind, Rel, Window};
use millstream_plan::window::{Timeline, WindowAssigner};
use millstream_types::{DataType, Diagnostic, code};
use sqlparser::ast::{self, Spanned};
use std::sync::Arc;

/// Values of one SELECT: each is a join.
const MAX_VALUES: usize = 64;

/// The subqueries of some expressions, each distinct one once, as relations of one row and one column.
#[derive(Debug, Default)]
pub(in super::super) struct Values {
    relations: Vec<(ast::Query, Relation)>,
}

impl Values {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.relations.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.relations.len()
    }

    /// The columns that they are in a scope.
    fn columns(&self) -> impl Iterator<Item = Column> + '_ {
        self.relations.iter().map(|(_, relation)| Column { hidden: true, ..relation.columns[0].clone() })
    }

    /// Puts their columns behind those of a scope.
    pub fn enter(&self, scope: &mut Scope) {
        let first = scope.columns.len();
        scope.columns.extend(self.columns());
        self.name(scope, first);
    }

    /// Says in which columns of a scope they are, from `first` on.
    pub fn name(&self, scope: &mut Scope, first: usize) {
        let named = self.relations.iter().enumerate().map(|(i, (query, _))| (query.clone(), first + i));
        scope.values.extend(named);
    }

    /// The tree with their columns behind its own.
    pub fn join_tree(&self, tree: Tree) -> Tree {
        self.relations.iter().fold(tree, |left, (query, relation)| {
            let right = Tree::leaf(hidden(relation.clone()));
            let (kind, conjuncts, place) = (JoinKind::Inner, vec![], from_parser(query.span()));
            Tree::Join(Box::new(Join { left, right, kind, conjuncts, as_of: Some(AsOf::Processing), place }))
        })
    }

    /// The relation with their columns behind its own.
    pub fn join(&self, relation: Relation) -> Relation {
        let join = |left, (_, right): &(ast::Query, Relation)| {
            lookup(left, hidden(right.clone()), JoinKind::Inner, Pairing::new(vec![], 0))
        };
        self.relations.iter().fold(relation, join)
    }

    /// The groups with the values that expressions over them use, and the expressions with their columns.
    pub fn join_groups(&self, groups: Relation, expressions: Vec<Expr>) -> (Relation, Vec<Expr>) {
        let mut used = false;
        expressions.iter().for_each(|e| e.walk(&mut |e| used |= matches!(e.kind, ExprKind::Column(VALUE_MARK..))));
        if !used {
            return (groups, expressions);
        }
        let width = groups.columns.len();
        let number = |i: usize| if i >= VALUE_MARK { width + i - VALUE_MARK } else { i };
        (self.join(groups), expressions.into_iter().map(|e| e.renumbered(number)).collect())
    }
}

/// Whether aggregate functions or keys use values, which are columns of the input then.
pub(in super::super) fn are_aggregated(list: &AggregateList, keys: &[Expr]) -> bool {
    let mut used = false;
    let arguments = list.calls.iter().flat_map(AggregateCall::expressions);
    for expression in arguments.chain(keys) {
        expression.walk(&mut |e| used |= matches!(e.kind, ExprKind::Column(i) if list.values.contains(&i)));
    }
    used
}

fn hidden(mut relation: Relation) -> Relation {
    relation.columns.iter_mut().for_each(|column| column.hidden = true);
    relation
}

impl QueryBinder<'_> {
    /// The subqueries that are values in `expressions`.
    pub(in super::super) fn values_of<'a>(
        &mut self,
        expressions: impl Iterator<Item = &'a ast::Expr>,
    ) -> Result<Values, Diagnostic> {
        let mut found = vec![];
        expressions.for_each(|e| collect(e, &mut found));
        let mut values = Values::default();
        for query in found {
            if values.relations.iter().any(|(known, _)| known == query) {
                continue;
            }
            let place = from_parser(query.span());
            if values.len() == MAX_VALUES {
                let message = format!("a SELECT has more than {MAX_VALUES} subqueries as values");
                return Err(
                    error(code::QUERY_TOO_LARGE, place, message).advise("select several values in one, and join it")
                );
            }
            let relation = self.stacked(1, place, |binder| binder.one_value(query, place))?;
            values.relations.push((query.clone(), relation));
        }
        Ok(values)
    }

    fn one_value(&mut self, query: &ast::Query, place: Span) -> Result<Relation, Diagnostic> {
        let relation = self.query(query, false).map_err(|e| match (e.code, e.advice.clone()) {
            (code::UNKNOWN_COLUMN, Some(advice)) => e.advise(format!(
                "{advice}; a subquery as a value sees only its own tables: join it to use columns of the query around it"
            )),
            _ => e,
        })?;
        if relation.columns.len() != 1 {
            let message = format!("a subquery as a value has one column, not {}", relation.columns.len());
            return Err(error(code::TYPE_MISMATCH, place, message).advise("select one expression"));
        }
        if !self.is_bounded(&relation.rel) {
            let message = "a subquery as a value reads an endless input, so the value would change with every row";
            return Err(error(code::NEEDS_UPDATES, place, message)
                .advise("select from a bounded table, or join a windowed aggregation on the window"));
        }
        match has_one_row(&relation.rel) {
            true => Ok(relation),
            false => only_row(relation, place),
        }
    }
}

/// Whether a relation has exactly one row, whatever its input.
fn has_one_row(rel: &Rel) -> bool {
    match rel {
        Rel::Project { input, .. } => has_one_row(input),
        Rel::Aggregate { window, keys, .. } => keys.is_empty() && window.assigner == WindowAssigner::Whole,
        Rel::Values { rows, .. } => rows.len() == 1,
        Rel::Common(common) => has_one_row(common.rel()),
        _ => false,
    }
}

/// The only row of a relation of one column; NULL if it has none, an error of the run if it has more.
fn only_row(relation: Relation, place: Span) -> Result<Relation, Diagnostic> {
    let scope = Scope::of(relation.columns);
    let column = scope.column(0, place);
    if column.data_type.is_nested() {
        let message = format!("a subquery of {} as a value", type_name(&column.data_type));
        return Err(unsupported(&message, place, "select single fields, or ARRAY_AGG of them"));
    }
    let (data_type, name) = (column.data_type.clone(), scope.columns[0].field.name.clone());
    let call = |function, arguments, data_type, nullable| AggregateCall {
        function,
        arguments,
        parameters: vec![],
        distinct: false,
        filter: None,
        last_ms: None,
        data_type,
        nullable,
    };
    let aggregates = vec![
        (call(AggregateFunction::FirstValue, vec![column], data_type.clone(), true), "value".to_owned()),
        (call(AggregateFunction::CountRows, vec![], DataType::BigInt, false), "rows".to_owned()),
    ];
    let window = Window { assigner: WindowAssigner::Whole, time: None, timeline: Timeline::Own, start: None };
    let rel = Rel::Aggregate { input: Box::new(relation.rel), window, keys: vec![], aggregates };
    let row = Relation::with_added(rel, vec![]);
    let (value, rows) = (Expr::column(0, data_type.clone(), true), Expr::column(1, DataType::BigInt, false));
    let value = vector_call("(SELECT …)", vec![value, rows], data_type, checked).at(place);
    Ok(row.select([(value, name)]))
}

/// The values of the first column, unless the second counts more than one row.
fn checked(input: &Input) -> Output {
    let counts = input.columns[1].as_primitive::<Int64Type>();
    match counts.values().iter().find(|&&rows| rows > 1) {
        Some(rows) => Err(format!("{rows} rows where a value is one row")),
        None => Ok(Arc::clone(&input.columns[0])),
    }
}

/// Appends the subqueries that are values in an expression. What stands in subqueries themselves is theirs.
fn collect<'a>(expr: &'a ast::Expr, found: &mut Vec<&'a ast::Query>) {
    use ast::Expr as E;
    let mut all = |expressions: &[Option<&'a ast::Expr>]| {
        expressions.iter().flatten().for_each(|e| collect(e, found));
    };
    match expr {
        E::Subquery(query) => found.push(query),
        E::Nested(e) | E::UnaryOp { expr: e, .. } | E::Cast { expr: e, .. } | E::Extract { expr: e, .. } => {
            all(&[Some(e)])
        }
        E::IsNull(e) | E::IsNotNull(e) | E::IsTrue(e) | E::IsNotTrue(e) | E::IsFalse(e) | E::IsNotFalse(e) => {
            all(&[Some(e)]);
        }
        E::IsUnknown(e) | E::IsNotUnknown(e) | E::IsJson { expr: e, .. } => all(&[Some(e)]),
        E::Floor { expr: e, .. } | E::Ceil { expr: e, .. } => all(&[Some(e)]),
        E::BinaryOp { .. } => {
            // Long chains are left-deep.
            let mut rights = vec![];
            let mut first = expr;
            while let E::BinaryOp { left, right, .. } = first {
                rights.push(&**right);
                first = left;
            }
            collect(first, found);
            rights.into_iter().rev().for_each(|e| collect(e, found));
        }
        E::IsDistinctFrom(a, b) | E::IsNotDistinctFrom(a, b) | E::Position { expr: a, r#in: b } => {
            all(&[Some(a), Some(b)])
        }
        E::Like { expr: a, pattern: b, escape_char: c, .. }
        | E::ILike { expr: a, pattern: b, escape_char: c, .. }
        | E::SimilarTo { expr: a, pattern: b, escape_char: c, .. } => all(&[Some(a), Some(b), c.as_deref()]),
        E::Between { expr, low, high, .. } => all(&[Some(expr), Some(low), Some(high)]),
        E::InList { expr, list, .. } => {
            all(&[Some(expr)]);
            list.iter().for_each(|e| collect(e, found));
        }
        E::Substring { expr, substring_from, substring_for, .. } => {
            all(&[Some(expr), substring_from.as_deref(), substring_for.as_deref()]);
        }
        E::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
            all(&[Some(expr), Some(overlay_what), Some(overlay_from), overlay_for.as_deref()]);
        }
        E::Trim { expr, trim_what, .. } => all(&[trim_what.as_deref(), Some(expr)]),
        E::Case { operand, conditions, else_result, .. } => {
            all(&[operand.as_deref()]);
            conditions.iter().for_each(|when| {
                collect(&when.condition, found);
                collect(&when.result, found);
            });
            all_of(else_result.as_deref(), found);
        }
        E::Tuple(parts) | E::Array(ast::Array { elem: parts, .. }) => parts.iter().for_each(|e| collect(e, found)),
        E::CompoundFieldAccess { root, access_chain } => {
            all(&[Some(root)]);
            for access in access_chain {
                if let ast::AccessExpr::Subscript(ast::Subscript::Index { index }) = access {
                    collect(index, found);
                }
            }
        }
        E::Function(function) => collect_of_call(function, found),
        _ => {}
    }
}

fn all_of<'a>(expr: Option<&'a ast::Expr>, found: &mut Vec<&'a ast::Query>) {
    expr.into_iter().for_each(|e| collect(e, found));
}

fn collect_of_call<'a>(function: &'a ast::Function, found: &mut Vec<&'a ast::Query>) {
    if let ast::FunctionArguments::List(list) = &function.args {
        for argument in &list.args {
            let argument = match argument {
                ast::FunctionArg::Unnamed(argument)
                | ast::FunctionArg::Named { arg: argument, .. }
                | ast::FunctionArg::ExprNamed { arg: argument, .. } => argument,
            };
            if let ast::FunctionArgExpr::Expr(e) = argument {
                collect(e, found);
            }
        }
    }
    all_of(function.filter.as_deref(), found);
    if let Some(ast::WindowType::WindowSpec(specification)) = &function.over {
        specification.partition_by.iter().for_each(|e| collect(e, found));
        specification.order_by.iter().for_each(|key| collect(&key.expr, found));
    }
}

/// The expressions of a select list as they are written.
pub(in super::super) fn written(items: &[ast::SelectItem]) -> impl Iterator<Item = &ast::Expr> {
    items.iter().flat_map(|item| {
        let (expr, options) = match item {
            ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. } => (Some(expr), None),
            ast::SelectItem::Wildcard(options) | ast::SelectItem::QualifiedWildcard(_, options) => {
                (None, Some(options))
            }
            ast::SelectItem::ExprWithAliases { .. } => (None, None),
        };
        let replaced = options.and_then(|o| o.opt_replace.as_ref()).into_iter().flat_map(|replace| &replace.items);
        expr.into_iter().chain(replaced.map(|element| &element.expr))
    })
}
