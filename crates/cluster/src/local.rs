//! Nodes in one process: a thread a node hands over what the others send.
//!
//! The lanes are those of [`crate::credit`]; on the way is what stands in the receiver's queue. Grants take no time.

use crate::credit::{Incoming, cost};
use crate::queue::{Item, Queue};
use crate::transport::{Credit, Doorway, Held, Inbound, Returns, Sent, Transport, check, lost};
use bytes::Bytes;
use millstream_types::Diagnostic;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The lane from one node to another.
struct LocalLane {
    from: usize,
    credits: Mutex<Credits>,
    to: Arc<Mailbox>,
}

struct Credits {
    queue: Queue,
    incoming: Incoming,
}

/// What is on its way to a node.
#[derive(Default)]
struct Mailbox {
    queue: Mutex<Arrivals>,
    filled: Condvar,
    /// Signalled when a lane has ended at its receiver.
    ended: Condvar,
}

#[derive(Default)]
struct Arrivals {
    items: VecDeque<(usize, Arrival)>,
    is_closed: bool,
    /// Lanes that are over, by sender.
    ended: Vec<bool>,
}

enum Arrival {
    Item(Item),
    Lost(Diagnostic),
}

impl LocalLane {
    /// Moves what may go to the receiver. Gives back what that one does not take, to be dropped without a lock.
    #[must_use = "it is dropped without the lock of the lane"]
    fn pump(&self, credits: &mut Credits) -> Vec<(usize, Arrival)> {
        let mut sent = vec![];
        while let Some(item) = credits.queue.pop() {
            if let Item::Message { bytes, sent: Sent::Data, .. } = &item {
                let arrived = credits.incoming.arrived(cost(bytes.len()));
                arrived.expect("both sides of the lane are counted here, under one lock");
            }
            sent.push((self.from, Arrival::Item(item)));
        }
        match sent.is_empty() {
            true => sent,
            false => self.to.put(sent),
        }
    }

    fn send(&self, item: Item) {
        let mut credits = self.credits.lock();
        let refused = credits.queue.put(item);
        let returned = self.pump(&mut credits);
        drop(credits);
        drop((refused, returned));
    }

    /// Nothing more goes through it.
    fn end(&self) {
        let rest = self.credits.lock().queue.end();
        // Without the lock.
        drop(rest);
    }
}

impl Returns for LocalLane {
    fn returned(&self, cost: u64) {
        let mut credits = self.credits.lock();
        let Some(grant) = credits.incoming.released(cost) else { return };
        credits.queue.granted(grant).expect("no more is released than was sent");
        let returned = self.pump(&mut credits);
        drop(credits);
        drop(returned);
    }
}

impl Mailbox {
    /// Gives back what comes too late.
    #[must_use = "it is dropped without a lock"]
    fn put(&self, items: Vec<(usize, Arrival)>) -> Vec<(usize, Arrival)> {
        let mut arrivals = self.queue.lock();
        if arrivals.is_closed {
            return items;
        }
        arrivals.items.extend(items);
        self.filled.notify_one();
        vec![]
    }

    fn take(&self) -> Option<(usize, Arrival)> {
        let mut arrivals = self.queue.lock();
        loop {
            if arrivals.is_closed {
                return None;
            }
            match arrivals.items.pop_front() {
                Some(item) => return Some(item),
                None => self.filled.wait(&mut arrivals),
            }
        }
    }

    /// A lane has ended here.
    fn finish(&self, from: usize) {
        self.queue.lock().ended[from] = true;
        self.ended.notify_all();
    }

    fn close(&self) {
        let items = {
            let mut arrivals = self.queue.lock();
            arrivals.is_closed = true;
            std::mem::take(&mut arrivals.items)
        };
        drop(items);
        self.filled.notify_all();
        self.ended.notify_all();
    }
}

/// One node of several in a process. Dropping it without [closing](Transport::close) is as if its process had been killed.
pub struct Local {
    me: usize,
    /// By sender, then receiver.
    lanes: Arc<Vec<Vec<Arc<LocalLane>>>>,
    mailboxes: Arc<Vec<Arc<Mailbox>>>,
    doorways: Arc<Vec<Doorway>>,
    thread: Option<JoinHandle<()>>,
    has_closed: Mutex<bool>,
}

