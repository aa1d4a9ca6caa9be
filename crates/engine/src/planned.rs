//! A run: from bound inserts to executed pipelines.

use crate::cluster::{Distributed, RunPart, is_independent};
use crate::compiler::QueryCompiler;
use crate::constant;
use crate::description::RunDescription;
use crate::fitting;
use crate::memory::{self, MemoryTables};
use crate::monitor::{Outcome, RunMonitor};
use crate::placement::{self, TableLayout};
use crate::recovery::{self, Beginning, Checkpointed, JobState};
use crate::results::ResultTarget;
use crate::settings::Values;
use crate::sinks;
use crate::skipping;
use millstream_codegen::kernel::Tier;
use millstream_codegen::lower::{Lowered, lower_plan};
use millstream_codegen::programs::Programs;
use millstream_connectors::{
    self as connectors, ChangedBy, ColumnRequest, RequestOrigin, Sink, SinkRequest, SourceRequest,
};
use millstream_plan::beat::BeatClock;
use millstream_plan::logical::{ColumnKind, Insert, Table};
use millstream_plan::physical::Rules;
use millstream_plan::pipeline::{ColumnOrigin, QueryPlan, ScanKind, SinkPlan, SourceColumn, SourcePlan, WatermarkRule};
use millstream_plan::shape::PlanShape;
use millstream_plan::{explain, fold, physical};
use millstream_runtime::{
    CancelToken, CheckpointConfig, Compiled, Hints, MergeStrategy, Nodes, PipelineCode, ProgramCompiler, QueryStats,
    Recovered, RunConfig, RunInput, SourceInput, SourceRows, When, combination, kept_shape,
};
use millstream_storage::{JobPartitions, Manifest};
use millstream_types::{DataType, Diagnostic, MemorySize, Options, Place, Schema, code};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use xxhash_rust::xxh3::xxh3_64;

/// A run that has been planned.
#[derive(Clone)]
pub struct PreparedRun {
    /// What it does.
    pub(crate) inserts: Vec<Insert>,
    in_place: When,
    ttl_ms: Option<u64>,
    pub(crate) plan: QueryPlan,
    pub(crate) programs: Programs<Arc<Lowered>>,
    pub(crate) config: RunConfig,
    /// `None`: interpreted until there is machine code.
    tier: Option<Tier>,
    compiler: Arc<QueryCompiler>,
    hints: Arc<Hints>,
    memory: MemoryTables,
    /// What its job is called, if it has a name.
    pub(crate) name: Option<String>,
    /// How its job is checkpointed.
    pub(crate) checkpoints: Checkpointed,
    /// Where its checkpoints are, if it has any.
    pub(crate) state: Option<JobState>,
    pub(crate) files: Arc<WrittenFiles>,
    monitor: Arc<RunMonitor>,
    /// Where other processes take part.
    pub(crate) distributed: Option<Distributed>,
}

/// Single files that are written by concurrent runs.
pub(crate) type WrittenFiles = Mutex<BTreeSet<PathBuf>>;

/// The plan of inserts by these rules, with its programs.
fn planned(
    inserts: &[Insert],
    config: &RunConfig,
    memory: &MemoryTables,
    (in_place, ttl_ms): (When, Option<u64>),
    rules: Rules,
) -> Result<(QueryPlan, Programs<Arc<Lowered>>), Diagnostic> {
    let mut plan = physical::plan(inserts, config.settings.time_zone, config.beats.clock, ttl_ms, rules)?;
    for aggregation in &mut plan.aggregations {
        let components = (aggregation.components.as_slice(), aggregation.shorter.as_ref());
        aggregation.combination = combination(&config.adaptivity, components, aggregation.combination);
    }
    note_columns_without_null(&mut plan, memory);
    sinks::place(&mut plan);
    let lower = |plan: &QueryPlan| lower_plan(plan, config.into(), config.adaptivity.filter_shape);
    let mut programs = lower(&plan)?;
    let layouts: Vec<_> = plan.sources.iter().map(|source| table_layout(source, memory)).collect();
    if placement::place(&mut plan, &programs, &layouts, in_place) {
        programs = lower(&plan)?;
    }
    Ok((plan, programs))
}

