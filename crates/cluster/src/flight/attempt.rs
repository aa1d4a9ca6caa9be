//! An attempt of a job, as one of its nodes sees it, and what it says of that first.

use super::token::Token;
use crate::frame::VERSION;
use millstream_types::Diagnostic;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// An attempt of a job, as one of its nodes sees it.
#[derive(Debug, Clone)]
pub struct MeshConfig {
    /// The job.
    pub job: String,
    /// Its attempt: the highest number counts.
    pub attempt: u64,
    /// The number of this node.
    pub me: usize,
    /// Host and port of each node, by number.
    pub peers: Vec<String>,
    /// The only other node that there are lanes with; `None`: with all. Where nodes send each other nothing each is in a mesh of two with the
    /// first one, so that another process can take its place in a later attempt while the others stay in theirs.
    pub only: Option<usize>,
    /// A fingerprint of the plan and of what else must be equal.
    pub plan: u64,
    /// The version of the engine.
    pub engine: String,
    /// What the nodes of the job know.
    pub token: Token,
    /// What a lane may have unfinished at its receiver, in bytes. The same on all nodes.
    pub window: u64,
    /// How long the others are tried to be reached.
    pub connect_timeout: Duration,
}

impl MeshConfig {
    /// How long the others are tried to be reached, if nobody says otherwise.
    pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

    /// The other nodes that there are lanes with.
    pub(crate) fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let (me, only) = (self.me, self.only);
        (0..self.peers.len()).filter(move |&node| node != me && only.is_none_or(|only| only == node))
    }

    /// Whether there are lanes with a node.
    pub(super) fn has(&self, node: usize) -> bool {
        node < self.peers.len() && node != self.me && self.only.is_none_or(|only| only == node)
    }

    pub(super) fn check(&self) -> Result<(), Diagnostic> {
        let is_whole = self.only.is_none_or(|only| self.has(only));
        if self.me >= self.peers.len() || self.window == 0 || !is_whole {
            let text = format!("there is no node {} of {} with a window of {}", self.me, self.peers.len(), self.window);
            return Err(Diagnostic::bug(text));
        }
        if self.job.len() > 1024 || self.engine.len() > 1024 {
            return Err(Diagnostic::bug("the name of a job or of a version is too long for the first message"));
        }
        Ok(())
    }

    /// What this node says to another first.
    pub(super) fn hello(&self, to: usize) -> Hello {
        Hello {
            protocol: VERSION,
            job: self.job.clone(),
            attempt: self.attempt,
            from: self.me,
            to,
            nodes: self.peers.len(),
            plan: self.plan,
            engine: self.engine.clone(),
            window: self.window,
            token: self.token.reveal().to_string(),
        }
    }
}

/// The first message of a stream, as JSON. It has no Debug: the token is in it.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) protocol: u8,
    pub(super) job: String,
    pub(super) attempt: u64,
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) nodes: usize,
    pub(super) plan: u64,
    pub(super) engine: String,
    pub(super) window: u64,
    pub(super) token: String,
}
