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

/// The attempt that a listener serves.
#[derive(Default)]
pub(super) struct Serving(Option<Served>);

struct Served {
    config: MeshConfig,
    mesh: Weak<Shared>,
}

fn differ(what: &str, theirs: impl std::fmt::Display, ours: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::new(code::NODES_DIFFER, format!("{what}: {theirs} there, {ours} here"))
}

impl Serving {
    /// Serves another attempt from now on.
    ///
    /// # Errors
    /// When it is not a newer one.
    pub(super) fn replace(&mut self, mesh: &Arc<Shared>) -> Result<(), Diagnostic> {
        let config = mesh.config();
        if let Some(served) = &self.0 {
            let why = match served.precedence(&config.job, config.attempt) {
                Precedence::Same | Precedence::Older => return Err(stale(config.attempt, served.config.attempt)),
                Precedence::Newer => stale(served.config.attempt, config.attempt),
                Precedence::OfAnotherJob => lost(served.config.me, "it has begun another job"),
            };
            if let Some(old) = served.mesh.upgrade() {
                old.stop(why);
            }
        }
        self.0 = Some(Served { config: config.clone(), mesh: Arc::downgrade(mesh) });
        Ok(())
    }

    /// Whether a node may speak.
    pub(super) fn judge(&self, hello: &Hello) -> Verdict {
        match self.0.as_ref().map(|served| served.judge(hello)) {
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
        if hello.from >= ours.peers.len() || hello.from == ours.me {
            let text = format!("there is no other node {} of {}", hello.from, ours.peers.len());
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
