//! The life of a query from start to end: its threads, and the supervisor, which does what is due by time.

use crate::adaptive::Adviser;
use crate::build::{Built, build};
use crate::cancel::{CancelState, CancelToken, aborted};
use crate::config::RunConfig;
use crate::durable::cuts::make_cut;
use crate::durable::restored::Restored;
use crate::durable::spill_thread::spill_when_asked;
use crate::durable::writer::{finish_job, write_checkpoints};
use crate::exchange::{NodeMessage, Nodes, receive_from_nodes, replace_nodes};
use crate::executable_plan::RunInput;
use crate::ids::SplitId;
use crate::life::takes_checkpoints;
use crate::query::{Query, caught, panicked};
use crate::schedule::beats::Beats;
use crate::schedule::cut_timing::Purpose;
use crate::schedule::threads::never_interrupt;
use crate::schedule::timers::{after, earlier};
use crate::schedule::topology::Topology;
use crate::source::open_split::Pulled;
use crate::source::processing_time::machine_time;
use crate::source::reader::{end_split, find_idle_splits, read};
use crate::stats::QueryStats;
use crate::worker;
use millstream_state::set_run;
use millstream_sync::epoch_ring::End;
use millstream_types::{Diagnostic, code};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long the end of a query waits for what other nodes have done.
const REPORTS: Duration = Duration::from_secs(5);

/// Runs a query until the end of its input, until every sink has its `LIMIT`, until the first error, or until it is
/// cancelled.
///
/// `stats` must have been made for the plan, and for this run only. A query that was cancelled returns
/// [`CANCELLED`](millstream_types::code::CANCELLED), after its sinks were finished if it was only asked to stop. On any other error no sink
/// is finished. All threads have ended on return, except readers that are blocked in their connector: these end when
/// their read returns, and touch nothing of the query any more.
pub fn run(
    mut input: RunInput,
    config: &RunConfig,
    stats: &Arc<QueryStats>,
    cancel: &CancelToken,
) -> Result<(), Diagnostic> {
    let nodes = input.nodes.take().map(Arc::new);
    let ended = run_here(input, config, stats, cancel, nodes.clone());
    if let Some(nodes) = nodes {
        // Who is asked to stop is not the reason why others do; but where the rows are not to be seen, theirs are not either.
        let is_aborted = nodes.is_first() && cancel.state() == CancelState::Abort;
        let error = ended.as_ref().err().filter(|error| error.code != code::CANCELLED || is_aborted);
        // The others hear of an error from the first node: if each told all, that would be a message for each pair of nodes.
        if nodes.is_first() {
            nodes.tell_others(|| NodeMessage::Ended(error.cloned()));
        } else if error.is_some() {
            nodes.send(0, NodeMessage::Ended(error.cloned()));
        }
    }
    ended
}

/// The same, but for telling the other nodes.
fn run_here(
    input: RunInput,
    config: &RunConfig,
    stats: &Arc<QueryStats>,
    cancel: &CancelToken,
    nodes: Option<Arc<Nodes>>,
) -> Result<(), Diagnostic> {
    let codes = input.codes();
    stats.programs.begin(codes.all.iter().chain(&codes.spare).cloned().collect());
    let compiler = input.compiler.clone();
    let Built { query, topology, facts } = caught("a connector", || build(input, config, stats, cancel, nodes))?;
    let query = Arc::new(query);
    let _ = stats.checkpoints.are_taken.set(takes_checkpoints(query.plan(), query.host()));
    let adviser = Adviser { codes, compiler: compiler.clone(), facts };
    adviser.prepare(&query);
    let mut threads = Threads::default();
    let result = threads.start(&query, &topology, adviser).and_then(|()| {
        start(&query)?;
        let ended = supervise(&query, &mut threads).and_then(|()| wait_for_all(&query));
        if ended.as_ref().err().is_none_or(|error| error.code == code::SUSPENDED) {
            ask_for_reports(&query);
        }
        ended.and_then(|()| end_together(&query))
    });
    query.close();
    if !config.adaptivity.measures_operators {
        compiler.iter().for_each(|compiler| compiler.end());
    }
    if let Some(nodes) = &query.host().nodes {
        nodes.stop_replacing();
        nodes.close();
    }
    let checkpointed = threads.join(&query);
    // A checkpoint that could not be completed behind the end of the input must not be passed over.
    let result = result.and(checkpointed).and_then(|()| finish(&query));
    // A reader that is stuck keeps the query alive, but must not keep its sinks from cleaning up.
    query.abandon();
    stats.end();
    result.map_err(|diagnostic| cause(&query, diagnostic))
}

