//! The sinks of a run: which of them are on every node, and how those of other nodes than the first begin.

use crate::cluster::SinkOfNodes;
use crate::memory;
use crate::planned::sink_request;
use millstream_connectors::{self as connectors, SharedPlace, Sink, SinkJob};
use millstream_plan::pipeline::{QueryPlan, SinkPlan};
use millstream_types::Diagnostic;

/// Says of the sinks of a plan which are on every node. What ends after some rows counts them on one node, and what is sorted is there already.
pub(crate) fn place(plan: &mut QueryPlan) {
    let is_sorted = plan.sorts_output();
    for sink in &mut plan.sinks {
        let is_whole = sink.limit.is_none() && sink.skip == 0 && !is_sorted;
        sink.is_on_every_node = is_whole
            && sink.table.as_ref().is_some_and(|table| {
                memory::number(&table.options).is_none() && connectors::is_on_every_node(&sink_request(table, sink))
            });
    }
}

/// What sinks of the first node say to those of the others; what they have put outside goes with the second part.
pub(crate) fn shared(
    plan: &QueryPlan,
    sinks: &[Box<dyn Sink>],
    number_of: impl Fn(usize) -> usize,
) -> Result<(Vec<Option<SinkOfNodes>>, Vec<SharedPlace>), Diagnostic> {
    let mut held = Vec::new();
    let mut said = Vec::new();
    for (position, (planned, sink)) in plan.sinks.iter().zip(sinks).enumerate() {
        let place = if planned.is_on_every_node { sink.share()? } else { None };
        let meets = place.as_ref().map(|place| place.name.clone());
        held.extend(place);
        said.push(planned.is_on_every_node.then(|| SinkOfNodes { number: number_of(position), meets }));
    }
    Ok((said, held))
}

/// Opens the sinks of another node than the first, which have begun there. `job`: what they belong to, by number, under checkpoints.
pub(crate) fn of_another_node(
    plan: &QueryPlan,
    said: &[Option<SinkOfNodes>],
    job: Option<impl Fn(usize) -> SinkJob>,
) -> Result<Vec<Box<dyn Sink>>, Diagnostic> {
    let open = |(planned, said): (&SinkPlan, &SinkOfNodes)| {
        let Some(table) = &planned.table else { return Err(Diagnostic::bug("a result is on the first node")) };
        let mut sink = connectors::open_sink(&sink_request(table, planned))?;
        said.meets.as_ref().map_or(Ok(()), |name| sink.meet(name))?;
        if let Some(job) = &job {
            sink.begin(&job(said.number), None)?;
        }
        Ok(sink)
    };
    plan.sinks.iter().zip(said).filter_map(|(planned, said)| Some((planned, said.as_ref()?))).map(open).collect()
}