impl PreparedRun {
    /// Optimises, cuts into pipelines, lowers, and decides which columns are read in place.
    pub(crate) fn new(
        inserts: Vec<Insert>,
        config: RunConfig,
        settings: &Values,
        compiler: Arc<QueryCompiler>,
        hints: Arc<Hints>,
        memory: MemoryTables,
    ) -> Result<PreparedRun, Diagnostic> {
        let mut evaluate = |e: &millstream_plan::expr::Expr| constant::fold(e, &config.settings);
        let inserts: Vec<Insert> = inserts
            .into_iter()
            .map(|i| Insert { target: i.target, query: fold::fold_rel(i.query, &mut evaluate) })
            .collect();
        let ttl_ms = settings.bind.state_ttl_ms();
        let (plan, programs) = planned(&inserts, &config, &memory, (settings.in_place, ttl_ms), Rules::default())?;
        check_beats(&plan, config.beats.clock)?;
        let (tier, files) = (settings.tier, Arc::default());
        let monitor = Arc::new(RunMonitor::of_run(config.settings.run));
        let (name, checkpoints) = (settings.job_name.clone(), settings.checkpoints);
        Ok(PreparedRun {
            inserts,
            in_place: settings.in_place,
            ttl_ms,
            plan,
            programs,
            config,
            tier,
            compiler,
            hints,
            memory,
            name,
            checkpoints,
            state: None,
            files,
            monitor,
            distributed: None,
        })
    }

    /// Plans it as an earlier version did, if that `fits` what is kept and the present plan does not. A plan that cannot be made fits
    /// nothing.
    pub(crate) fn plan_as_kept(&mut self, fits: impl Fn(&PlanShape) -> bool) {
        if fits(&self.shape()) {
            return;
        }
        let by = |rules| planned(&self.inserts, &self.config, &self.memory, (self.in_place, self.ttl_ms), rules).ok();
        if let Some(earlier) = Rules::EARLIER.into_iter().filter_map(by).find(|(plan, _)| fits(&PlanShape::of(plan))) {
            (self.plan, self.programs) = earlier;
        }
    }

    /// What it keeps from one run to the next: it can resume from another one's checkpoint if [`PlanShape::fit`] says
    /// so.
    pub fn shape(&self) -> PlanShape {
        PlanShape::of(&self.plan)
    }

    /// Whether it reads a table that does not end by itself.
    pub fn is_endless(&self) -> bool {
        self.plan.sources.iter().any(|source| match &source.scan {
            ScanKind::Table(table) => !memory::is_bounded(&table.options),
            ScanKind::Values(_) => false,
        })
    }

    /// The local files and directories that its sinks write, each under the one name that it has.
    pub fn written_paths(&self) -> Vec<PathBuf> {
        let tables = self.plan.sinks.iter().filter_map(|sink| sink.table.as_ref());
        tables.filter_map(|table| connectors::written_path(&table.options)).collect()
    }

    /// The numbers of the program's own tables that it reads.
    pub(crate) fn reads_program(&self) -> Vec<u64> {
        let number = |source: &SourcePlan| match &source.scan {
            ScanKind::Table(table) => memory::number(&table.options),
            ScanKind::Values(_) => None,
        };
        self.plan.sources.iter().filter_map(number).collect()
    }

    /// What it does, for whoever looks on. Fails when a part of its plan has no layout, which is a bug.
    pub fn describe(&self) -> Result<RunDescription, Diagnostic> {
        RunDescription::of(self)
    }

    /// What its job is called (`pipeline.name`), if it has a name.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Whether it is checkpointed.
    pub fn keeps_checkpoints(&self) -> bool {
        self.state.is_some()
    }

    /// What [`PreparedRun::submit`] tells of it: who wants to stop it can have that before it begins.
    pub fn monitor(&self) -> Arc<RunMonitor> {
        Arc::clone(&self.monitor)
    }

    /// Runs it; blocks until it has ended. `results` receives the rows of a bare SELECT.
    pub fn run(self, results: &mut dyn ResultTarget, monitor: &RunMonitor) -> Result<Outcome, Diagnostic> {
        Ok(match self.execute(results, monitor)? {
            Some(stats) => Outcome::Ran(Box::new(stats.snapshot())),
            None => Outcome::Done("the job had come to its end before, so nothing was done".into()),
        })
    }

