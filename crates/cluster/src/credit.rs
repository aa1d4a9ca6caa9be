//! Credits: how much of what a lane has sent may be unfinished at the receiver. No I/O, no clock, no thread.
//!
//! ```text
//! sender   queue ──► outstanding ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ► granted back
//! receiver                on the way ──► held (by Credit guards) ──► released ──► grant on the way
//! ```
//!
//! A message costs its bytes and [`MESSAGE_BYTES`]. It leaves the queue when its cost fits into what the window has left, or when nothing is
//! outstanding. So `outstanding ≤ max(window, cost of one message)`, at the sender and at the receiver, which checks it. Marks cost nothing, but leave the
//! queue in their turn.
//!
//! # Why nobody waits for ever
//!
//! Assume that whoever receives drops every credit after a while, *without waiting for another message, and without waiting to send*. (Processing may
//! end in `send`, which never waits. What must be kept until something else comes is copied to state, and its credit dropped.) Assume also that the
//! connection does not break: if it does, both ends are told, and the lane is over.
//!
//! 1. A queue whose head is a mark, or a message that fits, is not waiting: the head is taken when it is pushed or when a grant comes.
//! 2. Otherwise something is outstanding. Each outstanding byte is on the way, held, released but not granted yet, or in a grant on the way.
//! 3. What is on the way arrives: the receiver takes whatever comes, as it can be no more than `max(window, one message)`. It is then held.
//! 4. What is held is released, by the assumption.
//! 5. Released bytes are granted at a quarter of the window, *and always when nothing is held*. So when the last credit has been dropped, no byte stays behind.
//! 6. Grants arrive. So if the head never fitted before, in the end nothing is outstanding, and then any message fits. The head leaves the queue. ∎
//!
//! Nothing here refers to another lane: there is no cycle of lanes to wait in. The engine's readers do wait while too much is unsent, and by the
//! above it becomes less; nothing that drops credits waits for a reader. `tests/credits.rs` explores all interleavings of small
//! models of this file, with nodes that pass on what they receive.

use std::collections::VecDeque;

/// What a message costs beside its bytes: about what it takes to keep it. Bounds the number of empty messages.
pub const MESSAGE_BYTES: u64 = 64;

/// The cost of a message of so many bytes, in bytes of credit.
pub fn cost(bytes: usize) -> u64 {
    bytes as u64 + MESSAGE_BYTES
}

/// The other side does not keep the rules; the text says how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Violation(pub &'static str);

/// The sender's side of a lane: what waits, and what may go.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Outgoing<M> {
    window: u64,
    outstanding: u64,
    queue: VecDeque<Waiting<M>>,
    unsent: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Waiting<M> {
    /// None of a mark.
    cost: Option<u64>,
    /// For [`Outgoing::unsent`].
    bytes: u64,
    message: M,
}

impl<M> Outgoing<M> {
    /// A lane with nothing in it. The window is in bytes.
    pub fn new(window: u64) -> Outgoing<M> {
        Outgoing { window, outstanding: 0, queue: VecDeque::new(), unsent: 0 }
    }

    /// Appends a message that takes `cost` bytes of credit.
    pub fn push(&mut self, message: M, cost: u64) {
        self.append(message, Some(cost), cost);
    }

    /// Appends a message that needs no credit, and takes `bytes` of memory while it waits.
    pub fn push_mark(&mut self, message: M, bytes: u64) {
        self.append(message, None, bytes);
    }

    fn append(&mut self, message: M, cost: Option<u64>, bytes: u64) {
        self.unsent += bytes;
        self.queue.push_back(Waiting { cost, bytes, message });
    }

    /// Takes the next message if it may be sent now.
    pub fn pop(&mut self) -> Option<M> {
        let cost = self.queue.front()?.cost.unwrap_or(0);
        if cost > 0 && self.outstanding > 0 && self.outstanding.saturating_add(cost) > self.window {
            return None;
        }
        let Waiting { bytes, message, .. } = self.queue.pop_front()?;
        self.outstanding += cost;
        self.unsent -= bytes;
        Some(message)
    }

