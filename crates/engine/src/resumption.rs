//! Whether inserts could resume, before anything is stopped or opened for them.

use crate::fitting::{of_another_version, recovered};
use crate::known_jobs::{KnownJobs, unusable};
use crate::planned::PreparedRun;
use millstream_storage::StatePlace;
use millstream_types::Diagnostic;
use std::collections::VecDeque;

/// See [`Session::would_resume`](crate::Session::would_resume).
pub(crate) fn would_resume(place: StatePlace, inserts: Vec<(PreparedRun, Vec<String>)>) -> Result<(), Diagnostic> {
    if !place.exists().map_err(|e| unusable(&place.to_string(), &e))? {
        return Ok(());
    }
    let failed = |e| unusable(&place.to_string(), &e);
    let numbers = place.jobs().map_err(failed)?;
    let mut known = KnownJobs::of(place.clone())?;
    let mut to_come: VecDeque<Vec<String>> = inserts.iter().map(|(_, targets)| targets.clone()).collect();
    let mut taken = Vec::new();
    for (mut run, _) in inserts {
        to_come.pop_front();
        run.plan_as_kept(|shape| !known.has_jobs() || known.keeps(shape));
        let job = known.take(&run.shape(), to_come.make_contiguous(), run.name())?;
        let listed = match numbers.contains(&job.number) {
            true => place.checkpoints(job.number).list().map_err(failed)?,
            false => Vec::new(),
        };
        if let Some(error) = of_another_version(&listed) {
            return Err(error);
        }
        if let Some(newest) = listed.into_iter().find_map(|listed| listed.manifest.ok()) {
            recovered(&run.plan, newest)?;
        }
        // None is that of two statements.
        taken.push(job);
    }
    Ok(())
}
