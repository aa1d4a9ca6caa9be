//! Windows with tables in files: merged block by block, by tasks that stop while what they have output is not consumed.
//!
//! Each range of partitions of a window is a [`StoredMerge`]: the blocks of its tables that are being merged. Its rows are
//! delivered as parts of its unit (`sequencer::Unit::continues`). A few merges of an aggregation are under way at a time, in
//! the order of their units, so what they hold in memory is bounded however many windows are complete: their blocks, and the
//! output that has not been consumed. A merge that has output enough is *parked*: the supervisor resumes it when that
//! output is gone. No worker waits.
//!
//! # Why nobody waits forever
//!
//! The merge of the lowest unit may always run, whatever others are under way: it may be begun although the places are taken.
//! Its parked output waits for nothing but workers and sinks, for all units before it are complete. So it ends; then another
//! is the lowest.

use super::firing::Firing;
use super::tables::OpenTables;
use super::tables::frozen::StoredBlocks;
use super::{WindowJob, WindowStation};
use crate::buffer::Rows;
use crate::durable::blobs::damaged;
use crate::station::{Consequences, Job, Task, Unconsumed, Until};
use crate::stream::sequencer::Unit;
use millstream_plan::pipeline::ShorterWindows;
use millstream_state::{BlockMerge, MergeFault, Merged, Partial};
use millstream_storage::Damaged;
use millstream_types::{Diagnostic, code, memory_text};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// Most merges of an aggregation that are under way at a time; with fewer workers, one for each.
const MERGES: usize = 4;

/// The entries of one group may take 1/`GROUP_SHARE` of the budget: their columns and what a sink makes of them are as
/// large again.
const GROUP_SHARE: u64 = 3;
/// Blocks of each table that a merge may have in memory, whatever they are of the budget.
const BLOCKS_OF_EACH: usize = 4;
/// Bytes of a block of a checkpoint, about.
const CHECKPOINT_BLOCK: usize = 1 << 20;
/// Windows in memory with values of variable length are merged by blocks when they take more than 1/`HEAVY_SHARE` of
/// the budget.
const HEAVY_SHARE: u64 = 16;

/// The merges of an aggregation.
#[derive(Default)]
pub(super) struct MergeQueue {
    /// By unit.
    waiting: BTreeMap<u64, Box<StoredMerge>>,
    /// Units of those that are under way.
    running: BTreeSet<u64>,
}

/// A range of partitions of a window. See the module.
pub(crate) struct StoredMerge {
    firing: Arc<Firing>,
    group: usize,
    /// Partitions that are not begun.
    partitions: Range<usize>,
    /// What is left of the one that is being merged.
    current: Option<BlockMerge<BlockSource>>,
}

type BlockSource = Box<dyn Iterator<Item = Result<Partial, BlockError>> + Send>;

/// Why a block cannot be merged.
struct BlockError(Diagnostic);

impl From<Damaged> for BlockError {
    fn from(what: Damaged) -> BlockError {
        BlockError(damaged(what))
    }
}

impl From<MergeFault> for BlockError {
    fn from(fault: MergeFault) -> BlockError {
        match fault {
            MergeFault::Damaged(what) => BlockError::from(what),
            MergeFault::TooLarge(bytes) => BlockError(group_too_large(bytes)),
        }
    }
}

/// The error for a group whose values do not fit.
fn group_too_large(bytes: usize) -> Diagnostic {
    let message = format!(
        "the values that an aggregate collects of one group in one window take {} and more, over a third of the memory budget",
        memory_text(bytes as u64)
    );
    Diagnostic::new(code::OUT_OF_MEMORY, message).advise(
        "raise --memory (SET 'pipeline.memory'), group by more columns, shorten the window, or collect less: \
         APPROX_COUNT_DISTINCT instead of COUNT(DISTINCT …), LISTAGG over fewer rows",
    )
}

impl StoredMerge {
    fn unit(&self) -> u64 {
        self.firing.unit(self.group)
    }

    /// Merges the next few rows; `None` at the end.
    fn piece(
        &mut self,
        (tables, shorter): (&Arc<OpenTables>, Option<&ShorterWindows>),
        block_bytes: usize,
    ) -> Result<Option<Merged>, Diagnostic> {
        loop {
            if let Some(piece) = self.current.as_mut().and_then(Iterator::next) {
                return piece.map(Some).map_err(|BlockError(diagnostic)| diagnostic);
            }
            let Some(partition) = self.partitions.find(|&partition| self.firing.has_some_of(partition)) else {
                return Ok(None);
            };
            let only = partition..partition + 1;
            let mut sources: Vec<BlockSource> = Vec::new();
            // What a merge may hold whatever it is of the budget.
            let mut blocks = 0;
            for partial in self.firing.counted_tables(shorter, &only) {
                blocks += block_bytes;
                sources.push(in_memory(partial, partition, tables, block_bytes));
            }
            for (table, is_masked) in self.firing.stored_tables() {
                blocks += if table.is_of_checkpoint() { CHECKPOINT_BLOCK } else { block_bytes };
                let blocks = StoredBlocks::new(table, partition, tables);
                let mask = shorter.filter(|_| is_masked).map(|shorter| shorter.components.clone());
                sources.push(Box::new(blocks.map(move |block| {
                    let block = block.map_err(BlockError)?;
                    Ok(match &mask {
                        Some(components) => block.into_masked(components),
                        None => block,
                    })
                })));
            }
            let share = usize::try_from(tables.budget.limit() / GROUP_SHARE).unwrap_or(usize::MAX);
            let most = share.max(blocks.saturating_mul(BLOCKS_OF_EACH));
            self.current = Some(BlockMerge::new(&tables.layout, most, sources));
        }
    }
}

