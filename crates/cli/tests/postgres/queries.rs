//! SQL whose rows end up in tables of every kind.

use crate::server::{Database, USER};
use millstream::{Diagnostic, Session, SessionConfig, code};
use std::net::TcpListener;

fn run(script: &str) -> Result<(), Diagnostic> {
    Session::new(SessionConfig::default()).run(script)
}

/// Runs an INSERT of `select` into the table `out`, which is `table` there.
fn insert(database: &Database, columns: &str, table: &str, select: &str) -> Result<(), Diagnostic> {
    run(&format!("CREATE TABLE out ({columns}) {}; INSERT INTO out {select};", database.with(table)))
}

#[test]
fn rows_of_every_type_arrive() {
    let mut database = Database::new("every_type");
    database.execute(
        "CREATE TYPE mood AS ENUM ('sad', 'happy'); CREATE DOMAIN short AS varchar(8);
         CREATE TABLE t (b bool, i1 smallint, i2 smallint, i4 integer, i8 numeric(20), r real, d double precision,
            n numeric(10,2), c char(4), s text, e mood, u uuid, j jsonb, o short, y bytea, da date, ti time, ts timestamp,
            tz timestamptz, a integer[], aa text[][], m jsonb, ro json, id bigserial)",
    );
    let columns = "b BOOLEAN, i1 TINYINT, i2 SMALLINT, i4 INT, i8 BIGINT, r FLOAT, d DOUBLE, n DECIMAL(10, 2), c CHAR(4), s STRING, \
         e STRING, u STRING, j STRING, o VARCHAR(8), y BYTES, da DATE, ti TIME(0), ts TIMESTAMP(6), tz TIMESTAMP_LTZ(3), \
         a ARRAY<INT>, aa ARRAY<ARRAY<STRING>>, m MAP<STRING, INT>, ro ROW<x INT, `y z` STRING>";
    let values = "SELECT TRUE, CAST(-1 AS TINYINT), CAST(2 AS SMALLINT), 3, CAST(-9223372036854775807 AS BIGINT), CAST(1.5 AS FLOAT), \
         CAST(1e300 AS DOUBLE), CAST(12.30 AS DECIMAL(10, 2)), 'abcd', U&'tab\\0009 line\\000A back\\005C quote''\" é \\+01F600', \
         'happy', '6d6f6e64-0000-4000-8000-000000000001', '{\"k\": [1, null]}', 'short', x'00ff5c', DATE '2024-02-29', \
         TIME '12:34:56', TIMESTAMP '2024-02-29 12:34:56.123456', TO_TIMESTAMP_LTZ(1709210096123, 3), \
         ARRAY[1, CAST(NULL AS INT), 3], ARRAY[ARRAY['a,b', '\"\\'], ARRAY['NULL', '{}']], MAP['k', 1], ROW(1, 'z')";
    let nulls = "SELECT ".to_string() + &vec!["NULL"; 23].join(", ");
    insert(&database, columns, "t", values).unwrap();
    insert(&database, columns, "public.t", &nulls).unwrap();
    for (column, expected) in [
        ("b", "true"),
        ("i1", "-1"),
        ("i2", "2"),
        ("i4", "3"),
        ("i8", "-9223372036854775807"),
        ("r", "1.5"),
        ("d", "1e+300"),
        ("n", "12.30"),
        ("c", "abcd"),
        ("s", "tab\t line\n back\\ quote'\" é 😀"),
        ("e", "happy"),
        ("u", "6d6f6e64-0000-4000-8000-000000000001"),
        ("j", "{\"k\": [1, null]}"),
        ("o", "short"),
        ("y", "\\x00ff5c"),
        ("da", "2024-02-29"),
        ("ti", "12:34:56"),
        ("ts", "2024-02-29 12:34:56.123456"),
        ("(tz AT TIME ZONE 'UTC')", "2024-02-29 12:34:56.123"),
        ("a", "{1,NULL,3}"),
        ("aa", "{{\"a,b\",\"\\\"\\\\\"},{\"NULL\",\"{}\"}}"),
        ("m", "{\"k\": 1}"),
        ("ro", "{\"x\":1,\"y z\":\"z\"}"),
    ] {
        assert_eq!(database.rows(&format!("{column}::text"), "FROM t WHERE id = 1"), [expected], "{column}");
    }
    let all = "b, i1, i2, i4, i8, r, d, n, c, s, e, u, j, o, y, da, ti, ts, tz, a, aa, m, ro";
    assert_eq!(database.number(&format!("SELECT num_nulls({all})::bigint FROM t WHERE id = 2")), 23);
}

