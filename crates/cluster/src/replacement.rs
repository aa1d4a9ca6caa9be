//! Processes in the place of lost nodes, while the others go on: for runs whose nodes send each other nothing.
//!
//! The process that takes the place of a node begins an attempt with a number of its own, with lanes to the first node alone. So what the lost
//! one still does, if it is only cut off, has other names, and is refused. It may be the same process once more, or one that took no part so far.

use crate::attempts;
use crate::coordinator::{ATTEMPTS, LOOK, State, StaticNodes, WINDOW, ask, busy_with, is_absent, tell};
use crate::flight::{Listener, Token};
use crate::orders::Begin;
use crate::peers::Membership;
use millstream::cluster::RunPart;
use millstream::{CancelState, CancelToken, Diagnostic, Notices, code};
use millstream_runtime::{LostNode, Replacements};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// See the module.
pub(crate) struct Substitutes {
    pub(crate) config: StaticNodes,
    pub(crate) listener: Arc<Listener>,
    pub(crate) state: Arc<Mutex<State>>,
    pub(crate) job: String,
    pub(crate) part: RunPart,
    pub(crate) membership: Membership,
    pub(crate) notices: Notices,
    pub(crate) cancel: CancelToken,
}

impl Replacements for Substitutes {
    fn replace(&self, lost: &LostNode, is_over: &dyn Fn() -> bool) -> Result<(), Diagnostic> {
        let until = Instant::now() + self.config.replacement_timeout;
        let node = lost.node;
        let mut has_said = false;
        loop {
            for address in self.free(node) {
                match self.begin(lost, &address) {
                    Ok(()) => {
                        let from = match lost.checkpoint {
                            Some(checkpoint) => format!("checkpoint {checkpoint}"),
                            None => "the beginning".into(),
                        };
                        self.notices.say(format!(
                            "node {node} was lost ({}): {address} takes its place from {from} on; the others have not stopped",
                            lost.why.message
                        ));
                        return Ok(());
                    }
                    Err(why) if is_absent(&why) || why.code == code::REFUSED => {}
                    Err(why) => return Err(why),
                }
            }
            if is_over() || self.cancel.state() != CancelState::Running {
                let message = "the query was stopped while a lost node was being replaced";
                return Err(Diagnostic::new(code::CANCELLED, message));
            }
            if Instant::now() >= until {
                let mut state = self.state.lock();
                let own = state.members.get(node).cloned();
                state.given_up.extend(own);
                return Err(lost.why.clone());
            }
            if !std::mem::replace(&mut has_said, true) {
                self.notices.say(format!(
                    "node {node} is lost ({}): waiting for it, or for another in its place",
                    lost.why.message
                ));
            }
            std::thread::sleep(LOOK);
        }
    }
}

impl Substitutes {
    /// Where processes are that may take the place of a node: its own first.
    fn free(&self, node: usize) -> Vec<String> {
        // A list that cannot be read now may be about to be written.
        let listed = self.config.nodes.resolve().unwrap_or_default();
        let members = self.state.lock().members.clone();
        let own = members.get(node).cloned();
        let takes_part = |address: &String| Some(address) != own.as_ref() && members.contains(address);
        let asked =
            ask(&self.listener, &self.config.token, listed.into_iter().filter(|node| !takes_part(node)).collect());
        let is_free = |status: &crate::Status| busy_with(status, &self.job).is_none();
        let mut free: Vec<String> = asked
            .into_iter()
            .filter(|(_, status)| status.as_ref().is_ok_and(is_free))
            .map(|(address, _)| address)
            .collect();
        free.sort_by_key(|address| Some(address) != own.as_ref());
        free
    }

    /// Has a process begin in the place of a node.
    fn begin(&self, lost: &LostNode, address: &str) -> Result<(), Diagnostic> {
        let mut part = self.part.clone();
        part.cuts = lost.cuts;
        if let Some(state) = &mut part.state {
            state.base += u64::from(lost.table_cuts);
            state.restored = lost.checkpoint;
        }
        for (sink, place) in part.sinks.iter_mut().zip(&lost.places) {
            sink.iter_mut().for_each(|sink| sink.meets.clone_from(place));
        }
        let mut peers = self.state.lock().members.clone();
        peers[lost.node] = address.to_string();
        let run = part.state.as_ref().map(|state| state.run);
        let begin = Begin {
            job: self.job.clone(),
            attempt: attempts::number(run, ATTEMPTS.fetch_add(1, Ordering::Relaxed) + 1),
            me: lost.node,
            peers,
            window: WINDOW,
            engine: env!("CARGO_PKG_VERSION").into(),
            token: Token::random()?.reveal().to_string(),
            part,
        };
        tell(&self.listener, &self.config.token, address, &begin)?;
        self.membership.join(&self.listener, begin.mesh_with(lost.node)?)?;
        self.state.lock().members = begin.peers;
        Ok(())
    }
}
