//! Running a kernel over Arrow columns: the safe entry for the runtime, the engine and tests.
//!
//! [`emit`] runs programs that emit rows, [`update`] those that update tables, [`assign_groups`] those that number the
//! keys of rows. All evaluate the vector columns first, turn a failed row into a [`Diagnostic`] with its place in the
//! query, ask what to do about it, and continue after it.

mod context;
mod cure;
mod passed;
#[cfg(test)]
mod tests;
mod vectors;

use crate::buffers::OutputBuffers;
use crate::kernel::Kernel;
use crate::lower::{Lowered, OutputSource};
use crate::program::Terminal;
use arrow_array::{Array, ArrayRef, UInt32Array};
use context::Run;
pub use context::{FIRST_STEP, STEP_BYTES, makes_values};
use millstream_abi::{Accumulator, EntryLayout, FindSlice, InsertKey, KeepString, UpdateObject, Zone};
use millstream_functions::FunctionContext;
use millstream_types::Diagnostic;
use std::ffi::c_void;
pub use vectors::{Prepared, prepare};

/// A row that could not be processed.
#[derive(Debug, Clone, PartialEq)]
pub struct RowError {
    /// Its number in the buffer.
    pub row: usize,
    /// What is wrong with it.
    pub diagnostic: Diagnostic,
}

/// What to do about a bad row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Leave it out and continue with the next.
    Skip,
    /// Leave out it and all rows after it.
    Stop,
}

/// Who is asked about every bad row, in order.
pub type OnError<'a> = &'a mut dyn FnMut(RowError) -> Flow;

/// The rows that a program emitted.
#[derive(Debug, Clone)]
pub struct Emitted {
    /// One column for each of `Lowered::outputs`, of the Arrow types of `Lowered::output_types`.
    pub columns: Vec<ArrayRef>,
    /// Rows of each column.
    pub rows: usize,
    /// Which rows of the input they are.
    pub selection: RowNumbers,
    /// Rows dropped because they were late.
    pub late_rows: u64,
    /// Bytes of strings and of results of vectorised functions, about.
    pub made_bytes: usize,
    /// Whether `on_error` asked to stop.
    pub stopped: bool,
}

/// Rows of an input, ascending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowNumbers {
    /// All, and how many these are.
    All(usize),
    /// These.
    Some(Vec<u32>),
}

impl RowNumbers {
    /// Their numbers.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let (all, some): (usize, &[u32]) = match self {
            RowNumbers::All(rows) => (*rows, &[]),
            RowNumbers::Some(rows) => (0, rows),
        };
        (0..all as u32).chain(some.iter().copied())
    }

    /// Their numbers, in a list.
    pub fn into_vec(self) -> Vec<u32> {
        match self {
            RowNumbers::All(rows) => (0..rows as u32).collect(),
            RowNumbers::Some(rows) => rows,
        }
    }
}

/// What an update of tables has done, besides updating them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpdateOutcome {
    /// Rows dropped because their window was complete.
    pub late_rows: u64,
    /// Whether `on_error` asked to stop.
    pub stopped: bool,
}

/// How a program reaches the tables that it updates: the callbacks of [`ExecContext`](millstream_abi::ExecContext) and the pointer that they find
/// their owner by.
#[derive(Debug, Clone, Copy)]
pub struct TableHooks {
    find_slice: FindSlice,
    insert_key: InsertKey,
    keep_string: KeepString,
    update_object: UpdateObject,
    host: *mut c_void,
}

impl TableHooks {
    /// Bundles the callbacks; `host` becomes `ExecContext::host`.
    ///
    /// # Safety
    /// For every [`update`] that the hooks are used in: the callbacks do what their types' docs say, on tables of the
    /// entry layout of the program, and `host` is what they expect and not used by anything else meanwhile.
    pub unsafe fn new(
        find_slice: FindSlice,
        insert_key: InsertKey,
        keep_string: KeepString,
        update_object: UpdateObject,
        host: *mut c_void,
    ) -> TableHooks {
        TableHooks { find_slice, insert_key, keep_string, update_object, host }
    }
}

