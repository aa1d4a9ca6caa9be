//! The queue of a lane, as every transport has it: messages, what is held for them, and the end behind them.
//!
//! What is held is dropped by whoever calls, when the lock of the lane has been released: what is done then may ask the transport for its bytes.

use crate::credit::{Outgoing, Violation, cost};
use crate::transport::{Held, Sent};
use bytes::Bytes;

/// What goes through a lane.
pub(crate) enum Item {
    Message { bytes: Bytes, sent: Sent, held: Option<Held> },
    End,
}

/// What waits in a lane.
pub(crate) struct Queue {
    outgoing: Outgoing<Item>,
    /// The last that is sent has been put in.
    is_closing: bool,
    /// Nothing can be brought any more.
    is_over: bool,
}

impl Queue {
    /// An empty one; the window is in bytes.
    pub(crate) fn new(window: u64) -> Queue {
        Queue { outgoing: Outgoing::new(window), is_closing: false, is_over: false }
    }

    /// Appends an item. Gives it back if nothing more goes through the lane.
    #[must_use = "it is dropped without the lock of the lane"]
    pub(crate) fn put(&mut self, item: Item) -> Option<Item> {
        if self.is_closing || self.is_over {
            return Some(item);
        }
        match &item {
            Item::Message { bytes, sent, .. } => {
                let cost = cost(bytes.len());
                match sent {
                    Sent::Data => self.outgoing.push(item, cost),
                    Sent::Mark => self.outgoing.push_mark(item, cost),
                }
            }
            Item::End => {
                self.is_closing = true;
                self.outgoing.push_mark(item, 0);
            }
        }
        None
    }

    /// Takes the next item if it may be sent now.
    pub(crate) fn pop(&mut self) -> Option<Item> {
        self.outgoing.pop()
    }

    /// The receiver gives so many bytes back.
    ///
    /// # Errors
    /// When more is given back than is outstanding.
    pub(crate) fn granted(&mut self, bytes: u64) -> Result<(), Violation> {
        self.outgoing.granted(bytes)
    }

    /// What waits, in bytes.
    pub(crate) fn unsent(&self) -> u64 {
        self.outgoing.unsent()
    }

    /// What has been sent and is not finished by its receiver, in bytes.
    pub(crate) fn outstanding(&self) -> u64 {
        self.outgoing.outstanding()
    }

    /// Whether nothing can be brought any more.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Nothing more goes through the lane. Gives what waits, to be dropped without the lock of the lane.
    pub(crate) fn end(&mut self) -> impl Iterator<Item = Item> + use<> {
        self.is_over = true;
        self.outgoing.clear()
    }
}
