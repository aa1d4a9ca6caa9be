//! Rows on their way through the stages of a pipeline, within one task.
//!
//! A pipeline with flat maps has several programs. The task runs the first over its buffer, makes the rows of the flat
//! map from what it emits, runs the next one over those, and so on; the last program is run by whoever knows what the end
//! of the pipeline is. Rows flow depth first in slices of a buffer's size, so that a row that becomes a million needs the
//! memory of one slice for each stage, and they arrive in the order of the rows that they were made of.
//!
//! The watermark before a row and its place in the stream follow it through the stages: what is late, and the order in
//! which order-sensitive operators see rows, are decided at the end.

use crate::buffer::{Buffer, Piece};
use crate::columns::{selected, sliced};
use crate::flat_map;
use crate::input::PipelineCode;
use crate::query::Query;
use crate::row_errors::RowErrors;
use arrow_array::{ArrayRef, UInt32Array};
use millstream_codegen::execute::{Emitted, emit};
use millstream_functions::FunctionContext;
use millstream_plan::pipeline::{FlatMap, Operator};
use millstream_types::Diagnostic;
use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering::Relaxed;

/// Bits of a position that number the rows made of one row.
const PLACE_BITS: u32 = 24;

/// Rows before a stage.
#[derive(Debug, Clone)]
pub(crate) struct Staged<'a> {
    /// Columns before the stage.
    pub(crate) columns: Vec<ArrayRef>,
    /// Rows of each column.
    pub(crate) rows: usize,
    /// The watermark before each row, or one for all.
    pub(crate) watermarks: Cow<'a, [i64]>,
    /// For each row the number of the piece's row that it was made of, ascending; `None`: they are those of the piece.
    origins: Option<Vec<u32>>,
    /// Number of the piece's first row in its stream.
    first_row: u64,
    /// Places among the rows made of the same row; set before the last stage.
    places: Vec<u32>,
}

impl<'a> Staged<'a> {
    /// The rows of a piece of a buffer.
    pub(crate) fn new(buffer: &Buffer, Piece { first, rows, watermarks }: Piece<'a>) -> Staged<'a> {
        let columns = match rows == buffer.rows {
            true => buffer.columns.clone(),
            false => buffer.columns.iter().map(|column| column.slice(first, rows)).collect(),
        };
        let first_row = buffer.stamp.first_row + first as u64;
        Staged { columns, rows, watermarks, origins: None, first_row, places: Vec::new() }
    }

    /// Rows made of these: `columns`, and for each row the number of the one that it was made of, ascending.
    pub(crate) fn made(&self, columns: Vec<ArrayRef>, of: &[u32]) -> Staged<'a> {
        let watermarks = match self.watermarks.len() {
            1 => self.watermarks.clone(),
            _ => of.iter().map(|&row| self.watermarks[row as usize]).collect(),
        };
        let origins = match &self.origins {
            None => of.to_vec(),
            Some(origins) => of.iter().map(|&row| origins[row as usize]).collect(),
        };
        let (rows, first_row) = (of.len(), self.first_row);
        Staged { columns, rows, watermarks, origins: Some(origins), first_row, places: Vec::new() }
    }

    /// Some of the rows. Numbers of rows, by which they know their origin, stay.
    fn slice(&self, first: usize, rows: usize) -> Staged<'a> {
        let cut = |all: &[i64]| if all.len() == 1 { all.to_vec() } else { all[first..first + rows].to_vec() };
        let origins = match &self.origins {
            Some(origins) => origins[first..first + rows].to_vec(),
            None => (first as u32..(first + rows) as u32).collect(),
        };
        let places = if self.places.is_empty() { Vec::new() } else { self.places[first..first + rows].to_vec() };
        Staged {
            columns: sliced(&self.columns, first, rows),
            rows,
            watermarks: Cow::Owned(cut(&self.watermarks)),
            origins: Some(origins),
            first_row: self.first_row,
            places,
        }
    }

    /// The rows `of` of the first `columns` columns.
    pub(crate) fn take(&self, columns: usize, of: &UInt32Array) -> Result<Vec<ArrayRef>, Diagnostic> {
        self.columns[..columns].iter().map(|column| selected(column, of)).collect()
    }

    /// Place of a row in its stream, for rows that have come to the last stage. It depends neither on the size of buffers
    /// nor on who processes them, and it grows from row to row of a stream, also among the rows made of one.
    pub(crate) fn position(&self, row: usize) -> u64 {
        let origin = self.origins.as_ref().map_or(row as u64, |o| o[row].into());
        let place = self.places.get(row).copied().unwrap_or(0).min((1 << PLACE_BITS) - 1);
        (self.first_row + origin) << PLACE_BITS | u64::from(place)
    }
}

/// What programs are run with: the functions of a worker, and the bad rows of a task.
pub(crate) struct Tools<'a> {
    /// See there.
    pub(crate) functions: &'a mut FunctionContext,
    /// See there.
    pub(crate) errors: RowErrors<'a>,
}

/// Takes rows; says whether more are wanted.
pub(crate) type Arrive<'f, 'a> = dyn FnMut(&mut Tools<'_>, Staged<'a>) -> Result<ControlFlow<()>, Diagnostic> + 'f;

