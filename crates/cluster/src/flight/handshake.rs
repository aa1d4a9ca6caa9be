//! Who may speak to whom: what is asked of the first frame of a stream.

use super::attempt::{Hello, MeshConfig};
use super::lanes::Shared;
use crate::attempts::{Precedence, precedence, stale};
use crate::transport::lost;
use millstream_types::{Diagnostic, code};
use std::sync::{Arc, Weak};

/// The answer to a hello.
pub(super) enum Verdict {
    /// The stream belongs to this mesh.
    Welcome(Arc<Shared>),
    /// This node has not begun that attempt; it may yet.
    NotYet,
    /// No.
    Refused(Diagnostic),
}

/// The attempts that a listener serves: of one job, and no two with lanes to the same node.
#[derive(Default)]
pub(super) struct Serving(Vec<Served>);

struct Served {
    config: MeshConfig,
    mesh: Weak<Shared>,
}

fn differ(what: &str, theirs: impl std::fmt::Display, ours: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::new(code::NODES_DIFFER, format!("{what}: {theirs} there, {ours} here"))
}

impl Serving {
    /// Serves another attempt from now on, in place of those of other jobs and of those that have lanes to the same nodes.
    ///
    /// # Errors
    /// When it is not newer than these.
    pub(super) fn replace(&mut self, mesh: &Arc<Shared>) -> Result<(), Diagnostic> {
        let config = mesh.config();
        let mut replaced = Vec::new();
        for (place, served) in self.0.iter().enumerate() {
            let precedence = served.precedence(&config.job, config.attempt);
            let has_same = || config.others().any(|node| served.config.has(node)) || served.config.me != config.me;
            let why = match precedence {
                Precedence::OfAnotherJob => lost(served.config.me, "it has begun another job"),
                _ if !has_same() => continue,
                Precedence::Same | Precedence::Older => return Err(stale(config.attempt, served.config.attempt)),
                Precedence::Newer => stale(served.config.attempt, config.attempt),
            };
            replaced.push((place, why));
        }
        for (place, why) in replaced.into_iter().rev() {
            if let Some(old) = self.0.swap_remove(place).mesh.upgrade() {
                old.stop(why);
            }
        }
        self.0.push(Served { config: config.clone(), mesh: Arc::downgrade(mesh) });
        Ok(())
    }

    /// Whether a node may speak.
    pub(super) fn judge(&self, hello: &Hello) -> Verdict {
        // Without lanes to that node whichever there is says what is wrong.
        let served = self.0.iter().find(|served| served.config.has(hello.from)).or(self.0.first());
        match served.map(|served| served.judge(hello)) {
            None => Verdict::NotYet,
            Some(Ok(verdict)) => verdict,
            Some(Err(why)) => Verdict::Refused(why),
        }
    }
}

impl Served {
    fn precedence(&self, job: &str, attempt: u64) -> Precedence {
        precedence((job, attempt), (&self.config.job, self.config.attempt))
    }

    fn judge(&self, hello: &Hello) -> Result<Verdict, Diagnostic> {
        let (ours, precedence) = (&self.config, self.precedence(&hello.job, hello.attempt));
        if !ours.token.is(hello.token.as_bytes()) {
            // It may be that of another job or of a newer attempt, which this node is yet to begin. Whoever asks learns nothing by that.
            return match precedence {
                Precedence::Same | Precedence::Older => {
                    Err(Diagnostic::new(code::WRONG_TOKEN, "the token of the job is another on this node"))
                }
                Precedence::Newer | Precedence::OfAnotherJob => Ok(Verdict::NotYet),
            };
        }
        match precedence {
            Precedence::Same => {}
            Precedence::Older => return Err(stale(hello.attempt, ours.attempt)),
            Precedence::Newer | Precedence::OfAnotherJob => return Ok(Verdict::NotYet),
        }
        if hello.engine != ours.engine {
            return Err(differ("the versions of the engine differ", &hello.engine, &ours.engine));
        }
        if hello.plan != ours.plan {
            let [theirs, ours] = [hello.plan, ours.plan].map(|plan| format!("{plan:016x}"));
            return Err(differ("the plans differ", theirs, ours));
        }
        if hello.nodes != ours.peers.len() {
            return Err(differ("the numbers of nodes differ", hello.nodes, ours.peers.len()));
        }
        if hello.window != ours.window {
            return Err(differ("the bytes that may be on their way differ", hello.window, ours.window));
        }
        if hello.to != ours.me {
            return Err(differ("the address is that of another node", hello.to, ours.me));
        }
        if ours.me == 0 && hello.from != 0 && hello.from < ours.peers.len() && !ours.has(hello.from) {
            // The first node makes a mesh with one node after the other.
            return Ok(Verdict::NotYet);
        }
        if !ours.has(hello.from) {
            let text = format!("node {} of {} has no lanes with node {}", ours.me, ours.peers.len(), hello.from);
            return Err(Diagnostic::new(code::NODES_DIFFER, text));
        }
        let Some(mesh) = self.mesh.upgrade().filter(|mesh| !mesh.is_stopped()) else {
            return Err(lost(ours.me, "it has left this attempt"));
        };
        if !mesh.admit(hello.from) {
            let text = format!("node {} is connected already", hello.from);
            return Err(Diagnostic::new(code::NODES_DIFFER, text));
        }
        Ok(Verdict::Welcome(mesh))
    }
}
