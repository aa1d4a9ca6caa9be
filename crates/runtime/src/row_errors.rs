//! Bad rows within a task: what the policy does about them.

use crate::config::ErrorPolicy;
use crate::stats::QueryStats;
use millstream_codegen::execute::{Flow, RowError};
use millstream_types::Diagnostic;

/// Collects the bad rows of one task.
pub(crate) struct RowErrors<'a> {
    policy: ErrorPolicy,
    stats: &'a QueryStats,
    fatal: Option<Diagnostic>,
}

impl<'a> RowErrors<'a> {
    /// None yet.
    pub(crate) fn new(policy: ErrorPolicy, stats: &'a QueryStats) -> RowErrors<'a> {
        RowErrors { policy, stats, fatal: None }
    }

    /// Decides about a bad row.
    pub(crate) fn take(&mut self, error: RowError) -> Flow {
        match self.policy {
            ErrorPolicy::Skip => {
                self.stats.skip_errors(1, Some(&error.diagnostic));
                Flow::Skip
            }
            ErrorPolicy::Fail => {
                self.fatal.get_or_insert(error.diagnostic);
                Flow::Stop
            }
        }
    }

    /// Fails with the error that ends the query, if there was one.
    pub(crate) fn check(&mut self) -> Result<(), Diagnostic> {
        self.fatal().map_or(Ok(()), Err)
    }

    /// The error that ends the query, if there was one.
    pub(crate) fn fatal(&mut self) -> Option<Diagnostic> {
        self.fatal.take()
    }
}
