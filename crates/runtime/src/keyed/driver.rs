//! How rows reach the partitions of a keyed operator, and when a partition works.
//!
//! Locks: an operator's progress is taken before the inbox of a partition; a partition's state is locked by the one task
//! that works on it, and never waited for.

use super::batch::{Batch, times_of};
use super::behind::{held_back, lag};
use super::inbox::{Inbox, Job, Units, Waiting};
use super::kept::Kept;
use super::output::{Finished, Item};
use super::rounds::Rounds;
use super::{Due, Work, check};
use crate::buffer::Generation;
use crate::checkpoint::Part;
use crate::flow::Permit;
use crate::input::OperatorCode;
use crate::progress::{Forward, Progress};
use crate::query::Query;
use crate::row_errors::RowErrors;
use crate::sequencer::Unit;
use crate::stream::StreamId;
use crate::task::Task;
use crate::timers::{after, earlier};
use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use millstream_functions::FunctionContext;
use millstream_plan::pipeline::{KeyedKind, KeyedOperator, PipelineInput};
use millstream_state::{Charge, MemoryBudget, MemoryClass, Ordinal};
use millstream_sync::epochs::{End, Release};
use millstream_types::Diagnostic;
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// A keyed operator of a running query.
pub(crate) struct KeyedRuntime {
    /// The stream of its output.
    pub(crate) output: StreamId,
    pub(super) plan: KeyedOperator,
    code: OperatorCode,
    pub(super) due: Due,
    /// What the output watermark is behind the operator's.
    held_back_ms: i64,
    /// By how much the operator looks at all watermarks later than they are; see [`lag`].
    lag_ms: i64,
    progress: Mutex<Progress>,
    /// Bits of the hash of a key that choose its partition.
    partition_bits: u32,
    pub(super) partitions: Vec<Partition>,
    /// For operators that output whole windows: `window_time` of those that have rows and are not complete. Like all times of
    /// windows it is of the plan's timeline; whatever is called a watermark is as it comes.
    windows: Option<Mutex<BTreeSet<i64>>>,
    /// Partitions of a regular join that have not ended, and how it ends.
    open: Mutex<(usize, End)>,
    /// Of a regular join.
    pub(super) uncut: Mutex<Uncut>,
    pub(super) rounds: Rounds,
    started: Instant,
}

/// A cut on its way through a regular join.
#[derive(Default)]
pub(super) struct Uncut {
    /// Partitions that it has not come by; 0 when what was held behind it has been let in.
    pub(super) left: usize,
    /// Whether the inputs have ended meanwhile: the last jobs come when rows from behind the cut have been let in.
    pub(super) then_last: bool,
}

pub(super) struct Partition {
    inbox: Mutex<Inbox>,
    kept: Mutex<Kept>,
}

/// Work of a partition.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyedTask {
    pub(crate) operator: usize,
    pub(super) partition: usize,
}

impl KeyedRuntime {
    /// With `inputs` channels that end in it; whether all of them come from other operators. So many bits of the hash of a key
    /// choose its partition.
    pub(crate) fn new(
        plan: &KeyedOperator,
        code: OperatorCode,
        output: StreamId,
        (inputs, are_derived): (usize, bool),
        partition_bits: u32,
        budget: &Arc<MemoryBudget>,
    ) -> Result<KeyedRuntime, Diagnostic> {
        check(plan, &code)?;
        let partition = |_| {
            let (inbox, kept) = (Inbox::new(plan.inputs.len(), budget), Kept::new(plan, &code, budget)?);
            Ok(Partition { inbox: Mutex::new(inbox), kept: Mutex::new(kept) })
        };
        let partitions = (0..1 << partition_bits).map(partition).collect::<Result<Vec<_>, Diagnostic>>()?;
        Ok(KeyedRuntime {
            output,
            due: Due::of(&plan.kind),
            windows: matches!(plan.kind, KeyedKind::WindowJoin { .. } | KeyedKind::Rank { .. })
                .then(|| Mutex::new(BTreeSet::new())),
            held_back_ms: held_back(plan).saturating_add(lag(plan, are_derived)),
            lag_ms: lag(plan, are_derived),
            progress: Mutex::new(Progress::new(inputs)),
            open: Mutex::new((partitions.len(), End::Complete)),
            partition_bits,
            partitions,
            uncut: Mutex::default(),
            rounds: Rounds::new(),
            started: Instant::now(),
            plan: plan.clone(),
            code,
        })
    }

