//! Evaluation of vector columns: calls of functions that work on a whole buffer, before the fused loop.

use super::{Flow, emit_keeping, take};
use crate::interpreter::Interpreter;
use crate::lower::{Lowered, OutputSource, VectorColumn};
use arrow_array::{ArrayRef, BooleanArray, UInt32Array, new_null_array};
use arrow_buffer::BooleanBuffer;
use arrow_select::concat::concat;
use millstream_functions::FunctionContext;
use millstream_types::{Diagnostic, code};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

/// The inputs of a program, complete.
#[derive(Debug)]
pub struct Prepared<'a> {
    /// One column for each input of the program.
    pub columns: Cow<'a, [ArrayRef]>,
    /// For each vector column the rows in which it failed.
    failures: Vec<HashMap<usize, Diagnostic>>,
}

impl Prepared<'_> {
    /// Whether any call has failed for any row.
    pub(super) fn has_failures(&self) -> bool {
        self.failures.iter().any(|failed| !failed.is_empty())
    }

    /// Why vector column `vector` has no value in `row`.
    pub fn failure(&self, vector: usize, row: usize) -> Option<&Diagnostic> {
        self.failures.get(vector)?.get(&row)
    }
}

/// Evaluates the vector columns of `lowered` over `rows` rows of the pipeline's columns and appends them; `watermarks` as
/// for [`super::emit`].
pub fn prepare<'a>(
    lowered: &Lowered,
    mut columns: Cow<'a, [ArrayRef]>,
    rows: usize,
    watermarks: &[i64],
    functions: &mut FunctionContext,
) -> Result<Prepared<'a>, Diagnostic> {
    let mut failures = Vec::with_capacity(lowered.vectors.len());
    let plain = columns.len();
    for vector in &lowered.vectors {
        let mut failed = HashMap::new();
        let arguments = arguments(vector, &columns[..plain], rows, watermarks, functions, &mut failed)?;
        let place = lowered.program.sites.get(vector.site as usize).and_then(|s| s.place());
        let values = evaluate(vector, &arguments, rows, functions.settings().run, &mut failed)?;
        let flags = match failed.is_empty() {
            true => BooleanArray::new(BooleanBuffer::new_unset(rows), None),
            false => BooleanArray::from((0..rows).map(|row| failed.contains_key(&row)).collect::<Vec<bool>>()),
        };
        if let Some(place) = place {
            for diagnostic in failed.values_mut() {
                diagnostic.place.get_or_insert_with(|| place.clone());
            }
        }
        columns.to_mut().push(values);
        columns.to_mut().push(Arc::new(flags));
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
    // Plain columns need no program.
    let plain = lowered.outputs.iter().map(|output| match output {
        OutputSource::Input(column) => columns.get(*column).cloned(),
        OutputSource::Emitted(_) => None,
    });
    if lowered.program.body.is_empty()
        && lowered.vectors.is_empty()
        && let Some(plain) = plain.collect::<Option<Vec<_>>>()
    {
        return Ok(plain);
    }
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
        places[row as usize] = Some(position as u32);
    }
    let places = UInt32Array::from(places);
    emitted.columns.iter().map(|column| take(column, &places)).collect()
}

/// Calls the function for the whole buffer and, if that fails, for halves of it, down to the bad rows.
fn evaluate(
    vector: &VectorColumn,
    arguments: &[ArrayRef],
    rows: usize,
    run: u64,
    failed: &mut HashMap<usize, Diagnostic>,
) -> Result<ArrayRef, Diagnostic> {
    let arrow_type = vector.data_type.to_arrow();
    if rows == 0 {
        return Ok(new_null_array(&arrow_type, 0));
    }
    let mut pieces: Vec<ArrayRef> = Vec::new();
    // Why more than one row at once failed first, and whether single ones did.
    let (mut together, mut is_alone) = (None, false);
    // Ranges that are to be evaluated, the next one last.
    let mut pending: Vec<_> = std::iter::once(0..rows).collect();
    while let Some(range) = pending.pop() {
        let middle = range.start + range.len() / 2;
        let halves = [middle..range.end, range.start..middle];
        if !failed.is_empty() && range.len() > 1 && range.clone().any(|row| failed.contains_key(&row)) {
            pending.extend(halves);
            continue;
        }
        if range.len() == 1 && failed.contains_key(&range.start) {
            pieces.push(new_null_array(&arrow_type, 1));
            continue;
        }
        let part: Vec<ArrayRef> = match range.len() == rows {
            true => arguments.to_vec(),
            false => arguments.iter().map(|a| a.slice(range.start, range.len())).collect(),
        };
        match vector.function.evaluate(&part, range.len(), run) {
            Ok(column) => pieces.push(checked(vector, column, range.len())?),
            Err(_) if vector.function.is_cancelled(run) => {
                return Err(Diagnostic::new(code::CANCELLED, "the query was cancelled"));
            }
            Err(message) if range.len() > 1 => {
                together.get_or_insert(message);
                pending.extend(halves);
            }
            Err(message) => {
                is_alone = true;
                let mut message = format!("{message} in {}", vector.function.name());
                if vector.function.registration() != 0 {
                    message += &format!(", row {} of a buffer", range.start);
                }
                failed.insert(range.start, Diagnostic::new(code::FUNCTION_FAILED, message));
                pieces.push(new_null_array(&arrow_type, 1));
            }
        }
    }
    let is_registered = vector.function.registration() != 0;
    if let (Some(message), false, true) = (together, is_alone, is_registered) {
        // No row is to blame: what the parts gave is not what the whole would have. The engine's own functions know what a row alone means.
        let failure = Diagnostic::new(code::FUNCTION_FAILED, format!("{message} in {}", vector.function.name()));
        for row in 0..rows {
            failed.entry(row).or_insert_with(|| failure.clone());
        }
        return Ok(new_null_array(&arrow_type, rows));
    }
    if let [whole] = pieces.as_slice() {
        return Ok(whole.clone());
    }
    let pieces: Vec<&dyn arrow_array::Array> = pieces.iter().map(|p| &**p).collect();
    concat(&pieces).map_err(|e| Diagnostic::bug(format!("rows of a function cannot be joined: {e}")))
}

/// What a function has given, if it is what was asked for.
fn checked(vector: &VectorColumn, column: ArrayRef, rows: usize) -> Result<ArrayRef, Diagnostic> {
    let arrow_type = vector.data_type.to_arrow();
    if column.len() == rows && *column.data_type() == arrow_type {
        return Ok(column);
    }
    let (name, given) = (vector.function.name(), column.data_type());
    Err(Diagnostic::bug(format!(
        "function {name} gave {} rows of {given} instead of {rows} rows of {arrow_type}",
        column.len()
    )))
}
