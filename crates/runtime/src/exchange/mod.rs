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
//! What belongs to another owner is sent there in *frames*: rows of keyed operators, partials of windowed aggregations, rows for sorts, which
//! are on the first node, and for sinks that only that one has.
//!
//! Where every node has a sink, each writes the rows that it has. Under checkpoints it prepares its span before it says what it has stored, and
//! commits it when the first node has completed the checkpoint. The last spans are committed by the first node, for all.
//!
//! Behind what it covers, on the same way from one node to another, goes a *mark*: the watermark, generation and end that all inputs of the
//! station on that node have come to. One that only raises the watermark, and completes no slice, waits for a few milliseconds for the next
//! (`Linger`). To the owner a node is one input, so the minimum over its inputs is the watermark of the operator, as on
//! one node. Nothing global is on the way of rows. The ends of beats are announced by the first node ([`NodeMessage::Cut`]); marks carry them.
//!
//! Sources of lookup tables are read whole by every node, and what follows from them alone is computed by each for itself.

mod credit;
pub(crate) mod ending;
mod gather;
pub(crate) mod in_turn;
mod links;
pub(crate) mod marks;
mod receiving;
mod replacing;
mod reporting;
mod splits;
mod succession;
mod wire;

use crate::ids::{Generation, StationId};
use crate::schedule::cut_timing::Purpose;
use crate::schedule::flow::Permit;
use crate::stats::{LaneSnapshot, NodeLanes, NodeReport};
pub use credit::Credit;
use ending::Ending;
pub(crate) use gather::{GatherStation, gathered, port_of_node, read_gathered};
pub(crate) use links::Links;
pub(crate) use marks::{Heard, Linger, LocalInputs, Mark, Said};
use millstream_storage::{NodeFiles, SourceState};
use millstream_types::Diagnostic;
use parking_lot::Mutex;
pub(crate) use receiving::receive_from_nodes;
use replacing::Replacing;
pub use replacing::{LostNode, Replacements};
use reporting::Reporting;
use serde::{Deserialize, Serialize};
use serde_json::Value;
pub(crate) use splits::{Assignment, NamedSplit, named, seen};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
pub(crate) use succession::replace_nodes;

/// Target size of a frame in bytes: the rows for one owner are cut into frames of about this size.
pub(crate) const FRAME_BYTES: usize = 2 << 20;

/// What a node sends to another.
#[derive(Debug)]
pub(crate) enum NodeMessage {
    /// To the same station there: encoded rows or partials.
    Frame(StationId, Vec<u8>),
    /// To the same station there: how far the inputs of the station on the node have come.
    Mark(StationId, Mark),
    /// To the other nodes, from the first: the names of the splits of a source, by number, and who reads them.
    Splits(usize, Vec<String>, Assignment),
    /// To the other nodes, from the first: a generation begins in all splits.
    Cut(Generation, Purpose),
    /// To the first node: a generation should begin.
    AskCut,
    /// To the first node: a beat ends after this number of rows (source, split, rows).
    BeatEnds(usize, usize, u64),
    /// To the first node: all splits here have reached the end of a beat of event time, before which so many were taken.
    AtBeatEnd(u64, AtBeatEnd),
    /// To the other nodes: the next beat of event time is that of this watermark.
    TakeBeat(i64),
    /// To the first node: what this one keeps of a checkpoint is stored.
    Stored(u64, StoredByNode),
    /// To the other nodes: a checkpoint is complete.
    Completed(u64),
    /// To the first node: all sinks of this one have all rows that they get.
    AllWritten,
    /// To the other nodes, from the first: it is about to end, and wants to know what each has done.
    AskReport,
    /// To the first node: what this one has done so far.
    Report(Box<NodeReport>),
    /// To the other nodes: all rows have been written. Each answers, and ends.
    Finish,
    /// To the first node, at the end.
    Finished(FinishedNode),
    /// The node has ended, with this error if there is one.
    Ended(Option<Diagnostic>),
}

/// The splits of a node at the end of a beat of event time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AtBeatEnd {
    /// The lowest watermark of those that have not ended.
    pub(crate) lowest: Option<i64>,
    /// Whether a checkpoint can be taken there.
    pub(crate) can_resume: bool,
}

/// What a node says at the end.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct FinishedNode {
    /// How far it has read.
    pub(crate) sources: Vec<SourceState>,
    /// By sink of the plan: the token of the last span that it has written.
    pub(crate) tokens: Vec<Option<Value>>,
}

/// What a node has stored of a checkpoint.
#[derive(Debug)]
pub(crate) struct StoredByNode {
    pub(crate) files: NodeFiles,
    /// Bytes of the files that it has written.
    pub(crate) bytes_written: u64,
    /// Files of earlier checkpoints that it may still read.
    pub(crate) reads: BTreeSet<Arc<str>>,
}

/// What a station gets from itself on another node.
pub(crate) enum StationMessage {
    /// Encoded rows or partials, with what keeps them in flight.
    Frame(Vec<u8>, Arc<Permit>),
    /// How far the inputs of the station on the node have come.
    Mark(Mark),
}

/// Carries messages to the other nodes of a query.
///
/// Nobody waits for ever: whoever has a credit that a message came with gives it back without another message, and so by and by
/// each lane has room for what is next in it. Rows that wait for a mark, a cut or a watermark are state, or have given theirs back.
pub trait Peers: Send + Sync {
    /// Sends a message to a node. Never waits. Messages from one node to another are delivered ([`NodeInbox::deliver`]) in the order in which
    /// they were sent, or not at all. With a `credit`, which is dropped when the message has left this node or has been consumed, it may
    /// wait until the other node has room for it, and those behind it with it.
    fn send(&self, to: usize, message: Vec<u8>, credit: Option<Credit>);

