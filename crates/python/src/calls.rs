//! Functions of Python that are being evaluated, and how they are ended.
//!
//! A worker that evaluates a function runs Python code for as long as that wants. When its run is cancelled, `Interrupted` is raised in the
//! thread: that ends what is Python. What is native code returns when it wants; nobody waits for it longer than [`PATIENCE`].

use crate::thread_state::{attached, if_of_python};
use millstream::{Job, JobHandle};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::{c_long, c_ulong};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a run that was cancelled has before its functions are interrupted.
const PROMPT: Duration = Duration::from_millis(300);
/// How long it has in all.
const PATIENCE: Duration = Duration::from_millis(1_500);
/// From one interruption to the next.
const AGAIN: Duration = Duration::from_millis(50);
/// Exceptions that are kept for the errors that come of them.
const KEPT: usize = 64;

#[derive(Default)]
struct Calls {
    /// Threads of Python that evaluate a function, by run.
    threads: HashMap<u64, Vec<c_ulong>>,
    /// Runs that call no function any more.
    cancelled: HashSet<u64>,
    /// What functions have raised last, by message.
    raised: VecDeque<(String, PyErr)>,
}

static CALLS: LazyLock<Mutex<Calls>> = LazyLock::new(Mutex::default);

fn calls() -> MutexGuard<'static, Calls> {
    CALLS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A call, as long as it lasts.
pub(crate) struct Call {
    run: u64,
    thread: c_ulong,
}

impl Call {
    /// Begins a call by this thread; `None` if its run was cancelled.
    pub(crate) fn begin(py: Python<'_>, run: u64) -> PyResult<Option<Call>> {
        static IDENT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let thread: c_ulong = IDENT.import(py, "threading", "get_ident")?.call0()?.extract()?;
        let mut calls = calls();
        if calls.cancelled.contains(&run) {
            return Ok(None);
        }
        calls.threads.entry(run).or_default().push(thread);
        Ok(Some(Call { run, thread }))
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let mut calls = calls();
        let Some(threads) = calls.threads.get_mut(&self.run) else { return };
        if let Some(position) = threads.iter().position(|thread| *thread == self.thread) {
            threads.swap_remove(position);
        }
        if threads.is_empty() {
            calls.threads.remove(&self.run);
        }
    }
}

/// Has Python evaluate something for a run, until that is cancelled.
pub(crate) fn evaluated<T>(run: u64, evaluate: impl FnOnce(Python<'_>) -> Result<T, String>) -> Result<T, String> {
    let called = attached(|py| match Call::begin(py, run).map_err(|e| e.to_string())? {
        Some(_call) => evaluate(py),
        None => Err("the query was cancelled".to_string()),
    });
    called.unwrap_or_else(|| Err("the interpreter is going away".to_string()))
}

/// Has a run call no function any more, and interrupts those that it is in.
pub(crate) fn cancel(py: Python<'_>, run: u64) {
    calls().cancelled.insert(run);
    interrupt(py, run);
}

/// A run that was cancelled has ended.
pub(crate) fn forget(run: u64) {
    calls().cancelled.remove(&run);
}

/// Whether a run calls no function any more.
pub(crate) fn is_cancelled(run: u64) -> bool {
    calls().cancelled.contains(&run)
}

/// Keeps an exception for the error that comes of it.
pub(crate) fn keep(message: &str, raised: PyErr) {
    let mut calls = calls();
    let dropped = if calls.raised.len() == KEPT { calls.raised.pop_front() } else { None };
    calls.raised.push_back((message.to_string(), raised));
    drop(calls);
    // What an exception holds may run code of Python when it goes.
    drop(dropped);
}

/// The exception that an error has come of.
pub(crate) fn cause(py: Python<'_>, message: &str) -> Option<PyErr> {
    let calls = calls();
    let known = calls.raised.iter().rev().find(|(text, _)| message.contains(text.as_str()));
    known.map(|(_, raised)| raised.clone_ref(py))
}

/// Raises `Interrupted` in the threads that evaluate functions of a run.
fn interrupt(py: Python<'_>, run: u64) {
    let Ok(class) = interrupted(py) else { return };
    // Not before: an import may let others run.
    let threads = calls().threads.get(&run).cloned().unwrap_or_default();
    // The call may have ended meanwhile: then the exception is raised in the next one of this thread, which is of another run at worst and
    // repeated there.
    threads.into_iter().for_each(|thread| raise_in(thread, &class));
}

/// Raises `Interrupted` in a thread of Python, if it is still there.
#[pyfunction]
pub(crate) fn interrupt_thread(py: Python<'_>, thread: c_ulong) -> PyResult<()> {
    raise_in(thread, &interrupted(py)?);
    Ok(())
}

fn interrupted(py: Python<'_>) -> PyResult<Bound<'_, PyType>> {
    Ok(py.import("millstream.errors")?.getattr("Interrupted")?.cast_into::<PyType>()?)
}

fn raise_in(thread: c_ulong, class: &Bound<'_, PyType>) {
    // SAFETY: the interpreter is held, and the class lives.
    #[allow(unsafe_code)]
    unsafe {
        pyo3::ffi::PyThreadState_SetAsyncExc(thread as c_long, class.as_ptr());
    }
}

/// Cancels a run and waits for its end; `false` if it does not end because a function does not return.
pub(crate) fn end(job: &JobHandle) -> bool {
    job.cancel();
    let began = Instant::now();
    let mut patience = PROMPT;
    calls().cancelled.insert(job.run());
    let has_ended = loop {
        if job.wait_within(patience) {
            break true;
        }
        if began.elapsed() > PATIENCE {
            break false;
        }
        patience = AGAIN;
        if_of_python(|py| interrupt(py, job.run()));
    };
    if has_ended {
        forget(job.run());
    }
    has_ended
}

/// Ends a job that nobody wants any more. One that does not end is left alone.
pub(crate) fn release(job: Job) {
    if end(&job.handle()) {
        drop(job);
    } else {
        std::mem::forget(job);
    }
}