/// Runs a program that emits rows over `rows` rows of `columns`: the columns of the pipeline's buffers, in order,
/// without vector columns. `kernel` must have been made from `lowered.program`. `watermarks` holds, in milliseconds, the
/// watermark before each row, or one that holds for all of them (`i64::MIN`: there is none).
///
/// `on_error` is asked for every bad row, in order. Strings in the arena of `functions` are forgotten at the end.
/// Fails as a whole, with nothing emitted, when the columns do not fit the program.
pub fn emit(
    lowered: &Lowered,
    kernel: &dyn Kernel,
    columns: &[ArrayRef],
    rows: usize,
    watermarks: &[i64],
    functions: &mut FunctionContext,
    on_error: OnError<'_>,
) -> Result<Emitted, Diagnostic> {
    let mut emitted = emit_keeping(lowered, kernel, columns, rows, watermarks, functions, on_error);
    if let Ok(emitted) = &mut emitted {
        emitted.made_bytes += functions.bytes();
    }
    functions.reset();
    emitted
}

/// [`emit`] without forgetting the strings of `functions`, for use within another run.
fn emit_keeping(
    lowered: &Lowered,
    kernel: &dyn Kernel,
    columns: &[ArrayRef],
    rows: usize,
    watermarks: &[i64],
    functions: &mut FunctionContext,
    on_error: OnError<'_>,
) -> Result<Emitted, Diagnostic> {
    let Terminal::Emit(emits) = &lowered.program.terminal else {
        return Err(Diagnostic::bug("a program that updates a table was asked to emit rows"));
    };
    let prepared = prepare(lowered, columns.into(), rows, watermarks, functions)?;
    let made_bytes = prepared.columns[columns.len()..].iter().map(|column| column.get_array_memory_size()).sum();
    if emits.is_empty() && lowered.only_checks_vectors() && !prepared.has_failures() {
        let column = |source: &OutputSource| match source {
            OutputSource::Input(i) => Ok(prepared.columns[*i].clone()),
            OutputSource::Emitted(_) => Err(Diagnostic::bug("a column is emitted by no statement")),
        };
        let columns = lowered.outputs.iter().map(column).collect::<Result<_, _>>()?;
        let selection = RowNumbers::All(rows);
        return Ok(Emitted { columns, rows, selection, late_rows: 0, made_bytes, stopped: false });
    }
    let mut outputs = OutputBuffers::new(&lowered.program, emits, rows);
    let mut run = Run::new(lowered, &prepared, rows, watermarks, functions)?;
    run.write_to(&mut outputs);
    let mut bad = Vec::new();
    let mut note = |error: RowError| {
        bad.push(error.row as u32);
        on_error(error)
    };
    let (stopped, mut passed) = run.execute_and_pass(kernel, &mut note);
    let (emitted_rows, late_rows) = (run.context.out_rows as usize, run.context.late_rows);
    drop(run);
    let mut types: Vec<_> = vec![None; emits.len()];
    for (source, data_type) in lowered.outputs.iter().zip(&lowered.output_types) {
        if let OutputSource::Emitted(i) = source {
            types[*i] = Some(data_type);
        }
    }
    // SAFETY: the kernel has written as many rows as it has counted, with strings in the arena of `functions` or in `prepared`.
    let (selection, computed) = unsafe { outputs.into_arrays(&types, emitted_rows) };
    // Where none is dropped, all but the bad ones were emitted, up to where the run was stopped.
    let all_but_bad = || (0..rows as u32).filter(|row| bad.binary_search(row).is_err()).take(emitted_rows).collect();
    let selection = match selection {
        Some(selection) => UInt32Array::from(selection),
        None if emitted_rows == rows => UInt32Array::from(Vec::<u32>::new()),
        None => all_but_bad(),
    };
    let mut result = Vec::with_capacity(lowered.outputs.len());
    for (output, source) in lowered.outputs.iter().enumerate() {
        result.push(match *source {
            OutputSource::Emitted(i) => {
                computed[i].clone().ok_or_else(|| Diagnostic::bug("an emitted column has no type"))?
            }
            OutputSource::Input(i) if emitted_rows == rows => prepared.columns[i].clone(),
            OutputSource::Input(i) => passed.take(output, &prepared.columns[i], &selection)?,
        });
    }
    let selection =
        if emitted_rows == rows { RowNumbers::All(rows) } else { RowNumbers::Some(selection.into_parts().1.into()) };
    Ok(Emitted { columns: result, rows: emitted_rows, selection, late_rows, made_bytes, stopped })
}

