//! Which window a time of a row is of, and how far from its end.

use super::expressions::same_computation;
use crate::expr::{Expr, ExprKind};
use crate::logical::Rel;
use crate::window::{Overlap, Slicing, WindowAssigner};
use millstream_types::{DataType, Value};

/// The windows that rows are given below an aggregation by attached windows, if an operator right below does that.
pub(super) fn windows_below(rel: &Rel) -> Option<WindowAssigner> {
    match rel {
        Rel::Windowed { assigner, .. } => Some(*assigner),
        Rel::Project { input, .. } | Rel::Filter { input, .. } => windows_below(input),
        _ => None,
    }
}

/// A time of a window.
pub(super) struct InWindow<'a> {
    /// The time whose window it is; `None`: it is the window that a row has below.
    pub(super) of: Option<&'a Expr>,
    pub(super) assigner: WindowAssigner,
    pub(super) behind_end_ms: i64,
}

impl<'a> InWindow<'a> {
    /// Of a time over the columns of a relation.
    pub(super) fn of(time: &'a Expr, below: &Rel) -> Option<InWindow<'a>> {
        let is_time = matches!(time.data_type, DataType::Timestamp(3) | DataType::TimestampLtz(3));
        match &time.kind {
            ExprKind::WindowStart(of, slicing) => {
                let assigner = WindowAssigner::Tumble(*slicing);
                Some(InWindow { of: Some(of), assigner, behind_end_ms: -slicing.size_ms })
            }
            &ExprKind::Column(column) => {
                let (assigner, first) = match below {
                    Rel::Aggregate { window, keys, aggregates, .. }
                        if matches!(window.assigner, WindowAssigner::Tumble(_)) =>
                    {
                        (window.assigner, keys.len() + aggregates.len())
                    }
                    Rel::Aggregate { input, keys, aggregates, .. } => {
                        (windows_below(input)?, keys.len() + aggregates.len())
                    }
                    Rel::Windowed { input, assigner, .. } => (*assigner, input.schema().fields.len()),
                    _ => return None,
                };
                let size_ms = match assigner {
                    WindowAssigner::Tumble(Slicing { size_ms, .. })
                    | WindowAssigner::Overlap(Overlap::Hop { size_ms, .. }) => Some(size_ms),
                    // Windows that end together begin together, but are of several lengths.
                    WindowAssigner::Overlap(Overlap::Cumulate { .. }) => None,
                    _ => return None,
                };
                let behind_end_ms = match column.checked_sub(first)? {
                    0 => -size_ms?,
                    1 => 0,
                    2 => -1,
                    _ => return None,
                };
                Some(InWindow { of: None, assigner, behind_end_ms })
            }
            ExprKind::Cast { operand, .. } if is_time => InWindow::of(operand, below),
            ExprKind::AddInterval(start, interval) if interval.data_type == DataType::IntervalMilli => {
                let ExprKind::Literal(Value::Int(ms)) = interval.kind else { return None };
                let start = InWindow::of(start, below)?;
                Some(InWindow { behind_end_ms: start.behind_end_ms.checked_add(ms)?, ..start })
            }
            _ => None,
        }
    }

    /// Whether both are of one window.
    pub(super) fn is_with(&self, other: &InWindow<'_>) -> bool {
        let is_same = match (self.of, other.of) {
            (Some(a), Some(b)) => same_computation(a, b),
            (a, b) => a.is_none() && b.is_none(),
        };
        is_same && self.assigner == other.assigner
    }

    /// Whether both are one time of it.
    pub(super) fn is_at(&self, other: &InWindow<'_>) -> bool {
        self.is_with(other) && self.behind_end_ms == other.behind_end_ms
    }
}
