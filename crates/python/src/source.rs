//! Tables whose rows code of Python makes: a thread of Python a split, which the engine does not wait for.
//!
//! The thread puts what an iterator yields into a [`Feed`]; the reader of the split takes all that is there and makes columns of it. So a row
//! does not wait for the next one, a busy iterator costs few changes of the interpreter's owner, and a query ends while an iterator waits.

use crate::cluster::Registration;
use crate::thread_state::attached;
use crate::{calls, capsule, rows};
use arrow_array::{ArrayRef, RecordBatch, new_empty_array};
use millstream::connectors::{self, FrameSplit, PlacedBatch, Source, SourceRequest, SplitKind};
use millstream::{Diagnostic, OtherNodes, Place, Schema, TableProvider, code};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use serde_json::Value;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Rows that wait for the engine, about: then the iterator waits.
const MOST_ROWS: usize = 16 << 10;
/// How long the reader waits before it looks whether the query is to end.
const PATIENCE: Duration = Duration::from_millis(200);
/// How often a thread that waits for room looks whether it was interrupted.
const LOOK: Duration = Duration::from_millis(50);

/// A table of SQL whose rows are made by Python.
pub(crate) struct PythonTable {
    pub(crate) name: String,
    /// Begins a split: called with a [`Feed`], the number of the split and a position as JSON; returns what ends it.
    pub(crate) begin: Arc<Py<PyAny>>,
    pub(crate) splits: Vec<String>,
    pub(crate) kind: SplitKind,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) portable: Registration,
}

impl fmt::Debug for PythonTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PythonTable").field("name", &self.name).finish_non_exhaustive()
    }
}

impl TableProvider for PythonTable {
    fn open(&self, request: &SourceRequest) -> Result<Box<dyn Source>, Diagnostic> {
        let split = |(number, name): (usize, &String)| {
            Box::new(Split {
                table: self.name.clone(),
                name: name.clone(),
                number,
                begin: Arc::clone(&self.begin),
                schema: request.schema.clone(),
                feed: Arc::default(),
                end: None,
            }) as Box<dyn FrameSplit>
        };
        connectors::open_splits(request, self.splits.iter().enumerate().map(split).collect(), self.kind)
    }

    fn is_bounded(&self) -> bool {
        self.kind.is_bounded
    }

    fn idle_timeout(&self) -> Option<Duration> {
        self.idle_timeout
    }

    fn on_other_nodes(&self) -> OtherNodes<'_> {
        OtherNodes::Object(&self.portable)
    }

    /// Only a query that was asked for runs code of the program.
    fn is_repeatable(&self) -> bool {
        false
    }
}

fn gone() -> Diagnostic {
    Diagnostic::new(code::READ_FAILED, "the interpreter is going away")
}

/// What an iterator has yielded, and the engine has not taken.
#[derive(Default)]
struct Waiting {
    /// Rows, and the position behind them as JSON.
    items: VecDeque<(Py<PyAny>, Option<String>)>,
    /// How many rows they are, about.
    rows: usize,
    has_ended: bool,
    failure: Option<PyErr>,
    /// Nobody takes any more.
    is_closed: bool,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update<T>(&self, change: impl FnOnce(&mut Waiting) -> T) -> T {
        let changed = change(&mut self.lock());
        self.changed.notify_all();
        changed
    }

    /// Waits until `until` holds, for `patience` at most; whether it does.
    fn wait(&self, patience: Duration, until: impl Fn(&Waiting) -> bool) -> bool {
        let waited = self.changed.wait_timeout_while(self.lock(), patience, |waiting| !until(waiting));
        let (waiting, _) = waited.unwrap_or_else(PoisonError::into_inner);
        until(&waiting)
    }
}

/// Where a thread of Python puts the rows of a split.
#[pyclass(frozen, module = "millstream._core")]
pub(crate) struct Feed(Arc<Queue>);

