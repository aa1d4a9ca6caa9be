//! What a statement is bound and planned in: a catalog, settings, the program's tables, a compiler.

use crate::analysis;
use crate::cluster::{Cluster, Distributed, RunTask};
use crate::compiler::{CodeDirectory, Compiler, QueryCompiler};
use crate::explain;
use crate::history::{History, Step};
use crate::local::LocalTable;
use crate::memory::{self, Declared, MemoryTable, MemoryTables, ReaderTable, SinkProvider, TableProvider};
use crate::monitor::RunMonitor;
use crate::packed::PackedTable;
use crate::planned::PreparedRun;
use crate::relation::Relation;
use crate::results::{self, Discarded};
use crate::session::SessionConfig;
use crate::settings::{Settings, Values};
use arrow_buffer::Buffer;
use millstream_connectors::{self as connectors, Frame};
use millstream_plan::changes::changing;
use millstream_plan::logical::{ColumnKind, Insert, Rel, Table, Target};
use millstream_plan::picture::picture;
use millstream_plan::pipeline::{Aggregation, QueryPlan};
use millstream_runtime::{CancelState, Hints, RunConfig, StatsSnapshot};
use millstream_sql::ddl::TableDefinition;
use millstream_sql::{self as sql, Catalog, CatalogEntry, InsertStatement, ObjectKind, ParsedStatement, Statement};
use millstream_types::{Diagnostic, Options, Schema, code};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Numbers of runs; 0 stands for none.
static NEXT_RUN: AtomicU64 = AtomicU64::new(1);

/// Finds a table of the program by a name that the catalog does not have; `None`: it has none either.
pub(crate) type Find<'a> = &'a mut dyn FnMut(&str) -> Result<Option<LocalTable>, Diagnostic>;

/// What is run.
pub(crate) enum Task<'a> {
    Statement(&'a ParsedStatement),
    /// The table that is written, whether its rows are replaced, and the query.
    Insert(&'a str, bool, &'a Relation),
}

/// What is known of a query before it is planned.
#[derive(Debug, Clone)]
pub(crate) struct Description {
    pub(crate) schema: Schema,
    /// It may put out rows forever.
    pub(crate) is_endless: bool,
    /// It can run more than once.
    pub(crate) is_repeatable: bool,
}

/// A clone is what a later definition or setting does not change.
#[derive(Debug, Clone)]
pub(crate) struct Environment {
    config: SessionConfig,
    pub(crate) catalog: Catalog,
    pub(crate) settings: Settings,
    memory: MemoryTables,
    compiler: Arc<Compiler>,
    /// What runs have learned.
    hints: Arc<Hints>,
    /// What has made it what it is.
    history: History,
    /// The other processes that take part in runs.
    cluster: Option<Arc<dyn Cluster>>,
}

impl Environment {
    /// An empty catalog and default settings.
    pub(crate) fn new(config: SessionConfig, compiler: Arc<Compiler>) -> Environment {
        Environment {
            config,
            catalog: Catalog::with_connectors(sql::Connectors {
                is_bounded: memory::is_bounded,
                takes_changes: memory::takes_changes,
                gives_changes: connectors::gives_changes,
                check: memory::check,
                infer: connectors::infer_columns,
                file: connectors::file_options,
            }),
            settings: Settings::new(Options::new()),
            memory: MemoryTables::default(),
            compiler,
            hints: Arc::default(),
            history: History::default(),
            cluster: None,
        }
    }

    /// Notes what has changed it.
    pub(crate) fn note(&mut self, step: Step) {
        self.history.note(step);
    }

    /// Has other processes take part in runs.
    pub(crate) fn join_cluster(&mut self, cluster: Arc<dyn Cluster>) {
        self.cluster = Some(cluster);
    }

    /// The other processes, if there are any.
    pub(crate) fn cluster(&self) -> Option<Arc<dyn Cluster>> {
        self.cluster.clone()
    }

    /// Has the other processes, if there are any, take part in a run that was planned here: of a statement, or of a relation that goes into a
    /// table.
    pub(crate) fn distribute(&self, run: &mut PreparedRun, task: &Task<'_>) -> Result<(), Diagnostic> {
        let Some(cluster) = &self.cluster else { return Ok(()) };
        let (cluster, read) = (Arc::clone(cluster), run.reads_program());
        let task = match *task {
            Task::Statement(statement) => RunTask::Statement(statement.to_text()),
            Task::Insert(target, overwrites, relation) => {
                let Environment { history, memory, .. } = &relation.environment;
                let (target, query) = (target.to_string(), relation.statement.to_text());
                RunTask::Insert { target, overwrites, session: history.told(memory, &read)?, query }
            }
        };
        let session = self.history.told(&self.memory, &read)?.into();
        run.distributed = Some(Distributed { cluster, session, task: Arc::new(task) });
        Ok(())
    }

