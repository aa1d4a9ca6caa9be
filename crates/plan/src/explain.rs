//! What EXPLAIN prints: the logical plan as a tree, and the pipelines with what flows between them.

use crate::aggregate::AggregateCall;
use crate::common::Common;
use crate::expr::{ArithmeticOp, CompareOp, Expr, ExprKind};
use crate::logical::{Frame, Insert, JoinKind, JoinStrategy, RankFunction, Rel, Target};
use crate::pipeline::*;
use crate::window::{Overlap, Timeline, WindowAssigner};
use millstream_types::{DataType, Schema, Value, text};
use std::fmt::{self, Write};

/// The logical plan of an insert or a query, one operator a line.
pub fn logical(insert: &Insert) -> String {
    let mut out = String::new();
    let indent = match &insert.target {
        Target::Table(table) => {
            let _ = writeln!(out, "Insert into {}", table.name);
            1
        }
        Target::Result => 0,
    };
    tree(&insert.query, indent, &mut out, &mut vec![]);
    out
}

/// `common` has the common relations that have been shown: each is shown once, and has a number.
#[recursive::recursive]
fn tree<'a>(rel: &'a Rel, indent: usize, out: &mut String, common: &mut Vec<&'a Common>) {
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
        Rel::Values { rows, schema } => writeln!(out, "{pad}Values [{} rows of {}]", rows.len(), schema.fields.len()),
        Rel::Filter { input, predicate } => writeln!(out, "{pad}Filter [{}]", Shown(predicate, &input.schema())),
        Rel::Project { input, columns } => writeln!(out, "{pad}Project [{}]", named(columns, &input.schema())),
        Rel::Windowed { input, assigner, time, partition, .. } => {
            let schema = input.schema();
            let window = window_text(*assigner, &Shown(time, &schema).to_string());
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
            writeln!(out, "{pad}Join {} {strategy} on [{}]{residual}", join_kind(*kind), keys.join(", "))
        }
        Rel::Rank { input, partition, order, function, range, .. } => {
            let schema = input.schema();
            let order: Vec<String> = order
                .iter()
                .map(|k| Shown(&k.expr, &schema).to_string() + direction(k.descending, k.nulls_first))
                .collect();
            let partition = list(partition, &schema);
            let (function, range) = (rank_function(*function), range_text(*range));
            writeln!(out, "{pad}Rank {function} {range} partition={partition} order=[{}]", order.join(", "))
        }
        Rel::Over { input, partition, frame, aggregates, time } => {
            let schema = input.schema();
            let calls: Vec<String> =
                aggregates.iter().map(|(call, name)| alias(&call_text(call, &schema), name)).collect();
            let time = time.as_ref().map_or("arrival".to_string(), |t| Shown(t, &schema).to_string());
            let (partition, frame) = (list(partition, &schema), frame_text(*frame));
            writeln!(out, "{pad}Over [{}] partition={partition} order={time} {frame}", calls.join(", "))
        }
        Rel::Unnest { input, collection, outer, .. } => {
            let outer = if *outer { " outer" } else { "" };
            writeln!(out, "{pad}Unnest{outer} {}", Shown(collection, &input.schema()))
        }
        Rel::Union { .. } => writeln!(out, "{pad}Union all"),
        Rel::Common(shared) => match common.iter().position(|known| *known == &**shared) {
            Some(number) => {
                let _ = writeln!(out, "{pad}Common {number} (see above)");
                return;
            }
            None => {
                common.push(shared);
                writeln!(out, "{pad}Common {}", common.len() - 1)
            }
        },
        Rel::Limit { count, .. } => writeln!(out, "{pad}Limit {count}"),
        Rel::Aggregate { input, window, keys, aggregates } => {
            let schema = input.schema();
            let time = window.time.as_ref().map(|t| Shown(t, &schema).to_string()).unwrap_or_default();
            let calls: Vec<String> =
                aggregates.iter().map(|(call, name)| alias(&call_text(call, &schema), name)).collect();
            writeln!(
                out,
                "{pad}Aggregate window={} keys=[{}] aggregates=[{}]",
                window_text(window.assigner, &time),
                named(keys, &schema),
                calls.join(", ")
            )
        }
    };
    rel.inputs().into_iter().for_each(|i| tree(i, indent + 1, out, common));
}

