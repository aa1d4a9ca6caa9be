//! SELECT: the select list, WHERE, GROUP BY, HAVING, DISTINCT.

use super::aggregate_list::AggregateList;
use super::expression::Binder;
use super::extent::Extent;
use super::group::Grouping;
use super::grouping_sets::has_sets;
use super::join::Tree;
use super::order_by::{Ordered, keys_of_select};
use super::over;
use super::over_list::OverList;
use super::place::{error, from_parser, name_parts, span_of, unsupported};
use super::query::QueryBinder;
use super::relation::Relation;
use super::scope::{Column, unique_names};
use millstream_plan::expr::{Expr, Span};
use millstream_plan::logical::Rel;
use millstream_types::{Diagnostic, Schema, code};
use sqlparser::ast;

/// An expression of the select list and its name.
type Item = (Expr, String);

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
        let tree = self.from(&select.from)?;
        let has_from = tree.is_some();
        let tree = tree.unwrap_or_else(|| Tree::leaf(nothing()));
        let (tree, _) = self.conditions(tree, select.selection.as_ref(), &[])?;
        let mut input = tree.build(self)?;
        let mut scope = self.scope(std::mem::take(&mut input.columns));
        // Keys are NULL in the sets that lack them.
        let as_they_are = has_sets(&select.group_by).then(|| scope.columns.clone());
        if as_they_are.is_some() {
            scope.columns.iter_mut().for_each(|c| c.field.nullable = true);
        }
        let grouping = Grouping::bind(&scope, &select.group_by, &aliases(select))?;
        let mut list = AggregateList {
            group_of_nothing: grouping.is_global(),
            group_window: grouping.group_window().cloned(),
            overs: OverList::new(&select.named_window),
            ..AggregateList::default()
        };
        let mut binder = Binder { scope: &scope, aggregates: Some(&mut list), clause: "SELECT" };
        let mut items = select_list(&mut binder, &select.projection)?;
        let (visible, distinct) = (items.len(), distinct_of(select)?);
        let keys = keys_of_select(order, &mut items, distinct.is_some(), &mut binder)?;
        binder.clause = "HAVING";
        let having = select.having.as_ref().map(|h| binder.condition(h, "HAVING")).transpose()?;
        input.columns = as_they_are.unwrap_or(scope.columns);
        let is_aggregate = grouping.explicit || having.is_some() || !list.is_empty();
        let output = if is_aggregate {
            let place = group_place(select);
            self.aggregate(input, grouping, list, items, having, place)?
        } else if has_from || select.selection.is_some() || !list.overs.is_empty() {
            let extent = self.extent(&input.rel);
            over_and_project(input, list.overs, items, extent)?
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
        items: Vec<Item>,
        having: Option<Expr>,
        place: Span,
    ) -> Result<Relation, Diagnostic> {
        let (mut expressions, names): (Vec<Expr>, Vec<String>) = items.into_iter().unzip();
        let has_having = having.is_some();
        let mut overs = std::mem::take(&mut list.overs);
        expressions.extend(overs.expressions());
        expressions.extend(having);
        let extent = self.extent(&input.rel);
        let (mut relation, mut expressions) = grouping.aggregate(input, &list, expressions, extent, place)?;
        if has_having && let Some(predicate) = expressions.pop() {
            relation.rel = Rel::Filter { input: Box::new(relation.rel), predicate };
        }
        overs.replace_expressions(expressions.split_off(names.len()));
        over_and_project(relation, overs, expressions.into_iter().zip(names).collect(), extent)
    }
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

/// The select list over its input with the columns of OVER.
fn over_and_project(
    input: Relation,
    overs: OverList,
    items: Vec<Item>,
    extent: Extent,
) -> Result<Relation, Diagnostic> {
    let (expressions, names): (Vec<Expr>, Vec<String>) = items.into_iter().unzip();
    let (relation, expressions) = over::apply(overs, input, expressions, extent)?;
    Ok(relation.select(expressions.into_iter().zip(names)))
}

