//! FROM: comma lists, JOIN with ON, USING and NATURAL.

use super::super::expression::Binder;
use super::super::operators;
use super::super::place::{error, from_parser, span_of};
use super::super::query::QueryBinder;
use super::super::relation::rename;
use super::super::scope::{Column, Scope};
use super::conditions::split_conjuncts;
use super::strategy::AsOf;
use super::tree::{Join, Tree};
use millstream_plan::expr::{CompareOp, Expr, ExprKind, Span};
use millstream_plan::logical::JoinKind;
use millstream_types::{Diagnostic, Field, code};
use sqlparser::ast::{self, JoinOperator};

/// Tables that one FROM may join: the tree of the joins is walked recursively.
const MAX_TABLES: usize = 100;

impl QueryBinder<'_> {
    /// FROM; `None` without one.
    pub(in super::super) fn from(&mut self, from: &[ast::TableWithJoins]) -> Result<Option<Tree>, Diagnostic> {
        let tables = from.iter().map(|item| 1 + item.joins.len()).sum::<usize>();
        if tables > MAX_TABLES
            && let Some(first) = from.first()
        {
            let message = format!("FROM joins {tables} tables; at most {MAX_TABLES} are possible");
            return Err(error(code::UNSUPPORTED, span_of(first), message).advise("join some of them in a view"));
        }
        match from.first() {
            Some(first) if tables > 1 => self.stacked(tables - 1, span_of(first), |binder| binder.tables(from)),
            _ => self.tables(from),
        }
    }

    fn tables(&mut self, from: &[ast::TableWithJoins]) -> Result<Option<Tree>, Diagnostic> {
        let mut tree = None;
        for item in from {
            tree = Some(match tree {
                None => self.joined(item)?,
                // UNNEST sees the tables before it.
                Some(left) => match super::unnest::Operands::of(&item.relation)? {
                    Some(operands) => {
                        let tree = self.unnest(Some(left), &operands, false)?;
                        self.joins(tree, &item.joins)?
                    }
                    None => {
                        let right = self.joined(item)?;
                        let (kind, place) = (JoinKind::Inner, span_of(&item.relation));
                        Tree::Join(Box::new(Join { left, right, kind, conjuncts: vec![], as_of: None, place }))
                    }
                },
            });
        }
        Ok(tree)
    }

    fn joined(&mut self, tables: &ast::TableWithJoins) -> Result<Tree, Diagnostic> {
        let first = self.factor(&tables.relation)?;
        self.joins(first, &tables.joins)
    }

    fn joins(&mut self, mut tree: Tree, joins: &[ast::Join]) -> Result<Tree, Diagnostic> {
        for join in joins {
            tree = self.join(tree, join)?;
        }
        Ok(tree)
    }

    fn factor(&mut self, factor: &ast::TableFactor) -> Result<Tree, Diagnostic> {
        if let Some(operands) = super::unnest::Operands::of(factor)? {
            return self.unnest(None, &operands, false);
        }
        match factor {
            ast::TableFactor::NestedJoin { table_with_joins, alias } => {
                let tree = self.joined(table_with_joins)?;
                match alias {
                    Some(alias) => with_alias(tree, alias),
                    None => Ok(tree),
                }
            }
            other => Ok(Tree::leaf(self.table_factor(other, false)?)),
        }
    }

    fn join(&mut self, left: Tree, join: &ast::Join) -> Result<Tree, Diagnostic> {
        let place = span_of(join);
        let (kind, constraint) = kind_of(&join.join_operator, place)?;
        if let Some(operands) = super::unnest::Operands::of(&join.relation)? {
            return self.unnest_join(left, &operands, kind, constraint, place);
        }
        let version = match &join.relation {
            ast::TableFactor::Table { version, .. } => version.as_ref(),
            _ => None,
        };
        let as_of = version.map(|version| self.as_of(&left, version, place)).transpose()?;
        let right = match as_of {
            Some(_) => Tree::leaf(self.table_factor(&join.relation, true)?),
            None => self.factor(&join.relation)?,
        };
        let (left_columns, right_columns) = (left.columns(), right.columns());
        let mut tree = Join { left, right, kind, conjuncts: vec![], as_of, place };
        let using = match constraint {
            ast::JoinConstraint::On(condition) => {
                let scope = self.scope(left_columns.iter().chain(&right_columns).cloned().collect());
                let condition = Binder::scalar(&scope, "ON").condition(condition, "ON")?;
                split_conjuncts(condition, &mut tree.conjuncts);
                return Ok(Tree::Join(Box::new(tree)));
            }
            ast::JoinConstraint::None if matches!(join.join_operator, JoinOperator::CrossJoin(_)) => {
                return Ok(Tree::Join(Box::new(tree)));
            }
            ast::JoinConstraint::None => {
                let message = "JOIN needs a condition: ON, USING or NATURAL";
                return Err(error(code::SYNTAX, place, message)
                    .advise("write ON a.x = b.y with columns of the two; CROSS JOIN, for all pairs, takes none"));
            }
            ast::JoinConstraint::Using(names) => {
                let ident = |name: &ast::ObjectName| match name.0.as_slice() {
                    [ast::ObjectNamePart::Identifier(name)] => Ok(name.clone()),
                    _ => Err(error(code::SYNTAX, span_of(name), "USING takes plain names of columns")),
                };
                names.iter().map(ident).collect::<Result<Vec<_>, _>>()?
            }
            ast::JoinConstraint::Natural => common_names(&left_columns, &right_columns, place),
        };
        merge(tree, &left_columns, &right_columns, &using)
    }

    /// `FOR SYSTEM_TIME AS OF`: a time attribute of the left.
    fn as_of(&self, left: &Tree, version: &ast::TableVersion, place: Span) -> Result<AsOf, Diagnostic> {
        let ast::TableVersion::ForSystemTimeAsOf(time) = version else {
            return Err(error(code::SYNTAX, place, "Flink SQL has no other version than FOR SYSTEM_TIME AS OF"));
        };
        let scope = self.scope(left.columns());
        let bound = Binder::scalar(&scope, "FOR SYSTEM_TIME AS OF").bind(time)?;
        let attribute = scope.attribute(&bound);
        if attribute.is_event_time() {
            return Ok(AsOf::EventTime(bound));
        }
        if attribute.is_time() || bound.kind == ExprKind::ProcessingTime {
            return Ok(AsOf::Processing);
        }
        let message = "FOR SYSTEM_TIME AS OF needs a time attribute of the left table";
        Err(error(code::INVALID_WINDOW, bound.span, message)
            .advise("name a column that is PROCTIME() or has the WATERMARK"))
    }
}

