//! Ranks, and so Top-N: the rows of a key are put in order when the watermark reaches their window.

use crate::keyed::{Keyed, SortColumn};
use crate::logical::RankFunction;
use crate::operators::top::Ties;
use millstream_types::{DataType, Field, Schema};

/// Ranks of the rows of a partition (the key) when the watermark reaches their `window_time`. Columns: those of the
/// input, then the rank (BIGINT).
#[derive(Debug, Clone, PartialEq)]
pub struct Rank {
    /// Order within a partition.
    pub order: Vec<SortColumn>,
    /// How ties are numbered.
    pub function: RankFunction,
    /// Ranks that are kept, from 1, both ends included.
    pub range: (u64, u64),
    /// Which of rows of equal order comes first: the first or the last.
    pub ties: Ties,
}

impl Keyed for Rank {
    fn text(&self, inputs: &Schema) -> String {
        let order = order_text(&self.order, inputs);
        format!("{} {} by [{order}]", function_text(self.function), range_text(self.range))
    }

    fn state(&self) -> (&'static str, Vec<(&'static str, String)>) {
        let (from, to) = self.range;
        let function = function_text(self.function).to_string();
        let mut constants = vec![("from", from.to_string()), ("to", to.to_string()), ("function", function)];
        if self.ties != Ties::First {
            constants.push(("ties", self.ties.text().to_string()));
        }
        ("ranking", constants)
    }

    fn appended(&self) -> Vec<Field> {
        vec![Field::new("rownum", DataType::BigInt, false)]
    }

    fn order(&self) -> &[SortColumn] {
        &self.order
    }

    /// A row behind the watermark is late for its window.
    fn reach_ms(&self) -> Option<i64> {
        Some(0)
    }
}

/// What rows of these columns are ordered by.
pub(crate) fn order_text(order: &[SortColumn], columns: &Schema) -> String {
    let name = |s: &SortColumn| columns.fields[s.column].name.clone() + direction(s.descending, s.nulls_first);
    order.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// The function in SQL. Checkpoints have it, too.
pub(crate) fn function_text(function: RankFunction) -> &'static str {
    match function {
        RankFunction::RowNumber => "ROW_NUMBER",
        RankFunction::Rank => "RANK",
        RankFunction::DenseRank => "DENSE_RANK",
    }
}

/// The ranks that are kept, as EXPLAIN shows them.
pub(crate) fn range_text((from, to): (u64, u64)) -> String {
    format!("{from} to {to}")
}

/// What EXPLAIN puts behind a column to sort by.
pub(crate) fn direction(descending: bool, nulls_first: bool) -> &'static str {
    match (descending, nulls_first) {
        (false, true) => "",
        (false, false) => " NULLS LAST",
        (true, false) => " DESC",
        (true, true) => " DESC NULLS FIRST",
    }
}
