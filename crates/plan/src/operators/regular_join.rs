//! The regular join: rows of equal keys meet as they come. A row is kept for good, or for some processing time.

use crate::expr::Expr;
use crate::keyed::Keyed;
use crate::logical::JoinKind;
use millstream_types::Schema;

/// What EXPLAIN calls it.
pub(crate) fn regular_text(ttl_ms: Option<u64>) -> String {
    ttl_ms.map_or("regular".into(), |ms| format!("regular (rows kept for {ms} ms)"))
}

/// Rows of equal keys, as they come. Columns: left, right.
#[derive(Debug, Clone, PartialEq)]
pub struct RegularJoin {
    /// Rows are forgotten after this many milliseconds of processing time.
    pub ttl_ms: Option<u64>,
    /// Over left, then right columns.
    pub residual: Option<Expr>,
}

impl Keyed for RegularJoin {
    fn text(&self, _: &Schema) -> String {
        format!("{} join", regular_text(self.ttl_ms))
    }

    fn state(&self) -> (&'static str, Vec<(&'static str, String)>) {
        let ttl = self.ttl_ms.map_or_else(|| "none".to_string(), |ms| ms.to_string());
        ("join", vec![("ttl_ms", ttl)])
    }

    fn pairs(&self) -> Option<(JoinKind, Option<&Expr>)> {
        Some((JoinKind::Inner, self.residual.as_ref()))
    }

    fn keeps(&self, _: bool) -> Option<String> {
        self.ttl_ms.is_none().then(|| "every row of both sides, so its state grows with the input".into())
    }
}