    /// What is under way to a node, for who looks at the run. Without it, messages are handed over at once.
    fn lane(&self, to: usize) -> LaneSnapshot {
        LaneSnapshot { to, ..LaneSnapshot::default() }
    }
}

/// What comes to a node.
enum Arriving {
    Message(usize, Vec<u8>, Option<Credit>),
    Lost(usize, Diagnostic),
    /// What a cut was waiting for on this node is done.
    CutPassed,
    /// Nothing more is wanted.
    Close,
}

/// Where what other nodes send is delivered.
#[derive(Clone)]
pub struct NodeInbox(Sender<Arriving>);

impl NodeInbox {
    /// Delivers a message of a node. Never waits. The credit is dropped when the message has been consumed.
    pub fn deliver(&self, from: usize, message: Vec<u8>, credit: Option<Credit>) {
        // A query that is over does not listen.
        let _ = self.0.send(Arriving::Message(from, message, credit));
    }

    /// Nothing more comes from another node: the query fails, or has another process take its place ([`Replacements`]), of which messages come
    /// from then on.
    pub fn lost(&self, node: usize, why: Diagnostic) {
        let _ = self.0.send(Arriving::Lost(node, why));
    }
}

/// A node of a query.
pub struct Nodes {
    /// Its number.
    pub(crate) me: usize,
    /// How many there are.
    pub(crate) count: usize,
    peers: Arc<dyn Peers>,
    /// On the first node: what the others have said at the end.
    pub(crate) ending: Mutex<Ending<FinishedNode>>,
    reporting: Reporting,
    own: NodeInbox,
    inbound: Mutex<Option<Receiver<Arriving>>>,
    /// On the first node: how others are replaced, if they are.
    replacing: Option<Replacing>,
    /// Cuts of the run that this node is not told of: it takes the place of another one.
    pub(crate) cuts_before: u32,
    /// What has come before the query was built.
    early: Mutex<VecDeque<Arriving>>,
}

/// Nodes in one process.
struct InProcess {
    from: usize,
    to: Arc<[NodeInbox]>,
}

impl Peers for InProcess {
    fn send(&self, to: usize, message: Vec<u8>, credit: Option<Credit>) {
        self.to[to].deliver(self.from, message, credit);
    }
}

impl Nodes {
    /// A node of so many, by its number, and where what others send is delivered. Each has a number below `count`.
    pub fn new(me: usize, count: usize, peers: Arc<dyn Peers>) -> (Nodes, NodeInbox) {
        let (sender, receiver) = channel();
        let (own, inbound) = (NodeInbox(sender), Mutex::new(Some(receiver)));
        (Nodes::with(me, count, peers, own.clone(), inbound), own)
    }

    /// So many nodes of a query in one process.
    pub fn in_process(count: usize) -> Vec<Nodes> {
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..count).map(|_| channel()).unzip();
        let to: Arc<[NodeInbox]> = senders.into_iter().map(NodeInbox).collect();
        let node = |(me, inbound)| {
            let peers = Arc::new(InProcess { from: me, to: Arc::clone(&to) });
            let (own, inbound) = (to[me].clone(), Mutex::new(Some(inbound)));
            Nodes::with(me, count, peers, own, inbound)
        };
        receivers.into_iter().enumerate().map(node).collect()
    }

    fn with(
        me: usize,
        count: usize,
        peers: Arc<dyn Peers>,
        own: NodeInbox,
        inbound: Mutex<Option<Receiver<Arriving>>>,
    ) -> Nodes {
        let (ending, reporting, early) =
            (Mutex::new(Ending::of_others(count - 1)), Reporting::default(), Mutex::default());
        Nodes { me, count, peers, ending, reporting, own, inbound, replacing: None, cuts_before: 0, early }
    }

    /// Sends to another node.
    pub(crate) fn send(&self, to: usize, message: NodeMessage) {
        self.peers.send(to, wire::encode(message), None);
    }

    /// Sends encoded rows or partials to a station on another node; the permit is theirs until they have been consumed.
    pub(crate) fn send_frame(&self, to: usize, station: StationId, frame: Vec<u8>, permit: Permit) {
        self.peers.send(to, wire::encode_frame(station, frame), Some(Box::new(permit)));
    }

    /// A cut has passed all stations of this node: the thread that listens may have been told of the next one.
    pub(crate) fn cut_passed(&self) {
        let _ = self.own.0.send(Arriving::CutPassed);
    }

    /// Ends the thread that listens.
    pub(crate) fn close(&self) {
        let _ = self.own.0.send(Arriving::Close);
    }

    /// Whether it is the one that leads: it makes the cuts, completes the checkpoints, and has the sinks that are not on every node.
    pub(crate) fn is_first(&self) -> bool {
        self.me == 0
    }

    /// What comes from the others; once.
    fn listen(&self) -> Option<impl Iterator<Item = Arriving> + use<>> {
        let inbound = self.inbound.lock().take()?;
        Some(std::mem::take(&mut *self.early.lock()).into_iter().chain(inbound))
    }

    /// Sends to all others.
    pub(crate) fn tell_others(&self, message: impl Fn() -> NodeMessage) {
        (0..self.count).filter(|&node| node != self.me).for_each(|node| self.send(node, message()));
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

    /// Those that this node owns.
    pub(crate) fn owned_here(&self, partitions: usize) -> Range<usize> {
        self.owned(self.me, partitions)
    }
}

impl NodeLanes for Nodes {
    fn now(&self) -> Vec<LaneSnapshot> {
        (0..self.count).filter(|&node| node != self.me).map(|node| self.peers.lane(node)).collect()
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
