//! A running query: everything that its threads share, and its life from start to end.
//!
//! Locks, in the order in which one thread may hold several: a split's reading progress, then one of {a stream, an
//! aggregation's or keyed operator's progress, the slices without a place in the ring (within an aggregation's progress), the inbox of a
//! partition (within an operator's progress), an egress, a queue of tasks, the flow}.
//! Acting on a release may lead through streams and aggregations down to the sinks; it starts after the lock under
//! which it was found has been released.

use crate::adaptive::Adviser;
use crate::aggregation::Aggregation;
use crate::buffer_size::BufferSize;
use crate::cancel::{CancelState, CancelToken};
use crate::checkpoint::{Checkpointing, RestoredWatermarks, finish_job, write_checkpoints};
use crate::columns::bytes_of;
use crate::config::RunConfig;
use crate::cuts::Cuts;
use crate::egress::Egress;
use crate::flow::Flow;
use crate::input::{RunInput, StagedCode};
use crate::keyed::KeyedRuntime;
use crate::lookup::Lookup;
use crate::phases::Phases;
use crate::progress::Progress;
use crate::scheduler::Scheduler;
use crate::sequencer::Unit;
use crate::source::SourceRuntime;
use crate::spill::Spilling;
use crate::stats::QueryStats;
use crate::stream::{Channel, Consequences, Origin, Stream, StreamId};
use crate::task::Task;
use crate::threads::never_interrupt;
use crate::timers::{Timers, earlier};
use crate::topology::Topology;
use crate::{plan_graph, worker};
use millstream_plan::pipeline::{PipelineEnd, PipelineInput, QueryPlan};
use millstream_sync::epochs::{End, Release};
use millstream_types::{Diagnostic, code};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long the end of a query waits for readers that are inside their connector.
const READER_GRACE: Duration = Duration::from_millis(500);

/// See the file's description.
pub(crate) struct Query {
    pub(crate) plan: QueryPlan,
    pub(crate) config: RunConfig,
    pub(crate) stats: Arc<QueryStats>,
    pub(crate) cancel: CancelToken,
    pub(crate) pipelines: Vec<StagedCode>,
    /// Whether the expressions of a pipeline ask for the watermark.
    pub(crate) reads_watermark: Vec<bool>,
    /// The place of each pipeline among those with the same end.
    pub(crate) places: Vec<u32>,
    pub(crate) sources: Vec<SourceRuntime>,
    /// The splits of all sources, then the outputs of all aggregations, then those of all keyed operators.
    pub(crate) streams: Vec<Stream>,
    pub(crate) aggregations: Vec<Aggregation>,
    pub(crate) operators: Vec<KeyedRuntime>,
    pub(crate) lookups: Vec<Lookup>,
    pub(crate) sinks: Vec<Egress>,
    pub(crate) topology: Topology,
    pub(crate) scheduler: Scheduler,
    pub(crate) flow: Arc<Flow>,
    pub(crate) phases: Phases,
    pub(crate) cuts: Cuts,
    pub(crate) timers: Timers,
    pub(crate) buffer_size: BufferSize,
    pub(crate) life: Life,
    pub(crate) checkpointing: Option<Checkpointing>,
    pub(crate) spilling: Spilling,
    pub(crate) restored_watermarks: RestoredWatermarks,
}

/// Whether and why a query ends.
pub(crate) struct Life {
    pub(crate) sinks_open: AtomicUsize,
    /// No more input is wanted. Set before readers are woken; a reader that misses it reads one chunk more.
    stopping: AtomicBool,
    /// A split has been ended before its end.
    cut_short: AtomicBool,
    /// All sinks are done, or there is a failure.
    over: AtomicBool,
    failure: Mutex<Option<Diagnostic>>,
    readers: Mutex<usize>,
    reader_left: Condvar,
}

impl Life {
    pub(crate) fn new(sinks: usize) -> Life {
        Life {
            sinks_open: AtomicUsize::new(sinks),
            stopping: AtomicBool::new(false),
            cut_short: AtomicBool::new(false),
            over: AtomicBool::new(sinks == 0),
            failure: Mutex::new(None),
            readers: Mutex::new(0),
            reader_left: Condvar::new(),
        }
    }
}