#[test]
fn a_primary_key_makes_the_last_row_count() {
    let mut database = Database::new("upsert");
    database.execute(
        "CREATE SCHEMA \"Shop\"; CREATE TABLE \"Shop\".\"Orders\" (id bigint, kind text, \"Total\" integer, PRIMARY KEY (kind, id));
         INSERT INTO \"Shop\".\"Orders\" VALUES (1, 'a', 100), (9, 'z', 900);
         CREATE TABLE seen (id bigint PRIMARY KEY)",
    );
    let table = "\"Shop\".\"Orders\"";
    let columns = "total INT, id BIGINT, kind STRING, PRIMARY KEY (id, kind) NOT ENFORCED";
    let rows = "VALUES (1, CAST(1 AS BIGINT), 'a'), (2, CAST(2 AS BIGINT), 'a'), (3, CAST(1 AS BIGINT), 'a'), (4, CAST(1 AS BIGINT), 'b')";
    for _ in 0..2 {
        insert(&database, columns, table, rows).unwrap();
        let found = database.rows("id, kind, \"Total\"", &format!("FROM {table} ORDER BY id, kind"));
        assert_eq!(found, ["1|a|3", "1|b|4", "2|a|2", "9|z|900"]);
    }
    // Nothing but a key: a row that is there stays.
    for _ in 0..2 {
        let rows = "VALUES (CAST(1 AS BIGINT)), (CAST(2 AS BIGINT)), (CAST(1 AS BIGINT))";
        insert(&database, "id BIGINT, PRIMARY KEY (id) NOT ENFORCED", "seen", rows).unwrap();
        assert_eq!(database.rows("id", "FROM seen ORDER BY id"), ["1", "2"]);
    }
}

#[test]
fn windows_reach_a_table_in_many_batches() {
    let mut database = Database::new("windows");
    database.execute(
        "CREATE TABLE counts (minute timestamp, key bigint, n bigint, PRIMARY KEY (minute, key)); CREATE TABLE plain (LIKE counts);
         CREATE VIEW through AS SELECT * FROM plain",
    );
    let source = "CREATE TABLE numbers (id BIGINT, ts AS CAST(TO_TIMESTAMP_LTZ(id * 100, 3) AS TIMESTAMP(3)), \
            WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen', 'rows-per-second' = '0', 'fields.id.kind' = 'sequence', \
            'fields.id.start' = '0', 'fields.id.end' = '59999');";
    let query = "SELECT window_start, MOD(id, 50), COUNT(*) FROM TABLE(TUMBLE(TABLE numbers, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) \
         GROUP BY window_start, window_end, MOD(id, 50)";
    for (table, key) in [("counts", ", PRIMARY KEY (`minute`, key) NOT ENFORCED"), ("plain", ""), ("through", "")] {
        for rows in ["100", "0"] {
            let with =
                database.with(table).replace("WITH (", &format!("WITH ('sink.buffer-flush.max-rows' = '{rows}', "));
            run(&format!(
                "{source} CREATE TABLE out (`minute` TIMESTAMP(3), key BIGINT, n BIGINT {key}) {with}; INSERT INTO out {query}"
            ))
            .unwrap();
        }
    }
    for (table, times) in [("counts", 1), ("plain", 4)] {
        assert_eq!(database.number(&format!("SELECT COUNT(*) FROM {table}")), 100 * 50 * times, "{table}");
        assert_eq!(database.number(&format!("SELECT SUM(n)::bigint FROM {table}")), 60_000 * times, "{table}");
    }
}

