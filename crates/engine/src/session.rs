//! A session: a catalog, settings, and the execution of statements.

use crate::aggregate::AggregateFunction;
use crate::cluster::Cluster;
use crate::compiler::Compiler;
use crate::environment::Environment;
use crate::function::ScalarFunction;
use crate::history::Step;
use crate::job::Job;
use crate::local::LocalTable;
use crate::memory::{self, SinkProvider, TableProvider};
use crate::monitor::{Outcome, RunMonitor};
use crate::planned::PreparedRun;
use crate::recovery::{JobState, StateDirectory};
use crate::relation::Relation;
use crate::restart::RestartStrategy;
use crate::results::{Collected, ResultTarget};
use crate::resumption::would_resume;
use arrow_array::builder::StringViewBuilder;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use millstream_runtime::RunConfig;
use millstream_sql::{self as sql, CatalogEntry, ExplainKind, ParsedStatement, Statement, StatementText, describe};
use millstream_storage::StatePlace;
use millstream_types::{DataType, Diagnostic, Field, Schema, code};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

/// What a session is started with; everything else is a setting (`SET`).
#[derive(Debug, Clone, Default)]
pub struct SessionConfig {
    /// Whether workers are pinned to cores.
    pub pin: bool,
    /// Where compiled code is kept on disk when the setting `pipeline.code-cache` is `auto`. A command gives
    /// [`user_code_directory`](crate::user_code_directory); without it (the default) code is kept in memory only, since
    /// a library writes nothing that nobody asked for.
    pub code_directory: Option<PathBuf>,
}

/// Executes SQL.
#[derive(Debug)]
pub struct Session {
    environment: Environment,
    /// The state directory, once a job has used it.
    state: Option<StateDirectory>,
    /// Tables that the inserts write which come next.
    to_come: VecDeque<Vec<String>>,
}

impl Session {
    /// An empty catalog and default settings.
    pub fn new(config: SessionConfig) -> Session {
        Session::with_compiler(config, Compiler::of_process())
    }

    /// A session that shares compiled code with those that have the same compiler.
    pub(crate) fn with_compiler(config: SessionConfig, compiler: Arc<Compiler>) -> Session {
        Session { environment: Environment::new(config, compiler), state: None, to_come: VecDeque::new() }
    }

