//! Pipelines at run time: what takes the rows of a buffer through the stages before the last.

use crate::buffer::{Buffer, Piece};
use crate::executable_plan::{PipelineCode, StagedCode};
use crate::flat_map;
use crate::host::Host;
use crate::ids::Port;
use crate::lookup::table::LookupTable;
use crate::pipeline_stages::{Arrive, Origin, Staged, Tools, Wanted, emit_stage};
use crate::station::BufferPlace;
use millstream_codegen::execute::Emitted;
use millstream_codegen::lower::OutputSource;
use millstream_functions::FunctionContext;
use millstream_plan::pipeline::FlatMap;
use millstream_types::{DataType, Diagnostic};
use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A pipeline of a run.
pub(crate) struct Pipeline {
    /// Its position in the plan.
    pub(crate) number: usize,
    pub(crate) code: StagedCode,
    /// Its flat maps, with the tables that those probe which are lookups.
    pub(crate) flat_maps: Vec<(FlatMap, Option<Arc<LookupTable>>)>,
    /// Whether results depend on the exact watermark before a row, besides the windows that it belongs to.
    pub(crate) reads_watermark: bool,
    /// Whether anybody asks for the places of rows before the last stage.
    pub(crate) numbers_rows: bool,
    /// Its place among those with the same end.
    pub(crate) place: u16,
    /// Which input of a keyed operator it brings rows for; 0 elsewhere.
    pub(crate) input: usize,
}

/// A buffer that a pipeline brings to a station.
pub(crate) struct Arrived<'a> {
    pub(crate) pipeline: &'a Pipeline,
    pub(crate) buffer: &'a Arc<Buffer>,
    pub(crate) place: BufferPlace,
    /// Of the station.
    pub(crate) port: Port,
    /// Where its rows come from.
    pub(crate) origin: Origin,
    /// Whether the stream is the output of a station.
    pub(crate) is_derived: bool,
}

impl Arrived<'_> {
    /// Whether strings that come out of the pipeline are in buffers of tables in memory: those that go in are, and it makes none.
    pub(crate) fn are_of_table(&self) -> bool {
        let columns = self.buffer.columns.len();
        let is_passed_on = |(source, data_type): (&OutputSource, &DataType)| match *source {
            OutputSource::Input(input) => input < columns,
            OutputSource::Emitted(_) => !data_type.is_string() && !data_type.is_binary(),
        };
        let makes_none = || {
            let lowered = &self.pipeline.last_stage().lowered;
            lowered.outputs.iter().zip(&lowered.output_types).all(is_passed_on)
        };
        self.buffer.are_of_table && self.pipeline.flat_maps.is_empty() && makes_none()
    }

    /// Runs a pipeline whose last program emits rows; `take` gets them in slices and says whether more are wanted.
    pub(crate) fn emit(
        &self,
        host: &Host,
        context: &mut WorkerContext,
        take: &mut dyn FnMut(&Staged<'_>, Emitted) -> Wanted,
    ) -> Result<(), Diagnostic> {
        let Arrived { pipeline, buffer, .. } = self;
        let piece = match pipeline.reads_watermark {
            true => buffer.whole(),
            false => Piece { first: 0, rows: buffer.rows, watermarks: Cow::Owned(vec![buffer.stamp.watermark]) },
        };
        let mut rows_out = 0;
        let mut tools = Tools::new(host, &mut context.functions);
        pipeline.run(host, Staged::new(buffer, piece), &mut tools, &mut |tools, rows| {
            emit_stage(pipeline.last_stage(), rows, tools, &mut |_, rows, emitted| {
                rows_out += emitted.rows as u64;
                match emitted.rows {
                    0 => Ok(ControlFlow::Continue(())),
                    _ => take(&rows, emitted),
                }
            })
        })?;
        host.stats.pipelines[pipeline.number].rows_out.fetch_add(rows_out, Relaxed);
        Ok(())
    }
}

/// What belongs to a worker.
pub(crate) struct WorkerContext {
    /// Its number.
    pub(crate) index: usize,
    /// Its NUMA node.
    pub(crate) node: usize,
    pub(crate) functions: FunctionContext,
}

impl Pipeline {
    /// The program of the last stage.
    pub(crate) fn last_stage(&self) -> &PipelineCode {
        &self.code.stages[self.flat_maps.len()]
    }

    /// Runs all stages but the last over rows; `arrive` gets the rows before that, in slices, in order.
    pub(crate) fn run<'a>(
        &self,
        host: &Host,
        rows: Staged<'a>,
        tools: &mut Tools<'_>,
        arrive: &mut Arrive<'_, 'a>,
    ) -> Result<(), Diagnostic> {
        let mut last = (0, 0);
        let mut number = |tools: &mut Tools<'_>, mut rows: Staged<'a>| {
            if self.numbers_rows {
                rows.number(&mut last);
            }
            arrive(tools, rows)
        };
        self.stage(host, 0, rows, tools, &mut number).map(|_| ())
    }

    fn stage<'a>(
        &self,
        host: &Host,
        index: usize,
        rows: Staged<'a>,
        tools: &mut Tools<'_>,
        arrive: &mut Arrive<'_, 'a>,
    ) -> Wanted {
        let Some((flat_map, table)) = self.flat_maps.get(index) else { return arrive(tools, rows) };
        emit_stage(&self.code.stages[index], rows, tools, &mut |tools, rows, emitted| {
            if emitted.rows == 0 {
                return Ok(ControlFlow::Continue(()));
            }
            let rows = rows.emitted(emitted.columns, &emitted.selection);
            let (code, most) = (&self.code.flat_maps[index], host.config.rows_per_buffer());
            let expansion = flat_map::Expansion { flat_map, table: table.as_deref(), code, most, rows: &rows };
            expansion.run(tools, &mut |tools, made| self.stage(host, index + 1, made, tools, arrive))
        })
    }
}
