//! The commands: get SQL, execute its statements one by one, report.

use crate::arguments::{Common, Explain, Script, Shell};
use crate::config::Config;
use crate::control::Control;
use crate::interrupt::Interrupt;
use crate::output::StandardOutput;
use crate::status::Telling;
use crate::{EXIT_FAILED, EXIT_INTERRUPTED, EXIT_USAGE, docs, shell, status, summary};
use millstream::connectors::stdout_error;
use millstream::sql::{self, ParsedStatement};
use millstream::{
    CancelToken, Code, Diagnostic, Discarded, Outcome, Place, PreparedRun, RunMonitor, Session, SessionConfig,
    StatsSnapshot, code, user_code_directory,
};
use std::io::{IsTerminal, Read, Write, stderr, stdin, stdout};
use std::panic::resume_unwind;
use std::path::Path;

/// Why the process ends with another exit code than 0.
#[derive(Debug)]
pub(crate) struct Failure {
    diagnostic: Diagnostic,
    /// The text that the place refers to, and what to call it.
    source: Option<(String, String)>,
    pub(crate) exit_code: u8,
}

impl Failure {
    /// The command line or the configuration is unusable.
    pub(crate) fn usage(diagnostic: Diagnostic) -> Failure {
        Failure { diagnostic, source: None, exit_code: EXIT_USAGE }
    }

    /// A command has failed that is no statement.
    pub(crate) fn failed(diagnostic: Diagnostic) -> Failure {
        Failure { diagnostic, source: None, exit_code: EXIT_FAILED }
    }

    /// What is wrong.
    pub(crate) fn code(&self) -> Code {
        self.diagnostic.code
    }

    fn statement(diagnostic: Diagnostic, text: &Text) -> Failure {
        let exit_code = match diagnostic.code {
            code::CANCELLED => EXIT_INTERRUPTED,
            // `millstream … | head` has done what was asked for, and so has a query that was stopped with a checkpoint.
            code::OUTPUT_CLOSED | code::SUSPENDED => 0,
            _ => EXIT_FAILED,
        };
        Failure { diagnostic, source: Some((text.sql.clone(), text.origin.clone())), exit_code }
    }

    /// Prints the diagnostic to standard error, with the line it is about.
    pub(crate) fn report(&self) {
        match self.diagnostic.code {
            code::OUTPUT_CLOSED => return,
            // Not an error.
            code::SUSPENDED => {
                let _ = writeln!(stderr(), "{}", self.diagnostic.message);
                return;
            }
            _ => {}
        }
        let (text, origin) = match &self.source {
            Some((text, origin)) => (Some(text.as_str()), origin.as_str()),
            None => (None, "millstream"),
        };
        // Nothing is left to do if standard error is closed.
        let _ = writeln!(stderr(), "{}", sql::render(&self.diagnostic, text, origin).trim_end());
    }
}

/// SQL with its name for messages, variables substituted.
#[derive(Clone)]
pub(crate) struct Text {
    pub(crate) sql: String,
    pub(crate) origin: String,
}

/// A session with the configuration applied.
pub(crate) struct Context {
    pub(crate) session: Session,
    pub(crate) config: Config,
    pub(crate) output: StandardOutput,
    pub(crate) interrupt: Interrupt,
    control: Option<Control>,
    /// Inserts that read endless input, and the texts that they are of: they run together.
    endless: Vec<(PreparedRun, Text)>,
}

