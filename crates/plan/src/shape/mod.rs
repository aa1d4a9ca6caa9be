//! What a query keeps from one run to the next, as data: the contract of recovery.
//!
//! A checkpoint stores the [`PlanShape`] of its plan. A later run may resume from it if the run's shape has all of its
//! parts ([`PlanShape::fit`]). Shapes are compared field by field, and say nothing about how EXPLAIN prints a plan.
//!
//! ```text
//! table ── filters ── keys, arguments ──▶ [ state ] ── filters, projections ──▶ sink
//! └──────────── InputShape ───────────┘  StateShape   └─ not in the shape ─┘   SinkShape
//! ```
//!
//! Expressions are compared by meaning: over columns of tables, whatever projections lie between, with the operands of AND, OR and
//! `=` in any order. So what is computed behind the state may change; what decides which rows the state has seen may not.

mod check;
mod fit;
pub(crate) mod meaning;
mod of_plan;

pub use check::Mismatch;
pub use fit::Fit;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of these structures and of the digests in them. A checkpoint with another one is refused.
pub const SHAPE_VERSION: u32 = 1;

/// What a plan keeps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanShape {
    /// [`SHAPE_VERSION`].
    pub version: u32,
    /// Time zone of the session, in which functions read and show instants.
    pub time_zone: String,
    /// What is read, in the order of the plan; each has positions.
    pub sources: Vec<SourceShape>,
    /// Windowed aggregations, in the order of the plan.
    pub aggregations: Vec<StateShape>,
    /// Keyed operators, in the order of the plan.
    pub operators: Vec<StateShape>,
    /// Sinks, in the order of the plan; each has a span that is not committed.
    pub sinks: Vec<SinkShape>,
}

/// What a stateful operator keeps.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct StateShape {
    /// What it is: `windowed aggregation`, `window join`, …
    pub operator: String,
    /// Its constants by name: window, gap, frame, bounds, ranks.
    pub parameters: BTreeMap<String, String>,
    /// SQL types of the keys.
    pub keys: Vec<String>,
    /// What an entry holds, in the order of its layout.
    pub components: Vec<ComponentShape>,
    /// The aggregates that are computed of that.
    pub aggregates: Vec<String>,
    /// What rows are ordered by: positions among the input's columns, with directions.
    pub order: Vec<String>,
    /// What a pair of rows must fulfil besides equal keys.
    pub condition: Option<Meaning>,
    /// Where its rows come from, in an order that does not depend on other INSERTs.
    pub inputs: Vec<InputShape>,
}

/// What is read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SourceShape {
    /// A table, or constant rows.
    pub from: Meaning,
    /// Whether it is read for a lookup table, before what is looked up.
    pub is_looked_up: bool,
}

/// A part of an entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComponentShape {
    /// Name of the accumulator.
    pub accumulator: String,
    /// Of a keyed operator: what it takes, over the positions of the input's columns. What a windowed aggregation takes is in its
    /// inputs.
    pub argument: Option<Meaning>,
    /// Of a keyed operator: which rows count.
    pub guard: Option<Meaning>,
}

/// How rows come to a stateful operator.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct InputShape {
    /// Which input of a join: 0 is the left one.
    pub port: usize,
    /// A table, constant rows, or the output of another stateful operator.
    pub from: Meaning,
    /// Event time and watermark of the table.
    pub watermark: Option<Meaning>,
    /// What multiplies rows on the way: windows, UNNEST, lookups.
    pub steps: Vec<Meaning>,
    /// Conditions that all rows fulfil, sorted.
    pub filters: Vec<Meaning>,
    /// The time that windows are chosen by, or rows are put in order by; `None` where that is their arrival.
    pub time: Option<Meaning>,
    /// Rows whose time plus this is at or before the watermark are late, in milliseconds; `None` where the operator decides.
    pub late_after_ms: Option<i64>,
    /// Positions of the keys among `values`.
    pub keys: Vec<usize>,
    /// Columns that arrive, or keys and arguments of aggregates.
    pub values: Vec<Meaning>,
    /// SQL types of `values`.
    pub types: Vec<String>,
}

/// Where rows go.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SinkShape {
    /// Name of the table; empty for the caller of a query.
    pub table: String,
    /// Tables and stateful operators that its rows come from, sorted.
    pub from: Vec<Meaning>,
    /// A digest of what its rows are. It may change, so it is not compared; it tells INSERTs into one table from each other.
    pub rows: String,
}

impl PartialEq for SinkShape {
    fn eq(&self, other: &SinkShape) -> bool {
        (&self.table, &self.from) == (&other.table, &other.from)
    }
}

/// Something that is compared by what it means.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Meaning {
    /// Equal for equal meanings: 128 bits in hexadecimal digits.
    pub is: String,
    /// For messages; its first characters. Not compared.
    pub text: String,
}

impl PartialEq for Meaning {
    fn eq(&self, other: &Meaning) -> bool {
        self.is == other.is
    }
}

impl InputShape {
    /// The keys among its values.
    fn key_values(&self) -> impl Iterator<Item = &Meaning> {
        self.keys.iter().filter_map(|&key| self.values.get(key))
    }
}

impl StateShape {
    /// A name for messages: what it is, and what its keys are.
    pub fn name(&self) -> String {
        let Some(first) = self.inputs.first() else { return self.operator.clone() };
        let keys: Vec<&str> = first.key_values().map(|key| key.text.as_str()).collect();
        match keys.as_slice() {
            [] => self.operator.clone(),
            keys => format!("{} by {}", self.operator, keys.join(", ")),
        }
    }
}

impl PlanShape {
    /// A line for each thing that is kept, for people who look at a checkpoint.
    pub fn lines(&self) -> Vec<String> {
        let state = |shape: &StateShape| {
            let list = |meanings: &[Meaning]| meanings.iter().map(|m| m.text.as_str()).collect::<Vec<_>>().join(", ");
            let constants: Vec<String> =
                shape.parameters.iter().map(|(name, value)| format!("{name} {value}")).collect();
            let mut lines = vec![format!("{}: {}", shape.name(), constants.join(", "))];
            if !shape.aggregates.is_empty() {
                lines.push(format!("  aggregates: {}", shape.aggregates.join(", ")));
            }
            for input in &shape.inputs {
                let filters = if input.filters.is_empty() { "" } else { ", where " };
                lines.push(format!(
                    "  from {}: {}{filters}{}",
                    input.from.text,
                    list(&input.values),
                    list(&input.filters)
                ));
            }
            lines
        };
        self.aggregations.iter().chain(&self.operators).flat_map(state).collect()
    }
}
