//! The tree of FROM, and where its conjuncts are evaluated.

use super::super::query::QueryBinder;
use super::super::rank;
use super::super::relation::Relation;
use super::super::scope::{Column, Scope};
use super::conditions::{Side, can_move, conjunction};
use super::nulls::kind_under;
use super::pairing::{Pairing, joined_columns};
use super::strategy::{self, AsOf};
use millstream_plan::expr::{Expr, Span};
use millstream_plan::logical::{JoinKind, Rel};
use millstream_types::{Diagnostic, Field};

/// What FROM and WHERE combine.
#[derive(Debug)]
pub(in super::super) enum Tree {
    /// A table, view, subquery or table function.
    Leaf(Box<Relation>),
    /// Rows of the input for which all conjuncts are TRUE.
    Filter(Box<Tree>, Vec<Expr>),
    /// New columns: those of USING, or of an alias of a whole join.
    Project(Box<Tree>, Vec<(Expr, Column)>),
    /// A join.
    Join(Box<Join>),
    /// `UNNEST`.
    Unnest(Box<Unnest>),
}

/// A join whose strategy is not chosen yet.
#[derive(Debug)]
pub(in super::super) struct Join {
    pub left: Tree,
    pub right: Tree,
    pub kind: JoinKind,
    /// Conditions over the columns of the left, then those of the right.
    pub conjuncts: Vec<Expr>,
    /// `FOR SYSTEM_TIME AS OF`.
    pub as_of: Option<AsOf>,
    /// Where the join stands.
    pub place: Span,
}

/// The elements of a collection of each row.
#[derive(Debug)]
pub(in super::super) struct Unnest {
    pub input: Tree,
    /// Over the input's columns.
    pub collection: Expr,
    pub outer: bool,
    pub ordinality: bool,
    /// The elements, and their position if asked for.
    pub elements: Vec<Column>,
}

impl Tree {
    /// A relation.
    pub fn leaf(relation: Relation) -> Tree {
        Tree::Leaf(Box::new(relation))
    }

    /// Number of columns.
    pub fn width(&self) -> usize {
        match self {
            Tree::Leaf(relation) => relation.columns.len(),
            Tree::Filter(input, _) => input.width(),
            Tree::Project(_, outputs) => outputs.len(),
            Tree::Join(join) if !join.kind.shows_right() => join.left.width(),
            Tree::Join(join) => join.left.width() + join.right.width(),
            Tree::Unnest(unnest) => unnest.input.width() + unnest.elements.len(),
        }
    }

    /// The columns. Their roles in time are those of the leaves: a join may lose them.
    pub fn columns(&self) -> Vec<Column> {
        match self {
            Tree::Leaf(relation) => relation.columns.clone(),
            Tree::Filter(input, _) => input.columns(),
            Tree::Project(_, outputs) => outputs.iter().map(|(_, column)| column.clone()).collect(),
            Tree::Join(join) => joined_columns(join.left.columns(), join.right.columns(), join.kind),
            Tree::Unnest(unnest) => {
                let mut columns = unnest.input.columns();
                columns.extend(unnest.elements.iter().cloned());
                columns
            }
        }
    }

    /// The rows for which all conjuncts are TRUE, tested as early as that gives the same rows.
    pub fn filter(self, conjuncts: Vec<Expr>) -> Tree {
        if conjuncts.is_empty() {
            return self;
        }
        match self {
            Tree::Leaf(_) => Tree::Filter(Box::new(self), conjuncts),
            Tree::Filter(input, mut earlier) => {
                earlier.extend(conjuncts);
                input.filter(earlier)
            }
            Tree::Project(input, outputs) => {
                let (movable, above): (Vec<Expr>, _) = conjuncts.into_iter().partition(can_move);
                let expressions: Vec<Expr> = outputs.iter().map(|(e, _)| e.clone()).collect();
                let below = movable.into_iter().map(|c| c.substitute(&expressions)).collect();
                Tree::Project(Box::new(input.filter(below)), outputs).above(above)
            }
            Tree::Join(join) => join.filter(conjuncts),
            Tree::Unnest(mut unnest) => {
                let width = unnest.input.width();
                let (below, above) = conjuncts
                    .into_iter()
                    .partition(|c| can_move(c) && matches!(Side::of(c, width), Side::Left | Side::Neither));
                unnest.input = unnest.input.filter(below);
                Tree::Unnest(unnest).above(above)
            }
        }
    }

