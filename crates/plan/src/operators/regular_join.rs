//! The regular join: rows of equal keys meet as they come. A row is kept for good, or for some processing time.

use crate::expr::Expr;
use crate::keyed::Keyed;
use crate::logical::JoinKind;
use millstream_types::Schema;

/// What EXPLAIN calls it.
pub(crate) fn regular_text(ttl_ms: [Option<u64>; 2]) -> String {
    format!("regular{}", ttls_text(ttl_ms))
}

/// How long rows of each side are kept.
pub(crate) fn ttls_text(ttl_ms: [Option<u64>; 2]) -> String {
    match ttl_ms {
        [left, right] if left == right => left.map_or_else(String::new, |ms| format!(" (rows kept for {ms} ms)")),
        sides => {
            let text = |ttl: Option<u64>| ttl.map_or_else(|| "for good".to_string(), |ms| format!("for {ms} ms"));
            let [left, right] = sides.map(text);
            format!(" (rows of the left kept {left}, of the right {right})")
        }
    }
}

/// The sides of which every row is kept.
pub(crate) fn growing_sides(ttl_ms: [Option<u64>; 2]) -> Option<String> {
    let sides = match ttl_ms.map(|ttl| ttl.is_none()) {
        [true, true] => "both sides",
        [true, false] => "the left side",
        [false, true] => "the right side",
        [false, false] => return None,
    };
    Some(format!("every row of {sides}, so its state grows with the input"))
}

/// Rows of equal keys, as they come. Columns: left, right.
#[derive(Debug, Clone, PartialEq)]
pub struct RegularJoin {
    /// Rows of each side are forgotten after this many milliseconds of processing time.
    pub ttl_ms: [Option<u64>; 2],
    /// Over left, then right columns.
    pub residual: Option<Expr>,
}

impl Keyed for RegularJoin {
    fn text(&self, _: &Schema) -> String {
        format!("{} join", regular_text(self.ttl_ms))
    }

    fn state(&self) -> (&'static str, Vec<(&'static str, String)>) {
        let text = |ttl: Option<u64>| ttl.map_or_else(|| "none".to_string(), |ms| ms.to_string());
        let [left, right] = self.ttl_ms;
        let mut constants = vec![("ttl_ms", text(left))];
        if left != right {
            constants.push(("right_ttl_ms", text(right)));
        }
        ("join", constants)
    }

    fn pairs(&self) -> Option<(JoinKind, Option<&Expr>)> {
        Some((JoinKind::Inner, self.residual.as_ref()))
    }

    fn keeps(&self, _: bool) -> Option<String> {
        growing_sides(self.ttl_ms)
    }
}
