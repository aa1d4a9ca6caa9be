//! One run of a kernel: its execution context, its bad rows, and how they are told.

use super::cure::cure;
use super::passed::{PassedColumns, STEP_ROWS};
use super::vectors::Prepared;
use super::{ColumnZones, Flow, OnError, RowError, TableHooks};
use crate::buffers::{InputColumns, OutputBuffers};
use crate::kernel::Kernel;
use crate::lower::Lowered;
use crate::program::{Call, Site, Statement};
use millstream_abi::{ErrorKind, ExecContext, OutputColumn, Phys, StatusKind, ZONE_ROWS};
use millstream_functions::FunctionContext;
use millstream_types::{Code, Diagnostic, Place, code};
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr;

/// Rows after which strings are measured for the first time.
pub const FIRST_STEP: u64 = 16;
/// Rows after which strings are forgotten at the latest.
const MOST_ROWS: u64 = 16 << 10;
/// Bytes of strings, about, that are made at once.
pub const STEP_BYTES: u64 = 4 << 20;

/// Whether a program makes values of any length: strings, and what vectorised functions compute.
pub fn makes_values(lowered: &Lowered) -> bool {
    !lowered.vectors.is_empty() || makes_strings(&lowered.program.body)
}

/// Whether statements call functions that make strings. Asked for each buffer, so it allocates nothing.
fn makes_strings(statements: &[Statement]) -> bool {
    statements.iter().any(|statement| match statement {
        Statement::Call(Call { function, .. }) => function.result() == Phys::Str,
        Statement::If { then, otherwise, .. } => makes_strings(then) || makes_strings(otherwise),
        _ => false,
    })
}

/// A run over the rows of one buffer. Owns or borrows everything that its context points to.
pub(super) struct Run<'a> {
    lowered: &'a Lowered,
    prepared: &'a Prepared<'a>,
    rows: usize,
    /// Backs `context.columns`.
    inputs: InputColumns,
    /// Backs `context.outputs`.
    outputs: Vec<OutputColumn>,
    pub(super) context: ExecContext,
    functions: PhantomData<&'a mut FunctionContext>,
}

