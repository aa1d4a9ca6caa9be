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
mod ends;
mod expressions;
mod random;
mod records;
pub mod reference;
mod table;
#[cfg(test)]
mod tests;

pub use columns::{random_column, random_schema};
pub use ends::random_overlap;
pub use expressions::Expressions;
pub use random::Random;
pub use table::MemoryTables;

use crate::execute::{self, ColumnZones, Flow, RowError, assign_groups};
use crate::interpreter::Interpreter;
use crate::kernel::Kernel;
use crate::lower::{Lowered, lower_keys, lower_pipeline};
use crate::program::{Access, Terminal, Update};
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMillisecondType;
use arrow_array::{Array, ArrayRef, Float32Array, Float64Array};
use ends::{aggregate, exchange, sink};
use millstream_abi::{Accumulator, Phys, ZONE_ROWS, Zone};
use millstream_functions::FunctionContext;
use millstream_plan::expr::Expr;
use millstream_plan::pipeline::{Operator, Pipeline, PipelineInput, QueryPlan};
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
#[derive(Debug, Clone, Default, PartialEq)]
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
    /// Groups of the rows, of programs that number keys.
    pub groups: Vec<u64>,
    /// Hash of each group.
    pub hashes: Vec<u64>,
}

impl Case {
    /// The case of a seed: about a third update a table, some number keys, the others emit rows.
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
        let numbers_keys = random.chance(8);
        let end = match random.below(6) {
            _ if numbers_keys => {
                operators.clear();
                exchange(&mut random, &schema, &mut plan)
            }
            0 | 1 => aggregate(&mut random, &current, &mut plan),
            2 => exchange(&mut random, &current, &mut plan),
            _ => sink(&mut random, &mut current, &mut operators, &mut plan),
        };
        plan.pipelines.push(Pipeline { input: PipelineInput::Source(0), schema, operators, end });
        let lowered = match &plan.operators[..] {
            [operator] if numbers_keys => {
                lower_keys("keys", &plan.pipelines[0].schema, &operator.inputs[0].keys, &operator.keys)
            }
            _ => lower_pipeline(&plan, 0).map(|(mut stages, _)| stages.remove(0)),
        };
        let lowered = lowered.unwrap_or_else(|e| panic!("seed {seed}: {e}\n{plan:#?}"));
        let watermarks = random_watermarks(&mut random, rows);
        Case { plan, lowered, columns, rows, watermarks }
    }

    /// The interpreter of the case's program.
    pub fn interpreter(&self) -> Interpreter {
        Interpreter::new(Arc::new(self.lowered.program.clone()))
    }

    /// Runs a kernel made from the case's program over its buffer, skipping bad rows.
    pub fn run(&self, kernel: &dyn Kernel) -> Outcome {
        self.run_as(kernel, Access::Own)
    }

    /// The number of a column of I64 values without NULL that the program has as an input, if there is one, and its bounds.
    fn zones(&self) -> Option<(usize, Vec<Zone>)> {
        let inputs = self.lowered.program.inputs.iter().zip(&self.columns).enumerate();
        inputs.filter(|(_, (input, column))| input.phys == Phys::I64 && column.null_count() == 0).find_map(
            |(i, (_, c))| {
                let values = c.as_primitive_opt::<TimestampMillisecondType>()?.values();
                let zone = |rows: &[i64]| Zone {
                    least: rows.iter().copied().min().unwrap_or(0),
                    most: rows.iter().copied().max().unwrap_or(0),
                };
                Some((i, values.chunks(ZONE_ROWS).map(zone).collect()))
            },
        )
    }

    /// The same of the program for tables that others update, too.
    pub fn run_shared(&self, kernel: &dyn Kernel) -> Outcome {
        self.run_as(kernel, Access::Shared)
    }

    fn run_as(&self, kernel: &dyn Kernel, access: Access) -> Outcome {
        let mut functions = FunctionContext::default();
        let mut errors = Vec::new();
        let mut on_error = |error: RowError| {
            errors.push((error.row, error.diagnostic.to_string()));
            Flow::Skip
        };
        let mut outcome = Outcome::default();
        match &self.lowered.program.terminal {
            Terminal::Emit(_) => {
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
                (outcome.selection, outcome.late_rows) = (emitted.selection.into_vec(), emitted.late_rows);
            }
            Terminal::Update(update) if update.layout.accumulators.iter().any(|a| a.0 == Accumulator::Group) => {
                let mut tables = MemoryTables::of(update);
                let hooks = tables.hooks();
                let groups = assign_groups(&self.lowered, kernel, &self.columns, self.rows, hooks, &mut functions);
                outcome.groups = groups.unwrap_or_else(|e| panic!("{e}\n{self}"));
                outcome.hashes = tables.group_hashes();
                outcome.entries = tables.entries();
            }
            Terminal::Update(update) => {
                let zones = self.zones();
                let mut tables = MemoryTables::of(&Update { access, ..update.clone() });
                let done = execute::update(
                    &self.lowered,
                    kernel,
                    (&self.columns, zones.as_ref().map(|(column, zones)| ColumnZones { column: *column, zones })),
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

/// The watermark before each row: none at first.
pub fn random_watermarks(random: &mut Random, rows: usize) -> Vec<i64> {
    let mut watermark = i64::MIN;
    let mut next = || {
        if random.chance(10) {
            watermark = watermark.max(random.below(2_000) as i64 - 1_000);
        }
        watermark
    };
    (0..rows).map(|_| next()).collect()
}
