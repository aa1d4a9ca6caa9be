//! A session: a catalog, settings, and the execution of statements.

use crate::analysis;
use crate::compiler::{CodeDirectory, Compiler, QueryCompiler};
use crate::explain;
use crate::job::Job;
use crate::memory::{self, MemoryTable, TableProvider};
use crate::monitor::{Outcome, RunMonitor};
use crate::packed::PackedTable;
use crate::planned::{PlannedRun, RunWith};
use crate::recovery::{Checkpointed, JobState, StateDirectory};
use crate::results::{Collected, Discarded, ResultTarget};
use arrow_array::builder::StringViewBuilder;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use millstream_codegen::program::FilterShape;
use millstream_functions::FunctionSettings;
use millstream_plan::logical::{ColumnKind, Insert, Target};
use millstream_plan::pipeline::{Aggregation, Combination, QueryPlan, ScanKind};
use millstream_plan::shape::PlanShape;
use millstream_runtime::{
    Adaptivity, Assume, CancelState, DecodeSkipping, ErrorPolicy, MergeStrategy, PreAggregation, QueryStats, RunConfig,
    SpillConfig, SpillMode, WorkerSet,
};
use millstream_sql::{
    self as sql, Catalog, CatalogEntry, ExplainKind, InsertStatement, ParsedStatement, Settings, Statement, describe,
};
use millstream_storage::{Compression, StatePlace};
use millstream_types::{DataType, Diagnostic, Field, MemorySize, Schema, code};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
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

/// A run that has been planned.
pub struct PreparedRun {
    job: PlannedRun,
    config: RunConfig,
    tier: sql::Tier,
    compiler: Arc<QueryCompiler>,
    memory: MemoryTables,
    state: Option<JobState>,
    files: Arc<WrittenFiles>,
    monitor: Arc<RunMonitor>,
}

/// Single files that are written by runs that take place beside each other.
pub(crate) type WrittenFiles = Mutex<BTreeSet<PathBuf>>;

impl PreparedRun {
    /// What it keeps from one run to the next: it can go on from the checkpoint of another one if [`PlanShape::fit`] says so.
    pub fn shape(&self) -> PlanShape {
        PlanShape::of(&self.job.plan)
    }

    /// Whether it reads a table that does not end by itself.
    pub fn is_endless(&self) -> bool {
        self.job.plan.sources.iter().any(|source| match &source.scan {
            ScanKind::Table(table) => !memory::is_bounded(&table.options),
            ScanKind::Values(_) => false,
        })
    }

    /// Has runs take place beside each other: each gets its part of the memory budget, they have one set of workers, and no two may
    /// write one file.
    pub fn share(runs: &mut [PreparedRun]) {
        let (files, parts) = (Arc::<WrittenFiles>::default(), runs.len().max(1) as u64);
        let workers = WorkerSet::new(runs.iter().map(|run| run.config.workers).max().unwrap_or(1));
        for run in runs {
            run.config.worker_set = (parts > 1).then(|| Arc::clone(&workers));
            run.config.memory = MemorySize::Bytes((run.config.memory_bytes() / parts).max(1));
            run.files = Arc::clone(&files);
        }
    }

    /// What [`PreparedRun::submit`] tells of it: who wants to stop it can have that before it begins.
    pub fn monitor(&self) -> Arc<RunMonitor> {
        Arc::clone(&self.monitor)
    }

    /// Runs it in the background.
    pub fn submit(self) -> Result<Job, Diagnostic> {
        Job::start(self)
    }