    /// Sets an option, as `SET 'key' = 'value'` does.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), Diagnostic> {
        self.environment.settings.set(key, value)?;
        let quoted = |text: &str| text.replace('\'', "''");
        let text = format!("SET '{}' = '{}'", quoted(key), quoted(value));
        self.environment.note(Step::Statement(StatementText::new(text)));
        Ok(())
    }

    /// Has other processes take part in the queries that this session runs from now on: see [`crate::cluster`].
    pub fn join_cluster(&mut self, cluster: Arc<dyn Cluster>) {
        self.environment.join_cluster(cluster);
    }

    /// Those that take part, if there are any.
    pub fn cluster(&self) -> Option<Arc<dyn Cluster>> {
        self.environment.cluster()
    }

    /// Takes the state directory that inserts are checkpointed in, if one is set: from now on no other process can.
    pub fn open_state_directory(&mut self) -> Result<Option<StatePlace>, Diagnostic> {
        let Some(address) = &self.environment.settings.values.state else { return Ok(None) };
        let place = StatePlace::parse(address)?;
        if self.state.as_ref().is_none_or(|state| state.place().to_string() != place.to_string()) {
            self.state = Some(StateDirectory::open(place.clone())?);
        }
        Ok(Some(place))
    }

    /// Makes Arrow batches a table, to be read like any other. `columns` is what stands between the parentheses of a
    /// CREATE TABLE statement: columns, computed columns, WATERMARK; the batches hold its physical columns in order.
    ///
    /// Columns of another Arrow type than that of the table's column are cast when they are read.
    ///
    /// It takes the place of what was registered under the name by this or [`Session::register_local`]; relations that were bound before
    /// keep what they have.
    ///
    /// Fails when the name is that of another table or view, and when a batch does not have its columns.
    pub fn register(&mut self, name: &str, columns: &str, batches: Vec<RecordBatch>) -> Result<(), Diagnostic> {
        self.environment.register_local(name, LocalTable::Frame { columns: columns.into(), batches })
    }

    /// Makes a local table one of the session, to be read like any other, as [`Session::register`] does.
    pub fn register_local(&mut self, name: &str, table: LocalTable) -> Result<(), Diagnostic> {
        self.environment.register_local(name, table)
    }

    /// Makes packed records a table, to be read like any other: rows of fixed width, of the layout that the format `row` has
    /// for the physical columns of `columns`, which is as for [`Session::register`]. Each block holds whole records. The
    /// blocks are read in place.
    ///
    /// Fails when the table exists, when a column is not NOT NULL or has no fixed width, and when a record is malformed.
    pub fn register_rows(&mut self, name: &str, columns: &str, blocks: Vec<Buffer>) -> Result<(), Diagnostic> {
        self.environment.register_rows(name, columns, blocks)
    }

    /// Makes a source of the program's own a table, to be read like any other. `columns` is as for
    /// [`Session::register`]; the decoder of the source makes the physical columns that it is asked for.
    ///
    /// Fails when the table exists.
    pub fn register_source(
        &mut self,
        name: &str,
        columns: &str,
        table: Arc<dyn TableProvider>,
    ) -> Result<(), Diagnostic> {
        self.environment.register_source(name, columns, table)
    }

    /// Makes a sink of the program's own a table, to be written like any other. `columns` is as for [`Session::register`].
    ///
    /// Fails when the table exists.
    pub fn register_sink(&mut self, name: &str, columns: &str, table: Arc<dyn SinkProvider>) -> Result<(), Diagnostic> {
        self.environment.register_sink(name, columns, table)
    }

    /// Makes a function of the program one of SQL, in place of one of the same name. Queries that were bound before keep theirs.
    ///
    /// Fails for the name of a built-in function.
    pub fn register_function(&mut self, function: ScalarFunction) -> Result<(), Diagnostic> {
        let step = Step::Function { name: function.name().into(), portable: function.portable() };
        self.environment.catalog.register_function(function.registered()?)?;
        self.environment.note(step);
        Ok(())
    }

    /// The same for an aggregate function.
    pub fn register_aggregate(&mut self, function: AggregateFunction) -> Result<(), Diagnostic> {
        let step = Step::Function { name: function.name().into(), portable: function.portable() };
        self.environment.catalog.register_aggregate(function.registered()?)?;
        self.environment.note(step);
        Ok(())
    }

    /// Makes a table known that another process has.
    pub(crate) fn declare(&mut self, name: &str, columns: &str, is_bounded: bool) -> Result<(), Diagnostic> {
        self.environment.register_local(name, LocalTable::Declared { columns: columns.into(), is_bounded })
    }

    /// Binds a query, to be run any number of times. `find` is asked for the tables and views that the catalog does not have; the query
    /// keeps them. What is defined or set afterwards does not change it.
    pub fn relation(
        &self,
        statement: &ParsedStatement,
        find: &mut dyn FnMut(&str) -> Result<Option<LocalTable>, Diagnostic>,
    ) -> Result<Relation, Diagnostic> {
        let environment = self.environment.for_statement();
        match Relation::new(environment.clone(), statement.clone()) {
            Err(error) if error.code == code::UNKNOWN_TABLE => {
                Relation::new(environment.with_local(&statement.statement, find)?, statement.clone())
            }
            bound => bound,
        }
    }

    /// Splits and parses a script with parameters: `?` stands for the next one, `$name` for the one of a name.
    pub fn parse_with(&self, script: &str, parameters: &sql::Parameters) -> Result<Vec<ParsedStatement>, Diagnostic> {
        sql::parse_script_with(script, parameters)
    }

    /// Splits and parses a script.
    pub fn parse(&self, script: &str) -> Result<Vec<ParsedStatement>, Diagnostic> {
        sql::parse_script(script)
    }

    /// The CREATE TABLE statement for a file, a directory or a glob: with the columns that are found in it, and a watermark if one of them
    /// says when things happened. The table is called `name`, or what the file is called.
    ///
    /// Fails when there is no such file, or when it does not say which columns it has.
    pub fn schema_statement(&self, path: &str, name: Option<&str>) -> Result<String, Diagnostic> {
        self.environment.catalog.for_statement().schema_statement(path, name.unwrap_or(sql::file_stem(path)))
    }

    /// Whether a state directory has been opened.
    pub fn has_state_directory(&self) -> bool {
        self.state.is_some()
    }

    /// The state directory, once it has been opened.
    pub fn state_directory(&self) -> Option<&StatePlace> {
        self.state.as_ref().map(StateDirectory::place)
    }

    /// What is done with a job after an outage, as `restart-strategy.*` says now.
    pub fn restart_strategy(&self) -> RestartStrategy {
        self.environment.settings.values.restart
    }

    /// Names of tables and views, sorted.
    pub fn tables(&self) -> impl Iterator<Item = &str> {
        self.environment.catalog.names()
    }

    /// Names of tables, views, columns and functions, for completion.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.environment.catalog.names().map(str::to_string).collect();
        for name in self.environment.catalog.names() {
            // A name of the catalog is there; were it not, it would only not be completed.
            if let Ok(relation) = self.environment.catalog.lookup(&[sql::Ident::new(name)]) {
                names.extend(relation.schema().fields.iter().map(|field| field.name.clone()));
            }
        }
        names.extend(sql::functions::all().into_iter().map(|f| f.name.to_string()));
        names.extend(self.environment.catalog.functions().names().map(str::to_string));
        names
    }

    /// Executes the statements of a script one after the other; rows of bare SELECTs are discarded.
    pub fn run(&mut self, script: &str) -> Result<(), Diagnostic> {
        self.run_into(script, &mut Collected::new())
    }

    /// Executes a script and returns the rows of its last SELECT, DESCRIBE or SHOW.
    pub fn query(&mut self, script: &str) -> Result<RecordBatch, Diagnostic> {
        let mut results = Collected::new();
        self.run_into(script, &mut results)?;
        results.into_batch()
    }

    fn run_into(&mut self, script: &str, results: &mut Collected) -> Result<(), Diagnostic> {
        let statements = self.parse(script)?;
        self.announce(&statements);
        statements.iter().try_for_each(|s| self.execute(s, results, &RunMonitor::new()).map(drop))
    }

    /// Says which statements come next, so that the jobs are found that inserts into one table were.
    pub fn announce(&mut self, statements: &[ParsedStatement]) {
        self.to_come = statements.iter().filter(|s| s.is_insert()).map(|s| s.targets()).collect();
    }

    /// Plans a query, an insert or a statement set, which gets its number, without running it. What is defined or set afterwards
    /// does not change it.
    pub fn prepare(&mut self, statement: &ParsedStatement) -> Result<PreparedRun, Diagnostic> {
        self.prepare_with(statement, &mut |_| Ok(None))
    }

    /// The same, with tables of the program as [`Session::relation`] has them.
    pub fn prepare_with(
        &mut self,
        statement: &ParsedStatement,
        find: &mut dyn FnMut(&str) -> Result<Option<LocalTable>, Diagnostic>,
    ) -> Result<PreparedRun, Diagnostic> {
        let run = self.plan_with(statement, find)?;
        if statement.is_insert() { self.with_job(run) } else { Ok(run) }
    }

    /// Plans a query, an insert or a statement set, without a job: [`Session::with_job`] gives an insert its own.
    pub fn plan_with(
        &self,
        statement: &ParsedStatement,
        find: &mut dyn FnMut(&str) -> Result<Option<LocalTable>, Diagnostic>,
    ) -> Result<PreparedRun, Diagnostic> {
        self.environment.for_statement().prepared(statement, find)
    }

    /// The run of an insert with its job, if there is a state directory.
    pub fn with_job(&mut self, mut run: PreparedRun) -> Result<PreparedRun, Diagnostic> {
        run.state = self.next_job(&mut run)?;
        Ok(run)
    }

    /// The same for a run whose job has ended with an outage: it resumes.
    pub fn with_job_again(&mut self, run: PreparedRun) -> Result<PreparedRun, Diagnostic> {
        self.forget_ended_jobs()?;
        let to_come = std::mem::take(&mut self.to_come);
        let run = self.with_job(run);
        self.to_come = to_come;
        run
    }

    /// A copy of the session as it is, without its state directory. What is defined in one is not in the other.
    #[must_use]
    pub fn snapshot(&self) -> Session {
        Session { environment: self.environment.clone(), state: None, to_come: VecDeque::new() }
    }

    /// Has jobs of this session that have ended be resumed by the next statements that are the same, as if the session was new.
    pub fn forget_ended_jobs(&mut self) -> Result<(), Diagnostic> {
        self.state.as_mut().map_or(Ok(()), |state| state.known.forget_ended())
    }

    /// Whether inserts could resume from what the state directory of the session has; `targets` are the tables that each writes. It is only
    /// looked at, so another session may have it. What sinks and sources say is known only when they run.
    ///
    /// # Errors
    /// Those that they would fail with.
    pub fn would_resume(&self, inserts: Vec<(PreparedRun, Vec<String>)>) -> Result<(), Diagnostic> {
        let Some(address) = &self.environment.settings.values.state else { return Ok(()) };
        would_resume(StatePlace::parse(address)?, inserts)
    }

    /// The settings of the runs to come.
    pub(crate) fn run_settings(&self) -> &RunConfig {
        &self.environment.settings.values.run
    }

    /// The state directory that is set, whether it has been opened or not.
    pub fn state_address(&self) -> Option<&str> {
        self.environment.settings.values.state.as_deref()
    }

    /// Plans to write the rows of a query into a table of the session, without a job, as [`Session::plan_with`] does.
    pub fn plan_insert(&self, target: &str, overwrites: bool, relation: &Relation) -> Result<PreparedRun, Diagnostic> {
        self.environment.prepared_insert(target, overwrites, relation)
    }

    /// Runs a query, an insert or a statement set in the background. What is defined or set afterwards does not change it.
    pub fn submit(&mut self, statement: &ParsedStatement) -> Result<Job, Diagnostic> {
        self.prepare(statement)?.submit()
    }

    /// Executes one statement; blocks until it has ended.
    pub fn execute(
        &mut self,
        statement: &ParsedStatement,
        results: &mut dyn ResultTarget,
        monitor: &RunMonitor,
    ) -> Result<Outcome, Diagnostic> {
        self.execute_with(statement, &mut |_| Ok(None), results, monitor)
    }

    /// The same, with tables of the program as [`Session::relation`] has them.
    pub fn execute_with(
        &mut self,
        statement: &ParsedStatement,
        find: &mut dyn FnMut(&str) -> Result<Option<LocalTable>, Diagnostic>,
        results: &mut dyn ResultTarget,
        monitor: &RunMonitor,
    ) -> Result<Outcome, Diagnostic> {
        let outcome = self.act_on(statement, find, results, monitor)?;
        if statement.changes_session() {
            self.environment.note(Step::Statement(statement.to_text()));
        }
        Ok(outcome)
    }

    fn act_on(
        &mut self,
        statement: &ParsedStatement,
        find: &mut dyn FnMut(&str) -> Result<Option<LocalTable>, Diagnostic>,
        results: &mut dyn ResultTarget,
        monitor: &RunMonitor,
    ) -> Result<Outcome, Diagnostic> {
        self.environment = self.environment.for_statement();
        let done = |message: &str| Ok(Outcome::Done(message.into()));
        let created = |what, is_new| match is_new {
            true => done(&format!("{what} created")),
            false => done(&format!("the {what} exists already")),
        };
        match &statement.statement {
            Statement::CreateTable(definition) => {
                memory::refuse(&definition.options)?;
                let scope = self.environment.with_local(&statement.statement, find)?;
                let definition = self.environment.with_query_columns(definition, &scope)?;
                created("table", self.environment.catalog.create_table(&definition)?)
            }
            Statement::CreateView(definition) => created(
                "view",
                self.environment.catalog.create_view(definition, &self.environment.settings.values.bind)?,
            ),
            Statement::CreateFunction(definition) => {
                created("function", self.environment.catalog.create_function(definition)?)
            }
            Statement::Drop { kind, name, if_exists } => {
                let what = kind.name();
                match self.environment.drop(*kind, name, *if_exists)? {
                    true => done(&format!("{what} dropped")),
                    false => done(&format!("there was no such {what}")),
                }
            }
            Statement::Set { key, value } => {
                self.environment.settings.set(key, value)?;
                done("option set")
            }
            Statement::Reset { key } => {
                self.environment.settings.reset(key.as_deref())?;
                done("option reset")
            }
            Statement::Query(_) | Statement::Insert(_) | Statement::StatementSet(_) => {
                self.prepare_with(statement, find)?.run(results, monitor)
            }
            Statement::Explain { kind, inner } => {
                let environment = self.environment.with_local(&statement.statement, find)?;
                Ok(Outcome::Text(match kind {
                    ExplainKind::Analyze => environment.analysis(inner, monitor)?,
                    kind => environment.explanation(inner, *kind == ExplainKind::Codegen)?,
                }))
            }
            Statement::ShowCreate(name) => definition(&self.environment, name),
            listing => list(&self.environment.with_local(listing, find)?, listing, results),
        }
    }

    /// What EXPLAIN prints for a query, an insert or a statement set.
    pub fn explain(&self, statement: &ParsedStatement, codegen: bool) -> Result<String, Diagnostic> {
        self.environment.for_statement().explanation(&statement.statement, codegen)
    }

    /// What EXPLAIN ANALYZE prints for a query, an insert or a statement set, which is run: rows of a bare SELECT are
    /// discarded, those of an insert go where they always do. Blocks until the run has ended; when it is asked to stop,
    /// what it has done until then is shown.
    pub fn analyze(&self, statement: &ParsedStatement, monitor: &RunMonitor) -> Result<String, Diagnostic> {
        self.environment.analysis(&statement.statement, monitor)
    }

    /// The job that an insert is, if there is a state directory.
    fn next_job(&mut self, run: &mut PreparedRun) -> Result<Option<JobState>, Diagnostic> {
        self.to_come.pop_front();
        self.open_state_directory()?;
        let to_come = self.to_come.make_contiguous();
        let Some(state) = &mut self.state else { return Ok(None) };
        run.plan_as_kept(|shape| !state.known.has_jobs() || state.known.keeps(shape));
        state.job(&run.plan, to_come, run.name(), run.checkpoints).map(Some)
    }
}