    /// This environment for another statement: files that it names are looked at again.
    pub(crate) fn for_statement(&self) -> Environment {
        Environment { catalog: self.catalog.for_statement(), ..self.clone() }
    }

    /// Makes a local table one of the catalog, in place of a local table of that name. Relations that were bound before keep theirs.
    pub(crate) fn register_local(&mut self, name: &str, table: LocalTable) -> Result<(), Diagnostic> {
        // What is there stays when the new table cannot be had.
        let mut next = self.clone();
        let replaced = next.local_kind(name);
        if let Some(kind) = replaced {
            next.catalog.drop(kind, &[sql::Ident::new(name)], false)?;
        }
        next.add_local(name, table)?;
        if replaced.is_some() {
            next.forget_unnamed();
        }
        *self = next;
        Ok(())
    }

    /// Whether a name is that of a local table or of a local query, which is a view.
    fn local_kind(&self, name: &str) -> Option<ObjectKind> {
        match self.catalog.lookup(&[sql::Ident::new(name)]).ok()? {
            CatalogEntry::Table(entry) => self.memory.is_local(&entry.table.options).then_some(ObjectKind::Table),
            CatalogEntry::View(view) => view.is_of_program().then_some(ObjectKind::View),
        }
    }

    fn add_local(&mut self, name: &str, table: LocalTable) -> Result<(), Diagnostic> {
        match table {
            LocalTable::Frame { columns, batches } => {
                let table = |schema: &Schema| Ok(MemoryTable::Local(Arc::new(Frame::new(schema, batches)?)));
                self.define(name, &columns, vec![], table)
            }
            LocalTable::Reader { columns, reader } => {
                self.define(name, &columns, vec![], |_| Ok(MemoryTable::Local(Arc::new(ReaderTable::new(reader)))))
            }
            LocalTable::Declared { columns, is_bounded } => {
                let options = vec![(memory::ENDLESS.to_string(), (!is_bounded).to_string())];
                self.define(name, &columns, options, |_| Ok(MemoryTable::Local(Arc::new(Declared { is_bounded }))))
            }
            LocalTable::Query(relation) => {
                let (query, scope) = (&relation.statement, Arc::new(relation.environment.catalog.clone()));
                self.catalog.add_query(name, query, scope, &self.settings.values.bind).map_err(of_registering)?;
                self.memory.extend(&relation.environment.memory);
                let (history, query) = (relation.environment.history.clone(), query.to_text());
                self.history.note(Step::View { name: name.into(), history, query });
                Ok(())
            }
        }
    }

    /// Makes packed records a table.
    pub(crate) fn register_rows(&mut self, name: &str, columns: &str, blocks: Vec<Buffer>) -> Result<(), Diagnostic> {
        let table = |schema: &Schema| Ok(MemoryTable::Source(Arc::new(PackedTable::new(name, schema, blocks)?)));
        self.define(name, columns, vec![], table)
    }

    /// Makes a source a table.
    pub(crate) fn register_source(
        &mut self,
        name: &str,
        columns: &str,
        table: Arc<dyn TableProvider>,
    ) -> Result<(), Diagnostic> {
        let mut options = vec![(memory::ENDLESS.to_string(), (!table.is_bounded()).to_string())];
        if let Some(timeout) = table.idle_timeout() {
            options.push(("scan.watermark.idle-timeout".into(), format!("{} ms", timeout.as_millis())));
        }
        self.define(name, columns, options, |_| Ok(MemoryTable::Source(table)))
    }

    /// Makes a sink a table.
    pub(crate) fn register_sink(
        &mut self,
        name: &str,
        columns: &str,
        table: Arc<dyn SinkProvider>,
    ) -> Result<(), Diagnostic> {
        self.define(name, columns, vec![], |_| Ok(MemoryTable::Sink(table)))
    }

