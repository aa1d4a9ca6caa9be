//! Permits: what keeps rows in flight.

use super::Flow;
use crate::exchange::Credit;
use crate::ids::StreamId;
use millstream_state::Charge;
use millstream_types::Spare;
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;

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
    static PERMITS: Spare<Arc<Permit>> = const { Spare::new() };
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl Permit {
    /// For the buffers of a chunk.
    pub(crate) fn shared(self) -> Arc<Permit> {
        PERMITS.with(|permits| permits.shared(self))
    }

    /// A buffer is done with it: if it was the last, what it holds is given back, and its memory used again.
    pub(crate) fn done(this: Arc<Permit>) {
        PERMITS.with(|permits| permits.give(this, Permit::give_back));
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
