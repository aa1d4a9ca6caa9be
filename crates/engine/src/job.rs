//! A run: from bound inserts to executed pipelines.

use crate::constant;
use crate::memory;
use crate::results::ResultTarget;
use crate::session::{MemoryTables, RunMonitor};
use millstream_codegen::interpreter::Interpreter;
use millstream_codegen::kernel::Kernel;
use millstream_codegen::lower::{Lowered, lower_expressions, lower_pipeline};
use millstream_connectors::{self as connectors, ColumnRequest, RequestOrigin, Sink, SinkRequest, SourceRequest};
use millstream_jit::CompileOptions;
use millstream_plan::logical::{ColumnKind, Insert, Table};
use millstream_plan::pipeline::{ColumnOrigin, QueryPlan, ScanKind, SourcePlan, WatermarkRule};
use millstream_plan::{fold, physical};
use millstream_runtime::{
    FlatMapCode, KernelSlot, PipelineCode, QueryStats, RunConfig, RunInput, SourceInput, SourceRows, StagedCode,
    event_time_columns,
};
use millstream_sql::Tier;
use millstream_types::{DataType, Diagnostic, Field, Options, Place, Schema, code};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

/// A planned run with its row programs.
pub(crate) struct Job {
    pub(crate) plan: QueryPlan,
    /// The stages of each pipeline.
    pub(crate) pipelines: Vec<Vec<Arc<Lowered>>>,
    /// Of each source, where event time or watermark have to be computed.
    pub(crate) event_times: Vec<Option<Arc<Lowered>>>,
}

impl Job {
    /// Optimises, cuts into pipelines and lowers.
    pub(crate) fn new(inserts: Vec<Insert>, config: &RunConfig) -> Result<Job, Diagnostic> {
        let mut evaluate = |e: &millstream_plan::expr::Expr| constant::fold(e, &config.settings);
        let inserts: Vec<Insert> = inserts
            .into_iter()
            .map(|i| Insert { target: i.target, query: fold::fold_rel(i.query, &mut evaluate) })
            .collect();
        let settings = &config.settings;
        let zone_offset_ms = settings.time_zone.offset_at(settings.query_start_ms.div_euclid(1000)) * 1000;
        let plan = physical::plan(&inserts, zone_offset_ms)?;
        let pipelines =
            (0..plan.pipelines.len()).map(|i| stages(lower_pipeline(&plan, i))).collect::<Result<Vec<_>, _>>()?;
        let event_times =
            plan.sources.iter().enumerate().map(|(i, s)| event_time(i, s)).collect::<Result<Vec<_>, _>>()?;
        Ok(Job { plan, pipelines, event_times })
    }

    /// Every program with the name of what it does.
    pub(crate) fn programs(&self) -> impl Iterator<Item = &Arc<Lowered>> {
        self.event_times.iter().flatten().chain(self.pipelines.iter().flatten())
    }

    /// Runs to the end. `results` receives the rows of a bare SELECT.
    pub(crate) fn run(
        self,
        tier: Tier,
        config: &RunConfig,
        memory: &MemoryTables,
        results: &mut dyn ResultTarget,
        monitor: &RunMonitor,
    ) -> Result<Arc<QueryStats>, Diagnostic> {
        let code = |lowered: &Arc<Lowered>| -> Result<PipelineCode, Diagnostic> {
            let kernel: Arc<dyn Kernel> = match tier {
                Tier::Compiled => compile(lowered)?,
                Tier::Interpreted | Tier::Auto => Arc::new(Interpreter::new(Arc::new(lowered.program.clone()))),
            };
            Ok(PipelineCode { lowered: lowered.clone(), kernel: KernelSlot::new(kernel) })
        };
        let staged = |stages: &Vec<Arc<Lowered>>| -> Result<StagedCode, Diagnostic> {
            let stages: Vec<PipelineCode> = stages.iter().map(code).collect::<Result<_, _>>()?;
            let flat_maps = (1..stages.len()).map(|_| FlatMapCode::default()).collect();
            Ok(StagedCode { stages, flat_maps })
        };
        let pipelines = self.pipelines.iter().map(staged).collect::<Result<Vec<_>, _>>()?;
        let event_times =
            self.event_times.iter().map(|t| t.as_ref().map(code).transpose()).collect::<Result<Vec<_>, _>>()?;
        let slots: Vec<(Arc<Lowered>, KernelSlot)> = event_times
            .iter()
            .flatten()
            .chain(pipelines.iter().flat_map(|p| &p.stages))
            .map(|code| (code.lowered.clone(), code.kernel.clone()))
            .collect();
        let mut sources = Vec::new();
        for (source, event_time) in self.plan.sources.iter().zip(event_times) {
            sources.push(SourceInput { rows: open_source(source, config, memory)?, event_time });
        }
        let mut sinks: Vec<Box<dyn Sink>> = Vec::new();
        for sink in &self.plan.sinks {
            let opened = match &sink.table {
                Some(table) => connectors::open_sink(&sink_request(table, sink.schema.clone()))?,
                None => results.open(&sink.schema)?,
            };
            if let Some(file) = opened.file()
                && sinks.iter().any(|other| other.file() == Some(file))
            {
                return Err(written_twice(file));
            }
            sinks.push(opened);
        }
        let stats = Arc::new(QueryStats::new(self.plan.sources.len(), self.plan.pipelines.len()));
        monitor.started(&stats);
        let input = RunInput { plan: self.plan, sources, pipelines, operators: vec![], lookups: vec![], sinks };
        let ended = AtomicBool::new(false);
        thread::scope(|scope| {
            if tier == Tier::Auto {
                scope.spawn(|| compile_in_background(&slots, &ended));
            }
            let result = millstream_runtime::run(input, config, &stats, monitor.cancel());
            ended.store(true, Relaxed);
            result
        })?;
        Ok(stats)
    }
}

