//! One attempt of a job on one node, as the engine sees it.

use super::dial::Dial;
use super::io::Io;
use super::lanes::Shared;
use super::sending;
use crate::transport::{Held, Sent, Transport, check, lost};
use bytes::Bytes;
use millstream_types::Diagnostic;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The lanes of one node in one attempt of a job. Dropping it without [closing](Transport::close) looks to the others as if its process had been killed.
pub struct Mesh {
    shared: Arc<Shared>,
    _io: Arc<Io>,
}

impl Mesh {
    pub(super) fn start(shared: Arc<Shared>, dial: &Dial, io: &Arc<Io>) -> Mesh {
        for to in shared.others() {
            io.runtime().spawn(sending::run(Arc::clone(&shared), to, dial.clone()));
        }
        Mesh { shared, _io: Arc::clone(io) }
    }

    /// The first part of [`Transport::close`]: nothing more is sent than what waits. Never waits itself.
    pub fn begin_close(&self) {
        self.shared.begin_close();
    }

    /// What waits for one node, in bytes.
    pub fn unsent_to(&self, to: usize) -> u64 {
        self.shared.lane(to).unsent()
    }

    /// What one node has not finished of what was sent to it, in bytes: at most [`MeshConfig::window`](super::MeshConfig::window), or one message;
    /// nothing once the lane has ended.
    pub fn unfinished_at(&self, to: usize) -> u64 {
        self.shared.lane(to).unfinished()
    }

    /// The credit that each lane begins with, in bytes.
    pub fn window(&self) -> u64 {
        self.shared.config().window
    }
}

impl Transport for Mesh {
    fn me(&self) -> usize {
        self.shared.config().me
    }

    fn count(&self) -> usize {
        self.shared.config().peers.len()
    }

    fn send(&self, to: usize, message: Bytes, sent: Sent, held: Option<Held>) -> Result<(), Diagnostic> {
        check(self, to, &message, sent)?;
        self.shared.send(to, message, sent, held);
        Ok(())
    }

    fn unsent_bytes(&self) -> u64 {
        self.shared.unsent()
    }

    fn close(&self, within: Duration) -> bool {
        self.shared.close(within)
    }
}

impl Drop for Mesh {
    fn drop(&mut self) {
        self.shared.stop(lost(self.shared.config().me, "it has ended"));
    }
}

impl fmt::Debug for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = self.shared.config();
        write!(f, "Mesh({} attempt {}, node {} of {})", config.job, config.attempt, config.me, config.peers.len())
    }
}
