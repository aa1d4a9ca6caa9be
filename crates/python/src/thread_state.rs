//! Threads of the engine that run code of Python, and what Python keeps for them.
//!
//! For a thread that it does not know Python makes a state when that attaches, and drops it when it detaches: memory is mapped and unmapped,
//! and whatever was in a cache is gone. That takes some 50 µs, more than a call for a buffer. So such a thread keeps its state until
//! it ends. Between its calls it counts as unknown all the same: it must not ask for the interpreter.
#![allow(unsafe_code)]

use pyo3::ffi::{PyGILState_Ensure, PyGILState_GetThisThreadState, PyGILState_Release, PyGILState_STATE};
use pyo3::prelude::*;
use std::cell::Cell;

thread_local! {
    static THREAD: Thread = const { Thread { keeps_state: Cell::new(false), calls: Cell::new(0) } };
}

#[derive(Default)]
struct Thread {
    /// Whether it is one of the engine that has a state.
    keeps_state: Cell<bool>,
    /// Calls of [`attached`] that it is in.
    calls: Cell<usize>,
}

impl Drop for Thread {
    fn drop(&mut self) {
        if self.keeps_state.get() {
            // SAFETY: this thread holds the interpreter, and gives back what `attached` has taken. What it had before that was the
            // interpreter, too, so it has it still.
            Python::try_attach(|_| unsafe { PyGILState_Release(PyGILState_STATE::PyGILState_LOCKED) });
        }
    }
}

/// Whether Python knows this thread: it may hold the interpreter already.
fn is_of_python() -> bool {
    // SAFETY: it may be called by any thread at any time.
    let has_state = !unsafe { PyGILState_GetThisThreadState() }.is_null();
    has_state && THREAD.try_with(|thread| !thread.keeps_state.get() || thread.calls.get() > 0).unwrap_or(true)
}

/// Attaches to the interpreter if this thread may hold it already: `None` for a thread that Python does not know, and while the interpreter
/// goes away. Such a thread must not ask for the interpreter: whoever holds it may be waiting for this thread.
pub(crate) fn if_of_python<T>(work: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    if is_of_python() { Python::try_attach(work) } else { None }
}

/// Attaches to the interpreter, to run code of Python for the engine; `None` while the interpreter goes away.
pub(crate) fn attached<T>(work: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    struct InCall<'a>(&'a Thread);
    impl Drop for InCall<'_> {
        fn drop(&mut self) {
            self.0.calls.set(self.0.calls.get() - 1);
        }
    }
    // SAFETY: as above.
    let is_new = unsafe { PyGILState_GetThisThreadState() }.is_null();
    Python::try_attach(|py| {
        THREAD.with(|thread| {
            if is_new {
                // SAFETY: this thread holds the interpreter. Once more than it gives back, so the state stays; `Thread` has it dropped.
                unsafe { PyGILState_Ensure() };
                thread.keeps_state.set(true);
            }
            thread.calls.set(thread.calls.get() + 1);
            let _call = InCall(thread);
            work(py)
        })
    })
}
