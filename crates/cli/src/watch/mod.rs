//! What `--http` serves: metrics for Prometheus, the statistics as JSON, and whether the process lives and its jobs have begun.
//!
//! Nothing of it is on the way of a row: what is served is made of [`StatsSnapshot`]s when somebody asks.

#![cfg_attr(not(feature = "http"), allow(dead_code))]

mod metrics;
#[cfg(feature = "http")]
mod server;

use crate::failure::Failure;
#[cfg(not(feature = "http"))]
use millstream::{Diagnostic, code};
use millstream::{RunMonitor, StatsSnapshot};
use std::any::Any;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) use metrics::reference_markdown;

/// Serves what is watched at an address until what is returned is dropped. Says which address it is.
#[cfg(feature = "http")]
pub(crate) fn serve(address: &str, watched: Watched) -> Result<(SocketAddr, Box<dyn Any>), Failure> {
    let server = server::Server::start(address, watched)?;
    Ok((server.address, Box::new(server)))
}

/// There is no server in this program.
#[cfg(not(feature = "http"))]
pub(crate) fn serve(_: &str, _: Watched) -> Result<(SocketAddr, Box<dyn Any>), Failure> {
    let error = Diagnostic::new(code::USAGE, "this program was built without --http");
    Err(Failure::usage(error.advise("build it with all it can: make release")))
}

/// The queries and inserts of the process that run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watched {
    jobs: Arc<Mutex<Vec<WatchedJob>>>,
}

#[derive(Debug, Clone)]
struct WatchedJob {
    name: String,
    monitor: Arc<RunMonitor>,
    restarts: u64,
}

/// A job at one moment.
#[derive(Debug)]
struct JobSnapshot {
    name: String,
    /// `None` as long as sources and sinks are being opened.
    stats: Option<StatsSnapshot>,
    /// The table that is being opened until then.
    opening: Option<String>,
    restarts: u64,
}

impl JobSnapshot {
    /// What the job still waits for, if it has not begun.
    fn waits_for(&self) -> Option<String> {
        let Some(stats) = &self.stats else {
            let table = self.opening.as_deref().unwrap_or("a source or a sink");
            return Some(format!("{}: {table} does not answer yet", self.name));
        };
        let source = stats.sources.iter().find(|source| source.split_count == 0)?;
        Some(format!("{}: {} does not answer yet", self.name, source.name))
    }
}

impl Watched {
    /// Takes the place of what ran before.
    pub(crate) fn set(&self, jobs: impl IntoIterator<Item = (String, Arc<RunMonitor>, u64)>) {
        let jobs = jobs.into_iter().map(|(name, monitor, restarts)| WatchedJob { name, monitor, restarts }).collect();
        *self.jobs.lock().unwrap_or_else(PoisonError::into_inner) = jobs;
    }

    /// Whatever ran waits for being started again.
    pub(crate) fn pause(&self) {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.iter_mut().for_each(|job| job.monitor = Arc::new(RunMonitor::new()));
    }

    fn snapshots(&self) -> Vec<JobSnapshot> {
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let snapshot = |job: WatchedJob| {
            let stats = job.monitor.stats().map(|stats| stats.snapshot());
            JobSnapshot { name: job.name, stats, opening: job.monitor.opening(), restarts: job.restarts }
        };
        jobs.into_iter().map(snapshot).collect()
    }
}