/// The entries of a partition of a table in memory: copies of blocks, made when they are needed.
fn in_memory(partial: Arc<Partial>, partition: usize, tables: &Arc<OpenTables>, block_bytes: usize) -> BlockSource {
    let (tables, mut at) = (Arc::clone(tables), 0);
    Box::new(std::iter::from_fn(move || {
        let (block, next) = partial.block_at(partition, at, block_bytes)?;
        at = next;
        Some(Partial::restore(&tables.layout, &tables.types, &tables.budget, &[block]).map_err(BlockError::from))
    }))
}

impl WindowStation {
    /// Whether a window is merged block by block: a window of one slice, some of whose tables are in files, or whose rows would take
    /// much memory.
    pub(super) fn is_merged_by_blocks(&self, firing: &Firing) -> bool {
        self.host.spilling.is_eager() || !firing.stored.lock().is_empty() || self.is_heavy(firing)
    }

    fn is_heavy(&self, firing: &Firing) -> bool {
        let most = self.host.flow.budget.limit() / HEAVY_SHARE;
        let partials: Vec<Arc<Partial>> = firing.sealed_tables().into_iter().map(|(partial, _)| partial).collect();
        self.host.spilling.may_spill()
            && partials.iter().any(|partial| partial.has_variable_parts())
            && partials.iter().map(|partial| partial.bytes() as u64).sum::<u64>() > most
    }

    /// The tasks that merge a window whose tables are sealed, if it is merged by blocks, in `groups` ranges of
    /// partitions.
    pub(super) fn merges_of(&self, firing: &Arc<Firing>, groups: usize) -> Vec<Task> {
        let mut queue = self.merges.lock();
        for group in 0..groups {
            let (firing, partitions) = (Arc::clone(firing), firing.partitions(group));
            let merge = StoredMerge { firing, group, partitions, current: None };
            queue.waiting.insert(merge.unit(), Box::new(merge));
        }
        self.next_merges(&mut queue)
    }

    /// The merges that begin now.
    fn next_merges(&self, queue: &mut MergeQueue) -> Vec<Task> {
        let workers = self.host.config.workers;
        std::iter::from_fn(|| queue.begin(workers)).map(|merge| self.merge_task(merge)).collect()
    }

    fn merge_task(&self, merge: Box<StoredMerge>) -> Task {
        self.task(merge.firing.end(), WindowJob::MergeStored(merge, Unconsumed::default()))
    }

    /// Continues a merge, unless enough of what it has put out is not consumed.
    pub(super) fn merge_stored(
        &self,
        mut merge: Box<StoredMerge>,
        mut output: Unconsumed,
    ) -> Result<Consequences, Diagnostic> {
        let (windows, mut consequences) = (&self.windows, Consequences::default());
        if output.bytes() > self.host.spilling.most_unconsumed() {
            return Ok(Consequences::parked(self.merge_task(merge), Until::Consumed(output)));
        }
        let (unit, before, place) =
            (merge.unit(), self.before(&merge.firing), Some(merge.firing.partitions(merge.group).start));
        let mut deliver = |rows: Vec<Rows>, continues| {
            consequences.deliver(self.output.id, unit, Unit { rows, before, place, continues, ..Unit::default() });
        };
        if let Some(merged) = merge.piece((&windows.tables, windows.shorter()), self.host.spilling.block_bytes())? {
            for rows in self.rows_of_window(&merge.firing, &merged, 0) {
                deliver(vec![self.host.held(rows, &mut output)], true);
            }
            consequences.then = Some(Job::new(WindowJob::MergeStored(merge, output)));
            return Ok(consequences);
        }
        deliver(Vec::new(), false);
        self.window_delivered(&merge.firing);
        let mut queue = self.merges.lock();
        queue.running.remove(&unit);
        consequences.tasks = self.next_merges(&mut queue);
        drop(queue);
        self.fire_held(&mut consequences);
        Ok(consequences)
    }
}

impl MergeQueue {
    /// The next merge that begins now, if one does.
    fn begin(&mut self, workers: usize) -> Option<Box<StoredMerge>> {
        let entry = self.waiting.first_entry()?;
        let is_lowest = self.running.first().is_none_or(|running| entry.key() < running);
        if self.running.len() >= workers.min(MERGES) && !is_lowest {
            return None;
        }
        self.running.insert(*entry.key());
        Some(entry.remove())
    }
}
