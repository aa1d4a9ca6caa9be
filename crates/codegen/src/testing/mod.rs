//! Random programs with random input, for differential tests: interpreter against plain Rust, machine code against
//! the interpreter.
//!
//! ```ignore
//! for seed in 0..1000 {
//!     let case = Case::random(seed);
//!     assert_eq!(case.run(&compiled(&case.lowered.program)), case.run(&case.interpreter()), "{case}");
//! }
//! ```

mod columns;
mod expressions;
mod random;
pub mod reference;
mod table;
#[cfg(test)]
mod tests;

pub use columns::{random_column, random_schema};
pub use expressions::Expressions;
pub use random::Random;
pub use table::MemoryTables;

use crate::execute::{self, Flow, RowError};
use crate::interpreter::Interpreter;
use crate::kernel::Kernel;
use crate::lower::{Lowered, lower_pipeline};
use arrow_array::{Array, ArrayRef, Float32Array, Float64Array};
use millstream_abi::Accumulator;
use millstream_functions::FunctionContext;
use millstream_plan::expr::Expr;
use millstream_plan::pipeline::{
    Aggregation, Combination, ComponentOutput, ComponentUpdate, Operator, Pipeline, PipelineEnd, PipelineInput,
    QueryPlan, SinkPlan,
};
use millstream_plan::window::{Slicing, WindowAssigner};
use millstream_types::{DataType, Field, Schema};
use std::fmt;
use std::sync::Arc;

/// A random pipeline and a random buffer for it.
#[derive(Debug)]
pub struct Case {
    /// The plan of the one pipeline.
    pub plan: QueryPlan,
    /// The pipeline, lowered.
    pub lowered: Lowered,
    /// Input columns.
    pub columns: Vec<ArrayRef>,
    /// Rows of each.
    pub rows: usize,
    /// The watermark before each row.
    pub watermarks: Vec<i64>,
}

/// What running a case has given, in a form to compare: NaNs are all alike.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Emitted columns, value by value.
    pub columns: Vec<Vec<String>>,
    /// Input rows of the emitted rows.
    pub selection: Vec<u32>,
    /// Bad rows with the code and message of each.
    pub errors: Vec<(usize, String)>,
    /// Entries of the tables: slice, key, accumulators.
    pub entries: Vec<String>,
    /// Late rows.
    pub late_rows: u64,
}

impl Case {
    /// The case of a seed: about a third update a table, the others emit rows.
    pub fn random(seed: u64) -> Case {
        let mut random = Random::new(seed);
        let schema = random_schema(&mut random);
        let rows = *random.pick(&[0, 1, 2, 7, 64, 65, 300, 1024, 1025, 2500]);
        let columns = schema.fields.iter().map(|field| random_column(&mut random, field, rows)).collect();
        let mut operators = Vec::new();
        let mut current = schema.clone();
        for _ in 0..random.below(3) {
            if random.chance(2) {
                operators.push(Operator::Filter(Expressions::new(&mut random, &current).of(&DataType::Boolean, 3)));
            } else {
                let count = 1 + random.below(4);
                let mut made = Expressions::new(&mut random, &current);
                let exprs: Vec<Expr> = (0..count).map(|_| made.any(3)).collect();
                let field = |(i, e): (usize, &Expr)| Field::new(format!("c{i}"), e.data_type.clone(), e.nullable);
                current = Schema::new(exprs.iter().enumerate().map(field).collect());
                operators.push(Operator::Project(exprs));
            }
        }
        let mut plan = QueryPlan::default();
        let end = if random.chance(3) {
            aggregate(&mut random, &current, &mut plan)
        } else {
            sink(&mut random, &mut current, &mut operators, &mut plan)
        };
        plan.pipelines.push(Pipeline { input: PipelineInput::Source(0), schema, operators, end });
        let lowered = match lower_pipeline(&plan, 0) {
            Ok(mut stages) => stages.remove(0),
            Err(e) => panic!("seed {seed}: {e}\n{plan:#?}"),
        };
        let mut watermark = i64::MIN;
        let watermarks = (0..rows)
            .map(|_| {
                if random.chance(10) {
                    watermark = watermark.max(random.below(2_000) as i64 - 1_000);
                }
                watermark
            })
            .collect();
        Case { plan, lowered, columns, rows, watermarks }
    }

    /// The interpreter of the case's program.
    pub fn interpreter(&self) -> Interpreter {
        Interpreter::new(Arc::new(self.lowered.program.clone()))
    }

