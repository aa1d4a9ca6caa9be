//! SELECT: its clauses, from FROM to DISTINCT.

use super::aggregate_list::AggregateList;
use super::expression::Binder;
use super::extent::Extent;
use super::group::Grouping;
use super::group_keys::SelectedItems;
use super::grouping_sets::has_sets;
use super::hints::StateTtl;
use super::join::{Tree, Values, are_aggregated, written};
use super::order_by::{Ordered, keys_of_select};
use super::over;
use super::over_list::OverList;
use super::place::{error, from_parser, span_of};
use super::query::QueryBinder;
use super::rank;
use super::relation::Relation;
use super::scope::{Column, Scope, unique_names};
use super::select_list::{Item, select_list};
use millstream_plan::expr::{Expr, Span};
use millstream_plan::logical::Rel;
use millstream_types::{Diagnostic, Schema, code};
use sqlparser::ast;

impl QueryBinder<'_> {
    /// Binds a SELECT.
    pub(super) fn select(&mut self, select: &ast::Select) -> Result<Relation, Diagnostic> {
        Ok(self.ordered_select(select, &[])?.relation)
    }

    /// Binds a SELECT and what its rows are ordered by.
    pub(super) fn ordered_select(
        &mut self,
        select: &ast::Select,
        order: &[ast::OrderByExpr],
    ) -> Result<Ordered, Diagnostic> {
        check_clauses(select)?;
        let around = std::mem::replace(&mut self.state_ttl, StateTtl::of(select)?);
        let ordered = self.select_under_hint(select, order);
        self.state_ttl = around;
        ordered
    }

    fn select_under_hint(&mut self, select: &ast::Select, order: &[ast::OrderByExpr]) -> Result<Ordered, Diagnostic> {
        let tree = self.from(&select.from)?;
        let has_from = tree.is_some();
        self.state_ttl.check(&tree.as_ref().map(Tree::columns).unwrap_or_default(), select)?;
        let tree = tree.unwrap_or_else(|| Tree::leaf(nothing()));
        let (tree, _) =
            self.conditions(tree, select.selection.as_ref(), &[]).map_err(|failure| alias_in_where(failure, select))?;
        let mut input = tree.build(self)?;
        let clauses = select.having.iter().chain(&select.qualify);
        let values = self.values_of(written(&select.projection).chain(clauses))?;
        let width = input.columns.len();
        let mut scope = self.scope(std::mem::take(&mut input.columns));
        values.enter(&mut scope);
        // Keys are NULL in the sets that lack them.
        let as_they_are = has_sets(&select.group_by).then(|| scope.columns.clone());
        if as_they_are.is_some() {
            scope.columns.iter_mut().for_each(|c| c.field.nullable = true);
        }
        let grouping = Grouping::bind(&scope, &select.group_by, SelectedItems::of(select))?;
        let mut list = AggregateList {
            group_of_nothing: grouping.is_global(),
            group_window: grouping.group_window().cloned(),
            overs: OverList::new(&select.named_window),
            values: width..width + values.len(),
            state_ttl_ms: self.state_ttl.of_columns(&scope.columns[..width]),
            ..AggregateList::default()
        };
        let mut binder = Binder { scope: &scope, aggregates: Some(&mut list), clause: "SELECT" };
        let mut items = select_list(&mut binder, &select.projection)?;
        let (visible, distinct) = (items.len(), distinct_of(select)?);
        let keys = keys_of_select(order, &mut items, distinct.is_some(), &mut binder)?;
        binder.clause = "HAVING";
        let having = select.having.as_ref().map(|h| binder.condition(h, "HAVING")).transpose()?;
        let qualify = select.qualify.as_ref().map(|q| qualify(&scope, &mut list, &items[..visible], q)).transpose()?;
        input.columns = as_they_are.unwrap_or(scope.columns);
        input.columns.truncate(width);
        let is_aggregate = grouping.explicit || having.is_some() || !list.is_empty();
        if !is_aggregate || are_aggregated(&list, grouping.keys()) {
            input = values.join(input);
        }
        let output = if is_aggregate {
            let place = group_place(select);
            self.aggregate(input, grouping, list, Output { items, having, qualify, values }, place)?
        } else if has_from || select.selection.is_some() || !list.overs.is_empty() || !values.is_empty() {
            let extent = self.extent(&input.rel);
            over_and_project(input, list.overs, items, qualify, extent)?
        } else {
            constant_row(items)
        };
        let relation = match distinct {
            Some(span) => self.distinct(output, span)?,
            None => output,
        };
        Ok(Ordered { relation, keys, visible })
    }

    fn aggregate(
        &self,
        input: Relation,
        grouping: Grouping,
        mut list: AggregateList,
        output: Output,
        place: Span,
    ) -> Result<Relation, Diagnostic> {
        let (mut expressions, names): (Vec<Expr>, Vec<String>) = output.items.into_iter().unzip();
        let (has_having, has_qualify) = (output.having.is_some(), output.qualify.is_some());
        let mut overs = std::mem::take(&mut list.overs);
        expressions.extend(overs.expressions());
        expressions.extend(output.qualify);
        expressions.extend(output.having);
        let extent = self.extent(&input.rel);
        let (groups, expressions) = grouping.aggregate(input, &list, expressions, extent, place)?;
        let (mut relation, mut expressions) = output.values.join_groups(groups, expressions);
        if has_having && let Some(predicate) = expressions.pop() {
            relation.rel = Rel::Filter { input: Box::new(relation.rel), predicate };
        }
        let qualify = if has_qualify { expressions.pop() } else { None };
        overs.replace_expressions(expressions.split_off(names.len()));
        over_and_project(relation, overs, expressions.into_iter().zip(names).collect(), qualify, extent)
    }
}

