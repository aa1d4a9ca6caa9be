//! Top-N and deduplication of all rows so far: what ranks first changes with every beat.

use crate::keyed::{Keyed, SortColumn, ttl_constant, ttl_text, weight_field};
use crate::logical::RankFunction;
use crate::operators::rank::{function_text, order_text, range_text};
use millstream_types::{DataType, Field, Schema, counted};

/// Ranks of the rows of a partition (the key). At the end of a beat the rows whose rank has changed are put out: as it was, with weight
/// -1, and as it is, with weight 1. Columns: those of the input, the rank (BIGINT) if it is shown, the weight.
#[derive(Debug, Clone, PartialEq)]
pub struct Top {
    /// Order within a partition.
    pub order: Vec<SortColumn>,
    /// How ties are numbered.
    pub function: RankFunction,
    /// Ranks that are kept, from 1, both ends included.
    pub range: (u64, u64),
    /// Which of rows of equal order comes first.
    pub ties: Ties,
    /// Whether the rank is put out.
    pub shows_rank: bool,
    /// Position of the weight in an input that changes.
    pub weight: Option<usize>,
    /// Whether a second row of a partition is an error.
    pub is_alone: bool,
    /// For how many milliseconds of processing time the rows of a partition are kept when none is added; `None`: for good.
    pub ttl_ms: Option<u64>,
}

/// Which of two rows of equal order comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ties {
    /// The one that came first.
    First,
    /// The one that came last: deduplication by time that keeps the last row.
    Last,
    /// The one with smaller values, column by column: rows of a result that changes, or of a regular join, have no places.
    Values,
}

impl Ties {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Ties::First => "first",
            Ties::Last => "last",
            Ties::Values => "by value",
        }
    }
}

impl Keyed for Top {
    fn text(&self, inputs: &Schema) -> String {
        let (function, range) = (function_text(self.function), range_text(self.range));
        let (order, ties, ttl) = (order_text(&self.order, inputs), self.ties.text(), ttl_text(self.ttl_ms));
        if self.is_alone {
            return format!("one row of each key{ttl}");
        }
        format!("{function} {range} of all rows by [{order}], ties {ties}{ttl}")
    }

    fn state(&self) -> (&'static str, Vec<(&'static str, String)>) {
        let (from, to) = self.range;
        let mut constants = vec![
            ("from", from.to_string()),
            ("to", to.to_string()),
            ("function", function_text(self.function).to_string()),
            ("ties", self.ties.text().to_string()),
        ];
        constants.extend(ttl_constant("ttl_ms", self.ttl_ms));
        constants.extend(self.is_alone.then(|| ("alone", "true".to_string())));
        (if self.weight.is_some() { "ranking of changes" } else { "ranking of all rows" }, constants)
    }

    fn appended(&self) -> Vec<Field> {
        let rank = self.shows_rank.then(|| Field::new("rownum", DataType::BigInt, false));
        rank.into_iter().chain([weight_field()]).collect()
    }

    fn order(&self) -> &[SortColumn] {
        &self.order
    }

    fn ends_beats(&self) -> bool {
        true
    }

    fn keeps(&self, keys: bool) -> Option<String> {
        if self.ttl_ms.is_some() {
            return None;
        }
        // A second row of one that is alone ends the query.
        Some(match (self.weight, if self.is_alone { 1 } else { self.range.1 }) {
            (Some(_), _) | (None, u64::MAX) => "every row, so its state grows with the input".into(),
            (None, most) => {
                let rows = counted(most as usize, "row");
                let of = if keys { " for each key, so its state grows with the keys" } else { "" };
                format!("{rows}{of}")
            }
        })
    }
}
