//! Runs on several processes: what the first node has the others know, and how one of them takes part.
//!
//! The process that runs a statement is the first node: it has the sinks that are not on every node, makes the cuts and completes the checkpoints. Every other node gets the
//! definitions and settings of the session, and the statement, as text, and plans it for itself. Two plans that differ are an error, never two
//! halves of one job.

use crate::monitor::RunMonitor;
pub use crate::part_of_run::PartOfRun;
use millstream_runtime::Nodes;
use millstream_types::Diagnostic;
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

    /// Has runs that begin from now on take place on `nodes` nodes, this process included; `None`: on all that are there.
    ///
    /// # Errors
    /// When there are fewer.
    fn resize(&self, nodes: Option<usize>) -> Result<(), Diagnostic>;

    /// Where the nodes of the run are that began last, this process first.
    fn members(&self) -> Vec<String>;
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
    /// By sink of the plan: what a node has to know of one that is on every node.
    pub sinks: Vec<Option<SinkOfNodes>>,
}

/// A sink that is on every node.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SinkOfNodes {
    /// Its number in the job.
    pub number: usize,
    /// What it has to find where it writes to.
    pub meets: Option<String>,
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
    /// A number below all that its checkpoints will get.
    pub base: u64,
    /// The checkpoint that it resumes from.
    pub restored: Option<u64>,
}

impl fmt::Debug for RunPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunPart").field("plan", &self.plan).field("state", &self.state).finish_non_exhaustive()
    }
}

/// The statements that have made a session what it is. They have its secrets, so Debug does not show them.
#[derive(Clone, Default)]
pub(crate) struct Statements(Arc<Vec<String>>);

impl Statements {
    /// Adds the next one.
    pub(crate) fn note(&mut self, statement: String) {
        Arc::make_mut(&mut self.0).push(statement);
    }

    /// Their texts, for another node.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.0.to_vec()
    }
}

impl fmt::Debug for Statements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} statements", self.0.len())
    }
}

/// What a prepared run needs to be run on several processes.
#[derive(Debug, Clone)]
pub(crate) struct Distributed {
    pub(crate) cluster: Arc<dyn Cluster>,
    pub(crate) session: Statements,
    pub(crate) statement: String,
}
