//! Sorts: all rows of a bounded input, in an order (`ORDER BY`, and `LIMIT` in a subquery).
//!
//! ```text
//! pipeline ─ rows ─► sorted by the worker that brings them ─► runs in memory ─┬─ merged when the last row has come ─► output
//! (any worker, any order)                                      └ short memory ► runs in files ─┘
//! ```
//!
//! A worker sorts the rows of its buffer without a lock and adds them as a *run*. When memory is short, the spilling thread merges
//! all runs in memory to one in a file. When the inputs have ended, a job merges all runs, a piece at a time, and pauses while
//! what it has put out is not consumed; of more files than memory has room for blocks of, it first makes fewer. Each step
//! of it looks whether the query is over, so whoever cancels does not wait.
//!
//! Of a sort with a LIMIT only as many rows are kept: those behind the last row of a run that has so many are dropped as they
//! come, and runs are merged, and cut, when together they have twice as many. On several nodes each does so first (`local`).
//!
//! Rows are compared by the values that they are sorted by, then by their places in the input, which are the same in every run.
//! A sort keeps nothing for checkpoints: a query takes none while it has rows that have not come out (`takes_checkpoints`).

mod block;
mod local;
mod merge;
mod run;

use crate::buffer::Rows;
use crate::columns::sliced;
use crate::durable::blobs::damaged;
use crate::exchange::{StationMessage, port_of_node, read_gathered};
use crate::host::Host;
use crate::ids::StationId;
use crate::keyed::batch::Batch;
use crate::pipeline::{Arrived, WorkerContext};
use crate::station::progress::{Forward, Progress};
use crate::station::{Consequences, Job, Parked, Spillable, Station, Task, Unconsumed, Until};
use crate::stats::TriggerStats;
use crate::stream::Stream;
use crate::stream::sequencer::Unit;
use block::Block;
use local::FirstNode;
pub(crate) use local::SortRole;
use merge::Merge;
use millstream_plan::pipeline::Sort;
use millstream_state::{Charge, MemoryClass};
use millstream_sync::epoch_ring::End;
use millstream_types::{Diagnostic, Schema};
use parking_lot::{Mutex, MutexGuard};
use run::{FileRun, Run, RunWriter};
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// Bytes of a piece of a run are this part of the budget, within bounds: a merge has two pieces of each file in memory.
const PIECES: u64 = 256;
/// Merges may take this part of the budget.
const MERGES: u64 = 16;
/// Rows in memory for which no runs are merged to keep fewer.
const FEW_ROWS: usize = 1 << 10;

/// A sort of a running query.
///
/// Locks: the progress is taken before the rows.
pub(crate) struct SortStation {
    id: StationId,
    host: Arc<Host>,
    stats: Arc<TriggerStats>,
    /// The stream of its output.
    output: Arc<Stream>,
    plan: Arc<Sort>,
    /// Rows of the order that are kept at most.
    kept: usize,
    progress: Mutex<Progress>,
    /// Where rows go, if they are not put out here.
    first_node: Option<FirstNode>,
    /// Channels of this node that end in it, and columns of the rows.
    channels: usize,
    schema: Schema,
    gathered: Mutex<Gathered>,
}

/// The rows that have come.
struct Gathered {
    /// Runs in memory.
    runs: Vec<VecDeque<Batch>>,
    /// Rows of these.
    rows: usize,
    /// Bytes of these.
    charge: Charge,
    /// Runs in files.
    files: VecDeque<FileRun>,
    /// A row that is not before the last one that is kept, if so many have come.
    bound: Option<Arc<Block>>,
    /// Rows and bytes that have been added, for an idea of how large a row is.
    added: (usize, usize),
    /// Threads that make a file of runs.
    writers: usize,
    /// When the inputs ended, if they have.
    ended: Option<Instant>,
    /// Whether all rows are out.
    is_done: bool,
    /// Whether the rest of them is given up.
    is_stopped: bool,
}