    /// Makes something of the program a table with these options and columns. `table` is told its physical columns.
    fn define(
        &mut self,
        name: &str,
        columns: &str,
        options: Vec<(String, String)>,
        table: impl FnOnce(&Schema) -> Result<MemoryTable, Diagnostic>,
    ) -> Result<(), Diagnostic> {
        let quoted = name.replace('`', "``");
        let sql = format!("CREATE TABLE `{quoted}` ({columns}) WITH ('connector' = '{}')", memory::CONNECTOR);
        let defined = sql::parse_statement(&sql).and_then(|statement| self.add(name, statement, options, table));
        let number = defined.map_err(of_registering)?;
        let is_bounded = self.memory.read(number).is_none_or(|table| table.is_bounded());
        self.history.note(Step::Table { name: name.into(), columns: columns.into(), is_bounded, number });
        Ok(())
    }

    fn add(
        &mut self,
        name: &str,
        statement: Statement,
        options: Vec<(String, String)>,
        table: impl FnOnce(&Schema) -> Result<MemoryTable, Diagnostic>,
    ) -> Result<u64, Diagnostic> {
        let Statement::CreateTable(mut definition) = statement else {
            return Err(Diagnostic::bug("CREATE TABLE was parsed as another statement"));
        };
        definition.options.extend(options);
        // The columns are checked by defining the table, and what has them by its provider: the catalog gets it when both are well.
        let mut catalog = self.catalog.clone();
        catalog.create_table(&definition)?;
        let entry = catalog.lookup_table(&[sql::Ident::new(name)])?;
        let physical = entry.columns.iter().filter(|c| matches!(c.kind, ColumnKind::Physical));
        let schema = Schema::new(physical.map(|c| c.field.clone()).collect());
        let number = self.memory.add(table(&schema)?);
        definition.options.push((memory::NUMBER.into(), number.to_string()));
        self.catalog.create_table(&definition)?;
        Ok(number)
    }

    /// Drops a table, view or function; whether it was there. Rows of the program that nothing names any more are forgotten, but by queries
    /// that have them.
    pub(crate) fn drop(&mut self, kind: ObjectKind, name: &[sql::Ident], if_exists: bool) -> Result<bool, Diagnostic> {
        let dropped = self.catalog.drop(kind, name, if_exists)?;
        self.forget_unnamed();
        Ok(dropped)
    }

    fn forget_unnamed(&mut self) {
        let mut named = Vec::new();
        self.catalog.each_table(&mut |table| named.extend(memory::number(&table.options)));
        self.memory.retain(&named);
    }

    /// The environment with what the statement names and the catalog lacks.
    pub(crate) fn with_local(&self, statement: &Statement, find: Find<'_>) -> Result<Environment, Diagnostic> {
        let mut local = self.clone();
        while let Some(name) = sql::unknown_table(&local.catalog, &local.settings.values.bind, statement)
            && let Some(table) = find(&name)?
        {
            local
                .register_local(&name, table)
                .map_err(|error| Diagnostic { message: format!("`{name}`: {}", error.message), ..error })?;
        }
        Ok(local)
    }

    /// The definition of a table with the columns of its query, if it has one, which is bound in `scope`.
    pub(crate) fn with_query_columns(
        &self,
        definition: &TableDefinition,
        scope: &Environment,
    ) -> Result<TableDefinition, Diagnostic> {
        Catalog::with_query_columns(definition, &scope.catalog, &self.settings.values.bind)
    }

    /// Plans a query, an insert or a statement set, of a session in which others may take part.
    pub(crate) fn prepared(&self, statement: &ParsedStatement, find: Find<'_>) -> Result<PreparedRun, Diagnostic> {
        let plan = |scope: &Environment, inserts: Vec<Insert>| {
            let mut run = scope.plan(inserts)?;
            scope.distribute(&mut run, &Task::Statement(statement))?;
            Ok(run)
        };
        match self.bind(&statement.statement) {
            Err(error) if error.code == code::UNKNOWN_TABLE => {
                let local = self.with_local(&statement.statement, find)?;
                plan(&local, local.bind(&statement.statement)?)
            }
            bound => plan(self, bound?),
        }
    }

