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
    Code, Diagnostic, Outcome, Place, RunMonitor, Session, SessionConfig, StatsSnapshot, code, user_code_directory,
};
use std::io::{IsTerminal, Read, Write, stderr, stdin, stdout};
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
}

impl Context {
    pub(crate) fn new(common: &Common) -> Result<Context, Failure> {
        let config = Config::load(common)?;
        let mut session = Session::new(SessionConfig { pin: config.pin, code_directory: user_code_directory() });
        for (key, value) in &config.settings {
            session.set(key, value).map_err(Failure::usage)?;
        }
        let output = StandardOutput::new(config.output);
        let interrupt = Interrupt::install().map_err(Failure::usage)?;
        Ok(Context { session, config, output, interrupt, control: None })
    }

    /// Substitutes variables.
    pub(crate) fn text(&self, sql: String, origin: String) -> Result<Text, Failure> {
        match sql::substitute_variables(&sql, &|name| self.config.variable(name)) {
            Ok(sql) => Ok(Text { sql, origin }),
            Err(diagnostic) => Err(Failure::statement(diagnostic, &Text { sql, origin })),
        }
    }

    /// Executes every statement of a text; ends with the first that fails.
    pub(crate) fn execute(&mut self, text: &Text) -> Result<(), Failure> {
        let statements = self.session.parse(&text.sql).map_err(|d| Failure::statement(d, text))?;
        for statement in &statements {
            self.execute_one(statement).map_err(|d| Failure::statement(d, text))?;
        }
        Ok(())
    }

    /// Lets other processes reach the query, if there is a state directory.
    fn listen(&mut self, monitor: &RunMonitor) -> Result<(), Diagnostic> {
        let Some(place) = self.session.open_state_directory()? else { return Ok(()) };
        if self.control.is_none() {
            self.control = Control::listen(place.local());
        }
        if let Some(control) = &self.control {
            control.watch(Some(monitor.cancel().clone()));
        }
        Ok(())
    }

    fn execute_one(&mut self, statement: &ParsedStatement) -> Result<(), Diagnostic> {
        let monitor = RunMonitor::new();
        self.interrupt.watch(Some(monitor.cancel().clone()));
        if statement.is_insert() {
            self.listen(&monitor)?;
        }
        // A table that grows on the terminal and a status line under it would overwrite each other.
        let rows_on_terminal = stdout().is_terminal() && self.output.is_text() && statement.is_query();
        let show = !self.config.quiet && !rows_on_terminal;
        let (session, output, config) = (&mut self.session, &mut self.output, &self.config);
        let report = |stats: &StatsSnapshot| summary::report(config.stats, stats);
        let telling = Telling { line: show, every: config.stats_every, report: &report };
        let outcome = status::telling(&telling, &monitor, || session.execute(statement, output, &monitor));
        self.interrupt.watch(None);
        self.control.iter().for_each(|control| control.watch(None));
        status::tell_notices(&monitor);
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
    Ok(())
}

/// `millstream sql`
pub(crate) fn sql(arguments: &Shell, common: &Common) -> Result<(), Failure> {
    let mut context = Context::new(common)?;
    let script = Script { file: arguments.file.clone(), statements: arguments.statements.clone() };
    for text in texts(&context, &script)? {
        context.execute(&text)?;
    }
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