/// What a worker does for a sort.
enum SortJob {
    /// All rows have come: begins to put them out.
    Begin,
    /// Makes one run of several that are in files.
    Reduce(Box<Reducing>),
    /// Puts out the next rows.
    PutOut(Box<SortedOutput>),
}

/// Too many runs in files.
struct Reducing {
    writer: RunWriter,
    memory: Vec<VecDeque<Batch>>,
    charge: Charge,
    files: VecDeque<FileRun>,
}

/// All rows in order.
struct SortedOutput {
    merge: Merge,
    /// Rows to leave out.
    skip: usize,
    /// Rows that are still wanted.
    left: usize,
    /// What is not consumed, since it waited for that last.
    unconsumed: Unconsumed,
}

impl SortStation {
    /// With `channels` channels of this node that end in it.
    pub(crate) fn new(
        id: StationId,
        plan: &Sort,
        (host, output): (&Arc<Host>, &Arc<Stream>),
        (channels, role): (usize, SortRole),
        stats: &Arc<TriggerStats>,
    ) -> SortStation {
        let (plan, other_nodes, first_node) = match role {
            SortRole::Whole(others) => (plan.clone(), others, None),
            SortRole::Local(links) => (FirstNode::part_of(plan), 0, Some(FirstNode::new(links))),
        };
        let rows = |rows: Option<u64>| rows.and_then(|rows| usize::try_from(rows).ok()).unwrap_or(usize::MAX);
        let charge = Charge::new(&stats.part_of(&host.flow.budget), MemoryClass::Operators, 0);
        SortStation {
            id,
            host: Arc::clone(host),
            stats: Arc::clone(stats),
            output: Arc::clone(output),
            kept: rows(plan.kept()),
            progress: Mutex::new(Progress::new(channels + other_nodes)),
            first_node,
            channels,
            schema: plan.schema.clone(),
            plan: Arc::new(plan),
            gathered: Mutex::new(Gathered {
                runs: Vec::new(),
                rows: 0,
                charge,
                files: VecDeque::new(),
                bound: None,
                added: (0, 0),
                writers: 0,
                ended: None,
                is_done: false,
                is_stopped: false,
            }),
        }
    }

    /// Bytes of a piece of a run.
    fn piece_bytes(&self) -> usize {
        usize::try_from(self.host.flow.budget.limit() / PIECES).unwrap_or(usize::MAX).clamp(16 << 10, 1 << 20)
    }

    /// Rows of a piece of a run.
    fn piece_rows(&self) -> usize {
        let (rows, bytes) = self.gathered.lock().added;
        (self.piece_bytes() / (bytes / rows.max(1)).max(1)).clamp(1, self.host.config.rows_per_buffer().max(1))
    }

    /// Files that are merged at a time.
    fn fan_in(&self) -> usize {
        if self.host.spilling.is_eager() {
            // For tests: few rows are many runs.
            return 3;
        }
        let pieces = self.host.flow.budget.limit() / MERGES / self.piece_bytes() as u64;
        usize::try_from(pieces).unwrap_or(usize::MAX).clamp(4, 256)
    }

    /// Whether nobody wants the rows any more.
    fn is_over(&self) -> bool {
        self.host.spilling.is_over() || self.gathered.lock().is_stopped
    }

    /// Sorts rows and adds them.
    fn add(&self, batch: Batch) -> Result<(), Diagnostic> {
        let bound = self.gathered.lock().bound.clone();
        let sorted = Block::new(batch, &self.plan.order)?.sorted(bound.as_deref(), self.kept)?;
        if sorted.rows() == 0 {
            return Ok(());
        }
        self.add_run(VecDeque::from([sorted]))?;
        self.keep_fewer()
    }

