//! What a run gives, and how it is followed from another thread.

use millstream_runtime::{CancelToken, QueryStats, StatsSnapshot};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// What a statement gave.
#[derive(Debug)]
pub enum Outcome {
    /// A definition or a setting took effect; a short message.
    Done(String),
    /// A plan or a definition, to be printed as it is.
    Text(String),
    /// Rows of DESCRIBE or SHOW went to the result target.
    Listed,
    /// A query or an insert ran to its end.
    Ran(Box<StatsSnapshot>),
}

/// What is worth telling a user of a run and is not an error.
#[derive(Debug, Clone, Default)]
pub struct Notices(Arc<Mutex<Vec<String>>>);

impl Notices {
    /// Notes something.
    pub fn say(&self, text: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }
}

/// What a run waits for before it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Awaited {
    /// The source or sink of a table, which is being opened or made to resume.
    Table(String),
    /// Nodes of the cluster, by their addresses, that are not there or busy.
    Nodes(Vec<String>),
}

impl fmt::Display for Awaited {
    /// In a sentence.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Awaited::Table(table) => write!(f, "{table} does not answer yet"),
            Awaited::Nodes(nodes) if nodes.is_empty() => f.write_str("the cluster has no nodes yet"),
            Awaited::Nodes(nodes) => write!(f, "the run waits for {}", nodes.join(", ")),
        }
    }
}

/// Follows a run from another thread: its statistics, and a way to end it.
#[derive(Debug, Default)]
pub struct RunMonitor {
    /// See [`RunMonitor::run`].
    run: u64,
    cancel: CancelToken,
    stats: Mutex<Option<Arc<QueryStats>>>,
    notices: Notices,
    awaited: Mutex<Option<Awaited>>,
}

impl RunMonitor {
    /// A monitor for one statement.
    pub fn new() -> RunMonitor {
        RunMonitor::default()
    }

    pub(crate) fn of_run(run: u64) -> RunMonitor {
        RunMonitor { run, ..RunMonitor::default() }
    }

    /// The number of the run, which functions are told; 0 before it is known.
    pub fn run(&self) -> u64 {
        self.run
    }

    /// Ends the run.
    pub fn cancel(&self) -> &CancelToken {
        &self.cancel
    }

    /// The statistics, once the run has started.
    pub fn stats(&self) -> Option<Arc<QueryStats>> {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What is worth telling a user and is not an error, since the last call: that a query resumes from a checkpoint,
    /// that one is damaged.
    pub fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut *self.notices.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes something that is worth telling a user.
    pub fn notice(&self, text: String) {
        self.notices.say(text);
    }

    /// Where that is noted by what outlives a call.
    pub fn notices(&self) -> Notices {
        self.notices.clone()
    }

    /// What the run waits for now, before it has started: a server or a node may not answer.
    pub fn awaited(&self) -> Option<Awaited> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes what the run waits for from now on.
    pub fn awaits(&self, what: Option<Awaited>) {
        *self.awaited.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }

    pub(crate) fn opens(&self, table: &str) {
        self.awaits(Some(Awaited::Table(table.to_string())));
    }

    pub(crate) fn started(&self, stats: &Arc<QueryStats>) {
        *self.stats.lock().unwrap_or_else(PoisonError::into_inner) = Some(stats.clone());
    }
}
