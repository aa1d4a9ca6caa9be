//! For tests: a receiver that keeps what comes, and what every transport must stand.

use crate::credit::cost;
use crate::random::Random;
use crate::transport::{Credit, Held, Inbound, Sent, Transport};
use bytes::Bytes;
use millstream_types::{Code, Diagnostic};
use parking_lot::{Condvar, Mutex};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Far more than anything takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a receiver has seen.
#[derive(Default)]
pub(crate) struct Seen {
    /// By sender.
    pub(crate) messages: Vec<Vec<Bytes>>,
    pub(crate) lost: Vec<(usize, Diagnostic)>,
    held: Vec<Credit>,
    holds: bool,
    held_bytes: u64,
    most_held: u64,
}

pub(crate) struct Recorder {
    seen: Mutex<Seen>,
    changed: Condvar,
}

impl Recorder {
    /// For so many nodes.
    pub(crate) fn several(count: usize) -> Vec<Arc<Recorder>> {
        let seen = || Seen { messages: vec![vec![]; count], ..Seen::default() };
        (0..count).map(|_| Arc::new(Recorder { seen: Mutex::new(seen()), changed: Condvar::new() })).collect()
    }

    /// Waits until it has seen something.
    pub(crate) fn wait(&self, until: impl Fn(&Seen) -> bool) {
        let end = Instant::now() + PATIENCE;
        let mut seen = self.seen.lock();
        while !until(&seen) {
            let is_late = self.changed.wait_until(&mut seen, end).timed_out();
            assert!(!is_late, "waited in vain; lost: {:?}", seen.lost);
        }
    }

    /// Messages from a node.
    pub(crate) fn count(&self, from: usize) -> usize {
        self.seen.lock().messages[from].len()
    }

    /// Who was lost, and with which code.
    pub(crate) fn lost(&self) -> Vec<(usize, Code)> {
        self.seen.lock().lost.iter().map(|(from, why)| (*from, why.code)).collect()
    }

    /// Waits until a node is lost; why.
    pub(crate) fn wait_lost(&self) -> Diagnostic {
        self.wait(|seen| !seen.lost.is_empty());
        self.seen.lock().lost[0].1.clone()
    }

    /// Whether credits are kept from now on; those that were are dropped otherwise.
    pub(crate) fn hold(&self, holds: bool) {
        let mut seen = self.seen.lock();
        seen.holds = holds;
        if !holds {
            seen.held_bytes = 0;
            let held = std::mem::take(&mut seen.held);
            drop(seen);
            drop(held);
        }
    }
}

impl Inbound for Recorder {
    fn receive(&self, from: usize, message: Bytes, credit: Credit) {
        let mut seen = self.seen.lock();
        assert!(seen.lost.iter().all(|(node, _)| *node != from), "a message after the loss");
        if credit.bytes() > 0 {
            assert_eq!(credit.bytes(), cost(message.len()));
        }
        seen.messages[from].push(message);
        if seen.holds {
            seen.held_bytes += credit.bytes();
            seen.most_held = seen.most_held.max(seen.held_bytes);
            seen.held.push(credit);
        }
        self.changed.notify_all();
    }

    fn lost(&self, from: usize, why: Diagnostic) {
        let mut seen = self.seen.lock();
        assert!(seen.lost.iter().all(|(node, _)| *node != from), "lost twice");
        seen.lost.push((from, why));
        self.changed.notify_all();
    }
}

/// How much is held for the messages of a transport.
#[derive(Default)]
pub(crate) struct Holds {
    count: Mutex<usize>,
    changed: Condvar,
}

/// What is held for one message.
struct Hold {
    holds: Arc<Holds>,
    transport: Weak<dyn Transport>,
}

