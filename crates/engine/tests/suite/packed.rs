//! Tables of packed records in memory: the same rows in place and gathered, by both tiers, as from Arrow batches.

use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringViewArray, TimestampMillisecondArray};
use arrow_buffer::Buffer;
use millstream::{Session, SessionConfig, code};
use std::sync::Arc;

const COLUMNS: &str = "user_id BIGINT NOT NULL, kind CHAR(9) NOT NULL, price INT NOT NULL, name CHAR(20) NOT NULL, \
     ts TIMESTAMP(3) NOT NULL, WATERMARK FOR ts AS ts - INTERVAL '1' SECOND";

const KINDS: [&str; 4] = ["view", "click", "purchase", ""];
const ROWS: i64 = 20_000;

fn kind(i: i64) -> &'static str {
    KINDS[(i * 7 % 4) as usize]
}

fn name(i: i64) -> String {
    let name = format!("user {} of the ads", i % 1000);
    name[..(i % 21).min(name.len() as i64) as usize].to_string()
}

fn time(i: i64) -> i64 {
    1_600_000_000_000 + i * 3 - i % 5 * 10
}

fn blocks() -> Vec<Buffer> {
    let record = |i: i64| {
        let mut record = [0u8; 49];
        record[..8].copy_from_slice(&(i % 301).to_le_bytes());
        record[8..8 + kind(i).len()].copy_from_slice(kind(i).as_bytes());
        record[17..21].copy_from_slice(&(i as i32 % 1000 - 500).to_le_bytes());
        record[21..21 + name(i).len()].copy_from_slice(name(i).as_bytes());
        record[41..].copy_from_slice(&time(i).to_le_bytes());
        record
    };
    let block = |from: i64, to: i64| Buffer::from_vec((from..to).flat_map(record).collect::<Vec<u8>>());
    vec![block(0, 7), block(7, 7), block(7, 15_000), block(15_000, ROWS)]
}

