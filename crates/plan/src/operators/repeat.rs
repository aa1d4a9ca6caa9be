//! The repetition: each row several times, for a UNION ALL of one relation with itself.

use super::lookup::LookupTable;
use crate::expansion::{Brought, Expansion};
use crate::expr::Expr;
use crate::shape::meaning::Digester;
use millstream_types::{DataType, Field, Schema};

/// Each row `times` times. If `numbered`, appends the number of the repetition, from 0 (BIGINT).
#[derive(Debug, Clone, PartialEq)]
pub struct Repeat {
    /// At least 1.
    pub times: u64,
    /// Whether a column is appended.
    pub numbered: bool,
}

impl Expansion for Repeat {
    fn arguments(&self) -> &[Expr] {
        &[]
    }

    fn appended(&self, _: &[LookupTable]) -> Vec<Field> {
        let number = Field::new("number", DataType::BigInt, false);
        self.numbered.then_some(number).into_iter().collect()
    }

    fn text(&self, _: &Schema, _: &[LookupTable]) -> String {
        format!("repeat {} times", self.times)
    }

    fn step(&self, _: &Brought<'_>) -> (&'static str, Digester) {
        ("repeat", Digester::new("repeat").number(self.times as i64).number(i64::from(self.numbered)))
    }
}
