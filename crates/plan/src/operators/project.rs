//! The projection: expressions replace the columns.

use crate::explain::shown::list;
use crate::expr::{Expr, column_name};
use millstream_types::{Field, Schema};

/// What EXPLAIN says of it.
pub(crate) fn text(columns: &[Expr], schema: &Schema) -> String {
    format!("project {}", list(columns, schema))
}

/// The columns that expressions make, called by their number.
pub fn schema_of(columns: &[Expr]) -> Schema {
    let field = |(i, e): (usize, &Expr)| Field::new(column_name(i), e.data_type.clone(), e.nullable);
    Schema::new(columns.iter().enumerate().map(field).collect())
}
