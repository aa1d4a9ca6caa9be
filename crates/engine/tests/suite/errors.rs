//! Broken input of every kind: the code, the place, the advice, and what is left behind.

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use millstream::{Code, Diagnostic, LocalTable, Place, Session, SessionConfig, code};
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// Tables that the statements below name.
const TABLES: &str = "CREATE TABLE t (id INT, name STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) \
     WITH ('connector' = 'datagen', 'number-of-rows' = '5'); CREATE TABLE k (id INT) WITH ('connector' = 'blackhole'); \
     CREATE TABLE endless (id INT) WITH ('connector' = 'datagen'); \
     CREATE TABLE lines (n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'nowhere', 'format' = 'json');";

fn fail(script: &str) -> Diagnostic {
    Session::new(SessionConfig::default()).query(script).expect_err(script)
}

/// A statement behind [`TABLES`] and a line break, its code, and line and column of the trouble within it.
type Case = (&'static str, Code, u64, u64);

fn check(cases: &[Case]) {
    for &(sql, expected, line, column) in cases {
        let error = fail(&format!("{TABLES}\n{sql}"));
        assert_eq!(error.code, expected, "{sql}: {error}");
        let Some(Place::Sql { line: at_line, column: at_column, length }) = error.place else {
            panic!("{sql}: no place in {error}")
        };
        assert_eq!((at_line - 1, at_column), (line, column), "{sql}: {error}");
        assert!(length > 0, "{sql}");
        assert!(error.help().is_some_and(|help| !help.is_empty()), "{sql}");
    }
}

#[test]
fn names_that_are_not_there_are_placed_and_answered() {
    let error = fail("SELECT 1;\nSELECT x\nFROM nowhere");
    assert_eq!(error.code, code::UNKNOWN_TABLE);
    assert_eq!(error.place, Some(Place::Sql { line: 3, column: 6, length: 7 }));
    assert!(error.advice.is_some());
    for (sql, suggestion) in [
        ("SELECT nam FROM t", "`name`"),
        ("SELECT UPPERR(name) FROM t", "UPPER"),
        ("SELECT 1 FROM kk", "`k`"),
        ("SET 'pipeline.buffer-row' = '1'", "'pipeline.buffer-rows'"),
        ("SELEC 1", "SELECT"),
        ("SELECT * FORM t", "FROM"),
    ] {
        let advice = fail(&format!("{TABLES}{sql}")).advice.unwrap_or_default();
        assert!(advice.starts_with("did you mean") && advice.contains(suggestion), "{sql}: {advice}");
    }
}

#[test]
fn broken_statements_have_line_and_column() {
    check(&[
        ("SELECT 1 +", code::SYNTAX, 1, 11),
        ("SELECT 'é',\n\tidd FROM t", code::UNKNOWN_COLUMN, 2, 2),
        ("SELECT 'äöü', nope FROM t", code::UNKNOWN_COLUMN, 1, 15),
        ("SELECT 'abc", code::SYNTAX, 1, 8),
        ("SELECT id FROM t WHERE name", code::TYPE_MISMATCH, 1, 24),
        ("SELECT id + name FROM t", code::TYPE_MISMATCH, 1, 8),
        ("SELECT SUBSTRING(name) FROM t", code::TYPE_MISMATCH, 1, 18),
        ("INSERT INTO lines SELECT COUNT(*) FROM endless LIMIT 1", code::NEEDS_UPDATES, 1, 13),
        ("SELECT id FROM endless ORDER BY id", code::NEEDS_UPDATES, 1, 33),
        ("SELECT id FROM t ORDER BY 2", code::UNKNOWN_COLUMN, 1, 27),
        ("SELECT id FROM t WHERE SUM(id) > 1", code::NOT_GROUPED, 1, 24),
        ("SELECT DATE 'abc'", code::INVALID_LITERAL, 1, 13),
        ("SELECT CAST('x' AS INT)", code::INVALID_CAST, 1, 13),
        ("SELECT 1/0", code::DIVISION_BY_ZERO, 1, 8),
        ("INSERT INTO k SELECT name FROM t", code::SCHEMA_MISMATCH, 1, 22),
        ("INSERT INTO k SELECT id, id FROM t", code::SCHEMA_MISMATCH, 1, 15),
        ("CREATE TABLE t (id INT)", code::ALREADY_EXISTS, 1, 14),
        ("CREATE TABLE q (a INTT)", code::SYNTAX, 1, 19),
        ("SELECT ${missing", code::SYNTAX, 1, 8),
    ]);
}

#[test]
fn what_flink_has_and_millstream_has_not_is_named() {
    let unsupported = [
        ("SELECT CUME_DIST() OVER (ORDER BY ts) FROM t", "CUME_DIST"),
        ("SELECT id FROM t INTERSECT SELECT id FROM t", "INTERSECT"),
        ("SELECT t.id FROM t JOIN k ON t.id = (SELECT 1)", "subquery"),
        ("SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts PATTERN (A) DEFINE A AS id > 1)", "MATCH_RECOGNIZE"),
        ("CREATE FUNCTION f AS 'com.x.F'", "CREATE FUNCTION"),
        ("CREATE CATALOG c WITH ('type'='hive')", "CREATE CATALOG"),
        ("CREATE DATABASE d", "CREATE DATABASE"),
        ("UPDATE k SET id = 1", "UPDATE"),
        ("DELETE FROM k", "DELETE"),
        ("ALTER TABLE k ADD (x INT)", "ALTER TABLE"),
        ("ANALYZE TABLE k COMPUTE STATISTICS", "ANALYZE"),
        ("LOAD MODULE hive", "LOAD MODULE"),
        ("ADD JAR '/x.jar'", "ADD JAR"),
        ("SELECT /*+ BROADCAST(t) */ * FROM t", "hint"),
        ("SELECT * FROM t /*+ OPTIONS('a' = 'b') */", "hint"),
        ("CREATE TABLE p (d STRING) DISTRIBUTED BY (d) WITH ('connector' = 'blackhole')", "DISTRIBUTED BY"),
        ("SELECT id FROM endless OFFSET 2", "OFFSET of an endless input without LIMIT"),
        ("SELECT id IN (SELECT id FROM k) FROM t", "IN (subquery)"),
    ];
    for (sql, feature) in unsupported {
        let error = fail(&format!("{TABLES}{sql}"));
        assert_eq!(error.code, code::UNSUPPORTED, "{sql}: {error}");
        assert!(error.message.contains(feature), "{sql}: {error}");
        assert!(matches!(error.place, Some(Place::Sql { line: 1, .. })), "{sql}: {error}");
        assert!(error.advice.is_some(), "{sql}: {error}");
    }
}

#[test]
fn deep_nesting_is_an_error() {
    let deep = |open: &str, middle: &str, close: &str| {
        for depth in [500, 20_000] {
            let error = fail(&format!("SELECT {}{middle}{}", open.repeat(depth), close.repeat(depth)));
            assert_eq!(error.code, code::SYNTAX, "{open} {depth}");
        }
    };
    deep("(", "1", ")");
    deep("ABS(", "1", ")");
    deep("CASE WHEN TRUE THEN ", "1", " END");
    deep("NOT ", "TRUE", "");
    deep("- ", "1", "");
    let chain = fail(&format!("SELECT 1{}", " + 1".repeat(20_000)));
    assert_eq!(chain.code, code::SYNTAX);
}

fn json_table(path: &Path, options: &str) -> String {
    format!(
        "CREATE TABLE f (id INT, name STRING) \
         WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'json'{options});",
        path.display()
    )
}

#[test]
fn a_malformed_record_is_placed_and_affects_no_other() {
    let cases: &[(&[u8], Code, usize)] = &[
        (br#"{"id":3,"name":"n"#, code::MALFORMED_RECORD, 4),
        (br#"{"id":3,,"name":"x"}"#, code::MALFORMED_RECORD, 4),
        (b"[1,2]", code::MALFORMED_RECORD, 4),
        (b"hello", code::MALFORMED_RECORD, 4),
        (b"\0\0", code::MALFORMED_RECORD, 4),
        (b"{\"id\":3,\"name\":\"\xff\"}", code::MALFORMED_RECORD, 4),
        (br#"{"id":99999999999999999999,"name":"x"}"#, code::WRONG_TYPE, 5),
        (br#"{"id":{"a":1},"name":"x"}"#, code::WRONG_TYPE, 5),
    ];
    let nested = [br#"{"id":3,"skip":"#.to_vec(), b"[".repeat(100_000), b"]".repeat(100_000), b"}".to_vec()].concat();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records.json");
    for (bad, expected, rows) in cases.iter().copied().chain([(nested.as_slice(), code::MALFORMED_RECORD, 4)]) {
        let good = |id: u32| format!("{{\"id\":{id},\"name\":\"n{id}\"}}\n").into_bytes();
        let before = [good(1), good(2)].concat();
        fs::write(&path, [before.clone(), bad.to_vec(), b"\n".to_vec(), good(4), good(5)].concat()).unwrap();
        let shown = String::from_utf8_lossy(&bad[..bad.len().min(40)]);
        let error = fail(&(json_table(&path, "") + "SELECT * FROM f"));
        assert_eq!(error.code, expected, "{shown}: {error}");
        let Some(Place::Data { resource, offset, line, .. }) = &error.place else { panic!("{shown}: {error}") };
        assert_eq!(Path::new(resource), path);
        assert_eq!((*offset, *line), (Some(before.len() as u64), Some(3)), "{shown}");
        assert!(error.help().is_some());
        for settings in ["", "SET 'parallelism.default' = '8'; SET 'pipeline.buffer-rows' = '1';"] {
            let table = json_table(&path, ", 'json.ignore-parse-errors' = 'true'");
            let batch = Session::new(SessionConfig::default())
                .query(&format!("{settings}{table} SELECT id, name FROM f"))
                .unwrap();
            assert_eq!(batch.num_rows(), rows, "{shown}");
        }
    }
}

#[test]
fn unusable_files_and_options_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    for (name, bytes) in [("a.json.gz", b"hello".as_slice()), ("a.json.zst", b"hello"), ("b.json.gz", b"")] {
        let error = fail(&(json_table(&at(name, bytes), "") + "SELECT * FROM f"));
        assert_eq!(error.code, code::MALFORMED_FILE, "{name}: {error}");
        assert!(error.place.is_some() && error.advice.is_some(), "{name}: {error}");
    }
    let parquet = at("a.parquet", b"PAR1 this is no parquet file PAR1");
    let sql = json_table(&parquet, "").replace("'json'", "'parquet'");
    assert_eq!(fail(&(sql + "SELECT * FROM f")).code, code::MALFORMED_FILE);
    let whole = folder.path().join("whole.parquet");
    let table = json_table(&whole, "").replace("'json'", "'parquet'");
    Session::new(SessionConfig::default()).query(&(table.clone() + "INSERT INTO f VALUES (1, 'a')")).unwrap();
    let error = fail(&(table.replace("name STRING", "name INT") + "SELECT * FROM f"));
    assert_eq!(error.code, code::WRONG_TYPE, "{error}");
    assert!(error.place.is_some() && error.help().is_some(), "{error}");
    let nowhere = folder.path().join("nowhere.json");
    let error = fail(&(json_table(&nowhere, "") + "SELECT * FROM f"));
    assert_eq!((error.code, error.place), (code::FILE_NOT_FOUND, Some(Place::Option("path".into()))));
    let good = at("good.json", b"{\"id\":1}\n");
    for (options, expected, key) in [
        (", 'json.ignore-parse-error' = 'true'", code::UNKNOWN_OPTION, "json.ignore-parse-error"),
        (", 'json.ignore-parse-errors' = 'maybe'", code::INVALID_OPTION, "json.ignore-parse-errors"),
    ] {
        let error = fail(&(json_table(&good, options) + "SELECT * FROM f"));
        assert_eq!((error.code, &error.place), (expected, &Some(Place::Option(key.into()))), "{error}");
        assert!(error.help().is_some());
    }
}

#[test]
fn a_failed_run_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("in.json");
    fs::write(&input, "{\"id\":1,\"name\":\"1\"}\n{\"id\":2,\"name\":\"x\"}\n").unwrap();
    let output = folder.path().join("out");
    fs::create_dir(&output).unwrap();
    for format in ["json", "csv", "parquet"] {
        let sink = format!(
            "CREATE TABLE s (id INT) WITH ('connector' = 'filesystem', 'path' = '{}/x.{format}', 'format' = '{format}');",
            output.display()
        );
        let error = fail(&(json_table(&input, "") + &sink + "INSERT INTO s SELECT CAST(name AS INT) FROM f"));
        assert_eq!(error.code, code::INVALID_CAST, "{error}");
        assert_eq!(fs::read_dir(&output).unwrap().count(), 0, "{format}");
    }
}

#[test]
fn two_inserts_cannot_replace_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.json");
    let script = json_table(&path, "")
        + "EXECUTE STATEMENT SET BEGIN INSERT INTO f VALUES (1, 'a'); INSERT INTO f VALUES (2, 'b'); END";
    let error = fail(&script);
    assert_eq!((error.code, &error.place), (code::INVALID_OPTION, &Some(Place::Option("path".into()))));
    assert!(error.advice.is_some());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_null_meets_not_null() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("in.json");
    fs::write(&input, "{\"id\":1,\"name\":\"a\"}\n{\"id\":2}\n").unwrap();
    let script = json_table(&input, "")
        + "CREATE TABLE s (name STRING NOT NULL) WITH ('connector' = 'blackhole'); INSERT INTO s SELECT name FROM f";
    let error = fail(&script);
    assert_eq!(error.code, code::NULL_IN_NOT_NULL, "{error}");
    assert!(matches!(error.place, Some(Place::Sql { .. })), "{error}");
    Session::new(SessionConfig::default()).query(&format!("SET 'pipeline.error-policy' = 'skip'; {script}")).unwrap();
}

#[test]
fn registering_replaces_what_was_registered_and_nothing_else() {
    let mut session = Session::new(SessionConfig::default());
    let batch = |values: &[i64]| {
        let column: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
        RecordBatch::try_from_iter([("a", column)]).unwrap()
    };
    let rows = |session: &mut Session, name: &str| session.query(&format!("SELECT * FROM {name}")).unwrap().num_rows();
    let relation =
        |session: &Session, sql: &str| session.relation(&session.parse(sql).unwrap()[0], &mut |_| Ok(None)).unwrap();
    session.register("t", "a BIGINT", vec![batch(&[1, 2])]).unwrap();
    let before = relation(&session, "SELECT a FROM t");
    let error = session.register("t", "a NUMBER", vec![]).unwrap_err();
    assert_eq!((error.place, rows(&mut session, "t")), (None, 2));
    session.register("t", "b BIGINT", vec![batch(&[3])]).unwrap();
    assert_eq!(rows(&mut session, "t"), 1);
    session.register_local("t", LocalTable::Query(Box::new(before))).unwrap();
    assert_eq!(rows(&mut session, "t"), 2);
    let itself = relation(&session, "SELECT a FROM t UNION ALL SELECT a FROM t");
    session.register_local("t", LocalTable::Query(Box::new(itself))).unwrap();
    assert_eq!(rows(&mut session, "t"), 4);
    session
        .query("CREATE TABLE made (a BIGINT) WITH ('connector' = 'blackhole'); CREATE VIEW seen AS SELECT 1 AS a")
        .unwrap();
    for name in ["made", "seen"] {
        let of_frame = session.register(name, "a BIGINT", vec![batch(&[1])]).unwrap_err();
        let query = relation(&session, "SELECT a FROM t");
        let of_query = session.register_local(name, LocalTable::Query(Box::new(query))).unwrap_err();
        for error in [of_frame, of_query] {
            assert_eq!((error.code, error.place), (code::ALREADY_EXISTS, None), "{name}");
            assert!(error.advice.is_some_and(|advice| advice.contains("another name")), "{name}");
        }
    }
}

#[test]
fn a_table_without_an_option_that_its_connector_needs_is_not_created() {
    let required = [
        ("'connector' = 'filesystem', 'format' = 'json'", "path"),
        ("'connector' = 'filesystem', 'path' = 'x'", "format"),
        ("'connector' = 'socket', 'format' = 'json'", "port"),
        ("'connector' = 'jdbc', 'url' = 'jdbc:postgresql://x/y'", "table-name"),
        ("'connector' = 'kafka', 'topic' = 't', 'format' = 'json'", "properties.bootstrap.servers"),
        ("'connector' = 'kafka', 'properties.bootstrap.servers' = 'x:1', 'format' = 'json'", "topic"),
        (
            "'connector' = 'kafka', 'properties.bootstrap.servers' = 'x:1', 'topic' = 't', 'value.format' = 'avro-confluent'",
            "value.avro-confluent.url",
        ),
    ];
    for (options, missing) in required {
        let error = fail(&format!("CREATE TABLE made (a BIGINT) WITH ({options})"));
        assert_eq!((error.code, error.place), (code::MISSING_OPTION, Some(Place::Option(missing.into()))), "{options}");
        assert!(error.advice.is_some(), "{options}");
    }
}
