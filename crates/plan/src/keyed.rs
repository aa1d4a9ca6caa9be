//! What all keyed operators have: inputs with keys and times, and answers about themselves.

use crate::components::SlotAggregates;
use crate::expr::Expr;
use crate::logical::JoinKind;
use millstream_types::{DataType, Field, Schema};

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

/// What a keyed operator says of itself. Its file in `operators` answers; EXPLAIN, the shape of its state, the planner and the
/// lowering ask.
pub(crate) trait Keyed<'a> {
    /// What EXPLAIN calls it, over the columns of its inputs. Condition and components follow.
    fn text(&self, inputs: &Schema) -> String;

    /// What checkpoints call it, and its constants by name. These words stay: other words make checkpoints unusable.
    fn state(&self) -> (&'static str, Vec<(&'static str, String)>);

    /// The columns that it puts out.
    fn output(&self, keys: &[Field], inputs: &[KeyedInput]) -> Schema;

    /// What a pair of rows must fulfil besides equal keys, over left, then right columns.
    fn residual(&self) -> Option<&'a Expr> {
        None
    }

    /// What it aggregates in slots.
    fn aggregates(&self) -> Option<&'a SlotAggregates> {
        None
    }

    /// What rows of a key are ordered by.
    fn order(&self) -> &'a [SortColumn] {
        &[]
    }

    /// [`KeyedInput::reach_ms`] of its inputs, when their rows have times.
    fn reach_ms(&self) -> Option<i64> {
        None
    }

    /// Whether its output begins with the keys; else with all columns that arrive.
    fn shows_keys(&self) -> bool {
        false
    }
}

/// The columns of a join: left, right (SEMI, ANTI: left).
pub(crate) fn joined(kind: JoinKind, inputs: &[KeyedInput]) -> Schema {
    let [left, right] = inputs else { return Schema::default() };
    let optional = |is_optional: bool| move |f: &Field| Field { nullable: f.nullable || is_optional, ..f.clone() };
    let mut fields: Vec<Field> = left.schema.fields.iter().map(optional(kind.left_is_optional())).collect();
    if kind.shows_right() {
        fields.extend(right.schema.fields.iter().map(optional(kind.right_is_optional())));
    }
    Schema::new(fields)
}

/// The constant of a join's state that says which rows without a partner are kept.
pub(crate) fn join_constant(kind: JoinKind) -> (&'static str, String) {
    ("join", kind.text().to_uppercase())
}

/// The columns of its input, or of what it aggregates, and the window.
pub(crate) fn windowed(columns: impl Iterator<Item = Field>) -> Schema {
    let bounds = ["window_start", "window_end"].map(|name| Field::new(name, DataType::Timestamp(3), false));
    Schema::new(columns.chain(bounds).collect())
}

/// The columns that arrive at an operator of one input, as far as it has one.
pub(crate) fn arriving(inputs: &[KeyedInput]) -> impl Iterator<Item = Field> + '_ {
    inputs.iter().flat_map(|input| input.schema.fields.iter().cloned())
}