/// What a SELECT computes from the rows of its input or from their groups, and which rows it keeps.
struct Output {
    items: Vec<Item>,
    having: Option<Expr>,
    qualify: Option<Expr>,
    /// Subqueries that these use.
    values: Values,
}

/// Binds QUALIFY, which may use names of the select list.
fn qualify(scope: &Scope, list: &mut AggregateList, items: &[Item], condition: &ast::Expr) -> Result<Expr, Diagnostic> {
    list.selected = items.to_vec();
    let bound = Binder { scope, aggregates: Some(list), clause: "QUALIFY" }.condition(condition, "QUALIFY")?;
    if list.overs.is_empty() {
        return Err(error(code::SYNTAX, span_of(condition), "QUALIFY is for results of OVER, and there is none here")
            .advise("write WHERE, or HAVING for results of aggregate functions"));
    }
    Ok(bound)
}

/// The input of a SELECT without FROM: one row without meaning.
pub(super) fn nothing() -> Relation {
    Relation { rel: Rel::Values { schema: Schema::default(), rows: vec![vec![]] }, columns: vec![] }
}

/// The rows of `SELECT 1, 'a'`.
fn constant_row(items: Vec<Item>) -> Relation {
    let names = unique_names(items.iter().map(|(_, name)| name.clone()));
    let columns = items.iter().map(|(e, name)| Column::plain(e.field(name))).collect();
    let schema = Schema::new(items.iter().zip(names).map(|((e, _), name)| e.field(name)).collect());
    let row = items.into_iter().map(|(e, _)| e).collect();
    Relation { rel: Rel::Values { schema, rows: vec![row] }, columns }
}

