//! The bound logical plan: what `sql` produces and the optimiser rewrites.

use crate::aggregate::AggregateCall;
use crate::common::Common;
use crate::expr::Expr;
use crate::window::{Timeline, WindowAssigner};
use millstream_types::{DataType, Field, Options, Schema};
use std::sync::Arc;

/// A table of the catalog.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Name as created.
    pub name: String,
    /// Columns in the order of the definition.
    pub columns: Vec<TableColumn>,
    /// `WATERMARK FOR column AS expression`.
    pub watermark: Option<Watermark>,
    /// `PRIMARY KEY (…) NOT ENFORCED`: positions of columns.
    pub primary_key: Vec<usize>,
    /// `WITH (…)`.
    pub options: Options,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct TableColumn {
    /// Name, type, nullability.
    pub field: Field,
    /// Where its value comes from.
    pub kind: ColumnKind,
}

/// Where the value of a table's column comes from.
#[derive(Debug, Clone, PartialEq)]
pub enum ColumnKind {
    /// In the record.
    Physical,
    /// `METADATA FROM 'key' [VIRTUAL]`: from the connector.
    Metadata {
        /// The connector's name for it.
        key: String,
        /// Whether it is left out when the table is written.
        is_virtual: bool,
    },
    /// `AS expression` over the physical and metadata columns of the table (positions in `Table::columns`).
    Computed(Expr),
}

/// The watermark of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Watermark {
    /// Position of the event-time column in `Table::columns`; TIMESTAMP or TIMESTAMP_LTZ of precision ≤ 3.
    pub column: usize,
    /// The watermark of a row, over `Table::columns`; of the type of the column.
    pub expression: Expr,
}

impl Table {
    /// All columns as a query sees them.
    pub fn schema(&self) -> Schema {
        Schema::new(self.columns.iter().map(|c| c.field.clone()).collect())
    }

    /// The columns that `INSERT INTO` writes.
    pub fn written(&self) -> Schema {
        Schema::new(self.writable().into_iter().map(|i| self.columns[i].field.clone()).collect())
    }

    /// The primary key as positions among the columns that `INSERT INTO` writes; empty if there is none, or one of them is not written.
    pub fn written_key(&self) -> Vec<usize> {
        let writable = self.writable();
        let place = |column: &usize| writable.iter().position(|written| written == column);
        self.primary_key.iter().map(place).collect::<Option<_>>().unwrap_or_default()
    }

    /// Positions of the columns that `INSERT INTO` writes: physical ones and metadata that is not virtual.
    pub fn writable(&self) -> Vec<usize> {
        let writable = |c: &TableColumn| match c.kind {
            ColumnKind::Physical => true,
            ColumnKind::Metadata { is_virtual, .. } => !is_virtual,
            ColumnKind::Computed(_) => false,
        };
        (0..self.columns.len()).filter(|&i| writable(&self.columns[i])).collect()
    }
}