/// What a join does with rows without partner, and its condition.
fn kind_of(operator: &JoinOperator, place: Span) -> Result<(JoinKind, &ast::JoinConstraint), Diagnostic> {
    Ok(match operator {
        JoinOperator::Join(c) | JoinOperator::Inner(c) | JoinOperator::CrossJoin(c) => (JoinKind::Inner, c),
        JoinOperator::Left(c) | JoinOperator::LeftOuter(c) => (JoinKind::Left, c),
        JoinOperator::Right(c) | JoinOperator::RightOuter(c) => (JoinKind::Right, c),
        JoinOperator::FullOuter(c) => (JoinKind::Full, c),
        JoinOperator::Semi(_) | JoinOperator::LeftSemi(_) | JoinOperator::RightSemi(_) => {
            return Err(error(code::SYNTAX, place, "Flink SQL has no SEMI JOIN").advise("write WHERE … IN (SELECT …)"));
        }
        JoinOperator::Anti(_) | JoinOperator::LeftAnti(_) | JoinOperator::RightAnti(_) => {
            return Err(error(code::SYNTAX, place, "Flink SQL has no ANTI JOIN").advise("write WHERE NOT EXISTS (…)"));
        }
        _ => {
            return Err(error(code::SYNTAX, place, "Flink SQL has no join of this kind")
                .advise("INNER, LEFT, RIGHT, FULL and CROSS JOIN are there"));
        }
    })
}

/// Names of visible columns that both sides have, for NATURAL.
fn common_names(left: &[Column], right: &[Column], place: Span) -> Vec<ast::Ident> {
    let visible = |columns: &[Column], name: &str| columns.iter().any(|c| !c.hidden && c.field.name == name);
    let mut names: Vec<&str> = vec![];
    for column in left.iter().filter(|c| !c.hidden) {
        let name = column.field.name.as_str();
        if visible(right, name) && !names.contains(&name) {
            names.push(name);
        }
    }
    let start = sqlparser::tokenizer::Location::new(place.line.into(), place.column.into());
    let span = sqlparser::tokenizer::Span::new(start, start);
    names.into_iter().map(|name| ast::Ident::with_quote_and_span('`', span, name)).collect()
}

/// A join by equal columns, which stand once, before the others; the originals have only their qualified names.
fn merge(mut join: Join, left: &[Column], right: &[Column], names: &[ast::Ident]) -> Result<Tree, Diagnostic> {
    let scopes = (Scope::of(left.to_vec()), Scope::of(right.to_vec()));
    let width = left.len();
    let mut pairs = vec![];
    for name in names {
        let span = from_parser(name.span);
        let l = scopes.0.resolve(std::slice::from_ref(name))?;
        let r = scopes.1.resolve(std::slice::from_ref(name))?.renumbered(|i| i + width);
        if let (ExprKind::Column(l), ExprKind::Column(r)) = (&l.kind, &r.kind) {
            pairs.push((*l, *r, &name.value));
        }
        join.conjuncts.push(operators::compare(CompareOp::Equal, l, r, span)?);
    }
    let kind = join.kind;
    let tree = Tree::Join(Box::new(join));
    let columns = tree.columns();
    let scope = Scope::of(columns.clone());
    let mut outputs = vec![];
    for &(l, r, name) in &pairs {
        let (l, r) = (scope.column(l, Span::default()), scope.column(r, Span::default()));
        let value = match kind {
            JoinKind::Right => r,
            JoinKind::Full => first_present(l, r)?,
            _ => l,
        };
        let field = Field::new(name, value.data_type.clone(), value.nullable);
        outputs.push((value, Column::plain(field)));
    }
    for (i, column) in columns.into_iter().enumerate() {
        let merged = pairs.iter().any(|&(l, r, _)| l == i || r == i);
        outputs.push((scope.column(i, Span::default()), Column { hidden: column.hidden || merged, ..column }));
    }
    Ok(Tree::Project(Box::new(tree), outputs))
}

/// `COALESCE(left, right)`
fn first_present(left: Expr, right: Expr) -> Result<Expr, Diagnostic> {
    let present = operators::boolean(ExprKind::IsNotNull(Box::new(left.clone())), Span::default());
    operators::case(vec![(present, left)], right, Span::default())
}

/// The columns of a parenthesized join that has an alias.
fn with_alias(tree: Tree, alias: &ast::TableAlias) -> Result<Tree, Diagnostic> {
    let columns = tree.columns();
    let scope = Scope::of(columns.clone());
    let visible: Vec<usize> = (0..columns.len()).filter(|&i| !columns[i].hidden).collect();
    let mut renamed: Vec<Column> = visible.iter().map(|&i| columns[i].clone()).collect();
    rename(&mut renamed, alias)?;
    let outputs = visible.into_iter().map(|i| scope.column(i, Span::default())).zip(renamed).collect();
    Ok(Tree::Project(Box::new(tree), outputs))
}
