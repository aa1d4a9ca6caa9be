//! Runs on several processes: what the first node has the others know, and how one of them takes part.
//!
//! The process that runs a statement is the first node: it has the sinks, makes the cuts and completes the checkpoints. Every other node gets the
//! definitions and settings of the session, and the statement, as text, and plans it for itself. Two plans that differ are an error, never two
//! halves of one job.

use crate::monitor::RunMonitor;
use crate::planned::PreparedRun;
use crate::recovery::JOB_FILE;
use crate::session::{Session, SessionConfig};
use millstream_runtime::{CancelToken, CheckpointConfig, Nodes, Recovered};
use millstream_storage::{JobPartitions, StatePlace, store_failed};
use millstream_types::{Diagnostic, code};
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// Has other processes take part in runs.
pub trait Cluster: Send + Sync + fmt::Debug {
    /// Has the other nodes begin a run of which this process is the first node.
    ///
    /// # Errors
    /// When there are no nodes, or one of them cannot take part; its own error, if it has one.
    fn begin(&self, part: &RunPart, monitor: &RunMonitor) -> Result<FirstNode, Diagnostic>;
}

/// The first node of a run.
pub struct FirstNode {
    /// Its place among the nodes.
    pub nodes: Nodes,
    /// Dropped when the run has ended here.
    pub held: Box<dyn Any + Send>,
}

/// What a node has to know of a run to take part in it. It has the secrets of the session.
#[derive(Clone, Serialize, Deserialize)]
pub struct RunPart {
    /// The statements that have made the session what it is.
    pub session: Vec<String>,
    /// The statement that is run.
    pub statement: String,
    /// What every node has to have planned.
    pub plan: u64,
    /// Partitions of tables and of keyed operators.
    pub partitions: (u32, u32),
    /// Where its checkpoints are, if it has any.
    pub state: Option<StateOfJob>,
}

/// Where the checkpoints of a job are.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StateOfJob {
    /// The state directory.
    pub place: String,
    /// The number of the job there.
    pub number: usize,
    /// What tells the job from all others.
    pub job: String,
    /// The process that holds the directory, among those that did.
    pub run: u64,
    /// See [`CheckpointConfig::base`].
    pub base: u64,
    /// The checkpoint that it resumes from.
    pub restored: Option<u64>,
}

impl fmt::Debug for RunPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunPart").field("plan", &self.plan).field("state", &self.state).finish_non_exhaustive()
    }
}

/// A run that this process takes part in, planned.
pub struct PartOfRun {
    run: PreparedRun,
    checkpoints: Option<CheckpointConfig>,
}

impl PartOfRun {
    /// Plans a run, and finds the checkpoint that it resumes from.
    ///
    /// # Errors
    /// When it cannot be planned here, or not as the first node has; when its checkpoint cannot be read.
    pub fn new(part: &RunPart, config: SessionConfig) -> Result<PartOfRun, Diagnostic> {
        let mut session = Session::new(config);
        part.session.iter().try_for_each(|statement| session.run(statement))?;
        let statements = session.parse(&part.statement)?;
        let [statement] = statements.as_slice() else { return Err(Diagnostic::bug("a node runs one statement")) };
        let mut run = session.plan_with(statement, &mut |_| Ok(None))?;
        let (tables, keys) = part.partitions;
        run.cut_into(JobPartitions { tables, keys });
        let mut checkpoints = None;
        if let Some(state) = &part.state {
            let (config, kept) = state.checkpoints(&mut run)?;
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
        Ok(PartOfRun { run, checkpoints })
    }

    /// Takes part until the run ends.
    ///
    /// # Errors
    /// What has ended it, on whichever node; [`CANCELLED`](code::CANCELLED) when this one was asked to stop.
    pub fn run(self, nodes: Nodes, cancel: &CancelToken) -> Result<(), Diagnostic> {
        self.run.follow(nodes, self.checkpoints, cancel)
    }
}

impl StateOfJob {
    /// The checkpoints, and the one that a run resumes from.
    fn checkpoints(&self, run: &mut PreparedRun) -> Result<(CheckpointConfig, Option<Recovered>), Diagnostic> {
        let place = StatePlace::parse(&self.place)?;
        let checkpoints = place.checkpoints_of_node(self.number, self.run);
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

/// What a prepared run needs to be run on several processes.
#[derive(Debug, Clone)]
pub(crate) struct Distributed {
    pub(crate) cluster: Arc<dyn Cluster>,
    pub(crate) session: Vec<String>,
    pub(crate) statement: String,
}
