//! A script that runs in a thread of its own.

use super::script::{JobScript, Setting};
use crate::failure::Failure;
use crate::inserts::{Inserts, Overseer, ServedFile};
use crate::watch::Watched;
use crate::{log, status};
use millstream::{CancelState, Diagnostic, Discarded, JobShare, RunMonitor, code};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// A script that runs.
pub(super) struct RunningScript {
    pub(super) script: JobScript,
    /// What is run instead, if it cannot be begun.
    pub(super) instead: Option<JobScript>,
    /// What all its inserts write, if that is known.
    pub(super) outputs: Option<Vec<PathBuf>>,
    pub(super) since: Instant,
    pub(super) share: JobShare,
    /// Whether it is the text that the job keeps.
    pub(super) is_accepted: bool,
    ends: Arc<Ends>,
    has_ended: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), Failure>>,
}

/// What a script is run with.
pub(super) struct Start {
    pub(super) script: JobScript,
    pub(super) instead: Option<JobScript>,
    /// What all its inserts write; `None` of a text that was not looked at: the job keeps what it has written.
    pub(super) outputs: Option<Vec<PathBuf>>,
}

/// Ends what a job runs, and knows whether it has begun.
#[derive(Default)]
struct Ends(Mutex<Overseen>);

#[derive(Default)]
struct Overseen {
    runs: Vec<Arc<RunMonitor>>,
    /// What waits to be started again after an outage, or did last.
    pause: Option<Arc<RunMonitor>>,
    is_stopping: bool,
    has_begun: bool,
}

impl Ends {
    fn lock(&self) -> MutexGuard<'_, Overseen> {
        let mut overseen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // All of them: one that is refused takes the others with it.
        let have_begun = !overseen.runs.is_empty() && overseen.runs.iter().all(|run| run.stats().is_some());
        overseen.has_begun |= have_begun;
        overseen
    }
}

impl Overseer for Ends {
    fn watch(&self, monitors: &[Arc<RunMonitor>], waits: bool) {
        let mut overseen = self.lock();
        match waits {
            true => (overseen.pause, overseen.runs) = (monitors.first().cloned(), Vec::new()),
            false => overseen.runs = monitors.to_vec(),
        }
        if overseen.is_stopping {
            monitors.iter().for_each(|monitor| monitor.cancel().stop());
        }
    }
}

impl RunningScript {
    /// Runs a script; `ended` is called behind its end.
    pub(super) fn start(
        Start { script, instead, outputs }: Start,
        setting: &Setting,
        file: ServedFile,
        (watched, is_shown): (Arc<Watched>, bool),
        ended: impl FnOnce() + Send + 'static,
    ) -> Result<RunningScript, Failure> {
        let (ends, share, job) = (Arc::<Ends>::default(), file.share.clone(), Arc::<str>::from(file.job.as_str()));
        let (own, text, setting) = (Arc::clone(&ends), script.clone(), setting.clone());
        let has_ended = Arc::<AtomicBool>::default();
        let is_over = Arc::clone(&has_ended);
        let body = move || {
            log::of_job(&job);
            let overseer = Arc::clone(&own) as Arc<dyn Overseer>;
            let inserts = Inserts::new(Arc::clone(&setting.config), overseer, watched, is_shown, Some(file));
            let outcome = catch_unwind(AssertUnwindSafe(|| run(&setting, &text, inserts)));
            is_over.store(true, Release);
            ended();
            outcome.unwrap_or_else(|panic| Err(panicked(&*panic)))
        };
        let thread = thread::Builder::new().name("serve-run".into()).spawn(body).map_err(no_thread)?;
        let since = Instant::now();
        Ok(RunningScript { script, instead, outputs, since, share, is_accepted: false, ends, has_ended, thread })
    }

    /// Asks it to end with a checkpoint.
    pub(super) fn stop(&self) {
        let mut overseen = self.ends.lock();
        overseen.is_stopping = true;
        overseen.runs.iter().chain(&overseen.pause).for_each(|monitor| monitor.cancel().stop());
    }

    /// Whether all its inserts have been begun.
    pub(super) fn has_begun(&self) -> bool {
        self.ends.lock().has_begun
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Acquire)
    }

    /// What has come of it, and whether somebody has stopped it while it waited to be started again; waits for its end.
    pub(super) fn join(self) -> (Result<(), Failure>, bool) {
        let outcome = self.thread.join().unwrap_or_else(|panic| Err(panicked(&*panic)));
        let was_stopped =
            self.ends.lock().pause.as_ref().is_some_and(|pause| pause.cancel().state() != CancelState::Running);
        (outcome, was_stopped)
    }
}

/// Executes a script to the end of all its inserts.
fn run(setting: &Setting, script: &JobScript, mut inserts: Inserts) -> Result<(), Failure> {
    let mut session = setting.session()?;
    for text in setting.texts(script)? {
        inserts.execute(&mut session, &text, &mut |_, session, statement| {
            let monitor = RunMonitor::new();
            let outcome = session.execute(statement, &mut Discarded, &monitor);
            status::tell_notices(&monitor);
            outcome.map(drop)
        })?;
    }
    inserts.finish(&mut session)
}

/// A panic is a failure of the job that it happens in.
pub(super) fn panicked(panic: &(dyn Any + Send)) -> Failure {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    let message = format!("a thread of the job panicked: {}", text.unwrap_or("it did not say why"));
    Failure::failed(Diagnostic::new(code::WORKER_FAILED, message))
}

pub(super) fn no_thread(error: std::io::Error) -> Failure {
    Failure::failed(Diagnostic::new(code::WORKER_FAILED, format!("a thread cannot be started: {error}")))
}