fn alias(text: &str, name: &str) -> String {
    if text == name { text.to_string() } else { format!("{text} AS {name}") }
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

fn window_text(assigner: WindowAssigner, time: &str) -> String {
    match assigner {
        WindowAssigner::Tumble(slicing) if slicing.offset_ms == 0 => format!("TUMBLE({time}, {} ms)", slicing.size_ms),
        WindowAssigner::Tumble(slicing) => {
            format!("TUMBLE({time}, {} ms, offset {} ms)", slicing.size_ms, slicing.offset_ms)
        }
        WindowAssigner::Overlap(overlap) => {
            let (name, sizes, offset_ms) = match overlap {
                Overlap::Hop { size_ms, slide_ms, offset_ms } => {
                    ("HOP", format!("{size_ms} ms every {slide_ms} ms"), offset_ms)
                }
                Overlap::Cumulate { size_ms, step_ms, offset_ms } => {
                    ("CUMULATE", format!("{size_ms} ms in steps of {step_ms} ms"), offset_ms)
                }
            };
            let offset = if offset_ms == 0 { String::new() } else { format!(", offset {offset_ms} ms") };
            format!("{name}({time}, {sizes}{offset})")
        }
        WindowAssigner::Session { gap_ms } => format!("SESSION({time}, gap {gap_ms} ms)"),
        WindowAssigner::Count { size, slide } if size == slide => format!("COUNT_TUMBLE({size} rows)"),
        WindowAssigner::Count { size, slide } => format!("COUNT_HOP({size} rows every {slide} rows)"),
        WindowAssigner::Attached => format!("of each row (until {time})"),
        WindowAssigner::Whole => "whole input".into(),
    }
}

fn timeline_text(timeline: Timeline) -> String {
    match timeline {
        Timeline::Own => String::new(),
        Timeline::Local(zone) => format!(" of local time in {zone}"),
    }
}

fn join_kind(kind: JoinKind) -> &'static str {
    match kind {
        JoinKind::Inner => "inner",
        JoinKind::Left => "left",
        JoinKind::Right => "right",
        JoinKind::Full => "full",
        JoinKind::Semi => "semi",
        JoinKind::Anti => "anti",
    }
}

fn regular_text(ttl_ms: Option<u64>) -> String {
    ttl_ms.map_or("regular".into(), |ms| format!("regular (rows kept for {ms} ms)"))
}

fn rank_function(function: RankFunction) -> &'static str {
    match function {
        RankFunction::RowNumber => "ROW_NUMBER",
        RankFunction::Rank => "RANK",
        RankFunction::DenseRank => "DENSE_RANK",
    }
}

fn range_text((from, to): (u64, u64)) -> String {
    format!("{from} to {to}")
}

fn direction(descending: bool, nulls_first: bool) -> &'static str {
    match (descending, nulls_first) {
        (false, true) => "",
        (false, false) => " NULLS LAST",
        (true, false) => " DESC",
        (true, true) => " DESC NULLS FIRST",
    }
}

fn frame_text(frame: Frame) -> String {
    match frame {
        Frame::Rows(None) => "all rows before".into(),
        Frame::Rows(Some(rows)) => format!("{rows} rows before"),
        Frame::Range(None) => "all times before".into(),
        Frame::Range(Some(ms)) => format!("{ms} ms before"),
    }
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
        source_text(i, source, &mut out);
        note(Part::Source(i), &mut out);
    }
    for (i, aggregation) in plan.aggregations.iter().enumerate() {
        let keys: Vec<String> = aggregation.keys.iter().map(|k| format!("{} {}", k.name, k.data_type)).collect();
        let parts: Vec<String> = aggregation.components.iter().map(|c| format!("{c:?}")).collect();
        let window = window_text(aggregation.assigner, "time") + &timeline_text(aggregation.timeline);
        let _ = writeln!(
            out,
            "aggregation {i}: window {window}, keys [{}], components [{}], merge {}{}",
            keys.join(", "),
            parts.join(", "),
            merge(aggregation),
            combination_text(aggregation)
        );
        note(Part::Aggregation(i), &mut out);
    }
    for (i, operator) in plan.operators.iter().enumerate() {
        let _ = writeln!(out, "operator {i}: {}", operator_text(operator));
        note(Part::Operator(i), &mut out);
    }
    for (i, lookup) in plan.lookups.iter().enumerate() {
        let _ = writeln!(
            out,
            "lookup {i}: {} by {}, rows [{}]",
            lookup.name,
            names(&lookup.schema, &lookup.keys),
            names(&lookup.schema, &(0..lookup.schema.fields.len()).collect::<Vec<_>>())
        );
    }
    for (i, pipeline) in plan.pipelines.iter().enumerate() {
        pipeline_text(i, pipeline, plan, &note, &mut out);
        note(Part::End(i), &mut out);
        note(Part::Pipeline(i), &mut out);
    }
    out
}

