//! The window join: rows of equal keys in equal windows meet when the watermark reaches the end of the window.

use crate::expr::Expr;
use crate::keyed::{Keyed, KeyedInput, join_constant, joined};
use crate::logical::JoinKind;
use millstream_types::{Field, Schema};

/// [`KeyedKind::WindowJoin`](super::KeyedKind::WindowJoin).
pub(crate) struct WindowJoin<'a> {
    pub(crate) kind: JoinKind,
    pub(crate) residual: Option<&'a Expr>,
}

impl<'a> Keyed<'a> for WindowJoin<'a> {
    fn text(&self, _: &Schema) -> String {
        format!("{} window join", self.kind.text())
    }

    fn state(&self) -> (&'static str, Vec<(&'static str, String)>) {
        ("window join", vec![join_constant(self.kind)])
    }

    fn output(&self, _: &[Field], inputs: &[KeyedInput]) -> Schema {
        joined(self.kind, inputs)
    }

    fn residual(&self) -> Option<&'a Expr> {
        self.residual
    }

    /// A row behind the watermark is late for its window.
    fn reach_ms(&self) -> Option<i64> {
        Some(0)
    }
}
