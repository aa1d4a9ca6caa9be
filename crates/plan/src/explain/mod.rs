//! What EXPLAIN prints: the logical plan as a tree, and the pipelines with what flows between them.

pub(crate) mod shown;

use crate::aggregate::AggregateCall;
use crate::changes::{ShownChanges, changing};
use crate::common::Common;
use crate::components::components_text;
use crate::expr::Expr;
use crate::keyed::arriving;
use crate::logical::{Insert, JoinStrategy, Rel, Table, Target};
use crate::operators::over::frame_text;
use crate::operators::rank::{direction, function_text, range_text};
use crate::operators::regular_join::regular_text;
use crate::operators::{aggregate, filter, project};
use crate::pipeline::*;
use crate::sort::{rows_text, sort_text};
use crate::window::is_end_of_input;
use millstream_types::{DataType, Schema, Value, counted};
pub use shown::Shown;
use shown::{condition, list, names};
use std::fmt::Write;

/// The logical plan of an insert or a query, one operator a line.
pub fn logical(insert: &Insert) -> String {
    let mut out = String::new();
    let mut shown = ShownRelations { common: vec![], changes: ShownChanges::of(&insert.query) };
    let indent = match &insert.target {
        Target::Table(table) => {
            let _ = writeln!(out, "Insert into {}{}", table.name, arriving_changes(table, &insert.query));
            1
        }
        Target::Result => 0,
    };
    tree(&insert.query, indent, &mut out, &mut shown);
    out
}

/// How the changes of a query come to a table: with a key a row replaces that of its key, and is not written as it was.
fn arriving_changes(table: &Table, query: &Rel) -> String {
    let key = table.written_key();
    match changing(query) {
        None => String::new(),
        Some(_) if key.is_empty() => "  changes: retract".into(),
        Some(_) => format!("  changes: upsert ({})", names(&table.written(), &key)),
    }
}

/// What is known while a tree is shown.
struct ShownRelations<'a> {
    /// The common relations that have been shown: each is shown once, and has a number.
    common: Vec<&'a Common>,
    /// `None`: nothing changes.
    changes: Option<ShownChanges>,
}

