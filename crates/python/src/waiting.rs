//! Waiting for the engine without keeping Python from anything.

use crate::thread_state::if_of_python;
use millstream::{Diagnostic, Job, RunMonitor, code, counted};
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often whoever waits looks for signals.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

/// Runs something that may wait for threads that want the interpreter.
pub(crate) fn detached<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let mut work = Some(work);
    let mut run = || work.take().expect("it is run once")();
    match if_of_python(|py| py.detach(&mut run)) {
        Some(result) => result,
        None => run(),
    }
}

/// When so many seconds have passed; `None`: never.
pub(crate) fn deadline(seconds: Option<f64>) -> PyResult<Option<Instant>> {
    let Some(seconds) = seconds else { return Ok(None) };
    if seconds.is_nan() || seconds < 0.0 {
        return Err(PyValueError::new_err(format!("a timeout is a number of seconds, not {seconds}")));
    }
    Ok(Duration::try_from_secs_f64(seconds).ok().and_then(|patience| Instant::now().checked_add(patience)))
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
            // A panic is told below.
            let Ok(value) = catch_unwind(AssertUnwindSafe(work)) else { return };
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
            // It panicked, unless it has ended since.
            if thread.is_finished() && result.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
                return Ok(Err(Diagnostic::new(code::WORKER_FAILED, "a thread panicked")));
            }
            if let Err(signal) = py.check_signals() {
                monitor.cancel().abort();
                interrupt = Some(signal);
            }
        }
    })
}

/// Tells what a run has left out: nobody would notice.
pub(crate) fn tell_losses(py: Python<'_>, job: &Job) -> PyResult<()> {
    if let Some(note) = job.note() {
        tell(py, &note)?;
    }
    let Some(stats) = job.stats() else { return Ok(()) };
    let first = stats.first_error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
    let losses = [
        (stats.late_rows, "late for a window or a join, and left out"),
        (stats.skipped_rows, "malformed, and skipped"),
        (stats.error_rows, &format!("bad, and skipped{first}")),
    ];
    for (rows, what) in losses.into_iter().filter(|(rows, _)| *rows > 0) {
        let were = if rows == 1 { "was" } else { "were" };
        tell(py, &format!("{} {were} {what}", counted(rows, "row")))?;
    }
    Ok(())
}

fn tell(py: Python<'_>, text: &str) -> PyResult<()> {
    let logger = py.import(intern!(py, "logging"))?.call_method1(intern!(py, "getLogger"), ("millstream",))?;
    logger.call_method1(intern!(py, "warning"), ("%s", text)).map(drop)
}

/// Hands what is worth telling and is no error to the logger `millstream`.
pub(crate) fn tell_notices(py: Python<'_>, monitor: &RunMonitor) -> PyResult<()> {
    for notice in monitor.take_notices() {
        tell(py, &notice)?;
    }
    Ok(())
}