fn source_text(index: usize, source: &SourcePlan, out: &mut String) {
    let name = match &source.scan {
        ScanKind::Table(table) => format!("table {}", table.name),
        ScanKind::Values(rows) => format!("{} constant rows", rows.len()),
    };
    let column = |c: &SourceColumn| {
        let in_place = if c.in_record.is_some() { " in place" } else { "" };
        format!("{} {}{in_place}", c.name, c.data_type)
    };
    let columns: Vec<String> = source.columns.iter().map(column).collect();
    let _ = write!(out, "source {index}: {name}, reads [{}]", columns.join(", "));
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
    out.push('\n');
}

fn combination_text(aggregation: &Aggregation) -> String {
    let WindowAssigner::Overlap(overlap) = aggregation.assigner else { return String::new() };
    let how = match aggregation.combination {
        Combination::Recompute => "recompute",
        Combination::Subtract => "subtract",
        Combination::TwoStacks => "two stacks",
    };
    format!(", combine {how} over slices of {} ms", overlap.slicing().size_ms)
}

fn names(schema: &Schema, columns: &[usize]) -> String {
    columns.iter().map(|&i| schema.fields[i].name.as_str()).collect::<Vec<_>>().join(", ")
}

fn operator_text(operator: &KeyedOperator) -> String {
    let both: Vec<millstream_types::Field> =
        operator.inputs.iter().flat_map(|i| i.schema.fields.iter().cloned()).collect();
    let both = Schema::new(both);
    let condition =
        |residual: &Option<Expr>| residual.as_ref().map_or(String::new(), |r| format!(" if {}", Shown(r, &both)));
    let components = |aggregates: &SlotAggregates| {
        let parts: Vec<String> = aggregates.components.iter().map(|c| format!("{c:?}")).collect();
        format!(", components [{}]", parts.join(", "))
    };
    let what = match &operator.kind {
        KeyedKind::WindowJoin { kind, residual } => format!("{} window join{}", join_kind(*kind), condition(residual)),
        KeyedKind::IntervalJoin { kind, lower_ms, upper_ms, residual } => format!(
            "{} interval join, left from right {lower_ms:+} ms to {upper_ms:+} ms{}",
            join_kind(*kind),
            condition(residual)
        ),
        KeyedKind::VersionedJoin { kind, residual } => {
            format!("{} versioned join{}", join_kind(*kind), condition(residual))
        }
        KeyedKind::RegularJoin { ttl_ms, residual } => format!("{} join{}", regular_text(*ttl_ms), condition(residual)),
        KeyedKind::Rank { order, function, range } => {
            let order: Vec<String> =
                order.iter().map(|s| names(&both, &[s.column]) + direction(s.descending, s.nulls_first)).collect();
            format!("{} {} by [{}]", rank_function(*function), range_text(*range), order.join(", "))
        }
        KeyedKind::Over { frame, aggregates } => format!("over {}{}", frame_text(*frame), components(aggregates)),
        KeyedKind::SessionAggregate { gap_ms, aggregates } => {
            format!("sessions, gap {gap_ms} ms{}", components(aggregates))
        }
        KeyedKind::SessionRows { gap_ms } => format!("rows of sessions, gap {gap_ms} ms"),
        KeyedKind::CountAggregate { size, slide, aggregates } => {
            format!("windows of {size} rows every {slide} rows{}", components(aggregates))
        }
        KeyedKind::CountRows { size, slide } => format!("rows of windows of {size} rows every {slide} rows"),
    };
    let keys: Vec<&str> = operator.keys.iter().map(|k| k.name.as_str()).collect();
    format!("{what}{}, partitioned by [{}]", timeline_text(operator.timeline), keys.join(", "))
}

