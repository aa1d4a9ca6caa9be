//! Statements that are not there, by their first words.

use super::Words;
use crate::placed::error_at;
use millstream_types::{Code, Diagnostic, code};
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The words that a statement starts with, why it is not there (behind its name), and what to write instead.
type Row = (&'static [&'static str], &'static str, fn(Words<'_>) -> String);

/// What is said of statements of Flink that are not there.
const NOT_YET: &str = "is not supported yet";
/// What is said of statements of other systems.
const FOREIGN: &str = "is not a statement of Flink SQL";
/// What is said of results that change.
const NO_UPDATES: &str = "is not supported yet: results are kept up to date in a table that INSERT INTO writes";
const NO_CHANGES: &str = "is not supported yet: rows are read and written, not changed in place";

const ONE_DATABASE: &str = "all tables and views are in default_catalog.default_database";

/// The rows; where two fit, the first one counts.
const ROWS: &[Row] = &[
    // Rows that are changed.
    (&["UPDATE"], NO_CHANGES, |w| {
        let assigned = w.between("SET", &["WHERE", "FROM"]).unwrap_or_else(|| "x = 1".into());
        let (column, value) = assigned.split_once('=').unwrap_or(("x", "1"));
        let (column, value) = (column.trim(), value.trim());
        let changed = match w.between("WHERE", &[]) {
            Some(condition) => format!("CASE WHEN {condition} THEN {value} ELSE {column} END"),
            None => value.to_owned(),
        };
        format!(
            "select the rows as they should be, into another table if need be: SELECT * REPLACE ({changed} AS {column}) FROM {}",
            w.name("t")
        )
    }),
    (&["DELETE"], NO_CHANGES, |w| match w.between("WHERE", &[]) {
        Some(condition) => {
            format!(
                "select the rows that stay, into another table if need be: SELECT * FROM {} WHERE ({condition}) IS NOT TRUE",
                w.name("t")
            )
        }
        None => "remove the files of the table, or give it another 'path'".into(),
    }),
    (&["MERGE"], NO_CHANGES, |w| {
        format!(
            "join the two and INSERT the result into another table: INSERT INTO merged SELECT … FROM {} LEFT JOIN … ON …",
            w.name("t")
        )
    }),
    (&["TRUNCATE"], NO_CHANGES, |w| {
        format!(
            "remove the files of the table, or replace them as you write: INSERT OVERWRITE {} SELECT …",
            w.name("t")
        )
    }),
    (&["REPLACE", "INTO"], FOREIGN, |w| {
        format!("write INSERT INTO {} …, or INSERT OVERWRITE for a file that may be replaced", w.name("t"))
    }),
    (&["UPSERT"], FOREIGN, |w| format!("write INSERT INTO {} …", w.name("t"))),
    // Files in and out.
    (&["COPY"], FOREIGN, |w| {
        let name = w.name("t");
        let into_file = w.between("TO", &[]).is_some();
        let path = w.string(0, if into_file { "out.parquet" } else { "in.csv" });
        match into_file {
            true => write_file(&path, &w.query(&format!("SELECT * FROM {name}"))),
            false => format!(
                "read the file where it is: SELECT * FROM '{path}'; or write its rows to the table: INSERT INTO {name} SELECT * FROM '{path}'"
            ),
        }
    }),
    (&["EXPORT"], FOREIGN, |w| write_file("out.parquet", &format!("SELECT * FROM {}", w.name("t")))),
    (&["UNLOAD"], FOREIGN, |w| match w.tokens.get(1).map(|t| &t.token) {
        Some(Token::LParen) => write_file("out.parquet", "SELECT …"),
        _ => "leave the statement out: all functions are there without modules; SHOW FUNCTIONS lists them".into(),
    }),
    (&["IMPORT"], FOREIGN, |w| format!("read the file where it is: SELECT * FROM '{}'", w.string(0, "in.csv"))),
    (&["LOAD", "DATA"], FOREIGN, |w| format!("read the file where it is: SELECT * FROM '{}'", w.string(0, "in.csv"))),
    (&["LOAD"], NOT_YET, |_| {
        "leave the statement out: all functions are there without modules; SHOW FUNCTIONS lists them".into()
    }),
    (&["INSTALL"], FOREIGN, |_| "leave the statement out: connectors and formats are built in".into()),
    (&["ATTACH"], FOREIGN, |_| {
        "other databases are not read: write the table to a file there, and read that here: SELECT * FROM 't.csv' (psql: \\copy t to \
         t.csv csv header; sqlite3 and duckdb: .mode csv, .headers on, .once t.csv)"
            .into()
    }),
    (&["DETACH"], FOREIGN, |_| "leave the statement out: nothing is attached".into()),
    // What tables look like.
    (&["PRAGMA"], FOREIGN, |w| match w.string(0, "") {
        table if table.is_empty() => {
            "SET 'key' = 'value'; sets an option, SET; lists them; DESCRIBE t; shows columns".into()
        }
        table => format!("columns are shown by DESCRIBE {table}; tables by SHOW TABLES; options by SET"),
    }),
    (&["SUMMARIZE"], FOREIGN, |w| {
        format!(
            "DESCRIBE {0} shows columns and types; SELECT COUNT(*), MIN(x), MAX(x), APPROX_COUNT_DISTINCT(x) FROM {0} sums one up",
            w.name("t")
        )
    }),
    (&["SHOW", "COLUMNS"], NOT_YET, |w| format!("write DESCRIBE {}", w.name("t"))),
    (&["SHOW", "PARTITIONS"], NOT_YET, |w| {
        format!("SHOW CREATE TABLE {} names the partition columns; SELECT DISTINCT shows their values", w.name("t"))
    }),
    (&["SHOW", "CATALOGS"], NOT_YET, |_| format!("write SHOW TABLES: {ONE_DATABASE}")),
    (&["SHOW", "DATABASES"], NOT_YET, |_| format!("write SHOW TABLES: {ONE_DATABASE}")),
    (&["SHOW", "SCHEMAS"], FOREIGN, |_| format!("write SHOW TABLES: {ONE_DATABASE}")),
    (&["SHOW", "CURRENT"], NOT_YET, |_| format!("write SHOW TABLES: {ONE_DATABASE}")),
    (&["SHOW", "JOBS"], NOT_YET, |_| {
        "a process runs the statements of one script; `millstream checkpoint list --state-dir DIR` shows jobs and their checkpoints".into()
    }),
    (&["SHOW", "QUERIES"], FOREIGN, |_| {
        "a process runs the statements of one script; `millstream checkpoint list --state-dir DIR` shows jobs and their checkpoints".into()
    }),
    (&["SHOW", "JARS"], NOT_YET, |_| {
        "there are none: connectors, formats and functions are built in; write SHOW FUNCTIONS".into()
    }),
    (&["SHOW", "MODULES"], NOT_YET, |_| "there are none: all functions are built in; write SHOW FUNCTIONS".into()),
    (&["SHOW", "FULL"], NOT_YET, |_| "write SHOW TABLES or SHOW FUNCTIONS".into()),
    (&["SHOW", "MODELS"], NOT_YET, |_| "there are none; write SHOW TABLES or SHOW FUNCTIONS".into()),
    (&["SHOW", "CONNECTIONS"], NOT_YET, |_| {
        "there are none: the WITH (…) of each table says where it is; write SHOW TABLES".into()
    }),
    (&["SHOW", "PROCEDURES"], NOT_YET, |_| "there are none; write SHOW FUNCTIONS".into()),
    (&["SHOW", "STREAMS"], FOREIGN, |_| "streams are tables here: write SHOW TABLES".into()),
    (&["SHOW", "SOURCES"], FOREIGN, |_| "sources are tables here: write SHOW TABLES".into()),
    (&["SHOW", "SINKS"], FOREIGN, |_| "sinks are tables here: write SHOW TABLES".into()),
    (&["SHOW", "ALL"], FOREIGN, |_| "SET; lists the options".into()),
    (&["LIST"], FOREIGN, |_| "write SHOW TABLES, SHOW VIEWS or SHOW FUNCTIONS".into()),
    (&["PRINT"], FOREIGN, |w| {
        format!("declare the topic as a table, and SELECT from it: {}", kafka_table("t", "…", &w.string(0, "topic")))
    }),
    (&["SUBSCRIBE"], FOREIGN, |w| format!("write SELECT * FROM {}: rows come as they arrive", w.name("t"))),
    (&["TAIL"], FOREIGN, |w| format!("write SELECT * FROM {}: rows come as they arrive", w.name("t"))),
    (&["FETCH"], FOREIGN, |_| "write SELECT …: rows come as they arrive; LIMIT n takes the first".into()),
    (&["DECLARE"], FOREIGN, |_| {
        "write SELECT …: rows come as they arrive; values of a script are ${NAME}, with --var NAME=value".into()
    }),
    (&["PIVOT"], FOREIGN, |w| {
        let table = w.name("t");
        let key = w.between("ON", &["USING", "GROUP"]).unwrap_or_else(|| "k".into());
        let aggregate = w.between("USING", &["GROUP"]).unwrap_or_else(|| "SUM(x)".into());
        format!(
            "write a column for each value: SELECT {aggregate} FILTER (WHERE {key} = 'a') AS a, {aggregate} FILTER (WHERE {key} = 'b') AS b FROM {table}"
        )
    }),
    (&["UNPIVOT"], FOREIGN, |w| {
        format!(
            "write a query for each column: SELECT 'a' AS name, a AS v FROM {0} UNION ALL SELECT 'b', b FROM {0}",
            w.name("t")
        )
    }),
    (&["FROM"], "before SELECT is not Flink SQL", |w| {
        let source = w.between("FROM", &["SELECT"]).unwrap_or_else(|| "t".into());
        let rows = w.between("SELECT", &[]).unwrap_or_else(|| "*".into());
        format!("write SELECT {rows} FROM {source}")
    }),
    // Definitions.
    (&["ALTER", "TABLE"], NOT_YET, |w| {
        let table = w.name("t");
        match (w.between("ADD", &[]), w.between("SET", &[])) {
            (Some(column), _) => {
                let column = column.trim_start_matches("COLUMN ").trim_start_matches('(').trim_end_matches(')');
                format!(
                    "write a table with the same definition and this column: CREATE TABLE {table}_2 ({column}) LIKE {table}"
                )
            }
            (None, Some(options)) => format!(
                "write a table with the same definition and these options: CREATE TABLE {table}_2 WITH {options} LIKE {table}"
            ),
            _ => format!(
                "SHOW CREATE TABLE {table} prints the definition: DROP TABLE {table}, and create it as it should be"
            ),
        }
    }),
    (&["ALTER", "VIEW"], NOT_YET, |w| format!("write DROP VIEW {0}; CREATE VIEW {0} AS SELECT …", w.name("v"))),
    (&["ALTER", "FUNCTION"], NOT_YET, |w| {
        format!("write DROP FUNCTION {0}; CREATE FUNCTION {0}(…) RETURNS … RETURN …", w.name("f"))
    }),
    (&["ALTER", "SYSTEM"], FOREIGN, |_| "write SET 'key' = 'value'; SET; lists the options".into()),
    (&["ALTER"], NOT_YET, |_| "DROP the object, and CREATE it as it should be".into()),
    (&["RENAME"], FOREIGN, |w| {
        format!(
            "SHOW CREATE TABLE {0} prints the definition: create it under the new name, and DROP TABLE {0}",
            w.name("t")
        )
    }),
    (&["CREATE", "OR", "REPLACE"], NOT_YET, |w| {
        let kind =
            w.tokens[w.matched..].iter().find_map(crate::dialect::unquoted_word).unwrap_or("VIEW").to_uppercase();
        let skipped = Words { matched: (w.matched + 1).min(w.tokens.len()), ..w };
        format!("write DROP {kind} IF EXISTS {}; CREATE {}", skipped.name("v"), w.rest())
    }),
    (&["CREATE", "MATERIALIZED", "VIEW"], NO_UPDATES, |w| {
        let (name, query) = (w.name("v"), w.query("SELECT …"));
        format!(
            "for a query with a name, write CREATE VIEW {name} AS {query}; to store rows as windows end, write CREATE TABLE {name} WITH ('connector' = 'filesystem', 'path' = '{name}', 'format' = 'parquet') AS SELECT … FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE) GROUP BY …, window_start, window_end"
        )
    }),
    (&["CREATE", "MATERIALIZED", "TABLE"], NO_UPDATES, |w| {
        let (name, query) = (w.name("t"), w.query("SELECT …"));
        format!(
            "write its rows to a table as they come: CREATE TABLE {name} WITH ('connector' = 'filesystem', 'path' = '{name}', 'format' = 'parquet') AS {query}"
        )
    }),
    (&["CREATE", "CATALOG"], NOT_YET, |_| {
        format!(
            "leave the statement out ({ONE_DATABASE}), and declare the tables: CREATE TABLE t (…) WITH ('connector' = '…')"
        )
    }),
    (&["CREATE", "DATABASE"], NOT_YET, |w| {
        format!(
            "leave the statement out ({ONE_DATABASE}); a prefix tells tables apart: CREATE TABLE {}_t (…)",
            w.name("d")
        )
    }),
    (&["CREATE", "SCHEMA"], FOREIGN, |w| {
        format!(
            "leave the statement out ({ONE_DATABASE}); a prefix tells tables apart: CREATE TABLE {}_t (…)",
            w.name("d")
        )
    }),
    (&["CREATE", "MODEL"], NOT_YET, |_| {
        "compute with functions: CREATE FUNCTION f(x DOUBLE) RETURNS DOUBLE RETURN 2 * x + 1".into()
    }),
    (&["CREATE", "CONNECTION"], NOT_YET, |_| "give the options of the connection in the WITH (…) of each table".into()),
    (&["CREATE", "SECRET"], FOREIGN, |_| {
        "write 'password' = '${PASSWORD}' in the WITH (…) of the table, and set the environment variable PASSWORD"
            .into()
    }),
    (&["CREATE", "STREAM"], FOREIGN, |w| {
        let topic = w.option("KAFKA_TOPIC").unwrap_or_else(|| w.name("topic"));
        let query = w.query("");
        match query.is_empty() {
            true => format!("write {}", kafka_table(&w.name("t"), &w.parenthesized("…"), &topic)),
            false => format!("name the query: CREATE VIEW {} AS {query}", w.name("v")),
        }
    }),
    (&["CREATE", "SOURCE"], FOREIGN, |w| {
        let topic = w.option("topic").unwrap_or_else(|| w.name("topic"));
        format!("write {}", kafka_table(&w.name("t"), &w.parenthesized("…"), &topic))
    }),
    (&["CREATE", "SINK"], FOREIGN, |w| {
        let from = w.between("FROM", &["WITH", "INTO"]).unwrap_or_else(|| "t".into());
        let topic = w.option("topic").unwrap_or_else(|| w.name("topic"));
        format!(
            "write CREATE TABLE {} WITH ('connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'json') AS {}",
            w.name("s"),
            w.query(&format!("SELECT * FROM {from}"))
        )
    }),
    (&["CREATE", "INDEX"], FOREIGN, |_| {
        "leave the statement out: joins and aggregations find rows by their keys without an index".into()
    }),
    (&["CREATE", "UNIQUE", "INDEX"], FOREIGN, |_| {
        "leave the statement out: joins and aggregations find rows by their keys without an index".into()
    }),
    (&["CREATE", "SEQUENCE"], FOREIGN, |w| {
        format!(
            "a table counts: CREATE TABLE {} (n BIGINT) WITH ('connector' = 'datagen', 'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '1000')",
            w.name("s")
        )
    }),
    (&["CREATE", "TYPE"], FOREIGN, |_| "write the type where it is used: ROW<a INT, b STRING>".into()),
    (&["CREATE", "EXTENSION"], FOREIGN, |_| {
        "leave the statement out: connectors, formats and functions are built in".into()
    }),
    (&["CREATE", "USER"], FOREIGN, |_| {
        "leave the statement out: whoever can read the files and reach the servers may query them".into()
    }),
    (&["CREATE", "ROLE"], FOREIGN, |_| {
        "leave the statement out: whoever can read the files and reach the servers may query them".into()
    }),
    (&["CREATE", "MACRO"], FOREIGN, |w| format!("write CREATE FUNCTION {}(x INT) RETURNS INT RETURN …", w.name("f"))),
    (&["CREATE", "PROCEDURE"], FOREIGN, |_| {
        "write the statements to a script, and run it: millstream run script.sql".into()
    }),
    (&["CREATE", "TRIGGER"], FOREIGN, |_| "write an INSERT INTO … SELECT …: it runs for every row that comes".into()),
    (&["DROP", "CATALOG"], NOT_YET, |_| format!("leave the statement out: {ONE_DATABASE}")),
    (&["DROP", "DATABASE"], NOT_YET, |_| {
        format!("leave the statement out: {ONE_DATABASE}; DROP TABLE t drops a table")
    }),
    (&["DROP", "SCHEMA"], FOREIGN, |_| format!("leave the statement out: {ONE_DATABASE}; DROP TABLE t drops a table")),
    (&["DROP", "MATERIALIZED"], NOT_YET, |w| {
        format!("write DROP VIEW {0} or DROP TABLE {0}, as it was created", w.name("v"))
    }),
    (&["DROP", "MODEL"], NOT_YET, |_| "leave the statement out: there are no models".into()),
    (&["DROP", "CONNECTION"], NOT_YET, |_| "leave the statement out: there are no connections".into()),
    (&["DROP", "STREAM"], FOREIGN, |w| format!("streams are tables here: DROP TABLE {}", w.name("t"))),
    (&["DROP", "SOURCE"], FOREIGN, |w| format!("sources are tables here: DROP TABLE {}", w.name("t"))),
    (&["DROP", "SINK"], FOREIGN, |w| format!("sinks are tables here: DROP TABLE {}", w.name("t"))),
    (&["DROP", "INDEX"], FOREIGN, |_| "leave the statement out: there are no indexes".into()),
    (&["USE", "MODULES"], NOT_YET, |_| "leave the statement out: all functions are there without modules".into()),
    (&["USE"], NOT_YET, |_| format!("leave the statement out, and use plain names: {ONE_DATABASE}")),
    (&["ADD"], NOT_YET, |_| {
        "leave the statement out: connectors and formats are built in; a function is written in SQL: CREATE FUNCTION f(x STRING) RETURNS INT RETURN CHAR_LENGTH(x); or in Python, with ms.register_function".into()
    }),
    (&["REMOVE"], NOT_YET, |_| "leave the statement out: connectors and formats are built in".into()),
    (&["GRANT"], FOREIGN, |_| {
        "leave the statement out: whoever can read the files and reach the servers may query them".into()
    }),
    (&["REVOKE"], FOREIGN, |_| {
        "leave the statement out: whoever can read the files and reach the servers may query them".into()
    }),
    (&["COMMENT"], FOREIGN, |_| {
        "give the comment where the table is created: CREATE TABLE t (a INT COMMENT '…') COMMENT '…' WITH (…)".into()
    }),
    // Jobs and transactions.
    (&["ANALYZE"], NOT_YET, |_| {
        "leave the statement out: no statistics are needed; EXPLAIN ANALYZE SELECT … shows what a query does".into()
    }),
    (&["VACUUM"], FOREIGN, |_| "leave the statement out: nothing has to be cleaned up".into()),
    (&["CALL"], NOT_YET, |_| "write the statements of the procedure to the script".into()),
    (&["COMPILE"], NOT_YET, |w| {
        format!(
            "EXPLAIN shows the plan; to run it, leave COMPILE PLAN out: {}",
            w.tokens
                .iter()
                .position(|t| super::is(t, "FOR"))
                .map_or_else(|| "INSERT INTO …".into(), |at| super::text_of(&w.tokens[at + 1..]))
        )
    }),
    (&["STOP"], NOT_YET, |_| "from a shell: millstream stop --state-dir DIR --savepoint NAME".into()),
    (&["TERMINATE"], FOREIGN, |_| "from a shell: millstream stop --state-dir DIR".into()),
    (&["PAUSE"], FOREIGN, |_| "from a shell: millstream stop --state-dir DIR; the same command resumes it".into()),
    (&["BEGIN", "TRANSACTION"], FOREIGN, |_| ONE_RUN.into()),
    (&["START"], FOREIGN, |_| ONE_RUN.into()),
    (&["COMMIT"], FOREIGN, |_| format!("leave it out: {ONE_RUN}")),
    (&["ROLLBACK"], FOREIGN, |_| format!("leave it out: {ONE_RUN}")),
    // Commands of shells.
    (&["HELP"], FOREIGN, |_| {
        "the shell `millstream sql` has it; here write SHOW TABLES, DESCRIBE t, SHOW FUNCTIONS or SET".into()
    }),
    (&["EXIT"], FOREIGN, |_| "leave it out: a script ends with its last statement".into()),
    (&["QUIT"], FOREIGN, |_| "leave it out: a script ends with its last statement".into()),
    (&["CLEAR"], FOREIGN, |_| "leave it out; in the shell `millstream sql`, Ctrl-L clears the screen".into()),
    (&["SOURCE"], FOREIGN, |w| format!("give both scripts: millstream run {} -e 'SELECT …'", w.string(0, "first.sql"))),
    (&["VALUE"], FOREIGN, |w| format!("write VALUES {}", w.rest())),
    (&["MILLSTREAM"], FOREIGN, |_| {
        "that is a command of the operating system's shell; leave `millstream sql` with quit first".into()
    }),
];

