//! Sessions: a catalog and settings.

use crate::aggregate;
use crate::cluster::{Cluster, Registration};
use crate::error::OrRaise;
use crate::function::{self, Style};
use crate::job::Job;
use crate::process;
use crate::relation::Relation;
use crate::sink::PythonSink;
use crate::source::PythonTable;
use crate::waiting::{detached, interruptible};
use crate::{frame, rows};
use arrow_array::builder::StringViewBuilder;
use arrow_array::{ArrayRef, RecordBatch};
use millstream::connectors::SplitKind;
use millstream::sql::{self, ParsedStatement};
use millstream::{
    Collected, Diagnostic, EventTime, LocalTable, Outcome, PreparedRun, RunMonitor, SessionConfig, code, columns_text,
    user_code_directory,
};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// See `millstream.Session`, which has one.
#[pyclass(frozen, module = "millstream._core")]
pub(crate) struct Session {
    shared: Arc<Shared>,
}

/// What a session and its jobs share: the state directory is in use until the session is closed and the last job has ended.
pub(crate) struct Shared {
    session: Mutex<millstream::Session>,
    is_closed: AtomicBool,
    /// Jobs that have not ended.
    jobs: AtomicUsize,
}

impl Shared {
    /// Frees the state directory if nothing needs it. Not to be called by a thread that has the interpreter: whoever has the lock may want it.
    fn free_if_unused(&self) {
        if self.is_closed.load(Ordering::SeqCst) && self.jobs.load(Ordering::SeqCst) == 0 {
            let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
            *session = millstream::Session::new(SessionConfig::default());
        }
    }
}

/// A job's part in the state directory.
pub(crate) struct Share(Arc<Shared>);

impl Drop for Share {
    fn drop(&mut self) {
        self.0.jobs.fetch_sub(1, Ordering::SeqCst);
        process::release(|| detached(|| self.0.free_if_unused()));
    }
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

/// What the statements of a script are checked for before the first is executed.
enum Purpose {
    /// Definitions, then a query or listing.
    Query,
    /// Definitions and inserts.
    Execution,
    /// Definitions, then an insert.
    Job,
}

impl Purpose {
    fn check(&self, statements: &[ParsedStatement]) -> Result<(), Diagnostic> {
        let refused = |message: &str, advice: &str| Err(Diagnostic::new(code::UNSUPPORTED, message).advise(advice));
        let Some((last, before)) = statements.split_last() else {
            return match self {
                Purpose::Execution => Ok(()),
                _ => Err(Diagnostic::new(code::SYNTAX, "there is no statement")),
            };
        };
        match self {
            Purpose::Query if statements.iter().any(ParsedStatement::is_insert) => {
                refused("sql() does not write rows", "run INSERT INTO with execute(), or start it with submit()")
            }
            Purpose::Query if before.iter().any(ParsedStatement::is_query) => {
                refused("only the last statement may be a query", "give each query to sql() by itself")
            }
            Purpose::Execution if statements.iter().any(ParsedStatement::is_query) => {
                refused("execute() has nowhere to put the rows of a query", "give it to sql()")
            }
            Purpose::Job if !last.is_insert() => refused(
                "there is no INSERT at the end of the script",
                "end it with INSERT INTO or a statement set; queries are for sql()",
            ),
            Purpose::Job if before.iter().any(|s| s.is_query() || s.is_insert()) => refused(
                "only the last statement may be a query or an INSERT",
                "put several INSERTs into one EXECUTE STATEMENT SET",
            ),
            _ => Ok(()),
        }
    }
}

impl Session {
    /// One of the engine as Python sees it.
    pub(crate) fn of(session: millstream::Session) -> Session {
        let (session, is_closed, jobs) = (Mutex::new(session), AtomicBool::new(false), AtomicUsize::new(0));
        Session { shared: Arc::new(Shared { session, is_closed, jobs }) }
    }

    /// That of the engine, of which nothing is left here.
    pub(crate) fn take(&self, py: Python<'_>) -> millstream::Session {
        let mut session = self.shared.session.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        self.shared.is_closed.store(true, Ordering::SeqCst);
        std::mem::replace(&mut session, millstream::Session::new(SessionConfig::default()))
    }

