//! A piece of a result.

use crate::{capsule, rows};
use arrow_array::{RecordBatch, RecordBatchIterator};
use millstream::counted;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

/// Rows of a result in memory, column by column, with the Arrow PyCapsule interface.
#[pyclass(frozen, module = "millstream")]
pub(crate) struct Batch(pub(crate) RecordBatch);

#[pymethods]
impl Batch {
    /// Names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.0.schema_ref().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Number of rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.0.num_rows()
    }

    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    /// The rows, a tuple each.
    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        rows::rows(py, &self.0)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::schema_capsule(py, self.0.schema_ref())
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        // To cast is optional, and whoever gets the columns can.
        drop(requested_schema);
        capsule::batch_capsules(py, &self.0)
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let batches = RecordBatchIterator::new([Ok(self.0.clone())], self.0.schema());
        capsule::stream_capsule(py, Box::new(batches), requested_schema.as_ref())
    }

    fn __repr__(&self) -> String {
        format!("<Batch: {} of {}>", counted(self.0.num_rows(), "row"), self.columns().join(", "))
    }
}

/// Batches of a result in memory, with the Arrow PyCapsule interface.
#[pyclass(frozen, module = "millstream")]
pub(crate) struct Batches {
    pub(crate) schema: arrow_schema::SchemaRef,
    pub(crate) batches: Vec<RecordBatch>,
}

#[pymethods]
impl Batches {
    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// The rows, a tuple each.
    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let mut all = Vec::with_capacity(self.__len__());
        for batch in &self.batches {
            all.extend(rows::rows(py, batch)?);
        }
        Ok(all)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::schema_capsule(py, &self.schema)
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let batches = self.batches.clone().into_iter().map(Ok);
        let batches = RecordBatchIterator::new(batches, self.schema.clone());
        capsule::stream_capsule(py, Box::new(batches), requested_schema.as_ref())
    }
}