    /// Adds a run.
    fn add_run(&self, run: VecDeque<Batch>) -> Result<(), Diagnostic> {
        let (rows, bytes) = (run.iter().map(Batch::rows).sum::<usize>(), run.iter().map(Batch::bytes).sum::<usize>());
        let last = run.back().filter(|batch| rows >= self.kept && batch.rows() > 0);
        let bound = last.map(|batch| Block::single(batch, batch.rows() - 1, &self.plan.order)).transpose()?;
        let mut gathered = self.gathered.lock();
        gathered.added = (gathered.added.0.saturating_add(rows), gathered.added.1.saturating_add(bytes));
        gathered.rows += rows;
        let all = gathered.charge.bytes() + bytes;
        gathered.charge.set(all);
        gathered.runs.push(run);
        if let Some(bound) = bound
            && gathered.bound.as_ref().is_none_or(|known| bound.compare(0, known, 0).is_lt())
        {
            gathered.bound = Some(Arc::new(bound));
        }
        Ok(())
    }

    /// Merges the runs in memory, and cuts them, if they have many more rows than will be put out.
    fn keep_fewer(&self) -> Result<(), Diagnostic> {
        let mut gathered = self.gathered.lock();
        if gathered.rows <= self.kept.saturating_mul(2).max(FEW_ROWS) || self.kept == usize::MAX {
            return Ok(());
        }
        let mut merge = self.take_runs(&mut gathered)?;
        drop(gathered);
        let (mut run, mut left) = (VecDeque::new(), self.kept);
        while left > 0
            && !self.is_over()
            && let Some(batch) = merge.next(left.min(self.host.config.rows_per_buffer().max(1)))?
        {
            left -= batch.rows();
            // A slice would keep the rows that are left out.
            let columns = batch.columns.iter().map(crate::columns::compact).collect();
            run.push_back(Batch::new(columns, batch.ordinals));
        }
        drop(merge);
        self.add_run(run)
    }

    /// A merge of the runs in memory, which are its own from now on.
    fn take_runs(&self, gathered: &mut MutexGuard<'_, Gathered>) -> Result<Merge, Diagnostic> {
        let charge = gathered.charge.another(MemoryClass::Operators, 0);
        let charge = std::mem::replace(&mut gathered.charge, charge);
        gathered.rows = 0;
        let runs = std::mem::take(&mut gathered.runs);
        Merge::new(&self.plan, runs.into_iter().map(Run::Memory).collect(), charge)
    }

    /// Makes a file of the runs in memory, if these have `least` bytes and more are to come; whether it has.
    fn write_runs(&self, least: usize) -> Result<(bool, Consequences), Diagnostic> {
        let (spilling, mut consequences) = (&self.host.spilling, Consequences::default());
        let mut gathered = self.gathered.lock();
        if gathered.ended.is_some() || gathered.runs.is_empty() || gathered.charge.bytes() < least {
            return Ok((false, consequences));
        }
        gathered.writers += 1;
        let merge = self.take_runs(&mut gathered)?;
        drop(gathered);
        let mut writer = RunWriter::new(merge, self.kept, spilling)?;
        while !self.is_over() && writer.step(self.piece_rows(), spilling)? {}
        let run = writer.finish(spilling)?;
        let mut gathered = self.gathered.lock();
        gathered.files.push_back(run);
        gathered.writers -= 1;
        if gathered.ended.is_some() && gathered.writers == 0 {
            consequences.tasks.push(self.task(SortJob::Begin));
        }
        Ok((true, consequences))
    }

    fn task(&self, job: SortJob) -> Task {
        Task::awaited(self.id, job)
    }

    /// Acts on the next step of the inputs, if there is one. Watermarks are held until all rows are out: they come in another order
    /// than that of time.
    fn step(&self, consequences: &mut Consequences) -> bool {
        let mut progress = self.progress.lock();
        let forward = progress.advance();
        let reached = progress.reached_cut();
        self.first_node.iter().for_each(|first| first.pass_on(forward, progress.is_idle()));
        let Some(Forward { cut, end, .. }) = forward else { return false };
        if cut.is_some() || reached.is_some() {
            consequences.cuts += 1;
        }
        let unit = match (cut, end) {
            // Rows from before it come out behind it: no checkpoint is made of it.
            (Some(_), _) => Unit { cut, ..Unit::default() },
            (None, Some(End::Stopped)) => Unit { end, ..Unit::default() },
            (None, Some(End::Complete)) => {
                let mut gathered = self.gathered.lock();
                gathered.ended = Some(Instant::now());
                if gathered.writers == 0 {
                    consequences.tasks.push(self.task(SortJob::Begin));
                }
                return true;
            }
            (None, None) => return true,
        };
        consequences.deliver(self.output.id, progress.units, unit);
        progress.units += 1;
        true
    }

