//! Statements that run in the background.

use crate::monitor::{Outcome, RunMonitor};
use crate::planned::PreparedRun;
use crate::restart::{RestartStrategy, Restarts};
use crate::results::{ResultTarget, batch_sink};
use arrow_array::RecordBatch;
use millstream_connectors::Sink;
use millstream_runtime::{CancelState, StatsSnapshot};
use millstream_types::{Diagnostic, Schema, code};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Batches of the result that wait to be taken, at most. A query that has made more waits, and its readers with it.
const BATCHES: usize = 8;
/// A consumer that has waited for a batch takes so many at once, if they come within [`LINGER`]: to be woken for each costs it more than to
/// take it.
const AT_ONCE: usize = 4;
/// See there.
const LINGER: Duration = Duration::from_millis(1);
/// How soon a query that waits looks whether it was cancelled.
const LOOK: Duration = Duration::from_millis(20);

/// A query, an insert or a statement set that runs in the background.
///
/// ```no_run
/// # use millstream::{Session, SessionConfig};
/// # let mut session = Session::new(SessionConfig::default());
/// let statement = &session.parse("SELECT auction, price FROM bid WHERE price > 100")?[0];
/// let job = session.submit(statement)?;
/// while let Some(batch) = job.next_batch() {
///     println!("{} rows", batch.num_rows());
/// }
/// job.wait()?;
/// # Ok::<(), millstream::Diagnostic>(())
/// ```
///
/// A job that is dropped is cancelled.
#[derive(Debug)]
pub struct Job {
    monitor: Arc<RunMonitor>,
    results: Arc<Channel>,
    /// Batches that were taken from there, the next one first.
    taken: Mutex<VecDeque<RecordBatch>>,
    thread: Option<JoinHandle<()>>,
}

/// Plans a run once more.
pub(crate) type Again = dyn FnMut() -> Result<PreparedRun, Diagnostic> + Send;

/// What [`Job::next_batch_within`] gives.
#[derive(Debug)]
pub enum Next {
    /// A batch.
    Batch(RecordBatch),
    /// There are no more: [`Job::wait`] says why.
    End,
    /// There is none yet.
    Waiting,
}

/// The result on its way.
#[derive(Debug, Default)]
struct Channel {
    waiting: Mutex<WaitingBatches>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct WaitingBatches {
    schema: Option<Schema>,
    batches: VecDeque<RecordBatch>,
    /// How many of them whoever waits for batches waits for.
    wanted: usize,
    /// No more come.
    has_ended: bool,
    /// How it has ended, until somebody takes that.
    end: Option<Result<Outcome, Diagnostic>>,
    /// Nobody takes any.
    is_discarded: bool,
}

/// Ends a job, or waits for its end, whoever has it. It does not keep it running.
#[derive(Debug, Clone)]
pub struct JobHandle {
    monitor: Arc<RunMonitor>,
    results: Arc<Channel>,
}

impl JobHandle {
    /// The number of the run: see [`RunMonitor::run`].
    pub fn run(&self) -> u64 {
        self.monitor.run()
    }

    /// See [`Job::cancel`].
    pub fn cancel(&self) {
        self.monitor.cancel().abort();
    }

    /// See [`Job::has_ended`].
    pub fn has_ended(&self) -> bool {
        self.results.lock().has_ended
    }

    /// See [`Job::wait_within`].
    pub fn wait_within(&self, patience: Duration) -> bool {
        let until = |waiting: &mut WaitingBatches| !waiting.has_ended;
        let waiting = self.results.changed.wait_timeout_while(self.results.lock(), patience, until);
        waiting.unwrap_or_else(PoisonError::into_inner).0.has_ended
    }
}

impl PreparedRun {
    /// Runs it in the background.
    pub fn submit(self) -> Result<Job, Diagnostic> {
        let never = || Err(Diagnostic::bug("a run that is not restarted was planned again"));
        Job::start(self, Restarts::none(), Box::new(never))
    }

