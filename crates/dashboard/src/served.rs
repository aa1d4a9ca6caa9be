//! What the routes serve, and for whom.

use crate::history::Histories;
use crate::jobs::{JobSnapshot, JobView, Jobs};
use std::net::SocketAddr;
use std::sync::Arc;

/// From where the server can be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Exposure {
    /// From this machine alone.
    ThisMachine,
    /// From others, without a token: metrics and probes only.
    MetricsOnly,
    /// From others, under TLS, by those who have the token.
    Token(Token),
}

/// A token, which is never shown.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token(pub(crate) String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// Where a request comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// What the routes serve.
pub(crate) struct Served {
    pub(crate) jobs: Arc<dyn Jobs>,
    pub(crate) histories: Arc<Histories>,
    pub(crate) exposure: Exposure,
    pub(crate) names: Vec<String>,
}

impl Served {
    /// All jobs with their statistics.
    pub(crate) fn snapshots(&self) -> Vec<JobSnapshot> {
        JobSnapshot::all(&*self.jobs)
    }

    /// The job of a name.
    pub(crate) fn view(&self, name: &str) -> Option<JobView> {
        self.jobs.views().into_iter().find(|view| view.name == name)
    }
}
