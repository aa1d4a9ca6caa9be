//! Runs on several processes: what the first node has the others know, and how one of them takes part.
//!
//! The process that runs a statement is the first node: it has the sinks that are not on every node, makes the cuts and completes the checkpoints. Every other node gets the
//! definitions and settings of the session, and the statement, as text, and plans it for itself; what is code or data of the program comes
//! with them (`history`). Two plans that differ are an error, never two halves of one job.

use crate::monitor::RunMonitor;
pub use crate::part_of_run::PartOfRun;
pub use crate::portable::Portable;
pub use crate::replay::Loader;
use millstream_plan::physical::distribute;
use millstream_plan::pipeline::QueryPlan;
use millstream_runtime::Nodes;
pub use millstream_sql::StatementText;
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
    /// What has made the session what it is.
    pub session: Arc<[SessionStep]>,
    /// What is run in it.
    pub task: Arc<RunTask>,
    /// What every node has to have planned.
    pub plan: u64,
    /// Partitions of tables and of keyed operators.
    pub partitions: (u32, u32),
    /// Where its checkpoints are, if it has any.
    pub state: Option<StateOfJob>,
    /// By sink of the plan: what a node has to know of one that is on every node.
    pub sinks: Vec<Option<SinkOfNodes>>,
    /// Whether nodes have to do with the first one alone: they send each other nothing, and one that is lost is replaced while the others go on.
    pub is_independent: bool,
    /// Cuts of the run before the node takes part.
    pub cuts: u32,
}

/// What has made a session what it is, as another node is told of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum SessionStep {
    /// A definition or a setting.
    Statement(StatementText),
    /// A function or source that is code of the program.
    Object {
        /// What it is called.
        name: String,
        /// What a [`Loader`] makes it from.
        #[serde(with = "base64_bytes")]
        bytes: Vec<u8>,
    },
    /// Rows that the program has in memory.
    Frame {
        /// What the table is called.
        name: String,
        /// What stands between the parentheses of CREATE TABLE.
        columns: String,
        /// Their number, and the columns of each (`ByteWriter::columns`).
        #[serde(with = "base64_bytes")]
        batches: Vec<u8>,
    },
    /// A table of the program that the run does not read, or that only the first node writes.
    Declared {
        /// What the table is called.
        name: String,
        /// What stands between the parentheses of CREATE TABLE.
        columns: String,
        /// Whether it ends by itself.
        is_bounded: bool,
    },
    /// A query of the program, of which the name is a view.
    View {
        /// What the view is called.
        name: String,
        /// What has made the session that it was bound in.
        session: Vec<SessionStep>,
        /// The query.
        query: StatementText,
    },
}

/// What is run in a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum RunTask {
    /// A query, an insert or a statement set.
    Statement(StatementText),
    /// Writes the rows of a query that was bound in another session.
    Insert {
        /// The table that is written.
        target: String,
        /// Whether it is INSERT OVERWRITE.
        overwrites: bool,
        /// What has made the session of the query.
        session: Vec<SessionStep>,
        /// The query.
        query: StatementText,
    },
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

/// Whether the nodes of a plan have to do with the first one alone, so that one that is lost can resume from the last checkpoint by itself.
pub(crate) fn is_independent(plan: &QueryPlan, has_checkpoints: bool) -> bool {
    has_checkpoints && !plan.has_beats() && distribute(plan).is_independent()
}

impl fmt::Debug for RunPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunPart").field("plan", &self.plan).field("state", &self.state).finish_non_exhaustive()
    }
}

/// What a prepared run needs to be run on several processes.
#[derive(Debug, Clone)]
pub(crate) struct Distributed {
    pub(crate) cluster: Arc<dyn Cluster>,
    /// What other nodes are told of the session.
    pub(crate) session: Arc<[SessionStep]>,
    /// And what is run in it.
    pub(crate) task: Arc<RunTask>,
}

mod base64_bytes {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::{Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        STANDARD.encode(bytes).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        STANDARD.decode(String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}
