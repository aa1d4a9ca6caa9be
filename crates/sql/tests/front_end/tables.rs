//! The catalog: what CREATE and DROP do, and what DESCRIBE and SHOW CREATE say.

use millstream_plan::expr::ExprKind;
use millstream_plan::logical::ColumnKind;
use millstream_sql::{BindSettings, Catalog, CatalogEntry, Statement, describe, parse_script};
use millstream_types::{Diagnostic, code};
use sqlparser::ast::Ident;

fn run(catalog: &mut Catalog, sql: &str) -> Result<(), Diagnostic> {
    let settings = BindSettings::default();
    for parsed in parse_script(sql)? {
        match parsed.statement {
            Statement::CreateTable(t) => catalog.create_table(&t)?,
            Statement::CreateView(v) => catalog.create_view(&v, &settings)?,
            Statement::Drop { kind, name, if_exists } => catalog.drop(kind, &name, if_exists)?,
            other => panic!("{other:?}"),
        };
    }
    Ok(())
}

fn catalog(sql: &str) -> Catalog {
    let mut catalog = Catalog::new();
    run(&mut catalog, sql).unwrap_or_else(|e| panic!("{e}"));
    catalog
}

fn error(sql: &str) -> Diagnostic {
    run(&mut Catalog::new(), sql).expect_err(sql)
}

const TABLE: &str = "CREATE TABLE t (
    big AS CAST(id AS BIGINT),
    id INT COMMENT 'it''s',
    ts TIMESTAMP(3),
    day_of STRING METADATA FROM 'day' VIRTUAL,
    WATERMARK FOR ts AS ts - INTERVAL '4' SECOND,
    PRIMARY KEY (id) NOT ENFORCED
) COMMENT 'c' WITH ('connector' = 'print', 'x' = 'a''b')";

#[test]
fn binds_columns_keys_and_watermarks() {
    let catalog = catalog(TABLE);
    let table = catalog.lookup_table(&[Ident::new("t")]).unwrap();
    let ColumnKind::Computed(expression) = &table.columns[0].kind else { panic!() };
    // The operand is the second column of the table, although it is the first that the expression can see.
    assert!(matches!(&expression.kind, ExprKind::Cast { operand, .. } if operand.kind == ExprKind::Column(1)));
    assert_eq!(table.primary_key, [1]);
    assert!(!table.columns[1].field.nullable);
    assert_eq!(table.watermark.as_ref().unwrap().column, 2);
    assert_eq!(table.writable(), [1, 2]);
    assert_eq!(table.options.get("x"), Some("a'b"));
}

#[test]
fn describes_a_table() {
    let catalog = catalog(TABLE);
    let rows = describe::describe(&catalog.lookup(&[Ident::new("t")]).unwrap());
    let text: Vec<String> =
        rows.iter().map(|r| r.iter().map(|c| c.as_deref().unwrap_or("-")).collect::<Vec<_>>().join(" | ")).collect();
    assert_eq!(
        text[1..],
        [
            "id | INT | FALSE | PRI(id) | - | -",
            "ts | TIMESTAMP(3) *ROWTIME* | TRUE | - | - | ts - INTERVAL '4' SECOND",
            "day_of | STRING | TRUE | - | METADATA FROM 'day' VIRTUAL | -",
        ]
    );
    assert!(text[0].starts_with("big | BIGINT | "));
    assert!(text[0].ends_with(" | - | AS CAST(id AS BIGINT) | -"));
}

#[test]
fn show_create_table_creates_the_same_table() {
    let first = catalog(TABLE);
    let CatalogEntry::Table(entry) = first.lookup(&[Ident::new("t")]).unwrap() else { panic!() };
    let text = describe::show_create_table(&entry);
    let second = catalog(&text);
    let CatalogEntry::Table(again) = second.lookup(&[Ident::new("t")]).unwrap() else { panic!() };
    assert_eq!(describe::show_create_table(&again), text);
    assert_eq!(again.table.schema(), entry.table.schema());
    assert_eq!(again.table.options, entry.table.options);
}

#[test]
fn like_takes_over_what_it_says() {
    let sql = format!(
        "{TABLE}; CREATE TABLE u (z INT) WITH ('x' = 'own') LIKE t (EXCLUDING GENERATED, EXCLUDING CONSTRAINTS)"
    );
    let table = catalog(&sql).lookup_table(&[Ident::new("u")]).unwrap();
    let names: Vec<&str> = table.columns.iter().map(|c| c.field.name.as_str()).collect();
    assert_eq!(names, ["id", "ts", "day_of", "z"]);
    assert_eq!((table.options.get("x"), table.options.get("connector")), (Some("own"), Some("print")));
    assert!(table.primary_key.is_empty() && table.watermark.is_some());
}

