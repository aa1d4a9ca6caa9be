//! A session of the command line: executes statements one by one, or inserts concurrently, and reports.

use crate::arguments::Common;
use crate::config::Config;
use crate::control::Control;
use crate::failure::{Failure, Text};
use crate::interrupt::Interrupt;
use crate::output::{StandardOutput, print};
use crate::status::{self, Painted};
use crate::units::duration;
use crate::watch::{Serving, Watched, WatchedJob, send, serve};
use crate::{log, summary};
use millstream::connectors::release_standard_input;
use millstream::sql::{self, ParsedStatement};
use millstream::{
    CancelState, Diagnostic, Outcome, PreparedRun, RunDescription, RunMonitor, Session, SessionConfig, code, secret,
    user_code_directory,
};
use std::any::Any;
use std::io::{IsTerminal, stderr, stdout};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a job is called among those that run: a table that several write is told apart by a number.
fn unique(name: String, taken: &[String]) -> String {
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    std::iter::once(name.clone()).chain(numbered).find(|name| !taken.contains(name)).unwrap_or(name)
}

/// A session with the configuration applied.
pub(crate) struct Context {
    pub(crate) session: Session,
    pub(crate) config: Config,
    pub(crate) output: StandardOutput,
    pub(crate) interrupt: Interrupt,
    control: Option<Control>,
    /// Inserts that read endless input, and the texts that they are of: they run together.
    endless: Vec<Insert>,
    /// What is served of what runs.
    watched: Arc<Watched>,
    server: Option<Serving>,
    _telemetry: Option<Box<dyn Any>>,
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

impl Context {
    /// A session as the arguments and the configuration file say.
    pub(crate) fn new(common: &Common) -> Result<Context, Failure> {
        // First of all: a signal is never met by nobody.
        let interrupt = Interrupt::install().map_err(Failure::usage)?;
        let config = Config::load(common)?;
        let mut session = Session::new(SessionConfig { pin: config.pin, code_directory: user_code_directory() });
        for (key, value) in &config.settings {
            session.set(key, value).map_err(Failure::usage)?;
        }
        log::set_form(config.log_format);
        let watched = Arc::<Watched>::default();
        let server = serve(&config, Arc::clone(&watched))?;
        if let Some(Serving { scheme, address, has_dashboard, .. }) = server.as_ref().filter(|_| !config.quiet) {
            let dashboard = if *has_dashboard { format!("dashboard at {scheme}://{address}, ") } else { String::new() };
            log::info(&format!("{dashboard}metrics at {scheme}://{address}/metrics"));
        }
        let _telemetry = send(&config, Arc::clone(&watched))?;
        let output = StandardOutput::new(config.output);
        let (control, endless) = (None, Vec::new());
        Ok(Context { session, config, output, interrupt, control, endless, watched, server, _telemetry })
    }

    /// Substitutes variables.
    pub(crate) fn text(&self, sql: String, origin: String) -> Result<Text, Failure> {
        match sql::substitute_variables(&sql, &|name| self.config.variable(name)) {
            Ok(sql) => Ok(Text { sql, origin }),
            Err(diagnostic) => Err(Failure::statement(diagnostic, &Text { sql, origin })),
        }
    }

    /// Executes every statement of a text; ends with the first that fails. Inserts that read endless input wait for
    /// [`Context::finish`], or for the next query; after a failure they are not run.
    pub(crate) fn execute(&mut self, text: &Text) -> Result<(), Failure> {
        let executed = self.execute_all(text);
        if executed.is_err() {
            self.endless.clear();
        }
        executed
    }

    fn execute_all(&mut self, text: &Text) -> Result<(), Failure> {
        let failed = |d| Failure::statement(d, text);
        let statements = self.session.parse(&text.sql).map_err(failed)?;
        self.session.announce(&statements);
        for statement in &statements {
            if statement.is_insert() {
                let session = self.session.snapshot();
                let source = InsertSource { statement: statement.clone(), text: text.clone(), session };
                let insert = self.prepare(source)?;
                match insert.run.is_endless() {
                    true => self.endless.push(insert),
                    false => self.run_together(vec![insert])?,
                }
                continue;
            }
            if statement.is_query() {
                self.finish()?;
            }
            self.execute_one(statement).map_err(failed)?;
        }
        Ok(())
    }