    /// Puts out what there is, or makes fewer files first.
    fn begin(
        &self,
        memory: Vec<VecDeque<Batch>>,
        charge: Charge,
        mut files: VecDeque<FileRun>,
    ) -> Result<SortJob, Diagnostic> {
        let (spilling, most) = (&self.host.spilling, self.fan_in());
        if files.len() > most {
            let some = files.drain(..most).map(Run::File).collect();
            let merge = Merge::new(&self.plan, some, charge.another(MemoryClass::Operators, 0))?;
            let writer = RunWriter::new(merge, self.kept, spilling)?;
            return Ok(SortJob::Reduce(Box::new(Reducing { writer, memory, charge, files })));
        }
        let runs = memory.into_iter().map(Run::Memory).chain(files.into_iter().map(Run::File)).collect();
        let rows = |rows: u64| usize::try_from(rows).unwrap_or(usize::MAX);
        let merge = Merge::new(&self.plan, runs, charge)?;
        let (skip, left) = (rows(self.plan.offset), self.plan.count.map_or(usize::MAX, rows));
        Ok(SortJob::PutOut(Box::new(SortedOutput { merge, skip, left, unconsumed: Unconsumed::default() })))
    }

    /// Does a part of a job.
    fn work(&self, job: SortJob) -> Result<Consequences, Diagnostic> {
        if self.is_over() {
            // Of a query that is over nobody looks at it.
            return Ok(self.end(End::Stopped));
        }
        let next = match job {
            SortJob::Begin => {
                let mut gathered = self.gathered.lock();
                let gathered = &mut *gathered;
                let charge = gathered.charge.another(MemoryClass::Operators, 0);
                let charge = std::mem::replace(&mut gathered.charge, charge);
                self.stats.begun.fetch_add(1, Relaxed);
                gathered.ended.iter().for_each(|ended| self.stats.delivered(ended.elapsed()));
                self.begin(std::mem::take(&mut gathered.runs), charge, std::mem::take(&mut gathered.files))?
            }
            SortJob::Reduce(mut reducing) => match reducing.writer.step(self.piece_rows(), &self.host.spilling)? {
                true => SortJob::Reduce(reducing),
                false => {
                    let Reducing { writer, memory, charge, mut files } = *reducing;
                    files.push_back(writer.finish(&self.host.spilling)?);
                    self.begin(memory, charge, files)?
                }
            },
            SortJob::PutOut(output) => return self.put_out(output),
        };
        Ok(Consequences { then: Some(Job::new(next)), ..Consequences::default() })
    }

    /// Delivers the next rows, unless enough of those before are not consumed. Nobody waits forever: they are the next of their stream.
    fn put_out(&self, mut output: Box<SortedOutput>) -> Result<Consequences, Diagnostic> {
        let mut consequences = Consequences::default();
        if output.unconsumed.bytes() > self.host.spilling.most_unconsumed() {
            let until = Until::Consumed(std::mem::take(&mut output.unconsumed));
            consequences.parked.push(Parked { task: self.task(SortJob::PutOut(output)), until });
            return Ok(consequences);
        }
        let rows = self.piece_rows().min(self.host.buffer_size.rows()).max(1);
        let batch = if output.left == 0 { None } else { output.merge.next(rows)? };
        let Some(batch) = batch else { return Ok(self.end(End::Complete)) };
        let skipped = output.skip.min(batch.rows());
        let rows = (batch.rows() - skipped).min(output.left);
        output.skip -= skipped;
        output.left -= rows;
        if let Some(first) = self.first_node.as_ref().filter(|_| rows > 0) {
            self.stats.rows_out.fetch_add(rows as u64, Relaxed);
            first
                .send(&Batch::new(sliced(&batch.columns, skipped, rows), batch.ordinals[skipped..][..rows].to_vec()))?;
        } else if rows > 0 {
            let rows = Rows { columns: sliced(&batch.columns, skipped, rows), rows, ..Rows::default() };
            self.stats.rows_out.fetch_add(rows.rows as u64, Relaxed);
            let rows = vec![self.host.held(rows, &mut output.unconsumed)];
            consequences.deliver(self.output.id, self.next_unit(), Unit { rows, ..Unit::default() });
        }
        consequences.then = Some(Job::new(SortJob::PutOut(output)));
        Ok(consequences)
    }

