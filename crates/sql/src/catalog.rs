//! The tables, views and SQL functions of a session.
//!
//! `CREATE TABLE` is bound once (in `define`): types are known from the definition, computed columns and the watermark are bound
//! by the binder, and the whole is checked as Flink checks it. A view is kept as its query and bound on every use, so
//! that the optimiser sees through it; it is bound on creation too, so that its errors show where they are.
//!
//! Tables and views share one name space and are listed by name. There is one catalog and one database, with Flink's
//! default names, so that qualified names of Flink scripts work.

mod define;
mod files;
pub use files::file_stem;
pub(crate) use files::is_path;

use crate::ddl::{TableDefinition, ViewDefinition, span_of};
use crate::diagnostics::{error_at, nearest};
use crate::statement::ObjectKind;
use crate::user_function::{self, SqlFunctions};
use millstream_plan::logical::Table;
use millstream_types::{Diagnostic, Inferred, Options, Schema, TakesChanges, code};
use sqlparser::ast::Ident;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Flink's names of the only catalog and the only database.
const CATALOG: &str = "default_catalog";
pub(crate) const DATABASE: &str = "default_database";
/// What the key of a partition column begins with, among the metadata of files; its name follows.
pub(crate) const PARTITION_KEY: &str = "file.partition.";

/// Tables and views by name.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    entries: BTreeMap<String, CatalogEntry>,
    functions: SqlFunctions,
    connectors: Option<Connectors>,
    files: files::FileTables,
}

/// What the catalog asks about the connectors of tables, which it does not know.
#[derive(Debug, Clone, Copy)]
pub struct Connectors {
    /// Whether a table with these options ends by itself.
    pub is_bounded: fn(&Options) -> bool,
    /// Which changes a table with these options can be given.
    pub takes_changes: fn(&Options) -> TakesChanges,
    /// Whether the rows of a table with these options are changes, if it has a PRIMARY KEY.
    pub gives_changes: fn(&Options) -> bool,
    /// Checks connector, format and the names of all options of the table of a name.
    pub check: fn(&str, &Options) -> Result<(), Diagnostic>,
    /// The columns of the table of a name, which its definition does not have.
    pub infer: fn(&str, &Options) -> Result<Inferred, Diagnostic>,
    /// The options of the table that a file, a directory or a glob is.
    pub file: fn(&str) -> Result<Options, Diagnostic>,
}

/// A table or a view.
#[derive(Debug, Clone)]
pub enum CatalogEntry {
    /// A table.
    Table(Arc<TableEntry>),
    /// A view.
    View(Arc<View>),
}

/// A table and the text it was made of.
#[derive(Debug, Clone)]
pub struct TableEntry {
    /// What plans refer to.
    pub table: Arc<Table>,
    /// Its definition, with what LIKE took over: for DESCRIBE and SHOW CREATE TABLE.
    pub definition: TableDefinition,
}

/// A view.
#[derive(Debug, Clone)]
pub struct View {
    /// Its name.
    pub name: String,
    /// Names of its columns; as many as the query has.
    pub columns: Vec<String>,
    /// Its columns when it was created.
    pub schema: Schema,
    /// Its definition.
    pub definition: ViewDefinition,
    /// Where the names of its query are looked up, if that is not the catalog that it is in: a query of a program
    /// ([`Catalog::add_query`]).
    pub(crate) scope: Option<Arc<Catalog>>,
}

impl View {
    /// Whether it is a query of a program ([`Catalog::add_query`]).
    pub fn is_of_program(&self) -> bool {
        self.scope.is_some()
    }
}

impl CatalogEntry {
    fn kind(&self) -> ObjectKind {
        match self {
            CatalogEntry::Table(_) => ObjectKind::Table,
            CatalogEntry::View(_) => ObjectKind::View,
        }
    }

    /// Columns: a table's, or a view's at its creation.
    pub fn schema(&self) -> Schema {
        match self {
            CatalogEntry::Table(entry) => entry.table.schema(),
            CatalogEntry::View(view) => view.schema.clone(),
        }
    }
}

impl Catalog {
    /// An empty catalog.
    pub fn new() -> Catalog {
        Catalog::default()
    }

    /// An empty catalog with connectors; that of [`Catalog::new`] takes every option, and no table to end by itself.
    pub fn with_connectors(connectors: Connectors) -> Catalog {
        Catalog { connectors: Some(connectors), ..Catalog::default() }
    }

    /// Whether a table ends by itself.
    pub fn is_bounded(&self, table: &Table) -> bool {
        self.connectors.is_some_and(|connectors| (connectors.is_bounded)(&table.options))
    }

    /// Which changes a table can be given.
    pub fn takes_changes(&self, table: &Table) -> TakesChanges {
        self.connectors.map_or(TakesChanges::Anything, |connectors| (connectors.takes_changes)(&table.options))
    }

    /// Whether the rows of a table are changes of those of its PRIMARY KEY.
    pub fn gives_changes(&self, table: &Table) -> bool {
        let gives = |connectors: Connectors| (connectors.gives_changes)(&table.options);
        !table.primary_key.is_empty() && self.connectors.is_some_and(gives)
    }

    /// The SQL functions.
    pub fn functions(&self) -> &SqlFunctions {
        &self.functions
    }