/// A relational operator. Every one has a schema; expressions refer to the columns of the input by position.
#[derive(Debug, Clone, PartialEq)]
pub enum Rel {
    /// All columns of a table, computed ones included, in the order of the definition.
    Scan {
        /// The table.
        table: Arc<Table>,
        /// Where rows of the table go, all columns in order, that are late for the windows over it (`'late.table'`).
        /// Its writable columns have the types of the table's columns.
        late: Option<Arc<Table>>,
    },
    /// Constant rows.
    Values {
        /// Columns.
        schema: Schema,
        /// Rows of literals or constant expressions.
        rows: Vec<Vec<Expr>>,
    },
    /// Rows for which the predicate is TRUE.
    Filter {
        /// Input.
        input: Box<Rel>,
        /// BOOLEAN.
        predicate: Expr,
    },
    /// New columns.
    Project {
        /// Input.
        input: Box<Rel>,
        /// Expression and name of each column.
        columns: Vec<(Expr, String)>,
    },
    /// Rows with the windows that they belong to: the columns of the input, then `window_start`, `window_end`
    /// (TIMESTAMP(3)) and `window_time` (end - 1 ms, of the type of the time). A row of several windows comes several
    /// times, one of none not at all. `TUMBLE`, where a row has exactly one window, is a [`Rel::Project`] instead.
    Windowed {
        /// Input.
        input: Box<Rel>,
        /// Overlap, Session or Count.
        assigner: WindowAssigner,
        /// Event time of a row, as in [`Window::time`].
        time: Expr,
        /// As in [`Window::timeline`].
        timeline: Timeline,
        /// `PARTITION BY` of SESSION, COUNT_TUMBLE and COUNT_HOP: whose windows these are.
        partition: Vec<Expr>,
    },
    /// Groups within windows. Output columns: the keys, then the aggregates, then, unless the window is the whole
    /// input or all rows so far, `window_start`, `window_end` (TIMESTAMP(3)) and `window_time` (event time of the output: end - 1 ms,
    /// of the type of the window's time).
    Aggregate {
        /// Input.
        input: Box<Rel>,
        /// The window.
        window: Window,
        /// Grouping keys (without the window's columns) and names.
        keys: Vec<(Expr, String)>,
        /// Aggregates and names.
        aggregates: Vec<(AggregateCall, String)>,
    },
    /// Pairs of rows. Output columns: those of the left, then those of the right (SEMI and ANTI: of the left only);
    /// those of a side that can be missing are nullable.
    Join {
        /// Left input.
        left: Box<Rel>,
        /// Right input.
        right: Box<Rel>,
        /// What happens to rows without partner.
        kind: JoinKind,
        /// Which rows can meet.
        strategy: JoinStrategy,
        /// Equalities: an expression over the left columns and one over the right, of one type. NULL equals nothing.
        keys: Vec<(Expr, Expr)>,
        /// What else must be TRUE, over the columns of the left, then those of the right.
        residual: Option<Expr>,
    },
    /// The first rows of each partition within its window, or of all rows so far: Top-N, deduplication. Output columns: those of the
    /// input, then the rank (BIGINT).
    Rank {
        /// Input.
        input: Box<Rel>,
        /// `window_time` of the rows: results of a window come when it is complete. `None`: there is no window, and what is put out
        /// changes with later rows.
        time: Option<Expr>,
        /// What that is.
        timeline: Timeline,
        /// Partitioning columns, the window's among them.
        partition: Vec<Expr>,
        /// Order within a partition.
        order: Vec<SortKey>,
        /// How rows of one rank are numbered.
        function: RankFunction,
        /// Ranks that are kept, from 1, both ends included.
        range: (u64, u64),
        /// Whether the order is that of a time, so that ROW_NUMBER is deduplication where one row is kept.
        is_by_time: bool,
        /// Whether anybody reads the rank; if not, that of a rank without a window may be any number.
        shows_rank: bool,
        /// Whether a second row of a partition is an error: of a rank without a window, of the ranks up to 2.
        is_alone: bool,
    },
    /// Aggregates of each row and those before it. Output columns: those of the input, then the aggregates.
    Over {
        /// Input.
        input: Box<Rel>,
        /// Event time, by which rows are ordered; `None`: the order of arrival (processing time).
        time: Option<Expr>,
        /// `PARTITION BY`.
        partition: Vec<Expr>,
        /// Which rows before the current one count.
        frame: Frame,
        /// Aggregates and names.
        aggregates: Vec<(AggregateCall, String)>,
    },
    /// The elements of a collection, a row each. Output columns: those of the input, then `columns`.
    Unnest {
        /// Input.
        input: Box<Rel>,
        /// An ARRAY, MAP over the input's columns.
        collection: Expr,
        /// Whether a row without elements is kept, with NULL (`LEFT JOIN UNNEST(…) ON TRUE`).
        outer: bool,
        /// Whether the last of `columns` is the position of the element, from 1 (`WITH ORDINALITY`, INT).
        ordinality: bool,
        /// The element: its fields when it is a ROW, key and value of a MAP, else one column.
        columns: Vec<Field>,
    },
    /// `UNION ALL` of inputs of the same column types; names of the first.
    Union {
        /// Two or more inputs.
        inputs: Vec<Rel>,
    },
    /// A relation that a large statement names in several places.
    Common(Arc<Common>),
    /// The first `count` rows behind `offset` others, in whatever order they come; only at the top.
    Limit {
        /// Input.
        input: Box<Rel>,
        /// Rows that are left out.
        offset: u64,
        /// Rows; `None`: all.
        count: Option<u64>,
    },
    /// The rows of a bounded input in an order: of equal rows that first which stands first in the input. Columns are
    /// those of the input.
    Sort {
        /// Input.
        input: Box<Rel>,
        /// What rows are ordered by; without any, by their places in the input alone.
        keys: Vec<SortKey>,
        /// Rows that are left out.
        offset: u64,
        /// Rows; `None`: all.
        count: Option<u64>,
    },
}

