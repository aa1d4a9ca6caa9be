//! Queries that run when their rows are asked for.

use crate::batch::Batches;
use crate::capsule;
use crate::error::OrRaise;
use crate::process;
use crate::reader::{Reader, Stream};
use crate::waiting::{deadline, interruptible};
use millstream::{Diagnostic, RunMonitor, code};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// See `millstream.Relation`, which has one.
#[pyclass(frozen, module = "millstream._core")]
pub(crate) struct Relation {
    query: millstream::Relation,
    /// The script that it stands in, for errors.
    script: String,
}

impl Relation {
    pub(crate) fn new(query: millstream::Relation, script: &str) -> Relation {
        Relation { query, script: script.into() }
    }

    pub(crate) fn query(&self) -> &millstream::Relation {
        &self.query
    }
}

#[pymethods]
impl Relation {
    /// Name, type and nullability of each column.
    #[getter]
    fn schema(&self) -> Vec<(String, String, bool)> {
        let fields = &self.query.schema().fields;
        fields.iter().map(|field| (field.name.clone(), field.data_type.to_string(), field.nullable)).collect()
    }

    /// The text of the query.
    #[getter]
    fn text(&self) -> &str {
        self.query.text()
    }

    /// Whether it may put out rows forever.
    #[getter]
    fn is_endless(&self) -> bool {
        self.query.is_endless()
    }

    /// Whether its rows can be read only once.
    #[getter]
    fn reads_once(&self) -> bool {
        !self.query.is_repeatable()
    }

    /// Starts the query; its batches. It is cancelled after so many rows or seconds.
    fn read(&self, py: Python<'_>, limit: Option<u64>, timeout: Option<f64>) -> PyResult<Reader> {
        process::check().or_raise(py, None)?;
        let deadline = deadline(timeout)?;
        let job = py.detach(|| self.query.submit()).or_raise(py, Some(&self.script))?;
        Ok(Reader::new(job, &self.script, limit, deadline))
    }

    /// All rows, or as many as there are before so many rows or seconds.
    fn collect(&self, py: Python<'_>, limit: Option<u64>, timeout: Option<f64>) -> PyResult<Batches> {
        let reader = self.read(py, limit, timeout)?;
        if self.query.is_endless() && limit.is_none() && timeout.is_none() {
            // What is wrong with its sources comes first.
            reader.begin(py)?;
            let advice = "give `limit` or `timeout`, write LIMIT, or iterate over `batches()`";
            return Err(Diagnostic::new(code::ENDLESS, "the query does not end, so it has no last row").advise(advice))
                .or_raise(py, Some(&self.script));
        }
        let batches = reader.collect(py)?;
        Ok(Batches { schema: self.query.schema().to_arrow(), batches })
    }

    /// What EXPLAIN prints.
    fn explain(&self, py: Python<'_>, codegen: bool, analyze: bool) -> PyResult<String> {
        process::check().or_raise(py, None)?;
        let monitor = RunMonitor::new();
        let explained = interruptible(py, &monitor, || match analyze {
            true => self.query.analyze(&monitor),
            false => self.query.explain(codegen),
        })?;
        explained.or_raise(py, Some(&self.script))
    }

    /// Its plan as SVG.
    fn picture(&self, py: Python<'_>, analyze: bool) -> PyResult<String> {
        process::check().or_raise(py, None)?;
        let monitor = RunMonitor::new();
        let picture = interruptible(py, &monitor, || self.query.picture(analyze.then_some(&monitor)))?;
        picture.or_raise(py, Some(&self.script))
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::schema_capsule(py, &self.query.schema().to_arrow())
    }

    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        process::check().or_raise(py, None)?;
        let stream = Stream::new(self.query.clone(), &self.script);
        capsule::stream_capsule(py, Box::new(stream), requested_schema.as_ref())
    }
}
