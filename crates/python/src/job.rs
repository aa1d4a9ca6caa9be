//! INSERTs that run in the background.

use crate::calls;
use crate::error::{OrRaise, exception};
use crate::process;
use crate::waiting::{LOOK, detached, tell_notices};
use millstream::{CancelState, Diagnostic, code};
use pyo3::exceptions::PyTimeoutError;
use pyo3::prelude::*;
use std::time::{Duration, Instant};

/// See `millstream.Job`, which has one.
#[pyclass(frozen, module = "millstream._core")]
pub(crate) struct Job {
    /// Always there until it is dropped.
    job: Option<millstream::Job>,
    script: String,
    keeps_checkpoints: bool,
}

impl Drop for Job {
    fn drop(&mut self) {
        if let Some(job) = self.job.take() {
            process::release(|| detached(|| calls::release(job)));
        }
    }
}

impl Job {
    pub(crate) fn new(job: millstream::Job, script: &str, keeps_checkpoints: bool) -> Job {
        process::note(&job);
        Job { job: Some(job), script: script.into(), keeps_checkpoints }
    }

    fn job(&self, py: Python<'_>) -> PyResult<&millstream::Job> {
        process::check().or_raise(py, None)?;
        Ok(self.job.as_ref().expect("it is not dropped"))
    }
}

#[pymethods]
impl Job {
    /// The statement.
    #[getter]
    fn text(&self) -> &str {
        &self.script
    }

    /// Whether it has a state directory.
    #[getter]
    fn keeps_checkpoints(&self) -> bool {
        self.keeps_checkpoints
    }

    /// `running`, `finished`, `stopped`, `cancelled` or `failed`.
    #[getter]
    fn state(&self, py: Python<'_>) -> PyResult<&'static str> {
        let job = self.job(py)?;
        tell_notices(py, job.monitor())?;
        if !job.has_ended() {
            return Ok("running");
        }
        Ok(match (job.failure().map(|failure| failure.code), job.monitor().cancel().state()) {
            (None, _) => "finished",
            (Some(_), CancelState::Abort) => "cancelled",
            (Some(code::SUSPENDED), _) | (Some(code::CANCELLED), CancelState::Stop) => "stopped",
            (Some(_), _) => "failed",
        })
    }

    /// The exception that says why it has failed; `None` if it has not.
    #[getter]
    fn error<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match (self.state(py)?, self.job(py)?.failure()) {
            ("failed", Some(failure)) => {
                Ok(Some(exception(py, &failure, Some(&self.script)).value(py).to_owned().into_any()))
            }
            _ => Ok(None),
        }
    }

    /// The statistics as JSON; `None` before it has begun.
    fn stats(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let stats = self.job(py)?.stats();
        let text = stats.map(|stats| serde_json::to_string(&stats)).transpose();
        text.map_err(|e| Diagnostic::bug(e.to_string())).or_raise(py, None)
    }

    /// Asks for a checkpoint.
    fn checkpoint(&self, py: Python<'_>) -> PyResult<()> {
        self.job(py)?.checkpoint();
        Ok(())
    }

    /// Asks it to end in good order.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        self.job(py)?.stop();
        Ok(())
    }

    /// Ends it at once. Raises an error if it does not end because a function does not return.
    fn cancel(&self, py: Python<'_>) -> PyResult<()> {
        let handle = self.job(py)?.handle();
        if handle.has_ended() || py.detach(|| calls::end(&handle)) {
            return Ok(());
        }
        let message = "the job does not end: a function of Python is within code that cannot be interrupted";
        Err(Diagnostic::new(code::STUCK, message)).or_raise(py, None)
    }

    /// Waits for its end, for so many seconds at most; whether it has ended. No signal is looked for.
    fn wait_within(&self, py: Python<'_>, seconds: f64) -> PyResult<bool> {
        let (job, patience) = (self.job(py)?, Duration::try_from_secs_f64(seconds).unwrap_or_default());
        Ok(py.detach(|| job.wait_within(patience)))
    }

    /// Waits for its end. The first interrupt stops it in good order, the second at once; then the interrupt is raised. Raises
    /// `TimeoutError` after so many seconds, and goes on running.
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let job = self.job(py)?;
        let timeout = timeout.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default());
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut interrupt = None;
        loop {
            let patience =
                deadline.map_or(LOOK, |deadline| LOOK.min(deadline.saturating_duration_since(Instant::now())));
            let has_ended = py.detach(|| job.wait_within(patience));
            tell_notices(py, job.monitor())?;
            if has_ended {
                break;
            }
            if interrupt.is_none() && deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Err(PyTimeoutError::new_err("the job has not ended yet"));
            }
            if let Err(signal) = py.check_signals() {
                match interrupt.replace(signal) {
                    None => job.stop(),
                    // What does not end so is left alone.
                    Some(_) => drop(py.detach(|| calls::end(&job.handle()))),
                }
            }
        }
        match (self.state(py)?, job.failure(), interrupt) {
            ("failed", Some(failure), _) => Err(failure).or_raise(py, Some(&self.script)),
            (_, _, Some(signal)) => Err(signal),
            _ => Ok(()),
        }
    }
}
