//! One query on several nodes: what they send each other.
//!
//! ```text
//! node 0:  splits ─► pipelines ─► station ─┬─► own part of the state ─► pipelines ─► …        sinks
//!                                          ├───────────────┐ frames, then marks                 ▲
//! node 1:  splits ─► pipelines ─► station ─┴─► own part of the state ─► pipelines ─► gather ────┘
//! ```
//!
//! Every node has the same plan and the same stations. A node reads some of the splits, and owns some of the partitions of each station's
//! state: those of a contiguous range ([`Nodes::owner`]), so which node has a key follows from its hash and the number of partitions alone.
//! What belongs to another owner is sent there in *frames*: rows of keyed operators, partials of windowed aggregations, rows for sorts and
//! sinks, which are on the first node.
//!
//! Behind what it covers, on the same way from one node to another, goes a *mark*: the watermark, generation and end that all inputs of the
//! station on that node have come to. To the owner a node is one input, so the minimum over its inputs is the watermark of the operator, as on
//! one node. Nothing global is on the way of rows. The ends of beats are announced by the first node ([`NodeMessage::Cut`]); marks carry them.
//!
//! Sources of lookup tables are read whole by every node, and what follows from them alone is computed by each for itself.

mod gather;
mod links;
mod receiving;

use crate::buffer::Generation;
use crate::ids::StationId;
use crate::schedule::cut_timing::Purpose;
pub(crate) use gather::{GatherStation, gathered, port_of_node, read_gathered};
pub(crate) use links::{Links, LocalInputs, Said};
use millstream_sync::epoch_ring::Release;
use millstream_types::Diagnostic;
use parking_lot::Mutex;
pub(crate) use receiving::receive;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Target size of a frame in bytes: the rows for one owner are cut into frames of about this size.
pub(crate) const FRAME_BYTES: usize = 2 << 20;

/// What a node sends to another.
#[derive(Debug)]
pub(crate) enum NodeMessage {
    /// To the same station there.
    ToStation(StationId, StationMessage),
    /// To the other nodes, from the first: a generation begins in all splits.
    Cut(Generation, Purpose),
    /// To the first node: a generation should begin.
    AskCut,
    /// To the first node: a beat ends after this number of rows (source, split, rows).
    BeatEnds(usize, usize, u64),
    /// To the first node: all splits here have reached the end of a beat of event time. How many beats were taken before, and the lowest
    /// watermark of the splits that have not ended.
    AtBeatEnd(u64, Option<i64>),
    /// To the other nodes: the next beat of event time is that of this watermark.
    TakeBeat(i64),
    /// The node has ended, with this error if there is one.
    Ended(Option<Diagnostic>),
    /// Nothing more comes: to oneself.
    Close,
}

/// What a station sends to itself on another node.
#[derive(Debug)]
pub(crate) enum StationMessage {
    /// Encoded rows or partials.
    Frame(Vec<u8>),
    /// How far the inputs of the station on the node have come.
    Mark(Mark),
}

/// How far all inputs of a station on a node have come; what they have brought before has been sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) release: Release,
    /// Whether the node follows others.
    pub(crate) is_idle: bool,
}

/// Where messages to the nodes of a query go. Messages from one node to another arrive in the order in which they were sent; sending never
/// waits.
pub(crate) trait Peers: Send + Sync {
    /// Sends to a node. One that has ended gets nothing.
    fn send(&self, to: usize, message: NodeMessage);
}

/// A node of a query.
pub struct Nodes {
    /// Its number.
    pub(crate) me: usize,
    /// How many there are.
    pub(crate) count: usize,
    pub(crate) peers: Arc<dyn Peers>,
    inbound: Mutex<Option<Receiver<(usize, NodeMessage)>>>,
}

/// Nodes in one process.
struct InProcess {
    from: usize,
    to: Vec<Sender<(usize, NodeMessage)>>,
}

impl Peers for InProcess {
    fn send(&self, to: usize, message: NodeMessage) {
        // Whoever has ended does not listen.
        let _ = self.to[to].send((self.from, message));
    }
}

impl Nodes {
    /// So many nodes of a query in one process.
    pub fn in_process(count: usize) -> Vec<Nodes> {
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..count).map(|_| channel()).unzip();
        let node = |(me, inbound)| {
            let peers = Arc::new(InProcess { from: me, to: senders.clone() });
            Nodes { me, count, peers, inbound: Mutex::new(Some(inbound)) }
        };
        receivers.into_iter().enumerate().map(node).collect()
    }

    /// Whether it is the one that has the sinks.
    pub(crate) fn is_first(&self) -> bool {
        self.me == 0
    }

    /// What comes from the others; once.
    pub(crate) fn listen(&self) -> Option<Receiver<(usize, NodeMessage)>> {
        self.inbound.lock().take()
    }

    /// Sends to all others.
    pub(crate) fn tell_others(&self, message: impl Fn() -> NodeMessage) {
        (0..self.count).filter(|&node| node != self.me).for_each(|node| self.peers.send(node, message()));
    }

    /// The node that owns a partition of so many.
    pub(crate) fn owner(&self, partition: usize, partitions: usize) -> usize {
        partition * self.count / partitions
    }

    /// The partitions of so many that a node owns.
    pub(crate) fn owned(&self, node: usize, partitions: usize) -> Range<usize> {
        let first = |node: usize| (node * partitions).div_ceil(self.count);
        first(node)..first(node + 1)
    }

    /// Whether the node reads a split of a source.
    pub(crate) fn reads(&self, source: usize, split: u32) -> bool {
        (source + split as usize) % self.count == self.me
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_partition_has_one_owner() {
        for count in 1..=9 {
            let nodes = Nodes::in_process(count);
            for partitions in [1, 2, 16, 64, 4096] {
                let mut found = Vec::new();
                for node in 0..count {
                    let owned = nodes[0].owned(node, partitions);
                    assert!(owned.clone().all(|partition| nodes[0].owner(partition, partitions) == node));
                    found.extend(owned);
                }
                assert_eq!(found, (0..partitions).collect::<Vec<_>>(), "{partitions} of {count}");
            }
        }
    }
}
