//! What a station has to do with itself on other nodes: rows and partials, and marks ([`marks`](super::marks)) behind them.

use super::{Heard, LocalInputs, Mark, NodeMessage, Nodes};
use crate::ids::{Generation, Port, StationId};
use crate::schedule::flow::Flow;
use crate::station::progress::Progress;
use crate::stats::QueryStats;
use millstream_plan::physical::Exchange;
use millstream_types::Diagnostic;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Instant;

/// The links of a station. Each node is an input of the station on each node that owns a part of it.
pub(crate) struct Links {
    station: StationId,
    nodes: Arc<Nodes>,
    /// What is sent, beside marks.
    exchange: Exchange,
    flow: Arc<Flow>,
    stats: Arc<QueryStats>,
    heard: Mutex<Heard>,
}

impl Links {
    /// Of a station.
    pub(crate) fn new(
        station: StationId,
        nodes: &Arc<Nodes>,
        exchange: Exchange,
        (flow, stats): (&Arc<Flow>, &Arc<QueryStats>),
    ) -> Links {
        let (flow, stats) = (Arc::clone(flow), Arc::clone(stats));
        let heard = Mutex::new(Heard::new(nodes.me, nodes.count));
        Links { station, nodes: Arc::clone(nodes), exchange, flow, stats, heard }
    }

    /// Whose they are.
    pub(crate) fn station(&self) -> StationId {
        self.station
    }

    /// The nodes of the query.
    pub(crate) fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// The generation that a node has said it has come to.
    pub(crate) fn reached(&self, node: usize) -> Generation {
        self.heard.lock().reached(node)
    }

    /// Sends rows or partials to the station on another node. They are in flight until that has consumed them, so readers wait for it.
    pub(crate) fn send_frame(&self, to: usize, frame: Vec<u8>) -> Result<(), Diagnostic> {
        if self.exchange == Exchange::Stays {
            let message =
                format!("node {} has what belongs to node {to}, of an operator whose rows stay", self.nodes.me);
            return Err(Diagnostic::bug(message));
        }
        self.stats.sent[self.station.index()].count(frame.len());
        let permit = self.flow.hold(frame.len());
        self.nodes.send_frame(to, self.station, frame, permit);
        Ok(())
    }

    /// Tells the station on another node how far this one has come.
    pub(crate) fn send_mark(&self, to: usize, mark: Mark) {
        self.nodes.send(to, NodeMessage::Mark(self.station, mark));
    }

    /// Tells all owners how far this node has come.
    pub(crate) fn say(&self, mark: Mark, progress: &Mutex<Progress>) {
        self.nodes.tell_others(|| NodeMessage::Mark(self.station, mark));
        self.hear(self.nodes.me, mark, progress);
    }

    /// Has idle inputs of this node follow the other nodes.
    pub(crate) fn follow(&self, inputs: &mut Progress) {
        self.heard.lock().follow(inputs);
    }

    /// Passes the steps of the inputs on this node on, to the others and to `progress` of this one; `before` sends what goes before a mark.
    pub(crate) fn pass_on(
        &self,
        inputs: &mut LocalInputs,
        progress: &Mutex<Progress>,
        before: impl Fn(Mark) -> Result<(), Diagnostic>,
    ) -> Result<(), Diagnostic> {
        self.follow(&mut inputs.progress);
        inputs.pass_on(Instant::now(), |mark| {
            before(mark)?;
            self.say(mark, progress);
            Ok(())
        })
    }

    /// A node has said how far it has come.
    pub(crate) fn hear(&self, from: usize, mark: Mark, progress: &Mutex<Progress>) {
        self.heard.lock().hear(from, mark);
        progress.lock().release(Port::new(from), mark.release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_state::MemoryBudget;
    use millstream_types::code;

    #[test]
    fn nothing_is_sent_of_rows_that_stay() {
        let nodes = Arc::new(Nodes::in_process(2).swap_remove(1));
        let flow = Flow::new(1, Vec::new(), 1, false, MemoryBudget::new(1 << 20));
        let links = |exchange| Links::new(StationId::new(0), &nodes, exchange, (&flow, &Arc::default()));
        let error = links(Exchange::Stays).send_frame(0, vec![1]).unwrap_err();
        assert_eq!(error.code, code::BUG, "{error}");
    }
}