    /// Runs an insert in the background, and again after outages, as `strategy` says. `job` gives the same run its job once more
    /// ([`Session::with_job_again`](crate::Session::with_job_again)).
    pub fn submit_resuming(
        self,
        strategy: RestartStrategy,
        mut job: impl FnMut(PreparedRun) -> Result<PreparedRun, Diagnostic> + Send + 'static,
    ) -> Result<Job, Diagnostic> {
        let restarts = strategy.restarts(self.keeps_checkpoints());
        let mut kept = self.clone();
        // The job is that of the run until it ends.
        kept.state = None;
        Job::start(self, restarts, Box::new(move || job(kept.clone())))
    }
}

impl Job {
    /// Starts a run, which `again` plans once more after an outage, as often as `restarts` says.
    pub(crate) fn start(run: PreparedRun, mut restarts: Restarts, mut again: Box<Again>) -> Result<Job, Diagnostic> {
        let (monitor, results) = (run.monitor(), Arc::<Channel>::default());
        let (watched, mut target) = (Arc::clone(&monitor), ChannelTarget(Arc::clone(&results), Arc::clone(&monitor)));
        let body = move || {
            let ends = Ends(Arc::clone(&target.0));
            let mut next = Ok(run);
            let end = loop {
                let began = Instant::now();
                let end = next.and_then(|run| run.run(&mut target, &watched));
                let Err(failure) = &end else { break end };
                let Some(delay) = restarts.after(failure.code, began.elapsed(), Instant::now()) else { break end };
                let (count, seconds) = (restarts.count(), delay.as_secs_f64());
                watched.notice(format!("{} {}; restart {count} in {seconds:.1} s", failure.code, failure.message));
                if watched.cancel().pause(delay) != CancelState::Running {
                    break end;
                }
                next = again();
            };
            ends.0.lock().end = Some(end);
        };
        let thread = thread::Builder::new().name("job".into()).spawn(body);
        let thread =
            thread.map_err(|e| Diagnostic::new(code::WORKER_FAILED, format!("a thread cannot be started: {e}")))?;
        Ok(Job { monitor, results, taken: Mutex::default(), thread: Some(thread) })
    }

    /// What it does, and what it has to tell.
    pub fn monitor(&self) -> &RunMonitor {
        &self.monitor
    }

    /// Its statistics, once it has begun.
    pub fn stats(&self) -> Option<StatsSnapshot> {
        self.monitor.stats().map(|stats| stats.snapshot())
    }

    /// Asks for a checkpoint; without a state directory nothing happens.
    pub fn checkpoint(&self) {
        self.monitor.cancel().checkpoint();
    }

    /// Asks it to end in good order: with a checkpoint if it has any, otherwise with what was read.
    pub fn stop(&self) {
        self.monitor.cancel().stop();
    }

    /// Asks it to end at once.
    pub fn cancel(&self) {
        self.monitor.cancel().abort();
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.results.lock().has_ended
    }

    /// Waits for its end, for `patience` at most; whether it has ended. A SELECT ends only when its batches are taken.
    pub fn wait_within(&self, patience: Duration) -> bool {
        self.handle().wait_within(patience)
    }

    /// For whoever may end it without having it.
    pub fn handle(&self) -> JobHandle {
        JobHandle { monitor: Arc::clone(&self.monitor), results: Arc::clone(&self.results) }
    }

    /// What is to be told of its end, if it ended without running: that it had come to its end before.
    pub fn note(&self) -> Option<String> {
        match self.results.lock().end.as_ref()? {
            Ok(Outcome::Done(text)) => Some(text.clone()),
            _ => None,
        }
    }

    /// Why it has failed, or ended before its input had; `None` while it runs, and when nothing was wrong.
    pub fn failure(&self) -> Option<Diagnostic> {
        self.results.lock().end.as_ref()?.as_ref().err().cloned()
    }

    /// The columns of the result of a SELECT, once they are known; waits for that. `None` when it ends without.
    pub fn schema(&self) -> Option<Schema> {
        let waiting = self.results.wait(|waiting| waiting.schema.is_some() || waiting.has_ended);
        waiting.schema.clone()
    }

    /// The next batch of the result of a SELECT; waits for it. `None` when there are no more: [`Job::wait`] says why.
    pub fn next_batch(&self) -> Option<RecordBatch> {
        loop {
            match self.next_batch_within(Duration::MAX) {
                Next::Batch(batch) => return Some(batch),
                Next::End => return None,
                Next::Waiting => {}
            }
        }
    }

