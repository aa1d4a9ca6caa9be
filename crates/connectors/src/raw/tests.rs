//! What is a value and what is not.

use super::FORMAT;
use crate::messages::testing::{decoder, encoder, messages};
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, Int32Array};
use millstream_types::{DataType, Field, code};
use std::sync::Arc;

#[test]
fn numbers_have_an_order_of_bytes() {
    let format = FORMAT.messages.as_ref().unwrap();
    let fields = [Field::new("n", DataType::Int, true)];
    let column: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None, Some(-2)]));
    for (order, bytes) in [("big-endian", [0, 0, 0, 1]), ("little-endian", [1, 0, 0, 0])] {
        let options = [("raw.endianness", order)];
        let encoded = encoder(format, &fields, &options).unwrap().encode(std::slice::from_ref(&column), 3).unwrap();
        assert_eq!((encoded.bytes(0), encoded.bytes(1)), (Some(&bytes[..]), None));
        let decoded = decoder(format, &fields, &options).unwrap().decode(&encoded).unwrap();
        assert_eq!(decoded.columns[0].as_primitive::<Int32Type>(), column.as_primitive::<Int32Type>());
    }
}

#[test]
fn what_is_no_value_fails_alone() {
    let format = FORMAT.messages.as_ref().unwrap();
    let bad = messages(&[Some(b"ok"), Some(b"\xff"), None, Some(b"")]);
    let nullable = [Field::new("s", DataType::STRING, true)];
    let decoded = decoder(format, &nullable, &[]).unwrap().decode(&bad).unwrap();
    assert_eq!((&decoded.rows[..], decoded.failures.len()), (&[0, 2, 3][..], 1));
    assert!(decoded.columns[0].is_null(1) && decoded.columns[0].as_string_view().value(2).is_empty());
    let required = [Field::new("s", DataType::STRING, false)];
    let decoded = decoder(format, &required, &[]).unwrap().decode(&bad).unwrap();
    let codes: Vec<_> = decoded.failures.iter().map(|(message, failure)| (*message, failure.code)).collect();
    assert_eq!(codes, [(1, code::WRONG_TYPE), (2, code::NULL_IN_NOT_NULL)]);
}

#[test]
fn only_one_column_of_a_plain_type_is_possible() {
    let format = FORMAT.messages.as_ref().unwrap();
    let field = |data_type| Field::new("x", data_type, true);
    let two = [field(DataType::Int), field(DataType::Int)];
    assert_eq!(decoder(format, &two, &[]).err().unwrap().code, code::INVALID_TABLE);
    let date = [field(DataType::Date)];
    assert_eq!(encoder(format, &date, &[]).err().unwrap().code, code::UNSUPPORTED);
}