    /// Locks the progress.
    pub(crate) fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock()
    }

    /// Locks the inbox of a partition.
    pub(super) fn inbox(&self, partition: usize) -> MutexGuard<'_, Inbox> {
        self.partitions[partition].inbox.lock()
    }

    /// Locks what a partition remembers, for the one who works on it.
    pub(super) fn kept(&self, partition: usize) -> Result<MutexGuard<'_, Kept>, Diagnostic> {
        let kept = self.partitions[partition].kept.try_lock();
        kept.ok_or_else(|| Diagnostic::bug("two workers work on one partition"))
    }

    /// Whether rows are consumed as they come, whatever the watermark is.
    pub(super) fn joins_arrivals(&self) -> bool {
        self.due == Due::Arrival
    }

    /// Adds a job of a partition; the task, unless there is one already.
    pub(super) fn add_job(&self, inbox: &mut Inbox, job: Job, task: KeyedTask) -> Option<Task> {
        self.rounds.job_made();
        inbox.add(job, task)
    }

    /// Has rows wait for a partition.
    pub(super) fn put(
        &self,
        inbox: &mut Inbox,
        port: usize,
        generation: Generation,
        batch: Batch,
    ) -> Result<(), Diagnostic> {
        let due = self.due_of(port, &batch)?;
        self.rounds.came(inbox.put(port, generation, batch, due));
        Ok(())
    }

    /// Takes over how far the inputs had come, before the first row.
    pub(crate) fn restore(&self, watermark: i64, windows: impl IntoIterator<Item = i64>) {
        let mut progress = self.progress();
        *progress = Progress::restored(progress.inputs(), watermark);
        if let Some(open) = &self.windows {
            open.lock().extend(windows);
        }
    }

    /// The windows that have rows and are not complete.
    pub(super) fn open_windows(&self) -> Vec<i64> {
        self.windows.as_ref().map_or_else(Vec::new, |windows| windows.lock().iter().copied().collect())
    }

    /// Number of its partitions.
    pub(crate) fn partitions(&self) -> usize {
        self.partitions.len()
    }

    /// The watermark that rows behind the operator may rely on.
    pub(crate) fn output_watermark(&self) -> i64 {
        match self.progress().watermark() {
            _ if self.due == Due::Arrival => i64::MIN,
            i64::MAX => i64::MAX,
            watermark => watermark.saturating_sub(self.held_back_ms),
        }
    }

    /// The number of the next unit of its output, which is the caller's to deliver.
    fn next_unit(&self) -> u64 {
        let mut progress = self.progress();
        progress.units += 1;
        progress.units - 1
    }

    fn now_ms(&self) -> i64 {
        i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    /// Notes the windows of rows.
    fn note_windows(&self, port: usize, columns: &[ArrayRef]) -> Result<(), Diagnostic> {
        let (Some(windows), Some(time)) = (&self.windows, self.plan.inputs[port].time) else { return Ok(()) };
        let met: BTreeSet<i64> = times_of(&columns[time])?.iter().copied().collect();
        windows.lock().extend(met);
        Ok(())
    }

    /// The windows that are complete at a time; all their rows have come.
    fn complete(&self, reached: i64) -> Arc<[i64]> {
        let Some(windows) = &self.windows else { return Arc::new([reached]) };
        let mut windows = windows.lock();
        let later = match reached {
            i64::MAX => BTreeSet::new(),
            _ => windows.split_off(&(reached + 1)),
        };
        let complete = std::mem::replace(&mut *windows, later);
        if complete.is_empty() { Arc::new([reached]) } else { complete.into_iter().collect() }
    }

    /// Lets rows in that were held because they come from behind a cut; whether there were any.
    pub(super) fn let_in(&self, inbox: &mut Inbox) -> Result<bool, Diagnostic> {
        let held = inbox.take_held();
        let is_any = !held.is_empty();
        held.into_iter().try_for_each(|(port, generation, batch)| self.put(inbox, port, generation, batch))?;
        Ok(is_any)
    }

    /// The smallest watermark at which a row of the batch makes a job necessary.
    fn due_of(&self, port: usize, batch: &Batch) -> Result<i64, Diagnostic> {
        let consumed = batch.earliest().saturating_add(1);
        match (self.due, self.plan.inputs[port].time) {
            (Due::Time(after), Some(time)) => {
                let first = times_of(&batch.columns[time])?.iter().copied().min().unwrap_or(i64::MAX);
                Ok(consumed.max(self.plan.timeline.watermark_at(first.saturating_add(after))))
            }
            (Due::LeftTime, Some(time)) if port == 0 => {
                let first = times_of(&batch.columns[time])?.iter().copied().min().unwrap_or(i64::MAX);
                Ok(consumed.max(first))
            }
            (Due::LeftTime, _) => Ok(i64::MAX),
            _ => Ok(consumed),
        }
    }
}

