//! SQL functions: definitions and calls.

use super::{Session, nexmark};
use crate::ddl::FunctionDefinition;
use crate::statement::{ObjectKind, Statement, parse_script};

fn definition(sql: &str) -> FunctionDefinition {
    match parse_script(sql).unwrap().remove(0).statement {
        Statement::CreateFunction(definition) => *definition,
        other => panic!("not a function: {other:?}"),
    }
}

fn session(functions: &str) -> Session {
    Session::new(&format!(
        "CREATE TABLE t (i INT NOT NULL, s STRING, v VARCHAR(5), d DOUBLE) WITH ('connector' = 'datagen'); {functions}"
    ))
}

#[test]
fn calls_are_inlined() {
    let session = session(
        "CREATE FUNCTION count_char(s STRING, c STRING) RETURNS BIGINT RETURN CHAR_LENGTH(s) - CHAR_LENGTH(REPLACE(s, c, ''));
         CREATE TEMPORARY FUNCTION IF NOT EXISTS Twice(x BIGINT) RETURNS BIGINT LANGUAGE SQL RETURN x + x;
         CREATE FUNCTION four(x INT) RETURNS STRING RETURN twice(TWICE(x));
         CREATE FUNCTION pi2() RETURNS DOUBLE RETURN 6.28;",
    );
    assert_eq!(
        session.schema("SELECT count_char(s, 'c') AS n, twice(i) AS t, FOUR(1) AS f, pi2() AS p FROM t WHERE COUNT_CHAR(v, 'x') > 1"),
        "n BIGINT, t BIGINT, f STRING, p DOUBLE NOT NULL"
    );
    let plan = session.plan("SELECT twice(i) AS t FROM t");
    assert!(plan.contains("Project [(CAST(i AS BIGINT) + CAST(i AS BIGINT)) AS t]"), "{plan}");
    // Also in computed columns and within aggregates.
    let definitions = "CREATE FUNCTION inc(x INT) RETURNS INT RETURN x + 1;
        CREATE TABLE c (i INT, j AS inc(i)) WITH ('connector' = 'datagen');";
    let session = Session::new(definitions).batch();
    assert_eq!(session.schema("SELECT SUM(inc(j)) AS s FROM c"), "s INT");
}

#[test]
fn nexmark_counts_letters() {
    let mut session = nexmark();
    let count_char = "CREATE FUNCTION count_char(s STRING, c STRING) RETURNS BIGINT
        RETURN CHAR_LENGTH(s) - CHAR_LENGTH(REPLACE(s, c, ''))";
    session.catalog.create_function(&definition(count_char)).unwrap();
    assert_eq!(session.schema("SELECT count_char(extra, 'c') AS c_counts FROM bid"), "c_counts BIGINT");
}

#[test]
fn definitions_are_checked() {
    let mut session = session("CREATE FUNCTION f(x INT) RETURNS INT RETURN x;");
    for (sql, error, advice) in [
        ("CREATE FUNCTION f(x INT) RETURNS INT RETURN x", "MS2011", "IF NOT EXISTS"),
        ("CREATE FUNCTION upper(x INT) RETURNS INT RETURN x", "MS2011", "another name"),
        ("CREATE FUNCTION sum(x INT) RETURNS INT RETURN x", "MS2011", "another name"),
        ("CREATE FUNCTION g(x INT) RETURNS INT RETURN y", "MS2003", "columns: x"),
        ("CREATE FUNCTION g(x INT) RETURNS INT RETURN g(x - 1)", "MS2005", "cannot call itself"),
        ("CREATE FUNCTION g(x INT, x INT) RETURNS INT RETURN x", "MS2001", "rename"),
        ("CREATE FUNCTION g(x ROW<a INT>) RETURNS INT RETURN x", "MS2006", ""),
        ("CREATE FUNCTION g(x INT) RETURNS INT RETURN COUNT(x)", "MS2012", ""),
        ("CREATE FUNCTION a.g(x INT) RETURNS INT RETURN x", "MS2007", "plain name"),
    ] {
        let found = session.catalog.create_function(&definition(sql)).unwrap_err();
        assert!(found.code.to_string() == error, "{sql}: {found}");
        assert!(found.advice.clone().unwrap_or_default().contains(advice), "{sql}: {found:?}");
        assert!(found.place.is_some(), "{sql}");
    }
    assert!(
        !session
            .catalog
            .create_function(&definition("CREATE FUNCTION IF NOT EXISTS F(y INT) RETURNS INT RETURN y"))
            .unwrap()
    );
    let name = [sqlparser::ast::Ident::new("F")];
    assert!(session.catalog.drop(ObjectKind::Function, &name, false).unwrap());
    assert!(!session.catalog.drop(ObjectKind::Function, &name, true).unwrap());
    assert_eq!(session.catalog.drop(ObjectKind::Function, &name, false).unwrap_err().code.to_string(), "MS2005");
    assert!(session.error("SELECT f(i) FROM t").0.starts_with("MS2005 1:8+1 unknown function `f`"));
}

#[test]
fn calls_are_checked() {
    let session = session(
        "CREATE FUNCTION twice(x BIGINT) RETURNS BIGINT RETURN x + x;
         CREATE FUNCTION sixteen(x BIGINT) RETURNS BIGINT RETURN twice(twice(twice(twice(x))));",
    );
    for (sql, error, advice) in [
        ("SELECT twice() FROM t", "MS2006 1:8+5 twice takes 1 argument, not 0", "call twice(x BIGINT)"),
        ("SELECT twice(s) FROM t", "MS2006 1:14+1 STRING cannot be used as BIGINT", "call twice(x BIGINT)"),
        ("SELECT twice(RAND_INTEGER(3)) FROM t", "MS2007 1:14+14 twice uses its parameter `x` 2 times", "subquery"),
        ("SELECT sixteen(sixteen(sixteen(sixteen(i)))) FROM t", "MS2007", "subquery"),
        ("SELECT twise(i) FROM t", "MS2005 1:8+5 unknown function `twise`", "did you mean twice?"),
    ] {
        let found = session.error(sql);
        assert!(found.0.starts_with(error), "{sql}: {}", found.0);
        assert!(found.1.contains(advice), "{sql}: {}", found.1);
    }
}
