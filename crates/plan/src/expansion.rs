//! What all flat maps have: arguments, columns that they append, and answers about themselves.

use crate::expr::Expr;
use crate::operators::lookup::LookupTable;
use crate::shape::meaning::{Digest, Digester, Known};
use millstream_types::{Field, Schema};

/// What a flat map says of itself. Its file in `operators` answers; EXPLAIN, the shape of states and the lowering ask.
pub(crate) trait Expansion {
    /// Values that it needs of each row: appended to the columns that the program before it emits.
    fn arguments(&self) -> &[Expr];

    /// Columns that it appends.
    fn appended(&self, lookups: &[LookupTable]) -> Vec<Field>;

    /// What EXPLAIN says of it, over columns of `schema`.
    fn text(&self, schema: &Schema, lookups: &[LookupTable]) -> String;

    /// What it means for the states behind it, without its arguments: its name for messages, and a digest of its constants.
    fn step(&self, brought: &Brought<'_>) -> (&'static str, Digester);
}

/// What is known where rows come to a flat map.
pub(crate) struct Brought<'a> {
    /// The columns of the rows.
    pub(crate) columns: &'a [Known],
    /// The lookup tables of the plan.
    pub(crate) lookups: &'a [LookupTable],
    /// What each of them is made of.
    pub(crate) made_of: &'a [Vec<Digest>],
}
