//! What a run gives, and how it is followed from another thread.

use millstream_runtime::{CancelToken, QueryStats, StatsSnapshot};
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

/// Follows a run from another thread: its statistics, and a way to end it.
#[derive(Debug, Default)]
pub struct RunMonitor {
    /// See [`RunMonitor::run`].
    run: u64,
    cancel: CancelToken,
    stats: Mutex<Option<Arc<QueryStats>>>,
    notices: Notices,
    /// The table that is being opened.
    opening: Mutex<Option<String>>,
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

    /// The table whose source or sink is being opened or made to resume, before the run has started: its server may not answer.
    pub fn opening(&self) -> Option<String> {
        self.opening.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn opens(&self, table: &str) {
        *self.opening.lock().unwrap_or_else(PoisonError::into_inner) = Some(table.to_string());
    }

    pub(crate) fn started(&self, stats: &Arc<QueryStats>) {
        *self.stats.lock().unwrap_or_else(PoisonError::into_inner) = Some(stats.clone());
    }
}
