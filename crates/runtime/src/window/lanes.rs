//! Upfront partitioning: the rows of an aggregation are exchanged by key before they meet a table (design section 7).
//!
//! ```text
//! task: buffer ─► stages ─► scatter ─► rows by lane ──────┬─► lane 0  ─► fold ─► tables of lane 0
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
//!
//! Lanes are no partitions of tables: there are always as many, however tables are cut when they are sealed. Each has its own tables of
//! every slice, and a task a piece for each, so hundreds would have a few rows in each; and one would have one worker fold all.

use crate::columns::{Parts, sliced};
use crate::executable_plan::PipelineCode;
use crate::ids::Generation;
use crate::pipeline::Arrived;
use crate::pipeline_stages::Origin;
use crate::schedule::flow::Permit;
use crate::station::BufferPlace;
use arrow_array::ArrayRef;
use millstream_types::Diagnostic;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bits of the hash of a key that choose its lane.
const LANE_BITS: u32 = 4;
/// Lanes of an aggregation.
pub(super) const LANES: usize = 1 << LANE_BITS;

/// The lanes of an aggregation.
pub(crate) struct KeyLanes {
    lanes: [Mutex<KeyLane>; LANES],
    /// The owner of the tables of the first lane.
    pub(super) first_owner: usize,
}

#[derive(Default)]
struct KeyLane {
    waiting: Vec<KeyPiece>,
    /// Whether a turn is scheduled or running.
    busy: bool,
}

/// Rows of a task for one lane.
pub(super) struct KeyPiece {
    pub(super) columns: Vec<ArrayRef>,
    pub(super) rows: usize,
    pub(super) of: Arc<Scattered>,
}

/// A task whose rows are in lanes.
pub(crate) struct Scattered {
    place: BufferPlace,
    pub(super) generation: Generation,
    pub(super) watermark: i64,
    pub(super) origin: Origin,
    /// The second half of the pipeline, and its position in the plan.
    pub(super) fold: PipelineCode,
    pub(super) pipeline: usize,
    /// Pieces that have not been folded, and one until the task has made all of them. Whoever brings it to 0 finishes
    /// the task. Acquire-release: the updates of all pieces happen before that.
    left: AtomicUsize,
    _permit: Option<Arc<Permit>>,
}

impl KeyLanes {
    /// Without rows, whose tables follow those of `first_owner` owners.
    pub(crate) fn new(first_owner: usize) -> KeyLanes {
        KeyLanes { lanes: Default::default(), first_owner }
    }

    /// Puts rows into their lanes, by the hashes of their keys; the lanes that need a turn.
    pub(super) fn put(
        &self,
        columns: &[ArrayRef],
        hashes: &[i64],
        of: &Arc<Scattered>,
    ) -> Result<Vec<usize>, Diagnostic> {
        let parts = Parts::new(hashes, LANE_BITS);
        let columns: Vec<ArrayRef> = columns.iter().map(|c| parts.arranged(c)).collect::<Result<_, _>>()?;
        let mut idle = Vec::new();
        for (lane, places) in parts.places() {
            let rows = places.len();
            of.left.fetch_add(1, Ordering::Relaxed);
            let piece = KeyPiece { columns: sliced(&columns, places.start, rows), rows, of: Arc::clone(of) };
            let mut queue = self.lanes[lane].lock();
            queue.waiting.push(piece);
            if !std::mem::replace(&mut queue.busy, true) {
                idle.push(lane);
            }
        }
        Ok(idle)
    }

    /// Takes the pieces out that wait in a lane; its turn ends when there are none.
    pub(super) fn take(&self, lane: usize) -> Vec<KeyPiece> {
        let mut lane = self.lanes[lane].lock();
        let pieces = std::mem::take(&mut lane.waiting);
        lane.busy = !pieces.is_empty();
        pieces
    }
}

impl Scattered {
    /// A task that begins, whose rows are folded by a program.
    pub(super) fn new(arrived: &Arrived<'_>, tables: Generation, fold: &PipelineCode) -> Arc<Scattered> {
        Arc::new(Scattered {
            place: arrived.place,
            generation: tables,
            watermark: arrived.buffer.stamp.watermark,
            origin: arrived.origin,
            fold: fold.clone(),
            pipeline: arrived.pipeline.number,
            left: AtomicUsize::new(1),
            _permit: arrived.buffer.permit.clone(),
        })
    }

    /// A piece of the task has been folded, or the task has made all pieces; the task's buffer, if that was all.
    pub(super) fn folded(&self) -> Option<BufferPlace> {
        (self.left.fetch_sub(1, Ordering::AcqRel) == 1).then_some(self.place)
    }
}
