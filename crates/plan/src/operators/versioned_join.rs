//! The versioned join: a row of the left meets the newest row of the right up to its time.

use crate::expr::Expr;
use crate::keyed::{Keyed, KeyedInput, join_constant, joined};
use crate::logical::JoinKind;
use millstream_types::{Field, Schema};

/// [`KeyedKind::VersionedJoin`](super::KeyedKind::VersionedJoin).
pub(crate) struct VersionedJoin<'a> {
    pub(crate) kind: JoinKind,
    pub(crate) residual: Option<&'a Expr>,
}

impl<'a> Keyed<'a> for VersionedJoin<'a> {
    fn text(&self, _: &Schema) -> String {
        format!("{} versioned join", self.kind.text())
    }

    fn state(&self) -> (&'static str, Vec<(&'static str, String)>) {
        ("versioned join", vec![join_constant(self.kind)])
    }

    fn output(&self, _: &[Field], inputs: &[KeyedInput]) -> Schema {
        joined(self.kind, inputs)
    }

    fn residual(&self) -> Option<&'a Expr> {
        self.residual
    }
}
