//! Spilling: what memory is short for is written to files of the run, and read back when it is needed.
//!
//! Whoever finds more state than [`Spilling::high`] after a task wakes the *spilling thread*, and goes on. That thread makes a
//! cut, unless one is on its way; when it has come by an aggregation, the tables from before it are frozen, and nobody
//! writes to them any more. The thread seals them, those of the latest windows first, writes their partitions as blocks, and gives
//! their memory back, until the state is below [`Spilling::low`]. Meanwhile readers wait that would go on with more than 80 % of
//! the budget (see `flow`). When the windows are complete, such tables are merged block by block (see `merging`).
//!
//! Slices of overlapping windows are spilled when that does not suffice, and so are the waiting rows and the partitions of keyed
//! operators (`keyed::spilling`). What cannot be spilled: tables that are being merged, and lookup tables.

mod merging;
mod parking;

use crate::query::Query;
use crate::tables::{Frozen, FrozenByNumber};
use crate::task::Task;
use merging::MergeQueue;
pub(crate) use merging::StoredMerge;
use millstream_state::{
    MemoryBudget, MemoryClass, PARTITIONS, available_memory, release_before_sleep, release_if_asked,
};
use millstream_storage::{
    BlobRef, Compression, Damaged, SpillCounters, SpillDirectory, SpillFormat, SpillWriter, user_directory,
};
use millstream_types::{Diagnostic, MemorySize, code};
pub(crate) use parking::Unconsumed;
use parking::{Parked, ParkedOutput};
use parking_lot::{Condvar, Mutex};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// When state is spilled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SpillMode {
    /// When memory is short.
    #[default]
    Auto,
    /// Never: a query whose state does not fit ends.
    Never,
    /// For tests: whatever can be is spilled at once.
    Always,
}

/// Whether and where state is spilled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpillConfig {
    /// When.
    pub mode: SpillMode,
    /// Below which directory; it is made when something is spilled.
    pub directory: PathBuf,
    /// What all files of a query may take there: bytes, or a share of what is free when the first is written.
    pub budget: MemorySize,
    /// How it is compressed.
    pub compression: Compression,
    /// What the files may take of the system's page cache: bytes, or a share of the machine's memory. What is more is written
    /// and read past it.
    pub cached: MemorySize,
}

impl Default for SpillConfig {
    fn default() -> SpillConfig {
        let directory = user_directory().join("spill");
        SpillConfig {
            mode: SpillMode::Auto,
            directory,
            budget: MemorySize::Share(80),
            compression: Compression::None,
            cached: MemorySize::Share(10),
        }
    }
}

/// Files with tables of several windows have about so many bytes at most.
const FILE_BYTES: u64 = 8 << 20;
/// How soon the spilling thread looks again whether a cut has come by.
const LOOK: Duration = Duration::from_millis(1);
/// How long it does nothing when there was nothing to be gained.
const PAUSE: Duration = Duration::from_millis(20);

/// See the file's description.
pub(crate) struct Spilling {
    config: SpillConfig,
    budget: Arc<MemoryBudget>,
    counters: Arc<SpillCounters>,
    /// Made when something is spilled.
    directory: Mutex<Option<Arc<SpillDirectory>>>,
    /// Whether the thread has been woken, and has not come to an end with it.
    is_asked: AtomicBool,
    is_over: AtomicBool,
    /// Whether there are aggregations or keyed operators.
    has_state: bool,
    sleep: Mutex<()>,
    woken: Condvar,
    /// By aggregation.
    merges: Vec<Mutex<MergeQueue>>,
    /// Tasks that wait until their output is consumed.
    parked_output: Mutex<Vec<ParkedOutput>>,
    /// Tasks that wait until their output may be put out.
    parked_tasks: Mutex<Vec<Parked>>,
    has_parked: AtomicBool,
    /// Bytes of states of keyed operators that are worked on and for which memory was reserved, and the tasks that wait for others to be
    /// done with.
    loaded: Mutex<(u64, Vec<Task>)>,
}

impl Spilling {
    /// Of a query with so many aggregations and keyed operators.
    pub(crate) fn new(
        config: &SpillConfig,
        (aggregations, operators): (usize, usize),
        budget: &Arc<MemoryBudget>,
        counters: &Arc<SpillCounters>,
    ) -> Spilling {
        Spilling {
            config: config.clone(),
            budget: Arc::clone(budget),
            counters: Arc::clone(counters),
            directory: Mutex::new(None),
            is_asked: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            has_state: aggregations + operators > 0,
            sleep: Mutex::new(()),
            woken: Condvar::new(),
            merges: (0..aggregations).map(|_| Mutex::default()).collect(),
            parked_output: Mutex::default(),
            parked_tasks: Mutex::default(),
            has_parked: AtomicBool::new(false),
            loaded: Mutex::default(),
        }
    }

    /// Whether there is anything that a thread could spill.
    pub(crate) fn needs_thread(&self) -> bool {
        self.config.mode == SpillMode::Auto && self.has_state
    }

