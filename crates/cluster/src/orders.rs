//! What the first node asks of the others, as JSON.

use crate::flight::{Listener, MeshConfig, Token};
use bytes::Bytes;
use millstream::cluster::RunPart;
use millstream::{Diagnostic, code};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Begins an attempt: the node leaves what it does, and plans the run before it answers. It has secrets, and so no Debug.
#[derive(Serialize, Deserialize)]
pub(crate) struct Begin {
    pub(crate) job: String,
    pub(crate) attempt: u64,
    /// The number of the node.
    pub(crate) me: usize,
    /// Host and port of each node.
    pub(crate) peers: Vec<String>,
    pub(crate) window: u64,
    pub(crate) engine: String,
    /// What the nodes of the attempt know.
    pub(crate) token: String,
    pub(crate) part: RunPart,
}

/// Ends an attempt.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Leave {
    pub(crate) job: String,
    pub(crate) attempt: u64,
}

/// What a node does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Its version of the engine.
    pub engine: String,
    /// The run that it takes part in: job, attempt and its number there.
    pub run: Option<(String, u64, usize)>,
}

impl Begin {
    /// The mesh of the attempt.
    pub(crate) fn mesh(&self) -> Result<MeshConfig, Diagnostic> {
        Ok(MeshConfig {
            job: self.job.clone(),
            attempt: self.attempt,
            me: self.me,
            peers: self.peers.clone(),
            plan: self.part.plan,
            engine: self.engine.clone(),
            token: Token::new(&self.token)?,
            window: self.window,
            connect_timeout: MeshConfig::CONNECT_TIMEOUT,
        })
    }
}

/// Asks a node for something.
///
/// # Errors
/// Its own, and those of the connection.
pub(crate) fn call<T: for<'a> Deserialize<'a>>(
    listener: &Listener,
    token: &Token,
    node: &str,
    action: &str,
    question: &impl Serialize,
    within: Duration,
) -> Result<T, Diagnostic> {
    let body = to_json(question)?;
    let answer = listener.call(token, node, action, body, within)?;
    from_json(&answer)
}

/// A value as JSON.
pub(crate) fn to_json(value: &impl Serialize) -> Result<Bytes, Diagnostic> {
    serde_json::to_vec(value).map(Bytes::from).map_err(|e| Diagnostic::bug(format!("an order to a node: {e}")))
}

/// What JSON says.
pub(crate) fn from_json<T: for<'a> Deserialize<'a>>(bytes: &[u8]) -> Result<T, Diagnostic> {
    let other = |e| Diagnostic::new(code::NODES_DIFFER, format!("another version of Millstream is spoken: {e}"));
    serde_json::from_slice(bytes).map_err(other)
}