    /// Drops a table, view or SQL function; with `if_exists` it need not be there. Returns whether it was.
    pub fn drop(&mut self, kind: ObjectKind, name: &[Ident], if_exists: bool) -> Result<bool, Diagnostic> {
        if kind == ObjectKind::Function {
            return match local_name(name).is_some_and(|local| self.functions.remove(local)) {
                false if !if_exists => Err(user_function::unknown(&self.functions, name)),
                dropped => Ok(dropped),
            };
        }
        let found = local_name(name).and_then(|n| Some((n.to_owned(), self.entries.get(n)?)));
        match found {
            Some((local, relation)) if relation.kind() == kind => {
                self.entries.remove(&local);
                Ok(true)
            }
            Some((local, relation)) => {
                let is = relation.kind().name();
                Err(error_at(code::UNKNOWN_TABLE, span_of(name), format!("'{local}' is a {is}"))
                    .advise(format!("write DROP {} {local}", is.to_uppercase())))
            }
            None if if_exists => Ok(false),
            None => Err(self.unknown(name)),
        }
    }

    /// The table or view of this name; the parts of a qualified name in order.
    ///
    /// A name in single quotes is the path of a file.
    pub fn lookup(&self, name: &[Ident]) -> Result<CatalogEntry, Diagnostic> {
        if let [path] = name
            && is_path(path)
        {
            return self.file_table(path);
        }
        let found = local_name(name).and_then(|local| self.entries.get(local));
        found.cloned().ok_or_else(|| self.unknown(name))
    }

    /// The table of this name; a view is an error, for INSERT INTO.
    pub fn lookup_table(&self, name: &[Ident]) -> Result<Arc<Table>, Diagnostic> {
        if name.iter().any(is_path) {
            return Err(files::not_writable(name));
        }
        match self.lookup(name)? {
            CatalogEntry::Table(entry) => Ok(Arc::clone(&entry.table)),
            CatalogEntry::View(view) => {
                let message = format!("'{}' is a view", view.name);
                Err(error_at(code::NOT_A_SINK, span_of(name), message)
                    .advise("write to a table: rows go to CREATE TABLE … WITH ('connector' = …), not to a view"))
            }
        }
    }

    /// Calls `each` with all tables, also those that only views of programs name.
    pub fn each_table(&self, each: &mut dyn FnMut(&Table)) {
        for entry in self.entries.values() {
            match entry {
                CatalogEntry::Table(entry) => each(&entry.table),
                CatalogEntry::View(view) => {
                    if let Some(scope) = &view.scope {
                        scope.each_table(each);
                    }
                }
            }
        }
    }

    /// Names of all tables and views, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// Names of the views, sorted.
    pub fn view_names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().filter(|(_, r)| matches!(r, CatalogEntry::View(_))).map(|(name, _)| name.as_str())
    }

    /// The name of a new object; `None` when it is taken and that is not an error.
    fn free_name(&self, name: &[Ident], if_not_exists: bool) -> Result<Option<String>, Diagnostic> {
        let Some(local) = local_name(name) else { return Err(no_database(name)) };
        match self.entries.get(local) {
            None => Ok(Some(local.to_owned())),
            Some(_) if if_not_exists => Ok(None),
            Some(relation) => {
                let what = relation.kind().name();
                Err(error_at(code::ALREADY_EXISTS, span_of(name), format!("there is a {what} '{local}' already"))
                    .advise(format!(
                        "write DROP {0} {local}; before, or CREATE {0} IF NOT EXISTS {local}",
                        what.to_uppercase()
                    )))
            }
        }
    }

    fn unknown(&self, name: &[Ident]) -> Diagnostic {
        let text = format!("unknown table or view '{}'", dotted(name));
        let diagnostic = error_at(code::UNKNOWN_TABLE, span_of(name), text);
        let last = name.last().map(|i| i.value.as_str()).unwrap_or_default();
        if let Some(advice) = self.file_advice(&dotted(name)) {
            return diagnostic.advise(advice);
        }
        match nearest(last, self.names()) {
            Some(near) => diagnostic.advise(format!("did you mean `{near}`?")),
            None if self.entries.is_empty() => diagnostic.advise("create it first, with CREATE TABLE"),
            None => {
                let names: Vec<&str> = self.names().take(12).collect();
                diagnostic.advise(format!("tables and views: {}", names.join(", ")))
            }
        }
    }
}

/// The last part of a name, if the parts before it are the default catalog and database.
fn local_name(name: &[Ident]) -> Option<&str> {
    match name {
        [name] => Some(&name.value),
        [database, name] if database.value == DATABASE => Some(&name.value),
        [catalog, database, name] if catalog.value == CATALOG && database.value == DATABASE => Some(&name.value),
        _ => None,
    }
}

fn no_database(name: &[Ident]) -> Diagnostic {
    let text = format!("there is no database '{}'", dotted(&name[..name.len().saturating_sub(1)]));
    let advice = "use a plain name: there is one catalog and one database";
    error_at(code::UNSUPPORTED, span_of(name), text).advise(advice)
}

fn dotted(name: &[Ident]) -> String {
    name.iter().map(|i| i.value.as_str()).collect::<Vec<_>>().join(".")
}
