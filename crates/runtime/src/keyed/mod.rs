//! Keyed operators: joins, ranks, OVER, sessions, count windows and changing groups (design section 1, idea 2).
//!
//! ```text
//! pipeline ─ rows with the hash of their key ─► exchange ─┬► inbox of partition 0 ─ job ─► state ─► unit of the output
//! (any worker, any order)                                 ├► inbox of partition 1 ─ job ─► state ─► unit of the output
//!                                                         └► …          (one worker at a time)
//! ```
//!
//! A process task routes the rows of its buffer to the inboxes of the partitions of their keys (`JobPartitions::keys`).
//! When the operator's watermark advances to *W*, every partition that has something due gets a *job*: it takes the rows
//! with a watermark before them below *W* out of the inbox, which have all come, puts them in merged order and lets the
//! partition's [`State`] consume them. So state changes in the same order in every run, without a lock while a row is
//! processed, and partitions proceed independently on all workers.
//!
//! Rows that an operator keeps as they come stay in their buffers, of which a partition knows its rows (`shared`).
//!
//! Operators whose output does not depend on order (regular joins, and those whose results change) take rows as they come, up to a cut:
//! rows from behind it wait until it has passed all partitions. Where results change a cut is the end of a beat: then each partition
//! that rows have come to puts out what has changed (`State::end_beat`), before what it keeps is saved.
//!
//! When memory is short, states and waiting rows of partitions are in files (`spilling`, `kept`, `inbox`), and the operator acts
//! on its watermark in larger steps (`rounds`). A job that puts out more than a part of the budget does so by files (`output`).
//!
//! The units of the output stream are numbered when jobs are made; the watermark follows behind them.

mod ages;
pub(crate) mod batch;
mod chains;
mod changes;
mod changing_join;
mod changing_side;
mod comparable;
mod contents;
mod count;
mod cut;
mod distributed;
mod encoding;
mod exchange;
mod fifo;
mod group;
mod groups;
mod held;
mod inbox;
mod interval_join;
mod kept;
mod key_share;
mod leading;
mod operators;
pub(crate) mod order;
mod output;
mod over;
mod over_order;
mod pairs;
mod places;
mod rank;
mod regular_join;
mod repartition;
mod rounds;
mod session;
mod session_rows;
mod settling;
mod shared;
mod slots;
mod sort_bytes;
mod spilling;
mod spooled;
mod state;
mod store;
mod stream_join;
mod timed_rows;
mod top;
mod versioned_join;
mod versions;
mod weights;
mod window_join;
mod working;

#[cfg(test)]
mod tests;

use crate::durable::restored::Restored;
use crate::exchange::{Links, StationMessage};
use crate::executable_plan::OperatorCode;
use crate::host::Host;
use crate::ids::{Generation, Port, StationId, StreamId};
use crate::pipeline::{Arrived, WorkerContext};
use crate::station::progress::Progress;
use crate::station::{Consequences, Job, Spillable, Station, Task};
use crate::stats::TriggerStats;
use crate::stream::Stream;
use batch::{Batch, times_of};
use cut::StoredPartitions;
use distributed::DistributedKeys;
use held::HeldRows;
use inbox::{Inbox, PartitionJob};
use kept::Kept;
use millstream_plan::pipeline::KeyedOperator;
use millstream_storage::Manifest;
use millstream_sync::epoch_ring::{End, Release};
use millstream_types::Diagnostic;
pub(crate) use operators::most_behind;
use operators::{Behaviour, check};
use parking_lot::{Mutex, MutexGuard};
use rounds::Rounds;
use spooled::SpooledOutput;
use state::Due;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// A keyed operator of a running query.
///
/// Locks: the progress is taken before the inbox of a partition; a partition's state is locked by the one task that works on it,
/// and never waited for.
pub(crate) struct KeyedStation {
    /// Position in the plan.
    number: usize,
    id: StationId,
    host: Arc<Host>,
    stats: Arc<TriggerStats>,
    /// The stream of its output.
    output: Arc<Stream>,
    plan: KeyedOperator,
    code: OperatorCode,
    behaviour: Behaviour,
    /// What the output watermark is behind the operator's.
    held_back_ms: i64,
    /// By how much the operator looks at all watermarks later than they are; see [`Behaviour::lag_ms`].
    lag_ms: i64,
    /// Of the inputs: pipelines of this node, or nodes.
    progress: Mutex<Progress>,
    /// Where the query runs on several nodes.
    distributed: Option<DistributedKeys>,
    /// Bits of the hash of a key that choose its partition.
    partition_bits: u32,
    partitions: Vec<Partition>,
    /// For operators that output whole windows: `window_time` of those that have rows and are not complete. Like all times of
    /// windows it is of the plan's timeline; whatever is called a watermark is as it comes.
    windows: Option<Mutex<BTreeSet<i64>>>,
    /// Partitions of an operator that joins arrivals that have not ended, and how it ends.
    open: Mutex<(usize, End)>,
    /// Of the same.
    uncut: Mutex<Uncut>,
    rounds: Rounds,
    /// Where checkpoints have its partitions.
    stored: Arc<Mutex<StoredPartitions>>,
    started: Instant,
}