fn pipeline_text(
    index: usize,
    pipeline: &Pipeline,
    plan: &QueryPlan,
    note: &dyn Fn(Part, &mut String),
    out: &mut String,
) {
    let from = match pipeline.input {
        PipelineInput::Source(i) => format!("source {i}"),
        PipelineInput::Aggregation(i) => format!("trigger of aggregation {i}"),
        PipelineInput::Operator(i) => format!("operator {i}"),
    };
    let _ = writeln!(out, "pipeline {index}: from {from}");
    let mut schema = pipeline.schema.clone();
    let (mut stage, mut filter) = (0, 0);
    for operator in &pipeline.operators {
        match operator {
            Operator::Filter(predicate) => {
                let _ = writeln!(out, "  filter {}", Shown(predicate, &schema));
                note(Part::Filter { pipeline: index, stage, filter }, out);
                filter += 1;
            }
            Operator::Project(columns) => {
                let _ = writeln!(out, "  project {}", list(columns, &schema));
                let field = |(i, e): (usize, &Expr)| {
                    millstream_types::Field::new(format!("column{i}"), e.data_type.clone(), e.nullable)
                };
                schema = Schema::new(columns.iter().enumerate().map(field).collect());
            }
            Operator::FlatMap(flat_map) => {
                let _ = writeln!(out, "  {}", flat_map_text(flat_map, plan, &schema));
                (stage, filter) = (stage + 1, 0);
                schema.fields.extend(flat_map.appended(&plan.lookups));
            }
        }
    }
    let _ = match &pipeline.end {
        PipelineEnd::Sink(i) => {
            let target = plan.sinks[*i].table.as_ref().map_or("result", |t| &t.name);
            writeln!(out, "  emit into sink {i} ({target})")
        }
        PipelineEnd::Aggregate { aggregation, time, keys, updates } => {
            let time = time.as_ref().map_or(String::new(), |t| format!(", time {}", Shown(t, &schema)));
            let update = |u: &ComponentUpdate| {
                let argument = u.argument.as_ref().map_or("*".to_string(), |a| Shown(a, &schema).to_string());
                let guard = u.guard.as_ref().map_or(String::new(), |g| format!(" if {}", Shown(g, &schema)));
                argument + &guard
            };
            let updates: Vec<String> = updates.iter().map(update).collect();
            writeln!(
                out,
                "  update aggregation {aggregation}{time}, keys {}, components [{}]",
                list(keys, &schema),
                updates.join(", ")
            )
        }
        PipelineEnd::Exchange { operator, port } => {
            let side = match (plan.operators[*operator].inputs.len(), port) {
                (1, _) => "",
                (_, 0) => " (left)",
                _ => " (right)",
            };
            let keys = &plan.operators[*operator].inputs[*port].keys;
            writeln!(out, "  exchange by [{}] into operator {operator}{side}", names(&schema, keys))
        }
        PipelineEnd::Build { lookup } => writeln!(out, "  build lookup {lookup}"),
    };
}

fn flat_map_text(flat_map: &FlatMap, plan: &QueryPlan, schema: &Schema) -> String {
    match flat_map {
        FlatMap::Windows { windows, time } => {
            let time = Shown(time, schema).to_string();
            format!("repeat for each window {}", window_text(WindowAssigner::Overlap(*windows), &time))
        }
        FlatMap::Unnest { collection, outer, .. } => {
            format!("unnest{} {}", if *outer { " outer" } else { "" }, Shown(collection, schema))
        }
        FlatMap::Repeat { times, .. } => format!("repeat {times} times"),
        FlatMap::Lookup { table, kind, keys, residual } => {
            let mut both = schema.clone();
            both.fields.extend(plan.lookups[*table].schema.fields.iter().cloned());
            let residual = residual.as_ref().map_or(String::new(), |r| format!(" if {}", Shown(r, &both)));
            format!("probe lookup {table} ({}) by {}{residual}", join_kind(*kind), list(keys, schema))
        }
    }
}

fn list(exprs: &[Expr], schema: &Schema) -> String {
    let texts: Vec<String> = exprs.iter().map(|e| Shown(e, schema).to_string()).collect();
    format!("[{}]", texts.join(", "))
}

