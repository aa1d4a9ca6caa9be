//! Processes in the place of lost nodes, while the others go on: for runs whose nodes send each other nothing.
//!
//! The process that takes the place of a node begins an attempt with a number of its own, with lanes to the first node alone. So what the lost
//! one still does, if it is only cut off, has other names, and is refused. It may be the same process once more, or one that took no part so far.

use crate::coordinator::{LOOK, State, StaticNodes, ask, busy_with, is_absent, next_attempt, tell};
use crate::flight::{Listener, Token};
use crate::orders::{Begin, Status};
use crate::peers::Membership;
use millstream::cluster::RunPart;
use millstream::{Diagnostic, Notices, code};
use millstream_runtime::{LostNode, Replacements};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How soon whoever waits for an answer looks whether the query is over.
const MOMENT: Duration = Duration::from_millis(20);

/// See the module.
pub(crate) struct Substitutes {
    pub(crate) config: StaticNodes,
    pub(crate) listener: Arc<Listener>,
    /// What is shown of the nodes of the cluster.
    pub(crate) state: Arc<Mutex<State>>,
    /// Where the nodes of the run are.
    pub(crate) peers: Mutex<Vec<String>>,
    pub(crate) job: String,
    pub(crate) part: RunPart,
    pub(crate) membership: Membership,
    pub(crate) notices: Notices,
}

impl Replacements for Substitutes {
    fn replace(&self, lost: &LostNode, is_over: &dyn Fn() -> bool) -> Result<(), Diagnostic> {
        let until = Instant::now() + self.config.replacement_timeout;
        let (node, why) = (lost.node, &lost.why.message);
        let mut has_said = false;
        while !is_over() {
            for address in self.free(node) {
                match self.begin(lost, &address, is_over) {
                    Ok(()) => {
                        self.notices.say(format!(
                            "node {node} was lost ({why}): {address} takes its place from checkpoint {} on; the others have not stopped",
                            lost.checkpoint
                        ));
                        return Ok(());
                    }
                    Err(why) if is_absent(&why) || why.code == code::REFUSED => {}
                    Err(why) => return Err(why),
                }
            }
            if Instant::now() >= until {
                let own = self.peers.lock().get(node).cloned();
                self.state.lock().given_up.extend(own);
                return Err(lost.why.clone());
            }
            if !std::mem::replace(&mut has_said, true) {
                self.notices.say(format!("node {node} is lost ({why}): waiting for it, or for another in its place"));
            }
            std::thread::sleep(LOOK);
        }
        Err(over())
    }
}

fn over() -> Diagnostic {
    Diagnostic::new(code::CANCELLED, "the query has ended while a lost node was being replaced")
}

impl Substitutes {
    /// Where processes are that may take the place of a node: its own first.
    fn free(&self, node: usize) -> Vec<String> {
        // A list that cannot be read now may be about to be written.
        let listed = self.config.nodes.resolve().unwrap_or_default();
        let peers = self.peers.lock().clone();
        let own = peers.get(node);
        let takes_part = |address: &String| Some(address) != own && peers.contains(address);
        let listed = listed.into_iter().filter(|address| !takes_part(address)).collect();
        let is_free = |status: &Status| busy_with(status, &self.job).is_none();
        let asked = ask(&self.listener, &self.config.token, listed).into_iter();
        let free = asked.filter(|(_, status)| status.as_ref().is_ok_and(is_free)).map(|(address, _)| address);
        let mut free: Vec<String> = free.collect();
        free.sort_by_key(|address| Some(address) != own);
        free
    }

    /// Has a process begin in the place of a node.
    fn begin(&self, lost: &LostNode, address: &str, is_over: &dyn Fn() -> bool) -> Result<(), Diagnostic> {
        let mut part = self.part.clone();
        part.cuts = lost.cuts;
        if let Some(state) = &mut part.state {
            state.base += u64::from(lost.table_cuts);
            state.restored = Some(lost.checkpoint);
        }
        for (sink, place) in part.sinks.iter_mut().zip(&lost.places) {
            sink.iter_mut().for_each(|sink| sink.meets.clone_from(place));
        }
        let mut peers = self.peers.lock().clone();
        peers[lost.node] = address.to_string();
        let of = (self.job.as_str(), next_attempt(&part));
        let begin = Arc::new(Begin::new(of, lost.node, peers, &Token::random()?, part));
        self.tell(&begin, is_over)?;
        self.membership.join(&self.listener, begin.mesh_with(lost.node)?)?;
        self.peers.lock().clone_from(&begin.peers);
        self.state.lock().members.clone_from(&begin.peers);
        Ok(())
    }

    /// Gives a process the order. It may take its time to plan the run, and the end of the query does not wait for that.
    fn tell(&self, begin: &Arc<Begin>, is_over: &dyn Fn() -> bool) -> Result<(), Diagnostic> {
        let (told, answer) = channel();
        let (listener, token, begin) = (Arc::clone(&self.listener), self.config.token.clone(), Arc::clone(begin));
        std::thread::spawn(move || {
            let node = begin.peers[begin.me].clone();
            let _ = told.send(tell(&listener, &token, &node, &begin));
        });
        loop {
            match answer.recv_timeout(MOMENT) {
                Ok(answer) => return answer,
                Err(RecvTimeoutError::Timeout) if !is_over() => {}
                Err(_) => return Err(over()),
            }
        }
    }
}
