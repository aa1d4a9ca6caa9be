//! What outlives a window's process, or does not fit into memory: parts of checkpoints, and tables in files.

use super::WindowStation;
use super::aggregation::Aggregation;
use super::distributed::DistributedSlices;
use super::tables::frozen::Frozen;
use super::tables::{FrozenByNumber, OpenTables};
use crate::durable::blobs::damaged;
use crate::durable::part::Gathering;
use crate::durable::restored::Restored;
use crate::ids::Generation;
use crate::schedule::threads::Watch;
use crate::station::progress::Forward;
use millstream_state::Partial;
use millstream_storage::{AggregationState, BlobRef, Damaged, JobPartitions, SpillWriter, TableState};
use millstream_types::Diagnostic;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Tables of one slice and about one size that become one.
const TIER: usize = 8;
/// Files with tables of several windows have at most about this many bytes.
const FILE_BYTES: u64 = 8 << 20;

/// What an aggregation keeps.
struct KeptWindows {
    /// Position in the plan.
    number: usize,
    tables: Arc<OpenTables>,
    /// What it says; where its tables are is added. `None` of the rows of a node among several, which are not all that it keeps.
    state: Option<AggregationState>,
    open: FrozenByNumber,
    /// Slices of overlapping windows of which some have been fired.
    swept: FrozenByNumber,
}

impl WindowStation {
    /// What is kept when all windows have been fired.
    pub(super) fn ended(&self) -> AggregationState {
        let (number, watermark) = (self.output.number.input, i64::MAX);
        AggregationState { number, watermark, ..AggregationState::default() }
    }

    /// A cut has passed: what is kept is handed over. Under the lock of the progress, when the windows that belong
    /// before the cut have been fired.
    pub(super) fn hand_over(&self, generation: Generation, forward: Forward) {
        let watch = Watch::start();
        let windows = &self.windows;
        let has_ended = forward.cut.is_none();
        if self.host.checkpoint_before(generation).is_some() {
            let mut kept = KeptWindows {
                number: self.number,
                tables: Arc::clone(&windows.tables),
                state: None,
                open: FrozenByNumber::new(),
                swept: FrozenByNumber::new(),
            };
            let mut state = self.ended();
            if !has_ended {
                state.watermark = forward.watermark;
                kept.open = windows.tables.frozen_before(self.host.tables.of(generation));
                if let Some(overlap) = &windows.overlap {
                    state.swept = overlap.sweep.lock().reached;
                    kept.swept = overlap.swept.lock().tables.clone();
                }
            }
            kept.state = Some(state);
            self.host.hand_over(generation, move |into| kept.store(into));
        }
        self.host.stats.checkpoints.note_handing_over(&watch);
    }

    /// A cut has passed the inputs of this node, one of several: what its rows have become and has not been sent is handed over, whoever
    /// owns the keys. What it receives is handed over when the cut has passed all nodes: that is later, because it is one of them.
    pub(super) fn hand_over_here(&self, generation: Generation, slices: &Aggregation) {
        if self.host.checkpoint_before(generation).is_some() {
            let kept = KeptWindows {
                number: self.number,
                tables: Arc::clone(&slices.tables),
                state: None,
                open: slices.tables.frozen_before(self.host.tables.of(generation)),
                swept: FrozenByNumber::new(),
            };
            self.host.hand_over(generation, move |into| kept.store(into));
        }
    }

    /// Takes over what a checkpoint has kept.
    pub(super) fn restore_windows(&self, from: &Restored<'_>) -> Result<(), Diagnostic> {
        let (windows, state) = (&self.windows, &from.manifest().aggregations[self.number]);
        let wrong = |what: &str| damaged(Damaged(what.into()));
        windows.restore(state.watermark);
        *windows.tables.frozen.lock() = self.restored_tables(&state.tables, from)?;
        if let (Some(overlap), Some((last, until))) = (&windows.overlap, state.swept) {
            // Windows between the two are looked at one by one.
            let all = overlap.overlap;
            if until.saturating_sub(last) > all.windows_per_slice().saturating_mul(all.step_ms()) {
                return Err(wrong("windows hold slices that are not theirs"));
            }
            // One of before would begin with windows that were fired, and all from there on would be looked at.
            if state.tables.iter().any(|table| all.table(table.id).from_end <= last) {
                return Err(wrong("a slice is of windows that were fired"));
            }
            overlap.sweep.lock().reached = Some((last, until));
            let mut swept = overlap.swept.lock();
            swept.tables = self.restored_tables(&state.slices, from)?;
            swept.combine_again();
        }
        Ok(())
    }