    /// Nothing more comes out.
    fn end(&self, end: End) -> Consequences {
        self.gathered.lock().is_done = true;
        self.first_node.iter().for_each(|first| first.end(end));
        let mut consequences = Consequences::default();
        let watermark = (end == End::Complete).then_some(i64::MAX);
        consequences.deliver(self.output.id, self.next_unit(), Unit { watermark, end: Some(end), ..Unit::default() });
        consequences
    }

    /// The number of the next unit of its output, which is the caller's to deliver.
    fn next_unit(&self) -> u64 {
        let mut progress = self.progress.lock();
        progress.units += 1;
        progress.units - 1
    }
}

impl Station for SortStation {
    fn take(&self, arrived: &Arrived<'_>, context: &mut WorkerContext) -> Result<Consequences, Diagnostic> {
        arrived.emit(&self.host, context, &mut |rows, emitted| {
            let ordinal = |row: u32| rows.ordinal(row as usize, arrived.origin);
            let ordinals = emitted.selection.iter().map(ordinal).collect();
            self.add(Batch::new(emitted.columns, ordinals))?;
            Ok(ControlFlow::Continue(()))
        })?;
        let mut consequences = Consequences { finished: vec![arrived.place], ..Consequences::default() };
        if self.host.spilling.is_eager() && self.gathered.lock().runs.len() > 2 {
            let (_, written) = self.write_runs(0)?;
            consequences.tasks = written.tasks;
        }
        Ok(consequences)
    }

    fn receive(&self, from: usize, message: StationMessage) -> Result<Consequences, Diagnostic> {
        match message {
            StationMessage::Mark(mark) => Ok(self.release(port_of_node(self.channels, from), mark.release)),
            StationMessage::Frame(frame, _permit) => {
                let (_, batch) = read_gathered(&self.schema, &frame).map_err(damaged)?;
                self.add(batch)?;
                Ok(Consequences::default())
            }
        }
    }

    fn perform(&self, job: Job, _: &mut WorkerContext) -> Result<Consequences, Diagnostic> {
        let started = Instant::now();
        let consequences = self.work(job.take()?);
        self.stats.spent(started.elapsed());
        consequences
    }

    fn settle(&self) -> Consequences {
        let mut consequences = Consequences::default();
        while self.step(&mut consequences) {}
        consequences
    }

    fn progress(&self) -> Option<MutexGuard<'_, Progress>> {
        Some(self.progress.lock())
    }

    fn stop(&self) -> bool {
        let mut gathered = self.gathered.lock();
        gathered.is_stopped = !gathered.is_done;
        gathered.is_stopped
    }

    fn spill(&self, what: Spillable, enough: u64) -> Result<(usize, Consequences), Diagnostic> {
        if what != Spillable::Rows || self.host.spilling.has_at_most(enough) {
            return Ok((0, Consequences::default()));
        }
        let least = self.host.flow.budget.limit() / (2 * MERGES);
        let (has_written, consequences) = self.write_runs(usize::try_from(least).unwrap_or(usize::MAX))?;
        Ok((usize::from(has_written), consequences))
    }
}