/// The window of an aggregation.
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    /// Which windows a row belongs to.
    pub assigner: WindowAssigner,
    /// Event time of a row: TIMESTAMP(≤3) or TIMESTAMP_LTZ(≤3), derived from the watermark's column or from a window
    /// column below; `None` for [`WindowAssigner::Whole`] and [`WindowAssigner::Unbounded`]. For [`WindowAssigner::Attached`] the row's `window_time`.
    pub time: Option<Expr>,
    /// What the time is: the binder gives instants as they are, the planner has made them local times.
    pub timeline: Timeline,
    /// For [`WindowAssigner::Attached`] the row's `window_start`, a TIMESTAMP(3).
    pub start: Option<Expr>,
}

/// What a join does with rows without partner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JoinKind {
    /// They are left out.
    Inner,
    /// Those of the left come with NULLs.
    Left,
    /// Those of the right come with NULLs.
    Right,
    /// Those of both sides do.
    Full,
    /// Rows of the left that have a partner, once (`IN`, `EXISTS`).
    Semi,
    /// Rows of the left that have none (`NOT EXISTS`).
    Anti,
}

impl JoinKind {
    /// What EXPLAIN calls it. Checkpoints have it in capitals.
    pub(crate) fn text(self) -> &'static str {
        match self {
            JoinKind::Inner => "inner",
            JoinKind::Left => "left",
            JoinKind::Right => "right",
            JoinKind::Full => "full",
            JoinKind::Semi => "semi",
            JoinKind::Anti => "anti",
        }
    }

    /// Whether the columns of the left can be missing.
    pub fn left_is_optional(self) -> bool {
        matches!(self, JoinKind::Right | JoinKind::Full)
    }

    /// Whether the columns of the right can be missing.
    pub fn right_is_optional(self) -> bool {
        matches!(self, JoinKind::Left | JoinKind::Full)
    }

    /// Whether the columns of the right are in the output.
    pub fn shows_right(self) -> bool {
        !matches!(self, JoinKind::Semi | JoinKind::Anti)
    }
}

/// Which rows of a join can meet, and so for how long they are kept.
#[derive(Debug, Clone, PartialEq)]
pub enum JoinStrategy {
    /// Rows of the same window, which `keys` compare too. Any kind of join.
    Window {
        /// `window_time` over the left columns.
        left_time: Expr,
        /// `window_time` over the right columns.
        right_time: Expr,
        /// What these are.
        timeline: Timeline,
    },
    /// Rows with `right + lower ≤ left ≤ right + upper` in their event times. INNER, LEFT, RIGHT and FULL.
    Interval {
        /// Event time over the left columns.
        left_time: Expr,
        /// Event time over the right columns.
        right_time: Expr,
        /// Milliseconds.
        lower_ms: i64,
        /// Milliseconds, at least `lower_ms`.
        upper_ms: i64,
    },
    /// Each row of the left with the version of its key at its time: the newest row of the right up to it. `keys` include those that
    /// the versions are of. INNER and LEFT.
    Versioned {
        /// Event time over the left columns.
        left_time: Expr,
        /// Event time over the right columns.
        right_time: Expr,
    },
    /// All rows of both inputs, or those that came within the time to live. Any kind of join.
    Regular {
        /// How many milliseconds of processing time a row of each side is kept; `None`: forever.
        ttl_ms: [Option<u64>; 2],
    },
    /// Every row of the left with the right input, which is bounded and read before the left one. INNER, LEFT, SEMI and
    /// ANTI.
    Lookup,
}