/// The diagnostic of a caught panic.
pub(crate) fn panicked(who: &str, panic: &(dyn Any + Send)) -> Diagnostic {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    Diagnostic::new(code::WORKER_FAILED, format!("{who} panicked: {text}"))
}

/// See [`crate::run`].
pub(crate) fn run(
    input: RunInput,
    config: &RunConfig,
    stats: &Arc<QueryStats>,
    cancel: &CancelToken,
) -> Result<(), Diagnostic> {
    let codes = input.codes();
    stats.programs.begin(codes.all.iter().chain(&codes.spare).cloned().collect());
    let adviser = Adviser::new(codes, input.compiler.clone());
    let compiler = input.compiler.clone();
    let built = catch_unwind(AssertUnwindSafe(|| plan_graph::build(input, config, stats, cancel)));
    let query = Arc::new(built.map_err(|panic| panicked("a connector", &*panic))??);
    stats.begin(Arc::downgrade(&query));
    adviser.prepare(&query);
    let mut threads = Threads::default();
    let result = threads.start(&query, adviser).and_then(|()| {
        query.start();
        query.supervise()
    });
    query.close();
    if !config.adaptivity.measures_operators {
        compiler.iter().for_each(|compiler| compiler.end());
    }
    let checkpointed = threads.join(&query);
    // A checkpoint that could not be completed behind the end of the input must not be passed over.
    let result = result.and(checkpointed).and_then(|()| query.finish());
    // A reader that is stuck keeps the query alive, but must not keep its sinks from cleaning up.
    query.sinks.iter().for_each(|sink| drop(sink.take_sink()));
    query.spilling.end();
    stats.end();
    result
}

impl Query {
    /// Where rows come from that a pipeline makes of those of a stream.
    pub(crate) fn origin(&self, stream: StreamId, pipeline: usize) -> Origin {
        Origin { stream: self.streams[stream].number, pipeline: self.places[pipeline] }
    }

    /// Delivers what needs no reader: constant rows, and the ends of inputs that have no splits.
    fn start(&self) {
        self.raise_restored();
        self.open_phases(self.phases.begin());
        for lookup in 0..self.lookups.len() {
            self.build_if_ended(lookup);
        }
        for aggregation in 0..self.aggregations.len() {
            self.settle(aggregation);
        }
        for operator in 0..self.operators.len() {
            self.settle_operator(operator);
        }
        for sink in 0..self.sinks.len() {
            if let Err(diagnostic) = self.drive(sink) {
                self.fail(diagnostic);
            }
        }
    }

    /// Waits for the end; does meanwhile what is due by time.
    fn supervise(&self) -> Result<(), Diagnostic> {
        while !self.is_over() {
            self.timers.begin();
            let due = catch_unwind(AssertUnwindSafe(|| self.do_due(Instant::now())));
            let next = due.map_err(|panic| panicked("a timer or a sink", &*panic))??;
            self.timers.arm(next);
            let stopping = self.is_stopping();
            let ends_by_checkpoint = self.takes_checkpoints();
            let asked = |state| match state {
                CancelState::Running => false,
                CancelState::Stop => !stopping && !ends_by_checkpoint,
                CancelState::Abort => true,
            };
            let news = |state| self.is_over() || self.timers.is_rearmed() || asked(state);
            match self.cancel.wait(next, news) {
                _ if self.is_over() => {}
                CancelState::Abort => return Err(Diagnostic::new(code::CANCELLED, "the query was aborted")),
                // With checkpoints a stop is one more of them: see `checkpoint_if_due`.
                CancelState::Stop if !stopping && !self.takes_checkpoints() => self.stop(),
                _ => {}
            }
        }
        self.life.failure.lock().take().map_or(Ok(()), Err)
    }