#[recursive::recursive]
fn tree<'a>(rel: &'a Rel, indent: usize, out: &mut String, shown: &mut ShownRelations<'a>) {
    let pad = "  ".repeat(indent);
    let named = |columns: &[(Expr, String)], input: &Schema| {
        columns.iter().map(|(e, name)| alias(&Shown(e, input).to_string(), name)).collect::<Vec<_>>().join(", ")
    };
    // Writing to a String cannot fail.
    let _ = match rel {
        Rel::Scan { table, late } => {
            let late = late.as_ref().map_or(String::new(), |late| format!(", late rows into {}", late.name));
            writeln!(out, "{pad}Scan {}{late}", table.name)
        }
        Rel::Values { rows, schema } => {
            writeln!(out, "{pad}Values [{} of {}]", counted(rows.len(), "row"), schema.fields.len())
        }
        Rel::Filter { input, predicate } => writeln!(out, "{pad}Filter [{}]", Shown(predicate, &input.schema())),
        Rel::Project { input, columns } => writeln!(out, "{pad}Project [{}]", named(columns, &input.schema())),
        Rel::Windowed { input, assigner, time, partition, .. } => {
            let schema = input.schema();
            let window = assigner.text(&Shown(time, &schema).to_string());
            match partition.as_slice() {
                [] => writeln!(out, "{pad}Windowed {window}"),
                partition => writeln!(out, "{pad}Windowed {window} partition={}", list(partition, &schema)),
            }
        }
        Rel::Join { left, right, kind, strategy, keys, residual } => {
            let (left, right) = (left.schema(), right.schema());
            let shown = |(l, r): &(Expr, Expr)| format!("{} = {}", Shown(l, &left), Shown(r, &right));
            let keys: Vec<String> = keys.iter().map(shown).collect();
            let both = Schema::new(left.fields.iter().chain(&right.fields).cloned().collect());
            let residual = residual.as_ref().map_or(String::new(), |r| format!(" and {}", Shown(r, &both)));
            let strategy = match strategy {
                JoinStrategy::Window { .. } => "window".to_string(),
                JoinStrategy::Interval { left_time, right_time, lower_ms, upper_ms } => format!(
                    "interval ({} between {} {lower_ms:+} ms and {upper_ms:+} ms)",
                    Shown(left_time, &left),
                    Shown(right_time, &right)
                ),
                JoinStrategy::Versioned { left_time, right_time } => {
                    format!("versioned (as of {}, by {})", Shown(left_time, &left), Shown(right_time, &right))
                }
                JoinStrategy::Regular { ttl_ms } => regular_text(*ttl_ms),
                JoinStrategy::Lookup => "lookup".into(),
            };
            writeln!(out, "{pad}Join {} {strategy} on [{}]{residual}", kind.text(), keys.join(", "))
        }
        Rel::Rank { input, partition, is_alone: true, .. } => {
            writeln!(out, "{pad}One row of each key={}", list(partition, &input.schema()))
        }
        Rel::Rank { input, partition, order, function, range, .. } => {
            let schema = input.schema();
            let order: Vec<String> = order
                .iter()
                .map(|k| Shown(&k.expr, &schema).to_string() + direction(k.descending, k.nulls_first))
                .collect();
            let partition = list(partition, &schema);
            let (function, range) = (function_text(*function), range_text(*range));
            writeln!(out, "{pad}Rank {function} {range} partition={partition} order=[{}]", order.join(", "))
        }
        Rel::Over { input, partition, frame, aggregates, time } => {
            let schema = input.schema();
            let time = match time {
                None => "arrival".to_string(),
                Some(time) if is_end_of_input(time) => "none".into(),
                Some(time) => Shown(time, &schema).to_string(),
            };
            let (partition, frame) = (list(partition, &schema), frame_text(*frame));
            writeln!(out, "{pad}Over [{}] partition={partition} order={time} {frame}", calls_text(aggregates, &schema))
        }
        Rel::Unnest { input, collection, outer, .. } => {
            let outer = if *outer { " outer" } else { "" };
            writeln!(out, "{pad}Unnest{outer} {}", Shown(collection, &input.schema()))
        }
        Rel::Union { .. } => writeln!(out, "{pad}Union all"),
        Rel::Common(shared) => match shown.common.iter().position(|known| *known == &**shared) {
            Some(number) => {
                let _ = writeln!(out, "{pad}Common {number} (see above)");
                return;
            }
            None => {
                shown.common.push(shared);
                writeln!(out, "{pad}Common {}", shown.common.len() - 1)
            }
        },
        Rel::Limit { offset, count, .. } => writeln!(out, "{pad}Limit{}", rows_text(*offset, *count)),
        Rel::Sort { input, keys, offset, count } => {
            let schema = input.schema();
            let keys: Vec<String> = keys
                .iter()
                .map(|k| Shown(&k.expr, &schema).to_string() + direction(k.descending, k.nulls_first))
                .collect();
            writeln!(out, "{pad}Sort [{}]{}", keys.join(", "), rows_text(*offset, *count))
        }
        Rel::Aggregate { input, window, keys, aggregates } => {
            let schema = input.schema();
            let time = window.time.as_ref().map(|t| Shown(t, &schema).to_string()).unwrap_or_default();
            writeln!(
                out,
                "{pad}Aggregate window={} keys=[{}] aggregates=[{}]",
                window.assigner.text(&time),
                named(keys, &schema),
                calls_text(aggregates, &schema)
            )
        }
    };
    if let Some(changes) = &mut shown.changes {
        out.truncate(out.trim_end_matches('\n').len());
        let _ = writeln!(out, "  changes: {}", changes.text(rel));
    }
    rel.inputs().into_iter().for_each(|i| tree(i, indent + 1, out, shown));
}

/// What grows for as long as the query runs, an operator a line; empty if times bound all of it.
pub fn growing(plan: &QueryPlan) -> String {
    let mut out = String::new();
    for (i, operator) in plan.operators.iter().enumerate() {
        if let Some(kept) = operator.kind.keyed().keeps(!operator.keys.is_empty()) {
            let _ = writeln!(out, "operator {i} keeps {kept}");
        }
    }
    out
}

fn alias(text: &str, name: &str) -> String {
    if text == name { text.to_string() } else { format!("{text} AS {name}") }
}

fn calls_text(calls: &[(AggregateCall, String)], schema: &Schema) -> String {
    calls.iter().map(|(call, name)| alias(&call_text(call, schema), name)).collect::<Vec<_>>().join(", ")
}

