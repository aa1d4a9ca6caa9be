//! Lowering: from a pipeline or a list of expressions to a row program, by produce/consume.
//!
//! A pipeline's operators are visited in the order in which rows flow. `scan` produces the columns of the input,
//! lazily: a column is loaded where it is first used. `filter` and `project` consume them; a projection computes
//! nothing by itself, its expressions are lowered where an operator above uses them. `emit`, `aggregate` and `exchange`
//! end the program; so does a flat map (`windows`, `repeat`, `unnest`, `lookup`), after which another program
//! continues. Which table a row of an aggregation goes to is in `assigner`. Every operator has the file of its name in
//! `millstream_plan::operators`; what the programs of keyed ones share is in `keyed`. Scalar expressions are in
//! `expression`.
//!
//! NULL becomes two values here: a `Scalar` is a value and, when it can be NULL, a second value that says whether
//! it is there. What is not there is any value of its type that is harmless to compute with.

mod aggregate;
mod assigner;
mod changes;
mod changing_join;
mod count;
mod emit;
mod exchange;
mod expression;
mod filter;
mod group;
mod interval_join;
mod keyed;
mod lookup;
mod lowered;
mod nested_cast;
mod over;
mod plan;
mod project;
mod rank;
mod regular_join;
mod repeat;
mod scan;
mod session;
mod top;
mod unnest;
mod vector;
mod versioned_join;
mod window_join;
mod windows;

#[cfg(test)]
mod tests;

pub use aggregate::entry_layout;
pub use keyed::{lower_condition, lower_keys, lower_slots};
pub use lowered::{Lowered, OutputSource, VectorColumn};
pub use plan::lower_plan;

use crate::builder::Builder;
use crate::program::{Input, Site, Terminal, Value};
use crate::programs::FlatMapped;
use crate::verify::verify;
use millstream_abi::{ErrorKind, RuntimeFn};
use millstream_plan::explain::Shown;
use millstream_plan::expr::{Expr, Span};
use millstream_plan::pipeline::{FlatMap, Lookup, Operator, PipelineEnd, PipelineInput, QueryPlan, SourceColumn};
use millstream_types::text::zone::Zone;
use millstream_types::{Diagnostic, Field, Place, Schema, code};
use std::sync::Arc;

/// The stages of a pipeline, and the programs of its flat maps.
type LoweredPipeline = (Vec<Lowered>, Vec<FlatMapped<Arc<Lowered>>>);

/// Lowers pipeline `index` of a plan to its stages, one program more than it has flat maps, and the programs of these. Each
/// stage but the last emits the columns before a flat map, followed by the flat map's arguments; the next one starts with the
/// columns after it.
pub fn lower_pipeline(plan: &QueryPlan, index: usize) -> Result<LoweredPipeline, Diagnostic> {
    let pipeline = &plan.pipelines[index];
    let count = pipeline.operators.iter().filter(|o| matches!(o, Operator::FlatMap(_))).count() + 1;
    let name = |stage: usize| match count {
        1 => format!("pipeline {index}"),
        _ => format!("pipeline {index} stage {stage}"),
    };
    let (mut stages, mut flat_maps) = (Vec::with_capacity(count), Vec::new());
    let mut schema = pipeline.schema.clone();
    let mut operators = pipeline.operators.iter();
    let mut source = match pipeline.input {
        PipelineInput::Source(source) => plan.sources.get(source).map_or(&[][..], |s| &s.columns),
        PipelineInput::Aggregation(_) | PipelineInput::Operator(_) | PipelineInput::Sort(_) => &[][..],
    };
    loop {
        let mut lowering = Lowering::new(&schema).in_zone(plan.time_zone).in_place(std::mem::take(&mut source));
        let name = name(stages.len());
        let flat_map = loop {
            match operators.next() {
                Some(Operator::Filter(predicate)) => lowering.filter(predicate)?,
                Some(Operator::Project(columns)) => lowering.project(columns),
                Some(Operator::FlatMap(flat_map)) => break flat_map,
                None => {
                    stages.push(lowering.end(&name, plan, &pipeline.end)?);
                    return Ok((stages, flat_maps));
                }
            }
        };
        let mut after = lowering.columns().clone();
        flat_maps.push(match flat_map {
            FlatMap::Lookup(Lookup { table, keys, residual, .. }) => {
                lookup::probe(index, (*table, &plan.lookups[*table]), keys, residual.as_ref(), &after)?
            }
            FlatMap::Windows(_) | FlatMap::Repeat(_) | FlatMap::Unnest(_) => FlatMapped { probe: None, residual: None },
        });
        after.fields.extend(flat_map.appended(&plan.lookups));
        stages.push(lowering.flat_map(&name, flat_map)?);
        schema = after;
    }
}

