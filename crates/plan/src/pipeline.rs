//! What the runtime executes: sources, pipelines of fused operators, windowed aggregations and sinks, as one graph.
//!
//! ```text
//! source ─┬─ pipeline ── aggregation ── pipeline ── sink
//!         └─ pipeline ── sink                             (EXECUTE STATEMENT SET: the source is read once)
//! ```
//!
//! Everything refers to everything else by index into the vectors of [`QueryPlan`]. Several pipelines may start at
//! the same source or aggregation (fan-out), several may end in the same one (`UNION ALL`).

use crate::expr::Expr;
use crate::logical::Table;
use crate::window::WindowAssigner;
use millstream_abi::Accumulator;
use millstream_types::{DataType, Field, Schema};
use std::sync::Arc;

/// One run of the engine.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryPlan {
    /// What is read.
    pub sources: Vec<SourcePlan>,
    /// Windowed aggregations.
    pub aggregations: Vec<Aggregation>,
    /// Fused chains; every input comes before the pipelines that read its output.
    pub pipelines: Vec<Pipeline>,
    /// Where rows go.
    pub sinks: Vec<SinkPlan>,
}

/// A table scan with the columns that some pipeline uses, or constant rows.
#[derive(Debug, Clone, PartialEq)]
pub struct SourcePlan {
    /// What is scanned.
    pub scan: ScanKind,
    /// Columns that the decoder produces: leaves of nested rows where only those are used.
    pub columns: Vec<SourceColumn>,
    /// Event time. When `time` is not a plain column, the runtime appends it as one more column after `columns`.
    pub watermark: Option<SourceWatermark>,
}

/// What a source reads.
#[derive(Debug, Clone, PartialEq)]
pub enum ScanKind {
    /// A table of the catalog.
    Table(Arc<Table>),
    /// Constant rows, each as wide as `columns`; expressions have no columns.
    Values(Vec<Vec<Expr>>),
}

/// A column that a source delivers.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceColumn {
    /// Dotted name, for messages and EXPLAIN: `bid.price`.
    pub name: String,
    /// Where it comes from.
    pub origin: ColumnOrigin,
    /// Type.
    pub data_type: DataType,
    /// Whether it can be NULL: the column or any row around it.
    pub nullable: bool,
}

/// Where a source column comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnOrigin {
    /// Path of positions: first among the table's columns, then within nested rows.
    Path(Vec<usize>),
    /// A metadata key of the connector.
    Metadata(String),
}

/// Event time of a source.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceWatermark {
    /// Event time over `columns`, an i64 of milliseconds: `ExprKind::Column` when it is decoded as it is. Otherwise it
    /// becomes column `columns.len()` of every buffer.
    pub time: Expr,
    /// How the watermark follows from it.
    pub rule: WatermarkRule,
    /// Partitions that are silent for this long no longer hold the watermark back; `None`: they always do.
    pub idle_timeout_ms: Option<u64>,
}

/// The watermark after a row.
#[derive(Debug, Clone, PartialEq)]
pub enum WatermarkRule {
    /// Event time minus a constant number of milliseconds (bounded out-of-orderness).
    Delay(i64),
    /// Any expression over `columns`, an i64 of milliseconds; NULL leaves the watermark as it is.
    Expression(Expr),
}

/// A chain of fused operators between pipeline breakers.
#[derive(Debug, Clone, PartialEq)]
pub struct Pipeline {
    /// Where buffers come from.
    pub input: PipelineInput,
    /// Columns of the input's buffers.
    pub schema: Schema,
    /// Operators in order; each sees the columns of the one before.
    pub operators: Vec<Operator>,
    /// Where rows go.
    pub end: PipelineEnd,
}

/// Where a pipeline's buffers come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PipelineInput {
    /// A source.
    Source(usize),
    /// The trigger of an aggregation; columns as in [`Aggregation::output_schema`].
    Aggregation(usize),
}

/// An operator within a pipeline.
#[derive(Debug, Clone, PartialEq)]
pub enum Operator {
    /// Keeps rows whose predicate is TRUE.
    Filter(Expr),
    /// Replaces the columns.
    Project(Vec<Expr>),
}

/// The end of a pipeline.
#[derive(Debug, Clone, PartialEq)]
pub enum PipelineEnd {
    /// Columns go to a sink in order.
    Sink(usize),
    /// Rows update a table of an aggregation.
    Aggregate {
        /// Which aggregation.
        aggregation: usize,
        /// Event time of a row in milliseconds; `None` when all time is one slice.
        time: Option<Expr>,
        /// Key values, in the order of [`Aggregation::keys`].
        keys: Vec<Expr>,
        /// Argument and guard of each component, in the order of [`Aggregation::components`]. A component is updated
        /// when the argument is not NULL and the guard is TRUE. Code generation widens the argument to
        /// `Accumulator::argument` (integers, dates and times by sign extension, FLOAT to DOUBLE).
        updates: Vec<ComponentUpdate>,
    },
}

/// What a row does to one component.
#[derive(Debug, Clone, PartialEq)]
pub struct ComponentUpdate {
    /// Value; for `Accumulator::Count` only its NULLs matter (`None` counts every row).
    pub argument: Option<Expr>,
    /// `FILTER (WHERE …)`.
    pub guard: Option<Expr>,
}

/// A windowed aggregation: the state between two pipelines.
#[derive(Debug, Clone, PartialEq)]
pub struct Aggregation {
    /// Windows.
    pub assigner: WindowAssigner,
    /// Key columns.
    pub keys: Vec<Field>,
    /// Components in the order of the entry layout.
    pub components: Vec<Accumulator>,
    /// SQL type of each component's output column. The trigger narrows `Accumulator::output` to its physical type
    /// (integers wrap, as SUM(INT) does; DOUBLE rounds to FLOAT).
    pub component_types: Vec<DataType>,
}

impl Aggregation {
    /// Columns of a trigger's buffers: the keys, the components (not NULL, except MIN and MAX of strings, which are
    /// NULL when no value was seen), then `window_start` and `window_end` as TIMESTAMP(3), unless all time is one
    /// window.
    pub fn output_schema(&self) -> Schema {
        let mut fields = self.keys.clone();
        for (i, (component, data_type)) in self.components.iter().zip(&self.component_types).enumerate() {
            let nullable = matches!(component, Accumulator::MinStr | Accumulator::MaxStr);
            fields.push(Field::new(format!("component{i}"), data_type.clone(), nullable));
        }
        if self.assigner.slicing().is_some() {
            fields.push(Field::new("window_start", DataType::Timestamp(3), false));
            fields.push(Field::new("window_end", DataType::Timestamp(3), false));
        }
        Schema::new(fields)
    }
}

/// Where rows go.
#[derive(Debug, Clone, PartialEq)]
pub struct SinkPlan {
    /// A table, or the caller when `None`.
    pub table: Option<Arc<Table>>,
    /// Columns that arrive.
    pub schema: Schema,
    /// Stop the query after this many rows.
    pub limit: Option<u64>,
}
