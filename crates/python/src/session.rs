//! Sessions: a catalog and settings.

use crate::error::OrRaise;
use crate::function::{self, Style};
use crate::job::Job;
use crate::process;
use crate::relation::Relation;
use crate::waiting::{detached, finish, interruptible};
use crate::{frame, rows};
use arrow_array::builder::StringViewBuilder;
use arrow_array::{ArrayRef, RecordBatch};
use millstream::sql::{self, ParsedStatement};
use millstream::{
    Collected, Diagnostic, EventTime, LocalTable, Outcome, PreparedRun, RunMonitor, SessionConfig, code, columns_text,
    user_code_directory,
};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// See `millstream.Session`, which has one.
#[pyclass(frozen, module = "millstream._core")]
pub(crate) struct Session {
    /// `None` once it is closed.
    session: Mutex<Option<millstream::Session>>,
}

/// A script that is being executed.
struct Script<'a> {
    text: &'a str,
    /// Finds an object of a name in the program; `None` if there is none.
    find: &'a Py<PyAny>,
    /// An exception of `find`.
    raised: Option<PyErr>,
}

impl Script<'_> {
    /// The table of a name that the catalog does not have.
    fn find(&mut self, name: &str) -> Result<Option<LocalTable>, Diagnostic> {
        let found = Python::attach(|py| {
            let object = self.find.bind(py).call1((name,))?;
            if object.is_none() { Ok(None) } else { frame::local_table(&object, None).map(Some) }
        });
        match found {
            Ok(table) => table.transpose(),
            Err(raised) => {
                self.raised = Some(raised);
                Err(Diagnostic::new(code::READ_FAILED, "a table of the program cannot be read"))
            }
        }
    }

    /// The result of something that may have asked for tables.
    fn raise<T>(&mut self, py: Python<'_>, result: Result<T, Diagnostic>) -> PyResult<T> {
        match (self.raised.take(), result) {
            (_, Ok(value)) => Ok(value),
            (Some(raised), Err(_)) => Err(raised),
            (None, failed) => failed.or_raise(py, Some(self.text)),
        }
    }
}

