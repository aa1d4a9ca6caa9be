//! Errors of the engine as exceptions of `millstream.errors`, which has their classes.

use crate::calls;
use millstream::{Diagnostic, Place, sql};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The exception for an error; `script` is the text that its place is in.
pub(crate) fn exception(py: Python<'_>, diagnostic: &Diagnostic, script: Option<&str>) -> PyErr {
    made(py, diagnostic, script).unwrap_or_else(|failure| failure)
}

fn made(py: Python<'_>, diagnostic: &Diagnostic, script: Option<&str>) -> PyResult<PyErr> {
    let text = sql::render(diagnostic, script, "SQL");
    let fields = PyDict::new(py);
    fields.set_item("code", diagnostic.code.to_string())?;
    fields.set_item("message", &diagnostic.message)?;
    fields.set_item("place", diagnostic.place.as_ref().map(Place::to_string))?;
    fields.set_item("advice", diagnostic.help())?;
    let class = py.import(intern!(py, "millstream.errors"))?.getattr("of")?;
    let error = PyErr::from_value(class.call((text.trim_end(),), Some(&fields))?);
    error.set_cause(py, calls::cause(py, &diagnostic.message));
    Ok(error)
}

/// Results of the engine whose errors are to be exceptions.
pub(crate) trait OrRaise<T> {
    /// The value, or the exception; see [`exception`].
    fn or_raise(self, py: Python<'_>, script: Option<&str>) -> PyResult<T>;
}

impl<T> OrRaise<T> for Result<T, Diagnostic> {
    fn or_raise(self, py: Python<'_>, script: Option<&str>) -> PyResult<T> {
        self.map_err(|diagnostic| exception(py, &diagnostic, script))
    }
}
