//! UNNEST: a row for each element of a collection.

use super::lookup::LookupTable;
use crate::expansion::{Brought, Expansion};
use crate::explain::shown::Shown;
use crate::expr::Expr;
use crate::shape::meaning::Digester;
use millstream_types::{Field, Schema};

/// [`FlatMap::Unnest`](super::FlatMap::Unnest).
pub(crate) struct Unnest<'a> {
    pub(crate) collection: &'a Expr,
    pub(crate) outer: bool,
    pub(crate) ordinality: bool,
    pub(crate) columns: &'a [Field],
}

impl<'a> Expansion<'a> for Unnest<'a> {
    fn arguments(&self) -> &'a [Expr] {
        std::slice::from_ref(self.collection)
    }

    fn appended(&self, _: &[LookupTable]) -> Vec<Field> {
        self.columns.to_vec()
    }

    fn text(&self, schema: &Schema, _: &[LookupTable]) -> String {
        let outer = if self.outer { " outer" } else { "" };
        format!("unnest{outer} {}", Shown(self.collection, schema))
    }

    fn step(&self, _: &Brought<'_>) -> (&'static str, Digester) {
        let digester = Digester::new("unnest").number(i64::from(self.outer));
        ("unnest", digester.number(i64::from(self.ordinality)))
    }
}
