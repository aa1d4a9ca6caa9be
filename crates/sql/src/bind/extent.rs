//! What is known of the end of an input: what needs all rows is refused where there is none.

use millstream_plan::expr::Expr;
use millstream_plan::window::end_of_input;

/// Whether all rows of a relation can be looked at together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// They are one window.
    Whole,
    /// It has an end, but is to be treated as a stream.
    Streamed,
    /// The same, but nobody sees a result before the end.
    Shown,
    /// It has no end that is known.
    Endless,
}

impl Extent {
    /// The time at which all rows are there, if nobody sees a result before.
    pub fn end(self) -> Option<Expr> {
        matches!(self, Extent::Whole | Extent::Shown).then(end_of_input)
    }

    /// How a relation comes to be one window.
    pub fn advice(self) -> &'static str {
        match self {
            Extent::Whole | Extent::Streamed | Extent::Shown => {
                "SET 'execution.runtime-mode' = 'automatic', as the input is bounded"
            }
            Extent::Endless => "SET 'execution.runtime-mode' = 'batch', if the input has an end",
        }
    }
}
