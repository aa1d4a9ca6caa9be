//! The window join: rows of equal keys in equal windows meet when the watermark reaches the end of the window.

use crate::expr::Expr;
use crate::keyed::{Keyed, join_constant};
use crate::logical::JoinKind;
use millstream_types::Schema;

/// Rows of equal keys and equal `window_time`; output when the watermark reaches that. Columns: left, right (SEMI, ANTI: left).
#[derive(Debug, Clone, PartialEq)]
pub struct WindowJoin {
    /// Any.
    pub kind: JoinKind,
    /// Over left, then right columns.
    pub residual: Option<Expr>,
}

impl Keyed for WindowJoin {
    fn text(&self, _: &Schema) -> String {
        format!("{} window join", self.kind.text())
    }

    fn state(&self) -> (&'static str, Vec<(&'static str, String)>) {
        ("window join", vec![join_constant(self.kind)])
    }

    fn pairs(&self) -> Option<(JoinKind, Option<&Expr>)> {
        Some((self.kind, self.residual.as_ref()))
    }

    /// A row behind the watermark is late for its window.
    fn reach_ms(&self) -> Option<i64> {
        Some(0)
    }
}
