//! Window Top-N: conditions on a rank become the range of ranks that are kept.
//!
//! `SELECT … FROM (SELECT *, ROW_NUMBER() OVER (…) AS n FROM …) WHERE n <= 3 AND …`: the subquery numbers all rows of
//! each window ([`super::over`]). Comparisons of `n` with constants that stand around it are taken into the operator,
//! which then keeps that many rows only; `n` stays a column.

use super::operators::logical;
use millstream_plan::expr::{CompareOp, Expr, ExprKind};
use millstream_plan::logical::Rel;
use millstream_types::Value;

/// Takes what `predicate` says of ranks of `input` into their operators. Returns what is left to filter by.
pub(super) fn absorb(input: &mut Rel, predicate: Expr) -> Option<Expr> {
    let span = predicate.span;
    let conjuncts = match predicate.kind {
        ExprKind::And(operands) => operands,
        _ => vec![predicate],
    };
    let left: Vec<Expr> = conjuncts.into_iter().filter_map(|c| absorb_one(input, c)).collect();
    (!left.is_empty()).then(|| logical(true, left, span))
}

fn absorb_one(input: &mut Rel, conjunct: Expr) -> Option<Expr> {
    if let ExprKind::And(_) = conjunct.kind {
        // BETWEEN is itself a conjunction.
        return absorb(input, conjunct);
    }
    match comparison(&conjunct) {
        Some((column, range)) if limit(input, column, range) => None,
        _ => Some(conjunct),
    }
}

/// The column and the range of values that a comparison with a constant leaves of it.
fn comparison(expr: &Expr) -> Option<(usize, (u64, u64))> {
    let ExprKind::Compare(op, left, right) = &expr.kind else { return None };
    let (column, op, bound) = match (column_of(left), constant_of(right), constant_of(left), column_of(right)) {
        (Some(column), Some(bound), _, _) => (column, *op, bound),
        (_, _, Some(bound), Some(column)) => (column, op.mirrored(), bound),
        _ => return None,
    };
    // Ranks begin with 1; smaller bounds leave the whole range or nothing of it.
    let at_least = |n: i64| (n.max(1).unsigned_abs(), u64::MAX);
    let at_most = |n: i64| (1, n.max(0).unsigned_abs());
    Some((
        column,
        match op {
            CompareOp::Equal => (at_least(bound).0, at_most(bound).1),
            CompareOp::Less => at_most(bound.saturating_sub(1)),
            CompareOp::LessEqual => at_most(bound),
            CompareOp::Greater => at_least(bound.saturating_add(1)),
            CompareOp::GreaterEqual => at_least(bound),
            CompareOp::NotEqual => return None,
        },
    ))
}

fn column_of(expr: &Expr) -> Option<usize> {
    match &expr.kind {
        ExprKind::Column(i) => Some(*i),
        _ => None,
    }
}

fn constant_of(expr: &Expr) -> Option<i64> {
    match &expr.kind {
        ExprKind::Literal(Value::Int(n)) if expr.data_type.is_integer() => Some(*n),
        ExprKind::Cast { operand, .. } if expr.data_type.is_integer() => constant_of(operand),
        ExprKind::Negate(operand) => constant_of(operand)?.checked_neg(),
        _ => None,
    }
}

/// Narrows the range of the rank that is column `column` of `rel`; `false` when it is not a rank, or nothing would be
/// left.
fn limit(rel: &mut Rel, column: usize, range: (u64, u64)) -> bool {
    if is_rank(rel, column) {
        // Other places keep their range.
        rel.make_own();
    }
    match rel {
        Rel::Project { input, columns } => match columns.get(column).map(|(e, _)| &e.kind) {
            Some(ExprKind::Column(below)) => limit(input, *below, range),
            _ => false,
        },
        Rel::Filter { input, .. } => limit(input, column, range),
        Rel::Rank { input, range: kept, .. } => {
            let columns = input.schema().fields.len();
            if column < columns {
                // A rank below another one decides which rows that one counts.
                return false;
            }
            let narrowed = (kept.0.max(range.0), kept.1.min(range.1));
            if narrowed.0 > narrowed.1 {
                return false;
            }
            *kept = narrowed;
            true
        }
        _ => false,
    }
}

/// Whether column `column` of `rel`, which may be shared until there are copies, is a rank.
fn is_rank(rel: &Rel, column: usize) -> bool {
    match rel {
        Rel::Project { input, columns } => match columns.get(column).map(|(e, _)| &e.kind) {
            Some(ExprKind::Column(below)) => is_rank(input, *below),
            _ => false,
        },
        Rel::Filter { input, .. } => is_rank(input, column),
        Rel::Rank { input, .. } => column >= input.schema().fields.len(),
        Rel::Common(common) if common.is_copied() => is_rank(common.rel(), column),
        _ => false,
    }
}
