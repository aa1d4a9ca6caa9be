//! The bound logical plan: what `sql` produces and the optimiser rewrites.

use crate::aggregate::AggregateCall;
use crate::expr::Expr;
use crate::window::WindowAssigner;
use millstream_types::{Field, Options, Schema};
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
    /// Groups within windows. Output columns: the keys, then the aggregates, then, if `window` is there,
    /// `window_start`, `window_end` (TIMESTAMP(3)) and `window_time` (event time of the output: end - 1 ms,
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
    /// `UNION ALL` of inputs of the same column types; names of the first.
    Union {
        /// Two or more inputs.
        inputs: Vec<Rel>,
    },
    /// The first `count` rows of a bare SELECT.
    Limit {
        /// Input.
        input: Box<Rel>,
        /// Rows.
        count: u64,
    },
}

/// The window of an aggregation.
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    /// Which windows a row belongs to.
    pub assigner: WindowAssigner,
    /// Event time of a row: TIMESTAMP(≤3) or TIMESTAMP_LTZ(≤3), derived from the watermark's column or from a window
    /// column below; `None` for [`WindowAssigner::Whole`].
    pub time: Option<Expr>,
}

impl Rel {
    /// Columns of the result.
    pub fn schema(&self) -> Schema {
        match self {
            Rel::Scan { table } => table.schema(),
            Rel::Values { schema, .. } => schema.clone(),
            Rel::Filter { input, .. } | Rel::Limit { input, .. } => input.schema(),
            Rel::Project { columns, .. } => {
                Schema::new(columns.iter().map(|(e, name)| Field::new(name, e.data_type.clone(), e.nullable)).collect())
            }
            Rel::Aggregate { window, keys, aggregates, .. } => {
                let mut fields: Vec<Field> =
                    keys.iter().map(|(e, name)| Field::new(name, e.data_type.clone(), e.nullable)).collect();
                fields.extend(aggregates.iter().map(|(a, name)| Field::new(name, a.data_type.clone(), a.nullable)));
                if let Some(time) = &window.time {
                    use millstream_types::DataType;
                    fields.push(Field::new("window_start", DataType::Timestamp(3), false));
                    fields.push(Field::new("window_end", DataType::Timestamp(3), false));
                    fields.push(Field::new("window_time", time.data_type.clone(), false));
                }
                Schema::new(fields)
            }
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