fn call_text(call: &AggregateCall, schema: &Schema) -> String {
    let mut arguments: Vec<String> = call.arguments.iter().map(|a| Shown(a, schema).to_string()).collect();
    if arguments.is_empty() {
        arguments.push("*".into());
    }
    arguments.extend(call.parameters.iter().map(|p| match p {
        Value::Boolean(keeps_nulls) => (if *keeps_nulls { "RESPECT NULLS" } else { "IGNORE NULLS" }).to_string(),
        other => Shown(&Expr::literal(other.clone(), DataType::STRING), schema).to_string(),
    }));
    let argument = arguments.join(", ");
    let argument = if call.distinct { format!("DISTINCT {argument}") } else { argument };
    let filter = call.filter.as_ref().map_or(String::new(), |f| format!(" FILTER (WHERE {})", Shown(f, schema)));
    format!("{}({argument}){filter}", call.function.name())
}

/// A part of a plan, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// A source.
    Source(usize),
    /// A windowed aggregation.
    Aggregation(usize),
    /// A keyed operator.
    Operator(usize),
    /// A sort.
    Sort(usize),
    /// A pipeline.
    Pipeline(usize),
    /// A filter of a pipeline.
    Filter {
        /// The pipeline.
        pipeline: usize,
        /// Flat maps before it.
        stage: usize,
        /// Its number in the stage.
        filter: usize,
    },
    /// Where a pipeline ends.
    End(usize),
}

/// The pipelines: sources with the columns that are read, then each chain. `merge` says how the tables of an aggregation
/// are merged.
pub fn pipelines(plan: &QueryPlan, merge: impl Fn(&Aggregation) -> String) -> String {
    annotated_pipelines(plan, merge, |_| Vec::new())
}

/// [`pipelines`], with lines of notes below each part.
pub fn annotated_pipelines(
    plan: &QueryPlan,
    merge: impl Fn(&Aggregation) -> String,
    notes: impl Fn(Part) -> Vec<String>,
) -> String {
    let mut out = String::new();
    let note = |part: Part, out: &mut String| {
        let indent = if matches!(part, Part::Filter { .. } | Part::End(_)) { "  " } else { "" };
        notes(part).iter().for_each(|line| *out += &format!("{indent}  | {line}\n"));
    };
    for (i, source) in plan.sources.iter().enumerate() {
        let _ = writeln!(out, "source {i}: {}", source_text(source));
        note(Part::Source(i), &mut out);
    }
    for (i, aggregation) in plan.aggregations.iter().enumerate() {
        let _ = writeln!(out, "aggregation {i}: {}", aggregation.text(&merge(aggregation), plan.updates_of(i)));
        note(Part::Aggregation(i), &mut out);
    }
    for (i, operator) in plan.operators.iter().enumerate() {
        let _ = writeln!(out, "operator {i}: {}", operator_text(operator));
        note(Part::Operator(i), &mut out);
    }
    for (i, sort) in plan.sorts.iter().enumerate() {
        let _ = writeln!(out, "sort {i}: {}", sort_text(sort));
        note(Part::Sort(i), &mut out);
    }
    for (i, lookup) in plan.lookups.iter().enumerate() {
        let _ = writeln!(out, "lookup {i}: {}", lookup.text());
    }
    for (i, pipeline) in plan.pipelines.iter().enumerate() {
        let _ = writeln!(out, "pipeline {i}: from {}", input_text(pipeline.input));
        for (part, step) in steps(i, plan) {
            let _ = writeln!(out, "  {step}");
            part.into_iter().for_each(|part| note(part, &mut out));
        }
        note(Part::Pipeline(i), &mut out);
    }
    out
}

/// What is read of a source, and its event time.
pub(crate) fn source_text(source: &SourcePlan) -> String {
    let name = match &source.scan {
        ScanKind::Table(table) => format!("table {}", table.name),
        ScanKind::Values(rows) => format!("{} constant rows", rows.len()),
    };
    let column = |c: &SourceColumn| {
        let in_place = if c.in_record.is_some() { " in place" } else { "" };
        format!("{} {}{in_place}", c.name, c.data_type)
    };
    let columns: Vec<String> = source.columns.iter().map(column).collect();
    let mut out = format!("{name}, reads [{}]", columns.join(", "));
    if let Some(watermark) = &source.watermark {
        let schema = source.output_schema();
        let _ = write!(out, ", event time {}", Shown(&watermark.time, &schema));
        let _ = match &watermark.rule {
            WatermarkRule::Delay(ms) => write!(out, ", watermark {ms} ms behind"),
            WatermarkRule::Expression(e) => write!(out, ", watermark {}", Shown(e, &schema)),
            WatermarkRule::ProcessingTime => write!(out, " is processing time"),
        };
    }
    if source.phase > 0 {
        let _ = write!(out, ", phase {}", source.phase);
    }
    out
}

