//! A lane between two nodes of an attempt: the real credits on both sides, and a wire that keeps the order.

use crate::Config;
use crate::messages::Message;
use millstream_cluster::credit::{Incoming, Outgoing};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// Attempt, sender, receiver.
pub type LaneId = (u64, u32, u32);

/// A message in a lane.
pub struct Sent {
    pub message: Message,
    /// None of a mark.
    pub cost: u64,
    since: Duration,
}

pub struct Lane {
    outgoing: Outgoing<Sent>,
    pub incoming: Incoming,
    pub wire: VecDeque<Sent>,
    /// When the last message arrives.
    pub last: Duration,
    /// Messages sent so far: the seed decides about each.
    number: u64,
}

/// The lanes of an attempt. They are made when something goes through them.
#[derive(Default)]
pub struct Mesh {
    /// The process of each node.
    pub processes: Vec<usize>,
    /// One of them has died.
    pub is_broken: bool,
    pub lanes: HashMap<(u32, u32), Lane>,
}

/// Nothing waits longer for its credit, in virtual time. A window's worth of messages takes the slow node about a second.
const PATIENCE: Duration = Duration::from_secs(20);

impl Lane {
    pub fn new(window: u64) -> Lane {
        let (outgoing, incoming) = (Outgoing::new(window), Incoming::new(window));
        Lane { outgoing, incoming, wire: VecDeque::new(), last: Duration::ZERO, number: 0 }
    }

    pub fn push(&mut self, message: Message, cost: Option<u64>, now: Duration) {
        let sent = Sent { message, cost: cost.unwrap_or(0), since: now };
        match cost {
            Some(cost) => self.outgoing.push(sent, cost),
            None => self.outgoing.push_mark(sent, 64),
        }
    }

    pub fn unsent(&self) -> u64 {
        self.outgoing.unsent()
    }

    /// The receiver has given so many bytes back.
    pub fn granted(&mut self, bytes: u64) {
        self.outgoing.granted(bytes).expect("the receiver keeps the rules");
    }

    /// Puts what may go on the wire; when each arrives.
    pub fn pump(&mut self, (from, to): (u32, u32), now: Duration, config: &Config) -> Vec<Duration> {
        let mut due = vec![];
        while let Some(sent) = self.outgoing.pop() {
            assert!(now - sent.since < PATIENCE, "a message from {from} to {to} has waited since {:?}", sent.since);
            let fate = config.delays.fate(from as usize, to as usize, self.number);
            self.number += 1;
            self.last = self.last.max(now + fate.delay);
            due.push(self.last);
            self.wire.push_back(sent);
        }
        let most = config.window.max(config.largest);
        assert!(self.outgoing.outstanding() <= most, "{} bytes are on their way", self.outgoing.outstanding());
        assert!(self.incoming.held() <= most);
        due
    }
}