impl Query {
    /// Routes rows that a task has made to the partitions of an operator. The last column is the hash of the key.
    pub(crate) fn exchange(
        &self,
        operator: usize,
        (port, generation): (usize, Generation),
        mut columns: Vec<ArrayRef>,
        mut ordinals: Vec<Ordinal>,
        permit: &Option<Arc<Permit>>,
    ) -> Result<(), Diagnostic> {
        let runtime = &self.operators[operator];
        let hashes = columns.pop().ok_or_else(|| Diagnostic::bug("an exchange got no hash"))?;
        let hashes = hashes.as_primitive_opt::<Int64Type>().ok_or_else(|| Diagnostic::bug("a hash is no BIGINT"))?;
        let Some(first) = ordinals.first() else { return Ok(()) };
        let is_derived = !matches!(self.streams[first.stream as usize].input, PipelineInput::Source(_));
        if let Some(time) = runtime.plan.inputs[port].time.filter(|_| is_derived) {
            // When the watermark advances between the rows that an operator outputs depends on timing. That a row is not
            // late does not: so the watermark before it counts as the highest under which it is not.
            for (ordinal, &time) in ordinals.iter_mut().zip(&*times_of(&columns[time])?) {
                let in_time = runtime.plan.timeline.watermark_at(time).saturating_sub(1);
                ordinal.watermark = ordinal.watermark.max(in_time).saturating_sub(runtime.lag_ms);
            }
        }
        runtime.note_windows(port, &columns)?;
        let batch = Batch { columns, ordinals };
        let (mut tasks, mut first_due, mut is_deferred) = (Vec::new(), i64::MAX, false);
        for (partition, batch) in batch.split(hashes.values(), runtime.partition_bits)? {
            let mut inbox = runtime.inbox(partition);
            if runtime.joins_arrivals() && generation > inbox.generation {
                // Which rows come first decides what is output: those of another split may still be from before the cut.
                inbox.hold(port, generation, batch, permit);
                continue;
            }
            runtime.put(&mut inbox, port, generation, batch)?;
            if runtime.joins_arrivals() && inbox.jobs.is_empty() {
                match inbox.is_worth_reading() {
                    true => {
                        tasks.extend(runtime.add_job(&mut inbox, Job::Arrived, KeyedTask { operator, partition }));
                    }
                    false => is_deferred = true,
                }
            }
            if inbox.is_busy {
                inbox.permits.extend(permit.clone());
            }
            first_due = first_due.min(inbox.rows_due);
        }
        self.scheduler.push(tasks);
        if is_deferred {
            self.due_at(runtime.rounds.defer(Instant::now()));
        }
        if self.spilling.is_eager() {
            self.spill_rows(operator, 0)?;
        }
        self.due_at_watermark(first_due);
        Ok(())
    }