/// One run of a pipeline's stages.
pub(crate) struct Stages<'q> {
    query: &'q Query,
    pipeline: usize,
    flat_maps: Vec<&'q FlatMap>,
    /// Origin of the row that arrived last, and how many rows of it have.
    last: (u32, u32),
}

impl<'q> Stages<'q> {
    /// For a piece of a buffer of a pipeline.
    pub(crate) fn new(query: &'q Query, pipeline: usize) -> Stages<'q> {
        let flat_map = |operator: &'q Operator| match operator {
            Operator::FlatMap(flat_map) => Some(flat_map),
            Operator::Filter(_) | Operator::Project(_) => None,
        };
        let flat_maps = query.plan.pipelines[pipeline].operators.iter().filter_map(flat_map).collect();
        Stages { query, pipeline, flat_maps, last: (0, 0) }
    }

    /// Whether results depend on the exact watermark before a row, besides the windows that it belongs to.
    pub(crate) fn reads_watermarks(&self) -> bool {
        self.query.reads_watermark[self.pipeline]
    }

    /// The program of the last stage.
    pub(crate) fn last_stage(&self) -> &'q PipelineCode {
        &self.query.pipelines[self.pipeline].stages[self.flat_maps.len()]
    }

    /// Runs all stages but the last; `arrive` gets the rows before that, in slices, in order.
    pub(crate) fn run<'a>(
        &mut self,
        rows: Staged<'a>,
        tools: &mut Tools<'_>,
        arrive: &mut Arrive<'_, 'a>,
    ) -> Result<(), Diagnostic> {
        self.stage(0, rows, tools, arrive).map(|_| ())
    }

    fn stage<'a>(
        &mut self,
        index: usize,
        rows: Staged<'a>,
        tools: &mut Tools<'_>,
        arrive: &mut Arrive<'_, 'a>,
    ) -> Result<ControlFlow<()>, Diagnostic> {
        let Some(&flat_map) = self.flat_maps.get(index) else {
            let mut rows = rows;
            self.number(&mut rows);
            return arrive(tools, rows);
        };
        let query = self.query;
        let code = &query.pipelines[self.pipeline];
        emit_stage(query, &code.stages[index], rows, tools, &mut |tools, rows, emitted| {
            if emitted.rows == 0 {
                return Ok(ControlFlow::Continue(()));
            }
            let rows = match emitted.rows == rows.rows {
                true => Staged { columns: emitted.columns, ..rows },
                false => rows.made(emitted.columns, &emitted.selection),
            };
            let expansion = flat_map::Expansion { query, flat_map, code: &code.flat_maps[index], rows: &rows };
            expansion.run(tools, &mut |tools, made| self.stage(index + 1, made, tools, arrive))
        })
    }

    /// Numbers rows of the same origin.
    fn number(&mut self, rows: &mut Staged<'_>) {
        let Some(origins) = &rows.origins else { return };
        rows.places.reserve(rows.rows);
        for &origin in origins {
            self.last = match self.last {
                (last, count) if last == origin => (last, count.saturating_add(1)),
                _ => (origin, 1),
            };
            rows.places.push(self.last.1 - 1);
        }
    }
}

/// Takes what a program has emitted of some rows; says whether more are wanted.
type Take<'f, 'a> = dyn FnMut(&mut Tools<'_>, Staged<'a>, Emitted) -> Result<ControlFlow<()>, Diagnostic> + 'f;

/// Runs a program that emits rows; `take` gets them in slices, for of few rows it may make much (see [`crate::widths`]). Counts late
/// rows. Fails when a bad row does.
pub(crate) fn emit_stage<'a>(
    query: &Query,
    code: &PipelineCode,
    rows: Staged<'a>,
    tools: &mut Tools<'_>,
    take: &mut Take<'_, 'a>,
) -> Result<ControlFlow<()>, Diagnostic> {
    let mut first = 0;
    while first < rows.rows {
        let count = code.widths.most_rows().min(rows.rows - first);
        if count == rows.rows {
            let emitted = emit_once(query, code, &rows, tools)?;
            return take(tools, rows, emitted);
        }
        let slice = rows.slice(first, count);
        let emitted = emit_once(query, code, &slice, tools)?;
        if let ControlFlow::Break(()) = take(tools, slice, emitted)? {
            return Ok(ControlFlow::Break(()));
        }
        first += count;
    }
    Ok(ControlFlow::Continue(()))
}

/// Runs a program that emits rows over all rows at once.
pub(crate) fn emit_once(
    query: &Query,
    code: &PipelineCode,
    rows: &Staged<'_>,
    tools: &mut Tools<'_>,
) -> Result<Emitted, Diagnostic> {
    let Tools { functions, errors } = tools;
    let emitted = code.run(rows, |kernel| {
        emit(&code.lowered, kernel, &rows.columns, rows.rows, &rows.watermarks, functions, &mut |e| errors.take(e))
    })?;
    code.widths.note(rows.rows, emitted.made_bytes);
    query.stats.late_rows.fetch_add(emitted.late_rows, Relaxed);
    errors.fatal().map_or(Ok(emitted), Err)
}
