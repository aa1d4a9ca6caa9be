//! Files of spans.

use super::{DurableSpan, SpanRows};
use millstream_types::code;
use serde_json::json;
use std::fs;
use std::io::Read;
use tempfile::TempDir;

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
        assert_eq!((span.checkpoint, span.rows, span.file.as_str()), (8, 5, "sink-3-8.rows"));
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
