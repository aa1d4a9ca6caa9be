//! Rows for other nodes that wait for others like them: of those that only matter while few rank before them ([`Leading`]) a node sends the
//! first of what it has had since its last mark ([`first_rows`]).
//!
//! A Top-N over the windows of an aggregation gets the rows of a window in many buffers, and a mark behind them; a Top-N of all rows puts out
//! what has changed at the end of a beat, so its rows need not go before that. What is left out has enough rows before it that go on the
//! same way, in the same generation, so nobody can tell that it is not there.
//!
//! Rows are put in merged order before they are compared, so equal ones have the places that they have in a buffer. All is sent before
//! the mark that covers it: whoever says a mark sends under the same lock. No more than a frame waits, or a small part of memory: when there is
//! so much, and little of it can be left out, it is sent.

use super::KeyedStation;
use super::batch::Batch;
use super::distributed::DistributedKeys;
use super::leading::{FIRST_ROWS, first_rows};
use crate::columns::{Parts, compact, partition_of};
use crate::exchange::{FRAME_BYTES, Mark};
use crate::ids::Generation;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array};
use arrow_buffer::ScalarBuffer;
use millstream_state::{Charge, MemoryBudget, MemoryClass};
use millstream_types::Diagnostic;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

/// What waits is at most this part of the budget.
const PART: u64 = 64;

/// See the module.
pub(super) struct HeldRows {
    /// Rows with the hashes of their keys as one more column, by input and generation.
    batches: BTreeMap<(usize, Generation), Vec<Batch>>,
    /// Bytes of these.
    charge: Charge,
}

impl HeldRows {
    /// None.
    pub(super) fn new(budget: &Arc<MemoryBudget>) -> HeldRows {
        HeldRows { batches: BTreeMap::new(), charge: Charge::new(budget, MemoryClass::Operators, 0) }
    }

    fn add(&mut self, of: (usize, Generation), batch: Batch) {
        let bytes = self.charge.bytes() + batch.bytes();
        self.charge.set(bytes);
        self.batches.entry(of).or_default().push(batch);
    }

    fn take(&mut self) -> BTreeMap<(usize, Generation), Vec<Batch>> {
        self.charge.set(0);
        std::mem::take(&mut self.batches)
    }

    /// Whether there are rows from before the cut that a mark is behind.
    fn are_before(&self, mark: Mark) -> bool {
        self.batches.keys().any(|(_, generation)| generation.0 < mark.release.generation)
    }
}

impl KeyedStation {
    /// Whether rows of an input may wait, of which a buffer has so many. Where many are of different keys, nearly all are among the first.
    /// Only where nothing comes of them before the next mark.
    pub(super) fn may_hold(&self, input: usize, rows: usize, are_left_out: bool) -> bool {
        let waits = self.behaviour.has_windows || self.behaviour.ends_beats;
        waits && self.plan.inputs[input].leading.is_some() && (are_left_out || rows < 2 * FIRST_ROWS)
    }

    /// Has the rows of other nodes wait; gives those of this one, with their hashes.
    pub(super) fn hold(
        &self,
        distributed: &DistributedKeys,
        of: (usize, Generation),
        batch: Batch,
        hashes: ScalarBuffer<i64>,
    ) -> Result<(Batch, ScalarBuffer<i64>), Diagnostic> {
        let owned = self.owned();
        let owns = |&row: &u32| owned.contains(&partition_of(hashes[row as usize] as u64, self.partition_bits));
        let (own, others): (Vec<u32>, Vec<u32>) = (0..hashes.len() as u32).partition(owns);
        if others.is_empty() {
            return Ok((batch, hashes));
        }
        let of_rows = |rows: &[u32]| rows.iter().map(|&row| hashes[row as usize]).collect::<ScalarBuffer<i64>>();
        let (own_hashes, other_hashes) = (of_rows(&own), of_rows(&others));
        let mut waiting = batch.pick(others)?;
        waiting.columns.iter_mut().for_each(|column| *column = compact(column));
        waiting.columns.push(Arc::new(Int64Array::new(other_hashes, None)) as ArrayRef);
        self.say_before_held(distributed);
        let mut held = distributed.held.lock();
        held.add(of, waiting);
        let most =
            usize::try_from(self.host.flow.budget.limit() / PART).map_or(FRAME_BYTES, |part| part.min(FRAME_BYTES));
        if held.charge.bytes() > most {
            for (of, batches) in held.take() {
                held.add(of, self.first_of(of.0, batches)?);
            }
            if held.charge.bytes() > most / 2 {
                self.send_held(distributed, &mut held)?;
            }
        }
        drop(held);
        Ok((batch.pick(own)?, own_hashes))
    }

    /// Says the mark that waits before the first row does: later it would be behind some rows of a window, and part them from the others.
    fn say_before_held(&self, distributed: &DistributedKeys) {
        let mut inputs = distributed.inputs.lock();
        if distributed.held.lock().batches.is_empty()
            && let Some(mark) = inputs.linger.take(Instant::now())
        {
            distributed.links.say(mark, &self.progress);
        }
    }

    /// Sends what has to go before a mark, which the caller says next, before anybody else says one.
    pub(super) fn send_held_before(&self, distributed: &DistributedKeys, mark: Mark) -> Result<(), Diagnostic> {
        let mut held = distributed.held.lock();
        // What has changed is put out at a cut or at the end.
        let waits = self.behaviour.ends_beats && !mark.release.ended && !held.are_before(mark);
        if waits { Ok(()) } else { self.send_held(distributed, &mut held) }
    }

    /// Sends all, under its lock: a mark that another thread says waits for it.
    fn send_held(&self, distributed: &DistributedKeys, held: &mut HeldRows) -> Result<(), Diagnostic> {
        for (of, batches) in held.take() {
            let mut batch = self.first_of(of.0, batches)?;
            let hashes = hashes_of(&batch)?;
            batch.columns.pop();
            let parts = batch.split(&Parts::new(&hashes, self.partition_bits), true)?;
            let own = distributed.send(of, parts, self.partitions.len())?;
            debug_assert!(own.is_empty(), "only rows of other nodes wait");
        }
        Ok(())
    }

    /// Those of several buffers that may matter, in merged order.
    fn first_of(&self, input: usize, batches: Vec<Batch>) -> Result<Batch, Diagnostic> {
        let (batch, input) = (Batch::merge(batches)?, &self.plan.inputs[input]);
        let Some(leading) = &input.leading else { return Ok(batch) };
        match first_rows(leading, input, self.plan.timeline, &batch, &hashes_of(&batch)?)? {
            Some(rows) => batch.pick(rows),
            None => Ok(batch),
        }
    }
}

/// The hashes of the keys of rows that wait.
fn hashes_of(batch: &Batch) -> Result<ScalarBuffer<i64>, Diagnostic> {
    let hashes = batch.columns.last().and_then(|column| column.as_primitive_opt::<Int64Type>());
    hashes.map(|hashes| hashes.values().clone()).ok_or_else(|| Diagnostic::bug("rows that wait have no hashes"))
}
