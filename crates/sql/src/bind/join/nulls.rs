//! Outer joins whose missing rows WHERE drops anyway are inner joins, as in Flink.

use super::conditions::Side;
use millstream_plan::expr::{Expr, ExprKind};
use millstream_plan::logical::JoinKind;

/// What a join of this kind is when only rows come through for which `conjuncts` are TRUE; `width`: number of columns of the
/// left.
pub(super) fn kind_under(kind: JoinKind, width: usize, conjuncts: &[Expr]) -> JoinKind {
    let rejects = |side: Side| conjuncts.iter().any(|c| rejects_nulls(c, &|i| side == Side::of_column(i, width)));
    // Rows without a partner on one side have NULL in all its columns.
    let needs_left = kind.left_is_optional() && rejects(Side::Left);
    let needs_right = kind.right_is_optional() && rejects(Side::Right);
    match (kind, needs_left, needs_right) {
        (JoinKind::Left, _, true) | (JoinKind::Right, true, _) | (JoinKind::Full, true, true) => JoinKind::Inner,
        (JoinKind::Full, true, false) => JoinKind::Left,
        (JoinKind::Full, false, true) => JoinKind::Right,
        (kind, ..) => kind,
    }
}

/// Whether a condition cannot be TRUE when all columns that `missing` names are NULL.
fn rejects_nulls(condition: &Expr, missing: &impl Fn(usize) -> bool) -> bool {
    match &condition.kind {
        ExprKind::Compare(_, a, b) => is_null(a, missing) || is_null(b, missing),
        ExprKind::IsNotNull(e) | ExprKind::InList(e, _) | ExprKind::IsBoolean(e, _) => is_null(e, missing),
        ExprKind::Not(e) => is_null(e, missing),
        ExprKind::And(operands) => operands.iter().any(|e| rejects_nulls(e, missing)),
        ExprKind::Or(operands) => operands.iter().all(|e| rejects_nulls(e, missing)),
        _ => is_null(condition, missing),
    }
}

/// Whether a value is NULL when all columns that `missing` names are.
fn is_null(value: &Expr, missing: &impl Fn(usize) -> bool) -> bool {
    match &value.kind {
        ExprKind::Column(i) => missing(*i),
        ExprKind::Cast { operand: e, .. } | ExprKind::Field(e, _) | ExprKind::Negate(e) | ExprKind::Not(e) => {
            is_null(e, missing)
        }
        ExprKind::InList(e, _) => is_null(e, missing),
        ExprKind::Arithmetic(_, a, b) | ExprKind::AddInterval(a, b) | ExprKind::Compare(_, a, b) => {
            is_null(a, missing) || is_null(b, missing)
        }
        _ => false,
    }
}
