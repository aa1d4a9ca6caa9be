//! Windows with tables in files: merged block by block, by tasks that stop while what they have output is not consumed.
//!
//! Each range of partitions of a window is a [`StoredMerge`]: the blocks of its tables that are being merged. Its rows are
//! delivered as parts of its unit (`sequencer::Unit::continues`). A few merges of an aggregation are under way at a time, in
//! the order of their units, so what they hold in memory is bounded however many windows are complete: their blocks, and the
//! output that has not been consumed. A merge that has output enough is *parked*: the supervisor goes on with it when that
//! output is gone. No worker waits.
//!
//! # Why nobody waits for ever
//!
//! The merge of the lowest unit may always run, whatever others are under way: it may be begun although the places are taken.
//! Its parked output waits for nothing but workers and sinks, for all units before it are complete. So it ends; then another
//! is the lowest.

use crate::buffer::Rows;
use crate::columns::bytes_of;
use crate::flow::Permit;
use crate::query::Query;
use crate::sequencer::Unit;
use crate::tables::{OpenTables, Stored, StoredBlocks, damaged};
use crate::task::Task;
use crate::trigger::Firing;
use millstream_state::{BlockMerge, Merged, OutputTypes, Partial};
use millstream_storage::Damaged;
use millstream_types::Diagnostic;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Most merges of an aggregation that are under way at a time, with fewer workers so many.
const MERGES: usize = 4;
/// How soon the supervisor looks again whether output has been consumed.
const LOOK: Duration = Duration::from_millis(1);

/// The merges of an aggregation.
#[derive(Default)]
pub(super) struct MergeQueue {
    /// By unit.
    waiting: BTreeMap<u64, Box<StoredMerge>>,
    /// Units of those that are under way.
    running: BTreeSet<u64>,
}

/// A range of partitions of a window. See the file's description.
pub(crate) struct StoredMerge {
    firing: Arc<Firing>,
    group: usize,
    /// Partitions that are not begun.
    partitions: Range<usize>,
    /// What is left of the one that is being merged.
    current: Option<BlockMerge<BlockSource>>,
    /// Rows that were output and may not be consumed yet, with their bytes.
    output: Vec<(Weak<Permit>, u64)>,
}

type BlockSource = Box<dyn Iterator<Item = Result<Partial, BlockError>> + Send>;

/// Why a block cannot be merged.
struct BlockError(Diagnostic);

impl From<Damaged> for BlockError {
    fn from(what: Damaged) -> BlockError {
        BlockError(damaged(what))
    }
}

impl StoredMerge {
    fn unit(&self) -> u64 {
        self.firing.unit(self.group)
    }

    /// End of the window, for the order of the work.
    pub(crate) fn end(&self) -> i64 {
        self.firing.end()
    }

    /// The aggregation whose window it is.
    pub(crate) fn aggregation(&self) -> usize {
        self.firing.aggregation()
    }

    /// Bytes that were output and are not consumed.
    fn unconsumed(&mut self) -> u64 {
        self.output.retain(|(permit, _)| permit.strong_count() > 0);
        self.output.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Merges the next few rows; `None` at the end.
    fn piece(&mut self, tables: &OpenTables, types: &OutputTypes) -> Result<Option<Merged>, Diagnostic> {
        loop {
            if let Some(piece) = self.current.as_mut().and_then(Iterator::next) {
                return piece.map(Some).map_err(|BlockError(diagnostic)| diagnostic);
            }
            let Some(partition) = self.partitions.next() else { return Ok(None) };
            let mut sources: Vec<BlockSource> = Vec::new();
            for partial in self.firing.sealed_tables() {
                sources.push(in_memory(partial, partition, tables, types));
            }
            for table in self.firing.stored_tables() {
                sources.push(in_files(table, partition, tables));
            }
            self.current = Some(BlockMerge::new(tables.layout(), sources));
        }
    }
}

/// The entries of a partition of a table in memory: a copy, made when it is needed.
fn in_memory(partial: Arc<Partial>, partition: usize, tables: &OpenTables, types: &OutputTypes) -> BlockSource {
    let (layout, budget, types) = (Arc::clone(tables.layout()), Arc::clone(tables.budget()), types.clone());
    let copy = move || {
        let blocks: Vec<Vec<u8>> = partial.blocks(partition).collect();
        Partial::restore_blocks(&layout, &types, &budget, &blocks).map_err(BlockError::from)
    };
    Box::new(std::iter::once_with(copy))
}

/// The blocks of a partition of a table in files.
fn in_files(table: Arc<Stored>, partition: usize, tables: &OpenTables) -> BlockSource {
    let blocks = StoredBlocks::new(table, partition, tables.layout(), tables.budget());
    Box::new(blocks.map(|block| block.map_err(BlockError)))
}

impl Query {
    /// Whether a window is merged block by block: a window of one slice, some of whose tables are in files.
    pub(crate) fn is_merged_by_blocks(&self, firing: &Firing) -> bool {
        self.spilling.is_eager() || firing.has_stored_tables()
    }

