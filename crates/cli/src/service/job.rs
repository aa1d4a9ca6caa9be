//! The life of a job: what it is wanted to run, what it runs, and what comes of that.
//!
//! It has a thread that plans texts and waits ([`ServedJob::live`]), and one that runs the text that holds ([`RunningScript`]). A text that is new is planned
//! while the one before it runs; if it is all right, the job stops with a checkpoint, and the new one resumes from there. If it cannot be begun, the one
//! before is run again.

use super::running::{RunningScript, Start, panicked};
use super::script::{Checked, JobFiles, JobScript, Setting, Stamp};
use super::shown::{Phase, Status};
use crate::failure::Failure;
use crate::inserts::ServedFile;
use crate::log;
use crate::units::duration;
use crate::watch::Watched;
use millstream::storage::StatePlace;
use millstream::{Code, Diagnostic, JobShare, PreparedRun, SharedResources, code, is_outage};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// After the first failure.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Between two starts at most; a job that has run for so long is well.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// How soon a job sees that it has begun, or that there is memory for it.
const LOOK: Duration = Duration::from_millis(100);

/// What the service wants of a job.
#[derive(Clone)]
pub(super) enum Want {
    /// To run what the file has.
    Run(Stamp, Result<JobScript, Diagnostic>),
    /// To stop with a checkpoint, and to be forgotten: its file has gone, or the service ends.
    End,
}

/// What is between a job and those who want something of it.
pub(super) struct Desk {
    wants: Mutex<Wants>,
    changed: Condvar,
    pub(super) status: Status,
    pub(super) watched: Arc<Watched>,
}

struct Wants {
    want: Want,
    /// Whether the job has not seen it yet.
    is_new: bool,
    /// Somebody has asked for it to be stopped.
    stop: bool,
}

impl Desk {
    pub(super) fn new(want: Want) -> Arc<Desk> {
        let wants = Mutex::new(Wants { want, is_new: true, stop: false });
        Arc::new(Desk { wants, changed: Condvar::new(), status: Status::default(), watched: Arc::default() })
    }

    pub(super) fn want(&self, want: Want) {
        let mut wants = self.lock();
        (wants.want, wants.is_new) = (want, true);
        drop(wants);
        self.changed.notify_all();
    }

    /// Has the job be stopped until its file changes.
    #[cfg(feature = "http")]
    pub(super) fn stop(&self) {
        self.lock().stop = true;
        self.changed.notify_all();
    }

    /// Wakes the job, so that it sees what has changed elsewhere.
    fn wake(&self) {
        // It looks and falls asleep under the lock.
        drop(self.lock());
        self.changed.notify_all();
    }

    /// Waits until something is wanted of the job, for `patience` at most; whether it is to end.
    pub(super) fn is_to_end_within(&self, patience: Duration) -> bool {
        let stays = |wants: &mut Wants| !matches!(wants.want, Want::End);
        let waited = self.changed.wait_timeout_while(self.lock(), patience, stays);
        matches!(waited.unwrap_or_else(PoisonError::into_inner).0.want, Want::End)
    }

    fn lock(&self) -> MutexGuard<'_, Wants> {
        self.wants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What happens to a job.
enum Event {
    Want(Want),
    Stop,
    /// What ran has ended.
    Ended(RunningScript),
    /// All inserts of what runs have begun.
    Begun,
    /// It is time for another look at the text of the file.
    Consider(JobScript),
    /// It is time to begin.
    Start(Start),
}

/// What is done later.
struct Waiting<T> {
    at: Instant,
    what: T,
    /// Of what another job writes as well: [`Outputs::freed`](super::outputs::Outputs::freed) before it was refused. It is done at once when that
    /// is more.
    kept_out: Option<u64>,
}

impl<T> Waiting<T> {
    fn until(at: Instant, what: T) -> Waiting<T> {
        Waiting { at, what, kept_out: None }
    }

    /// What it is, when it is time.
    fn due(waiting: &mut Option<Waiting<T>>, now: Instant, freed: u64) -> Option<T> {
        let is_due =
            |waiting: &mut Waiting<T>| now >= waiting.at || waiting.kept_out.is_some_and(|before| before != freed);
        waiting.take_if(is_due).map(|waiting| waiting.what)
    }