#[pymethods]
impl Feed {
    /// Puts rows in, with the position behind them as JSON. Waits while there are many; `False` when nobody wants them any more.
    fn put(&self, py: Python<'_>, rows: Py<PyAny>, position: Option<String>) -> PyResult<bool> {
        while !py.detach(|| self.0.wait(LOOK, |waiting| waiting.is_closed || waiting.rows < MOST_ROWS)) {
            py.check_signals()?;
        }
        Ok(self.add(py, rows, position))
    }

    /// The same without waiting: `None` when there is no room.
    fn offer(&self, py: Python<'_>, rows: Py<PyAny>, position: Option<String>) -> Option<bool> {
        let is_full = {
            let waiting = self.0.lock();
            !waiting.is_closed && waiting.rows >= MOST_ROWS
        };
        (!is_full).then(|| self.add(py, rows, position))
    }

    /// Whether nobody wants rows any more.
    #[getter]
    fn is_closed(&self) -> bool {
        self.0.lock().is_closed
    }

    /// There are no more.
    fn end(&self) {
        self.0.update(|waiting| waiting.has_ended = true);
    }

    /// There are no more because of an exception.
    fn fail(&self, error: &Bound<'_, PyAny>) {
        let error = PyErr::from_value(error.clone());
        self.0.update(|waiting| {
            waiting.has_ended = true;
            // What nobody takes would hold the frames of the iterator forever.
            waiting.failure = Some(error).filter(|_| !waiting.is_closed);
        });
    }
}

impl Feed {
    fn add(&self, py: Python<'_>, rows: Py<PyAny>, position: Option<String>) -> bool {
        let item = rows.bind(py);
        let count = match item.is_instance_of::<PyDict>() || item.is_instance_of::<PyTuple>() {
            true => 1,
            // Of batches the rows are known later.
            false => item.len().unwrap_or(MOST_ROWS / 4).max(1),
        };
        self.0.update(|waiting| {
            if !waiting.is_closed {
                waiting.items.push_back((rows, position));
                waiting.rows += count;
            }
            !waiting.is_closed
        })
    }
}

/// A split, as the engine reads it.
struct Split {
    table: String,
    name: String,
    number: usize,
    begin: Arc<Py<PyAny>>,
    schema: Schema,
    feed: Arc<Queue>,
    /// Ends the thread.
    end: Option<Py<PyAny>>,
}

impl Drop for Split {
    fn drop(&mut self) {
        let left = self.feed.update(|waiting| {
            waiting.is_closed = true;
            (std::mem::take(&mut waiting.items), waiting.failure.take())
        });
        let end = self.end.take();
        // What is dropped may run code of Python, and the thread may wait for nothing.
        attached(|py| {
            drop(left);
            if let Some(end) = end
                && let Err(raised) = end.call0(py)
            {
                raised.write_unraisable(py, None);
            }
        });
    }
}

impl Split {
    fn failed(&self, py: Python<'_>, raised: PyErr) -> Diagnostic {
        let message = format!("the source `{}` raised {}", self.table, raised);
        calls::keep(&message, raised.clone_ref(py));
        let place = Place::Data {
            resource: format!("{}, split {}", self.table, self.name),
            offset: None,
            line: None,
            column: None,
        };
        Diagnostic::new(code::READ_FAILED, message).at(place)
    }

    /// All rows that are there: they become one batch.
    fn take(&self) -> Vec<(Py<PyAny>, Option<String>)> {
        self.feed.update(|waiting| {
            let items = std::mem::take(&mut waiting.items).into();
            waiting.rows = 0;
            items
        })
    }
}

impl FrameSplit for Split {
    fn name(&self) -> &str {
        &self.name
    }

    fn begin(&mut self, after: Option<Value>) -> Result<(), Diagnostic> {
        let feed = Feed(Arc::clone(&self.feed));
        let position = after.as_ref().and_then(Value::as_str).map(str::to_string);
        let begun = attached(|py| {
            let begun = Py::new(py, feed).and_then(|feed| self.begin.call1(py, (feed, self.number, position)));
            begun.map_err(|raised| self.failed(py, raised))
        });
        self.end = Some(begun.unwrap_or_else(|| Err(gone()))?);
        Ok(())
    }

