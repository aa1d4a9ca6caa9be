//! Queries: WITH, set operations, VALUES.

use super::aggregate_list::AggregateList;
use super::coercion::{common_type, convert};
use super::expression::Binder;
use super::extent::Extent;
use super::group::Grouping;
use super::hints::StateTtl;
use super::order_by::{Slice, Standing, in_order, order_of, ordered};
use super::place::{error, from_parser, span_of, unsupported};
use super::relation::{Relation, rename, union_all};
use super::scope::{Column, Scope};
use crate::catalog::{Catalog, CatalogEntry, View};
use crate::settings::{BindSettings, ResultMode, RuntimeMode};
use millstream_plan::beat::BeatClock;
use millstream_plan::common::Common;
use millstream_plan::expr::Span;
use millstream_plan::logical::Rel;
use millstream_types::{DataType, Diagnostic, Field, Schema, code, counted};
use sqlparser::ast;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// Most operators of a statement: planning takes time and memory for each.
const MAX_OPERATORS: usize = 50_000;
/// A view or a query of WITH with at most this many operators is copied for each place that names it. Each copy is
/// planned with what is around it. Larger ones are shared.
const MAX_COPIED: usize = 500;
/// No more copies are made once a statement has this many operators.
const MAX_COPIED_IN_ALL: usize = 20_000;
/// Operators on top of each other: planning is recursive, and so is the way of a watermark.
const MAX_DEPTH: usize = 2_000;
/// Joins and set operations within each other: each is an operator on top of those within, but for the queries of one UNION.
const MAX_STACKED: usize = 300;
/// Views may stand within views this deep.
const MAX_VIEW_DEPTH: usize = 32;

/// A query of a WITH clause, or a view.
struct Named {
    columns: Vec<Column>,
    /// What places have copies of.
    copied: Arc<Common>,
    /// What places share.
    shared: OnceCell<Arc<Common>>,
}

impl Named {
    fn new(Relation { rel, columns }: Relation) -> Named {
        Named { columns, copied: Common::copied(rel), shared: OnceCell::new() }
    }

    /// The relation for a place that names it: a copy if `copied`, else the shared one.
    fn relation(&self, copied: bool) -> Relation {
        let common = match copied {
            true => &self.copied,
            false => self.shared.get_or_init(|| Common::new(self.copied.rel().clone())),
        };
        Relation { rel: Rel::Common(Arc::clone(common)), columns: self.columns.clone() }
    }
}

fn too_large(message: String, span: Span) -> Diagnostic {
    let advice = "write a part of it to a separate table (INSERT INTO), and query that";
    error(code::QUERY_TOO_LARGE, span, message).advise(advice)
}

/// Binds the queries of one statement.
pub(crate) struct QueryBinder<'a> {
    /// Tables and views.
    pub catalog: &'a Catalog,
    /// Settings of the session.
    pub settings: &'a BindSettings,
    /// Whether only the last state of a result with an end is shown.
    is_shown: bool,
    /// Names and queries of the WITH clauses around the current place, the innermost last.
    common: Vec<(String, Named)>,
    /// Views that the statement has named.
    views: Rc<RefCell<HashMap<String, Rc<Named>>>>,
    /// The table that was looked for last and is not there.
    unknown: Rc<RefCell<Option<String>>>,
    /// Operators of the statement so far, with those of each copy of a query that is named.
    operators: Rc<Cell<usize>>,
    /// How many views the current place is in.
    pub(super) view_depth: usize,
    /// How many joins and set operations the current place is in.
    stacked: usize,
    /// How many subqueries of WHERE the current place is in.
    pub(super) subquery_depth: usize,
    /// The hint of the SELECT that the current place is in.
    pub(super) state_ttl: StateTtl,
}