    /// Spills tables, those of the latest windows first, until there are at most `enough` bytes of state; how many.
    pub(super) fn spill_all(&self, tables: FrozenByNumber, enough: u64) -> Result<usize, Diagnostic> {
        let spilling = &self.host.spilling;
        let mut tables = tables.into_values().rev().flatten().filter(|table| table.stored().is_none()).peekable();
        let most = FILE_BYTES.min(self.host.flow.budget.limit() / 16);
        let mut spilled = 0;
        while tables.peek().is_some() && !spilling.has_at_most(enough) {
            let mut writer = spilling.writer()?;
            let mut written = Vec::new();
            while writer.bytes() < most
                && let Some(table) = tables.next()
            {
                let blobs = self.write_blocks(&table, &mut writer)?;
                written.push((table, blobs));
            }
            let files = writer.finish().map_err(|e| spilling.failed(&e))?;
            spilled += written.len();
            written.into_iter().for_each(|(table, blobs)| table.spill(&files, blobs));
            self.windows.tables.forget_free();
        }
        Ok(spilled)
    }

    fn write_blocks(&self, table: &Frozen, writer: &mut SpillWriter) -> Result<Vec<Vec<BlobRef>>, Diagnostic> {
        let (spilling, partial) = (&self.host.spilling, table.partial(&self.windows.tables)?);
        let written = by_partition(&partial, |partition| {
            let blocks = partial.blocks_of(partition, spilling.block_bytes());
            blocks.map(|block| writer.write(&block)).collect::<io::Result<_>>()
        });
        written.map_err(|e| spilling.failed(&e))
    }

    /// Tables of a checkpoint, which are read when they are needed; or now, one after the other, if they are in other partitions than
    /// those of this job. Where that takes too much memory, they are spilled.
    fn restored_tables(&self, states: &[TableState], from: &Restored<'_>) -> Result<FrozenByNumber, Diagnostic> {
        let (before, now) = (from.manifest().partitions, self.host.partitions);
        let owned = self.distributed.as_ref().map(DistributedSlices::owned);
        let (mut tables, mut read) = (FrozenByNumber::new(), FrozenByNumber::new());
        for state in states {
            let is_cut_again = before.tables != now.tables;
            let mut table = match &owned {
                Some(owned) if !is_cut_again => match part_of(state, owned) {
                    Some(part) => restored_table(&part, before, from)?,
                    None => continue,
                },
                _ => restored_table(state, before, from)?,
            };
            if let Some(stored) = table.stored().filter(|_| is_cut_again) {
                let whole = stored.repartitioned(before.table_bits(), &self.windows.tables)?;
                table = Arc::new(Frozen::sealed(match &owned {
                    Some(owned) => self.windows.tables.restored(owned.clone().flat_map(|p| whole.blocks(p)))?,
                    None => whole,
                }));
                read.entry(state.id).or_default().push(Arc::clone(&table));
                self.spill_if_short(&mut read)?;
            }
            tables.entry(state.id).or_default().push(table);
        }
        Ok(tables)
    }

    /// Spills tables of a query that has not begun, if they take too much memory or are to be in files at once. What then stays in memory
    /// is little enough.
    fn spill_if_short(&self, tables: &mut FrozenByNumber) -> Result<(), Diagnostic> {
        let spilling = &self.host.spilling;
        let enough = if spilling.is_eager() { 0 } else { spilling.low() };
        if spilling.is_eager() || spilling.is_short() {
            self.spill_all(std::mem::take(tables), enough)?;
        }
        Ok(())
    }
}

/// What is written of each partition of a partial.
fn by_partition<E>(
    partial: &Partial,
    mut write: impl FnMut(usize) -> Result<Vec<BlobRef>, E>,
) -> Result<Vec<Vec<BlobRef>>, E> {
    let mut written = vec![Vec::new(); partial.partitions().len()];
    for partition in partial.filled_partitions() {
        written[partition] = write(partition)?;
    }
    Ok(written)
}

