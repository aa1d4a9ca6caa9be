//! The keyed operators: the one place that lists them.

use super::state::{Due, State};
use super::{count, interval_join, over, rank, regular_join, session, session_rows, versioned_join, window_join};
use crate::input::OperatorCode;
use millstream_plan::logical::Frame;
use millstream_plan::pipeline::{CountWindows, KeyedKind, KeyedOperator, Sessions};
use millstream_types::Diagnostic;

impl Due {
    pub(super) fn of(kind: &KeyedKind) -> Due {
        match kind {
            KeyedKind::WindowJoin(_) | KeyedKind::Rank(_) | KeyedKind::Over(_) => Due::Time(0),
            KeyedKind::Sessions(session) => Due::Time(session.gap_ms - 1),
            KeyedKind::VersionedJoin(_) => Due::LeftTime,
            KeyedKind::IntervalJoin(_) | KeyedKind::CountWindows(_) => Due::Consumed,
            KeyedKind::RegularJoin(_) => Due::Arrival,
        }
    }
}

/// The state of a partition at its start.
pub(super) fn state_of(plan: &KeyedOperator, code: &OperatorCode) -> Result<Box<dyn State>, Diagnostic> {
    Ok(match &plan.kind {
        KeyedKind::WindowJoin(join) => Box::new(window_join::WindowJoin::new(plan, join.kind, code)?),
        KeyedKind::IntervalJoin(join) => {
            Box::new(interval_join::new(plan, join.kind, (join.lower_ms, join.upper_ms), code)?)
        }
        KeyedKind::RegularJoin(join) => Box::new(regular_join::new(plan, join.ttl_ms, code)?),
        KeyedKind::VersionedJoin(join) => Box::new(versioned_join::VersionedJoin::new(plan, join.kind, code)?),
        KeyedKind::Rank(rank) => Box::new(rank::Rank::new(plan, rank.order.clone(), rank.function, rank.range, code)?),
        KeyedKind::Over(over) => Box::new(over::Over::new(plan, over.frame, &over.aggregates, code)?),
        KeyedKind::Sessions(Sessions { gap_ms, aggregates: Some(aggregates) }) => {
            Box::new(session::SessionAggregate::new(plan, *gap_ms, aggregates, code)?)
        }
        KeyedKind::Sessions(session) => Box::new(session_rows::SessionRows::new(plan, session.gap_ms, code)?),
        KeyedKind::CountWindows(CountWindows { size, slide, aggregates: Some(aggregates) }) => {
            Box::new(count::CountAggregate::new(plan, *size, *slide, aggregates, code)?)
        }
        KeyedKind::CountWindows(CountWindows { size, slide, .. }) => {
            Box::new(count::CountRows::new(plan, *size, *slide, code)?)
        }
    })
}

/// Checks that an operator has the parts that its kind needs, so that states may rely on them.
pub(super) fn check(plan: &KeyedOperator, code: &OperatorCode) -> Result<(), Diagnostic> {
    let is_join = matches!(
        plan.kind,
        KeyedKind::WindowJoin(_) | KeyedKind::IntervalJoin(_) | KeyedKind::RegularJoin(_) | KeyedKind::VersionedJoin(_)
    );
    let inputs = if is_join { 2 } else { 1 };
    let mut needs_time = true;
    let mut needs_slots = false;
    match &plan.kind {
        KeyedKind::RegularJoin(_) => needs_time = false,
        KeyedKind::Over(over) => {
            needs_slots = true;
            needs_time = matches!(over.frame, Frame::Range(Some(_)));
        }
        KeyedKind::Sessions(Sessions { aggregates, .. }) | KeyedKind::CountWindows(CountWindows { aggregates, .. }) => {
            needs_slots = aggregates.is_some();
        }
        _ => {}
    }
    let residual = match &plan.kind {
        KeyedKind::WindowJoin(join) => join.residual.is_some(),
        KeyedKind::IntervalJoin(join) => join.residual.is_some(),
        KeyedKind::RegularJoin(join) => join.residual.is_some(),
        KeyedKind::VersionedJoin(join) => join.residual.is_some(),
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
