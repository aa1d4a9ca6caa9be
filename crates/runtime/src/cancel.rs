//! Asking a running query to end.

use millstream_types::{Diagnostic, code};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How a query was asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum CancelState {
    /// It was not.
    #[default]
    Running,
    /// Sources stop; what was read is processed; windows that are complete are written; sinks are finished. With a state
    /// directory: a checkpoint is taken, from which the query can resume, and then everything ends at once.
    Stop,
    /// At once: sinks are dropped without being finished.
    Abort,
}

/// Asks a query to end. Clones share one state; any thread may call it at any time, also a signal handler's thread.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<CancelState>,
    /// How many checkpoints have been asked for.
    checkpoints: AtomicU64,
    changed: Condvar,
}

impl CancelToken {
    /// A token of a query that runs.
    pub fn new() -> CancelToken {
        CancelToken::default()
    }

    /// Ends the query in good order (Ctrl-C).
    pub fn stop(&self) {
        self.raise(CancelState::Stop);
    }

    /// Ends the query at once, leaving no output where the sink can take it back.
    pub fn abort(&self) {
        self.raise(CancelState::Abort);
    }

    /// Asks for a checkpoint now; without a state directory nothing happens.
    pub fn checkpoint(&self) {
        self.0.checkpoints.fetch_add(1, Ordering::Relaxed);
        self.wake();
    }

    /// How many checkpoints have been asked for so far.
    pub(crate) fn checkpoints(&self) -> u64 {
        self.0.checkpoints.load(Ordering::Relaxed)
    }

    /// What was asked for so far.
    pub fn state(&self) -> CancelState {
        *self.0.state.lock()
    }

    /// Waits so long, or until the query is to end; whether it is.
    pub fn pause(&self, time: Duration) -> CancelState {
        let until = Instant::now() + time;
        loop {
            let state = self.wait(Some(until), |state| state != CancelState::Running);
            if state != CancelState::Running || Instant::now() >= until {
                return state;
            }
        }
    }

    fn raise(&self, state: CancelState) {
        let mut current = self.0.state.lock();
        *current = (*current).max(state);
        self.0.changed.notify_all();
    }

    /// Makes a waiting [`CancelToken::wait`] look again.
    pub(crate) fn wake(&self) {
        // The lock orders this after the waiter's look at the condition, so that the wake-up cannot fall in between.
        let _state = self.0.state.lock();
        self.0.changed.notify_all();
    }

    /// Waits until `until` holds, the deadline has passed, or someone has woken the waiters; returns the state. `until` is
    /// evaluated under the token's lock and must not use the token.
    pub(crate) fn wait(&self, deadline: Option<Instant>, mut until: impl FnMut(CancelState) -> bool) -> CancelState {
        let mut state = self.0.state.lock();
        if !until(*state) {
            match deadline {
                Some(deadline) => drop(self.0.changed.wait_until(&mut state, deadline)),
                None => self.0.changed.wait(&mut state),
            }
        }
        *state
    }
}

/// The end of a query that was told to end at once.
pub(crate) fn aborted() -> Diagnostic {
    Diagnostic::new(code::CANCELLED, "the query was aborted")
}
