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
use crate::executable_plan::PipelineCode;
use crate::host::Host;
use crate::ids::StreamNumber;
use crate::row_errors::RowErrors;
use crate::source::event_time::TimeZones;
use crate::stats::QueryStats;
use arrow_array::{ArrayRef, UInt32Array};
use millstream_codegen::execute::{ColumnZones, Emitted, RowNumbers, emit};
use millstream_functions::FunctionContext;
use millstream_state::Ordinal;
use millstream_types::Diagnostic;
use std::borrow::Cow;
use std::ops::ControlFlow;

/// Bits of a position that number the rows made of one row. The other 40 are the number of that row: enough for 35
/// years of a thousand rows a second in a split.
const PLACE_BITS: u32 = 24;

/// Where rows come from, in their places ([`Ordinal`]): the same after a restart, whatever files are new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The stream.
    pub(crate) stream: StreamNumber,
    /// The pipeline's place among those with the same end.
    pub(crate) pipeline: u16,
}

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
    /// What is known of the event times, while the columns are those of the buffer.
    zones: Option<TimeZones>,
}

impl<'a> Staged<'a> {
    /// The rows of a piece of a buffer.
    pub(crate) fn new(buffer: &Buffer, Piece { first, rows, watermarks }: Piece<'a>) -> Staged<'a> {
        let columns = sliced(&buffer.columns, first, rows);
        let first_row = buffer.stamp.first_row + first as u64;
        let zones = buffer.zones(first);
        Staged { columns, rows, watermarks, origins: None, first_row, places: Vec::new(), zones }
    }

    /// Bounds of the event times, if they are known.
    pub(crate) fn zones(&self) -> Option<ColumnZones<'_>> {
        self.zones.as_ref().map(TimeZones::of_column)
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
        Staged { columns, rows, watermarks, origins: Some(origins), first_row, places: Vec::new(), zones: None }
    }

    /// The rows `of`: their first `kept` columns, and others.
    pub(crate) fn extended(
        &self,
        kept: usize,
        of: RowNumbers,
        appended: Vec<ArrayRef>,
    ) -> Result<Staged<'a>, Diagnostic> {
        match of {
            RowNumbers::All(_) => {
                let columns = [&self.columns[..kept], &appended].concat();
                Ok(Staged { columns, places: Vec::new(), zones: None, ..self.clone() })
            }
            RowNumbers::Some(of) => {
                let of = UInt32Array::from(of);
                let columns = [self.take(kept, &of)?, appended].concat();
                Ok(self.made(columns, of.values()))
            }
        }
    }

    /// What a program has made of the rows that it has selected of these: all of them, perhaps.
    pub(crate) fn emitted(self, columns: Vec<ArrayRef>, of: &RowNumbers) -> Staged<'a> {
        match of {
            RowNumbers::All(_) => Staged { columns, zones: None, ..self },
            RowNumbers::Some(of) => self.made(columns, of),
        }
    }

    /// Some of the rows. Numbers of rows, by which they know their origin, stay.
    pub(crate) fn slice(&self, first: usize, rows: usize) -> Staged<'a> {
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
            zones: None,
        }
    }

    /// The rows `of` of the first `columns` columns.
    pub(crate) fn take(&self, columns: usize, of: &UInt32Array) -> Result<Vec<ArrayRef>, Diagnostic> {
        self.columns[..columns].iter().map(|column| selected(column, of)).collect()
    }

    /// Numbers rows of the same origin, before the last stage; `last` is the origin of the row before these, and how many rows of
    /// it have come.
    pub(crate) fn number(&mut self, last: &mut (u32, u32)) {
        let Some(origins) = &self.origins else { return };
        self.places.reserve(self.rows);
        for &origin in origins {
            *last = if last.0 == origin { (origin, last.1.saturating_add(1)) } else { (origin, 1) };
            self.places.push(last.1 - 1);
        }
    }

    /// Place of a row in the input, for rows that have come to the last stage. It depends neither on the size of buffers
    /// nor on who processes them, and it grows from row to row of a stream, also among the rows made of one.
    pub(crate) fn ordinal(&self, row: usize, Origin { stream, pipeline }: Origin) -> Ordinal {
        let watermark = self.watermarks[if self.watermarks.len() == 1 { 0 } else { row }];
        let origin = self.origins.as_ref().map_or(row as u64, |o| o[row].into());
        let place = self.places.get(row).copied().unwrap_or(0).min((1 << PLACE_BITS) - 1);
        let position = (self.first_row + origin) << PLACE_BITS | u64::from(place);
        let StreamNumber { input, split } = stream;
        Ordinal { watermark, input, split, position, pipeline }
    }
}

/// What programs are run with: the functions of a worker, and the bad rows of a task.
pub(crate) struct Tools<'a> {
    /// See there.
    pub(crate) functions: &'a mut FunctionContext,
    /// See there.
    pub(crate) errors: RowErrors<'a>,
    /// Counters.
    pub(crate) stats: &'a QueryStats,
}

impl<'a> Tools<'a> {
    /// Of a worker, for one task.
    pub(crate) fn new(host: &'a Host, functions: &'a mut FunctionContext) -> Tools<'a> {
        Tools { functions, errors: host.row_errors(), stats: &host.stats }
    }
}

/// Whether more rows are wanted.
pub(crate) type Wanted = Result<ControlFlow<()>, Diagnostic>;

/// Takes rows; says whether more are wanted.
pub(crate) type Arrive<'f, 'a> = dyn FnMut(&mut Tools<'_>, Staged<'a>) -> Wanted + 'f;

/// Takes what a program has emitted of some rows; says whether more are wanted.
type Take<'f, 'a> = dyn FnMut(&mut Tools<'_>, Staged<'a>, Emitted) -> Wanted + 'f;

/// Runs a program that emits rows; `take` gets them in slices, for of few rows it may make much (see [`crate::widths`]). Counts late
/// rows. Fails when a bad row does.
pub(crate) fn emit_stage<'a>(
    code: &PipelineCode,
    rows: Staged<'a>,
    tools: &mut Tools<'_>,
    take: &mut Take<'_, 'a>,
) -> Wanted {
    let mut first = 0;
    while first < rows.rows {
        let count = code.widths.most_rows().min(rows.rows - first);
        if count == rows.rows {
            let emitted = emit_once(code, &rows, tools)?;
            return take(tools, rows, emitted);
        }
        let slice = rows.slice(first, count);
        let emitted = emit_once(code, &slice, tools)?;
        if let ControlFlow::Break(()) = take(tools, slice, emitted)? {
            return Ok(ControlFlow::Break(()));
        }
        first += count;
    }
    Ok(ControlFlow::Continue(()))
}

/// Runs a program that emits rows over all rows at once.
pub(crate) fn emit_once(code: &PipelineCode, rows: &Staged<'_>, tools: &mut Tools<'_>) -> Result<Emitted, Diagnostic> {
    let Tools { functions, errors, stats } = tools;
    let emitted = code.run(&rows.columns, rows.rows, |kernel| {
        emit(&code.lowered, kernel, &rows.columns, rows.rows, &rows.watermarks, functions, &mut |e| errors.take(e))
    })?;
    code.widths.note(rows.rows, emitted.made_bytes);
    stats.note_late(emitted.late_rows, || code.lowered.program.name.clone());
    errors.fatal().map_or(Ok(emitted), Err)
}