/// Completes the checkpoint under way of a query whose rows have all been written, on all nodes: a span of the sinks belongs to it.
fn wait_for_all(query: &Query) -> Result<(), Diagnostic> {
    if query.is_follower() || query.was_cut_short() {
        return Ok(());
    }
    let host = query.host();
    if let Some(nodes) = host.nodes.as_ref().filter(|_| query.plan().sinks.iter().any(|sink| sink.is_on_every_node)) {
        wait_until(query, || nodes.ending.lock().have_all_written())?;
    }
    let Some(checkpointing) = &host.checkpointing else { return Ok(()) };
    wait_until(query, || !checkpointing.is_under_way())
}

/// On the first of several nodes: has the others tell what they have done. Who does not answer soon is not waited for: what it has told
/// before counts.
fn ask_for_reports(query: &Query) {
    let host = query.host();
    let Some(nodes) = host.nodes.as_ref().filter(|nodes| nodes.is_first()) else { return };
    nodes.ask_for_reports();
    let until = Instant::now() + REPORTS;
    let is_done = || host.stats.reports.are_last() || query.has_failed();
    while !is_done() && Instant::now() < until {
        if query.cancel().wait(Some(until), |state| state == CancelState::Abort || is_done()) == CancelState::Abort {
            return;
        }
    }
}

/// On the first node of a job, has the others end, which say how far they have read, and what their sinks have prepared.
fn end_together(query: &Query) -> Result<(), Diagnostic> {
    let host = query.host();
    let nodes = host.nodes.as_ref().filter(|nodes| nodes.is_first() && host.checkpointing.is_some());
    let Some(nodes) = nodes.filter(|_| !query.was_cut_short()) else { return Ok(()) };
    // Locked, so that none of these is lost and replaced meanwhile: one in its place is told when it has all rows.
    nodes.ending.lock().end(!nodes.are_replaced()).for_each(|node| nodes.send(node, NodeMessage::Finish));
    wait_until(query, || nodes.ending.lock().have_finished())
}

/// Waits for something, or the failure of the query. Whoever does it wakes the supervisor.
fn wait_until(query: &Query, is_done: impl Fn() -> bool) -> Result<(), Diagnostic> {
    while !is_done() {
        if let Some(failure) = query.take_failure() {
            return Err(failure);
        }
        let news = |state| state == CancelState::Abort || is_done() || query.has_failed();
        if query.cancel().wait(None, news) == CancelState::Abort {
            return Err(aborted());
        }
    }
    Ok(())
}

/// Why a query has failed. Where another process has taken over its job, that one has removed files that this one had begun, and
/// has the rights to its transactions: errors of reading and writing follow from it.
fn cause(query: &Query, diagnostic: Diagnostic) -> Diagnostic {
    let can_follow = [code::CHECKPOINT_FAILED, code::WRITE_FAILED, code::READ_FAILED, code::FILE_NOT_FOUND];
    let checkpointing = query.host().checkpointing.as_ref().filter(|_| can_follow.contains(&diagnostic.code));
    let Some(checkpointing) = checkpointing else { return diagnostic };
    let checkpoints = &checkpointing.config.checkpoints;
    // A store that does not answer knows nothing better.
    if checkpoints.is_owner().unwrap_or(true) {
        return diagnostic;
    }
    // That of a checkpoint says the same.
    let followed = match diagnostic.code {
        code::CHECKPOINT_FAILED => String::new(),
        _ => format!(" ({})", diagnostic.message),
    };
    let place = checkpoints.store().place();
    let message =
        format!("another process has taken over the job in {place}: what this one wrote last does not count{followed}");
    Diagnostic::new(code::CHECKPOINT_FAILED, message)
        .advise("run a job once only; the other process continues from the last checkpoint")
}