#[test]
fn what_does_not_fit_is_refused_before_the_first_row() {
    let mut database = Database::new("refused");
    database.execute(
        "CREATE TABLE t (id bigint, name text, u uuid, at timestamptz); CREATE TABLE strict (id bigint, must int NOT NULL);
         CREATE TABLE own (id bigint GENERATED ALWAYS AS (1) STORED); CREATE VIEW v AS SELECT id FROM t GROUP BY id;
         CREATE ROLE reader LOGIN PASSWORD 'x'",
    );
    let refused = |columns: &str, table: &str, select: &str| insert(&database, columns, table, select).unwrap_err();
    let error = refused("id BIGINT", "missing", "SELECT CAST(1 AS BIGINT)");
    assert_eq!(error.code, code::INVALID_TABLE);
    assert!(error.message.contains("has no table 'missing'"), "{error}");
    let error = refused("id BIGINT, nam STRING", "t", "SELECT CAST(1 AS BIGINT), 'a'");
    assert!(error.message.contains("no column 'nam'") && error.advice.unwrap().contains("id, name, u, at"));
    for (columns, select, expected) in [
        (
            "id STRING, u BIGINT",
            "SELECT '1', CAST(1 AS BIGINT)",
            "column u has the type BIGINT, but in the table public.t of PostgreSQL it is uuid",
        ),
        ("name BYTES", "SELECT x'00'", "it is text"),
        ("at DATE, id BOOLEAN", "SELECT DATE '2024-01-01', TRUE", "it is bigint"),
        ("name ROW<a INT>, at ARRAY<INT>", "SELECT ROW(1), ARRAY[1]", "it is timestamp with time zone"),
    ] {
        let error = refused(columns, "t", select);
        assert_eq!(error.code, code::TYPE_MISMATCH, "{error}");
        assert!(error.message.contains(expected) && error.advice.is_some(), "{error}");
    }
    let error = refused("id BIGINT", "strict", "SELECT CAST(1 AS BIGINT)");
    assert!(error.message.contains("'must'") && error.message.contains("gets no value"), "{error}");
    let error = refused("id BIGINT, PRIMARY KEY (id) NOT ENFORCED", "t", "SELECT CAST(1 AS BIGINT)");
    assert_eq!(error.code, code::INVALID_TABLE);
    assert!(error.advice.unwrap().contains("unique index"));
    let error = refused("id BIGINT", "own", "SELECT CAST(1 AS BIGINT)");
    assert!(error.message.contains("generated column"), "{error}");
    assert_eq!(refused("id BIGINT", "v", "SELECT CAST(1 AS BIGINT)").code, code::WRITE_FAILED);

    let with = |key: &str, value: &str| {
        let options = database.options("t").into_iter().filter(|(k, _)| k != key);
        let options = options.map(|(k, v)| format!("'{k}' = '{}'", v.replace('\'', "''")));
        let mut options: Vec<String> = options.collect();
        options.push(format!("'{key}' = '{value}'"));
        run(&format!(
            "CREATE TABLE out (id BIGINT) WITH ({}); INSERT INTO out SELECT CAST(1 AS BIGINT)",
            options.join(", ")
        ))
        .unwrap_err()
    };
    let port = database.server.port();
    let error = with("password", "wrong");
    assert_eq!(error.code, code::REFUSED);
    assert!(error.message.contains(&format!("password authentication failed for user \"{USER}\"")), "{error}");
    let error = with("url", &format!("jdbc:postgresql://127.0.0.1:{port}/nowhere"));
    assert_eq!(error.code, code::REFUSED);
    assert!(error.message.contains("database \"nowhere\" does not exist"), "{error}");
    for (url, expected) in [
        ("jdbc:mysql://localhost/x", "begins with 'mysql:'"),
        ("postgresql://localhost/x?sslmode=allow", "sslmode=allow"),
        ("postgresql://localhost/x?colour=red", "colour"),
        ("postgresql://localhost:port/x", "cannot be understood"),
    ] {
        let error = with("url", url);
        assert_eq!(error.code, code::INVALID_OPTION, "{error}");
        assert!(error.message.contains(expected), "{error}");
    }
    assert_eq!(with("sink.delivery-guarantee", "maybe").code, code::INVALID_OPTION);
    assert_eq!(with("sink.max-retries", "-1").code, code::INVALID_OPTION);
    let error = run(&format!(
        "CREATE TABLE out (id BIGINT) WITH ('connector' = 'jdbc', 'url' = 'postgresql://reader:x@127.0.0.1:{port}/refused', \
         'table-name' = 't'); INSERT INTO out SELECT CAST(1 AS BIGINT)"
    ))
    .unwrap_err();
    assert!(error.message.contains("permission denied") && error.advice.unwrap().contains("grant"));
    assert_eq!(database.number("SELECT COUNT(*) FROM t"), 0);
}

#[test]
fn rows_that_the_database_refuses_fail_the_query() {
    let mut database = Database::new("refused_rows");
    database.execute(
        "CREATE TABLE t (id smallint UNIQUE, name varchar(3) CHECK (name <> 'bad'), u uuid, y bytea);
         INSERT INTO t VALUES (7, 'old')",
    );
    let refused = |columns: &str, select: &str| insert(&database, columns, "t", select).unwrap_err();
    for (columns, select, code, expected) in [
        ("id BIGINT", "SELECT CAST(100000 AS BIGINT)", code::WRONG_TYPE, "out of range for type smallint"),
        ("id BIGINT", "SELECT CAST(7 AS BIGINT)", code::WRITE_FAILED, "Key (id)=(7) already exists"),
        ("name STRING", "SELECT 'long'", code::WRONG_TYPE, "value too long"),
        ("name STRING", "VALUES ('ok'), ('bad')", code::WRITE_FAILED, "violates check constraint"),
        ("u STRING", "SELECT 'no uuid'", code::WRONG_TYPE, "invalid input syntax for type uuid"),
        ("name STRING", "SELECT U&'\\0000'", code::WRONG_TYPE, "the character 0"),
    ] {
        let error = refused(columns, select);
        assert_eq!(error.code, code, "{error}");
        assert!(error.message.contains(expected), "{error}");
        assert!(error.advice.is_some(), "{error}");
    }
    assert_eq!(database.rows("id, name", "FROM t"), ["7|old"]);
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = run(&format!(
        "CREATE TABLE out (id BIGINT) WITH ('connector' = 'jdbc', 'url' = 'jdbc:postgresql://127.0.0.1:{port}/x', \
         'table-name' = 't', 'connection.max-retry-timeout' = '0s'); INSERT INTO out SELECT CAST(1 AS BIGINT)"
    ))
    .unwrap_err();
    assert_eq!(error.code, code::CONNECTION_FAILED);
    assert!(error.message.contains(&format!("127.0.0.1:{port}/x")) && error.message.contains("refused"), "{error}");
}
