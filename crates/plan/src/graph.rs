//! The pipelines of a plan as a graph: its parts, what each does, and what goes from where to where. [`crate::picture`] draws it, and programs
//! show it with the numbers of a run.

use crate::explain::{Part, operator_text, source_text, steps};
use crate::pipeline::*;
use crate::sort::sort_text;
use millstream_types::counted;
use std::collections::BTreeSet;

/// What a box stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// What is read.
    Source,
    /// Fused operators.
    Pipeline,
    /// A windowed aggregation.
    Aggregation,
    /// An operator whose rows are partitioned by key.
    Operator,
    /// A sort.
    Sort,
    /// A table that rows are looked up in.
    Lookup,
    /// Where rows go.
    Sink,
}

impl Kind {
    pub(crate) const ALL: [Kind; 7] =
        [Kind::Source, Kind::Pipeline, Kind::Aggregation, Kind::Operator, Kind::Sort, Kind::Lookup, Kind::Sink];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Source => "source",
            Kind::Pipeline => "pipeline",
            Kind::Aggregation => "aggregation",
            Kind::Operator => "operator",
            Kind::Sort => "sort",
            Kind::Lookup => "lookup",
            Kind::Sink => "sink",
        }
    }

    pub(crate) fn count(self, plan: &QueryPlan) -> usize {
        match self {
            Kind::Source => plan.sources.len(),
            Kind::Pipeline => plan.pipelines.len(),
            Kind::Aggregation => plan.aggregations.len(),
            Kind::Operator => plan.operators.len(),
            Kind::Sort => plan.sorts.len(),
            Kind::Lookup => plan.lookups.len(),
            Kind::Sink => plan.sinks.len(),
        }
    }
}

/// A part of a plan by its kind and number.
pub(crate) type Node = (Kind, usize);

/// A step of a part, or a note of it.
pub(crate) struct Item {
    pub(crate) text: String,
    pub(crate) is_note: bool,
}

/// A part of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphNode {
    /// What it is.
    pub kind: Kind,
    /// Kind and number: `pipeline 0`.
    pub name: String,
    /// What it does, a step each, as EXPLAIN says.
    pub steps: Vec<String>,
}

/// A plan as a graph without cycles.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlanGraph {
    /// By kind and number.
    pub nodes: Vec<GraphNode>,
    /// Positions of nodes: from, to.
    pub edges: Vec<(usize, usize)>,
}

impl PlanGraph {
    /// Of a plan. `merge` is that of [`crate::explain::pipelines`].
    pub fn of(plan: &QueryPlan, merge: impl Fn(&Aggregation) -> String) -> PlanGraph {
        let all: Vec<Node> =
            Kind::ALL.into_iter().flat_map(|kind| (0..kind.count(plan)).map(move |i| (kind, i))).collect();
        let place = |node: &Node| all.iter().position(|known| known == node);
        let edges = edges(plan).iter().filter_map(|(from, to)| Some((place(from)?, place(to)?))).collect();
        let steps = |node: Node| items(node, plan, &merge, &|_| Vec::new()).into_iter().map(|item| item.text).collect();
        let node = |node: &Node| GraphNode { kind: node.0, name: title(*node), steps: steps(*node) };
        PlanGraph { nodes: all.iter().map(node).collect(), edges }
    }
}

/// What goes from where to where.
pub(crate) fn edges(plan: &QueryPlan) -> Vec<(Node, Node)> {
    let mut edges = Vec::new();
    for (i, pipeline) in plan.pipelines.iter().enumerate() {
        let node = (Kind::Pipeline, i);
        let from = match pipeline.input {
            PipelineInput::Source(i) => (Kind::Source, i),
            PipelineInput::Aggregation(i) => (Kind::Aggregation, i),
            PipelineInput::Operator(i) => (Kind::Operator, i),
            PipelineInput::Sort(i) => (Kind::Sort, i),
        };
        edges.push((from, node));
        let looked_up = |operator: &Operator| match operator {
            Operator::FlatMap(FlatMap::Lookup(lookup)) => Some((Kind::Lookup, lookup.table)),
            _ => None,
        };
        // One that is probed twice has one edge.
        let probed: BTreeSet<Node> = pipeline.operators.iter().filter_map(looked_up).collect();
        edges.extend(probed.into_iter().map(|lookup| (lookup, node)));
        let to = match pipeline.end {
            PipelineEnd::Sink(i) => (Kind::Sink, i),
            PipelineEnd::Aggregate { aggregation, .. } => (Kind::Aggregation, aggregation),
            PipelineEnd::Exchange { operator, .. } => (Kind::Operator, operator),
            PipelineEnd::Build { lookup } => (Kind::Lookup, lookup),
            PipelineEnd::Sort { sort } => (Kind::Sort, sort),
        };
        edges.push((node, to));
    }
    edges
}

/// Kind and number.
pub(crate) fn title((kind, number): Node) -> String {
    format!("{} {number}", kind.name())
}

/// What a part does, and what is noted of it.
pub(crate) fn items(
    (kind, i): Node,
    plan: &QueryPlan,
    merge: &impl Fn(&Aggregation) -> String,
    notes: &impl Fn(Part) -> Vec<String>,
) -> Vec<Item> {
    let step = |text: String| Item { text, is_note: false };
    let noted = |part: Part| notes(part).into_iter().map(|text| Item { text, is_note: true });
    let part = |text: String, part: Part| std::iter::once(step(text)).chain(noted(part)).collect();
    match kind {
        Kind::Source => part(source_text(&plan.sources[i]), Part::Source(i)),
        Kind::Aggregation => {
            let aggregation = &plan.aggregations[i];
            part(aggregation.text(&merge(aggregation), plan.updates_of(i)), Part::Aggregation(i))
        }
        Kind::Operator => part(operator_text(&plan.operators[i]), Part::Operator(i)),
        Kind::Sort => part(sort_text(&plan.sorts[i]), Part::Sort(i)),
        Kind::Lookup => vec![step(plan.lookups[i].text())],
        Kind::Pipeline => {
            let mut items = Vec::new();
            for (part, text) in steps(i, plan) {
                items.push(step(text));
                items.extend(part.into_iter().flat_map(&noted));
            }
            items.extend(noted(Part::Pipeline(i)));
            items
        }
        Kind::Sink => {
            let sink = &plan.sinks[i];
            let name = sink.table.as_ref().map_or("result".into(), |table| format!("table {}", table.name));
            let behind = if sink.skip > 0 { format!(" behind {}", sink.skip) } else { String::new() };
            let rows = match sink.limit {
                Some(limit) => format!("{name}, the first {}{behind}", counted(limit, "row")),
                None if sink.skip > 0 => format!("{name}, rows{behind}"),
                None => name,
            };
            vec![step(rows)]
        }
    }
}
