//! Back-pressure: the bound of the chunks in flight.
//!
//! A chunk is in flight from when its reader hands it over until the last buffer made of it has been put into tables
//! or written to sinks: its [`Permit`] travels with the rows. Readers ask for a permit *after* reading, so that a
//! reader that waits for its connector holds none, and no number of silent splits can starve the others.

use parking_lot::{Condvar, Mutex};
use std::fmt;
use std::sync::Arc;

/// The chunks in flight of a query.
pub(crate) struct Flow {
    state: Mutex<State>,
    freed: Condvar,
    limit: usize,
    limit_per_split: usize,
}

struct State {
    /// By stream.
    in_flight: Vec<usize>,
    total: usize,
    /// No more waiting: the query is ending, and what was read shall be processed or dropped.
    open: bool,
}

/// A chunk in flight; dropping it lets the next one in.
pub(crate) struct Permit {
    flow: Arc<Flow>,
    stream: usize,
}

impl Flow {
    /// At most `limit` chunks of `streams` streams, of which `readers` are read at a time; each can have its share, and
    /// two at least, so that it can be read while it is decoded.
    pub(crate) fn new(limit: usize, streams: usize, readers: usize) -> Arc<Flow> {
        let limit_per_split = (limit / readers.max(1)).max(2);
        let state = State { in_flight: vec![0; streams], total: 0, open: false };
        Arc::new(Flow { state: Mutex::new(state), freed: Condvar::new(), limit: limit.max(2), limit_per_split })
    }

    /// Waits for room for a chunk of a stream.
    pub(crate) fn acquire(self: &Arc<Flow>, stream: usize) -> Permit {
        let mut state = self.state.lock();
        while !state.open && (state.total >= self.limit || state.in_flight[stream] >= self.limit_per_split) {
            self.freed.wait(&mut state);
        }
        state.total += 1;
        state.in_flight[stream] += 1;
        Permit { flow: Arc::clone(self), stream }
    }

    /// Lets every waiting reader go on, because no more is read.
    pub(crate) fn open(&self) {
        self.state.lock().open = true;
        self.freed.notify_all();
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.flow.state.lock();
        state.total -= 1;
        state.in_flight[self.stream] -= 1;
        drop(state);
        self.flow.freed.notify_all();
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Permit({})", self.stream)
    }
}