    /// Whether anything may be spilled.
    pub(crate) fn may_spill(&self) -> bool {
        self.config.mode != SpillMode::Never
    }

    /// Whether everything is spilled at once.
    pub(crate) fn is_eager(&self) -> bool {
        self.config.mode == SpillMode::Always
    }

    /// Bytes of state from which on it is spilled: tables may double before a cut comes by, and are sealed to another copy.
    fn high(&self) -> u64 {
        self.budget.limit() / 5 * 2
    }

    /// Reserves memory for a state of so many bytes that is to be worked on, of which there may be a fifth of the budget at a time,
    /// or one; else the task waits until others are done with theirs.
    pub(crate) fn load(&self, bytes: u64, task: impl FnOnce() -> Task) -> bool {
        let mut loaded = self.loaded.lock();
        let fits = loaded.0 == 0 || loaded.0 + bytes <= self.low();
        match fits {
            true => loaded.0 += bytes,
            false => loaded.1.push(task()),
        }
        fits
    }

    /// A state of so many bytes is not worked on any more; the tasks that have waited for that.
    pub(crate) fn unload(&self, bytes: u64) -> Vec<Task> {
        let mut loaded = self.loaded.lock();
        loaded.0 -= bytes;
        std::mem::take(&mut loaded.1)
    }

    /// Whether there is more state than there should be.
    pub(crate) fn is_short(&self) -> bool {
        self.config.mode == SpillMode::Auto && self.budget.state() > self.high()
    }

    /// Whether there are at most so many bytes of state.
    pub(crate) fn has_at_most(&self, bytes: u64) -> bool {
        self.budget.state() <= bytes
    }

    /// Whether memory is short and one of so many partitions of an operator, of so many bytes, is worth a file: it has more than a
    /// partition has when the operator has an eighth of the budget.
    pub(crate) fn is_too_much(&self, bytes: usize, partitions: usize) -> bool {
        self.is_short() && bytes as u64 > self.budget.limit() / (8 * partitions as u64)
    }

    /// Bytes of state at which enough has been spilled.
    pub(crate) fn low(&self) -> u64 {
        self.budget.limit() / 5
    }

    /// Bytes of the blocks that tables are written in: hundreds of tables of a window are merged with two blocks of each in
    /// memory.
    fn block_bytes(&self) -> usize {
        usize::try_from(self.budget.limit() / 8192).unwrap_or(usize::MAX).clamp(8 << 10, 1 << 20)
    }

    fn directory(&self) -> io::Result<Arc<SpillDirectory>> {
        let mut directory = self.directory.lock();
        if let Some(directory) = &*directory {
            return Ok(Arc::clone(directory));
        }
        let budget = |free| self.config.budget.of(free);
        let cached_bytes = self.config.cached.of(available_memory());
        let format = SpillFormat { compression: self.config.compression, cached_bytes };
        let made = SpillDirectory::create(&self.config.directory, budget, format, Arc::clone(&self.counters))?;
        *directory = Some(Arc::clone(&made));
        Ok(made)
    }

    /// Begins to spill something.
    pub(crate) fn writer(&self) -> Result<SpillWriter, Diagnostic> {
        Ok(self.directory().map_err(|e| self.failed(&e))?.writer())
    }

    /// The error for state that cannot be written.
    pub(crate) fn failed(&self, error: &io::Error) -> Diagnostic {
        let message = format!("state cannot be spilled to {}: {error}", self.config.directory.display());
        Diagnostic::new(code::SPILL_FAILED, message)
    }

    /// Sleeps until state has to be spilled; `false` when the query is over.
    fn wait(&self) -> bool {
        let mut sleep = self.sleep.lock();
        while !self.is_asked.load(Ordering::Acquire) && !self.is_over.load(Ordering::Acquire) {
            self.woken.wait(&mut sleep);
        }
        !self.is_over.load(Ordering::Acquire)
    }

    fn wake(&self) {
        // The lock orders this after the thread's look at the flags.
        let _sleep = self.sleep.lock();
        self.woken.notify_all();
    }

    /// The query is over: the thread ends.
    pub(crate) fn close(&self) {
        self.is_over.store(true, Ordering::Release);
        self.wake();
    }

    /// Gives up what was spilled. No thread is at work any more, but for readers that are stuck.
    pub(crate) fn end(&self) {
        self.parked_output.lock().clear();
        self.parked_tasks.lock().clear();
        self.loaded.lock().1.clear();
        if let Some(directory) = self.directory.lock().take() {
            // What cannot be removed now is when somebody spills to the same place again.
            let _ = directory.remove();
        }
    }
}

/// The error for spilled state that is not what was written.
pub(crate) fn unreadable(what: Damaged) -> Diagnostic {
    Diagnostic::new(code::SPILL_FAILED, format!("spilled state cannot be read back: {what}"))
}

impl Query {
    /// Wakes the spilling thread if there is too much state; asked for after every task.
    pub(crate) fn spill_if_needed(&self) {
        let spilling = &self.spilling;
        spilling.budget.measure(false);
        release_if_asked();
        if spilling.budget.used() <= spilling.high() || !spilling.needs_thread() {
            return;
        }
        if spilling.budget.state() > spilling.high() && !spilling.is_asked.swap(true, Ordering::AcqRel) {
            spilling.wake();
        }
    }

