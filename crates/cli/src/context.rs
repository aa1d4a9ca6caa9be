//! A session of the command line: executes statements one by one, or inserts concurrently, and reports.

use crate::arguments::{Common, LogArgument};
use crate::config::Config;
use crate::failure::{Failure, Text};
use crate::inserts::{Inserts, tell};
use crate::interrupt::Interrupt;
use crate::log;
use crate::output::StandardOutput;
use crate::status::{self, Painted};
use crate::watch::{Serving, Watched, WatchedJob, send, serve};
use millstream::sql::ParsedStatement;
use millstream::{Diagnostic, RunMonitor, Session, SessionConfig, secret, user_code_directory};
use std::any::Any;
use std::io::{IsTerminal, stdout};
use std::sync::Arc;

/// A session with the configuration applied.
pub(crate) struct Context {
    pub(crate) session: Session,
    pub(crate) config: Arc<Config>,
    pub(crate) output: StandardOutput,
    pub(crate) interrupt: Interrupt,
    inserts: Inserts,
    _server: Option<Serving>,
    _telemetry: Option<Box<dyn Any>>,
}

/// A session with the settings of the configuration.
pub(crate) fn session(config: &Config) -> Result<Session, Failure> {
    let mut session = Session::new(SessionConfig { pin: config.pin, code_directory: user_code_directory() });
    for (key, value) in &config.settings {
        session.set(key, value).map_err(Failure::usage)?;
    }
    Ok(session)
}

impl Context {
    /// A session as the arguments and the configuration file say.
    pub(crate) fn new(common: &Common) -> Result<Context, Failure> {
        // First of all: a signal is never met by nobody.
        let interrupt = Interrupt::install().map_err(Failure::usage)?;
        let config = Arc::new(Config::load(common)?);
        let session = session(&config)?;
        log::set_form(config.log_format.unwrap_or(LogArgument::Text));
        let watched = Arc::<Watched>::default();
        let server = serve(&config, Arc::clone(&watched))?;
        server.iter().filter(|_| !config.quiet).for_each(Serving::tell);
        let _telemetry = send(&config, Arc::clone(&watched))?;
        let output = StandardOutput::new(config.output);
        let inserts = Inserts::new(Arc::clone(&config), Arc::new(interrupt.clone()), watched, server.is_some(), None);
        Ok(Context { session, config, output, interrupt, inserts, _server: server, _telemetry })
    }

    /// Substitutes variables.
    pub(crate) fn text(&self, sql: String, origin: String) -> Result<Text, Failure> {
        self.config.substituted(sql, origin)
    }

    /// See [`Inserts::execute`].
    pub(crate) fn execute(&mut self, text: &Text) -> Result<(), Failure> {
        let Context { session, output, inserts, .. } = self;
        inserts
            .execute(session, text, &mut |inserts, session, statement| execute_one(inserts, session, output, statement))
    }

    /// See [`Inserts::finish`].
    pub(crate) fn finish(&mut self) -> Result<(), Failure> {
        self.inserts.finish(&mut self.session)
    }

    /// Executes a statement at once.
    pub(crate) fn execute_one(&mut self, statement: &ParsedStatement) -> Result<(), Diagnostic> {
        execute_one(&self.inserts, &mut self.session, &mut self.output, statement)
    }
}

fn execute_one(
    inserts: &Inserts,
    session: &mut Session,
    output: &mut StandardOutput,
    statement: &ParsedStatement,
) -> Result<(), Diagnostic> {
    let (config, monitor) = (&*inserts.config, Arc::new(RunMonitor::new()));
    inserts.watch(std::slice::from_ref(&monitor));
    if statement.is_query() {
        let run = inserts.is_shown.then(|| session.plan_with(statement, &mut |_| Ok(None)).ok()).flatten();
        inserts.watched.begin([WatchedJob {
            name: "query".into(),
            file: None,
            statement: secret::conceal(&statement.text).into_owned(),
            monitor: Arc::clone(&monitor),
            description: run.as_ref().and_then(|run| inserts.described(run)),
            restarts: 0,
            state_dir: None,
        }]);
    }
    // A table that grows on the terminal and a status line under it would overwrite each other.
    let rows_on_terminal = stdout().is_terminal() && output.is_text() && statement.is_query();
    let live = output.live().filter(|_| statement.is_query()).cloned();
    let painted = match &live {
        Some(live) => Painted::Rows(live),
        None if config.quiet || rows_on_terminal => Painted::Nothing,
        None => Painted::Line,
    };
    let outcome = status::telling(painted, config, &monitor, || session.execute(statement, output, &monitor));
    inserts.watched.end(&monitor, outcome.as_ref().err());
    inserts.watch(&[]);
    tell(config, outcome, &monitor)
}
