//! What the checkpoints of a query need to know.

use millstream_plan::explain;
use millstream_plan::pipeline::QueryPlan;
use millstream_storage::{Checkpoints, Manifest};
use std::time::Duration;

/// How a query is checkpointed, and what it is recovered from.
#[derive(Debug)]
pub struct CheckpointConfig {
    /// Where checkpoints are.
    pub checkpoints: Checkpoints,
    /// Name of the job.
    pub job: String,
    /// From the beginning of one checkpoint to that of the next; `None`: only when someone asks.
    pub interval: Option<Duration>,
    /// Complete checkpoints that are kept; at least 1.
    pub retained: usize,
    /// Number of a checkpoint below all that will be made, and not below any that is there.
    pub base: u64,
    /// What the query is recovered from.
    pub restored: Option<Manifest>,
}

/// What a query keeps state for, line by line: a checkpoint fits a query with the same lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanLines(pub Vec<String>);

impl PlanLines {
    /// Of a plan.
    pub fn of(plan: &QueryPlan) -> PlanLines {
        PlanLines(explain::state_lines(plan))
    }

    /// The first line of this plan that is another in the one that a checkpoint was taken of, and that one.
    pub fn first_difference<'a>(&'a self, before: &'a [String]) -> Option<(&'a str, &'a str)> {
        let lines = self.0.len().max(before.len());
        let line = |lines: &'a [String], i: usize| lines.get(i).map_or("nothing", String::as_str);
        (0..lines).map(|i| (line(&self.0, i), line(before, i))).find(|(now, then)| now != then)
    }
}
