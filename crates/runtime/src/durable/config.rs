//! What the checkpoints of a query need to know.

use millstream_plan::pipeline::QueryPlan;
use millstream_plan::shape::{Fit, Mismatch, PlanShape, SHAPE_VERSION};
use millstream_storage::{AggregationState, Checkpoints, Damaged, Manifest, OperatorState, SinkState, SourceState};
use std::time::Duration;

/// How a query is checkpointed, and what it is recovered from.
#[derive(Debug, Clone)]
pub struct CheckpointConfig {
    /// Where checkpoints are.
    pub checkpoints: Checkpoints,
    /// What tells the job from all others.
    pub job: String,
    /// What its user calls it.
    pub name: Option<String>,
    /// From the beginning of one checkpoint to that of the next; `None`: only when someone asks.
    pub interval: Option<Duration>,
    /// Complete checkpoints that are kept; at least 1.
    pub retained: usize,
    /// Number of a checkpoint below all that will be made, and not below any that is there.
    pub base: u64,
    /// What the query is recovered from.
    pub restored: Option<Recovered>,
}

/// Why a query cannot resume from a checkpoint.
#[derive(Debug)]
pub enum Unfit {
    /// What the checkpoint says of itself makes no sense, or is said in another version.
    Damaged(Damaged),
    /// The query keeps something else.
    Changed(Mismatch),
}

/// What a checkpoint keeps; `None` if it does not say so in this version.
pub fn kept_shape(manifest: &Manifest) -> Option<PlanShape> {
    described(manifest).ok()
}

/// What a checkpoint says that it keeps.
fn described(manifest: &Manifest) -> Result<PlanShape, Damaged> {
    let version = manifest.shape["version"].as_u64();
    if version != Some(u64::from(SHAPE_VERSION)) {
        let version = version.map_or_else(|| "none".to_string(), |version| version.to_string());
        return Err(Damaged(format!(
            "it describes its state in version {version}; this version of Millstream reads version {SHAPE_VERSION}"
        )));
    }
    let kept = serde_json::from_value(manifest.shape.clone());
    kept.map_err(|e| Damaged(format!("it does not say what it keeps: {e}")))
}

/// A checkpoint as seen by the parts of a plan that resumes from it.
#[derive(Debug, Clone)]
pub struct Recovered {
    /// Its parts are in the order of the plan. What is new has none: a source without splits, a state without rows, a
    /// sink without a token, each with its own number.
    manifest: Manifest,
    fit: Fit,
}

impl Recovered {
    /// Of a checkpoint that keeps what a plan does, or a part of that.
    ///
    /// # Errors
    /// When the plan keeps something else, or the checkpoint does not have what it says.
    pub fn new(plan: &QueryPlan, manifest: Manifest) -> Result<Recovered, Unfit> {
        let kept = described(&manifest).map_err(Unfit::Damaged)?;
        let said = (kept.sources.len(), kept.aggregations.len(), kept.operators.len(), kept.sinks.len());
        let Manifest { sources, aggregations, operators, sinks, .. } = &manifest;
        if said != (sources.len(), aggregations.len(), operators.len(), sinks.len()) {
            return Err(Unfit::Damaged(Damaged("it does not keep what it says".into())));
        }
        let fit = PlanShape::of(plan).fit(&kept).map_err(Unfit::Changed)?;
        if manifest.is_finished && !fit.is_complete() {
            let message = "the job has come to its end, and the query has parts that are new: make them a separate job";
            return Err(Unfit::Changed(Mismatch(message.into())));
        }
        Ok(Recovered { manifest: arranged(plan, manifest, &fit), fit })
    }

    /// What the checkpoint says of itself.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Whether a source is new.
    pub(crate) fn is_new_source(&self, source: usize) -> bool {
        self.fit.sources[source].is_none()
    }

    /// Whether a sink is new.
    pub fn is_new_sink(&self, sink: usize) -> bool {
        self.fit.sinks[sink].is_none()
    }

    /// The same with the numbers that sinks have in another checkpoint of the job.
    #[must_use]
    pub fn numbered_as(mut self, other: &Recovered) -> Recovered {
        let numbers = other.manifest.sinks.iter().map(|sink| sink.number);
        self.manifest.sinks.iter_mut().zip(numbers).for_each(|(sink, number)| sink.number = number);
        self
    }

    /// The tables of the sinks that are new.
    pub fn new_sinks(&self) -> impl Iterator<Item = &str> {
        let sinks = self.manifest.sinks.iter().enumerate();
        sinks.filter(|(sink, _)| self.is_new_sink(*sink)).map(|(_, sink)| sink.table.as_str())
    }
}

/// A manifest with its parts in the order of the plan, and parts without contents for what is new.
fn arranged(plan: &QueryPlan, manifest: Manifest, fit: &Fit) -> Manifest {
    fn places<T: Clone>(kept: &[T], places: &[Option<usize>], mut new: impl FnMut(usize) -> T) -> Vec<T> {
        let part = |(now, place): (usize, &Option<usize>)| place.map_or_else(|| new(now), |place| kept[place].clone());
        places.iter().enumerate().map(part).collect()
    }
    let mut inputs = manifest.inputs().max().map_or(0, |last| last + 1)..;
    let mut next_input = || inputs.next().unwrap_or(u16::MAX);
    let mut next_number = manifest.sinks.iter().map(|sink| sink.number + 1).max().unwrap_or(0);
    let table = |sink: usize| plan.sinks[sink].table.as_ref().map_or_else(String::new, |table| table.name.clone());
    Manifest {
        sources: places(&manifest.sources, &fit.sources, |source| SourceState {
            table: plan.sources[source].name().to_string(),
            number: next_input(),
            splits: Vec::new(),
        }),
        aggregations: places(&manifest.aggregations, &fit.aggregations, |_| AggregationState {
            number: next_input(),
            watermark: i64::MIN,
            ..AggregationState::default()
        }),
        operators: places(&manifest.operators, &fit.operators, |_| OperatorState {
            number: next_input(),
            watermark: i64::MIN,
            ..OperatorState::default()
        }),
        sinks: places(&manifest.sinks, &fit.sinks, |sink| {
            next_number += 1;
            SinkState::new(next_number - 1, table(sink))
        }),
        ..manifest
    }
}
