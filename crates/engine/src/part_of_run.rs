//! Another node than the first one of a run: plans it from what it is told, and takes part.

use crate::cluster::{Loader, RunPart, RunTask, StateOfJob};
use crate::planned::PreparedRun;
use crate::recovery::{JOB_FILE, sink_files};
use crate::replay::session_of;
use crate::session::SessionConfig;
use crate::sinks;
use millstream_connectors::{Sink, SinkJob, SinkWriter};
use millstream_runtime::{CancelToken, CheckpointConfig, Nodes, Recovered};
use millstream_storage::{JobPartitions, StatePlace, store_failed};
use millstream_types::{Diagnostic, code};
use std::sync::Arc;

/// A run that this process takes part in, planned.
pub struct PartOfRun {
    run: PreparedRun,
    checkpoints: Option<CheckpointConfig>,
    sinks: Vec<Box<dyn Sink>>,
}

impl PartOfRun {
    /// Plans a run, and finds the checkpoint that it resumes from. `of`: the number of the node, and the attempt. `loader` makes what is code
    /// of the program.
    ///
    /// # Errors
    /// When it cannot be planned here, or not as the first node has; when its checkpoint cannot be read; when a sink cannot be opened, or
    /// writes somewhere else than that of the first node.
    pub fn new(
        part: &RunPart,
        of: (usize, u64),
        config: &SessionConfig,
        loader: Option<&dyn Loader>,
    ) -> Result<PartOfRun, Diagnostic> {
        let session = session_of(&part.session, config, loader)?;
        let mut run = match &*part.task {
            RunTask::Statement(text) => session.plan_with(&text.parse()?, &mut |_| Ok(None))?,
            RunTask::Insert { target, overwrites, session: steps, query } => {
                let relation = session_of(steps, config, loader)?.relation(&query.parse()?, &mut |_| Ok(None))?;
                session.plan_insert(target, *overwrites, &relation)?
            }
        };
        let (tables, keys) = part.partitions;
        run.cut_into(JobPartitions { tables, keys });
        let mut checkpoints = None;
        if let Some(state) = &part.state {
            let (config, kept) = state.checkpoints(&mut run, of)?;
            checkpoints = Some(CheckpointConfig { restored: kept, ..config });
        }
        let own = run.fingerprint();
        if own != part.plan {
            let message =
                format!("this node plans the statement differently ({own:016x} instead of {:016x})", part.plan);
            return Err(Diagnostic::new(code::NODES_DIFFER, message).advise(
                "install the same version of Millstream everywhere, and have all nodes see the same files and topics",
            ));
        }
        let place = part.state.as_ref().map(|state| StatePlace::parse(&state.place)).transpose()?;
        let job = part.state.as_ref().zip(place.as_ref());
        let job = job.map(|(state, place)| move |sink| state.sink_job(place, sink, of));
        let sinks = sinks::of_another_node(&run.plan, &part.sinks, job)?;
        Ok(PartOfRun { run, checkpoints, sinks })
    }

    /// The number of the run, which code of the program is told.
    pub fn number(&self) -> u64 {
        self.run.config.settings.run
    }

    /// Takes part until the run ends.
    ///
    /// # Errors
    /// What has ended it, on whichever node; [`CANCELLED`](code::CANCELLED) when this one was asked to stop.
    pub fn run(self, nodes: Nodes, cancel: &CancelToken) -> Result<(), Diagnostic> {
        self.run.follow(nodes, self.checkpoints, self.sinks, cancel)
    }
}

impl StateOfJob {
    /// What a sink of another node than the first belongs to.
    pub(crate) fn sink_job(&self, place: &StatePlace, sink: usize, (node, attempt): (usize, u64)) -> SinkJob {
        let (directory, remote) = sink_files(place, self.number);
        let writer = SinkWriter { run: self.run, node, attempt };
        let (job, resumes) = (self.job.clone(), self.restored);
        SinkJob { job, sink, writer, is_distributed: true, resumes, directory, remote, shared: Arc::default() }
    }

    /// The checkpoints, and the one that a run resumes from.
    fn checkpoints(
        &self,
        run: &mut PreparedRun,
        (node, attempt): (usize, u64),
    ) -> Result<(CheckpointConfig, Option<Recovered>), Diagnostic> {
        let place = StatePlace::parse(&self.place)?;
        let checkpoints = place.shared_checkpoints(self.number, self.run).of_node(node, attempt);
        let seen = checkpoints.store().read(JOB_FILE, 0..self.job.len() as u64);
        if seen.ok().as_deref() != Some(self.job.as_bytes()) {
            let message =
                format!("the state directory {place} is another one on this node: the job {} is not there", self.job);
            return Err(Diagnostic::new(code::STATE_NOT_SHARED, message).advise(
                "give one that all nodes share, such as s3://bucket/prefix or a path of a shared file system",
            ));
        }
        let restored = self.restored.map(|number| {
            let failed =
                |e| store_failed(code::CHECKPOINT_DAMAGED, &format!("the state in {place} cannot be read"), &e);
            let listed = checkpoints.list().map_err(failed)?.into_iter().find(|listed| listed.checkpoint == number);
            let missing = || {
                let message = format!("checkpoint {number} is not in {place}, as this node sees it");
                Diagnostic::new(code::CHECKPOINT_DAMAGED, message)
            };
            let manifest = listed.ok_or_else(missing)?.manifest;
            let damaged = |what| Diagnostic::new(code::CHECKPOINT_DAMAGED, format!("checkpoint {number}: {what}"));
            run.resume_from(manifest.map_err(damaged)?)
        });
        let config = CheckpointConfig {
            checkpoints,
            job: self.job.clone(),
            name: None,
            interval: None,
            retained: 1,
            base: self.base,
            restored: None,
        };
        Ok((config, restored.transpose()?))
    }
}
