//! What the checkpoints of a query need to know.

use millstream_plan::pipeline::QueryPlan;
use millstream_plan::shape::{Fit, Mismatch, PlanShape};
use millstream_storage::{AggregationState, Checkpoints, Damaged, Manifest, OperatorState, SourceState};
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
    /// The number that each sink has in the job.
    pub sinks: Vec<usize>,
    /// What the query is recovered from.
    pub restored: Option<RestoredState>,
}

/// A checkpoint as a plan goes on from it: in the order of the plan's parts. What is `None` begins without state.
#[derive(Debug)]
pub struct RestoredState {
    /// Its number.
    pub checkpoint: u64,
    /// How far sources were read.
    pub sources: Vec<Option<SourceState>>,
    /// What windowed aggregations kept.
    pub aggregations: Vec<Option<AggregationState>>,
    /// What keyed operators kept.
    pub operators: Vec<Option<OperatorState>>,
    /// Streams that are new get numbers from this one on.
    pub next_stream: u32,
}

/// Why a query cannot go on from a checkpoint.
#[derive(Debug)]
pub enum Unfit {
    /// What the checkpoint says of itself makes no sense.
    Damaged(Damaged),
    /// The query keeps something else.
    Changed(Mismatch),
}

/// Where a plan finds what it keeps in a checkpoint.
///
/// # Errors
/// When the checkpoint has something that the plan has no place for.
pub fn fit(plan: &QueryPlan, manifest: &Manifest) -> Result<Fit, Unfit> {
    let damaged = |what: String| Unfit::Damaged(Damaged(what));
    let kept: PlanShape = serde_json::from_value(manifest.shape.clone())
        .map_err(|e| damaged(format!("it does not say what it keeps: {e}")))?;
    let described = (kept.sources.len(), kept.aggregations.len(), kept.operators.len(), kept.sinks.len());
    let stored = (manifest.sources.len(), manifest.aggregations.len(), manifest.operators.len(), manifest.sinks.len());
    if described != stored {
        return Err(damaged("it does not keep what it says".into()));
    }
    PlanShape::of(plan).fit(&kept).map_err(Unfit::Changed)
}

impl RestoredState {
    /// The parts of a checkpoint in the places that `fit` has found.
    pub fn new(manifest: &Manifest, fit: &Fit) -> RestoredState {
        fn placed<T: Clone>(states: &[T], places: &[Option<usize>]) -> Vec<Option<T>> {
            places.iter().map(|place| place.and_then(|at| states.get(at).cloned())).collect()
        }
        RestoredState {
            checkpoint: manifest.checkpoint,
            sources: placed(&manifest.sources, &fit.sources),
            aggregations: placed(&manifest.aggregations, &fit.aggregations),
            operators: placed(&manifest.operators, &fit.operators),
            next_stream: manifest.streams().max().map_or(0, |last| last + 1),
        }
    }
}