fn batch() -> RecordBatch {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("user_id", Arc::new(Int64Array::from_iter_values((0..ROWS).map(|i| i % 301)))),
        ("kind", Arc::new(StringViewArray::from_iter_values((0..ROWS).map(kind)))),
        ("price", Arc::new(Int32Array::from_iter_values((0..ROWS).map(|i| i as i32 % 1000 - 500)))),
        ("name", Arc::new(StringViewArray::from_iter_values((0..ROWS).map(name)))),
        ("ts", Arc::new(TimestampMillisecondArray::from_iter_values((0..ROWS).map(time)))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

const QUERIES: &[&str] = &[
    "SELECT user_id, COUNT(*) AS n, SUM(price) AS s, window_start FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)) \
     WHERE kind = 'view' GROUP BY user_id, window_start, window_end",
    "SELECT name, MAX(kind) AS k, COUNT(DISTINCT price) AS n, window_end FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, \
     INTERVAL '20' SECOND)) GROUP BY name, window_start, window_end",
    "SELECT * FROM t WHERE price > 480 AND name <> 'user'",
    "SELECT user_id, UPPER(kind) AS k, name || '!' AS n, EXTRACT(HOUR FROM ts) AS h FROM t WHERE kind IN ('click', 'purchase') OR name LIKE '%7 of%'",
    "SELECT name, price, kind, ts FROM t",
    "SELECT a.name, b.price FROM t a JOIN t b ON a.user_id = b.user_id AND a.ts BETWEEN b.ts - INTERVAL '3' SECOND AND b.ts \
     WHERE a.kind = 'view' AND b.kind = 'purchase'",
    "SELECT kind, window_start, window_end, COUNT(*) AS n FROM TABLE(SESSION(TABLE t PARTITION BY kind, DESCRIPTOR(ts), INTERVAL '20' SECOND)) \
     GROUP BY kind, window_start, window_end",
    "SELECT SPLIT(name, ' ') AS parts, kind FROM t WHERE user_id = 7",
];

/// The rows of a query as sorted text.
fn rows(session: &mut Session, query: &str) -> Vec<String> {
    let batch = session.query(query).unwrap_or_else(|e| panic!("{query}: {e}"));
    let row = |row| (0..batch.num_columns()).map(|c| format!("{:?}", batch.column(c).slice(row, 1))).collect();
    let mut rows: Vec<String> = (0..batch.num_rows()).map(row).collect();
    rows.sort();
    rows
}

#[test]
fn records_in_memory_give_the_rows_of_batches() {
    let mut columnar = Session::new(SessionConfig::default());
    columnar.register("t", COLUMNS, vec![batch()]).unwrap();
    let expected: Vec<Vec<String>> = QUERIES.iter().map(|query| rows(&mut columnar, query)).collect();
    for (query, rows) in QUERIES.iter().zip(&expected) {
        assert!(rows.len() > 1, "{query} has {} rows", rows.len());
    }
    let cases = [
        ("auto", "compiled", "0"),
        ("always", "compiled", "0"),
        ("never", "compiled", "0"),
        ("auto", "interpreted", "100"),
        ("always", "interpreted", "1000"),
    ];
    for (in_place, tier, buffer_rows) in cases {
        let mut session = Session::new(SessionConfig::default());
        session.register_rows("t", COLUMNS, blocks()).unwrap();
        session.set("pipeline.in-place", in_place).unwrap();
        session.set("pipeline.tier", tier).unwrap();
        session.set("pipeline.buffer-rows", buffer_rows).unwrap();
        for (query, expected) in QUERIES.iter().zip(&expected) {
            assert!(rows(&mut session, query) == *expected, "{in_place} {tier}: {query}");
        }
    }
}

/// Columns that the plan reads in place.
fn in_place(session: &mut Session, query: &str) -> Vec<String> {
    let statement = session.parse(query).unwrap().remove(0);
    let text = session.explain(&statement, false).unwrap();
    let source = text.lines().find(|line| line.starts_with("source 0")).unwrap().to_string();
    let columns = source.split(['[', ']']).nth(1).unwrap().split(", ");
    let name = |c: &str| c.split(' ').next().unwrap().to_string();
    let mut columns: Vec<String> = columns.filter_map(|c| c.strip_suffix(" in place")).map(name).collect();
    columns.sort();
    columns
}

#[test]
fn what_only_programs_read_stays_in_place() {
    let mut session = Session::new(SessionConfig::default());
    session.register_rows("t", COLUMNS, blocks()).unwrap();
    assert_eq!(in_place(&mut session, QUERIES[0]), ["kind", "price", "ts", "user_id"]);
    // Rows that a filter leaves are gathered by the program, all rows by the decoder.
    assert_eq!(in_place(&mut session, "SELECT name, price FROM t WHERE kind = 'view'"), ["kind", "name", "price"]);
    assert_eq!(in_place(&mut session, "SELECT name, price + 1 FROM t"), ["price"]);
    session.set("pipeline.in-place", "always").unwrap();
    assert_eq!(in_place(&mut session, "SELECT name, price + 1 FROM t"), ["name", "price"]);
    session.set("pipeline.in-place", "never").unwrap();
    assert!(in_place(&mut session, QUERIES[0]).is_empty());
}

#[test]
fn malformed_records_are_refused_at_once() {
    let mut session = Session::new(SessionConfig::default());
    let columns = "a BOOLEAN NOT NULL, b CHAR(2) NOT NULL";
    let mut refused = |columns: &str, blocks: Vec<&[u8]>| {
        let blocks = blocks.into_iter().map(Buffer::from).collect();
        session.register_rows("t", columns, blocks).unwrap_err()
    };
    let error = refused(columns, vec![b"\x01ab", b"\x00cd\x02ef"]);
    assert_eq!(error.code, code::MALFORMED_RECORD);
    assert!(error.to_string().contains("record 3 is malformed: the byte 2 is no BOOLEAN"), "{error}");
    assert!(refused(columns, vec![b"\x01a\xff"]).message.contains("not UTF-8"));
    assert!(refused(columns, vec![b"\x01abc"]).message.contains("ends after 1 of 3 bytes"));
    assert_eq!(refused("a INT", vec![]).code, code::INVALID_TABLE);
    let blocks = vec![Buffer::from(b"\x01ab".as_slice())];
    session.register_rows("t", columns, blocks).unwrap();
    assert_eq!(session.query("SELECT a, b FROM t").unwrap().num_rows(), 1);
}