    /// A filter on top of the tree.
    fn above(self, conjuncts: Vec<Expr>) -> Tree {
        if conjuncts.is_empty() { self } else { Tree::Filter(Box::new(self), conjuncts) }
    }

    /// Chooses the strategies of the joins.
    pub fn build(self, binder: &QueryBinder<'_>) -> Result<Relation, Diagnostic> {
        match self {
            Tree::Leaf(relation) => Ok(*relation),
            Tree::Filter(input, conjuncts) => {
                let mut relation = input.build(binder)?;
                let predicate = conjunction(conjuncts);
                if let Some(predicate) = predicate.and_then(|p| rank::absorb(&mut relation.rel, p)) {
                    relation.rel = Rel::Filter { input: Box::new(relation.rel), predicate };
                }
                Ok(relation)
            }
            Tree::Project(input, mut outputs) => {
                let input = input.build(binder)?;
                let scope = Scope::of(input.columns.clone());
                outputs.iter_mut().for_each(|(e, column)| column.attribute = scope.attribute(e));
                Ok(input.project(outputs))
            }
            Tree::Join(join) => join.build(binder),
            Tree::Unnest(unnest) => {
                let Unnest { input, collection, outer, ordinality, elements } = *unnest;
                let mut input = input.build(binder)?;
                let columns: Vec<Field> = elements.iter().map(|c| c.field.clone()).collect();
                let rel = Rel::Unnest { input: Box::new(input.rel), collection, outer, ordinality, columns };
                input.columns.extend(elements);
                Ok(Relation { rel, columns: input.columns })
            }
        }
    }
}

impl Join {
    /// WHERE over the rows of the join.
    fn filter(mut self: Box<Self>, conjuncts: Vec<Expr>) -> Tree {
        let width = self.left.width();
        self.kind = kind_under(self.kind, width, &conjuncts);
        let (mut left, mut right, mut above) = (vec![], vec![], vec![]);
        for conjunct in conjuncts {
            let side = Side::of(&conjunct, width);
            match (self.kind, side) {
                _ if !can_move(&conjunct) => above.push(conjunct),
                (JoinKind::Inner, _) => self.conjuncts.push(conjunct),
                (JoinKind::Left, Side::Left | Side::Neither) => left.push(conjunct),
                (JoinKind::Semi | JoinKind::Anti, _) => left.push(conjunct),
                (JoinKind::Right, Side::Right | Side::Neither) => right.push(conjunct),
                _ => above.push(conjunct),
            }
        }
        self.left = self.left.filter(left);
        self.right = self.right.filter(shifted(right, width));
        Tree::Join(self).above(above)
    }

    fn build(self, binder: &QueryBinder<'_>) -> Result<Relation, Diagnostic> {
        let width = self.left.width();
        let (mut left, mut right, mut both) = (vec![], vec![], vec![]);
        let has_versions = matches!(self.as_of, Some(AsOf::EventTime(_)));
        for conjunct in self.conjuncts {
            use JoinKind as K;
            match (Side::of(&conjunct, width), self.kind) {
                _ if !can_move(&conjunct) => both.push(conjunct),
                // No version may be missing when the one of a time is looked for.
                (Side::Right, _) | (Side::Neither, K::Left) if has_versions => both.push(conjunct),
                (Side::Left, K::Inner | K::Right | K::Semi) => left.push(conjunct),
                (Side::Right, K::Inner | K::Left | K::Semi | K::Anti) => right.push(conjunct),
                (Side::Neither, K::Inner | K::Right | K::Semi) => left.push(conjunct),
                (Side::Neither, K::Left | K::Anti) => right.push(conjunct),
                _ => both.push(conjunct),
            }
        }
        let left = self.left.filter(left).build(binder)?;
        let right = self.right.filter(shifted(right, width)).build(binder)?;
        let pairing = Pairing::new(both, left.columns.len());
        strategy::join(left, right, self.kind, pairing, self.as_of, binder, self.place)
    }
}

/// Conditions over the right columns alone, as a filter of the right input sees them.
fn shifted(conjuncts: Vec<Expr>, width: usize) -> Vec<Expr> {
    conjuncts.into_iter().map(|c| c.renumbered(|i| i.saturating_sub(width))).collect()
}
