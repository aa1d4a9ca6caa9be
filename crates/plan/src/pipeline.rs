//! What the runtime executes: sources, pipelines of fused operators, windowed aggregations and sinks, as one graph.
//!
//! ```text
//! source ─┬─ pipeline ── aggregation ── pipeline ── sink
//!         ├─ pipeline ── sink                             (EXECUTE STATEMENT SET: the source is read once)
//!         └─ pipeline ──┬─ keyed operator ── pipeline ── sink
//! source ─── pipeline ──┘  (joins, sessions, Top-N, …)
//! source ─── pipeline ── lookup table                     (read first; pipelines probe it in place)
//! ```
//!
//! Everything refers to everything else by index into the vectors of [`QueryPlan`]. Several pipelines may start at
//! the same source or aggregation (fan-out), several may end in the same one (`UNION ALL`).

use crate::expr::Expr;
use crate::logical::{Frame, JoinKind, RankFunction, Table};
use crate::window::{Timeline, WindowAssigner};
pub use millstream_abi::Combination;
use millstream_abi::{Accumulator, Finish};
use millstream_types::text::zone::Zone;
use millstream_types::{DataType, Field, RecordPlace, Schema};
use std::sync::Arc;

/// One run of the engine.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct QueryPlan {
    /// Time zone of the session.
    pub time_zone: Zone,
    /// What is read.
    pub sources: Vec<SourcePlan>,
    /// Windowed aggregations.
    pub aggregations: Vec<Aggregation>,
    /// Operators whose rows are partitioned by key.
    pub operators: Vec<KeyedOperator>,
    /// Bounded tables that pipelines look rows up in.
    pub lookups: Vec<LookupTable>,
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
    /// Sources of a phase are read when those of lower phases have been read and processed to their end: what a lookup
    /// table is made of comes before what is looked up.
    pub phase: usize,
}

impl SourcePlan {
    /// The table's name; that of constant rows is `values`.
    pub fn name(&self) -> &str {
        match &self.scan {
            ScanKind::Table(table) => &table.name,
            ScanKind::Values(_) => "values",
        }
    }
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
    /// Where it is in the source's packed records, if programs read it there; then the source's buffers hold the records
    /// in place of the column, as FixedSizeBinary. Set when the plan is complete, by whoever knows what the source can do.
    pub in_record: Option<RecordPlace>,
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
    /// becomes column `columns.len()` of every buffer; with [`WatermarkRule::ProcessingTime`] it always does.
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
    /// `PROCTIME()`: the time of a row is the machine's clock when its buffer is sequenced, and the watermark follows the
    /// clock, also while no rows come. `time` is not evaluated.
    ProcessingTime,
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
    /// A keyed operator; columns as in [`KeyedOperator::output`].
    Operator(usize),
}

/// An operator within a pipeline.
#[derive(Debug, Clone, PartialEq)]
pub enum Operator {
    /// Keeps rows whose predicate is TRUE.
    Filter(Expr),
    /// Replaces the columns.
    Project(Vec<Expr>),
    /// Makes any number of rows of each. It cuts the pipeline into two programs that run one after the other in the same
    /// task.
    FlatMap(FlatMap),
}

/// Makes any number of rows of each: its columns, followed by others.
#[derive(Debug, Clone, PartialEq)]
pub enum FlatMap {
    /// Once for each window of the row. Appends `window_start`, `window_end` and `window_time` in the type of `time`,
    /// milliseconds since the epoch.
    Windows {
        /// Which windows.
        windows: crate::window::Overlap,
        /// TIMESTAMP(3) or TIMESTAMP_LTZ(3). NULL makes the row an error.
        time: Expr,
    },
    /// So many times. Appends, if they are numbered, the number of the row among those, from 0 (BIGINT).
    Repeat {
        /// At least 1.
        times: u64,
        /// Whether a column is appended.
        numbered: bool,
    },
    /// Once for each element of a collection.
    Unnest {
        /// ARRAY or MAP.
        collection: Expr,
        /// Whether a row without elements is kept, with NULL.
        outer: bool,
        /// Whether the last of `columns` is the position of the element from 1.
        ordinality: bool,
        /// The appended columns.
        columns: Vec<Field>,
    },
    /// Once for each row of a lookup table with the same keys for which the residual is TRUE. Appends the columns of
    /// that row; SEMI and ANTI append nothing.
    Lookup {
        /// Index into [`QueryPlan::lookups`].
        table: usize,
        /// Inner, Left, Semi or Anti.
        kind: JoinKind,
        /// Values of the table's keys, in their order and of their types.
        keys: Vec<Expr>,
        /// Over the columns before the flat map, then those of the table.
        residual: Option<Expr>,
    },
}

