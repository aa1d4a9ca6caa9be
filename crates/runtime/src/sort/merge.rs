//! Merging runs: always the least of their first rows, by a heap of runs.

use super::block::Block;
use super::run::Run;
use crate::columns::{compact, sliced, unselectable};
use crate::keyed::batch::Batch;
use arrow_array::{Array, ArrayRef};
use arrow_select::interleave::interleave;
use millstream_plan::pipeline::Sort;
use millstream_state::Charge;
use millstream_types::Diagnostic;
use std::sync::Arc;

/// See the module.
pub(super) struct Merge {
    plan: Arc<Sort>,
    /// Runs that have rows, a heap: that with the least row is the first.
    heap: Vec<Cursor>,
    /// Bytes of what the runs hold.
    charge: Charge,
}

/// A run and where it has been read to.
struct Cursor {
    block: Arc<Block>,
    row: usize,
    rest: Run,
    /// Bytes of block and rest.
    bytes: usize,
    /// The block's number among those of the piece that is made, once a row of it is in there.
    source: Option<usize>,
}

impl Cursor {
    fn open(mut rest: Run, plan: &Sort) -> Result<Option<Cursor>, Diagnostic> {
        let resting = rest.bytes();
        while let Some(batch) = rest.next(&plan.schema)? {
            if batch.rows() == 0 {
                continue;
            }
            // Of rows in memory those of the block are counted once.
            let block = Block::new(batch, &plan.order)?;
            let bytes = block.bytes().max(resting);
            return Ok(Some(Cursor { block: Arc::new(block), row: 0, rest, bytes, source: None }));
        }
        Ok(None)
    }

    fn is_before(&self, other: &Cursor) -> bool {
        self.block.compare(self.row, &other.block, other.row).is_lt()
    }
}

impl Merge {
    /// Of runs that `charge` is of.
    pub(super) fn new(plan: &Arc<Sort>, runs: Vec<Run>, charge: Charge) -> Result<Merge, Diagnostic> {
        let cursors = runs.into_iter().map(|run| Cursor::open(run, plan));
        let heap = cursors.filter_map(Result::transpose).collect::<Result<Vec<Cursor>, _>>()?;
        let mut merge = Merge { plan: Arc::clone(plan), heap, charge };
        (0..merge.heap.len() / 2).rev().for_each(|place| merge.sink(place));
        merge.recount();
        Ok(merge)
    }

    /// At most the next `rows` rows; `None` behind the last.
    pub(super) fn next(&mut self, rows: usize) -> Result<Option<Batch>, Diagnostic> {
        let (mut sources, mut places): (Vec<Arc<Block>>, _) = (Vec::new(), Vec::new());
        let mut ordinals = Vec::new();
        let mut has_moved = false;
        while places.len() < rows {
            let Some(first) = self.heap.first_mut() else { break };
            let source = *first.source.get_or_insert_with(|| {
                sources.push(Arc::clone(&first.block));
                sources.len() - 1
            });
            places.push((source, first.row));
            ordinals.push(first.block.batch.ordinals[first.row]);
            first.row += 1;
            if first.row == first.block.batch.rows() {
                has_moved = true;
                let last = self.heap.swap_remove(0);
                if let Some(next) = Cursor::open(last.rest, &self.plan)? {
                    self.heap.push(next);
                    let end = self.heap.len() - 1;
                    self.heap.swap(0, end);
                }
            }
            self.sink(0);
        }
        self.heap.iter_mut().for_each(|cursor| cursor.source = None);
        if has_moved {
            self.recount();
        }
        if places.is_empty() {
            return Ok(None);
        }
        Ok(Some(Batch::new(gathered(&sources, &places)?, ordinals)))
    }

    fn recount(&mut self) {
        self.charge.set(self.heap.iter().map(|cursor| cursor.bytes).sum());
    }

    /// Puts the cursor at a place where it belongs among those below it.
    fn sink(&mut self, mut place: usize) {
        loop {
            let (left, right) = (2 * place + 1, 2 * place + 2);
            let Some(least) = self.heap.get(left) else { return };
            let least = match self.heap.get(right) {
                Some(other) if other.is_before(least) => right,
                _ => left,
            };
            if !self.heap[least].is_before(&self.heap[place]) {
                return;
            }
            self.heap.swap(place, least);
            place = least;
        }
    }
}

/// The columns of rows of blocks.
fn gathered(sources: &[Arc<Block>], places: &[(usize, usize)]) -> Result<Vec<ArrayRef>, Diagnostic> {
    if let ([only], Some(&(_, first))) = (sources, places.first()) {
        // Rows of one block are taken one after the other.
        return Ok(sliced(&only.batch.columns, first, places.len()));
    }
    let width = sources.first().map_or(0, |block| block.batch.columns.len());
    let column = |i: usize| {
        let arrays: Vec<&dyn Array> = sources.iter().map(|block| &*block.batch.columns[i]).collect();
        interleave(&arrays, places).map(|column| compact(&column)).map_err(unselectable)
    };
    (0..width).map(column).collect()
}
