//! The rows of a query on their way to Python.
//!
//! Whoever waits lets other threads of Python run, and looks for signals twenty times a second. No handler is installed: `KeyboardInterrupt`
//! comes from Python's own, and cancels the query.

use crate::batch::Batch;
use crate::calls;
use crate::error::OrRaise;
use crate::process;
use crate::thread_state::if_of_python;
use crate::waiting::{LOOK, detached, tell_losses};
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use millstream::{CancelToken, Diagnostic, Job, Next};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A running query. It is cancelled when it is dropped.
struct Running {
    /// `None` when it has ended.
    job: Option<Job>,
    /// Rows that are still wanted.
    left: Option<u64>,
    deadline: Option<Instant>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

impl Running {
    /// The next batch, if it comes within `patience`.
    fn next(&mut self, patience: Duration) -> Result<Next, Diagnostic> {
        process::check()?;
        let now = Instant::now();
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            return Ok(self.end());
        }
        let Some(job) = &self.job else { return Ok(Next::End) };
        let patience = self.deadline.map_or(patience, |deadline| patience.min(deadline.saturating_duration_since(now)));
        if self.left == Some(0) {
            return Ok(self.end());
        }
        match job.next_batch_within(patience) {
            Next::Batch(batch) => {
                let Some(left) = &mut self.left else { return Ok(Next::Batch(batch)) };
                let wanted = usize::try_from(*left).unwrap_or(usize::MAX).min(batch.num_rows());
                *left -= wanted as u64;
                Ok(Next::Batch(batch.slice(0, wanted)))
            }
            Next::End => {
                if let Some(job) = self.job.take() {
                    // What is told is not worth an error.
                    let _ = if_of_python(|py| tell_losses(py, &job));
                    detached(|| job.wait())?;
                }
                Ok(Next::End)
            }
            waiting => Ok(waiting),
        }
    }

    /// Ends it: no more rows are wanted.
    fn end(&mut self) -> Next {
        if let Some(job) = self.job.take() {
            process::release(|| detached(|| calls::release(job)));
        }
        Next::End
    }
}

/// The rows of a running query: an iterator of batches.
#[pyclass(frozen, module = "millstream._core")]
pub(crate) struct Reader {
    running: Mutex<Running>,
    cancel: CancelToken,
    is_closed: AtomicBool,
    script: String,
}

impl Reader {
    pub(crate) fn new(job: Job, script: &str, limit: Option<u64>, deadline: Option<Instant>) -> Reader {
        process::note(&job);
        let cancel = job.monitor().cancel().clone();
        let running = Mutex::new(Running { job: Some(job), left: limit, deadline });
        Reader { running, cancel, is_closed: AtomicBool::new(false), script: script.into() }
    }

    fn lock(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next batch, if it comes within `patience`. A reader that somebody has closed is at its end.
    fn next(&self, py: Python<'_>, patience: Duration) -> PyResult<Next> {
        match py.detach(|| self.lock().next(patience)) {
            Err(_) if self.is_closed.load(Ordering::Relaxed) => Ok(Next::End),
            next => next.or_raise(py, Some(&self.script)),
        }
    }

    /// Waits for the next batch; `None` at the end.
    fn wait(&self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        loop {
            match self.next(py, LOOK)? {
                Next::Batch(batch) => return Ok(Some(batch)),
                Next::End => return Ok(None),
                Next::Waiting => {}
            }
            if let Err(interrupt) = py.check_signals() {
                self.close(py);
                return Err(interrupt);
            }
        }
    }

    /// Waits until the query runs.
    pub(crate) fn begin(&self, py: Python<'_>) -> PyResult<()> {
        while self.lock().job.as_ref().is_some_and(|job| job.monitor().stats().is_none()) {
            if !matches!(self.next(py, LOOK)?, Next::Waiting) {
                break;
            }
            py.check_signals()?;
        }
        Ok(())
    }

    /// All batches that are left.
    pub(crate) fn collect(&self, py: Python<'_>) -> PyResult<Vec<RecordBatch>> {
        std::iter::from_fn(|| self.wait(py).transpose()).collect()
    }
}

#[pymethods]
impl Reader {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        Ok(self.wait(py)?.map(Batch))
    }

    /// Waits for a batch, up to so many seconds: a batch, `None` at the end, or `False` if there is none yet.
    fn poll<'py>(&self, py: Python<'py>, seconds: f64) -> PyResult<Bound<'py, PyAny>> {
        let patience = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        match self.next(py, patience)? {
            Next::Batch(batch) => Ok(Bound::new(py, Batch(batch))?.into_any()),
            Next::End => Ok(py.None().into_bound(py)),
            Next::Waiting => false.into_bound_py_any(py),
        }
    }

    /// Cancels the query.
    fn close(&self, py: Python<'_>) {
        self.is_closed.store(true, Ordering::Relaxed);
        self.cancel.abort();
        py.detach(|| self.lock().end());
    }
}

/// The same for a consumer of Arrow streams, which may call from any thread and with or without the interpreter. The query begins when the
/// first batch is asked for.
pub(crate) struct Stream {
    query: millstream::Relation,
    running: Option<Running>,
    schema: SchemaRef,
    script: String,
}

impl Stream {
    pub(crate) fn new(query: millstream::Relation, script: &str) -> Stream {
        let schema = query.schema().to_arrow();
        Stream { query, running: None, schema, script: script.into() }
    }

    fn next(&mut self, patience: Duration) -> Result<Next, Diagnostic> {
        let running = match &mut self.running {
            Some(running) => running,
            None => {
                let job = detached(|| self.query.submit())?;
                process::note(&job);
                self.running.insert(Running { job: Some(job), left: None, deadline: None })
            }
        };
        if patience.is_zero() { running.next(patience) } else { detached(|| running.next(patience)) }
    }
}

impl Iterator for Stream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut patience = Duration::ZERO;
        loop {
            match self.next(patience) {
                Ok(Next::Batch(batch)) => return Some(Ok(batch)),
                Ok(Next::End) => return None,
                Ok(Next::Waiting) => {}
                Err(diagnostic) => {
                    let text = millstream::sql::render(&diagnostic, Some(&self.script), "SQL");
                    return Some(Err(ArrowError::ExternalError(text.trim_end().into())));
                }
            }
            // The exception ends here: the consumer raises one of its own, with this text.
            if if_of_python(|py| py.check_signals().is_err()).unwrap_or(false) {
                self.running = None;
                return Some(Err(ArrowError::ExternalError("the query was interrupted".into())));
            }
            patience = LOOK;
        }
    }
}

impl RecordBatchReader for Stream {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
