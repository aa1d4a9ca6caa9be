//! The lanes of one node in one attempt, which the handle and the tasks of a mesh share.

use super::attempt::MeshConfig;
use crate::credit::Violation;
use crate::frame::{Kind, Message};
use crate::queue::{Item, Queue};
use crate::transport::{Doorway, Held, Inbound, Sent, lost};
use bytes::Bytes;
use millstream_types::Diagnostic;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};

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
    queue: Queue,
    /// What is held for the messages that have been taken, and whose last frame the connection has not got yet. In order.
    leaving: VecDeque<Option<Held>>,
    /// The other side has everything.
    is_finished: bool,
}

impl LaneState {
    fn next(&mut self) -> Option<Message> {
        match self.queue.pop()? {
            Item::End => Some((Kind::End, Bytes::new())),
            Item::Message { bytes, sent, held } => {
                self.leaving.push_back(held);
                let kind = match sent {
                    Sent::Data => Kind::Data,
                    Sent::Mark => Kind::Mark,
                };
                Some((kind, bytes))
            }
        }
    }
}

impl Lane {
    fn new(window: u64) -> Lane {
        Lane {
            state: Mutex::new(LaneState { queue: Queue::new(window), leaving: VecDeque::new(), is_finished: false }),
            wake: Notify::new(),
            stopped: watch::Sender::new(None),
            is_admitted: AtomicBool::new(false),
        }
    }

    fn put(&self, item: Item) {
        let refused = self.state.lock().queue.put(item);
        match refused {
            None => self.wake.notify_one(),
            // Without the lock.
            Some(item) => drop(item),
        }
    }

    /// The next of what is to be sent.
    pub(super) async fn next(&self) -> Message {
        loop {
            let next = self.state.lock().next();
            match next {
                Some(message) => return message,
                None => self.wake.notified().await,
            }
        }
    }

    /// The connection has got the last frame of a message: the first of those that [`Lane::next`] gave and that have not left.
    pub(super) fn left(&self) {
        let held = self.state.lock().leaving.pop_front();
        // Without the lock.
        drop(held);
    }

    /// The node has given credit back.
    pub(super) fn granted(&self, bytes: u64) -> Result<(), Violation> {
        self.state.lock().queue.granted(bytes)?;
        self.wake.notify_one();
        Ok(())
    }

    /// What waits, in bytes.
    pub(super) fn unsent(&self) -> u64 {
        self.state.lock().queue.unsent()
    }

    /// What the other node has not finished, in bytes.
    pub(super) fn unfinished(&self) -> u64 {
        let queue = &self.state.lock().queue;
        if queue.is_over() { 0 } else { queue.outstanding() }
    }

    /// Nothing more goes through it.
    fn end(&self, is_finished: bool) {
        let mut state = self.state.lock();
        if !state.queue.is_over() {
            state.is_finished = is_finished;
        }
        let rest = (state.queue.end(), std::mem::take(&mut state.leaving));
        drop(state);
        // Without the lock.
        drop(rest);
    }
}

/// The lanes, and what comes from the other nodes.
pub(super) struct Shared {
    config: MeshConfig,
    lanes: Vec<Arc<Lane>>,
    doorways: Vec<Doorway>,
    is_stopped: AtomicBool,
    has_closed: Mutex<bool>,
    /// Signalled when a lane is over.
    over: Condvar,
}

impl Shared {
    pub(super) fn new(config: MeshConfig, inbound: &Arc<dyn Inbound>) -> Shared {
        let lanes = config.peers.iter().map(|_| Arc::new(Lane::new(config.window))).collect();
        let doorways = (0..config.peers.len()).map(|from| Doorway::new(from, inbound)).collect();
        let (is_stopped, has_closed, over) = (AtomicBool::new(false), Mutex::new(false), Condvar::new());
        Shared { config, lanes, doorways, is_stopped, has_closed, over }
    }

    pub(super) fn config(&self) -> &MeshConfig {
        &self.config
    }

    pub(super) fn others(&self) -> impl Iterator<Item = usize> + use<> {
        self.config.others()
    }

    pub(super) fn lane(&self, to: usize) -> &Arc<Lane> {
        &self.lanes[to]
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

    /// Puts a message into a lane.
    pub(super) fn send(&self, to: usize, bytes: Bytes, sent: Sent, held: Option<Held>) {
        self.lanes[to].put(Item::Message { bytes, sent, held });
    }

    /// What waits in all lanes, in bytes.
    pub(super) fn unsent(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.unsent()).sum()
    }

    /// Ends all lanes once they have brought what waits.
    pub(super) fn begin_close(&self) {
        if !std::mem::replace(&mut *self.has_closed.lock(), true) {
            self.others().for_each(|to| self.lanes[to].put(Item::End));
        }
    }

    /// The same, and waits for that. Whether each other side has everything.
    pub(super) fn close(&self, within: Duration) -> bool {
        self.begin_close();
        let mut has_closed = self.has_closed.lock();
        let end = Instant::now() + within;
        let is_over = |node: usize| self.lanes[node].state.lock().queue.is_over();
        while !self.others().all(is_over) {
            if self.over.wait_until(&mut has_closed, end).timed_out() {
                break;
            }
        }
        drop(has_closed);
        self.others().all(|node| self.lanes[node].state.lock().is_finished)
    }

    /// The other side of a lane has everything.
    pub(super) fn finish(&self, to: usize) {
        self.end_lane(to, true);
    }

    fn end_lane(&self, to: usize, is_finished: bool) {
        self.lanes[to].end(is_finished);
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
