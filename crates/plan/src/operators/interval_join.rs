//! The interval join: rows of equal keys meet when their times lie close together. A row is kept while a partner can come.

use crate::expr::Expr;
use crate::keyed::{Keyed, join_constant};
use crate::logical::JoinKind;
use millstream_types::Schema;

/// Rows of equal keys with `right + lower ≤ left ≤ right + upper`. Output watermark: held back so that no output is
/// late. Columns: left, right.
#[derive(Debug, Clone, PartialEq)]
pub struct IntervalJoin {
    /// Inner, Left, Right or Full.
    pub kind: JoinKind,
    /// Milliseconds.
    pub lower_ms: i64,
    /// Milliseconds.
    pub upper_ms: i64,
    /// Over left, then right columns.
    pub residual: Option<Expr>,
}

impl Keyed for IntervalJoin {
    fn text(&self, _: &Schema) -> String {
        let IntervalJoin { kind, lower_ms, upper_ms, .. } = self;
        format!("{} interval join, left from right {lower_ms:+} ms to {upper_ms:+} ms", kind.text())
    }

    fn state(&self) -> (&'static str, Vec<(&'static str, String)>) {
        let bounds = [("lower_ms", self.lower_ms.to_string()), ("upper_ms", self.upper_ms.to_string())];
        ("interval join", [join_constant(self.kind)].into_iter().chain(bounds).collect())
    }

    fn pairs(&self) -> Option<(JoinKind, Option<&Expr>)> {
        Some((self.kind, self.residual.as_ref()))
    }
}
