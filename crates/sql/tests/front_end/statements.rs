//! Every statement, and the AST that Flink's constructs become.

use crate::{NEXMARK, NEXMARK_FLAT};
use millstream_sql::ddl::ColumnSource;
use millstream_sql::{ExplainKind, Statement, data_type, parse_script, parse_statement};
use sqlparser::ast::{Expr, SelectItem, SetExpr, TableFactor};
use std::sync::Arc;

fn parse(sql: &str) -> Statement {
    parse_statement(sql).unwrap_or_else(|e| panic!("{sql}: {e}"))
}

/// The first expression of a query without FROM.
fn expression(text: &str) -> Expr {
    let Statement::Query(query) = parse(&format!("SELECT {text}")) else { panic!("{text}") };
    let SetExpr::Select(select) = *Arc::unwrap_or_clone(query).body else { panic!("{text}") };
    match select.projection.into_iter().next() {
        Some(SelectItem::UnnamedExpr(e)) => e,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn parses_nexmark() {
    let script = parse_script(NEXMARK).unwrap();
    assert_eq!(script.len(), 28);
    assert_eq!(script[0].line, 3);
    assert!(script[27].text.starts_with("SELECT b.bidder, b.price"));
    let flat = parse_script(NEXMARK_FLAT).unwrap();
    assert_eq!(flat.len(), 7);
    let Statement::CreateTable(table) = &flat[2].statement else { panic!() };
    let names: Vec<&str> = table.columns.iter().map(|c| c.name.value.as_str()).collect();
    assert_eq!(names, ["auction", "bidder", "price", "channel", "url", "dateTime", "extra", "ts"]);
    assert_eq!(table.watermark.as_ref().unwrap().expression.to_string(), "ts - INTERVAL '4' SECOND");
    assert_eq!(table.options[1], ("path".into(), "file://${DATA}/bid.jsonl".into()));
}

#[test]
fn reads_all_of_create_table() {
    let sql = "CREATE TEMPORARY TABLE IF NOT EXISTS db.`my table` (
        id BIGINT NOT NULL COMMENT 'it''s the key',
        price DECIMAL(10, 2) NULL,
        nested ROW<a INT, b ROW<c ARRAY<MAP<STRING, INT>>>>,
        topic STRING METADATA VIRTUAL,
        at_time TIMESTAMP_LTZ(3) NOT NULL METADATA FROM 'timestamp' COMMENT 'when',
        total AS price * 2 COMMENT 'twice',
        WATERMARK FOR at_time AS at_time - INTERVAL '1' DAY(3),
        CONSTRAINT pk PRIMARY KEY (id, price) NOT ENFORCED
    ) COMMENT 'a table' WITH ('connector' = 'print', 'k' = '')";
    let Statement::CreateTable(table) = parse(sql) else { panic!() };
    assert!(table.temporary && table.if_not_exists);
    assert_eq!(table.name.iter().map(|i| i.value.as_str()).collect::<Vec<_>>(), ["db", "my table"]);
    assert_eq!(table.columns[0].comment.as_deref(), Some("it's the key"));
    assert!(matches!(table.columns[0].source, ColumnSource::Physical { nullable: false, .. }));
    let ColumnSource::Physical { data_type, .. } = &table.columns[2].source else { panic!() };
    assert_eq!(data_type.to_string(), "ROW<`a` INT, `b` ROW<`c` ARRAY<MAP<STRING, INT>>>>");
    assert!(matches!(
        &table.columns[3].source,
        ColumnSource::Metadata { key: None, is_virtual: true, nullable: true, .. }
    ));
    let ColumnSource::Metadata { key, is_virtual: false, nullable: false, .. } = &table.columns[4].source else {
        panic!()
    };
    assert_eq!(key.as_deref(), Some("timestamp"));
    assert!(matches!(&table.columns[5].source, ColumnSource::Computed(e) if e.to_string() == "price * 2"));
    assert_eq!(table.primary_key.len(), 2);
    assert_eq!(table.comment.as_deref(), Some("a table"));
    let Statement::CreateTable(table) = parse("CREATE TABLE t (a INT PRIMARY KEY NOT ENFORCED, b INT)") else {
        panic!()
    };
    assert_eq!(table.primary_key[0].value, "a");
}

#[test]
fn reads_the_statements_around_queries() {
    let shape = |sql: &str| match parse(sql) {
        Statement::CreateView(v) => format!("view {} {:?} {}", v.name[0].value, v.columns.len(), v.if_not_exists),
        Statement::Insert(i) => format!("insert {} {}", i.target[0].value, i.columns.len()),
        Statement::StatementSet(inserts) => format!("set of {}", inserts.len()),
        Statement::Query(q) => format!("query {q}"),
        Statement::Set { key, value } => format!("set {key}={value}"),
        Statement::Reset { key } => format!("reset {key:?}"),
        Statement::Explain { kind, inner } => {
            format!("{} {}", kind == ExplainKind::Codegen, matches!(*inner, Statement::StatementSet(_)))
        }
        Statement::Drop { kind, name, if_exists } => format!("drop {} {} {if_exists}", kind.name(), name[0].value),
        other => format!("{other:?}"),
    };
    for (sql, expected) in [
        ("create view if not exists v (a, b) comment 'c' as select 1, 2", "view v 2 true"),
        ("INSERT INTO t SELECT 1", "insert t 0"),
        ("INSERT INTO t (a, b) SELECT 1, 2", "insert t 2"),
        ("INSERT INTO t (SELECT 1)", "insert t 0"),
        ("INSERT INTO t VALUES (1, 'x'), (2, NULL)", "insert t 0"),
        ("EXECUTE INSERT INTO t SELECT 1", "insert t 0"),
        (
            "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; INSERT INTO b SELECT CASE WHEN 1 = 1 THEN 2 END; END;",
            "set of 2",
        ),
        ("BEGIN STATEMENT SET; INSERT INTO a SELECT 1; END", "set of 1"),
        ("(SELECT 1) UNION ALL SELECT 2", "query (SELECT 1) UNION ALL SELECT 2"),
        ("WITH x AS (SELECT 1) SELECT * FROM x", "query WITH x AS (SELECT 1) SELECT * FROM x"),
        ("SET 'table.local-time-zone' = 'UTC'", "set table.local-time-zone=UTC"),
        ("SET pipeline.buffer-rows = 1", "set pipeline.buffer-rows=1"),
        ("RESET", "reset None"),
        ("RESET 'a.b'", "reset Some(\"a.b\")"),
        ("SET;", "ShowSettings"),
        ("EXPLAIN SELECT 1", "false false"),
        ("EXPLAIN PLAN FOR SELECT 1", "false false"),
        ("EXPLAIN CODEGEN INSERT INTO t SELECT 1", "true false"),
        ("EXPLAIN STATEMENT SET BEGIN INSERT INTO t SELECT 1; END", "false true"),
        ("DROP TABLE IF EXISTS t", "drop table t true"),
        ("DROP TEMPORARY VIEW v", "drop view v false"),
        ("SHOW TABLES", "ShowTables(NamePattern { pattern: None, ignores_case: false, is_negated: false })"),
        ("show views", "ShowViews(NamePattern { pattern: None, ignores_case: false, is_negated: false })"),
        ("SHOW FUNCTIONS", "ShowFunctions(NamePattern { pattern: None, ignores_case: false, is_negated: false })"),
        (
            "SHOW USER FUNCTIONS",
            "ShowUserFunctions(NamePattern { pattern: None, ignores_case: false, is_negated: false })",
        ),
    ] {
        assert_eq!(shape(sql), expected, "{sql}");
    }
    let lists = |sql: &str, names: &[&'static str]| match parse(sql) {
        Statement::ShowTables(pattern) => names.iter().copied().filter(|name| pattern.lists(name)).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    let names = ["orders", "Orders", "order_items", "orderxitems", "prices", ""];
    assert_eq!(lists("SHOW TABLES LIKE 'order%'", &names), ["orders", "order_items", "orderxitems"]);
    assert_eq!(lists("SHOW TABLES LIKE 'order\\_%s'", &names), ["order_items"]);
    assert_eq!(lists("SHOW TABLES LIKE '%r_ers'", &names), ["orders", "Orders"]);
    assert_eq!(lists("SHOW TABLES LIKE '%r%e%s'", &names).len(), 5);
    assert_eq!(lists("SHOW TABLES ILIKE 'O_ders'", &names), ["orders", "Orders"]);
    assert_eq!(lists("SHOW TABLES NOT LIKE '%s'", &names), [""]);
    assert!(matches!(parse("DESC t"), Statement::Describe(name) if name[0].value == "t"));
    assert!(matches!(parse("SHOW CREATE TABLE t"), Statement::ShowCreate(_)));
    assert!(matches!(parse("SHOW CREATE VIEW t"), Statement::ShowCreate(_)));
}

#[test]
fn sql_functions() {
    for (sql, parameters, if_not_exists) in [
        ("CREATE FUNCTION f(x STRING, n INT) RETURNS BIGINT RETURN CHAR_LENGTH(x) + n", "x STRING, n INT", false),
        ("CREATE TEMPORARY FUNCTION IF NOT EXISTS f() RETURNS BIGINT LANGUAGE SQL RETURN 1", "", true),
        ("CREATE TEMPORARY SYSTEM FUNCTION f(r ROW<a INT>) RETURNS BIGINT RETURN r.a", "r ROW<`a` INT>", false),
    ] {
        let Statement::CreateFunction(function) = parse(sql) else { panic!("{sql}") };
        let shown: Vec<String> = function.parameters.iter().map(|(n, t)| format!("{} {t}", n.value)).collect();
        assert_eq!((shown.join(", ").as_str(), function.if_not_exists), (parameters, if_not_exists), "{sql}");
        assert_eq!(function.returns.to_string(), "BIGINT", "{sql}");
    }
    for (sql, exists) in [("DROP FUNCTION f", false), ("DROP TEMPORARY SYSTEM FUNCTION IF EXISTS f", true)] {
        let Statement::Drop { kind, name, if_exists } = parse(sql) else { panic!("{sql}") };
        assert_eq!((kind.name(), name[0].value.as_str(), if_exists), ("function", "f", exists), "{sql}");
    }
}

#[test]
fn table_arguments_become_calls() {
    let from = |sql: &str| {
        let Statement::Query(query) = parse(sql) else { panic!() };
        let SetExpr::Select(select) = *Arc::unwrap_or_clone(query).body else { panic!() };
        select.from.into_iter().next().unwrap().relation
    };
    for (sql, expected) in [
        (
            "TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '10' SECOND)",
            "TUMBLE(TABLE(bid), DESCRIPTOR(ts), INTERVAL '10' SECOND)",
        ),
        (
            "TUMBLE(DATA => TABLE db.bid, TIMECOL => DESCRIPTOR(`dateTime`), SIZE => INTERVAL '1' MINUTES)",
            "TUMBLE(DATA => TABLE(db.bid), TIMECOL => DESCRIPTOR(`dateTime`), SIZE => INTERVAL '1' MINUTES)",
        ),
        (
            "SESSION(TABLE bid PARTITION BY bidder, auction, DESCRIPTOR(ts), INTERVAL '5' MINUTE)",
            "SESSION(TABLE(bid, bidder, auction), DESCRIPTOR(ts), INTERVAL '5' MINUTE)",
        ),
        (
            "SESSION(DATA => TABLE bid PARTITION BY (bidder, auction), TIMECOL => DESCRIPTOR(ts))",
            "SESSION(DATA => TABLE(bid, bidder, auction), TIMECOL => DESCRIPTOR(ts))",
        ),
    ] {
        let TableFactor::TableFunction { expr, .. } = from(&format!("SELECT * FROM TABLE({sql}) AS t")) else {
            panic!("{sql}")
        };
        assert_eq!(expr.to_string(), expected);
        let TableFactor::Table { args: Some(_), .. } = from(&format!("SELECT * FROM {sql}")) else { panic!("{sql}") };
    }
}

#[test]
fn expressions_of_flink_are_understood() {
    for text in [
        "a || 'it''s' <> 'x' AND b != 1 OR NOT c % 2 = 0",
        "INTERVAL '1 10:20:30.4' DAY TO SECOND(3)",
        "INTERVAL '10:20' HOUR TO MINUTE",
        "INTERVAL '2' HOUR",
        "ts - INTERVAL '99' DAY(3)",
        "DATE '2024-01-01'",
        "TIME '10:20:30'",
        "TIMESTAMP '2024-01-01 00:00:00.123'",
        "ARRAY[1, 2, 3][1]",
        "t.bid.price",
        "m['key']",
        "COUNT(DISTINCT x) FILTER (WHERE y > 1)",
        "x IS NOT DISTINCT FROM y",
        "x NOT BETWEEN 1 AND 2",
        "x LIKE 'a!%' ESCAPE '!'",
        "x SIMILAR TO 'a+'",
        "x IS NOT TRUE",
        "EXTRACT(YEAR FROM ts)",
        "CEIL(ts TO DAY)",
        "TRIM(BOTH ' ' FROM x)",
        "SUBSTRING(x FROM 2 FOR 3)",
        "POSITION('a' IN x)",
        "OVERLAY(x PLACING 'y' FROM 1 FOR 2)",
        "TIMESTAMPADD(DAY, 1, ts)",
        "TIMESTAMPDIFF(SECOND, a, b)",
        "CURRENT_TIMESTAMP",
        "IF(a > 1, 'x', 'y')",
        "LEFT(x, 2)",
        "ROW(1, 'a')",
        "CASE x WHEN 1 THEN 'a' ELSE 'b' END",
        "ROW_NUMBER() OVER (PARTITION BY a ORDER BY b DESC)",
        "1.5E-3",
        ".5",
        "X'0AFF'",
        "U&'\\00e4'",
        "`value` + value + `timestamp` + `date`",
    ] {
        let _ = expression(text);
    }
    assert_eq!(expression("MAP['a', 1, 'b', 2]").to_string(), "MAP('a', 1, 'b', 2)");
    assert_eq!(expression("TableName.Mixed").to_string(), "TableName.Mixed");
}

#[test]
fn casts_carry_flinks_types() {
    for (text, expected) in [
        ("CAST(x AS INT)", "INT"),
        ("cast(x as double precision)", "DOUBLE"),
        ("TRY_CAST(x AS TIMESTAMP_LTZ(3))", "TIMESTAMP_LTZ(3)"),
        ("CAST(x AS ROW<a INT, b ARRAY<ARRAY<STRING>>>)", "ROW<`a` INT, `b` ARRAY<ARRAY<STRING>>>"),
        ("CAST(CAST(x AS VARCHAR) AS DECIMAL(10, 2))", "DECIMAL(10, 2)"),
        ("CAST(x AS INTERVAL DAY TO SECOND)", "INTERVAL DAY TO SECOND"),
        ("CAST(x AS TIMESTAMP(3) WITH LOCAL TIME ZONE)", "TIMESTAMP_LTZ(3)"),
        ("x::BIGINT", "BIGINT"),
    ] {
        let Expr::Cast { data_type, .. } = expression(text) else { panic!("{text}") };
        assert_eq!(data_type::from_ast(&data_type).unwrap().to_string(), expected, "{text}");
    }
}

#[test]
fn comments_are_skipped_and_hints_are_refused() {
    let sql = "SELECT /* no + 'hint */ 1 -- one; two\n /* 'x */ + 2";
    assert!(matches!(parse(sql), Statement::Query(q) if q.to_string() == "SELECT 1 + 2"));
    let hint = parse_statement("SELECT /*+ OPTIONS('a' = 'b') */ 1").unwrap_err();
    assert_eq!(hint.code, millstream_types::code::UNSUPPORTED);
    let hinted = "SELECT /*+ STATE_TTL('t' = '1 d') */ a FROM t";
    assert!(matches!(parse(hinted), Statement::Query(q) if q.to_string().contains("STATE_TTL('t' = '1 d')")));
    // It says nothing elsewhere.
    assert!(parse_statement("SELECT a FROM t /*+ STATE_TTL('t' = '1 d') */").is_err());
}
