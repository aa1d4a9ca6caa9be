//! Regular joins: all rows meet, or those that came within the time to live (processing time).

use super::stream_join::{Rule, StreamJoin};
use crate::executable_plan::OperatorCode;
use millstream_plan::pipeline::KeyedOperator;
use millstream_types::Diagnostic;

/// A regular join without rows, that keeps those of each side for `ttl_ms` milliseconds, or forever.
pub(super) fn new(
    plan: &KeyedOperator,
    ttl_ms: [Option<u64>; 2],
    code: &OperatorCode,
) -> Result<StreamJoin, Diagnostic> {
    let ttl_ms = ttl_ms.map(|ttl| ttl.map(|ms| i64::try_from(ms).unwrap_or(i64::MAX)));
    StreamJoin::new(plan, Rule::Regular { ttl_ms }, [false, false], code)
}
