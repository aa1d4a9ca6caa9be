//! The table of the database: what it looks like, whether rows fit it, and how they get in.

use super::connection::{Connection, Failure, copy_failure};
use super::encode::Form;
use crate::SinkRequest;
use crate::option_table::option_fault;
use millstream_types::{DataType, Diagnostic, Field, code};
use postgres::{Client, Transaction};
use std::io::{self, Read};

/// A table that rows of a schema are written to.
pub(super) struct Table {
    /// How the columns of the schema are written.
    pub(super) forms: Vec<Form>,
    copy: String,
    /// Statements that bring rows from the temporary table into the real one; none if rows are copied into that.
    transfer: Vec<String>,
}

/// A column of the database's table.
struct CatalogColumn {
    name: String,
    /// As the database would write it: `numeric(10,2)`.
    type_name: String,
    kind: TypeKind,
    /// It cannot be NULL, and the database has no value of its own for it.
    required: bool,
}

/// What a type of the database is to a sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TypeKind {
    Boolean,
    Integer,
    /// Numbers with a fraction.
    Number,
    Text,
    Bytes,
    Date,
    Time,
    Timestamp,
    Interval,
    Json,
    Array,
    /// Whatever the server makes of a text: enums, addresses, UUIDs.
    Other,
}

const TEMPORARY: &str = "pg_temp.millstream_rows";
/// Number of a row, in the temporary table: of two rows with the same key the later one counts.
const ORDINAL: &str = "\"millstream ordinal\"";
/// Whether a row is gone, in the temporary table: of a result that changes.
const IS_GONE: &str = "\"millstream is gone\"";

impl Table {
    /// Looks at the table, and makes every session ready to write it.
    pub(super) fn open(connection: &mut Connection, request: &SinkRequest) -> Result<Table, Diagnostic> {
        let wanted = request.options.require("table-name")?;
        let (key, changes) = (&request.primary_key, request.changes.as_ref());
        if changes.is_some_and(|changes| changes.key.as_ref().is_none_or(|by| key.is_empty() || !is_same(by, key))) {
            return Err(Diagnostic::bug(format!("rows of table '{}' do not change by its PRIMARY KEY", request.table)));
        }
        let server = connection.server.clone();
        let (table, takes_copies, columns) = connection.run(|client| {
            let (oid, table, takes_copies) = find(client, wanted)?.ok_or_else(|| missing(wanted, &server))?;
            Ok((table, takes_copies, columns(client, oid)?))
        })?;
        let targets = matched(&request.schema.fields, &columns, &table)?;
        let fields = request.schema.fields.iter();
        let forms = fields.zip(&targets).map(|(field, target)| form(field, target, &table));
        let forms = forms.collect::<Result<Vec<_>, _>>()?;
        let names: Vec<String> = targets.iter().map(|target| quoted(&target.name)).collect();
        let list = names.join(", ");
        if key.is_empty() && takes_copies {
            let nulls = vec!["NULL"; names.len()].join(", ");
            check(connection, &format!("INSERT INTO {table} ({list}) VALUES ({nulls})"))?;
            return Ok(Table { forms, copy: format!("COPY {table} ({list}) FROM STDIN"), transfer: vec![] });
        }
        let mut typed: Vec<String> = names.iter().zip(&targets).map(|(n, t)| format!("{n} {}", t.type_name)).collect();
        let (mut copied, mut transfer) = (list, vec![transfer(&table, &names, key)]);
        if changes.is_some() {
            typed.push(format!("{IS_GONE} boolean"));
            copied = format!("{copied}, {IS_GONE}");
            transfer = changes_of(&table, &names, key).to_vec();
        }
        connection.begin_sessions_with(&format!(
            "CREATE TEMPORARY TABLE millstream_rows ({}, {ORDINAL} bigint GENERATED ALWAYS AS IDENTITY) ON COMMIT DELETE ROWS;",
            typed.join(", ")
        ))?;
        transfer.iter().try_for_each(|statement| check(connection, statement))?;
        Ok(Table { forms, copy: format!("COPY {TEMPORARY} ({copied}) FROM STDIN"), transfer })
    }

    /// Writes rows, encoded as text of `COPY`, in a transaction.
    pub(super) fn copy(&self, transaction: &mut Transaction<'_>, rows: &mut dyn Read) -> Result<u64, Failure> {
        let mut copy = transaction.copy_in(&self.copy)?;
        let mut block = vec![0; 1 << 16];
        loop {
            let read = match rows.read(&mut block) {
                Ok(0) => break,
                Ok(read) => read,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => {
                    let text = format!("rows that wait for the database cannot be read: {e}");
                    return Err(Diagnostic::new(code::READ_FAILED, text).into());
                }
            };
            io::Write::write_all(&mut copy, &block[..read]).map_err(copy_failure)?;
        }
        Ok(copy.finish()?)
    }

