//! What can be said without a server; with one, `crates/cli/tests/postgres`.

use super::batches::{BatchTarget, Batches};
use super::connection::Connection;
use super::encode::{CopyEncoder, Form};
use super::table::{changes_of, transfer};
use super::waiting::{MEMORY_BYTES, WaitingRows};
use crate::{ChangedBy, Encoded, Encoder, SinkRequest, locked};
use arrow_array::{
    ArrayRef, BinaryViewArray, BooleanArray, Float64Array, Int8Array, Int64Array, StringViewArray,
    TimestampMicrosecondArray,
};
use millstream_types::{DataType, Diagnostic, Field, Options, RowKind, Schema, code};
use std::io::Read;
use std::sync::{Arc, Mutex};

fn encoder(types: &[(DataType, Form)], changes: Option<ChangedBy>) -> CopyEncoder {
    let fields = types.iter().enumerate().map(|(i, (t, _))| Field::new(format!("c{i}"), t.clone(), true)).collect();
    let request = SinkRequest {
        table: "t".into(),
        options: Options::new(),
        schema: Schema::new(fields),
        metadata: vec![],
        primary_key: vec![],
        changes,
    };
    CopyEncoder::new(&request, types.iter().map(|(_, form)| *form).collect()).unwrap()
}

#[test]
fn rows_are_lines_of_copy() {
    let types = [
        (DataType::Boolean, Form::Plain),
        (DataType::Double, Form::Plain),
        (DataType::STRING, Form::String),
        (DataType::Varbinary(9), Form::Bytes),
        (DataType::Timestamp(6), Form::Plain),
    ];
    let columns: Vec<ArrayRef> = vec![
        Arc::new(BooleanArray::from(vec![Some(true), None])),
        Arc::new(Float64Array::from(vec![Some(f64::NEG_INFINITY), Some(f64::NAN)])),
        Arc::new(StringViewArray::from(vec![Some("a\tb\nc\\N\r"), Some("")])),
        Arc::new(BinaryViewArray::from(vec![Some(b"\x00\xfe\n".as_slice()), None])),
        Arc::new(TimestampMicrosecondArray::from(vec![Some(1_700_000_000_000_001), None])),
    ];
    let Encoded::Bytes { data, rows: 2 } = encoder(&types, None).encode(&columns, 2).unwrap() else { panic!("bytes") };
    let expected =
        "true\t-Infinity\ta\\tb\\nc\\\\N\\r\t\\\\x00fe0a\t2023-11-14 22:13:20.000001\n\\N\tNaN\t\t\\N\t\\N\n";
    assert_eq!(String::from_utf8(data).unwrap(), expected);
    let zero: Vec<ArrayRef> = vec![Arc::new(StringViewArray::from(vec!["a\0b"]))];
    let error = encoder(&[(DataType::STRING, Form::String)], None).encode(&zero, 1).unwrap_err();
    assert_eq!(error.code, code::WRONG_TYPE);
    assert!(error.message.contains("column c0"), "{error}");
}

/// What is replaced is left out, and not counted: the database says how many rows it has got.
#[test]
fn changes_say_whether_their_row_is_gone() {
    let types = [(DataType::STRING, Form::String), (DataType::BigInt, Form::Plain)];
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringViewArray::from(vec!["a", "b", "b", "c"])),
        Arc::new(Int64Array::from(vec![Some(1), Some(2), None, Some(4)])),
        Arc::new(Int8Array::from_iter_values(RowKind::ALL.map(|kind| kind as i8))),
    ];
    let encoder = encoder(&types, Some(ChangedBy { key: Some(vec![0]) }));
    let Encoded::Bytes { data, rows: 3 } = encoder.encode(&columns, 4).unwrap() else { panic!("three rows") };
    assert_eq!(String::from_utf8(data).unwrap(), "a\t1\tf\nb\t\\N\tf\nc\t4\tt\n");
    assert!(encoder.encode(&columns[..2], 4).is_err());
}

#[test]
fn rows_reach_the_table_by_their_key() {
    let names: Vec<String> = ["\"a\"", "\"b c\"", "\"n\""].map(str::to_owned).to_vec();
    assert_eq!(
        transfer("shop.t", &names, &[]),
        r#"INSERT INTO shop.t ("a", "b c", "n") SELECT "a", "b c", "n" FROM pg_temp.millstream_rows ORDER BY "millstream ordinal""#
    );
    assert_eq!(
        transfer("shop.t", &names, &[1, 0]),
        r#"INSERT INTO shop.t ("a", "b c", "n") SELECT DISTINCT ON ("b c", "a") "a", "b c", "n" FROM pg_temp.millstream_rows ORDER BY "b c", "a", "millstream ordinal" DESC ON CONFLICT ("b c", "a") DO UPDATE SET "n" = EXCLUDED."n""#
    );
    let [delete, insert] = changes_of("shop.t", &names, &[1, 0]);
    assert_eq!(
        delete,
        r#"DELETE FROM shop.t AS target USING (SELECT DISTINCT ON ("b c", "a") "b c", "a", "millstream is gone" FROM pg_temp.millstream_rows ORDER BY "b c", "a", "millstream ordinal" DESC) AS latest WHERE EXISTS (SELECT 1 FROM pg_temp.millstream_rows WHERE "millstream is gone") AND latest."millstream is gone" AND target."b c" = latest."b c" AND target."a" = latest."a""#
    );
    assert_eq!(
        insert,
        r#"INSERT INTO shop.t ("a", "b c", "n") SELECT "a", "b c", "n" FROM (SELECT DISTINCT ON ("b c", "a") "a", "b c", "n", "millstream is gone" FROM pg_temp.millstream_rows ORDER BY "b c", "a", "millstream ordinal" DESC) AS latest WHERE NOT "millstream is gone" ORDER BY "b c", "a" ON CONFLICT ("b c", "a") DO UPDATE SET "n" = EXCLUDED."n""#
    );
    let [_, insert] = changes_of("shop.t", &names[..1], &[0]);
    assert!(insert.ends_with(r#"ON CONFLICT ("a") DO NOTHING"#), "{insert}");
}

/// The transactions of a sink.
#[derive(Default)]
struct Written(Mutex<Vec<String>>);

impl BatchTarget for Written {
    fn write(&self, rows: &WaitingRows) -> Result<(), Diagnostic> {
        let mut text = String::new();
        // As after a lost connection.
        for _ in 0..2 {
            text.clear();
            rows.reader()?.read_to_string(&mut text).unwrap();
        }
        locked(&self.0).push(text);
        Ok(())
    }
}

impl Written {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *locked(&self.0))
    }
}