/// What a keyed operator does.
pub(crate) fn operator_text(operator: &KeyedOperator) -> String {
    let both = Schema::new(arriving(&operator.inputs).collect());
    let kind = operator.kind.keyed();
    let condition = condition(kind.residual(), &both);
    let components = kind.aggregates().map(|a| format!(", {}", components_text(&a.components, &a.updates)));
    let keys: Vec<&str> = operator.keys.iter().map(|k| k.name.as_str()).collect();
    let (what, timeline) = (kind.text(&both), operator.timeline.text());
    let by: Vec<&str> = operator.partition_keys().into_iter().map(|key| keys[key]).collect();
    let keys = operator.partitioned_by.as_ref().map_or(String::new(), |_| format!(", keys [{}]", keys.join(", ")));
    format!("{what}{condition}{}{timeline}{keys}, partitioned by [{}]", components.unwrap_or_default(), by.join(", "))
}

fn input_text(input: PipelineInput) -> String {
    match input {
        PipelineInput::Source(i) => format!("source {i}"),
        PipelineInput::Aggregation(i) => format!("trigger of aggregation {i}"),
        PipelineInput::Operator(i) => format!("operator {i}"),
        PipelineInput::Sort(i) => format!("sort {i}"),
    }
}

/// What a pipeline does, a step each, and the part that notes of it belong to.
pub(crate) fn steps(index: usize, plan: &QueryPlan) -> Vec<(Option<Part>, String)> {
    let pipeline = &plan.pipelines[index];
    let mut steps = Vec::new();
    let mut schema = pipeline.schema.clone();
    let (mut stage, mut filter) = (0, 0);
    for operator in &pipeline.operators {
        match operator {
            Operator::Filter(predicate) => {
                let part = Part::Filter { pipeline: index, stage, filter };
                steps.push((Some(part), filter::text(predicate, &schema)));
                filter += 1;
            }
            Operator::Project(columns) => {
                steps.push((None, project::text(columns, &schema)));
                schema = project::schema_of(columns);
            }
            Operator::FlatMap(flat_map) => {
                steps.push((None, flat_map.expansion().text(&schema, &plan.lookups)));
                (stage, filter) = (stage + 1, 0);
                schema.fields.extend(flat_map.appended(&plan.lookups));
            }
        }
    }
    steps.push((Some(Part::End(index)), end_text(&pipeline.end, &schema, plan)));
    steps
}

/// Where a pipeline's rows of these columns go.
fn end_text(end: &PipelineEnd, schema: &Schema, plan: &QueryPlan) -> String {
    match end {
        PipelineEnd::Sink(i) => {
            let target = plan.sinks[*i].table.as_ref().map_or("result", |t| &t.name);
            format!("emit into sink {i} ({target})")
        }
        PipelineEnd::Aggregate { aggregation, time, keys, updates } => {
            aggregate::update_text(*aggregation, time.as_ref(), keys, updates, schema)
        }
        PipelineEnd::Exchange { operator, port } => {
            let side = match (plan.operators[*operator].inputs.len(), port) {
                (1, _) => "",
                (_, 0) => " (left)",
                _ => " (right)",
            };
            let into = &plan.operators[*operator];
            let KeyedInput { keys, leading, .. } = &into.inputs[*port];
            let keys: Vec<usize> = into.partition_keys().into_iter().map(|key| keys[key]).collect();
            let leading = leading.as_ref().map_or(String::new(), |leading| format!(", {}", leading.text(schema)));
            format!("exchange by [{}] into operator {operator}{side}{leading}", names(schema, &keys))
        }
        PipelineEnd::Build { lookup } => format!("build lookup {lookup}"),
        PipelineEnd::Sort { sort } => format!("rows into sort {sort}"),
    }
}
