//! The contract of every transport: what senders and receivers may expect.
//!
//! - A *lane* carries messages from one node to another, in the order in which they were sent. Nothing is said about the order over several lanes.
//! - **Sending never waits.** What has no credit stays in the lane's queue. Whoever reads input looks at [`Transport::unsent_bytes`] and stops when
//!   that is too much.
//! - **Credit** bounds what a receiver has of each lane: its window, or one message if that is larger. It is given back when the guard is dropped. A *mark* needs
//!   no credit, but stays behind what was sent before it.
//! - **What is held.** Whoever sends may give something along with a message, such as an account of its bytes. The transport keeps it while the message is in
//!   the memory of this node: until a connection has got the last frame, or the lane is lost, or the transport is dropped. In one process the receiver has the
//!   same memory, so there it is kept until the credit is dropped.
//! - **Receiving** must not wait for other messages while it holds a credit ([`crate::credit`] says why that is enough).
//! - A lane that breaks is said to be lost once, on both ends; after that nothing comes from that node. A node that [closes](Transport::close) has
//!   sent all it had: it is not lost when it goes away, and what is sent to it after that is dropped.

use crate::frame::{MARK_LIMIT, MESSAGE_LIMIT};
use bytes::Bytes;
use millstream_types::{Diagnostic, code};
use parking_lot::Mutex;
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Whether a message needs credit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sent {
    /// It does.
    Data,
    /// It is small (up to 64 KiB) and needs none.
    Mark,
}

/// What a transport keeps with a message, and drops when the message has left the memory of this node. Any thread does that, and often one of the transport, so
/// it must neither block nor panic. It may ask for [`Transport::unsent_bytes`].
pub type Held = Box<dyn Any + Send + Sync>;

/// The messages of one node to the others of its query.
pub trait Transport: Send + Sync {
    /// The number of this node.
    fn me(&self) -> usize;

    /// The number of nodes.
    fn count(&self) -> usize;

    /// Sends a message to another node, and never waits. A node that is lost or has closed gets nothing. What is `held` is dropped when the message has left
    /// the memory of this node; at once when it is not taken.
    ///
    /// # Errors
    /// A bug of the caller: data above 256 MiB, a mark above 64 KiB, a node that does not exist or is this one.
    fn send(&self, to: usize, message: Bytes, sent: Sent, held: Option<Held>) -> Result<(), Diagnostic>;

    /// What waits for credit or for the network in the lanes of this node, in bytes.
    fn unsent_bytes(&self) -> u64;

    /// Sends what waits, then tells the others that nothing more comes, and waits up to `within` until each has all of it, or has closed and gone
    /// itself. Whether that is so. What they send is received until the transport is dropped; what is sent after this is dropped. Must not be called by
    /// whoever receives.
    fn close(&self, within: Duration) -> bool;
}

/// What receives the messages of the other nodes. It is called by threads of the transport, for each node by one at a time. It must neither block nor panic: the
/// same threads answer pings, and who does not answer is lost. What takes longer is handed over to another thread, with its credit.
pub trait Inbound: Send + Sync {
    /// A message has come. Dropping the credit, now or later and on any thread, lets the sender send more.
    fn receive(&self, from: usize, message: Bytes, credit: Credit);

    /// The lane from a node, or to it, has broken. Nothing more comes from there.
    fn lost(&self, from: usize, why: Diagnostic);
}

/// Takes credit back: the transport that has handed it out.
pub trait Returns: Send + Sync {
    /// A message of that cost (bytes) is finished.
    fn returned(&self, cost: u64);
}

/// The right of a message to be in the memory of its receiver. Dropping it gives the bytes back to the sender, and drops what a sender in the same process holds
/// for the message.
#[must_use = "dropping it lets the sender send more"]
pub struct Credit {
    cost: u64,
    to: Option<Arc<dyn Returns>>,
    /// Dropped after the bytes have been given back.
    held: Option<Held>,
}

impl Credit {
    /// Of a message of that cost in bytes.
    pub fn new(cost: u64, to: Arc<dyn Returns>) -> Credit {
        Credit { cost, to: Some(to), held: None }
    }

    /// Of a mark.
    pub fn none() -> Credit {
        Credit { cost: 0, to: None, held: None }
    }

    /// With what the sender holds for the message.
    pub(crate) fn holding(self, held: Option<Held>) -> Credit {
        let mut credit = self;
        credit.held = held;
        credit
    }

    /// What is given back, in bytes; 0 of a mark.
    pub fn bytes(&self) -> u64 {
        self.cost
    }
}

impl Drop for Credit {
    fn drop(&mut self) {
        if let Some(to) = self.to.take() {
            to.returned(self.cost);
        }
    }
}

impl fmt::Debug for Credit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credit({})", self.cost)
    }
}

/// Checks what is given to [`Transport::send`].
pub(crate) fn check(transport: &dyn Transport, to: usize, message: &Bytes, sent: Sent) -> Result<(), Diagnostic> {
    let limit = if sent == Sent::Mark { MARK_LIMIT } else { MESSAGE_LIMIT };
    if message.len() > limit {
        let text = format!("a message of {} bytes to another node; at most {limit} can be sent", message.len());
        return Err(Diagnostic::bug(text));
    }
    if to >= transport.count() || to == transport.me() {
        return Err(Diagnostic::bug(format!("node {} sends to node {to} of {}", transport.me(), transport.count())));
    }
    Ok(())
}

/// How it stands with another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Open,
    /// It has sent all it had.
    Ended,
    Lost,
}

/// Hands over what comes from one node: nothing after it has been lost, and that once.
pub(crate) struct Doorway {
    from: usize,
    inbound: Arc<dyn Inbound>,
    standing: Mutex<Standing>,
    /// Apart from the lock, as whoever receives may be the last to drop the transport.
    is_shut: AtomicBool,
}

impl Doorway {
    pub(crate) fn new(from: usize, inbound: &Arc<dyn Inbound>) -> Doorway {
        Doorway {
            from,
            inbound: Arc::clone(inbound),
            standing: Mutex::new(Standing::Open),
            is_shut: AtomicBool::new(false),
        }
    }

    /// Hands a message over, if the node is neither lost nor has ended.
    pub(crate) fn receive(&self, message: Bytes, credit: Credit) {
        // The lock is held while the message is handed over, so that nothing comes after `lost`.
        let standing = self.standing.lock();
        if *standing == Standing::Open && !self.is_shut.load(Relaxed) {
            self.inbound.receive(self.from, message, credit);
        }
    }

    /// The node has sent all it had.
    pub(crate) fn end(&self) {
        let mut standing = self.standing.lock();
        if *standing == Standing::Open {
            *standing = Standing::Ended;
        }
    }

    /// Whether the node has sent all it had.
    pub(crate) fn has_ended(&self) -> bool {
        *self.standing.lock() == Standing::Ended
    }

    /// Something has broken: the node is lost unless it has ended.
    pub(crate) fn lose(&self, why: Diagnostic) {
        let mut standing = self.standing.lock();
        if *standing == Standing::Open {
            *standing = Standing::Lost;
            if !self.is_shut.load(Relaxed) {
                self.inbound.lost(self.from, why);
            }
        }
    }

    /// Nothing more is handed over, and nothing said: this node does not listen any more.
    pub(crate) fn shut(&self) {
        self.is_shut.store(true, Relaxed);
    }
}

/// A node is lost.
pub(crate) fn lost(node: usize, how: impl fmt::Display) -> Diagnostic {
    Diagnostic::new(code::NODE_LOST, format!("the connection to node {node} broke: {how}"))
}