    /// The receiver gives so many bytes back.
    ///
    /// # Errors
    /// When more is given back than is outstanding.
    pub fn granted(&mut self, bytes: u64) -> Result<(), Violation> {
        let Some(rest) = self.outstanding.checked_sub(bytes) else {
            return Err(Violation("it grants more than was sent"));
        };
        self.outstanding = rest;
        Ok(())
    }

    /// What waits, in bytes.
    pub fn unsent(&self) -> u64 {
        self.unsent
    }

    /// What the receiver has not given back, in bytes.
    pub fn outstanding(&self) -> u64 {
        self.outstanding
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Forgets what waits: the lane is over. Gives it, in order, so that whoever has locked the lane can drop it later.
    pub fn clear(&mut self) -> impl Iterator<Item = M> + use<M> {
        self.unsent = 0;
        std::mem::take(&mut self.queue).into_iter().map(|waiting| waiting.message)
    }
}

/// The receiver's side of a lane: what has come and is not finished, and what to give back.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Incoming {
    window: u64,
    /// Released bytes are granted when there are so many, or nothing is held.
    batch: u64,
    held: u64,
    released: u64,
}

impl Incoming {
    /// A lane from which nothing has come. The window is the sender's, in bytes.
    pub fn new(window: u64) -> Incoming {
        Incoming::in_batches(window, window.div_ceil(4))
    }

    /// The same with grants of at least `batch` bytes while something is held.
    pub fn in_batches(window: u64, batch: u64) -> Incoming {
        Incoming { window, batch, held: 0, released: 0 }
    }

    /// A message begins to come. Its cost is held from now on.
    ///
    /// # Errors
    /// When the sender had no credit for it.
    pub fn arrived(&mut self, cost: u64) -> Result<(), Violation> {
        let outstanding = self.held + self.released;
        if outstanding > 0 && outstanding.saturating_add(cost) > self.window {
            return Err(Violation("it sends more than it has credit for"));
        }
        self.held += cost;
        Ok(())
    }

    /// A message of that cost is finished. Gives the bytes to grant to the sender now, if it is time.
    pub fn released(&mut self, cost: u64) -> Option<u64> {
        assert!(cost <= self.held, "a credit is dropped once");
        self.held -= cost;
        self.released += cost;
        let is_time = self.held == 0 || self.released >= self.batch;
        (is_time && self.released > 0).then(|| std::mem::take(&mut self.released))
    }

    /// What is held, in bytes.
    pub fn held(&self) -> u64 {
        self.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_larger_than_the_window_goes_alone() {
        let mut lane = Outgoing::new(10);
        lane.push("small", 4);
        lane.push("large", 25);
        lane.push_mark("mark", 3);
        assert_eq!((lane.pop(), lane.pop(), lane.unsent()), (Some("small"), None, 28));
        lane.granted(4).unwrap();
        assert_eq!((lane.pop(), lane.outstanding(), lane.pop()), (Some("large"), 25, Some("mark")));
        assert!(lane.is_empty() && lane.unsent() == 0);
    }

    #[test]
    fn grants_are_batched_and_complete() {
        let mut lane = Incoming::new(100);
        for _ in 0..10 {
            lane.arrived(10).unwrap();
        }
        let grants: Vec<_> = (0..10).map(|_| lane.released(10)).collect();
        assert_eq!(grants.iter().flatten().sum::<u64>(), 100);
        assert!(grants.iter().flatten().count() < 10);
    }

    #[test]
    fn who_breaks_the_rules_is_found() {
        let mut from = Incoming::new(10);
        from.arrived(30).unwrap();
        assert!(from.arrived(1).is_err());
        let mut to: Outgoing<()> = Outgoing::new(10);
        assert!(to.granted(1).is_err());
        from = Incoming::new(10);
        from.arrived(8).unwrap();
        assert!(from.arrived(u64::MAX).is_err());
    }
}