/// Resumes from a checkpoint, if there is one, and delivers what needs no reader.
fn start(query: &Query) -> Result<(), Diagnostic> {
    if let Some(checkpointing) = &query.host().checkpointing
        && let Some(restored) = Restored::new(checkpointing, query.plan())?
    {
        query.raise_restored(&restored);
    }
    query.start();
    Ok(())
}

/// Waits for the end; does meanwhile what is due by time.
fn supervise(query: &Arc<Query>, threads: &mut Threads) -> Result<(), Diagnostic> {
    let (timers, cancel) = (query.timers(), query.cancel());
    let ends_by_checkpoint = takes_checkpoints(query.plan(), query.host());
    while !query.is_over() {
        timers.begin();
        query
            .unpulled()
            .take_stranded()
            .into_iter()
            .try_for_each(|pulled| threads.read(query, pulled.source, Some(pulled)))?;
        let next = caught("a timer or a sink", || do_due(query, Instant::now()))?;
        timers.arm(next);
        let stopping = query.is_stopping();
        let asked = |state| match state {
            CancelState::Running => false,
            CancelState::Stop => !stopping && !ends_by_checkpoint,
            CancelState::Abort => true,
        };
        let news = |state| query.is_over() || timers.is_rearmed() || asked(state);
        match cancel.wait(next, news) {
            _ if query.is_over() => {}
            CancelState::Abort => return Err(aborted()),
            // With checkpoints a stop is one more of them: see `checkpoint_if_due`.
            CancelState::Stop if !stopping && !ends_by_checkpoint => stop(query),
            _ => {}
        }
    }
    query.take_failure().map_or(Ok(()), Err)
}

/// Does what is due now, and tells when something is next.
fn do_due(query: &Query, now: Instant) -> Result<Option<Instant>, Diagnostic> {
    let mut next = earlier(find_idle_splits(query, now), follow_clock(query, now));
    next = earlier(next, query.resume_parked(now));
    next = earlier(next, report_if_due(query, now));
    for station in query.stations() {
        let mut consequences = station.due(now)?;
        // Nobody has to be woken for it: this is the supervisor.
        next = earlier(next, consequences.due.take());
        query.act(consequences);
    }
    if query.cuts().take_asked() {
        let purpose = if query.host().beats.is_some() { Purpose::Beat } else { Purpose::Tables };
        match query.are_phases_open() && make_cut(query, purpose) {
            true => {}
            false => {
                query.cuts().ask();
                next = earlier(next, after(now, 1));
            }
        }
    }
    next = earlier(next, checkpoint_if_due(query, now)?);
    Ok(earlier(next, end_beat_if_due(query, now)))
}

/// Of several nodes: tells the first one what this one has done, if it is time; when to look again. The first one notes its own pace.
fn report_if_due(query: &Query, now: Instant) -> Option<Instant> {
    let (nodes, stats) = (query.host().nodes.as_ref()?, &query.host().stats);
    let (is_due, next) = nodes.is_report_due(now);
    match is_due {
        true if nodes.is_first() => stats.note_pace(),
        true => nodes.report(false, || stats.report(false)),
        false => {}
    }
    Some(next)
}

/// Ends the beat if it is time; when to look again. Who finishes the cut that is on its way wakes the supervisor.
fn end_beat_if_due(query: &Query, now: Instant) -> Option<Instant> {
    let beats = query.host().beats.as_ref()?;
    if beats.is_event_time() {
        return end_beat_of_time(query, beats, now);
    }
    let due = beats.due()?;
    if due > now {
        return Some(due);
    }
    match query.are_phases_open() && make_cut(query, Purpose::Beat) {
        true => None,
        // The first node makes it.
        false if query.is_follower() => None,
        false if query.cuts().is_on_its_way() => None,
        false => after(now, 1),
    }
}

