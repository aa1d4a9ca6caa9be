//! Where rows have to be before a query that runs on several nodes can work on them.
//!
//! The sources of lookup tables are read whole by every node, and what follows from them alone is computed by each for itself. Of all other
//! sources a node reads some of the splits. Windowed aggregations aggregate what their node reads first, and send what has become of
//! a slice to the owners of its keys; keyed operators send rows. Sorts and sinks are on the first node. On one node nothing of this has a
//! cost: it owns everything.

use crate::pipeline::{PipelineEnd, PipelineInput, QueryPlan};

/// What of the input of a part is sent to another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exchange {
    /// Nothing: every node has all of it.
    Nothing,
    /// Partials of slices, to the owner of their key.
    Partials,
    /// Rows, to the owner of their key.
    Rows,
    /// Rows, to the first node.
    Gather,
}

/// What is sent to another node: by part of the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Distribution {
    /// Whether each source is read whole by every node.
    pub is_whole: Vec<bool>,
    /// Of each windowed aggregation.
    pub aggregations: Vec<Exchange>,
    /// Of each keyed operator.
    pub operators: Vec<Exchange>,
    /// Of each sort.
    pub sorts: Vec<Exchange>,
}

/// The distribution of a plan.
pub fn distribute(plan: &QueryPlan) -> Distribution {
    let last = plan.sources.iter().map(|source| source.phase).max().unwrap_or(0);
    let mut distribution = Distribution {
        is_whole: plan.sources.iter().map(|source| source.phase < last).collect(),
        aggregations: vec![Exchange::Nothing; plan.aggregations.len()],
        operators: vec![Exchange::Nothing; plan.operators.len()],
        sorts: vec![Exchange::Nothing; plan.sorts.len()],
    };
    // Until nothing changes: pipelines pass on that not every node has all of what they read.
    while plan.pipelines.iter().any(|pipeline| distribution.note(pipeline.input, &pipeline.end)) {}
    distribution
}

impl Distribution {
    /// Notes where the rows of a pipeline have to be; whether that is news.
    fn note(&mut self, input: PipelineInput, end: &PipelineEnd) -> bool {
        let is_everywhere = match input {
            PipelineInput::Source(source) => self.is_whole[source],
            PipelineInput::Aggregation(aggregation) => self.aggregations[aggregation] == Exchange::Nothing,
            PipelineInput::Operator(operator) => self.operators[operator] == Exchange::Nothing,
            PipelineInput::Sort(sort) => self.sorts[sort] == Exchange::Nothing,
        };
        let (exchange, needed) = match *end {
            PipelineEnd::Aggregate { aggregation, .. } => (&mut self.aggregations[aggregation], Exchange::Partials),
            PipelineEnd::Exchange { operator, .. } => (&mut self.operators[operator], Exchange::Rows),
            PipelineEnd::Sort { sort } => (&mut self.sorts[sort], Exchange::Gather),
            PipelineEnd::Build { .. } | PipelineEnd::Sink(_) => return false,
        };
        !is_everywhere && std::mem::replace(exchange, needed) != needed
    }
}