    fn lock(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, millstream::Session>> {
        process::check().or_raise(py, None)?;
        if self.shared.is_closed.load(Ordering::SeqCst) {
            let error = Diagnostic::new(code::USAGE, "the session is closed");
            return Err(error.advise("make another one with connect()")).or_raise(py, None);
        }
        Ok(self.shared.session.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner))
    }

    /// A copy to bind and plan in: code of Python that is called meanwhile may use the session.
    fn snapshot(&self, py: Python<'_>) -> PyResult<millstream::Session> {
        Ok(self.lock(py)?.snapshot())
    }

    /// The same, on a cluster.
    fn snapshot_on(&self, py: Python<'_>, cluster: Option<&Cluster>) -> PyResult<millstream::Session> {
        let mut snapshot = self.snapshot(py)?;
        if let Some(cluster) = cluster {
            snapshot.join_cluster(cluster.coordinator());
        }
        Ok(snapshot)
    }

    /// The statements of a script.
    fn parse(
        &self,
        py: Python<'_>,
        script: &str,
        parameters: Option<&Bound<'_, PyAny>>,
        purpose: &Purpose,
    ) -> PyResult<Vec<ParsedStatement>> {
        let parameters = rows::parameters(parameters)?;
        let mut session = self.lock(py)?;
        let statements = session.parse_with(script, &parameters).or_raise(py, Some(script))?;
        purpose.check(&statements).or_raise(py, Some(script))?;
        if !matches!(purpose, Purpose::Query) {
            session.announce(&statements);
            session.forget_ended_jobs().or_raise(py, Some(script))?;
        }
        Ok(statements)
    }

    /// Plans an insert.
    fn prepare(
        &self,
        py: Python<'_>,
        script: &mut Script<'_>,
        statement: &ParsedStatement,
        cluster: Option<&Cluster>,
    ) -> PyResult<PreparedRun> {
        let snapshot = self.snapshot_on(py, cluster)?;
        let mut find = |name: &str| script.find(name);
        let planned = py.detach(move || snapshot.plan_with(statement, &mut find));
        let run = script.raise(py, planned)?;
        self.with_job(py, run, script.text)
    }

    /// Says that an insert comes that is not of a script.
    fn begin_insert(&self, py: Python<'_>) -> PyResult<()> {
        let mut session = self.lock(py)?;
        session.announce(&[]);
        session.forget_ended_jobs().or_raise(py, None)
    }

    /// Starts writing the rows of a query into a table of a copy of the session.
    fn insert_in(
        &self,
        py: Python<'_>,
        session: millstream::Session,
        relation: &Relation,
        table: &str,
        overwrites: bool,
    ) -> PyResult<Job> {
        let text = relation.query().text();
        let planned = py.detach(move || session.plan_insert(table, overwrites, relation.query()));
        let run = planned.or_raise(py, Some(text))?;
        let run = self.with_job(py, run, text)?;
        self.start(py, run, text)
    }

    /// The run of an insert with its job.
    fn with_job(&self, py: Python<'_>, run: PreparedRun, script: &str) -> PyResult<PreparedRun> {
        let mut lock = self.lock(py)?;
        let session = &mut *lock;
        py.detach(|| session.with_job(run)).or_raise(py, Some(script))
    }

    /// Starts a run in the background.
    fn start(&self, py: Python<'_>, run: PreparedRun, script: &str) -> PyResult<Job> {
        let keeps_checkpoints = run.keeps_checkpoints();
        let (strategy, shared) = (self.lock(py)?.restart_strategy(), Arc::clone(&self.shared));
        let again = move |run| shared.session.lock().unwrap_or_else(PoisonError::into_inner).with_job_again(run);
        let job = py.detach(|| run.submit_resuming(strategy, again)).or_raise(py, Some(script))?;
        self.shared.jobs.fetch_add(1, Ordering::SeqCst);
        Ok(Job::new(job, script, keeps_checkpoints, Share(Arc::clone(&self.shared))))
    }

    /// Executes a statement that is neither a query nor an insert; the table that it lists, or a text.
    fn define(&self, py: Python<'_>, script: &mut Script<'_>, statement: &ParsedStatement) -> PyResult<RecordBatch> {
        let (monitor, mut results) = (RunMonitor::new(), Collected::new());
        let mut find = |name: &str| script.find(name);
        let outcome = if statement.changes_session() {
            let mut lock = self.lock(py)?;
            let session = &mut *lock;
            py.detach(|| session.execute_with(statement, &mut find, &mut results, &monitor))
        } else {
            let mut snapshot = self.snapshot(py)?;
            interruptible(py, &monitor, || snapshot.execute_with(statement, &mut find, &mut results, &monitor))?
        };
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
        Ok(Session::of(session))
    }