    /// Plans to write the rows of a query into a table of this catalog.
    pub(crate) fn prepared_insert(
        &self,
        name: &str,
        overwrites: bool,
        relation: &Relation,
    ) -> Result<PreparedRun, Diagnostic> {
        let Statement::Query(query) = &relation.statement.statement else {
            return Err(Diagnostic::bug("a relation is no query"));
        };
        let target = vec![sql::Ident::new(name)];
        let (columns, on_conflict) = (vec![], None);
        let statement = InsertStatement { target, overwrites, columns, query: query.clone(), on_conflict };
        let (scope, settings) = (&relation.environment.catalog, &self.settings.values.bind);
        let insert = sql::bind_insert_of(&self.catalog, scope, settings, &statement)?;
        let mut both = self.clone();
        both.memory.extend(&relation.environment.memory);
        let mut run = both.plan(vec![insert])?;
        self.distribute(&mut run, &Task::Insert(name, overwrites, relation))?;
        Ok(run)
    }

    /// What is known of a query before it is planned.
    pub(crate) fn describe(&self, statement: &ParsedStatement) -> Result<Description, Diagnostic> {
        let Statement::Query(query) = &statement.statement else {
            return Err(Diagnostic::new(code::UNSUPPORTED, "only a query has rows").advise("write SELECT …"));
        };
        let bound = sql::bind_query(&self.catalog, &self.settings.values.bind, query)?;
        let tables = bound.tables();
        let is_endless = tables.iter().any(|table| !memory::is_bounded(&table.options));
        let is_repeatable =
            |table: &Arc<Table>| self.memory.source(&table.options).is_none_or(|own| own.is_repeatable());
        let schema = match changing(&bound) {
            Some(_) => results::with_kind(&bound.schema()),
            None => bound.schema(),
        };
        Ok(Description {
            schema,
            is_endless: is_endless && !matches!(bound, Rel::Limit { count: Some(_), .. }),
            is_repeatable: tables.iter().all(is_repeatable),
        })
    }

    pub(crate) fn analysis(&self, statement: &Statement, monitor: &RunMonitor) -> Result<String, Diagnostic> {
        let (plan, config, stats) = self.measured(statement, monitor)?;
        Ok(analysis::analysis(&plan, |aggregation| explain::merge_text(&config, aggregation), &stats))
    }

    /// The pipelines as a picture: with a monitor those of a run that takes place for it.
    pub(crate) fn picture(&self, statement: &Statement, monitor: Option<&RunMonitor>) -> Result<String, Diagnostic> {
        let Some(monitor) = monitor else {
            let run = self.plan(self.bind(statement)?)?;
            let merge = |aggregation: &Aggregation| explain::merge_text(&run.config, aggregation);
            return Ok(picture(&run.plan, merge, |_| Vec::new()));
        };
        let (plan, config, stats) = self.measured(statement, monitor)?;
        Ok(analysis::picture_of(&plan, |aggregation| explain::merge_text(&config, aggregation), &stats))
    }

    /// Runs a statement, and measures what each part does.
    fn measured(
        &self,
        statement: &Statement,
        monitor: &RunMonitor,
    ) -> Result<(QueryPlan, RunConfig, StatsSnapshot), Diagnostic> {
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
        Ok((plan, config, stats.snapshot()))
    }

    pub(crate) fn plan(&self, inserts: Vec<Insert>) -> Result<PreparedRun, Diagnostic> {
        let config = self.run_config();
        let compiler = QueryCompiler::new(self.compiler.clone(), self.code_directory(), config.memory_bytes());
        let hints = Arc::clone(&self.hints);
        PreparedRun::new(inserts, config, &self.settings.values, compiler.into(), hints, self.memory.clone())
    }

    pub(crate) fn explanation(&self, statement: &Statement, codegen: bool) -> Result<String, Diagnostic> {
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
        config.beats.clock = self.settings.values.bind.beat;
        config.settings.run = NEXT_RUN.fetch_add(1, Ordering::Relaxed);
        // An object store is not a place to spill to.
        let local = state.as_ref().filter(|address| !address.contains("://"));
        let directory = spill_directory.as_ref().map(PathBuf::from);
        if let Some(directory) = directory.or_else(|| local.map(|path| Path::new(path).join("spill"))) {
            config.spill.directory = directory;
        }
        config
    }
}

/// An error of a statement that the user has not written: its places and advice are not about what the user has.
fn of_registering(error: Diagnostic) -> Diagnostic {
    let error = Diagnostic { place: None, ..error };
    match error.code == code::ALREADY_EXISTS {
        true => error.advise("take another name, or drop it first (DROP TABLE, DROP VIEW)"),
        false => error,
    }
}
