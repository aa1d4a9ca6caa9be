//! No secret leaves the process: canaries as the values of secret options, through statements, errors and statistics.

use crate::support::millstream;
use std::fs;

/// Tables that nobody answers for, with a secret in each way of giving one.
const TABLES: &str = "
CREATE TABLE pg (id INT, v STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'jdbc',
    'url' = 'jdbc:postgresql://127.0.0.1:1/db?user=me&password=canary-in-jdbc', 'table-name' = 't');
CREATE TABLE pg_options (id INT, v STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'jdbc',
    'url' = 'jdbc:postgresql://127.0.0.1:1/db', 'username' = 'me', 'password' = 'canary-in-password', 'table-name' = 't');
CREATE TABLE topic (id INT, v STRING) WITH ('connector' = 'kafka', 'topic' = 'x', 'properties.bootstrap.servers' = '127.0.0.1:1',
    'scan.bounded.mode' = 'latest-offset', 'scan.startup.mode' = 'earliest-offset', 'properties.security.protocol' = 'SASL_SSL',
    'properties.sasl.mechanism' = 'PLAIN', 'properties.sasl.jaas.config' =
    'org.apache.kafka.common.security.plain.PlainLoginModule required username=\"me\" password=\"canary-in-jaas\";',
    'properties.ssl.key.password' = 'canary-in-ssl', 'properties.socket.connection.setup.timeout.ms' = '1000',
    'value.format' = 'avro-confluent', 'value.avro-confluent.url' = 'http://me:canary-in-url@127.0.0.1:1');
CREATE TABLE registry (id INT, v STRING) WITH ('connector' = 'kafka', 'topic' = 'x', 'properties.bootstrap.servers' = '127.0.0.1:1',
    'value.format' = 'avro-confluent', 'value.avro-confluent.url' = 'http://127.0.0.1:1',
    'value.avro-confluent.basic-auth.user-info' = 'me:canary-in-info',
    'value.avro-confluent.bearer-auth.token' = 'canary-in-token');
CREATE TABLE copy (w INT) WITH ('table-name' = 'u') LIKE pg_options (EXCLUDING ALL OVERWRITING OPTIONS);
CREATE VIEW secretive AS SELECT id, v FROM topic WHERE v <> 'https://me:canary-in-view@host/';
CREATE TABLE numbers (id INT) WITH ('connector' = 'datagen', 'number-of-rows' = '10', 'fields.id.kind' = 'sequence',
    'fields.id.start' = '1', 'fields.id.end' = '10');
";

/// Each is run by itself behind the tables; most of them fail.
const STATEMENTS: &[&str] = &[
    "SHOW CREATE TABLE pg;",
    "SHOW CREATE TABLE pg_options;",
    "SHOW CREATE TABLE topic;",
    "SHOW CREATE TABLE registry;",
    "SHOW CREATE TABLE copy;",
    "SHOW CREATE VIEW secretive;",
    "SHOW TABLES; SHOW VIEWS; DESCRIBE pg_options; DESCRIBE secretive; SET;",
    "EXPLAIN INSERT INTO pg SELECT id, 'x' FROM numbers;",
    "EXPLAIN SELECT * FROM topic;",
    "EXPLAIN ANALYZE SELECT COUNT(*) FROM secretive;",
    "INSERT INTO pg SELECT id, 'x' FROM numbers;",
    "INSERT INTO pg_options SELECT id, 'x' FROM numbers;",
    "INSERT INTO registry SELECT id, 'x' FROM numbers;",
    "SELECT COUNT(*) FROM topic;",
    "SELECT * FROM secretive;",
    // What cannot be parsed is shown as it was written.
    "CREATE TABLE t (a INT) WITH ('connector' = 'jdbc', 'password' 'canary-without-sign');",
    "CREATE TABLE t (a INT) WITH ('connector' = 'jdbc', 'password' = 'canary-not-closed);",
    "CREATE TABLE t (a INT) WITH ('password' = 'canary-at-place', 'connector');",
    "CREATE TABLE t (a INT) WITH ('password' = 'canary-twice', 'password' = 'canary-again');",
    "CREATE TABLE t (a INTEGERS) WITH ('password' = 'canary-in-line');",
    // Habits of other systems, whose advice repeats names.
    "CREATE STREAM t (a INT) WITH (kafka_topic = 'x', password = 'canary-stream');",
    "CREATE SOURCE t (a INT) WITH (connector = 'kafka', properties.sasl.password = 'canary-source');",
    "CREATE MATERIALIZED VIEW t AS SELECT * FROM postgres_scan('host=h password=canary-scan', 'public', 't');",
    "ATTACH 'postgres://me:canary-attach@h/db' AS db;",
    "COPY numbers TO 'https://me:canary-copy@h/x.csv';",
    "CREATE SECRET s (TYPE s3, KEY_ID 'k', SECRET 'canary-secret');",
    "CREATE USER me PASSWORD 'canary-user';",
    "CREATE CATALOG c WITH ('type' = 'jdbc', 'password' = 'canary-catalog');",
    "SET s3_secret_access_key = 'canary-setting';",
    "CREATE TABLE t (a INT) WITH (password = 'canary-key');",
    "CREATE TABLE t (a INT) WITH ('connector' = 'mysql-cdc', 'password' = 'canary-mysql', 'url' = 'jdbc:mysql://me:canary-url@h/db'); SELECT * FROM t;",
    "CREATE TABLE t (a INT) WITH ('connector' = 'jdbc', 'url' = 'jdbc:mysql://me:canary-url@h/db', 'table-name' = 't'); INSERT INTO t SELECT 1;",
    "CREATE TABLE t (a INT) WITH ('connector' = 'kafka', 'properties.bootstrap.servers' = 'x', 'topic' = 'x', 'format' = 'json', \
     'properties.sasl.jaas.config' = 'canary-no-module'); SELECT * FROM t;",
    "CREATE TABLE t (a INT) WITH ('connector' = 'jdbc', 'url' = 'postgres://me:canary-scheme@h/db', 'table-name' = 't'); INSERT INTO t SELECT 1;",
    "CREATE TABLE t (a INT) WITH ('connector' = 'kafka', 'topic' = 'x', 'properties.bootstrap.servers' = 'x', \
     'format' = 'avro-confluent', 'avro-confluent.url' = 'ftp://me:canary-ftp@h'); SELECT * FROM t;",
    "CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', 'format' = 'json', 'secret-option' = 'canary-unknown', 'path' = 'x'); SELECT * FROM t;",
    "CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = 'https://me:canary-path@h/x.json'); SELECT * FROM t;",
];

#[test]
fn no_secret_is_shown() {
    assert_eq!(said("SHOW TABLES;").1, "");
    // Most of them wait for somebody who does not answer.
    std::thread::scope(|scope| STATEMENTS.iter().for_each(|statement| _ = scope.spawn(|| check(statement))));
}

/// Standard output and errors of a statement behind the tables.
fn said(statement: &str) -> (String, String) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("q.sql"), format!("{TABLES}{statement}")).unwrap();
    let output = millstream(folder.path()).args(["run", "q.sql", "--stats", "json"]).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

fn check(statement: &str) {
    let (out, errors) = said(statement);
    assert!(!out.is_empty() || !errors.is_empty(), "{statement} says nothing");
    for (what, text) in [("output", out), ("errors", errors)] {
        assert!(!text.contains("canary"), "{what} of {statement}: {text}");
    }
}
