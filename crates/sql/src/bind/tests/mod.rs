//! Tests of the binder: the plans and types of queries, and the errors with their places.

mod aggregates;
mod changes;
mod compatibility;
mod errors;
mod functions;
mod inserts;
mod interval_joins;
mod joins;
mod order_by;
mod over;
mod queries;
mod select_lists;
mod subqueries;
mod typing;
mod unnest;
mod versioned_joins;
mod window_errors;
mod window_joins;
mod windows;

use crate::catalog::{Catalog, Connectors};
use crate::settings::{BindSettings, RuntimeMode};
use crate::statement::{Statement, parse_script};
use millstream_plan::beat::BeatClock;
use millstream_plan::explain;
use millstream_plan::logical::{Insert, Rel, Target};
use millstream_plan::physical;
use millstream_types::text::zone::Zone;
use millstream_types::{Diagnostic, Inferred, Options, Place, TakesChanges};

/// The Nexmark events in one table, with a view for each kind.
const COMBINED: &str = include_str!("../../../../../tests/nexmark/ddl_combined.sql");

/// Tables for everything else.
const TABLES: &str = "
CREATE TABLE t (
    b BOOLEAN, ti TINYINT, si SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, dec DECIMAL(10, 2), wide DECIMAL(38, 10),
    s STRING, c CHAR(3), v VARCHAR(5), bin BYTES, day DATE, clock TIME(0), ts TIMESTAMP(3), ltz TIMESTAMP_LTZ(3),
    nn INT NOT NULL, ns STRING NOT NULL, r ROW<x INT, y ROW<z STRING NOT NULL> NOT NULL, `t` INT> NOT NULL, a ARRAY<INT>,
    WATERMARK FOR ts AS ts - INTERVAL '1' SECOND
) WITH ('connector' = 'datagen');
CREATE TABLE z (k INT, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen');
CREATE TABLE sink (k BIGINT NOT NULL, name VARCHAR(3), price DECIMAL(10, 2), twice AS k * 2) WITH ('connector' = 'print');
";

/// Which tables of the tests end by themselves.
fn is_file(options: &Options) -> bool {
    options.get("connector") == Some("filesystem")
}

/// Which changes tables of the tests can be given.
fn takes_changes(options: &Options) -> TakesChanges {
    match options.get("connector") {
        Some("jdbc") => TakesChanges::ByPrimaryKey,
        Some("filesystem") => TakesChanges::Nothing,
        _ => TakesChanges::Anything,
    }
}

/// What the statements of a script bind to.
struct Session {
    catalog: Catalog,
    settings: BindSettings,
}

impl Session {
    fn new(ddl: &str) -> Session {
        let mut session = Session {
            catalog: Catalog::with_connectors(Connectors {
                is_bounded: is_file,
                takes_changes,
                gives_changes: |options| options.get("connector") == Some("kafka"),
                check: |_, _| Ok(()),
                infer: |_, _| Ok(Inferred::default()),
                file: |_| Ok(Options::new()),
            }),
            settings: BindSettings::default(),
        };
        for parsed in parse_script(ddl).expect("the definitions parse") {
            match parsed.statement {
                Statement::CreateTable(table) => {
                    session.catalog.create_table(&table).expect("the table is valid");
                }
                Statement::CreateView(view) => {
                    session.catalog.create_view(&view, &session.settings).expect("the view is valid");
                }
                Statement::CreateFunction(function) => {
                    session.catalog.create_function(&function).expect("the function is valid");
                }
                other => panic!("not a definition: {other:?}"),
            }
        }
        session
    }

    fn batch(mut self) -> Session {
        self.settings.runtime_mode = RuntimeMode::Batch;
        self
    }

    fn streaming(mut self) -> Session {
        self.settings.runtime_mode = RuntimeMode::Streaming;
        self
    }

    fn bind(&self, sql: &str) -> Result<Insert, Diagnostic> {
        let mut statements = parse_script(sql)?;
        match statements.remove(0).statement {
            Statement::Query(query) => {
                let query = super::bind_query(&self.catalog, &self.settings, &query)?;
                Ok(Insert { target: Target::Result, query })
            }
            Statement::Insert(insert) => super::bind_insert(&self.catalog, &self.settings, &insert),
            other => panic!("neither a query nor an insert: {other:?}"),
        }
    }

    fn query(&self, sql: &str) -> Rel {
        self.bind(sql).unwrap_or_else(|e| panic!("{e}\n{sql}")).query
    }

    /// The plan as EXPLAIN shows it.
    fn plan(&self, sql: &str) -> String {
        explain::logical(&self.bind(sql).unwrap_or_else(|e| panic!("{e}\n{sql}")))
    }

    /// The pipelines as EXPLAIN shows them.
    fn pipelines(&self, sql: &str) -> String {
        let insert = self.bind(sql).unwrap_or_else(|e| panic!("{e}\n{sql}"));
        let plan = physical::plan(&[insert], Zone::default(), BeatClock::Arrival, None, physical::Rules::default())
            .unwrap_or_else(|e| panic!("{e}\n{sql}"));
        explain::pipelines(&plan, |_| String::new())
    }

    /// Names and types of the result: `a INT, b STRING NOT NULL`.
    fn schema(&self, sql: &str) -> String {
        schema_of(&self.query(sql))
    }

    /// The error as `MS2003 3:8+4 message`, and its advice.
    fn error(&self, sql: &str) -> (String, String) {
        let diagnostic = match self.bind(sql) {
            Ok(insert) => panic!("no error in {sql}\n{}", explain::logical(&insert)),
            Err(diagnostic) => diagnostic,
        };
        let place = match diagnostic.place {
            Some(Place::Sql { line, column, length }) => format!("{line}:{column}+{length}"),
            other => panic!("no place in the text: {other:?} {}", diagnostic.message),
        };
        (format!("{} {place} {}", diagnostic.code, diagnostic.message), diagnostic.advice.unwrap_or_default())
    }
}

fn schema_of(rel: &Rel) -> String {
    let columns = rel.schema().fields.into_iter().map(|f| {
        let not_null = if f.nullable { "" } else { " NOT NULL" };
        format!("{} {}{not_null}", f.name, f.data_type)
    });
    columns.collect::<Vec<_>>().join(", ")
}

fn tables() -> Session {
    Session::new(TABLES)
}

fn nexmark() -> Session {
    Session::new(COMBINED)
}
