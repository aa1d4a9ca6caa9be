//! The conditions of one join, sorted, and the relation of the rows that meet.

use super::super::coercion::{common_type, convert};
use super::super::relation::Relation;
use super::super::scope::{Attribute, Column};
use super::conditions::{Side, conjunction};
use millstream_plan::expr::{ArithmeticOp, CompareOp, Expr, ExprKind};
use millstream_plan::logical::{JoinKind, JoinStrategy, Rel};
use millstream_types::{DataType, Value};

/// `left = right`, each over the columns of its own input.
#[derive(Debug, Clone)]
pub(super) struct Equality {
    pub left: Expr,
    pub right: Expr,
}

/// The conditions of a join, sorted.
#[derive(Debug, Clone)]
pub(super) struct Pairing {
    pub equalities: Vec<Equality>,
    /// Everything else, over the columns of the left, then those of the right.
    pub rest: Vec<Expr>,
}

impl Pairing {
    /// Sorts conditions over `width` left columns and the right ones after them.
    pub fn new(conjuncts: Vec<Expr>, width: usize) -> Pairing {
        let mut pairing = Pairing { equalities: vec![], rest: vec![] };
        for conjunct in conjuncts {
            match equality(&conjunct, width) {
                Some(equality) => {
                    // As keys NaN equals itself, in SQL nothing does.
                    if equality.left.data_type.is_floating() {
                        pairing.rest.push(conjunct);
                    }
                    pairing.equalities.push(equality);
                }
                None => pairing.rest.push(conjunct),
            }
        }
        pairing
    }

    /// The same conditions with the sides exchanged.
    pub fn swapped(self, left: usize, right: usize) -> Pairing {
        let map = |i: usize| if i < left { i + right } else { i - left };
        let swap = |e: Equality| Equality { left: e.right, right: e.left };
        Pairing {
            equalities: self.equalities.into_iter().map(swap).collect(),
            rest: self.rest.into_iter().map(|e| e.renumbered(map)).collect(),
        }
    }

    /// `Rel::Join`'s keys and residual. A join without keys gets a constant one, so that all its rows meet.
    fn into_parts(self) -> (Vec<(Expr, Expr)>, Option<Expr>) {
        let mut keys: Vec<(Expr, Expr)> = self.equalities.into_iter().map(|e| (e.left, e.right)).collect();
        if keys.is_empty() {
            let constant = Expr::literal(Value::Int(0), DataType::Int);
            keys.push((constant.clone(), constant));
        }
        (keys, conjunction(self.rest))
    }
}

fn equality(conjunct: &Expr, width: usize) -> Option<Equality> {
    let ExprKind::Compare(CompareOp::Equal, a, b) = &conjunct.kind else { return None };
    let (left, right) = match (Side::of(a, width), Side::of(b, width)) {
        (Side::Left, Side::Right) => (a, b),
        (Side::Right, Side::Left) => (b, a),
        _ => return None,
    };
    let data_type = common_type(&left.data_type, &right.data_type)?;
    let key = |e: Expr| zero_without_sign(convert(e, &data_type));
    let right = (**right).clone().renumbered(|i| i - width);
    Some(Equality { left: key((**left).clone()), right: key(right) })
}

/// As keys 0.0 and -0.0 differ, in SQL they do not: adding zero makes them one.
fn zero_without_sign(key: Expr) -> Expr {
    if !key.data_type.is_floating() {
        return key;
    }
    let (span, zero) = (key.span, Expr::literal(Value::Float(0.0), key.data_type.clone()));
    Expr::arithmetic(ArithmeticOp::Add, key, zero).at(span)
}

/// Appends the columns of the right where the kind shows them.
pub(super) fn joined_columns(left: Vec<Column>, right: Vec<Column>, kind: JoinKind) -> Vec<Column> {
    let (mut columns, mut right) = (left, right);
    if kind.shows_right() {
        make_optional(&mut columns, kind.left_is_optional());
        make_optional(&mut right, kind.right_is_optional());
        columns.append(&mut right);
    }
    columns
}

/// The relation of the rows that meet.
pub(super) fn joined(
    left: Relation,
    right: Relation,
    kind: JoinKind,
    strategy: JoinStrategy,
    pairing: Pairing,
) -> Relation {
    let (keys, residual) = pairing.into_parts();
    let rel = Rel::Join { left: Box::new(left.rel), right: Box::new(right.rel), kind, strategy, keys, residual };
    Relation { rel, columns: joined_columns(left.columns, right.columns, kind) }
}

/// What rows without a partner do to the columns of their side: they are NULL, and so no time any more.
fn make_optional(columns: &mut [Column], optional: bool) {
    if optional {
        for column in columns {
            column.field.nullable = true;
            column.attribute = Attribute::None;
        }
    }
}