    /// Runs it; blocks until it has ended. `results` receives the rows of a bare SELECT.
    pub fn run(self, results: &mut dyn ResultTarget, monitor: &RunMonitor) -> Result<Outcome, Diagnostic> {
        let PreparedRun { job, config, tier, compiler, memory, state, files, monitor: _ } = self;
        let (compiler, config, memory, files) = (&compiler, &config, &memory, &*files);
        let with = RunWith { tier, compiler, config, memory, monitor, state: state.as_ref(), files };
        Ok(match job.run(&with, results)? {
            Some(stats) => Outcome::Ran(Box::new(stats.snapshot())),
            None => Outcome::Done("the job had come to its end before, so nothing was done".into()),
        })
    }
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

/// The program's own tables by name.
pub(crate) type MemoryTables = BTreeMap<String, Arc<dyn TableProvider>>;

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
            settings: Settings::default(),
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
        let Some(address) = self.settings.checkpoint_directory() else { return Ok(None) };
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
        let inserts = self.bind(&statement.statement)?;
        let config = self.run_config();
        let job = PlannedRun::new(inserts, &config, self.settings.in_place(), &self.memory)?;
        let state = if statement.is_insert() { self.next_job(&job.plan)? } else { None };
        let (tier, compiler, memory) = (self.settings.tier(), self.compiler_for(&config), self.memory.clone());
        let (files, monitor) = Default::default();
        Ok(PreparedRun { job, config, tier, compiler, memory, state, files, monitor })
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
        match &statement.statement {
            Statement::CreateTable(definition) => {
                let created = self.catalog.create_table(definition)?;
                done(if created { "table created" } else { "the table exists already" })
            }
            Statement::CreateView(definition) => {
                let created = self.catalog.create_view(definition, &self.settings)?;
                done(if created { "view created" } else { "the view exists already" })
            }
            Statement::CreateFunction(definition) => {
                let created = self.catalog.create_function(definition)?;
                done(if created { "function created" } else { "the function exists already" })
            }
            Statement::Drop { kind, name, if_exists } => {
                let dropped = self.catalog.drop(*kind, name, *if_exists)?;
                done(&if dropped {
                    format!("{} dropped", kind.name())
                } else {
                    format!("there was no such {}", kind.name())
                })
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
                Ok(Outcome::Text(self.analysis(self.bind(inner)?, monitor)?))
            }
            Statement::Explain { kind, inner } => {
                let inserts = self.bind(inner)?;
                Ok(Outcome::Text(self.explanation(inserts, *kind == ExplainKind::Codegen)?))
            }
            Statement::ShowCreate(name) => self.definition(name),
            listing => self.list(listing, results),
        }
    }

    /// What EXPLAIN prints for a query, an insert or a statement set.
    pub fn explain(&self, statement: &ParsedStatement, codegen: bool) -> Result<String, Diagnostic> {
        self.explanation(self.bind(&statement.statement)?, codegen)
    }

    /// What EXPLAIN ANALYZE prints for a query, an insert or a statement set, which is run: rows of a bare SELECT are
    /// discarded, those of an insert go where they always do. Blocks until the run has ended; when it is asked to stop,
    /// what it has done until then is shown.
    pub fn analyze(&self, statement: &ParsedStatement, monitor: &RunMonitor) -> Result<String, Diagnostic> {
        self.analysis(self.bind(&statement.statement)?, monitor)
    }

    fn analysis(&self, inserts: Vec<Insert>, monitor: &RunMonitor) -> Result<String, Diagnostic> {
        let mut config = self.run_config();
        config.adaptivity.measures_operators = true;
        let job = PlannedRun::new(inserts, &config, self.settings.in_place(), &self.memory)?;
        let plan = job.plan.clone();
        let merge = |aggregation: &Aggregation| explain::merge_text(&config, aggregation);
        match self.run_job(job, &config, &mut Discarded, monitor) {
            Ok(None) => Err(Diagnostic::bug("a query without state had been finished before")),
            Ok(Some(stats)) => Ok(analysis::analysis(&plan, merge, &stats.snapshot())),
            Err(stopped) if stopped.code == code::CANCELLED && monitor.cancel().state() == CancelState::Stop => {
                let stats = monitor.stats().ok_or(stopped)?;
                Ok(analysis::analysis(&plan, merge, &stats.snapshot()))
            }
            Err(failure) => Err(failure),
        }
    }

    fn run_job(
        &self,
        job: PlannedRun,
        config: &RunConfig,
        results: &mut dyn ResultTarget,
        monitor: &RunMonitor,
    ) -> Result<Option<Arc<QueryStats>>, Diagnostic> {
        let (tier, compiler, memory) = (self.settings.tier(), &self.compiler_for(config), &self.memory);
        job.run(
            &RunWith { tier, compiler, config, memory, monitor, state: None, files: &WrittenFiles::default() },
            results,
        )
    }

    fn compiler_for(&self, config: &RunConfig) -> Arc<QueryCompiler> {
        Arc::new(QueryCompiler::new(self.compiler.clone(), self.code_directory(), config.memory_bytes()))
    }

    /// The job that an insert is, if there is a state directory.
    fn next_job(&mut self, plan: &QueryPlan) -> Result<Option<JobState>, Diagnostic> {
        self.to_come.pop_front();
        self.open_state_directory()?;
        let interval = self.settings.checkpoint_interval();
        let settings = Checkpointed { interval, retained: self.settings.checkpoints_retained() };
        let to_come = self.to_come.make_contiguous();
        self.state.as_mut().map(|state| state.job(plan, to_come, settings)).transpose()
    }

    fn explanation(&self, inserts: Vec<Insert>, codegen: bool) -> Result<String, Diagnostic> {
        let config = self.run_config();
        let job = PlannedRun::new(inserts.clone(), &config, self.settings.in_place(), &self.memory)?;
        explain::explain(&inserts, &job, &config, codegen)
    }

    fn bind(&self, statement: &Statement) -> Result<Vec<Insert>, Diagnostic> {
        let insert = |insert: &InsertStatement| sql::bind_insert(&self.catalog, &self.settings, insert);
        match statement {
            Statement::Query(query) => {
                let query = sql::bind_query(&self.catalog, &self.settings, query)?;
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
        let single = |name: &str, names: &sql::NamePattern, values: Vec<String>| {
            (
                vec![name.to_string()],
                values.into_iter().filter(|value| names.lists(value)).map(|v| vec![Some(v)]).collect::<Vec<_>>(),
            )
        };
        let (columns, rows) = match statement {
            Statement::ShowTables(names) => {
                single("table name", names, self.catalog.names().map(str::to_string).collect())
            }
            Statement::ShowViews(names) => {
                single("view name", names, self.catalog.view_names().map(str::to_string).collect())
            }
            Statement::ShowFunctions(names) => {
                let built_in = sql::functions::all().into_iter().map(|f| f.name);
                let of_user = self.catalog.functions().names().map(str::to_string);
                single("function name", names, built_in.chain(of_user).collect())
            }
            Statement::ShowUserFunctions(names) => {
                single("function name", names, self.catalog.functions().names().map(str::to_string).collect())
            }
            Statement::ShowSettings => {
                let rows = self.settings.list().into_iter().map(|(k, v)| vec![Some(k), Some(v)]).collect();
                (vec!["key".to_string(), "value".to_string()], rows)
            }
            Statement::Describe(name) => {
                let rows = describe::describe(&self.catalog.lookup(name)?);
                (
                    describe::DESCRIBE_COLUMNS.map(str::to_string).to_vec(),
                    rows.into_iter().map(|row| row.to_vec()).collect(),
                )
            }
            _ => return Err(Diagnostic::bug("a statement was taken for a listing")),
        };
        let schema = Schema::new(columns.iter().map(|c| Field::new(c, DataType::STRING, true)).collect());
        let column = |i: usize| -> ArrayRef {
            let mut builder = StringViewBuilder::with_capacity(rows.len());
            rows.iter().for_each(|row: &Vec<Option<String>>| builder.append_option(row[i].as_deref()));
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
        let path = match self.settings.code_cache() {
            sql::CodeCache::Off => None,
            sql::CodeCache::Auto => self.config.code_directory.clone(),
            sql::CodeCache::Directory(path) => Some(path),
        };
        path.map(CodeDirectory::new)
    }

    fn adaptivity(&self) -> Adaptivity {
        let settings = &self.settings;
        let assume = |setting| match setting {
            sql::Assume::Auto => Assume::Auto,
            sql::Assume::Always => Assume::Always,
            sql::Assume::Never => Assume::Never,
        };
        Adaptivity {
            is_enabled: settings.adaptive(),
            filter_order: settings.orders_filters(),
            filter_shape: settings.filter_shape().map(|shape| match shape {
                sql::FilterShape::Branch => FilterShape::Branch,
                sql::FilterShape::Mask => FilterShape::Mask,
                sql::FilterShape::Selection => FilterShape::Selection,
            }),
            not_null: assume(settings.not_null()),
            constants: assume(settings.constants()),
            few_values: assume(settings.few_values()),
            key_range: assume(settings.key_range()),
            pre_aggregation: match settings.pre_aggregate() {
                sql::PreAggregate::Auto => PreAggregation::Auto,
                sql::PreAggregate::Always => PreAggregation::Always,
                sql::PreAggregate::Never => PreAggregation::Never,
            },
            combination: match settings.combine() {
                sql::Combine::Auto => None,
                sql::Combine::Recompute => Some(Combination::Recompute),
                sql::Combine::Subtract => Some(Combination::Subtract),
                sql::Combine::TwoStacks => Some(Combination::TwoStacks),
            },
            active_workers: settings.adapts_workers(),
            measures_operators: false,
            decode_skipping: match settings.decode_skipping() {
                sql::DecodeSkipping::Auto => DecodeSkipping::Auto,
                sql::DecodeSkipping::Always => DecodeSkipping::Always,
                sql::DecodeSkipping::Never => DecodeSkipping::Never,
            },
            chaos_seed: settings.chaos_seed(),
        }
    }

    fn spill_config(&self) -> SpillConfig {
        // An object store is no place to spill to.
        let local = self.settings.checkpoint_directory().filter(|address| !address.contains("://"));
        let in_state_directory = || local.map(|path| PathBuf::from(path).join("spill"));
        let directory = self.settings.spill_directory().or_else(in_state_directory);
        SpillConfig {
            mode: match self.settings.spill() {
                sql::Spill::Auto => SpillMode::Auto,
                sql::Spill::Never => SpillMode::Never,
                sql::Spill::Always => SpillMode::Always,
            },
            directory: directory.unwrap_or_else(|| SpillConfig::default().directory),
            budget: self.settings.spill_budget(),
            compression: match self.settings.compresses_spilled() {
                true => Compression::Zstd,
                false => Compression::None,
            },
            cached: self.settings.spill_cached(),
        }
    }

    fn run_config(&self) -> RunConfig {
        let defaults = RunConfig::default();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as i64);
        RunConfig {
            workers: self.settings.parallelism().unwrap_or(defaults.workers),
            buffer_rows: self.settings.buffer_rows(),
            error_policy: match self.settings.error_policy() {
                sql::ErrorPolicy::Fail => ErrorPolicy::Fail,
                sql::ErrorPolicy::Skip => ErrorPolicy::Skip,
            },
            pin: self.config.pin,
            memory: self.settings.memory(),
            spill: self.spill_config(),
            merge: match self.settings.merge() {
                sql::Merge::Auto => MergeStrategy::Auto,
                sql::Merge::Local => MergeStrategy::Local,
                sql::Merge::Global => MergeStrategy::Global,
                sql::Merge::Partition => MergeStrategy::Partition,
            },
            dense_tables: self.settings.dense_tables(),
            adaptivity: self.adaptivity(),
            shuffle_seed: self.settings.shuffle_seed(),
            numa_nodes: self.settings.numa_nodes(),
            cut_every: self.settings.cut_every(),
            settings: FunctionSettings { time_zone: self.settings.time_zone(), query_start_ms: now },
            ..defaults
        }
    }
}
