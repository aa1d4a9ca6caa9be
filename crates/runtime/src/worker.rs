//! Workers: threads that perform tasks, the most urgent first, until the query is over.

use crate::adaptive::signals::hardware_counters::HardwareCounters;
use crate::buffer::Buffer;
use crate::durable::cuts::make_cut;
use crate::pipeline::WorkerContext;
use crate::query::{Query, caught};
use crate::schedule::cut_timing::Purpose;
use crate::schedule::threads::wake_on_time;
use crate::source::pulled::pull;
use crate::station::{DecodeTask, ProcessTask, Task};
use millstream_functions::FunctionContext;
use millstream_state::release_before_sleep;
use millstream_types::Diagnostic;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// The body of a worker thread, on a NUMA node.
pub(crate) fn work(query: &Query, index: usize, node: usize) {
    let host = query.host();
    let mut context = WorkerContext { index, node, functions: FunctionContext::new(host.config.settings.clone()) };
    query.scheduler().enter(index);
    wake_on_time();
    let (stats, mut counters) = (host.stats.worker(index), HardwareCounters::open());
    let mut kept = None;
    while let Some(task) = kept.take().or_else(|| next_task(query, index)) {
        let place = host.config.worker_set.as_ref().map(|set| set.take());
        let (started, rows) = (Instant::now(), task.rows());
        // After a panic the worker's own state may be inconsistent, but the query is over then.
        match caught("a worker", || perform(query, &mut context, task, started)) {
            Ok(next) => {
                kept = next;
                query.spill_if_needed();
                host.flow.overrun().into_iter().for_each(|diagnostic| query.fail(diagnostic));
            }
            Err(diagnostic) => query.fail(diagnostic),
        }
        drop(place);
        stats.count(started.elapsed());
        counters.note(rows, &host.stats.hardware);
    }
}

/// The most urgent task, if there are any before the end. Who has to wait for it gives back what is free of its memory.
fn next_task(query: &Query, worker: usize) -> Option<Task> {
    if query.scheduler().queues.queued() == 0 {
        release_before_sleep();
    }
    query.scheduler().queues.next(worker)
}

/// Performs a task that has been started, and acts on what follows; the task that the worker continues with.
fn perform(
    query: &Query,
    context: &mut WorkerContext,
    task: Task,
    started: Instant,
) -> Result<Option<Task>, Diagnostic> {
    match task {
        Task::Read(pulled) => match pull(query, pulled)? {
            Some(task) => decode(query, context, task, started),
            None => Ok(None),
        },
        Task::Decode(task) => decode(query, context, *task, started),
        Task::Process(task) => {
            process(query, context, &task, started)?;
            Buffer::done(task.buffer);
            Ok(None)
        }
        Task::Perform(station, _, job) => {
            let (station, mut next) = (query.station(station), Some(job));
            while let Some(job) = next {
                let mut consequences = station.perform(job, context)?;
                next = consequences.then.take();
                query.act(consequences);
                if next.is_some() {
                    query.scheduler().queues.call_for_help();
                }
            }
            Ok(None)
        }
    }
}

/// Turns a chunk into a unit of its split. The worker continues with the first of the buffers that are the next of their stream, while
/// their rows are in its cache.
fn decode(
    query: &Query,
    context: &mut WorkerContext,
    task: DecodeTask,
    started: Instant,
) -> Result<Option<Task>, Diagnostic> {
    let (host, source) = (query.host(), task.split.source);
    let (stream, number, plan) = (task.stream, task.unit, &query.plan().sources[source]);
    let unit = query.sources()[source].decode(
        plan,
        task,
        (host, &|| query.scheduler().queues.queued()),
        &mut context.functions,
    )?;
    let buffers = unit.rows.len() as u64;
    let (scheduler, mut kept) = (query.scheduler(), None);
    let may_keep = !scheduler.is_shuffled();
    query.deliver(stream, number, unit, &mut |tasks| {
        let is_first = |task: &Task| matches!(task, Task::Process(task) if task.place.stream == stream);
        if may_keep && kept.is_none() && tasks.first().is_some_and(is_first) && !scheduler.has_urgent() {
            kept = Some(tasks.remove(0));
        }
    });
    if kept.is_some() {
        scheduler.queues.call_for_help();
    }
    if query.cuts().is_due(buffers) {
        make_cut(query, Purpose::Tables);
    }
    host.stats.sources[source].decode_time.record(started.elapsed());
    Ok(kept)
}

/// Runs a pipeline over a buffer.
fn process(query: &Query, context: &mut WorkerContext, task: &ProcessTask, started: Instant) -> Result<(), Diagnostic> {
    let (arrived, station) = query.arrived(task);
    let stats = &query.host().stats.pipelines[arrived.pipeline.number];
    stats.buffers.fetch_add(1, Relaxed);
    stats.rows_in.fetch_add(task.buffer.rows as u64, Relaxed);
    let consequences = station.take(&arrived, context)?;
    stats.task_time.record(started.elapsed());
    query.act(consequences);
    Ok(())
}