    /// Does what is due now, and tells when something is next.
    fn do_due(&self, now: Instant) -> Result<Option<Instant>, Diagnostic> {
        let mut next = earlier(self.find_idle_splits(now), self.forget_expired(now));
        next = earlier(next, self.follow_clock(now));
        next = earlier(next, self.resume_consumed(now));
        next = earlier(next, self.resume_parked(now));
        next = earlier(next, self.begin_rounds(now));
        next = earlier(next, self.checkpoint_if_due(now)?);
        for sink in 0..self.sinks.len() {
            next = earlier(next, self.flush_if_due(sink, now)?);
        }
        Ok(next)
    }

    /// Something that a timer does is due at a moment; it has been written down.
    pub(crate) fn due_at(&self, at: Instant) {
        if self.timers.is_news(at) {
            self.cancel.wake();
        }
    }

    /// An operator waits for a watermark, which the clock may have to bring.
    pub(crate) fn due_at_watermark(&self, watermark: i64) {
        if self.timers.note(watermark) {
            // In terms of the clock it is due now or later; the supervisor looks.
            self.due_at(Instant::now());
        }
    }

    /// Stops the sources: readers end their splits, and those that are stuck in their connector have it done for them.
    fn stop(&self) {
        self.life.stopping.store(true, Ordering::Release);
        self.flow.open();
        self.phases.wake();
        self.wait_for_readers();
        for (source, runtime) in self.sources.iter().enumerate() {
            for split in 0..runtime.splits.len() {
                self.end_split(source, split, End::Stopped);
            }
        }
    }

    /// Finishes the sinks, if the query has come to its end.
    fn finish(&self) -> Result<(), Diagnostic> {
        let finished = catch_unwind(AssertUnwindSafe(|| {
            if !self.life.cut_short.load(Ordering::Acquire) {
                finish_job(self)?;
            }
            self.sinks.iter().filter_map(Egress::take_sink).try_for_each(|sink| sink.finish())
        }));
        finished.map_err(|panic| panicked("a sink", &*panic))??;
        if self.life.cut_short.load(Ordering::Acquire) {
            return Err(Diagnostic::new(code::CANCELLED, "the query was stopped before the end of its input"));
        }
        Ok(())
    }

    /// Sends all threads home, whatever is left to do.
    fn close(&self) {
        self.life.over.store(true, Ordering::Release);
        self.flow.open();
        self.phases.wake();
        self.spilling.close();
        self.scheduler.close();
    }

    /// Whether sources shall not be read on.
    pub(crate) fn is_stopping(&self) -> bool {
        self.life.stopping.load(Ordering::Acquire) || self.is_over()
    }

    /// Whether nothing is left to do.
    pub(crate) fn is_over(&self) -> bool {
        self.life.over.load(Ordering::Acquire)
    }

    /// Notes that a split was ended before its end.
    pub(crate) fn cut_short(&self) {
        self.life.cut_short.store(true, Ordering::Release);
    }

    /// Ends the query with an error, unless it has one.
    pub(crate) fn fail(&self, diagnostic: Diagnostic) {
        self.life.failure.lock().get_or_insert(diagnostic);
        self.close();
        self.cancel.wake();
    }