    /// Runs to the end. `results` receives the rows of a bare SELECT. With `state` the run resumes from its last
    /// checkpoint; `None` if it had ended before.
    pub(crate) fn execute(
        self,
        results: &mut dyn ResultTarget,
        monitor: &RunMonitor,
    ) -> Result<Option<Arc<QueryStats>>, Diagnostic> {
        if self.state.is_some() && self.plan.sorts_output() && self.is_endless() {
            return Err(never_checkpointed());
        }
        let stats = Arc::new(QueryStats::new(&self.plan));
        // Each node has its own programs, and opens all sources.
        let mut first = self.input(&stats, monitor)?;
        let mut others = Vec::new();
        if self.distributed.is_none() {
            others = (1..self.config.nodes).map(|_| self.input(&stats, monitor)).collect::<Result<Vec<_>, _>>()?;
        }
        let PreparedRun { plan, mut config, memory, state, files, distributed, .. } = self;
        let mut sinks: Vec<Box<dyn Sink>> = Vec::new();
        for sink in &plan.sinks {
            let opened = match &sink.table {
                Some(table) => {
                    monitor.opens(&table.name);
                    let request = sink_request(table, sink);
                    match memory::number(&table.options) {
                        Some(_) => memory::open_sink(&memory, &request, config.settings.run)?,
                        None => connectors::open_sink(&request)?,
                    }
                }
                None => match &sink.changes {
                    Some(changes) => results.open_changing(&sink.schema, changes.key.as_deref())?,
                    None => results.open(&sink.schema)?,
                },
            };
            if let Some(file) = opened.file()
                && !files.lock().unwrap_or_else(PoisonError::into_inner).insert(file.to_path_buf())
            {
                return Err(written_twice(file));
            }
            sinks.push(opened);
        }
        // To its end: until then the job is this run's.
        let _running = state.as_ref().map(|state| Arc::clone(&state.running));
        let is_distributed = distributed.is_some() || !others.is_empty();
        let begin = |state: &JobState| state.begin(&plan, &mut sinks, is_distributed, monitor);
        let beginning = state.as_ref().map(begin).transpose()?;
        let checkpoints = match beginning {
            None => None,
            Some(Beginning::Run(config)) => Some(*config),
            Some(Beginning::Finished(restored)) => {
                let sources = first.sources.into_iter().enumerate().filter_map(|(number, source)| match source.rows {
                    SourceRows::Connector(source) => Some((number, source)),
                    SourceRows::Constant { .. } => None,
                });
                let unread = recovery::unread_inputs(restored.manifest(), sources.collect());
                if let Some(first) = unread.first() {
                    let more =
                        if unread.len() > 1 { format!(" (and {} more)", unread.len() - 1) } else { String::new() };
                    monitor.notice(format!(
                        "the job has come to its end before, and nothing is read again, but {first}{more}; to read it, give \
                         another state directory and output"
                    ));
                }
                sinks.into_iter().try_for_each(|sink| sink.finish())?;
                return Ok(None);
            }
        };
        let restored = checkpoints.as_ref().and_then(|config| config.restored.as_ref());
        if let Some(before) = restored.map(|restored| restored.manifest().partitions)
            && let Some(now) = config.other_partitions(before)
            && !(plan.aggregations.is_empty() && plan.operators.is_empty())
        {
            let of = |partitions: JobPartitions| {
                format!("{} partitions of tables and {} of keyed operators", partitions.tables, partitions.keys)
            };
            monitor.notice(format!("its state is cut into {}, so far it was {}", of(now), of(before)));
        }
        let begins = |sink: usize| restored.is_none_or(|restored| restored.is_new_sink(sink));
        let beginning = sinks.iter().enumerate().filter(|(sink, _)| begins(*sink));
        if let Some(file) = beginning.map(|(_, sink)| sink).find_map(|sink| sink.replaces()) {
            return Err(not_replaced(file));
        }
        let number_of = |sink: usize| restored.map_or(sink, |restored| restored.manifest().sinks[sink].number);
        let mut held = None;
        if let Some(Distributed { cluster, session, task }) = distributed {
            let partitions = config.partitions(restored.map(|restored| restored.manifest().partitions));
            config.set_partitions(partitions);
            let JobPartitions { tables, keys } = partitions;
            let state = state.as_ref().zip(checkpoints.as_ref()).map(|(state, config)| state.of_nodes(config));
            let (sinks, _held) = sinks::shared(&plan, &sinks, number_of)?;
            let (is_independent, plan) = (is_independent(&plan, state.is_some()), fingerprint(&plan));
            let part =
                RunPart { session, task, plan, partitions: (tables, keys), state, sinks, is_independent, cuts: 0 };
            let node = cluster.begin(&part, monitor)?;
            (first.nodes, held) = (Some(node.nodes), Some(node.held));
        } else if !others.is_empty() {
            let (said, _held) = sinks::shared(&plan, &sinks, number_of)?;
            let mut nodes = Nodes::in_process(others.len() + 1).into_iter();
            first.nodes = nodes.next();
            for ((number, other), node) in (1..).zip(&mut others).zip(nodes) {
                let of_node = |config: CheckpointConfig| {
                    let checkpoints = config.checkpoints.of_node(number, 0);
                    CheckpointConfig { checkpoints, ..config }
                };
                let job = state
                    .as_ref()
                    .zip(checkpoints.as_ref())
                    .map(|(state, config)| move |sink| state.sink_job(config, sink, number));
                other.sinks = sinks::of_another_node(&plan, &said, job)?;
                (other.nodes, other.checkpoints) = (Some(node), checkpoints.clone().map(of_node));
            }
        }
        monitor.started(&stats);
        (first.sinks, first.checkpoints) = (sinks, checkpoints);
        let ended = run_nodes(first, others, &config, &stats, monitor.cancel());
        drop(held);
        ended?;
        Ok(Some(stats))
    }