impl JoinStrategy {
    /// The times of left and right that rows meet by, besides their keys.
    pub fn times(&self) -> Option<(&Expr, &Expr)> {
        match self {
            JoinStrategy::Window { left_time, right_time, .. }
            | JoinStrategy::Interval { left_time, right_time, .. }
            | JoinStrategy::Versioned { left_time, right_time } => Some((left_time, right_time)),
            JoinStrategy::Regular { .. } | JoinStrategy::Lookup => None,
        }
    }

    /// The same, to change in place.
    pub fn times_mut(&mut self) -> Option<(&mut Expr, &mut Expr)> {
        match self {
            JoinStrategy::Window { left_time, right_time, .. }
            | JoinStrategy::Interval { left_time, right_time, .. }
            | JoinStrategy::Versioned { left_time, right_time } => Some((left_time, right_time)),
            JoinStrategy::Regular { .. } | JoinStrategy::Lookup => None,
        }
    }
}

/// A column to sort by.
#[derive(Debug, Clone, PartialEq)]
pub struct SortKey {
    /// The value.
    pub expr: Expr,
    /// `DESC`
    pub descending: bool,
    /// Flink's default: NULL is the smallest value, so first when ascending and last when descending.
    pub nulls_first: bool,
}

/// How rows are numbered within a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RankFunction {
    /// 1, 2, 3, …; rows of equal order in the order of arrival.
    RowNumber,
    /// 1, 1, 3, …
    Rank,
    /// 1, 1, 2, …
    DenseRank,
}

/// Rows that an OVER aggregate takes in, the current one included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Frame {
    /// `ROWS BETWEEN n PRECEDING AND CURRENT ROW`; `None`: UNBOUNDED.
    Rows(Option<u64>),
    /// `RANGE BETWEEN INTERVAL … PRECEDING AND CURRENT ROW` in milliseconds; `None`: UNBOUNDED. Rows of the current row's
    /// time count, whether they come before or after it.
    Range(Option<i64>),
}

impl Rel {
    /// Columns of the result.
    pub fn schema(&self) -> Schema {
        match self {
            Rel::Scan { table, .. } => table.schema(),
            Rel::Values { schema, .. } => schema.clone(),
            Rel::Common(common) => common.schema().clone(),
            Rel::Filter { input, .. } | Rel::Limit { input, .. } | Rel::Sort { input, .. } => input.schema(),
            Rel::Project { columns, .. } => Schema::new(columns.iter().map(|(e, name)| e.field(name)).collect()),
            Rel::Aggregate { window, keys, aggregates, .. } => {
                let mut fields: Vec<Field> = keys.iter().map(|(e, name)| e.field(name)).collect();
                fields.extend(aggregates.iter().map(|(call, name)| call.field(name)));
                fields.extend(window.time.iter().flat_map(|time| window_fields(&time.data_type)));
                Schema::new(fields)
            }
            Rel::Windowed { input, time, .. } => input.schema_with(window_fields(&time.data_type)),
            Rel::Join { left, right, kind, .. } => {
                let (mut schema, mut right) = (left.schema(), right.schema());
                if !kind.shows_right() {
                    return schema;
                }
                schema.fields.iter_mut().for_each(|f| f.nullable |= kind.left_is_optional());
                right.fields.iter_mut().for_each(|f| f.nullable |= kind.right_is_optional());
                schema.fields.append(&mut right.fields);
                schema
            }
            Rel::Rank { input, .. } => input.schema_with([Field::new("rownum", DataType::BigInt, false)]),
            Rel::Over { input, aggregates, .. } => {
                input.schema_with(aggregates.iter().map(|(call, name)| call.field(name)))
            }
            Rel::Unnest { input, columns, .. } => input.schema_with(columns.iter().cloned()),
            Rel::Union { inputs } => {
                let mut schema = inputs[0].schema();
                for other in &inputs[1..] {
                    for (field, more) in schema.fields.iter_mut().zip(other.schema().fields) {
                        field.nullable |= more.nullable;
                    }
                }
                schema
            }
        }
    }

    /// Its columns, and others behind them.
    fn schema_with(&self, appended: impl IntoIterator<Item = Field>) -> Schema {
        let mut schema = self.schema();
        schema.fields.extend(appended);
        schema
    }
}