    /// A sink has got all that it will get.
    pub(crate) fn sink_done(&self) {
        if self.life.sinks_open.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.life.over.store(true, Ordering::Release);
            self.cancel.wake();
        }
    }

    /// A unit of a stream is ready.
    pub(crate) fn deliver(&self, stream: StreamId, number: u64, mut unit: Unit) {
        for rows in unit.rows.iter_mut().filter(|rows| rows.permit.is_none()) {
            rows.permit = Some(Arc::new(self.flow.hold(bytes_of(&rows.columns))));
        }
        let consequences = self.streams[stream].deliver(number, unit);
        self.act_on(stream, consequences);
        self.resume_next();
    }

    /// Schedules what a change of a stream has made possible.
    pub(crate) fn act_on(&self, stream: StreamId, consequences: Consequences) {
        let Consequences { tasks, releases, error } = consequences;
        if let Some(error) = error {
            return self.fail(error);
        }
        for task in &tasks {
            if let Task::Process(task) = task {
                self.stats.pipelines[self.streams[stream].channels[task.channel].pipeline].schedule();
            }
        }
        self.scheduler.push(tasks);
        for (channel, release) in releases {
            if let Err(diagnostic) = self.release(stream, channel, release) {
                self.fail(diagnostic);
            }
        }
    }

    /// A task of a channel of a stream is done.
    pub(crate) fn finish_task(&self, stream: StreamId, channel: usize, epoch: u64) -> Result<(), Diagnostic> {
        let release = self.streams[stream].finish(channel, epoch);
        release.map_or(Ok(()), |release| self.release(stream, channel, release))
    }

    /// A channel of a stream has released a watermark or ended.
    pub(crate) fn release(&self, stream: StreamId, channel: usize, release: Release) -> Result<(), Diagnostic> {
        let reached = self.streams[stream].channels[channel];
        let first = match self.streams[stream].input {
            PipelineInput::Source(source) => self.sources[source].first_stream(),
            _ => stream,
        };
        self.stats.release(reached.pipeline, stream - first, release.watermark);
        if let (PipelineInput::Source(source), 0) = (self.streams[stream].input, channel) {
            self.stats.release_split(source, stream - first, release.watermark);
            self.flow.advance(stream, release.watermark);
        }
        if let (PipelineInput::Source(source), true) = (self.streams[stream].input, release.ended) {
            self.open_phases(self.phases.finish(self.plan.sources[source].phase));
        }
        match self.plan.pipelines[reached.pipeline].end {
            PipelineEnd::Aggregate { aggregation, .. } => self.release_to(aggregation, reached.port, release),
            PipelineEnd::Sink(sink) => self.release_lane(sink, reached.port, release)?,
            PipelineEnd::Build { lookup } if release.ended => self.end_build(lookup),
            PipelineEnd::Build { .. } => {}
            PipelineEnd::Exchange { operator, .. } => self.release_to_operator(operator, reached.port, release),
        }
        Ok(())
    }

    /// Leaves a channel out of the watermark of what it ends in, or takes it back in; the watermark that has been acted
    /// on there.
    pub(crate) fn set_channel_idle(&self, channel: Channel, idle: bool) -> i64 {
        let set = |mut progress: MutexGuard<'_, Progress>| {
            progress.set_idle(channel.port, idle);
            progress.watermark()
        };
        match self.plan.pipelines[channel.pipeline].end {
            PipelineEnd::Aggregate { aggregation, .. } => {
                let watermark = set(self.aggregations[aggregation].progress());
                self.settle(aggregation);
                watermark
            }
            PipelineEnd::Exchange { operator, .. } => {
                let watermark = set(self.operators[operator].progress());
                self.settle_operator(operator);
                watermark
            }
            PipelineEnd::Sink(_) | PipelineEnd::Build { .. } => i64::MIN,
        }
    }

    /// The watermark that what a channel ends in has acted on.
    pub(crate) fn decided(&self, channel: Channel) -> i64 {
        match self.plan.pipelines[channel.pipeline].end {
            PipelineEnd::Aggregate { aggregation, .. } => self.aggregations[aggregation].progress().watermark(),
            PipelineEnd::Exchange { operator, .. } => self.operators[operator].progress().watermark(),
            PipelineEnd::Sink(_) | PipelineEnd::Build { .. } => i64::MIN,
        }
    }

    /// Waits until no reader is left, for the grace period at most.
    fn wait_for_readers(&self) {
        let mut readers = self.life.readers.lock();
        let patience = Instant::now() + READER_GRACE;
        while *readers > 0 {
            if self.life.reader_left.wait_until(&mut readers, patience).timed_out() {
                return;
            }
        }
    }
}

/// The threads of a query.
#[derive(Default)]
struct Threads {
    adviser: Option<JoinHandle<()>>,
    workers: Vec<JoinHandle<()>>,
    checkpoints: Option<JoinHandle<Result<(), Diagnostic>>>,
    spilling: Option<JoinHandle<()>>,
    readers: Vec<JoinHandle<()>>,
}

