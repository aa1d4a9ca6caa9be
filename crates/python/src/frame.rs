//! Objects of Python that are tables in SQL: whatever has the Arrow PyCapsule interface, and relations.
//!
//! What has a length is in memory and is taken whole, without copies where its producer makes none. What has none is a reader, from which
//! a query takes batches as it goes, once.

use crate::capsule;
use crate::relation::Relation;
use arrow_array::{RecordBatch, RecordBatchReader};
use millstream::{Diagnostic, EventTime, LocalTable, code, columns_text};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;

/// The table that an object is.
pub(crate) fn local_table(
    object: &Bound<'_, PyAny>,
    time: Option<&EventTime>,
) -> PyResult<Result<LocalTable, Diagnostic>> {
    let py = object.py();
    if let Ok(relation) = object.getattr(intern!(py, "_relation"))
        && let Ok(relation) = relation.cast::<Relation>()
    {
        return Ok(match time {
            None => Ok(LocalTable::Query(Box::new(relation.get().query().clone()))),
            Some(_) => Err(Diagnostic::new(code::INVALID_OPTION, "the event time of a query comes from its tables")
                .advise("register the table of the query with an event time")),
        });
    }
    let frame = |schema: arrow_schema::SchemaRef, batches: Vec<RecordBatch>| {
        columns_text(&schema, time).map(|columns| LocalTable::Frame { columns, batches })
    };
    if let Some(column) = column_of_objects(object)? {
        let message = format!("SQL has no type for column `{column}`, which holds objects of Python");
        return Ok(Err(Diagnostic::new(code::TYPE_MISMATCH, message).advise("leave the column out, or cast it")));
    }
    if let Some(reader) = capsule::stream_of(object)? {
        let schema = reader.schema();
        if object.len().is_err() {
            let reader = Box::new(reader.map(|batch| batch.map_err(|e| failed(&e.to_string()))));
            return Ok(columns_text(&schema, time).map(|columns| LocalTable::Reader { columns, reader }));
        }
        // A producer may want the interpreter to make its rows.
        let batches = py.detach(|| reader.collect::<Result<Vec<_>, _>>());
        return Ok(batches.map_err(|e| failed(&e.to_string())).and_then(|batches| frame(schema, batches)));
    }
    if let Some(batch) = capsule::batch_of(object)? {
        return Ok(frame(batch.schema(), vec![batch]));
    }
    let kind = object.get_type().fully_qualified_name()?;
    Err(PyTypeError::new_err(format!(
        "a {kind} is not a table: it has no Arrow interface (`__arrow_c_stream__`, `__arrow_c_array__`). Make it a data frame \
         or an Arrow table, for instance by `.collect()` or `pyarrow.table(…)`"
    )))
}

/// The first column of a Polars data frame that holds objects of Python: its Arrow interface gives their addresses, as bytes.
fn column_of_objects(object: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    let py = object.py();
    if object.get_type().module()? != "polars.dataframe.frame" {
        return Ok(None);
    }
    for item in object.getattr(intern!(py, "schema"))?.call_method0(intern!(py, "items"))?.try_iter()? {
        let (name, data_type): (String, Bound<'_, PyAny>) = item?.extract()?;
        if data_type.str()? == "Object" {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

fn failed(message: &str) -> Diagnostic {
    Diagnostic::new(code::READ_FAILED, message)
}
