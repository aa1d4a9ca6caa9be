//! The keyed operators: the one place that lists them.

use super::state::{Due, State};
use super::{count, interval_join, over, rank, regular_join, session, session_rows, versioned_join, window_join};
use crate::input::OperatorCode;
use millstream_plan::logical::Frame;
use millstream_plan::pipeline::{KeyedKind, KeyedOperator};
use millstream_types::Diagnostic;

impl Due {
    pub(super) fn of(kind: &KeyedKind) -> Due {
        match kind {
            KeyedKind::WindowJoin { .. } | KeyedKind::Rank { .. } | KeyedKind::Over { .. } => Due::Time(0),
            KeyedKind::SessionAggregate { gap_ms, .. } | KeyedKind::SessionRows { gap_ms } => Due::Time(gap_ms - 1),
            KeyedKind::VersionedJoin { .. } => Due::LeftTime,
            KeyedKind::IntervalJoin { .. } | KeyedKind::CountAggregate { .. } | KeyedKind::CountRows { .. } => {
                Due::Consumed
            }
            KeyedKind::RegularJoin { .. } => Due::Arrival,
        }
    }
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
    let is_join = matches!(
        plan.kind,
        KeyedKind::WindowJoin { .. }
            | KeyedKind::IntervalJoin { .. }
            | KeyedKind::RegularJoin { .. }
            | KeyedKind::VersionedJoin { .. }
    );
    let inputs = if is_join { 2 } else { 1 };
    let mut needs_time = true;
    let mut needs_slots = false;
    match &plan.kind {
        KeyedKind::RegularJoin { .. } => needs_time = false,
        KeyedKind::Over { frame, .. } => {
            needs_slots = true;
            needs_time = matches!(frame, Frame::Range(Some(_)));
        }
        KeyedKind::SessionAggregate { .. } | KeyedKind::CountAggregate { .. } => needs_slots = true,
        _ => {}
    }
    let residual = match &plan.kind {
        KeyedKind::WindowJoin { residual, .. }
        | KeyedKind::IntervalJoin { residual, .. }
        | KeyedKind::RegularJoin { residual, .. }
        | KeyedKind::VersionedJoin { residual, .. } => residual.is_some(),
        _ => false,
    };
    let fits = plan.inputs.len() == inputs
        && code.keys.len() == inputs
        && (!needs_time || plan.inputs.iter().all(|i| i.time.is_some()))
        && code.slots.is_some() == needs_slots
        && code.residual.is_some() == residual;
    if !fits {
        return Err(Diagnostic::bug("a keyed operator lacks a part that its kind needs"));
    }
    Ok(())
}
