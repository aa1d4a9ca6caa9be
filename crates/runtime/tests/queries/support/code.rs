//! The programs of a plan, run by interpreters.

use super::{MemorySink, source_schema};
use millstream_codegen::lower::{Lowered, lower_condition, lower_expressions, lower_keys, lower_pipeline, lower_slots};
use millstream_codegen::partition::partition;
use millstream_connectors::Sink;
use millstream_plan::expr::Expr;
use millstream_plan::pipeline::*;
use millstream_runtime::*;
use millstream_types::{Field, Schema};
use std::sync::Arc;

/// A plan with interpreters for its code.
pub fn input(plan: QueryPlan, sources: Vec<SourceRows>, sinks: Vec<MemorySink>) -> RunInput {
    let pipelines = (0..plan.pipelines.len()).map(|i| staged(&plan, i)).collect();
    let sources = sources
        .into_iter()
        .zip(&plan.sources)
        .map(|(rows, s)| SourceInput { rows, event_time: event_time(s), head: None })
        .collect();
    let keys = |l: &LookupTable| code(lower_keys("keys", &l.schema, &l.keys, &key_fields(l)).unwrap());
    let lookups = plan.lookups.iter().map(keys).collect();
    let sinks = sinks.into_iter().map(|s| Box::new(s) as Box<dyn Sink>).collect();
    let operators = plan.operators.iter().map(operator_code).collect();
    RunInput {
        plan,
        sources,
        pipelines,
        operators,
        lookups,
        sinks,
        compiler: None,
        hints: Arc::default(),
        checkpoints: None,
        nodes: None,
    }
}

fn code(lowered: Lowered) -> PipelineCode {
    PipelineCode::interpreted(Arc::new(lowered))
}

fn event_time(source: &SourcePlan) -> Option<PipelineCode> {
    let watermark = source.watermark.as_ref()?;
    let columns = event_time_columns(watermark)?;
    let time = columns.time.map(|_| watermark.time.clone());
    let rule = match &watermark.rule {
        WatermarkRule::Expression(expr) => Some(expr.clone()),
        WatermarkRule::Delay(_) | WatermarkRule::ProcessingTime => None,
    };
    let expressions: Vec<Expr> = time.into_iter().chain(rule).collect();
    Some(code(lower_expressions("event time", &source_schema(), &expressions).unwrap()))
}

fn staged(plan: &QueryPlan, index: usize) -> StagedCode {
    let mut schema = plan.pipelines[index].schema.clone();
    let mut flat_maps = Vec::new();
    for operator in &plan.pipelines[index].operators {
        match operator {
            Operator::Filter(_) => {}
            Operator::Project(columns) => schema = schema_of(columns),
            Operator::FlatMap(flat_map) => {
                flat_maps.push(lookup_code(plan, flat_map, &schema));
                schema.fields.extend(flat_map.appended(&plan.lookups));
            }
        }
    }
    let stages = lower_pipeline(plan, index).unwrap().0;
    let program = stages.last().unwrap().program.shared();
    let shared = program.map(|program| code(Lowered { program, ..stages.last().unwrap().clone() }));
    let halves = partition(stages.last().unwrap()).unwrap();
    let partitioned = halves.map(|h| PartitionedCode { scatter: code(h.scatter), fold: code(h.fold) });
    StagedCode { stages: stages.into_iter().map(code).collect(), flat_maps, partitioned, shared }
}

fn schema_of(columns: &[Expr]) -> Schema {
    Schema::new(columns.iter().map(|e| Field::new("column", e.data_type.clone(), e.nullable)).collect())
}

fn lookup_code(plan: &QueryPlan, flat_map: &FlatMap, schema: &Schema) -> FlatMapCode {
    let FlatMap::Lookup(Lookup { table, keys, residual, .. }) = flat_map else {
        return FlatMapCode { probe: None, residual: None };
    };
    let lookup = &plan.lookups[*table];
    let positions: Vec<usize> = (0..keys.len()).collect();
    let probe = lower_keys("probe", &schema_of(keys), &positions, &key_fields(lookup)).unwrap();
    let mut both = schema.clone();
    both.fields.extend(lookup.schema.fields.iter().cloned());
    let residual = residual.as_ref().map(|r| code(lower_condition("residual", &both, r).unwrap()));
    FlatMapCode { probe: Some(code(probe)), residual }
}

fn key_fields(lookup: &LookupTable) -> Vec<Field> {
    lookup.keys.iter().map(|&i| Field { nullable: true, ..lookup.schema.fields[i].clone() }).collect()
}

fn operator_code(operator: &KeyedOperator) -> OperatorCode {
    let keys = operator.inputs.iter().map(|i| code(lower_keys("keys", &i.schema, &i.keys, &operator.keys).unwrap()));
    let both = || Schema::new(operator.inputs.iter().flat_map(|i| i.schema.fields.clone()).collect());
    let (residual, slots) = (operator.kind.keyed().residual(), operator.kind.keyed().aggregates());
    OperatorCode {
        keys: keys.collect(),
        residual: residual.map(|r| code(lower_condition("residual", &both(), r).unwrap())),
        slots: slots.map(|s| code(lower_slots("slots", &operator.inputs[0].schema, s).unwrap())),
    }
}