impl Context {
    pub(crate) fn new(common: &Common) -> Result<Context, Failure> {
        // First of all: a signal is never met by nobody.
        let interrupt = Interrupt::install().map_err(Failure::usage)?;
        let config = Config::load(common)?;
        let mut session = Session::new(SessionConfig { pin: config.pin, code_directory: user_code_directory() });
        for (key, value) in &config.settings {
            session.set(key, value).map_err(Failure::usage)?;
        }
        let output = StandardOutput::new(config.output);
        Ok(Context { session, config, output, interrupt, control: None, endless: Vec::new() })
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
        for statement in &self.session.parse(&text.sql).map_err(failed)? {
            if statement.is_insert() {
                let run = self.prepare(statement).map_err(failed)?;
                match run.is_endless() {
                    true => self.endless.push((run, text.clone())),
                    false => self.run_together(vec![(run, text.clone())])?,
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
            let _ = writeln!(stderr(), "note: {} INSERTs that read endless input run together", runs.len());
        }
        self.run_together(runs)
    }

    /// Plans an insert. Other processes can reach it from now on, if there is a state directory.
    fn prepare(&mut self, statement: &ParsedStatement) -> Result<PreparedRun, Diagnostic> {
        if let Some(place) = self.session.open_state_directory()?
            && self.control.is_none()
        {
            self.control = Control::listen(place.local());
        }
        self.session.prepare(statement)
    }

    /// Names the queries that signals and requests are meant for.
    fn watch(&self, monitors: &[RunMonitor]) {
        let tokens: Vec<CancelToken> = monitors.iter().map(|monitor| monitor.cancel().clone()).collect();
        self.control.iter().for_each(|control| control.watch(tokens.clone()));
        self.interrupt.watch(tokens);
    }

    /// Runs inserts beside each other, each by a thread of its own. When one fails the others stop in good order, with a
    /// checkpoint if they have any.
    fn run_together(&mut self, inserts: Vec<(PreparedRun, Text)>) -> Result<(), Failure> {
        let (mut runs, texts): (Vec<PreparedRun>, Vec<Text>) = inserts.into_iter().unzip();
        PreparedRun::share(&mut runs);
        let monitors: Vec<RunMonitor> = runs.iter().map(|_| RunMonitor::new()).collect();
        self.watch(&monitors);
        let config = &self.config;
        let report = |stats: &StatsSnapshot| summary::report(config.stats, stats);
        // Several status lines would overwrite each other.
        let line = !config.quiet && runs.len() == 1;
        let telling = Telling { line, silence: !config.quiet, every: config.stats_every, report: &report };
        let run = |run: PreparedRun, monitor: &RunMonitor| {
            let outcome = status::telling(&telling, monitor, || run.run(&mut Discarded, monitor));
            if outcome.is_err() {
                monitors.iter().for_each(|other| other.cancel().stop());
            }
            outcome
        };
        let outcomes: Vec<Result<Outcome, Diagnostic>> = std::thread::scope(|scope| {
            let run = &run;
            let start = |(prepared, monitor)| scope.spawn(move || run(prepared, monitor));
            let threads: Vec<_> = runs.into_iter().zip(&monitors).map(start).collect();
            let end = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|panic| resume_unwind(panic))
            };
            threads.into_iter().map(end).collect()
        });
        self.watch(&[]);
        let mut failures = Vec::new();
        for ((outcome, monitor), text) in outcomes.into_iter().zip(&monitors).zip(&texts) {
            if let Err(failure) = self.tell(outcome, monitor) {
                failures.push(Failure::statement(failure, text));
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

    fn execute_one(&mut self, statement: &ParsedStatement) -> Result<(), Diagnostic> {
        let monitor = RunMonitor::new();
        self.watch(std::slice::from_ref(&monitor));
        // A table that grows on the terminal and a status line under it would overwrite each other.
        let rows_on_terminal = stdout().is_terminal() && self.output.is_text() && statement.is_query();
        let show = !self.config.quiet && !rows_on_terminal;
        let (session, output, config) = (&mut self.session, &mut self.output, &self.config);
        let report = |stats: &StatsSnapshot| summary::report(config.stats, stats);
        let silence = !config.quiet;
        let telling = Telling { line: show, silence, every: config.stats_every, report: &report };
        let outcome = status::telling(&telling, &monitor, || session.execute(statement, output, &monitor));
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
                    let _ = writeln!(stderr(), "{message}");
                }
            }
            Outcome::Text(text) => print(&text)?,
            Outcome::Listed => {}
            Outcome::Ran(stats) => summary::summarise(self.config.stats, self.config.quiet, &stats),
        }
        Ok(())
    }
}

