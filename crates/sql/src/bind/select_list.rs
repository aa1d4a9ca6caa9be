//! The select list: stars become the columns that they stand for, and every item gets its name.
//!
//! `* EXCEPT (a, b)` (or EXCLUDE) leaves columns out, `* REPLACE (expression AS a)` puts another value in the place of one.
//! [`expand`] does that before anything else is bound, so GROUP BY can count items and find their names.

use super::expression::Binder;
use super::place::{error, from_parser, name_parts, span_of, span_of_path, suggestion, unsupported};
use super::scope::{Scope, Starred, unique_names};
use millstream_plan::expr::{Expr, Span};
use millstream_types::{Diagnostic, code};
use sqlparser::ast;

/// An expression of the select list and its name.
pub(super) type Item = (Expr, String);

/// What an item of the select list is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Selected<'a> {
    /// An expression as it is written.
    Written(&'a ast::Expr),
    /// A column that a star stands for.
    Column(Expr),
}

/// Binds the items of a select list.
pub(super) fn select_list(binder: &mut Binder<'_>, items: &[ast::SelectItem]) -> Result<Vec<Item>, Diagnostic> {
    let expanded = expand(binder, items)?;
    let bind = |(selected, name): (Selected<'_>, String)| {
        let expr = match selected {
            Selected::Written(expr) => binder.bind(expr)?,
            Selected::Column(column) => column,
        };
        Ok((expr, name))
    };
    expanded.into_iter().map(bind).collect()
}

/// The items of a select list with their names.
pub(super) fn expand<'a>(
    binder: &mut Binder<'_>,
    items: &'a [ast::SelectItem],
) -> Result<Vec<(Selected<'a>, String)>, Diagnostic> {
    let mut list: Vec<(Selected<'_>, String)> = Vec::new();
    for item in items {
        match item {
            ast::SelectItem::UnnamedExpr(expr) => {
                let name = implied_name(expr).unwrap_or_else(|| format!("EXPR${}", list.len()));
                list.push((Selected::Written(expr), name));
            }
            ast::SelectItem::ExprWithAlias { expr, alias } => {
                list.push((Selected::Written(expr), alias.value.clone()));
            }
            ast::SelectItem::Wildcard(options) => {
                let span = from_parser(options.wildcard_token.0.span);
                if binder.scope.columns.is_empty() {
                    return Err(error(code::SYNTAX, span, "SELECT * needs a FROM").advise("add FROM and a table"));
                }
                add_starred(&mut list, with_options(binder.scope, binder.scope.star(span), options)?);
            }
            ast::SelectItem::QualifiedWildcard(kind, options) => {
                let starred = match kind {
                    ast::SelectItemQualifiedWildcardKind::ObjectName(name) => {
                        let parts = name_parts(name).ok_or_else(|| {
                            error(code::SYNTAX, span_of(item), "expected a table or a ROW before `.*`")
                        })?;
                        binder.scope.qualified_star(&parts)?
                    }
                    ast::SelectItemQualifiedWildcardKind::Expr(expr) => {
                        let row = binder.bind(expr)?;
                        binder.scope.row_star(&row)?
                    }
                };
                add_starred(&mut list, with_options(binder.scope, starred, options)?);
            }
            ast::SelectItem::ExprWithAliases { expr, .. } => {
                return Err(unsupported("several names for one expression", span_of(expr), "give it one name"));
            }
        }
    }
    match items.first().filter(|_| list.is_empty()) {
        Some(item) => {
            Err(error(code::SYNTAX, span_of(item), "EXCEPT leaves no column").advise("leave out fewer columns"))
        }
        None => Ok(list),
    }
}

/// Columns of a star get suffixes where their names are taken.
fn add_starred<'a>(list: &mut Vec<(Selected<'a>, String)>, starred: Vec<(Selected<'a>, String)>) {
    let taken = list.len();
    let names = list.iter().chain(&starred).map(|(_, name)| name.clone());
    // Names before the star stay as they are, so that two equal ones remain ambiguous.
    let unique = unique_names(names).split_off(taken);
    list.extend(starred.into_iter().zip(unique).map(|((selected, _), name)| (selected, name)));
}

