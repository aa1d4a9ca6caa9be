//! Conditions of joins: their conjuncts, and which side of a join each of them needs.

use super::super::operators;
use millstream_plan::expr::{Expr, ExprKind, Span};
use millstream_types::Value;

/// Adds the operands of (nested) ANDs to `conjuncts`. TRUE says nothing.
pub(super) fn split_conjuncts(condition: Expr, conjuncts: &mut Vec<Expr>) {
    match condition.kind {
        ExprKind::And(operands) => operands.into_iter().for_each(|e| split_conjuncts(e, conjuncts)),
        ExprKind::Literal(Value::Boolean(true)) => {}
        ExprKind::Not(operand) => split_negated(*operand, condition.span, conjuncts),
        _ => conjuncts.push(condition),
    }
}

/// The same of `NOT operand`: so that a join sees a bound in `NOT a > b`, too.
fn split_negated(operand: Expr, span: Span, conjuncts: &mut Vec<Expr>) {
    match operand.kind {
        ExprKind::Or(operands) => operands.into_iter().for_each(|e| split_negated(e, span, conjuncts)),
        ExprKind::Not(inner) => split_conjuncts(*inner, conjuncts),
        // NaN is neither less than a number nor at least as great.
        ExprKind::Compare(op, a, b) if !a.data_type.is_floating() => {
            let kind = ExprKind::Compare(op.negated(), a, b);
            conjuncts.push(Expr::new(kind, operand.data_type, operand.nullable).at(span));
        }
        _ => conjuncts.push(operators::not(operand, span)),
    }
}

/// The conjunction of one or more conditions.
pub(super) fn conjunction(mut conjuncts: Vec<Expr>) -> Option<Expr> {
    let span = conjuncts.first()?.span;
    Some(match conjuncts.len() {
        1 => conjuncts.remove(0),
        _ => operators::logical(true, conjuncts, span),
    })
}

/// Which inputs of a join an expression over the columns of both needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// None: it is constant.
    Neither,
    /// Columns of the left only.
    Left,
    /// Columns of the right only.
    Right,
    /// Columns of both.
    Both,
}

impl Side {
    /// The side of a column; `width`: number of columns of the left.
    pub fn of_column(column: usize, width: usize) -> Side {
        if column < width { Side::Left } else { Side::Right }
    }

    /// `width`: number of columns of the left.
    pub fn of(expr: &Expr, width: usize) -> Side {
        let (mut left, mut right) = (false, false);
        expr.each_column(|i| {
            left |= i < width;
            right |= i >= width;
        });
        match (left, right) {
            (false, false) => Side::Neither,
            (true, false) => Side::Left,
            (false, true) => Side::Right,
            (true, true) => Side::Both,
        }
    }
}

/// Whether a condition gives the same wherever it is evaluated: not the watermark, nor a random number.
pub(super) fn can_move(expr: &Expr) -> bool {
    let mut fixed = true;
    expr.walk(&mut |e| match &e.kind {
        ExprKind::CurrentWatermark | ExprKind::ProcessingTime => fixed = false,
        ExprKind::Call(function, _) => fixed &= function.is_deterministic(),
        _ => {}
    });
    fixed
}