/// An expression with the names of its input's columns.
pub struct Shown<'a>(pub &'a Expr, pub &'a Schema);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shown(expr, schema) = *self;
        let sub = |e| Shown(e, schema);
        match &expr.kind {
            ExprKind::Column(i) => match schema.fields.get(*i) {
                Some(field) => f.write_str(&field.name),
                None => write!(f, "column{i}"),
            },
            ExprKind::Literal(value) => write_literal(f, value, &expr.data_type),
            ExprKind::CurrentWatermark => f.write_str("CURRENT_WATERMARK"),
            ExprKind::ProcessingTime => f.write_str("PROCTIME()"),
            ExprKind::Field(row, i) => match &row.data_type {
                DataType::Row(fields) => write!(f, "{}.{}", sub(row), fields[*i].name),
                _ => write!(f, "{}.{i}", sub(row)),
            },
            ExprKind::Arithmetic(op, a, b) => write!(f, "({} {} {})", sub(a), op.symbol(), sub(b)),
            ExprKind::Negate(e) => write!(f, "-{}", sub(e)),
            ExprKind::AddInterval(a, b) => write!(f, "({} + {})", sub(a), sub(b)),
            ExprKind::Compare(op, a, b) => write!(f, "({} {} {})", sub(a), op.symbol(), sub(b)),
            ExprKind::And(operands) => join(f, operands, schema, " AND "),
            ExprKind::Or(operands) => join(f, operands, schema, " OR "),
            ExprKind::Not(e) => write!(f, "NOT {}", sub(e)),
            ExprKind::IsNull(e) => write!(f, "{} IS NULL", sub(e)),
            ExprKind::IsNotNull(e) => write!(f, "{} IS NOT NULL", sub(e)),
            ExprKind::IsBoolean(e, truth) => {
                write!(f, "{} IS {}", sub(e), if *truth { "TRUE" } else { "FALSE" })
            }
            ExprKind::Case(branches, otherwise) => {
                f.write_str("CASE")?;
                for (condition, value) in branches {
                    write!(f, " WHEN {} THEN {}", sub(condition), sub(value))?;
                }
                write!(f, " ELSE {} END", sub(otherwise))
            }
            ExprKind::InList(e, values) => {
                write!(f, "{} IN (", sub(e))?;
                for (i, value) in values.iter().enumerate() {
                    f.write_str(if i == 0 { "" } else { ", " })?;
                    write_literal(f, value, &e.data_type)?;
                }
                f.write_str(")")
            }
            ExprKind::Cast { operand, fallible_to_null } => {
                let try_ = if *fallible_to_null { "TRY_" } else { "" };
                write!(f, "{try_}CAST({} AS {})", sub(operand), expr.data_type)
            }
            ExprKind::Call(function, arguments) => call(f, function.name(), arguments, schema),
            ExprKind::Vector(function, arguments) => call(f, function.0.name(), arguments, schema),
            ExprKind::WindowStart(time, slicing) => write!(f, "WINDOW_START({}, {} ms)", sub(time), slicing.size_ms),
        }
    }
}

fn join(f: &mut fmt::Formatter<'_>, operands: &[Expr], schema: &Schema, with: &str) -> fmt::Result {
    f.write_str("(")?;
    for (i, e) in operands.iter().enumerate() {
        write!(f, "{}{}", if i == 0 { "" } else { with }, Shown(e, schema))?;
    }
    f.write_str(")")
}

fn call(f: &mut fmt::Formatter<'_>, name: &str, arguments: &[Expr], schema: &Schema) -> fmt::Result {
    write!(f, "{}(", name.to_uppercase())?;
    for (i, e) in arguments.iter().enumerate() {
        write!(f, "{}{}", if i == 0 { "" } else { ", " }, Shown(e, schema))?;
    }
    f.write_str(")")
}

fn write_literal(f: &mut fmt::Formatter<'_>, value: &Value, data_type: &DataType) -> fmt::Result {
    match value {
        Value::Null => f.write_str("NULL"),
        Value::Boolean(b) => f.write_str(if *b { "TRUE" } else { "FALSE" }),
        Value::Int(n) => match data_type {
            DataType::IntervalMilli => write!(f, "INTERVAL {n} ms"),
            DataType::IntervalMonth => write!(f, "INTERVAL {n} months"),
            t if t.is_integer() => write!(f, "{n}"),
            t => write!(f, "{t} {n}"),
        },
        Value::Decimal(n) => {
            let mut out = Vec::new();
            let scale = if let DataType::Decimal { scale, .. } = data_type { *scale } else { 0 };
            text::write_decimal(&mut out, *n, scale);
            f.write_str(&String::from_utf8_lossy(&out))
        }
        Value::Float(x) => write!(f, "{x:?}"),
        Value::String(s) => write!(f, "'{}'", s.replace('\'', "''")),
        Value::Bytes(bytes) => {
            f.write_str("X'")?;
            bytes.iter().try_for_each(|b| write!(f, "{b:02X}"))?;
            f.write_str("'")
        }
    }
}

impl ArithmeticOp {
    /// The operator in SQL.
    pub fn symbol(self) -> &'static str {
        match self {
            ArithmeticOp::Add => "+",
            ArithmeticOp::Subtract => "-",
            ArithmeticOp::Multiply => "*",
            ArithmeticOp::Divide => "/",
            ArithmeticOp::Modulo => "%",
        }
    }
}

impl CompareOp {
    /// The operator in SQL.
    pub fn symbol(self) -> &'static str {
        match self {
            CompareOp::Equal => "=",
            CompareOp::NotEqual => "<>",
            CompareOp::Less => "<",
            CompareOp::LessEqual => "<=",
            CompareOp::Greater => ">",
            CompareOp::GreaterEqual => ">=",
        }
    }
}