    /// Runs a kernel made from the case's program over its buffer, skipping bad rows.
    pub fn run(&self, kernel: &dyn Kernel) -> Outcome {
        let mut functions = FunctionContext::default();
        let mut errors = Vec::new();
        let mut on_error = |error: RowError| {
            errors.push((error.row, error.diagnostic.to_string()));
            Flow::Skip
        };
        let mut outcome = Outcome { columns: vec![], selection: vec![], errors: vec![], entries: vec![], late_rows: 0 };
        match &self.lowered.program.terminal {
            crate::program::Terminal::Emit(_) => {
                let emitted = execute::emit(
                    &self.lowered,
                    kernel,
                    &self.columns,
                    self.rows,
                    &self.watermarks,
                    &mut functions,
                    &mut on_error,
                );
                let emitted = emitted.unwrap_or_else(|e| panic!("{e}\n{self}"));
                outcome.columns = emitted.columns.iter().map(texts).collect();
                (outcome.selection, outcome.late_rows) = (emitted.selection, emitted.late_rows);
            }
            crate::program::Terminal::Update(update) => {
                let mut tables = MemoryTables::new(update.layout.clone());
                let done = execute::update(
                    &self.lowered,
                    kernel,
                    &self.columns,
                    self.rows,
                    &self.watermarks,
                    tables.hooks(),
                    &mut functions,
                    &mut on_error,
                );
                outcome.late_rows = done.unwrap_or_else(|e| panic!("{e}\n{self}")).late_rows;
                outcome.entries = tables.entries();
            }
        }
        outcome.errors = errors;
        outcome
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.lowered.program)?;
        writeln!(f, "{:#?}", self.plan.pipelines[0])?;
        for (input, column) in self.lowered.program.inputs.iter().zip(&self.columns) {
            writeln!(f, "{}: {column:?}", input.name)?;
        }
        Ok(())
    }
}

/// The values of a column as text.
pub fn texts(column: &ArrayRef) -> Vec<String> {
    (0..column.len())
        .map(|row| {
            if column.is_null(row) {
                return "NULL".into();
            }
            let any = column.as_any();
            if let Some(floats) = any.downcast_ref::<Float64Array>() {
                return float_text(floats.value(row));
            }
            if let Some(floats) = any.downcast_ref::<Float32Array>() {
                return float_text(floats.value(row).into());
            }
            format!("{:?}", column.slice(row, 1))
        })
        .collect()
}

/// A float exactly, but for the bits of a NaN.
fn float_text(x: f64) -> String {
    if x.is_nan() { "NaN".into() } else { format!("{:016x} {x:?}", x.to_bits()) }
}

/// Ends the pipeline in a sink for rows, behind a last projection.
fn sink(random: &mut Random, current: &mut Schema, operators: &mut Vec<Operator>, plan: &mut QueryPlan) -> PipelineEnd {
    let count = 1 + random.below(5);
    let mut made = Expressions::new(random, current);
    let exprs: Vec<Expr> = (0..count).map(|_| made.any(4)).collect();
    let field = |(i, e): (usize, &Expr)| Field::new(format!("out{i}"), e.data_type.clone(), e.nullable);
    let schema = Schema::new(exprs.iter().enumerate().map(field).collect());
    operators.push(Operator::Project(exprs));
    plan.sinks.push(SinkPlan { table: None, schema, limit: None });
    PipelineEnd::Sink(0)
}

/// Ends the pipeline in an aggregation.
fn aggregate(random: &mut Random, current: &Schema, plan: &mut QueryPlan) -> PipelineEnd {
    use Accumulator as A;
    let tumble = random.chance(2);
    let mut made = Expressions::new(random, current);
    let keys: Vec<Expr> = (0..made.random().below(4)).map(|_| made.any(1)).collect();
    let (mut updates, mut components, mut component_types) = (vec![], vec![], vec![]);
    for _ in 0..made.random().below(5) {
        let (accumulator, data_type) = made
            .random()
            .pick(&[
                (A::Count, DataType::STRING),
                (A::SumI64, DataType::BigInt),
                (A::SumI64, DataType::TinyInt),
                (A::SumI128, DataType::decimal(10, 2)),
                (A::SumF64, DataType::Double),
                (A::SumF64, DataType::Float),
                (A::MinI64, DataType::Int),
                (A::MaxI64, DataType::Timestamp(3)),
                (A::MinI128, DataType::decimal(10, 2)),
                (A::MaxI128, DataType::decimal(10, 2)),
                (A::MinF64, DataType::Double),
                (A::MaxF64, DataType::Float),
                (A::MinStr, DataType::STRING),
                (A::MaxStr, DataType::STRING),
            ])
            .clone();
        let bare = accumulator == A::Count && made.random().chance(2);
        let argument = (!bare).then(|| made.of(&data_type, 2));
        let guard = made.random().chance(3).then(|| made.of(&DataType::Boolean, 2));
        updates.push(ComponentUpdate { argument, guard });
        components.push(accumulator);
        component_types.push(if accumulator == A::Count { DataType::BigInt } else { data_type });
    }
    let time = tumble.then(|| made.of(&DataType::Timestamp(3), 1));
    let key_fields = keys.iter().enumerate();
    let keys_out = key_fields.map(|(i, e)| Field::new(format!("k{i}"), e.data_type.clone(), e.nullable)).collect();
    let assigner = if tumble {
        let size_ms = 1 + random.below(500) as i64;
        WindowAssigner::Tumble(Slicing { size_ms, offset_ms: random.below(size_ms as u64) as i64 })
    } else {
        WindowAssigner::Whole
    };
    let outputs = ComponentOutput::values(&components, &component_types);
    let combination = Combination::Recompute;
    plan.aggregations.push(Aggregation { assigner, keys: keys_out, components, outputs, combination });
    PipelineEnd::Aggregate { aggregation: 0, time, keys, updates }
}
