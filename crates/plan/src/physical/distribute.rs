//! Where rows have to be before a query that runs on several nodes can work on them.
//!
//! The sources of lookup tables are read whole by every node, and what follows from them alone is computed by each for itself. Of all other
//! sources a node reads some of the splits. Windowed aggregations aggregate what their node reads first, and send what has become of
//! a slice to the owners of its keys; keyed operators send rows. Sorts are on the first node, and so are sinks, unless every node can write
//! what it has. On one node nothing of this has a cost: it owns everything.
//!
//! Where partitions are those of the operator below ([`copartition`](super::copartition)), the owner of a row is the node that has it:
//! nothing is sent but marks. These still go from each node to all, so that operators have one watermark and one place of a cut on all nodes.

use super::copartition::stays;
use crate::pipeline::{Pipeline, PipelineEnd, PipelineInput, QueryPlan};

/// What of the input of a part is sent to another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exchange {
    /// Nothing: every node has all of it.
    Nothing,
    /// Nothing: what a node has, it owns.
    Stays,
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
    /// Of each input of each keyed operator.
    pub operators: Vec<Vec<Exchange>>,
    /// Of each sort.
    pub sorts: Vec<Exchange>,
    /// Of each sink.
    pub sinks: Vec<Exchange>,
}

/// The distribution of a plan.
pub fn distribute(plan: &QueryPlan) -> Distribution {
    let last = plan.sources.iter().map(|source| source.phase).max().unwrap_or(0);
    let mut distribution = Distribution {
        is_whole: plan.sources.iter().map(|source| source.phase < last).collect(),
        aggregations: vec![Exchange::Nothing; plan.aggregations.len()],
        operators: plan.operators.iter().map(|operator| vec![Exchange::Nothing; operator.inputs.len()]).collect(),
        sorts: vec![Exchange::Nothing; plan.sorts.len()],
        sinks: plan
            .sinks
            .iter()
            .map(|sink| if sink.is_on_every_node { Exchange::Stays } else { Exchange::Gather })
            .collect(),
    };
    // Until nothing changes: pipelines pass on that not every node has all of what they read.
    while plan.pipelines.iter().any(|pipeline| distribution.note(plan, pipeline)) {}
    distribution
}

impl Distribution {
    /// Whether nodes send each other nothing, no rows and no marks: each writes what it makes of what it reads.
    pub fn is_independent(&self) -> bool {
        let operators = self.operators.iter().flatten();
        let parts = self.aggregations.iter().chain(operators).chain(&self.sorts);
        parts.into_iter().all(|exchange| *exchange == Exchange::Nothing)
            && self.sinks.iter().all(|exchange| *exchange == Exchange::Stays)
    }

    /// What of the inputs of a keyed operator is sent.
    pub fn operator(&self, operator: usize) -> Exchange {
        self.operators[operator].iter().fold(Exchange::Nothing, |all, input| all.with(*input))
    }

    /// Notes where the rows of a pipeline have to be; whether that is news.
    fn note(&mut self, plan: &QueryPlan, pipeline: &Pipeline) -> bool {
        let is_everywhere = match pipeline.input {
            PipelineInput::Source(source) => self.is_whole[source],
            PipelineInput::Aggregation(aggregation) => self.aggregations[aggregation] == Exchange::Nothing,
            PipelineInput::Operator(operator) => self.operator(operator) == Exchange::Nothing,
            PipelineInput::Sort(sort) => self.sorts[sort] == Exchange::Nothing,
        };
        let (exchange, sent) = match pipeline.end {
            PipelineEnd::Aggregate { aggregation, .. } => (&mut self.aggregations[aggregation], Exchange::Partials),
            PipelineEnd::Exchange { operator, port } => (&mut self.operators[operator][port], Exchange::Rows),
            PipelineEnd::Sort { sort } => (&mut self.sorts[sort], Exchange::Gather),
            PipelineEnd::Build { .. } | PipelineEnd::Sink(_) => return false,
        };
        let needed = match () {
            () if is_everywhere => Exchange::Nothing,
            () if stays(plan, pipeline) => Exchange::Stays,
            () => sent,
        };
        let needed = exchange.with(needed);
        std::mem::replace(exchange, needed) != needed
    }
}

impl Exchange {
    /// What is sent of two inputs of a part.
    fn with(self, other: Exchange) -> Exchange {
        match (self, other) {
            (Exchange::Nothing, other)
            | (Exchange::Stays, other @ (Exchange::Partials | Exchange::Rows | Exchange::Gather)) => other,
            (one, _) => one,
        }
    }
}