/// Ends the beat of event time if all splits stand at its end; when to look again. Who comes there wakes the supervisor.
fn end_beat_of_time(query: &Query, beats: &Beats, now: Instant) -> Option<Instant> {
    if query.is_follower() {
        if !query.are_phases_open() {
            return after(now, 1);
        }
        if beats.look() {
            query.report_beat_end();
        }
        return None;
    }
    if query.cuts().is_on_its_way() || !query.are_phases_open() || !beats.look() {
        return None;
    }
    query.lowest_at_beat_end()?;
    if !beats.has_begun() {
        query.take_next_beat();
    } else if !make_cut(query, Purpose::Beat) {
        beats.end_at_once();
        return if query.cuts().is_on_its_way() { None } else { after(now, 1) };
    }
    None
}

/// Lets the watermarks of sources without event time follow the clock, if it has reached one that someone waits for;
/// when it will reach the next.
fn follow_clock(query: &Query, now: Instant) -> Option<Instant> {
    let due = query.timers().clock_due(machine_time());
    if due.reached {
        for split in query.sources().iter().filter(|s| s.follows_clock).flat_map(|s| &s.splits) {
            query.act(query.stream(split.stream).tick());
        }
    }
    due.next_ms.and_then(|ms| after(now, ms))
}

/// Begins a checkpoint when it is time or someone has asked for one; when to look again.
fn checkpoint_if_due(query: &Query, now: Instant) -> Result<Option<Instant>, Diagnostic> {
    let takes_checkpoints = takes_checkpoints(query.plan(), query.host()) && !query.is_follower();
    let Some(checkpointing) = query.host().checkpointing.as_ref().filter(|_| takes_checkpoints) else {
        return Ok(None);
    };
    let asked = (query.cancel().checkpoints(), query.cancel().state() == CancelState::Stop);
    let may_cut = || query.are_phases_open() && query.may_checkpoint(asked.1, now);
    let cut = || may_cut() && make_cut(query, Purpose::Checkpoint);
    let (next, has_begun) = checkpointing.begin_if_due(now, asked, cut)?;
    if has_begun {
        query.host().stats.checkpoints.counts.lock().begun += 1;
    }
    Ok(next)
}

/// Stops the sources: readers end their splits, and those that are stuck in their connector have it done for them. What is held until
/// all rows have come is given up.
fn stop(query: &Query) {
    query.stop_readers();
    for station in query.stations() {
        if station.stop() {
            query.cut_short();
        }
    }
    for (source, runtime) in query.sources().iter().enumerate() {
        for split in 0..runtime.splits.len() {
            end_split(query, SplitId { source, split }, End::Stopped);
        }
    }
}

/// Finishes the sinks, if the query has come to its end.
fn finish(query: &Query) -> Result<(), Diagnostic> {
    caught("a sink", || {
        if !query.was_cut_short() {
            finish_job(query)?;
        }
        if query.is_follower() && query.host().checkpointing.is_some() {
            // The first node makes visible what is prepared here, for all.
            return Ok(());
        }
        query.stations().iter().try_for_each(|station| station.finish())
    })?;
    if query.was_cut_short() {
        return Err(Diagnostic::new(code::CANCELLED, "the query was stopped before the end of its input"));
    }
    Ok(())
}

/// The threads of a query.
#[derive(Default)]
struct Threads {
    adviser: Option<JoinHandle<()>>,
    workers: Vec<JoinHandle<()>>,
    checkpoints: Option<JoinHandle<Result<(), Diagnostic>>>,
    spilling: Option<JoinHandle<()>>,
    receiving: Option<JoinHandle<()>>,
    replacing: Option<JoinHandle<()>>,
    readers: Vec<JoinHandle<()>>,
}

