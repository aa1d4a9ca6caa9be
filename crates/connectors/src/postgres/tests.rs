//! What can be said without a server; with one, `crates/cli/tests/postgres`.

use super::connection::Connection;
use super::encode::{CopyEncoder, Form};
use super::span_file::{DurableSpan, SpanRows};
use crate::{Encoded, Encoder, SinkRequest};
use arrow_array::{ArrayRef, BinaryViewArray, BooleanArray, Float64Array, StringViewArray, TimestampMicrosecondArray};
use millstream_types::{DataType, Field, Options, Schema, code};
use serde_json::json;
use std::fs;
use std::io::Read;
use std::sync::Arc;
use tempfile::TempDir;

fn encoder(types: &[(DataType, Form)]) -> CopyEncoder {
    let fields = types.iter().enumerate().map(|(i, (t, _))| Field::new(format!("c{i}"), t.clone(), true)).collect();
    let request = SinkRequest {
        table: "t".into(),
        options: Options::new(),
        schema: Schema::new(fields),
        metadata: vec![],
        primary_key: vec![],
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
    let Encoded::Bytes { data, rows: 2 } = encoder(&types).encode(&columns, 2).unwrap() else { panic!("bytes") };
    let expected =
        "true\t-Infinity\ta\\tb\\nc\\\\N\\r\t\\\\x00fe0a\t2023-11-14 22:13:20.000001\n\\N\tNaN\t\t\\N\t\\N\n";
    assert_eq!(String::from_utf8(data).unwrap(), expected);
    let zero: Vec<ArrayRef> = vec![Arc::new(StringViewArray::from(vec!["a\0b"]))];
    let error = encoder(&[(DataType::STRING, Form::String)]).encode(&zero, 1).unwrap_err();
    assert_eq!(error.code, code::WRONG_TYPE);
    assert!(error.message.contains("column c0"), "{error}");
}

#[test]
fn a_span_comes_back_from_its_file_as_it_was() {
    let directory = TempDir::new().unwrap();
    for size in [10, 3 << 20] {
        let mut rows = SpanRows::new(directory.path(), "sink-3-");
        let line = vec![b'x'; size];
        for _ in 0..5 {
            rows.write(&line, 1).unwrap();
        }
        let span = rows.keep(8).unwrap();
        assert_eq!((span.checkpoint, span.rows, span.file.as_str()), (8, 5, "sink-3-8.copy"));
        assert_eq!(DurableSpan::of_json(&json!(span)), Some(span.clone()));
        let mut read = Vec::new();
        let mut reader = span.open(directory.path()).unwrap();
        reader.read_to_end(&mut read).unwrap();
        reader.check().unwrap();
        assert_eq!(read, line.repeat(5));
        // What is cut off is not taken for the whole.
        fs::write(directory.path().join(&span.file), &read[..size]).unwrap();
        let mut reader = span.open(directory.path()).unwrap();
        reader.read_to_end(&mut Vec::new()).unwrap();
        assert_eq!(reader.check().unwrap_err().code, code::CHECKPOINT_DAMAGED);
    }
    // A span that is given up leaves nothing.
    let mut rows = SpanRows::new(directory.path(), "sink-4-");
    rows.write(&vec![b'x'; 5 << 20], 1).unwrap();
    drop(rows);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    for broken in [json!({}), json!({"checkpoint": 1, "file": "../x", "rows": 1, "bytes": 1, "checksum": "0"})] {
        assert_eq!(DurableSpan::of_json(&broken), None);
    }
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