    /// Runs the inserts that read endless input, until all have ended or one has failed.
    pub(crate) fn finish(&mut self) -> Result<(), Failure> {
        let runs = std::mem::take(&mut self.endless);
        if runs.len() > 1 && !self.config.quiet {
            log::note(&format!("{} INSERTs that read endless input run together", runs.len()));
        }
        self.run_together(runs)
    }

    /// Plans an insert. Other processes can reach it from now on, if there is a state directory.
    fn prepare(&mut self, source: InsertSource) -> Result<Insert, Failure> {
        let mut plan = || {
            if let Some(place) = self.session.open_state_directory()?
                && self.control.is_none()
            {
                self.control = Control::listen(place.clone(), self.session.cluster());
                self.control.iter().for_each(|control| self.watched.control(control.subject()));
            }
            self.session.with_job(source.session.plan_with(&source.statement, &mut |_| Ok(None))?)
        };
        let run = plan().map_err(|d| Failure::statement(d, &source.text))?;
        Ok(Insert { run, source })
    }

    /// Names the queries that signals and requests are meant for.
    fn watch(&self, monitors: &[Arc<RunMonitor>]) {
        self.control.iter().for_each(|control| control.watch(monitors.to_vec()));
        self.interrupt.watch(monitors.to_vec(), false);
        self.watched.run(monitors);
    }

    /// Runs inserts concurrently, and again after outages, as the restart strategy says.
    fn run_together(&mut self, inserts: Vec<Insert>) -> Result<(), Failure> {
        let mut restarts = self.session.restart_strategy().restarts(self.session.has_state_directory());
        let mut inserts = inserts;
        loop {
            let (runs, sources): (Vec<PreparedRun>, Vec<InsertSource>) =
                inserts.into_iter().map(|Insert { run, source }| (run, source)).unzip();
            let started = Instant::now();
            let Err(failure) = self.run_once(runs, &sources, restarts.count()) else { return Ok(()) };
            let resumes = self.control.as_ref().is_some_and(Control::resumes);
            if resumes && failure.code() == code::SUSPENDED {
                release_standard_input();
                self.watched.pause();
                self.session.forget_ended_jobs().map_err(Failure::failed)?;
                inserts = sources.into_iter().map(|source| self.prepare(source)).collect::<Result<_, Failure>>()?;
                continue;
            }
            let Some(delay) = restarts.after(failure.code(), started.elapsed(), Instant::now()) else {
                return Err(failure);
            };
            // Before it is announced: who reads of it may stop it at once.
            let pause = self.begin_pause();
            failure.report();
            log::note(&format!("restart {} in {}", restarts.count(), duration(delay)));
            // What the run that failed has not read of it is for the next.
            release_standard_input();
            self.watched.pause();
            self.pause(&pause, delay, &failure)?;
            self.session.forget_ended_jobs().map_err(Failure::failed)?;
            inserts = sources.into_iter().map(|source| self.prepare(source)).collect::<Result<_, Failure>>()?;
        }
    }

    /// What a run does, if somebody may look.
    fn described(&self, run: &PreparedRun) -> Option<Arc<RunDescription>> {
        self.server.as_ref()?;
        run.describe().ok().map(Arc::new)
    }

    /// From here on whoever stops the command stops waiting for a restart.
    fn begin_pause(&self) -> Arc<RunMonitor> {
        let monitor = Arc::new(RunMonitor::new());
        self.watch(std::slice::from_ref(&monitor));
        self.interrupt.watch(vec![Arc::clone(&monitor)], true);
        monitor
    }

    /// Waits before a restart. Whoever stops the command meanwhile ends it with what has failed: the job resumes when it is run again.
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

