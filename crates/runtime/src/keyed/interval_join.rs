//! Interval joins: a row of the left at *l* meets rows of the right at *r* with `r + lower ≤ l ≤ r + upper`. So its last
//! partner is at `l - lower`, and that of a row of the right at `r + upper`: when the watermark is beyond that, the row is
//! *dead*. It is forgotten, and output with NULLs if its side is an outer one and it had no partner. A row that comes when
//! the watermark has reached its last partner meets what is not dead, and is not kept: it is output with NULLs at once if it met
//! nothing. This is decided by the watermark before each row in merged order; when rows are forgotten in fact does not
//! matter. No row that came in time is older, when it is output, than the watermark minus how far rows reach, which is what the
//! output's watermark is held back by; others bring the watermark along that they come behind.

use super::stream_join::{Reach, Rule, StreamJoin};
use crate::executable_plan::OperatorCode;
use millstream_plan::logical::JoinKind;
use millstream_plan::pipeline::{IntervalJoin, KeyedOperator};
use millstream_types::Diagnostic;

/// An interval join without rows.
pub(super) fn new(plan: &KeyedOperator, join: &IntervalJoin, code: &OperatorCode) -> Result<StreamJoin, Diagnostic> {
    if matches!(join.kind, JoinKind::Semi | JoinKind::Anti) {
        return Err(Diagnostic::bug("there are no semi and anti joins of intervals"));
    }
    let is_outer = [join.kind.right_is_optional(), join.kind.left_is_optional()];
    StreamJoin::new(plan, Rule::Interval(Reach::new(join.lower_ms, join.upper_ms)), is_outer, code)
}