#[test]
fn names_are_found_qualified_and_suggested() {
    let catalog = catalog("CREATE TABLE Orders (a INT); CREATE TABLE bids (a INT);");
    let name = |text: &str| text.split('.').map(Ident::new).collect::<Vec<_>>();
    assert!(catalog.lookup(&name("default_catalog.default_database.bids")).is_ok());
    assert!(catalog.lookup(&name("default_database.Orders")).is_ok());
    let unknown = catalog.lookup(&name("orders")).unwrap_err();
    assert_eq!((unknown.code, unknown.advice.as_deref()), (code::UNKNOWN_TABLE, Some("did you mean `Orders`?")));
    assert!(catalog.lookup(&name("other.bids")).is_err());
    assert_eq!(catalog.names().collect::<Vec<_>>(), ["Orders", "bids"]);
}

#[test]
fn create_and_drop() {
    let mut catalog =
        catalog("CREATE TABLE t (a INT); CREATE VIEW v (x) AS SELECT a FROM t; CREATE TABLE IF NOT EXISTS t (b INT)");
    assert_eq!(catalog.view_names().collect::<Vec<_>>(), ["v"]);
    assert_eq!(catalog.lookup(&[Ident::new("v")]).unwrap().schema().fields[0].name, "x");
    let exists = run(&mut catalog, "CREATE VIEW t AS SELECT a FROM t").unwrap_err();
    assert_eq!(exists.code, code::ALREADY_EXISTS);
    assert_eq!(catalog.lookup_table(&[Ident::new("v")]).unwrap_err().code, code::NOT_A_SINK);
    assert_eq!(run(&mut catalog, "DROP TABLE v").unwrap_err().message, "'v' is a view");
    run(&mut catalog, "DROP VIEW v; DROP TABLE t; DROP TABLE IF EXISTS t").unwrap();
    assert_eq!(run(&mut catalog, "DROP TABLE t").unwrap_err().code, code::UNKNOWN_TABLE);
    let columns = run(&mut catalog, "CREATE TABLE t (a INT); CREATE VIEW w (a, b) AS SELECT a FROM t").unwrap_err();
    assert_eq!(columns.message, "view 'w' names 2 columns, but its query has 1");
}

#[test]
fn definitions_are_checked() {
    for (sql, expected) in [
        ("CREATE TABLE t WITH ('a' = 'b')", "table 't' has no columns"),
        ("CREATE TABLE t (a INT, a STRING)", "a column named 'a' already exists in table 't'"),
        (
            "CREATE TABLE t (a INT, WATERMARK FOR ts AS ts)",
            "the rowtime attribute field 'ts' is not defined in the table schema",
        ),
        (
            "CREATE TABLE t (ts TIMESTAMP, WATERMARK FOR ts AS ts)",
            "the time field 'ts' of a watermark must be TIMESTAMP(p) or TIMESTAMP_LTZ(p) with a precision p from 0 to 3, but it \
             is TIMESTAMP(6)",
        ),
        (
            "CREATE TABLE t (ts TIMESTAMP(3), a INT, WATERMARK FOR ts AS a)",
            "the watermark of 'ts' must be TIMESTAMP(3), but its expression is INT",
        ),
        ("CREATE TABLE t (a INT, PRIMARY KEY (b) NOT ENFORCED)", "primary key column 'b' is not defined in the schema"),
        ("CREATE TABLE t (a INT, PRIMARY KEY (a, a) NOT ENFORCED)", "column 'a' occurs twice in the primary key"),
        (
            "CREATE TABLE t (a INT, b AS CAST(a AS STRING), PRIMARY KEY (b) NOT ENFORCED)",
            "invalid primary key: column 'b' is not a physical column",
        ),
    ] {
        let diagnostic = error(sql);
        assert_eq!(diagnostic.message, expected);
        assert!(diagnostic.place.is_some(), "{sql}");
    }
    let computed = error("CREATE TABLE t (a INT, b AS CAST(a AS STRING), c AS CAST(b AS INT))");
    assert_eq!(computed.code, code::UNKNOWN_COLUMN);
    assert!(computed.advice.unwrap().starts_with("a computed column cannot use another computed column"));
}