    /// The same, but waits for `patience` at most.
    pub fn next_batch_within(&self, patience: Duration) -> Next {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(batch) = taken.pop_front() {
            return Next::Batch(batch);
        }
        let mut waiting = self.results.lock();
        if waiting.batches.is_empty() && !patience.is_zero() {
            waiting = self.results.wait_for(waiting, 1, patience);
            if !waiting.batches.is_empty() {
                waiting = self.results.wait_for(waiting, AT_ONCE, LINGER);
            }
        }
        std::mem::swap(&mut *taken, &mut waiting.batches);
        let has_ended = waiting.has_ended;
        drop(waiting);
        self.results.changed.notify_all();
        match taken.pop_front() {
            Some(batch) => Next::Batch(batch),
            None if has_ended => Next::End,
            None => Next::Waiting,
        }
    }

    /// Waits for its end. Batches that were not taken are dropped.
    pub fn wait(mut self) -> Result<Outcome, Diagnostic> {
        self.join().unwrap_or_else(|| Err(Diagnostic::bug("a job was waited for twice")))
    }

    fn join(&mut self) -> Option<Result<Outcome, Diagnostic>> {
        let thread = self.thread.take()?;
        let mut waiting = self.results.lock();
        waiting.is_discarded = true;
        waiting.batches.clear();
        drop(waiting);
        self.results.changed.notify_all();
        // That it panicked is its end.
        let _ = thread.join();
        self.results.lock().end.take()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.cancel();
            drop(self.join());
        }
    }
}

impl Channel {
    fn lock(&self) -> MutexGuard<'_, WaitingBatches> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, until: impl Fn(&WaitingBatches) -> bool) -> MutexGuard<'_, WaitingBatches> {
        self.changed.wait_while(self.lock(), |waiting| !until(waiting)).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there are so many batches, for `patience` at most.
    fn wait_for<'a>(
        &'a self,
        mut waiting: MutexGuard<'a, WaitingBatches>,
        batches: usize,
        patience: Duration,
    ) -> MutexGuard<'a, WaitingBatches> {
        waiting.wanted = batches;
        let until = |waiting: &mut WaitingBatches| waiting.batches.len() < batches && !waiting.has_ended;
        self.changed.wait_timeout_while(waiting, patience, until).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Puts a batch in when there is room.
    fn send(&self, batch: RecordBatch, monitor: &RunMonitor) -> Result<(), Diagnostic> {
        let mut waiting = self.lock();
        while waiting.batches.len() >= BATCHES && !waiting.is_discarded {
            if monitor.cancel().state() == CancelState::Abort {
                return Err(Diagnostic::new(code::CANCELLED, "the query was aborted"));
            }
            waiting = self.changed.wait_timeout(waiting, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        if !waiting.is_discarded {
            waiting.batches.push_back(batch);
        }
        let is_enough = waiting.batches.len() >= waiting.wanted;
        drop(waiting);
        if is_enough {
            self.changed.notify_all();
        }
        Ok(())
    }
}

/// Tells who waits for batches that the job has ended, in whatever way.
struct Ends(Arc<Channel>);

impl Drop for Ends {
    fn drop(&mut self) {
        let panicked = || Err(Diagnostic::new(code::WORKER_FAILED, "a job panicked"));
        let mut waiting = self.0.lock();
        waiting.end.get_or_insert_with(panicked);
        waiting.has_ended = true;
        drop(waiting);
        self.0.changed.notify_all();
    }
}

/// Has results put into a channel.
struct ChannelTarget(Arc<Channel>, Arc<RunMonitor>);

impl ResultTarget for ChannelTarget {
    fn open(&mut self, schema: &Schema) -> Result<Box<dyn Sink>, Diagnostic> {
        self.0.lock().schema = Some(schema.clone());
        self.0.changed.notify_all();
        let (channel, monitor) = (Arc::clone(&self.0), Arc::clone(&self.1));
        Ok(batch_sink(schema, move |batch| channel.send(batch, &monitor)))
    }
}