/// What a table has in some of its partitions, if it has anything there.
fn part_of(table: &TableState, owned: &Range<usize>) -> Option<TableState> {
    let mut part = table.clone();
    let others = part.partitions.iter_mut().enumerate().filter(|(partition, _)| !owned.contains(partition));
    others.for_each(|(_, blocks)| blocks.clear());
    let blocks = part.partitions.iter().map(Vec::len).sum::<usize>() as u64;
    // At most: how many there are is known when they are read.
    part.entries = part.entries.min(blocks.saturating_mul(ENTRIES_OF_BLOCK));
    (blocks > 0).then_some(part)
}

/// A block has at most about a mebibyte of entries, each of a word at least.
const ENTRIES_OF_BLOCK: u64 = 1 << 17;

/// A table of a checkpoint, which is read when it is needed.
fn restored_table(state: &TableState, cut: JobPartitions, from: &Restored<'_>) -> Result<Arc<Frozen>, Diagnostic> {
    if state.partitions.len() != cut.tables as usize {
        return Err(damaged(Damaged("a table lacks partitions".into())));
    }
    let blocks: usize = state.partitions.iter().map(Vec::len).sum();
    if state.entries > (blocks as u64).saturating_mul(ENTRIES_OF_BLOCK) {
        return Err(damaged(Damaged("a table has more entries than its blocks can have".into())));
    }
    let frozen = Frozen::restored(Arc::clone(from.store()), state.clone());
    frozen.stored().iter().for_each(|stored| from.keep(stored, state.partitions.iter().flatten()));
    Ok(Arc::new(frozen))
}

impl KeptWindows {
    fn store(self, into: &mut Gathering) -> Result<bool, Diagnostic> {
        let KeptWindows { number, tables, state, open, swept } = self;
        let open = compacted(&tables, open)?;
        let written = write_tables(&open, &tables, into)?;
        let slices = write_tables(&swept, &tables, into)?;
        let here = &mut into.manifest.aggregations[number];
        here.tables.extend(written);
        let Some(state) = state else { return Ok(false) };
        *here = AggregationState { tables: std::mem::take(&mut here.tables), slices, ..state };
        Ok(true)
    }
}

/// The same with fewer tables: each generation leaves one for each worker and slice, most of them with the same keys. As many
/// as [`TIER`] of about one size become one, so that an entry is copied a logarithmic number of times.
fn compacted(open: &OpenTables, mut tables: FrozenByNumber) -> Result<FrozenByNumber, Diagnostic> {
    for (&id, tables) in &mut tables {
        let mut tiers: BTreeMap<u32, Vec<Arc<Frozen>>> = BTreeMap::new();
        // What is not in memory stays unchanged.
        for table in tables.iter().filter(|table| table.stored().is_none()) {
            tiers.entry(table.entries.max(1).ilog2() / 2).or_default().push(Arc::clone(table));
        }
        for tier in tiers.into_values().filter(|tier| tier.len() >= TIER) {
            let partials = tier.iter().map(|table| table.partial(open)).collect::<Result<Vec<_>, _>>()?;
            let one = Arc::new(Frozen::sealed(Partial::compacted(&partials, &open.budget)));
            open.replace(id, &tier, &one);
            tables.retain(|table| !tier.iter().any(|other| Arc::ptr_eq(other, table)));
            tables.push(one);
        }
    }
    Ok(tables)
}

/// Writes the tables that no checkpoint has written. That this one has is noted at once: if it is never completed, the query ends.
fn write_tables(
    tables: &FrozenByNumber,
    open: &OpenTables,
    into: &mut Gathering,
) -> Result<Vec<TableState>, Diagnostic> {
    let mut states = Vec::new();
    for (&id, tables) in tables {
        for table in tables {
            if table.kept.get().is_none() {
                let _ = table.kept.set(write_table(table, open, into)?);
            }
            states.extend(table.kept.get().map(|kept| TableState { id, ..kept.clone() }));
        }
    }
    Ok(states)
}

/// Writes a table; one that is spilled is copied block by block.
fn write_table(table: &Frozen, open: &OpenTables, into: &mut Gathering) -> Result<TableState, Diagnostic> {
    let (entries, partitions) = match table.stored() {
        Some(stored) => {
            let mut copied = |partition| stored.blocks(partition).map(|block| into.write(&block?)).collect();
            (table.entries, (0..stored.partitions()).map(&mut copied).collect::<Result<_, _>>()?)
        }
        None => {
            let partial = table.partial(open)?;
            let write = |partition| partial.blocks(partition).map(|block| into.write(&block)).collect();
            (partial.len(), by_partition(&partial, write)?)
        }
    };
    Ok(TableState { id: 0, entries: entries as u64, partitions })
}
