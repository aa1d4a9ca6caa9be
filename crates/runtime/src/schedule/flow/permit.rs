//! Permits: what keeps rows in flight.

use super::Flow;
use crate::exchange::Credit;
use crate::ids::StreamId;
use millstream_state::Charge;
use parking_lot::Mutex;
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

/// Most permits whose memory a thread keeps.
const SPARE_PERMITS: usize = 8;

/// What keeps rows in flight: a place among the chunks, if they come from one, and their memory. Dropping it lets others
/// in.
pub(crate) struct Permit {
    pub(super) flow: Arc<Flow>,
    /// The split.
    pub(super) stream: Option<StreamId>,
    /// Bytes as they were read.
    pub(super) read_bytes: usize,
    pub(super) charge: Charge,
    /// What another node gets back when it is dropped: room for more.
    pub(super) credit: Mutex<Option<Credit>>,
}

impl Permit {
    /// The same with what another node gets back.
    pub(crate) fn with_credit(mut self, credit: Option<Credit>) -> Permit {
        self.credit = Mutex::new(credit);
        self
    }

    /// Gives that back at once: what is kept until another message comes must not keep that one from coming.
    pub(crate) fn return_credit(&self) {
        let credit = self.credit.lock().take();
        drop(credit);
    }

    /// The chunk has been decoded into columns of `bytes` bytes, which may refer to what was read.
    pub(crate) fn decoded(&mut self, bytes: usize) {
        let bytes = self.read_bytes.saturating_add(bytes);
        self.charge.set(bytes);
        if let Some(stream) = self.stream {
            self.flow.state.lock().splits[stream.index()].usual_bytes = bytes;
        }
    }
}

thread_local! {
    /// Permits that have been given back, for the memory that they have.
    static PERMITS: RefCell<Vec<Arc<Permit>>> = const { RefCell::new(Vec::new()) };
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl Permit {
    /// For the buffers of a chunk.
    pub(crate) fn shared(self) -> Arc<Permit> {
        let Some(mut place) = PERMITS.with_borrow_mut(Vec::pop) else { return Arc::new(self) };
        match Arc::get_mut(&mut place) {
            Some(content) => {
                *content = self;
                place
            }
            None => Arc::new(self),
        }
    }

    /// A buffer is done with it: if it was the last, what it holds is given back, and its memory used again.
    pub(crate) fn done(mut this: Arc<Permit>) {
        let Some(permit) = Arc::get_mut(&mut this) else { return };
        permit.give_back();
        PERMITS.with_borrow_mut(|permits| {
            if permits.len() < SPARE_PERMITS {
                permits.push(this);
            }
        });
    }

    /// Gives back what it holds, once.
    fn give_back(&mut self) {
        if let Some(stream) = self.stream.take() {
            let mut state = self.flow.state.lock();
            state.total -= 1;
            state.consumed += self.charge.bytes() as u64;
            state.splits[stream.index()].in_flight -= 1;
            let has_room = state.total <= self.flow.refill;
            let wakes = state.waiting > 0 || (state.queued > 0 && has_room);
            let calls = has_room && std::mem::take(&mut state.refused);
            drop(state);
            if wakes {
                self.flow.freed.notify_all();
            }
            if calls {
                self.flow.when_freed.get().into_iter().for_each(|call| call());
            }
        }
        self.charge.set(0);
        self.return_credit();
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Permit({:?}, {} bytes)", self.stream, self.charge.bytes())
    }
}
