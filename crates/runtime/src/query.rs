//! A running query: its parts, its life, and the one loop that acts on what follows from their changes.
//!
//! ```text
//! reader ─► stream ─► task ─► worker: station.take / station.perform ─► Consequences ─┐
//!             ▲                                                                       ▼
//!             └───────────────────────── deliveries, releases, tasks ◄────────── Query::act
//! ```
//!
//! Locks, in the order in which one thread may hold several: a split's reading progress, then one of {a stream, a station's
//! own, a queue of tasks, the flow}. Whoever acts on consequences holds none but perhaps the first.

mod beats;

use crate::cancel::CancelToken;
use crate::columns::bytes_of;
use crate::durable::checkpointing::Handed;
use crate::durable::restored::Restored;
use crate::exchange::{AtBeatEnd, NodeMessage};
use crate::host::Host;
use crate::ids::{Generation, StationId, StreamId};
use crate::life::Life;
use crate::pipeline::{Arrived, Pipeline};
use crate::pipeline_stages::Origin;
use crate::schedule::cut_timing::Cuts;
use crate::schedule::flow::Others;
use crate::schedule::parking::Parking;
use crate::schedule::scheduler::Scheduler;
use crate::schedule::timers::Timers;
use crate::schedule::unpulled::Unpulled;
use crate::source::SourceRuntime;
use crate::source::open_split::Pulled;
use crate::source::phases::Phases;
use crate::station::{Consequences, ProcessTask, Station, Task};
use crate::stream::sequencer::Unit;
use crate::stream::{Feed, Stream};
use millstream_plan::pipeline::QueryPlan;
use millstream_state::release_if_asked;
use millstream_sync::epoch_ring::Release;
use millstream_types::{Diagnostic, code};
use parking_lot::Mutex;
use std::any::Any;
use std::cell::Cell;
use std::collections::VecDeque;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long the end of a query waits for readers that are inside their connector.
const READER_GRACE: Duration = Duration::from_millis(500);

/// What rows flow through: sources, streams, pipelines, stations.
pub(crate) struct Graph {
    pub(crate) plan: QueryPlan,
    pub(crate) sources: Vec<SourceRuntime>,
    /// The splits of all sources, then the outputs of stations.
    pub(crate) streams: Vec<Arc<Stream>>,
    pub(crate) pipelines: Vec<Pipeline>,
    pub(crate) stations: Vec<Arc<dyn Station>>,
}

/// See the module.
pub(crate) struct Query {
    host: Arc<Host>,
    graph: Graph,
    scheduler: Arc<Scheduler>,
    parking: Parking,
    unpulled: Arc<Unpulled>,
    phases: Phases,
    cuts: Cuts,
    timers: Timers,
    cancel: CancelToken,
    life: Life,
    pub(crate) beat_ends: Mutex<BeatEnds>,
}

/// What is known of the end of the beat of event time.
pub(crate) struct BeatEnds {
    /// Beats that have been taken.
    pub(crate) taken: u64,
    /// On the first of several nodes, for each of the others: what it has said, if all its splits stand at the end.
    pub(crate) of_others: Vec<Option<AtBeatEnd>>,
}

thread_local! {
    /// What is to be acted on, while nothing is: its memory is used again.
    static PENDING: Cell<VecDeque<Consequences>> = const { Cell::new(VecDeque::new()) };
}

/// The diagnostic of a caught panic.
pub(crate) fn panicked(who: &str, panic: &(dyn Any + Send)) -> Diagnostic {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    Diagnostic::new(code::WORKER_FAILED, format!("{who} panicked: {text}"))
}

/// Does something that may panic; a panic is its error.
pub(crate) fn caught<T>(who: &str, does: impl FnOnce() -> Result<T, Diagnostic>) -> Result<T, Diagnostic> {
    catch_unwind(AssertUnwindSafe(does)).unwrap_or_else(|panic| Err(panicked(who, &*panic)))
}

