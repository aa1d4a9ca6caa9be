//! Nodes in one process: a thread a node hands over what the others send.
//!
//! The lanes are those of [`crate::credit`]; on the way is what stands in the receiver's queue. Grants take no time.

use crate::credit::{Incoming, Outgoing, cost};
use crate::transport::{Credit, Doorway, Inbound, Returns, Sent, Transport, check, lost};
use bytes::Bytes;
use millstream_types::Diagnostic;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What goes through a lane.
enum Item {
    Message(Bytes, Sent),
    End,
}

/// The lane from one node to another.
struct Lane {
    from: usize,
    credits: Mutex<Credits>,
    to: Arc<Mailbox>,
}

struct Credits {
    outgoing: Outgoing<Item>,
    incoming: Incoming,
    /// The last that is sent has been put in.
    is_closing: bool,
    /// Nothing can be brought any more.
    is_over: bool,
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

impl Lane {
    /// Moves what may go to the receiver.
    fn pump(&self, credits: &mut Credits) {
        let mut sent = vec![];
        while let Some(item) = credits.outgoing.pop() {
            if let Item::Message(message, Sent::Data) = &item {
                let arrived = credits.incoming.arrived(cost(message.len()));
                arrived.expect("both sides of the lane are counted here, under one lock");
            }
            sent.push((self.from, Arrival::Item(item)));
        }
        if !sent.is_empty() {
            self.to.put(sent);
        }
    }

    fn send(&self, item: Item) {
        let mut credits = self.credits.lock();
        if credits.is_closing || credits.is_over {
            return;
        }
        match &item {
            Item::Message(message, Sent::Data) => {
                let cost = cost(message.len());
                credits.outgoing.push(item, cost);
            }
            Item::Message(message, Sent::Mark) => {
                let cost = cost(message.len());
                credits.outgoing.push_mark(item, cost);
            }
            Item::End => {
                credits.is_closing = true;
                credits.outgoing.push_mark(item, 0);
            }
        }
        self.pump(&mut credits);
    }

    /// Nothing more goes through it.
    fn end(&self) {
        let mut credits = self.credits.lock();
        credits.is_over = true;
        credits.outgoing.clear();
    }
}

impl Returns for Lane {
    fn returned(&self, cost: u64) {
        let mut credits = self.credits.lock();
        if let Some(grant) = credits.incoming.released(cost) {
            credits.outgoing.granted(grant).expect("no more is released than was sent");
            if !credits.is_over {
                self.pump(&mut credits);
            }
        }
    }
}

impl Mailbox {
    fn put(&self, items: Vec<(usize, Arrival)>) {
        let mut arrivals = self.queue.lock();
        if !arrivals.is_closed {
            arrivals.items.extend(items);
            self.filled.notify_one();
            return;
        }
        drop(arrivals);
        // Their credits go back without the lock.
        drop(items);
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
    lanes: Arc<Vec<Vec<Arc<Lane>>>>,
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
            let (outgoing, incoming) = (Outgoing::new(window), Incoming::new(window));
            let credits = Mutex::new(Credits { outgoing, incoming, is_closing: false, is_over: false });
            Arc::new(Lane { from, credits, to: Arc::clone(&mailboxes[to]) })
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
    lanes: Arc<Vec<Vec<Arc<Lane>>>>,
    doorways: Arc<Vec<Doorway>>,
}

impl Receiving {
    fn run(&self, mailbox: &Mailbox) {
        while let Some((from, arrival)) = mailbox.take() {
            let doorway = &self.doorways[from];
            match arrival {
                Arrival::Item(Item::Message(message, Sent::Data)) => {
                    let credit = Credit::new(cost(message.len()), Arc::clone(&self.lanes[from][self.me]) as _);
                    doorway.receive(message, credit);
                }
                Arrival::Item(Item::Message(message, Sent::Mark)) => doorway.receive(message, Credit::none()),
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

    fn send(&self, to: usize, message: Bytes, sent: Sent) -> Result<(), Diagnostic> {
        check(self, to, &message, sent)?;
        self.lanes[self.me][to].send(Item::Message(message, sent));
        Ok(())
    }

    fn unsent_bytes(&self) -> u64 {
        self.lanes[self.me].iter().map(|lane| lane.credits.lock().outgoing.unsent()).sum()
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
            self.mailboxes[other].put(vec![(self.me, Arrival::Lost(why))]);
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
    use crate::recording::{Recorder, exchange_random_messages, holds_and_resumes};

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
        nodes[2].send(0, Bytes::from_static(b"last"), Sent::Data).unwrap();
        recorders[0].wait(|seen| seen.messages[2].len() == 1);
        drop(nodes.pop());
        for recorder in &recorders[..2] {
            recorder.wait(|seen| seen.lost.len() == 1);
            assert_eq!(recorder.lost(), [(2, millstream_types::code::NODE_LOST)]);
        }
        // It gets nothing, and nobody minds.
        nodes[0].send(2, Bytes::from_static(b"nobody"), Sent::Data).unwrap();
        nodes[0].send(1, Bytes::from_static(b"somebody"), Sent::Mark).unwrap();
        recorders[1].wait(|seen| seen.messages[0].len() == 1);
        assert_eq!(nodes[0].unsent_bytes(), 0);
    }

    #[test]
    fn a_node_that_has_closed_is_not_lost() {
        let recorders = Recorder::several(2);
        let mut nodes = nodes(1000, &recorders);
        for _ in 0..10 {
            nodes[1].send(0, Bytes::from(vec![1; 900]), Sent::Data).unwrap();
        }
        assert!(nodes[1].close(Duration::from_secs(60)));
        assert_eq!(recorders[0].count(1), 10);
        nodes[0].send(1, Bytes::from_static(b"still heard"), Sent::Data).unwrap();
        recorders[1].wait(|seen| seen.messages[0].len() == 1);
        drop(nodes.pop());
        assert!(nodes[0].close(Duration::from_secs(60)));
        assert_eq!(recorders[0].lost(), []);
    }

    #[test]
    fn what_cannot_be_sent_is_a_bug_of_the_caller() {
        let recorders = Recorder::several(2);
        let nodes = nodes(1000, &recorders);
        let large = Bytes::from(vec![0; crate::frame::MARK_LIMIT + 1]);
        for (to, message, sent) in
            [(1, large, Sent::Mark), (0, Bytes::new(), Sent::Data), (2, Bytes::new(), Sent::Data)]
        {
            assert_eq!(nodes[0].send(to, message, sent).unwrap_err().code, millstream_types::code::BUG);
        }
    }
}