/// The columns of a star without those of EXCEPT and EXCLUDE, and with the values of REPLACE.
fn with_options<'a>(
    scope: &Scope,
    mut starred: Vec<Starred>,
    options: &'a ast::WildcardAdditionalOptions,
) -> Result<Vec<(Selected<'a>, String)>, Diagnostic> {
    let all: Vec<String> = starred.iter().map(|(_, name)| name.clone()).collect();
    let excluded = excluded(options)?;
    for (i, path) in excluded.iter().enumerate() {
        let last = path.last().expect("a name has a part");
        if excluded[..i].iter().any(|other| values(other).eq(values(path))) {
            let message = format!("EXCEPT names `{}` twice", last.value);
            return Err(error(code::SYNTAX, span_of_path(path), message).advise("name each column once"));
        }
        let before = starred.len();
        match path.as_slice() {
            [name] => starred.retain(|(_, known)| *known != name.value),
            _ => {
                let column = scope.resolve(path)?.kind;
                starred.retain(|(known, _)| known.kind != column);
            }
        }
        if starred.len() == before {
            return Err(not_starred(last, "EXCEPT", &all));
        }
    }
    let mut list: Vec<(Selected<'a>, String)> =
        starred.into_iter().map(|(column, name)| (Selected::Column(column), name)).collect();
    let replacements = options.opt_replace.iter().flat_map(|replace| &replace.items);
    for replacement in replacements {
        let name = &replacement.column_name;
        let places: Vec<usize> = (0..list.len()).filter(|&i| list[i].1 == name.value).collect();
        let is_written = |place: &usize| matches!(list[*place].0, Selected::Written(_));
        let wrong = |message: String| error(code::SYNTAX, from_parser(name.span), message);
        if places.is_empty() && all.contains(&name.value) {
            return Err(wrong(format!("`{}` is in EXCEPT and in REPLACE", name.value)).advise("keep one of them"));
        }
        if places.is_empty() {
            return Err(not_starred(name, "REPLACE", &all));
        }
        if places.iter().any(is_written) {
            return Err(wrong(format!("REPLACE names `{}` twice", name.value)).advise("name each column once"));
        }
        for place in places {
            list[place].0 = Selected::Written(&replacement.expr);
        }
    }
    Ok(list)
}

/// The paths of EXCEPT and EXCLUDE.
fn excluded(options: &ast::WildcardAdditionalOptions) -> Result<Vec<Vec<ast::Ident>>, Diagnostic> {
    let mut paths = vec![];
    if let Some(except) = &options.opt_except {
        let names = std::iter::once(&except.first_element).chain(&except.additional_elements);
        paths.extend(names.map(|name| vec![name.clone()]));
    }
    let names = match &options.opt_exclude {
        None => &[],
        Some(ast::ExcludeSelectItem::Single(name)) => std::slice::from_ref(name),
        Some(ast::ExcludeSelectItem::Multiple(names)) => names.as_slice(),
    };
    for name in names {
        let wrong = || error(code::SYNTAX, span_of(name), "EXCLUDE takes names of columns");
        paths.push(name_parts(name).ok_or_else(wrong)?);
    }
    Ok(paths)
}

fn values(path: &[ast::Ident]) -> impl Iterator<Item = &str> {
    path.iter().map(|part| part.value.as_str())
}

/// The star has no such column.
fn not_starred(name: &ast::Ident, clause: &str, all: &[String]) -> Diagnostic {
    let message = format!("{clause} names `{}`, which is not a column of `*`", name.value);
    let span: Span = from_parser(name.span);
    let advice = suggestion(&name.value, all.iter().map(String::as_str), "columns");
    error(code::UNKNOWN_COLUMN, span, message).advise(advice)
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