impl FlatMap {
    /// Values that it needs of each row: appended to the columns that the program before it emits.
    pub fn arguments(&self) -> &[Expr] {
        match self {
            FlatMap::Windows { time: argument, .. } | FlatMap::Unnest { collection: argument, .. } => {
                std::slice::from_ref(argument)
            }
            FlatMap::Lookup { keys, .. } => keys,
            FlatMap::Repeat { .. } => &[],
        }
    }

    /// Columns that it appends.
    pub fn appended(&self, lookups: &[LookupTable]) -> Vec<Field> {
        match self {
            FlatMap::Windows { time, .. } => ["window_start", "window_end", "window_time"]
                .map(|name| Field::new(name, time.data_type.clone(), false))
                .to_vec(),
            FlatMap::Unnest { columns, .. } => columns.clone(),
            FlatMap::Repeat { numbered: false, .. } => vec![],
            FlatMap::Repeat { numbered: true, .. } => vec![Field::new("number", DataType::BigInt, false)],
            FlatMap::Lookup { kind, .. } if !kind.shows_right() => vec![],
            FlatMap::Lookup { table, kind, .. } => {
                let mut fields = lookups[*table].schema.fields.clone();
                fields.iter_mut().for_each(|f| f.nullable |= kind.right_is_optional());
                fields
            }
        }
    }
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
        /// Event time of a row in milliseconds; `None` when all time is one slice. For [`WindowAssigner::Attached`] the
        /// row's `window_time`: the table's number is that plus 1, the end of the window.
        time: Option<Expr>,
        /// Key values, in the order of [`Aggregation::keys`].
        keys: Vec<Expr>,
        /// Argument and guard of each component, in the order of [`Aggregation::components`]. A component is updated
        /// when the argument is not NULL and the guard is TRUE. Code generation widens the argument to
        /// `Accumulator::argument` (integers, dates and times by sign extension, FLOAT to DOUBLE).
        updates: Vec<ComponentUpdate>,
    },
    /// Rows go to the partition of their key of a keyed operator: all columns, as in [`KeyedInput::schema`], and, as one
    /// more column that the program appends, the hash of the key (BIGINT, as `millstream_abi` hashes the entries of a
    /// table with these keys).
    Exchange {
        /// Which operator.
        operator: usize,
        /// Which of its inputs.
        port: usize,
    },
    /// Rows become those of a lookup table: all columns, as in [`LookupTable::schema`].
    Build {
        /// Index into [`QueryPlan::lookups`].
        lookup: usize,
    },
}

/// Rows by key that pipelines look up: complete before the first one does, and never changed after that.
#[derive(Debug, Clone, PartialEq)]
pub struct LookupTable {
    /// Name for EXPLAIN.
    pub name: String,
    /// Columns.
    pub schema: Schema,
    /// Positions of the keys among them. NULL equals nothing: the planner has filtered rows with such keys out.
    pub keys: Vec<usize>,
}

/// An operator whose rows are partitioned by the hash of their key, each partition one at a time (design section 1,
/// idea 2): joins, sessions, count windows, Top-N, OVER.
///
/// A partition consumes rows in *merged order*: by the watermark of their split before them, then by stream, then by
/// their place in it. For one split that is its order; for several it is an order that they could have come in, the same
/// in every run. Rows are consumed up to the operator's watermark, which is the minimum over its inputs; only
/// [`KeyedKind::RegularJoin`], whose output does not depend on order, takes them as they come.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyedOperator {
    /// What it does.
    pub kind: KeyedKind,
    /// What the times of its windows are; those of operators without windows are the rows' own.
    pub timeline: Timeline,
    /// One input, or left and right of a join.
    pub inputs: Vec<KeyedInput>,
    /// Key columns: names and types of those of the first input, nullable if that of any input is.
    pub keys: Vec<Field>,
    /// Columns of the output, as [`KeyedKind`] says.
    pub output: Schema,
}

