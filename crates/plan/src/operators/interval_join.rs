//! The interval join: rows of equal keys meet when their times lie close together. A row is kept while a partner can come.

use crate::expr::Expr;
use crate::keyed::{Keyed, KeyedInput, join_constant, joined};
use crate::logical::JoinKind;
use millstream_types::{Field, Schema};

/// [`KeyedKind::IntervalJoin`](super::KeyedKind::IntervalJoin).
pub(crate) struct IntervalJoin<'a> {
    pub(crate) kind: JoinKind,
    pub(crate) lower_ms: i64,
    pub(crate) upper_ms: i64,
    pub(crate) residual: Option<&'a Expr>,
}

impl<'a> Keyed<'a> for IntervalJoin<'a> {
    fn text(&self, _: &Schema) -> String {
        let IntervalJoin { kind, lower_ms, upper_ms, .. } = self;
        format!("{} interval join, left from right {lower_ms:+} ms to {upper_ms:+} ms", kind.text())
    }

    fn state(&self) -> (&'static str, Vec<(&'static str, String)>) {
        let bounds = [("lower_ms", self.lower_ms.to_string()), ("upper_ms", self.upper_ms.to_string())];
        ("interval join", [join_constant(self.kind)].into_iter().chain(bounds).collect())
    }

    fn output(&self, _: &[Field], inputs: &[KeyedInput]) -> Schema {
        joined(self.kind, inputs)
    }

    fn residual(&self) -> Option<&'a Expr> {
        self.residual
    }
}
