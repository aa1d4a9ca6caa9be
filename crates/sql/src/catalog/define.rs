//! `CREATE`: definitions are checked and bound, and become tables, views and SQL functions of the catalog.

use super::{Catalog, CatalogEntry, PARTITION_KEY, TableEntry, View, files, local_name, no_database};
use crate::bind;
use crate::ddl::{
    ColumnDefinition, ColumnSource, FunctionDefinition, LikeClause, TableDefinition, ViewDefinition,
    WatermarkDefinition, span_of,
};
use crate::diagnostics::{at_span, error_at, nearest};
use crate::settings::BindSettings;
use crate::statement::{ParsedStatement, Statement};
use crate::user_function::{NativeAggregate, NativeFunction, SqlFunction, SqlFunctions, UserFunction};
use millstream_plan::expr::{Expr, ExprKind};
use millstream_plan::logical::{ColumnKind, Table, TableColumn, Watermark};
use millstream_types::{DataType, Diagnostic, Field, code, counted};
use sqlparser::ast::Ident;
use std::collections::HashSet;
use std::sync::Arc;

impl Catalog {
    /// Creates a SQL function; `false` when it exists already and `IF NOT EXISTS` was said.
    pub fn create_function(&mut self, definition: &FunctionDefinition) -> Result<bool, Diagnostic> {
        let Some(name) = local_name(&definition.name) else { return Err(no_database(&definition.name)) };
        let taken = |message: String, advice: &str| {
            Err(error_at(code::ALREADY_EXISTS, span_of(&definition.name), message).advise(advice))
        };
        if self.functions.find(name).is_some() {
            return match definition.if_not_exists {
                true => Ok(false),
                false => taken(
                    format!("there is a function '{name}' already"),
                    &format!("write DROP FUNCTION {name}; before, or CREATE FUNCTION IF NOT EXISTS {name}"),
                ),
            };
        }
        if bind::is_builtin_function(name) {
            return taken(format!("'{name}' is a built-in function"), "give the function another name");
        }
        let function = bind_function(definition, &self.functions)?;
        self.functions.insert(UserFunction::Sql(function));
        Ok(true)
    }

    /// Registers a function of the program; one of the same name is replaced.
    ///
    /// Fails for the name of a built-in function.
    pub fn register_function(&mut self, function: NativeFunction) -> Result<(), Diagnostic> {
        self.register(UserFunction::Native(function))
    }

    /// The same for an aggregate function.
    pub fn register_aggregate(&mut self, function: NativeAggregate) -> Result<(), Diagnostic> {
        self.register(UserFunction::Aggregate(function))
    }

    fn register(&mut self, function: UserFunction) -> Result<(), Diagnostic> {
        if bind::is_builtin_function(function.name()) {
            let message = format!("'{}' is a built-in function", function.name());
            return Err(Diagnostic::new(code::ALREADY_EXISTS, message).advise("give the function another name"));
        }
        self.functions.insert(function);
        Ok(())
    }

    /// Creates a table; `false` when it exists already and `IF NOT EXISTS` was said.
    pub fn create_table(&mut self, definition: &TableDefinition) -> Result<bool, Diagnostic> {
        let Some(name) = self.free_name(&definition.name, definition.if_not_exists)? else { return Ok(false) };
        let definition = match &definition.like {
            Some(like) => self.with_like(definition, like)?,
            None => definition.clone(),
        };
        // A table without a connector can be named in LIKE.
        let has_connector = definition.options.iter().any(|(key, _)| key == "connector");
        let names_none = !definition.columns.iter().any(|c| matches!(c.source, ColumnSource::Physical { .. }));
        let definition = match self.connectors {
            Some(connectors) if has_connector && names_none => self.with_inferred(definition, connectors)?.0,
            _ => definition,
        };
        let entry = self.entry(&name, definition)?;
        if let Some(connectors) = self.connectors.filter(|_| has_connector) {
            (connectors.check)(&name, &entry.table.options)?;
        }
        self.entries.insert(name, CatalogEntry::Table(Arc::new(entry)));
        Ok(true)
    }