/// Lowers expressions over the columns of `inputs` to a program that emits one column each: watermarks, constant rows,
/// arguments of vectorised functions.
pub fn lower_expressions(name: &str, inputs: &Schema, expressions: &[Expr]) -> Result<Lowered, Diagnostic> {
    emit_expressions(name, Lowering::new(inputs), expressions)
}

/// [`lower_expressions`] over the columns of a source.
pub fn lower_source(
    name: &str,
    columns: &[SourceColumn],
    expressions: &[Expr],
    zone: Zone,
) -> Result<Lowered, Diagnostic> {
    let fields = columns.iter().map(|c| Field::new(&c.name, c.data_type.clone(), c.nullable)).collect();
    let schema = Schema::new(fields);
    emit_expressions(name, Lowering::new(&schema).in_zone(zone).in_place(columns), expressions)
}

fn emit_expressions<'a>(name: &str, mut over: Lowering<'a>, expressions: &'a [Expr]) -> Result<Lowered, Diagnostic> {
    over.project(expressions);
    over.emit(name)
}

/// Lowering fails for what row programs cannot compute.
type Computed<T = Scalar> = Result<T, Diagnostic>;

/// A lowered expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Scalar {
    /// The value; harmless but meaningless when not valid.
    value: Value,
    /// Bool: whether it is not NULL; `None`: it never is.
    valid: Option<Value>,
}

impl Scalar {
    /// A value that is never NULL.
    fn always(value: Value) -> Scalar {
        Scalar { value, valid: None }
    }
}

/// What lowering remembers within a scope.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Note {
    /// A column: after how many projections, and which.
    Column(usize, usize),
    /// A call with arguments that can be NULL: function, arguments, whether they are all there.
    Call(RuntimeFn, Vec<Value>, Value),
}

/// The state of lowering one program.
struct Lowering<'a> {
    builder: Builder<Note, Scalar>,
    /// Columns of the pipeline's buffers.
    schema: &'a Schema,
    /// Inputs of the program so far.
    inputs: Vec<Input>,
    /// Projections passed so far, the first first.
    layers: Vec<Layer<'a>>,
    /// After how many of them are the columns that expressions are over: all, but while a column of one is computed.
    depth: usize,
    vectors: Vec<VectorColumn>,
    /// For each vector column the call over the columns of `schema`, to find the same call again.
    vector_calls: Vec<Expr>,
    /// That of the session, where it is known.
    zone: Option<Zone>,
}

/// The columns after a projection.
struct Layer<'a> {
    columns: &'a [Expr],
    schema: Schema,
}

impl<'a> Lowering<'a> {
    fn new(schema: &'a Schema) -> Lowering<'a> {
        Lowering {
            builder: Builder::new(),
            schema,
            inputs: schema.fields.iter().map(scan::input).collect(),
            layers: Vec::new(),
            depth: 0,
            vectors: Vec::new(),
            vector_calls: Vec::new(),
            zone: None,
        }
    }

    /// For sessions of this time zone.
    fn in_zone(mut self, zone: Zone) -> Lowering<'a> {
        self.zone = Some(zone);
        self
    }