/// What is known of a column of I64 values: their bounds in each [`ZONE_ROWS`](millstream_abi::ZONE_ROWS) rows.
#[derive(Debug, Clone, Copy)]
pub struct ColumnZones<'a> {
    /// Its number among the columns that a program is run over.
    pub column: usize,
    /// One for each zone, the last of which may be shorter. NULLs count as any values.
    pub zones: &'a [Zone],
}

/// Runs a program that updates tables over `rows` rows of `columns`, as in [`emit`]. With `zones` of its event time it looks at the
/// times of blocks only.
#[expect(clippy::too_many_arguments, reason = "each is another thing that a run needs; callers keep them apart")]
pub fn update(
    lowered: &Lowered,
    kernel: &dyn Kernel,
    (columns, zones): (&[ArrayRef], Option<ColumnZones<'_>>),
    rows: usize,
    watermarks: &[i64],
    hooks: TableHooks,
    functions: &mut FunctionContext,
    on_error: OnError<'_>,
) -> Result<UpdateOutcome, Diagnostic> {
    let layout = lowered.layout().ok_or_else(updates_nothing)?;
    if reports_groups(layout) {
        return Err(Diagnostic::bug("a program that assigns groups was run without a place for them"));
    }
    let prepared = prepare(lowered, columns.into(), rows, watermarks, functions)?;
    let mut run = Run::new(lowered, &prepared, rows, watermarks, functions)?;
    zones.map_or(Ok(()), |zones| run.set_zones(zones))?;
    run.with_tables(hooks);
    let stopped = run.execute_in_steps(kernel, on_error);
    let late_rows = run.context.late_rows;
    drop(run);
    functions.reset();
    Ok(UpdateOutcome { late_rows, stopped })
}

/// Runs a program of `lower_keys` over `rows` rows of `columns`, as in [`update`]; gives the group of each row's key: the
/// number that `insert_key` of the hooks gave to its entry. Fails at the first bad row.
pub fn assign_groups(
    lowered: &Lowered,
    kernel: &dyn Kernel,
    columns: &[ArrayRef],
    rows: usize,
    hooks: TableHooks,
    functions: &mut FunctionContext,
) -> Result<Vec<u64>, Diagnostic> {
    let layout = lowered.layout().ok_or_else(updates_nothing)?;
    if !reports_groups(layout) || !lowered.program.is_total() {
        return Err(Diagnostic::bug("a program that does not give every row a group was asked for groups"));
    }
    let watermarks = [i64::MIN];
    let prepared = prepare(lowered, columns.into(), rows, &watermarks, functions)?;
    let mut groups = vec![0; rows];
    let mut run = Run::new(lowered, &prepared, rows, &watermarks, functions)?;
    run.with_tables(hooks);
    run.report_groups(&mut groups);
    let mut failed = None;
    run.execute(kernel, &mut |error| {
        failed = Some(error.diagnostic);
        Flow::Stop
    });
    drop(run);
    functions.reset();
    failed.map_or(Ok(groups), Err)
}

fn updates_nothing() -> Diagnostic {
    Diagnostic::bug("a program that emits rows was asked to update a table")
}

fn reports_groups(layout: &EntryLayout) -> bool {
    layout.accumulators.iter().any(|(accumulator, _)| *accumulator == Accumulator::Group)
}

/// `column` at the rows `indices`.
fn take(column: &dyn Array, indices: &UInt32Array) -> Result<ArrayRef, Diagnostic> {
    arrow_select::take::take(column, indices, None)
        .map_err(|e| Diagnostic::bug(format!("rows of a column cannot be selected: {e}")))
}
