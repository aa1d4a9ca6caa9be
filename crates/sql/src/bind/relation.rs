//! Bound relations, with what their columns are called and mean.

use super::coercion::{common_type, convert};
use super::place::{error, from_parser};
use super::scope::{Attribute, Column, Scope, attribute_of, unique_names};
use millstream_plan::expr::{Expr, Span};
use millstream_plan::logical::Rel;
use millstream_types::{Diagnostic, code, counted};
use sqlparser::ast;
use std::sync::Arc;

/// A bound relation and what its columns are called and mean.
#[derive(Debug, Clone)]
pub(crate) struct Relation {
    /// The relation.
    pub rel: Rel,
    /// Its columns, in order. The names are those of the query; the relation's are made unique.
    pub columns: Vec<Column>,
}

impl Relation {
    /// A projection of `self`.
    pub fn project(self, outputs: Vec<(Expr, Column)>) -> Relation {
        let names = unique_names(outputs.iter().map(|(_, c)| c.field.name.clone()));
        let (expressions, columns): (Vec<Expr>, Vec<Column>) = outputs.into_iter().unzip();
        let projection = expressions.into_iter().zip(names).collect();
        Relation { rel: Rel::Project { input: Box::new(self.rel), columns: projection }, columns }
    }

    /// A projection of `self` to expressions with names; plain columns keep their role in time.
    pub fn select(self, items: impl IntoIterator<Item = (Expr, String)>) -> Relation {
        let output = |(expr, name): (Expr, String)| {
            let column = Column { attribute: attribute_of(&self.columns, &expr), ..Column::plain(expr.field(name)) };
            (expr, column)
        };
        let outputs = items.into_iter().map(output).collect();
        self.project(outputs)
    }

    /// A projection of `self` to its first columns.
    pub fn first_columns(self, count: usize) -> Relation {
        if self.columns.len() == count {
            return self;
        }
        let scope = Scope::of(self.columns.clone());
        let outputs = (0..count).map(|i| (scope.column(i, Span::default()), self.columns[i].clone())).collect();
        self.project(outputs)
    }

    /// Rows come behind all times, or come again: no column is one any more.
    pub fn forget_times(&mut self) {
        self.columns.iter_mut().for_each(|column| column.attribute = Attribute::None);
    }

    /// An operator over a relation of these columns, with the columns that it adds behind them.
    pub fn with_added(rel: Rel, mut columns: Vec<Column>) -> Relation {
        let added = rel.schema().fields.split_off(columns.len());
        columns.extend(added.into_iter().map(Column::plain));
        Relation { rel, columns }
    }
}

/// Renames columns by an alias, `t` or `t(a, b)`.
pub(crate) fn rename(columns: &mut [Column], alias: &ast::TableAlias) -> Result<(), Diagnostic> {
    let qualifier: Arc<[String]> = [alias.name.value.clone()].into();
    for column in columns.iter_mut() {
        column.qualifier = Arc::clone(&qualifier);
    }
    if alias.columns.is_empty() {
        return Ok(());
    }
    if alias.columns.len() != columns.len() {
        let (given, found) = (alias.columns.len(), columns.len());
        let message = format!("`{}` names {}, but there are {found}", alias.name.value, counted(given, "column"));
        return Err(
            error(code::TYPE_MISMATCH, from_parser(alias.name.span), message).advise("name all columns or none")
        );
    }
    for (column, name) in columns.iter_mut().zip(&alias.columns) {
        column.field.name.clone_from(&name.name.value);
    }
    Ok(())
}

/// The rows of all inputs, whose columns get the types that all of them fit.
pub(super) fn union_all(inputs: Vec<Relation>, span: Span) -> Result<Relation, Diagnostic> {
    let mut columns: Vec<Column> = inputs[0].columns.clone();
    columns.iter_mut().for_each(|c| c.qualifier = Arc::default());
    for (position, input) in inputs.iter().enumerate().skip(1) {
        if input.columns.len() != columns.len() {
            let message = format!(
                "query {} of UNION has {}, the first has {}",
                position + 1,
                counted(input.columns.len(), "column"),
                columns.len()
            );
            return Err(error(code::TYPE_MISMATCH, span, message).advise("select the same columns in all queries"));
        }
        for (column, other) in columns.iter_mut().zip(&input.columns) {
            let (left, right) = (&column.field.data_type, &other.field.data_type);
            column.field.data_type = common_type(left, right).ok_or_else(|| {
                let message = format!("column `{}` of UNION is {left} and {right}", column.field.name);
                error(code::TYPE_MISMATCH, span, message).advise("cast one of them to the type of the other")
            })?;
            column.field.nullable |= other.field.nullable;
            column.attribute = common_attribute(&column.attribute, &other.attribute);
        }
    }
    let inputs = inputs.into_iter().map(|input| with_types(input, &columns).rel).collect();
    Ok(Relation { rel: Rel::Union { inputs }, columns })
}

fn common_attribute(left: &Attribute, right: &Attribute) -> Attribute {
    match (left, right) {
        _ if left == right => left.clone(),
        _ if left.is_event_time() && right.is_event_time() => Attribute::Rowtime,
        _ => Attribute::None,
    }
}

/// The relation with its columns cast to the types of `columns`.
fn with_types(input: Relation, columns: &[Column]) -> Relation {
    if input.columns.iter().zip(columns).all(|(c, to)| c.field.data_type == to.field.data_type) {
        return input;
    }
    let scope = Scope::of(input.columns.clone());
    let outputs = columns.iter().enumerate().map(|(i, to)| {
        let expr = convert(scope.column(i, Span::default()), &to.field.data_type);
        (expr, to.clone())
    });
    let outputs = outputs.collect();
    input.project(outputs)
}
