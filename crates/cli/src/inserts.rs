//! The inserts of a session: planned, run concurrently, and run again after outages. What `run` does with a script, and `serve` with each of its
//! jobs.

use crate::config::Config;
use crate::control::Control;
use crate::failure::{Failure, Text};
use crate::output::print;
use crate::status::{self, Painted};
use crate::units::duration;
use crate::watch::{Watched, WatchedJob};
use crate::{log, summary};
use millstream::connectors::release_standard_input;
use millstream::sql::ParsedStatement;
use millstream::{
    CancelState, Diagnostic, JobShare, Outcome, PreparedRun, RunDescription, RunMonitor, Session, code, secret, share,
};
use std::io::{IsTerminal, stderr};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Whoever can end what runs: signals, or a service.
pub(crate) trait Overseer: Send + Sync {
    /// Names what is to be ended when that is asked for. It runs, or `waits` to be started again; there may be nothing.
    fn watch(&self, monitors: &[Arc<RunMonitor>], waits: bool);
}

/// The file of a service that inserts come from.
pub(crate) struct ServedFile {
    /// What the job is called.
    pub(crate) job: String,
    pub(crate) path: String,
    /// How often the job was started again before.
    pub(crate) restarts: u64,
    pub(crate) share: JobShare,
    /// Asked before an insert begins: what it writes may be that of another job.
    pub(crate) admit: Box<Admit>,
}

/// Lets an insert begin, or says why it must not.
pub(crate) type Admit = dyn Fn(&PreparedRun) -> Result<(), Diagnostic> + Send + Sync;

/// Runs the inserts of a session.
pub(crate) struct Inserts {
    pub(crate) config: Arc<Config>,
    overseer: Arc<dyn Overseer>,
    /// What is shown of what runs.
    pub(crate) watched: Arc<Watched>,
    /// Whether somebody may look.
    pub(crate) is_shown: bool,
    /// `None`: they are those of a command.
    served: Option<ServedFile>,
    control: Option<Control>,
    /// Inserts that read endless input, and the texts that they are of: they run together.
    endless: Vec<Insert>,
    /// How many there are in the text that is executed.
    count: usize,
}

/// An insert that is to be run.
struct Insert {
    run: PreparedRun,
    source: InsertSource,
}

/// What an insert is planned from again, after an outage.
struct InsertSource {
    statement: ParsedStatement,
    text: Text,
    /// The session as it was: what was set and defined behind the statement is not meant for it.
    session: Session,
}

/// What is done with statements that are not inserts.
pub(crate) type Others<'a> = dyn FnMut(&Inserts, &mut Session, &ParsedStatement) -> Result<(), Diagnostic> + 'a;

/// What a job is called among those that run: a table that several write is told apart by a number.
fn unique(name: String, taken: &[String]) -> String {
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    std::iter::once(name.clone()).chain(numbered).find(|name| !taken.contains(name)).unwrap_or(name)
}

impl Inserts {
    pub(crate) fn new(
        config: Arc<Config>,
        overseer: Arc<dyn Overseer>,
        watched: Arc<Watched>,
        is_shown: bool,
        served: Option<ServedFile>,
    ) -> Inserts {
        Inserts { config, overseer, watched, is_shown, served, control: None, endless: Vec::new(), count: 0 }
    }

    /// Executes every statement of a text; ends with the first that fails. Inserts that read endless input wait for
    /// [`Inserts::finish`], or for the next query; after a failure they are not run.
    pub(crate) fn execute(
        &mut self,
        session: &mut Session,
        text: &Text,
        others: &mut Others<'_>,
    ) -> Result<(), Failure> {
        let executed = self.execute_all(session, text, others);
        if executed.is_err() {
            self.endless.clear();
        }
        executed
    }

    fn execute_all(&mut self, session: &mut Session, text: &Text, others: &mut Others<'_>) -> Result<(), Failure> {
        let failed = |d| Failure::statement(d, text);
        let statements = session.parse(&text.sql).map_err(failed)?;
        session.announce(&statements);
        self.count = statements.iter().filter(|statement| statement.is_insert()).count();
        for statement in &statements {
            if statement.is_insert() {
                let source =
                    InsertSource { statement: statement.clone(), text: text.clone(), session: session.snapshot() };
                let insert = self.prepare(session, source)?;
                match insert.run.is_endless() {
                    true => self.endless.push(insert),
                    false => self.run_together(session, vec![insert])?,
                }
                continue;
            }
            if statement.is_query() {
                self.finish(session)?;
            }
            others(self, session, statement).map_err(failed)?;
        }
        Ok(())
    }