impl<'a> QueryBinder<'a> {
    /// A binder without any WITH clause.
    pub fn new(catalog: &'a Catalog, settings: &'a BindSettings) -> QueryBinder<'a> {
        let (views, unknown, operators) = (Rc::default(), Rc::default(), Rc::default());
        let (view_depth, stacked, subquery_depth) = (0, 0, 0);
        QueryBinder {
            catalog,
            settings,
            is_shown: false,
            common: vec![],
            views,
            unknown,
            operators,
            view_depth,
            stacked,
            subquery_depth,
            state_ttl: StateTtl::default(),
        }
    }

    /// The same for a query whose rows are shown.
    pub fn of_shown(catalog: &'a Catalog, settings: &'a BindSettings) -> QueryBinder<'a> {
        QueryBinder { is_shown: settings.result_mode != ResultMode::Changelog, ..QueryBinder::new(catalog, settings) }
    }

    /// The table or view of a name.
    pub fn named(&self, name: &[ast::Ident]) -> Result<CatalogEntry, Diagnostic> {
        self.catalog.lookup(name).inspect_err(|_| {
            if let [single] = name {
                *self.unknown.borrow_mut() = Some(single.value.clone());
            }
        })
    }

    /// The plain name of a table or view that binding has failed for, because there is none.
    pub fn into_unknown(self) -> Option<String> {
        self.unknown.take()
    }

    /// The query of a view.
    pub fn view(&self, view: &View, span: Span) -> Result<Relation, Diagnostic> {
        let known = self.views.borrow().get(&view.name).cloned();
        let named = match known {
            Some(named) => named,
            None => {
                let mut binder = self.for_view(&view.name, span)?;
                if let Some(scope) = &view.scope {
                    // Its views are others, though they may have the same names.
                    binder = QueryBinder { catalog: scope, views: Rc::default(), ..binder };
                }
                let bound = binder.query(&view.definition.query, false)?;
                let named = Rc::new(Named::new(bound));
                self.views.borrow_mut().insert(view.name.clone(), Rc::clone(&named));
                named
            }
        };
        self.place(&named, span)
    }

    /// A binder for the query of a view, which sees nothing of the query around it.
    fn for_view(&self, name: &str, span: Span) -> Result<QueryBinder<'a>, Diagnostic> {
        if self.view_depth >= MAX_VIEW_DEPTH {
            let message =
                format!("view `{name}` refers to itself, or views are nested more than {MAX_VIEW_DEPTH} deep");
            return Err(error(code::UNSUPPORTED, span, message).advise("define the view over tables"));
        }
        let (views, unknown, operators) = (self.views.clone(), self.unknown.clone(), self.operators.clone());
        Ok(QueryBinder {
            common: vec![],
            views,
            unknown,
            operators,
            view_depth: self.view_depth + 1,
            state_ttl: StateTtl::default(),
            ..*self
        })
    }

    /// Whether a relation ends by itself: all tables that it reads do.
    pub fn is_bounded(&self, rel: &Rel) -> bool {
        self.settings.runtime_mode == RuntimeMode::Batch
            || rel.tables().iter().all(|table| self.catalog.is_bounded(table))
    }

    /// What is known of the end of a relation.
    pub fn extent(&self, rel: &Rel) -> Extent {
        if self.settings.beat == BeatClock::End && self.is_bounded(rel) {
            return Extent::Whole;
        }
        match (self.is_bounded(rel), self.settings.runtime_mode) {
            (true, RuntimeMode::Streaming) if self.is_shown => Extent::Shown,
            (true, RuntimeMode::Streaming) => Extent::Streamed,
            (true, RuntimeMode::Batch | RuntimeMode::Automatic) => Extent::Whole,
            (false, _) => Extent::Endless,
        }
    }

    /// Whether all rows of a relation are one window.
    pub fn is_one_window(&self, rel: &Rel) -> bool {
        self.extent(rel) == Extent::Whole
    }

    /// The columns and SQL functions that expressions can use.
    pub fn scope(&self, columns: Vec<Column>) -> Scope {
        Scope { columns, functions: self.catalog.functions().clone(), values: vec![] }
    }

    /// The query of a WITH clause of this name, if there is one.
    pub fn common_table(&self, name: &str, span: Span) -> Option<Result<Relation, Diagnostic>> {
        let (_, named) = self.common.iter().rev().find(|(known, _)| known == name)?;
        Some(self.place(named, span))
    }

    /// What a place gets that names a query: a copy, unless that or the statement is large.
    fn place(&self, named: &Named, span: Span) -> Result<Relation, Diagnostic> {
        let (operators, depth) = (named.copied.operators(), named.copied.depth());
        if depth > MAX_DEPTH {
            return Err(too_large(format!("{depth} operators stand on top of each other"), span));
        }
        let copied = operators <= MAX_COPIED && self.operators.get() + operators <= MAX_COPIED_IN_ALL;
        if copied {
            self.count(operators, span)?;
        }
        Ok(named.relation(copied))
    }

    /// Counts operators of the statement.
    fn count(&self, operators: usize, span: Span) -> Result<(), Diagnostic> {
        self.operators.set(self.operators.get() + operators);
        if self.operators.get() <= MAX_OPERATORS {
            return Ok(());
        }
        Err(too_large(format!("the query has more than {MAX_OPERATORS} operators"), span))
    }

    /// Binds a query: one at the top of the statement, or another.
    pub fn query(&mut self, query: &ast::Query, is_top: bool) -> Result<Relation, Diagnostic> {
        self.query_at(query, if is_top { Standing::Top } else { Standing::Within })
    }

    fn query_at(&mut self, query: &ast::Query, standing: Standing) -> Result<Relation, Diagnostic> {
        let outer = self.common.len();
        let bound = self.query_within(query, standing);
        self.common.truncate(outer);
        bound
    }

    fn query_within(&mut self, query: &ast::Query, standing: Standing) -> Result<Relation, Diagnostic> {
        if let Some(with) = &query.with {
            self.with(with)?;
        }
        let (slice, order) = (Slice::of(query)?, order_of(query)?);
        let other = [
            ("FOR UPDATE", !query.locks.is_empty()),
            ("FOR XML / JSON", query.for_clause.is_some()),
            ("SETTINGS", query.settings.is_some()),
            ("FORMAT", query.format_clause.is_some()),
            ("|>", !query.pipe_operators.is_empty()),
        ];
        if let Some((clause, _)) = other.iter().find(|(_, present)| *present) {
            return Err(error(code::SYNTAX, span_of(query), format!("Flink SQL has no {clause}")));
        }
        let bound = match &*query.body {
            ast::SetExpr::Select(select) => {
                self.count(1, span_of(&*query.body))?;
                self.ordered_select(select, order)?
            }
            body => {
                let inner = match (slice, order) {
                    (None, []) => standing,
                    (Some(_), []) => Standing::Sliced,
                    _ => Standing::Within,
                };
                let relation = self.body(body, inner)?;
                ordered(order, relation)?
            }
        };
        let extent = self.extent(&bound.relation.rel);
        in_order(bound, slice, order, standing, extent)
    }

    fn with(&mut self, with: &ast::With) -> Result<(), Diagnostic> {
        if with.recursive {
            let span = from_parser(with.with_token.0.span);
            return Err(unsupported(
                "WITH RECURSIVE",
                span,
                "join once for each step, and UNION ALL the steps; numbers in a row come from a table: 'connector' = 'datagen', 'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '5'",
            ));
        }
        for table in &with.cte_tables {
            let mut relation = self.query(&table.query, false)?;
            rename(&mut relation.columns, &table.alias)?;
            self.common.push((table.alias.name.value.clone(), Named::new(relation)));
        }
        Ok(())
    }

    fn body(&mut self, body: &ast::SetExpr, standing: Standing) -> Result<Relation, Diagnostic> {
        self.count(1, span_of(body))?;
        match body {
            ast::SetExpr::Select(select) => self.select(select),
            ast::SetExpr::Query(query) => self.query_at(query, standing),
            ast::SetExpr::Values(values) => self.values(values, span_of(body)),
            ast::SetExpr::SetOperation { op, set_quantifier, .. } => self.set_operation(body, *op, *set_quantifier),
            other => Err(unsupported("this kind of query", span_of(other), "write SELECT … FROM …")),
        }
    }

    fn set_operation(
        &mut self,
        body: &ast::SetExpr,
        op: ast::SetOperator,
        quantifier: ast::SetQuantifier,
    ) -> Result<Relation, Diagnostic> {
        let span = span_of(body);
        if op != ast::SetOperator::Union {
            return Err(unsupported(&op.to_string(), span, &set_cure(body, op)));
        }
        let distinct = match quantifier {
            ast::SetQuantifier::All => false,
            ast::SetQuantifier::None | ast::SetQuantifier::Distinct => true,
            other => return Err(error(code::SYNTAX, span, format!("Flink SQL has no UNION {other}"))),
        };
        // A long UNION is left-deep: walk its spine in a loop.
        let mut parts = Vec::new();
        let mut first = body;
        while let ast::SetExpr::SetOperation { left, op: inner, set_quantifier, right } = first
            && *inner == op
            && *set_quantifier == quantifier
        {
            parts.push(&**right);
            first = left;
        }
        let parts = std::iter::once(first).chain(parts.into_iter().rev());
        let relations = self.stacked(1, span, |binder| {
            parts.map(|part| binder.body(part, Standing::Within)).collect::<Result<Vec<_>, _>>()
        })?;
        let union = union_all(relations, span)?;
        if distinct { self.distinct(union, span) } else { Ok(union) }
    }

    /// Binds what `operators` joins and set operations are over.
    pub(super) fn stacked<T>(
        &mut self,
        operators: usize,
        span: Span,
        bind: impl FnOnce(&mut Self) -> Result<T, Diagnostic>,
    ) -> Result<T, Diagnostic> {
        if self.stacked + operators > MAX_STACKED {
            let message = format!("more than {MAX_STACKED} joins and set operations are within each other");
            return Err(too_large(message, span));
        }
        self.stacked += operators;
        let bound = bind(self);
        self.stacked -= operators;
        bound
    }

    /// Each row once: an aggregation without aggregates.
    pub(crate) fn distinct(&self, input: Relation, span: Span) -> Result<Relation, Diagnostic> {
        let scope = Scope::of(input.columns.clone());
        let outputs = scope.star(span);
        let expressions = outputs.into_iter().map(|(e, _)| e).collect();
        let grouping = Grouping::distinct(&scope);
        let names: Vec<String> = input.columns.iter().map(|column| column.field.name.clone()).collect();
        let extent = self.extent(&input.rel);
        let (aggregated, expressions) =
            grouping.aggregate(input, &AggregateList::default(), expressions, extent, span)?;
        Ok(aggregated.select(expressions.into_iter().zip(names)))
    }

    fn values(&mut self, values: &ast::Values, span: Span) -> Result<Relation, Diagnostic> {
        let scope = self.scope(vec![]);
        let value = |e: &ast::Expr| Binder::scalar(&scope, "VALUES").bind(unwrapped_row(e));
        let row = |row: &ast::Parens<Vec<ast::Expr>>| row.content.iter().map(value).collect::<Result<Vec<_>, _>>();
        let mut rows = values.rows.iter().map(row).collect::<Result<Vec<_>, _>>()?;
        let width = rows.first().map_or(0, Vec::len);
        if let Some(other) = rows.iter().find(|r| r.len() != width) {
            let place = other.first().map_or(span, |e| e.span);
            let message = format!("the rows of VALUES have {width} and {}", counted(other.len(), "column"));
            return Err(error(code::TYPE_MISMATCH, place, message).advise("give all rows the same number of columns"));
        }
        let mut fields = Vec::new();
        for i in 0..width {
            let mut common = DataType::Null;
            for row in &rows {
                common = common_type(&common, &row[i].data_type).ok_or_else(|| {
                    let message = format!("column {} of VALUES has {common} and {}", i + 1, row[i].data_type);
                    error(code::TYPE_MISMATCH, row[i].span, message).advise("cast the values to one type")
                })?;
            }
            fields.push(Field::new(format!("EXPR${i}"), common, false));
        }
        for row in &mut rows {
            for (value, field) in row.iter_mut().zip(&mut fields) {
                *value = convert(value.take(), &field.data_type);
                field.nullable |= value.nullable;
            }
        }
        let columns = fields.iter().cloned().map(Column::plain).collect();
        Ok(Relation { rel: Rel::Values { schema: Schema::new(fields), rows }, columns })
    }
}

/// What to write instead of `left EXCEPT right` or `left INTERSECT right`.
fn set_cure(body: &ast::SetExpr, op: ast::SetOperator) -> String {
    let membership = if op == ast::SetOperator::Intersect { "IN" } else { "NOT IN" };
    if let ast::SetExpr::SetOperation { left, right, .. } = body
        && let ast::SetExpr::Select(select) = &**left
        && let [ast::SelectItem::UnnamedExpr(column)] = select.projection.as_slice()
    {
        let and = if select.selection.is_some() { "AND" } else { "WHERE" };
        return format!(
            "for bounded inputs write SELECT DISTINCT {} {and} {column} {membership} ({right})",
            select.to_string().trim_start_matches("SELECT ")
        );
    }
    format!("for bounded inputs write SELECT DISTINCT a, b FROM t WHERE (a, b) {membership} (SELECT a, b FROM u)")
}

/// `ROW(1)` of one value within VALUES is that value.
fn unwrapped_row(expr: &ast::Expr) -> &ast::Expr {
    match expr {
        ast::Expr::Nested(inner) => unwrapped_row(inner),
        other => other,
    }
}