    /// Sets an option.
    fn set(&self, py: Python<'_>, key: &str, value: &str) -> PyResult<()> {
        self.lock(py)?.set(key, value).or_raise(py, None)
    }

    /// Has the nodes of a cluster take part in what is run from now on.
    fn join(&self, py: Python<'_>, cluster: &Bound<'_, Cluster>) -> PyResult<()> {
        self.lock(py)?.join_cluster(cluster.get().coordinator());
        Ok(())
    }

    /// Names of tables and views.
    fn tables(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        Ok(self.lock(py)?.tables().map(str::to_string).collect())
    }

    /// Executes the definitions of a script; the query that it ends with, or what its last statement gives.
    fn sql(
        &self,
        py: Python<'_>,
        script: &str,
        parameters: Option<Bound<'_, PyAny>>,
        find: Py<PyAny>,
    ) -> PyResult<Relation> {
        let mut statements = self.parse(py, script, parameters.as_ref(), &Purpose::Query)?;
        let mut context = Script { text: script, find: &find, raised: None };
        let last = statements.pop();
        for statement in &statements {
            self.define(py, &mut context, statement)?;
        }
        let relation = match last {
            Some(last) if last.is_query() => {
                let snapshot = self.snapshot(py)?;
                let mut find = |name: &str| context.find(name);
                let relation = py.detach(move || snapshot.relation(&last, &mut find));
                context.raise(py, relation)?
            }
            Some(last) => listing(self.define(py, &mut context, &last)?).or_raise(py, Some(script))?,
            None => return Err(Diagnostic::bug("a script without statements was accepted")).or_raise(py, None),
        };
        Ok(Relation::new(relation, script))
    }

    /// Whether a script ends with an INSERT or a statement set; what cannot be parsed does not.
    fn ends_with_insert(&self, py: Python<'_>, script: &str, parameters: Option<Bound<'_, PyAny>>) -> PyResult<bool> {
        let parameters = rows::parameters(parameters.as_ref())?;
        let statements = self.lock(py)?.parse_with(script, &parameters);
        Ok(statements.is_ok_and(|all| all.last().is_some_and(ParsedStatement::is_insert)))
    }

    /// Executes all statements of a script to their end.
    fn execute(
        &self,
        py: Python<'_>,
        script: &str,
        parameters: Option<Bound<'_, PyAny>>,
        find: Py<PyAny>,
    ) -> PyResult<()> {
        let statements = self.parse(py, script, parameters.as_ref(), &Purpose::Execution)?;
        let mut context = Script { text: script, find: &find, raised: None };
        for statement in &statements {
            if statement.is_insert() {
                let run = self.prepare(py, &mut context, statement, None)?;
                self.start(py, run, script)?.wait(py, None)?;
            } else {
                self.define(py, &mut context, statement)?;
            }
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
        cluster: Option<Bound<'_, Cluster>>,
    ) -> PyResult<Job> {
        let mut statements = self.parse(py, script, parameters.as_ref(), &Purpose::Job)?;
        let mut context = Script { text: script, find: &find, raised: None };
        let last = statements.pop();
        for statement in &statements {
            self.define(py, &mut context, statement)?;
        }
        let Some(last) = last else {
            return Err(Diagnostic::bug("a script without statements was accepted")).or_raise(py, None);
        };
        let run = self.prepare(py, &mut context, &last, cluster.as_ref().map(Bound::get))?;
        self.start(py, run, script)
    }

    /// Starts writing the rows of a query into a table of the session.
    fn insert_into(
        &self,
        py: Python<'_>,
        relation: &Relation,
        table: &str,
        overwrites: bool,
        cluster: Option<Bound<'_, Cluster>>,
    ) -> PyResult<Job> {
        self.begin_insert(py)?;
        let session = self.snapshot_on(py, cluster.as_ref().map(Bound::get))?;
        self.insert_in(py, session, relation, table, overwrites)
    }

    /// Makes a callable a function of SQL. `takes` are the types of its parameters, if they are declared; `call` registers it on another node,
    /// here and below: see [`Registration`].
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
        call: Py<PyAny>,
    ) -> PyResult<()> {
        let data_type = |text: &str| sql::data_type::from_text(text).or_raise(py, None);
        let style = if by_rows { Style::Rows } else { Style::Columns };
        let portable = Arc::new(Registration { name: name.into(), call });
        let mut function = function::scalar(name, callable, style, data_type(returns)?).with_portable(portable);
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
        lock.register_function(function).or_raise(py, None)
    }

