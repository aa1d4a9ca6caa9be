//! Upfront partitioning: the rows of an aggregation are exchanged by key before they meet a table (design section 7).
//!
//! ```text
//! task: buffer ─► stages ─► scatter ─► rows by partition ─┬─► lane 0  ─► fold ─► tables of lane 0
//!       (any worker)                                      ├─► …          (one worker at a time)
//!                                                         └─► lane 15 ─► fold ─► tables of lane 15
//! ```
//!
//! Whoever puts a piece into an idle lane schedules a turn of it, in which a worker folds all pieces that wait there. The
//! order of pieces makes no difference, because accumulators are commutative. The mutex of a lane orders its turns, so
//! its tables are used like those of one worker.
//!
//! A task is finished when its last piece has been folded, so a piece keeps the watermark after its epoch from being
//! released, and what `tables` says about rows and fired windows holds for it as for the task. It also keeps the chunk
//! in flight that its rows came from, which bounds what waits in lanes.

use crate::buffer::Generation;
use crate::columns::{Parts, sliced};
use crate::flow::Permit;
use crate::query::Query;
use crate::stream::StreamId;
use crate::tables::TaskTables;
use crate::task::{ProcessTask, Task};
use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use millstream_codegen::execute::{Emitted, Flow, update};
use millstream_functions::FunctionContext;
use millstream_state::{PARTITION_BITS, PARTITIONS};
use millstream_types::Diagnostic;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// The lanes of an aggregation: one for each partition.
pub(crate) struct Lanes {
    lanes: [Mutex<Lane>; PARTITIONS],
    /// The owner of the tables of the first lane.
    first_owner: usize,
}

#[derive(Default)]
struct Lane {
    waiting: Vec<Piece>,
    /// Whether a turn is scheduled or running.
    busy: bool,
}

/// Rows of a task for one lane.
struct Piece {
    columns: Vec<ArrayRef>,
    rows: usize,
    of: Arc<Scattered>,
}

/// A task whose rows are in lanes.
pub(crate) struct Scattered {
    stream: StreamId,
    channel: usize,
    epoch: u64,
    generation: Generation,
    watermark: i64,
    pipeline: usize,
    /// Pieces that have not been folded, and one until the task has made all of them. Whoever brings it to 0 finishes
    /// the task. Acquire-release: the updates of all pieces happen before that.
    left: AtomicUsize,
    _permit: Option<Arc<Permit>>,
}

/// A turn of a lane.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LaneTask {
    aggregation: usize,
    lane: usize,
    /// The watermark before the first rows that it was scheduled for.
    pub(crate) watermark: i64,
}

impl Lanes {
    /// Without rows, whose tables follow those of so many owners.
    pub(crate) fn new(first_owner: usize) -> Lanes {
        Lanes { lanes: Default::default(), first_owner }
    }
}

impl Scattered {
    /// A task of a pipeline that begins.
    pub(crate) fn new(task: &ProcessTask, pipeline: usize) -> Arc<Scattered> {
        Arc::new(Scattered {
            stream: task.stream,
            channel: task.channel,
            epoch: task.epoch,
            generation: task.buffer.stamp.generation,
            watermark: task.buffer.stamp.watermark,
            pipeline,
            left: AtomicUsize::new(1),
            _permit: task.buffer.permit.clone(),
        })
    }
}