const ONE_RUN: &str = "there are no transactions: what a checkpoint covers is written exactly once; INSERTs that belong together are one statement set: EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT …; INSERT INTO b SELECT …; END";

fn write_file(path: &str, query: &str) -> String {
    let extension = path.rsplit('.').next().unwrap_or_default();
    let format = match extension {
        "csv" | "json" | "arrow" | "avro" => extension,
        "jsonl" | "ndjson" => "json",
        _ => "parquet",
    };
    format!(
        "write CREATE TABLE exported WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = '{format}') AS {query}"
    )
}

fn kafka_table(name: &str, columns: &str, topic: &str) -> String {
    format!(
        "CREATE TABLE {name} ({columns}) WITH ('connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'json')"
    )
}

/// The first words of every row.
#[cfg(test)]
pub(super) fn rows() -> impl Iterator<Item = &'static [&'static str]> {
    ROWS.iter().map(|(words, ..)| *words)
}

/// What can be created, dropped or shown elsewhere, as the second words of the rows that start with `verb`.
pub(crate) fn kinds(verb: &str) -> impl Iterator<Item = &'static str> {
    ROWS.iter().filter(move |(words, ..)| words[0] == verb).filter_map(|(words, ..)| words.get(1).copied())
}

/// What to write instead of a statement that is not there; nothing if it is not one of these.
pub(crate) fn statement_failure(tokens: &[TokenWithSpan]) -> Option<Diagnostic> {
    let tokens = match tokens.first() {
        Some(first) if super::is(first, "EXPLAIN") => return explain_failure(tokens),
        _ => tokens,
    };
    if let [begin] = tokens
        && super::is(begin, "BEGIN")
    {
        let message = format!("BEGIN {FOREIGN} by itself");
        return Some(error_at(code::SYNTAX, begin.span, message).advise(ONE_RUN));
    }
    // TEMPORARY changes nothing.
    let temporary = tokens.get(1).is_some_and(|t| super::is(t, "TEMPORARY") || super::is(t, "TEMP"));
    let shortened: Vec<TokenWithSpan> = match temporary {
        true => [&tokens[..1], &tokens[2..]].concat(),
        false => vec![],
    };
    let tokens = if temporary { &shortened } else { tokens };
    let (words, row) = ROWS.iter().find_map(|row| Some((Words::start(tokens, row.0)?, row)))?;
    let (name, why, cure) = row;
    let code: Code = if [NOT_YET, NO_UPDATES, NO_CHANGES].contains(why) { code::UNSUPPORTED } else { code::SYNTAX };
    let mut name = name.join(" ");
    if matches!(name.as_str(), "LOAD" | "UNLOAD" | "ADD" | "REMOVE" | "COMPILE" | "STOP" | "START")
        && let Some(second) = tokens.get(1).and_then(crate::dialect::unquoted_word)
    {
        name = format!("{name} {}", second.to_uppercase());
    }
    Some(error_at(code, words.span(), format!("{name} {why}")).advise(cure(words)))
}

