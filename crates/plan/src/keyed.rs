//! What all keyed operators have: inputs with keys and times, and answers about themselves.

use crate::components::{SlotAggregates, output_fields};
use crate::expr::Expr;
use crate::logical::{JoinKind, RankFunction};
use crate::operators::rank::{Rank, order_text};
use crate::operators::top::{Ties, Top};
use crate::window::Slicing;
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
    /// Which rows the exchange may leave out; `None`: none.
    pub leading: Option<Leading>,
}

/// Rows that matter only if fewer than `most` others of their window rank before them. The exchange leaves out those of which a buffer
/// alone says that they do not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leading {
    /// Which rows are compared.
    pub windows: LeadingWindows,
    /// What they are ordered by.
    pub order: Vec<SortColumn>,
    /// How equal ones count.
    pub function: RankFunction,
    /// Which of equal ones comes first: by place.
    pub ties: Ties,
    /// See above.
    pub most: usize,
}

/// Which rows are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeadingWindows {
    /// Those of one key.
    OfKey,
    /// Those of one key and one time.
    OfTime,
    /// Those of one slice of a time, whatever the key. One at the start of a slice matters in any case: it may be of the window before
    /// as well.
    Slices {
        /// Position of the time, a TIMESTAMP(3).
        time: usize,
        /// The slices.
        slicing: Slicing,
    },
}

impl Leading {
    /// Each row is compared with as many: more are not looked at.
    const MOST: u64 = 16;

    /// Those of a ranking by the keys and the time of the input; `None` if a buffer says too little.
    pub(crate) fn of_ranks(rank: &Rank, input: &KeyedInput) -> Option<Leading> {
        let Rank { order, function, range, ties } = rank;
        let serves = *ties == Ties::First && input.time.is_some();
        serves.then(|| Leading::by_key(LeadingWindows::OfTime, input, order, (*function, *ties, range.1)))?
    }

    /// Those of a ranking of all rows by the keys of the input, in which no row is taken back.
    pub(crate) fn of_all_ranks(top: &Top, input: &KeyedInput) -> Option<Leading> {
        let Top { order, function, range, ties, .. } = top;
        let serves = top.weight.is_none() && !top.is_alone && *ties != Ties::Values;
        serves.then(|| Leading::by_key(LeadingWindows::OfKey, input, order, (*function, *ties, range.1)))?
    }

    /// Those of windows of the keys of the input, up to a rank.
    fn by_key(
        windows: LeadingWindows,
        input: &KeyedInput,
        order: &[SortColumn],
        (function, ties, last): (RankFunction, Ties, u64),
    ) -> Option<Leading> {
        // Keys are compared as values to sort by, which has other zeroes than grouping, and no order for what is nested.
        let is_plain = |&key: &usize| {
            let data_type = &input.schema.fields[key].data_type;
            !data_type.is_nested() && !matches!(data_type, DataType::Float | DataType::Double)
        };
        let serves = last <= Leading::MOST && input.keys.iter().all(is_plain);
        serves.then(|| Leading { windows, order: order.to_vec(), function, ties, most: last as usize })
    }

    /// What EXPLAIN says.
    pub(crate) fn text(&self, inputs: &Schema) -> String {
        let order = order_text(&self.order, inputs);
        let windows = match self.windows {
            LeadingWindows::OfKey => " of a key".to_string(),
            LeadingWindows::OfTime => String::new(),
            LeadingWindows::Slices { slicing, .. } => format!(" in {} ms", slicing.size_ms),
        };
        format!("the first {}{windows} by [{order}]", self.most)
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

/// What a keyed operator says of itself. Its file in `operators` answers; EXPLAIN, the shape of its state, the planner, the
/// lowering and the runtime ask.
pub trait Keyed {
    /// What EXPLAIN calls it, over the columns of its inputs. Condition and components follow.
    fn text(&self, inputs: &Schema) -> String;

    /// What checkpoints call it, and its constants by name. These words stay: other words make checkpoints unusable.
    fn state(&self) -> (&'static str, Vec<(&'static str, String)>);

    /// Of a join: which rows without a partner it keeps, and what a pair of rows must fulfil besides equal keys, over left, then right
    /// columns.
    fn pairs(&self) -> Option<(JoinKind, Option<&Expr>)> {
        None
    }

    /// What a pair of rows must fulfil besides equal keys.
    fn residual(&self) -> Option<&Expr> {
        self.pairs()?.1
    }

    /// What it aggregates in slots.
    fn aggregates(&self) -> Option<&SlotAggregates> {
        None
    }

    /// Columns that it puts out behind the others.
    fn appended(&self) -> Vec<Field> {
        vec![]
    }

    /// What rows of a key are ordered by.
    fn order(&self) -> &[SortColumn] {
        &[]
    }

    /// [`KeyedInput::reach_ms`] of its inputs, when their rows have times.
    fn reach_ms(&self) -> Option<i64> {
        None
    }

    /// Whether it puts out what has changed at the end of each beat, and takes rows as they come.
    fn ends_beats(&self) -> bool {
        false
    }

    /// What it keeps for as long as the query runs, as EXPLAIN says it; `None`: what times bound. `keys` is whether its rows have keys.
    fn keeps(&self, _keys: bool) -> Option<String> {
        None
    }

    /// Whether its output begins with the keys; else with all columns that arrive.
    fn shows_keys(&self) -> bool {
        false
    }

    /// The columns that it puts out: those of the pairs of a join; else those that it shows, what it aggregates, and what it appends.
    fn output(&self, keys: &[Field], inputs: &[KeyedInput]) -> Schema {
        if let Some((kind, _)) = self.pairs() {
            return joined(kind, inputs);
        }
        let mut fields: Vec<Field> = if self.shows_keys() { keys.to_vec() } else { arriving(inputs).collect() };
        fields.extend(self.aggregates().into_iter().flat_map(|aggregates| output_fields(&aggregates.outputs)));
        fields.extend(self.appended());
        Schema::new(fields)
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

/// `window_start` and `window_end`.
pub(crate) fn window_bounds() -> Vec<Field> {
    ["window_start", "window_end"].map(|name| Field::new(name, DataType::Timestamp(3), false)).to_vec()
}

/// What EXPLAIN says of a time to live.
pub(crate) fn ttl_text(ttl_ms: Option<u64>) -> String {
    ttl_ms.map_or_else(String::new, |ms| format!(" (kept for {ms} ms)"))
}

/// The constant of a state whose entries are forgotten.
pub(crate) fn ttl_constant(name: &'static str, ttl_ms: Option<u64>) -> Option<(&'static str, String)> {
    ttl_ms.map(|ms| (name, ms.to_string()))
}

/// The column that says of a row whether it comes (1) or is taken back (-1).
pub(crate) fn weight_field() -> Field {
    Field::new("weight", DataType::TinyInt, false)
}

/// The columns that arrive at an operator of one input, as far as it has one.
pub(crate) fn arriving(inputs: &[KeyedInput]) -> impl Iterator<Item = Field> + '_ {
    inputs.iter().flat_map(|input| input.schema.fields.iter().cloned())
}