    /// The body of the spilling thread.
    pub(crate) fn spill_when_asked(&self) -> Result<(), Diagnostic> {
        while self.spilling.wait() {
            self.flow.set_spilling(true);
            let is_enough = self.spill_down()?;
            release_before_sleep();
            self.flow.set_spilling(false);
            if !is_enough {
                self.flow.note_spilled_in_vain();
                // State is something else: looking for tables after every task would find nothing again.
                let mut sleep = self.spilling.sleep.lock();
                if !self.spilling.is_over.load(Ordering::Acquire) {
                    let _ = self.spilling.woken.wait_for(&mut sleep, PAUSE);
                }
            }
            self.spilling.is_asked.store(false, Ordering::Release);
        }
        Ok(())
    }

    /// Spills until there is little enough state, or nothing is left to be spilled; whether there is little enough.
    fn spill_down(&self) -> Result<bool, Diagnostic> {
        let (budget, mut has_cut) = (&self.spilling.budget, false);
        while !self.spilling.is_over.load(Ordering::Acquire) {
            self.aggregations.iter().for_each(|aggregation| aggregation.tables.forget_free());
            // Before the look at tables: what the cut leaves frozen is there when it is not on its way any more.
            let is_on_its_way = self.cuts.is_on_its_way();
            let spilled = self.spill_frozen(self.spilling.low())? + self.spill_operators(self.spilling.low())?;
            // Most of what is not counted is what this thread and others have just freed.
            budget.measure(true);
            if budget.state() <= self.spilling.low() {
                return Ok(true);
            } else if spilled > 0 {
                has_cut = false;
            } else if is_on_its_way {
                thread::sleep(LOOK);
            } else if has_cut || budget.used_by(MemoryClass::Tables) < budget.limit() / 16 || !self.make_cut(false) {
                return Ok(budget.state() <= self.spilling.high());
            } else {
                has_cut = true;
            }
        }
        Ok(true)
    }

    /// Spills frozen tables of all aggregations until there are at most so many bytes of state; how many tables.
    fn spill_frozen(&self, enough: u64) -> Result<usize, Diagnostic> {
        let mut spilled = 0;
        for aggregation in 0..self.aggregations.len() {
            spilled += self.spill_tables(aggregation, enough)?;
        }
        for aggregation in 0..self.aggregations.len() {
            if self.spilling.is_short() {
                spilled += self.spill_slices(aggregation, enough)?;
            }
        }
        Ok(spilled)
    }

    /// Spills frozen tables of an aggregation.
    pub(crate) fn spill_tables(&self, aggregation: usize, enough: u64) -> Result<usize, Diagnostic> {
        self.spill_all(aggregation, self.aggregations[aggregation].tables.frozen(), enough)
    }

    /// Spills slices of overlapping windows of which some have been fired.
    pub(crate) fn spill_slices(&self, aggregation: usize, enough: u64) -> Result<usize, Diagnostic> {
        self.spill_all(aggregation, self.slices_to_spill(aggregation), enough)
    }

    /// Spills tables of an aggregation, those of the latest windows first, until there are at most so many bytes of state; how
    /// many.
    fn spill_all(&self, aggregation: usize, tables: FrozenByNumber, enough: u64) -> Result<usize, Diagnostic> {
        let mut tables = tables.into_values().rev().flatten().filter(|table| !table.is_stored()).peekable();
        let most = FILE_BYTES.min(self.spilling.budget.limit() / 16);
        let mut spilled = 0;
        while tables.peek().is_some() && self.spilling.budget.state() > enough {
            let mut writer = self.spilling.writer()?;
            let mut written = Vec::new();
            while writer.bytes() < most
                && let Some(table) = tables.next()
            {
                let blobs = self.write_table(aggregation, &table, &mut writer)?;
                written.push((table, blobs));
            }
            let files = writer.finish().map_err(|e| self.spilling.failed(&e))?;
            spilled += written.len();
            let types = &self.aggregations[aggregation].types;
            written.into_iter().for_each(|(table, blobs)| table.spill(&files, blobs, types.clone()));
            self.aggregations[aggregation].tables.forget_free();
        }
        Ok(spilled)
    }

    fn write_table(
        &self,
        aggregation: usize,
        table: &Frozen,
        writer: &mut SpillWriter,
    ) -> Result<Vec<Vec<BlobRef>>, Diagnostic> {
        let partial = table.partial(&self.aggregations[aggregation].tables)?;
        let mut partitions = Vec::with_capacity(PARTITIONS);
        for partition in 0..PARTITIONS {
            let blocks = partial.blocks_of(partition, self.spilling.block_bytes());
            let blobs = blocks.map(|block| writer.write(&block)).collect::<io::Result<_>>();
            partitions.push(blobs.map_err(|e| self.spilling.failed(&e))?);
        }
        Ok(partitions)
    }
}