impl Holds {
    /// For one message of a transport.
    pub(crate) fn one<T: Transport + 'static>(self: &Arc<Holds>, transport: &Arc<T>) -> Option<Held> {
        *self.count.lock() += 1;
        let transport: Weak<T> = Arc::downgrade(transport);
        Some(Box::new(Hold { holds: Arc::clone(self), transport }))
    }

    /// How many are held.
    pub(crate) fn count(&self) -> usize {
        *self.count.lock()
    }

    /// Waits until so many are held.
    pub(crate) fn wait(&self, count: usize) {
        let end = Instant::now() + PATIENCE;
        let mut now = self.count.lock();
        while *now != count {
            let is_late = self.changed.wait_until(&mut now, end).timed_out();
            assert!(!is_late, "waited in vain for {count}, there are {now}");
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        // Whoever holds something may ask this, so no lane is locked.
        let _ = self.transport.upgrade().map(|transport| transport.unsent_bytes());
        *self.holds.count.lock() -= 1;
        self.holds.changed.notify_all();
    }
}

/// A message that says where it belongs.
fn message(from: usize, to: usize, number: usize, bytes: usize) -> Bytes {
    let mut message = format!("{from} {to} {number} ").into_bytes();
    message.resize(message.len() + bytes, b'a' + (number % 26) as u8);
    message.into()
}

/// Every node sends to every other one, from a thread of its own; all is there, in order, when they have closed.
pub(crate) fn exchange_random_messages<T: Transport>(nodes: &[T], recorders: &[Arc<Recorder>], seed: u64, window: u64) {
    const MESSAGES: usize = 200;
    let bytes = |from: usize, to: usize, number: usize| {
        let mut random = Random::new(seed ^ (from * 1_000_003 + to * 10_007 + number) as u64);
        let most = [0, 100, 3000, window.min(200_000) * 2][random.below(4) as usize];
        (random.below(most + 1) as usize, if random.below(5) == 0 { Sent::Mark } else { Sent::Data })
    };
    std::thread::scope(|scope| {
        for node in nodes {
            scope.spawn(move || {
                for number in 0..MESSAGES {
                    for to in (0..node.count()).filter(|&to| to != node.me()) {
                        let (bytes, sent) = bytes(node.me(), to, number);
                        let bytes = if sent == Sent::Mark { bytes.min(1000) } else { bytes };
                        node.send(to, message(node.me(), to, number, bytes), sent, None).unwrap();
                    }
                }
                assert!(node.close(PATIENCE), "node {} could not bring everything", node.me());
            });
        }
    });
    for (to, recorder) in recorders.iter().enumerate() {
        for from in (0..nodes.len()).filter(|&from| from != to) {
            recorder.wait(|seen| seen.messages[from].len() == MESSAGES);
            let seen = recorder.seen.lock();
            for (number, came) in seen.messages[from].iter().enumerate() {
                let (bytes, sent) = bytes(from, to, number);
                let bytes = if sent == Sent::Mark { bytes.min(1000) } else { bytes };
                assert!(*came == message(from, to, number, bytes), "message {number} from {from} to {to}");
            }
        }
        assert_eq!(recorder.lost(), []);
    }
    assert!(nodes.iter().all(|node| node.unsent_bytes() == 0));
}

/// A receiver (node 1) that keeps its credits has no more than the window; the sender (node 0) has the rest, and nothing else; then all comes.
pub(crate) fn holds_and_resumes(sender: &dyn Transport, receiver: &Recorder, window: u64) {
    const MESSAGES: usize = 100;
    receiver.hold(true);
    let each = window as usize / 4 - 100;
    for _ in 0..MESSAGES {
        sender.send(1, vec![7; each].into(), Sent::Data, None).unwrap();
    }
    // As many as fit come, and no other.
    receiver.wait(|seen| seen.messages[0].len() == 4);
    let all = cost(each) * MESSAGES as u64;
    assert!(sender.unsent_bytes() <= all - cost(each) * 4);
    sender.send(1, Bytes::from_static(b"mark"), Sent::Mark, None).unwrap();
    assert!(!sender.close(Duration::from_millis(100)), "nothing has been given back");
    assert_eq!(sender.unsent_bytes(), all - cost(each) * 4 + cost(4), "what was handed over, and nothing else");
    assert_eq!(receiver.count(0), 4);
    assert!(receiver.seen.lock().most_held <= window);
    // One at a time from now on.
    receiver.hold(false);
    receiver.wait(|seen| seen.messages[0].len() == MESSAGES + 1);
    assert_eq!(receiver.seen.lock().messages[0][MESSAGES], Bytes::from_static(b"mark"));
    assert_eq!(sender.unsent_bytes(), 0);
}