fn definition(environment: &Environment, name: &[sql::Ident]) -> Result<Outcome, Diagnostic> {
    Ok(Outcome::Text(match environment.catalog.lookup(name)? {
        CatalogEntry::Table(entry) => describe::show_create_table(&entry) + "\n",
        CatalogEntry::View(view) => describe::show_create_view(&view) + "\n",
    }))
}

/// Sends the rows of a SHOW or DESCRIBE statement to the result target.
fn list(
    environment: &Environment,
    statement: &Statement,
    results: &mut dyn ResultTarget,
) -> Result<Outcome, Diagnostic> {
    let named = |column, pattern: &sql::NamePattern, names: Vec<&str>| {
        let listed = names.into_iter().filter(|name| pattern.lists(name));
        (vec![column], listed.map(|name| vec![Some(name.to_string())]).collect())
    };
    let (columns, rows): (_, Vec<Vec<Option<String>>>) = match statement {
        Statement::ShowTables(pattern) => named("table name", pattern, environment.catalog.names().collect()),
        Statement::ShowViews(pattern) => named("view name", pattern, environment.catalog.view_names().collect()),
        Statement::ShowFunctions(pattern) => {
            let all = sql::functions::all();
            let built_in = all.iter().map(|function| function.name.as_str());
            named("function name", pattern, built_in.chain(environment.catalog.functions().names()).collect())
        }
        Statement::ShowUserFunctions(pattern) => {
            named("function name", pattern, environment.catalog.functions().names().collect())
        }
        Statement::ShowSettings => {
            let row = |(key, value): (&str, &str)| vec![Some(key.to_string()), Some(value.to_string())];
            (vec!["key", "value"], environment.settings.list().into_iter().map(row).collect())
        }
        Statement::Describe(name) => {
            let rows = describe::describe(&environment.catalog.lookup(name)?);
            (describe::DESCRIBE_COLUMNS.to_vec(), rows.into_iter().map(Vec::from).collect())
        }
        _ => return Err(Diagnostic::bug("a statement was taken for a listing")),
    };
    let schema = Schema::new(columns.iter().map(|c| Field::new(*c, DataType::STRING, true)).collect());
    let column = |i: usize| -> ArrayRef {
        let mut builder = StringViewBuilder::with_capacity(rows.len());
        rows.iter().for_each(|row| builder.append_option(row[i].as_deref()));
        Arc::new(builder.finish())
    };
    let arrays: Vec<ArrayRef> = (0..columns.len()).map(column).collect();
    let mut sink = results.open(&schema)?;
    if !rows.is_empty() {
        let piece = sink.encoder().encode(&arrays, rows.len())?;
        sink.write(piece)?;
    }
    sink.finish()?;
    Ok(Outcome::Listed)
}