/// An input of a keyed operator.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyedInput {
    /// Columns that arrive.
    pub schema: Schema,
    /// Positions of the keys.
    pub keys: Vec<usize>,
    /// Position of the event time (window joins and ranks: `window_time`), never NULL: the exchange makes rows without
    /// time errors.
    pub time: Option<usize>,
    /// Rows whose time plus this is at or before the watermark before them are late: the exchange drops and counts them.
    /// `None`: the operator itself decides (sessions, bounded frames of OVER, interval and versioned joins), or
    /// nothing is late.
    pub reach_ms: Option<i64>,
}

/// What a keyed operator does.
#[derive(Debug, Clone, PartialEq)]
pub enum KeyedKind {
    /// Rows of equal keys and equal `window_time`; output when the watermark reaches that. Columns: left, right (SEMI,
    /// ANTI: left).
    WindowJoin {
        /// Any.
        kind: JoinKind,
        /// Over left, then right columns.
        residual: Option<Expr>,
    },
    /// Rows of equal keys with `right + lower ≤ left ≤ right + upper`. Output watermark: held back so that no output is
    /// late. Columns: left, right.
    IntervalJoin {
        /// Inner, Left, Right or Full.
        kind: JoinKind,
        /// Milliseconds.
        lower_ms: i64,
        /// Milliseconds.
        upper_ms: i64,
        /// Over left, then right columns.
        residual: Option<Expr>,
    },
    /// Rows of equal keys, as they come. Columns: left, right.
    RegularJoin {
        /// Rows are forgotten after this many milliseconds of processing time.
        ttl_ms: Option<u64>,
        /// Over left, then right columns.
        residual: Option<Expr>,
    },
    /// Rows of the left with the version of their key, the newest row of the right up to their time; output when the watermark
    /// reaches that. Columns: left, right.
    VersionedJoin {
        /// Inner or Left.
        kind: JoinKind,
        /// Over left, then right columns.
        residual: Option<Expr>,
    },
    /// Ranks of the rows of a partition (the key) when the watermark reaches their `window_time`. Columns: those of the
    /// input, then the rank (BIGINT).
    Rank {
        /// Order within a partition.
        order: Vec<SortColumn>,
        /// How ties are numbered.
        function: RankFunction,
        /// Ranks that are kept, from 1, both ends included.
        range: (u64, u64),
    },
    /// Aggregates over each row and rows before it, in order of time (without [`KeyedInput::time`]: of arrival). Columns:
    /// those of the input, then the aggregates' outputs.
    Over {
        /// Rows that count.
        frame: Frame,
        /// What is computed.
        aggregates: SlotAggregates,
    },
    /// Aggregates of each session of a key. Columns: keys, the aggregates' outputs, `window_start` and `window_end` as
    /// TIMESTAMP(3).
    SessionAggregate {
        /// Milliseconds.
        gap_ms: i64,
        /// What is computed.
        aggregates: SlotAggregates,
    },
    /// Rows with their session: columns of the input, `window_start` and `window_end` as TIMESTAMP(3).
    SessionRows {
        /// Milliseconds.
        gap_ms: i64,
    },
    /// Aggregates of `size` rows of a key in order of arrival, every `slide` rows. Columns as for sessions; the window is
    /// from the smallest time in it to 1 ms after the largest.
    CountAggregate {
        /// Rows.
        size: u64,
        /// Rows.
        slide: u64,
        /// What is computed.
        aggregates: SlotAggregates,
    },
    /// Rows of full count windows: columns of the input, `window_start` and `window_end` as TIMESTAMP(3).
    CountRows {
        /// Rows.
        size: u64,
        /// Rows.
        slide: u64,
    },
}

impl KeyedKind {
    /// Whether its output begins with the keys; else with all columns that arrive.
    pub fn shows_keys(&self) -> bool {
        matches!(self, KeyedKind::SessionAggregate { .. } | KeyedKind::CountAggregate { .. })
    }