    /// A channel of an operator has released a watermark or ended.
    pub(crate) fn release_to_operator(&self, operator: usize, port: usize, release: Release) {
        self.operators[operator].progress().release(port, release);
        self.settle_operator(operator);
    }

    /// Acts on what the inputs of an operator have released together: makes jobs, and passes the watermark on.
    pub(crate) fn settle_operator(&self, operator: usize) {
        while self.step_operator(operator) {}
    }

    /// Acts on the next step of an operator's inputs, if there is one.
    fn step_operator(&self, operator: usize) -> bool {
        let runtime = &self.operators[operator];
        let mut progress = runtime.progress();
        if !runtime.joins_arrivals() {
            let is_only_watermark = progress.is_next_only_watermark();
            if let Err(at) = runtime.rounds.begin(Instant::now(), is_only_watermark) {
                drop(progress);
                self.due_at(at);
                return false;
            }
        }
        let forward = progress.advance();
        let reached = progress.reached_cut();
        let Some(Forward { watermark, cut, end }) = forward else { return false };
        let mut tasks = Vec::new();
        if let (Some(generation), None) = (reached, cut) {
            // All inputs have ended: nothing is kept, and no partition has anything to say.
            let (watermark, windows, has_ended) = (i64::MAX, Vec::new(), true);
            self.hand_over(generation, || Part::Operator { operator, watermark, windows, has_ended });
            self.cut_reached();
        }
        if runtime.joins_arrivals() {
            // Its output has no order in time, so no watermark follows from its inputs before the end.
            let job = match (cut, end) {
                (Some(generation), _) => {
                    runtime.uncut.lock().left = runtime.partitions.len();
                    self.cut_operator(operator, generation, i64::MIN);
                    Job::Cut(generation)
                }
                (None, Some(end)) => {
                    runtime.open.lock().1 = end;
                    let mut uncut = runtime.uncut.lock();
                    uncut.then_last = uncut.left > 0;
                    if uncut.then_last {
                        return true;
                    }
                    Job::Last
                }
                (None, None) => return true,
            };
            for (partition, p) in runtime.partitions.iter().enumerate() {
                let mut inbox = p.inbox.lock();
                if let Job::Last = job
                    && let Err(diagnostic) = runtime.let_in(&mut inbox)
                {
                    self.fail(diagnostic);
                }
                tasks.extend(runtime.add_job(&mut inbox, job.clone(), KeyedTask { operator, partition }));
            }
            drop(progress);
            self.scheduler.push(tasks);
            return true;
        }
        let behind = |ms: i64| if watermark == i64::MAX { watermark } else { watermark.saturating_sub(ms) };
        let watermark = behind(runtime.lag_ms);
        let needs_job = |p: &Partition| p.inbox.lock().needs_job(watermark);
        let partitions: Vec<usize> =
            (0..runtime.partitions.len()).filter(|&p| needs_job(&runtime.partitions[p])).collect();
        let (marks, completed) = (runtime.complete(runtime.plan.timeline.reached(watermark)), Instant::now());
        self.stats.operators[operator].begun.fetch_add(partitions.len() as u64, Relaxed);
        for (first, &partition) in (progress.units..).zip(&partitions) {
            let units = Units { marks: Arc::clone(&marks), first, step: partitions.len() as u64 };
            let job = Job::Advance { watermark, units, completed };
            tasks.extend(runtime.add_job(&mut runtime.inbox(partition), job, KeyedTask { operator, partition }));
        }
        progress.units += (marks.len() * partitions.len()) as u64;
        if let Some(generation) = cut {
            self.cut_operator(operator, generation, progress.watermark());
            for partition in 0..runtime.partitions.len() {
                let task = KeyedTask { operator, partition };
                tasks.extend(runtime.add_job(&mut runtime.inbox(partition), Job::Cut(generation), task));
            }
        }
        let last_unit = progress.units;
        progress.units += 1;
        drop(progress);
        self.scheduler.push(tasks);
        let unit = Unit { watermark: Some(behind(runtime.held_back_ms)), cut, end, ..Unit::default() };
        self.deliver(runtime.output, last_unit, unit);
        true
    }