    /// The definition with the columns of its query, which is bound in `scope`.
    ///
    /// # Errors
    /// Those of the query.
    pub fn with_query_columns(
        definition: &TableDefinition,
        scope: &Catalog,
        settings: &BindSettings,
    ) -> Result<TableDefinition, Diagnostic> {
        let mut definition = definition.clone();
        if let Some(query) = definition.query.take() {
            definition.columns = files::columns(&bind::bind_query(scope, settings, &query)?.schema().fields);
        }
        Ok(definition)
    }

    /// The table of a definition.
    pub(super) fn entry(&self, name: &str, definition: TableDefinition) -> Result<TableEntry, Diagnostic> {
        let table = Arc::new(bind_table(name, &definition, &self.functions)?);
        Ok(TableEntry { table, definition })
    }

    /// Creates a view; `false` when it exists already and `IF NOT EXISTS` was said.
    pub fn create_view(&mut self, definition: &ViewDefinition, settings: &BindSettings) -> Result<bool, Diagnostic> {
        let Some(name) = self.free_name(&definition.name, definition.if_not_exists)? else { return Ok(false) };
        let mut schema = bind::bind_query(self, settings, &definition.query)?.schema();
        if !definition.columns.is_empty() {
            let (given, found) = (definition.columns.len(), schema.fields.len());
            if given != found {
                let text = format!("view '{name}' names {}, but its query has {found}", counted(given, "column"));
                return Err(error_at(code::INVALID_TABLE, span_of(&definition.columns), text));
            }
            for (field, column) in schema.fields.iter_mut().zip(&definition.columns) {
                field.name.clone_from(&column.value);
            }
        }
        let columns: Vec<String> = schema.fields.iter().map(|f| f.name.clone()).collect();
        let view = View { name: name.clone(), columns, schema, definition: definition.clone(), scope: None };
        self.entries.insert(name, CatalogEntry::View(Arc::new(view)));
        Ok(true)
    }

    /// Makes a query that was bound in another catalog a view of this one: its names keep what they mean there.
    ///
    /// Fails when the name is taken, and when the statement is not a query.
    pub fn add_query(
        &mut self,
        name: &str,
        query: &ParsedStatement,
        scope: Arc<Catalog>,
        settings: &BindSettings,
    ) -> Result<(), Diagnostic> {
        let Statement::Query(body) = &query.statement else {
            return Err(Diagnostic::new(code::UNSUPPORTED, "only a query can be a view").advise("write SELECT …"));
        };
        let ident = vec![Ident::with_quote('`', name)];
        let _ = self.free_name(&ident, false)?;
        let schema = bind::bind_query(&scope, settings, body)?.schema();
        let definition = ViewDefinition {
            text: format!("CREATE TEMPORARY VIEW {} AS {}", ident[0], query.text),
            name: ident,
            temporary: true,
            if_not_exists: false,
            columns: vec![],
            comment: None,
            query: body.clone(),
        };
        let columns = schema.fields.iter().map(|f| f.name.clone()).collect();
        let view = View { name: name.into(), columns, schema, definition, scope: Some(scope) };
        self.entries.insert(name.into(), CatalogEntry::View(Arc::new(view)));
        Ok(())
    }

    /// The definition with the parts of the other table that LIKE takes over.
    fn with_like(&self, own: &TableDefinition, like: &LikeClause) -> Result<TableDefinition, Diagnostic> {
        let CatalogEntry::Table(base) = self.lookup(&like.name)? else {
            return Err(error_at(code::INVALID_TABLE, span_of(&like.name), "LIKE takes a table, not a view"));
        };
        let base = &base.definition;
        let taken = |source: &ColumnSource| match source {
            ColumnSource::Physical { .. } => true,
            ColumnSource::Metadata { .. } => like.metadata,
            ColumnSource::Computed(_) => like.generated,
        };
        let mut merged = own.clone();
        merged.like = None;
        merged.columns = base.columns.iter().filter(|c| taken(&c.source)).chain(&own.columns).cloned().collect();
        if like.watermarks && merged.watermark.is_none() {
            merged.watermark.clone_from(&base.watermark);
        }
        if like.constraints && merged.primary_key.is_empty() {
            merged.primary_key.clone_from(&base.primary_key);
        }
        if like.options {
            let inherited = base.options.iter().filter(|(key, _)| own.options.iter().all(|(k, _)| k != key)).cloned();
            merged.options.extend(inherited);
        }
        Ok(merged)
    }
}