/// A cut on its way through an operator that consumes rows as they come.
#[derive(Default)]
struct Uncut {
    /// Partitions that it has not passed; 0 when what was held behind it has been let in.
    left: usize,
    /// Whether the inputs have ended meanwhile: the last jobs come when rows from behind the cut have been let in.
    then_last: bool,
}

struct Partition {
    inbox: Mutex<Inbox>,
    kept: Mutex<Kept>,
}

/// What a worker does for a keyed operator.
enum KeyedJob {
    /// The jobs of a partition.
    Work(Turn),
    /// Resumes delivering what such a job has put out by files.
    PutOut(Box<SpooledOutput>),
}

/// A worker's turn at a partition, in which it does all jobs.
struct Turn {
    partition: usize,
    /// Bytes of memory that were reserved for working on it.
    loaded: Option<u64>,
}

impl KeyedStation {
    /// With `inputs` channels that end in it; whether all of them come from other operators.
    pub(crate) fn new(
        (number, id): (usize, StationId),
        plan: &KeyedOperator,
        code: OperatorCode,
        (host, output): (&Arc<Host>, &Arc<Stream>),
        (inputs, are_derived): (usize, bool),
        links: Option<Links>,
    ) -> Result<KeyedStation, Diagnostic> {
        check(plan, &code)?;
        let behaviour = Behaviour::of(&plan.kind);
        let lag_ms = if are_derived { behaviour.lag_ms } else { 0 };
        let budget = &host.stats.operators[number].part_of(&host.flow.budget);
        let partition_bits = host.partitions.key_bits();
        let partition = |_| {
            let (mut inbox, kept) = (Inbox::new(plan.inputs.len(), budget), Kept::new(plan, &code, budget)?);
            // A result that is there without rows is put out at the end of the first beat.
            inbox.is_beat_open = behaviour.ends_beats && plan.keys.is_empty();
            Ok(Partition { inbox: Mutex::new(inbox), kept: Mutex::new(kept) })
        };
        let partitions = (0..1 << partition_bits).map(partition).collect::<Result<Vec<_>, Diagnostic>>()?;
        let owned = links.as_ref().map_or(0..partitions.len(), |links| links.nodes().owned_here(partitions.len()));
        Ok(KeyedStation {
            number,
            id,
            host: Arc::clone(host),
            stats: Arc::clone(&host.stats.operators[number]),
            output: Arc::clone(output),
            behaviour,
            windows: behaviour.has_windows.then(Mutex::default),
            held_back_ms: behaviour.held_back_ms.saturating_add(lag_ms),
            lag_ms,
            progress: Mutex::new(Progress::new(links.as_ref().map_or(inputs, |links| links.nodes().count))),
            distributed: links.map(|links| DistributedKeys::new(links, inputs, HeldRows::new(budget))),
            open: Mutex::new((partitions.len(), End::Complete)),
            stored: StoredPartitions::new(number, owned),
            partition_bits,
            partitions,
            uncut: Mutex::default(),
            rounds: Rounds::new(),
            started: Instant::now(),
            plan: plan.clone(),
            code,
        })
    }

    /// The partitions that this node owns: all, unless there are several nodes.
    fn owned(&self) -> Range<usize> {
        self.distributed.as_ref().map_or(0..self.partitions.len(), |it| it.owned(self.partitions.len()))
    }