fn batches(rows: &str, interval: &str, in_beats: bool) -> Batches {
    let options = [("sink.buffer-flush.max-rows", rows), ("sink.buffer-flush.interval", interval)];
    let options = options.into_iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    Batches::open(&options, in_beats).unwrap()
}

#[test]
fn a_batch_is_written_when_it_is_full_or_old() {
    let written = Written::default();
    let mut full = batches("3", "1h", false);
    for row in ["1", "2", "3", "4"] {
        full.write(row.as_bytes(), 1, &written).unwrap();
    }
    assert_eq!(written.take(), ["123"]);
    full.finish(&written).unwrap();
    full.flush(&written).unwrap();
    assert_eq!(written.take(), ["4"]);
    let mut old = batches("3", "0s", false);
    old.write(b"1", 1, &written).unwrap();
    assert_eq!(written.take(), ["1"]);
}

#[test]
fn a_batch_of_changes_holds_whole_beats() {
    let written = Written::default();
    let mut full = batches("3", "1h", true);
    let write = |batches: &mut Batches, rows: &str| batches.write(rows.as_bytes(), rows.len(), &written).unwrap();
    // However full a batch is, and whoever wants to see it, a beat stays out until it has ended.
    write(&mut full, "1234");
    full.flush(&written).unwrap();
    assert_eq!(written.take(), [""; 0]);
    full.end_beat(&written).unwrap();
    assert_eq!(written.take(), ["1234"]);
    // Beats without rows, and small ones that wait for others.
    full.end_beat(&written).unwrap();
    write(&mut full, "5");
    full.end_beat(&written).unwrap();
    write(&mut full, "6");
    assert_eq!(written.take(), [""; 0]);
    full.flush(&written).unwrap();
    assert_eq!(written.take(), ["5"]);
    write(&mut full, "7");
    full.end_beat(&written).unwrap();
    write(&mut full, "8");
    full.end_beat(&written).unwrap();
    assert_eq!(written.take(), ["678"]);
    // Who ends within a beat has forgotten something.
    write(&mut full, "9");
    assert_eq!(full.finish(&written).unwrap_err().code, code::BUG);
    let mut old = batches("0", "0s", true);
    write(&mut old, "1");
    assert_eq!(written.take(), [""; 0]);
    old.end_beat(&written).unwrap();
    assert_eq!(written.take(), ["1"]);
}

/// Memory has room for some of a beat; the rest is in a file.
#[test]
fn a_beat_may_be_larger_than_memory() {
    let written = Written::default();
    let mut batches = batches("0", "1h", true);
    batches.write(b"small", 1, &written).unwrap();
    batches.end_beat(&written).unwrap();
    let piece = |letter: &str| letter.repeat(MEMORY_BYTES / 2);
    for letter in ["a", "b", "c", "d", "e"] {
        batches.write(piece(letter).as_bytes(), 1, &written).unwrap();
    }
    assert_eq!(written.take(), [""; 0]);
    batches.end_beat(&written).unwrap();
    batches.write(b"next", 1, &written).unwrap();
    batches.end_beat(&written).unwrap();
    batches.finish(&written).unwrap();
    let large = ["a", "b", "c", "d", "e"].map(piece).concat();
    assert!(written.take() == ["small", &large, "next"]);
}

#[test]
fn urls_that_cannot_be_used_say_why_without_their_secrets() {
    for (url, expected) in [
        ("jdbc:mysql://localhost/x", "begins with 'mysql:'"),
        ("localhost:5432", "does not begin with 'jdbc:postgresql://'"),
        ("me:secret@localhost:1/shop", "does not begin with 'jdbc:postgresql://'"),
        ("jdbc:postgresql://me:p/a@secret@localhost/x", "two '@'"),
        ("jdbc:postgresql://me:secret@localhost/x?sslmode=allow", "sslmode=allow"),
        ("jdbc:postgresql://me:secret@localhost/x?sslmode=verify-ca&sslrootcert=%2Fnot/there", "'/not/there'"),
        ("jdbc:postgresql://me:secret@localhost/x?sslcert=c", "only one of 'sslcert' and 'sslkey'"),
        ("postgresql://me:secret@localhost/x?colour=red", "colour"),
        ("postgresql://me:secret@localhost:port/x", "cannot be understood"),
    ] {
        let options = [("url", url)].into_iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let error = Connection::open(&options).err().unwrap();
        assert_eq!(error.code, code::INVALID_OPTION, "{url}");
        assert!(error.message.contains(expected), "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}