    /// When to look again.
    fn next(&self, now: Instant) -> Instant {
        if self.kept_out.is_some() { self.at.min(now + LOOK) } else { self.at }
    }
}

/// What becomes of a text that has failed.
enum Hope {
    None,
    /// It is looked at again.
    Consider(JobScript),
    /// It is begun again.
    Start(Start),
}

/// See the module.
pub(super) struct ServedJob {
    setting: Setting,
    resources: Arc<SharedResources>,
    is_shown: bool,
    desk: Arc<Desk>,
    kept: JobFiles,
    /// The text that the job keeps while it does not run what the file has.
    accepted: Option<JobScript>,
    stamp: Option<Stamp>,
    running: Option<RunningScript>,
    /// What the next text has without waiting for it: that of the one before.
    share: Option<JobShare>,
    /// What is looked at again, and when.
    considers: Option<Waiting<JobScript>>,
    /// What is begun, and when.
    starts: Option<Waiting<Start>>,
    pause: Option<Duration>,
    restarts: u64,
    /// [`Outputs::freed`](super::outputs::Outputs::freed) before what runs was begun.
    freed_before: u64,
    /// Whether it is shown that another job writes what a text of this one would.
    shows_kept_out: bool,
}

impl ServedJob {
    pub(super) fn new(
        setting: &Setting,
        resources: &Arc<SharedResources>,
        is_shown: bool,
        desk: &Arc<Desk>,
    ) -> Result<ServedJob, Failure> {
        let unusable = |e: std::io::Error| {
            let message = format!("the state directory {} cannot be used: {e}", setting.address);
            Failure::failed(Diagnostic::new(code::CHECKPOINT_FAILED, message))
        };
        let kept = JobFiles::open(&StatePlace::parse(&setting.address).map_err(Failure::usage)?).map_err(unusable)?;
        let accepted = kept.accepted().map_err(unusable)?;
        Ok(ServedJob {
            setting: setting.clone(),
            resources: Arc::clone(resources),
            is_shown,
            desk: Arc::clone(desk),
            kept,
            accepted,
            stamp: None,
            running: None,
            share: None,
            considers: None,
            starts: None,
            pause: None,
            restarts: 0,
            freed_before: 0,
            shows_kept_out: false,
        })
    }

