//! Arrow data that changes hands without copies: the Arrow PyCapsule interface, to and from Python.
#![allow(unsafe_code)]

use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi, to_ffi};
use arrow_array::ffi_stream::{ArrowArrayStreamReader, FFI_ArrowArrayStream};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchReader, StructArray, make_array};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, Field, Schema, SchemaRef};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

const STREAM: &CStr = c"arrow_array_stream";
const ARRAY: &CStr = c"arrow_array";
const SCHEMA: &CStr = c"arrow_schema";

/// A capsule is moved from: what it held is replaced by nothing, which its destructor knows not to release.
///
/// Fails when the object is no capsule of this name.
fn taken<T>(object: &Bound<'_, PyAny>, name: &CStr, empty: T) -> PyResult<T> {
    let capsule = object.cast::<PyCapsule>()?;
    let pointer = capsule.pointer_checked(Some(name))?.cast::<T>();
    // SAFETY: a capsule of this name holds a struct of the Arrow C interface, whose layout `T` has, and whoever has the capsule may move
    // from it. One that was just made for this call is nobody else's.
    Ok(unsafe { std::mem::replace(&mut *pointer.as_ptr(), empty) })
}

/// The batches of an object with `__arrow_c_stream__`; `None` if it has no such method.
pub(crate) fn stream_of(object: &Bound<'_, PyAny>) -> PyResult<Option<ArrowArrayStreamReader>> {
    let Ok(method) = object.getattr(intern!(object.py(), "__arrow_c_stream__")) else { return Ok(None) };
    let stream = taken(&method.call0()?, STREAM, FFI_ArrowArrayStream::empty())?;
    guarded(|| ArrowArrayStreamReader::try_new(stream).map_err(of_arrow)).map(Some)
}

/// The batch of an object with `__arrow_c_array__`; `None` if it has no such method.
pub(crate) fn batch_of(object: &Bound<'_, PyAny>) -> PyResult<Option<RecordBatch>> {
    let Ok(method) = object.getattr(intern!(object.py(), "__arrow_c_array__")) else { return Ok(None) };
    let rows = array_of(&method)?;
    match rows.as_struct_opt() {
        Some(rows) if rows.null_count() > 0 => {
            Err(PyTypeError::new_err("rows of the table are NULL: only their columns can be"))
        }
        Some(rows) => Ok(Some(RecordBatch::from(rows.clone()))),
        None => Err(PyTypeError::new_err(format!("an array of {} is a column, not a table", rows.data_type()))),
    }
}

/// The pieces of the column of an object with `__arrow_c_array__` or `__arrow_c_stream__`; `None` if it has neither.
pub(crate) fn column_of(object: &Bound<'_, PyAny>) -> PyResult<Option<Vec<ArrayRef>>> {
    /// The type that had only a stream last. To look for what is not there takes Python longer than all the rest.
    static STREAMS: AtomicUsize = AtomicUsize::new(0);
    let array = || object.getattr(intern!(object.py(), "__arrow_c_array__")).ok();
    let kind = object.get_type().as_ptr() as usize;
    let has_stream = STREAMS.load(Relaxed) == kind;
    if !has_stream && let Some(method) = array() {
        return Ok(Some(vec![array_of(&method)?]));
    }
    let Ok(method) = object.getattr(intern!(object.py(), "__arrow_c_stream__")) else {
        // A type may be where another one was.
        return if has_stream { array().map(|method| Ok(vec![array_of(&method)?])).transpose() } else { Ok(None) };
    };
    STREAMS.store(kind, Relaxed);
    let mut stream = taken(&method.call0()?, STREAM, FFI_ArrowArrayStream::empty())?;
    let (Some(get_schema), Some(get_next)) = (stream.get_schema, stream.get_next) else {
        return Err(PyValueError::new_err("the stream was released"));
    };
    let mut schema = FFI_ArrowSchema::empty();
    let mut pieces = Vec::new();
    // SAFETY: the stream is not released, and the struct is empty.
    let mut status = unsafe { get_schema(&raw mut stream, &raw mut schema) };
    while status == 0 {
        let mut array = FFI_ArrowArray::empty();
        // SAFETY: likewise.
        status = unsafe { get_next(&raw mut stream, &raw mut array) };
        if status != 0 || array.is_released() {
            break;
        }
        // SAFETY: the arrays of a stream are of its schema.
        pieces
            .push(make_array(guarded(|| unsafe { from_ffi(importable(array, &schema), &schema) }.map_err(of_arrow))?));
    }
    match status {
        0 => Ok(Some(pieces)),
        _ => Err(PyValueError::new_err(format!("the stream failed with the code {status}"))),
    }
}

