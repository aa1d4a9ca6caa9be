//! One attempt of a job on one node: its lanes to the others, and what comes from them.

use super::handshake::MeshConfig;
use super::{Dial, Io, sending};
use crate::credit::{Outgoing, cost};
use crate::transport::{Doorway, Inbound, Sent, Transport, check, lost};
use bytes::Bytes;
use millstream_types::Diagnostic;
use parking_lot::{Condvar, Mutex};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};

/// What goes through a lane.
pub(super) enum Item {
    Message(Bytes, Sent),
    End,
}

/// The lane to another node.
pub(super) struct Lane {
    state: Mutex<LaneState>,
    /// Something can be taken from it.
    wake: Notify,
    /// The connections to and from the node are to be closed, for this reason.
    stopped: watch::Sender<Option<Diagnostic>>,
    /// A stream from the node has been admitted.
    is_admitted: AtomicBool,
}

struct LaneState {
    outgoing: Outgoing<Item>,
    /// The last that is sent has been put in.
    is_closing: bool,
    /// The other side has everything, or nothing can be brought there any more.
    is_over: bool,
    /// The other side has everything.
    is_finished: bool,
}

impl LaneState {
    fn new(window: u64) -> LaneState {
        LaneState { outgoing: Outgoing::new(window), is_closing: false, is_over: false, is_finished: false }
    }
}

/// What the handle and the tasks of a mesh share.
pub(super) struct Shared {
    config: MeshConfig,
    lanes: Vec<Lane>,
    doorways: Vec<Doorway>,
    is_stopped: AtomicBool,
    has_closed: Mutex<bool>,
    /// Signalled when a lane is over.
    over: Condvar,
}

impl Shared {
    pub(super) fn new(config: MeshConfig, inbound: &Arc<dyn Inbound>) -> Shared {
        let lane = |_| Lane {
            state: Mutex::new(LaneState::new(config.window)),
            wake: Notify::new(),
            stopped: watch::Sender::new(None),
            is_admitted: AtomicBool::new(false),
        };
        let lanes = (0..config.peers.len()).map(lane).collect();
        let doorways = (0..config.peers.len()).map(|from| Doorway::new(from, inbound)).collect();
        let (is_stopped, has_closed, over) = (AtomicBool::new(false), Mutex::new(false), Condvar::new());
        Shared { config, lanes, doorways, is_stopped, has_closed, over }
    }

    pub(super) fn config(&self) -> &MeshConfig {
        &self.config
    }

    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let me = self.config.me;
        (0..self.config.peers.len()).filter(move |&node| node != me)
    }

    pub(super) fn doorway(&self, from: usize) -> &Doorway {
        &self.doorways[from]
    }

    /// Whether a stream from a node is its first.
    pub(super) fn admit(&self, from: usize) -> bool {
        !self.lanes[from].is_admitted.swap(true, Relaxed)
    }

    /// Until the connections with a node are to be closed; for which reason.
    pub(super) async fn stopped(&self, node: usize) -> Diagnostic {
        let mut stopped = self.lanes[node].stopped.subscribe();
        match stopped.wait_for(Option::is_some).await.map(|why| why.clone()) {
            Ok(Some(why)) => why,
            Ok(None) | Err(_) => lost(node, "it has ended"),
        }
    }

    fn put(&self, to: usize, item: Item) {
        let lane = &self.lanes[to];
        let mut state = lane.state.lock();
        if state.is_closing || state.is_over {
            return;
        }
        match &item {
            Item::Message(message, sent) => {
                let cost = cost(message.len());
                match sent {
                    Sent::Data => state.outgoing.push(item, cost),
                    Sent::Mark => state.outgoing.push_mark(item, cost),
                }
            }
            Item::End => {
                state.is_closing = true;
                state.outgoing.push_mark(item, 0);
            }
        }
        drop(state);
        lane.wake.notify_one();
    }

    /// The next of what is to be sent to a node.
    pub(super) async fn next(&self, to: usize) -> Item {
        let lane = &self.lanes[to];
        loop {
            let next = lane.state.lock().outgoing.pop();
            match next {
                Some(item) => return item,
                None => lane.wake.notified().await,
            }
        }
    }

    /// A node has given credit back.
    pub(super) fn granted(&self, by: usize, bytes: u64) -> Result<(), crate::credit::Violation> {
        let lane = &self.lanes[by];
        lane.state.lock().outgoing.granted(bytes)?;
        lane.wake.notify_one();
        Ok(())
    }

    /// The other side of a lane has everything.
    pub(super) fn finish(&self, to: usize) {
        self.end_lane(to, true);
    }

    fn end_lane(&self, to: usize, is_finished: bool) {
        let mut state = self.lanes[to].state.lock();
        if !state.is_over {
            (state.is_over, state.is_finished) = (true, is_finished);
        }
        state.outgoing.clear();
        drop(state);
        // Whoever waits looks at the lane under this lock.
        let _waiting = self.has_closed.lock();
        self.over.notify_all();
    }

    /// A connection with a node has broken.
    pub(super) fn lose(&self, node: usize, why: Diagnostic) {
        // Who has closed and gone wants nothing.
        self.end_lane(node, self.doorways[node].has_ended());
        self.doorways[node].lose(why.clone());
        self.lanes[node].stopped.send_replace(Some(why));
    }

    /// Closes all connections: each peer is told why, this node is not.
    pub(super) fn stop(&self, why: Diagnostic) {
        self.is_stopped.store(true, Relaxed);
        for node in self.others() {
            self.doorways[node].shut();
            self.end_lane(node, false);
            self.lanes[node].stopped.send_replace(Some(why.clone()));
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Relaxed)
    }
}

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

    /// What waits for one node, in bytes.
    pub fn unsent_to(&self, to: usize) -> u64 {
        self.shared.lanes[to].state.lock().outgoing.unsent()
    }
}

impl Transport for Mesh {
    fn me(&self) -> usize {
        self.shared.config.me
    }

    fn count(&self) -> usize {
        self.shared.config.peers.len()
    }

    fn send(&self, to: usize, message: Bytes, sent: Sent) -> Result<(), Diagnostic> {
        check(self, to, &message, sent)?;
        self.shared.put(to, Item::Message(message, sent));
        Ok(())
    }

    fn unsent_bytes(&self) -> u64 {
        self.shared.lanes.iter().map(|lane| lane.state.lock().outgoing.unsent()).sum()
    }

    fn close(&self, within: Duration) -> bool {
        let shared = &*self.shared;
        let mut has_closed = shared.has_closed.lock();
        if !std::mem::replace(&mut *has_closed, true) {
            shared.others().for_each(|to| shared.put(to, Item::End));
        }
        let end = Instant::now() + within;
        let is_over = |node: usize| shared.lanes[node].state.lock().is_over;
        while !shared.others().all(is_over) {
            if shared.over.wait_until(&mut has_closed, end).timed_out() {
                break;
            }
        }
        drop(has_closed);
        shared.others().all(|node| shared.lanes[node].state.lock().is_finished)
    }
}

impl Drop for Mesh {
    fn drop(&mut self) {
        self.shared.stop(lost(self.shared.config.me, "it has ended"));
    }
}

impl fmt::Debug for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = &self.shared.config;
        write!(f, "Mesh({} attempt {}, node {} of {})", config.job, config.attempt, config.me, config.peers.len())
    }
}