impl Threads {
    fn start(&mut self, query: &Arc<Query>, adviser: Adviser) -> Result<(), Diagnostic> {
        if adviser.is_needed(query) {
            let shared = Arc::clone(query);
            self.adviser = Some(spawn("adviser".into(), move || adviser.run(&shared))?);
        }
        if let Some(messages) = query.checkpointing.as_ref().and_then(Checkpointing::listen) {
            let shared = Arc::clone(query);
            self.checkpoints = Some(spawn("checkpoints".into(), move || {
                never_interrupt();
                let written = catch_unwind(AssertUnwindSafe(|| write_checkpoints(&shared, messages)));
                let written = written.unwrap_or_else(|panic| Err(panicked("the checkpointing thread", &*panic)));
                written.inspect_err(|diagnostic| shared.fail(diagnostic.clone()))
            })?);
        }
        if query.spilling.needs_thread() {
            query.flow.expect_spilling();
            let shared = Arc::clone(query);
            self.spilling = Some(spawn("spilling".into(), move || {
                never_interrupt();
                let spilled = catch_unwind(AssertUnwindSafe(|| shared.spill_when_asked()));
                match spilled {
                    Ok(Ok(())) => {}
                    Ok(Err(diagnostic)) => shared.fail(diagnostic),
                    Err(panic) => shared.fail(panicked("the spilling thread", &*panic)),
                }
            })?);
        }
        let cores = if query.config.pin { core_affinity::get_core_ids().unwrap_or_default() } else { Vec::new() };
        for index in 0..query.topology.workers() {
            let fitting = query.topology.core(index).and_then(|id| cores.iter().find(|core| core.id == id));
            let core = fitting.or_else(|| cores.get(index % cores.len().max(1))).copied();
            let shared = Arc::clone(query);
            self.workers.push(spawn(format!("worker-{index}"), move || {
                // A core that cannot be had is no reason not to work.
                let _pinned = core.is_some_and(core_affinity::set_for_current);
                worker::work(&shared, index);
            })?);
        }
        for (source, runtime) in query.sources.iter().enumerate() {
            for reader in 0..runtime.readers {
                *query.life.readers.lock() += 1;
                let shared = Arc::clone(query);
                self.readers.push(spawn(format!("reader-{source}-{reader}"), move || {
                    shared.read(source);
                    *shared.life.readers.lock() -= 1;
                    shared.life.reader_left.notify_all();
                })?);
            }
        }
        Ok(())
    }

    /// Joins all threads, except readers that are stuck in their connector: nothing can interrupt them, but all that
    /// they still do is to find the query over. What is wrong with the last checkpoint is known only then.
    fn join(self, query: &Query) -> Result<(), Diagnostic> {
        if let Some(adviser) = self.adviser {
            adviser.thread().unpark();
            if let Err(panic) = adviser.join() {
                query.fail(panicked("the adviser", &*panic));
            }
        }
        for worker in self.workers {
            if let Err(panic) = worker.join() {
                query.fail(panicked("a worker", &*panic));
            }
        }
        query.checkpointing.iter().for_each(Checkpointing::close);
        let checkpointed = self.checkpoints.map_or(Ok(Ok(())), JoinHandle::join);
        if let Some(Err(panic)) = self.spilling.map(JoinHandle::join) {
            query.fail(panicked("the spilling thread", &*panic));
        }
        query.wait_for_readers();
        for reader in self.readers.into_iter().filter(JoinHandle::is_finished) {
            if let Err(panic) = reader.join() {
                query.fail(panicked("a reader", &*panic));
            }
        }
        checkpointed.unwrap_or_else(|panic| Err(panicked("the checkpointing thread", &*panic)))
    }
}

fn spawn<T: Send + 'static>(
    name: String,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, Diagnostic> {
    thread::Builder::new()
        .name(name)
        .spawn(body)
        .map_err(|e| Diagnostic::new(code::WORKER_FAILED, format!("a thread cannot be started: {e}")))
}