/// The select list over its input with the columns of OVER, for the rows that QUALIFY keeps.
fn over_and_project(
    input: Relation,
    overs: OverList,
    items: Vec<Item>,
    qualify: Option<Expr>,
    extent: Extent,
) -> Result<Relation, Diagnostic> {
    let (mut expressions, names): (Vec<Expr>, Vec<String>) = items.into_iter().unzip();
    expressions.extend(qualify);
    let (mut relation, mut expressions) = over::apply(overs, input, expressions, extent)?;
    let predicate = expressions.split_off(names.len()).pop();
    if let Some(predicate) = predicate.and_then(|predicate| rank::absorb(&mut relation.rel, predicate)) {
        relation.rel = Rel::Filter { input: Box::new(relation.rel), predicate };
    }
    Ok(relation.select(expressions.into_iter().zip(names)))
}

/// Where a grouping stands: GROUP BY, else the first expression of the select list.
fn group_place(select: &ast::Select) -> Span {
    let group_by = span_of(&select.group_by);
    if group_by != Span::default() {
        return group_by;
    }
    select.projection.first().map(span_of).unwrap_or_default()
}

/// A name of the select list in WHERE, which comes before it.
fn alias_in_where(failure: Diagnostic, select: &ast::Select) -> Diagnostic {
    let named = select.projection.iter().find_map(|item| match item {
        ast::SelectItem::ExprWithAlias { expr, alias }
            if failure.message == format!("unknown column `{}`", alias.value) =>
        {
            Some((expr, &alias.value))
        }
        _ => None,
    });
    match named {
        Some((expr, alias)) if failure.code == code::UNKNOWN_COLUMN => {
            failure.advise(format!("WHERE comes before SELECT, which names `{alias}`: write ({expr}) instead"))
        }
        _ => failure,
    }
}

/// The place of DISTINCT, if it is there.
fn distinct_of(select: &ast::Select) -> Result<Option<Span>, Diagnostic> {
    let span = from_parser(select.select_token.0.span);
    match &select.distinct {
        None | Some(ast::Distinct::All) => Ok(None),
        Some(ast::Distinct::Distinct) => Ok(Some(span)),
        Some(ast::Distinct::On(_)) => Err(error(code::SYNTAX, span, "Flink SQL has no DISTINCT ON")
            .advise("rank the rows of each key, and take the first: SELECT * FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY x) = 1")),
    }
}

/// Fails on clauses that Flink does not have, or that are not there yet.
pub(super) fn check_clauses(select: &ast::Select) -> Result<(), Diagnostic> {
    let span = from_parser(select.select_token.0.span);
    let foreign = [
        ("TOP", select.top.is_some(), "write LIMIT at the end: SELECT * FROM t LIMIT 10"),
        ("EXCLUDE", select.exclude.is_some(), "write SELECT * EXCEPT (a) FROM t"),
        (
            "INTO",
            select.into.is_some(),
            "write CREATE TABLE new_table WITH ('connector' = …) AS SELECT …, or INSERT INTO t SELECT …",
        ),
        ("LATERAL VIEW", !select.lateral_views.is_empty(), "write FROM t CROSS JOIN UNNEST(SPLIT(t.x, ' ')) AS u (w)"),
        ("PREWHERE", select.prewhere.is_some(), "write WHERE"),
        ("CONNECT BY", !select.connect_by.is_empty(), "join the table with itself once for each level"),
        ("CLUSTER BY", !select.cluster_by.is_empty(), "leave it out: rows go to their workers by themselves"),
        ("DISTRIBUTE BY", !select.distribute_by.is_empty(), "leave it out: rows go to their workers by themselves"),
        ("SORT BY", !select.sort_by.is_empty(), "write ORDER BY"),
        ("AS STRUCT / VALUE", select.value_table_mode.is_some(), "write SELECT ROW(a, b)"),
        ("FROM without SELECT", select.flavor != ast::SelectFlavor::Standard, "write SELECT * FROM t"),
    ];
    match foreign.iter().find(|(_, present, _)| *present) {
        Some((clause, _, cure)) => {
            Err(error(code::SYNTAX, span, format!("Flink SQL has no SELECT … {clause}")).advise(*cure))
        }
        None => Ok(()),
    }
}