impl Threads {
    fn start(&mut self, query: &Arc<Query>, topology: &Topology, adviser: Adviser) -> Result<(), Diagnostic> {
        if adviser.is_needed(query) {
            self.adviser = Some(spawn("adviser".into(), query, move |query| {
                never_interrupt();
                adviser.run(query);
            })?);
        }
        if let Some(messages) = query.host().checkpointing.as_ref().and_then(|checkpointing| checkpointing.listen()) {
            self.checkpoints = Some(spawn("checkpoints".into(), query, move |query| {
                never_interrupt();
                let written = caught("the checkpointing thread", || write_checkpoints(query, messages));
                written.inspect_err(|diagnostic| query.fail(diagnostic.clone()))
            })?);
        }
        if query.host().nodes.is_some() {
            self.receiving = Some(spawn("exchange".into(), query, |query| {
                let received = caught("the exchange", || receive_from_nodes(query));
                received.unwrap_or_else(|diagnostic| query.fail(diagnostic));
            })?);
        }
        if query.host().nodes.as_ref().is_some_and(|nodes| nodes.are_replaced()) {
            self.replacing = Some(spawn("replacements".into(), query, |query| {
                let replaced = caught("whoever replaces nodes", || replace_nodes(query));
                replaced.unwrap_or_else(|diagnostic| query.fail(diagnostic));
            })?);
        }
        if query.host().spilling.needs_thread() {
            query.host().flow.expect_spilling();
            self.spilling = Some(spawn("spilling".into(), query, |query| {
                never_interrupt();
                let spilled = caught("the spilling thread", || spill_when_asked(query));
                spilled.unwrap_or_else(|diagnostic| query.fail(diagnostic));
            })?);
        }
        let cores =
            if query.host().config.pin { core_affinity::get_core_ids().unwrap_or_default() } else { Vec::new() };
        for index in 0..topology.nodes.len() {
            let fitting = topology.cores[index].and_then(|id| cores.iter().find(|core| core.id == id));
            let core = fitting.or_else(|| cores.get(index % cores.len().max(1))).copied();
            let node = topology.nodes[index];
            self.workers.push(spawn(format!("worker-{index}"), query, move |query| {
                // A core that cannot be had must not stop the worker.
                let _pinned = core.is_some_and(core_affinity::set_for_current);
                worker::work(query, index, node);
            })?);
        }
        for (source, runtime) in query.sources().iter().enumerate().filter(|(_, runtime)| !runtime.is_pulled) {
            (0..runtime.readers).try_for_each(|_| self.read(query, source, None))?;
        }
        Ok(())
    }

    /// Starts a thread that reads splits of a source; the first is one that workers have begun to read.
    fn read(&mut self, query: &Arc<Query>, source: usize, begun: Option<Pulled>) -> Result<(), Diagnostic> {
        query.reader_came();
        let name = format!("reader-{source}-{}", self.readers.len());
        self.readers.push(spawn(name, query, move |query| {
            read(query, source, begun);
            query.reader_left();
        })?);
        Ok(())
    }

    /// Joins all threads, except readers that are stuck in their connector: nothing can interrupt them, but all that
    /// they still do is to find the query over. What is wrong with the last checkpoint is known only then.
    fn join(self, query: &Query) -> Result<(), Diagnostic> {
        let join = |who: &str, thread: JoinHandle<()>| {
            if let Err(panic) = thread.join() {
                query.fail(panicked(who, &*panic));
            }
        };
        self.adviser.iter().for_each(|adviser| adviser.thread().unpark());
        self.adviser.into_iter().for_each(|adviser| join("the adviser", adviser));
        self.workers.into_iter().for_each(|worker| join("a worker", worker));
        query.host().checkpointing.iter().for_each(|checkpointing| checkpointing.close());
        let checkpointed = self.checkpoints.map_or(Ok(Ok(())), JoinHandle::join);
        self.spilling.into_iter().for_each(|spilling| join("the spilling thread", spilling));
        self.replacing.into_iter().for_each(|replacing| join("whoever replaces nodes", replacing));
        self.receiving.into_iter().for_each(|receiving| join("the exchange", receiving));
        query.wait_for_readers();
        let readers = self.readers.into_iter().filter(JoinHandle::is_finished);
        readers.for_each(|reader| join("a reader", reader));
        checkpointed.unwrap_or_else(|panic| Err(panicked("the checkpointing thread", &*panic)))
    }
}

fn spawn<T: Send + 'static>(
    name: String,
    query: &Arc<Query>,
    body: impl FnOnce(&Query) -> T + Send + 'static,
) -> Result<JoinHandle<T>, Diagnostic> {
    let query = Arc::clone(query);
    let thread = thread::Builder::new().name(name).spawn(move || {
        // What folds states of the program is one of this run, whichever thread does it.
        set_run(query.host().config.settings.run);
        body(&query)
    });
    thread.map_err(|e| Diagnostic::new(code::WORKER_FAILED, format!("a thread cannot be started: {e}")))
}