    /// Makes a callable an aggregate function of SQL: over all values, or an object with a state of the type `state`.
    #[allow(clippy::too_many_arguments, reason = "they are named on the other side")]
    fn register_aggregate(
        &self,
        py: Python<'_>,
        name: &str,
        callable: Py<PyAny>,
        by_rows: bool,
        takes: Vec<String>,
        returns: &str,
        state: Option<&str>,
        version: Option<String>,
        is_deterministic: bool,
        call: Py<PyAny>,
    ) -> PyResult<()> {
        let data_type = |text: &str| sql::data_type::from_text(text).or_raise(py, None);
        let takes = takes.iter().map(|text| data_type(text)).collect::<PyResult<_>>()?;
        let (style, returns) = (if by_rows { Style::Rows } else { Style::Columns }, data_type(returns)?);
        let mut function = match state {
            None => aggregate::of_values(name, callable, style, takes, returns),
            Some(state) => {
                let state = data_type(state)?;
                aggregate::with_state(name, callable, style, takes, state, returns).or_raise(py, None)?
            }
        };
        function = function.with_portable(Arc::new(Registration { name: name.into(), call }));
        if let Some(version) = version {
            function = function.with_version(version);
        }
        if !is_deterministic {
            function = function.not_deterministic();
        }
        let mut lock = self.lock(py)?;
        lock.register_aggregate(function).or_raise(py, None)
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
        lock.register_local(name, table).or_raise(py, None)
    }

    /// Makes code of Python a table that is read. `begin` begins a split; see [`PythonTable`].
    #[allow(clippy::too_many_arguments, reason = "they are named on the other side")]
    fn register_source(
        &self,
        py: Python<'_>,
        name: &str,
        columns: &str,
        begin: Py<PyAny>,
        splits: Vec<String>,
        is_bounded: bool,
        is_replayable: bool,
        idle_timeout_ms: Option<u64>,
        call: Py<PyAny>,
    ) -> PyResult<()> {
        let kind = SplitKind { is_bounded, is_replayable, waits: true };
        let idle_timeout = idle_timeout_ms.map(Duration::from_millis);
        let portable = Registration { name: name.into(), call };
        let table = PythonTable { name: name.into(), begin: Arc::new(begin), splits, kind, idle_timeout, portable };
        let mut lock = self.lock(py)?;
        lock.register_source(name, columns, Arc::new(table)).or_raise(py, None)
    }

    /// Makes code of Python a table that is written. `open` makes the object of a run; see [`PythonSink`].
    fn register_sink(
        &self,
        py: Python<'_>,
        name: &str,
        columns: &str,
        open: Py<PyAny>,
        is_transactional: bool,
    ) -> PyResult<()> {
        let sink = PythonSink { name: name.into(), open, is_transactional };
        let mut lock = self.lock(py)?;
        lock.register_sink(name, columns, Arc::new(sink)).or_raise(py, None)
    }

    /// Starts writing the rows of a query into such a table, which the session does not keep.
    #[allow(clippy::too_many_arguments, reason = "they are named on the other side")]
    fn write_to(
        &self,
        py: Python<'_>,
        relation: &Relation,
        name: &str,
        columns: &str,
        open: Py<PyAny>,
        is_transactional: bool,
        cluster: Option<Bound<'_, Cluster>>,
    ) -> PyResult<Job> {
        let sink = PythonSink { name: name.into(), open, is_transactional };
        self.begin_insert(py)?;
        let mut session = self.snapshot_on(py, cluster.as_ref().map(Bound::get))?;
        session.register_sink(name, columns, Arc::new(sink)).or_raise(py, None)?;
        self.insert_in(py, session, relation, name, false)
    }

    /// Ends the session: its state directory is free when no job of it runs. Queries of it that run, and relations, stay.
    fn close(&self, py: Python<'_>) {
        if !self.shared.is_closed.swap(true, Ordering::SeqCst) && process::check().is_ok() {
            py.detach(|| self.shared.free_if_unused());
        }
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
