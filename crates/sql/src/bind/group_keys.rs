//! What GROUP BY says of the select list.
//!
//! | element | keys |
//! | --- | --- |
//! | `1` | the first item |
//! | a name that no column of the input has | the item of that name |
//! | `ALL` | every item that is made of columns, without aggregate functions and OVER |

use super::aggregate_list::AggregateList;
use super::expression::Binder;
use super::markers::MARK;
use super::over_list::OverList;
use super::place::{error, from_parser, span_of};
use super::scope::Scope;
use super::select_list::{Selected, expand, select_list};
use millstream_plan::expr::{Expr, ExprKind, Span};
use millstream_types::{Diagnostic, code, counted};
use sqlparser::ast;

/// The select list, as GROUP BY may refer to it.
#[derive(Debug, Clone, Copy)]
pub(super) struct SelectedItems<'a> {
    items: &'a [ast::SelectItem],
    windows: &'a [ast::NamedWindowDefinition],
}

impl<'a> SelectedItems<'a> {
    /// The select list of a SELECT.
    pub fn of(select: &'a ast::Select) -> SelectedItems<'a> {
        SelectedItems { items: &select.projection, windows: &select.named_window }
    }

    /// What an element of GROUP BY means.
    pub fn key(&self, scope: &Scope, element: &'a ast::Expr) -> Result<Selected<'a>, Diagnostic> {
        match element {
            ast::Expr::Value(ast::ValueWithSpan { value: ast::Value::Number(number, _), .. }) => {
                self.numbered(scope, number, span_of(element))
            }
            ast::Expr::Identifier(name) => match scope.resolve(std::slice::from_ref(name)) {
                Err(e) if e.code == code::UNKNOWN_COLUMN => {
                    Ok(self.named(scope, name)?.unwrap_or(Selected::Written(element)))
                }
                _ => Ok(Selected::Written(element)),
            },
            _ => Ok(Selected::Written(element)),
        }
    }

    /// The item of a number.
    fn numbered(&self, scope: &Scope, number: &str, span: Span) -> Result<Selected<'a>, Diagnostic> {
        let mut items = self.expanded(scope)?;
        let (count, index) = (items.len(), number.parse::<usize>().ok().and_then(|n| n.checked_sub(1)));
        match index.filter(|&index| index < count) {
            Some(index) => Ok(items.swap_remove(index).0),
            None => {
                let message = format!("GROUP BY {number}, but the select list has {}", counted(count, "column"));
                Err(error(code::UNKNOWN_COLUMN, span, message).advise(format!("use a number from 1 to {count}")))
            }
        }
    }

    /// The item of a name, if there is one.
    fn named(&self, scope: &Scope, name: &ast::Ident) -> Result<Option<Selected<'a>>, Diagnostic> {
        let items = self.expanded(scope)?;
        let mut of_name = items.into_iter().filter(|(_, known)| *known == name.value).map(|(item, _)| item);
        let Some(first) = of_name.next() else { return Ok(None) };
        if of_name.any(|other| other != first) {
            let message = format!("SELECT gives the name `{}` more than once", name.value);
            return Err(error(code::AMBIGUOUS_COLUMN, from_parser(name.span), message)
                .advise("give the columns different names, or use their numbers"));
        }
        Ok(Some(first))
    }

    fn expanded(&self, scope: &Scope) -> Result<Vec<(Selected<'a>, String)>, Diagnostic> {
        expand(&mut Binder::scalar(scope, "SELECT"), self.items)
    }

    /// The keys of GROUP BY ALL.
    pub fn all(&self, scope: &Scope) -> Result<Vec<Expr>, Diagnostic> {
        let mut list = AggregateList { overs: OverList::new(self.windows), ..AggregateList::default() };
        let mut binder = Binder { scope, aggregates: Some(&mut list), clause: "SELECT" };
        let is_key = |expr: &Expr| {
            let (mut columns, mut markers) = (0, 0);
            expr.walk(&mut |e| match e.kind {
                ExprKind::Column(MARK..) => markers += 1,
                // A subquery as a value is the same for all rows.
                ExprKind::Column(i) if scope.values.iter().any(|&(_, value)| value == i) => {}
                ExprKind::Column(_) => columns += 1,
                _ => {}
            });
            columns > 0 && markers == 0
        };
        let items = select_list(&mut binder, self.items)?;
        Ok(items.into_iter().map(|(expr, _)| expr).filter(is_key).collect())
    }
}