impl Query {
    /// Puts rows that a task has made for an aggregation into their lanes. The last column is the hash of the key.
    pub(crate) fn scatter(&self, aggregation: usize, emitted: Emitted, of: &Arc<Scattered>) -> Result<(), Diagnostic> {
        let Some(Lanes { lanes, .. }) = &self.aggregations[aggregation].lanes else {
            return Err(Diagnostic::bug("rows were partitioned for an aggregation without lanes"));
        };
        let mut columns = emitted.columns;
        let hashes = columns.pop();
        let hashes = hashes.as_ref().and_then(|h| h.as_primitive_opt::<Int64Type>());
        let hashes = hashes.ok_or_else(|| Diagnostic::bug("partitioned rows have no hash"))?;
        let parts = Parts::new(hashes.values(), PARTITION_BITS);
        let columns: Vec<ArrayRef> = columns.iter().map(|c| parts.arranged(c)).collect::<Result<_, _>>()?;
        let mut tasks = Vec::new();
        for (lane, places) in parts.places() {
            let rows = places.len();
            of.left.fetch_add(1, Ordering::Relaxed);
            let piece = Piece { columns: sliced(&columns, places.start, rows), rows, of: Arc::clone(of) };
            let mut queue = lanes[lane].lock();
            queue.waiting.push(piece);
            if !std::mem::replace(&mut queue.busy, true) {
                tasks.push(Task::Fold(LaneTask { aggregation, lane, watermark: of.watermark }));
            }
        }
        self.scheduler.push(tasks);
        Ok(())
    }

    /// Folds the pieces that wait in a lane.
    pub(crate) fn fold(&self, task: LaneTask, functions: &mut FunctionContext) -> Result<(), Diagnostic> {
        let Some(Lanes { lanes, first_owner }) = &self.aggregations[task.aggregation].lanes else {
            return Err(Diagnostic::bug("there is no such lane"));
        };
        loop {
            let mut lane = lanes[task.lane].lock();
            let pieces = std::mem::take(&mut lane.waiting);
            lane.busy = !pieces.is_empty();
            drop(lane);
            if pieces.is_empty() {
                return Ok(());
            }
            for piece in pieces {
                self.fold_piece(task.aggregation, first_owner + task.lane, &piece, functions)?;
                self.folded(&piece.of)?;
            }
        }
    }

    fn fold_piece(
        &self,
        aggregation: usize,
        owner: usize,
        piece: &Piece,
        functions: &mut FunctionContext,
    ) -> Result<(), Diagnostic> {
        let started = Instant::now();
        let Scattered { stream, pipeline, generation, .. } = *piece.of;
        let Some(halves) = &self.pipelines[pipeline].partitioned else {
            return Err(Diagnostic::bug("rows were partitioned by a pipeline that cannot"));
        };
        let (runtime, code) = (&self.aggregations[aggregation], &halves.fold);
        let mut tables = TaskTables::new(runtime, owner, generation, self.origin(stream, pipeline));
        if self.timers.follow_clock() {
            tables.collect_dues();
        }
        // SAFETY: the layout is that of the program (`plan_graph` has checked it); the tables are this lane's, which is
        // busy with this turn alone.
        let hooks = unsafe { tables.hooks() };
        let mut failed = None;
        let mut fail = |error: millstream_codegen::execute::RowError| {
            failed = Some(error.diagnostic);
            Flow::Stop
        };
        let kernel = code.kernel();
        let (columns, watermarks) = (&piece.columns, [i64::MIN]);
        update(&code.lowered, &*kernel, columns, piece.rows, &watermarks, hooks, functions, &mut fail)?;
        runtime.strategy.note_task(piece.rows);
        tables.settle();
        tables.dues().iter().for_each(|&due| self.due_at_watermark(due));
        self.stats.pipelines[pipeline].task_time.record(started.elapsed());
        match (failed, tables.met_fired()) {
            (Some(error), _) => Err(error),
            (None, Some(table)) => Err(Diagnostic::bug(format!("a row came to table {table}, which had been fired"))),
            (None, None) => Ok(()),
        }
    }

    /// A piece of a task has been folded, or the task has made all pieces.
    pub(crate) fn folded(&self, of: &Scattered) -> Result<(), Diagnostic> {
        match of.left.fetch_sub(1, Ordering::AcqRel) {
            1 => self.finish_task(of.stream, of.channel, of.epoch),
            _ => Ok(()),
        }
    }
}
