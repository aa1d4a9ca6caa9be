//! The row programs of a plan: those of its sources, pipelines, lookup tables and keyed operators.

use millstream_codegen::lower::{Lowered, lower_condition, lower_keys, lower_pipeline, lower_slots, lower_source};
use millstream_codegen::partition::partition;
use millstream_codegen::program::Program;
use millstream_codegen::specialise::shaped;
use millstream_plan::expr::Expr;
use millstream_plan::pipeline::{
    FlatMap, KeyedKind, KeyedOperator, LookupTable, Operator, PipelineInput, QueryPlan, SourcePlan, WatermarkRule,
};
use millstream_runtime::{
    FlatMapCode, MergeStrategy, OperatorCode, PartitionedCode, PipelineCode, RunConfig, StagedCode, event_time_columns,
    merge_strategy,
};
use millstream_types::{Diagnostic, Field, Schema};
use std::sync::Arc;

/// See the file's description. Vectors are parallel to those of the plan.
pub(crate) struct Programs {
    /// Of each source, where event time or watermark have to be computed.
    pub(crate) event_times: Vec<Option<Arc<Lowered>>>,
    /// Stages and flat maps of each pipeline.
    pub(crate) pipelines: Vec<Staged>,
    /// The keys of each lookup table.
    pub(crate) lookups: Vec<Arc<Lowered>>,
    /// Of each keyed operator.
    pub(crate) operators: Vec<Keyed>,
}

/// The programs of a pipeline.
pub(crate) struct Staged {
    stages: Vec<Arc<Lowered>>,
    flat_maps: Vec<FlatMapped>,
    /// The halves of the last stage, if rows are partitioned before they meet tables.
    halves: Option<[Arc<Lowered>; 2]>,
    /// The last stage for tables that workers share, if they may.
    shared: Option<Arc<Lowered>>,
}

/// The programs of a flat map: those of lookups, none for the others.
#[derive(Default)]
struct FlatMapped {
    probe: Option<Arc<Lowered>>,
    residual: Option<Arc<Lowered>>,
}

/// The programs of a keyed operator.
pub(crate) struct Keyed {
    keys: Vec<Arc<Lowered>>,
    residual: Option<Arc<Lowered>>,
    slots: Option<Arc<Lowered>>,
}

impl Programs {
    /// Lowers everything that a run may need.
    pub(crate) fn new(plan: &QueryPlan, config: &RunConfig) -> Result<Programs, Diagnostic> {
        let sources = plan.sources.iter().enumerate();
        let lookups = plan.lookups.iter().enumerate();
        let operators = plan.operators.iter().enumerate();
        Ok(Programs {
            event_times: sources.map(|(i, s)| event_time(i, s)).collect::<Result<_, _>>()?,
            pipelines: (0..plan.pipelines.len()).map(|i| staged(plan, i, config)).collect::<Result<_, _>>()?,
            lookups: lookups.map(|(i, l)| keys_of_lookup(i, l)).collect::<Result<_, _>>()?,
            operators: operators.map(|(i, o)| keyed(i, o)).collect::<Result<_, _>>()?,
        })
    }

    /// The programs that read the buffers of a source: its own, and the first of each pipeline.
    pub(crate) fn readers<'a>(&'a self, plan: &'a QueryPlan, source: usize) -> impl Iterator<Item = &'a Lowered> {
        self.event_times[source].as_deref().into_iter().chain(self.first_stages(plan, source))
    }

    /// The first program of each pipeline that reads a source.
    pub(crate) fn first_stages<'a>(&'a self, plan: &'a QueryPlan, source: usize) -> impl Iterator<Item = &'a Lowered> {
        let reads = move |i: &usize| plan.pipelines[*i].input == PipelineInput::Source(source);
        let first = |i: usize| self.pipelines[i].stages.first().map(|lowered| &**lowered);
        (0..self.pipelines.len()).filter(reads).filter_map(first)
    }

    /// Every program, in the order in which rows meet them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Lowered>> {
        let staged = self.pipelines.iter().flat_map(|p| {
            let flat_maps = p.flat_maps.iter().flat_map(|f| f.probe.iter().chain(&f.residual));
            p.stages.iter().chain(flat_maps).chain(p.halves.iter().flatten()).chain(&p.shared)
        });
        let keyed = self.operators.iter().flat_map(|o| o.keys.iter().chain(&o.residual).chain(&o.slots));
        self.event_times.iter().flatten().chain(&self.lookups).chain(staged).chain(keyed)
    }
}

impl Staged {
    /// The pipeline with what executes it, which `code` makes.
    pub(crate) fn code(&self, code: &mut MakeCode<'_>) -> Result<StagedCode, Diagnostic> {
        let stages = self.stages.iter().map(&mut *code).collect::<Result<_, _>>()?;
        let mut flat_maps = Vec::with_capacity(self.flat_maps.len());
        for FlatMapped { probe, residual } in &self.flat_maps {
            let probe = probe.as_ref().map(&mut *code).transpose()?;
            flat_maps.push(FlatMapCode { probe, residual: residual.as_ref().map(&mut *code).transpose()? });
        }
        let partitioned = match &self.halves {
            Some([scatter, fold]) => Some(PartitionedCode { scatter: code(scatter)?, fold: code(fold)? }),
            None => None,
        };
        let shared = self.shared.as_ref().map(code).transpose()?;
        Ok(StagedCode { stages, flat_maps, partitioned, shared })
    }
}

impl Keyed {
    /// The operator's programs with what executes them.
    pub(crate) fn code(&self, code: &mut MakeCode<'_>) -> Result<OperatorCode, Diagnostic> {
        Ok(OperatorCode {
            keys: self.keys.iter().map(&mut *code).collect::<Result<_, _>>()?,
            residual: self.residual.as_ref().map(&mut *code).transpose()?,
            slots: self.slots.as_ref().map(&mut *code).transpose()?,
        })
    }
}

