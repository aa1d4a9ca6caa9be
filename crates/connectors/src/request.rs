//! What a query wants of the tables that it reads and writes.

use millstream_types::{CHANGE_COLUMN, DataType, Options, Schema};

/// A column that a query wants from a source.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnRequest {
    /// Dotted name, for messages: `bid.price`.
    pub name: String,
    /// Where it comes from.
    pub origin: RequestOrigin,
    /// Its type; the decoder produces `data_type.to_arrow()`.
    pub data_type: DataType,
    /// `false` for NOT NULL columns: a missing or null value is then an error of the record.
    pub nullable: bool,
}

/// Where a requested column comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestOrigin {
    /// Path of positions: first in [`SourceRequest::schema`], then within nested rows. NULL when a row on the way is.
    Path(Vec<usize>),
    /// A metadata key of the connector, such as `file.path`.
    Metadata(String),
    /// Column of [`SourceRequest::schema`] that is to stay in its packed record ([`millstream_types::RecordLayout`]): the
    /// decoder checks its values and gives the records themselves, as FixedSizeBinary; all such columns of a chunk are the
    /// same array. Asked only of sources that say so ([`record_layout`](crate::record_layout)).
    Record(usize),
}

/// What a query wants from a table.
#[derive(Debug, Clone, Default)]
pub struct SourceRequest {
    /// The table's name, for messages.
    pub table: String,
    /// `WITH (…)`.
    pub options: Options,
    /// All physical columns of the table: what a record looks like.
    pub schema: Schema,
    /// The columns to produce, in order; may be empty, when only the number of rows matters.
    pub columns: Vec<ColumnRequest>,
    /// Rows a buffer should have: generators and columnar files cut their chunks to it. 0 lets the connector choose.
    pub buffer_rows: usize,
    /// `PRIMARY KEY (…) NOT ENFORCED`: positions in the schema. Sources in which the last record of a key counts.
    pub primary_key: Vec<usize>,
}

/// What a query writes into.
#[derive(Debug, Clone)]
pub struct SinkRequest {
    /// The table's name, for messages.
    pub table: String,
    /// `WITH (…)`.
    pub options: Options,
    /// The columns that are written.
    pub schema: Schema,
    /// Those that are not part of a record, but metadata of the connector: position in the schema, and key.
    pub metadata: Vec<(usize, String)>,
    /// `PRIMARY KEY (…) NOT ENFORCED`: positions in the schema. Sinks that can let a row replace that of the same key.
    pub primary_key: Vec<usize>,
    /// What tells rows apart that are taken back; `None`: rows are only added. With it pieces have one more column, the kind of change:
    /// a [`RowKind`](millstream_types::RowKind) as TINYINT. In a beat a key changes once at most, and a row is followed by what
    /// replaces it.
    pub changes: Option<ChangedBy>,
}

impl SourceRequest {
    /// Whether a column says what each row does, if the rows of the table are changes of it by its primary key.
    pub(crate) fn says_changes(&self, column: &ColumnRequest) -> bool {
        let is_named = matches!(&column.origin, RequestOrigin::Metadata(key) if key == CHANGE_COLUMN);
        is_named && column.data_type == DataType::TinyInt && !self.primary_key.is_empty()
    }
}

/// What tells the rows of a changing result apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedBy {
    /// Positions in the schema: no two rows have the same values there at any moment. If there are none of them, there is one row at
    /// most. `None`: nothing tells rows apart, and one is replaced by taking it back and adding another.
    pub key: Option<Vec<usize>>,
}