    /// Takes part as another node than the first, with these sinks.
    pub(crate) fn follow(
        self,
        nodes: Nodes,
        checkpoints: Option<CheckpointConfig>,
        sinks: Vec<Box<dyn Sink>>,
        cancel: &CancelToken,
    ) -> Result<(), Diagnostic> {
        let stats = Arc::new(QueryStats::new(&self.plan));
        let input = RunInput { nodes: Some(nodes), checkpoints, sinks, ..self.input(&stats, &self.monitor)? };
        millstream_runtime::run(input, &self.config, &stats, cancel)
    }

    /// Cuts its state into so many partitions.
    pub(crate) fn cut_into(&mut self, partitions: JobPartitions) {
        self.config.set_partitions(partitions);
    }

    /// What all nodes of a run have to have planned.
    pub(crate) fn fingerprint(&self) -> u64 {
        fingerprint(&self.plan)
    }

    /// A checkpoint to resume from; planned as it was when that was taken.
    pub(crate) fn resume_from(&mut self, manifest: Manifest) -> Result<Recovered, Diagnostic> {
        let kept = kept_shape(&manifest);
        self.plan_as_kept(|shape| kept.as_ref().is_none_or(|kept| shape.fit(kept).is_ok()));
        fitting::recovered(&self.plan, manifest)
    }

    /// Programs and sources of a node. Sinks, checkpoints and nodes are to be added.
    fn input(&self, stats: &QueryStats, monitor: &RunMonitor) -> Result<RunInput, Diagnostic> {
        let PreparedRun { plan, programs, config, tier, compiler, hints, memory, .. } = self;
        let mut code = |lowered: &Arc<Lowered>| -> Result<PipelineCode, Diagnostic> {
            let is_spare = config.merge == MergeStrategy::Auto && lowered.program.is_shared();
            if *tier != Some(Tier::Compiled) || is_spare {
                return Ok(PipelineCode::interpreted(lowered.clone()));
            }
            let Compiled { kernel, compilation } = compiler.compile_at_once(&lowered.program)?;
            stats.note_compilation(compilation);
            Ok(PipelineCode::new(lowered.clone(), kernel))
        };
        let Programs { event_times, pipelines, lookups, keyed } = programs.try_map(&mut code)?;
        let mut sources = Vec::new();
        for (number, event_time) in event_times.into_iter().enumerate() {
            monitor.opens(plan.sources[number].name());
            let rows = open_source(&plan.sources[number], config, memory)?;
            let may_skip = config.adaptivity.skips_in_decoders() && rows.can_skip();
            let head = match may_skip {
                true => skipping::head_code(plan, programs, number, &mut code)?,
                false => None,
            };
            sources.push(SourceInput { rows, event_time, head });
        }
        let later = || Arc::clone(compiler) as Arc<dyn ProgramCompiler>;
        Ok(RunInput {
            plan: plan.clone(),
            sources,
            pipelines,
            operators: keyed,
            lookups,
            sinks: Vec::new(),
            compiler: (*tier != Some(Tier::Interpreted)).then(later),
            hints: Arc::clone(hints),
            checkpoints: None,
            nodes: None,
        })
    }
}

/// What all nodes of a run have to have planned: pipelines, and what is kept.
fn fingerprint(plan: &QueryPlan) -> u64 {
    let kept = serde_json::to_string(&PlanShape::of(plan)).expect("shapes are texts, numbers and lists");
    let everywhere: Vec<bool> = plan.sinks.iter().map(|sink| sink.is_on_every_node).collect();
    xxh3_64(format!("{}{kept}{everywhere:?}", explain::pipelines(plan, |_| String::new())).as_bytes())
}