    /// Runs the inserts that read endless input, until all have ended or one has failed.
    pub(crate) fn finish(&mut self, session: &mut Session) -> Result<(), Failure> {
        let runs = std::mem::take(&mut self.endless);
        if runs.len() > 1 && !self.config.quiet {
            log::note(&format!("{} INSERTs that read endless input run together", runs.len()));
        }
        self.run_together(session, runs)
    }

    /// Plans an insert. Other processes can reach it from now on, if there is a state directory.
    fn prepare(&mut self, session: &mut Session, source: InsertSource) -> Result<Insert, Failure> {
        let mut plan = || {
            if let Some(place) = session.open_state_directory()?
                && self.control.is_none()
            {
                self.control = Control::listen(place.clone(), session.cluster());
                self.control.iter().for_each(|control| self.watched.control(control.subject()));
            }
            let run = source.session.plan_with(&source.statement, &mut |_| Ok(None))?;
            self.served.iter().try_for_each(|served| (served.admit)(&run))?;
            session.with_job(run)
        };
        let run = plan().map_err(|d| Failure::statement(d, &source.text))?;
        Ok(Insert { run, source })
    }

    /// Names the queries that signals and requests are meant for.
    pub(crate) fn watch(&self, monitors: &[Arc<RunMonitor>]) {
        self.watch_as(monitors, false);
    }

    fn watch_as(&self, monitors: &[Arc<RunMonitor>], waits: bool) {
        self.control.iter().for_each(|control| control.watch(monitors.to_vec()));
        self.overseer.watch(monitors, waits);
        self.watched.run(monitors);
    }

    /// Runs inserts concurrently, and again after outages, as the restart strategy says.
    fn run_together(&mut self, session: &mut Session, inserts: Vec<Insert>) -> Result<(), Failure> {
        let mut restarts = session.restart_strategy().restarts(session.has_state_directory());
        let mut inserts = inserts;
        loop {
            let (runs, sources): (Vec<PreparedRun>, Vec<InsertSource>) =
                inserts.into_iter().map(|Insert { run, source }| (run, source)).unzip();
            let started = Instant::now();
            let Err(failure) = self.run_once(session, runs, &sources, restarts.count()) else { return Ok(()) };
            let resumes = self.control.as_ref().is_some_and(Control::resumes);
            if resumes && failure.code() == code::SUSPENDED {
                self.rest();
            } else {
                let Some(delay) = restarts.after(failure.code(), started.elapsed(), Instant::now()) else {
                    return Err(failure);
                };
                // Before it is announced: who reads of it may stop it at once.
                let pause = self.begin_pause();
                failure.report();
                log::note(&format!("restart {} in {}", restarts.count(), duration(delay)));
                self.rest();
                self.pause(&pause, delay, &failure)?;
            }
            session.forget_ended_jobs().map_err(Failure::failed)?;
            inserts =
                sources.into_iter().map(|source| self.prepare(session, source)).collect::<Result<_, Failure>>()?;
        }
    }

    /// Between two runs.
    fn rest(&self) {
        // What the run that has ended has not read of it is for the next.
        release_standard_input();
        self.watched.pause();
    }

    /// What a run does, if somebody may look.
    pub(crate) fn described(&self, run: &PreparedRun) -> Option<Arc<RunDescription>> {
        self.is_shown.then(|| run.describe().ok().map(Arc::new)).flatten()
    }

    /// From here on whoever stops the inserts stops waiting for a restart.
    fn begin_pause(&self) -> Arc<RunMonitor> {
        let monitor = Arc::new(RunMonitor::new());
        self.watch_as(std::slice::from_ref(&monitor), true);
        monitor
    }

    /// Waits before a restart. Whoever stops the inserts meanwhile ends them with what has failed: the job resumes when it is run again.
    fn pause(&self, monitor: &RunMonitor, delay: Duration, failure: &Failure) -> Result<(), Failure> {
        let until = Instant::now() + delay;
        while Instant::now() < until && monitor.cancel().state() == CancelState::Running {
            std::thread::sleep(Duration::from_millis(20).min(delay));
        }
        self.watch(&[]);
        match monitor.cancel().state() {
            CancelState::Running => Ok(()),
            _ if self.control.as_ref().is_some_and(Control::resumes) => Ok(()),
            _ => Err(failure.clone()),
        }
    }