/// Binds the body of a definition; `functions` are those that it may call.
///
/// # Errors
/// Those of the body, with their places; TYPE_MISMATCH when its result cannot be cast to the declared type.
fn bind_function(definition: &FunctionDefinition, functions: &SqlFunctions) -> Result<SqlFunction, Diagnostic> {
    let name = definition.name.last().map(|n| n.value.clone()).unwrap_or_default();
    let mut parameters: Vec<Field> = vec![];
    for (parameter, data_type) in &definition.parameters {
        if parameters.iter().any(|p| p.name == parameter.value) {
            let text = format!("the function has two parameters `{}`", parameter.value);
            return Err(error_at(code::SYNTAX, parameter.span, text).advise("rename one of them"));
        }
        parameters.push(Field::new(&parameter.value, data_type.clone(), true));
    }
    let body = bind::bind_function_body(&parameters, functions, &definition.body, &definition.returns);
    let body = body.map_err(|d| match d.code == code::UNKNOWN_FUNCTION && names(&d.message, &name) {
        true => d.advise("a function cannot call itself"),
        false => d,
    })?;
    Ok(SqlFunction { name, parameters, body })
}

/// Whether a message is about `name`, in any case.
fn names(message: &str, name: &str) -> bool {
    message.to_ascii_uppercase().contains(&format!("`{}`", name.to_ascii_uppercase()))
}

/// Checks a definition and binds its expressions.
fn bind_table(name: &str, definition: &TableDefinition, functions: &SqlFunctions) -> Result<Table, Diagnostic> {
    if definition.columns.is_empty() {
        let text = format!("table '{name}' has no columns");
        return Err(error_at(code::INVALID_TABLE, span_of(&definition.name), text)
            .advise("list the columns in parentheses after the name"));
    }
    let mut names = HashSet::with_capacity(definition.columns.len());
    for column in &definition.columns {
        if !names.insert(column.name.value.as_str()) {
            let text = format!("a column named '{}' already exists in table '{name}'", column.name.value);
            return Err(error_at(code::INVALID_TABLE, column.name.span, text).advise("rename or remove one of them"));
        }
    }
    let mut columns = bind_columns(definition, functions)?;
    bind_partitions(definition, &mut columns)?;
    let primary_key = bind_primary_key(definition, &mut columns)?;
    let watermark = definition.watermark.as_ref().map(|w| bind_watermark(w, &columns, functions)).transpose()?;
    let options = definition.options.iter().cloned().collect();
    Ok(Table { name: name.to_owned(), columns, watermark, primary_key, options })
}

/// Binds the columns: first those with a type, then the computed ones, which see the first but not one another.
fn bind_columns(definition: &TableDefinition, functions: &SqlFunctions) -> Result<Vec<TableColumn>, Diagnostic> {
    let typed: Vec<Option<Field>> = definition.columns.iter().map(ColumnDefinition::typed).collect();
    let positions: Vec<usize> = (0..typed.len()).filter(|&i| typed[i].is_some()).collect();
    let visible: Vec<Field> = typed.into_iter().flatten().collect();
    let bind_column = |column: &ColumnDefinition| {
        let name = &column.name.value;
        let kind = match &column.source {
            ColumnSource::Physical { .. } => ColumnKind::Physical,
            ColumnSource::Metadata { key, is_virtual, .. } => {
                let key = key.clone().unwrap_or_else(|| name.clone());
                ColumnKind::Metadata { key, is_virtual: *is_virtual }
            }
            ColumnSource::Computed(ast) => {
                let bound = bind::bind_table_expression(&visible, functions, ast)
                    .map_err(|d| explain_computed(d, definition))
                    .map_err(|d| at_span(d, column.name.span))?;
                ColumnKind::Computed(bound.renumbered(|i| positions[i]))
            }
        };
        let field = match &kind {
            ColumnKind::Computed(expression) => expression.field(name),
            _ => column.typed().expect("only a computed column has no type"),
        };
        Ok(TableColumn { field, kind })
    };
    definition.columns.iter().map(bind_column).collect()
}