    /// Has regular joins forget rows whose time to live is over; when the next ones are due. A job that is running may have
    /// looked at the clock before, so it gets another behind it; one that has not begun will look.
    pub(crate) fn forget_expired(&self, now: Instant) -> Option<Instant> {
        let mut next = None;
        for (operator, runtime) in self.operators.iter().enumerate().filter(|(_, r)| r.due == Due::Arrival) {
            let now_ms = runtime.now_ms();
            let mut tasks = Vec::new();
            for (partition, p) in runtime.partitions.iter().enumerate() {
                let mut inbox = p.inbox.lock();
                let wait_ms = u64::try_from(inbox.state_due.saturating_sub(now_ms)).unwrap_or(0);
                if inbox.state_due == i64::MAX || !inbox.jobs.is_empty() {
                    continue;
                } else if wait_ms > 0 {
                    next = earlier(next, after(now, wait_ms));
                } else {
                    tasks.extend(runtime.add_job(&mut inbox, Job::Arrived, KeyedTask { operator, partition }));
                }
            }
            self.scheduler.push(tasks);
        }
        next
    }

    /// Does the jobs of a partition.
    pub(crate) fn work_on(&self, task: KeyedTask, functions: &mut FunctionContext) -> Result<(), Diagnostic> {
        let runtime = &self.operators[task.operator];
        let (mut may_spill, mut loaded) = (true, None);
        loop {
            let mut inbox = runtime.inbox(task.partition);
            let permits = std::mem::take(&mut inbox.permits);
            if let Some(Job::Advance { units, .. }) = inbox.jobs.front()
                && !self.may_put_out(runtime.output, units.first)
            {
                let first = (runtime.output, units.first);
                let is_in_memory = inbox.state_in_files() == 0;
                drop((inbox, permits));
                // It stays busy, so nobody else works on it.
                if is_in_memory && self.spills_partition(runtime, runtime.kept(task.partition)?.bytes_in_memory()) {
                    self.spill_state(task)?;
                }
                self.park(first, Task::Keyed(task));
                return Ok(());
            }
            if loaded.is_none() && inbox.jobs.front().is_some_and(|job| !matches!(job, Job::Cut(_))) {
                let needs = runtime.kept(task.partition)?.needs().saturating_add(inbox.needs());
                if inbox.state_in_files() > 0 || self.spilling.is_too_much(needs, runtime.partitions.len()) {
                    loaded = self.load(task, needs);
                    if loaded.is_none() {
                        // It stays busy, and others come back to it.
                        return Ok(());
                    }
                }
            }
            let Some(job) = inbox.jobs.pop_front() else {
                if may_spill && inbox.state_in_files() == 0 {
                    drop((inbox, permits));
                    // Once: whether jobs have come meanwhile is to be seen.
                    may_spill = false;
                    if self.spills_partition(runtime, runtime.kept(task.partition)?.bytes_in_memory()) {
                        self.spill_state(task)?;
                    }
                    continue;
                }
                inbox.is_busy = false;
                drop(inbox);
                drop(permits);
                return Ok(());
            };
            if let Job::Cut(generation) = job {
                drop((inbox, permits));
                self.save_partition(task, generation)?;
                if runtime.joins_arrivals() {
                    self.cut_partition(task.operator, generation)?;
                }
            } else {
                may_spill = true;
                let watermark = if let Job::Advance { watermark, .. } = job { watermark } else { i64::MAX };
                let (waiting, bytes) = inbox.take(watermark);
                runtime.rounds.read(inbox.take_state());
                drop(inbox);
                runtime.rounds.consumed(bytes);
                let output = self.advance_partition(task, waiting, watermark, functions)?;
                drop(permits);
                self.stats.operators[task.operator].rows_out.fetch_add(output.rows() as u64, Relaxed);
                self.finish_job(task.operator, &job, output);
                if let Job::Advance { completed, .. } = job {
                    self.stats.operators[task.operator].delay.record(completed.elapsed());
                }
            }
            if runtime.rounds.job_done() {
                self.settle_operator(task.operator);
            }
        }
    }

