//! The changing join: a regular join whose rows may be taken back, because rows of an input are, or because a partner comes.

use crate::expr::Expr;
use crate::keyed::{Keyed, KeyedInput, join_constant, joined, ttl_constant, weight_field};
use crate::logical::JoinKind;
use crate::operators::regular_join::{growing_sides, ttls_text};
use millstream_types::{Field, Schema};

/// Rows of equal keys. At the end of a beat the pairs that have come are put out with weight 1, and those that are gone with weight -1; so
/// are rows without a partner, as the kind asks. Columns: left, right (SEMI, ANTI: left), the weight.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangingJoin {
    /// Any.
    pub kind: JoinKind,
    /// Over left, then right columns.
    pub residual: Option<Expr>,
    /// Of each input that changes the position of its weight.
    pub weights: [Option<usize>; 2],
    /// For how many milliseconds of processing time a row of each side is kept that is not written again; `None`: for good.
    pub ttl_ms: [Option<u64>; 2],
}

impl Keyed for ChangingJoin {
    fn text(&self, _: &Schema) -> String {
        let side = |(weight, name): (Option<usize>, &'static str)| weight.map(|_| name);
        let sides: Vec<&str> = self.weights.into_iter().zip(["left", "right"]).filter_map(side).collect();
        let changes = match sides.as_slice() {
            [] => String::new(),
            sides => format!(" of changes ({})", sides.join(", ")),
        };
        format!("{} join of all rows{changes}{}", self.kind.text(), ttls_text(self.ttl_ms))
    }

    fn state(&self) -> (&'static str, Vec<(&'static str, String)>) {
        let changes = self.weights.map(|weight| if weight.is_some() { "changes" } else { "rows" }).join(", ");
        let mut constants = vec![join_constant(self.kind), ("inputs", changes)];
        constants.extend(ttl_constant("left_ttl_ms", self.ttl_ms[0]));
        constants.extend(ttl_constant("right_ttl_ms", self.ttl_ms[1]));
        ("join of all rows", constants)
    }

    fn pairs(&self) -> Option<(JoinKind, Option<&Expr>)> {
        Some((self.kind, self.residual.as_ref()))
    }

    fn ends_beats(&self) -> bool {
        true
    }

    fn keeps(&self, _: bool) -> Option<String> {
        growing_sides(self.ttl_ms)
    }

    fn output(&self, _: &[Field], inputs: &[KeyedInput]) -> Schema {
        let mut schema = joined(self.kind, inputs);
        schema.fields.push(weight_field());
        schema
    }
}
