//! Changes that can be taken, and others.

use super::debezium::FORMAT;
use super::{canal, maxwell};
use crate::format::OpenMessageDecoder;
use crate::messages::MessageDecoder;
use crate::messages::testing::{decoder, encoder, messages};
use crate::{ColumnRequest, RequestOrigin, SourceRequest};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array};
use millstream_types::{DataType, Field, Options, Schema, code};
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
fn without_a_key_other_changes_fail_alone() {
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
    assert_eq!(
        failures[0].2,
        "an update (op 'u') cannot be applied: the table has no PRIMARY KEY, by which its row would be found"
    );
    assert_eq!(
        failures[1].2,
        "a deletion (op 'd') cannot be applied: the table has no PRIMARY KEY, by which its row would be found"
    );
    assert_eq!((failures[2].0, failures[2].1), (3, code::NULL_IN_NOT_NULL));
    assert_eq!(failures[3].2, "a change of Debezium does not say which operation it is");
}

#[test]
fn changes_are_rows_that_come_and_go() {
    let format = FORMAT.messages.as_ref().unwrap();
    let fields = [Field::new("k", DataType::BigInt, false), Field::new("n", DataType::BigInt, false)];
    let all: [&[u8]; 10] = [
        br#"{"op":"r","before":null,"after":{"k":1,"n":1}}"#,
        br#"{"op":"u","before":{"k":1,"n":1},"after":{"k":1,"n":2}}"#,
        // What was there is not said, or its key only.
        br#"{"op":"u","before":null,"after":{"k":1,"n":3}}"#,
        br#"{"op":"d","before":{"k":1,"n":null},"after":null}"#,
        br#"{"op":"d","before":null,"after":null}"#,
        br#"{"op":"t","before":null,"after":null}"#,
        br#"{"op":"u","before":null,"after":{"k":1}}"#,
        br#"{"op":"x"}"#,
        br#"nonsense"#,
        // Another key.
        br#"{"op":"u","before":{"k":2,"n":5},"after":{"k":3,"n":5}}"#,
    ];
    let decoder = format.change_decoder.unwrap();
    let decoded = request(&fields, decoder).decode(&messages(&all.map(Some))).unwrap();
    assert_eq!(decoded.columns[0].as_primitive::<Int64Type>().values(), &[1, 1, 1, 1, 2, 3]);
    assert_eq!(decoded.columns[1].as_primitive::<Int64Type>().values()[..3], [1, 2, 3]);
    // No column that cannot be NULL has one, even where only the key is known.
    assert!(decoded.columns.iter().all(|column| column.null_count() == 0));
    assert_eq!(decoded.rows, [0, 1, 2, 3, 9, 9]);
    assert_eq!(decoded.comes, [true, true, true, false, false, true]);
    let failures: Vec<_> = decoded.failures.iter().map(|(at, failure)| (*at, failure.code)).collect();
    let malformed = code::MALFORMED_RECORD;
    assert_eq!(failures, [(4, malformed), (5, malformed), (6, code::NULL_IN_NOT_NULL), (7, malformed), (8, malformed)]);
    assert!(decoded.failures[0].1.advice.as_ref().unwrap().contains("REPLICA IDENTITY"));
}

#[test]
fn what_an_update_does_not_say_of_the_row_before_is_as_it_is_now() {
    let fields = [Field::new("k", DataType::BigInt, false), Field::new("n", DataType::BigInt, true)];
    let maxwell: [&[u8]; 5] = [
        br#"{"type":"insert","data":{"k":1,"n":1}}"#,
        br#"{"type":"update","data":{"k":1,"n":2},"old":{"n":1}}"#,
        br#"{"type":"update","data":{"k":2,"n":2},"old":{"k":1}}"#,
        br#"{"type":"table-create"}"#,
        br#"{"type":"delete","data":{"k":2,"n":null}}"#,
    ];
    let canal: [&[u8]; 4] = [
        br#"{"type":"INSERT","data":[{"k":"1","n":"1"}],"old":null}"#,
        br#"{"type":"UPDATE","data":[{"k":"1","n":"2"},{"k":"2","n":"2"}],"old":[{"n":"1"},{"k":"1"}]}"#,
        br#"{"type":"QUERY","data":null}"#,
        br#"{"type":"DELETE","data":[{"k":"2","n":null}]}"#,
    ];
    for (format, all, messages_of_rows) in
        [(maxwell::FORMAT, &maxwell[..], [0, 1, 2, 2, 4]), (canal::FORMAT, &canal[..], [0, 1, 1, 1, 3])]
    {
        let all: Vec<Option<&[u8]>> = all.iter().copied().map(Some).collect();
        let open = format.messages.as_ref().unwrap().change_decoder.unwrap();
        let decoded = request(&fields, open).decode(&messages(&all)).unwrap();
        assert!(decoded.failures.is_empty(), "{:?}", decoded.failures);
        assert_eq!(decoded.columns[0].as_primitive::<Int64Type>().values(), &[1, 1, 1, 2, 2], "{}", format.name);
        assert_eq!(decoded.comes, [true, true, false, true, false], "{}", format.name);
        assert_eq!(decoded.rows, messages_of_rows, "{}", format.name);
    }
}

#[test]
fn a_bad_row_of_a_statement_spoils_its_message() {
    let fields = [Field::new("k", DataType::BigInt, false)];
    let open = canal::FORMAT.messages.unwrap().change_decoder.unwrap();
    let all: [&[u8]; 3] = [
        br#"{"type":"INSERT","data":[{"k":"1"},{"k":null},{"n":1}]}"#,
        br#"{"type":"DELETE","data":[]}"#,
        br#"{"type":"INSERT","data":[{"k":"7"}]}"#,
    ];
    let decoded = request(&fields, open).decode(&messages(&all.map(Some))).unwrap();
    let failures: Vec<_> = decoded.failures.iter().map(|(at, failure)| (*at, failure.code)).collect();
    let (null, malformed) = (code::NULL_IN_NOT_NULL, code::MALFORMED_RECORD);
    assert_eq!(failures, [(0, null), (0, null), (1, malformed)]);
    assert_eq!((decoded.rows.first(), decoded.rows.last()), (Some(&0), Some(&2)));
}

/// A decoder of all columns.
fn request(fields: &[Field], open: OpenMessageDecoder) -> Box<dyn MessageDecoder> {
    let column = |(at, field): (usize, &Field)| ColumnRequest {
        name: field.name.clone(),
        origin: RequestOrigin::Path(vec![at]),
        data_type: field.data_type.clone(),
        nullable: field.nullable,
    };
    open(&SourceRequest {
        table: "t".into(),
        options: Options::new(),
        schema: Schema::new(fields.to_vec()),
        columns: fields.iter().enumerate().map(column).collect(),
        buffer_rows: 0,
        primary_key: vec![0],
    })
    .unwrap()
}