    /// What runs are called where they are shown.
    fn names(&self, runs: &[PreparedRun], sources: &[InsertSource]) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for (run, source) in runs.iter().zip(sources) {
            let tables = || source.statement.targets().join(",");
            let name = match &self.served {
                Some(ServedFile { job, .. }) if self.count == 1 => job.clone(),
                Some(ServedFile { job, .. }) => format!("{job}.{}", tables()),
                None => run.name().map_or_else(tables, str::to_owned),
            };
            names.push(unique(name, &names));
        }
        names
    }

    /// Shows runs that begin.
    fn show(&self, session: &Session, runs: &[PreparedRun], sources: &[InsertSource], restarts: u64) {
        let state_dir = session.state_directory().map(ToString::to_string);
        let jobs = self.names(runs, sources).into_iter().zip(runs).zip(sources);
        let jobs = jobs.map(|((name, run), source)| WatchedJob {
            name,
            file: self.served.as_ref().map(|served| served.path.clone()),
            statement: secret::conceal(&source.statement.text).into_owned(),
            monitor: run.monitor(),
            description: self.described(run),
            restarts: restarts + self.served.as_ref().map_or(0, |served| served.restarts),
            state_dir: state_dir.clone().filter(|_| run.keeps_checkpoints()),
        });
        self.watched.begin(jobs.collect::<Vec<_>>());
    }

    /// Runs inserts concurrently, each in its own thread. When one fails, the others stop in good order, with a
    /// checkpoint if they have any.
    fn run_once(
        &self,
        session: &Session,
        mut runs: Vec<PreparedRun>,
        sources: &[InsertSource],
        restarts: u64,
    ) -> Result<(), Failure> {
        share(&mut runs, self.served.as_ref().map(|served| &served.share));
        let monitors: Vec<Arc<RunMonitor>> = runs.iter().map(PreparedRun::monitor).collect();
        self.watch(&monitors);
        self.show(session, &runs, sources, restarts);
        let (config, watched) = (&*self.config, &self.watched);
        // Several status lines would overwrite each other.
        let is_painted = !config.quiet && runs.len() == 1 && self.served.is_none();
        let painted = if is_painted { Painted::Line } else { Painted::Nothing };
        let run = |run: PreparedRun, monitor: &RunMonitor| {
            let (own, outcome) = (run.monitor(), status::telling(painted, config, monitor, || run.submit()?.wait()));
            watched.end(&own, outcome.as_ref().err());
            if outcome.is_err() {
                monitors.iter().for_each(|other| other.cancel().stop());
            }
            outcome
        };
        let outcomes: Vec<Result<Outcome, Diagnostic>> = std::thread::scope(|scope| {
            let run = &run;
            let start = |(prepared, monitor)| log::spawn(scope, move || run(prepared, monitor));
            let threads: Vec<_> = runs.into_iter().zip(monitors.iter().map(|m| &**m)).map(start).collect();
            let end = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|panic| resume_unwind(panic))
            };
            threads.into_iter().map(end).collect()
        });
        self.watch(&[]);
        let mut failures = Vec::new();
        for ((outcome, monitor), source) in outcomes.into_iter().zip(&monitors).zip(sources) {
            if let Err(failure) = tell(&self.config, outcome, monitor) {
                failures.push(Failure::statement(failure, &source.text));
            }
        }
        // The one that has ended the others is what the command ends with.
        let first = failures.iter().position(|failure| ![code::SUSPENDED, code::CANCELLED].contains(&failure.code()));
        if failures.is_empty() {
            return Ok(());
        }
        let failure = failures.swap_remove(first.unwrap_or(0));
        failures.iter().for_each(Failure::report);
        Err(failure)
    }
}

/// What is to be told of a statement that has been executed.
pub(crate) fn tell(
    config: &Config,
    outcome: Result<Outcome, Diagnostic>,
    monitor: &RunMonitor,
) -> Result<(), Diagnostic> {
    status::tell_notices(monitor);
    if let (Err(_), Some(stats)) = (&outcome, monitor.stats()) {
        // What a failed or stopped run has done counts, too.
        summary::summarise(config.stats, config.quiet, &stats.snapshot());
    }
    match outcome? {
        Outcome::Done(message) => {
            if !config.quiet && stderr().is_terminal() {
                log::info(&message);
            }
        }
        Outcome::Text(text) => print(&text)?,
        Outcome::Listed => {}
        Outcome::Ran(stats) => summary::summarise(config.stats, config.quiet, &stats),
    }
    Ok(())
}
