//! Whether a plan can resume from a checkpoint.

use millstream_plan::pipeline::QueryPlan;
use millstream_runtime::{Recovered, Unfit};
use millstream_storage::{Damaged, Listed, Manifest, is_of_other_format};
use millstream_types::{Diagnostic, code};

/// The error for state of another version, if the newest checkpoint is: then so is everything else.
pub(crate) fn of_another_version(listed: &[Listed]) -> Option<Diagnostic> {
    let Listed { checkpoint, manifest: Err(Damaged(what)) } = listed.first()? else { return None };
    is_of_other_format(what).then(|| {
        Diagnostic::new(code::CHECKPOINT_DAMAGED, format!("checkpoint {checkpoint} cannot be used: {what}"))
            .advise("continue with the version that has written it, or start the job from the beginning with another state directory")
    })
}

/// A checkpoint as a plan that resumes from it sees it.
pub(crate) fn recovered(plan: &QueryPlan, manifest: Manifest) -> Result<Recovered, Diagnostic> {
    let checkpoint = manifest.checkpoint;
    Recovered::new(plan, manifest).map_err(|unfit| does_not_fit(checkpoint, unfit))
}

fn does_not_fit(checkpoint: u64, unfit: Unfit) -> Diagnostic {
    match unfit {
        Unfit::Damaged(Damaged(what)) => {
            let message = format!("checkpoint {checkpoint} cannot be used: {what}");
            Diagnostic::new(code::CHECKPOINT_DAMAGED, message)
        }
        Unfit::Changed(mismatch) => Diagnostic::new(code::QUERY_CHANGED, mismatch.to_string()),
    }
}
