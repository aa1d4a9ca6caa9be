//! Spilling: what memory is short for is written to files of the run, and read back when it is needed.
//!
//! Whoever finds more state than [`Spilling::high`] after a task wakes the *spilling thread* and continues. That thread
//! makes a cut, unless one is on its way; when it has passed an aggregation, the tables from before it are frozen, and
//! nobody writes to them any more. The thread seals them, those of the latest windows first, writes their partitions as
//! blocks, and gives their memory back, until the state is below [`Spilling::low`]. Meanwhile readers wait while more
//! than 80 % of the budget is taken (backpressure, see `flow`). When the windows are complete, such tables are merged
//! block by block (see `window::block_merges`).
//!
//! Slices of overlapping windows are spilled when that does not suffice, and so are the waiting rows and the partitions of keyed
//! operators (`keyed::spilling`). What cannot be spilled: tables that are being merged, and lookup tables.

use crate::config::{SpillConfig, When};
use crate::station::Task;
use millstream_state::{MemoryBudget, available_memory};
use millstream_storage::{SpillCounters, SpillDirectory, SpillFormat, SpillWriter};
use millstream_types::{Diagnostic, code};
use parking_lot::{Condvar, Mutex};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Output of a task that is not consumed may take 1/`UNCONSUMED` of the budget.
pub(crate) const UNCONSUMED: u64 = 16;

/// See the module.
pub(crate) struct Spilling {
    config: SpillConfig,
    budget: Arc<MemoryBudget>,
    counters: Arc<SpillCounters>,
    /// Made when something is spilled.
    directory: Mutex<Option<Arc<SpillDirectory>>>,
    /// Whether the thread has been woken, and has not come to an end with it.
    is_asked: AtomicBool,
    is_over: AtomicBool,
    /// Whether there are stations with state that can be spilled.
    has_state: bool,
    sleep: Mutex<()>,
    woken: Condvar,
    /// Bytes of states of keyed operators that are worked on and for which memory was reserved, and the tasks that wait for others to be
    /// done with.
    loaded: Mutex<(u64, Vec<Task>)>,
}

impl Spilling {
    /// Of a query that has state, or not.
    pub(crate) fn new(
        config: &SpillConfig,
        has_state: bool,
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
            has_state,
            sleep: Mutex::new(()),
            woken: Condvar::new(),
            loaded: Mutex::default(),
        }
    }

    /// Whether there is anything that a thread could spill.
    pub(crate) fn needs_thread(&self) -> bool {
        self.config.mode == When::Auto && self.has_state
    }

    /// Whether anything may be spilled.
    pub(crate) fn may_spill(&self) -> bool {
        self.config.mode != When::Never
    }

    /// Whether everything is spilled at once.
    pub(crate) fn is_eager(&self) -> bool {
        self.config.mode == When::Always
    }

    /// Bytes of state from which on it is spilled: tables may double before a cut passes, and are sealed to another
    /// copy.
    pub(crate) fn high(&self) -> u64 {
        self.budget.limit() / 5 * 2
    }

    /// Reserves memory for a state of `bytes` bytes that is to be worked on: a fifth of the budget at a time, or one
    /// state. If it does not fit, the task waits until others are done with theirs.
    pub(crate) fn load(&self, bytes: u64, task: impl FnOnce() -> Task) -> bool {
        let mut loaded = self.loaded.lock();
        let fits = loaded.0 == 0 || loaded.0 + bytes <= self.low();
        match fits {
            true => loaded.0 += bytes,
            false => loaded.1.push(task()),
        }
        fits
    }

    /// A state of `bytes` bytes is not worked on any more; the tasks that have waited for that.
    pub(crate) fn unload(&self, bytes: u64) -> Vec<Task> {
        let mut loaded = self.loaded.lock();
        loaded.0 -= bytes;
        std::mem::take(&mut loaded.1)
    }

    /// Whether so little of the budget is used that several may keep rows in the same columns, which stay until the last of them
    /// has forgotten its own.
    pub(crate) fn is_plenty(&self) -> bool {
        !self.is_eager() && self.has_at_most(self.low())
    }

    /// Whether there is more state than there should be.
    pub(crate) fn is_short(&self) -> bool {
        self.config.mode == When::Auto && self.budget.state() > self.high()
    }

    /// Whether there are at most `bytes` bytes of state.
    pub(crate) fn has_at_most(&self, bytes: u64) -> bool {
        self.budget.state() <= bytes
    }

    /// Whether memory is short and one of `partitions` partitions of an operator, of `bytes` bytes, is worth a file: it
    /// has more than a partition has when the operator has an eighth of the budget.
    pub(crate) fn is_too_much(&self, bytes: usize, partitions: usize) -> bool {
        self.is_short() && bytes as u64 > self.budget.limit() / (8 * partitions as u64)
    }

    /// Bytes of state at which enough has been spilled.
    pub(crate) fn low(&self) -> u64 {
        self.budget.limit() / 5
    }

    /// Bytes of the blocks that tables are written in: hundreds of tables of a window are merged with two blocks of each in
    /// memory.
    pub(crate) fn block_bytes(&self) -> usize {
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

    /// Wakes the spilling thread if there is too much state.
    pub(crate) fn wake_if_needed(&self) {
        let is_too_much = self.budget.used() > self.high() && self.needs_thread() && self.budget.state() > self.high();
        if is_too_much && !self.is_asked.swap(true, Ordering::AcqRel) {
            self.wake();
        }
    }

    /// Sleeps until state has to be spilled; `false` when the query is over.
    pub(crate) fn wait(&self) -> bool {
        let mut sleep = self.sleep.lock();
        while !self.is_asked.load(Ordering::Acquire) && !self.is_over() {
            self.woken.wait(&mut sleep);
        }
        !self.is_over()
    }

    /// Does nothing for a while, unless the query is over: there was nothing to be gained.
    pub(crate) fn pause(&self, time: Duration) {
        let mut sleep = self.sleep.lock();
        if !self.is_over() {
            let _ = self.woken.wait_for(&mut sleep, time);
        }
    }

    /// What the thread was woken for is done.
    pub(crate) fn done(&self) {
        self.is_asked.store(false, Ordering::Release);
    }

    /// Whether the query is over.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Bytes of output of a task that may be unconsumed before it stops.
    pub(crate) fn most_unconsumed(&self) -> u64 {
        if self.is_eager() { 0 } else { self.budget.limit() / (2 * UNCONSUMED) }
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
        self.loaded.lock().1.clear();
        if let Some(directory) = self.directory.lock().take() {
            // What cannot be removed now is when somebody spills to the same place again.
            let _ = directory.remove();
        }
    }
}