/// Details of EXPLAIN that are not there.
fn explain_failure(tokens: &[TokenWithSpan]) -> Option<Diagnostic> {
    const DETAILS: [&str; 4] = ["ESTIMATED_COST", "CHANGELOG_MODE", "JSON_EXECUTION_PLAN", "PLAN_ADVICE"];
    let second = tokens.get(1)?;
    let start = tokens.iter().position(|t| ["SELECT", "INSERT", "WITH"].iter().any(|word| super::is(t, word)))?;
    let statement = super::text_of(&tokens[start..]);
    if let Some(detail) = DETAILS.iter().find(|detail| super::is(second, detail)) {
        let message = format!("EXPLAIN {detail} {NOT_YET}");
        return Some(error_at(code::UNSUPPORTED, second.span, message).advise(format!("write EXPLAIN {statement}")));
    }
    let options = second.token == Token::LParen && tokens.get(2).is_some_and(|t| !super::is(t, "SELECT"));
    let word = ["VERBOSE", "EXTENDED", "FORMAT", "LOGICAL", "PHYSICAL", "DISTSQL"].iter().any(|w| super::is(second, w));
    if !options && !word {
        return None;
    }
    let analyze = tokens[..start].iter().any(|t| super::is(t, "ANALYZE"));
    let span = tokens[1..start].iter().fold(second.span, |span, token| span.union(&token.span));
    let written = if analyze { "EXPLAIN ANALYZE" } else { "EXPLAIN" };
    let message = "EXPLAIN has no such options here";
    Some(error_at(code::SYNTAX, span, message).advise(format!("write {written} {statement}")))
}
