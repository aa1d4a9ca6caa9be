//! Produce before a lookup join, and its other programs: the groups of the table's rows by their keys, the probe with the keys of
//! a row, and the condition of a pair.

use super::Lowering;
use super::keyed::{lower_condition, lower_keys};
use super::lowered::Lowered;
use crate::programs::FlatMapped;
use millstream_plan::expr::Expr;
use millstream_plan::operators::project::schema_of;
use millstream_plan::pipeline::LookupTable;
use millstream_types::{Diagnostic, Field, Schema};
use std::sync::Arc;

impl Lowering<'_> {
    /// Ends the stage: the keys that are looked up are emitted behind the columns.
    pub(super) fn lookup(self, name: &str, keys: &[Expr]) -> Result<Lowered, Diagnostic> {
        self.emit_with(name, keys)
    }
}

/// The program that groups the rows of table `index` by their keys.
pub(super) fn keys_of_table(index: usize, table: &LookupTable) -> Result<Arc<Lowered>, Diagnostic> {
    let name = format!("keys of lookup {index}");
    lower_keys(&name, &table.schema, &table.keys, &key_fields(table)).map(Arc::new)
}

/// Probe and condition of a lookup join of a pipeline, whose rows have columns of `schema`.
pub(super) fn probe(
    pipeline: usize,
    (index, table): (usize, &LookupTable),
    keys: &[Expr],
    residual: Option<&Expr>,
    schema: &Schema,
) -> Result<FlatMapped<Arc<Lowered>>, Diagnostic> {
    let positions: Vec<usize> = (0..keys.len()).collect();
    let name = format!("probe of lookup {index} in pipeline {pipeline}");
    let probe = lower_keys(&name, &schema_of(keys), &positions, &key_fields(table))?;
    let both = Schema::new(schema.fields.iter().chain(&table.schema.fields).cloned().collect());
    let name = format!("condition of lookup {index} in pipeline {pipeline}");
    let residual = residual.map(|r| lower_condition(&name, &both, r)).transpose()?;
    Ok(FlatMapped { probe: Some(Arc::new(probe)), residual: residual.map(Arc::new) })
}

/// The keys of a lookup table's entries. None of them is NULL, but what is looked up can be.
fn key_fields(table: &LookupTable) -> Vec<Field> {
    table.keys.iter().map(|&i| Field { nullable: true, ..table.schema.fields[i].clone() }).collect()
}