/// Runs the nodes of a query in this process, each with its part of the memory; the error that has ended it, if one has.
fn run_nodes(
    first: RunInput,
    others: Vec<RunInput>,
    config: &RunConfig,
    stats: &Arc<QueryStats>,
    cancel: &CancelToken,
) -> Result<(), Diagnostic> {
    let memory = MemorySize::Bytes((config.memory_bytes() / (others.len() as u64 + 1)).max(1));
    let config = if others.is_empty() { config.clone() } else { RunConfig { memory, ..config.clone() } };
    std::thread::scope(|scope| {
        let run_other = |input: RunInput| {
            let stats = Arc::new(QueryStats::new(&input.plan));
            let config = &config;
            scope.spawn(move || millstream_runtime::run(input, config, &stats, cancel))
        };
        let others: Vec<_> = others.into_iter().map(run_other).collect();
        let mut result = millstream_runtime::run(first, &config, stats, cancel);
        for other in others {
            let ended = other.join().unwrap_or_else(|_| Err(Diagnostic::bug("a node panicked")));
            // What the first says of it is the same, but for the nodes that end because it does.
            result = result.and(ended);
        }
        result
    })
}

/// Whether there are beats such as were asked for.
fn check_beats(plan: &QueryPlan, clock: BeatClock) -> Result<(), Diagnostic> {
    if !plan.has_beats() {
        return Ok(());
    }
    let last = plan.sources.iter().map(|source| source.phase).max();
    // What is looked up is read to its end before.
    let tables =
        plan.sources.iter().filter(|source| Some(source.phase) == last).filter_map(|source| match &source.scan {
            ScanKind::Table(table) => Some((table, source)),
            ScanKind::Values(_) => None,
        });
    for (table, source) in tables {
        let has_event_time =
            source.watermark.as_ref().is_some_and(|watermark| !matches!(watermark.rule, WatermarkRule::ProcessingTime));
        let (message, advice) = match clock {
            BeatClock::EventTime(_) if !has_event_time => (
                format!("beats of event time need the WATERMARK of every table, and `{}` has none", table.name),
                "declare one (WATERMARK FOR ts AS ts - INTERVAL '5' SECOND), or let beats end as rows come: SET 'pipeline.beat' = 'arrival'",
            ),
            BeatClock::End if !memory::is_bounded(&table.options) => (
                format!("a result that is written at the end of the input needs one, and `{}` has none", table.name),
                "let beats end as rows come (SET 'pipeline.beat' = 'arrival'), or give the table an end, such as 'scan.bounded.mode'",
            ),
            _ => continue,
        };
        return Err(Diagnostic::new(code::INVALID_OPTION, message)
            .at(Place::Option("pipeline.beat".into()))
            .advise(advice));
    }
    Ok(())
}

/// A checkpoint would have to wait for the end of all inputs.
fn never_checkpointed() -> Diagnostic {
    let message = "a statement that has ORDER BY and reads endless input cannot have checkpoints";
    Diagnostic::new(code::UNSUPPORTED, message)
        .advise("make the INSERT with ORDER BY (or with LIMIT in a subquery) a statement of its own")
}

/// Rows that are there are not lost because a query runs again.
fn not_replaced(file: &Path) -> Diagnostic {
    Diagnostic::new(
        code::OUTPUT_EXISTS,
        format!("the file '{}' exists, and INSERT INTO would replace it", file.display()),
    )
    .at(Place::Option("path".into()))
    .advise("write INSERT OVERWRITE if it may be replaced; or give another 'path', or a directory: it gets more files")
}

/// Two inserts would each replace what the other has written.
fn written_twice(file: &Path) -> Diagnostic {
    let message = format!("two inserts that run together write the file '{}'", file.display());
    Diagnostic::new(code::INVALID_OPTION, message)
        .at(Place::Option("path".into()))
        .advise("UNION ALL the queries in one INSERT, or give a directory as 'path': each insert adds its files")
}

