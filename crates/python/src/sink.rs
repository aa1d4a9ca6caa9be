//! Tables that code of Python writes: an object a run, called by one thread at a time.

use crate::batch::Batch;
use crate::calls::{self, Call};
use crate::thread_state::attached;
use arrow_schema::SchemaRef;
use millstream::connectors::{
    ColumnEncoder, Commit, Delivery, Encoded, Encoder, RestoredSink, Sink, SinkJob, SinkRequest,
};
use millstream::{Diagnostic, SinkProvider, code};
use pyo3::prelude::*;
use serde_json::Value;
use std::fmt;
use std::sync::Arc;

/// A table of SQL that is written by Python.
pub(crate) struct PythonSink {
    pub(crate) name: String,
    /// Makes the object of a run, which has the methods that are called below.
    pub(crate) open: Py<PyAny>,
    /// Whether the object prepares and commits.
    pub(crate) is_transactional: bool,
}

impl fmt::Debug for PythonSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PythonSink").field("name", &self.name).finish_non_exhaustive()
    }
}

impl SinkProvider for PythonSink {
    fn open(&self, request: &SinkRequest, run: u64) -> Result<Box<dyn Sink>, Diagnostic> {
        let object = attached(|py| self.open.call0(py).map_err(|raised| failed(py, &self.name, "opened", raised)));
        let target = Target { name: self.name.clone(), run, object: Arc::new(object.unwrap_or_else(|| Err(gone()))?) };
        let (schema, is_transactional) = (request.schema.to_arrow(), self.is_transactional);
        let span = String::new();
        Ok(Box::new(Open { target, schema, is_transactional, span, is_finished: false }))
    }
}

fn gone() -> Diagnostic {
    Diagnostic::new(code::WRITE_FAILED, "the interpreter is going away")
}

fn failed(py: Python<'_>, sink: &str, done: &str, raised: PyErr) -> Diagnostic {
    let message = format!("the sink `{sink}` raised {raised} when it was {done}");
    calls::keep(&message, raised.clone_ref(py));
    Diagnostic::new(code::WRITE_FAILED, message)
}

/// The object of a run.
#[derive(Clone)]
struct Target {
    name: String,
    run: u64,
    object: Arc<Py<PyAny>>,
}

impl Target {
    /// Calls a method. `done` says what is done to the sink.
    fn call(
        &self,
        done: &str,
        method: impl for<'py> FnOnce(&Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>>,
    ) -> Result<Option<String>, Diagnostic> {
        let called = attached(|py| {
            let call = Call::begin(py, self.run).map_err(|raised| failed(py, &self.name, done, raised))?;
            if call.is_none() {
                return Err(Diagnostic::new(code::CANCELLED, "the query was cancelled"));
            }
            let returned = method(self.object.bind(py)).and_then(|returned| returned.extract::<Option<String>>());
            returned.map_err(|raised| failed(py, &self.name, done, raised))
        });
        called.unwrap_or_else(|| Err(gone()))
    }

    fn commit(&self, token: &Value) -> Result<(), Diagnostic> {
        self.call("committed", |object| object.call_method1("commit", (token.as_str(),))).map(drop)
    }
}

struct Open {
    target: Target,
    schema: SchemaRef,
    is_transactional: bool,
    /// What names of spans begin with: those of no other sink do.
    span: String,
    is_finished: bool,
}

impl Sink for Open {
    fn encoder(&self) -> Arc<dyn Encoder> {
        Arc::new(ColumnEncoder)
    }

    fn write(&mut self, piece: Encoded) -> Result<(), Diagnostic> {
        let batch = Batch(piece.into_batch(&self.schema)?);
        self.target.call("written", |object| object.call_method1("write", (batch,))).map(drop)
    }

    fn flush(&mut self) -> Result<(), Diagnostic> {
        self.target.call("flushed", |object| object.call_method0("flush")).map(drop)
    }

    fn finish(mut self: Box<Self>) -> Result<(), Diagnostic> {
        self.target.call("finished", |object| object.call_method0("finish"))?;
        self.is_finished = true;
        Ok(())
    }

    fn delivery(&self) -> Delivery {
        if self.is_transactional { Delivery::ExactlyOnce } else { Delivery::AtLeastOnce }
    }

    fn begin(&mut self, job: &SinkJob, restored: Option<&RestoredSink>) -> Result<(), Diagnostic> {
        if !self.is_transactional {
            return Ok(());
        }
        self.span = format!("{}-{}", job.job, job.sink);
        let token = restored.and_then(|restored| restored.tokens.first()).and_then(Value::as_str);
        self.target.call("recovered", |object| object.call_method1("recover", (token,))).map(drop)
    }

    fn cut(&mut self, checkpoint: u64) -> Result<Option<Box<dyn Commit>>, Diagnostic> {
        if !self.is_transactional {
            self.flush()?;
            return Ok(None);
        }
        let span = format!("{}-{checkpoint}", self.span);
        let token = self.target.call("prepared", |object| object.call_method1("prepare", (span,)))?;
        // As a text, so that numbers stay what they are.
        let token = Value::String(token.ok_or_else(|| Diagnostic::bug("a sink was prepared without a token"))?);
        Ok(Some(Box::new(Prepared { target: self.target.clone(), token })))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if !self.is_finished {
            attached(|py| {
                if let Err(raised) = self.target.object.call_method0(py, "abort") {
                    raised.write_unraisable(py, None);
                }
            });
        }
    }
}

/// What was written before a checkpoint.
struct Prepared {
    target: Target,
    token: Value,
}

impl Commit for Prepared {
    fn prepare(&mut self) -> Result<Value, Diagnostic> {
        Ok(self.token.clone())
    }

    fn commit(self: Box<Self>) -> Result<(), Diagnostic> {
        self.target.commit(&self.token)
    }
}