/// Makes what executes a program.
pub(crate) type MakeCode<'a> = dyn FnMut(&Arc<Lowered>) -> Result<PipelineCode, Diagnostic> + 'a;

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
    let name = format!("event time of source {index}");
    lower_source(&name, &source.columns, &exprs).map(|l| Some(Arc::new(l)))
}

fn staged(plan: &QueryPlan, index: usize, config: &RunConfig) -> Result<Staged, Diagnostic> {
    let shaped = |lowered: Lowered| match config.adaptivity.filter_shape {
        Some(shape) => Lowered { program: shaped(&lowered.program, shape), ..lowered },
        None => lowered,
    };
    let stages: Vec<Arc<Lowered>> = lower_pipeline(plan, index)?.into_iter().map(shaped).map(Arc::new).collect();
    let (mut halves, mut shared) = (None, None);
    if let Some((last, layout)) = stages.last().and_then(|last| Some((last, last.layout()?))) {
        match merge_strategy(config, layout) {
            MergeStrategy::Local => {}
            MergeStrategy::Partition => halves = partition(last)?.map(|h| [h.scatter, h.fold].map(Arc::new)),
            MergeStrategy::Global | MergeStrategy::Auto => {
                shared = last.program.shared().map(|program| {
                    // Statistics tell the two apart by their names.
                    let name = format!("{}, shared tables", program.name);
                    Arc::new(Lowered { program: Program { name, ..program }, ..Lowered::clone(last) })
                });
            }
        }
    }
    let pipeline = &plan.pipelines[index];
    let mut schema = pipeline.schema.clone();
    let mut flat_maps = Vec::new();
    for operator in &pipeline.operators {
        match operator {
            Operator::Filter(_) => {}
            Operator::Project(columns) => schema = schema_of(columns),
            Operator::FlatMap(flat_map) => {
                flat_maps.push(programs_of_lookup(plan, index, flat_map, &schema)?);
                schema.fields.extend(flat_map.appended(&plan.lookups));
            }
        }
    }
    Ok(Staged { stages, flat_maps, halves, shared })
}

fn schema_of(columns: &[Expr]) -> Schema {
    let named = |(i, e): (usize, &Expr)| Field::new(format!("column{i}"), e.data_type.clone(), e.nullable);
    Schema::new(columns.iter().enumerate().map(named).collect())
}

/// Probe and residual of a flat map over rows of `schema`, if it is a lookup.
fn programs_of_lookup(
    plan: &QueryPlan,
    pipeline: usize,
    flat_map: &FlatMap,
    schema: &Schema,
) -> Result<FlatMapped, Diagnostic> {
    let FlatMap::Lookup { table, keys, residual, .. } = flat_map else { return Ok(FlatMapped::default()) };
    let lookup = &plan.lookups[*table];
    let positions: Vec<usize> = (0..keys.len()).collect();
    let name = format!("probe of lookup {table} in pipeline {pipeline}");
    let probe = lower_keys(&name, &schema_of(keys), &positions, &key_fields(lookup))?;
    let mut both = schema.clone();
    both.fields.extend(lookup.schema.fields.iter().cloned());
    let name = format!("condition of lookup {table} in pipeline {pipeline}");
    let residual = residual.as_ref().map(|r| lower_condition(&name, &both, r)).transpose()?;
    Ok(FlatMapped { probe: Some(Arc::new(probe)), residual: residual.map(Arc::new) })
}

fn keys_of_lookup(index: usize, lookup: &LookupTable) -> Result<Arc<Lowered>, Diagnostic> {
    let name = format!("keys of lookup {index}");
    lower_keys(&name, &lookup.schema, &lookup.keys, &key_fields(lookup)).map(Arc::new)
}

/// The keys of a lookup table's entries. None of them is NULL, but what is looked up can be.
fn key_fields(lookup: &LookupTable) -> Vec<Field> {
    let field = |&i: &usize| Field { nullable: true, ..lookup.schema.fields[i].clone() };
    lookup.keys.iter().map(field).collect()
}

fn keyed(index: usize, operator: &KeyedOperator) -> Result<Keyed, Diagnostic> {
    let mut keys = Vec::with_capacity(operator.inputs.len());
    for (port, input) in operator.inputs.iter().enumerate() {
        let name = format!("keys of input {port} of operator {index}");
        keys.push(Arc::new(lower_keys(&name, &input.schema, &input.keys, &operator.keys)?));
    }
    let residual = match &operator.kind {
        KeyedKind::WindowJoin { residual, .. }
        | KeyedKind::IntervalJoin { residual, .. }
        | KeyedKind::RegularJoin { residual, .. }
        | KeyedKind::VersionedJoin { residual, .. } => residual.as_ref(),
        _ => None,
    };
    let both = Schema::new(operator.inputs.iter().flat_map(|i| i.schema.fields.iter().cloned()).collect());
    let name = format!("condition of operator {index}");
    let residual = residual.map(|r| lower_condition(&name, &both, r)).transpose()?;
    let slots = match &operator.kind {
        KeyedKind::Over { aggregates, .. }
        | KeyedKind::SessionAggregate { aggregates, .. }
        | KeyedKind::CountAggregate { aggregates, .. } => {
            let name = format!("aggregates of operator {index}");
            Some(lower_slots(&name, &operator.inputs[0].schema, aggregates)?)
        }
        _ => None,
    };
    Ok(Keyed { keys, residual: residual.map(Arc::new), slots: slots.map(Arc::new) })
}
