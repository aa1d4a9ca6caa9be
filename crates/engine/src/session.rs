//! A session: a catalog, settings, and the execution of statements.

use crate::analysis;
use crate::compiler::{CodeDirectory, Compiler, QueryCompiler};
use crate::explain;
use crate::job::Job;
use crate::memory::{self, MemoryTable, MemoryTables, TableProvider};
use crate::monitor::{Outcome, RunMonitor};
use crate::packed::PackedTable;
use crate::planned::PreparedRun;
use crate::recovery::{JobState, StateDirectory};
use crate::results::{Collected, Discarded, ResultTarget};
use crate::settings::{Settings, Values};
use arrow_array::builder::StringViewBuilder;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use millstream_plan::logical::{ColumnKind, Insert, Target};
use millstream_plan::pipeline::{Aggregation, QueryPlan};
use millstream_runtime::{CancelState, RunConfig};
use millstream_sql::{
    self as sql, Catalog, CatalogEntry, ExplainKind, InsertStatement, ParsedStatement, Statement, describe,
};
use millstream_storage::StatePlace;
use millstream_types::{DataType, Diagnostic, Field, Options, Schema, code};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

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
    config: SessionConfig,
    catalog: Catalog,
    settings: Settings,
    memory: MemoryTables,
    compiler: Arc<Compiler>,
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
        Session {
            config,
            catalog: Catalog::with_connectors(sql::Connectors { is_bounded: memory::is_bounded, check: memory::check }),
            settings: Settings::new(Options::new()),
            memory: MemoryTables::new(),
            compiler,
            state: None,
            to_come: VecDeque::new(),
        }
    }

    /// Sets an option, as `SET 'key' = 'value'` does.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), Diagnostic> {
        self.settings.set(key, value)
    }

    /// Takes the state directory that inserts are checkpointed in, if one is set: from now on no other process can.
    pub fn open_state_directory(&mut self) -> Result<Option<StatePlace>, Diagnostic> {
        let Some(address) = &self.settings.values.state else { return Ok(None) };
        let place = StatePlace::parse(address)?;
        if self.state.as_ref().is_none_or(|state| state.place().to_string() != place.to_string()) {
            self.state = Some(StateDirectory::open(place.clone())?);
        }
        Ok(Some(place))
    }

    /// Makes Arrow batches a table, to be read like any other. `columns` is what stands between the parentheses of a
    /// CREATE TABLE statement: columns, computed columns, WATERMARK; the batches hold its physical columns in order.
    ///
    /// Fails when the table exists or a batch does not have its columns.
    pub fn register(&mut self, name: &str, columns: &str, batches: Vec<RecordBatch>) -> Result<(), Diagnostic> {
        self.define(name, columns, false, |schema| Ok(Arc::new(MemoryTable::new(schema, batches)?)))
    }

    /// Makes packed records a table, to be read like any other: rows of fixed width, of the layout that the format `row` has
    /// for the physical columns of `columns`, which is as for [`Session::register`]. Each block holds whole records. The
    /// blocks are read in place.
    ///
    /// Fails when the table exists, when a column is not NOT NULL or has no fixed width, and when a record is malformed.
    pub fn register_rows(&mut self, name: &str, columns: &str, blocks: Vec<Buffer>) -> Result<(), Diagnostic> {
        self.define(name, columns, false, |schema| Ok(Arc::new(PackedTable::new(name, schema, blocks)?)))
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
        self.define(name, columns, !table.is_bounded(), |_| Ok(table))
    }

    fn define(
        &mut self,
        name: &str,
        columns: &str,
        is_endless: bool,
        table: impl FnOnce(&Schema) -> Result<Arc<dyn TableProvider>, Diagnostic>,
    ) -> Result<(), Diagnostic> {
        let quoted = name.replace('`', "``");
        let sql = format!(
            "CREATE TABLE `{quoted}` ({columns}) WITH ('connector' = '{}', '{}' = '{is_endless}')",
            memory::CONNECTOR,
            memory::ENDLESS
        );
        let Statement::CreateTable(definition) = sql::parse_statement(&sql)? else {
            return Err(Diagnostic::bug("CREATE TABLE was parsed as another statement"));
        };
        let mut catalog = self.catalog.clone();
        catalog.create_table(&definition)?;
        let entry = catalog.lookup_table(&[sql::Ident::new(name)])?;
        let physical = entry.columns.iter().filter(|c| matches!(c.kind, ColumnKind::Physical));
        let schema = Schema::new(physical.map(|c| c.field.clone()).collect());
        self.memory.insert(name.to_string(), table(&schema)?);
        self.catalog = catalog;
        Ok(())
    }

    /// Splits and parses a script.
    pub fn parse(&self, script: &str) -> Result<Vec<ParsedStatement>, Diagnostic> {
        sql::parse_script(script)
    }

    /// Names of tables, views, columns and functions, for completion.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.catalog.names().map(str::to_string).collect();
        for name in self.catalog.names() {
            // A name of the catalog is there; were it not, it would only not be completed.
            if let Ok(relation) = self.catalog.lookup(&[sql::Ident::new(name)]) {
                names.extend(relation.schema().fields.iter().map(|field| field.name.clone()));
            }
        }
        names.extend(sql::functions::all().into_iter().map(|f| f.name.to_string()));
        names.extend(self.catalog.functions().names().map(str::to_string));
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
        let mut run = self.plan(self.bind(&statement.statement)?)?;
        if statement.is_insert() {
            run.state = self.next_job(&run.plan)?;
        }
        Ok(run)
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
        let done = |message: &str| Ok(Outcome::Done(message.into()));
        let created = |what, is_new| match is_new {
            true => done(&format!("{what} created")),
            false => done(&format!("the {what} exists already")),
        };
        match &statement.statement {
            Statement::CreateTable(definition) => created("table", self.catalog.create_table(definition)?),
            Statement::CreateView(definition) => {
                created("view", self.catalog.create_view(definition, &self.settings.values.bind)?)
            }
            Statement::CreateFunction(definition) => created("function", self.catalog.create_function(definition)?),
            Statement::Drop { kind, name, if_exists } => {
                let what = kind.name();
                match self.catalog.drop(*kind, name, *if_exists)? {
                    true => done(&format!("{what} dropped")),
                    false => done(&format!("there was no such {what}")),
                }
            }
            Statement::Set { key, value } => {
                self.settings.set(key, value)?;
                done("option set")
            }
            Statement::Reset { key } => {
                self.settings.reset(key.as_deref())?;
                done("option reset")
            }
            Statement::Query(_) | Statement::Insert(_) | Statement::StatementSet(_) => {
                self.prepare(statement)?.run(results, monitor)
            }
            Statement::Explain { kind: ExplainKind::Analyze, inner } => {
                Ok(Outcome::Text(self.analysis(inner, monitor)?))
            }
            Statement::Explain { kind, inner } => {
                Ok(Outcome::Text(self.explanation(inner, *kind == ExplainKind::Codegen)?))
            }
            Statement::ShowCreate(name) => self.definition(name),
            listing => self.list(listing, results),
        }
    }

    /// What EXPLAIN prints for a query, an insert or a statement set.
    pub fn explain(&self, statement: &ParsedStatement, codegen: bool) -> Result<String, Diagnostic> {
        self.explanation(&statement.statement, codegen)
    }

    /// What EXPLAIN ANALYZE prints for a query, an insert or a statement set, which is run: rows of a bare SELECT are
    /// discarded, those of an insert go where they always do. Blocks until the run has ended; when it is asked to stop,
    /// what it has done until then is shown.
    pub fn analyze(&self, statement: &ParsedStatement, monitor: &RunMonitor) -> Result<String, Diagnostic> {
        self.analysis(&statement.statement, monitor)
    }

    fn analysis(&self, statement: &Statement, monitor: &RunMonitor) -> Result<String, Diagnostic> {
        let mut run = self.plan(self.bind(statement)?)?;
        run.config.adaptivity.measures_operators = true;
        let (plan, config) = (run.plan.clone(), run.config.clone());
        let stats = match run.execute(&mut Discarded, monitor) {
            Ok(None) => return Err(Diagnostic::bug("a query without state had been finished before")),
            Ok(Some(stats)) => stats,
            Err(stopped) if stopped.code == code::CANCELLED && monitor.cancel().state() == CancelState::Stop => {
                monitor.stats().ok_or(stopped)?
            }
            Err(failure) => return Err(failure),
        };
        let merge = |aggregation: &Aggregation| explain::merge_text(&config, aggregation);
        Ok(analysis::analysis(&plan, merge, &stats.snapshot()))
    }

    fn plan(&self, inserts: Vec<Insert>) -> Result<PreparedRun, Diagnostic> {
        let config = self.run_config();
        let compiler = QueryCompiler::new(self.compiler.clone(), self.code_directory(), config.memory_bytes());
        PreparedRun::new(inserts, config, &self.settings.values, compiler.into(), self.memory.clone())
    }

    /// The job that an insert is, if there is a state directory.
    fn next_job(&mut self, plan: &QueryPlan) -> Result<Option<JobState>, Diagnostic> {
        self.to_come.pop_front();
        self.open_state_directory()?;
        let to_come = self.to_come.make_contiguous();
        self.state.as_mut().map(|state| state.job(plan, to_come, self.settings.values.checkpoints)).transpose()
    }

    fn explanation(&self, statement: &Statement, codegen: bool) -> Result<String, Diagnostic> {
        let inserts = self.bind(statement)?;
        explain::explain(&inserts, &self.plan(inserts.clone())?, codegen)
    }

    fn bind(&self, statement: &Statement) -> Result<Vec<Insert>, Diagnostic> {
        let settings = &self.settings.values.bind;
        let insert = |insert: &InsertStatement| sql::bind_insert(&self.catalog, settings, insert);
        match statement {
            Statement::Query(query) => {
                let query = sql::bind_query(&self.catalog, settings, query)?;
                Ok(vec![Insert { target: Target::Result, query }])
            }
            Statement::Insert(one) => Ok(vec![insert(one)?]),
            Statement::StatementSet(all) => all.iter().map(insert).collect(),
            _ => Err(Diagnostic::new(code::UNSUPPORTED, "only queries and inserts can be explained")
                .advise("EXPLAIN SELECT …, EXPLAIN INSERT INTO … or EXPLAIN STATEMENT SET BEGIN … END")),
        }
    }

    fn definition(&self, name: &[sql::Ident]) -> Result<Outcome, Diagnostic> {
        Ok(Outcome::Text(match self.catalog.lookup(name)? {
            CatalogEntry::Table(entry) => describe::show_create_table(&entry) + "\n",
            CatalogEntry::View(view) => describe::show_create_view(&view) + "\n",
        }))
    }

    /// Sends the rows of a SHOW or DESCRIBE statement to the result target.
    fn list(&self, statement: &Statement, results: &mut dyn ResultTarget) -> Result<Outcome, Diagnostic> {
        let named = |column, pattern: &sql::NamePattern, names: Vec<&str>| {
            let listed = names.into_iter().filter(|name| pattern.lists(name));
            (vec![column], listed.map(|name| vec![Some(name.to_string())]).collect())
        };
        let (columns, rows): (_, Vec<Vec<Option<String>>>) = match statement {
            Statement::ShowTables(pattern) => named("table name", pattern, self.catalog.names().collect()),
            Statement::ShowViews(pattern) => named("view name", pattern, self.catalog.view_names().collect()),
            Statement::ShowFunctions(pattern) => {
                let all = sql::functions::all();
                let built_in = all.iter().map(|function| function.name.as_str());
                named("function name", pattern, built_in.chain(self.catalog.functions().names()).collect())
            }
            Statement::ShowUserFunctions(pattern) => {
                named("function name", pattern, self.catalog.functions().names().collect())
            }
            Statement::ShowSettings => {
                let row = |(key, value): (&str, &str)| vec![Some(key.to_string()), Some(value.to_string())];
                (vec!["key", "value"], self.settings.list().into_iter().map(row).collect())
            }
            Statement::Describe(name) => {
                let rows = describe::describe(&self.catalog.lookup(name)?);
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

    /// Where compiled code is kept on disk, if it is.
    fn code_directory(&self) -> Option<CodeDirectory> {
        let path = match self.settings.values.code_cache.as_str() {
            "off" => None,
            "auto" => self.config.code_directory.clone(),
            path => Some(path.into()),
        };
        path.map(CodeDirectory::new)
    }

    fn run_config(&self) -> RunConfig {
        let Values { state, spill_directory, run, .. } = &self.settings.values;
        let mut config = run.clone();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as i64);
        (config.settings.query_start_ms, config.pin) = (now, self.config.pin);
        // An object store is not a place to spill to.
        let local = state.as_ref().filter(|address| !address.contains("://"));
        let directory = spill_directory.as_ref().map(PathBuf::from);
        if let Some(directory) = directory.or_else(|| local.map(|path| Path::new(path).join("spill"))) {
            config.spill.directory = directory;
        }
        config
    }
}