impl Local {
    /// As many nodes as there are receivers. The window is that of each lane, in bytes.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn nodes(window: u64, inbound: Vec<Arc<dyn Inbound>>) -> io::Result<Vec<Local>> {
        let count = inbound.len();
        let mailbox = || {
            let mailbox = Mailbox::default();
            mailbox.queue.lock().ended = vec![false; count];
            Arc::new(mailbox)
        };
        let mailboxes: Arc<Vec<_>> = Arc::new((0..count).map(|_| mailbox()).collect());
        let lane = |from, to: usize| {
            let credits = Mutex::new(Credits { queue: Queue::new(window), incoming: Incoming::new(window) });
            Arc::new(LocalLane { from, credits, to: Arc::clone(&mailboxes[to]) })
        };
        let lanes: Arc<Vec<Vec<_>>> =
            Arc::new((0..count).map(|from| (0..count).map(|to| lane(from, to)).collect()).collect());
        let node = |(me, inbound): (usize, Arc<dyn Inbound>)| {
            let doorways: Arc<Vec<_>> = Arc::new((0..count).map(|from| Doorway::new(from, &inbound)).collect());
            let receiving = Receiving { me, lanes: Arc::clone(&lanes), doorways: Arc::clone(&doorways) };
            let mailbox = Arc::clone(&mailboxes[me]);
            let thread =
                std::thread::Builder::new().name(format!("node-{me}")).spawn(move || receiving.run(&mailbox))?;
            let (lanes, mailboxes) = (Arc::clone(&lanes), Arc::clone(&mailboxes));
            Ok(Local { me, lanes, mailboxes, doorways, thread: Some(thread), has_closed: Mutex::new(false) })
        };
        inbound.into_iter().enumerate().map(node).collect()
    }

    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let me = self.me;
        (0..self.lanes.len()).filter(move |&node| node != me)
    }
}

struct Receiving {
    me: usize,
    lanes: Arc<Vec<Vec<Arc<LocalLane>>>>,
    doorways: Arc<Vec<Doorway>>,
}

impl Receiving {
    fn run(&self, mailbox: &Mailbox) {
        while let Some((from, arrival)) = mailbox.take() {
            let doorway = &self.doorways[from];
            match arrival {
                Arrival::Item(Item::Message { bytes, sent, held }) => {
                    let lane = &self.lanes[from][self.me];
                    let credit = match sent {
                        Sent::Data => Credit::new(cost(bytes.len()), Arc::clone(lane) as _),
                        Sent::Mark => Credit::none(),
                    };
                    doorway.receive(bytes, credit.holding(held));
                }
                Arrival::Item(Item::End) => {
                    doorway.end();
                    mailbox.finish(from);
                }
                Arrival::Lost(why) => {
                    self.lanes[self.me][from].end();
                    doorway.lose(why);
                }
            }
        }
    }
}

impl Transport for Local {
    fn me(&self) -> usize {
        self.me
    }

    fn count(&self) -> usize {
        self.lanes.len()
    }

    fn send(&self, to: usize, message: Bytes, sent: Sent, held: Option<Held>) -> Result<(), Diagnostic> {
        check(self, to, &message, sent)?;
        self.lanes[self.me][to].send(Item::Message { bytes: message, sent, held });
        Ok(())
    }

    fn unsent_bytes(&self) -> u64 {
        self.lanes[self.me].iter().map(|lane| lane.credits.lock().queue.unsent()).sum()
    }