    /// Ends the writing of rows in a transaction: what was copied reaches the table.
    pub(super) fn settle(&self, transaction: &mut Transaction<'_>) -> Result<(), Failure> {
        self.transfer.iter().try_for_each(|statement| Ok(transaction.batch_execute(statement)?))
    }
}

/// The statement that adds the rows of the temporary table to the real one, where they replace those of the same key.
pub(super) fn transfer(table: &str, names: &[String], key: &[usize]) -> String {
    let list = names.join(", ");
    if key.is_empty() {
        return format!("INSERT INTO {table} ({list}) SELECT {list} FROM {TEMPORARY} ORDER BY {ORDINAL}");
    }
    let keys = keys(names, key);
    let latest = latest(&list, &keys);
    format!("INSERT INTO {table} ({list}) {latest} ON CONFLICT ({keys}) DO {}", replacing(names, key))
}

/// The statements that bring changes from the temporary table into the real one. Deletions come first, so that a row can have what
/// another index lets only one have.
pub(super) fn changes_of(table: &str, names: &[String], key: &[usize]) -> [String; 2] {
    let (list, keys) = (names.join(", "), keys(names, key));
    let same = key.iter().map(|i| format!("target.{0} = latest.{0}", names[*i])).collect::<Vec<_>>().join(" AND ");
    // Most transactions delete nothing, and then need not sort their rows for it: a condition of no column is looked at first.
    let delete = format!(
        "DELETE FROM {table} AS target USING ({}) AS latest \
         WHERE EXISTS (SELECT 1 FROM {TEMPORARY} WHERE {IS_GONE}) AND latest.{IS_GONE} AND {same}",
        latest(&format!("{keys}, {IS_GONE}"), &keys)
    );
    let insert = format!(
        "INSERT INTO {table} ({list}) SELECT {list} FROM ({}) AS latest WHERE NOT {IS_GONE} ORDER BY {keys} \
         ON CONFLICT ({keys}) DO {}",
        latest(&format!("{list}, {IS_GONE}"), &keys),
        replacing(names, key)
    );
    [delete, insert]
}

/// The last row of each key in the temporary table, in the order of keys: transactions which write the same keys then wait for, and do
/// not block, each other.
fn latest(columns: &str, keys: &str) -> String {
    format!("SELECT DISTINCT ON ({keys}) {columns} FROM {TEMPORARY} ORDER BY {keys}, {ORDINAL} DESC")
}

/// What happens where there is a row of the same key.
fn replacing(names: &[String], key: &[usize]) -> String {
    let others = names.iter().enumerate().filter(|(i, _)| !key.contains(i));
    let set = others.map(|(_, name)| format!("{name} = EXCLUDED.{name}")).collect::<Vec<_>>().join(", ");
    if set.is_empty() { "NOTHING".to_string() } else { format!("UPDATE SET {set}") }
}

fn keys(names: &[String], key: &[usize]) -> String {
    key.iter().map(|i| names[*i].as_str()).collect::<Vec<_>>().join(", ")
}

/// Whether two keys have the same columns.
fn is_same(one: &[usize], other: &[usize]) -> bool {
    one.len() == other.len() && one.iter().all(|column| other.contains(column))
}

/// Whether a statement could be run: rights, keys, columns with values of their own.
fn check(connection: &mut Connection, statement: &str) -> Result<(), Diagnostic> {
    connection.run(|client| Ok(client.batch_execute(&format!("EXPLAIN {statement}"))?))
}

/// The number of a table, its name, and whether it takes rows of `COPY`: views do not, nor do tables whose rows have policies.
fn find(client: &mut Client, name: &str) -> Result<Option<(u32, String, bool)>, Failure> {
    let query = "SELECT c.oid, quote_ident(n.nspname) || '.' || quote_ident(c.relname), \
         c.relkind IN ('r', 'p') AND NOT c.relrowsecurity \
         FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass($1)";
    let row = client.query_opt(query, &[&name])?;
    let Some(row) = row else { return Ok(None) };
    Ok(Some((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?)))
}

fn columns(client: &mut Client, table: u32) -> Result<Vec<CatalogColumn>, Failure> {
    // Of a domain, the type below.
    let query = "SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), b.typname::text, b.typcategory::text, \
         a.attnotnull AND NOT a.atthasdef AND a.attidentity = '' \
         FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid \
         JOIN pg_type b ON b.oid = CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END \
         WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum";
    let column = |row: postgres::Row| {
        let (base, category): (String, String) = (row.try_get(2)?, row.try_get(3)?);
        let kind = TypeKind::of(&base, &category);
        Ok(CatalogColumn { name: row.try_get(0)?, type_name: row.try_get(1)?, kind, required: row.try_get(4)? })
    };
    client.query(query, &[&table])?.into_iter().map(column).collect()
}