/// Says so when an unknown column is a computed one.
fn explain_computed(diagnostic: Diagnostic, definition: &TableDefinition) -> Diagnostic {
    let is_computed = |c: &&ColumnDefinition| matches!(c.source, ColumnSource::Computed(_));
    let names = |name: &str| [format!("'{name}'"), format!("`{name}`")].iter().any(|n| diagnostic.message.contains(n));
    let meant = definition.columns.iter().filter(is_computed).any(|c| names(&c.name.value));
    match diagnostic.code == code::UNKNOWN_COLUMN && meant {
        true => diagnostic.advise("a computed column cannot use another computed column; repeat its expression"),
        false => diagnostic,
    }
}

/// The diagnostic about an unknown column, with a name of `known` that is near as advice.
fn with_near<'a>(diagnostic: Diagnostic, name: &str, known: impl Iterator<Item = &'a str>) -> Diagnostic {
    match nearest(name, known) {
        Some(near) => diagnostic.advise(format!("did you mean `{near}`?")),
        None => diagnostic,
    }
}

/// Makes the columns of PARTITIONED BY those that directories such as `day=2026-01-01` give.
fn bind_partitions(definition: &TableDefinition, columns: &mut [TableColumn]) -> Result<(), Diagnostic> {
    for ident in &definition.partitioned_by {
        let connector = definition.options.iter().find(|(key, _)| key == "connector").map(|(_, value)| value.as_str());
        if connector != Some("filesystem") {
            let text = "PARTITIONED BY is for directories of the connector 'filesystem'";
            return Err(error_at(code::INVALID_TABLE, ident.span, text).advise("leave the clause out"));
        }
        let names = columns.iter().map(|c| c.field.name.as_str());
        let Some(column) = columns.iter().position(|c| c.field.name == ident.value) else {
            let text = format!("partition column '{}' is not defined in the schema", ident.value);
            return Err(with_near(error_at(code::UNKNOWN_COLUMN, ident.span, text), &ident.value, names));
        };
        if columns[column].kind != ColumnKind::Physical {
            let text = format!("partition column '{}' is not a physical column", ident.value);
            return Err(error_at(code::INVALID_TABLE, ident.span, text).advise("name a column with a type alone"));
        }
        columns[column].kind =
            ColumnKind::Metadata { key: format!("{PARTITION_KEY}{}", ident.value), is_virtual: true };
    }
    if !columns.is_empty()
        && columns.iter().all(|c| matches!(&c.kind, ColumnKind::Metadata { key, .. } if key.starts_with(PARTITION_KEY)))
    {
        let text = "a table needs a column that is not one of PARTITIONED BY";
        return Err(error_at(code::INVALID_TABLE, span_of(&definition.partitioned_by), text));
    }
    Ok(())
}

/// Positions of the primary key's columns, which become NOT NULL.
fn bind_primary_key(definition: &TableDefinition, columns: &mut [TableColumn]) -> Result<Vec<usize>, Diagnostic> {
    let mut key = vec![];
    for ident in &definition.primary_key {
        let name = &ident.value;
        let Some(position) = columns.iter().position(|c| c.field.name == *name) else {
            let text = format!("primary key column '{name}' is not defined in the schema");
            let names = columns.iter().map(|c| c.field.name.as_str());
            let diagnostic = error_at(code::UNKNOWN_COLUMN, ident.span, text);
            return Err(with_near(diagnostic, name, names));
        };
        let column = &mut columns[position];
        if column.kind != ColumnKind::Physical {
            let text = format!("invalid primary key: column '{name}' is not a physical column");
            return Err(error_at(code::INVALID_TABLE, ident.span, text));
        }
        if key.contains(&position) {
            let text = format!("column '{name}' occurs twice in the primary key");
            return Err(error_at(code::INVALID_TABLE, ident.span, text));
        }
        column.field.nullable = false;
        key.push(position);
    }
    Ok(key)
}