    fn advance_partition(
        &self,
        task: KeyedTask,
        waiting: Vec<Vec<Waiting>>,
        watermark: i64,
        functions: &mut FunctionContext,
    ) -> Result<Finished, Diagnostic> {
        let runtime = &self.operators[task.operator];
        let mut inputs = Vec::with_capacity(waiting.len());
        for (port, batches) in waiting.into_iter().enumerate() {
            let mut ready = Vec::with_capacity(batches.len());
            for waiting in batches {
                let generation = waiting.generation;
                for batch in waiting.batches(&runtime.plan.inputs[port].schema)? {
                    let (now, later) = batch.cut(watermark)?;
                    ready.extend(now);
                    if let Some(batch) = later {
                        runtime.put(&mut runtime.inbox(task.partition), port, generation, batch)?;
                    }
                }
            }
            inputs.push(Batch::merge(ready)?);
        }
        let bytes = inputs.iter().map(Batch::bytes).sum();
        let _consumed = Charge::new(&self.flow.budget, MemoryClass::Operators, bytes);
        let reached = runtime.plan.timeline.reached(watermark);
        let mut work = Work {
            code: &runtime.code,
            functions,
            errors: RowErrors::new(self.config.error_policy, &self.stats),
            stats: &self.stats,
            most_rows: self.buffer_size.rows(),
            is_tight: self.flow.is_tight(),
            now_ms: runtime.now_ms(),
            timeline: runtime.plan.timeline,
            window: reached,
            output: self.output_of_job(),
        };
        let mut kept = runtime.kept(task.partition)?;
        let state = kept.state(&runtime.plan, &runtime.code)?;
        state.advance(inputs, reached, &mut work)?;
        if let Some(fatal) = work.errors.fatal() {
            return Err(fatal);
        }
        let (output, now_ms) = (work.output, work.now_ms);
        let due = match runtime.due {
            Due::Arrival => state.due(),
            _ => runtime.plan.timeline.watermark_at(state.due()),
        };
        kept.worked(now_ms);
        drop(kept);
        runtime.inbox(task.partition).state_due = due;
        match runtime.due {
            Due::Arrival if due < i64::MAX => {
                let wait_ms = u64::try_from(due.saturating_sub(runtime.now_ms())).unwrap_or(0);
                after(Instant::now(), wait_ms).into_iter().for_each(|at| self.due_at(at));
            }
            Due::Arrival => {}
            _ => self.due_at_watermark(due),
        }
        output.finish()
    }

    /// Delivers what a job has output.
    fn finish_job(&self, operator: usize, job: &Job, output: Finished) {
        let runtime = &self.operators[operator];
        let (mut items, files) = (output.items.into_iter().peekable(), output.files);
        if let Job::Advance { units, .. } = job {
            let unit = |(number, &mark): (usize, &i64)| {
                let of_mark = || items.next_if(|(window, _)| *window <= mark).map(|(_, item)| item);
                // As for windowed aggregations: the windows before this one are complete.
                let timeline = runtime.plan.timeline;
                let before = runtime.windows.as_ref().map(|_| timeline.watermark_at(mark).saturating_sub(1));
                (units.first + number as u64 * units.step, before, std::iter::from_fn(of_mark).collect())
            };
            self.deliver_items(operator, files, units.marks.iter().enumerate().map(unit));
            return;
        }
        let items: Vec<Item> = items.map(|(_, item)| item).collect();
        if !items.is_empty() {
            self.deliver_items(operator, files, std::iter::once((runtime.next_unit(), None, items)));
        }
        if let Job::Last = job {
            let mut open = runtime.open.lock();
            open.0 -= 1;
            let (left, end) = *open;
            drop(open);
            if left == 0 {
                self.deliver_next(runtime, Unit { end: Some(end), ..Unit::default() });
            }
        }
    }

    pub(super) fn deliver_next(&self, runtime: &KeyedRuntime, unit: Unit) {
        self.deliver(runtime.output, runtime.next_unit(), unit);
    }
}
