//! By how much the watermark behind a keyed operator is behind that before it.

use super::stream_join::Reach;
use millstream_plan::pipeline::{KeyedKind, KeyedOperator};

/// Whether a session that ends at the very time of the next row of its key has been output before that row depends on
/// where the watermark has stopped in between. When it follows from the rows of a split, that is the same in every run;
/// the watermark of an operator's output stops wherever timing has it. So sessions of such rows wait for one more
/// millisecond: then the two are always one session, as those that touch are.
pub(super) fn lag(plan: &KeyedOperator, are_derived: bool) -> i64 {
    let has_sessions = matches!(plan.kind, KeyedKind::Sessions(_));
    i64::from(are_derived && has_sessions)
}

/// By how much the watermark behind an operator can be behind that before it at most.
pub(crate) fn most_behind(plan: &KeyedOperator) -> i64 {
    // A lag there is only where the operator's inputs are derived; to wait for it in vain does no harm.
    held_back(plan).saturating_add(lag(plan, true))
}

/// What the rows of an operator's output can be behind its watermark.
pub(super) fn held_back(plan: &KeyedOperator) -> i64 {
    match &plan.kind {
        KeyedKind::IntervalJoin(join) => Reach::new(join.lower_ms, join.upper_ms).held_back(),
        _ => 0,
    }
}
