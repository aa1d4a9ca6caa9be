//! UNNEST: a row for each element of an ARRAY or MAP of the row before it.

use super::super::expression::Binder;
use super::super::place::{error, span_of, type_name, unsupported};
use super::super::query::QueryBinder;
use super::super::relation::rename;
use super::super::scope::Column;
use super::super::select::nothing;
use super::conditions::split_conjuncts;
use super::tree::{Tree, Unnest};
use millstream_plan::expr::Span;
use millstream_plan::logical::JoinKind;
use millstream_types::{DataType, Diagnostic, Field, code};
use sqlparser::ast;

/// `UNNEST(collection) [WITH ORDINALITY] [AS t[(a, …)]]`.
pub(super) struct Operands<'a> {
    collection: &'a ast::Expr,
    ordinality: bool,
    alias: Option<&'a ast::TableAlias>,
    place: Span,
}

impl<'a> Operands<'a> {
    /// The operands of a table factor that is an UNNEST.
    pub fn of(factor: &'a ast::TableFactor) -> Result<Option<Operands<'a>>, Diagnostic> {
        let (name, arguments, ordinality, alias) = match factor {
            ast::TableFactor::Table { name, args: Some(arguments), with_ordinality, alias, .. } => {
                (name, arguments.args.as_slice(), *with_ordinality, alias)
            }
            ast::TableFactor::Function { name, args, with_ordinality, alias, .. } => {
                (name, args.as_slice(), *with_ordinality, alias)
            }
            ast::TableFactor::TableFunction { expr: ast::Expr::Function(function), alias } => {
                let ast::FunctionArguments::List(list) = &function.args else { return Ok(None) };
                (&function.name, list.args.as_slice(), false, alias)
            }
            _ => return Ok(None),
        };
        if !name.to_string().eq_ignore_ascii_case("UNNEST") {
            return Ok(None);
        }
        let place = span_of(name);
        match arguments {
            [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(collection))] => {
                Ok(Some(Operands { collection, ordinality, alias: alias.as_ref(), place }))
            }
            _ => Err(error(code::TYPE_MISMATCH, place, "UNNEST takes one ARRAY or MAP")
                .advise("write CROSS JOIN UNNEST(t.items) AS u(item)")),
        }
    }
}

impl QueryBinder<'_> {
    /// `left JOIN UNNEST(…) condition`.
    pub(super) fn unnest_join(
        &mut self,
        left: Tree,
        operands: &Operands<'_>,
        kind: JoinKind,
        constraint: &ast::JoinConstraint,
        place: Span,
    ) -> Result<Tree, Diagnostic> {
        let outer = match kind {
            JoinKind::Inner => false,
            JoinKind::Left => true,
            _ => return Err(unsupported("RIGHT or FULL JOIN UNNEST", place, "use CROSS JOIN or LEFT JOIN … ON TRUE")),
        };
        let tree = self.unnest(Some(left), operands, outer)?;
        let mut conjuncts = vec![];
        match constraint {
            ast::JoinConstraint::None => {}
            ast::JoinConstraint::On(condition) => {
                let scope = self.scope(tree.columns());
                split_conjuncts(Binder::scalar(&scope, "ON").condition(condition, "ON")?, &mut conjuncts);
            }
            _ => return Err(unsupported("USING or NATURAL with UNNEST", place, "filter with WHERE instead")),
        }
        if outer && !conjuncts.is_empty() {
            let advice = "write LEFT JOIN UNNEST(…) ON TRUE";
            return Err(unsupported("LEFT JOIN UNNEST with a condition", place, advice));
        }
        Ok(tree.filter(conjuncts))
    }

    /// The rows of `left`, one without columns if there is none, with their elements.
    pub(super) fn unnest(
        &mut self,
        left: Option<Tree>,
        operands: &Operands<'_>,
        outer: bool,
    ) -> Result<Tree, Diagnostic> {
        let input = left.unwrap_or_else(|| Tree::leaf(nothing()));
        let scope = self.scope(input.columns());
        let collection = Binder::scalar(&scope, "UNNEST").bind(operands.collection)?;
        let field = |name: &str, data_type: &DataType| Field::new(name, data_type.clone(), true);
        let mut fields = match &collection.data_type {
            DataType::Array(element) => match &**element {
                DataType::Row(fields) => fields.iter().map(|f| field(&f.name, &f.data_type)).collect(),
                scalar => vec![field("EXPR$0", scalar)],
            },
            DataType::Map(key, value) => vec![field("KEY", key), field("VALUE", value)],
            other => {
                let message = format!("UNNEST needs an ARRAY or MAP, not {}", type_name(other));
                return Err(error(code::TYPE_MISMATCH, collection.span, message).advise("name a column that is one"));
            }
        };
        // As in Flink, an alias of the table also names a single column.
        if let (Some(alias), [only]) = (operands.alias, fields.as_mut_slice())
            && alias.columns.is_empty()
        {
            only.name.clone_from(&alias.name.value);
        }
        if operands.ordinality {
            fields.push(Field::new("ORDINALITY", DataType::Int, outer));
        }
        let mut elements: Vec<Column> = fields.into_iter().map(Column::plain).collect();
        if let Some(alias) = operands.alias {
            rename(&mut elements, alias)?;
        }
        let ordinality = operands.ordinality;
        if elements.is_empty() {
            return Err(error(code::TYPE_MISMATCH, operands.place, "the elements have no fields"));
        }
        Ok(Tree::Unnest(Box::new(Unnest { input, collection, outer, ordinality, elements })))
    }
}