/// `window_start`, `window_end` and `window_time` of windows over a time of the type.
fn window_fields(time_type: &DataType) -> [Field; 3] {
    let field = |name, data_type| Field::new(name, data_type, false);
    [
        field("window_start", DataType::Timestamp(3)),
        field("window_end", DataType::Timestamp(3)),
        field("window_time", time_type.clone()),
    ]
}

/// The direct inputs of a relation that is not shared, in order.
macro_rules! inputs {
    ($rel:expr, $each:ident, $inner:ident) => {
        match $rel {
            Rel::Scan { .. } | Rel::Values { .. } | Rel::Common(_) => vec![],
            Rel::Filter { input, .. }
            | Rel::Project { input, .. }
            | Rel::Windowed { input, .. }
            | Rel::Aggregate { input, .. }
            | Rel::Rank { input, .. }
            | Rel::Over { input, .. }
            | Rel::Unnest { input, .. }
            | Rel::Limit { input, .. }
            | Rel::Sort { input, .. } => vec![input.$inner()],
            Rel::Join { left, right, .. } => vec![left.$inner(), right.$inner()],
            Rel::Union { inputs } => inputs.$each().collect(),
        }
    };
}

impl Rel {
    /// Direct inputs, in order.
    pub fn inputs(&self) -> Vec<&Rel> {
        match self {
            Rel::Common(common) => vec![common.rel()],
            own => inputs!(own, iter, as_ref),
        }
    }

    /// Direct inputs, in order, to change in place. A common relation has none: it is changed once for all places that name it
    /// ([`crate::common::Changed`]).
    pub fn inputs_mut(&mut self) -> Vec<&mut Rel> {
        inputs!(self, iter_mut, as_mut)
    }

    /// Takes the relation out of a place where another one is put.
    #[must_use]
    pub fn take(&mut self) -> Rel {
        std::mem::replace(self, Rel::Union { inputs: vec![] })
    }

    /// The expressions of this operator alone, to change in place; those of a scanned table are not among them.
    pub fn expressions_mut(&mut self) -> Vec<&mut Expr> {
        match self {
            Rel::Scan { .. } | Rel::Union { .. } | Rel::Limit { .. } | Rel::Common(_) => vec![],
            Rel::Values { rows, .. } => rows.iter_mut().flatten().collect(),
            Rel::Filter { predicate, .. } => vec![predicate],
            Rel::Project { columns, .. } => columns.iter_mut().map(|(e, _)| e).collect(),
            Rel::Windowed { time, partition, .. } => [time].into_iter().chain(partition).collect(),
            Rel::Aggregate { window, keys, aggregates, .. } => {
                let calls = aggregates.iter_mut().flat_map(|(call, _)| call.expressions_mut());
                let window = window.time.iter_mut().chain(&mut window.start);
                window.chain(keys.iter_mut().map(|(e, _)| e)).chain(calls).collect()
            }
            Rel::Join { strategy, keys, residual, .. } => {
                let times = strategy.times_mut().into_iter().flat_map(|(left, right)| [left, right]);
                times.chain(keys.iter_mut().flat_map(|(l, r)| [l, r])).chain(residual).collect()
            }
            Rel::Rank { time, partition, order, .. } => {
                time.iter_mut().chain(partition).chain(order.iter_mut().map(|k| &mut k.expr)).collect()
            }
            Rel::Over { time, partition, aggregates, .. } => {
                let calls = aggregates.iter_mut().flat_map(|(call, _)| call.expressions_mut());
                time.iter_mut().chain(partition).chain(calls).collect()
            }
            Rel::Sort { keys, .. } => keys.iter_mut().map(|key| &mut key.expr).collect(),
            Rel::Unnest { collection, .. } => vec![collection],
        }
    }
}

/// What a statement asks the engine to run: one or more queries, each into its sink, in one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Insert {
    /// Where the rows go.
    pub target: Target,
    /// The query; its columns fit the target's.
    pub query: Rel,
}

/// Where rows go.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// A table's writable columns, in their order.
    Table(Arc<Table>),
    /// Printed, or returned to the caller.
    Result,
}
