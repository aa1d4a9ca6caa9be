//! What the runtime executes: sources, pipelines of fused operators, windowed aggregations and sinks, as one graph.
//!
//! ```text
//! source ─┬─ pipeline ── aggregation ── pipeline ── sink
//!         ├─ pipeline ── sink                             (EXECUTE STATEMENT SET: the source is read once)
//!         └─ pipeline ──┬─ keyed operator ── pipeline ── sink
//! source ─── pipeline ──┘  (joins, sessions, Top-N, …)
//! source ─── pipeline ── sort ── pipeline ── sink         (bounded inputs)
//! source ─── pipeline ── lookup table                     (read first; pipelines probe it in place)
//! ```
//!
//! Everything refers to everything else by index into the vectors of [`QueryPlan`]. Several pipelines may start at
//! the same source or aggregation (fan-out), several may end in the same one (`UNION ALL`).

pub use crate::components::{ComponentOutput, ComponentUpdate, SlotAggregates};
use crate::expr::{Expr, ExprKind};
pub use crate::keyed::{Keyed, KeyedInput, Leading, LeadingWindows, SortColumn};
use crate::logical::Table;
pub use crate::operators::aggregate::Aggregation;
pub use crate::operators::lookup::LookupTable;
pub use crate::operators::{
    Changes, ChangingJoin, CountWindows, FlatMap, Group, GroupChanges, IntervalJoin, KeyedKind, Lookup, Operator, Over,
    Rank, RegularJoin, Repeat, Sessions, Ties, Top, Unnest, VersionedJoin, WindowJoin, Windows,
};
pub use crate::sort::Sort;
use crate::window::Timeline;
use millstream_abi::{Accumulator, Counters};
pub use millstream_abi::{Combination, ShorterWindows};
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
    /// Bounded inputs whose rows are put in order.
    pub sorts: Vec<Sort>,
    /// Bounded tables that pipelines look rows up in.
    pub lookups: Vec<LookupTable>,
    /// Fused chains; every input comes before the pipelines that read its output.
    pub pipelines: Vec<Pipeline>,
    /// Where rows go.
    pub sinks: Vec<SinkPlan>,
}

impl QueryPlan {
    /// The components of an aggregation that count all rows of its windows, whichever pipeline they come from: one, or two of which
    /// each pipeline increases one.
    pub fn counters_of_rows(&self, aggregation: usize) -> Counters {
        let is_never_null = |argument: &Option<Expr>| argument.as_ref().is_none_or(|argument| !argument.nullable);
        let counts = |components: &[usize]| {
            self.pipelines.iter().all(|pipeline| match &pipeline.end {
                PipelineEnd::Aggregate { aggregation: into, updates, .. } if *into == aggregation => {
                    let mut updates = components.iter().filter_map(|&component| updates.get(component));
                    updates.any(|u| is_never_null(&u.argument) && u.guard.is_none())
                }
                _ => true,
            })
        };
        let Aggregation { components, shorter, .. } = &self.aggregations[aggregation];
        let is_shorter = |component: usize| shorter.as_ref().is_some_and(|shorter| shorter.components[component]);
        let all = components.iter().enumerate().filter(|(_, c)| **c == Accumulator::Count);
        let all: Vec<usize> = all.map(|(component, _)| component).filter(|&c| !is_shorter(c)).collect();
        if let Some(&one) = all.iter().find(|&&component| counts(&[component])) {
            return Counters::One(one);
        }
        let mut pairs =
            all.iter().enumerate().flat_map(|(i, &one)| all[i + 1..].iter().map(move |&other| (one, other)));
        let pair = pairs.find(|&(one, other)| counts(&[one, other]));
        pair.map_or(Counters::None, |(one, other)| Counters::EachOf(one, other))
    }

    /// Whether results change: then the query runs in beats, each of which ends at one place of every split.
    pub fn has_beats(&self) -> bool {
        self.operators.iter().any(|operator| operator.kind.keyed().ends_beats())
    }

    /// Whether rows wait in a sort for the end of their input on their way to a sink. What is sorted for a lookup table alone is there
    /// before the rows that look it up.
    pub fn sorts_output(&self) -> bool {
        let mut left: Vec<PipelineInput> = (0..self.sorts.len()).map(PipelineInput::Sort).collect();
        let mut seen = left.clone();
        while let Some(input) = left.pop() {
            for pipeline in self.pipelines.iter().filter(|pipeline| pipeline.input == input) {
                let next = match pipeline.end {
                    PipelineEnd::Sink(_) => return true,
                    PipelineEnd::Build { .. } => continue,
                    PipelineEnd::Aggregate { aggregation, .. } => PipelineInput::Aggregation(aggregation),
                    PipelineEnd::Exchange { operator, .. } => PipelineInput::Operator(operator),
                    PipelineEnd::Sort { sort } => PipelineInput::Sort(sort),
                };
                if !seen.contains(&next) {
                    seen.push(next);
                    left.push(next);
                }
            }
        }
        false
    }

