//! EXPLAIN and EXPLAIN CODEGEN.

use crate::cluster::is_independent;
use crate::planned::PreparedRun;
use millstream_codegen::lower::entry_layout;
use millstream_plan::beat::BeatClock;
use millstream_plan::explain;
use millstream_plan::logical::Insert;
use millstream_plan::physical::{Distribution, Exchange, distribute};
use millstream_plan::pipeline::Aggregation;
use millstream_runtime::{BeatConfig, MergeStrategy, RunConfig, merge_strategy};
use millstream_types::{Diagnostic, Schema, counted};
use std::fmt::Write;

/// The logical plans, the pipelines and, if asked for, the row programs with what LLVM makes of them.
pub(crate) fn explain(inserts: &[Insert], run: &PreparedRun, codegen: bool) -> Result<String, Diagnostic> {
    let mut out = String::from("== Logical plan ==\n");
    for insert in inserts {
        out += &explain::logical(insert);
    }
    out += "\n== Pipelines ==\n";
    out += &explain::pipelines(&run.plan, |aggregation| merge_text(&run.config, aggregation));
    let growing = explain::growing(&run.plan);
    if !growing.is_empty() {
        out += &format!("\n== State ==\n{growing}");
    }
    if run.plan.has_beats() {
        out += &format!("\n== Beats ==\n{}\n", beats_text(&run.config.beats));
    }
    if run.config.nodes > 1 {
        out += &format!("\n== Exchanges between {} nodes ==\n{}", run.config.nodes, exchanges_text(run)?);
    }
    if codegen {
        let options = millstream_jit::CompileOptions::default();
        for lowered in run.programs.all() {
            // Writing to a String cannot fail.
            let _ = write!(out, "\n== Row program ==\n{}", lowered.program);
            for vector in &lowered.vectors {
                let _ = writeln!(out, "vectorised before it: {}", vector.function.name());
            }
            let _ = write!(out, "\n== LLVM IR ==\n{}", millstream_jit::llvm_ir(&lowered.program, &options)?);
            let _ = write!(out, "\n== Assembly ==\n{}", millstream_jit::assembly(&lowered.program, &options)?);
        }
    }
    Ok(out)
}

/// Bytes of a text or a collection, about.
const LONG: usize = 32;

/// What a row of some columns has in bytes, about.
fn row_bytes(schema: &Schema) -> usize {
    schema.fields.iter().map(|field| field.data_type.to_arrow().primitive_width().unwrap_or(LONG)).sum()
}

/// What is sent from node to node.
fn exchanges_text(run: &PreparedRun) -> Result<String, Diagnostic> {
    let (plan, mut out) = (&run.plan, String::new());
    let is_independent = is_independent(plan, true);
    let Distribution { is_whole, aggregations, operators, sorts, sinks } = distribute(plan);
    // Writing to a String cannot fail.
    for (number, _) in is_whole.iter().enumerate().filter(|(_, is_whole)| **is_whole) {
        let _ = writeln!(out, "source {number}: read whole by every node");
    }
    for (number, aggregation) in plan.aggregations.iter().enumerate() {
        let _ = match aggregations[number] {
            Exchange::Nothing => writeln!(out, "aggregation {number}: made by every node"),
            Exchange::Stays => writeln!(out, "aggregation {number}: rows stay where they are"),
            _ => {
                let bytes = entry_layout(aggregation)?.stride;
                let what = "partials of slices by key";
                writeln!(out, "aggregation {number}: {what}, about {bytes} bytes for each key of a slice and node")
            }
        };
    }
    for (number, operator) in plan.operators.iter().enumerate() {
        let inputs = || operators[number].iter().zip(&operator.inputs).enumerate();
        let sent = || inputs().filter(|(_, (exchange, _))| **exchange == Exchange::Rows).map(|(_, (_, input))| input);
        let bytes: Vec<String> = sent().map(|input| row_bytes(&input.schema).to_string()).collect();
        let first = sent().find_map(|input| input.leading.as_ref());
        let first = first.map_or_else(String::new, |first| format!(" that may be among the first {}", first.most));
        let stay = inputs().find(|(_, (exchange, _))| **exchange == Exchange::Stays);
        let _ = match (&bytes[..], stay) {
            ([], None) => writeln!(out, "operator {number}: made by every node"),
            ([], Some(_)) => writeln!(out, "operator {number}: rows stay where they are"),
            (_, stay) => {
                let stay = stay.map_or_else(String::new, |(port, _)| {
                    format!("; those of its {} input stay where they are", if port == 0 { "left" } else { "right" })
                });
                writeln!(out, "operator {number}: rows by key{first}, about {} bytes each{stay}", bytes.join(" and "))
            }
        };
    }
    for (number, sort) in plan.sorts.iter().enumerate() {
        let _ = match sorts[number] {
            Exchange::Nothing => writeln!(out, "sort {number}: made by every node"),
            _ => {
                let rows = sort.kept().map_or("rows".to_string(), |rows| match rows {
                    1 => "the first row of each node".into(),
                    rows => format!("the first {rows} rows of each node"),
                });
                writeln!(out, "sort {number}: {rows} to the first node, about {} bytes each", row_bytes(&sort.schema))
            }
        };
    }
    for (number, sink) in plan.sinks.iter().enumerate() {
        let _ = match sinks[number] {
            Exchange::Stays => writeln!(out, "sink {number}: every node writes the rows that it has"),
            _ => writeln!(out, "sink {number}: rows to the first node, about {} bytes each", row_bytes(&sink.schema)),
        };
    }
    if is_independent {
        out +=
            "nodes send each other nothing: with checkpoints, one that is lost resumes alone while the others go on\n";
    }
    Ok(out)
}

/// When a beat ends.
fn beats_text(beats: &BeatConfig) -> String {
    if let BeatClock::EventTime(ms) = beats.clock {
        return format!("a beat is {ms} ms of event time, by the watermark of each split");
    }
    let rows = match beats.rows {
        0 => String::new(),
        rows => format!(", or after {}", counted(rows as usize, "row")),
    };
    match beats.latency.filter(|_| beats.waits) {
        Some(latency) => format!("a beat ends {} ms after its first row{rows}", latency.as_millis()),
        None => format!("a beat ends as soon as the one before has been written{rows}"),
    }
}

/// What the tables of an aggregation are merged by, and what was asked for if that is not possible.
pub(crate) fn merge_text(config: &RunConfig, aggregation: &Aggregation) -> String {
    let name = |strategy| match strategy {
        MergeStrategy::Auto => "auto, local at first",
        MergeStrategy::Local => "local",
        MergeStrategy::Global => "global",
        MergeStrategy::Partition => "partition",
    };
    // A layout that there is not was an error of lowering.
    let merge = entry_layout(aggregation).map_or(MergeStrategy::Local, |layout| merge_strategy(config, &layout));
    match config.merge {
        wanted if wanted == merge || wanted == MergeStrategy::Auto => name(merge).into(),
        wanted => format!("{} ({} is not possible)", name(merge), name(wanted)),
    }
}