    /// Reads columns of a source, the first of the schema, where they are, and looks for NULL only where the source may have one.
    fn in_place(mut self, columns: &[SourceColumn]) -> Lowering<'a> {
        for (input, column) in self.inputs.iter_mut().zip(columns) {
            input.layout = scan::layout(column);
            input.nullable &= column.nullable;
        }
        self
    }

    /// Ends the program as the pipeline does.
    fn end(self, name: &str, plan: &QueryPlan, end: &PipelineEnd) -> Result<Lowered, Diagnostic> {
        match end {
            PipelineEnd::Sink(sink) => self.emit_to_sink(name, &plan.sinks[*sink]),
            PipelineEnd::Aggregate { aggregation, time, keys, updates } => {
                let counters = plan.counters_of_rows(*aggregation);
                self.aggregate(name, (&plan.aggregations[*aggregation], counters), time.as_ref(), keys, updates)
            }
            PipelineEnd::Exchange { operator, port } => self.exchange(name, &plan.operators[*operator], *port),
            PipelineEnd::Build { .. } | PipelineEnd::Sort { .. } => self.emit(name),
        }
    }

    /// Ends the program before a flat map. The columns that the flat map makes are those of the program behind it.
    fn flat_map(self, name: &str, flat_map: &FlatMap) -> Result<Lowered, Diagnostic> {
        match flat_map {
            FlatMap::Windows(windows) => self.windows(name, &windows.time),
            FlatMap::Repeat(_) => self.repeat(name),
            FlatMap::Unnest(unnest) => self.unnest(name, &unnest.collection),
            FlatMap::Lookup(lookup) => self.lookup(name, &lookup.keys),
        }
    }

    /// Does something with expressions over the columns after `depth` projections.
    fn at_depth<T>(&mut self, depth: usize, then: impl FnOnce(&mut Self) -> T) -> T {
        let ahead = std::mem::replace(&mut self.depth, depth);
        let result = then(self);
        self.depth = ahead;
        result
    }

    /// The columns that expressions are over.
    fn columns(&self) -> &Schema {
        match self.depth.checked_sub(1) {
            None => self.schema,
            Some(layer) => &self.layers[layer].schema,
        }
    }

    /// The expression's text, for messages.
    fn text(&self, expr: &Expr) -> String {
        /// Longest text of an expression in a message, in characters.
        const LONGEST: usize = 60;
        let text = Shown(expr, self.columns()).to_string();
        match text.char_indices().nth(LONGEST) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text,
        }
    }

    /// The site of an expression.
    fn site(&mut self, expr: &Expr) -> u32 {
        let what = self.text(expr);
        self.site_of(what, expr.span)
    }

    fn site_of(&mut self, what: String, span: Span) -> u32 {
        self.builder.site(Site { what, line: span.line, column: span.column, length: span.length })
    }

    /// Makes the row an error when `scalar` is NULL.
    fn trap_null(&mut self, scalar: Scalar, kind: ErrorKind, what: String, span: Span) {
        if let Some(valid) = scalar.valid {
            let missing = self.builder.not(valid);
            let site = self.site_of(what, span);
            self.builder.trap(missing, kind, site);
        }
    }

    /// The program, for the time being without columns that it gives.
    fn finish(self, name: &str, terminal: Terminal) -> Computed<Lowered> {
        let program = self.builder.finish(name, self.inputs, terminal);
        verify(&program).map_err(|e| Diagnostic::bug(format!("the row program of {name} is malformed: {e}")))?;
        Ok(Lowered { vectors: self.vectors, ..Lowered::plain(program, vec![]) })
    }
}

/// The error for something that row programs cannot compute.
fn unsupported(message: String, span: Span) -> Diagnostic {
    let diagnostic = Diagnostic::new(code::UNSUPPORTED, message);
    match span.line {
        0 => diagnostic,
        line => diagnostic.at(Place::Sql {
            line: line.into(),
            column: span.column.into(),
            length: span.length.max(1).into(),
        }),
    }
}