    /// Until it is to end. A panic, which is a bug, is a failure of this job.
    pub(super) fn live(mut self) {
        while let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.attend())) {
            self.refuse(&panicked(&*panic), Hope::None, 0);
        }
    }

    fn attend(&mut self) {
        loop {
            match self.next() {
                Event::Want(Want::End) => {
                    self.end();
                    self.desk.status.set(Phase::Stopped);
                    return;
                }
                Event::Want(Want::Run(stamp, script)) => self.changed(stamp, script),
                Event::Stop => self.stop(),
                Event::Ended(running) => self.ended(running),
                Event::Begun => self.begun(),
                Event::Consider(script) => self.consider(script),
                Event::Start(start) => self.start(start),
            }
        }
    }

    /// Waits for what happens next.
    fn next(&mut self) -> Event {
        let desk = Arc::clone(&self.desk);
        let mut wants = desk.lock();
        loop {
            if std::mem::take(&mut wants.stop) {
                return Event::Stop;
            }
            if std::mem::take(&mut wants.is_new) {
                return Event::Want(wants.want.clone());
            }
            if let Some(running) = self.running.take_if(|running| running.has_ended()) {
                return Event::Ended(running);
            }
            if self.running.as_ref().is_some_and(|running| !running.is_accepted && running.has_begun()) {
                return Event::Begun;
            }
            let now = Instant::now();
            let freed = self.setting.outputs.freed();
            if let Some(start) = Waiting::due(&mut self.starts, now, freed) {
                return Event::Start(start);
            }
            if let Some(script) = Waiting::due(&mut self.considers, now, freed) {
                return Event::Consider(script);
            }
            let begins = self.running.as_ref().filter(|running| !running.is_accepted).map(|_| now + LOOK);
            let starts = self.starts.as_ref().map(|waiting| waiting.next(now));
            let considers = self.considers.as_ref().map(|waiting| waiting.next(now));
            let next = [begins, starts, considers].into_iter().flatten().min();
            let patience = next.map_or(LONGEST_PAUSE, |at| at.saturating_duration_since(now));
            wants = desk.changed.wait_timeout(wants, patience).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The file is another one, or it was touched.
    fn changed(&mut self, stamp: Stamp, script: Result<JobScript, Diagnostic>) {
        self.stamp = Some(stamp);
        if matches!(self.kept.stopped(), Ok(Some(stopped)) if stopped == stamp.own) {
            self.desk.status.set(Phase::Stopped);
            self.tell("it was stopped, and stays so until its file changes or is touched");
            return;
        }
        if let Err(e) = self.kept.set_stopped(None) {
            log::note(&format!("the state directory cannot be written: {e}"));
        }
        (self.considers, self.starts, self.pause, self.shows_kept_out) = (None, None, None, false);
        self.desk.status.renew();
        self.desk.watched.forget_failures();
        match script {
            Ok(script) => self.consider(script),
            Err(error) => self.refuse(&Failure::failed(error), Hope::None, 0),
        }
    }

    /// Looks at a text that is to be run.
    fn consider(&mut self, script: JobScript) {
        match &self.running {
            Some(running) if running.script == script => return,
            None if self.accepted.as_ref() == Some(&script) => {
                // What is wrong with it now is said when it begins.
                return self.start(Start { script, instead: None, outputs: None });
            }
            _ => {}
        }
        let freed = self.setting.outputs.freed();
        let Checked { statements, outputs } = match self.setting.check(&script) {
            Ok(checked) => checked,
            Err(failure) => return self.refuse(&failure, Hope::Consider(script), freed),
        };
        // What was wrong with it before is so no more.
        self.shows_kept_out = false;
        self.desk.status.renew();
        if let Some(running) = self.running.as_mut()
            && running.is_accepted
            && self.setting.statements(&running.script).is_ok_and(|present| present == statements)
        {
            running.script = script.clone();
            self.tell("the file says the same in other words, so the job continues");
            return self.accept(script, None);
        }
        if self.running.is_some() {
            self.tell("the file has changed: the job stops with a checkpoint, from which the new text resumes");
        }
        self.share = self.running.as_ref().map(|running| running.share.clone());
        self.end();
        let instead = self.accepted.clone().filter(|accepted| *accepted != script);
        self.start(Start { script, instead, outputs: Some(outputs) });
    }

    /// A text is not run, and why; the one before runs instead, if there is any. `freed` is [`Outputs::freed`](super::outputs::Outputs::freed) before
    /// it was looked at.
    fn refuse(&mut self, failure: &Failure, hope: Hope, freed: u64) {
        match (&self.running, &self.accepted) {
            (None, None) => return self.fail(failure, hope, freed),
            (None, Some(accepted)) => {
                let start = Start { script: accepted.clone(), instead: None, outputs: None };
                self.starts = Some(Waiting::until(Instant::now(), start));
            }
            (Some(_), _) => {}
        }
        if let Hope::Consider(script) = hope
            && may_pass(failure.code())
        {
            let at = Instant::now() + self.next_pause();
            self.considers = Some(Waiting { at, what: script, kept_out: kept_out(failure, freed) });
        }
        self.shows_kept_out = failure.code() == code::OUTPUT_TAKEN;
        failure.report();
        log::note("the file is not run: the job keeps the text that it had");
        self.desk.status.refuse(format!("the file is not run, and the job keeps the text that it had: {failure}"));
    }

    /// Runs a text, as soon as there is memory for it.
    fn start(&mut self, start: Start) {
        let Some(share) = self.share.take().or_else(|| self.resources.join()) else {
            let (most, bytes) = (self.resources.most_jobs(), self.resources.memory_bytes() >> 20);
            let message = format!("it waits: {bytes} MiB of memory are enough for {most} jobs; raise --memory");
            if self.desk.status.wait(&message) {
                log::note(&message);
            }
            self.starts = Some(Waiting::until(Instant::now() + LOOK, start));
            return;
        };
        let job = self.setting.job.to_string();
        let path = self.setting.path.display().to_string();
        let (owner, outputs) = (Arc::clone(&self.setting.job), Arc::clone(&self.setting.outputs));
        let all = start.outputs.clone().unwrap_or_default();
        // What all inserts write, at the first one: nobody else begins with that of the later ones meanwhile.
        let admit = move |run: &PreparedRun| outputs.take(&owner, all.iter().cloned().chain(run.written_paths()));
        let admit = Box::new(admit);
        self.freed_before = self.setting.outputs.freed();
        let file = ServedFile { job, path, restarts: self.restarts, share, admit };
        let desk = Arc::clone(&self.desk);
        let ended = move || desk.wake();
        self.desk.status.set(Phase::Running);
        match RunningScript::start(start, &self.setting, file, (Arc::clone(&self.desk.watched), self.is_shown), ended) {
            Ok(running) => self.running = Some(running),
            Err(failure) => self.fail(&failure, Hope::None, 0),
        }
    }

    /// What runs is the text that the job keeps.
    fn begun(&mut self) {
        if let Some(running) = &mut self.running {
            running.is_accepted = true;
            let (script, outputs) = (running.script.clone(), running.outputs.clone());
            self.accept(script, outputs.as_deref());
            if self.considers.is_none() && std::mem::take(&mut self.shows_kept_out) {
                self.desk.status.renew();
            }
        }
    }

    /// The job keeps a text, which writes these, if that is known.
    fn accept(&mut self, script: JobScript, outputs: Option<&[PathBuf]>) {
        if let Some(paths) = self.setting.outputs.settle(&self.setting.job, outputs)
            && let Err(e) = self.kept.set_outputs(&paths)
        {
            log::note(&format!("the state directory cannot be written: {e}"));
        }
        if self.accepted.as_ref() == Some(&script) {
            return;
        }
        if let Err(e) = self.kept.accept(&script) {
            log::note(&format!("the state directory cannot be written: {e}"));
        }
        self.accepted = Some(script);
    }

    /// Has what runs stop with a checkpoint, and waits for that; nothing is begun any more.
    fn end(&mut self) {
        (self.considers, self.starts) = (None, None);
        let Some(running) = self.running.take() else { return };
        self.desk.status.set(Phase::Stopping);
        running.stop();
        if running.has_begun() && !running.is_accepted {
            self.accept(running.script.clone(), running.outputs.as_deref());
        }
        let (outcome, _) = running.join();
        self.setting.outputs.rest(&self.setting.job);
        if let Err(failure) = outcome
            && failure.code() != code::CANCELLED
        {
            failure.report();
        }
    }

    /// Somebody wants it to be stopped.
    fn stop(&mut self) {
        self.end();
        self.stay_stopped();
    }

    fn stay_stopped(&mut self) {
        if let Err(e) = self.kept.set_stopped(self.stamp.map(|stamp| stamp.own)) {
            log::note(&format!("the job begins again with the service, as the state directory cannot be written: {e}"));
        }
        self.desk.status.set(Phase::Stopped);
        self.tell("it is stopped until its file changes or is touched");
    }

    /// What ran has ended by itself, or somebody has stopped it who does not ask the service (`millstream stop`).
    fn ended(&mut self, running: RunningScript) {
        let (has_begun, ran) = (running.has_begun() || running.is_accepted, running.since.elapsed());
        let (script, instead, share) = (running.script.clone(), running.instead.clone(), running.share.clone());
        let outputs = running.outputs.clone();
        if has_begun {
            self.accept(script.clone(), outputs.as_deref());
        }
        if ran >= LONGEST_PAUSE {
            self.pause = None;
        }
        let outcome = running.join();
        if outcome.0.is_ok() {
            self.accept(script.clone(), outputs.as_deref());
        }
        // What it has given back itself is nothing to begin again for.
        let freed = self.freed_before + u64::from(self.setting.outputs.rest(&self.setting.job));
        match outcome {
            (Ok(()), _) => {
                self.desk.status.set(Phase::Finished);
                self.tell("the job has come to the end of its input");
            }
            (Err(failure), was_stopped) if was_stopped || is_stopped(&failure) => {
                failure.report();
                self.stay_stopped();
            }
            (Err(failure), _) => match instead {
                // A text that meets a server that does not answer is not to blame.
                Some(_) if !has_begun && !is_outage(failure.code()) => {
                    self.share = Some(share);
                    // The other job has begun between the look at this text and its beginning.
                    let is_kept_out = failure.code() == code::OUTPUT_TAKEN;
                    let hope = if is_kept_out { Hope::Consider(script) } else { Hope::None };
                    self.refuse(&failure, hope, freed);
                }
                instead => self.fail(&failure, Hope::Start(Start { script, instead, outputs }), freed),
            },
        }
    }

    /// The job does not run, and why; it is tried again if that may pass.
    fn fail(&mut self, failure: &Failure, hope: Hope, freed: u64) {
        self.shows_kept_out = failure.code() == code::OUTPUT_TAKEN;
        failure.report();
        self.desk.status.fail(failure.to_string());
        if matches!(hope, Hope::None) || !may_pass(failure.code()) {
            log::note("the job has failed, and is tried again when its file changes");
            return;
        }
        let pause = self.next_pause();
        let (at, kept_out) = (Instant::now() + pause, kept_out(failure, freed));
        match hope {
            Hope::None => {}
            Hope::Consider(what) => self.considers = Some(Waiting { at, what, kept_out }),
            Hope::Start(what) => self.starts = Some(Waiting { at, what, kept_out }),
        }
        self.restarts += 1;
        log::note(&format!("the job has failed; it is tried again in {}", duration(pause)));
    }

    fn tell(&self, message: &str) {
        if !self.setting.config.quiet {
            log::info(message);
        }
    }

    fn next_pause(&mut self) -> Duration {
        let pause = self.pause.map_or(FIRST_PAUSE, |last| (last * 2).min(LONGEST_PAUSE));
        *self.pause.insert(pause)
    }
}

/// [`Waiting::kept_out`] of what has failed.
fn kept_out(failure: &Failure, freed: u64) -> Option<u64> {
    (failure.code() == code::OUTPUT_TAKEN).then_some(freed)
}

fn is_stopped(failure: &Failure) -> bool {
    [code::SUSPENDED, code::CANCELLED].contains(&failure.code())
}

/// Whether there is hope without another text: not where the text itself is wrong, or does not fit what is kept.
fn may_pass(failure: Code) -> bool {
    let of_statements = [code::UNKNOWN_CONNECTOR, code::UNKNOWN_FORMAT, code::NOT_A_SOURCE, code::NOT_A_SINK];
    !(1000..3000).contains(&failure.0) && failure != code::QUERY_CHANGED && !of_statements.contains(&failure)
}
