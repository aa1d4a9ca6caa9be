//! Tables that are files: `FROM 'clicks.jsonl'`, and the columns of tables that name none.

use super::{Catalog, CatalogEntry, Connectors};
use crate::ddl::{ColumnDefinition, ColumnSource, TableDefinition, WatermarkDefinition, span_of};
use crate::describe::show_create_table;
use crate::diagnostics::{at_span, error_at};
use millstream_types::{DataType, Diagnostic, Field, Inferred, InferredTime, Place, code};
use sqlparser::ast::Ident;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// The least time that rows may be late by, in the watermark that is proposed.
const LEAST_DELAY_SECONDS: u64 = 5;
/// Ends of the names of files that a table may have been meant as.
const EXTENSIONS: [&str; 6] = ["jsonl", "ndjson", "json", "csv", "parquet", "arrow"];

/// The files that a statement has named, so that all its parts see the same columns. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct FileTables {
    tables: Arc<Mutex<BTreeMap<String, CatalogEntry>>>,
}

/// Whether a part of a name is the path of a file, which single quotes make it.
pub(crate) fn is_path(part: &Ident) -> bool {
    part.quote_style == Some('\'')
}

/// What a file is called: its name without directories and what follows the first point.
pub fn file_stem(path: &str) -> &str {
    if path == "-" {
        return "stdin";
    }
    let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or(path);
    name.split('.').next().filter(|stem| !stem.is_empty()).unwrap_or(name)
}

impl Catalog {
    /// This catalog for another statement: files are looked at again.
    #[must_use]
    pub fn for_statement(&self) -> Catalog {
        Catalog { files: FileTables::default(), ..self.clone() }
    }

    /// The table that a file is, named by its path.
    pub(super) fn file_table(&self, path: &Ident) -> Result<CatalogEntry, Diagnostic> {
        let known = || self.files.tables.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = known().get(&path.value) {
            return Ok(entry.clone());
        }
        let (definition, _) = self.file_definition(path, path.clone())?;
        let entry = CatalogEntry::Table(Arc::new(self.entry(&path.value, definition)?));
        known().insert(path.value.clone(), entry.clone());
        Ok(entry)
    }

    /// A statement that creates a table for a file, a directory or a glob, with a watermark if a column says when things happened.
    ///
    /// # Errors
    /// The file is not there, or does not say which columns it has.
    pub fn schema_statement(&self, path: &str, name: &str) -> Result<String, Diagnostic> {
        let (mut definition, event_time) = self.file_definition(&Ident::new(path), Ident::with_quote('`', name))?;
        if let Some(event_time) = event_time {
            watermark(&mut definition, &event_time)?;
        }
        Ok(show_create_table(&self.entry(name, definition)?))
    }

    fn file_definition(
        &self,
        path: &Ident,
        name: Ident,
    ) -> Result<(TableDefinition, Option<InferredTime>), Diagnostic> {
        let connectors = self.connectors.ok_or_else(|| self.unknown(std::slice::from_ref(path)))?;
        // The place is that of the path in the statement: the user has not written the options.
        let placed = |error: Diagnostic| match error.place {
            None | Some(Place::Option(_)) => at_span(error, path.span),
            _ => error,
        };
        let options = (connectors.file)(&path.value).map_err(placed)?;
        let value = |key: &str| Some((key.to_string(), options.get(key)?.to_string()));
        let options = ["connector", "path", "format"].into_iter().filter_map(value).collect();
        let definition = TableDefinition { name: vec![name], options, ..TableDefinition::default() };
        self.with_inferred(definition, connectors).map_err(placed)
    }

    /// The definition with the columns that its input says, in front of those that it has.
    pub(super) fn with_inferred(
        &self,
        mut definition: TableDefinition,
        connectors: Connectors,
    ) -> Result<(TableDefinition, Option<InferredTime>), Diagnostic> {
        let name = definition.name.last().map(|name| name.value.clone()).unwrap_or_default();
        let options = definition.options.iter().cloned().collect();
        let Inferred { columns, partitions, options, event_time } = (connectors.infer)(&name, &options)?;
        let own: Vec<&str> = definition.columns.iter().map(|column| column.name.value.as_str()).collect();
        let is_new = |field: &&Field| !own.contains(&field.name.as_str());
        let inferred: Vec<ColumnDefinition> = columns.iter().chain(&partitions).filter(is_new).map(column).collect();
        if definition.partitioned_by.is_empty() {
            definition.partitioned_by = partitions.iter().filter(is_new).map(|field| ident(&field.name)).collect();
        }
        definition.columns.splice(0..0, inferred);
        definition.options.extend(options);
        Ok((definition, event_time))
    }

    /// What to do about a table that is not there, if there is a file that may be meant.
    pub(super) fn file_advice(&self, name: &str) -> Option<String> {
        self.connectors?;
        if name.contains(['/', '.', '*']) && Path::new(name).exists() {
            return Some(format!("a file is named in single quotes: FROM '{name}'"));
        }
        let path =
            EXTENSIONS.iter().map(|extension| format!("{name}.{extension}")).find(|path| Path::new(path).is_file())?;
        let statement = self.schema_statement(&path, name).ok()?;
        Some(format!("there is a file: write FROM '{path}', or create the table:\n\n{statement};"))
    }
}

fn ident(name: &str) -> Ident {
    Ident::with_quote('`', name)
}

/// Columns that are defined by their fields.
pub(super) fn columns(fields: &[Field]) -> Vec<ColumnDefinition> {
    fields.iter().map(column).collect()
}

fn column(field: &Field) -> ColumnDefinition {
    let source = ColumnSource::Physical { data_type: field.data_type.clone(), nullable: field.nullable };
    ColumnDefinition { name: ident(&field.name), source, comment: None }
}

/// Adds the watermark of a column, which takes milliseconds then.
fn watermark(definition: &mut TableDefinition, event_time: &InferredTime) -> Result<(), Diagnostic> {
    let Some(column) = definition.columns.iter_mut().find(|column| column.name.value == event_time.column) else {
        return Ok(());
    };
    if let ColumnSource::Physical { data_type, .. } = &mut column.source {
        match data_type {
            DataType::Timestamp(precision) | DataType::TimestampLtz(precision) => *precision = (*precision).min(3),
            _ => return Ok(()),
        }
    }
    // A row as old as the watermark is late: a second more than has been seen.
    let seconds = (event_time.delay.as_secs() + 1).max(LEAST_DELAY_SECONDS);
    let (amount, unit) = match seconds {
        0..60 => (seconds, "SECOND"),
        60..3_600 => (seconds.div_ceil(60), "MINUTE"),
        3_600..86_400 => (seconds.div_ceil(3_600), "HOUR"),
        _ => (seconds.div_ceil(86_400), "DAY"),
    };
    let digits = amount.to_string().len();
    let precision = if digits > 2 { format!("({digits})") } else { String::new() };
    let name = column.name.clone();
    let text = format!("{name} - INTERVAL '{amount}' {unit}{precision}");
    let expression = crate::statement::parse_expression(&text)
        .map_err(|error| Diagnostic::bug(format!("the watermark {text} cannot be read: {}", error.message)))?;
    definition.watermark = Some(WatermarkDefinition { column: name, expression });
    Ok(())
}

/// The error for a file that is written to as if it was a table.
pub(super) fn not_writable(name: &[Ident]) -> Diagnostic {
    error_at(code::NOT_A_SINK, span_of(name), "a file is written by a table that names it")
        .advise("write CREATE TABLE t WITH ('connector' = 'filesystem', 'path' = '…', 'format' = '…') AS SELECT …")
}
