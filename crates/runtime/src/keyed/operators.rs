//! The keyed operators: the one place that lists them.

use super::state::{Due, State};
use super::stream_join::Reach;
use super::{count, interval_join, over, rank, regular_join, session, session_rows, versioned_join, window_join};
use crate::input::OperatorCode;
use millstream_plan::logical::Frame;
use millstream_plan::pipeline::{KeyedKind, KeyedOperator};
use millstream_types::Diagnostic;

/// What the runtime has to know of an operator before it has rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts {
    pub(super) due: Due,
    /// Whether it outputs whole windows.
    pub(super) has_windows: bool,
    /// What the rows of its output can be behind its watermark.
    pub(super) held_back_ms: i64,
    /// By how much it looks at all watermarks later than they are, if its inputs come from other operators.
    ///
    /// Whether a session that ends at the very time of the next row of its key has been output before that row depends on
    /// where the watermark has stopped in between. When it follows from the rows of a split, that is the same in every run;
    /// the watermark of an operator's output stops wherever timing has it. So sessions of such rows wait for one more
    /// millisecond: then the two are always one session, as those that touch are.
    pub(super) lag_ms: i64,
    inputs: usize,
    needs_time: bool,
}

impl Facts {
    pub(super) fn of(kind: &KeyedKind) -> Facts {
        let due = Due::Consumed;
        let one = Facts { due, has_windows: false, held_back_ms: 0, lag_ms: 0, inputs: 1, needs_time: true };
        let join = Facts { inputs: 2, ..one };
        match kind {
            KeyedKind::WindowJoin { .. } => Facts { due: Due::Time(0), has_windows: true, ..join },
            KeyedKind::IntervalJoin { lower_ms, upper_ms, .. } => {
                Facts { held_back_ms: Reach::new(*lower_ms, *upper_ms).held_back(), ..join }
            }
            KeyedKind::RegularJoin { .. } => Facts { due: Due::Arrival, needs_time: false, ..join },
            KeyedKind::VersionedJoin { .. } => Facts { due: Due::LeftTime, ..join },
            KeyedKind::Rank { .. } => Facts { due: Due::Time(0), has_windows: true, ..one },
            KeyedKind::Over { frame, .. } => {
                Facts { due: Due::Time(0), needs_time: matches!(frame, Frame::Range(Some(_))), ..one }
            }
            KeyedKind::SessionAggregate { gap_ms, .. } | KeyedKind::SessionRows { gap_ms } => {
                Facts { due: Due::Time(gap_ms - 1), lag_ms: 1, ..one }
            }
            KeyedKind::CountAggregate { .. } | KeyedKind::CountRows { .. } => one,
        }
    }
}

/// By how much the watermark behind an operator can be behind that before it at most.
pub(crate) fn most_behind(plan: &KeyedOperator) -> i64 {
    // A lag there is only where the operator's inputs are derived; to wait for it in vain does no harm.
    let Facts { held_back_ms, lag_ms, .. } = Facts::of(&plan.kind);
    held_back_ms.saturating_add(lag_ms)
}

/// The state of a partition at its start.
pub(super) fn state_of(plan: &KeyedOperator, code: &OperatorCode) -> Result<Box<dyn State>, Diagnostic> {
    Ok(match &plan.kind {
        KeyedKind::WindowJoin { kind, .. } => Box::new(window_join::WindowJoin::new(plan, *kind, code)?),
        KeyedKind::IntervalJoin { kind, lower_ms, upper_ms, .. } => {
            Box::new(interval_join::new(plan, *kind, (*lower_ms, *upper_ms), code)?)
        }
        KeyedKind::RegularJoin { ttl_ms, .. } => Box::new(regular_join::new(plan, *ttl_ms, code)?),
        KeyedKind::VersionedJoin { kind, .. } => Box::new(versioned_join::VersionedJoin::new(plan, *kind, code)?),
        KeyedKind::Rank { order, function, range } => {
            Box::new(rank::Rank::new(plan, order.clone(), *function, *range, code)?)
        }
        KeyedKind::Over { frame, aggregates } => Box::new(over::Over::new(plan, *frame, aggregates, code)?),
        KeyedKind::SessionAggregate { gap_ms, aggregates } => {
            Box::new(session::SessionAggregate::new(plan, *gap_ms, aggregates, code)?)
        }
        KeyedKind::SessionRows { gap_ms } => Box::new(session_rows::SessionRows::new(plan, *gap_ms, code)?),
        KeyedKind::CountAggregate { size, slide, aggregates } => {
            Box::new(count::CountAggregate::new(plan, *size, *slide, aggregates, code)?)
        }
        KeyedKind::CountRows { size, slide } => Box::new(count::CountRows::new(plan, *size, *slide, code)?),
    })
}

/// Checks that an operator has the parts that its kind needs, so that states may rely on them.
pub(super) fn check(plan: &KeyedOperator, code: &OperatorCode) -> Result<(), Diagnostic> {
    let Facts { inputs, needs_time, .. } = Facts::of(&plan.kind);
    let fits = plan.inputs.len() == inputs
        && code.keys.len() == inputs
        && (!needs_time || plan.inputs.iter().all(|i| i.time.is_some()))
        && code.slots.is_some() == plan.kind.aggregates().is_some()
        && code.residual.is_some() == plan.kind.residual().is_some();
    if !fits {
        return Err(Diagnostic::bug("a keyed operator lacks a part that its kind needs"));
    }
    Ok(())
}