impl Query {
    /// Of parts that fit together. Nothing runs yet.
    pub(crate) fn new(
        host: Arc<Host>,
        graph: Graph,
        scheduler: Arc<Scheduler>,
        phases: Phases,
        timers: Timers,
        cancel: CancelToken,
    ) -> Query {
        let life = Life::of(&graph.plan, &host);
        let cuts = Cuts::new(host.config.cut_every);
        let others = host.nodes.as_ref().filter(|nodes| nodes.is_first()).map_or(0, |nodes| nodes.count - 1);
        let beat_ends = Mutex::new(BeatEnds { taken: 0, of_others: vec![None; others] });
        let unpulled = Arc::new(Unpulled::new(&scheduler));
        let freed = Arc::clone(&unpulled);
        host.flow.call_when_freed(move || freed.try_again());
        let parking = Parking::default();
        Query { host, graph, scheduler, parking, unpulled, phases, cuts, timers, cancel, life, beat_ends }
    }

    /// What the parts work with.
    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    /// What runs.
    pub(crate) fn plan(&self) -> &QueryPlan {
        &self.graph.plan
    }

    /// One for each of the plan.
    pub(crate) fn sources(&self) -> &[SourceRuntime] {
        &self.graph.sources
    }

    /// Where pipelines end.
    pub(crate) fn stations(&self) -> &[Arc<dyn Station>] {
        &self.graph.stations
    }

    /// One of them, if another node has said which.
    pub(crate) fn find_station(&self, id: StationId) -> Option<&dyn Station> {
        self.graph.stations.get(id.index()).map(|station| &**station)
    }

    /// One of them.
    pub(crate) fn station(&self, id: StationId) -> &dyn Station {
        &*self.graph.stations[id.index()]
    }

    /// What enters in one order.
    pub(crate) fn stream(&self, id: StreamId) -> &Stream {
        &self.graph.streams[id.index()]
    }

    /// The queues of tasks.
    pub(crate) fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// Splits that no worker may read on.
    pub(crate) fn unpulled(&self) -> &Unpulled {
        &self.unpulled
    }

    /// Where generations begin.
    pub(crate) fn cuts(&self) -> &Cuts {
        &self.cuts
    }

    /// When the supervisor wakes up.
    pub(crate) fn timers(&self) -> &Timers {
        &self.timers
    }

    /// What was asked of the query.
    pub(crate) fn cancel(&self) -> &CancelToken {
        &self.cancel
    }

