//! UNNEST: a row for each element of a collection.

use super::lookup::LookupTable;
use crate::expansion::{Brought, Expansion};
use crate::explain::shown::Shown;
use crate::expr::Expr;
use crate::shape::meaning::Digester;
use millstream_types::{Field, Schema};

/// Once for each element of a collection.
#[derive(Debug, Clone, PartialEq)]
pub struct Unnest {
    /// ARRAY or MAP.
    pub collection: Expr,
    /// Whether a row without elements is kept, with NULL.
    pub outer: bool,
    /// Whether the last of `columns` is the position of the element from 1.
    pub ordinality: bool,
    /// The appended columns.
    pub columns: Vec<Field>,
}

impl Expansion for Unnest {
    fn arguments(&self) -> &[Expr] {
        std::slice::from_ref(&self.collection)
    }

    fn appended(&self, _: &[LookupTable]) -> Vec<Field> {
        self.columns.clone()
    }

    fn text(&self, schema: &Schema, _: &[LookupTable]) -> String {
        let outer = if self.outer { " outer" } else { "" };
        format!("unnest{outer} {}", Shown(&self.collection, schema))
    }

    fn step(&self, _: &Brought<'_>) -> (&'static str, Digester) {
        let digester = Digester::new("unnest").number(i64::from(self.outer));
        ("unnest", digester.number(i64::from(self.ordinality)))
    }
}