    /// Runs inserts concurrently, each in its own thread. When one fails, the others stop in good order, with a
    /// checkpoint if they have any.
    fn run_once(&mut self, mut runs: Vec<PreparedRun>, sources: &[InsertSource], restarts: u64) -> Result<(), Failure> {
        let mut names: Vec<String> = Vec::new();
        for (run, source) in runs.iter().zip(sources) {
            let name = run.name().map_or_else(|| source.statement.targets().join(","), str::to_owned);
            names.push(unique(name, &names));
        }
        PreparedRun::share(&mut runs);
        let monitors: Vec<Arc<RunMonitor>> = runs.iter().map(PreparedRun::monitor).collect();
        self.watch(&monitors);
        let state_dir = self.session.state_directory().map(ToString::to_string);
        let jobs = names.into_iter().zip(&runs).zip(sources).map(|((name, run), source)| WatchedJob {
            name,
            file: None,
            statement: secret::conceal(&source.statement.text).into_owned(),
            monitor: run.monitor(),
            description: self.described(run),
            restarts,
            state_dir: state_dir.clone().filter(|_| run.keeps_checkpoints()),
        });
        self.watched.begin(jobs.collect::<Vec<_>>());
        let (config, watched) = (&self.config, &self.watched);
        // Several status lines would overwrite each other.
        let painted = if !config.quiet && runs.len() == 1 { Painted::Line } else { Painted::Nothing };
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
            let start = |(prepared, monitor)| scope.spawn(move || run(prepared, monitor));
            let threads: Vec<_> = runs.into_iter().zip(monitors.iter().map(|m| &**m)).map(start).collect();
            let end = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|panic| resume_unwind(panic))
            };
            threads.into_iter().map(end).collect()
        });
        self.watch(&[]);
        let mut failures = Vec::new();
        for ((outcome, monitor), source) in outcomes.into_iter().zip(&monitors).zip(sources) {
            if let Err(failure) = self.tell(outcome, monitor) {
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

    /// Executes a statement at once.
    pub(crate) fn execute_one(&mut self, statement: &ParsedStatement) -> Result<(), Diagnostic> {
        let monitor = Arc::new(RunMonitor::new());
        self.watch(std::slice::from_ref(&monitor));
        if statement.is_query() {
            let run = self.server.as_ref().and_then(|_| self.session.plan_with(statement, &mut |_| Ok(None)).ok());
            self.watched.begin([WatchedJob {
                name: "query".into(),
                file: None,
                statement: secret::conceal(&statement.text).into_owned(),
                monitor: Arc::clone(&monitor),
                description: run.as_ref().and_then(|run| self.described(run)),
                restarts: 0,
                state_dir: None,
            }]);
        }
        // A table that grows on the terminal and a status line under it would overwrite each other.
        let rows_on_terminal = stdout().is_terminal() && self.output.is_text() && statement.is_query();
        let live = self.output.live().filter(|_| statement.is_query()).cloned();
        let painted = match &live {
            Some(live) => Painted::Rows(live),
            None if self.config.quiet || rows_on_terminal => Painted::Nothing,
            None => Painted::Line,
        };
        let (session, output, config) = (&mut self.session, &mut self.output, &self.config);
        let outcome = status::telling(painted, config, &monitor, || session.execute(statement, output, &monitor));
        self.watched.end(&monitor, outcome.as_ref().err());
        self.watch(&[]);
        self.tell(outcome, &monitor)
    }

    /// What is to be told of a statement that has been executed.
    fn tell(&self, outcome: Result<Outcome, Diagnostic>, monitor: &RunMonitor) -> Result<(), Diagnostic> {
        status::tell_notices(monitor);
        if let (Err(_), Some(stats)) = (&outcome, monitor.stats()) {
            // What a failed or stopped run has done counts, too.
            summary::summarise(self.config.stats, self.config.quiet, &stats.snapshot());
        }
        match outcome? {
            Outcome::Done(message) => {
                if !self.config.quiet && stderr().is_terminal() {
                    log::info(&message);
                }
            }
            Outcome::Text(text) => print(&text)?,
            Outcome::Listed => {}
            Outcome::Ran(stats) => summary::summarise(self.config.stats, self.config.quiet, &stats),
        }
        Ok(())
    }
}
