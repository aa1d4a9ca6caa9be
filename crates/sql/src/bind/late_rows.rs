//! Where late rows go: the table option `'late.table'`.
//!
//! The option names a table of the catalog. It is resolved when the first table is scanned, so that either may be
//! created first.

use super::place::{at, columns_text, error};
use super::query::QueryBinder;
use millstream_plan::expr::Span;
use millstream_plan::logical::Table;
use millstream_types::{DataType, Diagnostic, code};
use sqlparser::ast::Ident;
use std::sync::Arc;

/// The option of a table that names the table for its late rows.
const LATE_TABLE: &str = "late.table";

impl QueryBinder<'_> {
    /// The table for the late rows of `table`, which is scanned at `place`.
    ///
    /// # Errors
    /// UNKNOWN_TABLE when there is none of the name, SCHEMA_MISMATCH when it does not take the rows of `table`.
    pub(super) fn late_table(&self, table: &Table, place: Span) -> Result<Option<Arc<Table>>, Diagnostic> {
        let Some(name) = table.options.get(LATE_TABLE) else { return Ok(None) };
        let path: Vec<Ident> = name.split('.').map(|part| Ident::new(part.trim().trim_matches('`'))).collect();
        let late = self.catalog.lookup_table(&path).map_err(|e| {
            let message = format!("'{LATE_TABLE}' of `{}`: {}", table.name, e.message);
            let placed = at(Diagnostic::new(e.code, message), place);
            placed.advise(e.advice.unwrap_or_else(|| "name a table that late rows can be written to".into()))
        })?;
        if late.name == table.name {
            let message = format!("'{LATE_TABLE}' of `{name}` is the table itself");
            return Err(error(code::SCHEMA_MISMATCH, place, message).advise("name another table"));
        }
        let writable = late.writable();
        let fits = |(column, &target): (&millstream_plan::logical::TableColumn, &usize)| {
            holds(&late.columns[target].field.data_type, &column.field.data_type)
        };
        if writable.len() == table.columns.len() && table.columns.iter().zip(&writable).all(fits) {
            return Ok(Some(late));
        }
        let message = format!("'{LATE_TABLE}': the columns of `{}` are not those of `{}`", late.name, table.name);
        let wanted = columns_text(table.columns.iter().map(|column| &column.field));
        let found = columns_text(writable.into_iter().map(|i| &late.columns[i].field));
        Err(error(code::SCHEMA_MISMATCH, place, message)
            .advise(format!("late rows have the columns [{wanted}]; `{}` takes [{found}]", late.name)))
    }
}

/// Whether a column of type `to` takes values of type `from` as they are: lengths of strings are not enforced.
fn holds(to: &DataType, from: &DataType) -> bool {
    to == from || to.is_string() && from.is_string() || to.is_binary() && from.is_binary()
}