pub(super) fn select_list(binder: &mut Binder<'_>, items: &[ast::SelectItem]) -> Result<Vec<Item>, Diagnostic> {
    let mut list: Vec<Item> = Vec::new();
    for item in items {
        match item {
            ast::SelectItem::UnnamedExpr(expr) => {
                let name = implied_name(expr).unwrap_or_else(|| format!("EXPR${}", list.len()));
                list.push((binder.bind(expr)?, name));
            }
            ast::SelectItem::ExprWithAlias { expr, alias } => list.push((binder.bind(expr)?, alias.value.clone())),
            ast::SelectItem::Wildcard(options) => {
                let span = from_parser(options.wildcard_token.0.span);
                check_star(options, span)?;
                if binder.scope.columns.is_empty() {
                    return Err(error(code::SYNTAX, span, "SELECT * needs a FROM").advise("add FROM and a table"));
                }
                add_starred(&mut list, binder.scope.star(span));
            }
            ast::SelectItem::QualifiedWildcard(kind, options) => {
                let span = span_of(item);
                check_star(options, span)?;
                let starred = match kind {
                    ast::SelectItemQualifiedWildcardKind::ObjectName(name) => {
                        let parts = name_parts(name)
                            .ok_or_else(|| error(code::SYNTAX, span, "expected a table or a ROW before `.*`"))?;
                        binder.scope.qualified_star(&parts)?
                    }
                    ast::SelectItemQualifiedWildcardKind::Expr(expr) => {
                        let row = binder.bind(expr)?;
                        binder.scope.row_star(&row)?
                    }
                };
                add_starred(&mut list, starred);
            }
            ast::SelectItem::ExprWithAliases { expr, .. } => {
                return Err(unsupported("several names for one expression", span_of(expr), "give it one name"));
            }
        }
    }
    Ok(list)
}

/// Columns of a star get suffixes where their names are taken.
fn add_starred(list: &mut Vec<Item>, starred: Vec<Item>) {
    let taken = list.len();
    let names = list.iter().chain(&starred).map(|(_, name)| name.clone());
    // Names before the star stay as they are, so that two equal ones remain ambiguous.
    let unique = unique_names(names).split_off(taken);
    list.extend(starred.into_iter().zip(unique).map(|((expr, _), name)| (expr, name)));
}

fn check_star(options: &ast::WildcardAdditionalOptions, span: Span) -> Result<(), Diagnostic> {
    // The place of the star does not count.
    if *options == ast::WildcardAdditionalOptions::default() {
        return Ok(());
    }
    Err(error(code::SYNTAX, span, "Flink SQL has no options after *").advise("name the columns"))
}

/// The name of a column that is selected as it is: the last part of its path.
fn implied_name(expr: &ast::Expr) -> Option<String> {
    match expr {
        ast::Expr::Identifier(name) => Some(name.value.clone()),
        ast::Expr::CompoundIdentifier(path) => path.last().map(|p| p.value.clone()),
        ast::Expr::Nested(inner) => implied_name(inner),
        ast::Expr::CompoundFieldAccess { access_chain, .. } => match access_chain.last() {
            Some(ast::AccessExpr::Dot(ast::Expr::Identifier(name))) => Some(name.value.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// The names that the select list gives with AS.
fn aliases(select: &ast::Select) -> Vec<&str> {
    fn alias(item: &ast::SelectItem) -> Option<&str> {
        match item {
            ast::SelectItem::ExprWithAlias { alias, .. } => Some(&alias.value),
            _ => None,
        }
    }
    select.projection.iter().filter_map(alias).collect()
}

/// Where a grouping stands: GROUP BY, else the first expression of the select list.
fn group_place(select: &ast::Select) -> Span {
    let group_by = span_of(&select.group_by);
    if group_by != Span::default() {
        return group_by;
    }
    select.projection.first().map(span_of).unwrap_or_default()
}

/// The place of DISTINCT, if it is there.
fn distinct_of(select: &ast::Select) -> Result<Option<Span>, Diagnostic> {
    let span = from_parser(select.select_token.0.span);
    match &select.distinct {
        None | Some(ast::Distinct::All) => Ok(None),
        Some(ast::Distinct::Distinct) => Ok(Some(span)),
        Some(ast::Distinct::On(_)) => Err(error(code::SYNTAX, span, "Flink SQL has no DISTINCT ON")),
    }
}

/// Fails on clauses that Flink does not have, or that are not there yet.
pub(super) fn check_clauses(select: &ast::Select) -> Result<(), Diagnostic> {
    if let Some(qualify) = &select.qualify {
        return Err(unsupported("QUALIFY", span_of(qualify), "filter in a query around this one"));
    }
    let span = from_parser(select.select_token.0.span);
    let foreign = [
        ("TOP", select.top.is_some()),
        ("EXCLUDE", select.exclude.is_some()),
        ("INTO", select.into.is_some()),
        ("LATERAL VIEW", !select.lateral_views.is_empty()),
        ("PREWHERE", select.prewhere.is_some()),
        ("CONNECT BY", !select.connect_by.is_empty()),
        ("CLUSTER BY", !select.cluster_by.is_empty()),
        ("DISTRIBUTE BY", !select.distribute_by.is_empty()),
        ("SORT BY", !select.sort_by.is_empty()),
        ("AS STRUCT / VALUE", select.value_table_mode.is_some()),
        ("FROM without SELECT", select.flavor != ast::SelectFlavor::Standard),
    ];
    match foreign.iter().find(|(_, present)| *present) {
        Some((clause, _)) => Err(error(code::SYNTAX, span, format!("Flink SQL has no SELECT … {clause}"))),
        None => Ok(()),
    }
}