/// Writes text to standard output.
pub(crate) fn print(text: &str) -> Result<(), Diagnostic> {
    let mut out = stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|e| stdout_error(&e))
}

/// The texts of a script in order: the file, then each `-e`.
fn texts(context: &Context, script: &Script) -> Result<Vec<Text>, Failure> {
    let mut texts = Vec::new();
    if let Some(file) = &script.file {
        texts.push(context.text(read(file)?, file.display().to_string())?);
    }
    for (i, statement) in script.statements.iter().enumerate() {
        let origin = if script.statements.len() == 1 { "-e".to_string() } else { format!("-e #{}", i + 1) };
        texts.push(context.text(statement.clone(), origin)?);
    }
    Ok(texts)
}

fn read(file: &Path) -> Result<String, Failure> {
    let failed = |code, message: String| {
        let place = Place::Data { resource: file.display().to_string(), offset: None, line: None, column: None };
        let advice = "give the path of a SQL script, `-` for standard input, or -e 'SQL'";
        Failure::usage(Diagnostic::new(code, message).at(place).advise(advice))
    };
    let bytes = if file == Path::new("-") {
        let mut bytes = Vec::new();
        stdin().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        std::fs::read(file)
    };
    let bytes = bytes.map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => failed(code::FILE_NOT_FOUND, "the script does not exist".into()),
        _ => failed(code::READ_FAILED, format!("the script cannot be read: {e}")),
    })?;
    let text = String::from_utf8(bytes).map_err(|e| {
        let place = Place::Data {
            resource: file.display().to_string(),
            offset: Some(e.utf8_error().valid_up_to() as u64),
            line: None,
            column: None,
        };
        let diagnostic = Diagnostic::new(code::SYNTAX, "the script is not UTF-8 text");
        Failure::usage(diagnostic.at(place).advise("save the script as UTF-8"))
    })?;
    // Editors on Windows put a byte order mark before the text.
    Ok(text.strip_prefix('\u{feff}').map_or_else(|| text.clone(), str::to_string))
}

/// `millstream run`
pub(crate) fn run(script: &Script, common: &Common) -> Result<(), Failure> {
    let mut context = Context::new(common)?;
    for text in texts(&context, script)? {
        context.execute(&text)?;
    }
    context.finish()
}

/// `millstream sql`
pub(crate) fn sql(arguments: &Shell, common: &Common) -> Result<(), Failure> {
    let mut context = Context::new(common)?;
    let script = Script { file: arguments.file.clone(), statements: arguments.statements.clone() };
    for text in texts(&context, &script)? {
        context.execute(&text)?;
    }
    context.finish()?;
    shell::run(&mut context)
}

/// `millstream explain`: definitions and settings are executed, queries and inserts explained, or run and analysed.
pub(crate) fn explain(arguments: &Explain, common: &Common) -> Result<(), Failure> {
    let mut context = Context::new(common)?;
    for text in texts(&context, &arguments.script)? {
        let fail = |d| Failure::statement(d, &text);
        for statement in &context.session.parse(&text.sql).map_err(fail)? {
            if arguments.analyze && (statement.is_query() || statement.is_insert()) {
                context.execute_one(&statement.analyzed()).map_err(fail)?;
            } else if statement.is_query() || statement.is_insert() {
                let plan = context.session.explain(statement, arguments.codegen).map_err(fail)?;
                print(&plan).map_err(fail)?;
            } else {
                context.execute_one(statement).map_err(fail)?;
            }
        }
    }
    Ok(())
}

/// `millstream docs`
pub(crate) fn docs(folder: &Path) -> Result<(), Failure> {
    for (name, text) in docs::pages() {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(|e| {
            Failure::usage(Diagnostic::new(code::WRITE_FAILED, format!("{} cannot be written: {e}", path.display())))
        })?;
    }
    Ok(())
}
