//! INSERTs that run in the background.

use crate::calls;
use crate::error::{OrRaise, exception};
use crate::process;
use crate::session::Share;
use crate::waiting::{LOOK, deadline, detached, tell_losses, tell_notices};
use millstream::{CancelState, Diagnostic, code};
use pyo3::exceptions::PyTimeoutError;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often it is looked whether a checkpoint is complete.
const MOMENT: Duration = Duration::from_millis(10);

/// See `millstream.Job`, which has one.
#[pyclass(frozen, module = "millstream._core")]
pub(crate) struct Job {
    /// Always there until it is dropped.
    job: Option<millstream::Job>,
    script: String,
    keeps_checkpoints: bool,
    /// Until it is known to have ended.
    share: Mutex<Option<Share>>,
}

impl Drop for Job {
    fn drop(&mut self) {
        if let Some(job) = self.job.take() {
            process::release(|| detached(|| calls::release(job)));
        }
    }
}

impl Job {
    pub(crate) fn new(job: millstream::Job, script: &str, keeps_checkpoints: bool, share: Share) -> Job {
        process::note(&job);
        Job { job: Some(job), script: script.into(), keeps_checkpoints, share: Mutex::new(Some(share)) }
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
        // Dropped under the lock: whoever else asks waits until the state directory is free.
        let is_news = self.share.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner).take().is_some();
        if is_news {
            tell_losses(py, job)?;
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

    /// Takes a checkpoint that begins now, and waits until it is complete, for so many seconds.
    fn checkpoint(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let job = self.job(py)?;
        if !self.keeps_checkpoints {
            let error = Diagnostic::new(code::MISSING_OPTION, "the job has no state directory");
            return Err(error.advise("give connect() a state_dir")).or_raise(py, None);
        }
        let counts = || job.stats().map_or((0, 0), |stats| (stats.checkpoints.begun, stats.checkpoints.complete));
        let (before, deadline) = (counts().0, deadline(timeout)?);
        job.checkpoint();
        // One that had begun is another one.
        while counts().1 <= before {
            if py.detach(|| job.wait_within(MOMENT)) {
                let message = "the job ended before the checkpoint was complete";
                return Err(job.failure().unwrap_or_else(|| Diagnostic::new(code::CHECKPOINT_FAILED, message)))
                    .or_raise(py, Some(&self.script));
            }
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Err(PyTimeoutError::new_err("the checkpoint is not complete yet"));
            }
            py.check_signals()?;
        }
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

    /// Waits for its end. The first interrupt stops it in good order, with a checkpoint if it has any, the second at once; then the
    /// interrupt is raised. Raises `TimeoutError` after so many seconds, and goes on running.
    pub(crate) fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let job = self.job(py)?;
        let deadline = deadline(timeout)?;
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
                    Some(signal) => {
                        if !py.detach(|| calls::end(&job.handle())) {
                            // It is left alone.
                            return Err(signal);
                        }
                    }
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
