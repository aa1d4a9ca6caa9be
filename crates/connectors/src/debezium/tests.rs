//! Changes that can be taken, and others.

use super::FORMAT;
use crate::messages::testing::{decoder, encoder, messages};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array};
use millstream_types::{DataType, Field, code};
use std::sync::Arc;

#[test]
fn insertions_are_rows() {
    let format = FORMAT.messages.as_ref().unwrap();
    let fields = [Field::new("n", DataType::BigInt, false)];
    let column: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let encoded = encoder(format, &fields, &[]).unwrap().encode(&[column], 2).unwrap();
    assert_eq!(encoded.bytes(1).unwrap(), br#"{"before":null,"after":{"n":2},"op":"c"}"#);
    let decoded = decoder(format, &fields, &[]).unwrap().decode(&encoded).unwrap();
    assert_eq!(decoded.columns[0].as_primitive::<Int64Type>().values(), &[1, 2]);
}

#[test]
fn other_changes_fail_alone() {
    let format = FORMAT.messages.as_ref().unwrap();
    let fields = [Field::new("n", DataType::BigInt, false)];
    let all: [&[u8]; 6] = [
        br#"{"op":"r","after":{"n":1}}"#,
        br#"{"op":"u","before":{"n":1},"after":{"n":2}}"#,
        br#"{"op":"d","before":{"n":1},"after":null}"#,
        br#"{"op":"c","after":{}}"#,
        br#"{"after":{"n":1}}"#,
        br#"{"op":"c","after":{"n":3}}"#,
    ];
    let decoded = decoder(format, &fields, &[]).unwrap().decode(&messages(&all.map(Some))).unwrap();
    assert_eq!(decoded.columns[0].as_primitive::<Int64Type>().values(), &[1, 3]);
    let failures: Vec<_> = decoded.failures.iter().map(|(at, f)| (*at, f.code, f.message.as_str())).collect();
    assert_eq!(failures[0].2, "an update (op 'u') cannot be applied: only insertions can be read");
    assert_eq!(failures[1].2, "a deletion (op 'd') cannot be applied: only insertions can be read");
    assert_eq!((failures[2].0, failures[2].1), (3, code::NULL_IN_NOT_NULL));
    assert_eq!(failures[3].2, "'' is no operation of Debezium");
}