    /// What rows do to the components of an aggregation; every pipeline into it does the same.
    pub(crate) fn updates_of(&self, index: usize) -> &[ComponentUpdate] {
        let updates = self.pipelines.iter().find_map(|pipeline| match &pipeline.end {
            PipelineEnd::Aggregate { aggregation, updates, .. } if *aggregation == index => Some(updates.as_slice()),
            _ => None,
        });
        updates.unwrap_or(&[])
    }
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

/// The columns that the program of a source's event time puts out: the event time first, then the watermark, each a
/// TIMESTAMP(3) or BIGINT column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventTimeColumns {
    /// Output column with the event time, when it is not a plain column of the source.
    pub time: Option<usize>,
    /// Output column with the watermark after the row, when the rule is an expression.
    pub watermark: Option<usize>,
}

/// What has to be computed for event time and watermark. `None` when both follow from a plain column or from the clock:
/// then there is no program.
pub fn event_time_columns(watermark: &SourceWatermark) -> Option<EventTimeColumns> {
    if watermark.rule == WatermarkRule::ProcessingTime {
        return None;
    }
    let time = !matches!(watermark.time.kind, ExprKind::Column(_));
    let rule = matches!(watermark.rule, WatermarkRule::Expression(_));
    (time || rule).then(|| EventTimeColumns { time: time.then_some(0), watermark: rule.then_some(usize::from(time)) })
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
    /// A sort; columns as in [`Sort::schema`].
    Sort(usize),
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
        /// Event time of a row in milliseconds; `None` when all time is one slice. For [`Attached`](crate::window::WindowAssigner::Attached) the
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
    /// more column that the program appends, the hash of the [keys that choose the partition](KeyedOperator::partition_keys) (BIGINT,
    /// as `millstream_abi` hashes the entries of a table with these keys).
    Exchange {
        /// Which operator.
        operator: usize,
        /// Which of its inputs.
        port: usize,
    },
    /// Rows are put in order: all columns, as in [`Sort::schema`].
    Sort {
        /// Index into [`QueryPlan::sorts`].
        sort: usize,
    },
    /// Rows become those of a lookup table: all columns, as in [`LookupTable::schema`].
    Build {
        /// Index into [`QueryPlan::lookups`].
        lookup: usize,
    },
}

/// An operator whose rows are partitioned by the hash of their key, each partition one at a time (design section 1,
/// idea 2): joins, sessions, count windows, Top-N, OVER.
///
/// A partition consumes rows in *merged order*: by the watermark of their split before them, then by stream, then by
/// their place in it. For one split that is its order; for several it is an order that they could have come in, the same
/// in every run. Rows are consumed up to the operator's watermark, which is the minimum over its inputs; only
/// [`KeyedKind::RegularJoin`] and operators that [end beats](Keyed::ends_beats), whose output does not depend on order, take them as
/// they come.
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
    /// Which of the keys, by their places among them, choose the partition of a row: those of the operator that its rows come from,
    /// whose partitions it shares. `None`: all.
    pub partitioned_by: Option<Vec<usize>>,
    /// Columns of the output, as [`KeyedKind`] says.
    pub output: Schema,
}

impl KeyedOperator {
    /// The places among the keys of those that choose the partition of a row, in the order in which they are hashed.
    pub fn partition_keys(&self) -> Vec<usize> {
        self.partitioned_by.clone().unwrap_or_else(|| (0..self.keys.len()).collect())
    }
}

/// What a sink knows of changes. The last column that arrives is the kind of change, a [`RowKind`](millstream_types::RowKind) as
/// TINYINT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinkChanges {
    /// Columns that tell rows apart; `None`: nothing does, and a row is replaced by taking it back and adding another.
    pub key: Option<Vec<usize>>,
}

/// Where rows go.
#[derive(Debug, Clone, PartialEq)]
pub struct SinkPlan {
    /// A table, or the caller when `None`.
    pub table: Option<Arc<Table>>,
    /// Columns that arrive; the kind of change, if any, is one more.
    pub schema: Schema,
    /// What rows do to what was written before; `None`: they are added.
    pub changes: Option<SinkChanges>,
    /// Rows that are left out before the first one.
    pub skip: u64,
    /// Stop the query after this many rows.
    pub limit: Option<u64>,
    /// Whether each of several nodes has one, which writes the rows of that node: otherwise the first node has it.
    pub is_on_every_node: bool,
}
