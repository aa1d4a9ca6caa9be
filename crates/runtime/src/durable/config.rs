//! What the checkpoints of a query need to know.

use millstream_plan::pipeline::QueryPlan;
use millstream_plan::shape::{Mismatch, PlanShape, SHAPE_VERSION};
use millstream_storage::{Checkpoints, Damaged, Manifest};
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
    /// What the query is recovered from; [`check_fit`] has found that it fits.
    pub restored: Option<Manifest>,
}

/// Why a query cannot go on from a checkpoint.
#[derive(Debug)]
pub enum Unfit {
    /// What the checkpoint says of itself makes no sense, or is said in another version.
    Damaged(Damaged),
    /// The query keeps something else.
    Changed(Mismatch),
}

/// Checks that a plan keeps what a checkpoint has.
///
/// # Errors
/// When it keeps something else, or the checkpoint does not have what it says.
pub fn check_fit(plan: &QueryPlan, manifest: &Manifest) -> Result<(), Unfit> {
    let damaged = |what: String| Err(Unfit::Damaged(Damaged(what)));
    let version = manifest.shape["version"].as_u64();
    if version != Some(u64::from(SHAPE_VERSION)) {
        let version = version.map_or_else(|| "none".to_string(), |version| version.to_string());
        return damaged(format!(
            "it describes its state in version {version}; this version of Millstream reads version {SHAPE_VERSION}"
        ));
    }
    let kept: PlanShape = match serde_json::from_value(manifest.shape.clone()) {
        Ok(kept) => kept,
        Err(e) => return damaged(format!("it does not say what it keeps: {e}")),
    };
    let described = (kept.sources.len(), kept.aggregations.len(), kept.operators.len(), kept.sinks.len());
    let stored = (manifest.sources.len(), manifest.aggregations.len(), manifest.operators.len(), manifest.sinks.len());
    if described != stored {
        return damaged("it does not keep what it says".into());
    }
    PlanShape::of(plan).check(&kept).map_err(Unfit::Changed)
}