    /// The tasks that a window whose tables are sealed is merged by, if it is by blocks, in so many ranges of partitions.
    pub(crate) fn merges_of(&self, firing: &Arc<Firing>, groups: usize) -> Vec<Task> {
        let aggregation = firing.aggregation();
        let mut queue = self.spilling.merges[aggregation].lock();
        for group in 0..groups {
            let (firing, partitions) = (Arc::clone(firing), firing.partitions(group));
            let merge = StoredMerge { firing, group, partitions, current: None, output: Vec::new() };
            queue.waiting.insert(merge.unit(), Box::new(merge));
        }
        queue.begin(self.config.workers)
    }

    /// Goes on with a merge, until it ends or has output enough.
    pub(crate) fn merge_stored(&self, mut merge: Box<StoredMerge>) -> Result<(), Diagnostic> {
        let aggregation = merge.aggregation();
        let runtime = &self.aggregations[aggregation];
        while let Some(merged) = merge.piece(&runtime.tables, &runtime.types)? {
            let mut rows = self.rows_of_window(&merge.firing, &merged);
            drop(merged);
            for rows in &mut rows {
                let bytes = bytes_of(&rows.columns);
                let permit = Arc::new(self.flow.hold(bytes));
                merge.output.push((Arc::downgrade(&permit), bytes as u64));
                rows.permit = Some(permit);
            }
            self.deliver_part(&merge, rows, true);
            if merge.unconsumed() > self.most_unconsumed() {
                self.spilling.parked.lock().push(*merge);
                Instant::now().checked_add(LOOK).into_iter().for_each(|at| self.due_at(at));
                return Ok(());
            }
        }
        self.deliver_part(&merge, Vec::new(), false);
        self.window_delivered(&merge.firing);
        let mut queue = self.spilling.merges[aggregation].lock();
        queue.running.remove(&merge.unit());
        let tasks = queue.begin(self.config.workers);
        drop(queue);
        self.scheduler.push(tasks);
        Ok(())
    }

    /// What a merge may have output that is not consumed.
    fn most_unconsumed(&self) -> u64 {
        match self.spilling.is_eager() {
            true => 0,
            false => self.spilling.budget.limit() / 32,
        }
    }

    fn deliver_part(&self, merge: &StoredMerge, rows: Vec<Rows>, continues: bool) {
        let unit = Unit { rows, before: merge.firing.before(), continues, ..Unit::default() };
        self.deliver(self.aggregations[merge.aggregation()].output, merge.unit(), unit);
    }

    /// Goes on with the merges whose output has been consumed; when to look for the others.
    pub(crate) fn resume_merges(&self, now: Instant) -> Option<Instant> {
        let mut parked = self.spilling.parked.lock();
        let most = self.most_unconsumed() / 2;
        let tasks: Vec<Task> = parked
            .extract_if(.., |merge| merge.unconsumed() <= most)
            .map(|merge| Task::MergeStored(Box::new(merge)))
            .collect();
        let next = (!parked.is_empty()).then(|| now.checked_add(LOOK)).flatten();
        drop(parked);
        self.scheduler.push(tasks);
        next
    }
}

impl MergeQueue {
    /// The merges that begin now.
    fn begin(&mut self, workers: usize) -> Vec<Task> {
        let mut tasks = Vec::new();
        while let Some(entry) = self.waiting.first_entry() {
            let is_lowest = self.running.first().is_none_or(|running| entry.key() < running);
            if self.running.len() >= workers.min(MERGES) && !is_lowest {
                break;
            }
            self.running.insert(*entry.key());
            tasks.push(Task::MergeStored(entry.remove()));
        }
        tasks
    }
}