impl<'a> Run<'a> {
    /// Checks that the columns and the watermarks fit the program.
    pub(super) fn new(
        lowered: &'a Lowered,
        prepared: &'a Prepared<'a>,
        rows: usize,
        watermarks: &'a [i64],
        functions: &'a mut FunctionContext,
    ) -> Result<Run<'a>, Diagnostic> {
        if watermarks.len() != 1 && watermarks.len() != rows {
            return Err(Diagnostic::bug("there is neither one watermark for the buffer nor one for each row"));
        }
        let inputs = InputColumns::new(&lowered.program.inputs, &prepared.columns, rows)?;
        let context = ExecContext {
            columns: inputs.as_ptr(),
            outputs: ptr::null(),
            out_selection: ptr::null_mut(),
            out_rows: 0,
            watermarks: watermarks.as_ptr(),
            watermark_stride: (watermarks.len() > 1) as u64,
            late_rows: 0,
            slice_start: 0,
            table: ptr::null_mut(),
            find_slice: None,
            insert_key: None,
            keep_string: None,
            update_object: None,
            groups: ptr::null_mut(),
            functions: (&raw mut *functions).cast(),
            host: ptr::null_mut(),
            error_kind: 0,
            error_site: 0,
        };
        Ok(Run { lowered, prepared, rows, inputs, outputs: Vec::new(), context, functions: PhantomData })
    }

    /// Tells the program the bounds of a column.
    pub(super) fn set_zones(&mut self, ColumnZones { column, zones }: ColumnZones<'a>) -> Result<(), Diagnostic> {
        let is_theirs = self.lowered.program.inputs.get(column).is_some_and(|input| input.phys == Phys::I64);
        if !is_theirs || zones.len() < self.rows.div_ceil(ZONE_ROWS) {
            return Err(Diagnostic::bug("the bounds of a column are not those of its rows"));
        }
        self.inputs.set_zones(column, zones);
        Ok(())
    }

    /// Sends emitted rows to `outputs`.
    pub(super) fn write_to(&mut self, outputs: &'a mut OutputBuffers) {
        self.outputs = outputs.columns();
        self.context.outputs = self.outputs.as_ptr();
        self.context.out_selection = outputs.selection_ptr();
    }

    /// Sends updates to the tables behind `hooks`.
    pub(super) fn with_tables(&mut self, hooks: TableHooks) {
        self.context.find_slice = Some(hooks.find_slice);
        self.context.insert_key = Some(hooks.insert_key);
        self.context.keep_string = Some(hooks.keep_string);
        self.context.update_object = Some(hooks.update_object);
        self.context.host = hooks.host;
    }

    /// Has the group of each row written to `groups`, one element a row.
    pub(super) fn report_groups(&mut self, groups: &'a mut [u64]) {
        debug_assert_eq!(groups.len(), self.rows, "one group a row");
        self.context.groups = groups.as_mut_ptr();
    }

    /// Runs over all rows, past the bad ones; whether `on_error` asked to stop.
    pub(super) fn execute(&mut self, kernel: &dyn Kernel, on_error: OnError<'_>) -> bool {
        self.execute_range(0..self.rows as u64, kernel, on_error)
    }

    /// The same for a program that emits rows; gives the columns that pass it, too.
    pub(super) fn execute_and_pass(&mut self, kernel: &dyn Kernel, on_error: OnError<'_>) -> (bool, PassedColumns) {
        let mut passed = PassedColumns::new(self.lowered, &self.inputs, self.rows);
        if !passed.are_copied() {
            return (self.execute(kernel, on_error), passed);
        }
        let (mut start, rows) = (0, self.rows as u64);
        let mut stopped = false;
        while start < rows && !stopped {
            let (end, before) = (rows.min(start + STEP_ROWS), self.context.out_rows as usize);
            stopped = self.execute_range(start..end, kernel, on_error);
            let written = self.context.out_rows as usize - before;
            // SAFETY: the kernel has written the numbers of as many of its rows as it has counted, and `inputs` is alive.
            unsafe {
                let emitted = std::slice::from_raw_parts(self.context.out_selection.add(before), written);
                passed.append(emitted, end as usize);
            }
            start = end;
        }
        (stopped, passed)
    }

    /// [`Run::execute`] for a program that keeps no string of its functions: after some rows they are forgotten, so that a buffer of rows
    /// with long strings does not need the memory of all of them.
    pub(super) fn execute_in_steps(&mut self, kernel: &dyn Kernel, on_error: OnError<'_>) -> bool {
        if !makes_strings(&self.lowered.program.body) {
            return self.execute(kernel, on_error);
        }
        let (mut start, mut step, rows) = (0, FIRST_STEP, self.rows as u64);
        while start < rows {
            let end = rows.min(start + step);
            if self.execute_range(start..end, kernel, on_error) {
                return true;
            }
            // SAFETY: the pointer was made from the mutable borrow that this run holds, and no kernel is running.
            let functions = unsafe { &mut *self.context.functions.cast::<FunctionContext>() };
            let fitting = STEP_BYTES * (end - start) / (functions.bytes() as u64).max(1);
            functions.reset();
            step = fitting.clamp(1, step.saturating_mul(8)).min(MOST_ROWS);
            start = end;
        }
        false
    }

    /// Runs over some of the rows.
    fn execute_range(&mut self, rows: Range<u64>, kernel: &dyn Kernel, on_error: OnError<'_>) -> bool {
        let mut start = rows.start;
        while start < rows.end {
            // SAFETY: `InputColumns::new` has checked the columns against the program's inputs; the output buffers
            // were made for the program's emitted columns and all rows; `new` has checked the watermarks, `TableHooks::new`
            // has the promise about tables, and programs that report groups are only run by `assign_groups`, which
            // gives them a place for each row; the function context is borrowed by this run.
            let status = unsafe { kernel.run(&mut self.context, start, rows.end) };
            match status.kind() {
                StatusKind::Done => return false,
                StatusKind::Error { row } => {
                    let diagnostic = self.diagnose(row as usize);
                    if on_error(RowError { row: row as usize, diagnostic }) == Flow::Stop {
                        return true;
                    }
                    start = row + 1;
                }
            }
        }
        false
    }

    /// What is wrong with the row that the kernel has just failed at.
    fn diagnose(&mut self, row: usize) -> Diagnostic {
        // SAFETY: the pointer was made from the mutable borrow that this run holds, and no kernel is running.
        let functions = unsafe { &mut *self.context.functions.cast::<FunctionContext>() };
        let failure = functions.take_failure();
        let site = self.lowered.program.sites.get(self.context.error_site as usize);
        let what = site.map_or("an expression", |s| s.what.as_str());
        let simple = |code: Code, message: String| Diagnostic::new(code, message);
        let diagnostic = match ErrorKind::from_u32(self.context.error_kind) {
            Some(ErrorKind::DivisionByZero) => simple(code::DIVISION_BY_ZERO, format!("division by zero in {what}")),
            Some(ErrorKind::Overflow) => simple(code::OVERFLOW, format!("number out of range in {what}")),
            Some(ErrorKind::NullRowtime) => simple(code::NULL_ROWTIME, format!("event time {what} is NULL")),
            Some(ErrorKind::NullInNotNull) => {
                simple(code::NULL_IN_NOT_NULL, format!("NULL for {what}, which is NOT NULL"))
            }
            Some(ErrorKind::FunctionFailed) => match failure {
                Some(failure) => simple(failure.code, format!("{} in {what}", failure.message)),
                None => simple(code::FUNCTION_FAILED, format!("{what} failed")),
            },
            Some(ErrorKind::FallbackFailed) => {
                let vector = self.lowered.vectors.iter().position(|v| v.site == self.context.error_site);
                match vector.and_then(|v| self.prepared.failure(v, row)) {
                    Some(diagnostic) => diagnostic.clone(),
                    None => simple(code::FUNCTION_FAILED, format!("{what} failed")),
                }
            }
            None => Diagnostic::bug(format!("a kernel failed with the unknown kind {}", self.context.error_kind)),
        };
        let diagnostic = match cure(diagnostic.code, what, &diagnostic.message) {
            Some(advice) if diagnostic.advice.is_none() => diagnostic.advise(advice),
            _ => diagnostic,
        };
        match site.and_then(Site::place) {
            Some(place) => diagnostic.at(place),
            None => diagnostic,
        }
    }
}

impl Site {
    /// The place for a diagnostic, if it is known.
    pub fn place(&self) -> Option<Place> {
        (self.line > 0).then(|| Place::Sql {
            line: self.line.into(),
            column: self.column.into(),
            length: self.length.max(1).into(),
        })
    }
}