fn open_source(source: &SourcePlan, config: &RunConfig, memory: &MemoryTables) -> Result<SourceRows, Diagnostic> {
    match &source.scan {
        ScanKind::Values(rows) => {
            let types: Vec<DataType> = source.columns.iter().map(|c| c.data_type.clone()).collect();
            let columns = constant::columns_of(rows, &types, &config.settings)?;
            Ok(SourceRows::Constant { columns, rows: rows.len() })
        }
        ScanKind::Table(table) => {
            // A chunk that a source makes by itself is not larger than a buffer.
            let most = Some(config.most_adapted_rows()).filter(|&rows| rows < connectors::CHUNK_ROWS);
            let rows = if config.buffer_rows == 0 { most.unwrap_or(0) } else { config.buffer_rows };
            let request = source_request(table, source, rows);
            Ok(SourceRows::Connector(match memory::number(&table.options) {
                Some(_) => memory::open_source(memory, &request)?,
                None => connectors::open_source(&request)?,
            }))
        }
    }
}

/// Has programs look for no NULL in columns whose rows are in memory and have none. Types are as they were: what a query gives, and what
/// it keeps, does not depend on the rows.
fn note_columns_without_null(plan: &mut QueryPlan, memory: &MemoryTables) {
    for source in &mut plan.sources {
        let ScanKind::Table(table) = &source.scan else { continue };
        let Some(provider) = memory.source(&table.options) else { continue };
        let physical = physical_columns(table);
        for column in source.columns.iter_mut().filter(|column| column.nullable) {
            let ColumnOrigin::Path(path) = &column.origin else { continue };
            if let [field] = path[..]
                && let Ok(position) = physical.binary_search(&field)
            {
                column.nullable = provider.may_be_null(position);
            }
        }
    }
}

/// The packed records of a source, if it has any.
fn table_layout(source: &SourcePlan, memory: &MemoryTables) -> Option<TableLayout> {
    let ScanKind::Table(table) = &source.scan else { return None };
    let layout = match memory.source(&table.options) {
        Some(provider) => provider.record_layout().cloned(),
        None => connectors::record_layout(&table.options, &physical_schema(table)),
    };
    layout.map(|layout| TableLayout { layout, physical: physical_columns(table) })
}

fn physical_columns(table: &Table) -> Vec<usize> {
    let is_physical = |i: &usize| matches!(table.columns[*i].kind, ColumnKind::Physical);
    (0..table.columns.len()).filter(is_physical).collect()
}

fn physical_schema(table: &Table) -> Schema {
    Schema::new(physical_columns(table).into_iter().map(|i| table.columns[i].field.clone()).collect())
}

/// The connector sees only the physical columns, so paths are renumbered to them.
fn source_request(table: &Table, source: &SourcePlan, buffer_rows: usize) -> SourceRequest {
    let physical = physical_columns(table);
    let origin = |column: &SourceColumn| match &column.origin {
        ColumnOrigin::Metadata(key) => RequestOrigin::Metadata(key.clone()),
        ColumnOrigin::Path(path) => {
            let first = physical.partition_point(|&i| i < path[0]);
            match column.in_record {
                Some(_) => RequestOrigin::Record(first),
                None => RequestOrigin::Path(std::iter::once(first).chain(path[1..].iter().copied()).collect()),
            }
        }
    };
    let request = |column: &SourceColumn| ColumnRequest {
        name: column.name.clone(),
        origin: origin(column),
        data_type: column.data_type.clone(),
        nullable: column.nullable,
    };
    let options = connector_options(table);
    SourceRequest {
        table: table.name.clone(),
        options,
        schema: physical_schema(table),
        columns: source.columns.iter().map(request).collect(),
        buffer_rows,
        primary_key: table.primary_key.iter().map(|&column| physical.partition_point(|&i| i < column)).collect(),
    }
}

pub(crate) fn sink_request(table: &Table, sink: &SinkPlan) -> SinkRequest {
    let (schema, changes) = (sink.schema.clone(), sink.changes.clone());
    let columns = table.writable().into_iter().map(|column| &table.columns[column].kind).enumerate();
    let metadata = columns.filter_map(|(column, kind)| match kind {
        ColumnKind::Metadata { key, .. } => Some((column, key.clone())),
        _ => None,
    });
    let metadata = metadata.collect();
    let key = table.primary_key.iter().map(|i| &table.columns[*i].field.name);
    // Columns of a key are physical, so the sink has them.
    let primary_key = key.filter_map(|name| schema.fields.iter().position(|field| field.name == *name)).collect();
    let changes = changes.map(|changes| ChangedBy { key: changes.key });
    SinkRequest { table: table.name.clone(), options: connector_options(table), schema, metadata, primary_key, changes }
}

/// The options without those that belong to the engine (event time).
fn connector_options(table: &Table) -> Options {
    let mut options = table.options.clone();
    options.remove("scan.watermark.idle-timeout");
    options.remove("late.table");
    options
}
