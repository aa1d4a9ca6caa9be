//! Rows that are exchanged by key: a task scatters them over the lanes, and turns of the lanes fold them into tables.

use super::lanes::{KeyLanes, KeyPiece, Scattered};
use super::task_tables::TaskTables;
use super::{WindowJob, WindowStation};
use crate::executable_plan::PartitionedCode;
use crate::pipeline::{Arrived, WorkerContext};
use crate::pipeline_stages::{Staged, Tools, emit_stage};
use crate::station::{Consequences, Job};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use millstream_codegen::execute::{Flow, RowError, update};
use millstream_functions::FunctionContext;
use millstream_types::Diagnostic;
use std::ops::ControlFlow;
use std::time::Instant;

impl WindowStation {
    fn lanes(&self) -> Result<&KeyLanes, Diagnostic> {
        let lanes = self.of_rows().lanes.as_ref();
        lanes.ok_or_else(|| Diagnostic::bug("rows were partitioned for an aggregation without lanes"))
    }

    /// Rows into lanes. The last column that the program emits is the hash of the key.
    pub(super) fn scatter(
        &self,
        arrived: &Arrived<'_>,
        halves: &PartitionedCode,
        context: &mut WorkerContext,
    ) -> Result<Consequences, Diagnostic> {
        let (lanes, scattered) = (
            self.lanes()?,
            Scattered::new(arrived, self.host.tables.of(arrived.buffer.stamp.generation), &halves.fold),
        );
        let Arrived { pipeline, buffer, .. } = arrived;
        let mut consequences = Consequences::default();
        for piece in self.of_rows().pieces(buffer, pipeline.reads_watermark) {
            let mut tools = Tools::new(&self.host, &mut context.functions);
            pipeline.run(&self.host, Staged::new(buffer, piece), &mut tools, &mut |tools, rows| {
                emit_stage(&halves.scatter, rows, tools, &mut |_, _, emitted| {
                    let mut columns = emitted.columns;
                    let hashes = columns.pop();
                    let hashes = hashes.as_ref().and_then(|h| h.as_primitive_opt::<Int64Type>());
                    let hashes = hashes.ok_or_else(|| Diagnostic::bug("partitioned rows have no hash"))?;
                    for lane in lanes.put(&columns, hashes.values(), &scattered)? {
                        consequences.tasks.push(self.task(scattered.watermark, WindowJob::Fold(lane)));
                    }
                    Ok(ControlFlow::Continue(()))
                })
            })?;
        }
        consequences.finished.extend(scattered.folded());
        Ok(consequences)
    }

    /// Folds the pieces that wait in a lane, and looks again.
    pub(super) fn fold(&self, lane: usize, functions: &mut FunctionContext) -> Result<Consequences, Diagnostic> {
        let (lanes, mut consequences) = (self.lanes()?, Consequences::default());
        let pieces = lanes.take(lane);
        consequences.then = (!pieces.is_empty()).then(|| Job::new(WindowJob::Fold(lane)));
        for piece in pieces {
            consequences.awaited.extend(self.fold_piece(lanes.first_owner + lane, &piece, functions)?);
            consequences.finished.extend(piece.of.folded());
        }
        Ok(consequences)
    }

    /// Folds rows into the tables of an owner; the watermarks that complete these, if someone wants to know.
    fn fold_piece(
        &self,
        owner: usize,
        piece: &KeyPiece,
        functions: &mut FunctionContext,
    ) -> Result<Vec<i64>, Diagnostic> {
        let started = Instant::now();
        let Scattered { fold, generation, origin, pipeline, .. } = &*piece.of;
        let mut tables = TaskTables::new(self.of_rows(), owner, (*generation, *origin), self.host.follows_clock);
        // SAFETY: the layout is that of the program (`build` has checked it); the tables are this lane's, which is
        // busy with this turn alone.
        let hooks = unsafe { tables.hooks() };
        let mut failed = None;
        let mut fail = |error: RowError| {
            failed = Some(error.diagnostic);
            Flow::Stop
        };
        let kernel = fold.kernel();
        let (columns, watermarks) = (&piece.columns, [i64::MIN]);
        update(&fold.lowered, &*kernel, (columns, None), piece.rows, &watermarks, hooks, functions, &mut fail)?;
        self.of_rows().strategy.note_task(piece.rows);
        let awaited = tables.end();
        self.host.stats.pipelines[*pipeline].task_time.record(started.elapsed());
        failed.map_or(awaited, Err)
    }
}
