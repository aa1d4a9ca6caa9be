//! The lookup join: each row with the rows of a bounded table that have its keys.

use crate::expansion::{Brought, Expansion};
use crate::explain::shown::{condition, list, names};
use crate::expr::Expr;
use crate::keyed::join_constant;
use crate::logical::JoinKind;
use crate::shape::meaning::{Digester, Known, of_expr};
use millstream_types::{Field, Schema};

/// Rows by key that pipelines look up: complete before the first one does, and never changed after that.
#[derive(Debug, Clone, PartialEq)]
pub struct LookupTable {
    /// Name for EXPLAIN.
    pub name: String,
    /// Columns.
    pub schema: Schema,
    /// Positions of the keys among them. NULL equals nothing: the planner has filtered rows with such keys out.
    pub keys: Vec<usize>,
}

impl LookupTable {
    /// What EXPLAIN says of it.
    pub(crate) fn text(&self) -> String {
        let all: Vec<usize> = (0..self.schema.fields.len()).collect();
        let (keys, columns) = (names(&self.schema, &self.keys), names(&self.schema, &all));
        format!("{} by {keys}, rows [{columns}]", self.name)
    }
}

/// Once for each row of a lookup table with the same keys for which the residual is TRUE. Appends the columns of
/// that row; SEMI and ANTI append nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Lookup {
    /// Index into [`QueryPlan::lookups`](crate::pipeline::QueryPlan::lookups).
    pub table: usize,
    /// Inner, Left, Semi or Anti.
    pub kind: JoinKind,
    /// Values of the table's keys, in their order and of their types.
    pub keys: Vec<Expr>,
    /// Over the columns before the flat map, then those of the table.
    pub residual: Option<Expr>,
}

impl Expansion for Lookup {
    fn arguments(&self) -> &[Expr] {
        &self.keys
    }

    fn appended(&self, lookups: &[LookupTable]) -> Vec<Field> {
        if !self.kind.shows_right() {
            return vec![];
        }
        let optional = |f: &Field| Field { nullable: f.nullable || self.kind.right_is_optional(), ..f.clone() };
        lookups[self.table].schema.fields.iter().map(optional).collect()
    }

    fn text(&self, schema: &Schema, lookups: &[LookupTable]) -> String {
        let Lookup { table, kind, keys, residual } = self;
        let both = schema.fields.iter().chain(&lookups[*table].schema.fields).cloned().collect();
        let residual = condition(residual.as_ref(), &Schema::new(both));
        format!("probe lookup {table} ({}) by {}{residual}", kind.text(), list(keys, schema))
    }

    fn step(&self, brought: &Brought<'_>) -> (&'static str, Digester) {
        let table = &brought.lookups[self.table];
        let (_, kind) = join_constant(self.kind);
        let digester = Digester::new("lookup").text(&kind).digests(brought.made_of[self.table].iter().copied());
        let digester = table.keys.iter().fold(digester, |digester, &key| digester.number(key as i64));
        // Over the columns before, then those of the table by their positions.
        let position = |i| Known::Value(Digester::new("looked up").number(i as i64).end());
        let both: Vec<Known> =
            brought.columns.iter().copied().chain((0..table.schema.fields.len()).map(position)).collect();
        ("lookup by", digester.digests(self.residual.iter().map(|residual| of_expr(residual, &both))))
    }
}