/// A column to compute an event time from `name`, and its watermark.
fn computed(name: &str, function: &str, unit: &str) -> String {
    format!(
        "add the column `{name}_time AS {function}({name}{unit})`, and write WATERMARK FOR {name}_time AS {name}_time - INTERVAL '5' SECOND"
    )
}

fn bind_watermark(
    watermark: &WatermarkDefinition,
    columns: &[TableColumn],
    functions: &SqlFunctions,
) -> Result<Watermark, Diagnostic> {
    let ident = &watermark.column;
    let name = &ident.value;
    let fields: Vec<Field> = columns.iter().map(|c| c.field.clone()).collect();
    let Some(column) = fields.iter().position(|f| f.name == *name) else {
        let text = format!("the rowtime attribute field '{name}' is not defined in the table schema");
        let diagnostic = error_at(code::UNKNOWN_COLUMN, ident.span, text);
        let time = fields.iter().find(|field| is_event_time(&field.data_type)).map(|field| &field.name);
        let diagnostic = diagnostic.advise(match time {
            Some(time) => {
                format!("write WATERMARK FOR {time} AS {time} - INTERVAL '5' SECOND, or declare `{name} TIMESTAMP(3)`")
            }
            None => format!(
                "declare the column `{name} TIMESTAMP(3)`, or compute it: `{name} AS TO_TIMESTAMP_LTZ(millis, 3)`"
            ),
        });
        return Err(with_near(diagnostic, name, fields.iter().map(|f| f.name.as_str())));
    };
    if let ColumnKind::Computed(Expr { kind: ExprKind::ProcessingTime, .. }) = &columns[column].kind {
        let text = format!("'{name}' is a processing time, which has no watermark");
        return Err(
            error_at(code::INVALID_TABLE, ident.span, text).advise("remove WATERMARK FOR, or name an event time")
        );
    }
    let data_type = fields[column].data_type.clone();
    if !is_event_time(&data_type) {
        let text = format!(
            "the time field '{name}' of a watermark must be TIMESTAMP(p) or TIMESTAMP_LTZ(p) with a precision p from 0 to 3, but it is \
             {data_type}"
        );
        let advice = match data_type {
            DataType::Timestamp(_) => format!("declare `{name} TIMESTAMP(3)`"),
            DataType::TimestampLtz(_) => format!("declare `{name} TIMESTAMP_LTZ(3)`"),
            DataType::BigInt | DataType::Int => computed(name, "TO_TIMESTAMP_LTZ", ", 3"),
            _ => computed(name, "TO_TIMESTAMP", ""),
        };
        return Err(error_at(code::INVALID_TABLE, ident.span, text).advise(advice));
    }
    let expression =
        bind::bind_table_expression(&fields, functions, &watermark.expression).map_err(|d| at_span(d, ident.span))?;
    let same_kind = std::mem::discriminant(&expression.data_type) == std::mem::discriminant(&data_type);
    if !same_kind || !is_event_time(&expression.data_type) {
        let text =
            format!("the watermark of '{name}' must be {data_type}, but its expression is {}", expression.data_type);
        return Err(error_at(code::INVALID_TABLE, ident.span, text)
            .advise(format!("write WATERMARK FOR `{name}` AS `{name}` - INTERVAL '5' SECOND")));
    }
    Ok(Watermark { column, expression: expression.cast_to(data_type) })
}

/// TIMESTAMP or TIMESTAMP_LTZ of millisecond precision or less.
fn is_event_time(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(0..=3) | DataType::TimestampLtz(0..=3))
}