impl Session {
    fn lock(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, Option<millstream::Session>>> {
        process::check().or_raise(py, None)?;
        let lock = self.session.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        match lock.is_some() {
            true => Ok(lock),
            false => {
                Err(Diagnostic::new(code::USAGE, "the session is closed").advise("make another one with connect()"))
                    .or_raise(py, None)
            }
        }
    }

    /// The statements of a script.
    fn parse(
        &self,
        py: Python<'_>,
        script: &str,
        parameters: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<ParsedStatement>> {
        let parameters = rows::parameters(parameters)?;
        let mut lock = self.lock(py)?;
        let session = lock.as_mut().expect("it is open");
        let statements = session.parse_with(script, &parameters).or_raise(py, Some(script))?;
        session.announce(&statements);
        Ok(statements)
    }

    /// Plans an insert.
    fn prepare(&self, py: Python<'_>, script: &mut Script<'_>, statement: &ParsedStatement) -> PyResult<PreparedRun> {
        let mut lock = self.lock(py)?;
        let session = lock.as_mut().expect("it is open");
        let prepared = py.detach(|| session.prepare_with(statement, &mut |name| script.find(name)));
        script.raise(py, prepared)
    }

    /// Executes a statement that is neither a query nor an insert; the table that it lists, or a text.
    fn define(&self, py: Python<'_>, script: &mut Script<'_>, statement: &ParsedStatement) -> PyResult<RecordBatch> {
        let (monitor, mut results) = (RunMonitor::new(), Collected::new());
        let mut lock = self.lock(py)?;
        let session = lock.as_mut().expect("it is open");
        let mut find = |name: &str| script.find(name);
        let outcome =
            interruptible(py, &monitor, || session.execute_with(statement, &mut find, &mut results, &monitor))?;
        match script.raise(py, outcome)? {
            Outcome::Done(text) | Outcome::Text(text) => text_batch(text.trim_end()).or_raise(py, None),
            Outcome::Listed | Outcome::Ran(_) => results.into_batch().or_raise(py, None),
        }
    }
}

#[pymethods]
impl Session {
    /// A session with these settings; compiled code is kept in the user's cache if that is wanted.
    #[new]
    fn new(py: Python<'_>, settings: BTreeMap<String, String>, keeps_code: bool) -> PyResult<Session> {
        process::enter().or_raise(py, None)?;
        let code_directory = if keeps_code { user_code_directory() } else { None };
        let mut session = millstream::Session::new(SessionConfig { pin: false, code_directory });
        for (key, value) in settings {
            session.set(&key, &value).or_raise(py, None)?;
        }
        Ok(Session { session: Mutex::new(Some(session)) })
    }

    /// Sets an option.
    fn set(&self, py: Python<'_>, key: &str, value: &str) -> PyResult<()> {
        let mut lock = self.lock(py)?;
        lock.as_mut().expect("it is open").set(key, value).or_raise(py, None)
    }

    /// Names of tables and views.
    fn tables(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        Ok(self.lock(py)?.as_ref().expect("it is open").tables().map(str::to_string).collect())
    }

    /// Executes the definitions of a script; the query that it ends with, or what its last statement gives.
    fn sql(
        &self,
        py: Python<'_>,
        script: &str,
        parameters: Option<Bound<'_, PyAny>>,
        find: Py<PyAny>,
    ) -> PyResult<Relation> {
        let statements = self.parse(py, script, parameters.as_ref())?;
        let mut context = Script { text: script, find: &find, raised: None };
        let Some((last, before)) = statements.split_last() else {
            return Err(Diagnostic::new(code::SYNTAX, "there is no statement")).or_raise(py, Some(script));
        };
        for statement in before {
            if statement.is_query() {
                let error = Diagnostic::new(code::UNSUPPORTED, "a query before the last statement has no reader");
                return Err(error.advise("give it to sql() by itself")).or_raise(py, Some(script));
            }
            refuse_insert(statement).or_raise(py, Some(script))?;
            self.define(py, &mut context, statement)?;
        }
        refuse_insert(last).or_raise(py, Some(script))?;
        let relation = match last.is_query() {
            true => {
                let lock = self.lock(py)?;
                let relation = lock.as_ref().expect("it is open").relation(last, &mut |name| context.find(name));
                context.raise(py, relation)?
            }
            false => listing(self.define(py, &mut context, last)?).or_raise(py, Some(script))?,
        };
        Ok(Relation::new(relation, script))
    }

    /// Executes all statements of a script to their end.
    fn execute(
        &self,
        py: Python<'_>,
        script: &str,
        parameters: Option<Bound<'_, PyAny>>,
        find: Py<PyAny>,
    ) -> PyResult<()> {
        let statements = self.parse(py, script, parameters.as_ref())?;
        let mut context = Script { text: script, find: &find, raised: None };
        for statement in &statements {
            if statement.is_query() {
                let error = Diagnostic::new(code::UNSUPPORTED, "execute() has nowhere to put the rows of a query");
                return Err(error.advise("give it to sql()")).or_raise(py, Some(script));
            }
            if !statement.is_insert() {
                self.define(py, &mut context, statement)?;
                continue;
            }
            let run = self.prepare(py, &mut context, statement)?;
            finish(py, run.submit().or_raise(py, Some(script))?, script)?;
        }
        Ok(())
    }

    /// Executes the definitions of a script, and starts the INSERT that it ends with.
    fn submit(
        &self,
        py: Python<'_>,
        script: &str,
        parameters: Option<Bound<'_, PyAny>>,
        find: Py<PyAny>,
    ) -> PyResult<Job> {
        let statements = self.parse(py, script, parameters.as_ref())?;
        let mut context = Script { text: script, find: &find, raised: None };
        let (last, before) = match statements.split_last() {
            Some((last, before)) if last.is_insert() => (last, before),
            _ => {
                return Err(Diagnostic::new(code::UNSUPPORTED, "there is no INSERT at the end of the script")
                    .advise("end it with INSERT INTO or a statement set; queries are for sql()"))
                .or_raise(py, Some(script));
            }
        };
        for statement in before {
            if statement.is_query() || statement.is_insert() {
                let error = Diagnostic::new(code::UNSUPPORTED, "only the last statement can be a query or an INSERT");
                return Err(error.advise("put several INSERTs into one EXECUTE STATEMENT SET"))
                    .or_raise(py, Some(script));
            }
            self.define(py, &mut context, statement)?;
        }
        let run = self.prepare(py, &mut context, last)?;
        let keeps_checkpoints = run.keeps_checkpoints();
        Ok(Job::new(py.detach(|| run.submit()).or_raise(py, Some(script))?, script, keeps_checkpoints))
    }

    /// Starts to write the rows of a query into a table of the session.
    fn insert_into(&self, py: Python<'_>, relation: &Relation, table: &str, overwrites: bool) -> PyResult<Job> {
        let text = relation.query().text();
        let run = {
            let mut lock = self.lock(py)?;
            let session = lock.as_mut().expect("it is open");
            py.detach(|| session.prepare_insert(table, overwrites, relation.query())).or_raise(py, Some(text))?
        };
        let keeps_checkpoints = run.keeps_checkpoints();
        Ok(Job::new(py.detach(|| run.submit()).or_raise(py, Some(text))?, text, keeps_checkpoints))
    }

    /// Makes a callable a function of SQL. `takes` are the types of its parameters, if they are declared.
    #[allow(clippy::too_many_arguments, reason = "they are named on the other side")]
    fn register_function(
        &self,
        py: Python<'_>,
        name: &str,
        callable: Py<PyAny>,
        by_rows: bool,
        takes: Option<Vec<String>>,
        returns: &str,
        version: Option<String>,
        is_deterministic: bool,
    ) -> PyResult<()> {
        let data_type = |text: &str| sql::data_type::from_text(text).or_raise(py, None);
        let style = if by_rows { Style::Rows } else { Style::Columns };
        let mut function = function::scalar(name, callable, style, data_type(returns)?);
        if let Some(takes) = takes {
            function = function.with_parameters(takes.iter().map(|text| data_type(text)).collect::<PyResult<_>>()?);
        }
        if let Some(version) = version {
            function = function.with_version(version);
        }
        if !is_deterministic {
            function = function.not_deterministic();
        }
        let mut lock = self.lock(py)?;
        lock.as_mut().expect("it is open").register_function(function).or_raise(py, None)
    }

    /// Makes an object a table of the session. `delay_ms` is for the event time `time`.
    fn register(
        &self,
        py: Python<'_>,
        name: &str,
        object: &Bound<'_, PyAny>,
        time: Option<String>,
        delay_ms: u64,
    ) -> PyResult<()> {
        let time = time.map(|column| EventTime { column, delay: Duration::from_millis(delay_ms) });
        let table = frame::local_table(object, time.as_ref())?.or_raise(py, None)?;
        let mut lock = self.lock(py)?;
        lock.as_mut().expect("it is open").register_local(name, table).or_raise(py, None)
    }

    /// Ends the session. Queries of it that run, and relations, stay.
    fn close(&self, py: Python<'_>) {
        let session = py.detach(|| self.session.lock().unwrap_or_else(PoisonError::into_inner).take());
        detached(|| drop(session));
    }
}

fn refuse_insert(statement: &ParsedStatement) -> Result<(), Diagnostic> {
    match statement.is_insert() {
        true => Err(Diagnostic::new(code::UNSUPPORTED, "sql() does not write rows")
            .advise("run INSERT INTO with execute(), or start it with submit()")),
        false => Ok(()),
    }
}

/// A table of one text.
fn text_batch(text: &str) -> Result<RecordBatch, Diagnostic> {
    let mut lines = StringViewBuilder::new();
    lines.append_value(text);
    let column: ArrayRef = Arc::new(lines.finish());
    RecordBatch::try_from_iter([("result", column)]).map_err(|e| Diagnostic::bug(e.to_string()))
}

/// A query for the rows of a listing.
fn listing(batch: RecordBatch) -> Result<millstream::Relation, Diagnostic> {
    let session = millstream::Session::new(SessionConfig::default());
    let statements = session.parse("SELECT * FROM listing")?;
    let columns = columns_text(&batch.schema(), None)?;
    let mut table = Some(LocalTable::Frame { columns, batches: vec![batch] });
    session.relation(&statements[0], &mut |_| Ok(table.take()))
}
