//! Evaluation of vector columns: calls of functions that work on a whole buffer, before the fused loop.

use super::{Flow, emit_keeping, take};
use crate::interpreter::Interpreter;
use crate::lower::{Lowered, VectorColumn};
use arrow_array::{ArrayRef, BooleanArray, UInt32Array, new_null_array};
use arrow_select::concat::concat;
use millstream_functions::FunctionContext;
use millstream_types::{Diagnostic, code};
use std::collections::HashMap;
use std::sync::Arc;

/// The inputs of a program, complete.
#[derive(Debug)]
pub struct Prepared {
    /// One column for each input of the program.
    pub columns: Vec<ArrayRef>,
    /// For each vector column the rows in which it failed.
    failures: Vec<HashMap<usize, Diagnostic>>,
}

impl Prepared {
    /// Why vector column `vector` has no value in `row`.
    pub fn failure(&self, vector: usize, row: usize) -> Option<&Diagnostic> {
        self.failures.get(vector)?.get(&row)
    }
}

/// Evaluates the vector columns of `lowered` over `rows` rows of the pipeline's columns and appends them; `watermarks` as
/// for [`super::emit`].
pub fn prepare(
    lowered: &Lowered,
    mut columns: Vec<ArrayRef>,
    rows: usize,
    watermarks: &[i64],
    functions: &mut FunctionContext,
) -> Result<Prepared, Diagnostic> {
    let mut failures = Vec::with_capacity(lowered.vectors.len());
    let plain = columns.len();
    for vector in &lowered.vectors {
        let mut failed = HashMap::new();
        let arguments = arguments(vector, &columns[..plain], rows, watermarks, functions, &mut failed)?;
        let place = lowered.program.sites.get(vector.site as usize).and_then(|s| s.place());
        let values = evaluate(vector, &arguments, rows, &mut failed)?;
        let flags = BooleanArray::from((0..rows).map(|row| failed.contains_key(&row)).collect::<Vec<bool>>());
        if let Some(place) = place {
            for diagnostic in failed.values_mut() {
                diagnostic.place.get_or_insert_with(|| place.clone());
            }
        }
        columns.push(values);
        columns.push(Arc::new(flags));
        failures.push(failed);
    }
    Ok(Prepared { columns, failures })
}

/// The argument columns. A row whose arguments fail is noted in `failed` and has NULL arguments.
fn arguments(
    vector: &VectorColumn,
    columns: &[ArrayRef],
    rows: usize,
    watermarks: &[i64],
    functions: &mut FunctionContext,
    failed: &mut HashMap<usize, Diagnostic>,
) -> Result<Vec<ArrayRef>, Diagnostic> {
    let lowered = &vector.arguments;
    let kernel = Interpreter::new(Arc::new(lowered.program.clone()));
    let emitted = emit_keeping(lowered, &kernel, columns, rows, watermarks, functions, &mut |error| {
        failed.insert(error.row, error.diagnostic);
        Flow::Skip
    })?;
    if emitted.rows == rows {
        return Ok(emitted.columns);
    }
    let mut places: Vec<Option<u32>> = vec![None; rows];
    for (position, row) in emitted.selection.iter().enumerate() {
        places[*row as usize] = Some(position as u32);
    }
    let places = UInt32Array::from(places);
    emitted.columns.iter().map(|column| take(column, &places)).collect()
}

/// Calls the function for the whole buffer and, if that fails, for each row, to find the bad ones.
fn evaluate(
    vector: &VectorColumn,
    arguments: &[ArrayRef],
    rows: usize,
    failed: &mut HashMap<usize, Diagnostic>,
) -> Result<ArrayRef, Diagnostic> {
    let arrow_type = vector.data_type.to_arrow();
    let checked = |column: ArrayRef, rows: usize| {
        if column.len() == rows && *column.data_type() == arrow_type {
            return Ok(column);
        }
        let (name, given) = (vector.function.name(), column.data_type());
        Err(Diagnostic::bug(format!(
            "function {name} gave {} rows of {given} instead of {rows} rows of {arrow_type}",
            column.len()
        )))
    };
    if failed.is_empty()
        && let Ok(column) = vector.function.evaluate(arguments, rows)
    {
        return checked(column, rows);
    }
    let mut pieces: Vec<ArrayRef> = Vec::with_capacity(rows);
    for row in 0..rows {
        let bad = failed.contains_key(&row);
        let one: Vec<ArrayRef> = arguments.iter().map(|a| a.slice(row, 1)).collect();
        let piece = match if bad { None } else { Some(vector.function.evaluate(&one, 1)) } {
            Some(Ok(column)) => checked(column, 1)?,
            Some(Err(message)) => {
                let message = format!("{message} in {}", vector.function.name());
                failed.insert(row, Diagnostic::new(code::FUNCTION_FAILED, message));
                new_null_array(&arrow_type, 1)
            }
            None => new_null_array(&arrow_type, 1),
        };
        pieces.push(piece);
    }
    let pieces: Vec<&dyn arrow_array::Array> = pieces.iter().map(|p| &**p).collect();
    if pieces.is_empty() {
        return Ok(new_null_array(&arrow_type, 0));
    }
    concat(&pieces).map_err(|e| Diagnostic::bug(format!("rows of a function cannot be joined: {e}")))
}
