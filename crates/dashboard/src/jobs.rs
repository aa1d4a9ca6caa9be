//! What is shown, and whom actions are asked of: the command implements it.

use millstream::{Awaited, Diagnostic, RunDescription, RunMonitor, StatsSnapshot};
use serde::Serialize;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::SystemTime;

/// The jobs of a process. All is asked from threads of the server, while jobs run.
pub trait Jobs: Send + Sync {
    /// How the jobs came here.
    fn mode(&self) -> Mode;

    /// All jobs, in an order that stays.
    fn views(&self) -> Vec<JobView>;

    /// Has something done about the job of this name; what is to be told of it. It may take minutes, until a checkpoint is complete.
    ///
    /// # Errors
    /// When it is not done, and why.
    fn act(&self, job: &str, action: Action) -> Result<String, Refused>;

    /// Writes down that somebody has asked for something that changes a job, and what came of it.
    fn audit(&self, line: &str);

    /// Who takes scripts that are sent here; `None`: nobody does.
    fn scripts(&self) -> Option<&dyn Scripts> {
        None
    }
}

/// How jobs come into the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// `millstream run`: it ends with them.
    Run,
    /// `millstream serve`: they are the files of a directory.
    Serve,
}

/// What can be done about a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Take a checkpoint.
    Checkpoint,
    /// Take a checkpoint, if it has a state directory, and end.
    Stop,
    /// Take a checkpoint, and resume on so many nodes, or on all that are there.
    Rescale(Option<NonZeroUsize>),
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Checkpoint => f.write_str("checkpoint"),
            Action::Stop => f.write_str("stop"),
            Action::Rescale(None) => f.write_str("rescale to all nodes"),
            Action::Rescale(Some(nodes)) => write!(f, "rescale to {nodes} nodes"),
        }
    }
}

/// Why an action was not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// In a sentence.
    pub message: String,
    /// What to do.
    pub advice: Option<String>,
}

impl Refused {
    /// For a reason, with advice.
    pub fn new(message: &str, advice: &str) -> Refused {
        Refused { message: message.into(), advice: Some(advice.into()) }
    }
}

/// Takes scripts that are sent over HTTP.
pub trait Scripts: Send + Sync {
    /// Checks a script as one that is to be run, and puts it where the jobs come from; what is to be told of it. It may take minutes: a table may
    /// ask a server for its columns.
    ///
    /// # Errors
    /// When it is not taken, and why. All is as it was then.
    fn submit(&self, name: &str, sql: &str) -> Result<String, ScriptRefused>;

    /// Takes a script away; what is to be told of it.
    ///
    /// # Errors
    /// When it is not taken away, and why.
    fn remove(&self, name: &str) -> Result<String, ScriptRefused>;
}

/// Why a script is not taken, or not taken away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScriptRefused {
    /// No script can be called so.
    Name(Diagnostic),
    /// There is no script of this name.
    Missing(Diagnostic),
    /// The text cannot be run.
    Text(Diagnostic),
    /// Whether it can be run is not known now: a server that was asked does not answer, or what is in front of all scripts is broken.
    Unknown(Diagnostic),
    /// The file cannot be read or written.
    File(Diagnostic),
}

/// Where a job is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// Sources and sinks are being opened.
    Starting,
    /// Rows are read.
    Running,
    /// It was asked to stop.
    Stopping,
    /// It has failed, and waits to be started again.
    Restarting,
    /// It has come to the end of its input.
    Finished,
    /// It was stopped, and resumes when it is run again.
    Stopped,
    /// It has failed, and is not started again.
    Failed,
}

/// A job at one moment.
#[derive(Debug, Clone)]
pub struct JobView {
    /// Its name, which no other job of the process has.
    pub name: String,
    /// The file that it comes from.
    pub file: Option<String>,
    /// Where it is in its life.
    pub state: JobState,
    /// Since when it is in that state.
    pub since: SystemTime,
    /// How often it was started again after a failure.
    pub restarts: u64,
    /// The failure that it ended with last, in text as on standard error.
    pub error: Option<String>,
    /// The run that takes place, or the last one.
    pub monitor: Option<Arc<RunMonitor>>,
    /// What the run does.
    pub description: Option<Arc<RunDescription>>,
    /// Its statement, with secrets masked.
    pub statement: String,
    /// Where its checkpoints are.
    pub state_dir: Option<String>,
    /// Whether it may be asked to run on another number of nodes.
    pub can_rescale: bool,
}

impl JobView {
    /// One that runs, and of which nothing is known.
    #[cfg(test)]
    pub(crate) fn running(name: &str) -> JobView {
        JobView {
            name: name.into(),
            file: None,
            state: JobState::Running,
            since: SystemTime::now(),
            restarts: 0,
            error: None,
            monitor: None,
            description: None,
            statement: String::new(),
            state_dir: None,
            can_rescale: false,
        }
    }

    /// The statistics of now; `None` before the run has begun.
    pub(crate) fn stats(&self) -> Option<StatsSnapshot> {
        self.monitor.as_ref()?.stats().map(|stats| stats.snapshot())
    }
}

/// A job with its statistics.
#[derive(Debug)]
pub(crate) struct JobSnapshot {
    pub(crate) view: JobView,
    /// `None` as long as sources and sinks are being opened.
    pub(crate) stats: Option<StatsSnapshot>,
}

impl JobSnapshot {
    /// All jobs.
    pub(crate) fn all(jobs: &dyn Jobs) -> Vec<JobSnapshot> {
        jobs.views().into_iter().map(JobSnapshot::of).collect()
    }

    pub(crate) fn of(view: JobView) -> JobSnapshot {
        JobSnapshot { stats: view.stats(), view }
    }

    /// What the run waits for before it starts.
    pub(crate) fn awaited(&self) -> Option<Awaited> {
        self.view.monitor.as_ref()?.awaited()
    }

    /// What the job still waits for, if it has not begun, or that it has failed.
    pub(crate) fn waits_for(&self) -> Option<String> {
        let name = &self.view.name;
        match self.view.state {
            JobState::Finished | JobState::Stopped => return None,
            JobState::Failed => return Some(format!("{name}: it has failed")),
            _ => {}
        }
        let Some(stats) = &self.stats else {
            let waits =
                self.awaited().map_or_else(|| "a source or a sink does not answer yet".into(), |what| what.to_string());
            return Some(format!("{name}: {waits}"));
        };
        let source = stats.sources.iter().find(|source| source.split_count == 0)?;
        Some(format!("{name}: {} does not answer yet", source.name))
    }
}
