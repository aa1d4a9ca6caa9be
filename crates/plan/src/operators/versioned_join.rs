//! The versioned join: a row of the left meets the newest row of the right up to its time.

use crate::expr::Expr;
use crate::keyed::{Keyed, join_constant};
use crate::logical::JoinKind;
use millstream_types::Schema;

/// Rows of the left with the version of their key, the newest row of the right up to their time; output when the watermark
/// reaches that. Columns: left, right.
#[derive(Debug, Clone, PartialEq)]
pub struct VersionedJoin {
    /// Inner or Left.
    pub kind: JoinKind,
    /// Over left, then right columns.
    pub residual: Option<Expr>,
}

impl Keyed for VersionedJoin {
    fn text(&self, _: &Schema) -> String {
        format!("{} versioned join", self.kind.text())
    }

    fn state(&self) -> (&'static str, Vec<(&'static str, String)>) {
        ("versioned join", vec![join_constant(self.kind)])
    }

    fn pairs(&self) -> Option<(JoinKind, Option<&Expr>)> {
        Some((self.kind, self.residual.as_ref()))
    }
}
