//! Functions of Python in SQL: a call a buffer, with whole columns.

use crate::calls;
use crate::error::OrRaise;
use crate::{capsule, rows};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{Field, Schema};
use millstream::{DataType, ScalarFunction, counted};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyList, PyTuple};
use std::sync::Arc;

/// A column in memory, with the Arrow PyCapsule interface.
#[pyclass(frozen, module = "millstream")]
pub(crate) struct Column(pub(crate) ArrayRef);

#[pymethods]
impl Column {
    /// A column of a SQL type: from an Arrow column, or from a sequence of values.
    #[new]
    fn new(py: Python<'_>, values: &Bound<'_, PyAny>, data_type: &str) -> PyResult<Column> {
        let data_type = millstream::sql::data_type::from_text(data_type).or_raise(py, None)?;
        rows::column_of(values, None, &data_type).map(Column)
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// The values, `None` for NULL.
    fn to_list<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, rows::values(py, &self.0)?)
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        // To cast is optional, and whoever gets the column can.
        drop(requested_schema);
        capsule::array_capsules(py, &self.0)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::field_capsule(py, &Field::new("", self.0.data_type().clone(), true))
    }

    fn __repr__(&self) -> String {
        format!("<Column: {} of {}>", counted(self.0.len(), "value"), self.0.data_type())
    }
}

/// How a function is called.
#[derive(Clone, Copy)]
pub(crate) enum Style {
    /// With columns; it returns one.
    Columns,
    /// With the values of a row; it returns a value.
    Rows,
}

/// The function of SQL that calls `callable`.
pub(crate) fn scalar(name: &str, callable: Py<PyAny>, style: Style, returns: DataType) -> ScalarFunction {
    let (function, result) = (name.to_string(), returns.clone());
    let evaluate = move |arguments: &[ArrayRef], rows: usize, run: u64| {
        calls::evaluated(run, |py| {
            let outcome = match style {
                Style::Columns => by_columns(callable.bind(py), arguments, rows, &result),
                Style::Rows => by_rows(callable.bind(py), arguments, rows, &result),
            };
            outcome.map_err(|raised| told(py, &function, arguments, rows, raised))
        })
    };
    ScalarFunction::new(name, returns, evaluate).with_cancellation(calls::is_cancelled)
}

/// What is told of an exception. Where one row is evaluated, its arguments are shown.
fn told(py: Python<'_>, function: &str, arguments: &[ArrayRef], rows: usize, raised: PyErr) -> String {
    let mut message = raised.to_string();
    if rows == 1 {
        let shown = arguments.iter().map(|argument| {
            let value = rows::values(py, argument).ok().and_then(|mut values| values.pop());
            let text = value.and_then(|value| value.repr().ok()).map(|repr| repr.to_string()).unwrap_or_default();
            if text.chars().count() > 60 { text.chars().take(59).chain(['…']).collect() } else { text }
        });
        message += &format!(" for {function}({})", shown.collect::<Vec<String>>().join(", "));
        calls::keep(&message, raised);
    }
    message
}

fn by_columns(
    callable: &Bound<'_, PyAny>,
    arguments: &[ArrayRef],
    rows: usize,
    returns: &DataType,
) -> PyResult<ArrayRef> {
    let py = callable.py();
    let columns = arguments.iter().map(|argument| Bound::new(py, Column(Arc::clone(argument))));
    let result = callable.call1(PyTuple::new(py, columns.collect::<PyResult<Vec<_>>>()?)?)?;
    rows::column_of(&result, Some(rows), returns)
}

fn by_rows(callable: &Bound<'_, PyAny>, arguments: &[ArrayRef], rows: usize, returns: &DataType) -> PyResult<ArrayRef> {
    let py = callable.py();
    let columns = arguments.iter().map(|argument| rows::values(py, argument)).collect::<PyResult<Vec<_>>>()?;
    let value = |row: usize| callable.call1(PyTuple::new(py, columns.iter().map(|column| &column[row]))?);
    rows::build(&(0..rows).map(value).collect::<PyResult<Vec<_>>>()?, returns)
}

/// A column as bytes, for another process: an Arrow stream.
#[pyfunction]
pub(crate) fn column_to_bytes<'py>(py: Python<'py>, column: &Column) -> PyResult<Bound<'py, PyBytes>> {
    let field = Field::new("column", column.0.data_type().clone(), true);
    let schema = Arc::new(Schema::new(vec![field]));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::clone(&column.0)]);
    let write = |batch: RecordBatch| {
        let mut writer = StreamWriter::try_new(Vec::new(), &schema)?;
        writer.write(&batch)?;
        writer.into_inner()
    };
    let bytes = batch.and_then(write).map_err(|e| PyValueError::new_err(e.to_string()))?;
    Ok(PyBytes::new(py, &bytes))
}

/// The column of such bytes.
#[pyfunction]
pub(crate) fn column_from_bytes(bytes: &[u8]) -> PyResult<Column> {
    let read = || StreamReader::try_new(bytes, None)?.next().transpose();
    let batch = read().map_err(|e| PyValueError::new_err(e.to_string()))?;
    let column = batch.and_then(|batch| batch.columns().first().cloned());
    column.map(Column).ok_or_else(|| PyValueError::new_err("there is no column"))
}