impl TypeKind {
    fn of(name: &str, category: &str) -> TypeKind {
        match name {
            "bool" => TypeKind::Boolean,
            "int2" | "int4" | "int8" => TypeKind::Integer,
            "numeric" | "float4" | "float8" => TypeKind::Number,
            "bytea" => TypeKind::Bytes,
            "date" => TypeKind::Date,
            "time" | "timetz" => TypeKind::Time,
            "timestamp" | "timestamptz" => TypeKind::Timestamp,
            "interval" => TypeKind::Interval,
            "json" | "jsonb" => TypeKind::Json,
            _ if category == "A" => TypeKind::Array,
            _ if category == "S" => TypeKind::Text,
            _ => TypeKind::Other,
        }
    }
}

/// The column of the table for each one of the schema: that of its name, else the only one that differs in case.
fn matched<'a>(
    fields: &[Field],
    columns: &'a [CatalogColumn],
    table: &str,
) -> Result<Vec<&'a CatalogColumn>, Diagnostic> {
    let target = |field: &Field| {
        let same = |column: &&CatalogColumn| column.name == field.name;
        let mut alike = columns.iter().filter(|column| column.name.eq_ignore_ascii_case(&field.name));
        let alike = alike.next().filter(|_| alike.next().is_none());
        columns.iter().find(same).or(alike).ok_or_else(|| {
            let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
            let text = format!("the table {table} of PostgreSQL has no column '{}'", field.name);
            Diagnostic::new(code::INVALID_TABLE, text).advise(format!("its columns are: {}", names.join(", ")))
        })
    };
    let targets: Vec<&CatalogColumn> = fields.iter().map(target).collect::<Result<_, _>>()?;
    let is_written = |column: &CatalogColumn| targets.iter().any(|target| target.name == column.name);
    if let Some(left_out) = columns.iter().find(|column| column.required && !is_written(column)) {
        let text =
            format!("the column '{}' of the table {table} of PostgreSQL is NOT NULL and gets no value", left_out.name);
        return Err(Diagnostic::new(code::INVALID_TABLE, text)
            .advise("declare and write the column, or give it a default in the database"));
    }
    Ok(targets)
}

/// How values of a column are written for one of the table.
fn form(field: &Field, target: &CatalogColumn, table: &str) -> Result<Form, Diagnostic> {
    use TypeKind as K;
    let (plain, kinds): (Form, &[TypeKind]) = match &field.data_type {
        DataType::Char(_) | DataType::Varchar(_) => return Ok(Form::String),
        DataType::Boolean => (Form::Plain, &[K::Boolean, K::Text]),
        DataType::TinyInt | DataType::SmallInt | DataType::Int | DataType::BigInt => {
            (Form::Plain, &[K::Integer, K::Number, K::Text])
        }
        DataType::Decimal { scale: 0, .. } => (Form::Plain, &[K::Integer, K::Number, K::Text]),
        DataType::Float | DataType::Double | DataType::Decimal { .. } => (Form::Plain, &[K::Number, K::Text]),
        DataType::Binary(_) | DataType::Varbinary(_) => (Form::Bytes, &[K::Bytes]),
        DataType::Date => (Form::Plain, &[K::Date, K::Timestamp, K::Text]),
        DataType::Time(_) => (Form::Plain, &[K::Time, K::Text]),
        DataType::Timestamp(_) | DataType::TimestampLtz(_) => (Form::Plain, &[K::Timestamp, K::Text]),
        DataType::IntervalMonth => (Form::Months, &[K::Interval, K::Text]),
        DataType::IntervalMilli => (Form::Milliseconds, &[K::Interval, K::Text]),
        // A number in an array of intervals would be one of seconds.
        DataType::Array(element) if target.kind == K::Array && !has_intervals(element) => return Ok(Form::Array),
        DataType::Array(_) | DataType::Row(_) | DataType::Map(..) => (Form::Json, &[K::Json, K::Text]),
        DataType::Null => (Form::Plain, &[]),
    };
    if kinds.contains(&target.kind) {
        return Ok(plain);
    }
    let (name, data_type) = (&field.name, &field.data_type);
    let text = format!(
        "column {name} has the type {data_type}, but in the table {table} of PostgreSQL it is {}",
        target.type_name
    );
    Err(Diagnostic::new(code::TYPE_MISMATCH, text).advise(match data_type {
        DataType::Row(_) | DataType::Map(..) | DataType::Array(_) => "make it jsonb there, or an array if it is one",
        DataType::Binary(_) | DataType::Varbinary(_) => "make it bytea there, or encode the value in the query",
        _ => "change one of the two types, or CAST to STRING in the query: the server makes of a text what it can",
    }))
}

fn has_intervals(element: &DataType) -> bool {
    match element {
        DataType::Array(element) => has_intervals(element),
        other => matches!(other, DataType::IntervalMonth | DataType::IntervalMilli),
    }
}

fn missing(name: &str, server: &str) -> Diagnostic {
    let message = format!("PostgreSQL at '{server}' has no table '{name}'");
    let advice = "create it there first; names with capitals need quotes, other schemas than the search path a 'schema.' before them";
    option_fault(code::INVALID_TABLE, "table-name", message, advice)
}

/// An identifier in quotes.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