    /// What it aggregates, if it does.
    pub fn aggregates(&self) -> Option<&SlotAggregates> {
        match self {
            KeyedKind::Over { aggregates, .. }
            | KeyedKind::SessionAggregate { aggregates, .. }
            | KeyedKind::CountAggregate { aggregates, .. } => Some(aggregates),
            _ => None,
        }
    }
}

/// A column to sort by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SortColumn {
    /// Position in the input.
    pub column: usize,
    /// `DESC`
    pub descending: bool,
    /// Where NULLs go.
    pub nulls_first: bool,
}

/// Aggregates that a keyed operator keeps for each *slot*: a session, a slice of a count window, a row of OVER. Its program
/// updates the table entry of the slot, whose only key is the slot's number (BIGINT), which is one more column after those
/// of the input.
#[derive(Debug, Clone, PartialEq)]
pub struct SlotAggregates {
    /// Components in the order of the entry layout.
    pub components: Vec<Accumulator>,
    /// Over the input's columns, in the order of `components`.
    pub updates: Vec<ComponentUpdate>,
    /// What is shown of them.
    pub outputs: Vec<ComponentOutput>,
    /// What was asked for: [`crate::aggregate::AggregateCall::outline`] of each call.
    pub calls: Vec<String>,
}

/// A column that shows an accumulator.
#[derive(Debug, Clone, PartialEq)]
pub struct ComponentOutput {
    /// Index into the components.
    pub component: usize,
    /// What it shows.
    pub finish: Finish,
    /// SQL type. The trigger narrows `Accumulator::output` to its physical type (integers wrap, as SUM(INT) does; DOUBLE
    /// rounds to FLOAT).
    pub data_type: DataType,
    /// Whether it can be NULL: MIN and MAX of strings and results of objects can, as no value may have been seen.
    pub nullable: bool,
}

impl ComponentOutput {
    /// The plain value of a component.
    pub fn value(component: usize, accumulator: Accumulator, data_type: DataType) -> ComponentOutput {
        let nullable = matches!(accumulator, Accumulator::MinStr | Accumulator::MaxStr);
        ComponentOutput { component, finish: Finish::Value, data_type, nullable }
    }

    /// The plain values of all components, of these types.
    pub fn values(components: &[Accumulator], types: &[DataType]) -> Vec<ComponentOutput> {
        let parts = components.iter().zip(types).enumerate();
        parts.map(|(i, (&component, t))| ComponentOutput::value(i, component, t.clone())).collect()
    }
}

/// What a row does to one component.
#[derive(Debug, Clone, PartialEq)]
pub struct ComponentUpdate {
    /// Value; for `Accumulator::Count` only its NULLs matter (`None` counts every row). NULLs do not update, except a list
    /// that keeps them.
    pub argument: Option<Expr>,
    /// `FILTER (WHERE …)`.
    pub guard: Option<Expr>,
}

/// A windowed aggregation: the state between two pipelines.
#[derive(Debug, Clone, PartialEq)]
pub struct Aggregation {
    /// Windows.
    pub assigner: WindowAssigner,
    /// What their times are.
    pub timeline: Timeline,
    /// Key columns.
    pub keys: Vec<Field>,
    /// Components in the order of the entry layout.
    pub components: Vec<Accumulator>,
    /// What is shown of them.
    pub outputs: Vec<ComponentOutput>,
    /// What was asked for: [`crate::aggregate::AggregateCall::outline`] of each call.
    pub calls: Vec<String>,
    /// How the values of overlapping windows are made from their slices.
    pub combination: Combination,
}

impl Aggregation {
    /// Columns of a trigger's buffers: the keys, the outputs, then `window_start` and `window_end` as TIMESTAMP(3), unless
    /// all time is one window. With [`WindowAssigner::Attached`] the last key is the `window_start`, a TIMESTAMP(3), and
    /// `window_start` is not repeated: only `window_end` follows the outputs.
    pub fn output_schema(&self) -> Schema {
        let mut fields = self.keys.clone();
        for (i, output) in self.outputs.iter().enumerate() {
            fields.push(Field::new(format!("component{i}"), output.data_type.clone(), output.nullable));
        }
        if self.assigner == WindowAssigner::Attached {
            fields.push(Field::new("window_end", DataType::Timestamp(3), false));
        } else if self.assigner.has_window() {
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