    fn wait(&mut self) -> Result<bool, Diagnostic> {
        Ok(self.feed.wait(PATIENCE, |waiting| waiting.has_ended || !waiting.items.is_empty()))
    }

    fn next(&mut self) -> Result<Option<PlacedBatch>, Diagnostic> {
        while !self.wait()? {}
        let items = self.take();
        let next = attached(|py| {
            if items.is_empty() {
                let failure = self.feed.update(|waiting| waiting.failure.take());
                return failure.map_or(Ok(None), |raised| Err(self.failed(py, raised)));
            }
            // As a text, so that numbers stay what they are.
            let position =
                items.iter().rev().find_map(|(_, position)| position.clone()).map_or(Value::Null, Value::String);
            let items: Vec<Bound<'_, PyAny>> = items.into_iter().map(|(item, _)| item.into_bound(py)).collect();
            let batch = batch_of(py, &items, &self.schema).map_err(|raised| self.failed(py, raised))?;
            Ok(Some(PlacedBatch { batch, position }))
        });
        next.unwrap_or_else(|| Err(gone()))
    }
}

/// One batch of all that was yielded: rows, lists of rows, and batches.
fn batch_of(py: Python<'_>, items: &[Bound<'_, PyAny>], schema: &Schema) -> PyResult<RecordBatch> {
    let mut batches = Vec::new();
    let mut rows = Vec::new();
    for item in items {
        if item.is_instance_of::<PyDict>() || item.is_instance_of::<PyTuple>() {
            rows.push(item.clone());
        } else if let Ok(list) = item.cast::<PyList>() {
            rows.extend(list.iter());
        } else {
            flush(&mut rows, schema, &mut batches)?;
            batches.extend(arrow_of(py, item, schema)?);
        }
    }
    flush(&mut rows, schema, &mut batches)?;
    match <[RecordBatch; 1]>::try_from(batches) {
        Ok([batch]) => Ok(batch),
        Err(batches) => match batches.first() {
            Some(first) => arrow_select::concat::concat_batches(&first.schema(), &batches)
                .map_err(|e| PyValueError::new_err(e.to_string())),
            None => rows::with_columns(schema, schema.fields.iter().map(empty).collect(), 0),
        },
    }
}

fn empty(field: &millstream::Field) -> ArrayRef {
    new_empty_array(&field.data_type.to_arrow())
}

fn flush(rows: &mut Vec<Bound<'_, PyAny>>, schema: &Schema, batches: &mut Vec<RecordBatch>) -> PyResult<()> {
    if !rows.is_empty() {
        batches.push(rows::batch(&std::mem::take(rows), schema)?);
    }
    Ok(())
}

/// The batches of an object with the Arrow interface, with the columns of the table.
fn arrow_of(py: Python<'_>, item: &Bound<'_, PyAny>, schema: &Schema) -> PyResult<Vec<RecordBatch>> {
    let batches = match (capsule::batch_of(item)?, capsule::stream_of(item)?) {
        (Some(batch), _) => vec![batch],
        (None, Some(reader)) => {
            py.detach(|| reader.collect::<Result<Vec<_>, _>>()).map_err(|e| PyValueError::new_err(e.to_string()))?
        }
        (None, None) => {
            let kind = item.get_type().fully_qualified_name()?;
            return Err(PyTypeError::new_err(format!(
                "a {kind} is no row: yield a dict or tuple, a list of them, or a batch with the Arrow interface"
            )));
        }
    };
    let fitted = |batch: RecordBatch| {
        let column = |field: &millstream::Field| match batch.column_by_name(&field.name) {
            Some(column) => connectors::fit(column, &field.data_type)
                .map_err(|reason| PyTypeError::new_err(format!("column `{}`: {reason}", field.name))),
            None => Err(PyTypeError::new_err(format!(
                "a batch has no column `{}`; it has {}",
                field.name,
                batch.schema_ref().fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>().join(", ")
            ))),
        };
        let columns = schema.fields.iter().map(column).collect::<PyResult<Vec<_>>>()?;
        rows::with_columns(schema, columns, batch.num_rows())
    };
    batches.into_iter().map(fitted).collect()
}