/// What a method `__arrow_c_array__` gives.
fn array_of(method: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    let (schema, array): (Bound<'_, PyAny>, Bound<'_, PyAny>) = method.call0()?.extract()?;
    let schema = taken(&schema, SCHEMA, FFI_ArrowSchema::empty())?;
    let array = taken(&array, ARRAY, FFI_ArrowArray::empty())?;
    // SAFETY: the two belong together, as the interface says of what the method returns.
    guarded(|| Ok(make_array(unsafe { from_ffi(importable(array, &schema), &schema) }.map_err(of_arrow)?)))
}

/// Capsules of the type and the values of a column.
pub(crate) fn array_capsules<'py>(py: Python<'py>, column: &ArrayRef) -> PyResult<Bound<'py, PyTuple>> {
    let (array, _) = to_ffi(&column.to_data()).map_err(of_arrow)?;
    let array = PyCapsule::new_with_value(py, array, ARRAY)?;
    (field_capsule(py, &Field::new("", column.data_type().clone(), true))?, array).into_pyobject(py)
}

/// A capsule of the type of a column.
pub(crate) fn field_capsule<'py>(py: Python<'py>, field: &Field) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowSchema::try_from(field).map_err(of_arrow)?, SCHEMA)
}

/// A capsule of a schema.
pub(crate) fn schema_capsule<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowSchema::try_from(schema).map_err(of_arrow)?, SCHEMA)
}

/// Capsules of the schema and the columns of a batch.
pub(crate) fn batch_capsules<'py>(py: Python<'py>, batch: &RecordBatch) -> PyResult<Bound<'py, PyTuple>> {
    let (array, _) = to_ffi(&StructArray::from(batch.clone()).into_data()).map_err(of_arrow)?;
    let array = PyCapsule::new_with_value(py, array, ARRAY)?;
    (schema_capsule(py, &batch.schema())?, array).into_pyobject(py)
}

/// A capsule of a stream of batches, cast to the columns of `requested` if the consumer has given a schema.
pub(crate) fn stream_capsule<'py>(
    py: Python<'py>,
    reader: Box<dyn RecordBatchReader + Send>,
    requested: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let reader = match requested {
        Some(requested) => {
            let schema =
                guarded(|| Schema::try_from(&taken(requested, SCHEMA, FFI_ArrowSchema::empty())?).map_err(of_arrow))?;
            Box::new(Cast::new(reader, schema)?)
        }
        None => reader,
    };
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), STREAM)
}

/// Polars gives arrays of the type null a buffer, of which the library wants none. Releasing an array does not depend on their number.
///
/// # Safety
/// The schema is that of the array.
unsafe fn importable(mut array: FFI_ArrowArray, schema: &FFI_ArrowSchema) -> FFI_ArrowArray {
    // SAFETY: the caller's.
    unsafe { forget_buffers_of_null(&mut array, schema) };
    array
}

/// # Safety
/// As for [`importable`].
unsafe fn forget_buffers_of_null(array: &mut FFI_ArrowArray, schema: &FFI_ArrowSchema) {
    if schema.format() == "n" {
        array.n_buffers = 0;
    }
    for (i, child) in schema.children().enumerate().take(usize::try_from(array.n_children).unwrap_or(0)) {
        // SAFETY: an array has as many children as it says, which are its own and of the types of the schema's.
        unsafe { forget_buffers_of_null(&mut **array.children.add(i), child) };
    }
}

/// The library asserts that structs of the interface are whole; one that somebody has moved from is not.
fn guarded<T>(work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(PyValueError::new_err("the Arrow data is not whole: a capsule can be used once")))
}

fn of_arrow(error: ArrowError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Batches with columns of a batch by name, in other types.
struct Cast {
    reader: Box<dyn RecordBatchReader + Send>,
    /// Of each column in the batches of the reader.
    positions: Vec<usize>,
    schema: SchemaRef,
}

impl Cast {
    fn new(reader: Box<dyn RecordBatchReader + Send>, schema: Schema) -> PyResult<Cast> {
        let found = reader.schema();
        let position = |field: &Arc<Field>| {
            found.index_of(field.name()).map_err(|_| {
                let names: Vec<&str> = found.fields().iter().map(|field| field.name().as_str()).collect();
                PyValueError::new_err(format!(
                    "there is no column '{}'; the columns are {}",
                    field.name(),
                    names.join(", ")
                ))
            })
        };
        let positions = schema.fields().iter().map(position).collect::<PyResult<_>>()?;
        Ok(Cast { reader, positions, schema: schema.into() })
    }

    fn cast(&self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        // What does not fit is an error, not NULL.
        let cast = CastOptions { safe: false, ..CastOptions::default() };
        let columns = self.positions.iter().zip(self.schema.fields());
        let columns = columns.map(|(&at, field)| cast_with_options(batch.column(at), field.data_type(), &cast));
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(self.schema.clone(), columns.collect::<Result<_, _>>()?, &options)
    }
}

impl Iterator for Cast {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.reader.next()?.and_then(|batch| self.cast(&batch)))
    }
}

impl RecordBatchReader for Cast {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