    fn close(&self, within: Duration) -> bool {
        if !std::mem::replace(&mut *self.has_closed.lock(), true) {
            self.others().for_each(|to| self.lanes[self.me][to].send(Item::End));
        }
        let end = Instant::now() + within;
        self.others().all(|to| {
            let mailbox = &self.mailboxes[to];
            let mut arrivals = mailbox.queue.lock();
            while !arrivals.ended[self.me] && !arrivals.is_closed {
                if mailbox.ended.wait_until(&mut arrivals, end).timed_out() {
                    break;
                }
            }
            arrivals.ended[self.me] || (arrivals.is_closed && self.doorways[to].has_ended())
        })
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.doorways.iter().for_each(Doorway::shut);
        self.mailboxes[self.me].close();
        for other in self.others() {
            self.lanes[self.me][other].end();
            self.lanes[other][self.me].end();
            let why = lost(self.me, "it has ended");
            drop(self.mailboxes[other].put(vec![(self.me, Arrival::Lost(why))]));
        }
        // A receiver may be what drops it.
        if let Some(thread) = self.thread.take().filter(|thread| thread.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{Holds, Recorder, exchange_random_messages, holds_and_resumes};

    fn nodes(window: u64, recorders: &[Arc<Recorder>]) -> Vec<Local> {
        Local::nodes(window, recorders.iter().map(|recorder| Arc::clone(recorder) as _).collect()).unwrap()
    }

    #[test]
    fn three_nodes_exchange_random_messages() {
        for (seed, window) in [(1, 1), (2, 5_000), (3, 1 << 20)] {
            let recorders = Recorder::several(3);
            let nodes = nodes(window, &recorders);
            exchange_random_messages(&nodes, &recorders, seed, window);
        }
    }

    #[test]
    fn a_receiver_that_holds_its_credits_bounds_its_memory() {
        let recorders = Recorder::several(2);
        let nodes = nodes(10_000, &recorders);
        holds_and_resumes(&nodes[0], &recorders[1], 10_000);
    }

    #[test]
    fn a_node_that_is_dropped_is_lost_once() {
        let recorders = Recorder::several(3);
        let mut nodes = nodes(1000, &recorders);
        nodes[2].send(0, Bytes::from_static(b"last"), Sent::Data, None).unwrap();
        recorders[0].wait(|seen| seen.messages[2].len() == 1);
        drop(nodes.pop());
        for recorder in &recorders[..2] {
            recorder.wait(|seen| seen.lost.len() == 1);
            assert_eq!(recorder.lost(), [(2, millstream_types::code::NODE_LOST)]);
        }
        // It gets nothing, and nobody minds.
        nodes[0].send(2, Bytes::from_static(b"nobody"), Sent::Data, None).unwrap();
        nodes[0].send(1, Bytes::from_static(b"somebody"), Sent::Mark, None).unwrap();
        recorders[1].wait(|seen| seen.messages[0].len() == 1);
        assert_eq!(nodes[0].unsent_bytes(), 0);
    }

    #[test]
    fn a_node_that_has_closed_is_not_lost() {
        let recorders = Recorder::several(2);
        let mut nodes = nodes(1000, &recorders);
        for _ in 0..10 {
            nodes[1].send(0, Bytes::from(vec![1; 900]), Sent::Data, None).unwrap();
        }
        assert!(nodes[1].close(Duration::from_secs(60)));
        assert_eq!(recorders[0].count(1), 10);
        nodes[0].send(1, Bytes::from_static(b"still heard"), Sent::Data, None).unwrap();
        recorders[1].wait(|seen| seen.messages[0].len() == 1);
        drop(nodes.pop());
        assert!(nodes[0].close(Duration::from_secs(60)));
        assert_eq!(recorders[0].lost(), []);
    }

    #[test]
    fn what_is_held_is_dropped_with_the_credit_or_the_lane() {
        let recorders = Recorder::several(2);
        let mut nodes: Vec<_> = nodes(1000, &recorders).into_iter().map(Arc::new).collect();
        let holds = Arc::new(Holds::default());
        let send = |node: &Arc<Local>, to, sent| node.send(to, vec![0; 600].into(), sent, holds.one(node));
        recorders[1].hold(true);
        for sent in [Sent::Data, Sent::Mark, Sent::Data, Sent::Data] {
            send(&nodes[0], 1, sent).unwrap();
        }
        // One message fits, and the mark behind it: the receiver has both.
        recorders[1].wait(|seen| seen.messages[0].len() == 2);
        assert_eq!(holds.count(), 4);
        recorders[1].hold(false);
        holds.wait(0);
        assert_eq!(recorders[1].count(0), 4);
        // What is not taken is dropped at once.
        assert!(send(&nodes[0], 7, Sent::Data).is_err());
        assert_eq!(holds.count(), 0);
        // A lane that is lost has what waits no more; the receiver still has what came.
        recorders[1].hold(true);
        for _ in 0..3 {
            send(&nodes[0], 1, Sent::Data).unwrap();
        }
        recorders[1].wait(|seen| seen.messages[0].len() == 5);
        assert_eq!(holds.count(), 3);
        drop(nodes.pop());
        assert_eq!(holds.count(), 1);
        recorders[1].hold(false);
        assert_eq!(holds.count(), 0);
        send(&nodes[0], 1, Sent::Data).unwrap();
        assert_eq!(holds.count(), 0);
    }

    #[test]
    fn what_cannot_be_sent_is_a_bug_of_the_caller() {
        let recorders = Recorder::several(2);
        let nodes = nodes(1000, &recorders);
        let large = Bytes::from(vec![0; crate::frame::MARK_LIMIT + 1]);
        for (to, message, sent) in
            [(1, large, Sent::Mark), (0, Bytes::new(), Sent::Data), (2, Bytes::new(), Sent::Data)]
        {
            assert_eq!(nodes[0].send(to, message, sent, None).unwrap_err().code, millstream_types::code::BUG);
        }
    }
}