    /// The buffer of a task, as the station at the end of its pipeline sees it; and that station.
    pub(crate) fn arrived<'a>(&'a self, task: &'a ProcessTask) -> (Arrived<'a>, &'a dyn Station) {
        let stream = self.stream(task.place.stream);
        let channel = stream.channels[task.place.channel];
        let pipeline = &self.graph.pipelines[channel.pipeline];
        let arrived = Arrived {
            pipeline,
            buffer: &task.buffer,
            place: task.place,
            port: channel.port,
            origin: Origin { stream: stream.number, pipeline: pipeline.place },
            is_derived: matches!(stream.feed, Feed::Station(_)),
        };
        (arrived, self.station(channel.station))
    }

    /// Acts on consequences, and on what follows from them in turn, until nothing does. [`Consequences::then`] is the caller's.
    /// By a queue: at the end of an empty input a thousand windows over windows end within one call.
    pub(crate) fn act(&self, consequences: Consequences) {
        self.act_for(consequences, &mut |_| {});
    }

    /// The same for a worker, which may `keep` tasks to do itself: it takes them out.
    pub(crate) fn act_for(&self, consequences: Consequences, keep: &mut dyn FnMut(&mut Vec<Task>)) {
        let mut pending = PENDING.take();
        self.act_once(consequences, &mut pending, keep);
        while let Some(consequences) = pending.pop_front() {
            self.act_once(consequences, &mut pending, keep);
        }
        PENDING.set(pending);
    }

    /// Delivers a unit that a worker has made of a chunk, and acts on what follows.
    pub(crate) fn deliver(&self, stream: StreamId, number: u64, unit: Unit, keep: &mut dyn FnMut(&mut Vec<Task>)) {
        self.act_for(self.stream(stream).deliver(number, unit), keep);
        self.resume_next();
    }

    /// A unit has been delivered: a task that has waited for it to be the next may go on.
    fn resume_next(&self) {
        if self.parking.has_next() {
            self.resume_parked(Instant::now());
        }
    }

    /// Acts on consequences; what follows from them is added to `next`.
    fn act_once(
        &self,
        consequences: Consequences,
        next: &mut VecDeque<Consequences>,
        keep: &mut dyn FnMut(&mut Vec<Task>),
    ) {
        let Consequences { mut tasks, parked, mut deliveries, mut releases, mut finished, due, awaited, .. } =
            consequences;
        let Consequences { cuts, ends_beat, phases, sinks_done, held, error, .. } = consequences;
        if let Some(error) = error {
            return self.fail(error);
        }
        for task in &tasks {
            if let Task::Process(ProcessTask { place, .. }) = task {
                let channel = self.stream(place.stream).channels[place.channel];
                self.host.stats.pipelines[channel.pipeline].schedule();
            }
        }
        keep(&mut tasks);
        self.scheduler.push(&mut tasks);
        [due, self.parking.park(parked)].into_iter().flatten().for_each(|at| self.due_at(at));
        // In terms of the clock they are due now or later; the supervisor looks.
        if awaited.into_iter().fold(false, |is_news, watermark| self.timers.note(watermark) | is_news) {
            self.due_at(Instant::now());
        }
        let has_deliveries = !deliveries.is_empty();
        for (stream, number, mut unit) in deliveries.drain(..) {
            for rows in unit.rows.iter_mut().filter(|rows| rows.permit.is_none()) {
                rows.permit = Some(Arc::new(self.host.flow.hold(bytes_of(&rows.columns))));
            }
            next.push_back(self.stream(stream).deliver(number, unit));
        }
        if has_deliveries {
            self.resume_next();
        }
        for place in finished.drain(..) {
            if let Some(release) = self.stream(place.stream).finish(place.channel, place.epoch) {
                self.release(place.stream, place.channel, release, next);
            }
        }
        for (stream, channel, release) in releases.drain(..) {
            self.release(stream, channel, release, next);
        }
        for phase in phases {
            self.open_phases(self.phases.finish(phase), next);
        }
        if let (true, Some(beats)) = (ends_beat, &self.host.beats) {
            self.due_at(beats.end_at_once());
        }
        if cuts > 0 {
            if self.cuts.reached(cuts) {
                self.host.nodes.iter().filter(|nodes| !nodes.is_first()).for_each(|nodes| nodes.cut_passed());
            }
            self.next_beat();
        }
        (0..sinks_done).for_each(|_| self.sink_done());
        drop(held);
        Consequences::recycle(Consequences { tasks, finished, deliveries, releases, ..Consequences::default() });
    }

    /// A channel of a stream has released a watermark or ended.
    fn release(&self, stream: StreamId, channel: usize, release: Release, next: &mut VecDeque<Consequences>) {
        let (stats, from) = (&self.host.stats, self.stream(stream));
        let reached = from.channels[channel];
        match from.feed {
            Feed::Split(id) => {
                stats.release(reached.pipeline, id.split, release.watermark);
                if channel == 0 {
                    stats.release_split(id, release.watermark);
                    self.host.flow.advance(stream, release.watermark);
                }
                if release.ended {
                    let opened = self.phases.finish(self.graph.plan.sources[id.source].phase);
                    self.open_phases(opened, next);
                }
            }
            Feed::Station(_) => stats.release(reached.pipeline, 0, release.watermark),
        }
        next.push_back(self.station(reached.station).release(reached.port, release));
    }

    /// Lets the sources of some phases begin; constant rows are there at once.
    fn open_phases(&self, phases: Range<usize>, next: &mut VecDeque<Consequences>) {
        for (number, source) in self.graph.sources.iter().enumerate() {
            if !phases.contains(&self.graph.plan.sources[number].phase) {
                continue;
            }
            let mut consequences = Consequences::default();
            if source.is_pulled {
                consequences.tasks.extend((0..source.readers).map(|_| Task::Read(Pulled::new(number))));
            }
            let unit = source.constant_unit(number, &self.host);
            if let (Some(Some(unit)), Some(stream)) = (consequences.note(unit), source.first_stream()) {
                consequences.deliver(stream, 0, unit);
            }
            next.push_back(consequences);
        }
    }

    /// Hands something over for a checkpoint.
    pub(crate) fn hand_over(&self, checkpoint: u64, handed: Handed) {
        if let Some(checkpointing) = &self.host.checkpointing {
            checkpointing.send(checkpoint, handed);
        }
    }

    /// Resumes parked tasks that need not wait any more; when to look for the others.
    pub(crate) fn resume_parked(&self, now: Instant) -> Option<Instant> {
        let (mut tasks, next) = self.parking.resume(now, &self.host, &self.graph.streams);
        self.scheduler.push(&mut tasks);
        next
    }

    /// The supervisor has something to do.
    pub(crate) fn wake_supervisor(&self) {
        self.due_at(Instant::now());
    }

    /// Something that a timer does is due at a moment; it has been written down.
    pub(crate) fn due_at(&self, at: Instant) {
        if self.timers.is_news(at) {
            self.cancel.wake();
        }
    }

    /// Wakes the spilling thread if there is too much state; asked for after every task.
    pub(crate) fn spill_if_needed(&self) {
        self.host.flow.budget.measure(false);
        release_if_asked();
        self.host.spilling.wake_if_needed();
    }

    /// Has every stream of a recovered query resume from the watermark that it had.
    pub(crate) fn raise_restored(&self, restored: &Restored<'_>) {
        for stream in &self.graph.streams {
            let Feed::Split(id) = stream.feed else { continue };
            let name = self.graph.sources[id.source].splits[id.split].name();
            let Some(watermark) = restored.watermark(id.source, &name) else { continue };
            // A split that was silent, or is new, comes after what was decided without it.
            let decided = stream.channels.iter().map(|channel| self.station(channel.station).watermark()).max();
            self.act(stream.raise(watermark.max(decided.unwrap_or(i64::MIN))));
        }
        for (stream, watermark) in self.graph.stations.iter().filter_map(|station| station.output()) {
            // The end of what has ended comes with its end.
            if watermark < i64::MAX {
                self.act(self.stream(stream).raise(watermark));
            }
        }
    }

    /// Delivers what needs no reader: constant rows, and the ends of inputs that have no splits.
    pub(crate) fn start(&self) {
        let mut opened = VecDeque::new();
        self.open_phases(self.phases.begin(), &mut opened);
        opened.into_iter().for_each(|consequences| self.act(consequences));
        self.graph.stations.iter().for_each(|station| self.act(station.settle()));
        if self.is_follower() {
            // It may have no split that comes to the end of a beat.
            self.look_at_beat();
        }
        // A result of no rows is there from the end of the first beat on.
        if let Some(beats) = &self.host.beats {
            beats.came(Generation::default(), 0).into_iter().for_each(|at| self.due_at(at));
        }
    }

    /// Whether another node leads.
    pub(crate) fn is_follower(&self) -> bool {
        self.host.nodes.as_ref().is_some_and(|nodes| !nodes.is_first())
    }

    /// Waits until all phases are open, or the query is over.
    pub(crate) fn wait_for_all_phases(&self) {
        self.phases.wait_for_all(|| self.is_over());
    }

    /// Another node has ended, and this one with it.
    pub(crate) fn end_with_another(&self) {
        self.close();
        self.cancel.wake();
    }

    /// Whether all phases are open: what is looked up is there.
    pub(crate) fn are_phases_open(&self) -> bool {
        self.phases.are_open()
    }

    /// Waits until a source may be read, or the query ends.
    pub(crate) fn wait_for_phase_of(&self, source: usize) {
        self.phases.wait(self.graph.plan.sources[source].phase, || self.is_stopping());
    }

    /// Whether sources shall not be read on.
    pub(crate) fn is_stopping(&self) -> bool {
        self.life.stopping.load(Ordering::Acquire) || self.is_over()
    }

    /// Has readers end their splits, and waits for them for a while.
    pub(crate) fn stop_readers(&self) {
        self.life.stopping.store(true, Ordering::Release);
        self.host.flow.open();
        self.phases.wake();
        self.wait_for_readers();
    }

    /// A reader begins.
    pub(crate) fn reader_came(&self) {
        *self.life.readers.lock() += 1;
    }

    /// A reader has ended.
    pub(crate) fn reader_left(&self) {
        *self.life.readers.lock() -= 1;
        self.life.reader_left.notify_all();
    }

    /// Waits until no reader is left, for the grace period at most.
    pub(crate) fn wait_for_readers(&self) {
        let mut readers = self.life.readers.lock();
        let patience = Instant::now() + READER_GRACE;
        while *readers > 0 {
            if self.life.reader_left.wait_until(&mut readers, patience).timed_out() {
                return;
            }
        }
    }

    /// Notes that a split was ended before its end.
    pub(crate) fn cut_short(&self) {
        self.life.cut_short.store(true, Ordering::Release);
    }

    /// Whether one was.
    pub(crate) fn was_cut_short(&self) -> bool {
        self.life.cut_short.load(Ordering::Acquire)
    }

    /// Whether nothing is left to do.
    pub(crate) fn is_over(&self) -> bool {
        self.life.over.load(Ordering::Acquire)
    }

    /// A sink has got all that it will get.
    fn sink_done(&self) {
        match self.life.sinks_open.fetch_sub(1, Ordering::AcqRel) {
            1 => {
                self.life.over.store(true, Ordering::Release);
                self.cancel.wake();
            }
            2 if self.is_follower() => self.say_all_written(),
            _ => {}
        }
    }

    /// On the first node: all others have written all rows.
    pub(crate) fn others_have_written(&self) {
        if self.life.waits_for_others.swap(false, Ordering::AcqRel) {
            self.sink_done();
        }
    }

    /// Tells the first node that all rows of this one have been written.
    fn say_all_written(&self) {
        self.host.nodes.iter().for_each(|nodes| nodes.send(0, NodeMessage::AllWritten));
    }

    /// Ends the query with an error, unless it has one.
    pub(crate) fn fail(&self, diagnostic: Diagnostic) {
        self.life.failure.lock().get_or_insert(diagnostic);
        self.close();
        self.cancel.wake();
    }

    /// Whether an error has ended the query.
    pub(crate) fn has_failed(&self) -> bool {
        self.life.failure.lock().is_some()
    }

    /// The error that has ended the query.
    pub(crate) fn take_failure(&self) -> Option<Diagnostic> {
        self.life.failure.lock().take()
    }

    /// Sends all threads home, whatever is left to do.
    pub(crate) fn close(&self) {
        self.life.over.store(true, Ordering::Release);
        self.host.flow.open();
        self.phases.wake();
        self.host.spilling.close();
        self.scheduler.queues.close();
    }

    /// Lets go what is held outside of the process. No thread is at work any more, but for readers that are stuck.
    pub(crate) fn abandon(&self) {
        self.graph.stations.iter().for_each(|station| station.abandon());
        self.parking.clear();
        self.host.spilling.end();
    }
}

impl Others for Query {
    fn are_at_rest(&self) -> bool {
        self.scheduler.is_at_rest()
    }

    fn spill(&self) {
        self.spill_if_needed();
    }
}
