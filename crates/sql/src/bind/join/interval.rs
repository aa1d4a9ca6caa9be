//! The bounds of an interval join: conjuncts that compare the event times of both sides.

use super::super::relation::Relation;
use super::super::scope::{Column, Scope};
use super::pairing::{Equality, Pairing};
use millstream_plan::expr::{CompareOp, Expr, ExprKind, Span};
use millstream_types::{DataType, Value};

/// `right + lower ≤ left ≤ right + upper`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Interval {
    /// Event time of the left: a position among its columns.
    pub left_column: usize,
    /// Event time of the right: a position among its columns.
    pub right_column: usize,
    /// Milliseconds.
    pub lower_ms: i64,
    /// Milliseconds; may be less than `lower_ms`, when the conditions contradict one another.
    pub upper_ms: i64,
    /// Where the first bound stands.
    pub place: Span,
}

/// `left - right ∘ offset` for event times.
struct IntervalBound {
    columns: (usize, usize),
    op: CompareOp,
    offset_ms: i64,
    place: Span,
}

impl Interval {
    /// The interval that the conditions bound on both ends, and what else they say. Of several pairs of times the first
    /// that has both bounds is taken.
    pub fn find(left: &Relation, right: &Relation, pairing: &Pairing) -> Option<(Interval, Pairing)> {
        let scope = Scope::of(left.columns.iter().chain(&right.columns).cloned().collect());
        let width = left.columns.len();
        let of_rest: Vec<Option<IntervalBound>> = pairing.rest.iter().map(|c| bound(c, &scope, width)).collect();
        let of_keys: Vec<Option<IntervalBound>> =
            pairing.equalities.iter().map(|e| equal_times(e, left, right)).collect();
        let all = || of_rest.iter().chain(&of_keys).flatten();
        let mut tried = vec![];
        for first in all() {
            if tried.contains(&first.columns) {
                continue;
            }
            tried.push(first.columns);
            let (mut lower, mut upper) = (None::<i64>, None::<i64>);
            for bound in all().filter(|b| b.columns == first.columns) {
                let (low, high) = bound.range();
                lower = low.map(|l| lower.map_or(l, |known| known.max(l))).or(lower);
                upper = high.map(|h| upper.map_or(h, |known| known.min(h))).or(upper);
            }
            let (Some(lower_ms), Some(upper_ms)) = (lower, upper) else { continue };
            let (left_column, right_column) = first.columns;
            let interval = Interval { left_column, right_column, lower_ms, upper_ms, place: first.place };
            // What the strategy sees to need not be tested again; equal times still serve as keys.
            let consumed = |b: &Option<IntervalBound>| b.as_ref().is_some_and(|b| b.columns == first.columns);
            let rest = pairing.rest.iter().zip(&of_rest).filter(|(_, b)| !consumed(b)).map(|(e, _)| e.clone());
            let rest = rest.collect();
            return Some((interval, Pairing { equalities: pairing.equalities.clone(), rest }));
        }
        None
    }
}

impl IntervalBound {
    /// Least and greatest difference in whole milliseconds.
    fn range(&self) -> (Option<i64>, Option<i64>) {
        let offset = self.offset_ms;
        match self.op {
            CompareOp::Equal => (Some(offset), Some(offset)),
            CompareOp::GreaterEqual => (Some(offset), None),
            CompareOp::Greater => (Some(offset.saturating_add(1)), None),
            CompareOp::LessEqual => (None, Some(offset)),
            CompareOp::Less => (None, Some(offset.saturating_sub(1))),
            CompareOp::NotEqual => (None, None),
        }
    }
}

/// What a conjunct over the columns of both sides says of their event times.
fn bound(conjunct: &Expr, scope: &Scope, width: usize) -> Option<IntervalBound> {
    let ExprKind::Compare(op, a, b) = &conjunct.kind else { return None };
    if *op == CompareOp::NotEqual {
        return None;
    }
    let ((a, a_ms), (b, b_ms)) = (time_of(a, &scope.columns)?, time_of(b, &scope.columns)?);
    let place = conjunct.span;
    if a < width && b >= width {
        return Some(IntervalBound { columns: (a, b - width), op: *op, offset_ms: b_ms.checked_sub(a_ms)?, place });
    }
    if b < width && a >= width {
        return Some(IntervalBound {
            columns: (b, a - width),
            op: op.mirrored(),
            offset_ms: a_ms.checked_sub(b_ms)?,
            place,
        });
    }
    None
}

/// An equality of event times, each of its side.
fn equal_times(equality: &Equality, left: &Relation, right: &Relation) -> Option<IntervalBound> {
    let (l, l_ms) = time_of(&equality.left, &left.columns)?;
    let (r, r_ms) = time_of(&equality.right, &right.columns)?;
    let offset_ms = r_ms.checked_sub(l_ms)?;
    Some(IntervalBound { columns: (l, r), op: CompareOp::Equal, offset_ms, place: equality.left.span })
}

/// An event time plus a constant: the column and milliseconds.
fn time_of(expr: &Expr, columns: &[Column]) -> Option<(usize, i64)> {
    match &expr.kind {
        ExprKind::Column(i) => columns.get(*i)?.attribute.is_event_time().then_some((*i, 0)),
        ExprKind::AddInterval(time, interval) => {
            let ExprKind::Literal(Value::Int(ms)) = interval.kind else { return None };
            if interval.data_type != DataType::IntervalMilli {
                return None;
            }
            let (column, before) = time_of(time, columns)?;
            Some((column, before.checked_add(ms)?))
        }
        // Only a cast that keeps the value: to more digits of a second.
        ExprKind::Cast { operand, .. } => match (&operand.data_type, &expr.data_type) {
            (DataType::Timestamp(from), DataType::Timestamp(to))
            | (DataType::TimestampLtz(from), DataType::TimestampLtz(to))
                if from <= to =>
            {
                time_of(operand, columns)
            }
            _ => None,
        },
        _ => None,
    }
}
