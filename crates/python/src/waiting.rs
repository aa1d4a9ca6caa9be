//! Waiting for the engine without keeping Python from anything.

use crate::calls;
use crate::error::OrRaise;
use millstream::{Diagnostic, Job, Next, RunMonitor, code};
use pyo3::intern;
use pyo3::prelude::*;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How often whoever waits looks for signals.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

/// Attaches to the interpreter if this thread may hold it already: `None` for a thread that Python does not know, and while the interpreter
/// goes away. Such a thread must not ask for the interpreter: whoever holds it may be waiting for this thread.
pub(crate) fn if_of_python<T>(work: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    // SAFETY: it may be called by any thread at any time.
    #[allow(unsafe_code)]
    let is_unknown = unsafe { pyo3::ffi::PyGILState_GetThisThreadState() }.is_null();
    if is_unknown { None } else { Python::try_attach(work) }
}

/// Runs something that may wait for threads that want the interpreter.
pub(crate) fn detached<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let mut work = Some(work);
    let mut run = || work.take().expect("it is run once")();
    match if_of_python(|py| py.detach(&mut run)) {
        Some(result) => result,
        None => run(),
    }
}

/// Waits for the end of a job. The first interrupt stops it in good order, with a checkpoint if it has any, the second at once; then
/// `KeyboardInterrupt` is raised.
pub(crate) fn finish(py: Python<'_>, job: Job, script: &str) -> PyResult<()> {
    let mut interrupt = None;
    while !matches!(py.detach(|| job.next_batch_within(LOOK)), Next::End) {
        tell_notices(py, job.monitor())?;
        if let Err(signal) = py.check_signals() {
            match interrupt.replace(signal) {
                None => job.stop(),
                Some(_) => drop(py.detach(|| calls::end(&job.handle()))),
            }
        }
    }
    tell_notices(py, job.monitor())?;
    let outcome = py.detach(|| job.wait());
    match (interrupt, outcome) {
        (Some(signal), Ok(_)) => Err(signal),
        (Some(signal), Err(error)) if [code::CANCELLED, code::SUSPENDED].contains(&error.code) => Err(signal),
        (_, outcome) => outcome.map(drop).or_raise(py, Some(script)),
    }
}

/// Runs something of the engine that can be cancelled, in another thread.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    monitor: &RunMonitor,
    work: impl FnOnce() -> Result<T, Diagnostic> + Send,
) -> PyResult<Result<T, Diagnostic>> {
    let done = (Mutex::new(None), Condvar::new());
    let (result, changed) = &done;
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let value = work();
            *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
            changed.notify_all();
        });
        let mut interrupt = None;
        loop {
            let received = py.detach(|| {
                let lock = result.lock().unwrap_or_else(PoisonError::into_inner);
                let waited = changed.wait_timeout_while(lock, LOOK, |result| result.is_none());
                waited.unwrap_or_else(PoisonError::into_inner).0.take()
            });
            if let Some(result) = received {
                return interrupt.map_or(Ok(result), Err);
            }
            if thread.is_finished() {
                return Ok(Err(Diagnostic::new(code::WORKER_FAILED, "a thread panicked")));
            }
            if let Err(signal) = py.check_signals() {
                monitor.cancel().abort();
                interrupt = Some(signal);
            }
        }
    })
}

/// Hands what is worth telling and is no error to the logger `millstream`.
pub(crate) fn tell_notices(py: Python<'_>, monitor: &RunMonitor) -> PyResult<()> {
    for notice in monitor.take_notices() {
        let logger = py.import(intern!(py, "logging"))?.call_method1(intern!(py, "getLogger"), ("millstream",))?;
        logger.call_method1(intern!(py, "warning"), ("%s", notice))?;
    }
    Ok(())
}
