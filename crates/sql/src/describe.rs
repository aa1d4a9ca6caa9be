//! `DESCRIBE` and `SHOW CREATE …`: what the catalog knows, in Flink's words.

use crate::catalog::{CatalogEntry, TableEntry, View};
use crate::ddl::{ColumnDefinition, ColumnSource};
use millstream_types::secret;
use std::fmt::Write;

/// The columns of DESCRIBE's result.
pub const DESCRIBE_COLUMNS: [&str; 6] = ["name", "type", "null", "key", "extras", "watermark"];

/// A row of DESCRIBE's result, one for each column of the table; what does not apply is `None`.
pub type DescribeRow = [Option<String>; 6];

/// The rows of `DESCRIBE name`.
pub fn describe(relation: &CatalogEntry) -> Vec<DescribeRow> {
    match relation {
        CatalogEntry::Table(entry) => describe_table(entry),
        CatalogEntry::View(view) => {
            let row = |f: &millstream_types::Field| {
                let null = f.nullable.to_string().to_uppercase();
                [Some(f.name.clone()), Some(f.data_type.to_string()), Some(null), None, None, None]
            };
            view.schema.fields.iter().map(row).collect()
        }
    }
}

fn describe_table(entry: &TableEntry) -> Vec<DescribeRow> {
    let (table, definition) = (&entry.table, &entry.definition);
    let key_names: Vec<&str> = table.primary_key.iter().map(|&i| table.columns[i].field.name.as_str()).collect();
    let key = format!("PRI({})", key_names.join(", "));
    let row = |(i, column): (usize, &millstream_plan::logical::TableColumn)| {
        let watermark = definition.watermark.as_ref().filter(|w| w.column.value == column.field.name);
        let rowtime = if watermark.is_some() { " *ROWTIME*" } else { "" };
        let source = &definition.columns[i].source;
        [
            Some(column.field.name.clone()),
            Some(format!("{}{rowtime}", column.field.data_type)),
            Some(column.field.nullable.to_string().to_uppercase()),
            table.primary_key.contains(&i).then(|| key.clone()),
            extras(source),
            watermark.map(|w| w.expression.to_string()),
        ]
    };
    table.columns.iter().enumerate().map(row).collect()
}

/// What is special about a column's source.
fn extras(source: &ColumnSource) -> Option<String> {
    match source {
        ColumnSource::Physical { .. } => None,
        ColumnSource::Computed(expression) => Some(format!("AS {expression}")),
        ColumnSource::Metadata { key, is_virtual, .. } => Some(metadata(key.as_deref(), *is_virtual)),
    }
}

fn metadata(key: Option<&str>, is_virtual: bool) -> String {
    let from = key.map(|k| format!(" FROM {}", quoted(k))).unwrap_or_default();
    format!("METADATA{from}{}", if is_virtual { " VIRTUAL" } else { "" })
}

/// The text of `SHOW CREATE TABLE`: a statement that creates the same table, but for secrets, which are masked.
pub fn show_create_table(entry: &TableEntry) -> String {
    let (table, definition) = (&entry.table, &entry.definition);
    let mut elements: Vec<String> = definition.columns.iter().map(column_text).collect();
    if let Some(watermark) = &definition.watermark {
        elements.push(format!("WATERMARK FOR {} AS {}", name(&watermark.column.value), watermark.expression));
    }
    if !table.primary_key.is_empty() {
        let names: Vec<String> = table.primary_key.iter().map(|&i| name(&table.columns[i].field.name)).collect();
        elements.push(format!("PRIMARY KEY ({}) NOT ENFORCED", names.join(", ")));
    }
    let temporary = if definition.temporary { "TEMPORARY " } else { "" };
    let mut text = format!("CREATE {temporary}TABLE {} (\n  {}\n)", name(&table.name), elements.join(",\n  "));
    // Writing to a String cannot fail.
    if let Some(comment) = &definition.comment {
        let _ = write!(text, " COMMENT {}", quoted(comment));
    }
    if !definition.partitioned_by.is_empty() {
        let names: Vec<String> = definition.partitioned_by.iter().map(|column| name(&column.value)).collect();
        let _ = write!(text, " PARTITIONED BY ({})", names.join(", "));
    }
    if !definition.options.is_empty() {
        let options: Vec<String> = definition
            .options
            .iter()
            .map(|(k, v)| format!("{} = {}", quoted(k), quoted(&secret::shown(k, v))))
            .collect();
        let _ = write!(text, " WITH (\n  {}\n)", options.join(",\n  "));
    }
    text
}

fn column_text(column: &ColumnDefinition) -> String {
    let not_null = |nullable: bool| if nullable { "" } else { " NOT NULL" };
    let mut text = name(&column.name.value);
    let _ = match &column.source {
        ColumnSource::Physical { data_type, nullable } => write!(text, " {data_type}{}", not_null(*nullable)),
        ColumnSource::Computed(expression) => write!(text, " AS {expression}"),
        ColumnSource::Metadata { data_type, nullable, key, is_virtual } => {
            write!(text, " {data_type}{} {}", not_null(*nullable), metadata(key.as_deref(), *is_virtual))
        }
    };
    if let Some(comment) = &column.comment {
        let _ = write!(text, " COMMENT {}", quoted(comment));
    }
    text
}

/// The text of `SHOW CREATE VIEW`.
pub fn show_create_view(view: &View) -> String {
    secret::conceal(&view.definition.text).into_owned()
}

/// A name in backticks.
fn name(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// A string in single quotes.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