/// Shares each stage.
fn stages(lowered: Result<Vec<Lowered>, Diagnostic>) -> Result<Vec<Arc<Lowered>>, Diagnostic> {
    Ok(lowered?.into_iter().map(Arc::new).collect())
}

/// Two inserts would each replace what the other has written.
fn written_twice(file: &Path) -> Diagnostic {
    let message = format!("two inserts of the statement set write the file '{}'", file.display());
    Diagnostic::new(code::INVALID_OPTION, message)
        .at(Place::Option("path".into()))
        .advise("UNION ALL the queries in one INSERT, or give a directory as 'path': each insert adds its files")
}

/// The second tier: replaces each interpreter by machine code as soon as it is there. A pipeline that cannot be
/// compiled stays interpreted: the rows are the same.
fn compile_in_background(slots: &[(Arc<Lowered>, KernelSlot)], ended: &AtomicBool) {
    for (lowered, slot) in slots {
        if ended.load(Relaxed) {
            return;
        }
        if let Ok(kernel) = compile(lowered) {
            slot.swap(kernel);
        }
    }
}

/// Programs of more values than this, such as IN lists of thousands, are compiled without optimisation: LLVM's passes
/// take quadratic time for them, minutes rather than milliseconds.
const LONG_PROGRAM: usize = 5_000;

/// Machine code of a program.
pub(crate) fn compile(lowered: &Lowered) -> Result<Arc<dyn Kernel>, Diagnostic> {
    let options = match lowered.program.types.len() {
        0..=LONG_PROGRAM => CompileOptions::default(),
        _ => CompileOptions::unoptimised(),
    };
    Ok(Arc::new(millstream_jit::compile(&lowered.program, &options)?))
}

/// The program of a source's event time and watermark, if they are not plain columns.
fn event_time(index: usize, source: &SourcePlan) -> Result<Option<Arc<Lowered>>, Diagnostic> {
    let Some(watermark) = &source.watermark else { return Ok(None) };
    let Some(columns) = event_time_columns(watermark) else { return Ok(None) };
    let mut exprs = Vec::new();
    if columns.time.is_some() {
        exprs.push(watermark.time.clone());
    }
    if let WatermarkRule::Expression(rule) = &watermark.rule {
        exprs.push(rule.clone());
    }
    let fields = source.columns.iter().map(|c| Field::new(&c.name, c.data_type.clone(), c.nullable)).collect();
    let name = format!("event time of source {index}");
    lower_expressions(&name, &Schema::new(fields), &exprs).map(|l| Some(Arc::new(l)))
}

fn open_source(source: &SourcePlan, config: &RunConfig, memory: &MemoryTables) -> Result<SourceRows, Diagnostic> {
    match &source.scan {
        ScanKind::Values(rows) => {
            let types: Vec<DataType> = source.columns.iter().map(|c| c.data_type.clone()).collect();
            let columns = constant::columns_of(rows, &types, &config.settings)?;
            Ok(SourceRows::Constant { columns, rows: rows.len() })
        }
        ScanKind::Table(table) => {
            let request = source_request(table, source, config.buffer_rows);
            let in_memory =
                memory.get(&table.name).filter(|_| table.options.get("connector") == Some(memory::CONNECTOR));
            Ok(SourceRows::Connector(match in_memory {
                Some(table) => table.open(&request),
                None => connectors::open_source(&request)?,
            }))
        }
    }
}

/// The connector sees only the physical columns, so paths are renumbered to them.
fn source_request(table: &Table, source: &SourcePlan, buffer_rows: usize) -> SourceRequest {
    let is_physical = |i: &usize| matches!(table.columns[*i].kind, ColumnKind::Physical);
    let physical: Vec<usize> = (0..table.columns.len()).filter(is_physical).collect();
    let request = |column: &millstream_plan::pipeline::SourceColumn| ColumnRequest {
        name: column.name.clone(),
        origin: match &column.origin {
            ColumnOrigin::Metadata(key) => RequestOrigin::Metadata(key.clone()),
            ColumnOrigin::Path(path) => {
                let first = physical.partition_point(|&i| i < path[0]);
                RequestOrigin::Path(std::iter::once(first).chain(path[1..].iter().copied()).collect())
            }
        },
        data_type: column.data_type.clone(),
        nullable: column.nullable,
    };
    let options = connector_options(table);
    SourceRequest {
        table: table.name.clone(),
        options,
        schema: Schema::new(physical.iter().map(|&i| table.columns[i].field.clone()).collect()),
        columns: source.columns.iter().map(request).collect(),
        buffer_rows,
    }
}

fn sink_request(table: &Table, schema: Schema) -> SinkRequest {
    SinkRequest { table: table.name.clone(), options: connector_options(table), schema }
}

/// The options without those that belong to the engine (event time).
fn connector_options(table: &Table) -> Options {
    let mut options = table.options.clone();
    options.remove("scan.watermark.idle-timeout");
    options.remove("late.table");
    options
}
