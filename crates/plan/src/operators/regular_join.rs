//! The regular join: rows of equal keys meet as they come. A row is kept for good, or for some processing time.

use crate::expr::Expr;
use crate::keyed::{Keyed, KeyedInput, joined};
use crate::logical::JoinKind;
use millstream_types::{Field, Schema};

/// What EXPLAIN calls it.
pub(crate) fn regular_text(ttl_ms: Option<u64>) -> String {
    ttl_ms.map_or("regular".into(), |ms| format!("regular (rows kept for {ms} ms)"))
}

/// [`KeyedKind::RegularJoin`](super::KeyedKind::RegularJoin).
pub(crate) struct RegularJoin<'a> {
    pub(crate) ttl_ms: Option<u64>,
    pub(crate) residual: Option<&'a Expr>,
}

impl<'a> Keyed<'a> for RegularJoin<'a> {
    fn text(&self, _: &Schema) -> String {
        format!("{} join", regular_text(self.ttl_ms))
    }

    fn state(&self) -> (&'static str, Vec<(&'static str, String)>) {
        let ttl = self.ttl_ms.map_or_else(|| "none".to_string(), |ms| ms.to_string());
        ("join", vec![("ttl_ms", ttl)])
    }

    fn output(&self, _: &[Field], inputs: &[KeyedInput]) -> Schema {
        joined(JoinKind::Inner, inputs)
    }

    fn residual(&self) -> Option<&'a Expr> {
        self.residual
    }
}