    /// Locks the inbox of a partition.
    fn inbox(&self, partition: usize) -> MutexGuard<'_, Inbox> {
        self.partitions[partition].inbox.lock()
    }

    /// Locks what a partition remembers, for the one who works on it.
    fn kept(&self, partition: usize) -> Result<MutexGuard<'_, Kept>, Diagnostic> {
        let kept = self.partitions[partition].kept.try_lock();
        kept.ok_or_else(|| Diagnostic::bug("two workers work on one partition"))
    }

    /// Whether rows are consumed as they come, whatever the watermark is.
    fn joins_arrivals(&self) -> bool {
        self.behaviour.due == Due::Arrival
    }

    /// Adds a job of a partition, with its task, unless there is one already.
    fn add_job(&self, inbox: &mut Inbox, partition: usize, job: PartitionJob, consequences: &mut Consequences) {
        self.rounds.job_made();
        if inbox.add(job) {
            consequences.tasks.push(self.task(partition));
        }
    }

    /// The same for all partitions.
    fn add_to_all(&self, job: PartitionJob, consequences: &mut Consequences) {
        for partition in 0..self.partitions.len() {
            self.add_job(&mut self.inbox(partition), partition, job.clone(), consequences);
        }
    }

    /// The task that does the jobs of a partition.
    fn task(&self, partition: usize) -> Task {
        Task::awaited(self.id, KeyedJob::Work(Turn { partition, loaded: None }))
    }

    /// Has rows wait for a partition.
    fn put(&self, inbox: &mut Inbox, input: usize, generation: Generation, batch: Batch) -> Result<(), Diagnostic> {
        let due = self.due_of(input, &batch)?;
        self.rounds.came(inbox.put(input, generation, batch, due));
        Ok(())
    }

    /// The watermark that rows behind the operator may rely on.
    fn output_watermark(&self) -> i64 {
        match self.progress.lock().watermark() {
            _ if self.joins_arrivals() => i64::MIN,
            i64::MAX => i64::MAX,
            watermark => watermark.saturating_sub(self.held_back_ms),
        }
    }

    /// The number of the next unit of its output, which is the caller's to deliver.
    fn next_unit(&self) -> u64 {
        let mut progress = self.progress.lock();
        progress.units += 1;
        progress.units - 1
    }

    fn now_ms(&self) -> i64 {
        i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX)
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
    fn let_in(&self, inbox: &mut Inbox) -> Result<bool, Diagnostic> {
        let held = inbox.take_held();
        let is_any = !held.is_empty();
        held.into_iter().try_for_each(|(input, generation, batch)| self.put(inbox, input, generation, batch))?;
        Ok(is_any)
    }

    /// The smallest watermark at which a row of the batch makes a job necessary.
    fn due_of(&self, input: usize, batch: &Batch) -> Result<i64, Diagnostic> {
        let consumed = batch.earliest().saturating_add(1);
        match (self.behaviour.due, self.plan.inputs[input].time) {
            (Due::Time(after), Some(time)) => {
                let first = times_of(&batch.column(time)?)?.iter().copied().min().unwrap_or(i64::MAX);
                Ok(consumed.max(self.plan.timeline.watermark_at(first.saturating_add(after))))
            }
            (Due::LeftTime, Some(time)) if input == 0 => {
                let first = times_of(&batch.column(time)?)?.iter().copied().min().unwrap_or(i64::MAX);
                Ok(consumed.max(first))
            }
            (Due::LeftTime, _) => Ok(i64::MAX),
            _ => Ok(consumed),
        }
    }
}

impl Station for KeyedStation {
    fn take(&self, arrived: &Arrived<'_>, context: &mut WorkerContext) -> Result<Consequences, Diagnostic> {
        self.exchange(arrived, context)
    }

    fn perform(&self, job: Job, context: &mut WorkerContext) -> Result<Consequences, Diagnostic> {
        let started = Instant::now();
        let consequences = match job.take()? {
            KeyedJob::Work(turn) => self.work_on(turn, &mut context.functions),
            KeyedJob::PutOut(output) => self.deliver_spooled(output),
        };
        self.stats.spent(started.elapsed());
        consequences
    }

    fn settle(&self) -> Consequences {
        let mut consequences = Consequences::default();
        self.pass_on(&mut consequences);
        self.settle_into(&mut consequences);
        consequences
    }

    fn release(&self, port: Port, release: Release) -> Consequences {
        match &self.distributed {
            Some(distributed) => distributed.release(port, release),
            None => self.progress.lock().release(port, release),
        }
        self.settle()
    }

    fn set_idle(&self, port: Port, is_idle: bool) -> (i64, Consequences) {
        let watermark = match &self.distributed {
            Some(distributed) => distributed.set_idle(port, is_idle),
            None => {
                let mut progress = self.progress.lock();
                progress.set_idle(port, is_idle);
                progress.watermark()
            }
        };
        (watermark, self.settle())
    }

    fn receive(&self, from: usize, message: StationMessage) -> Result<Consequences, Diagnostic> {
        self.receive_message(from, message)
    }

    fn progress(&self) -> Option<MutexGuard<'_, Progress>> {
        Some(self.progress.lock())
    }

    fn output(&self) -> Option<(StreamId, i64)> {
        Some((self.output.id, self.output_watermark()))
    }

    fn describe(&self, manifest: &mut Manifest) {
        manifest.operators.push(self.ended());
    }

    fn restore(&self, from: &Restored<'_>) -> Result<(), Diagnostic> {
        self.restore_operator(from)
    }

    fn spill(&self, what: Spillable, enough: u64) -> Result<(usize, Consequences), Diagnostic> {
        let mut consequences = Consequences::default();
        let spilled = match what {
            Spillable::Reserve | Spillable::Tables | Spillable::Slices => 0,
            Spillable::Rows => self.spill_rows(enough)?,
            Spillable::States => self.spill_states(enough, &mut consequences)?,
        };
        Ok((spilled, consequences))
    }

    fn due(&self, now: Instant) -> Result<Consequences, Diagnostic> {
        let mut consequences = Consequences::default();
        if self.joins_arrivals() {
            self.forget_expired(now, &mut consequences);
        }
        self.begin_round(now, &mut consequences);
        if self.distributed.is_some() {
            // A mark may have waited long enough.
            self.pass_on(&mut consequences);
            self.settle_into(&mut consequences);
        }
        Ok(consequences)
    }
}
